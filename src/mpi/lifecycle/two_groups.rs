//! Two groups of processes become one: the calls of MPI for that, with its peculiarities.

use crate::mpi::{
    calls::{comm::Comm, library::Checked, partners::Partners},
    this_mpi::{Leader, Linking, while_linking},
};

/// How a process takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Its group comes after the other one.
    pub(super) behind: bool,
    /// The names of all processes of both groups ([`Partners::Named`]), or none.
    pub(super) names: &'a [u64],
}

impl<'a> Part<'a> {
    /// That of one of the old processes.
    pub(super) fn old(names: &'a [u64]) -> Self {
        Self { behind: false, names }
    }

    /// That of a new process.
    pub(super) fn new(names: &'a [u64]) -> Self {
        Self { behind: true, names }
    }

    fn partners(&self) -> Partners {
        Partners::Named(self.names.to_vec())
    }
}

/// [`Comm::link`].
pub(super) fn link(
    own: &Comm,
    leader: u32,
    other: Option<(&Comm, u32)>,
    part: Part<'_>,
) -> Checked<Comm> {
    let led = other.map(|(bridge, rank)| Leader { comm: *bridge, rank, is_remote: false });
    let how = (part.behind, part.partners());
    while_linking(Linking { comm: *own, leader: led }, || own.link(leader, other, how))
}

/// [`Comm::merge`].
pub(super) fn merge(link: &Comm, part: Part<'_>) -> Checked<Comm> {
    let leader = Some(Leader { comm: *link, rank: 0, is_remote: true });
    while_linking(Linking { comm: *link, leader }, || link.merge(part.behind, part.partners()))
}
