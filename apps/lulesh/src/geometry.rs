//! What the shape of a hexahedron says: volume, derivatives, normals, a length.
//!
//! Corners are numbered 0 to 3 around the bottom face and 4 to 7 around the top face, so that
//! corner n + 4 is above corner n.

use crate::lanes::Lanes;

/// A vector in space.
pub type Vector<R> = [R; 3];

/// A vector at each corner.
pub type Corners<R> = [Vector<R>; 8];

/// The faces, their corners ordered so that the normals point outwards.
const OUTWARD: [[usize; 4]; 6] =
    [[0, 1, 2, 3], [0, 4, 5, 1], [1, 5, 6, 2], [2, 6, 7, 3], [3, 7, 4, 0], [4, 7, 6, 5]];

/// The faces in the order in which their areas are compared.
const AREAS: [[usize; 4]; 6] =
    [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]];

/// For each corner the six others on which the derivative of the volume depends.
const AROUND: [[usize; 6]; 8] = [
    [1, 2, 3, 4, 5, 7],
    [2, 3, 0, 5, 6, 4],
    [3, 0, 1, 6, 7, 5],
    [0, 1, 2, 7, 4, 6],
    [7, 6, 5, 0, 3, 1],
    [4, 7, 6, 1, 0, 2],
    [5, 4, 7, 2, 1, 3],
    [6, 5, 4, 3, 2, 0],
];

#[inline(always)]
fn plus<R: Lanes>(a: Vector<R>, b: Vector<R>) -> Vector<R> {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

#[inline(always)]
fn minus<R: Lanes>(a: Vector<R>, b: Vector<R>) -> Vector<R> {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline(always)]
fn times<R: Lanes>(factor: R, a: Vector<R>) -> Vector<R> {
    [factor * a[0], factor * a[1], factor * a[2]]
}

/// a·b.
#[inline(always)]
pub fn dot<R: Lanes>(a: Vector<R>, b: Vector<R>) -> R {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a×b.
#[inline(always)]
pub fn cross<R: Lanes>(a: Vector<R>, b: Vector<R>) -> Vector<R> {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The volume.
#[inline(always)]
pub fn volume<R: Lanes>(r: &Corners<R>) -> R {
    let d = |a: usize, b: usize| minus(r[a], r[b]);
    let triple = |a, b, c| dot(a, cross(b, c));
    let sum = triple(plus(d(3, 1), d(7, 2)), d(6, 3), d(2, 0))
        + triple(plus(d(4, 3), d(5, 7)), d(6, 4), d(7, 0))
        + triple(plus(d(1, 4), d(2, 5)), d(6, 1), d(5, 0));
    sum * R::all(1.0 / 12.0)
}

/// The derivatives of the shape functions at corners 0 to 3 (at corners 6, 7, 4, 5 they are the
/// same with the other sign), and the volume that their Jacobian says.
#[inline(always)]
pub fn shape_derivatives<R: Lanes>(r: &Corners<R>) -> ([Vector<R>; 4], R) {
    let eighth = R::all(0.125);
    let (d60, d53) = (minus(r[6], r[0]), minus(r[5], r[3]));
    let (d71, d42) = (minus(r[7], r[1]), minus(r[4], r[2]));
    let xi = times(eighth, minus(minus(plus(d60, d53), d71), d42));
    let eta = times(eighth, minus(plus(minus(d60, d53), d71), d42));
    let zeta = times(eighth, plus(plus(plus(d60, d53), d71), d42));
    let (c_xi, c_eta, c_zeta) = (cross(eta, zeta), cross(zeta, xi), cross(xi, eta));
    let none = [R::all(0.0); 3];
    let derivatives = [
        minus(minus(minus(none, c_xi), c_eta), c_zeta),
        minus(minus(c_xi, c_eta), c_zeta),
        minus(plus(c_xi, c_eta), c_zeta),
        minus(minus(c_eta, c_xi), c_zeta),
    ];
    (derivatives, R::all(8.0) * dot(eta, c_eta))
}

/// The sum of the area normals of the faces at each corner, a quarter of each face.
#[inline(always)]
pub fn normals<R: Lanes>(r: &Corners<R>) -> Corners<R> {
    let (half, quarter) = (R::all(0.5), R::all(0.25));
    let mut sums = [[R::all(0.0); 3]; 8];
    for [a, b, c, d] in OUTWARD {
        let across = times(half, minus(minus(plus(r[d], r[c]), r[b]), r[a]));
        let along = times(half, minus(minus(plus(r[c], r[b]), r[d]), r[a]));
        let area = times(quarter, cross(across, along));
        for corner in [a, b, c, d] {
            sums[corner] = plus(sums[corner], area);
        }
    }
    sums
}

/// The derivative of the volume with respect to each corner.
#[inline(always)]
pub fn volume_gradient<R: Lanes>(r: &Corners<R>) -> Corners<R> {
    let twelfth = R::all(1.0 / 12.0);
    let mut gradient = [[R::all(0.0); 3]; 8];
    // A closure for each corner would not be inlined.
    for (corner, around) in gradient.iter_mut().zip(&AROUND) {
        let mut near = [[R::all(0.0); 6]; 3];
        for (at, &n) in around.iter().enumerate() {
            for axis in 0..3 {
                near[axis][at] = r[n][axis];
            }
        }
        let [x, y, z] = near;
        *corner =
            [twelfth * area_form(&y, &z), twelfth * area_form(&z, &x), twelfth * area_form(&x, &y)];
    }
    gradient
}

#[inline(always)]
fn area_form<R: Lanes>(a: &[R; 6], b: &[R; 6]) -> R {
    (a[1] + a[2]) * (b[0] + b[1]) - (a[0] + a[1]) * (b[1] + b[2]) + (a[0] + a[4]) * (b[3] + b[4])
        - (a[3] + a[4]) * (b[0] + b[4])
        - (a[2] + a[5]) * (b[3] + b[5])
        + (a[3] + a[5]) * (b[2] + b[5])
}

/// The volume divided by the largest face: four volumes over the root of its squared size.
#[inline(always)]
pub fn characteristic_length<R: Lanes>(r: &Corners<R>, volume: R) -> R {
    let mut largest = R::all(0.0);
    for [a, b, c, d] in AREAS {
        let (ca, db) = (minus(r[c], r[a]), minus(r[d], r[b]));
        let (f, g) = (minus(ca, db), plus(ca, db));
        let mixed = dot(f, g);
        largest = largest.larger(dot(f, f) * dot(g, g) - mixed * mixed);
    }
    R::all(4.0) * volume / largest.sqrt()
}

/// A quarter of the sum over four corners less the sum over four others.
#[inline(always)]
fn mean_edge<R: Lanes>(of: &Corners<R>, to: [usize; 4], from: [usize; 4]) -> Vector<R> {
    let sum = |[a, b, c, d]: [usize; 4]| plus(plus(plus(of[a], of[b]), of[c]), of[d]);
    times(R::all(0.25), minus(sum(to), sum(from)))
}

/// The mean edge in the three directions of the element: ξ, η, ζ.
#[inline(always)]
pub fn mean_edges<R: Lanes>(of: &Corners<R>) -> [Vector<R>; 3] {
    [
        mean_edge(of, [1, 2, 6, 5], [0, 3, 7, 4]),
        mean_edge(of, [3, 2, 6, 7], [0, 1, 5, 4]),
        mean_edge(of, [4, 5, 6, 7], [0, 1, 2, 3]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brick(lengths: [f64; 3]) -> Corners<f64> {
        let unit = [
            [0, 0, 0],
            [1, 0, 0],
            [1, 1, 0],
            [0, 1, 0],
            [0, 0, 1],
            [1, 0, 1],
            [1, 1, 1],
            [0, 1, 1],
        ];
        unit.map(|corner| std::array::from_fn(|axis| f64::from(corner[axis]) * lengths[axis]))
    }

    /// No corner where a brick would have it.
    fn crooked() -> Corners<f64> {
        let mut r = brick([1.0, 0.8, 1.2]);
        for (n, corner) in r.iter_mut().enumerate() {
            for (axis, x) in corner.iter_mut().enumerate() {
                *x += 0.1 * ((3 * n + axis) as f64 * 1.7).sin();
            }
        }
        r
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-7, "{a} is not {b}");
    }

    #[test]
    fn a_brick_has_the_volume_length_and_normals_of_a_brick() {
        let r = brick([1.0, 2.0, 4.0]);
        near(volume(&r), 8.0);
        near(shape_derivatives(&r).1, 8.0);
        near(characteristic_length(&r, 8.0), 1.0);
        let normals = normals(&r);
        for (axis, area) in [8.0, 4.0, 2.0].into_iter().enumerate() {
            near(normals[6][axis], area / 4.0);
            near(normals[0][axis], -area / 4.0);
        }
    }

    #[test]
    fn the_gradient_is_the_derivative_of_the_volume() {
        let r = crooked();
        let gradient = volume_gradient(&r);
        for n in 0..8 {
            for axis in 0..3 {
                let h = 1e-4;
                let (mut more, mut less) = (r, r);
                more[n][axis] += h;
                less[n][axis] -= h;
                near(gradient[n][axis], (volume(&more) - volume(&less)) / (2.0 * h));
            }
        }
    }

    #[test]
    fn normals_close_and_derivatives_have_opposite_corners() {
        let r = crooked();
        let (derivatives, jacobian) = shape_derivatives(&r);
        for axis in 0..3 {
            near(normals(&r).iter().map(|normal| normal[axis]).sum(), 0.0);
            let opposite = [6, 7, 4, 5];
            // A linear velocity field has its own divergence.
            let sum: f64 =
                (0..4).map(|n| derivatives[n][axis] * (r[n][axis] - r[opposite[n]][axis])).sum();
            near(sum / jacobian, 1.0);
        }
    }

    #[test]
    fn edges_of_a_brick_are_its_edges() {
        let edges = mean_edges(&brick([1.0, 2.0, 4.0]));
        assert_eq!(edges, [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]);
    }
}
