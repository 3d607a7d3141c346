//! The calls of ULFM (Bland et al. 2013), on the detector and the agreement of this library.
//!
//! For programs that were written for them, and for the few things that a block does not do. They
//! work beside blocks, on the same communicators: an [`agree`] counts among the blocks of its
//! communicator, all living ranks call it in one order with them.
//!
//! ```
//! use fampi::{sim::{Crash, Simulation}, ulfm};
//!
//! let report = Simulation::new(3).crash(Crash::before_effect(2, 6)).run_world(|world| {
//!     let first = ulfm::agree(&world, 0b11)?; // somebody died, of whom nobody had heard
//!     ulfm::failure_ack(&world);
//!     let second = ulfm::agree(&world, 0b01)?;
//!     world.finalize();
//!     Ok::<_, fampi::Error>((first.is_ok(), second))
//! });
//! for result in report.results() {
//!     let (first, second) = result.as_ref().expect("the living agree");
//!     assert!(!first && second.is_ok() && second.flag == 0b01);
//! }
//! ```

use super::{Comm, Forming};
use crate::{
    engine::{BlockKey, Shared},
    error::Error,
    fault::{FaultCode, FaultReport},
    rank::{Rank, RankSet},
    recovery::MAX_ATTEMPTS,
    timeout::Timeout,
};

/// What the living ranks have agreed on: the same on all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// The bits that were set in the flags of all who took part, whether they live or not.
    pub flag: i32,
    /// The dead whom not all of them had acknowledged (`MPIX_ERR_PROC_FAILED` if there are any).
    pub unacknowledged: RankSet,
}

impl Agreed {
    /// True when all deaths were acknowledged by all (`MPI_SUCCESS`).
    pub fn is_ok(&self) -> bool {
        self.unacknowledged.is_empty()
    }
}

/// Revokes a communicator (`MPIX_Comm_revoke`): on all living ranks blocks on it are cut short and
/// faulty from now on, with [`FaultCode::Interrupted`]; [`agree`], [`shrink`] and rebuilds work.
///
/// Local. Called twice it is as called once.
pub fn revoke(comm: &Comm) {
    comm.engine().borrow_mut().revoke(comm.key());
}

/// True when the communicator is revoked, as far as this rank has heard (`MPIX_Comm_is_revoked`).
/// Local.
pub fn is_revoked(comm: &Comm) -> bool {
    look_around(comm);
    comm.engine().borrow().comm(comm.key()).interrupts.is_revoked()
}

/// The dead of whom this rank knows (`MPIX_Comm_get_failed`). Those of an earlier call come first,
/// in the same order. Local.
pub fn get_failed(comm: &Comm) -> Vec<Rank> {
    look_around(comm);
    comm.engine().borrow_mut().failed(comm.key()).to_vec()
}

/// Acknowledges the first so many of the dead that [`get_failed`] gives (`MPIX_Comm_ack_failed`);
/// how many are acknowledged now: with 0 this only asks. Local.
pub fn ack_failed(comm: &Comm, count: usize) -> usize {
    get_failed(comm);
    comm.engine().borrow_mut().comm_mut(comm.key()).acknowledged.acknowledge(count)
}

/// Acknowledges all deaths of which this rank knows (`MPIX_Comm_failure_ack`). Local.
pub fn failure_ack(comm: &Comm) {
    let known = get_failed(comm).len();
    ack_failed(comm, known);
}

/// The dead whom this rank has acknowledged (`MPIX_Comm_failure_get_acked`). Local.
pub fn failure_get_acked(comm: &Comm) -> RankSet {
    comm.engine().borrow().comm(comm.key()).acknowledged.ranks()
}

/// Agrees on the bits that are set in the flags of all living ranks (`MPIX_Comm_agree`). All of
/// them call it; it waits for them, and works on a revoked communicator.
///
/// # Errors
///
/// [`Error::Abandoned`] when the communicator was replaced by a rebuild or a rank has given it up,
/// [`Error::Left`] when a rank has left the job, [`Error::Request`] with
/// [`FaultCode::NotAgreed`] when others end a block instead.
pub fn agree(comm: &Comm, flag: i32) -> Result<Agreed, Error> {
    let mut agreeing = iagree(comm, flag)?;
    loop {
        if let Some(agreed) = agreeing.wait_local(Timeout::Never)? {
            return Ok(agreed);
        }
    }
}

/// Starts an agreement (`MPIX_Comm_iagree`).
///
/// # Errors
///
/// [`Error::Abandoned`] when the communicator was replaced by a rebuild.
pub fn iagree(comm: &Comm, flag: i32) -> Result<Agreeing, Error> {
    let mut engine = comm.engine().borrow_mut();
    if engine.comm(comm.key()).retired {
        return Err(engine.why_retired());
    }
    engine.begin_work();
    let key = engine.start_agreement(comm.key(), flag);
    Ok(Agreeing { engine: comm.engine().clone(), key })
}

/// A communicator of the living ranks, in the same order (`MPIX_Comm_shrink`). All of them call
/// it; it waits for them, works on a revoked communicator, and begins again when somebody dies
/// meanwhile.
///
/// # Errors
///
/// [`Error::Left`] when a rank has left the job, [`Error::CreationPending`] as [`Comm::shrink`].
pub fn shrink(comm: &Comm) -> Result<Comm, Error> {
    // Each time is the end of another rank.
    let mut left = comm.size().div_ceil(MAX_ATTEMPTS);
    loop {
        match comm.shrink() {
            Err(Error::RecoveryExhausted { .. } | Error::CreationFailed) if left > 0 => left -= 1,
            made => return made,
        }
    }
}

/// Starts to make such a communicator (`MPIX_Comm_ishrink`), see [`Comm::ishrink`].
///
/// # Errors
///
/// [`Error::CreationPending`]: one communicator is made at a time.
pub fn ishrink(comm: &Comm) -> Result<Forming, Error> {
    comm.ishrink()
}

/// Takes in what has come: MPI's own progress does not bring it.
fn look_around(comm: &Comm) {
    comm.engine().borrow_mut().look_around();
}

/// An agreement that is under way. Dropped, it goes on with this rank's flag.
#[must_use = "its result is in `wait_local`"]
pub struct Agreeing {
    engine: Shared,
    key: BlockKey,
}

impl Agreeing {
    /// Waits for the result; nothing when the timeout came first.
    ///
    /// # Errors
    ///
    /// As [`agree`].
    pub fn wait_local(&mut self, timeout: Timeout) -> Result<Option<Agreed>, Error> {
        let mut engine = self.engine.borrow_mut();
        if !engine.wait_agreement(self.key, timeout) {
            return Ok(None);
        }
        let flag = engine.process.agreed_flag(self.key);
        outcome(flag, engine.report(self.key)).map(Some)
    }
}

impl Drop for Agreeing {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Ok(mut engine) = self.engine.try_borrow_mut()
        {
            engine.detach(self.key);
        }
    }
}

/// The result of an agreement with this flag and report.
pub(crate) fn outcome(flag: Option<i32>, report: &FaultReport) -> Result<Agreed, Error> {
    let died = report.faults().iter().filter(|fault| fault.code.is_process_failure());
    let unacknowledged = died.map(|fault| fault.rank).collect();
    if let Some(flag) = flag {
        return Ok(Agreed { flag, unacknowledged });
    }
    let cause = report.faults().iter().find(|fault| !fault.code.is_process_failure());
    Err(match cause.map(|fault| (fault.rank, fault.code)) {
        Some((rank, FaultCode::Finalized(blocks))) => Error::Left { rank, blocks },
        Some((_, FaultCode::Abandoned)) => Error::Abandoned,
        _ => Error::Request(FaultCode::NotAgreed),
    })
}
