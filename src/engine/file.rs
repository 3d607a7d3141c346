//! Files as operations name them.

/// A file that this process has opened.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FileId(pub u32);

/// What a file is opened for (MPI 4.1 §14.2.1). One that is written to is made if it is not there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileMode {
    /// `MPI_MODE_RDONLY`.
    Read,
    /// `MPI_MODE_WRONLY` and `MPI_MODE_CREATE`.
    Write,
    /// `MPI_MODE_RDWR` and `MPI_MODE_CREATE`.
    ReadWrite,
}

/// Where in a file an operation reads or writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileAccess {
    /// The file.
    pub file: FileId,
    /// Elements before the first.
    pub at: u64,
    /// `MPI_File_iwrite_at` instead of `MPI_File_iread_at`.
    pub writes: bool,
}
