//! Dirichlet conditions, in two passes over the finished matrix.
//!
//! First the value 0 on the faces x=0, y=0, y=1, z=0 and z=1, then the value 1 on x=1, so that the
//! edges shared with x=1 end with 1. The order is part of the definition: rows next to those
//! edges lose the edge columns in the first pass, with value 0, and never see the 1.

use crate::matrix::Matrix;
use crate::mesh::{Index, Mesh};
use crate::numbering::Numbering;

/// Imposes both conditions on the rows of this rank.
pub fn impose_both(mesh: Mesh, numbering: &Numbering, matrix: &mut Matrix, rhs: &mut [f64]) {
    for (face, value) in [(Face::Cold, 0.0), (Face::Hot, 1.0)] {
        let fixed: Vec<bool> =
            numbering.column_nodes().map(|node| face.holds(mesh, node)).collect();
        impose(&fixed, value, matrix, rhs);
    }
}

/// A set of nodes with a prescribed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// x=0, y=0, y=1, z=0, z=1: the value 0.
    Cold,
    /// x=1: the value 1.
    Hot,
}

impl Face {
    /// Whether `node` is in the set.
    #[must_use]
    pub fn holds(self, mesh: Mesh, node: Index) -> bool {
        let last = mesh.elements();
        match self {
            Self::Hot => node[0] == last[0],
            Self::Cold => node.contains(&0) || (1..3).any(|axis| node[axis] == last[axis]),
        }
    }
}

/// Fixes the columns marked in `fixed` at `value`: their own rows become rows of the identity,
/// and from every other row their column moves to the right-hand side. Entries become zero, none
/// is removed; a symmetric matrix stays symmetric.
pub fn impose(fixed: &[bool], value: f64, matrix: &mut Matrix, rhs: &mut [f64]) {
    for (row, b) in rhs.iter_mut().enumerate() {
        let (columns, entries) = matrix.row_mut(row);
        let columns = columns.iter().map(|&column| column as usize);
        if fixed[row] {
            *b = value;
            for (column, entry) in columns.zip(entries) {
                *entry = if column == row { 1.0 } else { 0.0 };
            }
        } else {
            let mut moved = 0.0;
            for (column, entry) in columns.zip(entries) {
                if fixed[column] {
                    moved += std::mem::take(entry);
                }
            }
            *b -= value * moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_by_three() -> Matrix {
        let mut matrix = Matrix::zeros(vec![0, 3, 6, 9], vec![0, 1, 2, 0, 1, 2, 0, 1, 2]);
        for row in 0..3 {
            let (_, values) = matrix.row_mut(row);
            values.copy_from_slice(&[[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]][row]);
        }
        matrix
    }

    #[test]
    fn a_fixed_column_moves_to_the_right_hand_side() {
        let mut matrix = three_by_three();
        let mut rhs = [1.0, 1.0, 1.0];
        impose(&[false, true, false], 2.0, &mut matrix, &mut rhs);
        assert_eq!(rhs.map(f64::to_bits), [-1.0, 2.0, -5.0].map(f64::to_bits));
        assert_eq!(matrix.row(0).1, [4.0, 0.0, 2.0]);
        assert_eq!(matrix.row(1).1, [0.0, 1.0, 0.0]);
        assert_eq!(matrix.nonzeros(), 9);
    }

    #[test]
    fn the_edge_of_the_hot_face_belongs_to_both_sets() {
        let mesh = Mesh::new([4, 4, 4]);
        for (node, cold, hot) in [
            ([4, 2, 2], false, true),
            ([4, 0, 2], true, true),
            ([2, 4, 2], true, false),
            ([0, 2, 2], true, false),
            ([2, 2, 2], false, false),
        ] {
            assert_eq!(Face::Cold.holds(mesh, node), cold);
            assert_eq!(Face::Hot.holds(mesh, node), hot);
        }
    }
}
