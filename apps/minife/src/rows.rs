//! Who owns which rows of the matrix, and their global numbers.
//!
//! A node belongs to the rank that owns the element above it on every axis; on the last plane of
//! an axis there is none, and the element below decides. Rows are numbered rank by rank, and
//! inside a rank with x fastest, so that the rows of a rank are contiguous.

use std::ops::Range;

use crate::mesh::{Bounds, Index, Mesh};
use crate::partition::Partition;

/// The rows of all ranks.
#[derive(Clone, Debug)]
pub struct RowMap {
    partition: Partition,
    node_boxes: Vec<Bounds>,
    first_rows: Vec<usize>,
}

impl RowMap {
    /// Numbers the rows of `partition`.
    #[must_use]
    pub fn new(partition: Partition) -> Self {
        let elements = partition.mesh().elements();
        let node_boxes: Vec<Bounds> = (0..partition.ranks())
            .map(|rank| {
                let mut bounds = partition.element_box(rank);
                for (hi, end) in bounds.hi.iter_mut().zip(elements) {
                    *hi += usize::from(*hi == end);
                }
                bounds
            })
            .collect();
        let mut first_rows = vec![0];
        for bounds in &node_boxes {
            first_rows.push(first_rows[first_rows.len() - 1] + bounds.len());
        }
        Self { partition, node_boxes, first_rows }
    }

    /// The mesh whose nodes are numbered.
    #[must_use]
    pub const fn mesh(&self) -> Mesh {
        self.partition.mesh()
    }

    /// The element boxes behind the numbering.
    #[must_use]
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.node_boxes.len()
    }

    /// The nodes of `rank`.
    #[must_use]
    pub fn node_box(&self, rank: usize) -> Bounds {
        self.node_boxes[rank]
    }

    /// The global rows of `rank`.
    #[must_use]
    pub fn rows(&self, rank: usize) -> Range<usize> {
        self.first_rows[rank]..self.first_rows[rank + 1]
    }

    /// The number of rows of every rank.
    pub fn rows_per_rank(&self) -> impl Iterator<Item = usize> {
        self.node_boxes.iter().map(Bounds::len)
    }

    /// The number of stored matrix entries of every rank.
    pub fn nonzeros_per_rank(&self) -> impl Iterator<Item = usize> {
        self.node_boxes.iter().map(|own| self.mesh().nonzeros_within(own))
    }

    /// The rank that owns `node`.
    #[must_use]
    pub fn owner(&self, node: Index) -> usize {
        let last = self.mesh().elements().map(|count| count - 1);
        self.partition.element_owner([0, 1, 2].map(|axis| node[axis].min(last[axis])))
    }

    /// The global row of `node`.
    #[must_use]
    pub fn row(&self, node: Index) -> usize {
        self.row_at(self.owner(node), node)
    }

    /// The global row of `node`, which `owner` is known to own.
    #[must_use]
    pub fn row_at(&self, owner: usize, node: Index) -> usize {
        self.first_rows[owner] + self.node_boxes[owner].offset(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_map(elements: Index, ranks: usize) -> RowMap {
        RowMap::new(Partition::new(Mesh::new(elements), ranks, 0.0).unwrap())
    }

    #[test]
    fn rows_per_rank_are_those_of_the_baselines() {
        for (elements, ranks, least, most) in [
            ([30; 3], 2, 14_415, 15_376),
            ([30; 3], 4, 6_975, 7_936),
            ([30; 3], 8, 3_375, 4_096),
            ([64; 3], 2, 135_200, 139_425),
            ([64; 3], 4, 66_560, 70_785),
            ([64; 3], 8, 32_768, 35_937),
            ([64, 32, 16], 8, 4_096, 5_049),
        ] {
            let map = row_map(elements, ranks);
            assert_eq!(map.rows_per_rank().min(), Some(least));
            assert_eq!(map.rows_per_rank().max(), Some(most));
            assert_eq!(map.nonzeros_per_rank().sum::<usize>(), map.mesh().nonzeros());
        }
    }

    #[test]
    fn the_last_plane_belongs_to_the_rank_below_it() {
        let map = row_map([4, 4, 4], 2);
        assert_eq!(map.owner([0, 0, 1]), 0);
        assert_eq!(map.owner([0, 0, 2]), 1);
        assert_eq!(map.owner([4, 4, 4]), 1);
        assert_eq!(map.row([0, 0, 2]), 50);
    }
}
