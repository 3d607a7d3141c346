//! Lists in files that all ranks can read: `FOLDER/hyperquicksort-JOB.EPOCH.STEP.PART`.
//!
//! Others may have files in the folder, too: what does not have the number of the job in its name
//! is never read, written or removed.
//!
//! A file is written beside its place and renamed, so it is there as a whole or not at all, and
//! its last word is a sum over its keys. All ranks know in which epoch the lists of the last commit
//! were written: what a rank writes in an older one, however late, is a file that no other rank
//! ever reads.
//!
//! A rank that knows a step to be committed may die before any other rank knows it, and then the
//! others make the step again, from the files of the step before. So these go only with the commit
//! of the step after: all who voted for that one knew the verdict of this one.
//!
//! **Assumes** that a file that was renamed is seen by all ranks. It need not be on the disk: what
//! is to be survived is the end of processes, not of the file system.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::keys::Key;
use crate::sorter::sum_of;

/// Which lists: those that step `step` has made, in the membership `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The membership.
    pub epoch: u64,
    /// The step.
    pub step: u64,
}

/// The files that this rank has written.
#[derive(Debug, Default)]
pub struct Files {
    folder: PathBuf,
    /// The number of the job, once all ranks know it.
    job: u64,
    /// A rank of the job has made the folder.
    is_made: bool,
    /// The files of the commit before the last.
    older: Vec<PathBuf>,
    /// The files of the last commit.
    committed: Vec<PathBuf>,
    /// The files of the step under way.
    written: Vec<PathBuf>,
}

impl Files {
    /// Files in this folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    /// Makes the folder if it is not there; true if it was not.
    ///
    /// # Errors
    /// [`io::Error`].
    pub fn make_folder(&self) -> io::Result<bool> {
        if let Some(above) = self.folder.parent() {
            fs::create_dir_all(above)?;
        }
        match fs::create_dir(&self.folder) {
            Ok(()) => Ok(true),
            Err(_) if self.folder.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The number of the job, or one for it that no other job has.
    #[must_use]
    pub fn job_or_new(&self) -> u64 {
        if self.job == 0 { RandomState::new().build_hasher().finish().max(1) } else { self.job }
    }

    /// The number of the job, 0 if it has none.
    #[must_use]
    pub const fn job(&self) -> u64 {
        self.job
    }

    /// All ranks know the number of the job, and whether one of them has made the folder.
    pub const fn begin(&mut self, job: u64, is_made: bool) {
        self.job = job;
        self.is_made |= is_made;
    }

    fn prefix(&self) -> String {
        format!("hyperquicksort-{:016x}.", self.job)
    }

    fn path(&self, Made { epoch, step }: Made, part: u32) -> PathBuf {
        self.folder.join(format!("{}{epoch}.{step}.{part}", self.prefix()))
    }

    /// Writes a list.
    ///
    /// # Errors
    /// [`io::Error`].
    pub fn write<K: Key>(&mut self, made: Made, part: u32, keys: &[K]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(size_of_val(keys) + 8);
        K::encode(keys, &mut bytes);
        bytes.extend(sum_of(keys).to_le_bytes());
        let path = self.path(made, part);
        let half = path.with_extension(format!("{part}.part"));
        let written = fs::write(&half, bytes).and_then(|()| fs::rename(&half, &path));
        if written.is_ok() {
            self.written.push(path);
        } else {
            let _ = fs::remove_file(half);
        }
        written
    }

    /// Reads a list of so many keys that the last commit has made valid.
    ///
    /// # Errors
    /// [`io::Error`], also if the file is not the one that was written.
    pub fn read<K: Key>(&self, made: Made, part: u32, keys: &mut [K]) -> io::Result<()> {
        let path = self.path(made, part);
        let bytes = fs::read(&path)?;
        let damaged = || io::Error::other(format!("{} is damaged", path.display()));
        let (content, sum) = bytes.split_last_chunk().ok_or_else(damaged)?;
        if content.len() != size_of_val(keys) {
            return Err(damaged());
        }
        K::decode(content, keys);
        if u64::from_le_bytes(*sum) == sum_of(keys) { Ok(()) } else { Err(damaged()) }
    }

    /// The step counts: files that no rank can need any more are removed.
    pub fn accept(&mut self) {
        // Whatever cannot be removed now is removed at the end, or is no harm.
        self.older.drain(..).for_each(|path| {
            let _ = fs::remove_file(path);
        });
        std::mem::swap(&mut self.older, &mut self.committed);
        std::mem::swap(&mut self.committed, &mut self.written);
    }

    /// Removes all lists of all ranks, and the folder if the job has made it and nothing else is in
    /// it.
    pub fn clear(&self) {
        let (files, prefix) = (fs::read_dir(&self.folder), self.prefix());
        let is_ours = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(&prefix);
        for file in files.into_iter().flatten().flatten().filter(is_ours) {
            let _ = fs::remove_file(file.path());
        }
        if self.is_made {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hyperquicksort-{name}-{}", std::process::id()))
    }

    /// Files of a job of this number, whose folder is there.
    fn files_of(folder: &Path, job: u64) -> Files {
        let mut files = Files::new(folder);
        let is_made = files.make_folder().unwrap();
        files.begin(job, is_made);
        files
    }

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let folder = folder("files");
        let mut files = files_of(&folder, 7);
        let made = Made { epoch: 1, step: 3 };
        files.write(made, 2, &[-1, 5, 7]).unwrap();
        let mut keys = [0; 3];
        files.read(made, 2, &mut keys).unwrap();
        assert_eq!(keys, [-1, 5, 7]);
        assert!(files.read(made, 2, &mut [0; 2]).is_err());
        assert!(files.read(Made { epoch: 2, step: 3 }, 2, &mut keys).is_err());
        let path = folder.join("hyperquicksort-0000000000000007.1.3.2");
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(files.read(made, 2, &mut keys).unwrap_err().to_string().contains("damaged"));
        files.clear();
        assert!(!folder.exists());
    }

    #[test]
    fn a_stale_writer_changes_nothing() {
        let folder = folder("stale");
        let [mut current, mut stale] = [7; 2].map(|job| files_of(&folder, job));
        let made = Made { epoch: 2, step: 3 };
        current.write(made, 0, &[1_i64, 2]).unwrap();
        stale.write(Made { epoch: 1, ..made }, 0, &[1_i64, 1, 2, 2]).unwrap();
        let mut keys = [0_i64; 2];
        current.read(made, 0, &mut keys).unwrap();
        assert_eq!(keys, [1, 2]);
        current.clear();
        assert!(!folder.exists());
    }

    #[test]
    fn files_go_with_the_second_commit_after_theirs_and_those_of_others_stay() {
        let folder = folder("others");
        fs::create_dir(&folder).unwrap();
        let mut files = files_of(&folder, files_of(&folder, 0).job_or_new());
        fs::write(folder.join("2026.11.29"), "").unwrap();
        let names = || fs::read_dir(&folder).unwrap().count();
        for (step, left) in [(0, 2), (1, 3), (2, 3), (3, 3)] {
            files.write(Made { epoch: 1, step }, 0, &[1]).unwrap();
            files.accept();
            assert_eq!(names(), left);
        }
        // A rank that has decided first may die, and the others begin with the step before.
        assert!(files.path(Made { epoch: 1, step: 2 }, 0).exists());
        let mut other_job = files_of(&folder, files_of(&folder, 0).job_or_new());
        other_job.write(Made { epoch: 1, step: 2 }, 0, &[2]).unwrap();
        files.clear();
        assert_eq!(names(), 2);
        other_job.read(Made { epoch: 1, step: 2 }, 0, &mut [0]).unwrap();
        other_job.clear();
        assert_eq!(names(), 1, "the file of somebody else");
        fs::remove_file(folder.join("2026.11.29")).unwrap();
        files.clear();
        assert!(folder.is_dir(), "it was there before");
        fs::remove_dir(&folder).unwrap();
    }
}
