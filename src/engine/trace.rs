//! What happens to a process, written down while it happens, for those who draw timelines.
//!
//! One line of JSON for each entry, handed to the system with one call at once, so that a process
//! that is killed leaves all that it has written. Times are nanoseconds of the platform's clock,
//! whose beginning the platform itself writes first.
//!
//! ```text
//! {"at":81,"is":"placed","process":2,"rank":2,"origin":2,"generation":0,"role":"rank"}
//! {"at":97,"is":"started","block":7,"number":3,"level":"Global","comm":"world"}
//! {"at":99,"is":"voted","block":7}
//! {"at":104,"is":"ended","block":7,"committed":true}
//! {"at":110,"is":"died","process":3,"rank":3}
//! {"at":111,"is":"agreed","comm":"world","report":"rank 3: the process failed"}
//! {"at":120,"is":"begun","work":"rebuild"}  …  {"at":140,"is":"done","work":"rebuild"}
//! {"at":150,"is":"left"}
//! ```
//!
//! **Guarantees.** Nobody asked for it: one branch, and nothing is built. A trace that cannot be
//! written any more ends; the process goes on. **Differs** from the events of the crate `tracing`
//! in that no program has to subscribe, and none that does is in the way.

use alloc::{boxed::Box, format, string::String};
use core::fmt::{self, Write as _};
use std::io::Write;

use super::{BlockKey, CommKey, Engine, Level};
use crate::{fault::FaultReport, rank::Rank};

/// Blocks of a process that are written down; a long run would fill the disk.
const BLOCKS: u32 = 20_000;
/// After a fault so many are, in any case.
const BLOCKS_AFTER_A_FAULT: u32 = 1_000;

/// Where a process writes what happens to it.
pub(crate) struct Trace {
    sink: Box<dyn Write>,
    line: String,
    blocks_left: u32,
    /// The block from which on none is written down.
    skips_from: u64,
}

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
    Started { block: u64, number: u64, level: Level, comm: CommName },
    /// All requests of an agreed block are over.
    Voted { block: u64 },
    /// Its verdict is known.
    Ended { block: u64, committed: bool },
    /// It will not commit, as somebody else has found.
    Interrupted { block: u64 },
    /// Another process is dead: its number in the job, its rank in its universe.
    Died { process: Option<u32>, rank: Rank },
    /// The faults of a block, the same on all ranks.
    Agreed { comm: CommName, report: FaultReport },
    /// A part of a recovery begins; `spawn` processes are started in it.
    Begun { work: &'static str, spawn: u32 },
    /// It is over.
    Done { work: &'static str },
    /// This process leaves in order.
    Left,
}

/// How a communicator is called.
pub(crate) enum CommName {
    World,
    Universe,
    Other(u64),
}

impl Trace {
    pub(super) fn new(sink: Box<dyn Write>) -> Self {
        Self { sink, line: String::new(), blocks_left: BLOCKS, skips_from: u64::MAX }
    }

    /// False when the trace cannot go on.
    fn write(&mut self, at: u128, entry: &Entry) -> bool {
        if !self.is_wanted(entry) {
            return true;
        }
        self.line.clear();
        let written = writeln!(self.line, "{{\"at\":{at},{entry}}}");
        written.is_ok() && self.sink.write_all(self.line.as_bytes()).is_ok()
    }

    fn is_wanted(&mut self, entry: &Entry) -> bool {
        match entry {
            Entry::Started { block, .. } if self.blocks_left == 0 => {
                self.skips_from = self.skips_from.min(*block);
                false
            }
            Entry::Started { .. } => {
                self.blocks_left -= 1;
                true
            }
            Entry::Voted { block } | Entry::Ended { block, .. } => *block < self.skips_from,
            Entry::Died { .. } | Entry::Agreed { .. } => {
                self.blocks_left = self.blocks_left.max(BLOCKS_AFTER_A_FAULT);
                self.skips_from = u64::MAX;
                true
            }
            _ => true,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed { process, rank, generation, role } => {
                let (rank, origin) = (rank.map(|(rank, _)| rank), rank.map(|(_, origin)| origin));
                let (process, rank, origin) = (Number(*process), Number(rank), Number(origin));
                write!(f, "\"is\":\"placed\",\"process\":{process},\"rank\":{rank},")?;
                write!(f, "\"origin\":{origin},\"generation\":{generation},\"role\":\"{role}\"")
            }
            Self::Started { block, number, level, comm } => {
                write!(f, "\"is\":\"started\",\"block\":{block},\"number\":{number},")?;
                write!(f, "\"level\":\"{level:?}\",\"comm\":\"{comm}\"")
            }
            Self::Voted { block } => write!(f, "\"is\":\"voted\",\"block\":{block}"),
            Self::Ended { block, committed } => {
                write!(f, "\"is\":\"ended\",\"block\":{block},\"committed\":{committed}")
            }
            Self::Interrupted { block } => write!(f, "\"is\":\"interrupted\",\"block\":{block}"),
            Self::Died { process, rank } => {
                write!(f, "\"is\":\"died\",\"process\":{},\"rank\":{rank}", Number(*process))
            }
            Self::Agreed { comm, report } => {
                // Rust's quotes are JSON's, as sentences about faults are plain text.
                let report = format!("{report}");
                write!(f, "\"is\":\"agreed\",\"comm\":\"{comm}\",\"report\":{report:?}")
            }
            Self::Begun { work, spawn } => {
                write!(f, "\"is\":\"begun\",\"work\":\"{work}\",\"spawn\":{spawn}")
            }
            Self::Done { work } => write!(f, "\"is\":\"done\",\"work\":\"{work}\""),
            Self::Left => f.write_str("\"is\":\"left\""),
        }
    }
}

impl fmt::Display for CommName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world"),
            Self::Universe => f.write_str("universe"),
            Self::Other(id) => write!(f, "{:04x}", id & 0xffff),
        }
    }
}

/// A number that may be missing.
struct Number<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Number<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("null"),
        }
    }
}

impl Engine {
    /// Writes down what happens, if somebody wants to know.
    #[inline]
    pub(crate) fn tell(&mut self, entry: impl FnOnce(&Self) -> Entry) {
        if self.trace.is_some() {
            self.write_down(entry);
        }
    }

    #[cold]
    fn write_down(&mut self, entry: impl FnOnce(&Self) -> Entry) {
        // Whoever has left does not ask the platform for the time.
        let Some(mut trace) = self.trace.take().filter(|_| !self.process.has_left()) else {
            return;
        };
        let at = self.platform.now().as_nanos();
        if trace.write(at, &entry(self)) {
            self.trace = Some(trace);
        } else {
            tracing::warn!(target: "fampi::trace", "the trace cannot be written: it ends here");
        }
    }

    pub(super) fn start_entry(&self, key: BlockKey) -> Entry {
        let block = self.block(key);
        let comm = self.comm_name(block.comm);
        Entry::Started { block: block.serial, number: block.scope.0, level: block.level, comm }
    }

    pub(super) fn comm_name(&self, key: CommKey) -> CommName {
        let comm = self.comm(key);
        match comm.data {
            None => CommName::Universe,
            Some(_) if comm.is_world() => CommName::World,
            Some(_) => CommName::Other(comm.id.0),
        }
    }

    /// The place of this process in the roster of the job.
    pub(crate) fn place_entry(&self) -> Entry {
        let roster = &self.job.roster;
        let me = self.job.universe.map(|key| self.comm(key).me);
        let rank = me.and_then(|me| roster.rank_of(me));
        let role = match rank {
            None => "spare",
            Some(_) if self.job.replacement => "replacement",
            Some(_) => "rank",
        };
        Entry::Placed {
            process: me.and_then(|me| roster.processes.get(me.index()).copied()),
            rank: rank.map(|rank| (rank, roster.origins[rank.index()])),
            generation: roster.generation,
            role,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{rc::Rc, string::ToString, vec::Vec};
    use core::cell::RefCell;

    use super::*;
    use crate::fault::{Fault, FaultCode};

    #[derive(Clone, Default)]
    struct Sink(Rc<RefCell<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn started(block: u64) -> Entry {
        Entry::Started { block, number: block, level: Level::Global, comm: CommName::World }
    }

    #[test]
    fn every_entry_is_a_line_of_json() {
        let fault = Fault {
            comm: crate::ids::CommId(1),
            rank: Rank::new(3),
            code: FaultCode::Application(-9),
        };
        let report = FaultReport::new(alloc::vec![fault]);
        let agreed = Entry::Agreed { comm: CommName::Other(0xab_cdef), report };
        let expected = "\"is\":\"agreed\",\"comm\":\"cdef\",\
                        \"report\":\"rank 3: the application raised code -9\"";
        assert_eq!(agreed.to_string(), expected);
        let parked = Entry::Placed { process: Some(4), rank: None, generation: 0, role: "spare" };
        let expected = "\"is\":\"placed\",\"process\":4,\"rank\":null,\"origin\":null,\
                        \"generation\":0,\"role\":\"spare\"";
        assert_eq!(parked.to_string(), expected);
    }

    #[test]
    fn a_long_run_is_cut_and_a_fault_is_told_with_what_follows() {
        let sink = Sink::default();
        let mut trace = Trace::new(Box::new(sink.clone()));
        trace.blocks_left = 2;
        for block in 0..4 {
            assert!(trace.write(1, &started(block)));
            assert!(trace.write(2, &Entry::Ended { block, committed: true }));
        }
        assert!(trace.write(3, &Entry::Died { process: None, rank: Rank::new(1) }));
        assert!(trace.write(4, &started(4)));
        let text = String::from_utf8(sink.0.borrow().clone()).expect("text");
        let blocks: Vec<&str> = text.lines().filter(|line| line.contains("block")).collect();
        assert_eq!(blocks.len(), 5, "{text}");
        assert!(blocks[4].contains("\"block\":4,"), "{text}");
    }
}
