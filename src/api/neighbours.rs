//! Operations among neighbours: of a grid, or of any graph that the ranks know.
//!
//! The shape is that of the other operations, one buffer in and the same one back. A rank's own
//! part does not stand in what it receives, so the buffer has both: what is sent, then room for
//! what is received.

use std::ops::Range;

use super::{Exchange, Request, RequestId, TryBlock};
use crate::{
    engine::Edge,
    error::Error,
    native::Element,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        collective::Parts::{self, Counts, Even},
    },
};

/// The lists of a rank in a graph.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// From whom it receives.
    pub sources: &'a [Rank],
    /// To whom it sends.
    pub destinations: &'a [Rank],
}

/// With whom a rank exchanges messages: what a topology is in MPI (MPI 4.1 §8.5), as a value of
/// this rank. It belongs to no communicator, so nothing has to be made, or made again.
///
/// A rank that is in a list several times gives, or gets, several parts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Neighbours {
    sources: Vec<Option<Rank>>,
    destinations: Vec<Option<Rank>>,
    /// What is sent in one direction of a grid comes from the opposite one.
    mirrored: bool,
}

impl Neighbours {
    /// The neighbours of this rank in a graph, as in `MPI_Dist_graph_create_adjacent` (§8.5.4).
    ///
    /// The ranks' lists fit together: a rank that is k times among the destinations of another one
    /// has that one k times among its sources, and the first part goes to the first place and so
    /// on. A message that no rank expects, or that no rank
    /// sends, is waited for like any other until its block's deadline.
    pub fn new(edges: Edges<'_>) -> Self {
        let known = |ranks: &[Rank]| ranks.iter().copied().map(Some).collect();
        let (sources, destinations) = (known(edges.sources), known(edges.destinations));
        Self { sources, destinations, mirrored: false }
    }

    /// The neighbours in a grid: below and above in each dimension.
    pub(super) fn of_grid(both_ways: Vec<Option<Rank>>) -> Self {
        Self { sources: both_ways.clone(), destinations: both_ways, mirrored: true }
    }

    /// From whom this rank receives, part by part; `None` beyond the border of a grid.
    pub fn sources(&self) -> &[Option<Rank>] {
        &self.sources
    }

    /// To whom this rank sends, part by part; `None` beyond the border of a grid.
    pub fn destinations(&self) -> &[Option<Rank>] {
        &self.destinations
    }

    /// The messages that take all these elements to each destination.
    fn sent_to_all(&self, elements: usize) -> Vec<Edge> {
        let to = self.destinations.iter().flatten();
        to.map(|peer| Edge { peer: *peer, elements: 0..elements }).collect()
    }

    /// The messages that take a part of the first elements to each destination.
    fn sent(&self, parts: &Parts, elements: usize) -> Vec<Edge> {
        edges(&self.destinations, parts, 0..elements).flatten().collect()
    }

    /// The messages that a rank receives into these parts of its buffer, in the order in which
    /// they are sent.
    fn received(&self, parts: &Parts, room: Range<usize>) -> Vec<Edge> {
        let mut edges: Vec<Option<Edge>> = edges(&self.sources, parts, room).collect();
        if self.mirrored {
            edges.as_chunks_mut().0.iter_mut().for_each(|[below, above]| {
                std::mem::swap(below, above);
            });
        }
        edges.into_iter().flatten().collect()
    }
}

/// What each rank of a list, if it is one, has to do with its part of some of the elements.
fn edges(
    ranks: &[Option<Rank>],
    parts: &Parts,
    within: Range<usize>,
) -> impl Iterator<Item = Option<Edge>> {
    ranks.iter().enumerate().map(move |(at, rank)| {
        let part = parts.range(at, ranks.len(), within.len());
        let elements = within.start + part.start..within.start + part.end;
        rank.map(|peer| Edge { peer, elements })
    })
}

/// # Operations among neighbours
///
/// Every rank of the communicator that is a neighbour of another one calls them, in one order in
/// every block ([`Neighbours`], or [`crate::Grid::neighbours`]). One buffer goes in and the same
/// buffer comes back: what this rank sends, which stays as it is, and then, part by part in the
/// order of the sources, what it receives. A part beyond the border of a grid has its place and
/// stays as it is. With `s` sources and `d` destinations:
///
/// | operation | elements sent | received |
/// |---|---|---|
/// | `ineighbor_allgather` | m, to all | s·m |
/// | `ineighbor_alltoall` | d·m | s·m |
///
/// Those with a `v` are the same with a count for each part.
///
/// A request fails when one of its neighbours is dead, and names it; what it received from the
/// others is then of no use. In a [`crate::Level::Local`] block a rank none of whose neighbours
/// died completes. Parts are copied when they are sent and when they have come, so the buffer
/// comes back at once also from a request that failed.
///
/// # Errors
///
/// As for the operations of all ranks; parts are counted by neighbours instead of ranks.
impl TryBlock {
    /// Sends the same elements to all neighbours and receives those of each
    /// (`MPI_Ineighbor_allgather`, MPI 4.1 §8.7.1). The buffer has this rank's elements, then room
    /// for as many from each source.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenParts`], [`Error::NoSuchRank`].
    pub fn ineighbor_allgather<T: Element>(
        &mut self,
        buffer: Vec<T>,
        neighbours: &Neighbours,
    ) -> Result<Request<T>, Error> {
        let parts = 1 + neighbours.sources.len();
        let own = even(&buffer, parts)?;
        let received = neighbours.received(&Even, own..buffer.len());
        self.among_neighbours(buffer, &received, &neighbours.sent_to_all(own))
    }

    /// [`Self::ineighbor_allgather`] with a number of elements of its own for each rank
    /// (`MPI_Ineighbor_allgatherv`, §8.7.1). The counts are those of the sources; the elements
    /// before that room are sent.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCounts`], [`Error::WrongLength`], [`Error::NoSuchRank`].
    pub fn ineighbor_allgatherv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: &[usize],
        neighbours: &Neighbours,
    ) -> Result<Request<T>, Error> {
        let expected = total(counts, neighbours.sources.len())?;
        let elements = buffer.len();
        let Some(own) = elements.checked_sub(expected) else {
            return Err(Error::WrongLength { expected, elements });
        };
        let received = neighbours.received(&Counts(counts.into()), own..elements);
        self.among_neighbours(buffer, &received, &neighbours.sent_to_all(own))
    }

    /// Sends a part to each destination and receives one from each source
    /// (`MPI_Ineighbor_alltoall`, §8.7.2), all of the same length.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenParts`], [`Error::NoSuchRank`].
    pub fn ineighbor_alltoall<T: Element>(
        &mut self,
        buffer: Vec<T>,
        neighbours: &Neighbours,
    ) -> Result<Request<T>, Error> {
        let parts = neighbours.destinations.len() + neighbours.sources.len();
        let sent = even(&buffer, parts)? * neighbours.destinations.len();
        let received = neighbours.received(&Even, sent..buffer.len());
        self.among_neighbours(buffer, &received, &neighbours.sent(&Even, sent))
    }

    /// [`Self::ineighbor_alltoall`] with a length of its own for each part
    /// (`MPI_Ineighbor_alltoallv`, §8.7.2).
    ///
    /// # Errors
    ///
    /// [`Error::WrongCounts`], [`Error::WrongLength`], [`Error::NoSuchRank`].
    pub fn ineighbor_alltoallv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: Exchange<'_>,
        neighbours: &Neighbours,
    ) -> Result<Request<T>, Error> {
        let sent = total(counts.sent, neighbours.destinations.len())?;
        let expected = sent.saturating_add(total(counts.received, neighbours.sources.len())?);
        let elements = buffer.len();
        if expected != elements {
            return Err(Error::WrongLength { expected, elements });
        }
        let received = neighbours.received(&Counts(counts.received.into()), sent..elements);
        let sent = neighbours.sent(&Counts(counts.sent.into()), sent);
        self.among_neighbours(buffer, &received, &sent)
    }

    fn among_neighbours<T: Element>(
        &mut self,
        buffer: Vec<T>,
        received: &[Edge],
        sent: &[Edge],
    ) -> Result<Request<T>, Error> {
        let (_, size) = self.place();
        let mut peers = received.iter().chain(sent).map(|edge| edge.peer);
        if let Some(rank) = peers.find(|peer| peer.number() >= size) {
            return Err(Error::NoSuchRank { rank, size });
        }
        let mut engine = self.engine().borrow_mut();
        let buffer = AnyBuffer::of(buffer);
        let index = engine.post_neighbours(self.key, buffer, received, sent);
        Ok(Request::of(RequestId { block: self.key, index }))
    }
}

/// Elements of each of so many equal parts.
fn even<T>(buffer: &[T], parts: usize) -> Result<usize, Error> {
    let elements = buffer.len();
    if !elements.is_multiple_of(parts) {
        return Err(Error::UnevenParts { elements, size: parts as u32 });
    }
    Ok(elements.checked_div(parts).unwrap_or(0))
}

/// Elements of all parts, if they are one for each neighbour.
fn total(counts: &[usize], neighbours: usize) -> Result<usize, Error> {
    if counts.len() != neighbours {
        return Err(Error::WrongCounts { counts: counts.len(), size: neighbours as u32 });
    }
    Ok(counts.iter().fold(0, |sum: usize, count| sum.saturating_add(*count)))
}
