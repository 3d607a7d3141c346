//! Operations of all ranks of a block, in one shape.
//!
//! Each takes one buffer per rank and gives the same one back, with its length. Before the
//! operation it holds what the rank gives, at the place where that stands in the result;
//! afterwards it holds the result. What a rank neither gives nor gets may be anything before and
//! is as it was afterwards, except where it is said to be unspecified.

use super::{Request, RequestId, TryBlock};
use crate::{
    error::Error,
    native::Element,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        collective::{Collective, Parts},
        reduction::ReduceWith,
    },
};

/// How many elements a rank sends to each rank, and receives from each, in rank order.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Number of elements for each rank.
    pub sent: &'a [usize],
    /// Number of elements from each rank.
    pub received: &'a [usize],
}

fn counted(counts: &[usize]) -> Parts {
    Parts::Counts(counts.into())
}

/// # Operations of all ranks
///
/// All living ranks of the communicator call them, in the same order in every block. One buffer
/// goes in, and the same buffer comes back with [`TryBlock::take`] or [`crate::Finished::take`]:
/// see each operation for where things stand in it. With `n` for the number of ranks:
///
/// | operation | elements before | afterwards |
/// |---|---|---|
/// | `ibcast` | m; the root's count | the root's |
/// | `ireduce` | m | at the root the combined ones |
/// | `iallreduce`, `iscan`, `iexscan` | m | the combined ones |
/// | `ireduce_scatter_block` | n·m | the combined part of this rank in front |
/// | `igather` | m; at the root n·m | at the root all parts |
/// | `iscatter` | m; at the root n·m | this rank's part |
/// | `iallgather` | n·m | all parts |
/// | `ialltoall` | n·m | the parts that the others had for this rank |
///
/// A receiving buffer for equal parts is easily made of a part: `[1, 2].repeat(n)`. Those with a
/// `v` and `ireduce_scatter` are the same with a count for each rank.
///
/// After a report of a death they are refused, with [`FaultCode::ProcessFailed`], unless the block
/// *runs through* ([`crate::Comm::set_run_through`], [`TryBlock::set_run_through`]): then they go
/// on over the ranks that no report has named dead, [`TryBlock::left_out`] says without whom. Ranks
/// and counts are those of the whole communicator. Nothing is combined for who is left out, what
/// stands in its place of a buffer stays as it is, and an operation whose root it is fails with
/// [`FaultCode::ProcessFailed`]. If another rank dies the operation fails, as does its block, and
/// the next block goes on without that one, too.
///
/// [`FaultCode::ProcessFailed`]: crate::FaultCode::ProcessFailed
///
/// # Errors
///
/// A buffer, or counts, of the wrong shape are an error at once and nothing is started:
/// [`Error::UnevenParts`], [`Error::WrongCounts`], [`Error::WrongLength`], and
/// [`Error::NoSuchRank`] for the root. Lengths that only together are wrong (the ranks disagree)
/// are a fault of the request with MPI's class. Everything else, also that a rank is dead, is a
/// fault of the request, too.
impl TryBlock {
    /// Enters a barrier (`MPI_Ibarrier`, MPI 4.1 §6.12.1).
    pub fn ibarrier(&mut self) -> Request<u8> {
        self.post_collective(Collective::Barrier, Vec::<u8>::new())
    }

    /// Broadcasts the root's buffer into those of all ranks (`MPI_Ibcast`, §6.12.2), which have one
    /// length.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`].
    pub fn ibcast<T: Element>(&mut self, buffer: Vec<T>, root: Rank) -> Result<Request<T>, Error> {
        self.collective(Collective::Broadcast { root }, buffer)
    }

    /// Gathers a part of each rank, of the same length on all, in rank order at the root
    /// (`MPI_Igather`, §6.12.3). The root's buffer has a place for each rank and its own part at
    /// its own place; the others' buffers are their parts.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`]; at the root [`Error::UnevenParts`].
    pub fn igather<T: Element>(&mut self, buffer: Vec<T>, root: Rank) -> Result<Request<T>, Error> {
        self.collective(Collective::Gather { root, parts: Parts::Even }, buffer)
    }

    /// Gathers parts of these lengths (`MPI_Igatherv`, §6.12.3), one after the other at the root.
    /// The counts matter at the root only; each other rank's buffer is its part.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`]; at the root [`Error::WrongCounts`], [`Error::WrongLength`].
    pub fn igatherv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Gather { root, parts: counted(counts) }, buffer)
    }

    /// Scatters the root's parts, of the same length, to the ranks (`MPI_Iscatter`, §6.12.4). The
    /// root keeps its buffer, with its own part at its place; the others' buffers are overwritten.
    ///
    /// # Errors
    ///
    /// As [`Self::igather`].
    pub fn iscatter<T: Element>(
        &mut self,
        buffer: Vec<T>,
        root: Rank,
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Scatter { root, parts: Parts::Even }, buffer)
    }

    /// Scatters parts of these lengths (`MPI_Iscatterv`, §6.12.4), which stand one after the other
    /// at the root. The counts matter at the root only.
    ///
    /// # Errors
    ///
    /// As [`Self::igatherv`].
    pub fn iscatterv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: &[usize],
        root: Rank,
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Scatter { root, parts: counted(counts) }, buffer)
    }

    /// Gathers a part of each rank, of the same length on all, in rank order on all ranks
    /// (`MPI_Iallgather`, §6.12.5). This rank's part stands at its place.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenParts`].
    pub fn iallgather<T: Element>(&mut self, buffer: Vec<T>) -> Result<Request<T>, Error> {
        self.collective(Collective::Allgather { parts: Parts::Even }, buffer)
    }

    /// Gathers parts of these lengths on all ranks (`MPI_Iallgatherv`, §6.12.5), one after the
    /// other. The counts are the same on all ranks; this rank's part stands at its place.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCounts`], [`Error::WrongLength`].
    pub fn iallgatherv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: &[usize],
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Allgather { parts: counted(counts) }, buffer)
    }

    /// Sends part k to rank k and puts rank k's part for this rank in its place
    /// (`MPI_Ialltoall`, §6.12.6). All parts have the same length.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenParts`].
    pub fn ialltoall<T: Element>(&mut self, buffer: Vec<T>) -> Result<Request<T>, Error> {
        self.collective(Collective::Alltoall, buffer)
    }

    /// Sends a part of its own length to each rank and receives one from each
    /// (`MPI_Ialltoallv`, §6.12.6). The buffer holds what is sent, in rank order, and then has
    /// room for what is received, in rank order; what was sent is as it was afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCounts`], [`Error::WrongLength`].
    pub fn ialltoallv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: Exchange<'_>,
    ) -> Result<Request<T>, Error> {
        let (sent, received) = (counted(counts.sent), counted(counts.received));
        self.collective(Collective::Exchange { sent, received }, buffer)
    }

    /// Combines the buffers of all ranks, element by element, at the root (`MPI_Ireduce`, §6.12.7).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::NoSuchReduction`].
    pub fn ireduce<T: Element>(
        &mut self,
        buffer: Vec<T>,
        op: impl ReduceWith<T>,
        root: Rank,
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Reduce { root, reduction: op.reduction()? }, buffer)
    }

    /// Combines the buffers of all ranks, element by element, on all ranks (`MPI_Iallreduce`,
    /// §6.12.8).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchReduction`].
    pub fn iallreduce<T: Element>(
        &mut self,
        buffer: Vec<T>,
        op: impl ReduceWith<T>,
    ) -> Result<Request<T>, Error> {
        self.collective(Collective::Allreduce { reduction: op.reduction()? }, buffer)
    }

    /// Combines the buffers of all ranks and gives each rank one of the equal parts of the result
    /// (`MPI_Ireduce_scatter_block`, §6.12.9): its part is in front, the rest is unspecified.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenParts`], [`Error::NoSuchReduction`].
    pub fn ireduce_scatter_block<T: Element>(
        &mut self,
        buffer: Vec<T>,
        op: impl ReduceWith<T>,
    ) -> Result<Request<T>, Error> {
        let reduction = op.reduction()?;
        self.collective(Collective::ReduceScatter { parts: Parts::Even, reduction }, buffer)
    }

    /// Combines the buffers of all ranks and gives each rank the part of its count of the result
    /// (`MPI_Ireduce_scatter`, §6.12.10): its part is in front, the rest is unspecified. The
    /// counts are the same on all ranks.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCounts`], [`Error::WrongLength`], [`Error::NoSuchReduction`].
    pub fn ireduce_scatter<T: Element>(
        &mut self,
        buffer: Vec<T>,
        counts: &[usize],
        op: impl ReduceWith<T>,
    ) -> Result<Request<T>, Error> {
        let (parts, reduction) = (counted(counts), op.reduction()?);
        self.collective(Collective::ReduceScatter { parts, reduction }, buffer)
    }

    /// Combines the buffers of the ranks up to and with this one, element by element
    /// (`MPI_Iscan`, §6.12.11).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchReduction`].
    pub fn iscan<T: Element>(
        &mut self,
        buffer: Vec<T>,
        op: impl ReduceWith<T>,
    ) -> Result<Request<T>, Error> {
        let reduction = op.reduction()?;
        self.collective(Collective::Scan { exclusive: false, reduction }, buffer)
    }

    /// Combines the buffers of the ranks before this one, element by element (`MPI_Iexscan`,
    /// §6.12.12). Rank 0 gets nothing: its buffer comes back as it was.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchReduction`].
    pub fn iexscan<T: Element>(
        &mut self,
        buffer: Vec<T>,
        op: impl ReduceWith<T>,
    ) -> Result<Request<T>, Error> {
        let reduction = op.reduction()?;
        self.collective(Collective::Scan { exclusive: true, reduction }, buffer)
    }

    fn collective<T: Element>(
        &mut self,
        collective: Collective,
        buffer: Vec<T>,
    ) -> Result<Request<T>, Error> {
        let (me, size) = self.place();
        collective.check(me, size, buffer.len())?;
        Ok(self.post_collective(collective, buffer))
    }

    fn post_collective<T: Element>(
        &mut self,
        collective: Collective,
        buffer: Vec<T>,
    ) -> Request<T> {
        let mut engine = self.engine().borrow_mut();
        let index = engine.post_collective(self.key, collective, AnyBuffer::of(buffer));
        Request::of(RequestId { block: self.key, index })
    }
}
