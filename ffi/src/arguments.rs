//! Arguments of the interface: timeouts, lists, and the variables that results go to.

use std::{
    ffi::{c_int, c_void},
    slice,
    time::Duration,
};

use fampi_core::Timeout;

use crate::codes::{
    FAMPI_ERR_ARG, FAMPI_ERR_COUNT, FAMPI_TIMEOUT_NEVER, FAMPI_TIMEOUT_POLL, FAMPI_Timeout, Result,
};

/// The timeout that a number stands for.
pub(crate) fn timeout(nanoseconds: FAMPI_Timeout) -> Result<Timeout> {
    match nanoseconds {
        FAMPI_TIMEOUT_POLL => Ok(Timeout::Poll),
        FAMPI_TIMEOUT_NEVER => Ok(Timeout::Never),
        nanoseconds => u64::try_from(nanoseconds)
            .map(|nanoseconds| Timeout::After(Duration::from_nanos(nanoseconds)))
            .map_err(|_| FAMPI_ERR_ARG),
    }
}

/// The list that the program gives as pointer and number.
///
/// # Safety
///
/// The pointer is null, or to so many values that live, and are used by no other part, for `'a`.
pub(crate) unsafe fn list<'a, T>(count: c_int, pointer: *mut T) -> Result<&'a mut [T]> {
    let count = usize::try_from(count).map_err(|_| FAMPI_ERR_COUNT)?;
    if count == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(FAMPI_ERR_ARG);
    }
    // SAFETY: not null, and the rest is our caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// Writes a result.
///
/// # Safety
///
/// The pointer is null or to a variable of the program.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(FAMPI_ERR_ARG);
    }
    // SAFETY: not null, and the rest is our caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// True for `MPI_IN_PLACE`, which is one of these in every MPI, and never an address.
pub(crate) fn is_in_place(pointer: *const c_void) -> bool {
    matches!(pointer.addr(), 1 | usize::MAX)
}
