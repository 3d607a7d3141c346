//! The simulation of one rank, cut into steps between the communications.
//!
//! ```text
//!  clock.advance ‹smallest bound› · compute_forces ‹sum› · move_nodes ‹owners' positions›
//!  · compute_motion ‹gradients beyond the faces› · update_material
//! ```
//!
//! All fields that a cycle needs beside the [`State`] are allocated once.

use std::rc::Rc;

use crate::eos::{self, After, Before};
use crate::forces;
use crate::geometry;
use crate::halo::{Halo, Message, add, overwrite, pack};
use crate::kinematics::Motion;
use crate::lanes::Lanes;
use crate::mesh::Mesh;
use crate::regions::{Division, Region};
use crate::state::{self, NO_BOUND, State};
use crate::viscosity::Terms;

/// A velocity component below this is none.
const VELOCITY_CUT: f64 = 1e-7;
/// A volume that is so near to that of the beginning is equal to it.
const VOLUME_CUT: f64 = 1e-10;
/// More viscosity than this is a sign of a wrong computation.
const MOST_VISCOSITY: f64 = 1e12;
/// The factor of the viscosity in Courant's condition: 64 times the square of 2.
const COURANT_FACTOR: f64 = 256.0;
/// The largest relative change of a volume in one step.
const MOST_CHANGE: f64 = 0.1;
/// How many elements the equation of state takes at once; they stay in the cache.
const BATCH: usize = 64;

/// Why a simulation makes no sense any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An element is turned inside out.
    #[error("the volume of an element is not positive")]
    Volume,
    /// The artificial viscosity exploded.
    #[error("the artificial viscosity of an element is greater than {MOST_VISCOSITY:e}")]
    Viscosity,
}

/// The simulation of one rank.
#[derive(Clone, Debug)]
pub struct Domain {
    mesh: Mesh,
    halo: Rc<Halo>,
    state: State,
    regions: Vec<Region>,
    /// The nodes that stay on their side, for each axis.
    fixed: [Vec<u32>; 3],
    /// The volumes at the beginning, which are the masses, too.
    reference: Vec<f64>,
    nodal_mass: Vec<f64>,
    force: [Vec<f64>; 3],
    motion: Motion,
    terms: Terms,
}

impl Domain {
    /// The state at the beginning. Nodal masses are those of the own elements only, as long as
    /// they are not exchanged.
    #[must_use]
    pub fn new(mesh: Mesh, division: Division) -> Self {
        let energy = state::deposited(mesh);
        let origin = Mesh { place: [0; 3], ..mesh };
        let first = |place: [usize; 3]| [0, 1, 2].map(|axis| origin.coordinate(axis, place[axis]));
        let bottom = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]];
        let corner = |n: usize| {
            let [i, j, _] = bottom[n % 4];
            first([i, j, n / 4])
        };
        let volume: f64 = geometry::volume(&std::array::from_fn(corner));
        let step = 0.5 * volume.cbrt() / (2.0 * energy).sqrt();
        let rank = mesh.rank();
        let mut domain = Self {
            mesh,
            halo: Rc::new(Halo::new(mesh)),
            state: State::at_rest(mesh, step),
            regions: division.divide(mesh.elements(), rank),
            fixed: [0, 1, 2].map(|axis| state::fixed_nodes(mesh, axis)),
            reference: vec![0.0; mesh.elements()],
            nodal_mass: vec![0.0; mesh.nodes()],
            force: [0; 3].map(|_| vec![0.0; mesh.nodes()]),
            motion: Motion::new(mesh),
            terms: Terms::new(mesh),
        };
        domain.weigh();
        if rank == 0 {
            domain.state.energy[0] = energy;
        }
        domain
    }

    fn weigh(&mut self) {
        let at_rest = State::at_rest(self.mesh, 0.0);
        for (element, place) in self.mesh.element_places().enumerate() {
            let corners = self.mesh.corners(place);
            let volume: f64 = geometry::volume(&forces::gather(&at_rest.position, &corners));
            self.reference[element] = volume;
            for corner in corners {
                self.nodal_mass[corner] += volume / 8.0;
            }
        }
    }

    /// The cube of the rank.
    #[must_use]
    pub const fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// The neighbours and the exchanges with them.
    #[must_use]
    pub fn halo(&self) -> Rc<Halo> {
        Rc::clone(&self.halo)
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The state, to begin a cycle or to be restored.
    pub const fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// The masses of the elements.
    #[must_use]
    pub fn masses(&self) -> &[f64] {
        &self.reference
    }

    /// Begins to exchange masses, which may have been exchanged before.
    pub fn reset_nodal_masses(&mut self) {
        self.nodal_mass.fill(0.0);
        self.weigh();
    }

    /// Masses of shared nodes, for a neighbour.
    pub fn pack_masses(&self, to: Message, message: &mut [f64]) {
        pack(&[&self.nodal_mass], &self.halo.neighbours[to.neighbour].nodes, message);
    }

    /// A neighbour's masses of shared nodes.
    pub fn add_masses(&mut self, from: Message, message: &[f64]) {
        let nodes = &self.halo.neighbours[from.neighbour].nodes;
        add(message, nodes, &mut [&mut self.nodal_mass]);
    }

    /// The forces of the own elements.
    ///
    /// # Errors
    /// [`Broken::Volume`].
    pub fn compute_forces(&mut self) -> Result<(), Broken> {
        self.force.iter_mut().for_each(|force| force.fill(0.0));
        let sound = forces::add_forces(self.mesh, &self.state, &self.reference, &mut self.force);
        if sound { Ok(()) } else { Err(Broken::Volume) }
    }

    /// Forces at shared nodes, for a neighbour.
    pub fn pack_forces(&self, to: Message, message: &mut [f64]) {
        let force = self.force.each_ref().map(Vec::as_slice);
        pack(&force, &self.halo.neighbours[to.neighbour].nodes, message);
    }

    /// A neighbour's forces at shared nodes.
    pub fn add_forces(&mut self, from: Message, message: &[f64]) {
        let mut force = self.force.each_mut().map(Vec::as_mut_slice);
        add(message, &self.halo.neighbours[from.neighbour].nodes, &mut force);
    }

    /// Accelerates and moves the nodes.
    pub fn move_nodes(&mut self) {
        let step = self.state.clock.step;
        for axis in 0..3 {
            let force = &mut self.force[axis];
            for &node in &self.fixed[axis] {
                force[node as usize] = 0.0;
            }
            let nodes = self.state.position[axis].iter_mut().zip(&mut self.state.velocity[axis]);
            for ((position, velocity), (force, mass)) in
                nodes.zip(force.iter().zip(&self.nodal_mass))
            {
                let speed = *velocity + force / mass * step;
                *velocity = if speed.abs() < VELOCITY_CUT { 0.0 } else { speed };
                *position += *velocity * step;
            }
        }
    }

    /// Positions and velocities of shared nodes, for a neighbour.
    pub fn pack_positions(&self, to: Message, message: &mut [f64]) {
        let State { position: [x, y, z], velocity: [u, v, w], .. } = &self.state;
        pack(&[x, y, z, u, v, w], &self.halo.neighbours[to.neighbour].nodes, message);
    }

    /// A neighbour's positions and velocities of shared nodes.
    pub fn overwrite_positions(&mut self, from: Message, message: &[f64]) {
        let State { position: [x, y, z], velocity: [u, v, w], .. } = &mut self.state;
        let nodes = &self.halo.neighbours[from.neighbour].nodes;
        overwrite(message, nodes, &mut [x, y, z, u, v, w]);
    }

    /// Volumes and velocity gradients of the own elements, and of what lies beyond the sides of
    /// the whole domain: the same at the fixed ones, nothing at the free ones.
    ///
    /// # Errors
    /// [`Broken::Volume`].
    pub fn compute_motion(&mut self) -> Result<(), Broken> {
        if !self.motion.compute(self.mesh, &self.state, &self.reference) {
            return Err(Broken::Volume);
        }
        for axis in (0..3).filter(|axis| self.mesh.is_outermost(*axis, false)) {
            self.motion.gradient[axis].mirror(false);
        }
        Ok(())
    }

    /// Gradients of the elements at a face, for a neighbour.
    pub fn pack_gradients(&self, to: Message, message: &mut [f64]) {
        if let Some(side) = self.halo.neighbours[to.neighbour].side {
            self.motion.gradient[side.axis].pack(side.at_end, message);
        }
    }

    /// A neighbour's gradients beyond a face.
    pub fn unpack_gradients(&mut self, from: Message, message: &[f64]) {
        if let Some(side) = self.halo.neighbours[from.neighbour].side {
            self.motion.gradient[side.axis].unpack(side.at_end, message);
        }
    }

    /// The end of the cycle: viscosity, equation of state, volumes, bounds on the next step.
    ///
    /// # Errors
    /// [`Broken::Viscosity`].
    pub fn update_material(&mut self) -> Result<(), Broken> {
        self.terms.compute(self.mesh, &self.motion);
        // What is not a number is not greater, as in the reference.
        if self.state.viscosity.iter().any(|viscosity| *viscosity > MOST_VISCOSITY) {
            return Err(Broken::Viscosity);
        }
        for at in 0..self.regions.len() {
            self.apply_equation_of_state(at);
        }
        for (volume, new) in self.state.volume.iter_mut().zip(&self.motion.volume) {
            *volume = if (new - 1.0).abs() < VOLUME_CUT { 1.0 } else { *new };
        }
        self.bound_step();
        Ok(())
    }

    fn apply_equation_of_state(&mut self, region: usize) {
        let Region { repetitions, elements } = &self.regions[region];
        let mut batch = Batch::default();
        for elements in elements.chunks(BATCH) {
            batch.gather(elements, &self.state, &self.motion, &self.terms);
            for _ in 0..*repetitions {
                // Each time from the same input: the work is what counts.
                std::hint::black_box(&mut batch).solve(elements.len());
            }
            batch.scatter(elements, &mut self.state);
        }
    }

    fn bound_step(&mut self) {
        let (mut courant, mut hydro) = (NO_BOUND, NO_BOUND);
        for element in 0..self.mesh.elements() {
            let divergence = self.motion.divergence[element];
            if divergence == 0.0 {
                continue;
            }
            let (length, sound) = (self.motion.length[element], self.state.sound[element]);
            let mut square = sound * sound;
            if divergence < 0.0 {
                square += COURANT_FACTOR * length * length * divergence * divergence;
            }
            courant = courant.min(length / square.sqrt());
            hydro = hydro.min(MOST_CHANGE / (divergence.abs() + 1e-20));
        }
        (self.state.clock.courant, self.state.clock.hydro) = (courant, hydro);
    }
}

/// Elements of a region, next to each other.
#[derive(Clone, Debug)]
struct Batch {
    before: Before<[f64; BATCH]>,
    after: After<[f64; BATCH]>,
}

impl Default for Batch {
    fn default() -> Self {
        // A full batch is computed even if it is not filled: with numbers that are harmless.
        let one = [1.0; BATCH];
        Self {
            before: Before {
                energy: one,
                pressure: one,
                viscosity: one,
                volume: one,
                change: one,
                linear: one,
                quadratic: one,
            },
            after: After { energy: one, pressure: one, viscosity: one, sound: one },
        }
    }
}

impl Batch {
    fn gather(&mut self, elements: &[u32], state: &State, motion: &Motion, terms: &Terms) {
        for (at, &element) in elements.iter().enumerate() {
            let element = element as usize;
            self.before.energy[at] = state.energy[element];
            self.before.pressure[at] = state.pressure[element];
            self.before.viscosity[at] = state.viscosity[element];
            self.before.volume[at] = motion.volume[element];
            self.before.change[at] = motion.change[element];
            self.before.linear[at] = terms.linear[element];
            self.before.quadratic[at] = terms.quadratic[element];
        }
    }

    /// Solves at least the first ones.
    fn solve(&mut self, elements: usize) {
        for at in (0..elements).step_by(wide::f64x2::COUNT) {
            let load = |from: &[f64; BATCH]| wide::f64x2::load(from, at);
            let after = eos::apply(&Before {
                energy: load(&self.before.energy),
                pressure: load(&self.before.pressure),
                viscosity: load(&self.before.viscosity),
                volume: load(&self.before.volume),
                change: load(&self.before.change),
                linear: load(&self.before.linear),
                quadratic: load(&self.before.quadratic),
            });
            after.energy.store(&mut self.after.energy, at);
            after.pressure.store(&mut self.after.pressure, at);
            after.viscosity.store(&mut self.after.viscosity, at);
            after.sound.store(&mut self.after.sound, at);
        }
    }

    fn scatter(&self, elements: &[u32], state: &mut State) {
        for (at, &element) in elements.iter().enumerate() {
            let element = element as usize;
            state.energy[element] = self.after.energy[at];
            state.pressure[element] = self.after.pressure[at];
            state.viscosity[element] = self.after.viscosity[at];
            state.sound[element] = self.after.sound[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain() -> Domain {
        Domain::new(Mesh::new(3, 0, 1).unwrap(), Division::default())
    }

    #[test]
    fn a_cycle_of_a_body_at_rest_moves_nothing_and_heats_the_origin_only() {
        let mut domain = domain();
        let before = domain.state().clone();
        domain.compute_forces().unwrap();
        domain.move_nodes();
        domain.compute_motion().unwrap();
        domain.update_material().unwrap();
        assert_eq!(domain.state().position, before.position);
        assert_eq!(domain.state().energy, before.energy);
        let hot: Vec<usize> = (0..27).filter(|at| domain.state().pressure[*at] > 0.0).collect();
        assert_eq!(hot, [0]);
        assert_eq!(domain.state().clock.courant, NO_BOUND);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let mut exploding = domain();
        exploding.state.viscosity[13] = 2.0 * MOST_VISCOSITY;
        assert_eq!(exploding.update_material(), Err(Broken::Viscosity));
        let mut flat = domain();
        flat.state.position[2].fill(0.0);
        assert_eq!(flat.compute_forces(), Err(Broken::Volume));
        assert_eq!(flat.compute_motion(), Err(Broken::Volume));
    }

    #[test]
    fn masses_are_those_of_the_own_elements_until_they_are_exchanged() {
        let mut domain = domain();
        let sum = |masses: &[f64]| masses.iter().sum::<f64>();
        let whole = 1.125_f64.powi(3);
        for _ in 0..2 {
            assert!((sum(domain.masses()) - whole).abs() < 1e-12);
            assert!((sum(&domain.nodal_mass) - whole).abs() < 1e-12);
            domain.reset_nodal_masses();
        }
    }
}
