//! Memory that processes of one node share, without a name that could outlive them.
//!
//! The owner makes an anonymous file (`memfd_create`); a neighbour of the same user opens it
//! through `/proc/<pid>/fd/<descriptor>`, as long as this door is open. The memory goes with the
//! last process that has it. It cannot be made smaller, by any process, so that none falls off its
//! end.

use std::{
    ffi::c_int,
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const READ: c_int = libc::PROT_READ;
/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();

/// Words that this process sees and others, too.
#[derive(Debug)]
pub(in crate::mpi) struct Shared {
    words: NonNull<[AtomicU64]>,
}

/// What others of this node open the memory by, as long as its owner has it.
#[derive(Debug)]
pub(in crate::mpi) struct Door(File);

impl Door {
    pub(in crate::mpi) fn descriptor(&self) -> u64 {
        u64::from(self.0.as_raw_fd().unsigned_abs())
    }

    pub(in crate::mpi) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached by atomic words.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// New memory of so many words, all 0.
    pub(in crate::mpi) fn new(words: usize) -> io::Result<(Self, Door)> {
        let file = unsealed(words)?;
        seal(&file)?;
        Ok((Self::map(&file, words, READ | libc::PROT_WRITE)?, Door(file)))
    }

    /// The memory of another process, which has it under this descriptor.
    pub(in crate::mpi) fn of(pid: u64, descriptor: u64, words: usize) -> io::Result<Self> {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        require_fixed_length(&file, words)?;
        Self::map(&file, words, READ | libc::PROT_WRITE)
    }

    fn map(file: &File, words: usize, access: c_int) -> io::Result<Self> {
        let length = words * WORD;
        let descriptor: c_int = file.as_raw_fd();
        // SAFETY: a new mapping wherever there is room, of a file that has this length for ever.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, descriptor, 0) };
        let start = NonNull::new(start).filter(|start| start.as_ptr() != libc::MAP_FAILED);
        let start = start.ok_or_else(io::Error::last_os_error)?.cast::<AtomicU64>();
        Ok(Self { words: NonNull::slice_from_raw_parts(start, words) })
    }

    #[inline]
    pub(in crate::mpi) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped as long as we live; all that share it reach it by atomic words only.
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len()) }
    }
}

/// Words that another process writes and this one may only read.
#[derive(Debug)]
pub(in crate::mpi) struct View(Shared);

impl View {
    /// The memory behind a descriptor that was handed to us.
    pub(in crate::mpi) fn of(descriptor: OwnedFd, words: usize) -> io::Result<Self> {
        let file = File::from(descriptor);
        require_fixed_length(&file, words)?;
        Ok(Self(Shared::map(&file, words, READ)?))
    }

    /// A word as it is now. On memory that cannot be written only a relaxed load is allowed.
    #[inline]
    pub(in crate::mpi) fn word(&self, at: usize) -> u64 {
        self.0.words()[at].load(Relaxed)
    }
}

/// An anonymous file of so many words, all 0.
fn unsealed(words: usize) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string with its zero; the call gives a new descriptor.
    let descriptor = unsafe { libc::memfd_create(c"fampi".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, known here only.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    file.set_len((words * WORD) as u64)?;
    Ok(file)
}

/// Gives a file its length for ever.
fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open; the call takes a number.
    let added = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Memory that could become shorter would end a process that reads it.
fn require_fixed_length(file: &File, words: usize) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call takes a number.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let is_sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    let is_right = is_sealed && file.metadata()?.len() == (words * WORD) as u64;
    if is_right { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let length = self.words.len() * WORD;
        // SAFETY: our own mapping, of this length; `words` is borrowed from it.
        unsafe { libc::munmap(self.words.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_could_become_shorter_is_refused() {
        let of = |file: &File, words| {
            let copy = OwnedFd::from(file.try_clone().expect("a descriptor"));
            let door = Door(file.try_clone().expect("a descriptor"));
            let shared = Shared::of(u64::from(std::process::id()), door.descriptor(), words);
            (shared.is_ok(), View::of(copy, words).is_ok())
        };
        let file = unsealed(8).expect("Linux");
        assert_eq!(of(&file, 8), (false, false), "its owner could make it shorter");
        seal(&file).expect("Linux");
        assert_eq!(of(&file, 8), (true, true));
        assert_eq!((of(&file, 7), of(&file, 9)), ((false, false), (false, false)));
        assert!(file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
        let path = std::env::temp_dir().join(format!("fampi-memory-{}", std::process::id()));
        let plain = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let plain = plain.expect("a file");
        std::fs::remove_file(path).expect("it is there");
        plain.set_len(8 * WORD as u64).expect("a file");
        assert_eq!(of(&plain, 8), (false, false), "a file that is on a disk");
    }
}
