//! What a program may ask of its simulation without holding a platform: the running thread knows
//! whose turn it is.
//!
//! Applications see a world, not the platform under it; these functions reach it from anywhere in
//! their code. Outside of a simulation they do nothing, so that the same code runs on real ranks.

use std::{cell::RefCell, time::Duration};

use super::platform::SimPlatform;

thread_local! {
    static HERE: RefCell<Option<SimPlatform>> = const { RefCell::new(None) };
}

/// Sets the process of this thread for as long as `life` takes.
pub(super) fn live(platform: SimPlatform, life: impl FnOnce()) {
    HERE.set(Some(platform));
    life();
    forget();
}

/// The process of this thread has ended.
pub(super) fn forget() {
    HERE.take();
}

/// Lets other processes have this thread for as long as `others` takes.
pub(super) fn leave_for(others: impl FnOnce()) {
    let me = HERE.take();
    others();
    HERE.set(me);
}

fn with<T>(ask: impl FnOnce(&SimPlatform) -> T) -> Option<T> {
    // Not borrowed during the question, in which others may run on this thread.
    let here = HERE.with_borrow(|here| here.as_ref().map(SimPlatform::again));
    here.as_ref().map(ask)
}

/// The number of the simulated process that calls: its launch position, spawned ones onwards.
pub fn process() -> Option<usize> {
    with(SimPlatform::process)
}

/// Lets virtual time pass, as a computation would.
pub fn compute(time: Duration) {
    with(|platform| platform.compute(time));
}

/// Lets virtual time pass until this moment, if it has not come yet.
pub fn compute_until(moment: Duration) {
    with(|platform| platform.compute_until(moment));
}

/// Adds a line to the transcript.
pub fn note(line: &str) {
    with(|platform| platform.note(line));
}

/// The calling process crashes here and now, if it is simulated.
pub fn crash() {
    with(SimPlatform::crash);
}
