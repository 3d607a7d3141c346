//! Who was started beside this process, before MPI says so: the launcher is ours, and itself ends a
//! job that cannot start.
//!
//! **Symptom** none: these functions tell nothing, where those of Open MPI's room do.
//!
//! **Versions** each MPICH, under `fampi-node`.
//!
//! **Upstream** not reported.
//!
//! **Delete when** there is no other room.
//!
//! **Test** `programs_of_mpich_end_with_their_status_and_one_that_cannot_start_says_so`.

use std::time::Duration;

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

/// The processes of a job that is on one node, as its launcher has started them.
#[derive(Debug)]
#[allow(dead_code, reason = "they are not known")]
pub(in crate::mpi) struct Launched {
    pub(in crate::mpi) me: u32,
    pub(in crate::mpi) processes: Vec<Option<u64>>,
}

impl Launched {
    pub(in crate::mpi) fn find() -> Option<Self> {
        None
    }
}

/// The value of a variable in the environment of a process, as `/proc` shows it.
pub(in crate::mpi) fn value_in<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
