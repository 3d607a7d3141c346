//! Universes, and the collective calls that make communicators and universes.
//!
//! ```text
//!  p0 ── split ──┐                        ┌─▶ Ok
//!  p1 ─── split ─┼─ all are here, alive ──┼─▶ Ok         each after a latency of its own
//!  p2 ─ split ───┘                        └─▶ Ok
//!
//!  p0 ── split ────────── learns of the death ─▶ Err
//!  p1 ─── split ───────────── learns of it ────▶ Err
//!  p2 ─ ✝
//! ```
//!
//! **Guarantees**: once a participant is dead, every other one returns at the latest when its
//! detector has told it; from a shrink or a regroup only when all living ones have entered, as they
//! go on over the living. When all had entered before the death, the seed chooses for each
//! participant whether it returns successfully, except where a program merges linked processes:
//! that has one result for all who are alive, as it has on real ranks, which agree on it.
//!
//! The n-th call of one kind on one parent matches the n-th call of the same kind of the others,
//! as in MPI, so that a process which comes late to a call that has failed is told so.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pid, Time, World, event::Event, note, process::State};
use crate::{
    error::Error,
    rank::{Rank, RankSet},
    seam::platform::{DataId, Derived, Made, Origin, Request, UniverseId},
};

/// Processes with a control channel.
pub(in crate::sim) struct Universe {
    pub(in crate::sim) members: Vec<Pid>,
    /// When the last frame arrives: by sender, receiver, and whether it is fast.
    pub(in crate::sim) links: BTreeMap<(usize, usize, bool), Time>,
}

impl Universe {
    pub(in crate::sim) fn new(members: Vec<Pid>) -> Self {
        Self { members, links: BTreeMap::new() }
    }

    pub(in crate::sim) fn rank_of(&self, process: Pid) -> usize {
        self.members.iter().position(|member| *member == process).expect("only members know it")
    }
}

/// What a collective call starts from.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::sim) enum Parent {
    Universe(usize),
    Comm(usize),
}

/// What a collective call is called.
pub(in crate::sim) fn name(request: &Request) -> &'static str {
    match request {
        Request::Split { .. } => "split",
        Request::Shrink { .. } => "shrink",
        Request::Regroup { .. } => "regroup",
        Request::Gather { .. } => "gather",
        Request::Join => "join",
    }
}

/// True when both may be made in the same call.
fn agree(one: &Request, other: &Request) -> bool {
    let spawn = |request: &Request| match request {
        Request::Regroup { spawn, .. } => Some(*spawn),
        _ => None,
    };
    name(one) == name(other) && dead(one) == dead(other) && spawn(one) == spawn(other)
}

/// Those who are left out.
fn dead(request: &Request) -> Option<&RankSet> {
    match request {
        Request::Shrink { dead, .. } | Request::Regroup { dead, .. } => Some(dead),
        Request::Split { .. } | Request::Gather { .. } | Request::Join => None,
    }
}

/// Who has come to which meetings.
#[derive(Default)]
pub(in crate::sim) struct Meetings {
    /// How many a process has come to in a place.
    come: BTreeMap<(Parent, Pid), u32>,
    /// Those who wait for others in the last one.
    waiting: BTreeSet<(Parent, Pid)>,
}

/// Parent, name of the call, and which call of this kind, or the process that counts its calls.
pub(in crate::sim) type CreationKey = (Parent, &'static str, usize);

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// Participants are missing.
    Open,
    /// The new processes have not all joined.
    Joining,
    Failed,
    /// The universe or the communicators made, by colour.
    Made(Vec<(Option<u32>, usize)>),
}

/// One collective call of all its participants.
pub(in crate::sim) struct Creation {
    parent: Parent,
    /// The processes of the parent, in order, and what they asked for.
    members: Vec<Pid>,
    requests: Vec<Option<Request>>,
    spawned: Vec<Pid>,
    joined: usize,
    stage: Stage,
}

impl Creation {
    fn first(&self) -> Option<&Request> {
        self.requests.iter().flatten().next()
    }

    /// The processes that have to take part: all of the parent but those given up as dead.
    fn participants(&self) -> Vec<Pid> {
        let dead = self.first().and_then(dead);
        let taken = |rank: usize| !dead.is_some_and(|dead| dead.contains(Rank::from(rank)));
        let of_parent = (0..self.members.len()).filter(|rank| taken(*rank));
        of_parent.map(|rank| self.members[rank]).chain(self.spawned.iter().copied()).collect()
    }

    /// The participants, of which the new ones have the ranks of the dead.
    fn seated(&self) -> Vec<Pid> {
        let (dead, mut spawned) = (self.first().and_then(dead), self.spawned.iter());
        let seat = |(rank, member): (usize, &Pid)| {
            let is_dead = dead.is_some_and(|dead| dead.contains(Rank::from(rank)));
            if is_dead { spawned.next().copied() } else { Some(*member) }
        };
        self.members.iter().enumerate().filter_map(seat).collect()
    }

    fn has_entered(&self, process: Pid) -> bool {
        let at = self.members.iter().position(|member| *member == process);
        at.is_some_and(|at| self.requests[at].is_some())
    }

    /// True while it goes on over the living.
    fn outlasts_deaths(&self) -> bool {
        let request = self.first();
        let over_the_living =
            matches!(request, Some(Request::Shrink { .. } | Request::Regroup { .. }));
        self.stage == Stage::Open && over_the_living
    }

    pub(in crate::sim) fn describe(&self) -> String {
        let parent = match self.parent {
            Parent::Universe(universe) => format!("u{universe}"),
            Parent::Comm(comm) => format!("c{comm}"),
        };
        let name = self.first().map_or("join", name);
        let missing: Vec<String> = self
            .participants()
            .iter()
            .filter(|process| !self.has_entered(**process) && !self.spawned.contains(process))
            .map(|process| format!("p{process}"))
            .collect();
        match (&self.stage, missing.is_empty()) {
            (Stage::Open, false) => format!("{name} on {parent}, without {}", missing.join(", ")),
            _ => format!("{name} on {parent}"),
        }
    }
}

impl World {
    /// A process comes to a meeting, or waits there: true when all that it believes alive came.
    pub(in crate::sim) fn meet(&mut self, me: Pid, place: Parent) -> bool {
        let members = self.members_of(place);
        if self.meetings.waiting.insert((place, me)) {
            *self.meetings.come.entry((place, me)).or_insert(0) += 1;
            let now = self.now();
            for process in &members {
                let latency = self.latency();
                self.schedule(now + latency, Event::Met { process: *process });
            }
        }
        let Meetings { come, waiting } = &mut self.meetings;
        let number = come[&(place, me)];
        let has_come = |process| come.get(&(place, process)).is_some_and(|come| *come >= number);
        let knows = &self.processes[me].knows;
        let all = members.iter().all(|process| has_come(*process) || knows.contains(process));
        all && waiting.remove(&(place, me))
    }

    fn members_of(&self, parent: Parent) -> Vec<Pid> {
        match parent {
            Parent::Universe(universe) => self.universes[universe].members.clone(),
            Parent::Comm(comm) => self.comms[comm].members.clone(),
        }
    }

    /// A process calls; it is blocked afterwards, until [`Self::return_from`].
    pub(in crate::sim) fn enter_creation(&mut self, me: Pid, parent: Parent, request: Request) {
        let calls = self.creation_calls.entry((parent, name(&request), me)).or_insert(0);
        *calls += 1;
        let key = (parent, name(&request), *calls as usize);
        let at = *self.creation_numbers.entry(key).or_insert(self.creations.len());
        if at == self.creations.len() {
            let members = self.members_of(parent);
            self.creations.push(Creation {
                parent,
                requests: vec![None; members.len()],
                members,
                spawned: Vec::new(),
                joined: 0,
                stage: Stage::Open,
            });
        }
        let creation = &mut self.creations[at];
        let agrees = creation.first().is_none_or(|first| agree(first, &request));
        let rank = creation.members.iter().position(|member| *member == me);
        creation.requests[rank.expect("only members know the parent")] = Some(request);
        if !agrees {
            creation.stage = Stage::Failed;
        }
        self.block(me, at);
    }

    /// A spawned process calls; it is blocked afterwards.
    pub(in crate::sim) fn enter_join(&mut self, me: Pid) {
        let at = self.processes[me].born_of.take().expect("no objection");
        self.creations[at].joined += 1;
        self.block(me, at);
    }

    /// Why a process may not make this call.
    pub(in crate::sim) fn objection(&self, me: Pid, request: &Request) -> Option<&'static str> {
        let it = &self.processes[me];
        match request {
            Request::Join => it.born_of.is_none().then_some("was not spawned or has joined before"),
            Request::Regroup { spawn: 1.., .. } => {
                matches!(it.origin, Origin::Launched { spawns: false, .. })
                    .then_some("spawns processes where there are none")
            }
            Request::Gather { universe, members } => {
                let size = self.universes[it.universes[universe.0 as usize].0].members.len();
                let outside = members.iter().any(|member| member.index() >= size);
                outside.then_some("gathers members that its universe has not")
            }
            _ => None,
        }
    }

    fn block(&mut self, me: Pid, at: usize) {
        self.processes[me].state = State::Blocked(at);
        let now = self.processes[me].local;
        note!(self, now, "p{me} enters {}", self.creations[at].describe());
        if self.awaits_the_living(at) {
            return;
        }
        let is_cut = |parent| matches!(parent, Parent::Universe(it) if self.cut.contains(&it));
        if self.creations[at].stage == Stage::Open && is_cut(self.creations[at].parent) {
            self.creations[at].stage = Stage::Failed;
        }
        let creation = &self.creations[at];
        let participants = creation.participants();
        let lacks = |process: &Pid| {
            let knows = &self.processes[*process].knows;
            participants.iter().any(|process| knows.contains(process))
        };
        let entered = |process: &Pid| creation.has_entered(*process);
        let called = || participants.iter().filter(|process| entered(process));
        if creation.stage == Stage::Failed {
            self.schedule_failure(at, now);
        } else if creation.outlasts_deaths() && called().any(lacks) {
            self.creations[at].stage = Stage::Failed;
            self.schedule_failure(at, now);
        } else if lacks(&me) {
            self.creations[at].stage = Stage::Failed;
            self.schedule_return(me, at, now, false);
        } else if creation.stage == Stage::Open && participants.iter().all(entered) {
            self.close(at, now);
        } else if creation.stage == Stage::Joining && creation.joined == creation.spawned.len() {
            self.make(at, now);
        }
    }

    /// Nothing is made of this universe any more.
    pub(in crate::sim) fn cut(&mut self, universe: usize) {
        self.cut.insert(universe);
        let now = self.now();
        for at in 0..self.creations.len() {
            let creation = &mut self.creations[at];
            if creation.parent == Parent::Universe(universe) && creation.stage == Stage::Open {
                creation.stage = Stage::Failed;
                self.schedule_failure(at, now);
            }
        }
    }

    /// True while a living process has not entered that a call waits for, whoever dies.
    fn awaits_the_living(&self, at: usize) -> bool {
        let creation = &self.creations[at];
        let missing = |process: &Pid| !creation.has_entered(*process) && !self.is_dead(*process);
        creation.outlasts_deaths() && creation.participants().iter().any(missing)
    }
    /// All participants are here: makes what was asked for, spawns, or fails.
    fn close(&mut self, at: usize, now: Time) {
        let creation = &self.creations[at];
        let (members, first) = (&creation.members, creation.first().expect("all have entered"));
        let really_dead = |rank: Rank| members.get(rank.index()).is_some_and(|p| self.is_dead(*p));
        let given_up_are_dead = dead(first).is_none_or(|dead| dead.iter().all(really_dead));
        let alive = creation.participants().iter().all(|process| !self.is_dead(*process));
        if !alive || !given_up_are_dead {
            self.creations[at].stage = Stage::Failed;
            return self.schedule_failure(at, now);
        }
        match *first {
            Request::Regroup { spawn, .. } if spawn > 0 => self.spawn(at, spawn, now),
            _ => self.make(at, now),
        }
    }

    /// Fails all who wait and have no return on its way.
    fn schedule_failure(&mut self, at: usize, now: Time) {
        for process in 0..self.processes.len() {
            if self.processes[process].state == State::Blocked(at) {
                self.schedule_return(process, at, now, false);
            }
        }
    }

    /// The caller's detector has told it of a death: it does not wait any longer for the dead.
    pub(in crate::sim) fn fail_creation(&mut self, me: Pid) {
        let State::Blocked(at) = self.processes[me].state else { return };
        if self.awaits_the_living(at) {
            return;
        }
        let creation = &self.creations[at];
        let knows = &self.processes[me].knows;
        let doomed = creation.participants().iter().any(|process| knows.contains(process));
        if doomed && !matches!(creation.stage, Stage::Made(_)) {
            self.creations[at].stage = Stage::Failed;
            self.schedule_return(me, at, self.clock, false);
        }
    }

    fn schedule_return(&mut self, process: Pid, creation: usize, now: Time, success: bool) {
        let latency = self.latency();
        self.schedule(now + latency, Event::Return { process, creation, success });
    }

    fn make(&mut self, at: usize, now: Time) {
        let creation = &self.creations[at];
        let (parent, participants) = (creation.parent, creation.participants());
        let made = match creation.first().expect("all have entered") {
            Request::Split { .. } => self.make_split(at),
            Request::Shrink { .. } => vec![(None, self.add_comm(participants.clone()))],
            Request::Gather { .. } => self.make_gathered(at),
            Request::Regroup { .. } | Request::Join => {
                let number = self.universes.len();
                let seated = matches!(parent, Parent::Universe(it) if self.seated.contains(&it));
                let members = if seated { creation.seated() } else { participants.clone() };
                self.universes.push(Universe::new(members));
                if seated {
                    self.seated.insert(number);
                }
                vec![(None, number)]
            }
        };
        note!(self, now, "{} {parent:?} makes {made:?}", self.creations[at].describe());
        self.creations[at].stage = Stage::Made(made);
        for process in participants {
            self.schedule_return(process, at, now, true);
        }
    }

    fn make_split(&mut self, at: usize) -> Vec<(Option<u32>, usize)> {
        let creation = &self.creations[at];
        let mut groups: BTreeMap<u32, Vec<(u32, Pid)>> = BTreeMap::new();
        for (request, process) in creation.requests.iter().zip(&creation.members) {
            if let Some(Request::Split { color: Some(color), key, .. }) = request {
                groups.entry(*color).or_default().push((*key, *process));
            }
        }
        let make = |(color, mut group): (u32, Vec<(u32, Pid)>)| {
            group.sort_by_key(|(key, _)| *key);
            (Some(color), self.add_comm(group.into_iter().map(|(_, process)| process).collect()))
        };
        groups.into_iter().map(make).collect()
    }

    fn make_gathered(&mut self, at: usize) -> Vec<(Option<u32>, usize)> {
        let creation = &self.creations[at];
        let mut groups: BTreeMap<u32, Vec<Pid>> = BTreeMap::new();
        for request in creation.requests.iter().flatten() {
            if let Request::Gather { members, .. } = request
                && let Some(first) = members.first()
            {
                let group = members.iter().map(|rank| creation.members[rank.index()]);
                groups.entry(first.number()).or_insert_with(|| group.collect());
            }
        }
        groups.into_iter().map(|(first, group)| (Some(first), self.add_comm(group))).collect()
    }

    /// A call is over for one participant.
    pub(in crate::sim) fn return_from(&mut self, me: Pid, at: usize, success: bool) {
        if self.processes[me].state != State::Blocked(at) {
            return;
        }
        let died_meanwhile =
            self.creations[at].participants().iter().any(|process| self.is_dead(*process));
        let one_result = self.has_one_result(at);
        let success = success && (one_result || !(died_meanwhile && self.draw.chance(2)));
        note!(self, self.clock, "p{me} returns from {}, {success}", self.creations[at].describe());
        let made = if success { Ok(self.give(me, at)) } else { Err(Error::CreationFailed) };
        self.processes[me].returned = Some(made);
        self.make_ready(me, self.clock);
    }

    /// True for a call whose result the program's processes agree on.
    fn has_one_result(&self, at: usize) -> bool {
        let Creation { parent, .. } = &self.creations[at];
        let is_seated = matches!(parent, Parent::Universe(it) if self.seated.contains(it));
        is_seated && matches!(self.creations[at].first(), Some(Request::Gather { .. }))
    }

    /// Registers what was made with the process, under a number of its own.
    fn give(&mut self, me: Pid, at: usize) -> Made {
        let creation = &self.creations[at];
        let Stage::Made(made) = &creation.stage else { unreachable!("success means made") };
        let rank = creation.members.iter().position(|member| *member == me);
        let request = rank.and_then(|rank| creation.requests[rank].as_ref());
        match request {
            Some(Request::Split { color, .. }) => {
                let table =
                    creation.requests.iter().flatten().filter_map(|request| match request {
                        Request::Split { color, key, .. } => Some((*color, *key)),
                        _ => None,
                    });
                let table = table.collect();
                let mine = made.iter().find(|(of, _)| of.is_some() && of == color);
                let mine = mine.map(|(_, comm)| *comm);
                Made::Comm(Derived { data: mine.and_then(|c| self.register(me, c)), table })
            }
            Some(Request::Gather { members, .. }) => {
                let first = members.first().map(|first| first.number());
                let mine = made.iter().find(|(of, _)| of.is_some() && *of == first);
                let mine = mine.map(|(_, comm)| *comm);
                Made::Comm(Derived {
                    data: mine.and_then(|comm| self.register(me, comm)),
                    table: Vec::new(),
                })
            }
            Some(Request::Shrink { .. }) => {
                let comm = made[0].1;
                Made::Comm(Derived { data: self.register(me, comm), table: Vec::new() })
            }
            Some(Request::Regroup { .. } | Request::Join) | None => {
                let brought =
                    creation.requests.iter().flatten().filter_map(|request| match request {
                        Request::Regroup { brought, .. } => Some(brought.as_slice()),
                        _ => None,
                    });
                let (universe, brought) = (made[0].1, brought.collect::<Vec<_>>().concat());
                self.give_universe(me, universe, brought)
            }
        }
    }

    fn give_universe(&mut self, me: Pid, universe: usize, brought: Vec<u8>) -> Made {
        let it = &mut self.processes[me];
        it.universes.push((universe, true));
        let id = UniverseId(it.universes.len() as u32 - 1);
        for dead in it.knows.clone() {
            self.tell_death(me, universe, dead);
        }
        Made::Universe(id, Rank::from(self.universes[universe].rank_of(me)), brought)
    }

    fn register(&mut self, me: Pid, comm: usize) -> Option<DataId> {
        let rank = self.comms[comm].members.iter().position(|member| *member == me)?;
        self.processes[me].datas.push(Some((comm, rank)));
        Some(DataId(self.processes[me].datas.len() as u32 - 1))
    }

    fn spawn(&mut self, at: usize, count: u32, now: Time) {
        self.creations[at].stage = Stage::Joining;
        for _ in 0..count {
            let start = now + self.draw.within(&self.settings.spawn_time);
            let process = self.add_process(Origin::Spawned, start);
            note!(self, now, "p{process} is spawned");
            self.processes[process].born_of = Some(at);
            self.creations[at].spawned.push(process);
        }
    }
}
