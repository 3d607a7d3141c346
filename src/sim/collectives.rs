//! Collective operations: the n-th call of each rank in a context meets those of the others.
//!
//! ```text
//!  barrier, allreduce, allgather          broadcast
//!  all have called ─▶ each completes      the root has called ─▶ each that calls completes
//!
//!  a member is dead: some complete (only if the dead had called before), some get an error when
//!  their detector tells them, the others wait for ever, as in real MPI; the seed chooses
//! ```
//!
//! At least one living rank that calls gets an error or all complete, so that a broken collective
//! is never silent everywhere. Reductions combine in the order of ranks: the same bits everywhere.

use super::{
    data::EAGER_BYTES,
    event::Event,
    world::{Pid, World},
};
use crate::{
    engine::{
        buffer::Buffer,
        platform::{Operation, PostId, Progress},
    },
    fault::FaultCode,
};

const MPI_ERR_TYPE: i32 = 3;

/// What becomes of a collective in which a member died after its call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    All,
    Some,
    None,
}

/// What becomes of one rank's call after a death.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Complete,
    Fail,
    Silent,
}

struct Entry {
    process: Pid,
    post: PostId,
    payload: Box<dyn Buffer>,
    /// Drawn when a death matters to this rank.
    fate: Option<Fate>,
    /// The completion is on its way.
    settled: bool,
}

/// One collective of all ranks.
pub(super) struct Meeting {
    operation: Operation,
    entries: Vec<Option<Entry>>,
    luck: Luck,
}

impl World {
    pub(super) fn start_collective(&mut self, me: Pid, id: PostId) {
        let post = self.processes[me].posts.get_mut(&id.0).expect("just posted");
        let (comm, rank, context) = (post.comm, post.rank, post.context);
        let operation = post.operation;
        let payload = post.buffer.copy(0, post.buffer.elements());
        let side = &mut self.comms[comm].sides[rank];
        let port = side.ports.entry(context).or_default();
        let number = port.collectives;
        port.collectives += 1;
        post.number = number;
        self.counters.collectives += 1;
        let luck = match self.random.below(3) {
            0 => Luck::All,
            1 => Luck::Some,
            _ => Luck::None,
        };
        let size = self.comms[comm].members.len();
        let fresh = || Meeting { operation, entries: (0..size).map(|_| None).collect(), luck };
        let key = (context, number);
        let meeting = self.comms[comm].meetings.entry(key).or_insert_with(fresh);
        if !same_call(&meeting.operation, &operation) {
            let progress = Progress::Failed(FaultCode::Mpi(MPI_ERR_TYPE));
            return self.complete(me, id, progress, None);
        }
        meeting.entries[rank] =
            Some(Entry { process: me, post: id, payload, fate: None, settled: false });
        self.draw_fate(comm, key, rank);
        self.settle(comm, key);
    }

    /// Completes what can be completed now.
    fn settle(&mut self, comm: usize, key: (u32, u32)) {
        let Some(meeting) = self.comms[comm].meetings.get(&key) else { return };
        let all_called = meeting.entries.iter().all(Option::is_some);
        if let Operation::Broadcast { root } = meeting.operation {
            self.settle_broadcast(comm, key, root.index());
        } else if all_called {
            let result = meeting.result();
            let broken = self.is_broken(comm);
            for rank in 0..self.comms[comm].members.len() {
                if broken {
                    self.draw_fate_late(comm, key, rank);
                }
                match &result {
                    Ok(result) => {
                        let payload = result.as_ref().map(|all| all.copy(0, all.elements()));
                        self.finish(comm, key, rank, payload, None);
                    }
                    Err(class) => self.finish(comm, key, rank, None, Some(*class)),
                }
            }
        }
        if all_called {
            let meeting = &self.comms[comm].meetings[&key];
            if meeting.entries.iter().flatten().all(|entry| entry.settled) {
                self.comms[comm].meetings.remove(&key);
            }
        }
    }

    fn settle_broadcast(&mut self, comm: usize, key: (u32, u32), root: usize) {
        let meeting = &self.comms[comm].meetings[&key];
        let Some(source) = &meeting.entries[root] else { return };
        let content = source.payload.copy(0, source.payload.elements());
        let small = content.elements() * content.element_bytes() <= EAGER_BYTES;
        let (process, post) = (source.process, source.post);
        if small && !source.settled && source.fate.is_none() {
            self.mark_settled(comm, key, root);
            if let Some(own) = self.processes[process].posts.get(&post.0) {
                let done = Progress::Complete(own.status());
                self.complete(process, post, done, None);
            }
        }
        for rank in 0..self.comms[comm].members.len() {
            let payload = (rank != root).then(|| content.copy(0, content.elements()));
            self.finish(comm, key, rank, payload, None);
        }
    }

    /// Schedules the completion of one rank's call, unless a death has decided otherwise.
    fn finish(
        &mut self,
        comm: usize,
        key: (u32, u32),
        rank: usize,
        payload: Option<Box<dyn Buffer>>,
        class: Option<i32>,
    ) {
        let meeting = self.comms[comm].meetings.get_mut(&key).expect("under way");
        let Some(entry) = &mut meeting.entries[rank] else { return };
        if entry.settled || !matches!(entry.fate, None | Some(Fate::Complete)) {
            return;
        }
        entry.settled = true;
        let (process, post) = (entry.process, entry.post);
        let Some(own) = self.processes[process].posts.get(&post.0) else { return };
        let progress = match class {
            None => Progress::Complete(own.status()),
            Some(class) => Progress::Failed(FaultCode::Mpi(class)),
        };
        let latency = self.latency();
        let now = self.now();
        let event = Event::Completion { process, post, progress, payload };
        self.schedule(now + latency, event);
    }

    fn mark_settled(&mut self, comm: usize, key: (u32, u32), rank: usize) {
        let meeting = self.comms[comm].meetings.get_mut(&key).expect("under way");
        if let Some(entry) = &mut meeting.entries[rank] {
            entry.settled = true;
        }
    }

    fn is_broken(&self, comm: usize) -> bool {
        self.comms[comm].members.iter().any(|member| self.is_dead(*member))
    }

    /// A death is known to this rank: decides what becomes of its calls.
    pub(super) fn break_collectives(&mut self, comm: usize, rank: usize) {
        let keys: Vec<_> = self.comms[comm].meetings.keys().copied().collect();
        for key in keys {
            self.draw_fate(comm, key, rank);
            self.settle(comm, key);
        }
    }

    /// Draws the fate of a call whose process knows of a death, and fails it if that is its fate.
    fn draw_fate(&mut self, comm: usize, key: (u32, u32), rank: usize) {
        let group = &self.comms[comm];
        let knows = &self.processes[group.members[rank]].knows;
        if !group.members.iter().any(|member| knows.contains(member)) {
            return;
        }
        let fate = self.fate(comm, key, rank);
        let meeting = self.comms[comm].meetings.get_mut(&key).expect("under way");
        let Some(entry) = &mut meeting.entries[rank] else { return };
        if entry.settled {
            return;
        }
        let fate = if entry.fate == Some(Fate::Fail) { Fate::Fail } else { fate };
        entry.fate = Some(fate);
        if fate == Fate::Fail {
            entry.settled = true;
            let (process, post) = (entry.process, entry.post);
            let progress = Progress::Failed(FaultCode::ProcessFailed);
            self.complete(process, post, progress, None);
        }
    }

    /// The same for a process that does not know yet: it fails later, when it does.
    fn draw_fate_late(&mut self, comm: usize, key: (u32, u32), rank: usize) {
        let fate = self.fate(comm, key, rank);
        let meeting = self.comms[comm].meetings.get_mut(&key).expect("under way");
        if let Some(entry) = &mut meeting.entries[rank]
            && entry.fate.is_none()
        {
            entry.fate = Some(fate);
        }
    }

    fn fate(&mut self, comm: usize, key: (u32, u32), rank: usize) -> Fate {
        let coin = self.random.chance(2);
        let group = &self.comms[comm];
        let meeting = &group.meetings[&key];
        let called = |at: usize| meeting.entries[at].is_some();
        let mut needed = match meeting.operation {
            Operation::Broadcast { root } => root.index()..root.index() + 1,
            _ => 0..group.members.len(),
        };
        let lacking = needed.any(|at| self.is_dead(group.members[at]) && !called(at));
        let is_victim = group.victim.is_none_or(|victim| victim == rank);
        let complete = !lacking
            && match meeting.luck {
                Luck::All => true,
                Luck::Some => coin && !is_victim,
                Luck::None => false,
            };
        let victim_is_done = group.victim.and_then(|victim| meeting.entries[victim].as_ref());
        let victim_is_done =
            victim_is_done.is_some_and(|entry| entry.settled && entry.fate != Some(Fate::Fail));
        if complete {
            Fate::Complete
        } else if coin || is_victim || victim_is_done {
            Fate::Fail
        } else {
            Fate::Silent
        }
    }

    /// After a death, chooses the rank of each communicator that certainly notices.
    pub(super) fn choose_victims(&mut self, dead: Pid) {
        for at in 0..self.comms.len() {
            if !self.comms[at].members.contains(&dead) {
                continue;
            }
            let members = self.comms[at].members.iter().enumerate();
            let living: Vec<usize> =
                members.filter(|(_, who)| self.is_active(**who)).map(|(rank, _)| rank).collect();
            let chosen = (!living.is_empty()).then(|| self.random.below(living.len() as u64));
            self.comms[at].victim = chosen.map(|chosen| living[chosen as usize]);
        }
    }
}

/// True when two ranks call the same collective.
fn same_call(one: &Operation, other: &Operation) -> bool {
    match (one, other) {
        (Operation::Barrier, Operation::Barrier) | (Operation::Allgather, Operation::Allgather) => {
            true
        }
        (Operation::Broadcast { root: one }, Operation::Broadcast { root: other }) => one == other,
        (Operation::Allreduce { op: one, .. }, Operation::Allreduce { op: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

impl Meeting {
    /// What all ranks receive when all have called, or MPI's error class.
    fn result(&self) -> Result<Option<Box<dyn Buffer>>, i32> {
        let entries: Vec<&Entry> = self.entries.iter().flatten().collect();
        let first = &entries[0].payload;
        let mut all = first.copy(0, first.elements());
        let alike = |entry: &&Entry| {
            let payload = &entry.payload;
            payload.as_any().type_id() == all.as_any().type_id()
                && payload.elements() == all.elements()
        };
        match self.operation {
            Operation::Barrier | Operation::Broadcast { .. } => return Ok(None),
            _ if !entries.iter().all(alike) => return Err(MPI_ERR_TYPE),
            Operation::Allreduce { op, combine } => {
                for entry in &entries[1..] {
                    combine(all.as_mut(), &*entry.payload, op);
                }
            }
            _ => {
                let part = all.elements() / entries.len();
                for (rank, entry) in entries.iter().enumerate() {
                    all.fill(rank * part, &*entry.payload.copy(rank * part, part));
                }
            }
        }
        Ok(Some(all))
    }
}
