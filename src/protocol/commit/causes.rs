//! What a rank knows of how others have died, and that it says so before a death is decided.
//!
//! A death is often heard of before its cause: from a request that failed, or from another rank.
//! Who drives the machine can ask it to be patient: then a rank brings nothing to the slow path
//! until it was told, of each death that it knows of, how that process has died, or that this
//! cannot be known. A vote without deaths waits for nothing.

use super::Commit;
use crate::{
    fault::{Cause, Causes},
    protocol::{Effects, planted::planted},
    rank::{Rank, RankSet},
};

/// How the dead have died.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Account {
    pub(super) causes: Causes,
    /// The dead of whose causes this rank was told nothing yet; none if it does not wait for them.
    awaited: Option<RankSet>,
}

impl Account {
    /// This death has become known.
    pub(super) fn await_cause(&mut self, dead: Rank) {
        if let Some(awaited) = &mut self.awaited {
            awaited.insert(dead);
        }
    }

    /// True when the cause of a death has still to be told.
    pub(super) fn is_open(&self) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| !awaited.is_empty())
            && !planted!(SpeakBeforeTheCause)
    }
}

impl Commit {
    /// Waits, after it has learned of a death, for [`Self::handle_cause`] before it brings anything
    /// to the slow path. Before the first death.
    #[must_use]
    pub fn with_causes(mut self) -> Self {
        self.account.awaited = Some(RankSet::new());
        self
    }

    /// How a process has died that this rank knows to be dead, or that this is not to be known.
    pub fn handle_cause(&mut self, dead: Rank, cause: Cause, out: &mut impl Effects) {
        self.account.causes.note(dead, cause);
        let was_open = self.account.is_open();
        if let Some(awaited) = &mut self.account.awaited {
            *awaited = awaited.difference(&core::iter::once(dead).collect());
        }
        if !was_open || self.account.is_open() {
            return;
        }
        for id in self.blocks.ids() {
            if self.blocks.get(id).is_some_and(|block| block.slow.is_some()) {
                self.advance(id, out);
            }
        }
    }

    /// Takes over what a decision says of the dead.
    pub(super) fn learn_causes(&mut self, causes: &Causes) {
        self.account.causes.merge(causes);
    }

    /// True when this rank waits to hear how this process has died.
    pub fn awaits_cause(&self, dead: Rank) -> bool {
        self.account.awaited.as_ref().is_some_and(|awaited| awaited.contains(dead))
    }
}
