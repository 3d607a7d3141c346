//! What every rank did, as an observer outside of the machines writes it down.

use fampi::{
    fault::FaultCode,
    ids::BlockId,
    protocol::{
        agreement::{Decision, Vote},
        commit::Commit,
        fused::{ReduceOp, Values},
    },
    rank::{Rank, RankSet},
};

/// One rank's part in one block.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Entry {
    /// What it voted, when it has.
    pub(crate) vote: Option<Vote>,
    /// What it brought to the fused reduction.
    pub(crate) values: Option<Values>,
    /// The deaths that earlier decisions had reported to it when it voted; for a step, steps
    /// as well; for an agreement, those that it had acknowledged.
    pub(crate) known: RankSet,
    /// It is a step of a recovery, whose report no user sees.
    pub(crate) is_step: bool,
    /// Whether it acknowledges the deaths that it knows of, in an agreement.
    pub(crate) acknowledges: Option<bool>,
    /// The deaths that it knew of and had not acknowledged, in an agreement.
    pub(crate) unacknowledged: RankSet,
    /// The first decision that its machine announced; kept when the machine has forgotten it.
    pub(crate) decision: Option<Decision>,
    /// The deaths that a decided step knows of.
    pub(crate) known_then: RankSet,
}

impl Entry {
    /// The kind of what the vote said *yes* to, if it said that all others have to say so, too: a
    /// farewell, or that a step is the last one. 0 for the block itself, nothing for a *no*.
    pub(crate) fn purpose(&self) -> Option<u8> {
        match self.vote.as_ref()?.faults[..] {
            [] => Some(0),
            [fault] if is_for_all(fault.code) => Some(fault.code.to_numbers().0),
            _ => None,
        }
    }
}

/// True for what all ranks of a block have to say, or else it is a fault.
fn is_for_all(code: FaultCode) -> bool {
    matches!(code, FaultCode::Finalized(_) | FaultCode::NotAllDone | FaultCode::NotAgreed)
}

/// The deaths that a machine does not report again, in a block or in a step.
pub(crate) fn known_to(machine: &Commit, is_step: bool) -> RankSet {
    if is_step { machine.agreed_dead().clone() } else { machine.reported_dead().clone() }
}

/// What a rank brings to a fused reduction: a number that shows in which order sums were made, and
/// one that shows whose they are. A misfit brings another reduction.
pub(crate) fn values_of(rank: Rank, misfit: bool) -> Values {
    let number = rank.number();
    let order = [1e16, 1.0, -1e16, 3.5, 1e-3][number as usize % 5] / f64::from(number + 1);
    let op = if misfit { ReduceOp::Max } else { ReduceOp::Sum };
    Values::new(op, &[order, f64::from(1 << number)]).expect("sums are defined")
}

/// One rank.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Record {
    /// False from the moment of its death.
    pub(crate) alive: bool,
    /// True when it gave the communicator up, so that its machine votes *no* for it.
    pub(crate) retired: bool,
    /// True when it did so to leave the job, so that its machine says farewell for it.
    pub(crate) leaving: bool,
    /// The lowest block that its machine still answers for.
    pub(crate) base: BlockId,
    /// Its part in each block.
    pub(crate) blocks: Vec<Entry>,
}

impl Record {
    /// A living rank that has done nothing yet.
    pub(crate) fn new(blocks: usize) -> Self {
        let blocks = vec![Entry::default(); blocks];
        Self { alive: true, retired: false, leaving: false, base: BlockId(0), blocks }
    }

    /// What this rank, or its machine for it, said *yes* to on a block, as [`Entry::purpose`].
    pub(crate) fn purpose(&self, block: usize) -> Option<u8> {
        let farewell = FaultCode::Finalized(0).to_numbers().0;
        let entry = &self.blocks[block];
        entry.purpose().or((self.leaving && entry.vote.is_none()).then_some(farewell))
    }

    /// The lowest block that this rank has not decided.
    pub(crate) fn undecided(&self) -> usize {
        let decided = |entry: &Entry| entry.decision.is_some();
        self.blocks.iter().position(|entry| !decided(entry)).unwrap_or(self.blocks.len())
    }

    /// The data context of its next attempt, from what it has decided so far.
    pub(crate) fn context(&self) -> u32 {
        let decisions = self.blocks.iter().filter_map(|entry| entry.decision.as_ref());
        decisions.map(|decision| decision.next_context).max().unwrap_or(0)
    }
}
