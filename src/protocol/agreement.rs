//! What the slow path combines, and what it decides.
//!
//! Reference: ULFM team 2015, "Logarithmic Agreement Routine" (early returning agreement).

use alloc::{boxed::Box, vec::Vec};

use super::{
    fused::{Values, combined},
    planted::planted,
};
use crate::{
    fault::{Causes, Fault, FaultCode, FaultReport},
    ids::{BlockId, CommId, mix},
    rank::{Rank, RankSet},
};

/// The first of the data contexts in which a communicator works that has lost a member.
///
/// Contexts below it are MPI communicators of their own, each of them a duplicate, which needs all
/// members. After a death no duplicate can be made any more. So all contexts from this one on share
/// an MPI communicator that was there before, carry messages only, and differ in their tags.
pub const FIRST_SHARED_CONTEXT: u32 = 1 << 31;

/// The data context that follows this one; `bereaved` says that a member's death is agreed on.
pub fn context_after(context: u32, bereaved: bool) -> u32 {
    let is_first = bereaved && context < FIRST_SHARED_CONTEXT;
    if is_first && !planted!(RunOutOfContexts) { FIRST_SHARED_CONTEXT } else { context + 1 }
}

/// A rank's vote on a block: *yes* when it has no fault to report.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Vote {
    /// The faults that this rank reports; empty means *yes*. A single [`FaultCode::Finalized`],
    /// [`FaultCode::NotAllDone`] or [`FaultCode::NotAgreed`] means *yes* if all ranks say so, and
    /// is a fault otherwise.
    pub faults: Vec<Fault>,
    /// The data context in which this rank's attempt ran.
    pub context: u32,
}

impl Vote {
    /// A *yes* from an attempt in this data context.
    pub const fn yes(context: u32) -> Self {
        Self { faults: Vec::new(), context }
    }

    /// What this vote says *yes* to, as a number that is 0 for a block like any other; votes for
    /// different things are not combined. Nothing for a vote of *no*.
    #[inline]
    pub fn purpose(&self) -> Option<u64> {
        match self.faults[..] {
            [] => Some(0),
            [Fault { code, .. }] if code.is_for_all() => {
                let is_missed = !planted!(MatchFarewells);
                Some(if is_missed { mix(u64::MAX - u64::from(code.to_numbers().0)) } else { 0 })
            }
            _ => None,
        }
    }

    /// True when there is nothing to report.
    pub fn is_yes(&self) -> bool {
        self.faults.is_empty()
    }
}

/// What a rank, or a whole subtree, brings to the slow path.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Contribution {
    /// A rank of the subtree has decided already; the result must be the same.
    Decided(Decision),
    /// No rank in the subtree has decided, and all of them promised not to do so by the fast path
    /// or under a lower ballot.
    Undecided(Tally),
}

/// The combined votes of undecided ranks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Tally {
    /// All reported faults.
    pub faults: Vec<Fault>,
    /// All deaths known to any of them.
    pub dead: RankSet,
    /// The deaths that earlier reports of this communicator have named to all of them; in a step
    /// of a recovery, those that earlier decisions have; in an agreement those that all of them
    /// have acknowledged.
    pub agreed: RankSet,
    /// How they have died, as far as any of them knows.
    pub causes: Causes,
    /// The lowest undecided block of any of them.
    pub floor: BlockId,
    /// The lowest data context of their attempts.
    pub context_min: u32,
    /// The highest data context of their attempts.
    pub context_max: u32,
    /// True when one of them voted on the block itself: not for something that all have to say.
    pub plain: bool,
    /// The least [`Values::shape`] that they brought; 0 when one of them brought no values.
    pub shape_min: u32,
    /// The greatest.
    pub shape_max: u32,
    /// What each of them brought to a fused reduction: they are combined when all are known, in
    /// the one order that does not depend on the tree by which they came.
    pub values: Vec<(Rank, Values)>,
}

impl Tally {
    /// Adds the votes of another subtree.
    pub fn merge(&mut self, other: &Self) {
        self.faults.extend_from_slice(&other.faults);
        self.dead.union_with(&other.dead);
        self.agreed = self.agreed.intersection(&other.agreed);
        self.causes.merge(&other.causes);
        self.floor = self.floor.min(other.floor);
        self.context_min = self.context_min.min(other.context_min);
        self.context_max = self.context_max.max(other.context_max);
        self.plain |= other.plain;
        self.shape_min = self.shape_min.min(other.shape_min);
        self.shape_max = self.shape_max.max(other.shape_max);
        if !planted!(OwnValues) {
            self.values.extend_from_slice(&other.values);
        }
    }

    /// The decision that follows when all living ranks have contributed to this tally.
    ///
    /// A death is known, and not reported again, once earlier blocks have reported it to all of
    /// these ranks. If only some had been told, and they died, a committed block would have left
    /// out a rank of whose death no living rank has heard. Attempts in different data contexts
    /// cannot have exchanged data, so such a block is never committed; nor is one in which not
    /// all ranks brought values of one shape, which is a fault of those that brought any.
    ///
    /// An agreement ([`FaultCode::NotAgreed`] of all) has a result whoever died, and runs in no
    /// data context.
    pub fn decide(mut self, comm: CommId) -> Decision {
        if planted!(ReportAgain) {
            self.agreed.clear();
        }
        let is_agreement = self.settle_purpose() == Some(FaultCode::NotAgreed);
        let dead = self.dead.difference(&self.agreed);
        let differ = self.context_min != self.context_max;
        let torn = differ && !is_agreement && !planted!(MixContexts);
        let agreeing = self.faults.is_empty() && dead.is_empty() && !torn;
        let mixed = self.shape_min != self.shape_max && !planted!(MixShapes);
        if agreeing && mixed {
            let code = FaultCode::Mismatched;
            self.faults.extend(self.values.iter().map(|(rank, _)| Fault {
                comm,
                rank: *rank,
                code,
            }));
        }
        let committed = agreeing && !mixed;
        let has_result = committed || is_agreement && !mixed && !planted!(DropTheFlag);
        let values = has_result.then(|| self.combined()).flatten();
        for consequence in [FaultCode::Interrupted, FaultCode::NotAllDone] {
            let cause = |fault: &Fault| fault.code != consequence;
            if !dead.is_empty() || self.faults.iter().any(cause) {
                // Who was only held up is not worth reporting beside what held it up, and who
                // reports a fault has not come to say whether a step is the last.
                self.faults.retain(cause);
            }
        }
        self.faults.sort_unstable();
        self.faults.dedup();
        let next_context = if committed {
            self.context_max
        } else {
            context_after(self.context_max, !self.dead.is_empty())
        };
        let (faults, known, causes, floor) = (self.faults, self.dead, self.causes, self.floor);
        Decision { committed, faults, dead, known, causes, next_context, floor, values }
    }

    /// Drops the faults that are none because all voters reported the same one, which it gives.
    fn settle_purpose(&mut self) -> Option<FaultCode> {
        let kind = |fault: &Fault| fault.code.is_for_all().then(|| fault.code.to_numbers().0);
        let said = self.faults.iter().find(|fault| fault.code.is_for_all())?.code;
        let first = Some(said.to_numbers().0);
        let all =
            !self.plain && self.faults.iter().all(|it| kind(it).is_none_or(|it| Some(it) == first));
        if all {
            self.faults.retain(|fault| kind(fault).is_none());
        }
        all.then_some(said)
    }

    /// The values of all contributors; they are the ranks of a view, in its order.
    fn combined(&mut self) -> Option<Box<Values>> {
        self.values.sort_unstable_by_key(|(rank, _)| *rank);
        // What a rank gave to a parent that passed it on and died, it gives to the next one again.
        self.values.dedup_by_key(|(rank, _)| *rank);
        let values: Vec<Values> = self.values.iter().map(|(_, values)| *values).collect();
        if planted!(FoldInARow) {
            let mut rest = values.into_iter();
            return rest.next().map(|first| {
                let both = |mut all: Values, one| {
                    all.combine(&one);
                    all
                };
                Box::new(rest.fold(first, both))
            });
        }
        combined(values).map(Box::new)
    }
}

/// The verdict on a block and everything that goes with it; equal on all living ranks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Decision {
    /// True when every rank voted *yes* and no rank died anew.
    pub committed: bool,
    /// Faults other than deaths, sorted.
    pub faults: Vec<Fault>,
    /// Ranks whose death no earlier block has reported to all living ranks; in a step of a
    /// recovery, none of its earlier steps either; in an agreement, those that not all voters had
    /// acknowledged.
    pub dead: RankSet,
    /// If the slow path has decided: all ranks of whose death a voter knew. A recovery makes what
    /// comes next without them.
    pub known: RankSet,
    /// How these have died, as far as a voter knew.
    pub causes: Causes,
    /// The data context in which blocks run after this decision.
    pub next_context: u32,
    /// All living ranks have decided the blocks below this one.
    pub floor: BlockId,
    /// The result of the fused reduction, if the block had one and is committed, or is an
    /// agreement.
    pub values: Option<Box<Values>>,
}

impl Decision {
    /// The decision of the fast path.
    pub const fn all_yes(context: u32, floor: BlockId) -> Self {
        Self {
            committed: true,
            faults: Vec::new(),
            dead: RankSet::new(),
            known: RankSet::new(),
            causes: Causes::NONE,
            next_context: context,
            floor,
            values: None,
        }
    }

    /// The new faults of the block as its users see them, deaths included. When all that is new is
    /// that ranks were interrupted, the report names the deaths of earlier reports again: they are
    /// the cause.
    pub fn report(&self, comm: CommId) -> FaultReport {
        let death = |rank| Fault { comm, rank, code: self.causes.of(rank).code() };
        let is_interruption = |fault: &Fault| fault.code == FaultCode::Interrupted;
        let cut_short = !self.faults.is_empty() && self.faults.iter().all(is_interruption);
        let lacks_a_cause = cut_short && self.dead.is_empty() && !planted!(NameNoCause);
        let deaths = if lacks_a_cause { &self.known } else { &self.dead }.iter().map(death);
        // A rank that has met a death in a request does not know how the process died.
        let told = self.faults.iter().map(|fault| match fault.code {
            code if code.is_process_failure() && fault.comm == comm => death(fault.rank),
            _ => *fault,
        });
        let faults = deaths.chain(told).collect();
        FaultReport::new(faults).with_known(self.known.clone(), self.causes.clone())
    }
}
