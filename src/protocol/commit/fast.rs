//! The fast path of a commit: *yes* to everybody in log n steps, with values if there are any.

use super::{Commit, Decided};
use crate::{
    ids::BlockId,
    protocol::{
        Effects,
        doubling::Doubling,
        fused::Values,
        message::{Fused, Yes},
        planted::{Bug, planted},
    },
    rank::Rank,
};

/// The fast path of a block.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fast {
    /// Not voted yet; rounds of messages that came early, all in one view.
    Open { rounds: u64, view: u64, floor: BlockId },
    /// Not voted yet, and early messages came from different views.
    Torn,
    /// Voted *yes*; combining.
    Exchanging { doubling: Doubling, view: u64, floor: BlockId },
    /// Decided, or promised to the slow path.
    Left,
}

impl Commit {
    /// A message of the fast path; the same as [`Self::handle_message`] with it.
    #[inline]
    pub fn handle_yes(&mut self, from: Rank, yes: Yes, out: &mut impl Effects) {
        self.combine_vote(from, yes, None, out);
    }

    /// A message of the fast path with values.
    #[inline]
    pub fn handle_fused(&mut self, from: Rank, fused: &Fused, out: &mut impl Effects) {
        self.combine_vote(from, fused.yes, Some(&fused.values), out);
    }

    #[inline]
    fn combine_vote(
        &mut self,
        from: Rank,
        yes: Yes,
        values: Option<&Values>,
        out: &mut impl Effects,
    ) {
        self.forget();
        if !self.listens_to(from) || !self.locate(yes.block) {
            return;
        }
        let (position, retired) = (self.view.position_of(from), self.retired);
        let block = self.block_mut(yes.block);
        if retired && block.vote.is_none() {
            self.enter_slow_path(yes.block, out);
            return;
        }
        match &mut block.fast {
            Fast::Exchanging { doubling, view, floor }
                if *view == yes.view || planted(Bug::MixViews) =>
            {
                if doubling.arrive(position, yes.round) {
                    if !planted(Bug::OwnFloor) {
                        *floor = yes.floor.min(*floor);
                    }
                    if let (Some(fusion), Some(values)) = (&mut block.fusion, values) {
                        fusion.arrive(yes.round, values);
                    }
                    self.exchange(yes.block, out);
                }
            }
            Fast::Exchanging { .. } => self.enter_slow_path(yes.block, out),
            Fast::Open { rounds, view, floor } => {
                if *rounds != 0 && *view != yes.view {
                    block.fast = Fast::Torn;
                } else {
                    *rounds |= 1 << (yes.round & 63);
                    *view = yes.view;
                    *floor = yes.floor.min(*floor);
                    if let Some(values) = values {
                        self.fusion(yes.block).arrive(yes.round, values);
                    }
                }
            }
            Fast::Torn | Fast::Left => {}
        }
    }

    /// Goes on with the fast path of a block; decides when all votes are combined.
    #[inline]
    pub(super) fn exchange(&mut self, id: BlockId, out: &mut impl Effects) {
        let (lowest, index) = (self.lowest(), (id.0 - self.base.0) as usize);
        let block = &mut self.blocks[index];
        let Fast::Exchanging { doubling, view, floor } = &mut block.fast else { return };
        *floor = lowest.min(*floor);
        let (view, floor) = (*view, *floor);
        let (live, follows) = (&self.view, doubling.follows());
        let mut fusion = block.fusion.as_deref_mut();
        let complete = doubling.advance(|position, round| {
            let yes = Yes { block: id, round, view, floor };
            let to = live.rank_at(position);
            match &mut fusion {
                None => out.send_yes(to, yes),
                Some(fusion) => fusion.send(to, yes, follows, out),
            }
        });
        if complete {
            if let Some(fusion) = fusion {
                fusion.absorb(u8::MAX, follows);
            }
            let context = block.vote.as_ref().map_or(0, |vote| vote.context);
            block.fast = Fast::Left;
            block.decided = Some(Decided::Fast { context, floor });
            self.finish_decision(id, floor, out);
        }
    }
}
