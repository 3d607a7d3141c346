//! Which message goes to which receive, by the rules of MPI 4.1 §3.5.
//!
//! ```text
//!  sender                       receiver's port (one per communicator, rank and context)
//!  post ──── latency ─────────▶ first posted receive that matches ── else unexpected queue
//!                               a new receive looks there first
//!  large or synchronous: complete a latency after the match; else complete at once
//! ```
//!
//! Messages of one pair arrive in the order in which they were sent, so none overtakes another.

use std::collections::VecDeque;

use super::{
    EAGER_BYTES, Pid, Time, World,
    event::{Event, Message},
    note,
};
use crate::{
    fault::FaultCode,
    rank::Rank,
    seam::platform::{Found, MessageId, Operation, PostId, Progress},
};

/// What one context of one rank waits for, and what waits for it.
#[derive(Default)]
pub(in crate::sim) struct Port {
    /// Receives without a message, in the order of their posts.
    pub(in crate::sim) posted: Vec<PostId>,
    unexpected: VecDeque<Message>,
    /// Number of the next collective.
    pub(in crate::sim) collectives: u32,
}

impl World {
    pub(in crate::sim) fn start_send(
        &mut self,
        me: Pid,
        id: PostId,
        to: Rank,
        tag: u32,
        synchronous: bool,
    ) {
        let latency = self.latency();
        let it = &mut self.processes[me];
        let sent = it.local;
        let post = it.posts.get_mut(&id.0).expect("just posted");
        let (comm, rank, context) = (post.comm, post.rank, post.context);
        let bytes = post.buffer.elements() * post.buffer.element_bytes();
        let eager = bytes <= EAGER_BYTES && !synchronous;
        let payload = post.buffer.copy(0, post.buffer.elements());
        if eager {
            post.progress = Progress::Complete(post.status());
        }
        self.counters.data_messages += 1;
        self.counters.data_bytes += bytes as u64;
        let last = self.comms[comm].links.entry((rank, to.index())).or_insert(0);
        *last = (sent + latency).max(*last + 1);
        let arrival = *last;
        let send = (!eager).then_some((me, id));
        let message = Message { from: Rank::from(rank), tag, payload, send };
        self.schedule(arrival, Event::Arrival { comm, context, to: to.index(), message });
        if !eager {
            self.check_partner(me, id);
        }
    }

    pub(in crate::sim) fn start_receive(&mut self, me: Pid, id: PostId) {
        let it = &self.processes[me];
        let now = it.local;
        let post = &it.posts[&id.0];
        let (comm, rank, context) = (post.comm, post.rank, post.context);
        let operation = post.operation.clone();
        match self.take_unexpected((comm, rank, context), &operation) {
            Some(message) if self.is_deliverable(&message) => self.deliver(me, id, message, now),
            // It is for no later message, and ends with the death or the revocation.
            Some(_) => self.check_partner(me, id),
            None => {
                let port = self.comms[comm].sides[rank].ports.entry(context).or_default();
                port.posted.push(id);
                self.check_partner(me, id);
            }
        }
    }

    /// The first message in the unexpected queue that an operation matches.
    fn take_unexpected(
        &mut self,
        (comm, rank, context): (usize, usize, u32),
        operation: &Operation,
    ) -> Option<Message> {
        let mut port = self.take_port(comm, rank, context);
        let first = port.unexpected.iter().position(|message| message.matches(operation));
        let message = first.and_then(|at| port.unexpected.remove(at));
        self.comms[comm].sides[rank].ports.insert(context, port);
        message
    }

    /// The first message that a receive would match, which stays, or is taken for a receive that
    /// names it.
    pub(in crate::sim) fn probe(
        &mut self,
        me: Pid,
        (comm, rank, context): (usize, usize, u32),
        receive: &Operation,
        takes: bool,
    ) -> Result<Option<Found>, FaultCode> {
        let side = &self.comms[comm].sides[rank];
        if context < side.revoked {
            return Err(FaultCode::Interrupted);
        }
        if !takes {
            let mut waiting = side.ports.get(&context).into_iter().flat_map(|it| &it.unexpected);
            let fits = |it: &&Message| it.matches(receive) && self.is_deliverable(it);
            let found = waiting.find(fits).map(|it| Found { status: it.status(), message: None });
            self.processes[me].probes |= found.is_none();
            return Ok(found);
        }
        let Some(message) = self.take_unexpected((comm, rank, context), receive) else {
            self.processes[me].probes = true;
            return Ok(None);
        };
        let it = &mut self.processes[me];
        let (id, status) = (MessageId(it.next_post), message.status());
        it.next_post += 1;
        it.matched.insert(id.0, message);
        Ok(Some(Found { status, message: Some(id) }))
    }

    pub(in crate::sim) fn start_matched(&mut self, me: Pid, id: PostId, message: MessageId) {
        let now = self.processes[me].local;
        match self.processes[me].matched.remove(&message.0) {
            Some(message) if self.is_deliverable(&message) => self.deliver(me, id, message, now),
            _ => self.check_partner(me, id),
        }
    }

    /// Drops a matched message.
    pub(in crate::sim) fn drop_message(&mut self, me: Pid, message: MessageId) {
        if let Some(message) = self.processes[me].matched.remove(&message.0) {
            self.complete_dropped(&message);
        }
    }

    /// Lets the sender of a message complete that no rank receives.
    fn complete_dropped(&mut self, message: &Message) {
        if let Some((sender, send)) = message.send.filter(|_| self.is_deliverable(message)) {
            let post = self.processes[sender].posts.get_mut(&send.0).expect("pending");
            post.matched = true;
            let progress = Progress::Complete(post.status());
            let time = self.now() + self.latency();
            let event = Event::Completion { process: sender, post: send, progress, payload: None };
            self.schedule(time, event);
        }
    }

    /// A message is there.
    pub(in crate::sim) fn arrive(
        &mut self,
        comm: usize,
        context: u32,
        to: usize,
        message: Message,
    ) {
        let receiver = self.comms[comm].members[to];
        let side = &self.comms[comm].sides[to];
        if side.discarded || context < side.revoked {
            return;
        }
        let mut port = self.take_port(comm, to, context);
        let posts = &self.processes[receiver].posts;
        let fits = |id: &PostId| message.matches(&posts[&id.0].operation);
        let found = port.posted.iter().position(fits).map(|at| port.posted.remove(at));
        let mut message = Some(message);
        if found.is_none() {
            note!(self, self.clock, "p{receiver} has an unexpected message in c{comm}");
            port.unexpected.extend(message.take());
            if std::mem::take(&mut self.processes[receiver].probes) {
                self.wake(receiver);
            }
        }
        self.comms[comm].sides[to].ports.insert(context, port);
        match (found, message) {
            (Some(id), Some(message)) if self.is_deliverable(&message) => {
                self.deliver(receiver, id, message, self.clock);
            }
            // As above.
            (Some(id), Some(_)) => self.check_partner(receiver, id),
            _ => {}
        }
    }

    fn take_port(&mut self, comm: usize, rank: usize, context: u32) -> Port {
        self.comms[comm].sides[rank].ports.remove(&context).unwrap_or_default()
    }

    /// False for a large or synchronous send that is over or whose process is dead: its data
    /// cannot be fetched any more. Its head keeps its place among the messages.
    fn is_deliverable(&self, message: &Message) -> bool {
        message.send.is_none_or(|(sender, id)| {
            let post = self.processes[sender].posts.get(&id.0);
            post.is_some_and(|post| post.progress == Progress::Pending)
        })
    }

    fn deliver(&mut self, receiver: Pid, id: PostId, message: Message, now: Time) {
        let progress = Progress::Complete(message.status());
        let Some((sender, send)) = message.send else {
            return self.complete(receiver, id, progress, Some(message.payload));
        };
        // The two halves shake hands: neither needs the other's process from here on.
        for (process, post) in [(sender, send), (receiver, id)] {
            let post = self.processes[process].posts.get_mut(&post.0).expect("pending");
            post.matched = true;
        }
        let done = Progress::Complete(self.processes[sender].posts[&send.0].status());
        let (ours, theirs) = (self.latency(), self.latency());
        let payload = None;
        let event = Event::Completion { process: sender, post: send, progress: done, payload };
        self.schedule(now + ours, event);
        let payload = Some(message.payload);
        let event = Event::Completion { process: receiver, post: id, progress, payload };
        self.schedule(now + theirs, event);
    }
}
