//! Data communicators: operations under way, contexts, what a death does to them.
//!
//! ```text
//!  contexts of one rank:   0   1   2   3
//!                          └ retired: its operations ended as interrupted, messages dropped
//!                              └ in use
//!                                  └ made once every rank has retired 0, all of them alive
//! ```
//!
//! Beside them there is one for messages, [`FIRST_SHARED_CONTEXT`], which stays.
//!
//! Retiring reaches the other ranks after a latency, as `MPIX_Comm_revoke` would.

use std::collections::BTreeMap;

use super::{MAX_TAG, Pid, Time, World, collectives::Meeting, event::Event, matching::Port, note};
use crate::{
    fault::{FaultCode, class},
    ids::mix,
    protocol::agreement::FIRST_SHARED_CONTEXT,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{DataId, Operation, PostId, Progress, Status},
    },
};

/// A data communicator, all ranks of it.
pub(in crate::sim) struct Comm {
    pub(in crate::sim) members: Vec<Pid>,
    pub(in crate::sim) sides: Vec<Side>,
    /// Collectives under way, by context and number.
    pub(in crate::sim) meetings: BTreeMap<(u32, u32), Meeting>,
    /// When the last message arrives, by sender and receiver.
    pub(in crate::sim) links: BTreeMap<(usize, usize), Time>,
    /// Contexts that all ranks have asked for.
    made: u32,
    /// The rank that certainly gets an error from collectives after the last death.
    pub(in crate::sim) victim: Option<usize>,
}

/// One rank's view of a communicator.
#[derive(Default)]
pub(in crate::sim) struct Side {
    /// Contexts below are retired by this rank.
    pub(in crate::sim) retired: u32,
    /// Contexts below are over for this rank.
    pub(in crate::sim) revoked: u32,
    made: u32,
    pub(in crate::sim) discarded: bool,
    pub(in crate::sim) ports: BTreeMap<u32, Port>,
}

/// An operation under way.
pub(in crate::sim) struct Post {
    pub(in crate::sim) comm: usize,
    pub(in crate::sim) rank: usize,
    pub(in crate::sim) context: u32,
    pub(in crate::sim) operation: Operation,
    pub(in crate::sim) buffer: AnyBuffer,
    pub(in crate::sim) progress: Progress,
    /// A send or receive whose other half has been found.
    pub(in crate::sim) matched: bool,
    /// Number of the collective.
    pub(in crate::sim) number: u32,
    abandoned: bool,
    /// It is a request of the program, which has handed it over.
    pub(in crate::sim) handed: Option<Handed>,
}

/// What is known of a request of the program beside its operation.
#[derive(Default)]
pub(in crate::sim) struct Handed {
    /// How many use it: the program, blocks.
    pub(in crate::sim) uses: u32,
    /// The communicator of its block.
    pub(in crate::sim) block: Option<DataId>,
    /// Its block was doomed while it was pending.
    pub(in crate::sim) given_up: Option<FaultCode>,
    /// What it has failed with, for its block, when the world was asked to end it.
    pub(in crate::sim) cut: Option<FaultCode>,
}

impl Post {
    pub(in crate::sim) fn status(&self) -> Status {
        Status { elements: self.buffer.elements(), ..Status::default() }
    }

    /// It has got a message.
    fn received(&self) -> bool {
        matches!(self.progress, Progress::Complete(status) if !status.cancelled)
    }

    /// The process without which this send or receive cannot complete, as a rank.
    fn needs(&self) -> Option<Rank> {
        match self.operation {
            _ if self.matched => None,
            Operation::Send { to, .. } => Some(to),
            Operation::Receive { from, .. } => from,
            Operation::ReceiveMatched { from, .. } => Some(from),
            Operation::Collective(_) | Operation::File(_) => None,
        }
    }

    pub(in crate::sim) fn describe(&self) -> String {
        let place = format!("in c{} context {}", self.comm, self.context);
        match self.operation {
            Operation::Send { to, tag, .. } => format!("send to {to}, tag {tag}, {place}"),
            Operation::Receive { from, tag } => {
                let from = from.map_or("any".to_owned(), |from| from.to_string());
                let tag = tag.map_or("any".to_owned(), |tag| tag.to_string());
                format!("receive from {from}, tag {tag}, {place}")
            }
            Operation::ReceiveMatched { from, .. } => {
                format!("matched receive from {from} {place}")
            }
            Operation::Collective(ref collective) => {
                format!("{} {} {place}", collective.name(), self.number)
            }
            Operation::File(access) => {
                format!("{} a file", if access.writes { "write to" } else { "read from" })
            }
        }
    }
}

impl World {
    pub(in crate::sim) fn add_comm(&mut self, members: Vec<Pid>) -> usize {
        let side = |_: &Pid| Side { made: 2, ..Side::default() };
        self.comms.push(Comm {
            sides: members.iter().map(side).collect(),
            members,
            meetings: BTreeMap::new(),
            links: BTreeMap::new(),
            made: 2,
            victim: None,
        });
        self.comms.len() - 1
    }

    /// Starts an operation at this rank of a communicator.
    pub(in crate::sim) fn post(
        &mut self,
        me: Pid,
        (comm, rank): (usize, usize),
        context: u32,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<PostId, (FaultCode, AnyBuffer)> {
        let side = &self.comms[comm].sides[rank];
        let is_file = matches!(operation, Operation::File(_));
        let made = context < side.made || context == FIRST_SHARED_CONTEXT;
        if !is_file && (context < side.revoked || !made) {
            return Err((FaultCode::Interrupted, buffer));
        }
        if let Some(class) = self.refusal(me, comm, operation, buffer.elements()) {
            return Err((FaultCode::Mpi(class), buffer));
        }
        let it = &mut self.processes[me];
        let id = PostId(it.next_post);
        it.next_post += 1;
        let post = Post {
            comm,
            rank,
            context,
            operation: operation.clone(),
            buffer,
            progress: Progress::Pending,
            matched: false,
            number: 0,
            abandoned: false,
            handed: None,
        };
        let local = it.local;
        note!(self, local, "p{me} posts {}", post.describe());
        self.processes[me].posts.insert(id.0, post);
        match *operation {
            Operation::Send { to, tag, synchronous } => {
                self.start_send(me, id, to, tag, synchronous);
            }
            Operation::Receive { .. } => self.start_receive(me, id),
            Operation::ReceiveMatched { message, .. } => self.start_matched(me, id, message),
            Operation::Collective(ref collective) => {
                self.start_collective(me, id, collective.clone());
            }
            Operation::File(access) => self.start_file(me, id, access),
        }
        Ok(id)
    }

    /// Ends an operation, and fills its buffer with what it receives.
    pub(in crate::sim) fn complete(
        &mut self,
        process: Pid,
        id: PostId,
        progress: Progress,
        payload: Option<AnyBuffer>,
    ) {
        let Some(post) = self.processes[process].posts.get_mut(&id.0) else { return };
        if post.progress != Progress::Pending {
            return;
        }
        let filled = payload.map_or(Ok(()), |payload| fill(&mut *post.buffer, &*payload));
        post.progress = match filled {
            Ok(()) => progress,
            Err(class) => Progress::Failed(FaultCode::Mpi(class)),
        };
        let (comm, rank, context) = (post.comm, post.rank, post.context);
        // One that has got a message left the queue when it matched.
        let waits = matches!(post.operation, Operation::Receive { .. }) && !post.received();
        if waits && let Some(port) = self.comms[comm].sides[rank].ports.get_mut(&context) {
            port.posted.retain(|posted| *posted != id);
        }
        let post = &self.processes[process].posts[&id.0];
        let abandoned = post.abandoned;
        note!(self, self.now(), "p{process}: {} is {:?}", post.describe(), post.progress);
        if abandoned {
            self.processes[process].posts.remove(&id.0);
        } else {
            self.wake(process);
        }
    }

    /// Ends a receive that has no message yet, as if nothing had been asked.
    pub(in crate::sim) fn cancel(&mut self, me: Pid, id: PostId) {
        if self.is_cancellable(me, id) {
            let cancelled = Status { cancelled: true, ..Status::default() };
            self.complete(me, id, Progress::Complete(cancelled), None);
        }
    }

    fn is_cancellable(&self, me: Pid, id: PostId) -> bool {
        self.processes[me].posts.get(&id.0).is_some_and(|post| {
            let unmatched = matches!(post.operation, Operation::Receive { .. }) && !post.matched;
            unmatched && post.progress == Progress::Pending
        })
    }

    /// Gives up an operation: a receive is cancelled, the rest goes on without its owner.
    pub(in crate::sim) fn abandon(&mut self, me: Pid, id: PostId) {
        if self.is_cancellable(me, id) {
            self.complete(me, id, Progress::Failed(FaultCode::Interrupted), None);
        }
        let posts = &mut self.processes[me].posts;
        match posts.get_mut(&id.0) {
            Some(post) if post.progress == Progress::Pending => post.abandoned = true,
            _ => drop(posts.remove(&id.0)),
        }
    }

    /// This rank retires all contexts below `context`.
    pub(in crate::sim) fn retire(&mut self, me: Pid, (comm, rank): (usize, usize), context: u32) {
        if context <= self.comms[comm].sides[rank].retired {
            return;
        }
        let local = self.processes[me].local;
        note!(self, local, "p{me} retires the contexts of c{comm} below {context}");
        self.comms[comm].sides[rank].retired = context;
        self.revoke(comm, rank, context);
        for other in 0..self.comms[comm].members.len() {
            if other != rank {
                let latency = self.latency();
                let event = Event::Retirement { comm, rank: other, context };
                self.schedule(local + latency, event);
            }
        }
        self.make_contexts(comm, local);
    }

    /// Makes contexts when all ranks have asked for them.
    fn make_contexts(&mut self, comm: usize, now: Time) {
        let group = &self.comms[comm];
        let alive = group.members.iter().all(|member| !self.is_dead(*member));
        let retired = group.sides.iter().map(|side| side.retired).min().unwrap_or(0);
        let made = 2 + retired;
        if !alive || made <= group.made || retired == FIRST_SHARED_CONTEXT {
            return;
        }
        let group = &mut self.comms[comm];
        group.made = made;
        group.meetings.retain(|(context, _), _| context + 2 >= made);
        for rank in 0..group.members.len() {
            let latency = self.latency();
            self.schedule(now + latency, Event::ContextMade { comm, rank, made });
        }
    }

    /// True while a context is not made for this rank and no rank of the communicator is dead.
    pub(in crate::sim) fn context_is_coming(&self, comm: usize, rank: usize, context: u32) -> bool {
        let group = &self.comms[comm];
        let side = &group.sides[rank];
        let alive = group.members.iter().all(|member| !self.is_dead(*member));
        alive && context >= side.made && context >= side.retired
    }

    pub(in crate::sim) fn gain_contexts(&mut self, comm: usize, rank: usize, made: u32) {
        let members = &self.comms[comm].members;
        let broken = members.iter().any(|member| self.is_dead(*member));
        if broken && self.draw.chance(2) {
            return;
        }
        let process = self.comms[comm].members[rank];
        note!(self, self.clock, "p{process} has {made} contexts of c{comm}");
        let side = &mut self.comms[comm].sides[rank];
        side.made = side.made.max(made);
        self.wake(process);
    }

    /// Contexts below `context` are over for this rank.
    pub(in crate::sim) fn revoke(&mut self, comm: usize, rank: usize, context: u32) {
        let side = &mut self.comms[comm].sides[rank];
        if context <= side.revoked {
            return;
        }
        side.revoked = context;
        side.ports = side.ports.split_off(&context);
        let process = self.comms[comm].members[rank];
        let here = |post: &Post| {
            let is_file = matches!(post.operation, Operation::File(_));
            post.comm == comm && post.context < context && !is_file
        };
        self.fail_posts(process, FaultCode::Interrupted, here);
    }

    /// Ends the pending operations of a process that are chosen.
    fn fail_posts(&mut self, process: Pid, code: FaultCode, chosen: impl Fn(&Post) -> bool) {
        let posts = self.processes[process].posts.iter();
        let pending = posts.filter(|(_, post)| post.progress == Progress::Pending);
        let failing: Vec<u32> = pending.filter(|(_, p)| chosen(p)).map(|(id, _)| *id).collect();
        for id in failing {
            self.fail(process, PostId(id), code);
        }
    }

    /// Ends an operation without success. As in Open MPI, one of all ranks may not say why.
    pub(in crate::sim) fn fail(&mut self, process: Pid, id: PostId, code: FaultCode) {
        let post = self.processes[process].posts.get(&id.0);
        let of_all = post.is_some_and(|post| matches!(post.operation, Operation::Collective(_)));
        // Chance of its own: the seed decides the rest as it did without.
        let coin = mix(self.settings.seed ^ mix((process as u64) << 32 | u64::from(id.0)));
        let code = if of_all && coin & 1 == 0 { FaultCode::Mpi(class::OTHER) } else { code };
        self.complete(process, id, Progress::Failed(code), None);
    }

    /// What MPI itself knows of why operations here fail.
    pub(in crate::sim) fn disturbance(
        &self,
        me: Pid,
        (comm, rank): (usize, usize),
        context: u32,
    ) -> Option<FaultCode> {
        let group = &self.comms[comm];
        if context < group.sides[rank].revoked {
            return Some(FaultCode::Interrupted);
        }
        let lost = group.members.iter().any(|member| self.processes[me].knows.contains(member));
        lost.then_some(FaultCode::ProcessFailed)
    }

    /// The detector of `observer` has reported a death: what needs the dead ends.
    pub(in crate::sim) fn fail_operations(&mut self, observer: Pid, dead: Pid) {
        let places = self.processes[observer].datas.clone();
        for (comm, rank) in places.into_iter().flatten() {
            let members = &self.comms[comm].members;
            let Some(gone) = members.iter().position(|member| *member == dead) else { continue };
            let gone = Rank::from(gone);
            let needs_it = |post: &Post| post.comm == comm && post.needs() == Some(gone);
            self.fail_posts(observer, FaultCode::ProcessFailed, needs_it);
            self.break_collectives(comm, rank);
        }
    }

    /// True when the process knows that a process of this communicator is dead.
    pub(in crate::sim) fn knows_of_a_death(&self, me: Pid, comm: usize) -> bool {
        let knows = &self.processes[me].knows;
        self.comms[comm].members.iter().any(|member| knows.contains(member))
    }

    /// Fails a new operation at once when it needs a process known to be dead.
    pub(in crate::sim) fn check_partner(&mut self, me: Pid, id: PostId) {
        let post = &self.processes[me].posts[&id.0];
        let Some(partner) = post.needs() else { return };
        let partner = self.comms[post.comm].members[partner.index()];
        if self.processes[me].knows.contains(&partner) {
            let progress = Progress::Failed(FaultCode::ProcessFailed);
            self.complete(me, id, progress, None);
        }
    }

    pub(in crate::sim) fn discard(&mut self, me: Pid, (comm, rank): (usize, usize)) {
        let side = &mut self.comms[comm].sides[rank];
        side.discarded = true;
        side.ports.clear();
        let it = &mut self.processes[me];
        it.posts.retain(|_, post| post.comm != comm);
        for data in &mut it.datas {
            if *data == Some((comm, rank)) {
                *data = None;
            }
        }
    }

    /// Counts what is left when a process ends its part.
    pub(in crate::sim) fn count_leftovers(&mut self, me: Pid) {
        let it = &mut self.processes[me];
        if !it.finalized {
            let abandoned = it.posts.values().filter(|post| post.abandoned).count();
            it.quarantined = abandoned;
            it.open_posts = it.posts.len() - abandoned;
        }
    }

    /// The error class of an operation that cannot start.
    fn refusal(&self, me: Pid, comm: usize, operation: &Operation, elements: usize) -> Option<i32> {
        let size = self.comms[comm].members.len();
        let (rank, tag) = match *operation {
            Operation::Send { to, tag, .. } => (Some(to), Some(tag)),
            Operation::Receive { from, tag } => (from, tag),
            Operation::ReceiveMatched { from, .. } => (Some(from), None),
            Operation::Collective(ref collective) => (collective.root(), None),
            Operation::File(access) => return self.file_refusal(me, access, elements),
        };
        if rank.is_some_and(|rank| rank.index() >= size) {
            return Some(class::RANK);
        }
        tag.is_some_and(|tag| tag > MAX_TAG).then_some(class::TAG)
    }
}

/// Copies a message into a buffer, or tells the error class.
fn fill(buffer: &mut dyn Buffer, payload: &dyn Buffer) -> Result<(), i32> {
    if buffer.element() != payload.element() {
        return Err(class::TYPE);
    }
    if buffer.fill(0, payload) { Ok(()) } else { Err(class::TRUNCATE) }
}
