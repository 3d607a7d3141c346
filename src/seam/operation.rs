//! Operations of the application, and what becomes of them.

use super::{buffer::AnyBuffer, collective::Collective};
use crate::{fault::FaultCode, ids::DataId, native::Flight, rank::Rank};

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

/// What a probe has found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// Its sender, its tag, and the number of its elements if it was taken.
    pub status: Status,
    /// What to receive it by, if it was taken.
    pub message: Option<MessageId>,
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
    /// At most [`Setup::max_tag`](super::platform::Setup::max_tag).
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
        /// Tag on the wire, at most [`Setup::max_tag`](super::platform::Setup::max_tag).
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
    /// Read a file into the buffer, or write it. It needs no other rank and is in no context.
    File(FileAccess),
}

/// An operation that was started.
#[derive(Debug)]
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

/// How far requests were ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settled {
    /// The number of requests before the first that is not complete.
    pub complete: usize,
    /// That one, or some after it, have failed just now.
    pub failed: bool,
}

/// A file that this process has opened.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FileId(pub u32);

/// What a file is opened for (MPI 4.1 §14.2.1). One that is written to is made if it is not there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileMode {
    /// `MPI_MODE_RDONLY`.
    Read,
    /// `MPI_MODE_WRONLY` and `MPI_MODE_CREATE`.
    Write,
    /// `MPI_MODE_RDWR` and `MPI_MODE_CREATE`.
    ReadWrite,
}

/// Where in a file an operation reads or writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileAccess {
    /// The file.
    pub file: FileId,
    /// Elements before the first.
    pub at: u64,
    /// `MPI_File_iwrite_at` instead of `MPI_File_iread_at`.
    pub writes: bool,
}
