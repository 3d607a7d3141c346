//! All ranks in one process, one step after the other, without MPI and without failures.
//!
//! The exchange copies, and a sum over the ranks is made as a fused commit makes it: ranks beyond
//! a power of two are added to the first ones, then pairs are added, pairs of pairs and so on.
//! This is the yardstick for every other way to run the same problem.

use crate::cg::{Cg, Judgement, Limits, Stop};
use crate::partition::PartitionError;
use crate::system::{Problem, System};
use crate::verify::{self, LocalError};
use harness::digest::Digest;

/// What came out of a solve.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Why it ended.
    pub stop: Stop,
    /// Committed iterations.
    pub iterations: u32,
    /// The norm before the first iteration.
    pub initial_norm: f64,
    /// The norm that the last iteration began with.
    pub final_norm: f64,
    /// The norm that each iteration began with, the first one first.
    pub history: Vec<f64>,
    /// Comparison with the series, all ranks together.
    pub error: LocalError,
    /// The value at the middle node.
    pub centre: f64,
    /// The fingerprint of the solution.
    pub digest: Digest,
}

/// The ranks of a run.
#[derive(Clone, Debug)]
pub struct Lockstep {
    systems: Vec<System>,
    solvers: Vec<Cg>,
}

impl Lockstep {
    /// Builds the systems of all ranks.
    ///
    /// # Errors
    /// [`PartitionError`] if the mesh cannot be divided.
    pub fn new(problem: &Problem, limits: Limits) -> Result<Self, PartitionError> {
        let row_map = problem.divide()?;
        let systems: Vec<System> = (0..problem.ranks)
            .map(|rank| System::build(&row_map, rank, problem.source).0)
            .collect();
        let solvers = systems.iter().map(|system| Cg::new(system, limits)).collect();
        Ok(Self { systems, solvers })
    }

    /// The systems of all ranks.
    #[must_use]
    pub fn systems(&self) -> &[System] {
        &self.systems
    }

    /// The solvers of all ranks.
    #[must_use]
    pub fn solvers(&self) -> &[Cg] {
        &self.solvers
    }

    /// Runs start and iterations to the end.
    pub fn solve(&mut self) -> Solution {
        self.solvers.iter_mut().for_each(Cg::load_initial);
        self.exchange();
        let rt = self.sum_of(Cg::initial_residual);
        self.solvers.iter_mut().for_each(|cg| cg.accept_initial(rt));
        let mut history = Vec::new();
        let stop = loop {
            if let Some(stop) = self.solvers[0].stop() {
                break stop;
            }
            let (norm, judgement) = self.iterate();
            history.push(norm);
            if judgement == Judgement::Breakdown {
                self.solvers.iter_mut().for_each(Cg::break_down);
                break Stop::Breakdown;
            }
        };
        self.summary(stop, rt.sqrt(), history)
    }

    fn iterate(&mut self) -> (f64, Judgement) {
        let dots: Option<Vec<f64>> = self.solvers.iter_mut().map(Cg::local_residual_dot).collect();
        let rt = dots.map(|dots| sum_of_ranks(&dots));
        let mut norm = 0.0;
        for cg in &mut self.solvers {
            norm = cg.form_direction(rt);
        }
        self.exchange();
        let curvature = self.sum_of(Cg::multiply);
        let mut judgement = self.solvers[0].judge(curvature);
        if judgement == Judgement::NormsNeeded {
            let norms = [0, 1].map(|which| {
                let local = self.solvers.iter().map(|cg| cg.local_norms()[which]);
                sum_of_ranks(&local.collect::<Vec<_>>())
            });
            for cg in &mut self.solvers {
                judgement = cg.judge_norms(curvature, norms);
            }
        }
        if judgement == Judgement::Proceed {
            self.solvers.iter_mut().for_each(|cg| cg.commit(curvature));
        }
        (norm, judgement)
    }

    fn sum_of(&mut self, local: impl Fn(&mut Cg, &System) -> f64) -> f64 {
        let pairs = self.solvers.iter_mut().zip(&self.systems);
        sum_of_ranks(&pairs.map(|(cg, system)| local(cg, system)).collect::<Vec<_>>())
    }

    fn exchange(&mut self) {
        for sender in 0..self.systems.len() {
            for to in self.systems[sender].neighbours() {
                let mut message = vec![0.0; to.send_length()];
                to.pack(self.solvers[sender].direction(), &mut message);
                let from = self.systems[to.rank]
                    .neighbours()
                    .iter()
                    .find(|from| from.rank == sender)
                    .expect("neighbour lists are symmetric");
                from.unpack(&message, self.solvers[to.rank].direction_mut());
            }
        }
    }

    fn summary(&self, stop: Stop, initial_norm: f64, history: Vec<f64>) -> Solution {
        let state = self.solvers[0].state();
        let mut solution = Solution {
            stop,
            iterations: state.iteration,
            initial_norm,
            final_norm: state.residual_norm(),
            history,
            error: LocalError::default(),
            centre: 0.0,
            digest: Digest::EMPTY,
        };
        for (system, cg) in self.systems.iter().zip(&self.solvers) {
            let (mesh, numbering, x) = (system.mesh(), system.numbering(), &cg.state().x);
            let local = verify::local_error(mesh, numbering, x);
            solution.error.max_error = solution.error.max_error.max(local.max_error);
            solution.error.points += local.points;
            solution.centre += verify::local_centre(mesh, numbering, x);
            solution.digest = solution.digest.and(verify::local_digest(mesh, numbering, x));
        }
        solution
    }
}

/// The sum of one value per rank, in the order of a fused commit.
///
/// # Panics
/// If there is no rank.
#[must_use]
pub fn sum_of_ranks(values: &[f64]) -> f64 {
    let (core, beyond) = values.split_at(1 << values.len().ilog2());
    let mut sums = core.to_vec();
    sums.iter_mut().zip(beyond).for_each(|(sum, value)| *sum += value);
    while sums.len() > 1 {
        sums = sums.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_pairs_neighbours_after_adding_the_last_to_the_first() {
        let values = [1.0, 1e-16, 1e-16, 1e-16, 1e-16];
        let by_hand = ((values[0] + values[4]) + values[1]) + (values[2] + values[3]);
        assert_eq!(sum_of_ranks(&values).to_bits(), by_hand.to_bits());
        assert_eq!(sum_of_ranks(&[3.0]).to_bits(), 3.0_f64.to_bits());
    }
}
