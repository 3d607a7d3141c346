//! Where a protected state is kept beside its rank, and so which losses it survives: at a partner,
//! or in a code over a group of ranks.
//!
//! In a group of g ranks that survives m losses each rank cuts its state into g − m *chunks*. One
//! chunk each of g − m ranks and m *parities* of these are a *stripe*; there are g stripes, and
//! each rank has parities of m of them, chunks of the others:
//!
//! ```text
//! stripe s    rank s … s + m − 1: parity 0 … m − 1    rank s + m + k: its chunk k    (modulo g)
//! ```
//!
//! So any m ranks may be lost with all that they have: of each stripe g − m parts are left, enough
//! for the others. A rank keeps m/(g − m) of its state in parities. One loss needs an exclusive or
//! (the RAID 5 of disks); for more it is a code of Reed and Solomon.
//!
//! Chunks go to the rank that has parity 0 of their stripe. It makes all parities of the stripe,
//! and sends the others to those who keep them. So a rank sends each byte of its state once, and
//! (m − 1)/(g − m) of as many bytes in parities, and no chunk is read for more than one code.
//!
//! Reference: Moody 2010, §3, "XOR"; Bautista-Gomez 2011, §3, "Reed–Solomon".

use core::ops::Range;

/// Where a protected state is kept beside its rank, and so which losses it survives between two
/// commits. All ranks choose the same.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Redundancy {
    /// Nowhere: in the memory of its rank alone, for faults after which all ranks go on. Protecting
    /// costs a copy in memory and no message; a rank that dies takes its state with it.
    Own,
    /// At a partner: survives the loss of either. Costs a message of the state's size, and the
    /// memory of two more. Of 64 KiB of numbers or more, which always have the same length, only
    /// those pages of 4 KiB are sent that have changed since the last valid copy, unless more than
    /// a quarter of them seem to have, or another block that is not decided carries the state, too.
    ///
    /// Partners are on different nodes, unless one node has more than half of the ranks. The
    /// partner is half of the ranks further on where that does, or where nodes are unknown.
    #[default]
    Partner,
    /// In a code over groups of ranks: survives the loss of some of each group. Costs messages of
    /// the state's size and `(losses - 1) / (ranks - losses)` of it, and `losses / (ranks -
    /// losses)` times its memory, beside the own copy.
    ///
    /// As few ranks of a group share a node as can be; where nodes are unknown they are as far from
    /// each other as they can be. Groups are larger where the job's ranks do not divide
    /// into groups of this size.
    Group {
        /// The ranks of a group, 2 or more.
        ranks: u32,
        /// How many of them may be lost, 1 or more, and fewer than all of them.
        losses: u32,
    },
}

impl Redundancy {
    /// The ranks of a communicator that has this many divide into so many groups.
    pub fn groups(self, size: u32) -> u32 {
        match self {
            Self::Group { ranks, .. } => (size / ranks.max(2)).max(1),
            Self::Own | Self::Partner => size,
        }
    }

    /// The losses that a group of so many ranks survives.
    pub fn losses(self, ranks: u32) -> u32 {
        match self {
            Self::Group { losses, .. } => losses.clamp(1, ranks.saturating_sub(1).max(1)),
            Self::Own => 0,
            Self::Partner => 1,
        }
    }

    /// It as one number, which ranks tell each other.
    pub fn to_word(self) -> u64 {
        match self {
            Self::Partner => 0,
            Self::Own => 1,
            Self::Group { ranks, losses } => u64::from(ranks) << 32 | u64::from(losses) << 2 | 2,
        }
    }

    /// What such a number says.
    pub fn of_word(word: u64) -> Self {
        match word & 3 {
            0 => Self::Partner,
            1 => Self::Own,
            _ => Self::Group { ranks: (word >> 32) as u32, losses: (word as u32) >> 2 },
        }
    }
}

/// The stripes of a group. Ranks are numbered in the group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stripes {
    /// The ranks of the group, which are more than its losses.
    pub ranks: usize,
    /// How many of them may be lost.
    pub losses: usize,
}

/// One rank's part of a stripe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// Its chunk with this number.
    Chunk(usize),
    /// The stripe's parity with this number.
    Parity(usize),
}

impl Stripes {
    /// The chunks of a rank, and of a stripe.
    pub const fn chunks(self) -> usize {
        self.ranks - self.losses
    }

    /// The bytes of a chunk where the longest state has this many: an even number.
    pub const fn chunk_bytes(self, longest: usize) -> usize {
        longest.div_ceil(2 * self.chunks()) * 2
    }

    /// What a rank has of a stripe.
    pub const fn part(self, stripe: usize, rank: usize) -> Part {
        let at = (rank + self.ranks - stripe) % self.ranks;
        if at < self.losses { Part::Parity(at) } else { Part::Chunk(at - self.losses) }
    }

    /// The rank that has this part of a stripe.
    pub const fn rank(self, stripe: usize, part: Part) -> usize {
        (stripe + self.place(part)) % self.ranks
    }

    /// The stripe of which a rank has this part.
    pub const fn stripe(self, rank: usize, part: Part) -> usize {
        (rank + self.ranks - self.place(part)) % self.ranks
    }

    /// How many ranks after that with parity 0 of a stripe the one with this part of it comes.
    const fn place(self, part: Part) -> usize {
        match part {
            Part::Parity(parity) => parity,
            Part::Chunk(chunk) => self.losses + chunk,
        }
    }

    /// Where in the state of a rank, which has this many bytes, a chunk lies; the last ones may be
    /// shorter than others, or empty.
    pub fn chunk(chunk: usize, chunk_bytes: usize, bytes: usize) -> Range<usize> {
        let end = |chunk: usize| (chunk * chunk_bytes).min(bytes);
        end(chunk)..end(chunk + 1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn all_shapes() -> impl Iterator<Item = Stripes> {
        let of = |ranks: usize| (1..ranks).map(move |losses| Stripes { ranks, losses });
        (2..10).flat_map(of)
    }

    #[test]
    fn each_stripe_has_one_part_at_each_rank() {
        for stripes in all_shapes() {
            for stripe in 0..stripes.ranks {
                let parts: Vec<Part> =
                    (0..stripes.ranks).map(|rank| stripes.part(stripe, rank)).collect();
                for (rank, part) in parts.iter().enumerate() {
                    assert_eq!(stripes.rank(stripe, *part), rank);
                    assert_eq!(stripes.stripe(rank, *part), stripe);
                }
                let chunks = parts.iter().filter(|part| matches!(part, Part::Chunk(_))).count();
                assert_eq!(chunks, stripes.chunks());
            }
        }
    }

    #[test]
    fn no_two_chunks_of_a_rank_go_to_one_other_and_none_stays() {
        for stripes in all_shapes() {
            for rank in 0..stripes.ranks {
                let encoder = |chunk: usize| stripes.stripe(rank, Part::Chunk(chunk));
                let mut to: Vec<usize> = (0..stripes.chunks()).map(encoder).collect();
                to.sort_unstable();
                to.dedup();
                assert_eq!(to.len(), stripes.chunks(), "{stripes:?}");
                assert!(!to.contains(&rank), "{stripes:?}");
            }
        }
    }

    #[test]
    fn chunks_cover_a_state_of_any_length() {
        for stripes in all_shapes() {
            for longest in 0..30 {
                let each = stripes.chunk_bytes(longest);
                assert!(each % 2 == 0 && each * stripes.chunks() >= longest);
                for bytes in 0..=longest {
                    let ranges = (0..stripes.chunks()).map(|it| Stripes::chunk(it, each, bytes));
                    let end = ranges.fold(0, |end, range| {
                        assert!(range.start == end && range.len() <= each);
                        range.end
                    });
                    assert_eq!(end, bytes);
                }
            }
        }
    }

    #[test]
    fn words_tell_all() {
        let groups = [(2, 1), (6, 2), (u32::MAX, 5)];
        let groups = groups.map(|(ranks, losses)| Redundancy::Group { ranks, losses });
        for redundancy in groups.into_iter().chain([Redundancy::Own, Redundancy::Partner]) {
            assert_eq!(Redundancy::of_word(redundancy.to_word()), redundancy);
        }
    }

    #[test]
    fn groups_are_not_smaller_than_asked_for() {
        let four = Redundancy::Group { ranks: 4, losses: 2 };
        assert_eq!([1, 3, 4, 7, 8, 11].map(|size| four.groups(size)), [1, 1, 1, 1, 2, 2]);
        assert_eq!([2, 3, 4, 5].map(|ranks| four.losses(ranks)), [1, 2, 2, 2]);
    }
}
