//! What a rank knows of one block.

use alloc::boxed::Box;

use super::{fast::Fast, fusion::Fusion, slow::Gathering};
use crate::{
    ids::{Ballot, BlockId},
    protocol::{
        agreement::{Decision, Vote},
        fused::Values,
        planted::planted,
    },
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

impl Fast {
    const UNKNOWN: Self = Self::Open { steps: 0, view: 0, floor: BlockId(u64::MAX) };
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
