//! A write to a file that fails ends the process by a segmentation fault.
//!
//! **Symptom** Open MPI has two implementations of files. Its own, `ompio`, crashes when a write
//! fails (a full disk is enough), and never completes a read beyond the end of the file. The other
//! one, ROMIO, returns an error and a count. It moves the data within the starting call.
//!
//! **Versions** seen in Open MPI 5.0.9.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `ompio` returns an error for a write that fails, and completes a read beyond the
//! end.
//!
//! **Test** `files_are_read_and_written_and_their_errors_kill_nobody` and
//! `files_of_an_implementation_that_crashes_are_refused`.

use std::ffi::CStr;

use crate::{error::Error, fault::FaultCode, mpi::calls::library};

/// ROMIO's name in Open MPI 5.0.
const ROMIO: &CStr = c"romio341";

/// Has MPI open all files with ROMIO from now on.
///
/// # Errors
///
/// [`Error::Unsupported`] when the launch has chosen otherwise, or the library has no ROMIO.
pub(in crate::mpi) fn choose() -> Result<(), Error> {
    let chosen = library::control_variable(c"io").unwrap_or_default();
    let chosen = chosen.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_ours = chosen == ROMIO.to_bytes();
    if is_ours || chosen.is_empty() && library::set_control_variable(c"io", ROMIO) {
        return Ok(());
    }
    let chosen = String::from_utf8_lossy(chosen);
    Err(Error::Unsupported(format!(
        "files need Open MPI's ROMIO, as the other implementation crashes when a write fails; \
         launch without `--mca io` and OMPI_MCA_io, not with '{chosen}'"
    )))
}

/// What the test of an access gives; MPI says itself when the system has refused the access.
pub(in crate::mpi) fn test_access<T>(test: impl FnOnce() -> T) -> (T, Option<FaultCode>) {
    (test(), None)
}
