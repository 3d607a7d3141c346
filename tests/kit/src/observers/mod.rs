//! Observers of nodes in virtual time, for the tests of their protocol and for its measurement.

pub mod ring;
pub mod stations;
