//! Which communicator a rebuild makes complete again: the world, or a shrunken one that takes its
//! place.
//!
//! ```text
//! world [ ] ── split [0], [1] … ── split of a part [1, 0] …
//!    └─ shrunken [S] ── split [S, 0] … ── shrunken [S, S'] ── split [S, S', 0] …
//! ```
//!
//! Each communicator of a job has a path, and each path leads through communicators that have all
//! living ranks: the world, or a shrunken one. The last of these is rebuilt with all that was
//! derived from it, and becomes the world; what was derived from an earlier one, or from another
//! shrunken one, ends. Only one that was shrunk from a part has no path, as ranks beside it live:
//! the part is rebuilt instead.
//!
//! Reference: Hassani et al. 2015, §3.3.

use alloc::vec::Vec;

use crate::{
    engine::{CommKey, Engine},
    error::Error,
    protocol::roster::{SHRUNKEN, whole_in},
};

impl Engine {
    /// The communicator of all living ranks from which this one was derived, or which it is.
    fn whole_of(&self, comm: CommKey) -> Option<CommKey> {
        let whole = whole_in(self.comm(comm).lineage.as_ref()?);
        let is_it = |key: &CommKey| {
            let comm = self.comm(*key);
            !comm.retired && comm.lineage.as_deref() == Some(whole)
        };
        self.process.comms().find(is_it)
    }

    /// The path of a communicator that was shrunk from this one, as the one of this number that was
    /// derived from it; none if other ranks than its own may live.
    pub(super) fn lineage_of_shrunken(&self, parent: CommKey, number: u32) -> Option<Vec<u32>> {
        let whole = self.whole_of(parent)?;
        let has_all = self.comm(whole).size() == self.comm(parent).size();
        let above = self.comm(parent).lineage.as_ref().filter(|_| has_all)?;
        Some(above.iter().copied().chain([SHRUNKEN + number]).collect())
    }

    /// Makes the communicator of all living ranks from which this one was derived the one that the
    /// job is about. How many ranks of the last world it leaves out.
    pub(super) fn narrow_to(&mut self, comm: CommKey) -> Result<u32, Error> {
        let lineage = self.comm(comm).lineage.clone().ok_or(Error::NoPlace)?;
        let path = whole_in(&lineage).to_vec();
        let before = self.job.roster.members.len();
        if path.is_empty() {
            self.job.roster.forget_shrunken();
        } else {
            let whole = self.whole_of(comm).ok_or(Error::NoPlace)?;
            let members = self.comm(whole).members.clone();
            self.job.roster.narrow(&path, members);
            for slot in &mut self.job.copies.slots {
                // Its ranks are the places of the new world.
                slot.known.whole = slot.known.over == Some(whole);
            }
            self.job.copies.slots.retain(|slot| slot.known.whole);
            if self.job.copies.slots.is_empty() {
                self.job.protected_steps = 0;
            }
        }
        self.change_paths(|known| {
            let within = known.strip_prefix(&*path)?;
            whole_in(within).is_empty().then(|| within.to_vec())
        });
        Ok((before - self.job.roster.members.len()) as u32)
    }

    /// The communicator that a rebuild has made in the place of another one, or that one itself.
    pub(crate) fn in_place_of(&self, old: CommKey) -> Option<CommKey> {
        let path = self.comm(old).lineage.as_ref()?;
        if path.is_empty() { self.job.world } else { self.child_at(path) }
    }
}
