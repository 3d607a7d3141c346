//! Rebuild: survivors keep their ranks, replacements take the failed ones, in every communicator.
//!
//! ```text
//! old universe: survivors, spares │ ready ─ regroup (shrink, spawn) ─ confirm
//! new universe: + replacements    │                        join ──────── welcome ─ gather ─
//!                                 │ confirm ─ split ─ confirm … ─ the world is complete
//! ```
//!
//! Every collective call is followed by a commit, so that nobody enters the next one while others
//! failed in the last. A faulty commit starts the next attempt, from the newest universe that all
//! its living members have. The launch is the same, from *welcome* on.
//!
//! A world whose processes own their MPI is rebuilt from spares only. With too few of them all
//! ranks refuse the call that they have agreed to make, before it is made.
//!
//! Reference: Hassani et al. 2015, §3.3 and algorithm 1. **Differs from the paper**: the root alone
//! spawns, nobody needs a shrunken communicator of the application, and the cost does not grow
//! with the number of ranks but for the collective calls' own.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use super::{DISTURBED, MAX_ATTEMPTS, Placement, course::Course};
use crate::{
    engine::{BlockKey, CommKey, Engine},
    error::Error,
    ids::BlockId,
    protocol::{
        codec,
        handshake::{Goal, Handshake, Order},
        message::Message,
        planted::planted,
        roster::{Child, Roster, Row},
    },
    rank::Rank,
    seam::{
        entry::Entry,
        platform::{DataId, Derived, Made, Origin, Outgoing, Place, Request, UniverseId, Unneeded},
    },
};

/// A rebuild under way, at a survivor, a spare or a replacement.
pub(crate) struct Rebuild {
    placement: Placement,
    /// What it is to this process: `launch`, `join`, `rebuild`, or `parked` until it is needed.
    work: &'static str,
    course: Course,
    next: Option<Next>,
    world: Option<DataId>,
    /// What was made of the children in the roster so far; nothing where we have no part in it.
    children: Vec<Option<Derived>>,
    /// By the platform's clock.
    began: Duration,
    /// Why the last attempt failed here.
    failure: Option<String>,
    /// Why there is none, on all ranks.
    refusal: Option<Error>,
    /// How many ranks of the last world are left out, of which spares do not know.
    left_out: u32,
}

/// What a rebuild is to a spare.
const PARKED: &str = "parked";

/// A universe that is not in use yet.
struct Next {
    universe: UniverseId,
    roster: Roster,
    me: Rank,
}

impl Rebuild {
    /// Starts to rebuild the communicator of all living ranks from which this one was derived. All
    /// of its living ranks do so.
    pub(crate) fn start(
        engine: &mut Engine,
        comm: CommKey,
        placement: Placement,
    ) -> Result<Self, Error> {
        if engine.job.creating {
            return Err(Error::CreationPending);
        }
        let left_out = engine.narrow_to(comm)?;
        Ok(Self::over_universe(engine, placement, left_out))
    }

    /// The part of a spare, as soon as it is parked.
    pub(crate) fn park(engine: &mut Engine) -> Self {
        Self::over_universe(engine, Placement::SameRanks, 0)
    }

    /// Starts a rebuild over the newest universe.
    fn over_universe(engine: &mut Engine, placement: Placement, left_out: u32) -> Self {
        engine.job.creating = true;
        // Whoever still starts a block on the old world is not left waiting for us.
        let universe = engine.comm(universe(engine)).universe;
        for key in engine.comms_of(universe) {
            if engine.comm(key).data.is_some() && !planted!(LeaveTheOldWorld) {
                engine.retire(key);
            }
        }
        let mut orders = Vec::new();
        let handshake = Handshake::start(Goal::Rebuild, MAX_ATTEMPTS, &mut orders);
        let me = engine.comm(self::universe(engine)).me;
        let parked = engine.job.roster.rank_of(me).is_none();
        let work = if parked { PARKED } else { "rebuild" };
        let course = Course::new(handshake, orders);
        let mut rebuild = Self { left_out, ..Self::begin(engine, work, placement, course) };
        rebuild.obey(engine);
        rebuild
    }

    fn begin(
        engine: &mut Engine,
        work: &'static str,
        placement: Placement,
        course: Course,
    ) -> Self {
        engine.tell(&Entry::Begun { work });
        let (next, world, children, began) = (None, None, Vec::new(), engine.platform.now());
        let (failure, refusal, left_out) = (None, None, 0);
        Self { placement, work, course, next, world, children, began, failure, refusal, left_out }
    }

    /// The part of a process that was launched, in universe 0.
    pub(crate) fn launch(engine: &mut Engine, roster: Roster, me: Rank) -> Self {
        engine.job.creating = true;
        Self::enter(engine, "launch", Next { universe: UniverseId(0), roster, me })
    }

    /// The part of a process that was spawned to replace another.
    pub(crate) fn join(engine: &mut Engine) -> Result<Self, Error> {
        engine.job.creating = true;
        let (universe, me, roster) = engine.platform.make(Request::Join)?.universe();
        let roster = Roster::decode(&roster).ok_or(Error::CreationFailed)?;
        Ok(Self::enter(engine, "join", Next { universe, roster, me }))
    }

    fn enter(engine: &mut Engine, work: &'static str, next: Next) -> Self {
        let mut orders = Vec::new();
        let handshake = Handshake::join(next.roster.attempts, MAX_ATTEMPTS, &mut orders);
        let placement = next.roster.placement;
        next.adopt(engine);
        let mut rebuild = Self::begin(engine, work, placement, Course::new(handshake, orders));
        rebuild.obey(engine);
        rebuild
    }

    /// The block whose verdict the next step waits for.
    pub(crate) fn awaits(&self) -> Option<BlockKey> {
        self.course.awaits()
    }

    /// Goes on if possible; the result, when there is one, is the same on all living ranks.
    pub(crate) fn step(&mut self, engine: &mut Engine) -> Option<Result<(), Error>> {
        let result = self.advance(engine)?;
        engine.tell(&Entry::Done { work: self.work });
        Some(result)
    }

    fn advance(&mut self, engine: &mut Engine) -> Option<Result<(), Error>> {
        loop {
            if engine.job.dismissed {
                (engine.job.creating, engine.job.meeting) = (false, None);
                return Some(Err(Error::NotNeeded));
            }
            let place = Place::Universe(engine.comm(universe(engine)).universe);
            let committed = self.course.verdict(engine, Some(place))?;
            if everybody_is_dead(engine) || self.is_orphaned(engine) {
                engine.job.creating = false;
                return Some(Err(Error::NotNeeded));
            }
            let communicators = 1 + engine.job.roster.children.len() as u32;
            self.course.handle_verdict(committed, communicators);
            if let Some(result) = self.obey(engine) {
                engine.job.creating = false;
                return Some(result);
            }
        }
    }

    /// Those who spawned us died before we were welcome.
    fn is_orphaned(&self, engine: &Engine) -> bool {
        let dead = engine.comm(universe(engine)).commit.agreed_dead();
        !self.course.handshake().is_welcome() && engine.job.roster.is_orphaned(dead)
    }

    /// Does what the handshake asks for, and what it asks for then.
    fn obey(&mut self, engine: &mut Engine) -> Option<Result<(), Error>> {
        while let Some(order) = self.course.order() {
            match order {
                Order::Vote(_) if self.left_out > 0 && self.course.handshake().is_to_plan() => {
                    self.course.leave_out(engine, universe(engine), self.left_out);
                }
                Order::Vote(yes) => self.course.vote(engine, universe(engine), yes),
                Order::Call => {
                    if self.work == PARKED {
                        // A spare's recovery begins when it is needed.
                        self.began = engine.platform.now();
                    }
                    match self.plan(engine) {
                        Ok((planned, spawn)) => {
                            self.next = self.regroup(engine, &planned, spawn);
                            self.course.handle_return(self.next.is_some());
                        }
                        Err(refusal) => {
                            self.refusal = Some(refusal);
                            self.course.handle_refusal();
                        }
                    }
                }
                Order::CallFor(number) => {
                    let made = self.make(engine, number as usize);
                    self.course.handle_return(made);
                }
                Order::Adopt => {
                    let next = self.next.take().expect("adopted where the call worked");
                    self.placement = next.roster.placement;
                    // Spares have the roster of the others from here on.
                    self.left_out = 0;
                    next.adopt(engine);
                }
                Order::Discard => self.discard(engine),
                Order::Complete => {
                    self.complete(engine);
                    return Some(Ok(()));
                }
                Order::Fail => {
                    let why = self.failure.take().unwrap_or_else(|| DISTURBED.into());
                    let exhausted = Error::RecoveryExhausted { attempts: MAX_ATTEMPTS, why };
                    let refusal = self.course.departure().or_else(|| self.refusal.take());
                    return Some(Err(refusal.unwrap_or(exhausted)));
                }
            }
        }
        None
    }

    /// The next roster and how many processes are to be spawned for it; or why that cannot be. All
    /// ranks have agreed on who is dead, so they plan alike.
    fn plan(&self, engine: &Engine) -> Result<(Roster, u32), Error> {
        let comm = engine.comm(universe(engine));
        let (dead, mut roster) = (self.course.dead(), &engine.job.roster);
        let of_spare;
        if roster.rank_of(comm.me).is_none() {
            of_spare = roster.without(dead, self.course.left_out());
            roster = &of_spare;
        }
        let attempt = self.course.handshake().attempts();
        let (planned, spawn) = roster.rebuilt(comm.size(), dead, self.placement, attempt);
        let spawns =
            matches!(engine.job.origin, Origin::Spawned | Origin::Launched { spawns: true, .. });
        if spawn > 0 && !spawns && !planted!(SpawnWhereNoneMay) {
            let dead =
                roster.members.iter().filter(|member| dead.contains(**member)).count() as u32;
            return Err(Error::TooFewSpares { dead, spares: dead - spawn });
        }
        Ok((planned, spawn))
    }

    /// The call that makes the next universe.
    fn regroup(&mut self, engine: &mut Engine, planned: &Roster, spawn: u32) -> Option<Next> {
        let comm = engine.comm(universe(engine));
        let (old, me) = (comm.universe, comm.me);
        let dead = self.course.dead().clone();
        let attempt = self.course.handshake().attempts();
        let living = engine.job.roster.members.iter().filter(|member| !dead.contains(**member));
        let first = living.min() == Some(&me);
        let brought = if first { planned.encode() } else { engine.split_history(me, &dead) };
        let spares = engine.job.roster.spares.len() - planned.spares.len();
        let began = engine.platform.now();
        engine.tell(&Entry::Regrouping { attempt, dead: dead.clone(), spawn, spares });
        let request = Request::Regroup { universe: old, dead: dead.clone(), spawn, brought };
        let regrouped = engine.platform.make(request).map(Made::universe);
        let took = engine.platform.now().saturating_sub(began);
        self.failure = regrouped.as_ref().err().map(ToString::to_string);
        engine.tell(&Entry::Regrouped { attempt, spawn, took, failure: self.failure.clone() });
        let (universe, me, roster) = regrouped.ok()?;
        Some(Next { universe, roster: Roster::decode(&roster)?, me })
    }

    /// Makes communicator number `made` of the newest universe: first the world, then what was
    /// derived from it.
    fn make(&mut self, engine: &mut Engine, made: usize) -> bool {
        let comm = engine.comm(universe(engine));
        let (universe, me) = (comm.universe, comm.me);
        let Some(child) = made.checked_sub(1) else {
            let members = engine.job.roster.members.clone();
            let gathered = engine.platform.make(Request::Gather { universe, members });
            let worked = gathered.is_ok();
            self.world = gathered.ok().and_then(|made| made.comm().data);
            return worked;
        };
        let rank = engine.job.roster.rank_of(me);
        let derived = derive(engine, universe, child, rank, self.world);
        let worked = derived.is_ok();
        self.children.push(derived.unwrap_or_default());
        worked
    }

    /// Everything is made, on all members of the universe: this is the world now.
    fn complete(&mut self, engine: &mut Engine) {
        let roster = &mut engine.job.roster;
        if !roster.lived {
            roster.settled = roster.generation;
            roster.lived = true;
        }
        engine.sweep();
        let comm = engine.comm(universe(engine));
        let (universe, me) = (comm.universe, comm.me);
        let (Some(rank), Some(data)) = (engine.job.roster.rank_of(me), self.world.take()) else {
            return;
        };
        let (id, members) = (engine.job.roster.world_id(), engine.job.roster.members.clone());
        let world = engine.register(id, universe, members, rank, Some(data));
        engine.comm_mut(world).lineage = Some(Vec::new());
        engine.job.world = Some(world);
        for (at, made) in self.children.drain(..).enumerate() {
            let Some(made) = made else { continue };
            let Child { parent, rows, .. } = &engine.job.roster.children[at];
            let of_grid = rows[engine.job.roster.origins[rank.index()] as usize]
                .is_some_and(|row| row.of_grid);
            let parent = if parent.is_empty() { Some(world) } else { engine.child_at(parent) };
            let parent = parent.expect("we are a member of what we were split from");
            engine.register_child(parent, &made, of_grid);
        }
        let took = engine.platform.now().saturating_sub(self.began);
        let role = if engine.job.replacement { "replacement" } else { "survivor" };
        let generation = engine.job.roster.generation;
        engine.tell(&Entry::Recovered { rank, generation, role, took });
    }

    /// The attempt failed on the way: what was made is of no use.
    fn discard(&mut self, engine: &mut Engine) {
        if let Some(next) = self.next.take() {
            next.give_up(engine);
        }
        let children = self.children.drain(..).flatten().filter_map(|derived| derived.data);
        for data in children.chain(self.world.take()) {
            engine.platform.discard(Unneeded::Data(data));
        }
    }
}

/// Repeats a split, of the world or of our part of it; nothing if we had none in it.
///
/// The whole universe takes part in the call, as in the vote before it: some have the verdict and
/// call, while a death holds up others, who ask them for it. That death has to end the call, also
/// if it is that of a spare.
fn derive(
    engine: &mut Engine,
    universe: UniverseId,
    at: usize,
    rank: Option<Rank>,
    world: Option<DataId>,
) -> Result<Option<Derived>, Error> {
    let roster = &engine.job.roster;
    let child = &roster.children[at];
    if planted!(LeaveTheSparesOut) {
        let row = rank.and_then(|rank| child.row(roster.origins[rank.index()]));
        let Some((Row { color, key, .. }, parent)) = row.zip(world) else { return Ok(None) };
        let made = engine.platform.make(Request::Split { parent, color, key })?;
        return Ok(Some(made.comm()));
    }
    let part = rank.map_or_else(Vec::new, |rank| roster.part(&child.path, rank));
    let members: Vec<Rank> = part.iter().map(|rank| roster.members[rank.index()]).collect();
    let row = |rank: Rank| child.row(roster.origins[rank.index()]);
    let table = rank.filter(|rank| row(*rank).is_some()).map(|rank| {
        let asked = |rank: &Rank| row(*rank).map_or((None, 0), |row| (row.color, row.key));
        roster.part(&child.parent, rank).iter().map(asked).collect()
    });
    let Derived { data, .. } = engine.platform.make(Request::Gather { universe, members })?.comm();
    Ok(table.map(|table| Derived { data, table }))
}

impl Next {
    /// Puts the new universe in the place of the old one.
    fn adopt(self, engine: &mut Engine) {
        let Self { universe, roster, me } = self;
        let size = roster.members.len() + roster.spares.len();
        let everybody: Vec<Rank> = (0..size).map(Rank::from).collect();
        let key = engine.register(roster.universe_id(), universe, everybody, me, None);
        engine.job.number_processes(universe, &roster.processes);
        if let Some(old) = engine.job.universe {
            let old = engine.comm(old).universe;
            for comm in engine.comms_of(old) {
                engine.retire(comm);
            }
            engine.process.leave_behind(old, key);
        }
        // A spare or a new process that gets a rank of a world that lived lacks its data.
        let had_rank = engine.job.universe.is_some_and(|old| {
            let me = engine.comm(old).me;
            engine.job.roster.rank_of(me).is_some()
        });
        engine.job.replacement |= roster.lived && !had_rank && roster.rank_of(me).is_some();
        engine.job.universe = Some(key);
        engine.job.children.clear();
        engine.job.world = None;
        engine.job.roster = roster;
        engine.tell_place();
    }

    /// The attempt failed: processes that are only in the new universe are told to go.
    fn give_up(self, engine: &mut Engine) {
        let frame = codec::encode(self.roster.universe_id(), &Message::Interrupt(BlockId(0)));
        let size = self.roster.members.len() + self.roster.spares.len();
        for process in (0..size).map(Rank::from).filter(|process| *process != self.me) {
            engine.platform.send(self.universe, process, Outgoing::Frame(&frame));
        }
        // Whatever they answer concerns nobody.
        engine.platform.discard(Unneeded::Universe(self.universe));
        engine.process.forget_universe(self.universe);
    }
}

impl Engine {
    /// All communicators of a universe.
    fn comms_of(&self, universe: UniverseId) -> Vec<CommKey> {
        let chosen = |key: &CommKey| self.comm(*key).universe == universe;
        self.process.comms().filter(chosen).collect()
    }
}

/// The communicator that carries recoveries.
fn universe(engine: &Engine) -> CommKey {
    engine.job.universe.expect("every process belongs to a universe once it was launched")
}

/// Only spares are left: nobody remembers what the job was about.
fn everybody_is_dead(engine: &Engine) -> bool {
    let dead = engine.comm(universe(engine)).commit.agreed_dead();
    engine.job.roster.members.iter().all(|member| dead.contains(*member))
}
