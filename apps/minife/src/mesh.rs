//! The unit cube cut into bricks: counts, numbering and coordinates of elements and nodes.

/// A node or an element by its position along x, y and z.
pub type Index = [usize; 3];

/// A box of whole numbers, `lo` inside and `hi` outside on every axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The smallest index of the box on each axis.
    pub lo: Index,
    /// One past the largest index of the box on each axis.
    pub hi: Index,
}

impl Bounds {
    /// The number of indices along `axis`, zero if the box is empty there.
    #[must_use]
    pub fn extent(&self, axis: usize) -> usize {
        self.hi[axis].saturating_sub(self.lo[axis])
    }

    /// The number of indices in the box.
    #[must_use]
    pub fn len(&self) -> usize {
        self.extent(0) * self.extent(1) * self.extent(2)
    }

    /// Whether the box holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `index` is in the box.
    #[must_use]
    pub fn contains(&self, index: Index) -> bool {
        (0..3).all(|axis| self.lo[axis] <= index[axis] && index[axis] < self.hi[axis])
    }

    /// Whether all of `inner` is in the box.
    #[must_use]
    pub fn encloses(&self, inner: &Self) -> bool {
        (0..3).all(|axis| self.lo[axis] <= inner.lo[axis] && inner.hi[axis] <= self.hi[axis])
    }

    /// What is in both boxes.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            lo: [0, 1, 2].map(|axis| self.lo[axis].max(other.lo[axis])),
            hi: [0, 1, 2].map(|axis| self.hi[axis].min(other.hi[axis])),
        }
    }

    /// The box and one more layer on every side, cut off at the edge of `limit` (indices per axis).
    #[must_use]
    pub fn grown(&self, limit: Index) -> Self {
        Self {
            lo: self.lo.map(|lo| lo.saturating_sub(1)),
            hi: [0, 1, 2].map(|axis| (self.hi[axis] + 1).min(limit[axis])),
        }
    }

    /// The place of `index`, which must be in the box, in the order of [`Bounds::iter`].
    #[must_use]
    pub fn offset(&self, index: Index) -> usize {
        debug_assert!(self.contains(index));
        let [x, y, z] = [0, 1, 2].map(|axis| index[axis] - self.lo[axis]);
        x + self.extent(0) * (y + self.extent(1) * z)
    }

    /// All indices, x fastest and z slowest.
    pub fn iter(&self) -> impl Iterator<Item = Index> + use<> {
        let Self { lo, hi } = *self;
        (lo[2]..hi[2]).flat_map(move |z| {
            (lo[1]..hi[1]).flat_map(move |y| (lo[0]..hi[0]).map(move |x| [x, y, z]))
        })
    }
}

/// The whole mesh: elements per axis on the unit cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    elements: Index,
}

impl Mesh {
    /// A mesh of `elements` bricks along x, y and z.
    #[must_use]
    pub const fn new(elements: Index) -> Self {
        Self { elements }
    }

    /// Elements per axis.
    #[must_use]
    pub const fn elements(&self) -> Index {
        self.elements
    }

    /// Nodes per axis.
    #[must_use]
    pub fn nodes(&self) -> Index {
        self.elements.map(|count| count + 1)
    }

    /// All elements as a box.
    #[must_use]
    pub fn element_bounds(&self) -> Bounds {
        Bounds { lo: [0; 3], hi: self.elements }
    }

    /// The number of unknowns, one for each node.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.nodes().iter().product()
    }

    /// The number of stored matrix entries of the 27-point stencil.
    #[must_use]
    pub fn nonzeros(&self) -> usize {
        self.nodes().iter().map(|nodes| 3 * nodes - 2).product()
    }

    /// The number of stored matrix entries in the rows of the nodes in `own`.
    #[must_use]
    pub fn nonzeros_within(&self, own: &Bounds) -> usize {
        (0..3)
            .map(|axis| {
                (own.lo[axis]..own.hi[axis])
                    .map(|at| 1 + usize::from(at > 0) + usize::from(at < self.elements[axis]))
                    .sum::<usize>()
            })
            .product()
    }

    /// The global number of `node`, the same for every number of ranks.
    #[must_use]
    pub fn node_id(&self, node: Index) -> u64 {
        let [mx, my, _] = self.nodes();
        (node[0] + mx * (node[1] + my * node[2])) as u64
    }

    /// Where `node` lies in the unit cube.
    #[must_use]
    pub fn coordinates(&self, node: Index) -> [f64; 3] {
        [0, 1, 2].map(|axis| node[axis] as f64 / self.elements[axis] as f64)
    }

    /// The largest edge of a brick.
    #[must_use]
    pub fn largest_spacing(&self) -> f64 {
        self.elements.iter().map(|&count| 1.0 / count as f64).fold(0.0, f64::max)
    }

    /// The nodes that share an element with `node`, itself included.
    #[must_use]
    pub fn stencil(&self, node: Index) -> Bounds {
        Bounds { lo: node, hi: node.map(|at| at + 1) }.grown(self.nodes())
    }

    /// The node in the middle of the cube, or the next lower one if there is none.
    #[must_use]
    pub fn centre(&self) -> Index {
        self.elements.map(|count| count / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_specification() {
        for (elements, rows, nonzeros) in [
            ([10; 3], 1331, 29_791),
            ([30; 3], 29_791, 753_571),
            ([64; 3], 274_625, 7_189_057),
            ([100; 3], 1_030_301, 27_270_901),
            ([64, 32, 16], 36_465, 917_329),
        ] {
            let mesh = Mesh::new(elements);
            assert_eq!(mesh.rows(), rows);
            assert_eq!(mesh.nonzeros(), nonzeros);
            let all = Bounds { lo: [0; 3], hi: mesh.nodes() };
            assert_eq!(mesh.nonzeros_within(&all), nonzeros);
        }
    }

    #[test]
    fn the_offset_is_the_place_in_the_iteration() {
        let bounds = Bounds { lo: [1, 2, 3], hi: [4, 4, 5] };
        for (place, index) in bounds.iter().enumerate() {
            assert_eq!(bounds.offset(index), place);
        }
        assert_eq!(bounds.iter().count(), bounds.len());
    }

    #[test]
    fn the_stencil_is_cut_off_at_the_walls() {
        let mesh = Mesh::new([2, 2, 2]);
        assert_eq!(mesh.stencil([0, 1, 2]), Bounds { lo: [0, 0, 1], hi: [2, 3, 3] });
    }
}
