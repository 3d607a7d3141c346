//! The living go before the dead.
//!
//! The last thread of a dead process gives its memory back, which takes the kernel a millisecond
//! or more with MPI's libraries, where that thread runs. Survivors that share the processor with it
//! can neither see the death meanwhile nor agree on it. So on a node with more ranks than
//! processors each survivor that sees a death puts that work behind its own: a lower priority
//! (`setpriority`, POSIX.1-2008), of which every step makes the kernel choose anew whom to run.
//!
//! **Costs.** Beside a rank that computes, the last thread gets a thirtieth of its processor or
//! less: the memory of the dead comes back later, by seconds for each gigabyte. Where every rank
//! has a processor for itself no process is put behind.

use std::{ffi::c_int, fs};

use crate::mpi::node::process::processors;

/// Steps down from the usual priority, the first and the last.
const STEPS: (c_int, c_int) = (16, 19);

/// True when this many ranks share the processors of this node.
pub(in crate::mpi) fn is_crowded(ranks: usize) -> bool {
    ranks > processors()
}

/// Puts what is left of a process that ends one step behind.
pub(in crate::mpi) fn put_behind(pid: u64) {
    // In Linux each thread has a priority of its own.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads.filter_map(|it| it.file_name().to_str()?.parse::<libc::id_t>().ok()) {
        // SAFETY: a question about a thread; one that is gone is an error, which is -1.
        let now = unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) };
        if now < STEPS.1 {
            // SAFETY: as above; what is not allowed is not done.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, STEPS.0.max(now + 1)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_put_behind_step_by_step_and_no_further_than_possible() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("`sleep`");
        let priority = |pid: u32| {
            // SAFETY: as above, about a child of ours.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, pid) }
        };
        let usual = priority(child.id());
        let mut seen = Vec::new();
        for _ in 0..5 {
            put_behind(child.id().into());
            seen.push(priority(child.id()));
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
        let first = (usual + 1).clamp(16, 19);
        assert_eq!(seen, [0, 1, 2, 3, 4].map(|step| (first + step).min(19)));
    }

    #[test]
    fn a_rank_alone_is_not_a_crowd() {
        assert!(!is_crowded(1) && is_crowded(1 << 20));
    }
}
