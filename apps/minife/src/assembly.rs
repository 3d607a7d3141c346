//! Adding up the elements, without communication.
//!
//! A rank integrates its own elements and one layer below them, and keeps what falls into its
//! own rows. (The reference also visits the layer above; no own node touches it, so it adds
//! nothing.) Elements are visited in the order of their global numbers, so that an entry of the
//! matrix has the same bits for every number of ranks.

use crate::element::{self, CORNERS, ElementTerms};
use crate::matrix::Matrix;
use crate::mesh::{Bounds, Index, Mesh};
use crate::numbering::Numbering;

/// Fills `matrix`, which has the pattern of this rank; returns the right-hand side for a volume
/// source of `source`.
#[must_use]
pub fn assemble(
    mesh: Mesh,
    element_box: Bounds,
    numbering: &Numbering,
    source: f64,
    matrix: &mut Matrix,
) -> Vec<f64> {
    let mut rhs = vec![0.0; numbering.own_rows()];
    let touched = Bounds { lo: element_box.grown(mesh.elements()).lo, hi: element_box.hi };
    for element in touched.iter() {
        let nodes = corner_nodes(element);
        let terms = element::integrate(&nodes.map(|node| mesh.coordinates(node)));
        let columns = nodes.map(|node| numbering.column(node));
        for (a, &row) in columns.iter().enumerate() {
            let row = row as usize;
            if row < rhs.len() {
                rhs[row] += source * terms.load[a];
                add_row(matrix, row, a, &columns, &terms);
            }
        }
    }
    rhs
}

fn corner_nodes([x, y, z]: Index) -> [Index; 8] {
    CORNERS.map(|[i, j, k]| [x + i, y + j, z + k])
}

/// Adds row `a` of the element to `row` of the matrix.
fn add_row(matrix: &mut Matrix, row: usize, a: usize, columns: &[u32; 8], terms: &ElementTerms) {
    let (stored, values) = matrix.row_mut(row);
    for (b, column) in columns.iter().enumerate() {
        // In a complete row without foreign columns the entry stands where the stencil says.
        let expected = stencil_place(a, b);
        let place = if stored.get(expected) == Some(column) {
            expected
        } else {
            stored
                .iter()
                .position(|stored| stored == column)
                .expect("the pattern holds all nodes of an element")
        };
        values[place] += terms.stiffness[a][b];
    }
}

/// The place of corner `b` among the 27 nodes around corner `a`, x fastest.
fn stencil_place(a: usize, b: usize) -> usize {
    let [x, y, z] = [0, 1, 2].map(|axis| 1 + CORNERS[b][axis] - CORNERS[a][axis]);
    x + 3 * (y + 3 * z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;
    use crate::rows::RowMap;
    use crate::structure;
    use std::collections::BTreeMap;

    type Entries = BTreeMap<(u64, u64), f64>;

    fn assembled(elements: Index, ranks: usize) -> (Entries, BTreeMap<u64, f64>) {
        let mesh = Mesh::new(elements);
        let map = RowMap::new(Partition::new(mesh, ranks, 0.0).unwrap());
        let (mut entries, mut right) = (Entries::new(), BTreeMap::new());
        for rank in 0..ranks {
            let numbering = Numbering::new(&map, rank);
            let mut matrix = structure::pattern(&map, &numbering);
            let element_box = map.partition().element_box(rank);
            let rhs = assemble(mesh, element_box, &numbering, 1.0, &mut matrix);
            let ids: Vec<_> = numbering.column_nodes().map(|node| mesh.node_id(node)).collect();
            for (row, b) in rhs.iter().enumerate() {
                right.insert(ids[row], *b);
                let (columns, values) = matrix.row(row);
                for (&column, &value) in columns.iter().zip(values) {
                    entries.insert((ids[row], ids[column as usize]), value);
                }
            }
        }
        (entries, right)
    }

    /// Every element into one dense map: no ownership, no ghosts, no pattern.
    fn naive(elements: Index) -> (Entries, BTreeMap<u64, f64>) {
        let mesh = Mesh::new(elements);
        let (mut entries, mut right) = (Entries::new(), BTreeMap::new());
        for element in mesh.element_bounds().iter() {
            let nodes = corner_nodes(element);
            let terms = element::integrate(&nodes.map(|node| mesh.coordinates(node)));
            for a in 0..8 {
                let row = mesh.node_id(nodes[a]);
                *right.entry(row).or_default() += terms.load[a];
                for (node, term) in nodes.iter().zip(terms.stiffness[a]) {
                    *entries.entry((row, mesh.node_id(*node))).or_default() += term;
                }
            }
        }
        (entries, right)
    }

    #[test]
    fn every_number_of_ranks_assembles_the_same_bits_as_one_dense_loop() {
        for elements in [[5, 4, 6], [3, 3, 3]] {
            let (entries, right) = naive(elements);
            for ranks in [1, 2, 3, 5, 8] {
                let (ours, ours_right) = assembled(elements, ranks);
                assert_eq!(ours.len(), entries.len());
                assert!(
                    ours.iter()
                        .zip(&entries)
                        .all(|(a, b)| { a.0 == b.0 && a.1.to_bits() == b.1.to_bits() })
                );
                assert_eq!(ours_right.len(), right.len());
                assert!(
                    ours_right
                        .iter()
                        .zip(&right)
                        .all(|(a, b)| { a.0 == b.0 && a.1.to_bits() == b.1.to_bits() })
                );
            }
        }
    }
}
