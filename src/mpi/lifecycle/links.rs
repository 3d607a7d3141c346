//! Links of two groups of a program, taken into use: their processes become one communicator, over
//! which those of them that rebuild communicators find each other.
//!
//! ```text
//! all ── HERE ──▶ first of the other group ── ALL ──▶ first of the own one
//! all ◀── GO ─── first of the other group, when it knows that both groups are there ── merge
//! ```
//!
//! The merge begins when all have come, so that it is short. New processes of
//! [`MpiPlatform::spawn_for`] are merged where they are linked.

use mpi::ffi;

use super::{
    groups,
    two_groups::{self, Part},
};
use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::Comm,
            library::{Checked, PROC_FAILED, Refusal},
            matched::{send_word, take_word},
        },
        operations::{platform::MpiPlatform, users::UsersLink},
    },
    rank::Rank,
    seam::platform::DataId,
};

/// The tags of the words at a link.
const HERE: u32 = 32_700;
const ALL: u32 = 32_701;
const GO: u32 = 32_702;

/// A link that is being taken into use.
#[derive(Clone, Debug)]
pub struct Gathering {
    /// Words that this process waits for, and from whom.
    awaits: Vec<(u32, u32)>,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// The first of a group hears who has come of the other one.
    Hearing,
    /// All of the other group have come; whether those of its own have is for the other's first.
    Heard,
    /// The next word is to begin.
    Coming,
}

impl MpiPlatform {
    /// Says at a link that this process has come to take it into use; nothing for a link that is in
    /// use. Does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process of it is dead.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator of two groups.
    pub unsafe fn come(&mut self, link: ffi::MPI_Comm) -> Result<Option<Gathering>, Error> {
        if self.users.link(link).is_some() {
            return Ok(None);
        }
        // SAFETY: live, says our caller.
        let link = unsafe { Comm::from_raw(link) }?;
        let came = send_word(&link, 0, HERE).and_then(|()| link.remote_size());
        let others = came.map_err(|refusal| groups::failed(refusal, &[link], self.ulfm))?;
        let leads = link.rank() == Rank::new(0);
        let (stage, awaits) = if leads {
            (Stage::Hearing, (0..others).map(|other| (other, HERE)).collect())
        } else {
            (Stage::Coming, vec![(0, GO)])
        };
        Ok(Some(Gathering { awaits, stage }))
    }

    /// Goes on with that as far as possible; true when the link is in use. A survivor gives its
    /// communicator, and how many of that are known to be dead: a new death may be known there
    /// alone.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process of it is dead, on some ranks only. The link is
    /// revoked then.
    ///
    /// # MPI
    ///
    /// When all have come it is collective over both groups, and blocking.
    ///
    /// # Safety
    ///
    /// The handle is the live communicator with which it was begun.
    pub unsafe fn gather(
        &mut self,
        link: ffi::MPI_Comm,
        gathering: &mut Gathering,
        survivors: Option<(DataId, usize)>,
    ) -> Result<bool, Error> {
        // SAFETY: live, says our caller.
        let link = unsafe { Comm::from_raw(link) }?;
        let complete = survivors.map_or(Ok(()), |(data, dead)| self.has_lost_only(data, dead));
        let merged = complete.and_then(|()| gathering.go_on(&link)).and_then(|all| {
            if !all {
                return Ok(None);
            }
            self.settle();
            two_groups::merge(&link, Part::old(&[])).map(Some)
        });
        let merged = merged.map_err(|refusal| groups::failed(refusal, &[link], self.ulfm))?;
        Ok(merged.map(|merged| self.use_link(link, merged)).is_some())
    }

    /// An error when more than so many processes of a communicator are dead.
    fn has_lost_only(&self, data: DataId, dead: usize) -> Checked<()> {
        let data = self.data[data.0 as usize].as_ref().ok_or(lost("a rebuild"))?;
        let found = data.source().failed(self.ulfm, usize::MAX, |_| {})?;
        if found > dead { Err(lost("the link of a rebuild")) } else { Ok(()) }
    }

    /// All processes of a link are one communicator, group by group.
    pub(super) fn use_link(&mut self, link: Comm, merged: Comm) {
        let own = merged.rank().number() - link.rank().number();
        let other = if own == 0 { link.size() } else { 0 };
        self.users.links.push(UsersLink { raw: link.raw(), merged, own, other, rebuilds: 0 });
    }

    /// Whoever waits for us at this link waits in vain, and it serves no other rebuild.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator of two groups.
    pub unsafe fn cut(&mut self, link: ffi::MPI_Comm) {
        if let Some(known) = self.users.link(link) {
            known.merged.revoke(self.ulfm);
        }
        // SAFETY: live, says our caller.
        if let Ok(link) = unsafe { Comm::from_raw(link) } {
            link.revoke(self.ulfm);
        }
    }

    /// The user has freed a link, or is about to.
    pub fn forget_link(&mut self, link: ffi::MPI_Comm) {
        if let Some(at) = self.users.links.iter().position(|known| known.raw == link) {
            // SAFETY: what was made of it has been made, or never will be.
            unsafe { self.users.links.swap_remove(at).merged.free() };
        }
    }
}

impl Gathering {
    /// True when all processes of both groups have come.
    fn go_on(&mut self, link: &Comm) -> Checked<bool> {
        loop {
            let mut failed = None;
            self.awaits.retain(|(other, tag)| match take_word(link, *other, *tag) {
                Ok(came) => !came,
                Err(refusal) => {
                    failed = Some(refusal);
                    true
                }
            });
            if let Some(refusal) = failed {
                return Err(refusal);
            }
            if !self.awaits.is_empty() {
                return Ok(false);
            }
            match self.stage {
                Stage::Hearing => {
                    send_word(link, 0, ALL)?;
                    (self.stage, self.awaits) = (Stage::Heard, vec![(0, ALL)]);
                }
                Stage::Heard => {
                    (1..link.remote_size()?).try_for_each(|other| send_word(link, other, GO))?;
                    return Ok(true);
                }
                Stage::Coming => return Ok(true),
            }
        }
    }
}

/// What cannot go on, as a process has died.
pub(super) fn lost(call: &'static str) -> Refusal {
    Refusal { call, class: PROC_FAILED }
}
