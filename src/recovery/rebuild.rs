//! Rebuild: survivors keep their ranks, replacements take the failed ones, in every communicator.
//!
//! ```text
//! survivors, spares │ ready ── regroup (shrink, spawn) ── gather, split … ── confirm ──┐
//! replacements      │              join ───────────────── gather, split … ─────────────┴ welcome
//! ```
//!
//! Reference: `papers/fa-mpi.txt` §3.3 and algorithm 1. **Differs from the paper**: the root alone
//! spawns, nobody needs a shrunken communicator of the application, and the cost does not grow
//! with the number of communicators a rank is in.

use alloc::vec::Vec;

use super::{MAX_ATTEMPTS, Placement, roster::Roster};
use crate::{
    engine::{
        BlockKey, CommKey, Engine,
        platform::{DataId, Derived, UniverseId},
    },
    error::Error,
    ids::BlockId,
    protocol::{codec, message::Message},
    rank::Rank,
};

/// A rebuild under way, at a survivor, a spare or a replacement.
pub(crate) struct Rebuild {
    placement: Placement,
    stage: Stage,
}

enum Stage {
    /// All living processes of the old universe are here and know the same deaths.
    Ready(BlockKey),
    /// The new universe exists everywhere.
    Confirm(BlockKey, Option<Next>),
    /// First commit of the new universe.
    Welcome(BlockKey),
}

/// A universe that is not in use yet.
struct Next {
    universe: UniverseId,
    roster: Roster,
    me: Rank,
    world: Option<DataId>,
    children: Vec<Derived>,
}

impl Rebuild {
    /// Starts a rebuild over the newest universe. All living ranks of the world do so; a spare
    /// does it as soon as it is parked.
    pub(crate) fn start(engine: &mut Engine, placement: Placement) -> Result<Self, Error> {
        if engine.job.creating {
            return Err(Error::CreationPending);
        }
        engine.job.creating = true;
        Ok(Self { placement, stage: ready(engine) })
    }

    /// The part of a process that was spawned to replace another.
    pub(crate) fn join(engine: &mut Engine) -> Result<Self, Error> {
        engine.job.creating = true;
        engine.job.replacement = true;
        let (universe, me, roster) = engine.platform.join()?;
        let roster = Roster::decode(&roster).ok_or(Error::CreationFailed)?;
        let next = Next::make(engine, universe, roster, me).ok_or(Error::NotNeeded)?;
        Ok(Self { placement: Placement::SameRanks, stage: next.adopt(engine) })
    }

    /// The block whose verdict the next step waits for.
    pub(crate) fn awaits(&self) -> BlockKey {
        let (Stage::Ready(block) | Stage::Confirm(block, _) | Stage::Welcome(block)) = &self.stage;
        *block
    }

    /// Goes on if possible; the result, when there is one, is the same on all living ranks.
    pub(crate) fn step(&mut self, engine: &mut Engine) -> Option<Result<(), Error>> {
        if engine.job.dismissed {
            engine.job.creating = false;
            return Some(Err(Error::NotNeeded));
        }
        let block = self.awaits();
        let committed = engine.end_step(block)?;
        let stage = core::mem::replace(&mut self.stage, Stage::Ready(block));
        self.stage = match stage {
            Stage::Ready(_) => {
                let next = self.make(engine);
                let confirm = engine.start_step(universe(engine), next.is_some());
                Stage::Confirm(confirm, next)
            }
            Stage::Confirm(_, Some(next)) if committed => next.adopt(engine),
            Stage::Confirm(_, next) => {
                if let Some(next) = next {
                    next.give_up(engine);
                }
                ready(engine)
            }
            Stage::Welcome(_) if committed => {
                engine.job.creating = false;
                engine.job.attempts = 0;
                return Some(Ok(()));
            }
            Stage::Welcome(_) => ready(engine),
        };
        if engine.job.attempts > MAX_ATTEMPTS {
            engine.job.creating = false;
            return Some(Err(Error::RecoveryExhausted { attempts: MAX_ATTEMPTS }));
        }
        self.step(engine)
    }

    /// The short collective part, from the old universe to all communicators of the new one.
    fn make(&self, engine: &mut Engine) -> Option<Next> {
        let comm = engine.comm(universe(engine));
        let (old, size, me) = (comm.universe, comm.size(), comm.me);
        let dead = comm.commit.agreed_dead().clone();
        let attempts = engine.job.attempts;
        let (planned, spawn) =
            engine.job.roster.rebuilt(size, &dead, self.placement, attempts);
        let member = engine.job.roster.rank_of(me).is_some();
        let brought = member.then(|| planned.encode());
        tracing::info!(
            target: "fampi::recovery", attempt = attempts, dead = %dead, spawn,
            spares = engine.job.roster.spares.len() - planned.spares.len(), "regrouping"
        );
        let began = engine.platform.now();
        let (universe, roster) =
            engine.platform.regroup(old, &dead, spawn, brought.as_deref()).ok()?;
        if spawn > 0 {
            let took = engine.platform.now().saturating_sub(began);
            let took_us = took.as_micros() as u64;
            tracing::info!(target: "fampi::recovery", count = spawn, took_us, "spawned");
        }
        let before = dead.iter().take_while(|dead| *dead < me).count() as u32;
        let me = Rank::new(me.number() - before);
        let roster = Roster::decode(&roster)?;
        Next::make(engine, universe, roster, me)
    }
}

impl Next {
    /// Makes the communicators of the roster in a new universe.
    fn make(engine: &mut Engine, universe: UniverseId, roster: Roster, me: Rank) -> Option<Self> {
        let world = engine.platform.gather(universe, &roster.members).ok()?;
        let mut next = Self { universe, roster, me, world, children: Vec::new() };
        let rank = next.roster.rank_of(me);
        for at in 0..next.roster.children.len() {
            let Some(rank) = rank else { break };
            let Some(derived) = next.derive(engine, at, rank) else {
                next.give_up(engine);
                return None;
            };
            next.children.push(derived);
        }
        Some(next)
    }

    /// Repeats the derivation of a communicator, from a parent that has all ranks of the world.
    fn derive(&self, engine: &mut Engine, at: usize, rank: Rank) -> Option<Derived> {
        let child = &self.roster.children[at];
        let (parent, mine) = match child.parent.checked_sub(1) {
            None => (self.world?, self.roster.origins[rank.index()] as usize),
            Some(parent) => {
                let parent = parent as usize;
                (self.children[parent].data?, self.place_in(parent, rank)?)
            }
        };
        let (color, key) = *child.table.get(mine)?;
        engine.platform.split(parent, color, key).ok()
    }

    /// The rank that a rank of the world has in a derived communicator.
    fn place_in(&self, child: usize, rank: Rank) -> Option<usize> {
        let at = match self.roster.children[child].parent.checked_sub(1) {
            None => self.roster.origins[rank.index()] as usize,
            Some(parent) => self.place_in(parent as usize, rank)?,
        };
        let table = &self.roster.children[child].table;
        let (color, _) = table.get(at)?;
        let mut ranks: Vec<usize> =
            (0..table.len()).filter(|rank| table[*rank].0 == *color).collect();
        ranks.sort_by_key(|rank| table[*rank].1);
        ranks.iter().position(|rank| *rank == at)
    }

    /// Puts the new universe in the place of the old one; the next step is its first commit.
    fn adopt(self, engine: &mut Engine) -> Stage {
        let Self { universe, mut roster, me, world, children } = self;
        if let Some(old) = engine.job.universe {
            let old = engine.comm(old).universe;
            for key in engine.comms_of(old) {
                engine.retire(key);
            }
        }
        let living = roster.members.len() + roster.spares.len();
        let everybody: Vec<Rank> = (0..living).map(Rank::from).collect();
        let key = engine.register(roster.universe_id(), universe, everybody, me, None);
        engine.job.universe = Some(key);
        engine.job.attempts = roster.attempts;
        engine.job.children.clear();
        engine.job.world = None;
        let specifications = core::mem::take(&mut roster.children);
        let (world_id, members) = (roster.world_id(), roster.members.clone());
        let rank = roster.rank_of(me);
        engine.job.roster = roster;
        if let (Some(rank), Some(data)) = (rank, world) {
            let world = engine.register(world_id, universe, members, rank, Some(data));
            engine.comm_mut(world).lineage = Some(0);
            engine.job.world = Some(world);
            for (specification, made) in specifications.iter().zip(children) {
                let parent = match specification.parent.checked_sub(1) {
                    None => Some(world),
                    Some(at) => engine.job.children[at as usize],
                };
                engine.register_child(parent.expect("it has all ranks"), made);
            }
        } else {
            engine.job.roster.children = specifications;
        }
        Stage::Welcome(engine.start_step(key, true))
    }

    /// The attempt failed: processes that joined only the new universe are told to go.
    fn give_up(self, engine: &mut Engine) {
        for data in self.children.into_iter().filter_map(|derived| derived.data) {
            engine.platform.discard_data(data);
        }
        if let Some(data) = self.world {
            engine.platform.discard_data(data);
        }
        let frame = codec::encode(self.roster.universe_id(), &Message::Interrupt(BlockId(0)));
        let size = self.roster.members.len() + self.roster.spares.len();
        for process in (0..size).map(Rank::from).filter(|process| *process != self.me) {
            engine.platform.send(self.universe, process, &frame);
        }
    }
}

impl Engine {
    /// All communicators of a universe.
    fn comms_of(&self, universe: UniverseId) -> Vec<CommKey> {
        let all = self.comms.iter().enumerate();
        all.filter(|(_, comm)| comm.universe == universe).map(|(at, _)| CommKey::new(at)).collect()
    }
}

/// The communicator that carries recoveries.
fn universe(engine: &Engine) -> CommKey {
    engine.job.universe.expect("every process belongs to a universe once it was launched")
}

/// Starts the first step of the next attempt.
fn ready(engine: &mut Engine) -> Stage {
    engine.job.attempts += 1;
    let comm = universe(engine);
    Stage::Ready(engine.start_step(comm, true))
}
