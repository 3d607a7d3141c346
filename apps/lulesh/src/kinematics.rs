//! What the new positions mean for the elements: volumes, their change, and velocity gradients.

use crate::forces::gather;
use crate::geometry::{self, Corners, Vector};
use crate::lanes::Lanes;
use crate::layered::Layered;
use crate::mesh::{Index, Kernel, Mesh};
use crate::state::State;

/// Keeps a division by zero from happening.
pub(crate) const TINY: f64 = 1e-36;

/// What a cycle computes for each element between its positions and its pressures.
#[derive(Clone, Debug)]
pub struct Motion {
    /// The new relative volume.
    pub volume: Vec<f64>,
    /// Its change in this step.
    pub change: Vec<f64>,
    /// The divergence of the velocity, in the middle of the step.
    pub divergence: Vec<f64>,
    /// The characteristic length.
    pub length: Vec<f64>,
    /// The size along ξ, η, ζ.
    pub size: [Vec<f64>; 3],
    /// The velocity gradient along ξ, η, ζ, with a layer more on both sides along that axis.
    pub gradient: [Layered; 3],
}

impl Motion {
    /// Zeros.
    #[must_use]
    pub fn new(mesh: Mesh) -> Self {
        let zero = || vec![0.0; mesh.elements()];
        Self {
            volume: zero(),
            change: zero(),
            divergence: zero(),
            length: zero(),
            size: [0; 3].map(|_| zero()),
            gradient: [0, 1, 2].map(|axis| Layered::new(mesh.edge, axis)),
        }
    }

    /// Computes everything but the layers beyond the own elements. False if the volume of an
    /// element is not positive.
    #[must_use]
    pub fn compute(&mut self, mesh: Mesh, state: &State, reference: &[f64]) -> bool {
        let mut kernel = Kinematics { mesh, state, reference, motion: self, sound_mesh: true };
        mesh.sweep(&mut kernel);
        kernel.sound_mesh
    }
}

struct Kinematics<'a> {
    mesh: Mesh,
    state: &'a State,
    reference: &'a [f64],
    motion: &'a mut Motion,
    sound_mesh: bool,
}

impl Kernel for Kinematics<'_> {
    #[inline(always)]
    fn apply<R: Lanes>(&mut self, place: Index, element: usize) {
        let state = self.state;
        let at = self.mesh.corners(place);
        let (position, velocity): (Corners<R>, Corners<R>) =
            (gather(&state.position, &at), gather(&state.velocity, &at));
        let reference = R::load(self.reference, element);
        let volume = geometry::volume(&position);
        let relative = volume / reference;
        self.sound_mesh &= relative.are_positive();
        let motion = &mut *self.motion;
        relative.store(&mut motion.volume, element);
        (relative - R::load(&state.volume, element)).store(&mut motion.change, element);
        let length = geometry::characteristic_length(&position, volume);
        length.store(&mut motion.length, element);
        let half = R::all(0.5 * state.clock.step);
        divergence(&position, &velocity, half).store(&mut motion.divergence, element);
        let (sizes, gradients) = gradients(&position, &velocity, reference * relative);
        for axis in 0..3 {
            sizes[axis].store(&mut motion.size[axis], element);
            let layered = &mut motion.gradient[axis];
            let index = layered.index(place);
            gradients[axis].store(layered.values_mut(), index);
        }
    }
}

/// The divergence of the velocity, half a step before.
#[inline(always)]
fn divergence<R: Lanes>(position: &Corners<R>, velocity: &Corners<R>, half_step: R) -> R {
    let mut middle = *position;
    for (position, velocity) in middle.iter_mut().zip(velocity) {
        for axis in 0..3 {
            position[axis] = position[axis] - half_step * velocity[axis];
        }
    }
    let (derivatives, jacobian) = geometry::shape_derivatives(&middle);
    let mut sum = [R::all(0.0); 3];
    for (n, opposite) in [6, 7, 4, 5].into_iter().enumerate() {
        for axis in 0..3 {
            let apart = velocity[n][axis] - velocity[opposite][axis];
            sum[axis] = sum[axis] + derivatives[n][axis] * apart;
        }
    }
    (sum[0] + sum[1] + sum[2]) / jacobian
}

/// Sizes and velocity gradients along ξ, η, ζ.
#[inline(always)]
fn gradients<R: Lanes>(
    position: &Corners<R>,
    velocity: &Corners<R>,
    volume: R,
) -> ([R; 3], [R; 3]) {
    let tiny = R::all(TINY);
    let per_volume = R::all(1.0) / (volume + tiny);
    let (along, change) = (geometry::mean_edges(position), geometry::mean_edges(velocity));
    let areas: [Vector<R>; 3] =
        [[1, 2], [2, 0], [0, 1]].map(|[one, other]| geometry::cross(along[one], along[other]));
    let size = |axis: usize| volume / (geometry::dot(areas[axis], areas[axis]) + tiny).sqrt();
    let gradient =
        |axis: usize| geometry::dot(areas[axis].map(|area| area * per_volume), change[axis]);
    ([0, 1, 2].map(size), [0, 1, 2].map(gradient))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_stretch_has_its_divergence_everywhere() {
        let mesh = Mesh::new(3, 0, 1).unwrap();
        let mut state = State::at_rest(mesh, 1e-3);
        let reference = vec![(1.125_f64 / 3.0).powi(3); mesh.elements()];
        for (axis, rate) in [2.0, -1.0, 0.5].into_iter().enumerate() {
            let moved: Vec<f64> = state.position[axis].iter().map(|x| rate * x).collect();
            for (x, v) in state.position[axis].iter_mut().zip(&moved) {
                *x += 1e-3 * v;
            }
            state.velocity[axis] = moved;
        }
        let mut motion = Motion::new(mesh);
        assert!(motion.compute(mesh, &state, &reference));
        for element in 0..mesh.elements() {
            assert!((motion.divergence[element] - 1.5).abs() < 1e-2);
            assert!((motion.change[element] - 1.5e-3).abs() < 1e-5);
        }
        for (axis, rate) in [2.0, -1.0, 0.5].into_iter().enumerate() {
            let gradient = &motion.gradient[axis];
            for place in mesh.element_places() {
                assert!((gradient.values()[gradient.index(place)] - rate).abs() < 1e-2);
            }
        }
    }
}
