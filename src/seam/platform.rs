//! What the engine needs from the world it runs in: the seam between deciding and doing.
//!
//! There are two worlds, `mpi` (real) and `sim` (virtual time). A platform moves frames between
//! processes (control), runs the application's operations (data), makes communicators, and tells
//! the time. It never decides anything about blocks or recoveries.
//!
//! A **universe** is a set of processes with a private control channel: ranks of the application,
//! parked spares, replacements. Processes are named by their position in it, a [`Rank`]. The
//! launch is universe 0; each rebuild makes a new one, and the old one stays usable among its
//! survivors, so that late questions about old blocks are still answered.
//!
//! A **data communicator** carries operations of the application. It has numbered **contexts**;
//! a message of one context never matches a receive of another. Contexts 0 and 1 exist from the
//! start, later ones are made in the background; retiring a context ends its pending operations.
//!
//! Calls named *collective* block until the other processes named make the same call. They are
//! short, may fail on some ranks and succeed on others when a process dies in them, and never
//! hang: the caller has agreed with the others to make the call, and confirms the result by a
//! commit afterwards. A death ends most of them. Two, a shrink and a regroup, go on over the living
//! instead, and would wait for ever for one that still has a question to a process in the call;
//! therefore the processes **meet** before, which does not block.

use alloc::vec::Vec;
use core::{any::Any, time::Duration};

pub use super::operation::{
    Envelope, FileAccess, FileId, FileMode, Found, Lane, MessageId, Operation, Post, PostId,
    Posted, Progress, Settled, Status, Way,
};
use super::{
    buffer::{AnyBuffer, Buffer},
    pulse::Pulse,
    record::Record,
};
pub use crate::ids::{DataId, UniverseId};
pub use crate::protocol::membership::evidence::{Opinion, Tested, Tests};
use crate::{
    error::Error,
    fault::{Cause, FaultCode},
    ids::CommId,
    protocol::{
        codec::{self, Frame},
        exchange::Shape,
        fused::Values,
        message::Yes,
    },
    rank::{Rank, RankSet},
};

/// How this process came to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// Started by the launcher at this position of universe 0, whose last `spares` processes are
    /// parked spares.
    Launched {
        /// Position in universe 0.
        rank: Rank,
        /// Number of processes launched, spares included.
        size: u32,
        /// How many of them are spares.
        spares: u32,
        /// Replacements may be spawned when there are no spares left; the same for all of them.
        spawns: bool,
    },
    /// Spawned to replace a failed process; [`Request::Join`] comes first.
    Spawned,
}

/// The least greatest tag on the wire with which the blocks of a program can be told apart.
pub(crate) const LEAST_MAX_TAG: u32 = (1 << 23) - 1;

/// What does not change as long as this process lives.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How this process came to be.
    pub origin: Origin,
    /// The shape of the exchanges of votes; the same on all processes of a job, replacements too.
    pub shape: Shape,
    /// How often a wait polls in vain before it reads the clock and calls [`Platform::idle`].
    pub patience: u32,
    /// The greatest tag on the wire.
    pub max_tag: u32,
    /// The size of the pages by which states are compared with their last valid copies, in bytes;
    /// the same on all processes of a job.
    pub page_bytes: usize,
    /// The step of a run, counted from 1, at whose beginning this process is to die, by a plan.
    pub killed_at: Option<u64>,
}

/// A control message that leaves.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// A frame.
    Frame(&'a [u8]),
    /// A message of the fast path, which the platform may put into another form.
    Yes(CommId, &'a Yes),
    /// One with values.
    Fused(CommId, &'a Yes, &'a Values),
}

impl Outgoing<'_> {
    /// The message as a frame.
    pub fn frame(&self) -> Frame {
        match *self {
            Self::Frame(frame) => Frame::from_slice(frame),
            Self::Yes(comm, yes) => Frame::from_slice(&codec::encode_yes(comm, yes)),
            Self::Fused(comm, yes, values) => codec::encode_fused(comm, yes, values),
        }
    }
}

/// News from the control channel.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A frame from a process of this universe.
    Frame(UniverseId, Rank, Frame),
    /// A message of the fast path that the platform has decoded on the spot.
    Yes(UniverseId, Rank, CommId, Yes),
    /// A message of the fast path with values, which [`Platform::values`] has until the next poll.
    Fused(UniverseId, Rank, CommId, Yes),
    /// A process of this universe died. Told once per universe and process.
    Failure(UniverseId, Rank),
}

/// A call of several processes that makes something.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Of all ranks of the parent: a communicator of the ranks with our colour, ordered by key,
    /// then by rank. `MPI_Comm_split`; a duplicate is a split with one colour.
    Split {
        /// The communicator that is split.
        parent: DataId,
        /// Our part; `None` for none.
        color: Option<u32>,
        /// Our place in it.
        key: u32,
    },
    /// Of the living ranks of the parent: a communicator of them in their order. It fails when the
    /// living are not all of the parent but `dead`.
    Shrink {
        /// The communicator that is shrunk.
        parent: DataId,
        /// Who is left out.
        dead: RankSet,
    },
    /// Of the living processes of the universe: a new universe of them in their order, then of
    /// `spawn` new processes. It fails when the living are not all but `dead`.
    Regroup {
        /// The universe that is left behind.
        universe: UniverseId,
        /// Who is left out.
        dead: RankSet,
        /// How many processes are started.
        spawn: u32,
        /// What this process brings: every member of the result, spawned ones by [`Self::Join`],
        /// receives what all have brought, one after the other in their order.
        brought: Vec<u8>,
    },
    /// The other side of [`Self::Regroup`], for a spawned process.
    Join,
    /// Of all processes of the universe: a data communicator of these, in this order. Each process
    /// in a group names those of its group; no two groups share a rank. A process that
    /// is in none gets none.
    Gather {
        /// The universe of the members.
        universe: UniverseId,
        /// The processes of our group.
        members: Vec<Rank>,
    },
}

/// Where processes meet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// The ranks of a communicator.
    Data(DataId),
    /// The processes of a universe.
    Universe(UniverseId),
}

/// What such a call has made.
#[derive(Clone, Debug)]
pub enum Made {
    /// A communicator, by a split, shrink or gather.
    Comm(Derived),
    /// A universe, by a regroup or join: our position there, and what was brought.
    Universe(UniverseId, Rank, Vec<u8>),
}

impl Made {
    /// The communicator that was asked for.
    pub fn comm(self) -> Derived {
        let Self::Comm(made) = self else { unreachable!("asked for a communicator") };
        made
    }

    /// The universe that was asked for.
    pub fn universe(self) -> (UniverseId, Rank, Vec<u8>) {
        let Self::Universe(id, me, brought) = self else { unreachable!("asked for a universe") };
        (id, me, brought)
    }
}

/// A communicator made by a collective call.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Derived {
    /// Ours; `None` when we are in no part.
    pub data: Option<DataId>,
    /// For a split, colour and key of every rank of the parent, in rank order.
    pub table: Vec<(Option<u32>, u32)>,
}

/// What this process has no use for any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unneeded {
    /// A universe: nothing more is sent or received on it.
    Universe(UniverseId),
    /// A data communicator: its pending operations end, its posts are gone.
    Data(DataId),
    /// A file, which is closed as soon as no operation uses it any more.
    File(FileId),
    /// A matched message, which is received into nowhere, so that its sender can complete.
    Message(MessageId),
}

/// How a process ends that does not go on without its job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quit {
    /// In order, successfully: a spare that was not needed. Its end does not say that the job came
    /// to its own.
    Unneeded,
    /// So that all others see it die: a replacement that no rank waits for any more, as far as they
    /// know.
    Visibly,
    /// As a process that is killed, by plan.
    Killed,
}

/// How eagerly to wait when there is nothing to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Idle {
    /// A rank waits for others: look again at once.
    Busy,
    /// A parked spare: use no core, look again within a millisecond.
    Parked,
}

/// The world.
///
/// | about | methods |
/// |---|---|
/// | this process | `setup`, `now`, `observe`, `tested`, `tested_node`, `finalize`, `quit` |
/// | control messages | `send`, `poll`, `values`, `idle`, `nodes` |
/// | deaths | `who_told`, `cause` |
/// | operations | `post`, `start`, `test`, `look`, `settle`, `cancel`, `abandon` |
/// | messages to come | `probe` |
/// | contexts | `awaits_context`, `retire_contexts`, `disturbance` |
/// | communicators, universes | `meet`, `make` |
/// | files, and what is not needed any more | `open_file`, `sync_file`, `discard` |
pub trait Platform: Any {
    /// What does not change.
    fn setup(&self) -> Setup;

    /// Time since some fixed moment of this process.
    fn now(&self) -> Duration;

    /// From now on this process does with its observer, or as if it had none. Where it shows that
    /// it makes progress, if an observer looks.
    fn observe(&mut self, _observed: bool) -> Option<Pulse> {
        None
    }

    /// What the observer of this node has counted of this process, if it tests anybody.
    fn tested(&self) -> Option<Tested> {
        None
    }

    /// What that observer has counted of the one of another node.
    fn tested_node(&self, _node: u32) -> Opinion {
        Opinion::default()
    }

    /// Ends this process's part in the world, in order; nothing may be called afterwards. True:
    /// some process of the job has died, whoever has found it.
    fn finalize(&mut self, has_losses: bool);

    /// Ends this process's part in the world, and the process.
    fn quit(&mut self, how: Quit) -> !;

    /// Sends a control message without blocking; those between two processes of a universe arrive
    /// in order, except that fast ones ([`crate::protocol::codec::is_fast`]) and others may
    /// overtake each other. To a dead process it does nothing.
    fn send(&mut self, universe: UniverseId, to: Rank, message: Outgoing<'_>);

    /// Makes progress and takes the next news, if any. `awaits` names the process whose fast
    /// frame the caller waits for; fast frames of other processes may stay where they are until
    /// they are awaited, everything else is found at each poll.
    fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming>;

    /// The values of the last [`Incoming::Fused`].
    fn values(&self) -> Option<&Values> {
        None
    }

    /// Called between polls that found nothing. The simulator lets others run here, until
    /// something happens to this process or the time `until` comes.
    fn idle(&mut self, until: Option<Duration>, how: Idle);

    /// The nodes of the processes of a universe: numbers of any kind, equal for processes that
    /// share memory, and the same wherever this is asked. Nothing where they are unknown.
    fn nodes(&self, _universe: UniverseId) -> Vec<u32> {
        Vec::new()
    }

    /// Who has seen the death of a process, and told the rest of the platform.
    fn who_told(&self, _universe: UniverseId, _process: Rank) -> Option<&'static str> {
        None
    }

    /// How a process has died that is known to be dead; `None` while that may still be heard of.
    fn cause(&mut self, _universe: UniverseId, _dead: Rank) -> Option<Cause> {
        Some(Cause::Unknown)
    }

    /// Starts an operation and has its buffer until it is over.
    ///
    /// # Errors
    ///
    /// When the operation cannot start, with its buffer: a context that is retired or not made
    /// yet, a buffer too large for MPI's `int`, an error class from MPI.
    fn post(
        &mut self,
        lane: Lane,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)>;

    /// Starts messages, one after the other, as these requests, which have their buffers and may
    /// keep them. One that cannot start has failed, and the answer is false.
    fn start(
        &mut self,
        lane: Lane,
        way: Way,
        envelopes: &[Envelope],
        records: &mut [Record],
    ) -> bool {
        let messages = envelopes.iter().zip(records);
        messages.fold(true, |all, (envelope, record)| {
            start(self, lane, &way.operation(*envelope), record) && all
        })
    }

    /// Makes progress and looks at an operation. What it came to is told once: its post is gone
    /// then, and its buffer is in `buffer`, unless the request has it.
    fn test(&mut self, post: PostId, buffer: &mut Option<AnyBuffer>) -> Progress;

    /// Makes progress and looks at the operation of a request, if it is under way; ends it if it is
    /// over, also when the request has failed before.
    fn look(&mut self, record: &mut Record) {
        look(self, record);
    }

    /// Looks at requests in their order and ends those whose operations are over, at least up to
    /// the first that is not complete.
    fn settle(&mut self, records: &mut [Record]) -> Settled {
        let all = records.len();
        for (complete, record) in records.iter_mut().enumerate() {
            let pending = !record.is_over();
            if pending {
                self.look(record);
            }
            if !record.is_complete() {
                return Settled { complete, failed: pending && record.is_over() };
            }
        }
        Settled { complete: all, failed: false }
    }

    /// Ends a receive that has no message yet; [`Self::look`] tells whether it is over. Other
    /// operations go on. Why it has failed, if it has, is for others that ask about it: one that
    /// was interrupted is waited for no longer.
    fn cancel(&mut self, post: &mut Post, why: Option<FaultCode>);

    /// Gives up an operation, with the buffer if the request had it: it is cancelled if that is
    /// possible, and the buffer is dropped when MPI cannot touch it any more. The post is gone
    /// afterwards.
    fn abandon(&mut self, post: Post, buffer: Option<AnyBuffer>);

    /// Looks for a message. With a buffer whose elements it is counted by, it is taken out of what
    /// receives can match (`MPI_Improbe`). Otherwise it stays where it is (`MPI_Iprobe`), and on a
    /// communicator of the program's own none is seen.
    ///
    /// # Errors
    ///
    /// As for a receive that cannot start.
    fn probe(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
        take: Option<&mut dyn Buffer>,
    ) -> Result<Option<Found>, FaultCode>;

    /// True while a context is being made that will come unless a process dies. Makes progress.
    fn awaits_context(&mut self, data: DataId, context: u32) -> bool;

    /// Retires all contexts below `context`: their pending operations end with
    /// [`FaultCode::Interrupted`], here at once and elsewhere soon. Local, repeatable. `refill`
    /// says that all of its processes are alive, as far as we know, so that others can be made.
    fn retire_contexts(&mut self, data: DataId, context: u32, refill: bool);

    /// Why an operation here has failed when MPI's class does not say it: its context is over, a
    /// process is known to be dead, or nothing that is known.
    fn disturbance(&mut self, lane: Lane) -> Option<FaultCode>;

    /// Comes to a meeting of all living processes of a place, without blocking; `dead` are some of
    /// those that it lacks. True, once, when all of them have come; to be asked until then.
    fn meet(&mut self, place: Place, dead: &RankSet) -> bool;

    /// Makes a communicator or a universe, by a collective call. A meeting comes before each
    /// [`Request::Shrink`] and [`Request::Regroup`].
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`]; [`Error::NotNeeded`] for a process that joins.
    fn make(&mut self, request: Request) -> Result<Made, Error>;

    /// Opens a file for this process alone, as a sequence of elements like those of `like`.
    ///
    /// # Errors
    ///
    /// [`Error::Mpi`] with the class; [`Error::Unsupported`].
    fn open_file(
        &mut self,
        path: &std::path::Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error>;

    /// Returns when all that was written to a file is on the disk.
    ///
    /// # Errors
    ///
    /// [`Error::Mpi`] with the class.
    fn sync_file(&mut self, file: FileId) -> Result<(), Error>;

    /// Drops something. Local.
    fn discard(&mut self, unneeded: Unneeded);
}

impl dyn Platform {
    /// The world as what it is, for calls that only one kind of world has.
    pub fn as_world<P: Platform>(&mut self) -> Option<&mut P> {
        let any: &mut dyn Any = self;
        any.downcast_mut()
    }
}

/// Starts an operation by [`Platform::post`] as the request that has its buffer.
pub fn start<P: Platform + ?Sized>(
    platform: &mut P,
    lane: Lane,
    operation: &Operation,
    record: &mut Record,
) -> bool {
    let Some(buffer) = record.unload() else { return false };
    let posted = platform.post(lane, operation, buffer);
    record.note_start(posted)
}

/// [`Platform::look`] by [`Platform::test`].
pub fn look<P: Platform + ?Sized>(platform: &mut P, record: &mut Record) {
    if let Some(post) = record.id() {
        let state = platform.test(post, record.place());
        if state != Progress::Pending {
            record.end_as(state);
        }
    }
}
