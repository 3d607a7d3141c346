//! Faults: recorded facts about a block, and the report that every live rank holds alike.

use alloc::vec::Vec;
use core::fmt;

use crate::{
    ids::CommId,
    rank::{Rank, RankSet},
};

/// Writes the one table of fault codes: name, stable number, sentence.
macro_rules! fault_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $sentence:literal;)*) => {
        /// Why a request, a rank or a whole block is faulty.
        ///
        /// The kinds have stable numbers, never reused; [`FaultCode::Mpi`] and
        /// [`FaultCode::Application`] carry a value of their own beside the kind.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum FaultCode {
            $($(#[$doc])* $name,)*
            /// An operation failed in MPI with this error class (kind 16).
            Mpi(i32),
            /// The application raised this code with `raise_error` (kind 17).
            Application(i32),
        }

        impl FaultCode {
            /// The stable number of the kind, and the value that goes with it (0 without one).
            pub const fn to_numbers(self) -> (u8, i32) {
                match self {
                    $(Self::$name => ($number, 0),)*
                    Self::Mpi(class) => (16, class),
                    Self::Application(code) => (17, code),
                }
            }

            /// The code with these numbers, if the kind is in the table.
            pub const fn from_numbers(kind: u8, value: i32) -> Option<Self> {
                match kind {
                    $($number => Some(Self::$name),)*
                    16 => Some(Self::Mpi(value)),
                    17 => Some(Self::Application(value)),
                    _ => None,
                }
            }
        }

        impl fmt::Display for FaultCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($sentence),)*
                    Self::Mpi(class) => write!(f, "an operation failed with MPI class {class}"),
                    Self::Application(code) => write!(f, "the application raised code {code}"),
                }
            }
        }
    };
}

fault_codes! {
    /// A process died; its node lives, as far as anybody knows (a soft failure).
    ProcessFailed = 1, "the process failed";
    /// A node was lost with all its processes (a hard failure).
    NodeFailed = 2, "the node of the process failed";
    /// A request was not complete when the deadline of `finish` passed.
    TimedOut = 3, "a request was not complete at the block's deadline";
    /// The block was cut short because another rank's failure had doomed it.
    Interrupted = 4, "the block was cut short by a failure elsewhere";
    /// A rank left the block early: an error returned by `?`, a dropped block.
    LeftBlock = 5, "a rank left the block early";
    /// A rank gave up the communicator, so it starts no further block on it.
    Abandoned = 6, "a rank gave the communicator up";
    /// A block nested in this one was faulty and nobody handled it.
    InnerBlock = 7, "an inner block was faulty and not handled";
    /// A rank and the partner that held its copy died together; the rank is the one whose state
    /// is gone.
    StateLost = 8, "the state is lost, its copy died with the partner";
    /// A state was to be restored that no commit has protected yet.
    NothingProtected = 9, "no commit has protected the state yet";
}

impl FaultCode {
    /// True for the death of a process, soft or hard.
    pub const fn is_process_failure(self) -> bool {
        matches!(self, Self::ProcessFailed | Self::NodeFailed)
    }
}

/// Which codes a query asks for.
#[derive(Clone, Copy, Debug)]
pub enum Codes<'a> {
    /// The wildcard of the paper, `MPI_ERR_CODES_ANY`: all codes match.
    Any,
    /// Any of these codes.
    Of(&'a [FaultCode]),
}

impl Codes<'_> {
    /// The death of processes, soft and hard.
    pub const PROCESS_FAILURES: Codes<'static> =
        Codes::Of(&[FaultCode::ProcessFailed, FaultCode::NodeFailed]);

    /// True when `code` is asked for.
    pub fn matches(self, code: FaultCode) -> bool {
        match self {
            Self::Any => true,
            Self::Of(codes) => codes.contains(&code),
        }
    }
}

/// One fact: which rank, in which communicator, why.
///
/// For the death of a process `rank` is the dead rank; for every other code it is the rank that
/// reported the fault.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fault {
    /// The communicator that the fault concerns: the block's own, or an inner block's.
    pub comm: CommId,
    /// The rank, in the block's communicator.
    pub rank: Rank,
    /// Why.
    pub code: FaultCode,
}

/// The new faults of one block, the same on every live rank.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct FaultReport {
    faults: Vec<Fault>,
}

impl FaultReport {
    /// A report of these faults, sorted, each once.
    #[inline]
    pub fn new(mut faults: Vec<Fault>) -> Self {
        if faults.len() > 1 {
            faults.sort_unstable();
            faults.dedup();
        }
        Self { faults }
    }

    /// All faults in ascending order.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
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
        for (position, fault) in self.faults.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            write!(f, "rank {}: {}", fault.rank, fault.code)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: CommId = CommId(1);

    fn fault(rank: u32, code: FaultCode) -> Fault {
        Fault { comm: HERE, rank: Rank::new(rank), code }
    }

    #[test]
    fn numbers_and_codes_convert_both_ways() {
        for kind in 0..=u8::MAX {
            if let Some(code) = FaultCode::from_numbers(kind, 7) {
                assert_eq!(code.to_numbers().0, kind);
                assert!(!alloc::string::ToString::to_string(&code).is_empty());
            }
        }
        assert_eq!(FaultCode::Application(-3).to_numbers(), (17, -3));
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
