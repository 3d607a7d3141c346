//! What is said of a result: the energy at the origin, its symmetry, sums, and a fingerprint.
//!
//! All of it comes out of one sum over the ranks. What only the rank at the origin knows is zero
//! on the others, so that the sum is exact; the sums over all elements depend in their last bits
//! on how the ranks are added.

use harness::digest::Digest;

use crate::domain::Domain;
use crate::mesh::Mesh;
use crate::state::Clock;

/// The largest difference between elements that are mirror images of each other.
const MOST_DIFFERENCE: f64 = 1e-8;

/// What all ranks know at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Where the simulation is; the bounds are this rank's own.
    pub clock: Clock,
    /// The result.
    pub totals: Totals,
}

/// Differences between the energies of the elements (j, k) and (k, j) in the plane x = 0 of the
/// rank at the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asymmetry {
    /// The largest one.
    pub max_abs: f64,
    /// All of them.
    pub total_abs: f64,
    /// The largest one relative to the energy.
    pub max_rel: f64,
}

impl Asymmetry {
    /// Of the energies of a cube.
    #[must_use]
    pub fn of(energy: &[f64], edge: usize) -> Self {
        let mut found = Self::default();
        for k in 0..edge {
            for j in 0..k {
                let (one, other) = (energy[j * edge + k], energy[k * edge + j]);
                let difference = (one - other).abs();
                found.max_abs = larger(found.max_abs, difference);
                found.total_abs += difference;
                let relative = difference / other;
                // Nothing compared with nothing.
                if !(difference == 0.0 && relative.is_nan()) {
                    found.max_rel = larger(found.max_rel, relative);
                }
            }
        }
        found
    }

    /// Whether the result is as symmetric as rounding allows; not if it is not a number.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.max_abs <= MOST_DIFFERENCE
    }
}

/// The maximum, which keeps what is not a number.
fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

/// Numbers that are sums over the ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// The energy of the element at the origin.
    pub origin: f64,
    /// How symmetric the rank at the origin is.
    pub asymmetry: Asymmetry,
    /// Σ energy · mass.
    pub energy: f64,
    /// Σ pressure.
    pub pressure: f64,
    /// Σ artificial viscosity.
    pub viscosity: f64,
    /// Σ volume.
    pub volume: f64,
    /// The fingerprint of all fields; a shared node counts once.
    pub digest: Digest,
}

impl Totals {
    /// What one rank contributes.
    #[must_use]
    pub fn of(domain: &Domain) -> Self {
        let (mesh, state) = (domain.mesh(), domain.state());
        let at_origin = mesh.place == [0; 3];
        let weighted = |field: &[f64]| field.iter().zip(domain.masses()).map(|(a, b)| a * b).sum();
        Self {
            origin: if at_origin { state.energy[0] } else { 0.0 },
            asymmetry: if at_origin {
                Asymmetry::of(&state.energy, mesh.edge)
            } else {
                Asymmetry::default()
            },
            energy: weighted(&state.energy),
            pressure: state.pressure.iter().sum(),
            viscosity: state.viscosity.iter().sum(),
            volume: weighted(&state.volume),
            digest: digest(domain),
        }
    }

    /// As numbers whose sums over the ranks are the totals of all.
    #[must_use]
    pub fn to_numbers(&self) -> [f64; 10] {
        let Asymmetry { max_abs, total_abs, max_rel } = self.asymmetry;
        let [low, high] = self.digest.to_limbs();
        let Self { origin, energy, pressure, viscosity, volume, .. } = *self;
        [origin, max_abs, total_abs, max_rel, energy, pressure, viscosity, volume, low, high]
    }

    /// From the sums of what [`Totals::to_numbers`] gave.
    #[must_use]
    pub fn from_numbers(numbers: [f64; 10]) -> Self {
        let [origin, max_abs, total_abs, max_rel, energy, pressure, viscosity, volume, low, high] =
            numbers;
        let asymmetry = Asymmetry { max_abs, total_abs, max_rel };
        let digest = Digest::from_limbs([low, high]);
        Self { origin, asymmetry, energy, pressure, viscosity, volume, digest }
    }
}

/// The fingerprint of a rank's part. Of shared nodes it has those whose owner it is: the rank
/// whose node is not at the end of an axis, or is at the end of the domain.
fn digest(domain: &Domain) -> Digest {
    let mesh = domain.mesh();
    let nodes: Vec<Option<u64>> = mesh.node_places().map(|place| node_id(mesh, place)).collect();
    let elements: Vec<Option<u64>> = mesh
        .element_places()
        .map(|place| Some(position(mesh, place, mesh.global_edge())))
        .collect();
    let mut digest = Digest::EMPTY;
    for (number, field) in domain.state().fields().enumerate() {
        let ids = if field.len() == nodes.len() { &nodes } else { &elements };
        for (id, value) in ids.iter().zip(field) {
            if let Some(id) = id {
                digest = digest.and(Digest::of(id * 16 + number as u64, *value));
            }
        }
    }
    digest
}

fn node_id(mesh: Mesh, place: [usize; 3]) -> Option<u64> {
    let foreign = |axis: usize| place[axis] == mesh.edge && !mesh.is_outermost(axis, true);
    let own = !(0..3).any(foreign);
    own.then(|| position(mesh, place, mesh.global_edge() + 1))
}

/// The number of a place in the whole domain.
fn position(mesh: Mesh, place: [usize; 3], extent: usize) -> u64 {
    let [x, y, z] = [0, 1, 2].map(|axis| mesh.place[axis] * mesh.edge + place[axis]);
    (x + extent * (y + extent * z)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::Division;

    #[test]
    fn mirror_images_are_compared_and_nothing_equals_nothing() {
        let mut energy = vec![0.0; 9];
        assert_eq!(Asymmetry::of(&energy, 3), Asymmetry::default());
        energy[1] = 4.0;
        energy[3] = 5.0;
        energy[7] = 1.0;
        energy[5] = 1.0;
        let found = Asymmetry::of(&energy, 3);
        assert_eq!((found.max_abs, found.total_abs), (1.0, 1.0));
        assert!(!found.passes());
        energy[3] = f64::NAN;
        assert!(Asymmetry::of(&energy, 3).max_abs.is_nan());
        assert!(!Asymmetry::of(&energy, 3).passes());
    }

    #[test]
    fn the_fingerprint_of_the_whole_does_not_depend_on_its_division() {
        let digest = |edge, ranks| {
            let part = |rank| {
                let mesh = Mesh::new(edge, rank, ranks).unwrap();
                super::digest(&Domain::new(mesh, Division::default()))
            };
            (0..ranks).map(part).fold(Digest::EMPTY, Digest::and)
        };
        assert_eq!(digest(6, 1), digest(3, 8));
        assert_eq!(digest(6, 1), digest(2, 27));
        assert_ne!(digest(6, 1), digest(3, 1));
    }
}
