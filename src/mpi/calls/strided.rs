//! Datatypes of sections of arrays: one for each pattern and type of element, made at its first
//! use and kept until the end, so that a message costs a look and no call.
//!
//! A pattern has no place: that is in the address. So opposite faces of a box share a datatype.
//! Reference: MPI 4.1 §5.1.2, `MPI_Type_create_hvector`, once for each step of the pattern.

use std::{cell::RefCell, collections::BTreeMap, ffi::c_int};

use mpi::ffi;
use smallvec::SmallVec;

use super::{
    layout::InNumbers as _,
    library::{COUNT, Checked, Refusal, check},
};
use crate::seam::section::{Pattern, Step};

/// So many are kept. A program with more shapes than that pays for making them again.
const MOST: usize = 256;

thread_local! {
    /// What was made, by the address of the element's datatype.
    static MADE: RefCell<BTreeMap<(usize, Pattern), ffi::MPI_Datatype>> =
        const { RefCell::new(BTreeMap::new()) };
}

/// The datatype of a pattern of elements that are `bytes` apart.
pub(in crate::mpi) fn datatype(
    element: ffi::MPI_Datatype,
    bytes: usize,
    pattern: &Pattern,
) -> Checked<ffi::MPI_Datatype> {
    MADE.with_borrow_mut(|made| {
        // No allocation on the way of every message: few patterns have more than three steps.
        let key = (element.0.number(), pattern.clone());
        if let Some(known) = made.get(&key) {
            return Ok(*known);
        }
        let new = make(element, bytes, pattern)?;
        if made.len() >= MOST {
            forget(made);
        }
        made.insert(key, new);
        Ok(new)
    })
}

/// Frees all; called before MPI ends.
pub(in crate::mpi) fn free_all() {
    MADE.with_borrow_mut(forget);
}

/// Frees what is in the table. MPI keeps what operations still use.
fn forget(made: &mut BTreeMap<(usize, Pattern), ffi::MPI_Datatype>) {
    while let Some((_, kind)) = made.pop_first() {
        free(kind);
    }
}

fn free(mut kind: ffi::MPI_Datatype) {
    // SAFETY: made here, and used by no later call; a refusal only leaks it.
    let _ = unsafe { ffi::MPI_Type_free(&raw mut kind) };
}

fn make(element: ffi::MPI_Datatype, bytes: usize, pattern: &Pattern) -> Checked<ffi::MPI_Datatype> {
    let too_large = Refusal { call: "MPI_Type_create_hvector", class: COUNT };
    let number = |value: usize| c_int::try_from(value).map_err(|_| too_large);
    let numbers = |step: &Step| {
        let stride = step.stride.checked_mul(bytes).and_then(|it| it.try_into().ok());
        Ok((number(step.count)?, stride.ok_or(too_large)?))
    };
    let steps: Checked<SmallVec<[(c_int, ffi::MPI_Aint); 3]>> =
        pattern.steps.iter().map(numbers).collect();
    let (mut made, mut run) = (element, number(pattern.run)?);
    for (at, (count, stride)) in steps?.into_iter().enumerate() {
        let (inner, mut outer) = (made, made);
        check("MPI_Type_create_hvector", {
            // SAFETY: the inner datatype lives, the result is a variable of ours.
            unsafe { ffi::MPI_Type_create_hvector(count, run, stride, inner, &raw mut outer) }
        })?;
        if at > 0 {
            free(inner);
        }
        (made, run) = (outer, 1);
    }
    // SAFETY: made above, as no caller asks for a datatype of a pattern without steps.
    check("MPI_Type_commit", unsafe { ffi::MPI_Type_commit(&raw mut made) })?;
    Ok(made)
}
