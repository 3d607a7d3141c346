//! Stand-ins for where there is no MPI: the world knows the type of every buffer, has all messages,
//! and calls users' functions itself.

use super::user::UserOp;

/// What the platform must be able to do with a buffer without knowing its element type.
pub trait Expose {}
impl<B: ?Sized> Expose for B {}

/// A message under way.
#[derive(Debug)]
pub struct Flight;

/// A user's reduction as MPI would call it.
#[derive(Clone, Copy, Debug)]
pub struct Foreign;

impl Foreign {
    /// Nobody calls it.
    pub fn of<O: UserOp>() -> Self {
        Self
    }
}
