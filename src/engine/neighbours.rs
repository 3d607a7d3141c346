//! Operations among neighbours: one request of a block, made of messages.
//!
//! ```text
//! buffer     │ sent, part by part │ room for what is received, part by part │
//! messages     └ a copy to each     ▲ copied from each, when it has come
//! ```
//!
//! MPI's own `MPI_Ineighbor_*` need a communicator with a topology, made by a call of all ranks
//! that no death may disturb, for each context; and those of Open MPI 5.0 mix up the two sides of
//! a ring of one or two (open-mpi/ompi#14430). Messages need nothing but the neighbours: ranks
//! that are no neighbours of the dead complete, and a failure names the neighbour that died. What
//! is under way are copies, so that the application's buffer comes back whatever happens. The
//! price is these copies.
//!
//! **Assumes** that each message sent is expected: if this rank sends to a neighbour twice, that
//! one receives from this rank twice, in the same order. MPI keeps messages with one tag in order.
//!
//! Reference: MPI 4.1 §8.6 and §8.7.

use alloc::{boxed::Box, vec::Vec};
use core::ops::Range;

use super::{
    BlockKey, Engine, MAX_USER_TAG, Need,
    buffer::Buffer,
    platform::{Operation, PostId, Posted, Progress, Status},
};
use crate::{fault::FaultCode, rank::Rank};

/// The tag of all messages here, beyond those of users and of copies.
const TAG: u32 = MAX_USER_TAG;
/// MPI's class for a message of another length than expected.
const MPI_ERR_TRUNCATE: i32 = 15;

/// One message of the operation: who is on the other side, and where its elements stand.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) peer: Rank,
    pub(crate) elements: Range<usize>,
}

/// Buffers of messages that are over, for later ones that look alike: a large one that is allocated
/// anew costs more than its copy.
#[derive(Default)]
pub(super) struct Parts(Vec<Box<dyn Buffer>>);

impl Parts {
    /// No more than these are kept.
    const MOST: usize = 64;

    /// A buffer as long as these elements of another one; with them, if it is to be sent.
    fn take(&mut self, of: &dyn Buffer, elements: &Range<usize>, sent: bool) -> Box<dyn Buffer> {
        let kind = of.as_any().type_id();
        let fits = self
            .0
            .iter()
            .position(|part| part.elements() == elements.len() && part.as_any().type_id() == kind);
        if let Some(at) = fits {
            let mut part = self.0.swap_remove(at);
            if !sent || part.load(of, elements.start) {
                return part;
            }
        }
        of.copy(elements.start, elements.len())
    }

    fn keep(&mut self, part: Box<dyn Buffer>) {
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        self.0.push(part);
    }
}

/// A message under way.
struct Message {
    peer: Rank,
    /// Nothing once it is over.
    post: Option<PostId>,
    /// Where the elements of a message that is received go.
    place: Option<Range<usize>>,
}

/// An operation among neighbours.
pub(super) struct Exchange {
    /// The application's, as long as the operation is not over.
    buffer: Option<Box<dyn Buffer>>,
    messages: Vec<Message>,
}

impl Exchange {
    /// True when something with this rank is not over.
    pub(super) fn needs(&self, peer: Rank) -> bool {
        self.messages.iter().any(|message| message.peer == peer && message.post.is_some())
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Rank> + '_ {
        self.messages.iter().map(|message| message.peer)
    }

    /// Notes that a message is over; who is to blame if it did not come as expected.
    fn note(
        &mut self,
        number: usize,
        progress: Progress,
        part: &dyn Buffer,
    ) -> Result<(), (Rank, FaultCode)> {
        let message = &mut self.messages[number];
        message.post = None;
        let code = match (progress, &message.place, &mut self.buffer) {
            (Progress::Failed(code), ..) => code,
            (Progress::Complete(status), Some(place), Some(buffer)) => {
                if status.elements == place.len() && buffer.fill(place.start, part) {
                    return Ok(());
                }
                FaultCode::Mpi(MPI_ERR_TRUNCATE)
            }
            _ => return Ok(()),
        };
        Err((message.peer, code))
    }

    /// The messages under way, which are the caller's to end.
    pub(super) fn take_posts(&mut self) -> impl Iterator<Item = PostId> + '_ {
        self.messages.iter_mut().filter_map(|message| message.post.take())
    }
}

impl Engine {
    /// Posts an operation among neighbours as the next request of a block. Where several messages
    /// go to, or come from, one rank, they are sent and received in the order of these lists.
    ///
    /// If a neighbour is dead the request fails, but the living ones get their messages.
    pub(crate) fn post_neighbours(
        &mut self,
        key: BlockKey,
        buffer: Box<dyn Buffer>,
        received: &[Edge],
        sent: &[Edge],
    ) -> usize {
        self.settle_block(key);
        let tag = self.wire_tag(self.block(key).scope, TAG);
        let mut messages = Vec::with_capacity(received.len() + sent.len());
        let mut failure = None;
        for (edge, receives) in
            received.iter().map(|edge| (edge, true)).chain(sent.iter().map(|edge| (edge, false)))
        {
            let Edge { peer, ref elements } = *edge;
            let operation = if receives {
                Operation::Receive { from: Some(peer), tag: Some(tag) }
            } else {
                Operation::Send { to: peer, tag, synchronous: false }
            };
            let part = self.parts.take(&*buffer, elements, !receives);
            let post = match self.start(key, Need::Peer(peer), &operation, part) {
                Ok(Posted::Running(post)) => Some(post),
                Ok(Posted::Complete(_, part)) => {
                    self.parts.keep(part);
                    None
                }
                Err((code, _)) => {
                    failure = worse(failure, (peer, code));
                    None
                }
            };
            let place = receives.then(|| elements.clone());
            messages.push(Message { peer, post, place });
        }
        let block = self.block_mut(key);
        let need = Need::Neighbours(block.exchanges.len() as u32);
        block.exchanges.push(Exchange { buffer: Some(buffer), messages });
        let index = block.records.len();
        block.records.add(need);
        if let Some((peer, code)) = failure {
            self.fail_exchange(key, index, peer, code);
        }
        index
    }

    /// Looks at all messages of an operation that are under way.
    pub(super) fn test_neighbours(&mut self, key: BlockKey, index: usize, at: usize) {
        let mut failure = None;
        let mut pending = false;
        for number in 0..self.block(key).exchanges[at].messages.len() {
            let Some(post) = self.block(key).exchanges[at].messages[number].post else { continue };
            let progress = self.platform.test(post);
            if progress == Progress::Pending {
                pending = true;
                continue;
            }
            let part = self.platform.take(post);
            let exchange = &mut self.block_mut(key).exchanges[at];
            if let Err(other) = exchange.note(number, progress, &*part) {
                failure = worse(failure, other);
            }
            self.parts.keep(part);
        }
        if let Some((peer, code)) = failure {
            self.fail_exchange(key, index, peer, code);
        } else if !pending {
            let Some(buffer) = self.block_mut(key).exchanges[at].buffer.take() else { return };
            let elements = buffer.elements();
            let state = Progress::Complete(Status { elements, ..Status::default() });
            self.block_mut(key).records[index].end(state, buffer);
        }
    }

    /// One message failed, and the operation with it.
    fn fail_exchange(&mut self, key: BlockKey, index: usize, peer: Rank, code: FaultCode) {
        self.end_exchange(key, index);
        self.block_mut(key).records[index].state = Progress::Failed(code);
        self.note_loss(key, Need::Peer(peer), code);
    }

    /// Gives up what is under way of a request, if it is one among neighbours; its buffer is the
    /// application's again.
    pub(super) fn end_exchange(&mut self, key: BlockKey, index: usize) {
        let Need::Neighbours(at) = self.block(key).records[index].need else { return };
        let exchange = &mut self.blocks[key.slot()].exchanges[at as usize];
        for post in exchange.take_posts() {
            self.platform.abandon(post);
        }
        if let Some(buffer) = exchange.buffer.take() {
            self.block_mut(key).records[index].give(buffer);
        }
    }
}

/// Of two failures the one that tells more: a death rather than what followed from it.
fn worse(known: Option<(Rank, FaultCode)>, other: (Rank, FaultCode)) -> Option<(Rank, FaultCode)> {
    known
        .filter(|(_, code)| code.is_process_failure() || !other.1.is_process_failure())
        .or(Some(other))
}
