//! Everything a rank needs to solve its part: matrix, right-hand side, numbering, neighbours.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::assembly;
use crate::boundary;
use crate::exchange_lists::{self, Neighbour};
use crate::matrix::Matrix;
use crate::mesh::Mesh;
use crate::numbering::Numbering;
use crate::partition::{Partition, PartitionError};
use crate::rows::RowMap;
use crate::structure;

/// What is solved, and by how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// The mesh.
    pub mesh: Mesh,
    /// The number of ranks.
    pub ranks: usize,
    /// By how much the largest element box shall exceed the mean, in percent.
    pub load_imbalance_percent: f64,
    /// The volume source: one as the reference program ships, zero for the meaningful check.
    pub source: f64,
}

impl Problem {
    /// Divides the rows among the ranks.
    ///
    /// # Errors
    /// [`PartitionError`], the same on every rank.
    pub fn divide(&self) -> Result<RowMap, PartitionError> {
        Partition::new(self.mesh, self.ranks, self.load_imbalance_percent).map(RowMap::new)
    }

    /// What tells it from other problems, by however many it is solved.
    #[must_use]
    pub fn numbers(&self) -> [f64; 5] {
        let [nx, ny, nz] = self.mesh.elements().map(|count| count as f64);
        [nx, ny, nz, self.load_imbalance_percent, self.source]
    }
}

/// How long the parts of the set-up took on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetupTimes {
    /// Numbering, exchange lists and the pattern of the matrix.
    pub structure: Duration,
    /// Integrating the elements.
    pub assembly: Duration,
    /// Imposing the boundary conditions.
    pub boundary: Duration,
}

/// The linear system of one rank.
#[derive(Clone, Debug)]
pub struct System {
    mesh: Mesh,
    numbering: Numbering,
    neighbours: Vec<Neighbour>,
    matrix: Matrix,
    rhs: Vec<f64>,
    /// Runs of rows without and with external columns, in order, covering all rows.
    interior: Vec<Range<usize>>,
    edge: Vec<Range<usize>>,
}

impl System {
    /// Builds the system of `rank`, from the problem alone.
    #[must_use]
    pub fn build(row_map: &RowMap, rank: usize, source: f64) -> (Self, SetupTimes) {
        let mesh = row_map.mesh();
        let start = Instant::now();
        let numbering = Numbering::new(row_map, rank);
        let neighbours = exchange_lists::neighbours(row_map, &numbering);
        let mut matrix = structure::pattern(row_map, &numbering);
        let (interior, edge) = row_runs(mesh, &numbering);
        let structured = Instant::now();
        let element_box = row_map.partition().element_box(rank);
        let mut rhs = assembly::assemble(mesh, element_box, &numbering, source, &mut matrix);
        let assembled = Instant::now();
        boundary::impose_both(mesh, &numbering, &mut matrix, &mut rhs);
        let times = SetupTimes {
            structure: structured - start,
            assembly: assembled - structured,
            boundary: assembled.elapsed(),
        };
        (Self { mesh, numbering, neighbours, matrix, rhs, interior, edge }, times)
    }

    /// The mesh.
    #[must_use]
    pub const fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// The local numbering.
    #[must_use]
    pub const fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// The neighbours in the halo exchange.
    #[must_use]
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// The matrix.
    #[must_use]
    pub const fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// The right-hand side.
    #[must_use]
    pub fn rhs(&self) -> &[f64] {
        &self.rhs
    }

    /// The number of own rows.
    #[must_use]
    pub fn own_rows(&self) -> usize {
        self.rhs.len()
    }

    /// Runs of rows that need nothing from other ranks.
    #[must_use]
    pub fn interior_rows(&self) -> &[Range<usize>] {
        &self.interior
    }

    /// Runs of rows with external columns: all the others.
    #[must_use]
    pub fn edge_rows(&self) -> &[Range<usize>] {
        &self.edge
    }
}

/// The own rows as runs without and runs with external columns.
fn row_runs(mesh: Mesh, numbering: &Numbering) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let own = numbering.own_nodes();
    let (mut interior, mut edge) = (Vec::<Range<usize>>::new(), Vec::<Range<usize>>::new());
    for (row, node) in own.iter().enumerate() {
        let runs = if own.encloses(&mesh.stencil(node)) { &mut interior } else { &mut edge };
        match runs.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    (interior, edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(elements: [usize; 3], ranks: usize) -> Problem {
        Problem { mesh: Mesh::new(elements), ranks, load_imbalance_percent: 0.0, source: 1.0 }
    }

    #[test]
    fn the_system_is_symmetric_with_identity_rows_on_the_walls() {
        let row_map = problem([4, 3, 5], 1).divide().unwrap();
        let (system, _) = System::build(&row_map, 0, 1.0);
        let matrix = system.matrix();
        let entry = |row: usize, column: usize| {
            let (columns, values) = matrix.row(row);
            columns.iter().position(|&c| c as usize == column).map_or(0.0, |at| values[at])
        };
        for row in 0..matrix.rows() {
            for &column in matrix.row(row).0 {
                let column = column as usize;
                let difference = entry(row, column) - entry(column, row);
                assert!(difference.abs() < 1e-15);
            }
        }
        let wall = system.numbering().column([4, 0, 0]) as usize;
        assert!((system.rhs()[wall] - 1.0).abs() < f64::EPSILON);
        assert!((entry(wall, wall) - 1.0).abs() < f64::EPSILON);
        assert_eq!(matrix.nonzeros(), row_map.mesh().nonzeros());
    }

    #[test]
    fn interior_and_edge_rows_cover_all_rows_and_only_edge_rows_look_outside() {
        let row_map = problem([6, 5, 7], 5).divide().unwrap();
        for rank in 0..5 {
            let (system, _) = System::build(&row_map, rank, 1.0);
            let mut seen = vec![0; system.own_rows()];
            for (runs, inside) in [(system.interior_rows(), true), (system.edge_rows(), false)] {
                for row in runs.iter().cloned().flatten() {
                    seen[row] += 1;
                    let (columns, _) = system.matrix().row(row);
                    let own = columns.iter().all(|&c| (c as usize) < system.own_rows());
                    assert_eq!(own, inside);
                }
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
