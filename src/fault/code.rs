//! The table of fault codes, their numbers and names, and filters over them.
//!
//! A code is a kind of fault, for two kinds with a value. Outside of Rust a code is one integer,
//! [`FaultCode::number`]: an error class of MPI stands for itself, so does a code that the
//! application raised, and the other kinds have numbers far away from both.

use core::fmt;

use crate::ids::BlockId;

use super::class::{
    INTERN, OTHER, PENDING, PROC_FAILED, PROC_FAILED_PENDING, REVOKED, UNKNOWN, class_meaning,
    class_name,
};

/// The number of a kind without a value is this and the number of its kind. Codes of an
/// application should not lie in the 256 numbers from here on.
const NUMBERS_FROM: i32 = 0x0fa0_0000;

/// Writes the one table of fault codes: stable number, name in C, sentence, what to do.
macro_rules! fault_codes {
    ($(
        $(#[$doc:meta])*
        $name:ident = $number:literal, $c_name:literal, $sentence:literal, $advice:literal;
    )*) => {
        /// Why a request, a rank or a whole block is faulty.
        ///
        /// The kinds have stable numbers, never reused; [`FaultCode::Finalized`],
        /// [`FaultCode::Mpi`] and [`FaultCode::Application`] carry a value of their own beside the
        /// kind.
        ///
        /// `{}` says what happened, `{:#}` also what to do about it.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum FaultCode {
            $($(#[$doc])* $name,)*
            /// The rank has left the job, after it had started so many blocks (kind 12).
            Finalized(i32),
            /// An operation failed in MPI with this error class (kind 16).
            Mpi(i32),
            /// The application raised this code with `raise_error` (kind 17).
            Application(i32),
        }

        impl FaultCode {
            /// The codes without a value, in the order of the table.
            pub const PLAIN: &'static [Self] = &[$(Self::$name),*];

            /// The stable number of the kind, and the value that goes with it (0 without one).
            pub const fn to_numbers(self) -> (u8, i32) {
                match self {
                    $(Self::$name => ($number, 0),)*
                    Self::Finalized(blocks) => (12, blocks),
                    Self::Mpi(class) => (16, class),
                    Self::Application(code) => (17, code),
                }
            }

            /// The code with these numbers, if the kind is in the table.
            pub const fn from_numbers(kind: u8, value: i32) -> Option<Self> {
                match kind {
                    $($number => Some(Self::$name),)*
                    12 => Some(Self::Finalized(value)),
                    16 => Some(Self::Mpi(value)),
                    17 => Some(Self::Application(value)),
                    _ => None,
                }
            }

            /// The name in C. Those of the papers are the same with `MPI_` for `FAMPI_`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $c_name,)*
                    Self::Finalized(_) => "FAMPI_ERR_FINALIZED",
                    Self::Mpi(class) => match class_name(class) {
                        Some(name) => name,
                        None => "an MPI error class of the user",
                    },
                    Self::Application(_) => "a code of the application",
                }
            }

            /// What to do about it, as the end of a sentence.
            pub const fn advice(self) -> &'static str {
                match self {
                    $(Self::$name => $advice,)*
                    Self::Finalized(_) => "start the same blocks on all ranks before one finalizes",
                    Self::Mpi(_) => "mend what the rank gave to MPI, or treat it as a lost message",
                    Self::Application(_) => "do what the application means by this code",
                }
            }

            fn sentence(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($sentence),)*
                    Self::Finalized(blocks) => {
                        write!(f, "the rank had left the job after {blocks} blocks")
                    }
                    Self::Mpi(class) => describe_class(class, f),
                    Self::Application(code) => write!(f, "the application raised code {code}"),
                }
            }
        }
    };
}

fault_codes! {
    /// A process died; its node lives, as far as is known (a soft failure).
    /// [`FaultReport::cause`](super::FaultReport::cause) says how.
    ProcessFailed = 1, "FAMPI_ERR_PROC_FAILED_SOFT", "the process failed",
        "shrink or rebuild, then restore what it had";
    /// The node of a process was lost with all its processes (a hard failure). Reports say it of
    /// each of them; a request that fails by a death has [`Self::ProcessFailed`].
    NodeFailed = 2, "FAMPI_ERR_PROC_FAILED_HARD", "the node of the process failed",
        "shrink, or rebuild on another node; what was kept on this one is lost";
    /// A request was not complete when the deadline of `finish` passed.
    TimedOut = 3, "FAMPI_ERR_TIMEOUT", "a request was not complete at the block's deadline",
        "try again, with more time if the others are slow";
    /// The block was cut short because another rank's failure had doomed it.
    Interrupted = 4, "FAMPI_ERR_INTERRUPTED", "the block was cut short by a failure elsewhere",
        "mend the other faults of the report, then try again";
    /// A rank left the block early: an error returned by `?`, a dropped block.
    LeftBlock = 5, "FAMPI_ERR_LEFT", "a rank left the block early",
        "mend the error that this rank got, then try again";
    /// A rank gave up the communicator, so it starts no further block on it.
    Abandoned = 6, "FAMPI_ERR_ABANDONED", "a rank gave the communicator up",
        "give it up, too, or keep it on all ranks";
    /// A block nested in this one was faulty, and that was not handled.
    InnerBlock = 7, "FAMPI_ERR_INNER", "an inner block was faulty and not handled",
        "mend what the inner block reported on its ranks, then try again";
    /// A rank and the partner that held its copy died together; the rank is the one whose state
    /// is gone.
    StateLost = 8, "FAMPI_ERR_STATE_LOST", "the state is lost, its copy died with the partner",
        "start again from a checkpoint outside of the job";
    /// A state was to be restored that no commit has protected yet.
    NothingProtected = 9, "FAMPI_ERR_NOTHING_PROTECTED", "no commit has protected the state yet",
        "start again from the beginning";
    /// A block of level `WithCollective` was finished without an operation that needs all ranks.
    NoCollective = 10, "FAMPI_ERR_NO_COLLECTIVE",
        "a block that was started with `WithCollective` has no collective that needs all ranks",
        "post an iallreduce or a barrier in it, or start it with `Global`";
    /// The rank brought values to a reduction in the commit, and not all ranks brought as many
    /// numbers of the same type for the same operation.
    Mismatched = 11, "FAMPI_ERR_MISMATCHED", "not all ranks gave the commit the same reduction",
        "end the block on all ranks with as many numbers of one type, for one operation";
    /// The rank said that a step of a run was the last one, and not all ranks said so.
    NotAllDone = 13, "FAMPI_ERR_NOT_ALL_DONE", "the rank ended the run, and others go on",
        "decide by what all ranks know whether a step is the last one";
    /// The rank took part in an agreement, and others ended a block.
    NotAgreed = 14, "FAMPI_ERR_NOT_AGREED", "the rank agrees on a flag, and others end a block",
        "start blocks and agreements on all ranks in the same order";
    /// More ranks died between two commits than the redundancy of a state survives; the rank is one
    /// whose state is gone.
    TooManyLost = 15, "FAMPI_ERR_TOO_MANY_LOST",
        "the state is lost, more ranks failed than it was kept for",
        "start again from a checkpoint outside of the job";
    /// A message could not start, as the tags of its block are those of an older one that is not
    /// decided on this rank.
    TooManyOpen = 18, "FAMPI_ERR_TOO_MANY_OPEN",
        "too many blocks are open for a message in this one",
        "wait for older blocks before messages start in newer ones";
    /// A communicator that was to be made in the block was not made, on any living rank.
    CreationFailed = 147, "FAMPI_ERR_CREATION", "a communicator could not be made in the block",
        "mend the other faults of the report, then make it again";
}

fn describe_class(class: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (class_name(class), class_meaning(class)) {
        (Some(name), Some(meaning)) => {
            write!(f, "an operation failed in MPI with {name} (class {class}): {meaning}")
        }
        _ => write!(f, "an operation failed in MPI with class {class}"),
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence(f)?;
        if f.alternate() { write!(f, "; {}", self.advice()) } else { Ok(()) }
    }
}

impl FaultCode {
    /// True for the death of a process, soft or hard.
    pub const fn is_process_failure(self) -> bool {
        matches!(self, Self::ProcessFailed | Self::NodeFailed)
    }

    /// The code of a rank that has left after this many blocks.
    pub(crate) fn finalized(blocks: BlockId) -> Self {
        Self::Finalized(i32::try_from(blocks.0).unwrap_or(i32::MAX))
    }

    /// True for what is a fault unless all ranks of a block say it.
    pub(crate) const fn is_for_all(self) -> bool {
        matches!(self, Self::Finalized(_) | Self::NotAllDone | Self::NotAgreed)
    }

    /// True for an error class that says nothing but that the operation failed. Open MPI ends its
    /// collectives with such a one when a message of theirs failed, whatever that failed with.
    pub(crate) const fn is_unspecific(self) -> bool {
        matches!(self, Self::Mpi(OTHER | UNKNOWN | INTERN))
    }

    /// The code of an operation that failed in MPI with this error class.
    ///
    /// # MPI
    ///
    /// `MPI_ERR_PROC_FAILED` and `MPI_ERR_PROC_FAILED_PENDING` are the death of a process; MPI does
    /// not say whether its node lives. `MPI_ERR_REVOKED` is an interruption, as only interruptions
    /// revoke what a block runs on. Numbers are those of Open MPI 5.
    pub const fn from_mpi_class(class: i32) -> Self {
        match class {
            PROC_FAILED | PROC_FAILED_PENDING => Self::ProcessFailed,
            REVOKED => Self::Interrupted,
            class => Self::Mpi(class),
        }
    }

    /// The error class of MPI that says most of this code, for those who understand nothing else:
    /// `MPI_ERR_OTHER` where MPI has no word for it.
    pub const fn to_mpi_class(self) -> i32 {
        match self {
            Self::ProcessFailed | Self::NodeFailed => PROC_FAILED,
            Self::Interrupted => REVOKED,
            Self::TimedOut => PENDING,
            Self::Mpi(class) => class,
            _ => OTHER,
        }
    }

    /// The code as one integer: what C knows it by.
    pub const fn number(self) -> i32 {
        match self.to_numbers() {
            (16 | 17, value) => value,
            (kind, _) => NUMBERS_FROM + kind as i32,
        }
    }

    /// True when this integer asks for the code: its [`Self::number`], one of the wildcards
    /// [`Codes::NUMBER_OF_ANY`] and [`Codes::NUMBER_OF_PROCESS_FAILURES`], or the class
    /// `MPI_ERR_PROC_FAILED` for the death of a process.
    pub const fn has_number(self, number: i32) -> bool {
        match number {
            Codes::NUMBER_OF_ANY => true,
            Codes::NUMBER_OF_PROCESS_FAILURES | PROC_FAILED if self.is_process_failure() => true,
            number => self.number() == number,
        }
    }
}

/// Which codes a query asks for.
#[derive(Clone, Copy, Debug)]
pub enum Codes<'a> {
    /// The wildcard of the paper, `MPI_ERR_RCODES_ANY`: all codes match.
    Any,
    /// Any of these codes.
    Of(&'a [FaultCode]),
    /// Whatever MPI refused, with any error class.
    AnyOfMpi,
    /// Whatever the application raised, with any code.
    AnyOfApplication,
    /// Any of these integers, see [`FaultCode::has_number`].
    Numbers(&'a [i32]),
}

impl Codes<'_> {
    /// The death of processes, soft and hard.
    pub const PROCESS_FAILURES: Codes<'static> =
        Codes::Of(&[FaultCode::ProcessFailed, FaultCode::NodeFailed]);

    /// The integer that asks for all codes: `FAMPI_ERR_RCODES_ANY`.
    pub const NUMBER_OF_ANY: i32 = NUMBERS_FROM + 255;

    /// The integer that asks for the death of processes, soft and hard: `FAMPI_ERR_PROC_FAILED`.
    pub const NUMBER_OF_PROCESS_FAILURES: i32 = NUMBERS_FROM;

    /// True when `code` is asked for.
    pub fn matches(self, code: FaultCode) -> bool {
        match self {
            Self::Any => true,
            Self::Of(codes) => codes.contains(&code),
            Self::AnyOfMpi => matches!(code, FaultCode::Mpi(_)),
            Self::AnyOfApplication => matches!(code, FaultCode::Application(_)),
            Self::Numbers(numbers) => numbers.iter().any(|number| code.has_number(*number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString, vec::Vec};

    #[test]
    fn the_numbers_of_the_table_are_never_changed() {
        let kinds: Vec<u8> = FaultCode::PLAIN.iter().map(|code| code.to_numbers().0).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 18, 147]);
        assert_eq!(FaultCode::Finalized(4).to_numbers(), (12, 4));
        assert_eq!(FaultCode::Mpi(15).to_numbers(), (16, 15));
        assert_eq!(FaultCode::Application(-3).to_numbers(), (17, -3));
        assert_eq!(FaultCode::TimedOut.number(), 262_144_003);
        for kind in 0..=u8::MAX {
            if let Some(code) = FaultCode::from_numbers(kind, 7) {
                assert_eq!(code.to_numbers().0, kind);
            }
        }
    }

    #[test]
    fn every_code_has_a_name_of_its_own_and_says_what_happened_and_what_to_do() {
        let (mpi, own) = (FaultCode::Mpi(15), FaultCode::Application(5));
        let others = [FaultCode::Finalized(1), mpi, own];
        let all: Vec<FaultCode> = FaultCode::PLAIN.iter().copied().chain(others).collect();
        for (at, code) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.name() != code.name()));
            let (short, long) = (code.to_string(), format!("{code:#}"));
            assert_eq!(long, format!("{short}; {}", code.advice()));
            assert!(short.len() > 10 && code.advice().len() > 10, "{long}");
            assert!(!long.ends_with('.') && long.starts_with(char::is_lowercase), "{long}");
        }
        let said = "an operation failed in MPI with MPI_ERR_TRUNCATE (class 15): the message is \
                    longer than the buffer; receive it into a longer one";
        assert_eq!(mpi.to_string(), said);
        assert_eq!(FaultCode::Mpi(1000).to_string(), "an operation failed in MPI with class 1000");
    }

    #[test]
    fn classes_of_mpi_come_and_go_without_loss() {
        for class in -1..200 {
            let code = FaultCode::from_mpi_class(class);
            let back = if class == PROC_FAILED_PENDING { PROC_FAILED } else { class };
            assert_eq!(code.to_mpi_class(), back);
            assert_eq!(code == FaultCode::Mpi(class), !(75..=77).contains(&class));
        }
        assert_eq!(FaultCode::NodeFailed.to_mpi_class(), PROC_FAILED);
        assert_eq!(FaultCode::TimedOut.to_mpi_class(), PENDING);
        assert_eq!(FaultCode::StateLost.to_mpi_class(), OTHER);
    }

    #[test]
    fn an_integer_asks_for_its_code_and_wildcards_for_many() {
        let all = FaultCode::PLAIN;
        for code in all {
            let of_number = Codes::Numbers(&[code.number()]).matches(*code);
            let others = all.iter().filter(|other| other.has_number(code.number())).count();
            assert!(of_number && others == 1, "{code}");
            assert!(code.has_number(Codes::NUMBER_OF_ANY));
            for wildcard in [Codes::NUMBER_OF_PROCESS_FAILURES, PROC_FAILED] {
                assert_eq!(code.has_number(wildcard), code.is_process_failure(), "{code}");
            }
            assert!(!Codes::AnyOfMpi.matches(*code) && !Codes::AnyOfApplication.matches(*code));
        }
        let (mpi, own) = (FaultCode::Mpi(15), FaultCode::Application(15));
        assert!(mpi.has_number(15) && own.has_number(15) && !own.has_number(16));
        assert!(Codes::AnyOfMpi.matches(mpi) && !Codes::AnyOfMpi.matches(own));
        assert!(Codes::AnyOfApplication.matches(own) && !Codes::AnyOfApplication.matches(mpi));
    }
}
