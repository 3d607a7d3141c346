//! What reductions do with the elements of two ranks: predefined operations, and the user's.

use core::any::TypeId;

use super::buffer::Buffer;
pub use crate::protocol::fused::{Fusible, MAX_VALUES, ReduceOp, Values};
use crate::{
    error::Error,
    native::{Element, Foreign, UserOp},
};

/// A number that predefined reductions work on.
pub trait Reducible: Fusible + Element {}
impl<T: Fusible + Element> Reducible for T {}

/// Finds the predefined operation for elements whose type is only known when it comes.
macro_rules! predefined_for {
    ($($number:ty)*) => {
        impl Reduction {
            /// The predefined operation for numbers of this type, if it is defined for them.
            pub(crate) fn predefined(op: ReduceOp, element: TypeId) -> Option<Self> {
                $(if element == TypeId::of::<$number>() {
                    return ReduceWith::<$number>::reduction(op).ok();
                })*
                None
            }
        }
    };
}

predefined_for!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

/// What a reduction can be done with: a [`ReduceOp`] on numbers, or a [`UserOp`].
pub trait ReduceWith<T> {
    /// The operation for elements of this type.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchReduction`] when it is not defined for them.
    fn reduction(self) -> Result<Reduction, Error>;
}

impl<T: Reducible> ReduceWith<T> for ReduceOp {
    fn reduction(self) -> Result<Reduction, Error> {
        if !T::fuses(self) {
            return Err(Error::NoSuchReduction);
        }
        let (values, write) = (values::<T>, write::<T>);
        Ok(Reduction::Predefined { op: self, combine: predefined::<T>, values, write })
    }
}

impl<O: UserOp> ReduceWith<O::Element> for O {
    fn reduction(self) -> Result<Reduction, Error> {
        let foreign = Foreign::of::<O>();
        Ok(Reduction::User { combine: users::<O>, foreign })
    }
}

/// The operation of a reduction, for both worlds.
#[derive(Clone, Copy, Debug)]
pub enum Reduction {
    /// One that MPI knows.
    Predefined {
        /// Which.
        op: ReduceOp,
        /// This operation as a function on buffers, for worlds without MPI.
        combine: fn(&dyn Buffer, &mut dyn Buffer, ReduceOp),
        /// The numbers of a buffer, to ride on a commit.
        values: fn(&dyn Buffer, ReduceOp) -> Option<Values>,
        /// Overwrites a buffer with what became of them.
        write: fn(&Values, &mut dyn Buffer),
    },
    /// One of the user.
    User {
        /// It, as a function on buffers.
        combine: fn(&dyn Buffer, &mut dyn Buffer),
        /// It, as MPI calls it.
        foreign: Foreign,
    },
    /// One that the buffers know, for collectives made of messages.
    OfBuffers {
        /// It, as a function on buffers.
        combine: fn(&dyn Buffer, &mut dyn Buffer),
        /// The numbers of a buffer, and how they are reduced, to ride on a commit.
        values: fn(&dyn Buffer) -> Option<Values>,
        /// Overwrites a buffer with what became of them.
        write: fn(&Values, &mut dyn Buffer),
    },
}

impl Reduction {
    /// Combines buffers of one type and length; the right one, of a higher rank, takes the result.
    pub fn combine(&self, left: &dyn Buffer, right: &mut dyn Buffer) {
        match self {
            Self::Predefined { op, combine, .. } => combine(left, right, *op),
            Self::User { combine, .. } | Self::OfBuffers { combine, .. } => combine(left, right),
        }
    }

    /// The numbers of a buffer, if a commit can carry them.
    pub fn values(&self, buffer: &dyn Buffer) -> Option<Values> {
        match self {
            Self::Predefined { op, values, .. } => values(buffer, *op),
            Self::OfBuffers { values, .. } => values(buffer),
            Self::User { .. } => None,
        }
    }

    /// Overwrites a buffer with what became of its [`Self::values`].
    pub fn write(&self, values: &Values, buffer: &mut dyn Buffer) {
        match self {
            Self::Predefined { write, .. } | Self::OfBuffers { write, .. } => write(values, buffer),
            Self::User { .. } => {}
        }
    }

    /// True when both are the same operation, as far as a stranger can tell.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Predefined { op: one, .. }, Self::Predefined { op: other, .. }) => one == other,
            (Self::User { .. }, Self::User { .. }) => true,
            _ => false,
        }
    }
}

fn predefined<T: Reducible>(left: &dyn Buffer, right: &mut dyn Buffer, op: ReduceOp) {
    let (left, right) = typed::<T>(left, right);
    for (left, right) in left.iter().zip(right) {
        *right = left.fuse(*right, op);
    }
}

fn values<T: Reducible>(buffer: &dyn Buffer, op: ReduceOp) -> Option<Values> {
    Values::new(op, buffer.as_any().downcast_ref::<alloc::vec::Vec<T>>()?)
}

fn write<T: Reducible>(values: &Values, buffer: &mut dyn Buffer) {
    if let Some(numbers) = buffer.as_any_mut().downcast_mut::<alloc::vec::Vec<T>>() {
        let words = numbers.iter_mut().zip(values.words());
        words.for_each(|(number, word)| *number = T::from_word(*word));
    }
}

fn users<O: UserOp>(left: &dyn Buffer, right: &mut dyn Buffer) {
    let (left, right) = typed::<O::Element>(left, right);
    O::combine(left, right);
}

fn typed<'a, T: Element>(
    left: &'a dyn Buffer,
    right: &'a mut dyn Buffer,
) -> (&'a [T], &'a mut [T]) {
    let left = left.as_any().downcast_ref::<alloc::vec::Vec<T>>();
    let right = right.as_any_mut().downcast_mut::<alloc::vec::Vec<T>>();
    (left.expect("same type on all ranks"), right.expect("made with this type"))
}
