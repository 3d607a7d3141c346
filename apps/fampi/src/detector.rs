//! Commands about the detector of `apps/detector`: `bench detect` and `bench noise` measure it,
//! `sim detector` simulates it on many nodes, `figure detector` does all of this for the figures of
//! one paper, `sim diagnosis` simulates tests of who is slow, `top` shows what it knows.

pub(crate) mod detect;
pub(crate) mod disturbance;
pub(crate) mod figures;
mod ring;
pub(crate) mod silence;
pub(crate) mod simulated;
pub(crate) mod slow;
pub(crate) mod top;
