//! The pattern of the matrix: one row for each own node, one entry for each node of its stencil.

use crate::matrix::Matrix;
use crate::numbering::Numbering;
use crate::rows::RowMap;

/// The matrix of the rank with `numbering`, all entries zero, columns by ascending global row.
#[must_use]
pub fn pattern(row_map: &RowMap, numbering: &Numbering) -> Matrix {
    let mesh = row_map.mesh();
    let own = numbering.own_nodes();
    let entries = mesh.nonzeros_within(&own);
    let mut row_starts = Vec::with_capacity(own.len() + 1);
    let mut columns = Vec::with_capacity(entries);
    let mut ordered = Vec::with_capacity(27);
    row_starts.push(0);
    for node in own.iter() {
        let stencil = mesh.stencil(node);
        if own.encloses(&stencil) {
            columns.extend(stencil.iter().map(|other| numbering.column(other)));
        } else {
            ordered.clear();
            ordered
                .extend(stencil.iter().map(|other| (row_map.row(other), numbering.column(other))));
            ordered.sort_unstable();
            columns.extend(ordered.iter().map(|&(_, column)| column));
        }
        row_starts.push(columns.len());
    }
    debug_assert_eq!(columns.len(), entries);
    Matrix::zeros(row_starts, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Mesh;
    use crate::partition::Partition;

    #[test]
    fn columns_ascend_by_global_row_and_cover_the_stencil() {
        let map = RowMap::new(Partition::new(Mesh::new([5, 4, 6]), 8, 0.0).unwrap());
        let mut nonzeros = 0;
        for rank in 0..8 {
            let numbering = Numbering::new(&map, rank);
            let matrix = pattern(&map, &numbering);
            let nodes: Vec<_> = numbering.column_nodes().collect();
            for (row, node) in numbering.own_nodes().iter().enumerate() {
                let (columns, values) = matrix.row(row);
                let rows: Vec<_> = columns.iter().map(|&c| map.row(nodes[c as usize])).collect();
                assert!(rows.is_sorted());
                let mut expected: Vec<_> =
                    map.mesh().stencil(node).iter().map(|n| map.row(n)).collect();
                expected.sort_unstable();
                assert_eq!(rows, expected);
                assert!(values.iter().all(|value| value.to_bits() == 0));
            }
            nonzeros += matrix.nonzeros();
        }
        assert_eq!(nonzeros, map.mesh().nonzeros());
    }
}
