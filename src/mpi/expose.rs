//! What MPI sees of a buffer: address, count, datatype.

use std::ffi::{c_int, c_void};

use mpi::{datatype::DatatypeRef, ffi, raw::AsRaw as _, traits::Equivalence};

use super::calls::COUNT;
use crate::fault::FaultCode;

/// A type with an MPI datatype that lives for ever: the numbers, and structures that derive
/// rsmpi's `Equivalence`.
pub trait MpiElement: Equivalence<Out = DatatypeRef<'static>> {}

impl<T: Equivalence<Out = DatatypeRef<'static>>> MpiElement for T {}

/// Address, count and datatype of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    pub(super) address: *mut c_void,
    pub(super) count: c_int,
    pub(super) datatype: ffi::MPI_Datatype,
    /// Bytes from one element to the next.
    pub(super) stride: usize,
}

/// A buffer that MPI can read and write.
///
/// # Safety
///
/// The address stays valid for `count` elements of the datatype, also when the buffer is moved,
/// until the buffer is used or dropped; every value that MPI may write there is a valid one.
pub unsafe trait Expose {
    /// Where the elements are and what they look like to MPI.
    ///
    /// # Errors
    ///
    /// More elements than MPI's `int` can count: [`FaultCode::Mpi`] with `MPI_ERR_COUNT`.
    fn expose(&mut self) -> Result<Exposure, FaultCode>;
}

// SAFETY: the elements of a vector are on the heap, where moving the vector leaves them;
// `Equivalence` promises that the datatype describes `T`.
unsafe impl<T: MpiElement> Expose for Vec<T> {
    fn expose(&mut self) -> Result<Exposure, FaultCode> {
        let count = c_int::try_from(self.len()).map_err(|_| FaultCode::Mpi(COUNT))?;
        let datatype = T::equivalent_datatype().as_raw();
        let address = self.as_mut_ptr().cast();
        Ok(Exposure { address, count, datatype, stride: size_of::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_vector_keeps_its_address() {
        let mut numbers = vec![1_u32, 2, 3];
        let before = numbers.as_mut_ptr().cast::<c_void>();
        let mut boxed: Box<Vec<u32>> = Box::new(numbers);
        assert_eq!(boxed.expose().map(|seen| (seen.address, seen.count)), Ok((before, 3)));
    }
}
