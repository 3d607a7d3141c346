//! Meetings: agreements that a process waits for while it does other things.

use std::ffi::c_int;

use super::{agreement::Awaited, comm::Comm, inside, library::Checked, ulfm::Ulfm};
use crate::native::Request;

/// `MPIX_Comm_iagree` under way: it is over when all living processes of the communicator have
/// started it, and MPI answers late questions about it by itself.
#[derive(Debug)]
pub(in crate::mpi) struct Meeting {
    awaited: Awaited,
    request: Request,
    flag: Box<c_int>,
    /// MPI may still write to the flag.
    lent: bool,
}

impl Meeting {
    /// Comes to a meeting.
    pub(in crate::mpi) fn start(place: Comm, ulfm: &Ulfm) -> Checked<Self> {
        Self::vote(place, ulfm, true)
    }

    /// Starts an agreement of all living processes, with what this one says.
    fn vote(place: Comm, ulfm: &Ulfm, mine: bool) -> Checked<Self> {
        let _inside = inside::ordinary();
        place.acknowledge_failures(ulfm);
        let awaited = Awaited::over(place);
        let mut flag = Box::new(c_int::from(mine));
        // SAFETY: the box stays until the request is over, or for ever.
        let request = unsafe { place.start_agreement(ulfm, &raw mut *flag) }?;
        Ok(Self { awaited, request, flag, lent: true })
    }

    /// True for a meeting of the processes of this communicator.
    pub(in crate::mpi) fn is_at(&self, place: &Comm) -> bool {
        self.awaited.comm.raw() == place.raw()
    }

    /// True when it is over. An error says that some are dead.
    pub(in crate::mpi) fn is_over(&mut self) -> bool {
        let tested = self.request.test();
        self.lent = !matches!(tested, Ok(Some(_)));
        !matches!(tested, Ok(None))
    }

    /// The communicator, when the end of the meeting is [in doubt](Awaited::in_doubt).
    pub(in crate::mpi) fn in_doubt(&mut self) -> Option<Comm> {
        self.awaited.in_doubt()
    }

    /// Leaves a meeting before all have come: who may have met without this process does not wait
    /// for it, as the communicator is revoked, and finds that it says no in the agreement that
    /// follows.
    pub(in crate::mpi) fn leave(self, ulfm: &Ulfm) {
        self.awaited.comm.revoke(ulfm);
        match Self::vote(self.awaited.comm, ulfm, false) {
            Ok(vote) => vote.end(),
            Err(refusal) => tracing::debug!(?refusal, "left without a vote"),
        }
        self.end();
    }

    /// Keeps for ever what MPI may still write to.
    pub(in crate::mpi) fn end(self) {
        if self.lent {
            Box::leak(self.flag);
        }
    }
}
