//! Patient blocks, in which a death ends only what needed the dead.
//!
//! A prompt block ends its waits when a process dies, so that all ranks come to their votes at
//! once. In a patient one, requests between the living go on: the peer of such a request may be
//! late, and yet serve it. The request has no chance any more when its peer has come to the end of
//! its part of the block without having served it. So a rank that waits for another one asks it,
//! once ([`Process::how_far`]), and has an answer when that one comes there.
//!
//! ```text
//! 0 waits for 1    0 ── how far? ──▶ 1 …… finishes ── posted ──▶ 0 …… votes ── over ──▶ 0
//! ```
//!
//! What this process gives up because it is told so is no reason to end the waits of others, who
//! ask for themselves. Without a death patient and prompt blocks are alike, and what ends a block
//! for all of its ranks ([`Process::interrupt`]) does so in both.
//!
//! **Guarantees** that who asks a living rank is told of both, each after it has happened: also if
//! that rank never starts the block, as it gives the communicator up. A block costs no message if
//! no rank asks.
//!
//! **Assumes** nothing of the order of these messages and those of the application: what was sent
//! before the end of a part may come after the news of it.
//!
//! Reference: none; the paper's programs wait for the living (Hassani et al. 2015, §3.2).

use alloc::vec::Vec;

use super::{BlockKey, CommKey, Events, Outlet, Patience, Phase, Process};
use crate::{
    ids::BlockId,
    protocol::{
        Effects,
        message::{Message, Stage},
        planted::planted,
    },
    rank::Rank,
};

impl Stage {
    /// True for the last that a rank reaches.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Posted)
    }
}

/// How far others are in blocks of one communicator, and who wants to know how far this rank is.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stages {
    /// Who has asked this rank about a block that is not over here.
    askers: Vec<(BlockId, Rank)>,
    /// Whom this rank has asked, and the last answer.
    asked: Vec<(BlockId, Rank, Option<Stage>)>,
}

impl Stages {
    /// How far a rank is in a block, as far as is known; it is asked with the first call.
    pub fn ask(&mut self, block: BlockId, rank: Rank, out: &mut impl Effects) -> Option<Stage> {
        let asked = self.asked.iter().find(|(of, by, _)| (*of, *by) == (block, rank));
        if let Some((.., stage)) = asked {
            return *stage;
        }
        self.asked.push((block, rank, None));
        out.send(rank, Message::HowFar(block));
        None
    }

    /// A rank asks about a block in which this one has reached this stage.
    pub fn handle_question(
        &mut self,
        from: Rank,
        block: BlockId,
        reached: Option<Stage>,
        out: &mut impl Effects,
    ) {
        if let Some(stage) = reached {
            out.send(from, Message::Reached(block, stage));
        }
        if !reached.is_some_and(Stage::is_over) && !planted!(ForgetTheAsker) {
            self.askers.push((block, from));
        }
    }

    /// A rank says how far it is.
    pub fn handle_answer(&mut self, from: Rank, block: BlockId, stage: Stage) {
        let asked = self.asked.iter_mut().find(|(of, by, _)| (*of, *by) == (block, from));
        if let Some((.., known)) = asked {
            *known = (*known).max(Some(stage));
        }
    }

    /// True when another rank wants to know how far this rank is.
    #[inline]
    pub fn has_askers(&self) -> bool {
        !self.askers.is_empty()
    }

    /// This rank has reached a stage in a block.
    #[cold]
    pub fn reach(&mut self, block: BlockId, stage: Stage, out: &mut impl Effects) {
        for (_, asker) in self.askers.iter().filter(|(of, _)| *of == block) {
            out.send(*asker, Message::Reached(block, stage));
        }
        if stage.is_over() {
            self.askers.retain(|(of, _)| *of != block);
        }
    }

    /// This rank takes no part in any block any more but for these.
    #[cold]
    pub fn leave_all_but(&mut self, open: &[BlockId], out: &mut impl Effects) {
        self.askers.retain(|(block, asker)| {
            let stays = open.contains(block);
            if !stays {
                out.send(*asker, Message::Reached(*block, Stage::Failed));
            }
            stays
        });
    }

    /// Forgets what this rank has asked about blocks that it has decided.
    pub fn forget_below(&mut self, first: BlockId) {
        if !self.asked.is_empty() {
            self.asked.retain(|(block, ..)| *block >= first);
        }
    }
}

impl Process {
    /// True for a block whose waits a death does not end.
    pub(super) fn is_patient(&self, key: BlockKey) -> bool {
        let block = self.block(key);
        let interrupts = &self.comm(block.comm).interrupts;
        block.patience == Patience::Patient
            && block.level.is_agreed()
            && !interrupts.contains(block.scope)
    }

    /// True when a request of this block may wait for a living rank that does not serve it any
    /// more, without an interruption that says so.
    pub fn must_ask(&self, key: BlockKey) -> bool {
        let bereaved = !self.comm(self.block(key).comm).commit.dead().is_empty();
        bereaved && self.is_patient(key) && !self.doomed_around(key)
    }

    /// The block on a communicator that this process has started last and is still in, if others
    /// are to be asked about it.
    pub fn innermost(&self, comm: CommKey) -> Option<BlockKey> {
        let open = self.comm(comm).open.iter().copied();
        let inside = |key: &BlockKey| self.block(*key).phase == Phase::Open;
        open.rev().find(inside).filter(|key| self.must_ask(*key))
    }

    /// The block that was started last on a communicator and is open. All ranks start their blocks
    /// in one order, but hear of verdicts at different times.
    pub fn last_open(&self, comm: CommKey) -> Option<BlockKey> {
        let open = self.blocks.iter().enumerate();
        let open = open.filter(|(_, it)| it.comm == comm && it.phase == Phase::Open);
        let (slot, block) = open.max_by_key(|(_, block)| block.serial)?;
        Some(BlockKey::new(slot, block.generation))
    }

    /// True when a process of some universe has died.
    #[inline]
    pub fn is_bereaved(&self) -> bool {
        self.universes.iter().any(|universe| !universe.dead.is_empty())
    }

    /// The blocks with requests that may wait in this way, each with the one that the others are
    /// asked about: a local block is the affair of the one around it.
    pub fn patient_blocks(&self) -> Vec<(BlockKey, BlockKey)> {
        let mut running = self.used_blocks();
        running.retain(|key| self.block(*key).is_running());
        let around = |key: &BlockKey| {
            let block = self.block(*key);
            let asked = |outer: &&BlockKey| {
                let outer_block = self.block(**outer);
                let is_around = outer_block.comm == block.comm && outer_block.serial < block.serial;
                (*outer == key || !block.level.is_agreed() && is_around) && self.must_ask(**outer)
            };
            let outer = running.iter().filter(asked).max_by_key(|outer| self.block(**outer).serial);
            Some((*key, *outer?))
        };
        running.iter().filter_map(around).collect()
    }

    /// The other ranks of a block's communicator that are not known to be dead.
    pub fn living_others(&self, key: BlockKey) -> Vec<Rank> {
        let state = self.comm(self.block(key).comm);
        let all = (0..state.size()).map(Rank::new);
        all.filter(|rank| *rank != state.me && !state.commit.dead().contains(*rank)).collect()
    }

    /// The blocks that this process has started inside of this one, and whose verdict is not known.
    /// A local one on the same communicator is asked about by its requests.
    pub fn undecided_inside(&self, outer: BlockKey) -> Vec<BlockKey> {
        let around = self.block(outer);
        let mut inside = self.used_blocks();
        inside.retain(|key| {
            let block = self.block(*key);
            let undecided = block.is_running() || block.phase == Phase::Voted;
            let needs = block.level.is_agreed() || block.comm != around.comm;
            block.serial > around.serial && needs && undecided
        });
        inside
    }

    /// Those of [`Self::living_others`] of a block whom a block inside of it needs. Of a
    /// communicator with other processes it is not known which of them are the same: it may need
    /// any.
    pub fn needed_by(&self, outer: BlockKey, inner: BlockKey) -> Vec<Rank> {
        let (state, comm) = (self.comm(self.block(outer).comm), self.comm(self.block(inner).comm));
        let mut others = self.living_others(outer);
        others.retain(|rank| {
            let process = state.members[rank.index()];
            comm.universe != state.universe || comm.rank_of(process).is_some()
        });
        others
    }

    /// A rank that blocks inside of this one need has come to its end: whatever waits inside waits
    /// no longer, and this process finishes the block.
    pub fn doom_inside(&mut self, key: BlockKey, out: &mut impl Outlet) {
        if !self.interrupted.contains(&key) {
            self.interrupted.push(key);
            self.cut_inside(key, out);
            self.follow_up(out);
        }
    }

    /// How far a rank is in a block of this process, as far as is known; it is asked if it was not.
    pub fn how_far(&mut self, key: BlockKey, rank: Rank, out: &mut impl Outlet) -> Option<Stage> {
        let block = self.block(key);
        let (comm, scope) = (block.comm, block.scope);
        let mut events = Events::new();
        let (_, _, stages, mut adapter) = self.comms[comm.index()].machines(out, &mut events);
        stages.ask(scope, rank, &mut adapter)
    }

    /// A rank asks how far this one is in a block.
    pub(super) fn answer(
        &mut self,
        comm: CommKey,
        (asker, block): (Rank, BlockId),
        out: &mut impl Outlet,
    ) {
        let reached = self.reached_here(comm, block);
        let mut events = Events::new();
        let (_, _, stages, mut adapter) = self.comms[comm.index()].machines(out, &mut events);
        stages.handle_question(asker, block, reached, &mut adapter);
    }

    /// How far this process is in the block of this number.
    fn reached_here(&self, comm: CommKey, block: BlockId) -> Option<Stage> {
        let state = self.comm(comm);
        let mut open = state.open.iter().map(|key| self.block(*key));
        let open = open.find(|it| it.scope == block);
        match open.map(|block| block.phase) {
            Some(Phase::Open) => None,
            Some(Phase::Draining) => Some(Stage::Posted),
            Some(_) if !open.is_some_and(|block| block.objects) => Some(Stage::Over),
            Some(_) => Some(Stage::Failed),
            None if state.retired || block < state.next_block => Some(Stage::Failed),
            None => None,
        }
    }

    /// The application has finished a block: this process posts nothing more in it.
    #[inline]
    pub fn posted(&mut self, key: BlockKey, out: &mut impl Outlet) {
        self.tell_askers(key, Stage::Posted, out);
    }

    /// Tells those who asked that this process has reached a stage in a block.
    #[inline]
    pub(super) fn tell_askers(&mut self, key: BlockKey, stage: Stage, out: &mut impl Outlet) {
        let block = &self.blocks[key.slot()];
        let (comm, scope) = (block.comm, block.scope);
        let state = &mut self.comms[comm.index()];
        if state.stages.has_askers() {
            let mut events = Events::new();
            let (_, _, stages, mut adapter) = state.machines(out, &mut events);
            stages.reach(scope, stage, &mut adapter);
        }
    }

    /// This process takes part in no block of a communicator any more but in those that are open.
    pub(super) fn dismiss_askers(&mut self, comm: CommKey, out: &mut impl Outlet) {
        let open = self.comm(comm).open.iter().map(|key| self.block(*key));
        let running: Vec<_> = open.filter(|it| it.is_running()).map(|it| it.scope).collect();
        let mut events = Events::new();
        let (_, _, stages, mut adapter) = self.comms[comm.index()].machines(out, &mut events);
        stages.leave_all_but(&running, &mut adapter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Effect;

    const BLOCK: BlockId = BlockId(4);
    const OTHER: Rank = Rank::new(2);

    fn told(stage: Stage) -> Effect {
        Effect::Send(OTHER, Message::Reached(BLOCK, stage))
    }

    #[test]
    fn a_rank_is_asked_once_and_its_last_answer_counts() {
        let (mut stages, mut out) = (Stages::default(), Vec::new());
        assert_eq!(stages.ask(BLOCK, OTHER, &mut out), None);
        assert_eq!(stages.ask(BLOCK, OTHER, &mut out), None);
        assert_eq!(out, [Effect::Send(OTHER, Message::HowFar(BLOCK))]);
        stages.handle_answer(OTHER, BLOCK, Stage::Over);
        stages.handle_answer(OTHER, BLOCK, Stage::Posted);
        assert_eq!(stages.ask(BLOCK, OTHER, &mut out), Some(Stage::Over));
        stages.forget_below(BLOCK.next());
        assert_eq!(stages.ask(BLOCK, OTHER, &mut out), None);
    }

    #[test]
    fn who_asks_is_told_of_each_stage_whenever_it_asks() {
        for before in [None, Some(Stage::Posted), Some(Stage::Over)] {
            let (mut stages, mut out) = (Stages::default(), Vec::new());
            stages.handle_question(OTHER, BLOCK, before, &mut out);
            for stage in [Stage::Posted, Stage::Over] {
                if before.is_none_or(|before| before < stage) {
                    stages.reach(BLOCK, stage, &mut out);
                }
            }
            let from = usize::from(before == Some(Stage::Over));
            assert_eq!(out, [told(Stage::Posted), told(Stage::Over)][from..]);
            assert!(!stages.has_askers());
        }
    }

    #[test]
    fn who_gives_up_answers_for_all_that_it_is_not_in() {
        let (mut stages, mut out) = (Stages::default(), Vec::new());
        for block in [BLOCK, BLOCK.next()] {
            stages.handle_question(OTHER, block, None, &mut out);
        }
        stages.leave_all_but(&[BLOCK.next()], &mut out);
        assert_eq!(out, [told(Stage::Failed)]);
        assert!(stages.has_askers());
    }
}
