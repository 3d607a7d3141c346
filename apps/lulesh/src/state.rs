//! What a rank has to rescue: everything that the next cycle cannot compute again.

use std::iter;

use crate::mesh::Mesh;

/// The bounds of the time step before there are any.
pub const NO_BOUND: f64 = 1e20;
/// When the simulation is over.
const STOP_TIME: f64 = 1e-2;
const LONGEST_STEP: f64 = 1e-2;
/// A step that could grow by less stays the same; none grows by more than the second.
const GROWTH: [f64; 2] = [1.1, 1.2];

/// Where the simulation is; the same on all ranks, but for the bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The simulated time.
    pub time: f64,
    /// The last time step.
    pub step: f64,
    /// The number of cycles that are done.
    pub cycle: u32,
    /// This rank's bound on the step by Courant's condition.
    pub courant: f64,
    /// This rank's bound on the step by the change of volume.
    pub hydro: f64,
}

impl Clock {
    /// Before the first cycle, with the step that it will take.
    #[must_use]
    pub const fn new(step: f64) -> Self {
        Self { time: 0.0, step, cycle: 0, courant: NO_BOUND, hydro: NO_BOUND }
    }

    /// Whether nothing is left to simulate.
    #[must_use]
    pub fn is_over(&self, most_cycles: u32) -> bool {
        self.time >= STOP_TIME || self.cycle >= most_cycles
    }

    /// The step that this rank could make; the smallest of all ranks is what counts.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let mut bound = NO_BOUND;
        if self.courant < bound {
            bound = self.courant / 2.0;
        }
        if self.hydro < bound {
            bound = self.hydro * 2.0 / 3.0;
        }
        bound
    }

    /// Begins a cycle, for which all ranks together allow `bound`.
    pub fn advance(&mut self, bound: f64) {
        if self.cycle != 0 {
            let ratio = bound / self.step;
            let step = if (1.0..GROWTH[0]).contains(&ratio) {
                self.step
            } else if ratio > GROWTH[1] {
                self.step * GROWTH[1]
            } else {
                bound
            };
            self.step = step.min(LONGEST_STEP);
        }
        let mut left = STOP_TIME - self.time;
        // No tiny step at the end.
        if left > self.step && left < 4.0 * self.step / 3.0 {
            left = 2.0 * self.step / 3.0;
        }
        self.step = self.step.min(left);
        self.time += self.step;
        self.cycle += 1;
    }
}

/// The state of one rank between two cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Time and time step.
    pub clock: Clock,
    /// Nodes: x, y, z.
    pub position: [Vec<f64>; 3],
    /// Nodes: their velocity.
    pub velocity: [Vec<f64>; 3],
    /// Elements: specific energy.
    pub energy: Vec<f64>,
    /// Elements: pressure.
    pub pressure: Vec<f64>,
    /// Elements: artificial viscosity.
    pub viscosity: Vec<f64>,
    /// Elements: volume, relative to that of the beginning.
    pub volume: Vec<f64>,
    /// Elements: speed of sound.
    pub sound: Vec<f64>,
}

const SCALARS: usize = 5;

impl State {
    /// A body at rest, without energy.
    #[must_use]
    pub fn at_rest(mesh: Mesh, step: f64) -> Self {
        let mut position: [Vec<f64>; 3] = [const { Vec::new() }; 3];
        for place in mesh.node_places() {
            for axis in 0..3 {
                position[axis].push(mesh.coordinate(axis, place[axis]));
            }
        }
        let zero = || vec![0.0; mesh.elements()];
        Self {
            clock: Clock::new(step),
            position,
            velocity: [0; 3].map(|_| vec![0.0; mesh.nodes()]),
            energy: zero(),
            pressure: zero(),
            viscosity: zero(),
            volume: vec![1.0; mesh.elements()],
            sound: zero(),
        }
    }

    /// All fields: six of nodes, then five of elements.
    pub fn fields(&self) -> impl Iterator<Item = &Vec<f64>> {
        let elements = [&self.energy, &self.pressure, &self.viscosity, &self.volume, &self.sound];
        self.position.iter().chain(&self.velocity).chain(elements)
    }

    fn fields_mut(&mut self) -> impl Iterator<Item = &mut Vec<f64>> {
        let elements = [
            &mut self.energy,
            &mut self.pressure,
            &mut self.viscosity,
            &mut self.volume,
            &mut self.sound,
        ];
        self.position.iter_mut().chain(&mut self.velocity).chain(elements)
    }

    /// Writes everything into `out`: time, step, cycle, two bounds, then the fields.
    pub fn encode_into(&self, out: &mut Vec<f64>) {
        let Clock { time, step, cycle, courant, hydro } = self.clock;
        out.clear();
        out.extend([time, step, f64::from(cycle), courant, hydro]);
        self.fields().for_each(|field| out.extend_from_slice(field));
    }

    /// How many numbers [`State::encode_into`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        SCALARS + self.fields().map(Vec::len).sum::<usize>()
    }

    /// Reads back what [`State::encode_into`] wrote for the same rank of the same problem.
    ///
    /// # Panics
    /// If `encoded` has another length.
    pub fn decode_from(&mut self, encoded: &[f64]) {
        assert_eq!(encoded.len(), self.encoded_len(), "it is of another problem");
        let (scalars, mut rest) = encoded.split_at(SCALARS);
        let [time, step, cycle, courant, hydro] = [0, 1, 2, 3, 4].map(|at| scalars[at]);
        self.clock = Clock { time, step, cycle: cycle as u32, courant, hydro };
        for field in self.fields_mut() {
            let (values, behind) = rest.split_at(field.len());
            field.copy_from_slice(values);
            rest = behind;
        }
    }
}

/// The nodes of a rank on the side of the domain at the beginning of an axis, which stay there.
#[must_use]
pub fn fixed_nodes(mesh: Mesh, axis: usize) -> Vec<u32> {
    let places = mesh.is_outermost(axis, false).then(|| mesh.node_places());
    let on_side = places.into_iter().flatten().filter(|place| place[axis] == 0);
    on_side.map(|place| mesh.node(place) as u32).collect()
}

/// The specific energy of the element at the origin.
#[must_use]
pub fn deposited(mesh: Mesh) -> f64 {
    let scale = mesh.global_edge() as f64 / 45.0;
    iter::repeat_n(scale, 3).fold(3.948_746e7, |energy, scale| energy * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_state_comes_back_bit_by_bit() {
        let mesh = Mesh::new(3, 5, 8).unwrap();
        let mut state = State::at_rest(mesh, 1e-7);
        state.clock.cycle = 17;
        state.clock.courant = 0.1;
        state.sound[26] = 0.3;
        state.velocity[2][63] = -0.7;
        let mut encoded = Vec::new();
        state.encode_into(&mut encoded);
        assert_eq!((encoded.len(), state.encoded_len()), (5 + 6 * 64 + 5 * 27, encoded.len()));
        let mut other = State::at_rest(mesh, 1.0);
        other.decode_from(&encoded);
        assert_eq!(other, state);
    }

    #[test]
    fn the_step_grows_slowly_and_never_passes_the_end() {
        let mut clock = Clock::new(1e-5);
        clock.advance(7.0);
        assert_eq!((clock.step, clock.time, clock.cycle), (1e-5, 1e-5, 1));
        clock.advance(1.05e-5);
        assert_eq!(clock.step, 1e-5);
        clock.advance(1.15e-5);
        assert_eq!(clock.step, 1.15e-5);
        clock.advance(1.0);
        assert_eq!(clock.step, 1.15e-5 * 1.2);
        clock.advance(1e-6);
        assert_eq!(clock.step, 1e-6);
        clock.time = STOP_TIME - 1.1e-6;
        clock.advance(1e-6);
        assert_eq!(clock.step, 2.0 * 1e-6 / 3.0);
        while !clock.is_over(1000) {
            clock.advance(1e-6);
        }
        assert_eq!(clock.time, STOP_TIME);
        assert!(clock.cycle < 20);
    }

    #[test]
    fn the_bound_is_half_of_courants_unless_the_other_is_below_that() {
        let bound = |courant, hydro| Clock { courant, hydro, ..Clock::new(1.0) }.bound();
        assert_eq!(bound(NO_BOUND, NO_BOUND), NO_BOUND);
        assert_eq!(bound(4.0, NO_BOUND), 2.0);
        assert_eq!(bound(4.0, 3.0), 2.0);
        assert_eq!(bound(4.0, 1.5), 1.0);
    }

    #[test]
    fn the_deposited_energy_is_the_same_for_every_size() {
        for (edge, ranks) in [(2, 1), (45, 1), (5, 8), (7, 27)] {
            let mesh = Mesh::new(edge, 0, ranks).unwrap();
            let volume = (1.125 / mesh.global_edge() as f64).powi(3);
            assert!((deposited(mesh) * volume - 616.991_562_5).abs() < 1e-9);
        }
    }
}
