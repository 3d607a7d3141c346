//! How blocks end.

use fampi::{Codes, Error, Fault, Finished, Outcome, Pending, Timeout};

/// The end of a block, however long it takes.
///
/// # Errors
///
/// [`Error::Request`] when an outer block is doomed: pass it on.
pub fn wait(mut pending: Pending) -> Result<Finished, Error> {
    loop {
        pending = match pending.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => return Ok(finished),
            Outcome::TimedOut(pending) => pending,
        };
    }
}

/// Whether ranks died in a block, which all ranks see the same.
#[must_use]
pub fn lost_ranks(finished: &Finished) -> bool {
    let died = |fault: &Fault| Codes::PROCESS_FAILURES.matches(fault.code);
    finished.report().faults().iter().any(died)
}
