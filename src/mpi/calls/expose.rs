//! What MPI sees of a part of an array.

use std::ffi::c_int;

use mpi::raw::AsRaw as _;

use super::{
    library::{BUFFER, COUNT, Refusal},
    strided,
};
use crate::{
    fault::FaultCode,
    native::{Element, Expose, Exposure},
    seam::lent::{Access, Part},
};

// SAFETY: the elements of the array are on the heap, where they stay as long as the part keeps
// its claim on them; the section is inside of the array, as the claim has made sure, and what may
// be written is shared with no other part; `MpiElement` promises that the datatype describes `T`,
// and that any bits are one.
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
