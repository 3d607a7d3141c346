//! How processes have died, where the launcher of our own knows it.
//!
//! The daemon of each node adds to a file what it tells the ranks of its node of deaths, before it
//! does. The file is read when a death is known; and, on an MPI that is told of no death, while
//! this process waits in a call of it. The daemon's page (`apps/node`) has its layout.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::fault::Cause;

/// The file.
const FILE: &str = "FAMPI_NODE_DEATHS";
/// The bytes of what is told: job, rank, kind, value, and a check.
const BYTES: usize = 16;
/// The kind that is no death: the process has started the job of this number, in three bytes.
#[cfg(mpich)]
const START: u8 = 5;

/// A process: the number of its job, and its rank there.
type Place = (u32, u32);

/// What the launcher has told.
#[cfg(mpich)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) enum Told {
    /// The death of this process.
    Death(Place),
    /// The start of a job, which nobody has died in before.
    Start {
        /// Who has asked for it.
        by: Place,
        /// Its number.
        job: u32,
    },
}

/// True when the launcher says how processes have died.
pub(in crate::mpi) fn are_told() -> bool {
    file().is_some()
}

/// How the process of this name has died, if the launcher has said so.
pub(in crate::mpi) fn of_launcher(name: u64) -> Option<Cause> {
    read(file()?, name)
}

/// What the launcher has told since so many bytes were read. To be asked where this process waits:
/// it is a call of the system.
#[cfg(mpich)]
pub(in crate::mpi) fn told_since(read: &mut usize) -> Vec<Told> {
    file().map_or_else(Vec::new, |file| new_in(file, read))
}

#[cfg(mpich)]
fn new_in(file: &Path, read: &mut usize) -> Vec<Told> {
    let length = fs::metadata(file).map_or(0, |found| found.len() as usize);
    if length < *read + BYTES {
        return Vec::new();
    }
    let bytes = fs::read(file).unwrap_or_default();
    let new = bytes.get(*read..).unwrap_or_default().as_chunks::<BYTES>().0;
    *read += new.len() * BYTES;
    let told = |bytes| {
        let death = death(bytes).map(|(of, _)| Told::Death(of));
        death.or_else(|| start(bytes).map(|(by, job)| Told::Start { by, job }))
    };
    new.iter().filter_map(told).collect()
}

fn file() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(|| env::var_os(FILE).map(PathBuf::from)).as_deref()
}

fn read(file: &Path, name: u64) -> Option<Cause> {
    let bytes = fs::read(file).ok()?;
    let deaths = bytes.as_chunks::<BYTES>().0.iter().filter_map(death);
    deaths.filter(|(of, _)| *of == (name as u32 & 0xffff, (name >> 32) as u32)).map(|it| it.1).max()
}

/// A process, and how it died.
fn death(bytes: &[u8; BYTES]) -> Option<(Place, Cause)> {
    let (of, how) = whole(bytes)?;
    let [kind, value, 0, 0] = how else { return None };
    Some((of, Cause::from_numbers(kind, value)?))
}

/// A process, and the number of the job that it has started.
#[cfg(mpich)]
fn start(bytes: &[u8; BYTES]) -> Option<(Place, u32)> {
    let (by, [START, job @ ..]) = whole(bytes)? else { return None };
    let [first, second, third] = job;
    Some((by, u32::from_le_bytes([first, second, third, 0])))
}

/// A process, and what is told of it, if it was written whole.
fn whole(bytes: &[u8; BYTES]) -> Option<(Place, [u8; 4])> {
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[4 * at + byte]));
    let (job, rank, how, check) = (word(0), word(1), word(2), word(3));
    let is_whole = check == !(job ^ rank.rotate_left(8) ^ how.rotate_left(16));
    is_whole.then(|| ((job, rank), how.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(job: u32, rank: u32, kind: u8, value: u8) -> [u8; BYTES] {
        let how = u32::from_le_bytes([kind, value, 0, 0]);
        let check = !(job ^ rank.rotate_left(8) ^ how.rotate_left(16));
        let words = [job, rank, how, check].map(u32::to_le_bytes);
        std::array::from_fn(|at| words[at / 4][at % 4])
    }

    #[test]
    fn a_death_is_read_whole_or_not_at_all() {
        let whole = bytes(1, 7, 2, 9);
        assert_eq!(death(&whole), Some(((1, 7), Cause::Killed(9))));
        for at in 0..BYTES {
            let mut wrong = whole;
            wrong[at] ^= 4;
            assert_eq!(death(&wrong), None, "byte {at}");
        }
        assert_eq!(death(&bytes(1, 7, 9, 0)), None, "no such kind");
    }

    #[test]
    fn the_file_tells_of_the_process_that_is_asked_for() {
        let folder = env::temp_dir().join(format!("fampi-causes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let file = folder.join("deaths");
        assert_eq!(read(&file, 1), None);
        let all = [bytes(1, 7, 1, 3), bytes(2, 7, 2, 9), bytes(1, 6, 4, 0)].concat();
        fs::write(&file, [&all[..], &[1, 2, 3]].concat()).expect("written");
        let name = |job: u64, rank: u64| rank << 32 | 0xabcd_0000 | job;
        assert_eq!(read(&file, name(1, 7)), Some(Cause::Exited(3)));
        assert_eq!(read(&file, name(2, 7)), Some(Cause::Killed(9)));
        assert_eq!(read(&file, name(1, 6)), Some(Cause::NodeLost));
        assert_eq!(read(&file, name(2, 6)), None);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[cfg(mpich)]
    #[test]
    fn a_death_is_told_once_and_not_before_it_is_written_whole() {
        let file = env::temp_dir().join(format!("fampi-told-{}", std::process::id()));
        let (all, mut known) = ([bytes(1, 7, 1, 3), bytes(1, 0, START, 2)].concat(), 0);
        assert_eq!(new_in(&file, &mut known), []);
        let (dead, started) = (Told::Death((1, 7)), Told::Start { by: (1, 0), job: 2 });
        for (length, new) in [(15, vec![]), (16, vec![dead]), (31, vec![]), (32, vec![started])] {
            fs::write(&file, &all[..length]).expect("written");
            assert_eq!(new_in(&file, &mut known), new, "{length} bytes");
        }
        assert_eq!(new_in(&file, &mut known), []);
        fs::remove_file(file).expect("removed");
    }
}
