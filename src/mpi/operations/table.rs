//! The table of operations under way, ours and those that the user of a guest started.
//!
//! MPI forgets a request when it is over, an operation stays in its slot until the engine has been
//! told what it came to. One that was given up stays until MPI has let go of it. Messages of blocks
//! take no slot while their blocks want them ([`in_flight`](super::in_flight)), unless they start
//! while a process is dead, or while their context is still being made.
//!
//! **Guarantees.** A buffer is let go of only after MPI has let go of it.

use std::{
    mem,
    rc::Rc,
    time::{Duration, Instant},
};

use mpi::ffi;

use super::{users::Users, users_table::UsersTable};
use crate::{
    fault::FaultCode,
    mpi::calls::{
        collectives::Layout,
        comm::Handle,
        files::File,
        library::PROC_FAILED_PENDING,
        request::{Done, Types, empty_status},
        ulfm::Ulfm,
    },
    mpi::this_mpi,
    native::{Kind, Request},
    seam::{
        buffer::AnyBuffer,
        platform::{DataId, Lane, PostId, Progress},
    },
};

/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

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
    /// Only MPI knows it any more.
    GivenUp,
}

impl Own {
    /// Looks once. What it came to is not remembered: a copy of what was just written is slow.
    #[inline]
    fn look(&self, request: &mut Request, ulfm: &Ulfm) -> Progress {
        let mut done = Done::new(empty_status());
        let counted = self.kind.is_counted().then_some(&mut done);
        let test = || request.test_with(counted);
        let tested = if self.kind == Kind::File {
            let (tested, refused) = this_mpi::test_access(test);
            if let Some(fault) = refused.filter(|_| request.is_over()) {
                return Progress::Failed(fault);
            }
            tested
        } else {
            test()
        };
        match tested {
            Ok(false) => Progress::Pending,
            Ok(true) => self.kind.moved(&done, self.elements, Ok(self.element)),
            Err(refusal) if !request.is_over() => {
                if let Some(done) = self.end_cancelled(request) {
                    return self.kind.moved(&done, self.elements, Ok(self.element));
                }
                // Another rank may still send; MPI wants to hear that we know of the death.
                if let Some(comm) = self.comm.filter(|_| refusal.class == PROC_FAILED_PENDING) {
                    comm.acknowledge_failures(ulfm);
                }
                Progress::Pending
            }
            Err(refusal) => Progress::Failed(refusal.fault()),
        }
    }

    /// The status of a receive that is over, as it was cancelled, though its test says that it is
    /// open after a death. MPI has let go of it then.
    #[cold]
    fn end_cancelled(&self, request: &mut Request) -> Option<Done> {
        let is_cancelled = self.kind == Kind::Cancelled;
        let done = is_cancelled.then(|| request.status().ok().flatten()).flatten()?;
        mem::take(request).release();
        Some(done)
    }
}

/// An operation of ours under way.
struct Slot {
    request: Request,
    lane: Lane,
    own: Own,
}

impl Slot {
    /// Looks at an operation that is not asked for, which MPI wants; true when it is over.
    fn ends(&mut self) -> bool {
        // An error ends the request as well as success does, except for a pending wildcard.
        let Self { request, own, .. } = self;
        let mut test = || if request.is_over() { Ok(None) } else { request.test() };
        let is_access = own.kind == Kind::File;
        match if is_access { this_mpi::test_access(test).0 } else { test() } {
            Err(_) if !request.is_over() => own.end_cancelled(request).is_some(),
            _ => request.is_over(),
        }
    }
}

/// The operations of this process, but for the messages that are in their records.
#[derive(Default)]
pub(in crate::mpi) struct Table {
    slots: Vec<Option<Slot>>,
    /// The places that are free.
    free: Vec<u32>,
    /// The places of what is not asked for any more, and MPI has not let go of.
    strays: Vec<u32>,
    /// Those of the user.
    pub(super) users: UsersTable,
    closed: bool,
}

impl Table {
    /// Keeps an operation that was started, with what MPI uses until it is over.
    pub(super) fn add(&mut self, request: Request, lane: Lane, own: Own) -> PostId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[at as usize] = Some(Slot { request, lane, own });
        PostId(at)
    }

    /// Keeps what MPI uses for an operation that is not asked for.
    pub(super) fn add_stray(
        &mut self,
        (request, kind): (Request, Kind),
        lane: Lane,
        buffer: Option<AnyBuffer>,
    ) {
        let (elements, element, comm) = (0, Types::bytes(), None);
        let state = State::Wanted;
        let own = Own { kind, elements, element, comm, buffer, _extra: None, state };
        let post = self.add(request, lane, own);
        self.abandon(post);
    }

    #[inline]
    fn slot(&mut self, post: PostId) -> Option<&mut Slot> {
        self.slots.get_mut(post.0 as usize)?.as_mut()
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
        if let Some(users) = self.users.get(post) {
            return users.look();
        }
        let Some(Slot { request, own, .. }) = self.slot(post) else {
            return Progress::Failed(FaultCode::Interrupted);
        };
        let progress = match own.state {
            State::Wanted => own.look(request, ulfm),
            State::Over(progress) => progress,
            State::GivenUp => return Progress::Failed(FaultCode::Interrupted),
        };
        if progress != Progress::Pending
            && let Some(Slot { own, .. }) = self.remove(post)
        {
            *buffer = own.buffer;
        }
        progress
    }

    /// True for a message of the user that is over, and has not failed. No call is made.
    #[inline]
    pub(in crate::mpi) fn is_whole(&mut self, post: PostId) -> bool {
        self.users.get(post).is_some_and(Users::is_whole)
    }

    /// Asks MPI to end a receive, or whatever the user has started. If it has failed for its block,
    /// it was interrupted for others that ask.
    pub(in crate::mpi) fn cancel(&mut self, post: PostId, why: Option<FaultCode>) {
        if let Some(users) = self.users.get(post) {
            users.cancel(why);
        } else if let Some(Slot { request, own, .. }) = self.slot(post) {
            own.kind.cancel(request);
        }
    }

    /// Gives up an operation. What the user started is the user's to end.
    pub(in crate::mpi) fn abandon(&mut self, post: PostId) {
        let Some(Slot { request, own, .. }) = self.slot(post) else { return };
        if !matches!(mem::replace(&mut own.state, State::GivenUp), State::GivenUp) {
            own.kind.cancel(request);
            self.lose(post);
        }
    }

    /// An operation is not asked for any more: its place is free when MPI has let go of it.
    fn lose(&mut self, post: PostId) {
        if self.slot(post).is_some_and(Slot::ends) {
            self.remove(post);
        } else {
            self.strays.push(post.0);
        }
    }

    /// Frees the places of what was given up and is over.
    pub(in crate::mpi) fn sweep(&mut self) {
        self.users.sweep();
        let Self { slots, free, strays, .. } = self;
        strays.retain(|at| {
            let is_over = slots[*at as usize].take_if(Slot::ends).is_some();
            if is_over {
                free.push(*at);
            }
            !is_over
        });
    }

    /// True when MPI may still work for those of this context, or of one before it.
    pub(in crate::mpi) fn needs(&self, data: DataId, context: u32) -> bool {
        let given_up = |slot: &Slot| matches!(slot.own.state, State::GivenUp);
        let needs = |slot: &Slot| given_up(slot) || !slot.request.is_over();
        let below = |slot: &&Slot| slot.lane.is_below(data, context + 1);
        self.slots.iter().flatten().filter(below).any(needs)
    }

    /// Looks at the operations of the retired contexts until they are over, or for a moment.
    pub(in crate::mpi) fn drain(&mut self, data: DataId, context: u32, ulfm: &Ulfm) {
        look_for_a_moment(|| {
            let below = |slot: &&mut Slot| slot.lane.is_below(data, context);
            let mut pending = false;
            for Slot { request, own, .. } in self.slots.iter_mut().flatten().filter(below) {
                if matches!(own.state, State::Wanted) {
                    let progress = own.look(request, ulfm);
                    if progress == Progress::Pending {
                        pending = true;
                    } else {
                        own.state = State::Over(progress);
                    }
                }
            }
            pending
        });
    }

    /// Looks at the user's operations in blocks on a communicator that was revoked. What does
    /// not end, as it runs on another one, is over for its block, while MPI still has it.
    pub(in crate::mpi) fn drain_users(&mut self, data: DataId) {
        look_for_a_moment(|| {
            let looked = self.users.of_blocks_on(data).map(Users::look);
            looked.filter(|progress| *progress == Progress::Pending).count() > 0
        });
        self.users.of_blocks_on(data).for_each(Users::interrupt);
    }

    /// How many operations of ours there are, and how many of them were given up.
    pub(in crate::mpi) fn held(&self) -> (usize, usize) {
        let (own, strays) = (self.slots.len() - self.free.len(), self.strays.len());
        let all_strays = strays + self.users.strays();
        (own + self.users.count() - all_strays, all_strays)
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
        let began = Instant::now();
        while !self.strays.is_empty() && began.elapsed() < within {
            self.sweep();
        }
        for at in self.strays.drain(..) {
            if let Some(Slot { own, .. }) = self.slots[at as usize].take() {
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

/// Looks until nothing is pending any more, or for a moment.
fn look_for_a_moment(mut is_pending: impl FnMut() -> bool) {
    let began = Instant::now();
    while is_pending() && began.elapsed() < DRAIN_WITHIN {}
}
