//! Buffers of the application while an operation owns them.

use alloc::{boxed::Box, vec::Vec};
use core::{
    any::{Any, TypeId},
    fmt::Debug,
};

/// A type that operations can move between ranks: with the feature `mpi`, numbers, and structures
/// whose author promises what [`MpiElement`](crate::mpi::MpiElement) asks for. A `bool` is none, as
/// not all that can be received is one.
#[cfg(feature = "mpi")]
pub trait Element: crate::mpi::MpiElement + Copy + Debug + Send + Sync + 'static {}
#[cfg(feature = "mpi")]
impl<T: crate::mpi::MpiElement + Copy + Debug + Send + Sync + 'static> Element for T {}

/// A type that operations can move between ranks. Only with the feature `mpi` is memory what
/// another rank has sent; here the world knows the type of every buffer.
#[cfg(not(feature = "mpi"))]
pub trait Element: Copy + Debug + Send + Sync + 'static {}
#[cfg(not(feature = "mpi"))]
impl<T: Copy + Debug + Send + Sync + 'static> Element for T {}

/// What the platform must be able to do with a buffer without knowing its element type.
#[cfg(feature = "mpi")]
pub trait Exposed: crate::mpi::Expose {}
#[cfg(feature = "mpi")]
impl<B: crate::mpi::Expose + ?Sized> Exposed for B {}

/// What the platform must be able to do with a buffer without knowing its element type.
#[cfg(not(feature = "mpi"))]
pub trait Exposed {}
#[cfg(not(feature = "mpi"))]
impl<B: ?Sized> Exposed for B {}

/// A user's reduction as MPI calls it.
#[cfg(feature = "mpi")]
pub use crate::mpi::UserFunction as Foreign;

/// A user's reduction as MPI would call it.
#[cfg(not(feature = "mpi"))]
#[derive(Clone, Copy, Debug)]
pub struct Foreign;

#[cfg(not(feature = "mpi"))]
impl Foreign {
    /// Nobody calls it.
    pub fn of<O: super::reduction::UserOp>() -> Self {
        Self
    }
}

/// Elements whose type the platform does not know: a `Vec`, or a part of an array that is lent.
pub trait Buffer: Any + Send + Exposed {
    /// Number of elements.
    fn elements(&self) -> usize;
    /// Bytes of one element.
    fn element_bytes(&self) -> usize;
    /// The type of the elements.
    fn element(&self) -> TypeId;
    /// A copy of the elements from `at`, `count` of them, in a `Vec`.
    fn copy(&self, at: usize, count: usize) -> Box<dyn Buffer>;
    /// Overwrites the elements from `at` with those of `other`, a `Vec`; false when they do not
    /// fit or are of another type.
    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool;
    /// Overwrites all elements with those of `other` from `at`; false as for [`Self::fill`].
    fn load(&mut self, other: &dyn Buffer, at: usize) -> bool;
    /// The same where the elements may lie beyond the end of this `Vec`, which grows then; what is
    /// in between is as if it had been written by the first of `other`.
    fn overwrite(&mut self, at: usize, other: &dyn Buffer) -> bool;
    /// Lets go of what was only lent, once the operation is over; false for what the application
    /// takes back itself.
    fn give_back(&mut self) -> bool {
        false
    }
}

impl dyn Buffer {
    /// For downcasts.
    pub fn as_any(&self) -> &dyn Any {
        self
    }

    /// For downcasts.
    pub fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    /// For downcasts.
    pub fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl<T: Element> Buffer for Vec<T> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn element_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn element(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn copy(&self, at: usize, count: usize) -> Box<dyn Buffer> {
        Box::new(self[at..at + count].to_vec())
    }

    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        let Some(target) = self.get_mut(at..at + other.len()) else { return false };
        target.copy_from_slice(other);
        true
    }

    fn load(&mut self, other: &dyn Buffer, at: usize) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        let Some(source) = other.get(at..at + self.len()) else { return false };
        self.copy_from_slice(source);
        true
    }

    fn overwrite(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(written) = other.as_any().downcast_ref::<Self>() else { return false };
        if let Some(first) = written.first() {
            self.resize(self.len().max(at + written.len()), *first);
        }
        self.fill(at.min(self.len()), other)
    }
}
