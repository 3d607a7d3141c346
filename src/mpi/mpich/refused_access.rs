//! An access to a file that the system refuses late is never over.
//!
//! **Symptom** `MPI_Test` says for ever that a write to a full disk is under way: MPICH's poll of
//! an access (`ADIOI_GEN_aio_poll_fn`) ends it when the system says that it is done, and when the
//! system says that it has failed the poll does nothing. Here its question comes to a function of
//! ours: while we test an access, a failure counts as its end, and we remember the reason. In tests
//! of the program all is as it was: there a failure would be a success without a word.
//!
//! **Versions** each MPICH: the source of ROMIO was read.
//!
//! **Upstream** not reported.
//!
//! **Delete when** that function returns an error.
//!
//! **Test** `files_are_read_and_written_and_their_errors_kill_nobody` (with `--mpi mpich`).

use std::{
    cell::Cell,
    ffi::{CStr, c_void},
};

use libc::{EACCES, EDQUOT, EINPROGRESS, ENOSPC, EPERM, EROFS, aiocb, c_int, ssize_t};

use super::OF_THE_LIBRARY;
use crate::{
    fault::{FaultCode, class},
    mpi::calls::redirect::redirect,
};

const ERROR: &CStr = c"aio_error";
const MOVED: &CStr = c"aio_return";

thread_local! {
    /// While we test an access: the error of the system that has ended it, zero for none.
    static REFUSED: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// Has MPI's questions come to us.
pub(super) fn mend() -> Option<()> {
    let (error, moved): (unsafe extern "C" fn(_) -> _, unsafe extern "C" fn(_) -> _) =
        (error_or_end, moved_or_nothing);
    // SAFETY: the type of that function. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(OF_THE_LIBRARY, ERROR, error as *const c_void) }?;
    // SAFETY: as above.
    unsafe { redirect(OF_THE_LIBRARY, MOVED, moved as *const c_void) }
}

/// What the test of an access gives, and why the system has refused the access.
pub(in crate::mpi) fn test_access<T>(test: impl FnOnce() -> T) -> (T, Option<FaultCode>) {
    REFUSED.set(Some(0));
    let tested = test();
    let refused = REFUSED.take().filter(|error| *error != 0);
    (tested, refused.map(|error| FaultCode::Mpi(class_of(error))))
}

const fn class_of(error: c_int) -> c_int {
    match error {
        ENOSPC => class::NO_SPACE,
        EDQUOT => class::QUOTA,
        EACCES | EPERM => class::ACCESS,
        EROFS => class::READ_ONLY,
        _ => class::IO,
    }
}

unsafe extern "C" fn error_or_end(access: *const aiocb) -> c_int {
    // SAFETY: the argument of our caller.
    let error = unsafe { libc::aio_error(access) };
    if matches!(error, 0 | EINPROGRESS) || REFUSED.get().is_none() {
        return error;
    }
    REFUSED.set(Some(error));
    0
}

unsafe extern "C" fn moved_or_nothing(access: *mut aiocb) -> ssize_t {
    // SAFETY: as above.
    unsafe { libc::aio_return(access) }.max(0)
}
