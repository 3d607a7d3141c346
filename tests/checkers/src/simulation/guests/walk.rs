//! A rank on its way through the seasons, with what a binding to another language does for it.

use std::time::Duration;

use fampi::{
    CommId, FaultCode, Level, Rank, ReduceOp, Timeout,
    engine::{
        collective::Collective,
        platform::{DataId, Operation, PostId, Request, UniverseId},
        reduction::ReduceWith,
    },
    guest::{Guest, GuestBlock, GuestComm, Part, Wait},
    sim::{self, Draw},
};

use super::{
    End, Finished, Guests, Log, Name,
    script::{self, Step},
};

/// What a rank raises on purpose.
const OBJECTION: i32 = 7;
/// How long a message may take that nobody sends.
const LATE: Duration = Duration::from_micros(300);
/// The tag of messages in lanes of the library: what is left of an attempt meets no other there.
const TAG: u32 = 1;
/// The tags from this one on are of messages that nobody sends.
const LATE_TAGS: u32 = 10_000;
/// How long a wait for a communicator in the making lets the rest go on.
const STEP: Duration = Duration::from_micros(200);
/// Blocks in the calm until one has to commit: the first may tell of deaths before it.
const TRIES: u64 = 8;

/// The effects of a process until it knows that all have taken their communicators into use.
pub(super) fn effects_of_entering(comms: usize) -> u64 {
    4 * comms as u64 + 2
}

/// The communicator and the peer of a message in a lane of the library.
type Own = Option<(GuestComm, Option<Rank>)>;

/// A communicator in use.
struct Place {
    comm: GuestComm,
    data: DataId,
    members: Vec<usize>,
    me: usize,
    started: u64,
}

impl Place {
    fn neighbour(&self, distance: usize) -> Rank {
        Rank::from((self.me + distance) % self.members.len())
    }
}

/// A block of the script, as far as this rank is in it.
#[derive(Default)]
struct Slot {
    name: Option<Name>,
    block: Option<GuestBlock>,
    finished: bool,
    /// This rank has not voted *yes*.
    objects: bool,
    limit: Option<Duration>,
    ended: bool,
    posts: Vec<(PostId, Own)>,
    /// Messages of the program's own in a local block, of which it is known whom they need.
    known: Vec<(PostId, Rank)>,
    inner: Vec<GuestBlock>,
    /// What comes in, and what it must hold.
    expected: Vec<(PostId, u64)>,
    /// What messages of the block may hold, but for the ranks of their senders.
    sent: Vec<u64>,
}

/// A rank on its way through the seasons.
pub(super) struct Walk<'a> {
    job: &'a Guests,
    me: usize,
    guest: Guest,
    finished: Finished,
    log: Log,
    season: u64,
    /// A communicator that could not be made is missing on all ranks.
    places: Vec<Option<Place>>,
    slots: Vec<Slot>,
    /// How many messages were sent in the season; the tag of the next.
    messages: u32,
}

impl<'a> Walk<'a> {
    pub(super) fn new(job: &'a Guests, me: usize, guest: Guest, finished: Finished) -> Self {
        let (places, slots, log) = (Vec::new(), Vec::new(), Log::default());
        Self { job, me, guest, finished, log, season: 0, places, slots, messages: 0 }
    }

    pub(super) fn through(mut self) -> Log {
        self.enter();
        while self.season < self.job.seasons {
            self.follow(false);
            self.season += 1;
        }
        sim::compute_until(Duration::from_micros(self.job.setting.calm_from));
        self.follow(true);
        for at in 0..self.places.len() {
            self.commit_at_last(at);
        }
        for place in self.places.iter().flatten().filter(|_| self.job.frees) {
            self.guest.abandon(place.comm);
        }
        let id = |place: &Place| self.guest.id(place.comm);
        self.log.ids = self.places.iter().map(|place| place.as_ref().map(id)).collect();
        self.guest.leave();
        self.log.members =
            self.places.into_iter().map(|it| it.map(|it| it.members).unwrap_or_default()).collect();
        self.log
    }

    /// Takes communicators of all processes into use.
    fn enter(&mut self) {
        let members: Vec<usize> = (0..self.job.setting.ranks as usize).collect();
        for number in 0..self.job.comms {
            let made = self.guest.with_sim(sim::SimPlatform::adopt_comm);
            let Ok((universe, data)) = made else {
                return self.wrong(|| "a communicator is not taken into use".into());
            };
            let (place, id) =
                ((self.job.setting.ranks, Rank::from(self.me)), CommId(number as u64 + 100));
            let comm = self.guest.adopt(id, universe, place, data);
            let (members, me) = (members.clone(), self.me);
            self.places.push(Some(Place { comm, data, members, me, started: 0 }));
        }
        // Whoever comes out of this knows that all have come so far; whether it works is no matter.
        let members = members.into_iter().map(Rank::from).collect();
        let everybody = Request::Gather { universe: UniverseId(0), members };
        drop(self.guest.with_platform(|platform| platform.make(everybody)));
    }

    fn follow(&mut self, calm: bool) {
        let mut draw = Draw(self.job.setting.seed ^ (self.season + 1).wrapping_mul(0x5851_f42d));
        let script = script::draw(&mut draw, self.job.setting.ranks, self.places.len(), calm);
        sim::note(&format!("season {}: {script:?}", self.season));
        for step in script {
            self.step(step);
        }
        for at in 0..self.slots.len() {
            self.finish(at);
        }
        for at in 0..self.slots.len() {
            self.wait(at);
        }
        for slot in std::mem::take(&mut self.slots) {
            self.release(slot);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Start { comm, agreed } => self.start(comm, agreed),
            Step::Exchange(slot) => self.exchange(slot),
            Step::Sum(slot) => self.sum(slot),
            Step::Listen(slot, process) => self.listen(slot, process == self.me),
            Step::WaitInside(slot) => self.wait_inside(slot),
            Step::Nest(outer, inner) => {
                if let (Some(_), Some(inner)) = (self.slots[outer].block, self.slots[inner].block) {
                    self.slots[outer].inner.push(inner);
                }
            }
            Step::Leave(slot, process) if process == self.me => self.leave(slot),
            Step::Raise(slot, process) if process == self.me => {
                self.object(slot);
                self.finish(slot);
            }
            Step::Finish(slot) | Step::Leave(slot, _) | Step::Raise(slot, _) => self.finish(slot),
            Step::Interrupt(slot, process) if process == self.me => {
                if let Some(block) = self.slots[slot].block {
                    self.slots[slot].objects = true;
                    self.guest.interrupt(block);
                }
            }
            Step::Wait(slot) => self.wait(slot),
            Step::Shrink(comm) => self.shrink(comm),
            Step::Compute(process) if process == self.me => {
                sim::compute(Duration::from_micros(40));
            }
            Step::Interrupt(..) | Step::Compute(_) => {}
        }
    }

    fn start(&mut self, comm: usize, agreed: bool) {
        let mut slot = Slot::default();
        if let Some(place) = &mut self.places[comm] {
            let level = if agreed { Level::Global } else { Level::Local };
            slot.block = Some(self.guest.start(place.comm, level));
            if agreed {
                slot.name = Some((comm, place.started));
                place.started += 1;
            }
        }
        self.slots.push(slot);
    }

    fn object(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if let Some(block) = slot.block {
            slot.objects = true;
            self.guest.raise(block, OBJECTION);
        }
    }

    /// The communicator of an open block, as far as this rank is in it.
    fn place_of(&self, at: usize) -> Option<&Place> {
        let data = self.guest.data_of(self.slots[at].block?)?;
        self.places.iter().flatten().find(|place| place.data == data)
    }

    /// Starts a request of the program in a block. As a program does, it objects when MPI refuses.
    fn post(&mut self, at: usize, operation: &Operation, content: u64) -> Option<PostId> {
        let Place { comm, data, .. } = *self.place_of(at)?;
        let (mut lane, mut operation, mut own) = (None, operation.clone(), None);
        let (block, agreed) = (self.slots[at].block, self.slots[at].name.is_some());
        if self.job.setting.patient && block.is_some() && self.guest.last_open(comm) == block {
            let mut on_the_wire = |tag: &mut u32| {
                let is_shared = agreed && *tag < LATE_TAGS;
                let (found, wire) = self.guest.lane(comm, if is_shared { TAG } else { *tag });
                (lane, *tag) = (Some(found), wire);
            };
            match &mut operation {
                Operation::Send { to, tag, .. } => {
                    on_the_wire(tag);
                    own = Some((comm, Some(*to)));
                }
                Operation::Receive { from, tag: Some(tag) } => {
                    on_the_wire(tag);
                    own = Some((comm, *from));
                }
                _ => {}
            }
        }
        let started = |it: &mut sim::SimPlatform| match lane {
            Some(lane) => it.start_in(lane, &operation, vec![content]),
            None => it.start_request(data, &operation, vec![content]),
        };
        let post = self.guest.with_sim(started);
        let peer = match operation {
            Operation::Send { to, .. } => Some(to),
            Operation::Receive { from, .. } => from,
            _ => None,
        };
        let slot = &mut self.slots[at];
        let peer = peer.filter(|_| own.is_none() && slot.name.is_none());
        slot.known.extend(post.zip(peer));
        match post {
            Some(post) => slot.posts.push((post, own)),
            None => self.object(at),
        }
        post
    }

    fn exchange(&mut self, at: usize) {
        self.messages += 1;
        let tag = self.messages;
        let Some(place) = self.place_of(at) else { return };
        let (left, right) = (place.neighbour(place.members.len() - 1), place.neighbour(1));
        let me = Rank::from(place.me);
        let number = self.season << 24 | u64::from(tag);
        let stamp = |of: Rank| number << 8 | u64::from(of.number());
        let (mine, theirs) = (stamp(me), stamp(left));
        // This one finds something wrong before it receives: what is on its way to it stays there.
        let fails = !tag.is_multiple_of(3) && place.me == tag as usize % place.members.len();
        let fails = fails && self.slots[at].name.is_some();
        // Where a receive is open to any rank, its sender's death does not end it in MPI.
        let from = (!tag.is_multiple_of(4)).then_some(left);
        let receive = Operation::Receive { from, tag: Some(tag) };
        if fails {
            self.object(at);
        } else if let Some(post) = self.post(at, &receive, 0) {
            self.slots[at].expected.push((post, theirs));
        }
        self.slots[at].sent.push(number);
        self.post(at, &Operation::Send { to: right, tag, synchronous: false }, mine);
    }

    fn sum(&mut self, at: usize) {
        let reduction = ReduceWith::<u64>::reduction(ReduceOp::Sum).expect("numbers have sums");
        let ranks = self.place_of(at).map_or(0, |place| place.members.len() as u64);
        if let Some(post) =
            self.post(at, &Operation::Collective(Collective::Allreduce { reduction }), 1)
        {
            self.slots[at].expected.push((post, ranks));
        }
    }

    fn listen(&mut self, at: usize, listens: bool) {
        self.messages += 1;
        self.slots[at].limit = Some(LATE);
        let anybody = self.messages.is_multiple_of(2);
        let Some(place) = self.place_of(at).filter(|_| listens) else { return };
        let from = (!anybody).then(|| place.neighbour(1));
        let tag = Some(LATE_TAGS + self.messages);
        self.post(at, &Operation::Receive { from, tag }, 0);
    }

    fn wait_inside(&mut self, at: usize) {
        let posts = self.slots[at].posts.clone();
        let messages =
            posts.iter().filter_map(|(post, own)| own.map(|(comm, of)| (comm, of, *post)));
        let messages: Vec<_> = messages.collect();
        let foreign = messages.len() < posts.len();
        let waited = self.guest.wait(Timeout::Never, (&messages, foreign), |probe| {
            posts.iter().all(|(post, _)| probe.request(*post))
        });
        self.log.seen.count("waits in doomed blocks", u64::from(waited == Wait::Doomed));
    }

    fn finish(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let Some(block) = slot.block.filter(|_| !slot.finished) else { return };
        slot.finished = true;
        let data = self.guest.data_of(block).expect("it carries operations");
        for (post, _) in &slot.posts {
            self.guest.with_sim(|sim| sim.assign_request(*post, data));
        }
        let inner = slot.inner.iter().map(|inner| Part::Block(*inner));
        let posts = slot.posts.iter().map(|(post, own)| match own {
            Some((_, peer)) => Part::Message(*post, *peer),
            None => match slot.known.iter().find(|(known, _)| known == post) {
                Some((_, peer)) => Part::Message(*post, Some(*peer)),
                None => Part::Request(*post),
            },
        });
        let parts: Vec<Part> = posts.chain(inner).collect();
        if let Some(name) = slot.name.filter(|_| !slot.objects) {
            self.finished.lock().expect("nobody panics with it").insert((name, self.me));
        }
        let limit = slot.limit.map_or(Timeout::Never, Timeout::After);
        self.guest.finish(block, &parts, limit);
    }

    /// Goes away from a block. Its report is looked at all the same, as others may be dead who know
    /// of it.
    fn leave(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let Some(block) = slot.block.filter(|_| !slot.finished) else { return };
        (slot.finished, slot.objects) = (true, true);
        self.log.seen.count("blocks left", 1);
        self.guest.leave_block(block);
        for (post, _) in self.slots[at].posts.drain(..) {
            self.guest.with_sim(|sim| sim.forget_request(post));
        }
    }

    fn release(&mut self, slot: Slot) {
        if let Some(block) = slot.block {
            self.guest.release(block);
        }
        for (post, _) in slot.posts {
            // The program's use, and that of the block.
            self.guest.with_sim(|sim| sim.forget_request(post));
            self.guest.with_sim(|sim| sim.forget_request(post));
        }
    }

    /// The verdict on a block, if no block around it is doomed.
    fn wait(&mut self, at: usize) {
        let slot = &self.slots[at];
        let Some(block) = slot.block.filter(|_| slot.finished && !slot.ended) else { return };
        if self.guest.wait_block(block, Timeout::Never) == Wait::Doomed {
            self.log.seen.count("waits in doomed blocks", 1);
            return;
        }
        let Some((committed, report)) = self.guest.report(block) else {
            return self.wrong(|| format!("block {at} is over without a verdict"));
        };
        self.slots[at].ended = true;
        let slot = &self.slots[at];
        let failed = self.guest.failed_requests(block);
        let late = failed.iter().filter(|it| it.1 == FaultCode::TimedOut).count();
        self.log.seen.count("late requests", late as u64);
        if let Some(name) = slot.name {
            let voted_yes = !slot.objects;
            self.log.ends.insert(name, End { committed, report, voted_yes, fused: None });
        }
        if committed && slot.objects {
            return self.wrong(|| format!("validity: block {at} is committed without this rank"));
        }
        if !committed {
            self.look_at_completed(at, &failed);
        }
        if committed {
            for (post, expected) in self.slots[at].expected.clone() {
                let content = self.guest.with_sim(|sim| sim.content_of::<u64>(post));
                if content != Some(vec![expected]) {
                    self.wrong(|| format!("block {at} has {content:x?}, not {expected:x}"));
                }
            }
        }
    }

    /// What was received in a faulty block was sent in it.
    fn look_at_completed(&mut self, at: usize, failed: &[(usize, FaultCode)]) {
        let slot = &self.slots[at];
        let posts = slot.posts.iter().enumerate();
        let completed = posts.filter(|(place, (_, own))| {
            own.is_some() && failed.iter().all(|(known, _)| known != place)
        });
        let receives = completed
            .filter(|(_, (post, _))| slot.expected.iter().any(|(expected, _)| expected == post));
        for (_, (post, _)) in receives.map(|(at, known)| (at, *known)).collect::<Vec<_>>() {
            let content = self.guest.with_sim(|sim| sim.content_of::<u64>(post));
            self.log.seen.count("receives completed in faulty blocks", 1);
            let sent = &self.slots[at].sent;
            if !content.as_ref().is_some_and(|it| sent.contains(&(it[0] >> 8))) {
                self.wrong(|| format!("faulty block {at} has received {content:x?} of another"));
            }
        }
    }

    fn shrink(&mut self, at: usize) {
        let inside = self.slots.iter().any(|slot| slot.block.is_some() && !slot.finished);
        let Some(comm) = self.places[at].as_ref().map(|place| place.comm) else {
            return self.places.push(None);
        };
        let mut shrinking = match self.guest.shrink(comm) {
            Ok(shrinking) => shrinking,
            Err(error) => return self.wrong(|| format!("no shrink begins: {error}")),
        };
        let mut steps = Guest::in_steps(Timeout::Never);
        let made = loop {
            if let Some(made) = self.guest.step(&mut shrinking) {
                break made;
            }
            if self.guest.step_of_wait(&mut steps, STEP) == Wait::Doomed {
                // A program spins here; the others have processors of their own.
                sim::compute(Duration::from_micros(5));
            }
        };
        let place = made.ok().and_then(|comm| {
            let data = self.guest.data(comm)?;
            let members = self.guest.with_sim(|sim| sim.processes_of(data));
            let me = members.iter().position(|it| *it == self.me)?;
            Some(Place { comm, data, members, me, started: 0 })
        });
        self.log.seen.count("shrunken communicators", u64::from(place.is_some()));
        let inside = u64::from(place.is_some() && inside);
        self.log.seen.count("communicators shrunken inside of blocks", inside);
        self.places.push(place);
    }

    /// Nobody dies any more: after the reports of deaths before, a block commits.
    fn commit_at_last(&mut self, comm: usize) {
        for _ in 0..TRIES {
            self.slots.clear();
            self.start(comm, true);
            self.finish(0);
            self.wait(0);
            let slot = self.slots.remove(0);
            let committed =
                slot.name.and_then(|name| self.log.ends.get(&name)).map(|end| end.committed);
            self.release(slot);
            if committed != Some(false) {
                return;
            }
        }
        self.wrong(|| format!("nothing commits any more on communicator {comm}"));
    }

    fn wrong(&mut self, what: impl FnOnce() -> String) {
        let (me, season) = (self.me, self.season);
        self.log.wrong.get_or_insert_with(|| format!("process {me}, season {season}: {}", what()));
    }
}
