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
//! An access to a window ([`super::window`]) is such a request, too, with an answer; and so is a
//! collective over the living ([`super::living`]), whose messages go in rounds.
//!
//! Reference: MPI 4.1 §8.6 and §8.7.

use alloc::{boxed::Box, vec::Vec};
use core::ops::Range;

use super::{BlockKey, Engine, MAX_USER_TAG, Need, living::Course, window::FIRST_WINDOW_TAG};
use crate::{
    fault::{FaultCode, class},
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Operation, Post, PostId, Posted, Progress},
        reduction::Reduction,
    },
};

/// The tag of all messages among neighbours, beyond those of users, copies and windows.
const TAG: u32 = MAX_USER_TAG;
const _: () = assert!(FIRST_WINDOW_TAG < TAG, "the greatest tag is that of neighbours");

/// One message of the operation: who is on the other side, and where its elements stand.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) peer: Rank,
    pub(crate) elements: Range<usize>,
}

/// Buffers of messages that are over, for later ones that look alike: a large one that is allocated
/// anew costs more than its copy.
#[derive(Default)]
pub(super) struct Parts(Vec<AnyBuffer>);

impl Parts {
    /// No more than these are kept.
    const MOST: usize = 64;

    /// A buffer as long as these elements of another one; with them, if it is to be sent.
    pub(super) fn take(
        &mut self,
        of: &dyn Buffer,
        elements: &Range<usize>,
        sent: bool,
    ) -> AnyBuffer {
        let kind = of.as_any().type_id();
        let fits = self
            .0
            .iter()
            .position(|part| part.elements() == elements.len() && part.as_any().type_id() == kind);
        if let Some(at) = fits {
            let mut part = self.0.swap_remove(at);
            // What is no vector of numbers may know more of its elements than how many there are.
            let is_plain = !matches!(part, AnyBuffer::Other(_));
            if !sent && is_plain || part.load(of, elements.start) {
                return part;
            }
        }
        of.copy(elements.start, elements.len())
    }

    pub(super) fn keep(&mut self, part: AnyBuffer) {
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        self.0.push(part);
    }
}

/// What a message is for.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It takes elements to somebody.
    Sent,
    /// It brings the elements of this part of the buffer.
    Received(Range<usize>),
    /// It brings elements that are combined with the whole buffer, and stand before them, or after.
    Combined { before: bool },
    /// It asks for an answer.
    Question,
    /// One word, a class of MPI, which is 0 if all is well. It comes before what is received.
    Answer,
}

impl Role {
    fn is_elements(&self) -> bool {
        matches!(self, Self::Sent | Self::Received(_) | Self::Combined { .. })
    }
}

/// A message under way.
struct Message {
    peer: Rank,
    role: Role,
    /// Nothing once it is over.
    post: Option<PostId>,
}

/// An operation made of messages.
pub(super) struct Exchange {
    /// The application's, as long as the operation is not over.
    pub(super) buffer: Option<AnyBuffer>,
    messages: Vec<Message>,
    /// What comes after these messages, if it is a collective.
    pub(super) course: Option<Box<Course>>,
    /// Who is to blame, if not all came as expected.
    failure: Option<(Rank, FaultCode)>,
}

impl Exchange {
    /// One without messages, so far.
    pub(super) fn new(buffer: AnyBuffer, messages: usize) -> Self {
        let messages = Vec::with_capacity(messages);
        Self { buffer: Some(buffer), messages, course: None, failure: None }
    }

    /// True when something with this rank is not over.
    pub(super) fn needs(&self, peer: Rank) -> bool {
        self.messages.iter().any(|message| message.peer == peer && message.post.is_some())
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Rank> + '_ {
        self.messages.iter().map(|message| message.peer)
    }

    /// The ranks with which something is not over.
    pub(super) fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        let pending = self.messages.iter().filter(|message| message.post.is_some());
        pending.map(|message| message.peer)
    }

    /// Who is to blame.
    pub(super) fn blamed(&self) -> Option<Rank> {
        self.failure.map(|(peer, _)| peer)
    }

    /// The buffer that messages take elements from, and bring them to.
    fn held(&mut self) -> Option<&mut AnyBuffer> {
        let own = self.course.as_mut().and_then(|course| course.work.as_mut());
        own.or(self.buffer.as_mut())
    }

    /// All messages so far are over, and others follow.
    pub(super) fn begin_round(&mut self) {
        self.messages.clear();
    }

    /// Notes that a message is over, and whether it came as expected.
    fn note(&mut self, number: usize, progress: Progress, part: &mut dyn Buffer) {
        let message = &mut self.messages[number];
        message.post = None;
        let role = message.role.clone();
        let reduction = self.course.as_ref().and_then(|course| course.reduction);
        let code = match (progress, role, self.held()) {
            (Progress::Failed(code), ..) => code,
            (Progress::Complete(status), Role::Received(place), Some(buffer)) => {
                if status.elements == place.len() && buffer.fill(place.start, part) {
                    return;
                }
                FaultCode::Mpi(class::TRUNCATE)
            }
            (Progress::Complete(status), Role::Combined { before }, Some(buffer)) => {
                if status.elements == buffer.elements()
                    && reduction.is_some_and(|it| combine(it, &mut **buffer, part, before))
                {
                    return;
                }
                FaultCode::Mpi(class::TRUNCATE)
            }
            (Progress::Complete(_), Role::Answer, _) => match words(part) {
                Some([0]) => return,
                Some([class]) => FaultCode::Mpi(*class as i32),
                _ => FaultCode::Mpi(class::TRUNCATE),
            },
            _ => return,
        };
        self.blame(self.messages[number].peer, code);
    }

    /// Of two failures the first one tells more, but a death more than what followed from it.
    pub(super) fn blame(&mut self, peer: Rank, code: FaultCode) {
        let known = self
            .failure
            .filter(|(_, known)| known.is_process_failure() || !code.is_process_failure());
        self.failure = known.or(Some((peer, code)));
    }

    /// True when something did not start, or not come, as expected.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The message that brings an answer, if there is one: it is the first.
    fn answer(&self) -> Option<&Message> {
        self.messages.first().filter(|message| matches!(message.role, Role::Answer))
    }

    /// True while the answer is to come: what else is received comes after it.
    fn awaits_answer(&self) -> bool {
        self.answer().is_some_and(|answer| answer.post.is_some())
    }

    /// Why the operation has failed, if it has, while some of its messages may be under way. After
    /// an answer of *no* those that belong to it still come: the next request must not meet them.
    fn failed(&self, pending: bool) -> Option<(Rank, FaultCode)> {
        let waits = pending && self.answer().is_some();
        self.failure.filter(|(_, code)| !(waits && matches!(code, FaultCode::Mpi(_))))
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
        buffer: AnyBuffer,
        received: &[Edge],
        sent: &[Edge],
    ) -> usize {
        self.settle_block(key);
        let mut exchange = Exchange::new(buffer, received.len() + sent.len());
        for Edge { peer, elements } in received {
            self.add_part(key, &mut exchange, (*peer, TAG), elements, true);
        }
        for Edge { peer, elements } in sent {
            self.add_part(key, &mut exchange, (*peer, TAG), elements, false);
        }
        self.add_exchange(key, exchange, Need::Neighbours)
    }

    /// Starts a message that takes elements of the buffer to somebody, or brings them.
    pub(super) fn add_part(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        to_whom: (Rank, u32),
        elements: &Range<usize>,
        receives: bool,
    ) {
        let role = if receives { Role::Received(elements.clone()) } else { Role::Sent };
        self.add_elements(key, exchange, to_whom, role, elements);
    }

    /// The same, for a message of elements with this role.
    pub(super) fn add_elements(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        to_whom: (Rank, u32),
        role: Role,
        elements: &Range<usize>,
    ) {
        let Some(buffer) = exchange.held() else { return };
        let part = self.parts.take(&**buffer, elements, matches!(role, Role::Sent));
        self.add_message(key, exchange, to_whom, role, part);
    }

    /// Starts a message with this tag of a user's, or beyond.
    pub(super) fn add_message(
        &mut self,
        key: BlockKey,
        exchange: &mut Exchange,
        (peer, tag): (Rank, u32),
        role: Role,
        part: AnyBuffer,
    ) {
        let tag = self.wire_tag(key, tag);
        let operation = match role {
            Role::Received(_) | Role::Combined { .. } | Role::Answer => {
                Operation::Receive { from: Some(peer), tag: Some(tag) }
            }
            Role::Sent | Role::Question => Operation::Send { to: peer, tag, synchronous: false },
        };
        let post = match self.start(key, Need::Peer(peer), &operation, part) {
            Ok(Posted::Running(post)) => Some(post),
            Ok(Posted::Complete(_, part)) => {
                if role.is_elements() {
                    self.parts.keep(part);
                }
                None
            }
            Err((code, _)) => {
                exchange.blame(peer, code);
                None
            }
        };
        exchange.messages.push(Message { peer, role, post });
    }

    /// The next request of the block is an operation whose messages were started.
    pub(super) fn add_exchange(
        &mut self,
        key: BlockKey,
        exchange: Exchange,
        need: impl Fn(u32) -> Need,
    ) -> usize {
        let failure = exchange.failure;
        let contents = self.contents_mut(key);
        let need = need(contents.exchanges.len() as u32);
        contents.exchanges.push(exchange);
        let index = contents.records.len();
        contents.records.add(need);
        if let Some((peer, code)) = failure {
            self.fail_exchange(key, index, peer, code);
        }
        index
    }

    /// Goes on with an operation as far as possible. The state of its request.
    pub(super) fn test_exchange(&mut self, key: BlockKey, index: usize, at: usize) -> Progress {
        loop {
            // Nothing of a round of a collective counts before all of it is over.
            let all = self.contents(key).exchanges[at].course.is_none();
            let pending = self.test_messages(key, at, all);
            if let Some((peer, code)) = self.contents(key).exchanges[at].failed(pending) {
                return self.fail_exchange(key, index, peer, code);
            }
            if pending {
                return Progress::Pending;
            }
            match self.start_round(key, at) {
                Some(true) => {}
                Some(false) => return Progress::Pending,
                None => break,
            }
        }
        let contents = self.contents_mut(key);
        let buffer = contents.exchanges[at].buffer.take();
        let record = &mut contents.records[index];
        if let Some(buffer) = buffer {
            let elements = buffer.elements();
            record.give(buffer);
            record.end_at_once(elements);
        }
        record.state
    }

    /// Looks at the messages of an operation that are under way: at all, or up to the first that
    /// still is. True when one is.
    pub(super) fn test_messages(&mut self, key: BlockKey, at: usize, all: bool) -> bool {
        let mut pending = false;
        for number in 0..self.contents(key).exchanges[at].messages.len() {
            let exchange = &self.contents(key).exchanges[at];
            let Message { post: Some(post), ref role, .. } = exchange.messages[number] else {
                continue;
            };
            let early = matches!(role, Role::Received(_)) && exchange.awaits_answer();
            let mut part = None;
            let progress =
                if early { Progress::Pending } else { self.platform.test(post, &mut part) };
            if progress == Progress::Pending {
                pending = true;
                if !all {
                    break;
                }
                continue;
            }
            let mut part = part.unwrap_or(AnyBuffer::nothing());
            let exchange = &mut self.contents_mut(key).exchanges[at];
            exchange.note(number, progress, &mut *part);
            if exchange.messages[number].role.is_elements() {
                self.parts.keep(part);
            }
        }
        pending
    }

    /// The operation failed with one of its messages. The state of its request.
    fn fail_exchange(
        &mut self,
        key: BlockKey,
        index: usize,
        peer: Rank,
        code: FaultCode,
    ) -> Progress {
        self.end_exchange(key, index);
        let code = self.explained(key, code);
        self.contents_mut(key).records[index].state = Progress::Failed(code);
        self.call(|process, out| process.request_failed(key, Need::Peer(peer), code, out));
        Progress::Failed(code)
    }

    /// Gives up what is under way of a request, if it is one among neighbours; its buffer is the
    /// application's again.
    pub(super) fn end_exchange(&mut self, key: BlockKey, index: usize) {
        let (Need::Neighbours(at) | Need::Living(at)) = self.contents(key).records[index].need
        else {
            return;
        };
        let exchange = &mut self.contents[key.slot()].exchanges[at as usize];
        for post in exchange.take_posts() {
            self.platform.abandon(Post::Kept(post), None);
        }
        if let Some(buffer) = exchange.buffer.take() {
            let record = &mut self.contents_mut(key).records[index];
            record.give(buffer);
            record.end_as(record.state);
        }
    }
}

/// Combines what has come with what is there; false if it is not of the same length.
fn combine(
    reduction: Reduction,
    own: &mut dyn Buffer,
    come: &mut dyn Buffer,
    before: bool,
) -> bool {
    if before {
        reduction.combine(come, own);
        return true;
    }
    reduction.combine(own, come);
    own.fill(0, come)
}

/// What a message of words says.
pub(super) fn words(part: &dyn Buffer) -> Option<&[u64]> {
    part.as_any().downcast_ref::<Vec<u64>>().map(Vec::as_slice)
}
