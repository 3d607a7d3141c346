//! What MPI sees of a buffer: address, count, datatype.

use std::ffi::{c_int, c_void};

use mpi::{ffi, raw::AsRaw as _};

use super::{
    element::MpiElement,
    library::{BUFFER, COUNT, Refusal},
    strided,
};
use crate::{
    engine::{
        buffer::Element,
        lent::{Access, Part},
    },
    fault::FaultCode,
};

/// Address, count and datatype of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    pub(in crate::mpi) address: *mut c_void,
    pub(in crate::mpi) count: c_int,
    pub(in crate::mpi) datatype: ffi::MPI_Datatype,
    /// The datatype of one element, and how many there are, which is an `int` of MPI.
    pub(in crate::mpi) element: ffi::MPI_Datatype,
    pub(in crate::mpi) elements: usize,
    /// Bytes from one adjacent element to the next.
    pub(in crate::mpi) stride: usize,
    /// MPI may write to it.
    pub(in crate::mpi) writable: bool,
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
    pub(in crate::mpi) fn exposure(
        self,
        address: *mut c_void,
        elements: usize,
    ) -> Option<Exposure> {
        let count = c_int::try_from(elements).ok()?;
        Some(Exposure::adjacent(address, count, self.datatype, self.stride))
    }
}

impl Exposure {
    /// Adjacent elements that MPI may write to.
    pub(in crate::mpi) fn adjacent(
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

// SAFETY: the elements of the array are on the heap, where they stay as long as the part keeps
// its claim on them; the section is inside of the array, as the claim has made sure, and what may
// be written is nobody else's; `MpiElement` promises that the datatype describes `T`, and that any
// bits are one.
unsafe impl<T: Element, const N: usize> Expose for Part<T, N> {
    fn expose(&mut self) -> Result<Exposure, FaultCode> {
        let (stride, writable) = (size_of::<T>(), self.access() == Access::Write);
        let elements = self.section().elements();
        let start = self.section().start * stride;
        let element = T::equivalent_datatype().as_raw();
        let counted = c_int::try_from(elements).map_err(|_| FaultCode::Mpi(COUNT))?;
        let (count, datatype) = if self.section().pattern.steps.is_empty() {
            (counted, element)
        } else {
            let made = strided::datatype(element, stride, &self.section().pattern);
            (1, made.map_err(|Refusal { class, .. }| FaultCode::Mpi(class))?)
        };
        let array = if writable {
            self.with_array_mut(Vec::as_mut_ptr)
        } else {
            self.with_array(|array| array.as_ptr().cast_mut())
        };
        let address = array.ok_or(FaultCode::Mpi(BUFFER))?.wrapping_byte_add(start).cast();
        Ok(Exposure { address, count, datatype, element, elements, stride, writable })
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
