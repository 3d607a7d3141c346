//! Files whose reads and writes are requests of a block.

use core::marker::PhantomData;
use std::path::Path;

use super::{Comm, Request, TryBlock};
use crate::{
    engine::{Need, Shared},
    error::Error,
    native::Element,
    seam::platform::{FileAccess, FileId, FileMode, Operation, Unneeded},
};

/// What files consist of: the numbers, of which every pattern of bits is one.
pub trait Number: Element + sealed::Number {}
impl<T: Element + sealed::Number> Number for T {}

mod sealed {
    pub trait Number {}

    macro_rules! numbers {
        ($($number:ty)*) => { $(impl Number for $number {})* };
    }
    numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
}

/// A file of numbers of one type, in this machine's form, which this rank has opened for itself;
/// closed when it is dropped.
///
/// # What survives a death, and what does not
///
/// MPI makes nothing about files fault-tolerant. A file that several processes open together
/// (`MPI_File_open` over a communicator) is bound to all of them: opening, closing, `sync`, views
/// and collective accesses wait for every one of them, and for ever when one is dead. So here each
/// rank opens for itself (over `MPI_COMM_SELF`), where no death can hold up a rank, and all may
/// have the same file open and write to different places of it.
///
/// - The files of survivors stay open through shrinks and rebuilds. A replacement opens its own.
/// - A block decides whether a write *counts*, but does not undo it. A write of a faulty block,
///   or of a rank that died, may be there in whole, in part, or not at all. So do not overwrite
///   what the last commit relies on: write alternately to two places, or files, and read the one
///   of the last commit. Accesses of one rank to one file are done in their order, so a late
///   write of a faulty block does not overwrite one of the next.
/// - A write is on the disk after [`Self::sync`]. What another process has written is sure to be
///   seen after its `sync` (on most network file systems: and after opening the file again).
///
/// Open MPI moves the data while the request is posted, so little is won by computing meanwhile.
/// In a simulated world files are in memory, are shared by all its processes, and outlive them.
///
/// ```
/// # use fampi::{Error, FileMode, Level, Outcome, Timeout, sim::Simulation};
/// # let report = Simulation::new(3).run_world(|world| -> Result<Vec<f64>, Error> {
/// let me = u64::from(world.rank().number());
/// let file = world.open_file("temperatures", FileMode::ReadWrite)?;
/// let mut block = world.start(Level::Global)?;
/// block.iwrite_at(&file, 2 * me, vec![me as f64; 2]);
/// let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
/// assert!(matches!(outcome, Outcome::Committed(_)), "the writes of all ranks count");
/// # let mut block = world.start(Level::Global)?;
/// # let read = block.iread_at(&file, 0, vec![0.0; 9]);
/// # assert_eq!(block.wait_local(read, Timeout::Never)?.elements, 6);
/// # let found = block.take(read)?;
/// # let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
/// # drop(file);
/// # world.finalize();
/// # Ok(found)
/// # });
/// # let expected = vec![0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0, 0.0];
/// # assert!(report.expect_orderly().iter().all(|found| *found == Ok(expected.clone())));
/// ```
pub struct File<T> {
    engine: Shared,
    id: FileId,
    element: PhantomData<fn() -> T>,
}

impl Comm {
    /// Opens a file for this rank alone (`MPI_File_open` over `MPI_COMM_SELF`, MPI 4.1 §14.2.1),
    /// as a sequence of numbers. Local; any number of ranks may open the same file.
    ///
    /// # Errors
    ///
    /// [`Error::Mpi`] with the class, among them `MPI_ERR_ACCESS` (20), `MPI_ERR_BAD_FILE` (23,
    /// the name), `MPI_ERR_IO` (35), `MPI_ERR_NO_SUCH_FILE` (42); [`Error::Unsupported`] when the
    /// launch has chosen an implementation of files that does not return errors.
    pub fn open_file<T: Number>(
        &self,
        path: impl AsRef<Path>,
        mode: FileMode,
    ) -> Result<File<T>, Error> {
        let mut engine = self.engine().borrow_mut();
        engine.require_here()?;
        let id = engine.platform.open_file(path.as_ref(), mode, &mut Vec::<T>::new())?;
        Ok(File { engine: self.engine().clone(), id, element: PhantomData })
    }
}

impl<T> File<T> {
    /// Returns when all that this rank has written is on the disk (`MPI_File_sync`, §14.6.1).
    ///
    /// # Errors
    ///
    /// [`Error::Mpi`] with the class, `MPI_ERR_IO` (35) for instance.
    pub fn sync(&self) -> Result<(), Error> {
        let mut engine = self.engine.borrow_mut();
        engine.require_here()?;
        engine.platform.sync_file(self.id)
    }
}

impl<T> Drop for File<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Ok(mut engine) = self.engine.try_borrow_mut()
            && !engine.process.has_left()
        {
            engine.platform.discard(Unneeded::File(self.id));
        }
    }
}

impl<T> std::fmt::Debug for File<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({})", self.id.0)
    }
}

/// # Files
///
/// Requests on a [`File`]; places are counted in numbers from its beginning. They need no other
/// rank, and no death fails them; when the block is doomed before they start they fail as
/// interrupted. An error of the file is a fault of the request with MPI's class, for instance
/// `MPI_ERR_IO` (35), `MPI_ERR_NO_SPACE` (41) or `MPI_ERR_READ_ONLY` (45).
impl TryBlock {
    /// Reads from a file (`MPI_File_iread_at`, MPI 4.1 §14.4.2). At the end of the file there are
    /// fewer elements, see [`super::Status::elements`]; the rest of the buffer is as it was.
    pub fn iread_at<T: Number>(&mut self, file: &File<T>, at: u64, buffer: Vec<T>) -> Request<T> {
        let access = FileAccess { file: file.id, at, writes: false };
        self.post(Need::Nobody, &Operation::File(access), buffer)
    }

    /// Writes to a file (`MPI_File_iwrite_at`), which grows if need be.
    pub fn iwrite_at<T: Number>(&mut self, file: &File<T>, at: u64, buffer: Vec<T>) -> Request<T> {
        let access = FileAccess { file: file.id, at, writes: true };
        self.post(Need::Nobody, &Operation::File(access), buffer)
    }
}
