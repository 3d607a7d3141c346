//! Forces at the nodes: the stress of the elements, and resistance against their hourglass modes.
//!
//! An element under pressure p and viscosity q pushes its corners along their normals with p + q.
//! Eight corners can also move in four ways that no stress of the element answers (Flanagan and
//! Belytschko); those are damped, with the part that changes the volume taken out.

use crate::geometry::{self, Corners, Vector};
use crate::lanes::Lanes;
use crate::mesh::{Index, Kernel, Mesh};
use crate::state::State;

/// Signs of the four hourglass modes at the corners.
const MODES: [[f64; 8]; 4] = [
    [1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0],
    [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0],
    [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0],
    [-1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0],
];
/// How strongly hourglass modes are damped.
const HOURGLASS: f64 = 3.0 * 0.01;

/// Adds the forces of all elements to those at the nodes, `reference` being the elements' volumes
/// at the beginning. False if the volume of an element is not positive.
#[must_use]
pub fn add_forces(mesh: Mesh, state: &State, reference: &[f64], force: &mut [Vec<f64>; 3]) -> bool {
    let mut kernel = Forces { mesh, state, reference, force, sound_mesh: true };
    mesh.sweep(&mut kernel);
    kernel.sound_mesh
}

struct Forces<'a> {
    mesh: Mesh,
    state: &'a State,
    reference: &'a [f64],
    force: &'a mut [Vec<f64>; 3],
    sound_mesh: bool,
}

impl Kernel for Forces<'_> {
    #[inline(always)]
    fn apply<R: Lanes>(&mut self, place: Index, element: usize) {
        let state = self.state;
        let at = self.mesh.corners(place);
        let load = |field: &[f64]| R::load(field, element);
        let (position, velocity): (Corners<R>, Corners<R>) =
            (gather(&state.position, &at), gather(&state.velocity, &at));
        let (_, jacobian) = geometry::shape_derivatives(&position);
        let relative = load(&state.volume);
        self.sound_mesh &= jacobian.are_positive() && relative.are_positive();
        let mass = load(self.reference);
        let volume = mass * relative;
        let strength = -(R::all(HOURGLASS) * load(&state.sound) * mass / volume.cbrt());
        let push = load(&state.pressure) + load(&state.viscosity);
        let normals = geometry::normals(&position);
        let damping = hourglass(&position, &velocity, volume, strength);
        for axis in 0..3 {
            let force = &mut self.force[axis];
            for n in 0..8 {
                let sum = R::load(force, at[n]) + (push * normals[n][axis] + damping[n][axis]);
                sum.store(force, at[n]);
            }
        }
    }
}

/// The forces against the hourglass modes of the velocity.
#[inline(always)]
fn hourglass<R: Lanes>(
    position: &Corners<R>,
    velocity: &Corners<R>,
    volume: R,
    strength: R,
) -> Corners<R> {
    let gradient = geometry::volume_gradient(position);
    let per_volume = R::all(1.0) / volume;
    let mut shapes = [[R::all(0.0); 8]; 4];
    for (shape, mode) in shapes.iter_mut().zip(&MODES) {
        let h = in_mode(mode, position, per_volume);
        for n in 0..8 {
            shape[n] = R::all(mode[n]) - geometry::dot(gradient[n], h);
        }
    }
    let mut forces = [[R::all(0.0); 3]; 8];
    for axis in 0..3 {
        let mut motion = [R::all(0.0); 4];
        for (motion, shape) in motion.iter_mut().zip(&shapes) {
            let mut sum = shape[0] * velocity[0][axis];
            for n in 1..8 {
                sum = sum + shape[n] * velocity[n][axis];
            }
            *motion = strength * sum;
        }
        let [s0, s1, s2, s3] = &shapes;
        for n in 0..8 {
            let (one, other) = (s0[n] * motion[0] + s1[n] * motion[1], s2[n] * motion[2]);
            forces[n][axis] = one + other + s3[n] * motion[3];
        }
    }
    forces
}

/// The sum over the corners, with the signs of a mode, times a factor.
#[inline(always)]
fn in_mode<R: Lanes>(mode: &[f64; 8], of: &Corners<R>, factor: R) -> Vector<R> {
    let mut sums = [R::all(0.0); 3];
    for axis in 0..3 {
        for n in 0..8 {
            let sum = sums[axis];
            sums[axis] = if mode[n] > 0.0 { sum + of[n][axis] } else { sum - of[n][axis] };
        }
        sums[axis] = factor * sums[axis];
    }
    sums
}

/// The values of the three components of a field at the corners.
#[inline(always)]
pub(crate) fn gather<R: Lanes>(field: &[Vec<f64>; 3], at: &[usize; 8]) -> Corners<R> {
    let mut values = [[R::all(0.0); 3]; 8];
    for (value, &node) in values.iter_mut().zip(at) {
        for axis in 0..3 {
            value[axis] = R::load(&field[axis], node);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bent() -> (Mesh, State, Vec<f64>) {
        let mesh = Mesh::new(3, 0, 1).unwrap();
        let mut state = State::at_rest(mesh, 1e-7);
        for axis in 0..3 {
            for node in 0..mesh.nodes() {
                state.position[axis][node] += 0.02 * ((node + 7 * axis) as f64).sin();
                state.velocity[axis][node] = ((3 * node + axis) as f64).cos();
            }
        }
        state.sound.fill(0.3);
        let reference = vec![(1.125_f64 / 3.0).powi(3); mesh.elements()];
        (mesh, state, reference)
    }

    fn forces(mesh: Mesh, state: &State, reference: &[f64]) -> [Vec<f64>; 3] {
        let mut force = [0; 3].map(|_| vec![0.0; mesh.nodes()]);
        assert!(add_forces(mesh, state, reference, &mut force));
        force
    }

    #[test]
    fn forces_inside_a_body_have_no_sum_and_damping_takes_energy() {
        let (mesh, mut state, reference) = bent();
        for pressure in [0.0, 5.0] {
            state.pressure.fill(pressure);
            let force = forces(mesh, &state, &reference);
            for component in &force {
                assert!(component.iter().sum::<f64>().abs() < 1e-12);
            }
            let power = |axis: usize| {
                force[axis].iter().zip(&state.velocity[axis]).map(|(f, v)| f * v).sum::<f64>()
            };
            if pressure == 0.0 {
                assert!((0..3).map(power).sum::<f64>() < -1e-6);
            }
        }
    }

    #[test]
    fn a_body_that_moves_and_stretches_evenly_has_no_hourglass() {
        let (mesh, mut state, reference) = bent();
        state.position = State::at_rest(mesh, 1.0).position;
        for axis in 0..3 {
            let stretched = state.position[axis].iter().map(|x| 2.0 + 3.0 * x);
            state.velocity[axis] = stretched.collect();
        }
        for component in forces(mesh, &state, &reference) {
            assert!(component.iter().all(|force| force.abs() < 1e-14));
        }
    }

    #[test]
    fn an_element_turned_inside_out_is_noticed() {
        let (mesh, state, reference) = bent();
        let mut force = [0; 3].map(|_| vec![0.0; mesh.nodes()]);
        for node in [0, mesh.nodes() - 1] {
            let mut turned = state.clone();
            turned.position[0][node] = 0.55;
            turned.position[1][node] = 0.55;
            turned.position[2][node] = 0.55;
            turned.position[0][node] *= if node == 0 { 2.0 } else { -2.0 };
            assert!(!add_forces(mesh, &turned, &reference, &mut force));
        }
        let mut nothing = state;
        nothing.volume[26] = f64::NAN;
        assert!(!add_forces(mesh, &nothing, &reference, &mut force));
    }
}
