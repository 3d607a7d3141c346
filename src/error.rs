//! The one error type.

use alloc::{boxed::Box, format, string::String};
use core::{
    fmt,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    fault::{FaultCode, FaultReport},
    rank::Rank,
};

/// Why a call did not do what it was asked for. Faults of a block are not errors: they are the
/// outcome of the block, see [`crate::Outcome`].
///
/// It is one sentence, also by `{:?}`, so that a `main` may return it: there the rank of this
/// process comes first, if it has one.
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request inside a block failed, was interrupted or timed out. Seen by this rank; leave
    /// the block with `?` (which votes *no*) or go on to `finish`, the block will be faulty.
    #[error("a request of the block failed: {0}; leave the block or finish it")]
    Request(FaultCode),

    /// A wait inside a block reached its timeout; nothing is decided, wait again. This rank.
    #[error("the wait reached its timeout; wait again or finish the block")]
    WaitTimedOut,

    /// The closure of a block returned this error of the application. This rank.
    #[error("the application raised code {0}")]
    Raised(i32),

    /// A rank outside of the communicator. This rank; nothing was started.
    #[error("rank {rank} does not exist in a communicator of {size} ranks")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// Number of ranks.
        size: u32,
    },

    /// A tag beyond the limit. This rank; nothing was started.
    #[error("tag {tag} is too large; use tags from 0 to {max}")]
    TagTooLarge {
        /// The tag asked for.
        tag: u32,
        /// The greatest tag.
        max: u32,
    },

    /// So many older blocks of the communicator are not decided on this rank that a message of this
    /// one could be received in one of them. This rank; nothing was started.
    #[error(
        "too many older blocks are open for a message in this one; wait for some of them first"
    )]
    TooManyOpen,

    /// The reduction is not defined for the element type. This rank; nothing was started.
    #[error("this reduction is not defined for floating-point numbers; use sum, product, min, max")]
    NoSuchReduction,

    /// A buffer cannot be divided among the ranks, or neighbours. This rank; nothing was started.
    #[error("{elements} elements cannot be divided into {size} equal parts; give counts")]
    UnevenParts {
        /// Elements of the buffer.
        elements: usize,
        /// Number of parts.
        size: u32,
    },

    /// An operation was given counts for fewer or more ranks, or neighbours. This rank; nothing was
    /// started.
    #[error("{counts} counts do not describe {size} parts; give one per rank or neighbour")]
    WrongCounts {
        /// Number of counts.
        counts: usize,
        /// Number of parts.
        size: u32,
    },

    /// A buffer is not as long as its parts together. This rank; nothing was started.
    #[error("the parts have {expected} elements, the buffer {elements}; give a buffer for all")]
    WrongLength {
        /// The sum of the counts.
        expected: usize,
        /// Elements of the buffer.
        elements: usize,
    },

    /// A rank was named twice where each is named once. This rank; nothing was done.
    #[error("rank {rank} is named twice; name each rank once")]
    RankTwice {
        /// The rank.
        rank: Rank,
    },

    /// A group has processes that do not belong to the communicator. This rank; nothing was
    /// started.
    #[error("the group has processes of other communicators; intersect it with this one's group")]
    NotInCommunicator,

    /// The lengths of a grid do not make as many places as there are ranks. This rank.
    #[error("lengths of {places} places do not fit {size} ranks; give 0 for lengths to be chosen")]
    WrongGrid {
        /// The product of the lengths given.
        places: u32,
        /// Number of ranks.
        size: u32,
    },

    /// A list has not one entry for each dimension of a grid. This rank; nothing was done.
    #[error("the grid has {expected} dimensions, {found} were given; give one entry for each")]
    WrongDimensions {
        /// Dimensions of the grid.
        expected: u32,
        /// Entries given.
        found: u32,
    },
    /// A section reaches beyond its array. This rank; nothing was started.
    #[error("{start}..{end} is no range of axis {axis}, which has {length}; give ranges inside")]
    OutsideOfArray {
        /// The axis, from 0.
        axis: usize,
        /// Where the range starts.
        start: usize,
        /// Where the range ends.
        end: usize,
        /// Length of the axis.
        length: usize,
    },

    /// A section is used by another request, and one of the two writes. This rank; nothing was
    /// started.
    #[error("another request uses elements of this section; wait for it, or take other elements")]
    SectionInUse,

    /// Requests that are not over use the elements of an array or a channel, or a caller reads
    /// them. This rank; nothing was started.
    #[error("its elements are in use; end the block of their requests, or allocate others")]
    ArrayInUse,

    /// A rank makes a window with the number of one that it has. This rank; nothing was made.
    #[error("window {number} of this communicator exists; drop it first, or take another number")]
    WindowExists {
        /// The number of the window.
        number: u32,
    },

    /// A block uses a window of another communicator. This rank; nothing was started.
    #[error("the window belongs to another communicator; make one on that of the block")]
    ForeignWindow,

    /// A request of another block, or one whose buffer was taken before. This rank.
    #[error("the request does not belong to this block or its buffer was taken already")]
    NoSuchRequest,

    /// The request is not complete, its buffer still belongs to MPI. This rank.
    #[error("the request is not complete; wait for it before taking its buffer")]
    NotComplete,

    /// The buffer of a request that never completed is still in MPI's hands. It can be taken once
    /// MPI has let go of it, or is freed then. This rank.
    #[error(
        "the request did not complete and MPI may still use its buffer; \
         take it later or allocate another"
    )]
    Quarantined,

    /// Something was asked of a local block that ranks have to agree upon. This rank; nothing was
    /// started.
    #[error("a local block is not agreed upon by the ranks; use a global one")]
    NotGlobal,

    /// What a block was to make does not exist, as it did not commit; or a step of a run cannot go
    /// on after [`Step::commit`](crate::Step::commit), which it has to pass on by `?`. All living
    /// ranks see it.
    #[error("the block did not commit, so what it asked for does not exist; try it again")]
    NotCommitted,

    /// Processes died while a communicator was made. All living ranks see it; nothing was made.
    #[error("a process died while the communicator was made; recover and make it again")]
    CreationFailed,

    /// A recovery was tried as often as allowed. All living ranks see it.
    #[error("the recovery failed {attempts} times in a row: {why}")]
    RecoveryExhausted {
        /// Number of attempts.
        attempts: u32,
        /// Why the last one failed, as far as this rank has seen.
        why: String,
    },

    /// More ranks are dead than spares are left, and this world starts no new processes, as it was
    /// made by `init_from`. All living ranks see it; nothing was started.
    #[error(
        "ranks that are dead: {dead}, spares that are left: {spares}, and a world of `init_from` \
         starts no processes; start the job with more spares, or shrink instead"
    )]
    TooFewSpares {
        /// Number of ranks that no process stands for.
        dead: u32,
        /// Number of spares that live.
        spares: u32,
    },

    /// The policy of a run stopped it because of these faults. All living ranks see it.
    #[error("the policy stopped the run: {report}{}; handle it, or take a policy that goes on",
        here.as_ref().map(|error| alloc::format!("; here: {error}")).unwrap_or_default())]
    Stopped {
        /// The faults, the same on all ranks.
        report: FaultReport,
        /// With which error this rank left the last block, if it did.
        here: Option<Box<Self>>,
    },

    /// The policy of a run wants to shrink, but replacements lack their states. All living ranks.
    #[error("replacements have not got their states yet; rebuild once more before shrinking")]
    CannotShrink,

    /// The policy of a run wants to rebuild after it has shrunk. All living ranks see it.
    #[error("the run has shrunk, and a rebuild cannot divide the states again; shrink once more")]
    CannotRebuild,

    /// A communicator is being made already; only one can be at a time. This rank.
    #[error("another communicator is being made or recovered; wait for it first")]
    CreationPending,

    /// A rank died together with those that kept its state. All living ranks see it. Ranks are
    /// numbered as in the world that asks for the state.
    #[error("the state of rank {rank} is lost: {}", partner.map_or_else(
        || String::from("more ranks failed than it was kept for"),
        |partner| alloc::format!("it and its partner, rank {partner}, both failed")))]
    StateLost {
        /// The rank whose state is gone.
        rank: Rank,
        /// The rank that held the copy; nothing where it was not kept at a partner
        /// ([`Redundancy`](crate::Redundancy)).
        partner: Option<Rank>,
    },

    /// A state that does not consist of numbers cannot be kept in a code over a group. This rank;
    /// leave the block.
    #[error(
        "state {slot} does not consist of numbers, which a group's code needs; protect it at a \
         partner"
    )]
    NotNumbers {
        /// The number of the state.
        slot: u32,
    },

    /// A state was protected with one length and then with another. This rank; leave the block.
    #[error(
        "a protected state keeps its length of {expected} elements, {found} were given; protect \
         what grows with `protect_any_length`, or as a `Growing` state"
    )]
    LengthChanged {
        /// The length at its first use.
        expected: usize,
        /// The length now.
        found: usize,
    },

    /// No block has committed a copy of this state yet. All living ranks see it.
    #[error("no commit has protected the state yet; start again from the beginning")]
    NothingProtected,

    /// A run is to save where there are checkpoints that it does not know as its own. All living
    /// ranks see it.
    #[error(
        "{place} has checkpoints of an earlier job; go on from them by `fampi restart {place}`, or \
         choose an empty folder"
    )]
    CheckpointsExist {
        /// The folder.
        place: String,
    },

    /// A job is to go on from a checkpoint, and there is none of which all ranks have their part,
    /// undamaged. All living ranks see it.
    #[error(
        "{place} has no complete checkpoint of {ranks} ranks, nor one that they can take; start \
         with as many ranks as have saved it, on the same nodes if the folder is not shared"
    )]
    NoCheckpoint {
        /// The folder.
        place: String,
        /// The number of ranks.
        ranks: u32,
    },

    /// A state is restored with another element type than it was protected with. This rank.
    #[error("state {slot} was protected with another element type; restore it with the same")]
    StateType {
        /// The number of the state.
        slot: u32,
    },

    /// A rank has left the job, after so many blocks, while others go on. All living ranks that go
    /// on see it.
    #[error("rank {rank} had left the job after {blocks} blocks; start the same ones on all ranks")]
    Left {
        /// The rank that left.
        rank: Rank,
        /// The blocks that it had started.
        blocks: i32,
    },

    /// This rank has left the job by [`World::finalize`](crate::World::finalize). This rank.
    #[error("this rank has left the job by `finalize`: what belongs to a world ends before that")]
    HasLeft,

    /// A rank said that a step of a run was the last one, and not all ranks did. All living ranks.
    #[error("rank {rank} ended the run with a step after which others go on; decide it alike")]
    NotAllDone {
        /// The first of those that said so.
        rank: Rank,
    },

    /// The communicator was replaced by a rebuild. This rank.
    #[error("the communicator was replaced by a rebuild; use the new world and its children")]
    Abandoned,

    /// No rebuild knows of the communicator: it was shrunk from a part of the world, beside which
    /// other ranks live, or derived from a shrunken one that has been given up. This rank.
    #[error(
        "no rebuild knows of what was shrunk from a part, or lost its parent; rebuild the world"
    )]
    NoPlace,

    /// A replacement was started but the job no longer waits for it. Only the replacement.
    #[error("the job no longer waits for this replacement")]
    NotNeeded,

    /// The MPI library lacks what fampi needs, or is not set up for it. Raised by `init`.
    #[error("{0}")]
    Unsupported(String),

    /// A process died before the job had started. Raised by `init`, on all living ranks that came
    /// so far; a job has no data to lose then.
    #[error("a process died while the job started; start it again")]
    DiedAtStart,

    /// A call of MPI failed with this error class where no fault of a peer explains it.
    #[error("{call}: {}", FaultCode::Mpi(*class))]
    Mpi {
        /// The function.
        call: &'static str,
        /// The error class.
        class: i32,
    },
}

impl Error {
    /// True for an error that all living ranks get alike. Who returns it from `main`, having
    /// started no other block since, leaves the job in order (see [`crate::World`]).
    #[must_use]
    pub const fn is_agreed(&self) -> bool {
        matches!(
            self,
            Self::Stopped { .. }
                | Self::StateLost { .. }
                | Self::NothingProtected
                | Self::NotAllDone { .. }
                | Self::Left { .. }
                | Self::RecoveryExhausted { .. }
                | Self::TooFewSpares { .. }
                | Self::CannotShrink
                | Self::CannotRebuild
                | Self::CreationFailed
                | Self::CheckpointsExist { .. }
                | Self::NoCheckpoint { .. }
        )
    }
}

/// The rank of this process, once it is one of a real job.
static HERE: AtomicU32 = AtomicU32::new(NOWHERE);
const NOWHERE: u32 = u32::MAX;

/// From now on errors are shown with this rank.
#[cfg(any(feature = "mpi", docsrs))]
pub(crate) fn show_rank(rank: Rank) {
    HERE.store(rank.number(), Relaxed);
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In one piece: ranks whose `main` returns the same error write it at once, and a stream
        // without a buffer mixes pieces of several.
        f.write_str(&match HERE.load(Relaxed) {
            NOWHERE => format!("{self}"),
            rank => format!("rank {rank}: {self}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces in which something is written.
    #[derive(Default)]
    struct Pieces(alloc::vec::Vec<String>);

    impl fmt::Write for Pieces {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.0.push(piece.into());
            Ok(())
        }
    }

    #[test]
    fn an_error_is_shown_as_its_sentence() {
        let error = Error::StateLost { rank: Rank::new(1), partner: Some(Rank::new(3)) };
        assert_eq!(format!("{error:?}"), format!("{error}"));
        assert!(error.is_agreed() && !Error::WaitTimedOut.is_agreed());
        let mut pieces = Pieces::default();
        fmt::write(&mut pieces, format_args!("{error:?}")).expect("no limit");
        assert_eq!(pieces.0, [format!("{error}")], "in one, as ranks write at once");
    }
}
