//! What a rank knows of one block.

use alloc::{boxed::Box, vec::Vec};

use super::fusion::Fusion;
use crate::{
    ids::{Ballot, BlockId},
    protocol::{
        agreement::{Contribution, Decision, Vote},
        fused::Values,
        nodes::NodeExchange,
        planted::planted,
    },
    rank::{Rank, RankSet},
};

/// One block, from the first news of it until all living ranks have decided it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Block {
    pub(super) vote: Option<Vote>,
    pub(super) fast: Fast,
    pub(super) slow: Option<Box<Gathering>>,
    pub(super) decided: Option<Decided>,
    /// Values of a fused reduction.
    pub(super) fusion: Option<Box<Fusion>>,
}

/// How a block was decided; small, since most are decided by the fast path.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Decided {
    Fast { context: u32, floor: BlockId },
    Slow(Box<(Decision, Ballot)>),
}

impl Decided {
    pub(super) fn ballot(&self) -> Ballot {
        match self {
            Self::Fast { .. } => Ballot::FAST,
            Self::Slow(agreed) => agreed.1,
        }
    }
}

/// The fast path of a block.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fast {
    /// Not voted yet; steps whose messages came early, all in one view.
    Open { steps: u64, view: u64, floor: BlockId },
    /// Not voted yet, and early messages came from different views.
    Torn,
    /// Voted *yes*; combining.
    Exchanging { exchange: NodeExchange, view: u64, floor: BlockId },
    /// Decided, or promised to the slow path.
    Left,
}

impl Fast {
    const UNKNOWN: Self = Self::Open { steps: 0, view: 0, floor: BlockId(u64::MAX) };
}

/// What a rank has gathered for one block under one ballot.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Gathering {
    pub(super) ballot: Ballot,
    /// Neighbours in the tree that were asked under this ballot.
    pub(super) asked: RankSet,
    pub(super) contributions: Vec<(Rank, Contribution)>,
    /// The parent that has our contribution.
    pub(super) sent_to: Option<Rank>,
}

impl Gathering {
    pub(super) fn new(ballot: Ballot) -> Self {
        Self { ballot, asked: RankSet::new(), contributions: Vec::new(), sent_to: None }
    }

    /// A lower root died: start again under the next one.
    pub(super) fn raise(&mut self, ballot: Ballot) {
        if self.ballot < ballot {
            self.ballot = ballot;
            self.asked.clear();
            self.contributions.clear();
            self.sent_to = None;
        }
    }

    pub(super) fn contributed(&self, rank: Rank) -> bool {
        self.contributions.iter().any(|(from, _)| *from == rank)
    }
}

impl Block {
    /// Nobody has spoken of it; a constant, so that it is copied as a whole.
    pub(super) const UNKNOWN: Self =
        Self { vote: None, fast: Fast::UNKNOWN, slow: None, decided: None, fusion: None };

    /// Makes it as if nobody had spoken of it.
    #[inline]
    pub(super) fn clear(&mut self) {
        let Self { vote, fast, slow, decided, fusion } = self;
        (*vote, *slow, *decided, *fusion) = (None, None, None, None);
        *fast = Fast::UNKNOWN;
    }

    #[inline]
    pub(super) fn decision(&self) -> Option<Decision> {
        match self.decided.as_ref()? {
            Decided::Fast { context, floor } => {
                let mut decision = Decision::all_yes(*context, *floor);
                if self.fusion.is_some() {
                    decision.values = self.values().copied().map(Box::new);
                }
                Some(decision)
            }
            Decided::Slow(agreed) => Some(agreed.0.clone()),
        }
    }

    /// The result of the fused reduction.
    #[inline]
    pub(super) fn values(&self) -> Option<&Values> {
        match self.decided.as_ref()? {
            Decided::Fast { .. } => {
                let Fusion { own, combined, .. } = &**self.fusion.as_ref()?;
                if planted!(PassOnOwn) { own.get() } else { combined.get() }
            }
            Decided::Slow(agreed) => agreed.0.values.as_deref(),
        }
    }

    /// What this rank brings to the fused reduction; nothing unless it votes *yes*.
    #[inline]
    pub(super) fn own_values(&self) -> Option<Values> {
        self.fusion.as_ref()?.own.get().copied()
    }
}
