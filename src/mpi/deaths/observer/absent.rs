//! Systems without descriptors of processes have no observers.

use crate::{
    error::Error,
    fault::Cause,
    mpi::{
        calls::{comm::Comm, library::Checked},
        node::process::Process,
        this_mpi::inject_failure::Name,
    },
    protocol::membership::evidence::{Opinion, Tested},
    seam::pulse::Pulse,
};

pub(in crate::mpi) fn observe(_: bool) -> Option<Pulse> {
    None
}

pub(in crate::mpi) fn check_environment() -> Result<(), Error> {
    Ok(())
}

pub(in crate::mpi) fn standing() -> u64 {
    0
}

pub(in crate::mpi) fn are_wished(_: &[u64]) -> bool {
    false
}

pub(in crate::mpi) fn start(_: &Comm, _: &[Process], _: &[u64]) -> Checked<()> {
    Ok(())
}

pub(in crate::mpi) fn register(_: &Comm, _: &[Process], _: &[u64]) -> Checked<()> {
    Ok(())
}

pub(in crate::mpi) fn look(_: fn(Name, &'static str, Cause)) -> bool {
    false
}

pub(in crate::mpi) fn is_on() -> bool {
    false
}

pub(in crate::mpi) fn tested() -> Option<Tested> {
    None
}

pub(in crate::mpi) fn tested_node(_: u32) -> Opinion {
    Opinion::default()
}

pub(in crate::mpi) fn close() {}

pub(in crate::mpi) fn leave() {}
