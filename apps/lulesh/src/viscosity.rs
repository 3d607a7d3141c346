//! Artificial viscosity: what makes a shock a few elements wide.
//!
//! A linear and a quadratic term in the velocity difference across an element, reduced where the
//! velocity changes evenly: φ compares an element's gradient with those of its two neighbours
//! along each axis, and is 1 in smooth flow, 0 in a shock.

use crate::kinematics::{Motion, TINY};
use crate::lanes::Lanes;
use crate::mesh::{Index, Kernel, Mesh};

const LINEAR: f64 = 0.5;
const QUADRATIC: f64 = 2.0 / 3.0;
/// A neighbour's gradient counts at most so many times.
const LIMITER: f64 = 2.0;
/// The largest φ.
const MOST: f64 = 1.0;

/// The two terms, for each element.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Linear; times the speed of sound it is a pressure.
    pub linear: Vec<f64>,
    /// Quadratic; it is a pressure.
    pub quadratic: Vec<f64>,
}

impl Terms {
    /// Zeros.
    #[must_use]
    pub fn new(mesh: Mesh) -> Self {
        let [linear, quadratic] = [0; 2].map(|_| vec![0.0; mesh.elements()]);
        Self { linear, quadratic }
    }

    /// Computes both from the motion, whose gradients have all their layers.
    pub fn compute(&mut self, mesh: Mesh, motion: &Motion) {
        mesh.sweep(&mut Viscosity { motion, terms: self });
    }
}

struct Viscosity<'a> {
    motion: &'a Motion,
    terms: &'a mut Terms,
}

impl Kernel for Viscosity<'_> {
    #[inline(always)]
    fn apply<R: Lanes>(&mut self, place: Index, element: usize) {
        let motion = self.motion;
        let zero = R::all(0.0);
        let (mut linear, mut quadratic) = (zero, zero);
        for (gradient, size) in motion.gradient.iter().zip(&motion.size) {
            let (values, at) = (gradient.values(), gradient.index(place));
            let own = R::load(values, at);
            let before = R::load(values, at - gradient.stride());
            let after = R::load(values, at + gradient.stride());
            let phi = limiter(own, before, after);
            let jump = own * R::load(size, element);
            let jump = jump.if_below(zero, jump, zero);
            linear = linear + jump * (R::all(1.0) - phi);
            quadratic = quadratic + jump * jump * (R::all(1.0) - phi * phi);
        }
        // The mass is the volume at the beginning, the density at which is one.
        let density = R::all(1.0) / R::load(&motion.volume, element);
        let divergence = R::load(&motion.divergence, element);
        let compressed = |term: R| divergence.if_at_most(zero, term, zero);
        let (linear, quadratic) =
            (R::all(-LINEAR) * density * linear, R::all(QUADRATIC) * density * quadratic);
        compressed(linear).store(&mut self.terms.linear, element);
        compressed(quadratic).store(&mut self.terms.quadratic, element);
    }
}

#[inline(always)]
fn limiter<R: Lanes>(own: R, before: R, after: R) -> R {
    let per_own = R::all(1.0) / (own + R::all(TINY));
    let (before, after) = (before * per_own, after * per_own);
    let least = |one: R, other: R| other.if_below(one, other, one);
    let mean = R::all(0.5) * (before + after);
    let bounded = least(least(mean, R::all(LIMITER) * before), R::all(LIMITER) * after);
    let zero = R::all(0.0);
    least(bounded.if_below(zero, zero, bounded), R::all(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_flow_is_not_limited_and_a_lone_jump_is_not_spared() {
        assert_eq!(limiter(2.0, 2.0, 2.0), 1.0);
        assert_eq!(limiter(-2.0, -2.0, -3.0), 1.0);
        assert_eq!(limiter(1.0, 0.0, 1.0), 0.0);
        assert_eq!(limiter(1.0, -1.0, 1.0), 0.0);
        assert_eq!(limiter(1.0, 0.25, 1.0), 0.5);
        assert_eq!(limiter(0.0, 0.0, 0.0), 0.0);
    }
}
