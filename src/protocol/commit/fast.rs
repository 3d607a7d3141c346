//! The fast path of a commit: *yes* to all ranks in log n steps, with values if there are any.

use super::{Commit, Decided, Fast};
use crate::{
    ids::BlockId,
    protocol::{Effects, fused::Values, message::Yes, nodes::Move, planted::planted},
    rank::Rank,
};

impl Commit {
    /// A message of the fast path; the same as [`Self::handle_message`] with it.
    #[inline]
    pub fn handle_yes(&mut self, from: Rank, yes: Yes, out: &mut impl Effects) {
        self.combine_vote(from, yes, None, out);
    }

    /// A message of the fast path with values.
    #[inline]
    pub fn handle_fused(&mut self, from: Rank, yes: Yes, values: &Values, out: &mut impl Effects) {
        self.combine_vote(from, yes, Some(values), out);
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
        let retired = self.retired.is_some();
        let block = self.blocks.at_mut(yes.block);
        if retired && block.vote.is_none() {
            self.enter_slow_path(yes.block, out);
            return;
        }
        match &mut block.fast {
            Fast::Exchanging { exchange, view, floor }
                if *view == yes.view || planted!(MixViews) =>
            {
                let seat = self.route.seat;
                let completes = !self.view.has_heads() && exchange.pairs(yes.step);
                let peer = self.view.peer(seat, from);
                if peer.is_some_and(|peer| exchange.arrive(seat, peer, yes.step)) {
                    if !planted!(OwnFloor) {
                        *floor = yes.floor.min(*floor);
                    }
                    if let (Some(fusion), Some(values)) = (&mut block.fusion, values) {
                        fusion.arrive(yes.step, values, completes);
                    }
                    self.exchange(yes.block, out);
                }
            }
            Fast::Exchanging { .. } => self.enter_slow_path(yes.block, out),
            Fast::Open { steps, view, floor } => {
                if *steps != 0 && *view != yes.view {
                    block.fast = Fast::Torn;
                } else {
                    *steps |= 1 << (yes.step & 63);
                    *view = yes.view;
                    *floor = yes.floor.min(*floor);
                    if let Some(values) = values {
                        self.fusion(yes.block).arrive(yes.step, values, false);
                    }
                }
            }
            Fast::Torn | Fast::Left => {}
        }
    }

    /// Goes on with the fast path of a block; decides when all votes are combined.
    #[inline]
    pub(super) fn exchange(&mut self, id: BlockId, out: &mut impl Effects) {
        let lowest = self.lowest();
        let block = self.blocks.at_mut(id);
        let Fast::Exchanging { exchange, view, floor } = &mut block.fast else { return };
        *floor = lowest.min(*floor);
        let (view, floor) = (*view, *floor);
        let live = &self.view;
        let seat = self.route.seat;
        let mut fusion = block.fusion.as_deref_mut();
        let complete = exchange.advance(seat, |act| {
            if let Move::Send(peer, step) = act {
                let yes = Yes { block: id, step, view, floor };
                let to = live.rank_of(seat, peer);
                match fusion.as_ref().and_then(|fusion| fusion.combined.get()) {
                    None => out.send_yes(to, yes),
                    Some(values) => out.send_fused(to, yes, values),
                }
            } else if let Some(fusion) = &mut fusion {
                let way = self.route.way_of(fusion.own.get());
                fusion.combine(act, way);
            }
        });
        if complete {
            let context = block.vote.as_ref().map_or(0, |vote| vote.context);
            block.fast = Fast::Left;
            block.decided = Some(Decided::Fast { context, floor });
            self.finish_decision(id, floor, out);
        }
    }
}
