//! The values of one block at one rank, on the way to the result.
//!
//! What comes for a round waits until the round is complete: combined before, values would be
//! grouped otherwise, and floats would have other bits. Only in a round of two there is no other
//! way to group them.

use smallvec::SmallVec;

use super::routes::Way;

use crate::protocol::{
    exchange::{self, Group},
    fused::{Held, Values, combined},
    nodes::Move,
    parts::{Brought, Parts, join},
    planted::planted,
};

/// Values by step.
type Arrived = SmallVec<[(u8, Values); 7]>;

/// The values of one block at one rank.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(in crate::protocol) struct Fusion {
    /// What this rank brings; nothing before it votes.
    pub(in crate::protocol) own: Held,
    /// What the exchange has combined so far.
    pub(in crate::protocol) combined: Held,
    /// What came for rounds that are not complete, by step.
    arrived: Arrived,
    /// Which parts are combined so far; nothing where each message brings a whole.
    parts: Parts,
}

impl Fusion {
    /// Forgets everything but the room for it.
    #[inline]
    pub(in crate::protocol) fn clear(&mut self) {
        self.own.clear();
        self.combined.clear();
        self.arrived.clear();
    }

    /// See [`Values::fingerprint`].
    #[inline]
    pub(in crate::protocol) fn fingerprint(&self) -> u64 {
        self.own.get().map_or(0, Values::fingerprint)
    }

    /// Begins an exchange in which a message may bring several parts; this rank brings these.
    pub(in crate::protocol) fn begin_parts(&mut self, own: &Parts) {
        self.parts = own.clone();
    }

    #[inline]
    pub(in crate::protocol) fn vote(&mut self, values: &Values) {
        self.own.set(values);
        self.combined.set(values);
    }

    /// Notes the values of a step; those of a step come once. Those that a round of two waits for
    /// are combined at once, and there is nothing left to be taken when the round is complete.
    #[inline]
    pub(in crate::protocol) fn arrive(&mut self, step: u8, values: &Values, completes: bool) {
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
    pub(in crate::protocol) fn combine(&mut self, act: Move, way: Way<'_>) {
        if !self.arrived.is_empty() {
            match way {
                Way::Parts(brought) => self.combine_parts(act, brought),
                Way::Plain | Way::Gathered => self.combine_arrived(act),
            }
        }
    }

    fn combine_arrived(&mut self, act: Move) {
        let Some(combined) = self.combined.get_mut() else { return };
        match act {
            Move::Among(exchange::Move::FoldIn) => {
                take(&mut self.arrived, 0, |values| combined.combine(values));
            }
            Move::Among(exchange::Move::Told(step)) | Move::Told(step) => self.be_told(step),
            Move::Among(exchange::Move::Combine(group)) => match group.other() {
                // Which of two comes first makes no difference.
                Some(step) => take(&mut self.arrived, step, |values| combined.combine(values)),
                None => self.combine_many(group),
            },
            // Only what has the same bits in any order comes so.
            Move::Gathered(steps) => self.arrived.retain(|(step, values)| {
                let is_due = steps >> *step & 1 == 1;
                if is_due {
                    combined.combine(values);
                }
                !is_due
            }),
            Move::Among(exchange::Move::Send(..)) | Move::Send(..) => {}
        }
    }

    /// The result has come by this step.
    fn be_told(&mut self, step: u8) {
        let Some(combined) = self.combined.get_mut() else { return };
        take(&mut self.arrived, step, |values| {
            if planted!(CountTwice) {
                combined.combine(values);
            } else {
                *combined = *values;
            }
        });
    }

    #[cold]
    fn combine_parts(&mut self, act: Move, brought: &Brought) {
        let steps: SmallVec<[u8; 21]> = match act {
            Move::Among(exchange::Move::FoldIn) => SmallVec::from_slice(&[0]),
            Move::Among(exchange::Move::Combine(group)) => group.steps().flatten().collect(),
            Move::Gathered(steps) => (0..64).filter(|step| steps >> step & 1 == 1).collect(),
            Move::Among(exchange::Move::Told(step)) | Move::Told(step) => {
                return self.be_told(step);
            }
            Move::Among(exchange::Move::Send(..)) | Move::Send(..) => return,
        };
        let Self { combined, arrived, parts, .. } = self;
        let Some(combined) = combined.get_mut() else { return };
        let came = arrived.iter().filter(|(step, _)| steps.contains(step));
        let came = came.filter_map(|(step, values)| Some((brought.by(*step)?, *values)));
        if planted!(CombineAsTheyCome) {
            came.for_each(|(_, values)| combined.combine(&values));
        } else {
            join(parts, combined, came);
        }
        arrived.retain(|(step, _)| !steps.contains(step));
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
