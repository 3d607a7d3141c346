//! The values of one block at one rank, on the way to the result.
//!
//! What comes for a round waits until the round is complete: combined before, values would be
//! grouped otherwise, and floats would have other bits. Only in a round of two there is no other
//! way to group them.

use smallvec::SmallVec;

use crate::protocol::{
    exchange::{Group, Move},
    fused::{Held, Values, combined},
    planted::planted,
};

/// Values by step.
type Arrived = SmallVec<[(u8, Values); 7]>;

/// The values of one block at one rank.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Fusion {
    /// What this rank brings; nothing before it votes.
    pub(super) own: Held,
    /// What the exchange has combined so far.
    pub(super) combined: Held,
    /// What came for rounds that are not complete, by step.
    arrived: Arrived,
}

impl Fusion {
    /// Forgets everything but the room for it.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.own.clear();
        self.combined.clear();
        self.arrived.clear();
    }

    /// See [`Values::fingerprint`].
    #[inline]
    pub(super) fn fingerprint(&self) -> u64 {
        self.own.get().map_or(0, Values::fingerprint)
    }

    #[inline]
    pub(super) fn vote(&mut self, values: &Values) {
        self.own.set(values);
        self.combined.set(values);
    }

    /// Notes the values of a step; those of a step come once. Those that a round of two waits for
    /// are combined at once, and there is nothing left to be taken when the round is complete.
    #[inline]
    pub(super) fn arrive(&mut self, step: u8, values: &Values, completes: bool) {
        if (completes || planted!(CombineEarly))
            && let Some(combined) = self.combined.get_mut()
        {
            combined.combine(values);
        } else if self.arrived.iter().all(|(known, _)| *known != step) {
            self.arrived.push((step, *values));
        }
    }

    /// Combines what came for a round that is complete.
    #[inline]
    pub(super) fn combine(&mut self, act: Move) {
        if !self.arrived.is_empty() {
            self.combine_arrived(act);
        }
    }

    fn combine_arrived(&mut self, act: Move) {
        let Some(combined) = self.combined.get_mut() else { return };
        match act {
            Move::FoldIn => take(&mut self.arrived, 0, |values| combined.combine(values)),
            Move::Told(step) => take(&mut self.arrived, step, |values| {
                if planted!(CountTwice) {
                    combined.combine(values);
                } else {
                    *combined = *values;
                }
            }),
            Move::Combine(group) => match group.other() {
                // Which of two comes first makes no difference.
                Some(step) => take(&mut self.arrived, step, |values| combined.combine(values)),
                None => self.combine_many(group),
            },
            Move::Send(..) => {}
        }
    }

    fn combine_many(&mut self, group: Group) {
        let Some(own) = self.combined.get().copied() else { return };
        let mut all = SmallVec::<[Values; 8]>::new();
        for step in group.steps() {
            match step {
                None => all.push(own),
                Some(step) => take(&mut self.arrived, step, |values| {
                    all.push(*values);
                    if planted!(CountAMemberTwice) {
                        all.push(*values);
                    }
                }),
            }
        }
        if let Some(all) = combined(&mut all) {
            self.combined.set(&all);
        }
    }
}

/// Takes the values of a step, if they have come.
#[inline]
fn take(arrived: &mut Arrived, step: u8, with: impl FnOnce(&Values)) {
    if let Some(at) = arrived.iter().position(|(known, _)| *known == step) {
        with(&arrived[at].1);
        arrived.swap_remove(at);
    }
}
