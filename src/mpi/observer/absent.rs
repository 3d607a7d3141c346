//! Systems without descriptors of processes have no observers.

use super::{
    calls::Checked,
    comm::Comm,
    process::{self, Acquaintance},
};
use crate::{
    engine::pulse::{Pulse, Rest},
    error::Error,
};

pub(super) fn observe(_: bool) -> Option<Pulse> {
    None
}

pub(super) fn rest() -> Rest {
    Rest::default()
}

pub(super) fn check_environment() -> Result<(), Error> {
    Ok(())
}

pub(super) fn standing() -> u64 {
    0
}

pub(super) fn meet(comm: &Comm) -> Checked<Acquaintance> {
    process::meet(comm)
}

pub(super) fn meet_again(comm: &Comm) -> Checked<Acquaintance> {
    process::meet(comm)
}

pub(super) fn look() -> bool {
    false
}

pub(super) fn close() {}

pub(super) fn leave() {}
