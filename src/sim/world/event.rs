//! What can happen in the virtual world, and to whom.

use super::{Pid, World};
use crate::{
    protocol::codec::Frame,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        platform::{Operation, PostId, Progress, Status},
    },
};

/// A message under way or unexpected.
pub(in crate::sim) struct Message {
    pub(super) from: Rank,
    pub(super) tag: u32,
    pub(super) payload: AnyBuffer,
    /// The send that completes only with a receive.
    pub(super) send: Option<(Pid, PostId)>,
}

impl Message {
    pub(super) fn matches(&self, operation: &Operation) -> bool {
        let Operation::Receive { from, tag } = *operation else { return false };
        from.is_none_or(|from| from == self.from) && tag.is_none_or(|tag| tag == self.tag)
    }

    pub(super) fn status(&self) -> Status {
        let elements = self.payload.elements();
        Status { source: Some(self.from), tag: self.tag, elements, cancelled: false }
    }
}

/// One piece of news in an inbox. It names the universe as the world does: the receiver may not
/// have returned yet from the call that makes it.
pub(in crate::sim) struct News {
    pub(super) universe: usize,
    pub(super) from: usize,
    /// `None` when `from` is dead.
    pub(super) frame: Option<Frame>,
}

/// Something that happens at a moment of virtual time.
pub(in crate::sim) enum Event {
    /// A process goes on, unless it was made ready for another moment since.
    Resume { process: Pid, epoch: u64 },
    /// The time until which a process wanted to wait may have come.
    Timer { process: Pid },
    /// A process dies.
    Crash { process: Pid },
    /// A control frame arrives.
    Frame { to: Pid, news: News },
    /// A process learns of a death.
    Detection { observer: Pid, dead: Pid },
    /// A message of the application arrives; `to` is a rank of the communicator.
    Arrival { comm: usize, context: u32, to: usize, message: Message },
    /// An operation is over.
    Completion { process: Pid, post: PostId, progress: Progress, payload: Option<AnyBuffer> },
    /// An access to a file is over.
    FileDone { process: Pid, post: PostId },
    /// A rank learns that another rank retired contexts.
    Retirement { comm: usize, rank: usize, context: u32 },
    /// A rank has more contexts.
    ContextMade { comm: usize, rank: usize, made: u32 },
    /// A process hears that another one has come to a meeting.
    Met { process: Pid },
    /// A collective call ends, successfully or not.
    Return { process: Pid, creation: usize, success: bool },
}

impl Event {
    /// The process that it concerns.
    pub(in crate::sim) fn process(&self, world: &World) -> Pid {
        match *self {
            Self::Resume { process, .. }
            | Self::Timer { process }
            | Self::Crash { process }
            | Self::Completion { process, .. }
            | Self::FileDone { process, .. }
            | Self::Met { process }
            | Self::Return { process, .. } => process,
            Self::Frame { to, .. } => to,
            Self::Detection { observer, .. } => observer,
            Self::Arrival { comm, to: rank, .. }
            | Self::Retirement { comm, rank, .. }
            | Self::ContextMade { comm, rank, .. } => world.comms[comm].members[rank],
        }
    }
}

impl World {
    /// Applies an event that lets no process run by itself. What concerns a process that has ended
    /// is lost.
    pub(in crate::sim) fn happen(&mut self, event: Event) {
        if !self.is_active(event.process(self)) {
            return;
        }
        match event {
            Event::Resume { .. } | Event::Timer { .. } | Event::Crash { .. } => {}
            Event::Frame { to, news } => {
                self.processes[to].inbox.push_back(news);
                self.wake(to);
            }
            Event::Detection { observer, dead } => self.detect(observer, dead),
            Event::Arrival { comm, context, to, message } => {
                self.arrive(comm, context, to, message);
            }
            Event::Completion { process, post, progress, payload } => {
                self.complete(process, post, progress, payload);
            }
            Event::Met { process } => self.wake(process),
            Event::FileDone { process, post } => self.finish_file(process, post),
            Event::Retirement { comm, rank, context } => self.revoke(comm, rank, context),
            Event::ContextMade { comm, rank, made } => self.gain_contexts(comm, rank, made),
            Event::Return { process, creation, success } => {
                self.return_from(process, creation, success);
            }
        }
    }
}
