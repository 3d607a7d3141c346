//! Who owns which elements: recursive bisection of the element box.
//!
//! A group of ranks with a box cuts it along one axis in proportion to the ranks on either side
//! of the cut, and each half goes on with the next axis (z, y, x, z, …). It works for every
//! number of ranks, and it is a function of the mesh and that number alone, so that every rank
//! knows the box of every other.
//!
//! **Load imbalance.** The reference has an option that makes the boxes uneven on purpose, for
//! studies of load balance. Here the first cut moves down, one plane of elements at a time,
//! until the largest box is at least the given percentage above the mean; with zero, the
//! default, nothing moves.

use std::ops::Range;

use crate::mesh::{Bounds, Index, Mesh};

/// Why a mesh cannot be divided among the ranks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// A rank would own no element. Every rank gets this error, nothing has been built.
    #[error(
        "one or more processors have 0 equations: rank {rank} of {ranks} would own no element of \
         {}x{}x{}; use fewer ranks or more elements along the shortest axes",
        elements[0], elements[1], elements[2]
    )]
    EmptyRank {
        /// The first rank without elements.
        rank: usize,
        /// The number of ranks asked for.
        ranks: usize,
        /// Elements along x, y, z.
        elements: Index,
    },
    /// No position of the first cut is as uneven as asked for. Every rank gets this error.
    #[error(
        "a load imbalance of {percent} % cannot be reached with {ranks} ranks on this mesh, \
         {reached:.1} % is the most; ask for less"
    )]
    ImbalanceOutOfReach {
        /// What was asked for.
        percent: f64,
        /// What is possible.
        reached: f64,
        /// The number of ranks.
        ranks: usize,
    },
}

/// The element boxes of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    mesh: Mesh,
    boxes: Vec<Bounds>,
    /// Planes by which the first cut is moved down, in favour of the upper ranks.
    shift: usize,
}

/// A group of ranks, the box they share, and the axis they cut next.
#[derive(Clone, Debug)]
struct Group {
    ranks: Range<usize>,
    bounds: Bounds,
    axis: usize,
    shift: usize,
}

impl Group {
    fn whole(mesh: Mesh, ranks: usize, shift: usize) -> Self {
        Self { ranks: 0..ranks, bounds: mesh.element_bounds(), axis: 2, shift }
    }

    /// The lower and the upper half, for a group of two ranks or more.
    fn halves(&self) -> (Self, Self) {
        let count = self.ranks.len();
        let middle = self.ranks.start + count / 2;
        let extent = self.bounds.extent(self.axis);
        let upper_planes = extent * (count - count / 2) / count + self.shift;
        let cut = self.bounds.lo[self.axis] + extent.saturating_sub(upper_planes);
        let (mut low, mut high) = (self.bounds, self.bounds);
        low.hi[self.axis] = cut;
        high.lo[self.axis] = cut;
        let axis = (self.axis + 2) % 3;
        (
            Self { ranks: self.ranks.start..middle, bounds: low, axis, shift: 0 },
            Self { ranks: middle..self.ranks.end, bounds: high, axis, shift: 0 },
        )
    }

    fn collect_boxes(&self, boxes: &mut Vec<Bounds>) {
        if self.ranks.len() == 1 {
            boxes.push(self.bounds);
        } else {
            let (low, high) = self.halves();
            low.collect_boxes(boxes);
            high.collect_boxes(boxes);
        }
    }
}

impl Partition {
    /// Divides `mesh` among `ranks` (at least one), with the largest box `imbalance_percent` or
    /// more above the mean.
    ///
    /// # Errors
    /// [`PartitionError`], the same on every rank.
    ///
    /// # Panics
    /// If there is no rank.
    pub fn new(mesh: Mesh, ranks: usize, imbalance_percent: f64) -> Result<Self, PartitionError> {
        assert!(ranks > 0, "a partition needs a rank");
        let mut partition = Self::bisected(mesh, ranks, 0)?;
        while partition.imbalance_percent() < imbalance_percent {
            let reached = partition.imbalance_percent();
            let next = Self::bisected(mesh, ranks, partition.shift + 1);
            partition = match next {
                Ok(next) if ranks > 1 => next,
                _ => {
                    let percent = imbalance_percent;
                    return Err(PartitionError::ImbalanceOutOfReach { percent, reached, ranks });
                }
            };
        }
        Ok(partition)
    }

    fn bisected(mesh: Mesh, ranks: usize, shift: usize) -> Result<Self, PartitionError> {
        let mut boxes = Vec::with_capacity(ranks);
        Group::whole(mesh, ranks, shift).collect_boxes(&mut boxes);
        match boxes.iter().position(Bounds::is_empty) {
            None => Ok(Self { mesh, boxes, shift }),
            Some(rank) => Err(PartitionError::EmptyRank { rank, ranks, elements: mesh.elements() }),
        }
    }

    /// The mesh that is divided.
    #[must_use]
    pub const fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.boxes.len()
    }

    /// The elements of `rank`.
    #[must_use]
    pub fn element_box(&self, rank: usize) -> Bounds {
        self.boxes[rank]
    }

    /// The rank that owns `element`.
    #[must_use]
    pub fn element_owner(&self, element: Index) -> usize {
        let mut group = Group::whole(self.mesh, self.ranks(), self.shift);
        while group.ranks.len() > 1 {
            let (low, high) = group.halves();
            group = if low.bounds.contains(element) { low } else { high };
        }
        group.ranks.start
    }

    /// By how much the largest box exceeds the mean, in percent of the mean.
    #[must_use]
    pub fn imbalance_percent(&self) -> f64 {
        let largest = self.boxes.iter().map(Bounds::len).max().unwrap_or(0) as f64;
        let mean = self.mesh.element_bounds().len() as f64 / self.ranks() as f64;
        100.0 * (largest / mean - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_split_z_and_four_split_z_then_y() {
        let mesh = Mesh::new([8, 6, 4]);
        let two = Partition::new(mesh, 2, 0.0).unwrap();
        assert_eq!(two.element_box(0), Bounds { lo: [0; 3], hi: [8, 6, 2] });
        assert_eq!(two.element_box(1), Bounds { lo: [0, 0, 2], hi: [8, 6, 4] });
        let four = Partition::new(mesh, 4, 0.0).unwrap();
        assert_eq!(four.element_box(1), Bounds { lo: [0, 3, 0], hi: [8, 6, 2] });
        let eight = Partition::new(mesh, 8, 0.0).unwrap();
        assert_eq!(eight.element_box(7), Bounds { lo: [4, 3, 2], hi: [8, 6, 4] });
    }

    #[test]
    fn three_ranks_give_the_upper_two_the_truncated_share() {
        let three = Partition::new(Mesh::new([10; 3]), 3, 0.0).unwrap();
        assert_eq!(three.element_box(0).extent(2), 4);
        assert_eq!(three.element_box(1).extent(2), 6);
        assert_eq!(three.element_box(1).extent(1), 5);
    }

    #[test]
    fn a_rank_without_elements_is_an_error_that_says_what_to_change() {
        let error = Partition::new(Mesh::new([1, 1, 2]), 8, 0.0).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.starts_with("one or more processors have 0 equations"), "{sentence}");
        assert!(sentence.contains("use fewer ranks or more elements"), "{sentence}");
    }

    #[test]
    fn the_load_imbalance_moves_the_first_cut() {
        let mesh = Mesh::new([10; 3]);
        let uneven = Partition::new(mesh, 4, 30.0).unwrap();
        assert!(uneven.imbalance_percent() >= 30.0);
        assert_eq!(uneven.element_box(3).extent(2), 7);
        let error = Partition::new(mesh, 4, 500.0).unwrap_err();
        assert!(matches!(error, PartitionError::ImbalanceOutOfReach { .. }));
        assert!(Partition::new(mesh, 1, 5.0).is_err());
    }
}
