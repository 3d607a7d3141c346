//! Accesses to windows ([`super::window`]): posted by origins, and served by their targets.
//!
//! In each turn of the engine, whatever this rank waits for, the blocks on communicators with
//! windows are looked after until they are decided, also when this rank has voted: others vote
//! only when they have their answers.
//!
//! What is put or accumulated waits here for the verdict and is dropped if that is *faulty*. What
//! is got is the memory as it is. Nothing that fails here is a fault of this rank's: the rank that
//! asked has one of its own, or is dead.

use alloc::{rc::Rc, vec, vec::Vec};
use core::cell::RefCell;

use smallvec::SmallVec;

use super::{
    BlockKey, CommKey, Engine, Need,
    contents::{ANSWER, GIVEN, GOTTEN, QUESTION},
    exchange::{Exchange, Role, words},
    window::{Access, Due, Question, Service, Staged, WindowId, kind},
};
use crate::{
    error::Error,
    fault::class,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Found, Lane, Operation, Post, PostId, Posted, Progress, Unneeded},
        reduction::Reduction,
    },
};

/// Questions that a block takes in one turn, at most.
const QUESTIONS_PER_TURN: usize = 32;

/// Where a block's messages are.
#[derive(Clone, Copy)]
struct Place {
    comm: CommKey,
    block: BlockKey,
    lane: Lane,
}

impl Engine {
    /// Lets the other ranks of a communicator use this memory, in blocks that are not decided.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`], [`Error::WindowExists`].
    pub(crate) fn add_window(
        &mut self,
        comm: CommKey,
        number: u32,
        memory: Rc<RefCell<dyn Buffer>>,
    ) -> Result<WindowId, Error> {
        let state = self.process.comm(comm);
        if state.retired {
            return Err(self.why_retired());
        }
        self.windows.add((comm, number), memory, &state.open)
    }

    /// Others find this window no more.
    pub(crate) fn remove_window(&mut self, id: WindowId) {
        self.windows.remove(id);
    }

    /// The communicator that has the windows of this one, whatever epoch that is of.
    fn window_comm(&self, comm: CommKey) -> CommKey {
        self.comm(comm).present.unwrap_or(comm)
    }

    /// Posts an access to another rank's part of a window as the next request of a block. What
    /// the target does not like is a fault of the request.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::NotGlobal`], [`Error::ForeignWindow`],
    /// [`Error::NoSuchReduction`].
    pub(crate) fn post_access(
        &mut self,
        key: BlockKey,
        id: WindowId,
        (target, at): (Rank, usize),
        access: Access,
        buffer: AnyBuffer,
    ) -> Result<usize, Error> {
        let target = self.blocks.member(key, target)?;
        let block = self.block(key);
        if !block.level.is_agreed() {
            return Err(Error::NotGlobal);
        }
        let window = self.windows.number(id, self.window_comm(block.comm));
        let window = window.ok_or(Error::ForeignWindow)?;
        if let Access::Accumulate(op) = access
            && Reduction::predefined(op, buffer.element()).is_none()
        {
            return Err(Error::NoSuchReduction);
        }
        let (elements, bytes) = (buffer.elements(), buffer.element_bytes());
        let question = Question { window, access, at, elements, bytes, kind: kind(&*buffer) };
        self.settle_block(key);
        let mut exchange = Exchange::new(buffer, 3);
        self.add_message(
            key,
            &mut exchange,
            (target, ANSWER),
            Role::Answer,
            AnyBuffer::of(vec![0_u64]),
        );
        let (tag, receives) = match access {
            Access::Get => (GOTTEN, true),
            Access::Put | Access::Accumulate(_) => (GIVEN, false),
        };
        // What follows a message that could not start would be taken for its own.
        if !exchange.has_failed() {
            self.add_part(key, &mut exchange, (target, tag), &(0..elements), receives);
        }
        if !exchange.has_failed() {
            let words = AnyBuffer::of(question.to_words());
            self.add_message(key, &mut exchange, (target, QUESTION), Role::Question, words);
        }
        Ok(self.add_exchange(key, exchange, Need::Neighbours))
    }

    /// Writes what was committed while the application had borrowed the memory of a window.
    pub(crate) fn settle_windows(&mut self) {
        self.windows.settle(&mut self.exchanges.parts);
    }

    /// Looks after the blocks in which others may use windows of this rank. False when there was
    /// nothing to do.
    pub(super) fn serve_windows(&mut self) -> bool {
        let mut busy = false;
        for at in 0..self.windows.serving.len() {
            let key = self.windows.serving[at];
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
        let envelope = (None, Some(self.blocks.wire_tag(place.block, QUESTION)));
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
        let mut window = self.windows.find(self.window_comm(place.comm), &question);
        let mut given = None;
        if question.access != Access::Get {
            let room = self.windows.room_for(window, &question, &mut self.exchanges.parts);
            let tag = Some(self.blocks.wire_tag(place.block, GIVEN));
            let operation = Operation::Receive { from: Some(origin), tag };
            given = self.start_service(place, &operation, room);
            if given.is_none() {
                window = Err(class::OTHER);
            }
        }
        Due { origin, question, window, given }
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
                let parts = &mut self.exchanges.parts;
                match self.windows.read(window, &(at..at + elements), parts) {
                    Ok(part) => {
                        gotten = part;
                        0
                    }
                    Err(class) => class,
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
        let tag = self.blocks.wire_tag(place.block, tag);
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
                self.exchanges.parts.keep(part);
                None
            }
            Err(_) => None,
        }
    }

    /// The block is decided: what was put is there if it is committed, and never was if not.
    #[cold]
    pub(super) fn end_service(&mut self, key: BlockKey, committed: bool) {
        let Some(service) = self.contents_mut(key).service.take() else { return };
        let Service { asked, due, answers, staged } = *service;
        let posts = due.iter().filter_map(|access| access.given).chain(answers);
        for post in posts.chain(asked.map(|(_, post)| post)) {
            if !self.process.has_left() {
                self.platform.abandon(Post::Kept(post), None);
            }
        }
        if committed {
            self.windows.commit(staged, &mut self.exchanges.parts);
        }
    }
}
