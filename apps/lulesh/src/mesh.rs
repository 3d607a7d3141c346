//! The part of one rank: a cube of elements out of a cube of cubes.
//!
//! Nodes and elements are numbered with x fastest. Nodes on shared faces, edges and corners exist
//! on every rank that touches them.

use crate::lanes::Lanes;

/// The edge of the whole domain.
const DOMAIN: f64 = 1.125;

/// A place on a grid: x, y, z.
pub type Index = [usize; 3];

/// Why the ranks cannot share the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are {ranks} ranks, but the domain is divided into cubes: start it on {below} or {above}"
)]
pub struct NotCubic {
    /// How many ranks there are.
    pub ranks: usize,
    /// The next cubic number below.
    pub below: usize,
    /// The next cubic number above.
    pub above: usize,
}

/// The cube of one rank, and where it is among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Elements along an edge of the cube.
    pub edge: usize,
    /// Ranks along an edge of the domain.
    pub ranks_per_edge: usize,
    /// The place of the rank: column, row, plane.
    pub place: Index,
}

impl Mesh {
    /// The cube of `rank` of `ranks`, with `edge` elements along its edge.
    ///
    /// # Errors
    /// [`NotCubic`].
    pub fn new(edge: usize, rank: usize, ranks: usize) -> Result<Self, NotCubic> {
        let root = (ranks as f64).cbrt().round() as usize;
        if root.pow(3) != ranks {
            let below = if root.pow(3) < ranks { root } else { root - 1 };
            return Err(NotCubic { ranks, below: below.pow(3), above: (below + 1).pow(3) });
        }
        let place = [rank % root, rank / root % root, rank / (root * root)];
        Ok(Self { edge, ranks_per_edge: root, place })
    }

    /// The number of the rank.
    #[must_use]
    pub const fn rank(self) -> usize {
        let [column, row, plane] = self.place;
        column + self.ranks_per_edge * (row + self.ranks_per_edge * plane)
    }

    /// The number of own elements.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.edge.pow(3)
    }

    /// The number of own nodes, shared ones included.
    #[must_use]
    pub const fn nodes(self) -> usize {
        (self.edge + 1).pow(3)
    }

    /// The number of a node.
    #[must_use]
    pub const fn node(self, [i, j, k]: Index) -> usize {
        i + (self.edge + 1) * (j + (self.edge + 1) * k)
    }

    /// Elements along an edge of the whole domain.
    #[must_use]
    pub const fn global_edge(self) -> usize {
        self.edge * self.ranks_per_edge
    }

    /// Where a node is at the beginning, along one axis.
    #[must_use]
    pub fn coordinate(self, axis: usize, at: usize) -> f64 {
        DOMAIN * (self.place[axis] * self.edge + at) as f64 / self.global_edge() as f64
    }

    /// Whether the rank touches the side of the domain at the end (or the beginning) of an axis.
    #[must_use]
    pub const fn is_outermost(self, axis: usize, at_end: bool) -> bool {
        self.place[axis] == if at_end { self.ranks_per_edge - 1 } else { 0 }
    }

    /// The rank that lies in a direction, if there is one.
    #[must_use]
    pub fn towards(self, direction: [isize; 3]) -> Option<usize> {
        let mut rank = 0;
        for axis in [2, 1, 0] {
            let place = self.place[axis].checked_add_signed(direction[axis])?;
            if place >= self.ranks_per_edge {
                return None;
            }
            rank = rank * self.ranks_per_edge + place;
        }
        Some(rank)
    }

    /// All nodes in their order, with their places.
    pub fn node_places(self) -> impl Iterator<Item = Index> {
        places([0; 3], [self.edge; 3])
    }

    /// All elements in their order, with their places.
    pub fn element_places(self) -> impl Iterator<Item = Index> {
        places([0; 3], [self.edge - 1; 3])
    }

    /// Lets a kernel go over all elements in their order, two at a time where it can.
    pub fn sweep(self, kernel: &mut impl Kernel) {
        let edge = self.edge;
        for k in 0..edge {
            for j in 0..edge {
                let row = edge * (j + edge * k);
                let mut i = 0;
                while i + 1 < edge {
                    kernel.apply::<wide::f64x2>([i, j, k], row + i);
                    i += 2;
                }
                if i < edge {
                    kernel.apply::<f64>([i, j, k], row + i);
                }
            }
        }
    }

    /// The nodes of an element.
    #[inline(always)]
    #[must_use]
    pub const fn corners(self, place: Index) -> [usize; 8] {
        let row = self.edge + 1;
        let plane = row * row;
        let first = self.node(place);
        let top = first + plane;
        [first, first + 1, first + row + 1, first + row, top, top + 1, top + row + 1, top + row]
    }
}

/// Something to do with each element.
pub trait Kernel {
    /// Does it with the element at this place and of this number, and those that follow.
    fn apply<R: Lanes>(&mut self, place: Index, element: usize);
}

/// All places between two, both included, x fastest.
pub fn places(first: Index, last: Index) -> impl Iterator<Item = Index> {
    let along = move |axis: usize| first[axis]..=last[axis];
    along(2).flat_map(move |k| along(1).flat_map(move |j| along(0).map(move |i| [i, j, k])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cubic_numbers_of_ranks_share_the_domain() {
        for (ranks, root) in [(1, 1), (8, 2), (27, 3), (64, 4), (1000, 10)] {
            assert_eq!(Mesh::new(4, 0, ranks).unwrap().ranks_per_edge, root);
        }
        let refused = Mesh::new(4, 0, 12).unwrap_err();
        assert_eq!(refused, NotCubic { ranks: 12, below: 8, above: 27 });
        assert!(refused.to_string().contains("start it on 8 or 27"));
    }

    #[test]
    fn neighbours_see_each_other_and_the_same_shared_coordinate() {
        for rank in 0..27 {
            let mesh = Mesh::new(5, rank, 27).unwrap();
            for direction in crate::halo::DIRECTIONS {
                let Some(other) = mesh.towards(direction) else { continue };
                let back = direction.map(|step| -step);
                let there = Mesh::new(5, other, 27).unwrap();
                assert_eq!(there.towards(back), Some(rank));
                for axis in (0..3).filter(|axis| direction[*axis] == 1) {
                    let (mine, theirs) = (mesh.coordinate(axis, 5), there.coordinate(axis, 0));
                    assert_eq!(mine.to_bits(), theirs.to_bits());
                }
            }
        }
    }

    #[test]
    fn a_sweep_meets_every_element_once() {
        struct Count(Vec<u32>);
        impl Kernel for Count {
            fn apply<R: Lanes>(&mut self, _: Index, element: usize) {
                self.0[element..element + R::COUNT].iter_mut().for_each(|count| *count += 1);
            }
        }
        for edge in [1, 2, 5] {
            let mesh = Mesh::new(edge, 0, 1).unwrap();
            let mut count = Count(vec![0; mesh.elements()]);
            mesh.sweep(&mut count);
            assert!(count.0.iter().all(|count| *count == 1));
        }
    }
}
