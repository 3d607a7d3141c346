//! The types that MPI can send and receive, and what the author of one promises.

use super::rsmpi::{datatype::DatatypeRef, traits::Equivalence};

/// A type that operations can send and receive: the integers and floating-point numbers, with the
/// feature `complex` those of `num-complex`, and structures whose author promises the following.
///
/// A `bool` is none: another rank, or a file, can send 2 where it is received. Send an `u8` and
/// compare. This holds for `char`, for enumerations, and for what has one of these inside, too.
///
/// ```compile_fail,E0277
/// # fn receive(block: &mut fampi::TryBlock) -> Result<(), fampi::Error> {
/// block.irecv(vec![false], fampi::Rank::new(0), fampi::Tag(0))?;
/// # Ok(())
/// # }
/// ```
///
/// A structure derives rsmpi's `Equivalence`, and its author promises:
///
/// ```text
/// #[derive(Clone, Copy, Debug, Default, Equivalence)]
/// struct Particle { at: [f64; 3], charge: i32 }
/// // SAFETY: three numbers and one more; any bits are a value of each of them.
/// unsafe impl fampi::MpiElement for Particle {}
/// ```
///
/// # Safety
///
/// The datatype describes the type, and whatever bits stand in its places are a valid value:
/// nothing makes sure that the sender means the same type.
pub unsafe trait MpiElement: Equivalence<Out = DatatypeRef<'static>> {}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        // SAFETY: any bits are a number; rsmpi's datatype is the one of this very type.
        unsafe impl MpiElement for $number {}
    )* };
}
numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
#[cfg(feature = "complex")]
numbers!(num_complex::Complex32 num_complex::Complex64);
