//! Conjugate gradients, cut into pure steps between the communications.
//!
//! A driver owns the network; this type owns the recurrence. One iteration reads the committed
//! [`State`] and writes only scratch (the next direction, its product with the matrix, two
//! scalars) until [`Cg::commit`]. A driver that loses a rank in the middle of an iteration
//! therefore has nothing to undo: the state is that of the last committed iteration, and the
//! iteration can be run again.
//!
//! ```text
//!  start:      load_initial · [exchange direction] · initial_residual → [sum] → accept_initial
//!  iteration:  stop? · local_residual_dot → [sum] → form_direction · [exchange direction]
//!              · multiply → [sum] → judge (→ local_norms → [sum] → judge_norms) · commit
//! ```
//!
//! In the first iteration `local_residual_dot` is `None` and nothing is summed: the norm of the
//! start is used again. The stopping rule looks at the norm that an iteration *began* with, so
//! the final norm that is reported is the one before the last update, as in the reference.
//!
//! **Guarantees.** All decisions depend on reduced values only, so all ranks decide the same. A
//! state that was encoded, sent and decoded continues with the same bits: the dot product that a
//! commit computes on the way is recomputed after a restore, in the same order.

use crate::mesh::Bounds;
use crate::system::System;
use crate::vector;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of iterations.
    pub max_iterations: u32,
    /// The residual norm that is small enough.
    pub tolerance: f64,
}

impl Default for Limits {
    /// 200 iterations and the machine epsilon, as the reference has them.
    fn default() -> Self {
        Self { max_iterations: 200, tolerance: f64::EPSILON }
    }
}

/// Why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The norm is at most the tolerance.
    Converged,
    /// All allowed iterations are done.
    IterationLimit,
    /// The direction has no curvature left (`p·Ap` is negative or lost in rounding), or a norm is
    /// not a number.
    Breakdown,
}

/// What to do with the curvature `p·Ap` of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Commit the iteration.
    Proceed,
    /// Suspiciously small: sum [`Cg::local_norms`] over the ranks and call [`Cg::judge_norms`].
    NormsNeeded,
    /// End the solve without committing.
    Breakdown,
}

/// What has to be rescued when a rank is lost: the solve after a whole number of iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Committed iterations.
    pub iteration: u32,
    /// `r·r` over all ranks at the beginning of the last iteration.
    pub rt: f64,
    /// The curvature below which the next iteration suspects a breakdown.
    pub breakdown_floor: f64,
    /// The solution, own rows.
    pub x: Vec<f64>,
    /// The residual, own rows.
    pub r: Vec<f64>,
    /// The last direction: own rows, followed by external columns whose values mean nothing.
    pub p: Vec<f64>,
}

const SCALARS: usize = 3;

impl State {
    /// The state before anything has happened.
    #[must_use]
    pub fn zero(system: &System) -> Self {
        let rows = system.own_rows();
        Self {
            iteration: 0,
            rt: f64::INFINITY,
            breakdown_floor: f64::EPSILON,
            x: vec![0.0; rows],
            r: vec![0.0; rows],
            p: vec![0.0; system.numbering().column_count()],
        }
    }

    /// The number of values of an encoded state.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        Self::encoded_rows(self.x.len())
    }

    /// The number of values of an encoded state with so many own rows.
    #[must_use]
    pub const fn encoded_rows(rows: usize) -> usize {
        SCALARS + 3 * rows
    }

    /// Writes the state into `out`: iteration, rt, floor, then x, r and the own part of p.
    ///
    /// # Panics
    /// If `out` does not have [`State::encoded_len`] values.
    pub fn encode_into(&self, out: &mut [f64]) {
        let rows = self.x.len();
        let (scalars, vectors) = out.split_at_mut(SCALARS);
        scalars.copy_from_slice(&[f64::from(self.iteration), self.rt, self.breakdown_floor]);
        let parts = [&self.x[..], &self.r[..], &self.p[..rows]];
        assert_eq!(vectors.len(), 3 * rows, "an encoded state has three vectors");
        if rows > 0 {
            for (out, part) in vectors.chunks_exact_mut(rows).zip(parts) {
                out.copy_from_slice(part);
            }
        }
    }

    /// Reads back what [`State::encode_into`] wrote for the same rank of the same problem.
    ///
    /// # Panics
    /// If `encoded` does not have [`State::encoded_len`] values.
    pub fn decode_from(&mut self, encoded: &[f64]) {
        let rows = self.x.len();
        assert_eq!(encoded.len(), self.encoded_len(), "an encoded state has three vectors");
        self.iteration = encoded[0] as u32;
        self.rt = encoded[1];
        self.breakdown_floor = encoded[2];
        let vectors = &encoded[SCALARS..];
        self.x.copy_from_slice(&vectors[..rows]);
        self.r.copy_from_slice(&vectors[rows..2 * rows]);
        self.p[..rows].copy_from_slice(&vectors[2 * rows..]);
    }

    /// Takes what another division of the mesh has of these nodes: an encoded state of the rank
    /// whose nodes are `theirs`, for one whose nodes are `mine`. Of all ranks together the whole
    /// state is taken.
    ///
    /// # Panics
    /// If `encoded` is not as long as the state of that rank.
    pub fn take_from(&mut self, mine: &Bounds, theirs: &Bounds, encoded: &[f64]) {
        let (scalars, vectors) = encoded.split_at(SCALARS);
        self.iteration = scalars[0] as u32;
        (self.rt, self.breakdown_floor) = (scalars[1], scalars[2]);
        let (theirs_rows, parts) = (theirs.len(), [&mut self.x, &mut self.r, &mut self.p]);
        assert_eq!(vectors.len(), 3 * theirs_rows, "an encoded state has three vectors");
        for (part, vector) in parts.into_iter().zip(vectors.chunks_exact(theirs_rows.max(1))) {
            for node in mine.meet(theirs).iter() {
                part[mine.offset(node)] = vector[theirs.offset(node)];
            }
        }
    }

    /// √rt: the norm that the last iteration began with.
    #[must_use]
    pub fn residual_norm(&self) -> f64 {
        self.rt.sqrt()
    }
}

/// The solver of one rank.
#[derive(Clone, Debug)]
pub struct Cg {
    limits: Limits,
    state: State,
    /// The local part of r·r when the last commit left it.
    residual_dot: Option<f64>,
    /// Scratch of the running iteration: direction with external columns, its product, r·r.
    direction: Vec<f64>,
    product: Vec<f64>,
    rt: f64,
    floor: f64,
}

impl Cg {
    /// A solver at the state zero.
    #[must_use]
    pub fn new(system: &System, limits: Limits) -> Self {
        let state = State::zero(system);
        Self {
            limits,
            direction: state.p.clone(),
            product: vec![0.0; system.own_rows()],
            rt: state.rt,
            floor: state.breakdown_floor,
            residual_dot: None,
            state,
        }
    }

    /// The committed state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// When the solve ends.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Continues from an encoded state of the same rank of the same problem.
    pub fn restore(&mut self, encoded: &[f64]) {
        self.state.decode_from(encoded);
        self.residual_dot = None;
    }

    /// Continues from encoded states of other ranks, of which this is one ([`State::take_from`]).
    pub fn take_from(&mut self, mine: &Bounds, theirs: &Bounds, encoded: &[f64]) {
        self.state.take_from(mine, theirs, encoded);
        self.residual_dot = None;
    }

    /// The vector to exchange: own values to pack from, external sections to unpack into.
    #[must_use]
    pub fn direction_mut(&mut self) -> &mut [f64] {
        &mut self.direction
    }

    /// The vector to exchange, to pack from.
    #[must_use]
    pub fn direction(&self) -> &[f64] {
        &self.direction
    }

    /// Start, first step: the direction is the first guess. Exchange it next.
    pub fn load_initial(&mut self) {
        self.direction[..self.state.x.len()].copy_from_slice(&self.state.x);
    }

    /// Start, second step: r = b − A·x; returns the local part of r·r.
    #[must_use]
    pub fn initial_residual(&mut self, system: &System) -> f64 {
        let _ = system.matrix().multiply(&self.direction, &mut self.product);
        vector::combine(system.rhs(), -1.0, &self.product, &mut self.state.r);
        self.residual_dot = None;
        vector::dot(&self.state.r, &self.state.r)
    }

    /// Start, last step: takes r·r over all ranks.
    pub fn accept_initial(&mut self, rt: f64) {
        self.state.rt = rt;
    }

    /// Whether the solve is over before another iteration.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        let norm = self.state.residual_norm();
        if norm.is_nan() {
            Some(Stop::Breakdown)
        } else if norm <= self.limits.tolerance {
            Some(Stop::Converged)
        } else if self.state.iteration >= self.limits.max_iterations {
            Some(Stop::IterationLimit)
        } else {
            None
        }
    }

    /// Whether the reference prints the norm of iteration `k`.
    #[must_use]
    pub fn prints(&self, k: u32) -> bool {
        k.is_multiple_of(20) || k == self.limits.max_iterations
    }

    /// The local part of r·r; `None` in the first iteration, which needs no sum.
    #[must_use]
    pub fn local_residual_dot(&mut self) -> Option<f64> {
        let r = &self.state.r;
        (self.state.iteration > 0)
            .then(|| *self.residual_dot.get_or_insert_with(|| vector::dot(r, r)))
    }

    /// Forms the direction from r·r over all ranks (`None` in the first iteration). Exchange it
    /// next. Returns the norm that this iteration begins with.
    ///
    /// # Panics
    /// If the sum is missing after the first iteration.
    pub fn form_direction(&mut self, rt: Option<f64>) -> f64 {
        let State { iteration, rt: old, r, p, .. } = &self.state;
        let own = &mut self.direction[..r.len()];
        if *iteration == 0 {
            self.rt = *old;
            own.copy_from_slice(r);
        } else {
            self.rt = rt.expect("from the second iteration on r·r is summed over the ranks");
            vector::combine(r, self.rt / old, p, own);
        }
        self.floor = self.state.breakdown_floor;
        self.rt.sqrt()
    }

    /// A times the exchanged direction; returns the local part of p·Ap.
    #[must_use]
    pub fn multiply(&mut self, system: &System) -> f64 {
        system.matrix().multiply(&self.direction, &mut self.product)
    }

    /// The rows of the product that need no external values, while messages are on their way.
    pub fn multiply_interior(&mut self, system: &System) {
        for rows in system.interior_rows() {
            system.matrix().multiply_rows(rows.clone(), &self.direction, &mut self.product);
        }
    }

    /// The other rows, after the messages; returns the local part of p·Ap. Together with
    /// [`Cg::multiply_interior`] the same bits as [`Cg::multiply`].
    #[must_use]
    pub fn multiply_edge(&mut self, system: &System) -> f64 {
        for rows in system.edge_rows() {
            system.matrix().multiply_rows(rows.clone(), &self.direction, &mut self.product);
        }
        vector::dot(&self.product, &self.direction)
    }

    /// Looks at p·Ap over all ranks.
    #[must_use]
    pub fn judge(&self, curvature: f64) -> Judgement {
        if curvature >= self.state.breakdown_floor {
            Judgement::Proceed
        } else if curvature < 0.0 {
            Judgement::Breakdown
        } else {
            Judgement::NormsNeeded
        }
    }

    /// The local parts of Ap·Ap and p·p.
    #[must_use]
    pub fn local_norms(&self) -> [f64; 2] {
        let own = &self.direction[..self.product.len()];
        [vector::dot(&self.product, &self.product), vector::dot(own, own)]
    }

    /// Decides about a small p·Ap with the sums of [`Cg::local_norms`] over all ranks.
    #[must_use]
    pub fn judge_norms(&mut self, curvature: f64, norms: [f64; 2]) -> Judgement {
        let rounding = 100.0 * f64::EPSILON * norms[0].sqrt() * norms[1].sqrt();
        if curvature.abs() <= rounding {
            Judgement::Breakdown
        } else {
            self.floor = 0.1 * curvature;
            Judgement::Proceed
        }
    }

    /// Ends the iteration: x and r move along the direction. Local, and nothing before it has
    /// touched the state.
    pub fn commit(&mut self, curvature: f64) {
        let state = &mut self.state;
        let alpha = self.rt / curvature;
        let local = vector::step(alpha, &self.direction, &self.product, &mut state.x, &mut state.r);
        self.residual_dot = Some(local);
        std::mem::swap(&mut state.p, &mut self.direction);
        state.rt = self.rt;
        state.breakdown_floor = self.floor;
        state.iteration += 1;
    }

    /// Ends the solve in the middle of an iteration: only its norm is kept.
    pub fn break_down(&mut self) {
        self.state.rt = self.rt;
    }
}

#[cfg(test)]
mod tests;
