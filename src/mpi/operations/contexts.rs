//! Data communicators and their contexts.
//!
//! ```text
//! source      the parent of splits, shrinks and new contexts
//! shared      carries the shared contexts  ┐
//! context 0                                ├ made with the communicator
//! context 1                                ┘
//! context k   duplicated from the source in the background once context k − 2 is retired and
//!             all ranks are alive
//! ```
//!
//! Contexts are made in the order of their numbers, one at a time, so all ranks make the same
//! duplicates in the same order, whenever each of them retires what. While a member is dead none
//! is made any more: a duplicate needs all ranks. Shared contexts are for that time, from
//! [`FIRST_SHARED_CONTEXT`] on: their messages run on a communicator that is never revoked, and on
//! which nothing else runs, which a receive could match.
//!
//! Nor may a duplicate be made of it. A rank of Open MPI 5 that knows of a death drops what comes
//! in a collective of a communicator with the dead, such as those inside of `MPI_Comm_idup`, and
//! does not count it (`ob1`, source of 5.0.9): it takes all later messages from that sender, on
//! that communicator, for early ones, and waits for ever. When shared contexts were on the source,
//! 4 to 14 of 100 runs of `collectives_go_on_over_the_living_until_one_rank_is_left` hung.
//!
//! **Assumes** that deaths in the moment of a duplicate are rare, which is why none is started
//! after an abort because of a death: an `MPI_Comm_idup` that fails may do harm
//! ([`before_creation`](crate::mpi::this_mpi::before_creation)).

use std::time::{Duration, Instant};

use crate::{
    mpi::{
        calls::{
            comm::{Comm, Making},
            library::Checked,
            ulfm::Ulfm,
        },
        deaths::watcher,
    },
    protocol::agreement::FIRST_SHARED_CONTEXT,
    seam::platform::Lane,
};

/// A retired communicator is freed when this many later ones were made: by then no message to
/// it is on its way.
const FREE_AFTER: usize = 3;
/// Contexts that another rank has started are completed within this time, or never.
const COMPLETE_WITHIN: Duration = Duration::from_secs(5);
/// A context that all ranks have started is made within this time.
const SETTLE_WITHIN: Duration = Duration::from_millis(500);

/// One context.
#[derive(Debug)]
enum Context {
    Ready(Comm),
    Retired(Comm),
    /// Freed, or could not be made.
    Gone,
}

/// A communicator for operations of the application.
#[derive(Debug)]
pub(in crate::mpi) struct DataComm {
    source: Comm,
    shared: Comm,
    contexts: Vec<Context>,
    making: Option<Making>,
    /// All contexts below are retired.
    retired: u32,
    /// All contexts below are made, or will be.
    wanted: u32,
    /// A context could not be made; none will be.
    broken: bool,
    /// There never were any.
    is_bare: bool,
}

impl DataComm {
    /// One of communicators that are made one after the other, alike; nothing if this rank is in
    /// none of them.
    pub(in crate::mpi) fn of(
        mut make: impl FnMut() -> Checked<Option<Comm>>,
    ) -> Checked<Option<Self>> {
        let all = [make()?, make()?, make()?, make()?];
        let [Some(source), Some(shared), Some(first), Some(second)] = all else { return Ok(None) };
        let contexts = vec![Context::Ready(first), Context::Ready(second)];
        let (making, retired, wanted) = (None, 0, 2);
        let (broken, is_bare) = (false, false);
        Ok(Some(Self { source, shared, contexts, making, retired, wanted, broken, is_bare }))
    }

    /// One without contexts: operations run on a communicator that the program made. What is
    /// posted here is on the source, whatever the context.
    pub(in crate::mpi) fn bare(source: Comm) -> Self {
        let (making, contexts) = (None, Vec::new());
        let (retired, wanted) = (0, 0);
        let (broken, is_bare) = (true, true);
        Self { source, shared: source, contexts, making, retired, wanted, broken, is_bare }
    }

    pub(in crate::mpi) fn source(&self) -> Comm {
        self.source
    }

    /// The communicator of a context, if it is made and not retired.
    #[inline]
    pub(in crate::mpi) fn context(&self, number: u32) -> Option<&Comm> {
        match self.contexts.get(number as usize) {
            Some(Context::Ready(comm)) => Some(comm),
            None if self.is_bare || number >= FIRST_SHARED_CONTEXT => Some(&self.shared),
            _ => None,
        }
    }

    /// True when the context will come, if no rank dies.
    pub(in crate::mpi) fn is_coming(&self, number: u32) -> bool {
        !self.broken
            && number >= self.retired
            && number as usize >= self.contexts.len()
            && number < self.wanted
    }

    /// Makes progress with a context that is needed; true when it will come, if no rank dies.
    pub(in crate::mpi) fn await_context(
        &mut self,
        number: u32,
        ulfm: &Ulfm,
    ) -> (bool, Option<(u32, Comm)>) {
        self.wanted = self.wanted.max(number + 1);
        let unneeded = self.advance(ulfm);
        (self.is_coming(number) && self.is_healthy(ulfm), unneeded)
    }

    /// Number of contexts that were made or started.
    pub(in crate::mpi) fn started(&self) -> u32 {
        self.contexts.len() as u32 + u32::from(self.making.is_some())
    }

    /// Retires all contexts below `number`: everything on them ends, everywhere. `refill` makes
    /// others for them. The result is that of [`Self::advance`].
    pub(in crate::mpi) fn retire(
        &mut self,
        number: u32,
        refill: bool,
        ulfm: &Ulfm,
    ) -> Option<(u32, Comm)> {
        let contexts = self.contexts.iter_mut().take(number as usize);
        for context in contexts.skip(self.retired as usize) {
            if let Context::Ready(comm) = *context {
                comm.revoke(ulfm);
                *context = Context::Retired(comm);
            }
        }
        self.retired = self.retired.max(number);
        if refill {
            self.wanted = self.wanted.max(self.retired + 2);
        }
        self.advance(ulfm)
    }

    /// Makes progress with the next contexts. Gives an old one that is not needed, with its number.
    pub(in crate::mpi) fn advance(&mut self, ulfm: &Ulfm) -> Option<(u32, Comm)> {
        self.advance_to(self.wanted, ulfm)
    }

    /// Completes `count` contexts, early if need be; false when that cannot be done.
    pub(in crate::mpi) fn complete(&mut self, count: u32, ulfm: &Ulfm) -> bool {
        let began = Instant::now();
        while (self.contexts.len() as u32) < count || self.making.is_some() {
            if self.broken || began.elapsed() > COMPLETE_WITHIN {
                return false;
            }
            self.advance_to(count, ulfm);
        }
        true
    }

    fn advance_to(&mut self, count: u32, ulfm: &Ulfm) -> Option<(u32, Comm)> {
        let mut unneeded = None;
        if let Some(making) = &mut self.making {
            match making.test() {
                Ok(None) => return None,
                Ok(Some(comm)) => {
                    self.making = None;
                    unneeded = self.add(comm, ulfm);
                }
                Err(refusal) => {
                    tracing::debug!(?refusal, "context not made");
                    self.give_up();
                }
            }
        }
        if self.broken || self.contexts.len() as u32 >= count || !self.is_healthy(ulfm) {
            return unneeded;
        }
        // Often a death is why a context is needed, and MPI does not know it yet. A duplicate that
        // meets with it fails, and there will be no further context.
        if watcher::look_closely() && !self.is_healthy(ulfm) {
            return unneeded;
        }
        match self.source.start_duplicate() {
            Ok(making) => self.making = Some(making),
            Err(refusal) => {
                tracing::debug!(?refusal, "context not started");
                self.broken = true;
            }
        }
        unneeded
    }

    fn add(&mut self, comm: Comm, ulfm: &Ulfm) -> Option<(u32, Comm)> {
        let number = self.contexts.len();
        let late = number < self.retired as usize;
        if late {
            comm.revoke(ulfm);
        }
        self.contexts.push(if late { Context::Retired(comm) } else { Context::Ready(comm) });
        let old = number.checked_sub(2 + FREE_AFTER)?;
        match std::mem::replace(&mut self.contexts[old], Context::Gone) {
            Context::Retired(comm) => Some((old as u32, comm)),
            other => {
                self.contexts[old] = other;
                None
            }
        }
    }

    /// Leaves no duplicate under way: MPI makes communicators one after the other, so that an
    /// unfinished one can hold up all others. Contexts that all ranks start are completed.
    pub(in crate::mpi) fn settle(&mut self, ulfm: &Ulfm) {
        let began = Instant::now();
        while !self.broken
            && (self.contexts.len() as u32) < self.wanted
            && began.elapsed() < SETTLE_WITHIN
        {
            if self.is_healthy(ulfm) {
                self.advance(ulfm);
            } else {
                self.give_up();
            }
        }
    }

    /// There will be no further context: the one under way is completed, or forgotten when a
    /// member died. It is not ended by a revocation, at whose hands it would end this process.
    pub(in crate::mpi) fn abandon(&mut self, ulfm: &Ulfm) {
        self.broken = true;
        let began = Instant::now();
        while self.making.is_some() && self.is_healthy(ulfm) && began.elapsed() < SETTLE_WITHIN {
            self.advance(ulfm);
        }
        self.give_up();
    }

    /// Forgets a duplicate under way, or one that failed: MPI may still write its handle.
    pub(in crate::mpi) fn give_up(&mut self) {
        self.broken = true;
        if let Some(making) = self.making.take() {
            making.leak();
        }
    }

    /// True while MPI works for this communicator in the background.
    pub(in crate::mpi) fn is_making(&self) -> bool {
        self.making.is_some()
    }

    /// True when all of its processes are alive, as far as MPI knows.
    pub(in crate::mpi) fn is_healthy(&self, ulfm: &Ulfm) -> bool {
        matches!(self.source.failed(ulfm, usize::MAX, |_| {}), Ok(0))
    }
}

/// The communicator of a context that is made and not retired.
#[inline]
pub(in crate::mpi) fn lane_of(data: &[Option<DataComm>], lane: Lane) -> Option<&Comm> {
    data.get(lane.data.0 as usize)?.as_ref()?.context(lane.context)
}
