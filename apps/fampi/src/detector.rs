//! Commands about the detector of `apps/detector`: `bench detect` and `bench noise` measure it,
//! `sim detector` simulates it on many nodes, `sim diagnosis` tests of who is slow, `top` shows
//! what it knows.

pub(crate) mod detect;
pub(crate) mod disturbance;
pub(crate) mod simulated;
pub(crate) mod slow;
pub(crate) mod top;
