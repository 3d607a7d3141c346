//! Two checks of the solution against a series, each a number and a tolerance.
//!
//! The series (Carslaw and Jaeger, §6.2) solves the problem *without* a source:
//! u = 16/π² Σ sinh(l·x)/sinh(l) · sin((2p+1)πy)/(2p+1) · sin((2q+1)πz)/(2q+1) with
//! l = π√((2p+1)² + (2q+1)²).
//!
//! - **As shipped**: the right-hand side has a source of one, the series has none, and the
//!   tolerance of 0.06 is just large enough to hide it. Passing proves little.
//! - **Meaningful**: with the source off the error is that of the discretisation, second order,
//!   and must not exceed 0.6·h².
//!
//! Only nodes near the middle of the cube are compared; at the edges of the hot face the
//! boundary values jump and no method is accurate.

use std::f64::consts::PI;

use harness::digest::Digest;

use crate::mesh::Mesh;
use crate::numbering::Numbering;

/// Nodes closer to the middle than this on every axis are compared.
const REACH: f64 = 0.05;
/// Terms per direction of the series.
const TERMS: u32 = 300;
/// A ratio of hyperbolic sines below this changes no bit of the sum.
const NEGLIGIBLE: f64 = 1e-22;

/// How far a solution is from the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// The largest difference among the nodes compared, over all ranks.
    pub max_error: f64,
    /// What it may be.
    pub tolerance: f64,
}

impl Check {
    /// The check of a problem with `source`, given the largest error over all ranks.
    #[must_use]
    pub fn new(mesh: Mesh, source: f64, max_error: f64) -> Self {
        let h = mesh.largest_spacing();
        let tolerance = if source == 0.0 { 0.6 * h * h } else { 0.06 };
        Self { max_error, tolerance }
    }

    /// Whether the solution is good enough; false if the error is not a number.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.max_error <= self.tolerance
    }
}

/// What one rank contributes to the check.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LocalError {
    /// The largest difference among own nodes; to be reduced by maximum. Not a number if any is.
    pub max_error: f64,
    /// How many own nodes were compared; to be reduced by sum.
    pub points: usize,
}

/// Compares the own part of a solution near the middle of the cube.
#[must_use]
pub fn local_error(mesh: Mesh, numbering: &Numbering, x: &[f64]) -> LocalError {
    let mut local = LocalError::default();
    for (node, computed) in numbering.own_nodes().iter().zip(x) {
        let at = mesh.coordinates(node);
        if at.iter().all(|coordinate| (coordinate - 0.5).abs() < REACH) {
            let error = (computed - exact(at)).abs();
            local.points += 1;
            local.max_error =
                if error.is_nan() { f64::NAN } else { larger(local.max_error, error) };
        }
    }
    local
}

/// The maximum, which keeps a NaN that is already there.
fn larger(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// The own part of the value at the middle node: zero on every rank but the owner, so that a sum
/// over the ranks gives the value exactly.
#[must_use]
pub fn local_centre(mesh: Mesh, numbering: &Numbering, x: &[f64]) -> f64 {
    let (own, centre) = (numbering.own_nodes(), mesh.centre());
    if own.contains(centre) { x[own.offset(centre)] } else { 0.0 }
}

/// The fingerprint of the own part of a solution; those of all ranks together are that of the
/// whole, whatever the partition is.
#[must_use]
pub fn local_digest(mesh: Mesh, numbering: &Numbering, x: &[f64]) -> Digest {
    let ids = numbering.own_nodes().iter().map(|node| mesh.node_id(node));
    ids.zip(x).map(|(id, &value)| Digest::of(id, value)).fold(Digest::EMPTY, Digest::and)
}

/// The temperature at a point of the cube without source: the boundary values on the faces, the
/// series inside. Terms stop where a hyperbolic sine overflows, or where no later one counts.
#[must_use]
pub fn exact([x, y, z]: [f64; 3]) -> f64 {
    if x >= 1.0 {
        return 1.0;
    }
    if [x, y, z].iter().any(|&at| at <= 0.0) || y >= 1.0 || z >= 1.0 {
        return 0.0;
    }
    let mut sum = 0.0;
    for p in 0..TERMS {
        let m = f64::from(2 * p + 1);
        let along_y = (m * PI * y).sin() / m;
        for q in 0..TERMS {
            let n = f64::from(2 * q + 1);
            let l = PI * m.hypot(n);
            let ratio = (l * x).sinh() / l.sinh();
            if ratio.is_nan() || ratio < NEGLIGIBLE {
                break;
            }
            sum += ratio * along_y * ((n * PI * z).sin() / n);
        }
    }
    16.0 / (PI * PI) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(x: f64, y: f64, z: f64) -> f64 {
        let mut sum = 0.0;
        for p in 0..300 {
            for q in 0..300 {
                let (m, n) = (f64::from(2 * p + 1), f64::from(2 * q + 1));
                let l = PI * m.hypot(n);
                let waves = ((m * PI * y).sin() / m) * ((n * PI * z).sin() / n);
                let term = (l * x).sinh() / l.sinh() * waves;
                if term.is_nan() {
                    break;
                }
                sum += term;
            }
        }
        16.0 / (PI * PI) * sum
    }

    #[test]
    fn the_shortened_series_equals_the_whole_one() {
        for [x, y, z] in [[0.5, 0.5, 0.5], [0.46, 0.53, 0.549], [0.9, 0.1, 0.3]] {
            assert!((exact([x, y, z]) - naive(x, y, z)).abs() < 1e-14);
        }
    }

    #[test]
    fn the_middle_has_a_sixth_of_the_hot_face() {
        assert!((exact([0.5; 3]) - 1.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn faces_have_their_boundary_values() {
        for (at, value) in [
            ([1.0, 0.5, 0.5], 1.0),
            ([1.0, 0.0, 0.5], 1.0),
            ([0.0, 0.5, 0.5], 0.0),
            ([0.5, 1.0, 0.5], 0.0),
            ([0.5, 0.5, 0.0], 0.0),
        ] {
            assert_eq!(exact(at).to_bits(), f64::to_bits(value));
        }
    }

    #[test]
    fn a_solution_that_is_not_a_number_fails() {
        let mesh = Mesh::new([10; 3]);
        assert!(!Check::new(mesh, 1.0, f64::NAN).passes());
        assert!(Check::new(mesh, 1.0, 0.0523).passes());
        assert!(!Check::new(mesh, 0.0, 0.0523).passes());
        assert!(Check::new(mesh, 0.0, 4.79e-3).passes());
    }
}
