//! Faults: recorded facts about a block, and the report that every live rank holds alike.

mod cause;
mod causes;
pub(crate) mod class;
mod code;

use alloc::vec::Vec;
use core::fmt;

use crate::{
    ids::CommId,
    rank::{Rank, RankSet},
};
pub use cause::Cause;
pub use causes::Causes;
#[cfg(all(test, feature = "mpi"))]
pub(crate) use class::CLASSES;
pub use class::{class_meaning, class_name};
pub use code::{Codes, FaultCode};

/// One fact: which rank, in which communicator, why.
///
/// For the death of a process `rank` is the dead rank, for [`FaultCode::StateLost`] the one whose
/// state is gone; for every other code it is the rank that reported the fault.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fault {
    /// The communicator that the fault concerns: the block's own, or an inner block's.
    pub comm: CommId,
    /// The rank, in that communicator; for [`FaultCode::InnerBlock`], in the block's own.
    pub rank: Rank,
    /// Why.
    pub code: FaultCode,
}

/// The new faults of one block, the same on every live rank; and deaths of earlier reports, if they
/// alone have interrupted it.
///
/// `{}` says them in one line, `{:#}` in a line for each, with what to do about it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct FaultReport {
    faults: Vec<Fault>,
    /// The dead of the block's communicator, those of earlier reports as well.
    known: RankSet,
    /// How these have died.
    causes: Causes,
}

impl FaultReport {
    /// A report of these faults, sorted, each once.
    #[inline]
    pub fn new(mut faults: Vec<Fault>) -> Self {
        if faults.len() > 1 {
            faults.sort_unstable();
            faults.dedup();
        }
        Self { faults, known: RankSet::new(), causes: Causes::NONE }
    }

    /// With all the dead of the block's communicator, and how they have died.
    #[must_use]
    pub(crate) fn with_known(self, known: RankSet, causes: Causes) -> Self {
        Self { known, causes, ..self }
    }

    /// All faults in ascending order.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// All dead ranks of the block's communicator: those that this report names, and those that
    /// reports before it named.
    pub fn known_failed(&self) -> &RankSet {
        &self.known
    }

    /// Of [`known_failed`](Self::known_failed), those whose deaths have these codes.
    pub fn known_failed_with(&self, codes: Codes<'_>) -> RankSet {
        self.known.iter().filter(|rank| codes.matches(self.cause(*rank).code())).collect()
    }

    /// How a dead rank of the block's communicator has died; the same on all living ranks.
    ///
    /// [`Cause::Unknown`] where no rank that voted on the block had heard of it, and for the
    /// living. A later report that names the same death may know more.
    pub fn cause(&self, dead: Rank) -> Cause {
        self.causes.of(dead)
    }

    /// True when the block had no fault.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The ranks with a fault of these codes on this communicator (paper §3.2,
    /// `MPI_Get_failed_group`): the dead for process failures, the reporters otherwise.
    pub fn failed_group(&self, codes: Codes<'_>, comm: CommId) -> RankSet {
        let of_comm = self.faults.iter().filter(|fault| fault.comm == comm);
        of_comm.filter(|fault| codes.matches(fault.code)).map(|fault| fault.rank).collect()
    }

    /// The communicators with a fault of these codes (paper §3.2,
    /// `MPI_Get_failed_communicators`), each once, in ascending order of their identifiers.
    pub fn failed_communicators(&self, codes: Codes<'_>) -> Vec<CommId> {
        let matching = self.faults.iter().filter(|fault| codes.matches(fault.code));
        let mut comms: Vec<CommId> = matching.map(|fault| fault.comm).collect();
        comms.sort_unstable();
        comms.dedup();
        comms
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faults.is_empty() {
            return f.write_str("no fault");
        }
        let is_inner = |fault: &&Fault| fault.code == FaultCode::InnerBlock;
        let inner: Vec<CommId> = self.faults.iter().filter(is_inner).map(|it| it.comm).collect();
        for (position, fault) in self.faults.iter().enumerate() {
            let (between, long) = if f.alternate() { ("\n", true) } else { ("; ", false) };
            if position > 0 {
                f.write_str(between)?;
            }
            write!(f, "rank {}", fault.rank)?;
            if inner.contains(&fault.comm) && fault.code != FaultCode::InnerBlock {
                f.write_str(" of the inner block")?;
            }
            f.write_str(": ")?;
            write!(f, "{}", fault.code)?;
            let cause = self.cause(fault.rank);
            if fault.code == FaultCode::ProcessFailed
                && !inner.contains(&fault.comm)
                && cause.code() == fault.code
                && cause != Cause::Unknown
            {
                write!(f, " ({cause})")?;
            }
            if long {
                write!(f, "; {}", fault.code.advice())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    const HERE: CommId = CommId(1);

    fn fault(rank: u32, code: FaultCode) -> Fault {
        Fault { comm: HERE, rank: Rank::new(rank), code }
    }

    #[test]
    fn a_report_says_all_in_a_line_or_each_with_what_to_do() {
        let report = FaultReport::new(alloc::vec![
            fault(3, FaultCode::ProcessFailed),
            fault(1, FaultCode::Application(9)),
        ]);
        let line = "rank 1: the application raised code 9; rank 3: the process failed";
        assert_eq!(format!("{report}"), line);
        let long = format!("{report:#}");
        assert_eq!(long.lines().count(), 2);
        assert!(
            long.ends_with(
                "rank 3: the process failed; shrink or rebuild, then restore what it had"
            )
        );
    }

    #[test]
    fn queries_filter_by_code_and_communicator() {
        let report = FaultReport::new(alloc::vec![
            fault(3, FaultCode::ProcessFailed),
            fault(1, FaultCode::Application(9)),
            fault(3, FaultCode::ProcessFailed),
            Fault { comm: CommId(2), rank: Rank::new(0), code: FaultCode::InnerBlock },
        ]);
        assert_eq!(report.faults().len(), 3);
        let dead = report.failed_group(Codes::PROCESS_FAILURES, HERE);
        assert_eq!(dead.as_slice(), [Rank::new(3)]);
        assert_eq!(report.failed_group(Codes::Any, HERE).len(), 2);
        assert_eq!(report.failed_communicators(Codes::Any), [HERE, CommId(2)]);
        let only = Codes::Of(&[FaultCode::Application(9)]);
        assert_eq!(report.failed_communicators(only), [HERE]);
    }
}
