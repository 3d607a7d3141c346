//! Agreements of the living members of a communicator, and when to doubt that one ends.

use std::{
    cell::RefCell,
    ffi::c_int,
    time::{Duration, Instant},
};

use super::{
    comm::{self, Comm},
    inside,
    library::{Checked, Refusal, check},
    ulfm::{self, Ulfm},
};
use crate::native::Request;

/// The first pause between two doubts; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An agreement over a communicator that has begun and is not over.
#[derive(Debug)]
pub(in crate::mpi) struct Awaited {
    pub(super) comm: Comm,
    /// How many members had failed when it began, as far as MPI knew.
    failed: usize,
    /// When to doubt next, and how long after the time before.
    doubt: Instant,
    pause: Duration,
}

thread_local! {
    /// Of a call that returns when it is over.
    static CURRENT: RefCell<Option<Awaited>> = const { RefCell::new(None) };
}

impl Comm {
    /// `MPIX_Comm_shrink`.
    pub(in crate::mpi) fn shrink(&self, ulfm: &Ulfm) -> Checked<Self> {
        let _inside = inside::meeting(false);
        let mut raw = comm::null();
        let code = while_agreeing(*self, || {
            // SAFETY: the function has this type; our handle is live; the result is ours.
            unsafe { (ulfm.shrink)(self.raw(), &raw mut raw) }
        });
        Self::made("MPIX_Comm_shrink", code, raw)?.ok_or(comm::absent("MPIX_Comm_shrink"))
    }

    /// `MPIX_Comm_agree`: true when all living say true. Every process gets the same answer.
    pub(in crate::mpi) fn unanimous(&self, ulfm: &Ulfm, mine: bool) -> bool {
        let _inside = inside::meeting(false);
        self.agrees(ulfm, mine)
    }

    /// [`Self::unanimous`] where some come later than others, by the time that making a
    /// communicator may take.
    pub(in crate::mpi) fn unanimous_in_time(&self, ulfm: &Ulfm, mine: bool) -> bool {
        let _inside = inside::creation();
        self.agrees(ulfm, mine)
    }

    fn agrees(&self, ulfm: &Ulfm, mine: bool) -> bool {
        let mut flag = c_int::from(mine);
        let code = while_agreeing(*self, || {
            // SAFETY: the function has this type; our handle is live; the flag is ours.
            unsafe { (ulfm.agree)(self.raw(), &raw mut flag) }
        });
        // A failure that is not acknowledged is reported beside the flag, which is agreed anyway.
        check("MPIX_Comm_agree", code).map_or_else(Refusal::is_failure, |()| true) && flag != 0
    }

    /// `MPIX_Comm_iagree` of the value behind the pointer.
    ///
    /// # Safety
    ///
    /// The value lives, untouched, until the request is over.
    pub(in crate::mpi) unsafe fn start_agreement(
        &self,
        ulfm: &Ulfm,
        flag: *mut c_int,
    ) -> Checked<Request> {
        let mut request = Request::null();
        // SAFETY: the function has this type; our handle is live; the flag is our caller's care.
        let code = unsafe { (ulfm.iagree)(self.raw(), flag, request.slot()) };
        check("MPIX_Comm_iagree", code)?;
        Ok(request)
    }
}

impl Awaited {
    /// To be called before the agreement begins.
    pub(in crate::mpi) fn over(comm: Comm) -> Self {
        let failed = count_failed(&comm);
        Self { comm, failed, doubt: Instant::now() + PAUSE, pause: PAUSE }
    }

    /// The communicator, when a member has failed since it began and it is time to doubt.
    pub(in crate::mpi) fn in_doubt(&mut self) -> Option<Comm> {
        let now = Instant::now();
        if now < self.doubt {
            return None;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.doubt = now + self.pause;
        (count_failed(&self.comm) > self.failed).then_some(self.comm)
    }
}

fn count_failed(comm: &Comm) -> usize {
    let count = |ulfm| inside::nested(|| comm.failed(ulfm, usize::MAX, |_| {})).ok();
    ulfm::find().and_then(count).unwrap_or(0)
}

/// Makes a call of MPI that returns when the living members of `comm` agree.
fn while_agreeing<T>(comm: Comm, call: impl FnOnce() -> T) -> T {
    let awaited = Awaited::over(comm);
    let outer = CURRENT.with_borrow_mut(|current| current.replace(awaited));
    let made = call();
    CURRENT.with_borrow_mut(|current| *current = outer);
    made
}

/// The communicator of the call under way, when it is [in doubt](Awaited::in_doubt).
pub(in crate::mpi) fn in_doubt() -> Option<Comm> {
    CURRENT.with(|current| current.try_borrow_mut().ok()?.as_mut()?.in_doubt())
}
