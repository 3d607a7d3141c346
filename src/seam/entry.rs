//! What can happen to a process, with the words for those who draw it and those who listen to it.
//!
//! An [`Entry`] is stated once, with [`tell`], and becomes an event of the crate `tracing`
//! and a line of the [trace](super::trace).
//!
//! **Guarantees.** A process that is not recorded and has no subscriber pays two loads and a
//! branch for a block's start, vote and end, and nothing is built.

use alloc::{string::String, vec::Vec};
use core::{
    fmt::{self, Display},
    time::Duration,
};
use std::time::Instant;

use tracing::{debug, info, warn};

use super::trace::{self, Event, Recorder};
use crate::{
    fault::FaultReport,
    ids::BlockId,
    protocol::process::Level,
    rank::{Rank, RankSet},
};

/// What can happen.
pub(crate) enum Entry {
    /// This process holds a rank, or is parked.
    Placed {
        /// Its number in the job, if it has one.
        process: Option<u32>,
        /// Its rank, and the rank of the launch that this stands for.
        rank: Option<(Rank, u32)>,
        generation: u32,
        role: &'static str,
    },
    /// A block begins.
    Started { block: u64, number: BlockId, level: Level, comm: CommName },
    /// All requests of an agreed block are over.
    Voted { block: u64 },
    /// The verdict on a block is known.
    Ended { block: u64, committed: bool },
    /// A block will not commit, as another rank has found.
    Interrupted { number: BlockId },
    /// Another process is dead.
    Died {
        /// Its number in the job, and its rank in its universe.
        process: Option<u32>,
        rank: Rank,
        /// Who told first, when this process did not know of the death by another universe.
        source: Option<&'static str>,
        /// This rank and the dead one in each communicator of both.
        ranks: Vec<(Rank, Rank)>,
    },
    /// All ranks have agreed on the faults of a block.
    Agreed { comm: CommName, me: Rank, block: BlockId, report: FaultReport },
    /// A census has committed: who is benched by it, and who is back, by ranks of the launch.
    Counted { epoch: u32, members: usize, benched: RankSet, rejoined: RankSet },
    /// The observer of this node was kept from testing, in so many more intervals.
    Stalled { intervals: u64 },
    /// A part of a recovery begins.
    Begun { work: &'static str },
    /// A part of a recovery is over.
    Done { work: &'static str },
    /// The survivors are about to make a new universe.
    Regrouping { attempt: u32, dead: RankSet, spawn: u32, spares: usize },
    /// The new universe is made, or why it is not.
    Regrouped { attempt: u32, spawn: u32, took: Duration, failure: Option<String> },
    /// MPI has carried out a part of a regroup that began then.
    Called { work: Call, began: Instant },
    /// This process is part of a complete world.
    Recovered { rank: Rank, generation: u32, role: &'static str, took: Duration },
    /// This process leaves in order.
    Left {
        rank: Option<u32>,
        generation: u32,
        blocks: u64,
        committed: u64,
        faulty: u64,
        deaths: u64,
    },
}

/// What MPI does in a regroup.
pub(crate) enum Call {
    Shrink,
    Spawn(u32),
}

/// The name of a communicator.
pub(crate) enum CommName {
    World,
    Universe,
    Other(u64),
}

/// States what happens to this process.
#[cold]
pub(crate) fn tell(entry: &Entry) {
    entry.emit();
    trace::with_recorder(|recorder| entry.record(recorder));
}

impl Display for CommName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world"),
            Self::Universe => f.write_str("universe"),
            Self::Other(id) => write!(f, "{:04x}", id & 0xffff),
        }
    }
}

impl Entry {
    fn record(&self, recorder: &mut Recorder) {
        let is_wanted = match self {
            Self::Started { block, .. } => recorder.takes_block(*block),
            Self::Voted { block } | Self::Ended { block, .. } => recorder.has_block(*block),
            Self::Died { .. } | Self::Agreed { .. } => {
                recorder.handle_fault();
                true
            }
            _ => true,
        };
        if is_wanted {
            recorder.write(|event| self.describe(event));
        }
    }

    /// Writes the event of the trace.
    fn describe(&self, event: &mut Event<'_>) {
        match self {
            Self::Placed { process, rank, generation, role } => {
                event.head('i', "life", "placed");
                event.perhaps("process", *process);
                event.perhaps("rank", rank.map(|(rank, _)| rank));
                event.perhaps("origin", rank.map(|(_, origin)| origin));
                event.number("generation", generation);
                event.text("role", role);
            }
            Self::Started { block, number, level, comm } => {
                event.block('b', "block", *block);
                event.text("level", format_args!("{level:?}"));
                event.text("communicator", comm);
                event.number("number", number.0);
            }
            Self::Voted { block } => event.block('n', "vote", *block),
            Self::Ended { block, committed } => {
                event.block('e', "block", *block);
                event.text("verdict", if *committed { "committed" } else { "faulty" });
            }
            Self::Interrupted { number } => {
                event.head('i', "fault", "interrupted");
                event.number("number", number.0);
            }
            Self::Died { process, rank, .. } => {
                event.head('i', "fault", "death detected");
                event.perhaps("process", *process);
                event.number("rank", rank);
            }
            Self::Agreed { comm, report, .. } => {
                event.head('i', "report", "report agreed");
                event.text("communicator", comm);
                event.text("report", report);
            }
            Self::Counted { epoch, members, benched, rejoined } => {
                event.head('i', "group", "census");
                event.number("epoch", epoch);
                event.number("members", members);
                event.text("benched", benched);
                event.text("rejoined", rejoined);
            }
            Self::Stalled { intervals } => {
                event.head('i', "group", "observer stalled");
                event.number("intervals", intervals);
            }
            _ => self.describe_recovery(event),
        }
    }

    fn describe_recovery(&self, event: &mut Event<'_>) {
        const RECOVERY: &str = "recovery";
        match self {
            Self::Begun { work } => event.head('B', RECOVERY, work),
            Self::Done { work } => event.head('E', RECOVERY, work),
            Self::Regrouping { spawn, .. } => {
                event.head('B', RECOVERY, "regroup");
                if *spawn > 0 {
                    event.number("spawned", spawn);
                }
            }
            Self::Regrouped { failure, .. } => {
                event.head('E', RECOVERY, "regroup");
                if let Some(failure) = failure {
                    event.text("failure", failure);
                }
            }
            Self::Called { work, began } => {
                let took = began.elapsed();
                let name = if matches!(work, Call::Shrink) { "MPI shrink" } else { "MPI spawn" };
                event.slice(RECOVERY, name, took);
            }
            Self::Recovered { rank, generation, role, .. } => {
                event.head('i', RECOVERY, "recovered");
                event.text("role", role);
                event.number("rank", rank);
                event.number("generation", generation);
            }
            Self::Left { blocks, committed, faulty, deaths, .. } => {
                event.head('i', "life", "leaves");
                event.number("blocks", blocks);
                event.number("committed", committed);
                event.number("faulty", faulty);
                event.number("deaths", deaths);
            }
            _ => unreachable!("the other entries are described by the caller"),
        }
    }

    /// Emits the events of the crate `tracing`.
    pub(crate) fn emit(&self) {
        match self {
            Self::Started { number, level, .. } => {
                tracing::trace!(target: "fampi::block", block = number.0, ?level, "started");
            }
            Self::Ended { block, committed } => {
                tracing::trace!(target: "fampi::block", serial = block, committed, "ended");
            }
            Self::Interrupted { number } => {
                debug!(target: "fampi::block", block = number.0, "interrupted");
            }
            Self::Died { process, source, ranks, .. } => {
                for (me, dead) in ranks {
                    info!(target: "fampi::fault", rank = %me, %dead, "fault detected");
                }
                if let Some(source) = source {
                    info!(target: "fampi::metrics", process, source, "death");
                }
            }
            Self::Agreed { me, block, report, .. } => info!(
                target: "fampi::commit", rank = %me, block = block.0, %report, "report agreed"
            ),
            Self::Counted { epoch, members, benched, rejoined } => {
                for rank in benched.iter() {
                    info!(target: "fampi::membership", %rank, epoch, "benched");
                }
                for rank in rejoined.iter() {
                    info!(target: "fampi::membership", %rank, epoch, "rejoined");
                }
                info!(target: "fampi::membership", epoch, members, "census");
            }
            Self::Stalled { intervals } => {
                info!(target: "fampi::membership", intervals, "stalled");
            }
            Self::Regrouping { attempt, dead, spawn, spares } => {
                info!(target: "fampi::recovery", attempt, %dead, spawn, spares, "regrouping");
            }
            Self::Regrouped { attempt, failure: Some(error), .. } => {
                warn!(target: "fampi::recovery", attempt, %error, "regroup failed");
            }
            Self::Regrouped { spawn: count @ 1.., took, .. } => {
                info!(target: "fampi::recovery", count, took_us = micros(*took), "spawned");
            }
            Self::Called { work: Call::Shrink, began } => {
                info!(target: "fampi::recovery", took_us = micros(began.elapsed()), "shrunk");
            }
            Self::Called { work: Call::Spawn(count), began } => {
                let took_us = micros(began.elapsed());
                info!(target: "fampi::recovery", count, took_us, "processes started");
            }
            Self::Recovered { rank, generation, role, took } => info!(
                target: "fampi::recovery", %rank, generation, role, took_us = micros(*took),
                "recovered"
            ),
            Self::Left { rank, generation, blocks, committed, faulty, deaths } => info!(
                target: "fampi::metrics", rank, blocks, committed, faulty, deaths, generation,
                "left"
            ),
            // What only those want to know who draw it.
            Self::Placed { .. }
            | Self::Voted { .. }
            | Self::Begun { .. }
            | Self::Done { .. }
            | Self::Regrouped { .. } => {}
        }
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fault::{Fault, FaultCode},
        seam::trace::tests::Recorded,
    };

    fn started(block: u64) -> Entry {
        Entry::Started {
            block,
            number: BlockId(block),
            level: Level::Global,
            comm: CommName::World,
        }
    }

    #[test]
    fn every_entry_is_an_event_of_the_format() {
        let mut recorded = Recorded::new(1);
        let fault = Fault {
            comm: crate::ids::CommId(1),
            rank: Rank::new(3),
            code: FaultCode::Application(-9),
        };
        let report = FaultReport::new(alloc::vec![fault]);
        let (comm, me, block) = (CommName::Other(0xab_cdef), Rank::new(0), BlockId(7));
        for entry in [
            Entry::Agreed { comm, me, block, report },
            Entry::Placed { process: Some(4), rank: None, generation: 0, role: "spare" },
            Entry::Voted { block: 7 },
        ] {
            entry.record(&mut recorded.recorder);
        }
        let text = recorded.text();
        let lines: Vec<&str> = text.lines().collect();
        for (line, head, args) in [
            (
                lines[1],
                r#"{"name":"report agreed","cat":"report","ph":"i","ts":"#,
                r#""report":"rank 3: the application raised code -9"}},"#,
            ),
            (
                lines[2],
                r#"{"name":"placed","cat":"life","ph":"i","ts":"#,
                r#""args":{"process":4,"rank":null,"origin":null,"generation":0,"role":"spare"}},"#,
            ),
            (lines[3], r#"{"name":"vote","cat":"block","ph":"n","ts":"#, r#","id":7},"#),
        ] {
            assert!(line.starts_with(head) && line.ends_with(args), "{line}");
        }
    }

    #[test]
    fn a_long_run_is_cut_and_a_fault_is_told_with_what_follows() {
        let mut recorded = Recorded::new(2);
        for block in 0..4 {
            started(block).record(&mut recorded.recorder);
            Entry::Ended { block, committed: true }.record(&mut recorded.recorder);
        }
        let (rank, ranks) = (Rank::new(1), Vec::new());
        Entry::Died { process: None, rank, source: None, ranks }.record(&mut recorded.recorder);
        started(4).record(&mut recorded.recorder);
        let text = recorded.text();
        let blocks: Vec<&str> = text.lines().filter(|line| line.contains("\"id\"")).collect();
        assert_eq!(blocks.len(), 5, "{text}");
        assert!(blocks[4].contains("\"id\":4,"), "{text}");
    }
}
