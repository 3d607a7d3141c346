//! What a program may ask of its simulation without holding a platform: the running thread knows
//! whose turn it is.
//!
//! Applications see a world, not the platform under it; these functions reach it from anywhere in
//! their code. Outside of a simulation they do nothing, so that the same code runs on real ranks.

use std::time::Duration;

use super::{baton, platform::SimPlatform};

fn with<T>(ask: impl FnOnce(&SimPlatform) -> T) -> Option<T> {
    let (shared, me) = baton::here()?;
    Some(ask(&SimPlatform::new(shared, me)))
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

/// Something that others can notice happens: the process may die right before it.
pub(super) fn effect() {
    with(SimPlatform::effect);
}

/// The calling process crashes here and now, if it is simulated.
pub fn crash() {
    with(SimPlatform::crash);
}
