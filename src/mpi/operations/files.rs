//! Files that operations read and write.

use std::{ffi::CString, os::unix::ffi::OsStrExt as _, path::Path, rc::Rc};

use crate::{
    error::Error,
    mpi::{
        calls::{files::File, library::BUFFER},
        this_mpi,
    },
    seam::{
        buffer::Buffer,
        platform::{FileId, FileMode},
    },
};

/// `MPI_ERR_BAD_FILE` of Open MPI.
const BAD_FILE: i32 = 23;

/// Files by their numbers; nothing in place of those that are closed.
#[derive(Default)]
pub(in crate::mpi) struct Files(Vec<Option<Rc<File>>>);

impl Files {
    /// Opens a file for this process alone.
    pub(in crate::mpi) fn open(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        if self.0.is_empty() {
            this_mpi::prepare_files()?;
        }
        let refused = |class| Error::Mpi { call: "MPI_File_open", class };
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused(BAD_FILE))?;
        let like = like.expose().map_err(|_| refused(BUFFER))?;
        self.0.push(Some(Rc::new(File::open(&path, mode, &like)?)));
        Ok(FileId(self.0.len() as u32 - 1))
    }

    /// An open file.
    pub(super) fn get(&self, file: FileId) -> Option<&Rc<File>> {
        self.0.get(file.0 as usize)?.as_ref()
    }

    pub(in crate::mpi) fn sync(&self, file: FileId) -> Result<(), Error> {
        self.get(file).map_or(Ok(()), |open| open.sync().map_err(Error::from))
    }

    pub(in crate::mpi) fn close(&mut self, file: FileId) {
        if let Some(open) = self.0.get_mut(file.0 as usize) {
            *open = None;
        }
    }
}
