//! What a block of this rank does for accesses of other ranks to its windows ([`super::window`]).
//!
//! In each turn of the engine, whatever this rank waits for, the blocks on communicators with
//! windows are looked after until they are decided, also when this rank has voted: others vote
//! only when they have their answers.
//!
//! What is put or accumulated waits here for the verdict and is dropped if that is *faulty*. What
//! is got is the memory as it is. Nothing that fails here is a fault of this rank's: whoever asked
//! has one of its own, or is dead.

use alloc::{vec, vec::Vec};

use smallvec::SmallVec;

use super::{
    BlockKey, CommKey, Engine,
    neighbours::words,
    window::{ANSWER, Access, GIVEN, GOTTEN, QUESTION, Question, WindowId, kind},
};
use crate::{
    fault::{FaultCode, class},
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Found, Lane, Operation, Post, PostId, Posted, Progress, Unneeded},
        reduction::{ReduceOp, Reduction},
    },
};

/// Questions that a block takes in one turn, at most.
const QUESTIONS_PER_TURN: usize = 32;

/// What others want of this rank in one block.
#[derive(Default)]
pub(super) struct Service {
    /// The question that is being received.
    asked: Option<(Rank, PostId)>,
    /// Accesses without an answer, in the order of their questions.
    due: Vec<Due>,
    /// Messages to origins that are under way.
    answers: Vec<PostId>,
    staged: Vec<Staged>,
}

/// An access that waits for its elements, or for earlier ones of the same rank.
struct Due {
    origin: Rank,
    question: Question,
    /// The window, or the class of the refusal.
    window: Result<WindowId, i32>,
    /// Where its elements are received, if it has some.
    given: Option<PostId>,
}

/// What the commit does to a window.
pub(super) struct Staged {
    origin: Rank,
    window: WindowId,
    at: usize,
    /// Nothing for a put.
    op: Option<ReduceOp>,
    part: AnyBuffer,
}

impl Staged {
    /// Does it; gives the buffer of the elements back.
    pub(super) fn apply(mut self, memory: &mut dyn Buffer) -> AnyBuffer {
        let reduction = self.op.and_then(|op| Reduction::predefined(op, memory.element()));
        if let Some(reduction) = reduction {
            let before = memory.copy(self.at, self.part.elements());
            reduction.combine(&*before, &mut *self.part);
        }
        let fits = memory.fill(self.at, &*self.part);
        debug_assert!(fits, "it was looked at before the answer");
        self.part
    }
}

/// Where a block's messages are.
#[derive(Clone, Copy)]
struct Place {
    comm: CommKey,
    block: BlockKey,
    lane: Lane,
}

impl Engine {
    /// Looks after the blocks in which others may use windows of this rank. False when there was
    /// nothing to do.
    pub(super) fn serve_windows(&mut self) -> bool {
        let mut busy = false;
        for at in 0..self.serving.len() {
            let key = self.serving[at];
            let block = self.block(key);
            let (comm, context) = (block.comm, block.context);
            let Some(data) = self.comm(comm).data else { continue };
            if context > self.comm(comm).settled_context {
                if self.awaits_context(comm, context) {
                    continue;
                }
                self.comm_mut(comm).settled_context = context;
            }
            let place = Place { comm, block: key, lane: Lane { data, context } };
            let mut service = self.contents_mut(key).service.take().unwrap_or_default();
            busy |= self.take_questions(place, &mut service);
            busy |= self.answer_due(place, &mut service);
            self.contents_mut(key).service = Some(service);
        }
        busy
    }

    /// Receives what others want. A question is short, so it is there when it is matched.
    fn take_questions(&mut self, place: Place, service: &mut Service) -> bool {
        let envelope = (None, Some(self.wire_tag(place.block, QUESTION)));
        for taken in 0..QUESTIONS_PER_TURN {
            if service.asked.is_none() {
                // After a death the platform may refuse, until it knows that we know; when the
                // block is interrupted, for good.
                let like = &mut Vec::<u64>::new();
                let found = self.platform.probe(place.lane, envelope, Some(like));
                let Ok(Some(Found { status, message: Some(message) })) = found else {
                    return taken > 0;
                };
                let from = status.source.unwrap_or(self.comm(place.comm).me);
                let operation = Operation::ReceiveMatched { message, from };
                let buffer = AnyBuffer::of(vec![0_u64; Question::WORDS]);
                match self.start_service(place, &operation, buffer) {
                    Some(post) => service.asked = Some((from, post)),
                    None => self.platform.discard(Unneeded::Message(message)),
                }
            }
            let Some((origin, post)) = service.asked else { continue };
            let mut buffer = None;
            let progress = self.platform.test(post, &mut buffer);
            if progress == Progress::Pending {
                return taken > 0;
            }
            service.asked = None;
            let asked = buffer.as_deref().and_then(words).and_then(Question::from_words);
            if let (Progress::Complete(_), Some(question)) = (progress, asked) {
                let due = self.admit(place, origin, question);
                service.due.push(due);
            }
        }
        true
    }

    /// Looks whether an access can be done, and receives its elements in any case.
    fn admit(&mut self, place: Place, origin: Rank, question: Question) -> Due {
        let mut window = self.find_window(place.comm, &question);
        let mut given = None;
        if question.access != Access::Get {
            let room = self.room_for(&window, &question);
            let tag = Some(self.wire_tag(place.block, GIVEN));
            let operation = Operation::Receive { from: Some(origin), tag };
            given = self.start_service(place, &operation, room);
            if given.is_none() {
                window = Err(class::OTHER);
            }
        }
        Due { origin, question, window, given }
    }

    /// The window that an origin means, or the class of MPI that says why it cannot be used so.
    fn find_window(&self, comm: CommKey, question: &Question) -> Result<WindowId, i32> {
        let window = self.window_of(comm, question.window).ok_or(class::WIN)?;
        // Waiting inside of a loan cannot end it: better a fault than a wait for ever.
        let memory = window.memory.try_borrow().map_err(|_| class::RMA_SYNC)?;
        if kind(&*memory) != question.kind {
            return Err(class::TYPE);
        }
        if let Access::Accumulate(op) = question.access
            && Reduction::predefined(op, memory.element()).is_none()
        {
            return Err(class::OP);
        }
        let end = question.at.checked_add(question.elements);
        let fits = end.is_some_and(|end| end <= memory.elements());
        if fits { Ok(window.id) } else { Err(class::RMA_RANGE) }
    }

    /// A buffer for the elements of an access; bytes, if they are refused.
    fn room_for(&mut self, window: &Result<WindowId, i32>, question: &Question) -> AnyBuffer {
        let &Question { at, elements, bytes, .. } = question;
        let known = self.windows.iter().find(|known| *window == Ok(known.id));
        match known.and_then(|known| known.memory.try_borrow().ok()) {
            Some(memory) => self.parts.take(&*memory, &(at..at + elements), false),
            None => AnyBuffer::of(vec![0_u8; bytes.saturating_mul(elements)]),
        }
    }

    /// Answers what has its elements, each origin in the order of its questions.
    fn answer_due(&mut self, place: Place, service: &mut Service) -> bool {
        let platform = &mut self.platform;
        service.answers.retain(|post| platform.test(*post, &mut None) == Progress::Pending);
        let mut waiting: SmallVec<[Rank; 8]> = SmallVec::new();
        let mut due = core::mem::take(&mut service.due);
        let before = due.len();
        due.retain_mut(|access| {
            if waiting.contains(&access.origin) {
                return true;
            }
            let mut part = None;
            if let Some(post) = access.given {
                let progress = self.platform.test(post, &mut part);
                if progress == Progress::Pending {
                    waiting.push(access.origin);
                    return true;
                }
                access.window = access.window.and_then(|id| access.arrived(progress).map(|()| id));
            }
            self.answer(place, service, access, part);
            false
        });
        let busy = due.len() < before;
        service.due = due;
        busy
    }

    /// Does an access as far as the block's end does not do it, and tells the origin.
    fn answer(
        &mut self,
        place: Place,
        service: &mut Service,
        access: &Due,
        part: Option<AnyBuffer>,
    ) {
        let Question { at, elements, access: what, .. } = access.question;
        let origin = access.origin;
        let mut gotten = AnyBuffer::nothing();
        let class = match (access.window, what, part) {
            (Err(class), ..) => class,
            (Ok(window), Access::Get, _) => {
                let known = self.windows.iter().find(|known| known.id == window);
                match known.map(|known| known.memory.try_borrow()) {
                    Some(Ok(memory)) => {
                        gotten = self.parts.take(&*memory, &(at..at + elements), true);
                        0
                    }
                    Some(Err(_)) => class::RMA_SYNC,
                    None => class::WIN,
                }
            }
            (Ok(window), what, Some(part)) => {
                let op = if let Access::Accumulate(op) = what { Some(op) } else { None };
                service.staged.push(Staged { origin, window, at, op, part });
                0
            }
            (Ok(_), _, None) => class::OTHER,
        };
        let class = u64::from(class.unsigned_abs());
        self.send_back(place, service, (origin, ANSWER), AnyBuffer::of(vec![class]));
        if what == Access::Get {
            self.send_back(place, service, (origin, GOTTEN), gotten);
        }
    }

    fn send_back(
        &mut self,
        place: Place,
        service: &mut Service,
        (to, tag): (Rank, u32),
        part: AnyBuffer,
    ) {
        let tag = self.wire_tag(place.block, tag);
        let operation = Operation::Send { to, tag, synchronous: false };
        service.answers.extend(self.start_service(place, &operation, part));
    }

    /// Starts a message; nothing if it is over, or cannot start.
    fn start_service(
        &mut self,
        place: Place,
        operation: &Operation,
        part: AnyBuffer,
    ) -> Option<PostId> {
        match self.platform.post(place.lane, operation, part) {
            Ok(Posted::Running(post)) => Some(post),
            // Of these only sends.
            Ok(Posted::Complete(_, part)) => {
                self.parts.keep(part);
                None
            }
            Err(_) => None,
        }
    }

    /// The block is decided: what was put is there if it is committed, and never was if not.
    #[cold]
    pub(super) fn end_service(&mut self, key: BlockKey, committed: bool) {
        let Some(service) = self.contents_mut(key).service.take() else { return };
        let Service { asked, due, answers, mut staged } = *service;
        let posts = due.iter().filter_map(|access| access.given).chain(answers);
        for post in posts.chain(asked.map(|(_, post)| post)) {
            if !self.process.has_left() {
                self.platform.abandon(Post::Kept(post), None);
            }
        }
        if !committed {
            return;
        }
        // Stable: what one origin put stays in the order of its questions.
        staged.sort_by_key(|staged| staged.origin);
        for staged in staged {
            let window = self.windows.iter_mut().find(|known| known.id == staged.window);
            if let Some(window) = window {
                window.late.push(staged);
            }
        }
        self.settle_windows();
    }
}

impl Due {
    /// Whether its elements have come as announced, or the class that says why not.
    fn arrived(&self, progress: Progress) -> Result<(), i32> {
        match progress {
            Progress::Complete(status) if status.elements == self.question.elements => Ok(()),
            Progress::Complete(_) => Err(class::TRUNCATE),
            Progress::Failed(FaultCode::Mpi(class)) => Err(class),
            Progress::Failed(_) | Progress::Pending => Err(class::OTHER),
        }
    }
}
