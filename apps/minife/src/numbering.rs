//! The local column numbers of a rank: its own rows first, then what it needs from others.
//!
//! Own columns are row minus first row. External columns follow, grouped by the rank that owns
//! them; groups come in the order in which a scan of the matrix (rows in order, columns by
//! ascending global row) meets them first, and so do the columns inside a group. Each group is
//! therefore one contiguous section of a vector, and a halo message fills exactly one section.

use crate::mesh::{Bounds, Index};
use crate::rows::RowMap;

/// The external columns that one other rank owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalGroup {
    /// The rank that owns these nodes.
    pub owner: usize,
    /// The nodes, in the order of their local columns.
    pub nodes: Vec<Index>,
}

/// The nodes that the rows of `rank` refer to and other ranks own, grouped and ordered.
#[must_use]
pub fn external_groups(row_map: &RowMap, rank: usize) -> Vec<ExternalGroup> {
    let mesh = row_map.mesh();
    let own = row_map.node_box(rank);
    let halo = own.grown(mesh.nodes());
    let mut met = vec![false; halo.len()];
    let mut groups: Vec<ExternalGroup> = Vec::new();
    let mut foreign = Vec::with_capacity(27);
    for node in own.iter() {
        let stencil = mesh.stencil(node);
        if own.encloses(&stencil) {
            continue;
        }
        foreign.clear();
        for other in stencil.iter().filter(|&other| !own.contains(other)) {
            if !std::mem::replace(&mut met[halo.offset(other)], true) {
                let owner = row_map.owner(other);
                foreign.push((row_map.row_at(owner, other), owner, other));
            }
        }
        foreign.sort_unstable();
        for &(_, owner, other) in &foreign {
            match groups.iter_mut().find(|group| group.owner == owner) {
                Some(group) => group.nodes.push(other),
                None => groups.push(ExternalGroup { owner, nodes: vec![other] }),
            }
        }
    }
    groups
}

/// The local numbering of one rank.
#[derive(Clone, Debug)]
pub struct Numbering {
    own: Bounds,
    halo: Bounds,
    /// Local column of each node of `halo`, in the order of the box.
    columns: Vec<u32>,
    groups: Vec<ExternalGroup>,
    column_count: usize,
}

impl Numbering {
    /// Numbers the columns of `rank`.
    ///
    /// # Panics
    /// If the rank has more than 2³² columns.
    #[must_use]
    pub fn new(row_map: &RowMap, rank: usize) -> Self {
        let own = row_map.node_box(rank);
        let halo = own.grown(row_map.mesh().nodes());
        let groups = external_groups(row_map, rank);
        let externals = groups.iter().flat_map(|group| group.nodes.iter().copied());
        let mut columns = vec![u32::MAX; halo.len()];
        let mut column_count = 0;
        for node in own.iter().chain(externals) {
            columns[halo.offset(node)] =
                u32::try_from(column_count).expect("the columns of one rank fit 32 bits");
            column_count += 1;
        }
        Self { own, halo, columns, groups, column_count }
    }

    /// The nodes of this rank.
    #[must_use]
    pub const fn own_nodes(&self) -> Bounds {
        self.own
    }

    /// The number of rows of this rank.
    #[must_use]
    pub fn own_rows(&self) -> usize {
        self.own.len()
    }

    /// The number of local columns: own rows and external ones.
    #[must_use]
    pub const fn column_count(&self) -> usize {
        self.column_count
    }

    /// The local column of `node`, which this rank owns or refers to.
    #[must_use]
    pub fn column(&self, node: Index) -> u32 {
        self.columns[self.halo.offset(node)]
    }

    /// The external columns by owner, in the order of their sections.
    #[must_use]
    pub fn groups(&self) -> &[ExternalGroup] {
        &self.groups
    }

    /// The nodes of all local columns in order.
    pub fn column_nodes(&self) -> impl Iterator<Item = Index> {
        let externals = self.groups.iter().flat_map(|group| group.nodes.iter().copied());
        self.own.iter().chain(externals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Mesh;
    use crate::partition::Partition;

    fn row_map(elements: Index, ranks: usize) -> RowMap {
        RowMap::new(Partition::new(Mesh::new(elements), ranks, 0.0).unwrap())
    }

    /// What the specification says, word by word: scan everything, number what is new.
    fn naive_groups(map: &RowMap, rank: usize) -> Vec<ExternalGroup> {
        let mut groups: Vec<ExternalGroup> = Vec::new();
        for node in map.node_box(rank).iter() {
            let mut columns: Vec<_> =
                map.mesh().stencil(node).iter().map(|other| (map.row(other), other)).collect();
            columns.sort_unstable();
            for (_, other) in columns {
                let owner = map.owner(other);
                if owner == rank || groups.iter().any(|group| group.nodes.contains(&other)) {
                    continue;
                }
                match groups.iter().position(|group| group.owner == owner) {
                    Some(at) => groups[at].nodes.push(other),
                    None => groups.push(ExternalGroup { owner, nodes: vec![other] }),
                }
            }
        }
        groups
    }

    #[test]
    fn the_groups_equal_those_of_a_plain_scan() {
        for (elements, ranks) in [([5, 4, 6], 4), ([4, 4, 4], 8), ([7, 3, 5], 5), ([2, 2, 9], 3)] {
            let map = row_map(elements, ranks);
            for rank in 0..ranks {
                assert_eq!(external_groups(&map, rank), naive_groups(&map, rank));
            }
        }
    }

    #[test]
    fn columns_and_nodes_are_inverse_to_each_other() {
        let map = row_map([5, 4, 6], 8);
        for rank in 0..8 {
            let numbering = Numbering::new(&map, rank);
            for (column, node) in numbering.column_nodes().enumerate() {
                assert_eq!(numbering.column(node) as usize, column);
            }
            assert_eq!(numbering.column_nodes().count(), numbering.column_count());
        }
    }

    #[test]
    fn the_number_of_neighbours_is_that_of_the_specification() {
        for (ranks, neighbours) in [(1, 0), (2, 1), (4, 3), (8, 7)] {
            let map = row_map([8; 3], ranks);
            for rank in 0..ranks {
                assert_eq!(external_groups(&map, rank).len(), neighbours);
            }
        }
    }
}
