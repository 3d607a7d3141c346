//! Operations made of messages: those among neighbours, accesses to windows, collectives over the
//! living, and codes over groups.
//!
//! What is under way are copies of parts of the buffer, so that the application's buffer comes back
//! whatever happens.

use alloc::{boxed::Box, rc::Rc, vec::Vec};
use core::{ops::Range, time::Duration};

use super::{coding::Coding, schedule::Schedule};
use crate::{
    fault::{FaultCode, class},
    ids::CommId,
    protocol::process::{BlockKey, Communicator},
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        collective::Collective,
        platform::{Lane, MessageId, PostId, Progress},
        reduction::Reduction,
    },
};

/// What operations made of messages have in common.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Buffers for their messages.
    pub(super) parts: Parts,
    /// Collectives and codes that are under way, in the order of their posts: their blocks, and
    /// their requests.
    pub(super) collectives: Vec<(BlockKey, usize)>,
    /// Their messages that were in the way before they were waited for, in the order in which they
    /// came.
    pub(super) aside: Vec<SetAside>,
    /// Who takes part in these, as it was asked for last.
    view: Option<View>,
}

/// A message that is matched, and not received.
pub(super) struct SetAside {
    pub(super) lane: Lane,
    pub(super) from: Rank,
    /// Its tag on the wire.
    pub(super) wire: u32,
    pub(super) id: MessageId,
}

/// The ranks that take part in the collectives of a communicator, as they were asked for last.
pub(super) struct View {
    comm: CommId,
    left_out: usize,
    ranks: Rc<[Rank]>,
}

impl Exchanges {
    /// The ranks of a communicator that no report has named dead.
    pub(super) fn view(&mut self, state: &Communicator) -> Rc<[Rank]> {
        let (comm, left_out) = (state.wire, state.commit.reported_dead().len());
        let is_known = |it: &&View| (it.comm, it.left_out) == (comm, left_out);
        if let Some(known) = self.view.as_ref().filter(is_known) {
            return known.ranks.clone();
        }
        let ranks: Rc<[Rank]> = state.view().collect();
        self.view = Some(View { comm, left_out, ranks: ranks.clone() });
        ranks
    }
}

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

    /// A buffer with room for so many bytes, and any in it: the smallest with this room, or a new
    /// one in the place of another, so that there are no more than are in use at once.
    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let room = |part: &AnyBuffer| part.as_any().downcast_ref().map(Vec::<u8>::capacity);
        let rooms = self.0.iter().enumerate().filter_map(|(at, part)| Some((room(part)?, at)));
        let best = rooms.min_by_key(|(room, _)| (*room < length, *room));
        let found = best.and_then(|(_, at)| self.0.swap_remove(at).into_vec());
        let found = found.filter(|buffer: &Vec<u8>| buffer.capacity() >= length);
        found.unwrap_or_else(|| Vec::with_capacity(length))
    }

    pub(super) fn keep(&mut self, part: AnyBuffer) {
        if part.elements() == 0 {
            return;
        }
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        self.0.push(part);
    }
}

/// What a message is for.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It takes elements to a peer.
    Sent,
    /// It brings the elements of this part of the buffer.
    Received(Range<usize>),
    /// It brings elements that are combined with the whole buffer, and stand before them, or after.
    Combined { before: bool },
    /// It brings the chunk with this number, of which a parity is made.
    Chunk(usize),
    /// It asks for an answer.
    Question,
    /// One word, a class of MPI, which is 0 if all is well. It comes before what is received.
    Answer,
}

impl Role {
    pub(super) fn is_elements(&self) -> bool {
        matches!(self, Self::Sent | Self::Received(_) | Self::Combined { .. })
    }
}

/// A message under way.
pub(super) struct Message {
    pub(super) peer: Rank,
    pub(super) role: Role,
    /// Nothing once it is over.
    pub(super) post: Option<PostId>,
}

/// An operation made of messages.
pub(super) struct Exchange {
    /// The application's, as long as the operation is not over.
    pub(super) buffer: Option<AnyBuffer>,
    pub(super) messages: Vec<Message>,
    /// What comes after these messages, if it is a collective.
    pub(super) schedule: Option<Box<Schedule>>,
    /// What comes after these messages, if it is a code and they bring chunks.
    pub(super) coding: Option<Box<Coding>>,
    /// When this rank has asked for the first time how far those are whom these messages need.
    pub(super) asked: Option<Duration>,
    /// Who is to blame, if not all came as expected.
    pub(super) failure: Option<(Rank, FaultCode)>,
}

impl Exchange {
    /// One without messages, so far.
    pub(super) fn new(buffer: AnyBuffer, messages: usize) -> Self {
        let messages = Vec::with_capacity(messages);
        let (schedule, coding) = (None, None);
        Self { buffer: Some(buffer), messages, schedule, coding, asked: None, failure: None }
    }

    /// The tag of the messages that follow, if any do.
    pub(super) fn tag(&self) -> Option<u32> {
        let of_code = self.coding.as_ref().map(|coding| coding.tag);
        self.schedule.as_ref().map(|schedule| schedule.tag).or(of_code)
    }

    /// True when messages follow of which none has started.
    pub(super) fn is_to_begin(&self) -> bool {
        self.coding.is_some() || self.schedule.as_ref().is_some_and(|it| it.started == 0)
    }

    /// Begins a collective over the living: a rank that passes on what it has combined keeps its
    /// buffer as it is. `size` is the number of ranks of the communicator.
    pub(super) fn prepare(&mut self, size: usize) {
        let Some(schedule) = &mut self.schedule else { return };
        if let (true, Some(buffer)) = (schedule.passes_on(), &self.buffer) {
            schedule.work = Some(buffer.copy(0, buffer.elements()));
        }
        if let (Collective::Exchange { .. }, Some(buffer)) =
            (&schedule.collective, &mut self.buffer)
        {
            let me = schedule.rank().index();
            let elements = buffer.elements();
            let from = schedule.collective.given(me, me, size, elements);
            let to = schedule.collective.taken(me, me, size, elements);
            let own = buffer.copy(from.start, from.len());
            buffer.fill(to.start, &*own);
        }
    }

    /// Which elements come from another rank, or go there.
    pub(super) fn part(&self, peer: Rank, size: usize, receives: bool) -> Range<usize> {
        let elements = self.buffer.as_ref().map_or(0, AnyBuffer::elements);
        let Some(schedule) = &self.schedule else { return 0..0 };
        let (peer, me) = (peer.index(), schedule.rank().index());
        if receives {
            schedule.collective.taken(peer, me, size, elements)
        } else {
            schedule.collective.given(peer, me, size, elements)
        }
    }

    /// Ends a collective all of whose rounds are over: brings the result to its place.
    pub(super) fn conclude(&mut self, size: usize) {
        let (Some(schedule), Some(buffer)) = (&self.schedule, &mut self.buffer) else { return };
        if let Collective::ReduceScatter { parts, .. } = &schedule.collective {
            let own = parts.range(schedule.rank().index(), size, buffer.elements());
            let part = buffer.copy(own.start, own.len());
            buffer.fill(0, &*part);
        }
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
    pub(super) fn held(&mut self) -> Option<&mut AnyBuffer> {
        let own = self.schedule.as_mut().and_then(|schedule| schedule.work.as_mut());
        own.or(self.buffer.as_mut())
    }

    /// All messages so far are over, and others follow.
    pub(super) fn begin_round(&mut self) {
        self.messages.clear();
        self.asked = None;
    }

    /// Notes that a message is over, and whether it came as expected.
    pub(super) fn note(&mut self, number: usize, progress: Progress, part: &mut AnyBuffer) {
        let message = &mut self.messages[number];
        message.post = None;
        let role = message.role.clone();
        if let (Progress::Complete(status), Role::Chunk(at), Some(coding)) =
            (progress, &role, &mut self.coding)
            && coding.take(*at, status.elements, part)
        {
            return;
        }
        let reduction = self.schedule.as_ref().and_then(|schedule| schedule.reduction);
        let code = match (progress, role, self.held()) {
            (Progress::Failed(code), ..) => code,
            (Progress::Complete(status), Role::Received(place), Some(buffer)) => {
                if status.elements == place.len() && buffer.fill(place.start, &**part) {
                    return;
                }
                FaultCode::Mpi(class::TRUNCATE)
            }
            (Progress::Complete(status), Role::Combined { before }, Some(buffer)) => {
                if status.elements == buffer.elements()
                    && reduction.is_some_and(|it| combine(it, &mut **buffer, &mut **part, before))
                {
                    return;
                }
                FaultCode::Mpi(class::TRUNCATE)
            }
            (Progress::Complete(_), Role::Chunk(_), _) => FaultCode::Mpi(class::TRUNCATE),
            (Progress::Complete(_), Role::Answer, _) => match words(&**part) {
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
    pub(super) fn awaits_answer(&self) -> bool {
        self.answer().is_some_and(|answer| answer.post.is_some())
    }

    /// Why the operation has failed, if it has, while some of its messages may be under way. After
    /// an answer of *no* those that belong to it still come: the next request must not meet them.
    pub(super) fn failed(&self, pending: bool) -> Option<(Rank, FaultCode)> {
        let waits = pending && self.answer().is_some();
        self.failure.filter(|(_, code)| !(waits && matches!(code, FaultCode::Mpi(_))))
    }

    /// The messages under way, which are the caller's to end.
    pub(super) fn take_posts(&mut self) -> impl Iterator<Item = PostId> + '_ {
        self.messages.iter_mut().filter_map(|message| message.post.take())
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
