//! How processes have died, for the ranks of this node: a file to which the daemon adds what it is
//! about to tell them. It is in the daemon's folder, and goes with it. Which jobs processes have
//! started stands there, too, before any of the new ones runs: an MPI may not name them.
//!
//! ```text
//! death = job u32 · rank u32 · kind u8 · value u8 · 0 0 · check u32
//! kind  = 1 exited (value: the status) · 2 killed (the signal) · 4 lost with its node
//! start = job u32 · rank u32 · 5 · number of the new job u24 · check u32
//! check = not (job xor rank rotated left by 8 xor the third word rotated left by 16)
//! ```
//!
//! The job is the number at the end of the name of a namespace, by which Open MPI names its
//! processes, too. A rank is told of the file by `FAMPI_NODE_DEATHS`, and who it is itself by
//! `FAMPI_NODE_PROCESS` (`job:rank`), for MPIs that give processes no names.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::place::Place;
use crate::protocol::{
    Process,
    space::{End, Space},
};

/// The file, which is made with the first of them.
#[derive(Debug)]
pub(super) struct Deaths {
    path: PathBuf,
    file: Option<File>,
}

impl Deaths {
    /// None is known yet.
    pub(super) fn new(place: &Place) -> Self {
        Self { path: place.files.join("deaths"), file: None }
    }

    /// Tells a process that is about to be started where it will find them.
    pub(super) fn show(&self, process: &Process, command: &mut Command) {
        command.env("FAMPI_NODE_DEATHS", &self.path);
        if let Some(job) = job_of(process) {
            command.env("FAMPI_NODE_PROCESS", format!("{job}:{}", process.rank));
        }
    }

    /// Adds deaths to the file. If it cannot be written, the ranks report unknown causes.
    pub(super) fn note(&mut self, dead: &[(Process, End)]) {
        self.add(&dead.iter().filter_map(record).flatten().collect::<Vec<u8>>());
    }

    /// Adds that a process has started a job, if one has.
    pub(super) fn note_start(&mut self, space: &Space) {
        let start = space.spawner.as_ref().and_then(|by| start(by, job_in(&space.name)?));
        self.add(start.as_ref().map_or(&[], |bytes| &bytes[..]));
    }

    fn add(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.file.is_none() {
            self.file = OpenOptions::new().create(true).append(true).open(&self.path).ok();
        }
        let _ = self.file.as_mut().map(|file| file.write_all(bytes));
    }
}

fn job_of(process: &Process) -> Option<u32> {
    job_in(&process.space)
}

fn job_in(space: &str) -> Option<u32> {
    space.rsplit('@').next()?.parse().ok()
}

fn record((process, end): &(Process, End)) -> Option<[u8; 16]> {
    let (kind, value) = match *end {
        End::Exited(status) => (1, status),
        End::Killed(signal) => (2, signal),
        End::Lost => (4, 0),
        End::Finished(_) | End::NotStarted => return None,
    };
    told(process, [kind, value, 0, 0])
}

fn start(by: &Process, new: u32) -> Option<[u8; 16]> {
    let [first, second, third, 0] = new.to_le_bytes() else { return None };
    told(by, [5, first, second, third])
}

/// What is told of a process.
fn told(process: &Process, how: [u8; 4]) -> Option<[u8; 16]> {
    let (job, rank, how) = (job_of(process)?, process.rank, u32::from_le_bytes(how));
    let check = !(job ^ rank.rotate_left(8) ^ how.rotate_left(16));
    let words = [job, rank, how, check].map(u32::to_le_bytes);
    Some(std::array::from_fn(|at| words[at / 4][at % 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_has_sixteen_bytes_and_an_end_in_order_none() {
        let process = Process { space: "fampi-1@2".into(), rank: 7 };
        let of = |end| record(&(process.clone(), end));
        let bytes = of(End::Killed(9)).expect("a death");
        assert_eq!(bytes[..12], [2, 0, 0, 0, 7, 0, 0, 0, 2, 9, 0, 0]);
        assert_eq!(bytes[12..], (!(2_u32 ^ 7 << 8 ^ 0x0902 << 16)).to_le_bytes());
        assert_eq!(of(End::Lost).expect("a death")[8..12], [4, 0, 0, 0]);
        assert_eq!(of(End::Exited(3)).expect("a death")[8..12], [1, 3, 0, 0]);
        assert_eq!(of(End::Finished(0)), None);
    }

    #[test]
    fn a_start_names_who_has_asked_for_it_and_a_number_that_fits() {
        let by = Process { space: "fampi-1@2".into(), rank: 7 };
        let bytes = start(&by, 0x0003_0201).expect("a start");
        assert_eq!(bytes[..12], [2, 0, 0, 0, 7, 0, 0, 0, 5, 1, 2, 3]);
        assert_eq!(start(&by, 1 << 24), None);
    }
}
