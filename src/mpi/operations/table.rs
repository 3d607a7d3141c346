//! The table of operations under way, ours and those that the user of a guest started.
//!
//! MPI forgets a request when it is over, an operation stays in its slot until somebody has been
//! told what it came to. One that was given up stays until MPI has let go of it. Messages of blocks
//! take no slot while their blocks want them ([`in_flight`](super::in_flight)), unless they start
//! while somebody is dead, or while their context is still being made.
//!
//! **Guarantees.** A buffer is let go of only after MPI has let go of it.

use std::{
    mem,
    rc::Rc,
    time::{Duration, Instant},
};

use mpi::ffi;

use super::users::Users;
use crate::{
    fault::FaultCode,
    mpi::{
        calls::{
            collectives::Layout,
            comm::Handle,
            files::File,
            library::{PROC_FAILED_PENDING, Refusal},
            request::{Done, Types, empty_status},
            ulfm::Ulfm,
        },
        this_mpi::{Free, Keeping},
    },
    native::{Kind, Request},
    seam::{
        buffer::AnyBuffer,
        platform::{DataId, Lane, PostId, Progress, Status},
    },
};

/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

impl Kind {
    /// True when its status says how much has come.
    #[inline]
    pub(super) fn is_counted(self) -> bool {
        matches!(self, Self::File | Self::Receive | Self::Cancelled)
    }

    /// Asks MPI to end a receive.
    pub(super) fn cancel(&mut self, request: &mut Request) {
        if *self == Self::Receive && !request.is_over() {
            *self = Self::Cancelled;
            request.cancel();
        }
    }

    /// What an operation that is over has moved, of so many elements of this datatype.
    pub(super) fn moved(
        self,
        done: &Done,
        elements: usize,
        element: Result<ffi::MPI_Datatype, FaultCode>,
    ) -> Progress {
        if self == Self::Cancelled && done.is_cancelled() {
            return Progress::Complete(Status { cancelled: true, ..Status::default() });
        }
        if !self.is_counted() {
            return Progress::Complete(Status { elements, ..Status::default() });
        }
        match element.and_then(|element| done.count(element).map_err(Refusal::fault)) {
            Ok(elements) if self == Self::File => {
                Progress::Complete(Status { elements, ..Status::default() })
            }
            counted => {
                counted.map_or_else(Progress::Failed, |it| Progress::Complete(done.told(it)))
            }
        }
    }
}

/// What MPI may use beside the buffer until the request is over, for the few operations that need
/// more.
pub(super) struct Extra {
    pub(super) layout: Layout,
    pub(super) _file: Option<Rc<File>>,
}

/// An operation of ours.
pub(super) struct Own {
    pub(super) kind: Kind,
    /// How many elements fill the buffer, and the datatype of one.
    pub(super) elements: usize,
    pub(super) element: ffi::MPI_Datatype,
    /// Where deaths are acknowledged that hold it up.
    pub(super) comm: Option<Handle>,
    pub(super) buffer: Option<AnyBuffer>,
    pub(super) _extra: Option<Box<Extra>>,
    pub(super) state: State,
}

/// What is left to do for an operation of ours.
pub(super) enum State {
    /// The engine asks for it.
    Wanted,
    /// It was over before the engine asked.
    Over(Progress),
    /// Nobody but MPI knows it any more.
    GivenUp,
}

impl Own {
    /// Looks once. What it came to is not remembered: a copy of what was just written is slow.
    #[inline]
    fn look(&self, request: &mut Request, ulfm: &Ulfm) -> Progress {
        let mut done = Done::new(empty_status());
        match request.test_with(self.kind.is_counted().then_some(&mut done)) {
            Ok(false) => Progress::Pending,
            Ok(true) => self.kind.moved(&done, self.elements, Ok(self.element)),
            Err(refusal) if !request.is_over() => {
                // Somebody else may still send; MPI wants to hear that we know of the death.
                if let Some(comm) = self.comm.filter(|_| refusal.class == PROC_FAILED_PENDING) {
                    comm.acknowledge_failures(ulfm);
                }
                Progress::Pending
            }
            Err(refusal) => Progress::Failed(refusal.fault()),
        }
    }
}

/// Whose an operation is.
pub(super) enum Owner {
    Engine(Own),
    /// The user's, who writes to memory of its own.
    User(Users),
}

/// An operation under way.
struct Slot {
    request: Request,
    /// Where it runs; for the user's, the communicator of its block.
    lane: Lane,
    owner: Owner,
}

impl Slot {
    /// Looks at an operation that nobody asks for, which MPI wants; true when it is over.
    fn ends(&mut self) -> bool {
        match &mut self.owner {
            // An error ends the request as well as success does, except for a pending wildcard.
            Owner::Engine(_) => {
                let request = &mut self.request;
                request.is_over() || !matches!(request.test(), Ok(None)) && request.is_over()
            }
            Owner::User(users) => {
                users.look(&mut self.request);
                users.has_ended()
            }
        }
    }

    /// True for what is left of a request of the user that nobody asks for any more.
    #[inline]
    fn is_former(&self) -> bool {
        matches!(&self.owner, Owner::User(users) if users.is_former)
    }

    /// What was the user's is over, and leaves its place to the next.
    fn leave(&mut self) {
        if let Owner::User(users) = &mut self.owner {
            (users.is_former, self.lane) = (true, Lane::NOWHERE);
        }
    }

    /// Nobody asks for it, and MPI works for it no more.
    fn end(&self) {
        if let Owner::User(users) = &self.owner {
            users.end(&self.request);
        }
    }
}

/// The operations of this process, but for the messages that are in their records.
#[derive(Default)]
pub(in crate::mpi) struct Table {
    slots: Vec<Option<Slot>>,
    /// The places that are free.
    free: Vec<u32>,
    /// Those that have what is left of a request of the user, to be filled with the next.
    former: Vec<u32>,
    /// The places of what nobody asks for any more, and MPI has not let go of.
    strays: Vec<u32>,
    closed: bool,
}

impl Table {
    /// Keeps an operation that was started, with what MPI uses until it is over.
    pub(super) fn add(&mut self, request: Request, lane: Lane, owner: Owner) -> PostId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[at as usize] = Some(Slot { request, lane, owner });
        PostId(at)
    }

    /// Keeps what MPI uses for an operation that nobody asks for.
    pub(super) fn add_stray(
        &mut self,
        (request, kind): (Request, Kind),
        lane: Lane,
        buffer: Option<AnyBuffer>,
    ) {
        let (elements, element, comm) = (0, Types::bytes(), None);
        let state = State::Wanted;
        let own = Own { kind, elements, element, comm, buffer, _extra: None, state };
        let post = self.add(request, lane, Owner::Engine(own));
        self.abandon(post);
    }

    /// Keeps a request of the user.
    ///
    /// What is moved is written in small pieces and copied in larger ones, for which a processor
    /// waits: a place that had a request of the user is filled where it is.
    ///
    /// # Safety
    ///
    /// As for [`Users::keep`].
    #[inline]
    pub(super) unsafe fn add_users(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
    ) -> PostId {
        // SAFETY: live until we give it back.
        let new = unsafe { Request::from_raw(raw) };
        if let Some(at) = self.former.pop()
            && let Some(Slot { request, lane, owner: Owner::User(users) }) =
                &mut self.slots[at as usize]
        {
            (*request, *lane) = (new, Lane::NOWHERE);
            // SAFETY: our caller's promise.
            unsafe { users.keep_next(keeping, raw, instead) };
            return PostId(at);
        }
        // SAFETY: as above.
        let users = unsafe { Users::keep(keeping, raw, instead) };
        self.add(new, Lane::NOWHERE, Owner::User(users))
    }

    #[inline]
    fn slot(&mut self, post: PostId) -> Option<&mut Slot> {
        self.slots.get_mut(post.0 as usize)?.as_mut().filter(|slot| !slot.is_former())
    }

    /// Frees the place of an operation.
    fn remove(&mut self, post: PostId) -> Option<Slot> {
        let removed = self.slots.get_mut(post.0 as usize)?.take()?;
        self.free.push(post.0);
        Some(removed)
    }

    /// Looks at an operation. One of ours is gone when it is over, and has left its buffer.
    #[inline]
    pub(in crate::mpi) fn test(
        &mut self,
        post: PostId,
        buffer: &mut Option<AnyBuffer>,
        ulfm: &Ulfm,
    ) -> Progress {
        let Some(Slot { request, owner, .. }) = self.slot(post) else {
            return Progress::Failed(FaultCode::Interrupted);
        };
        let progress = match owner {
            Owner::User(users) => return users.look(request),
            Owner::Engine(own) => match own.state {
                State::Wanted => own.look(request, ulfm),
                State::Over(progress) => progress,
                State::GivenUp => return Progress::Failed(FaultCode::Interrupted),
            },
        };
        if progress != Progress::Pending
            && let Some(Slot { owner: Owner::Engine(own), .. }) = self.remove(post)
        {
            *buffer = own.buffer;
        }
        progress
    }

    /// True for a message of the user that is over, and has not failed.
    #[inline]
    pub(super) fn is_whole(&mut self, post: PostId) -> bool {
        match self.slot(post) {
            Some(Slot { request, owner: Owner::User(users), .. }) => users.is_whole(request),
            _ => false,
        }
    }

    /// Asks MPI to end a receive, or whatever the user has started. If it has failed for its block,
    /// it was interrupted for whoever else asks.
    pub(in crate::mpi) fn cancel(&mut self, post: PostId, why: Option<FaultCode>) {
        match self.slot(post) {
            Some(Slot { request, owner: Owner::Engine(own), .. }) => own.kind.cancel(request),
            Some(Slot { request, owner: Owner::User(users), .. }) => users.cancel(request, why),
            None => {}
        }
    }

    /// Gives up an operation. What the user started is the user's to end.
    pub(in crate::mpi) fn abandon(&mut self, post: PostId) {
        let Some(Slot { request, owner: Owner::Engine(own), .. }) = self.slot(post) else { return };
        if !matches!(mem::replace(&mut own.state, State::GivenUp), State::GivenUp) {
            own.kind.cancel(request);
            self.lose(post);
        }
    }

    /// Nobody asks for an operation any more: its place is free when MPI has let go of it.
    fn lose(&mut self, post: PostId) {
        if self.slot(post).is_some_and(Slot::ends) {
            self.remove(post);
        } else {
            self.strays.push(post.0);
        }
    }

    /// Frees the places of what was given up and is over.
    pub(in crate::mpi) fn sweep(&mut self) {
        let Self { slots, free, strays, .. } = self;
        strays.retain(|at| {
            if let Some(over) = slots[*at as usize].take_if(Slot::ends) {
                free.push(*at);
                over.end();
            }
            slots[*at as usize].is_some()
        });
    }

    /// True when MPI may still work for those of this context, or of one before it.
    pub(in crate::mpi) fn needs(&self, data: DataId, context: u32) -> bool {
        let needs = |slot: &Slot| match &slot.owner {
            Owner::Engine(own) => matches!(own.state, State::GivenUp) || !slot.request.is_over(),
            Owner::User(_) => false,
        };
        let below = |slot: &&Slot| slot.lane.is_below(data, context + 1);
        self.slots.iter().flatten().filter(below).any(needs)
    }

    /// Looks at the operations of the retired contexts until they are over, or for a moment.
    pub(in crate::mpi) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        self.look_for_a_moment(|slot| match &mut slot.owner {
            Owner::Engine(own)
                if matches!(own.state, State::Wanted) && slot.lane.is_below(data, context) =>
            {
                let progress = own.look(&mut slot.request, ulfm);
                if progress != Progress::Pending {
                    own.state = State::Over(progress);
                }
                progress == Progress::Pending
            }
            _ => false,
        });
    }

    /// The same for the user's operations in blocks on a communicator that was revoked. What does
    /// not end, as it runs on another one, is over for its block, while MPI still has it.
    pub(in crate::mpi) fn drain_users(&mut self, data: DataId) {
        self.look_for_a_moment(|slot| match &mut slot.owner {
            Owner::User(users) if slot.lane.data == data => {
                users.look(&mut slot.request) == Progress::Pending
            }
            _ => false,
        });
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.lane.data == data) {
            if let Owner::User(users) = &mut slot.owner {
                users.interrupt();
            }
        }
    }

    /// Looks at all slots until none is pending any more.
    fn look_for_a_moment(&mut self, mut is_pending: impl FnMut(&mut Slot) -> bool) {
        let began = Instant::now();
        let mut looked = |slot: &mut Slot| is_pending(slot).then_some(());
        while self.slots.iter_mut().flatten().filter_map(&mut looked).count() > 0
            && began.elapsed() < DRAIN_WITHIN
        {}
    }

    /// An operation of the user, and the communicator of its block.
    #[inline]
    pub(super) fn users(&mut self, post: PostId) -> Option<(&mut Users, &mut Lane)> {
        let Slot { owner, lane, .. } = self.slot(post)?;
        let Owner::User(users) = owner else { return None };
        Some((users, lane))
    }

    /// The same with its request.
    pub(super) fn users_request(&mut self, post: PostId) -> Option<(&mut Users, &Request, Lane)> {
        let Slot { owner, request, lane } = self.slot(post)?;
        let Owner::User(users) = owner else { return None };
        Some((users, request, *lane))
    }

    /// One of those who asked for an operation of the user does no more. True after the last, if
    /// the user has freed the request: MPI has it back as soon as it is over.
    pub(super) fn forget_users(&mut self, post: PostId) -> bool {
        let Some((users, _)) = self.users(post) else { return false };
        let (is_last, is_freed, has_ended) = (users.forget(), users.is_freed, users.has_ended());
        if is_last && is_freed && !has_ended {
            self.strays.push(post.0);
        } else if is_last {
            if let Some(slot) = self.slot(post) {
                slot.end();
                slot.leave();
            }
            self.former.push(post.0);
        }
        is_last && is_freed
    }

    /// The present operation of a request of the user: another one if it was started again.
    pub(super) fn renew_users(&mut self, post: PostId) -> PostId {
        let Some(Slot { request, owner: Owner::User(users), .. }) = self.slot(post) else {
            return post;
        };
        let Some((request, again)) = users.again(request) else { return post };
        self.forget_users(post);
        self.add(request, Lane::NOWHERE, Owner::User(again))
    }

    /// MPI ends, and has all requests of the user back.
    pub(super) fn give_back_users(&mut self) {
        for Slot { request, owner, .. } in self.slots.iter().flatten() {
            if let Owner::User(users) = owner
                && !users.is_former
            {
                users.give_back(request);
            }
        }
    }

    /// How many operations of ours there are, and how many of them were given up.
    pub(in crate::mpi) fn held(&self) -> (usize, usize) {
        let strays = self.strays.len();
        (self.slots.iter().flatten().count() - self.former.len() - strays, strays)
    }

    /// Gives up the operations of a data communicator.
    pub(in crate::mpi) fn discard(&mut self, data: DataId) {
        for at in 0..self.slots.len() {
            if self.slots[at].as_ref().is_some_and(|slot| slot.lane.data == data) {
                self.abandon(PostId(at as u32));
            }
        }
    }

    /// Ends everything; what MPI does not let go of is leaked.
    pub(in crate::mpi) fn close(&mut self, within: Duration) {
        for at in 0..self.slots.len() {
            self.abandon(PostId(at as u32));
        }
        // The user's may go on.
        let Self { slots, strays, .. } = self;
        let is_own = |slot: &Slot| matches!(slot.owner, Owner::Engine(_));
        strays.retain(|at| slots[*at as usize].as_ref().is_some_and(is_own));
        let began = Instant::now();
        while !self.strays.is_empty() && began.elapsed() < within {
            self.sweep();
        }
        for at in self.strays.drain(..) {
            if let Some(Slot { owner: Owner::Engine(own), .. }) = self.slots[at as usize].take() {
                mem::forget(own);
            }
        }
        self.closed = true;
    }

    /// True after [`Self::close`].
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}
