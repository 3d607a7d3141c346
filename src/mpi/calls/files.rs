//! Files, opened by each process for itself: a checked call for each thing that we do with one.
//!
//! `MPI_File_open` over more than one process waits for all of them, and for ever when one dies;
//! over `MPI_COMM_SELF` no rank can hold up another.
//!
//! The implementation may move the data within the starting call, which may therefore last: no
//! watchdog looks at it.

use std::ffi::{CStr, c_int};

use mpi::ffi;

use super::{
    comm::{Comm, no_info},
    library::{Checked, Refusal, check},
};
use crate::{
    native::{Exposure, Request},
    seam::platform::{FileAccess, FileMode},
};

/// `MPI_ERR_ARG`, the same number in all libraries of this family.
const ARGUMENT: i32 = 13;

/// An open file; closed with the last of its users.
#[derive(Debug)]
pub(in crate::mpi) struct File(ffi::MPI_File);

impl File {
    /// `MPI_File_open` for this process alone, as a sequence of these elements.
    pub(in crate::mpi) fn open(path: &CStr, mode: FileMode, like: &Exposure) -> Checked<Self> {
        let alone = Comm::alone()?;
        let mode = match mode {
            FileMode::Read => ffi::MPI_MODE_RDONLY,
            FileMode::Write => ffi::MPI_MODE_WRONLY | ffi::MPI_MODE_CREATE,
            FileMode::ReadWrite => ffi::MPI_MODE_RDWR | ffi::MPI_MODE_CREATE,
        };
        // SAFETY: reading a constant that MPI's library defines.
        let mut raw = unsafe { ffi::RSMPI_FILE_NULL };
        let (mode, info) = (mode as c_int, no_info());
        check("MPI_File_open", {
            // SAFETY: the path ends with a zero; the result is a variable of ours.
            unsafe { ffi::MPI_File_open(alone.raw(), path.as_ptr(), mode, info, &raw mut raw) }
        })?;
        let file = Self(raw);
        let (element, native) = (like.element, c"native".as_ptr());
        check("MPI_File_set_view", {
            // SAFETY: the file is open; the datatype is that of an element, and lives for ever.
            unsafe { ffi::MPI_File_set_view(raw, 0, element, element, native, info) }
        })?;
        Ok(file)
    }

    /// `MPI_File_sync`.
    pub(in crate::mpi) fn sync(&self) -> Checked<()> {
        // SAFETY: open until our drop.
        check("MPI_File_sync", unsafe { ffi::MPI_File_sync(self.0) })
    }

    /// `MPI_File_iread_at` or `MPI_File_iwrite_at`.
    ///
    /// # Safety
    ///
    /// The buffer belongs to MPI, and the file stays open, until the request is over.
    pub(in crate::mpi) unsafe fn start(
        &self,
        access: FileAccess,
        buffer: &Exposure,
    ) -> Checked<Request> {
        let call = if access.writes { "MPI_File_iwrite_at" } else { "MPI_File_iread_at" };
        let at = access.at.try_into().map_err(|_| Refusal { call, class: ARGUMENT })?;
        let Exposure { address, count, datatype, .. } = *buffer;
        let mut request = Request::null();
        let slot = request.slot();
        let code = if access.writes {
            // SAFETY: the file is open; the buffer is described by its exposure and left alone by
            // our caller.
            unsafe { ffi::MPI_File_iwrite_at(self.0, at, address, count, datatype, slot) }
        } else {
            // SAFETY: as above.
            unsafe { ffi::MPI_File_iread_at(self.0, at, address, count, datatype, slot) }
        };
        check(call, code)?;
        Ok(request)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by us, and used by nothing any more, as each user has a share.
        let code = unsafe { ffi::MPI_File_close(&raw mut self.0) };
        if let Err(refusal) = check("MPI_File_close", code) {
            tracing::warn!(?refusal, "file not closed");
        }
    }
}
