//! Collective operations: the n-th call of each rank in a context meets those of the others.
//!
//! ```text
//!  all that a rank gets something from have called ─▶ its call completes
//!
//!  a member is dead: some complete (only if the dead had called before), some get an error when
//!  their detector tells them, the others wait for ever, as in real MPI; the seed chooses
//! ```
//!
//! At least one living rank that calls gets an error or all complete, so that a broken collective
//! is never silent everywhere. Reductions combine in the order of ranks: the same bits everywhere.

use std::ops::Range;

use super::{EAGER_BYTES, Pid, World, event::Event};
use crate::{
    fault::{FaultCode, class},
    seam::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{PostId, Progress},
    },
};

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
    collective: Collective,
    payload: AnyBuffer,
    /// Drawn when a death matters to this rank.
    fate: Option<Fate>,
    /// The completion is on its way.
    settled: bool,
}

/// One collective of all ranks.
pub(in crate::sim) struct Meeting {
    entries: Vec<Option<Entry>>,
    luck: Luck,
}

impl World {
    pub(in crate::sim) fn start_collective(&mut self, me: Pid, id: PostId, collective: Collective) {
        let post = self.processes[me].posts.get_mut(&id.0).expect("just posted");
        let (comm, rank, context) = (post.comm, post.rank, post.context);
        let payload = post.buffer.copy(0, post.buffer.elements());
        let side = &mut self.comms[comm].sides[rank];
        let port = side.ports.entry(context).or_default();
        let number = port.collectives;
        port.collectives += 1;
        post.number = number;
        self.counters.collectives += 1;
        let luck = match self.draw.scaled(3) {
            0 => Luck::All,
            1 => Luck::Some,
            _ => Luck::None,
        };
        let size = self.comms[comm].members.len();
        let fresh = || Meeting { entries: (0..size).map(|_| None).collect(), luck };
        let key = (context, number);
        let meeting = self.comms[comm].meetings.entry(key).or_insert_with(fresh);
        let called = meeting.entries.iter().flatten().next();
        if called.is_some_and(|entry| !is_same(&entry.collective, &collective)) {
            let progress = Progress::Failed(FaultCode::Mpi(class::TYPE));
            return self.complete(me, id, progress, None);
        }
        let entry =
            Entry { process: me, post: id, collective, payload, fate: None, settled: false };
        meeting.entries[rank] = Some(entry);
        self.draw_fate(comm, key, rank);
        self.settle(comm, key);
    }

    /// Completes what can be completed now.
    fn settle(&mut self, comm: usize, key: (u32, u32)) {
        let Some(meeting) = self.comms[comm].meetings.get(&key) else { return };
        let all_called = meeting.entries.iter().all(Option::is_some);
        let rooted = meeting.entries.iter().flatten().any(|it| it.collective.root().is_some());
        let broken = all_called && !rooted && self.is_broken(comm);
        for rank in 0..self.comms[comm].members.len() {
            if broken {
                self.draw_fate_late(comm, key, rank);
            }
            let meeting = &self.comms[comm].meetings[&key];
            if !meeting.can_complete(rank) {
                continue;
            }
            let (payload, class) = match meeting.result(rank) {
                Ok(payload) => (payload, None),
                Err(class) => (None, Some(class)),
            };
            if meeting.is_alone(rank) {
                self.complete_alone(comm, key, rank, payload);
            } else {
                self.finish(comm, key, rank, payload, class);
            }
        }
        if all_called {
            let meeting = &self.comms[comm].meetings[&key];
            if meeting.entries.iter().flatten().all(|entry| entry.settled) {
                self.comms[comm].meetings.remove(&key);
            }
        }
    }

    /// Completes a call at once.
    fn complete_alone(
        &mut self,
        comm: usize,
        key: (u32, u32),
        rank: usize,
        payload: Option<AnyBuffer>,
    ) {
        let meeting = self.comms[comm].meetings.get_mut(&key).expect("under way");
        let Some(entry) = &mut meeting.entries[rank] else { return };
        entry.settled = true;
        let (process, post) = (entry.process, entry.post);
        if let Some(own) = self.processes[process].posts.get(&post.0) {
            let done = Progress::Complete(own.status());
            self.complete(process, post, done, payload);
        }
    }

    /// Schedules the completion of one rank's call, unless a death has decided otherwise.
    fn finish(
        &mut self,
        comm: usize,
        key: (u32, u32),
        rank: usize,
        payload: Option<AnyBuffer>,
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

    fn is_broken(&self, comm: usize) -> bool {
        self.comms[comm].members.iter().any(|member| self.is_dead(*member))
    }

    /// A death is known to this rank: decides what becomes of its calls.
    pub(in crate::sim) fn break_collectives(&mut self, comm: usize, rank: usize) {
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
            self.fail(process, post, FaultCode::ProcessFailed);
        }
    }

    /// Fails a call of a process that does not know of the death yet: later, when it does.
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
        let coin = self.draw.chance(2);
        let group = &self.comms[comm];
        let meeting = &group.meetings[&key];
        let called = |at: usize| meeting.entries[at].is_some();
        let lacks = |at: usize| {
            let mut needed = meeting.sources(at);
            needed.any(|at| self.is_dead(group.members[at]) && !called(at))
        };
        let is_victim = group.victim.is_none_or(|victim| victim == rank);
        // A rank that gets all that it needs may complete, but some rank has to notice.
        let lacking = lacks(rank) || (is_victim && (0..group.members.len()).any(lacks));
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
    pub(in crate::sim) fn choose_victims(&mut self, dead: Pid) {
        for at in 0..self.comms.len() {
            if !self.comms[at].members.contains(&dead) {
                continue;
            }
            let members = self.comms[at].members.iter().enumerate();
            let living: Vec<usize> =
                members.filter(|(_, who)| self.is_active(**who)).map(|(rank, _)| rank).collect();
            let chosen = (!living.is_empty()).then(|| self.draw.scaled(living.len() as u64));
            self.comms[at].victim = chosen.map(|chosen| living[chosen as usize]);
        }
    }
}

/// True when two ranks call the same collective.
fn is_same(one: &Collective, other: &Collective) -> bool {
    let reductions = match (one.reduction(), other.reduction()) {
        (Some(one), Some(other)) => one.is_like(other),
        (one, other) => one.is_none() && other.is_none(),
    };
    one.name() == other.name() && one.root() == other.root() && reductions
}

impl Meeting {
    /// The ranks from which this one gets something.
    fn sources(&self, rank: usize) -> Range<usize> {
        let collective = self.entries.iter().flatten().next().map(|entry| &entry.collective);
        collective.map_or(0..0, |collective| collective.sources(rank, self.entries.len()))
    }

    fn can_complete(&self, rank: usize) -> bool {
        let waits = self.entries[rank].as_ref().is_some_and(|entry| !entry.settled);
        waits && self.sources(rank).all(|source| self.entries[source].is_some())
    }

    /// True for a rank that only gives, and little, and whose call no death has decided.
    fn is_alone(&self, rank: usize) -> bool {
        let Some(entry) = &self.entries[rank] else { return false };
        let bytes = entry.payload.elements() * entry.payload.element_bytes();
        let alone = self.sources(rank) == (rank..rank + 1) && bytes <= EAGER_BYTES;
        alone && entry.fate.is_none()
    }

    /// What is in a rank's buffer afterwards, if that changes, or MPI's error class.
    fn result(&self, rank: usize) -> Result<Option<AnyBuffer>, i32> {
        let entry = self.entries[rank].as_ref().expect("it has called");
        match &entry.collective {
            Collective::Barrier => Ok(None),
            Collective::Broadcast { root } => {
                let source = self.entries[root.index()].as_ref().expect("it has called");
                let copy = || source.payload.copy(0, source.payload.elements());
                Ok((rank != root.index()).then(copy))
            }
            Collective::Reduce { root, .. } if rank != root.index() => Ok(None),
            Collective::Scan { exclusive: true, .. } if rank == 0 => Ok(None),
            Collective::Scan { exclusive: true, .. } => self.combined(0..rank).map(Some),
            Collective::Scan { .. } => self.combined(0..rank + 1).map(Some),
            Collective::Reduce { .. } | Collective::Allreduce { .. } => {
                self.combined(0..self.entries.len()).map(Some)
            }
            Collective::ReduceScatter { parts, .. } => {
                let all = self.combined(0..self.entries.len())?;
                let part = parts.range(rank, self.entries.len(), all.elements());
                Ok(Some(all.copy(part.start, part.len())))
            }
            _ => self.moved(rank).map(Some),
        }
    }

    /// The elements of some ranks, combined in their order.
    fn combined(&self, ranks: Range<usize>) -> Result<AnyBuffer, i32> {
        let mut result: Option<AnyBuffer> = None;
        for entry in self.entries[ranks].iter().flatten() {
            let mut next = entry.payload.copy(0, entry.payload.elements());
            if let Some(left) = result {
                let types = [left.element(), next.element()];
                if types[0] != types[1] || left.elements() != next.elements() {
                    return Err(class::TYPE);
                }
                let reduction = entry.collective.reduction().expect("it combines");
                reduction.combine(&*left, &mut *next);
            }
            result = Some(next);
        }
        result.ok_or(class::TYPE)
    }

    /// A rank's buffer with all that the others give it.
    fn moved(&self, rank: usize) -> Result<AnyBuffer, i32> {
        let size = self.entries.len();
        let own = self.entries[rank].as_ref().expect("it has called");
        let mut all = own.payload.copy(0, own.payload.elements());
        for source in own.collective.sources(rank, size) {
            let entry = self.entries[source].as_ref().expect("it has called");
            let given = entry.collective.given(rank, source, size, entry.payload.elements());
            let taken = own.collective.taken(source, rank, size, all.elements());
            let in_place = source == rank && !matches!(own.collective, Collective::Exchange { .. });
            if in_place {
                continue;
            }
            let part = entry.payload.copy(given.start, given.len());
            if part.element() != all.element() {
                return Err(class::TYPE);
            }
            if given.len() != taken.len() || !all.fill(taken.start, &*part) {
                return Err(class::TRUNCATE);
            }
        }
        Ok(all)
    }
}
