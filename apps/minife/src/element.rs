//! The eight-node brick: stiffness and load of one element.
//!
//! Trilinear shape functions on [−1, 1]³ and eight Gauss points. The abscissa has nine digits,
//! as in the reference, and not those of 1/√3: entries differ by 1e-10 otherwise, and with them
//! every digit beyond the tenth.

use std::sync::LazyLock;

/// A point or vector in space.
pub type Point = [f64; 3];

/// The Gauss abscissa, literally.
pub const GAUSS_ABSCISSA: f64 = 0.577_350_269;

/// The corners of the reference brick in local order, which is also the offset of each node from
/// the first as (x, y, z) when −1 is read as 0: bottom face around, then top face.
pub const CORNERS: [[usize; 3]; 8] =
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]];

/// What one element adds to the matrix and the right-hand side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementTerms {
    /// `stiffness[a][b]` = `∫ ∇N_a·∇N_b`, symmetric to the last bit.
    pub stiffness: [[f64; 8]; 8],
    /// `load[a]` = `∫ N_a`, for a source of one.
    pub load: [f64; 8],
}

/// Shape functions and their derivatives along the local axes at one Gauss point.
struct GaussPoint {
    shapes: [f64; 8],
    slopes: [Point; 8],
}

static GAUSS_POINTS: LazyLock<[GaussPoint; 8]> = LazyLock::new(|| {
    CORNERS.map(|corner| gauss_point(signs(corner).map(|sign| sign * GAUSS_ABSCISSA)))
});

fn signs(corner: [usize; 3]) -> Point {
    corner.map(|at| if at == 0 { -1.0 } else { 1.0 })
}

fn gauss_point([xi, eta, zeta]: Point) -> GaussPoint {
    let factors = CORNERS.map(|corner| {
        let [sx, sy, sz] = signs(corner);
        ([sx, sy, sz], [1.0 + xi * sx, 1.0 + eta * sy, 1.0 + zeta * sz])
    });
    GaussPoint {
        shapes: factors.map(|(_, [fx, fy, fz])| 0.125 * fx * fy * fz),
        slopes: factors.map(|([sx, sy, sz], [fx, fy, fz])| {
            [0.125 * sx * fy * fz, 0.125 * sy * fx * fz, 0.125 * sz * fx * fy]
        }),
    }
}

/// The determinant of `m` and its inverse.
fn inverse(m: &[Point; 3]) -> (f64, [Point; 3]) {
    let minor = |a: usize, b: usize, c: usize, d: usize| m[a][c] * m[b][d] - m[a][d] * m[b][c];
    let determinant =
        m[0][0] * minor(1, 2, 1, 2) - m[0][1] * minor(1, 2, 0, 2) + m[0][2] * minor(1, 2, 0, 1);
    let scale = 1.0 / determinant;
    let inverse = [
        [minor(1, 2, 1, 2) * scale, -minor(0, 2, 1, 2) * scale, minor(0, 1, 1, 2) * scale],
        [-minor(1, 2, 0, 2) * scale, minor(0, 2, 0, 2) * scale, -minor(0, 1, 0, 2) * scale],
        [minor(1, 2, 0, 1) * scale, -minor(0, 2, 0, 1) * scale, minor(0, 1, 0, 1) * scale],
    ];
    (determinant, inverse)
}

/// Integrates the element with these corner coordinates, in the order of [`CORNERS`].
#[must_use]
pub fn integrate(corners: &[Point; 8]) -> ElementTerms {
    let mut terms = ElementTerms { stiffness: [[0.0; 8]; 8], load: [0.0; 8] };
    for point in GAUSS_POINTS.iter() {
        // jacobian[i][j] = ∂x_j/∂ξ_i
        let mut jacobian = [[0.0; 3]; 3];
        for (slope, corner) in point.slopes.iter().zip(corners) {
            for (row, along) in jacobian.iter_mut().zip(slope) {
                for (entry, coordinate) in row.iter_mut().zip(corner) {
                    *entry += along * coordinate;
                }
            }
        }
        let (determinant, inverse) = inverse(&jacobian);
        let gradients = point.slopes.map(|slope| {
            inverse.map(|row| row[0] * slope[0] + row[1] * slope[1] + row[2] * slope[2])
        });
        for a in 0..8 {
            terms.load[a] += determinant * point.shapes[a];
            let [x, y, z] = gradients[a];
            let row = terms.stiffness[a][a..].iter_mut();
            for (entry, [bx, by, bz]) in row.zip(&gradients[a..]) {
                *entry += determinant * (x * bx + y * by + z * bz);
            }
        }
    }
    for a in 1..8 {
        for b in 0..a {
            terms.stiffness[a][b] = terms.stiffness[b][a];
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brick([hx, hy, hz]: Point) -> [Point; 8] {
        CORNERS.map(|[i, j, k]| [0.3 + i as f64 * hx, 0.1 + j as f64 * hy, k as f64 * hz])
    }

    /// The exact integrals over a brick, from products of one-dimensional ones.
    fn exact_stiffness([hx, hy, hz]: Point, a: usize, b: usize) -> f64 {
        let mass = |same: bool, h: f64| if same { h / 3.0 } else { h / 6.0 };
        let slope = |same: bool, h: f64| if same { 1.0 / h } else { -1.0 / h };
        let [sx, sy, sz] = [0, 1, 2].map(|axis| CORNERS[a][axis] == CORNERS[b][axis]);
        slope(sx, hx) * mass(sy, hy) * mass(sz, hz)
            + mass(sx, hx) * slope(sy, hy) * mass(sz, hz)
            + mass(sx, hx) * mass(sy, hy) * slope(sz, hz)
    }

    #[test]
    fn a_brick_has_the_exact_integrals_up_to_the_truncated_abscissa() {
        for size in [[0.1; 3], [1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0]] {
            let terms = integrate(&brick(size));
            let diagonal = terms.stiffness[0][0];
            for a in 0..8 {
                for b in 0..8 {
                    let difference = terms.stiffness[a][b] - exact_stiffness(size, a, b);
                    assert!(difference.abs() < 1e-8 * diagonal, "{a} {b} {difference}");
                    let mirrored = terms.stiffness[b][a];
                    assert_eq!(terms.stiffness[a][b].to_bits(), mirrored.to_bits());
                }
            }
        }
    }

    #[test]
    fn the_loads_add_up_to_the_volume_and_the_rows_to_nothing() {
        let terms = integrate(&brick([0.5, 0.25, 0.125]));
        assert!((terms.load.iter().sum::<f64>() - 0.5 * 0.25 * 0.125).abs() < 1e-16);
        for row in terms.stiffness {
            assert!(row.iter().sum::<f64>().abs() < 1e-15);
        }
    }

    #[test]
    fn the_inverse_times_the_matrix_is_one() {
        let m = [[2.0, 0.5, -1.0], [0.25, 3.0, 1.0], [-0.5, 1.5, 4.0]];
        let (determinant, inverse) = inverse(&m);
        assert!((determinant - 18.375).abs() < 1e-12, "{determinant}");
        for (i, row) in inverse.iter().enumerate() {
            for j in 0..3 {
                let entry: f64 = row.iter().zip(&m).map(|(a, along)| a * along[j]).sum();
                assert!((entry - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
    }
}
