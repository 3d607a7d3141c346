//! What users bring: types of elements, and reductions of their own.

use core::fmt::Debug;

#[cfg(not(any(feature = "mpi", docsrs)))]
use super::absent::MpiElement;
#[cfg(any(feature = "mpi", docsrs))]
use super::element::MpiElement;

/// A type that operations can move between ranks: with the feature `mpi`, numbers, and structures
/// whose author promises what `MpiElement` asks for. A `bool` is none, as not all that can be
/// received is one. Without it, the world knows the type of every buffer.
pub trait Element: MpiElement + Copy + Debug + Send + Sync + 'static {}
impl<T: MpiElement + Copy + Debug + Send + Sync + 'static> Element for T {}

/// A reduction of the user (`MPI_Op_create`, MPI 4.1 §6.9.5): a type without values that matter,
/// given to an operation in the place of a [`ReduceOp`](crate::ReduceOp).
///
/// ```
/// use fampi::UserOp;
///
/// /// Keeps the number that is farther from zero.
/// struct Farthest;
///
/// impl UserOp for Farthest {
///     type Element = f64;
///     const COMMUTES: bool = true;
///
///     fn combine(left: &[f64], right: &mut [f64]) {
///         for (left, right) in left.iter().zip(right) {
///             if left.abs() > right.abs() {
///                 *right = *left;
///             }
///         }
///     }
/// }
/// ```
pub trait UserOp: 'static {
    /// What is combined.
    type Element: Element;

    /// True when the order of the ranks does not matter; false makes MPI keep it. The operation
    /// must be associative in any case.
    const COMMUTES: bool;

    /// Each element of `right` becomes `left ∘ right`. Both have the same length, which may be
    /// less than that of the buffers; `left` comes from lower ranks than `right`.
    ///
    /// It is called inside of MPI: it must not communicate, and a panic in it ends the process,
    /// which the other ranks see as its death.
    fn combine(left: &[Self::Element], right: &mut [Self::Element]);
}
