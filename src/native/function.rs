//! A user's reduction as MPI calls it.
//!
//! MPI gives a user's function no value of the user, only two addresses; so each type of operation
//! has a function of its own, which the compiler makes.

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr, slice,
};

use ::mpi::{ffi, raw::AsRaw as _, traits::Equivalence as _};

use super::user::UserOp;

/// The form of a reduction for MPI.
type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut ffi::MPI_Datatype);

/// A user's reduction in the form that MPI calls.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pub(crate) function: Function,
    pub(crate) commutes: bool,
}

impl Foreign {
    /// The function of this operation.
    pub fn of<O: UserOp>() -> Self {
        Self { function: called::<O>, commutes: O::COMMUTES }
    }
}

/// What MPI calls: `right[i] = left[i] ∘ right[i]`.
///
/// # Safety
///
/// Both addresses hold `count` elements of the datatype of `O::Element`; `right` is nobody
/// else's meanwhile.
unsafe extern "C" fn called<O: UserOp>(
    left: *mut c_void,
    right: *mut c_void,
    count: *mut c_int,
    _: *mut ffi::MPI_Datatype,
) {
    // SAFETY: MPI gives the address of a number of its own.
    let count = unsafe { *count };
    let Ok(count @ 1..) = usize::try_from(count) else { return };
    let (left, right) = (left.cast::<O::Element>(), right.cast::<O::Element>());
    let bytes = span::<O>(count);
    if bytes == count * size_of::<O::Element>() && left.is_aligned() && right.is_aligned() {
        // SAFETY: aligned, and MPI gives `count` elements without a gap behind the last.
        let left = unsafe { slice::from_raw_parts(left, count) };
        // SAFETY: as above, and used by no other part meanwhile.
        let right = unsafe { slice::from_raw_parts_mut(right, count) };
        O::combine(left, right);
        return;
    }
    // SAFETY: MPI's buffer holds this span.
    let lefts = unsafe { copied(left, count, bytes) };
    // SAFETY: as above.
    let mut rights = unsafe { copied(right, count, bytes) };
    O::combine(&lefts, &mut rights);
    // SAFETY: back to where it came from, as many bytes; two separate places.
    unsafe { ptr::copy_nonoverlapping(rights.as_ptr().cast::<u8>(), right.cast::<u8>(), bytes) };
}

/// Bytes from the first to the last byte of `count` elements as MPI stores them: without what
/// pads the last one.
fn span<O: UserOp>(count: usize) -> usize {
    let size = size_of::<O::Element>();
    let datatype = O::Element::equivalent_datatype().as_raw();
    let (mut start, mut extent): (ffi::MPI_Aint, ffi::MPI_Aint) = (0, 0);
    // SAFETY: the datatype lives for ever; the results are variables of ours.
    let code = unsafe { ffi::MPI_Type_get_true_extent(datatype, &raw mut start, &raw mut extent) };
    let last = if code == 0 { usize::try_from(start + extent).unwrap_or(size) } else { size };
    (count - 1) * size + last.min(size)
}

/// Elements from a place that may not be aligned for them.
///
/// # Safety
///
/// The place holds `count` elements, of which `bytes` can be read.
unsafe fn copied<T: Copy>(from: *const T, count: usize, bytes: usize) -> Vec<T> {
    let mut copies: Vec<MaybeUninit<T>> = vec![MaybeUninit::uninit(); count];
    let target = copies.as_mut_ptr().cast::<u8>();
    // SAFETY: the source holds these bytes, says our caller, and so does the new vector.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), target, bytes) };
    // SAFETY: all but the padding of the last element was copied from elements.
    copies.into_iter().map(|copy| unsafe { copy.assume_init() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_copied_from_where_they_are_not_aligned() {
        let numbers = [0x0102_0304_0506_0708_u64, 0x1112_1314_1516_1718, 3];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let from = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let start = numbers.as_ptr().wrapping_byte_add(1);
        // SAFETY: sixteen bytes stand there, before the end of the last number.
        let copies = unsafe { copied(start, 2, 16) };
        assert_eq!(copies, [from(1), from(9)]);
    }
}
