//! Communicators of attempts that failed.
//!
//! An attempt to add processes makes up to ten communicators at its root. They are freed when the
//! next attempt begins: each living rank has given up the last one by then, as it has agreed to
//! make another. What still comes in is for a number that is never used again
//! ([`free_for_ever`](this_mpi::free_for_ever)).

use std::mem;

use crate::{
    mpi::{
        calls::comm::{self, Comm},
        this_mpi,
    },
    seam::platform::UniverseId,
};

/// What attempts have made.
#[derive(Debug, Default)]
pub(in crate::mpi) struct Attempts {
    /// By those that failed.
    given_up: Vec<Comm>,
    /// By the last one that has worked here, for this universe.
    newest: Option<(UniverseId, Vec<Comm>)>,
}

impl Attempts {
    /// Communicators that are of no use, on any rank.
    pub(in crate::mpi) fn give_up(&mut self, comms: impl IntoIterator<Item = Comm>) {
        for comm in comms {
            if !self.given_up.iter().any(|known| known.is(&comm)) {
                self.given_up.push(comm);
            }
        }
    }

    /// A universe is discarded. If it is the last one that was made it was never in use, or it is
    /// the end.
    pub(in crate::mpi) fn discard(&mut self, universe: UniverseId) {
        if let Some((_, made)) = self.newest.take_if(|(newest, _)| *newest == universe) {
            self.give_up(made);
        }
    }

    /// An attempt of all living ranks begins. No other communicator is made until its end. Gives
    /// what there was before.
    pub(in crate::mpi) fn begin(&mut self) -> Vec<Comm> {
        let given_up = mem::take(&mut self.given_up);
        // SAFETY: of attempts that all have given up.
        unsafe { this_mpi::free_for_ever(given_up) };
        comm::all()
    }

    /// It is over: what it has made, given what [`Self::begin`] gave.
    pub(in crate::mpi) fn made_since(before: &[Comm]) -> Vec<Comm> {
        let is_new = |comm: &Comm| !before.iter().any(|known| known.is(comm));
        comm::all().into_iter().filter(is_new).collect()
    }

    /// It has made this universe, of which others may still say that it has failed.
    pub(in crate::mpi) fn keep(&mut self, universe: UniverseId, made: Vec<Comm>) {
        self.newest = Some((universe, made));
    }
}
