//! What MPI sees of a buffer: address, count, datatype.

use std::ffi::{c_int, c_void};

use ::mpi::{ffi, raw::AsRaw as _};

use super::element::MpiElement;
use crate::fault::{FaultCode, class::COUNT};

/// Address, count and datatype of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    pub(crate) address: *mut c_void,
    pub(crate) count: c_int,
    pub(crate) datatype: ffi::MPI_Datatype,
    /// The datatype of one element, and how many there are, which is an `int` of MPI.
    pub(crate) element: ffi::MPI_Datatype,
    pub(crate) elements: usize,
    /// Bytes from one adjacent element to the next.
    pub(crate) stride: usize,
    /// MPI may write to it.
    pub(crate) writable: bool,
}

/// A type of numbers as MPI knows it.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    datatype: ffi::MPI_Datatype,
    stride: usize,
}

impl Number {
    /// This one.
    pub fn of<T: MpiElement>() -> Self {
        Self { datatype: T::equivalent_datatype().as_raw(), stride: size_of::<T>() }
    }

    /// So many at this address, if MPI's `int` can count them.
    #[inline]
    pub(crate) fn exposure(self, address: *mut c_void, elements: usize) -> Option<Exposure> {
        let count = c_int::try_from(elements).ok()?;
        Some(Exposure::adjacent(address, count, self.datatype, self.stride))
    }
}

impl Exposure {
    /// Adjacent elements that MPI may write to.
    pub(crate) fn adjacent(
        address: *mut c_void,
        count: c_int,
        datatype: ffi::MPI_Datatype,
        stride: usize,
    ) -> Self {
        let (element, elements) = (datatype, count.cast_unsigned() as usize);
        Self { address, count, datatype, element, elements, stride, writable: true }
    }
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
// `MpiElement` promises that the datatype describes `T`, and that any bits are one.
unsafe impl<T: MpiElement> Expose for Vec<T> {
    fn expose(&mut self) -> Result<Exposure, FaultCode> {
        let (address, elements) = (self.as_mut_ptr().cast(), self.len());
        Number::of::<T>().exposure(address, elements).ok_or(FaultCode::Mpi(COUNT))
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
