//! Collective operations, all in one shape: one buffer per rank, in place.
//!
//! Before the operation a rank's buffer holds what the rank gives, at the place where it stands
//! in the result; afterwards it holds the result. [`Collective::given`] and [`Collective::taken`]
//! say which elements move where: they are the whole meaning of the operations that move parts.
//!
//! Reference: MPI 4.1 §6.4–6.12, with `MPI_IN_PLACE` wherever the standard has it.

use alloc::sync::Arc;
use core::ops::Range;

use super::reduction::Reduction;
use crate::{error::Error, rank::Rank};

/// A collective operation.
#[derive(Clone, Debug)]
pub enum Collective {
    /// `MPI_Ibarrier`; the buffer is empty.
    Barrier,
    /// `MPI_Ibcast`.
    Broadcast {
        /// Whose buffer all get.
        root: Rank,
    },
    /// `MPI_Ireduce`.
    Reduce {
        /// Who gets the result.
        root: Rank,
        /// What combines the elements.
        reduction: Reduction,
    },
    /// `MPI_Iallreduce`.
    Allreduce {
        /// What combines the elements.
        reduction: Reduction,
    },
    /// `MPI_Iscan`, `MPI_Iexscan`.
    Scan {
        /// Without the rank's own elements.
        exclusive: bool,
        /// What combines the elements.
        reduction: Reduction,
    },
    /// `MPI_Ireduce_scatter_block`, `MPI_Ireduce_scatter`.
    ReduceScatter {
        /// Who gets which part of the result.
        parts: Parts,
        /// What combines the elements.
        reduction: Reduction,
    },
    /// `MPI_Igather`, `MPI_Igatherv`.
    Gather {
        /// Who gets all parts.
        root: Rank,
        /// Their lengths in the root's buffer; of no meaning elsewhere.
        parts: Parts,
    },
    /// `MPI_Iscatter`, `MPI_Iscatterv`.
    Scatter {
        /// Who has all parts.
        root: Rank,
        /// Their lengths in the root's buffer; of no meaning elsewhere.
        parts: Parts,
    },
    /// `MPI_Iallgather`, `MPI_Iallgatherv`.
    Allgather {
        /// The ranks' parts.
        parts: Parts,
    },
    /// `MPI_Ialltoall`: part `k` goes to rank `k`, whose part takes its place.
    Alltoall,
    /// `MPI_Ialltoallv`: first what is sent, part by part, then room for what is received.
    Exchange {
        /// What goes to each rank.
        sent: Parts,
        /// What comes from each rank.
        received: Parts,
    },
}

/// How a buffer is divided among the ranks, in their order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Parts {
    /// Equal parts.
    Even,
    /// This many elements for each rank.
    Counts(Arc<[usize]>),
}

impl Parts {
    /// The part of a rank in a buffer of `elements` that is divided among `size` ranks.
    pub fn range(&self, rank: usize, size: usize, elements: usize) -> Range<usize> {
        match self {
            Self::Even => {
                let part = elements / size;
                rank * part..(rank + 1) * part
            }
            Self::Counts(counts) => {
                let start = counts[..rank].iter().sum();
                start..start + counts[rank]
            }
        }
    }

    /// Number of elements of all parts, if it is given.
    pub fn total(&self) -> Option<usize> {
        match self {
            Self::Even => None,
            Self::Counts(counts) => Some(counts.iter().sum()),
        }
    }

    /// Number of elements of all parts, if they are one per rank.
    fn checked_total(&self, size: u32, elements: usize) -> Result<usize, Error> {
        match self {
            Self::Even if elements.is_multiple_of(size as usize) => Ok(elements),
            Self::Even => Err(Error::UnevenParts { elements, size }),
            Self::Counts(counts) if counts.len() != size as usize => {
                Err(Error::WrongCounts { counts: counts.len(), size })
            }
            Self::Counts(counts) => {
                Ok(counts.iter().fold(0, |sum: usize, count| sum.saturating_add(*count)))
            }
        }
    }
}

impl Collective {
    /// True when no rank can complete it before every rank has started it, whatever the algorithm,
    /// as far as all ranks can tell alike: each gets something of each.
    pub fn needs_every_rank(&self, size: u32, elements: usize) -> bool {
        match self {
            Self::Barrier => true,
            Self::Allreduce { .. } => elements > 0,
            Self::Allgather { parts: Parts::Counts(counts) } => !counts.contains(&0),
            Self::Allgather { parts: Parts::Even }
            | Self::Alltoall
            | Self::ReduceScatter { parts: Parts::Even, .. } => elements >= size as usize,
            _ => false,
        }
    }

    /// What it is called in transcripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::Allreduce { .. } => "allreduce",
            Self::Scan { exclusive: false, .. } => "scan",
            Self::Scan { exclusive: true, .. } => "exclusive scan",
            Self::ReduceScatter { .. } => "reduce-scatter",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Allgather { .. } => "allgather",
            Self::Alltoall => "alltoall",
            Self::Exchange { .. } => "exchange",
        }
    }

    /// The root, if it has one.
    pub fn root(&self) -> Option<Rank> {
        match self {
            Self::Broadcast { root }
            | Self::Reduce { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. } => Some(*root),
            _ => None,
        }
    }

    /// What combines the elements, if they are combined.
    pub fn reduction(&self) -> Option<&Reduction> {
        match self {
            Self::Reduce { reduction, .. }
            | Self::Allreduce { reduction }
            | Self::Scan { reduction, .. }
            | Self::ReduceScatter { reduction, .. } => Some(reduction),
            _ => None,
        }
    }

    /// Makes sure that this rank's buffer has the shape of the operation.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::UnevenParts`], [`Error::WrongCounts`],
    /// [`Error::WrongLength`].
    pub fn check(&self, me: Rank, size: u32, elements: usize) -> Result<(), Error> {
        if let Some(root) = self.root().filter(|root| root.number() >= size) {
            return Err(Error::NoSuchRank { rank: root, size });
        }
        let expected = match self {
            Self::Gather { root, parts } | Self::Scatter { root, parts } if *root == me => {
                parts.checked_total(size, elements)?
            }
            Self::Allgather { parts } | Self::ReduceScatter { parts, .. } => {
                parts.checked_total(size, elements)?
            }
            Self::Alltoall => Parts::Even.checked_total(size, elements)?,
            Self::Exchange { sent, received } => {
                let sent = sent.checked_total(size, elements)?;
                sent.saturating_add(received.checked_total(size, elements)?)
            }
            _ => elements,
        };
        if expected == elements { Ok(()) } else { Err(Error::WrongLength { expected, elements }) }
    }

    /// The ranks without whose call this rank's own cannot complete.
    pub fn sources(&self, me: usize, size: usize) -> Range<usize> {
        match self {
            Self::Broadcast { root } | Self::Scatter { root, .. } => root.index()..root.index() + 1,
            Self::Gather { root, .. } | Self::Reduce { root, .. } if root.index() != me => {
                me..me + 1
            }
            Self::Scan { .. } => 0..me + 1,
            _ => 0..size,
        }
    }

    /// Which of this rank's `elements` it gives to another rank.
    pub fn given(&self, to: usize, me: usize, size: usize, elements: usize) -> Range<usize> {
        match self {
            Self::Broadcast { root } | Self::Scatter { root, .. } if root.index() != me => 0..0,
            Self::Gather { root, .. } if root.index() != to => 0..0,
            Self::Broadcast { .. } | Self::Gather { .. } => 0..elements,
            Self::Scatter { parts, .. } => parts.range(to, size, elements),
            Self::Allgather { parts } => parts.range(me, size, elements),
            Self::Alltoall => Parts::Even.range(to, size, elements),
            Self::Exchange { sent, .. } => sent.range(to, size, elements),
            _ => 0..0,
        }
    }

    /// Where in this rank's `elements` those from another rank go.
    pub fn taken(&self, from: usize, me: usize, size: usize, elements: usize) -> Range<usize> {
        match self {
            Self::Broadcast { root } | Self::Scatter { root, .. } if root.index() != from => 0..0,
            Self::Gather { root, .. } if root.index() != me => 0..0,
            Self::Broadcast { .. } | Self::Scatter { .. } => 0..elements,
            Self::Gather { parts, .. } | Self::Allgather { parts } => {
                parts.range(from, size, elements)
            }
            Self::Alltoall => Parts::Even.range(from, size, elements),
            Self::Exchange { sent, received } => {
                let (after, part) = (sent.total().unwrap_or(0), received.range(from, size, 0));
                after + part.start..after + part.end
            }
            _ => 0..0,
        }
    }
}
