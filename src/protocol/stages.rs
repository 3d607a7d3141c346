//! How far the ranks of a patient block are.
//!
//! When a process dies, a prompt block ends all its waits ([`interrupt`](super::interrupt)). In a
//! patient one a request between two living ranks goes on: its peer may be late, and yet serve it.
//! It has no chance any more when the peer has come to the end of its part without having served
//! it. So a rank that waits for another one asks it, once, and has an answer when that one comes
//! there.
//!
//! ```text
//! 0 waits for 1    0 ── how far? ──▶ 1 …… finishes ── posted ──▶ 0 …… votes ── over ──▶ 0
//! ```
//!
//! **Guarantees** that who asks a living rank is told of both, each after it has happened: also if
//! that rank never starts the block, as it gives the communicator up. A block costs no message if
//! nobody asks.
//!
//! **Assumes** nothing of the order of these messages and those of the application: what was sent
//! before the end of a part may come after the news of it.
//!
//! Reference: none; the paper's programs wait for the living (Hassani et al. 2015, §3.2).

use alloc::vec::Vec;

use super::{
    Effects,
    message::{Message, Stage},
    planted::planted,
};
use crate::{ids::BlockId, rank::Rank};

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
