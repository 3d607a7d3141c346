//! Who was started beside this process, before MPI says so.
//!
//! **Symptom** A process that calls this library for the first time does not know which ranks have
//! ended before, and waits for them in that call. So it looks which ranks are still children of the
//! launcher, which is also its own parent ([`Launched`]). Ranks that wait in `MPI_Init` need no
//! help: the launcher is ours, and ends a job that cannot start.
//!
//! **Versions** each MPICH, under `fampi-node`.
//!
//! **Upstream** not reported.
//!
//! **Delete when** there is no other room.
//!
//! **Test** `a_death_before_the_first_call_keeps_nobody_in_the_end_of_mpi` (`ffi/tests/c`, with
//! `--mpi mpich`).

use std::{env, fs, os::unix::process::parent_id, process::id, str, time::Duration};

use crate::mpi::node::process::{living_children, value_in};

/// What the launcher of our own tells each process: the number of the job, and its rank there.
const PLACE: &str = "FAMPI_NODE_PROCESS";
/// How many ranks the job has, and how many of them are on this node.
const SIZE: &str = "PMI_SIZE";
const LOCAL_SIZE: &str = "MPI_LOCALNRANKS";
/// What the launcher tells each process: its rank. There is no name of the job.
pub(in crate::mpi) const JOB: &str = "PMI_KVS";
pub(in crate::mpi) const RANK: &str = "PMI_RANK";

/// How many processes of the job live on this node.
#[derive(Debug)]
pub(in crate::mpi) struct Siblings;

impl Siblings {
    pub(in crate::mpi) fn new() -> Self {
        Self
    }

    pub(in crate::mpi) fn dead(&mut self, _: Duration) -> Option<(usize, usize)> {
        None
    }
}

/// Nothing is known of a launcher of MPI's own.
pub(in crate::mpi) fn expected() -> Option<usize> {
    None
}

pub(in crate::mpi) fn expected_in(_: &[u8]) -> Option<usize> {
    None
}

pub(in crate::mpi) fn launcher() -> Option<u32> {
    None
}

/// The number of this process's job, and its rank there, if the launcher is ours.
pub(super) fn place() -> Option<(u32, u32)> {
    place_in(env::var(PLACE).ok()?.as_bytes())
}

fn place_in(text: &[u8]) -> Option<(u32, u32)> {
    let (job, rank) = str::from_utf8(text).ok()?.split_once(':')?;
    Some((job.parse().ok()?, rank.parse().ok()?))
}

/// The processes of a job that is on one node, as its launcher has started them.
#[derive(Debug)]
pub(in crate::mpi) struct Launched {
    /// The rank of this process.
    pub(in crate::mpi) me: u32,
    /// The number of the process of each rank; `None` for one that has ended.
    pub(in crate::mpi) processes: Vec<Option<u64>>,
}

impl Launched {
    /// `None` when it cannot be known for all of them.
    pub(in crate::mpi) fn find() -> Option<Self> {
        let (job, me) = place()?;
        let size = number(SIZE).filter(|size| number(LOCAL_SIZE) == Some(*size))?;
        let mut processes = vec![None; size];
        for pid in living_children(parent_id()) {
            // One that cannot be read may be any of them.
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            if environment.is_empty() {
                return None;
            }
            let its = value_in(&environment, PLACE).and_then(place_in);
            if let Some((_, rank)) = its.filter(|(of, _)| *of == job) {
                *processes.get_mut(rank as usize)? = Some(pid);
            }
        }
        // This process lives.
        let own = processes.get(me as usize).copied().flatten();
        (own == Some(id().into())).then_some(Self { me, processes })
    }
}

fn number(name: &str) -> Option<usize> {
    env::var(name).ok()?.parse().ok()
}
