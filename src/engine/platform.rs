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
//! commit afterwards.

use alloc::vec::Vec;
use core::time::Duration;

pub use super::file::{FileAccess, FileId, FileMode};
use super::{
    buffer::{AnyBuffer, Buffer, Flight},
    collective::Collective,
    pulse::Pulse,
    record::{self, Record},
};
pub use crate::ids::{DataId, UniverseId};
use crate::{
    error::Error,
    fault::FaultCode,
    ids::CommId,
    protocol::{
        codec::{self, Frame},
        exchange::Shape,
        fused::Values,
        message::Yes,
    },
    rank::{Rank, RankSet},
};

/// An operation under way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PostId(pub u32);

/// An operation of a request that is under way, and where it is.
#[derive(Debug)]
pub enum Post {
    /// With the platform, under this number.
    Kept(PostId),
    /// A message that is with the request, as is its buffer.
    Message(Flight),
}

/// A message that a probe has matched: no receive matches it any more.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MessageId(pub u32);

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
    /// Spawned to replace a failed process; [`Platform::join`] comes first.
    Spawned,
}

/// News from the control channel.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A frame from a process of this universe.
    Frame(UniverseId, Rank, Frame),
    /// The same for a message of the fast path that the platform has decoded on the spot.
    Yes(UniverseId, Rank, CommId, Yes),
    /// The same for one with values, which [`Platform::values`] has until the next poll.
    Fused(UniverseId, Rank, CommId, Yes),
    /// A process of this universe died. Told once per universe and process.
    Failure(UniverseId, Rank),
}

/// Where operations run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lane {
    /// The communicator.
    pub data: DataId,
    /// The context of it. All from [`FIRST_SHARED_CONTEXT`] on are one, which is there from the
    /// beginning, carries messages, and is never retired.
    ///
    /// [`FIRST_SHARED_CONTEXT`]: crate::protocol::agreement::FIRST_SHARED_CONTEXT
    pub context: u32,
}

impl Lane {
    /// On no communicator.
    pub const NOWHERE: Self = Self { data: DataId(u32::MAX), context: 0 };

    /// True for a context of this communicator that comes before this one.
    pub fn is_below(self, data: DataId, context: u32) -> bool {
        self.data == data && self.context < context
    }
}

/// Whom a message goes to, or comes from, and its tag on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// A position in the data communicator.
    pub peer: Rank,
    /// At most [`Platform::max_tag`].
    pub tag: u32,
}

/// What becomes of a message here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// `MPI_Isend`, or `MPI_Issend`.
    Send {
        /// Complete only when the receive has started.
        synchronous: bool,
    },
    /// `MPI_Irecv`.
    Receive,
}

impl Way {
    /// The message with this envelope.
    pub const fn operation(self, Envelope { peer, tag }: Envelope) -> Operation {
        match self {
            Self::Send { synchronous } => Operation::Send { to: peer, tag, synchronous },
            Self::Receive => Operation::Receive { from: Some(peer), tag: Some(tag) },
        }
    }
}

/// An operation of the application. Ranks are positions in the data communicator.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Send the buffer; `synchronous` completes only when the receive has started.
    Send {
        /// Receiver.
        to: Rank,
        /// Tag on the wire, at most [`Platform::max_tag`].
        tag: u32,
        /// `MPI_Issend` instead of `MPI_Isend`.
        synchronous: bool,
    },
    /// Receive into the buffer.
    Receive {
        /// Sender; `None` is any source.
        from: Option<Rank>,
        /// Tag on the wire; `None` is any tag.
        tag: Option<u32>,
    },
    /// Receive a message that a probe has matched (`MPI_Imrecv`).
    ReceiveMatched {
        /// The message, which is gone afterwards.
        message: MessageId,
        /// Its sender.
        from: Rank,
    },
    /// An operation of all ranks, in place.
    Collective(Collective),
    /// Read a file into the buffer, or write it. It needs nobody and is in no context.
    File(FileAccess),
}

/// An operation that was started.
pub enum Posted {
    /// It is under way.
    Running(PostId),
    /// It was over at once, successfully: this many elements, and the buffer.
    Complete(usize, AnyBuffer),
}

/// Where an operation stands, or the request that it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Not complete.
    Pending,
    /// Complete, successfully.
    Complete(Status),
    /// Over, without success; the code says why ([`FaultCode::ProcessFailed`] when a process that
    /// it needs died, [`FaultCode::Interrupted`] when its context was retired).
    Failed(FaultCode),
}

/// What a completed operation tells (MPI 4.1 §3.2.5). For sends and collectives only `elements`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Status {
    /// Sender, for receives.
    pub source: Option<Rank>,
    /// Tag on the wire, for receives.
    pub tag: u32,
    /// Number of elements received, or of the buffer.
    pub elements: usize,
    /// The operation was cancelled before it did anything.
    pub cancelled: bool,
}

/// A communicator made by a collective call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Derived {
    /// Our part of the split; `None` when our colour was `None`.
    pub data: Option<DataId>,
    /// Colour and key of every rank of the parent, in rank order.
    pub table: Vec<(Option<u32>, u32)>,
}

/// How far requests were ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settled {
    /// The number of requests before the first that is not complete.
    pub complete: usize,
    /// That one, or some after it, have failed just now.
    pub failed: bool,
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
pub trait Platform {
    /// How this process came to be.
    fn origin(&self) -> Origin;

    /// Time since some fixed moment of this process.
    fn now(&self) -> Duration;

    /// Begins to record what happens to this process, if that is asked for.
    fn record(&self) {}

    /// From now on this process does with its observer, or as if it had none. Where it shows that
    /// it makes progress, if anybody looks.
    fn observe(&mut self, _observed: bool) -> Option<Pulse> {
        None
    }

    /// Who has seen the death of a process, and told the rest of the platform.
    fn who_told(&self, _universe: UniverseId, _process: Rank) -> Option<&'static str> {
        None
    }

    /// Sends a control frame without blocking; frames between two processes of a universe arrive
    /// in order, except that fast frames ([`crate::protocol::codec::is_fast`]) and others may
    /// overtake each other. To a dead process it does nothing.
    fn send(&mut self, universe: UniverseId, to: Rank, frame: &[u8]);

    /// The same for a message of the fast path, which the platform may put into another form.
    fn send_yes(&mut self, universe: UniverseId, to: Rank, comm: CommId, yes: &Yes) {
        self.send(universe, to, &codec::encode_yes(comm, yes));
    }

    /// The same for a message of the fast path with values.
    fn send_fused(
        &mut self,
        universe: UniverseId,
        to: Rank,
        comm: CommId,
        yes: &Yes,
        values: &Values,
    ) {
        self.send(universe, to, &codec::encode_fused(comm, yes, values));
    }

    /// Makes progress and takes the next news, if any. `awaits` names the process whose fast
    /// frame the caller waits for; fast frames of other processes may stay where they are until
    /// they are awaited, everything else is found whoever is awaited.
    fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming>;

    /// The values of the last [`Incoming::Fused`].
    fn values(&self) -> Option<&Values> {
        None
    }

    /// The shape of the exchanges of votes; the same on all processes of a job, replacements too.
    fn shape(&self) -> Shape {
        Shape::WIDE
    }

    /// How often a wait polls in vain before it reads the clock and calls [`Self::idle`].
    fn patience(&self) -> u32 {
        32
    }

    /// Called between polls that found nothing. The simulator lets others run here, until
    /// something happens to this process or the time `until` comes.
    fn idle(&mut self, until: Option<Duration>, how: Idle);

    /// The greatest tag on the wire.
    fn max_tag(&self) -> u32;

    /// True while a context is being made that will come unless somebody dies. Makes progress.
    fn awaits_context(&mut self, data: DataId, context: u32) -> bool;

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

    /// Starts a message as this request, which has its buffer and may keep it. One that cannot
    /// start has failed, and the answer is false.
    fn start(&mut self, lane: Lane, way: Way, envelope: Envelope, record: &mut Record) -> bool {
        record::start(self, lane, &way.operation(envelope), record)
    }

    /// The same for one message after the other; false when some cannot start.
    fn start_all(
        &mut self,
        lane: Lane,
        way: Way,
        envelopes: &[Envelope],
        records: &mut [Record],
    ) -> bool {
        let messages = envelopes.iter().zip(records);
        messages.fold(true, |all, (it, record)| self.start(lane, way, *it, record) && all)
    }

    /// Makes progress and looks at an operation. What it came to is told once, and the operation
    /// is to be taken then.
    fn test(&mut self, post: PostId) -> Progress;

    /// Makes progress and looks at the operation of a request, if it is under way; ends it if it is
    /// over, also when the request has failed before.
    fn look(&mut self, record: &mut Record) {
        record::look(self, record);
    }

    /// Looks at requests in their order and ends those whose operations are over, at least up to
    /// the first that is not complete.
    fn settle(&mut self, records: &mut [Record]) -> Settled {
        record::settle_each(self, records)
    }

    /// Ends a receive that has no message yet; [`Self::look`] tells whether it is over. Other
    /// operations go on. Whether it has failed, for its block, is for whoever else asks about it.
    fn cancel(&mut self, post: &mut Post, failed: bool);

    /// Why an operation here has failed when MPI's class does not say it: its context is over, a
    /// process is known to be dead, or nothing that is known.
    fn disturbance(&mut self, lane: Lane) -> Option<FaultCode>;

    /// Looks for a message (`MPI_Improbe`) and takes it out of what receives can match. Elements
    /// are counted as those of `like`.
    ///
    /// # Errors
    ///
    /// As for a receive that cannot start.
    fn probe(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
    ) -> Result<Option<(MessageId, Status)>, FaultCode>;

    /// Receives a matched message into nowhere, so that its sender can complete.
    fn drop_message(&mut self, message: MessageId);

    /// Looks for a message (`MPI_Iprobe`) and leaves it where it is: its sender, and its tag. On a
    /// communicator of the program's own it sees none.
    ///
    /// # Errors
    ///
    /// As for a receive that cannot start.
    fn peek(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
    ) -> Result<Option<(Rank, u32)>, FaultCode>;

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

    /// Closes a file, as soon as no operation uses it any more.
    fn close_file(&mut self, file: FileId);

    /// Ends the post of an operation that is over, which is gone afterwards; its buffer, unless the
    /// request has it.
    fn take(&mut self, post: PostId) -> Option<AnyBuffer>;

    /// Gives up an operation, with the buffer if the request had it: it is cancelled if that is
    /// possible, and the buffer is dropped when nobody can touch it any more. The post is gone
    /// afterwards.
    fn abandon(&mut self, post: Post, buffer: Option<AnyBuffer>);

    /// Retires all contexts below `context`: their pending operations end with
    /// [`FaultCode::Interrupted`], here at once and elsewhere soon. Local, repeatable. `refill`
    /// says that everybody in it is alive, as far as we know, so that others can be made.
    fn retire_contexts(&mut self, data: DataId, context: u32, refill: bool);

    /// Collective over the parent: a communicator of the ranks with our colour, ordered by key,
    /// then by rank. `MPI_Comm_split`; a duplicate is a split with one colour.
    fn split(&mut self, parent: DataId, color: Option<u32>, key: u32) -> Result<Derived, Error>;

    /// Collective over the living ranks of the parent: a communicator of them in the same order.
    /// Fails when the living are not all of the parent but `dead`.
    fn shrink(&mut self, parent: DataId, dead: &RankSet) -> Result<DataId, Error>;

    /// Collective over the living processes of the universe: a new universe of them in the same
    /// order, then of `spawn` new processes. Fails when the living are not all but `dead`.
    ///
    /// Every member of the result, spawned ones by [`Self::join`], receives what all processes have
    /// `brought`, one after the other in their order.
    fn regroup(
        &mut self,
        universe: UniverseId,
        dead: &RankSet,
        spawn: u32,
        brought: &[u8],
    ) -> Result<(UniverseId, Vec<u8>), Error>;

    /// The other side of [`Self::regroup`], for a spawned process: its universe, its position
    /// there, and what was brought.
    fn join(&mut self) -> Result<(UniverseId, Rank, Vec<u8>), Error>;

    /// Collective over the universe: a data communicator of these processes, in this order. Each
    /// process in a group names those of its group; no two groups have anybody in common. `None`
    /// for a process that is in none.
    fn gather(&mut self, universe: UniverseId, members: &[Rank]) -> Result<Option<DataId>, Error>;

    /// Drops a data communicator: its pending operations end, its posts are gone. Local.
    fn discard_data(&mut self, data: DataId);

    /// Drops a universe. Local. Nothing more is sent or received on it.
    fn discard_universe(&mut self, universe: UniverseId);

    /// Ends this process's part in the world, in order; nothing may be called afterwards.
    fn finalize(&mut self);

    /// Ends this process's part in the world, in order, and the process, successfully: for spares
    /// that nobody needed. Their end does not say that the job came to its own.
    fn exit(&mut self) -> !;

    /// The world itself, for calls that only one kind of world has.
    fn as_any(&mut self) -> &mut dyn core::any::Any;

    /// Ends this process so that all others see it die: for replacements that nobody waits for
    /// any more, as far as they know.
    fn abort(&mut self) -> !;
}
