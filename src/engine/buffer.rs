//! Buffers of the application while an operation owns them, and what reductions do to them.

use alloc::{boxed::Box, vec::Vec};
use core::{any::Any, fmt::Debug};

/// A type that operations can move between ranks: with the feature `mpi`, every `Equivalence`
/// type of rsmpi whose datatype lives for ever (numbers, and structures that derive it).
#[cfg(feature = "mpi")]
pub trait Element: crate::mpi::MpiElement + Copy + Debug + Send + 'static {}
#[cfg(feature = "mpi")]
impl<T: crate::mpi::MpiElement + Copy + Debug + Send + 'static> Element for T {}

/// A type that operations can move between ranks.
#[cfg(not(feature = "mpi"))]
pub trait Element: Copy + Debug + Send + 'static {}
#[cfg(not(feature = "mpi"))]
impl<T: Copy + Debug + Send + 'static> Element for T {}

/// The predefined reductions (MPI 4.1 §6.9.2). `And` and `Or` work on the bits of integers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ReduceOp {
    /// `MPI_SUM`
    Sum,
    /// `MPI_PROD`
    Product,
    /// `MPI_MIN`
    Min,
    /// `MPI_MAX`
    Max,
    /// `MPI_BAND`
    And,
    /// `MPI_BOR`
    Or,
}

/// Combines another rank's buffer into the first, element by element.
pub type Combine = fn(&mut dyn Buffer, &dyn Buffer, ReduceOp);

/// A number that predefined reductions work on.
pub trait Reducible: Element {
    /// True when the operation is defined for this type (bit operations are not, for floats).
    fn supports(op: ReduceOp) -> bool;
    /// One step of the reduction.
    #[must_use]
    fn reduce(self, other: Self, op: ReduceOp) -> Self;
}

macro_rules! reducible_integers {
    ($($number:ty)*) => {$(
        impl Reducible for $number {
            fn supports(_: ReduceOp) -> bool {
                true
            }

            fn reduce(self, other: Self, op: ReduceOp) -> Self {
                match op {
                    ReduceOp::Sum => self.wrapping_add(other),
                    ReduceOp::Product => self.wrapping_mul(other),
                    ReduceOp::Min => self.min(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::And => self & other,
                    ReduceOp::Or => self | other,
                }
            }
        }
    )*};
}

macro_rules! reducible_floats {
    ($($number:ty)*) => {$(
        impl Reducible for $number {
            fn supports(op: ReduceOp) -> bool {
                !matches!(op, ReduceOp::And | ReduceOp::Or)
            }

            fn reduce(self, other: Self, op: ReduceOp) -> Self {
                match op {
                    ReduceOp::Sum => self + other,
                    ReduceOp::Product => self * other,
                    ReduceOp::Min => self.min(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::And | ReduceOp::Or => unreachable!("checked by `supports`"),
                }
            }
        }
    )*};
}

reducible_integers!(i8 i16 i32 i64 u8 u16 u32 u64);
reducible_floats!(f32 f64);

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

/// A `Vec` of elements whose type the platform does not know.
pub trait Buffer: Any + Send + Exposed {
    /// Number of elements.
    fn elements(&self) -> usize;
    /// Bytes of one element.
    fn element_bytes(&self) -> usize;
    /// A copy of the elements from `at`, `count` of them.
    fn copy(&self, at: usize, count: usize) -> Box<dyn Buffer>;
    /// Overwrites the elements from `at` with those of `other`; false when they do not fit or
    /// are of another type.
    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool;
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// For downcasts.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// For downcasts.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Element> Buffer for Vec<T> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn element_bytes(&self) -> usize {
        size_of::<T>()
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

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The [`Combine`] of vectors of `T`.
pub(crate) fn combine<T: Reducible>(into: &mut dyn Buffer, other: &dyn Buffer, op: ReduceOp) {
    let other = other.as_any().downcast_ref::<Vec<T>>().expect("same type on all ranks");
    let into = into.as_any_mut().downcast_mut::<Vec<T>>().expect("made with this type");
    for (mine, theirs) in into.iter_mut().zip(other) {
        *mine = mine.reduce(*theirs, op);
    }
}
