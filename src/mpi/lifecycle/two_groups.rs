//! Two groups of processes become one: the calls of MPI for that, with its peculiarities.

use crate::mpi::{
    calls::{comm::Comm, library::Checked},
    this_mpi::{Leader, Linking, while_linking},
};

/// [`Comm::link`].
pub(super) fn link(
    own: &Comm,
    leader: u32,
    other: Option<(&Comm, u32)>,
    behind: bool,
) -> Checked<Comm> {
    let led = other.map(|(bridge, rank)| Leader { comm: *bridge, rank, is_remote: false });
    while_linking(Linking { comm: *own, leader: led }, || own.link(leader, other, behind))
}

/// [`Comm::merge`].
pub(super) fn merge(link: &Comm, behind: bool) -> Checked<Comm> {
    let leader = Some(Leader { comm: *link, rank: 0, is_remote: true });
    while_linking(Linking { comm: *link, leader }, || link.merge(behind))
}
