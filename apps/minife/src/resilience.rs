//! Blocks, copies and recovery: algorithm 2 of the paper, with the dot products inside.
//!
//! One step of a run ([`World::run`]) per iteration. Its block carries, every so often, a copy of
//! the state that the iteration began with to the partner rank. When a block is faulty because
//! ranks died, the run rebuilds (or merges) the world, all ranks go back to the last copy, and the
//! iterations since then run again, with the same bits.
//!
//! The sum of `p·Ap` rides on the commit of the iteration, as nothing of the state has changed by
//! then, and `r·r`, which follows from it, on the commit of a block of its own that has no
//! requests. So an iteration has two commits and no other reduction, as the plain program has two
//! reductions and no commit. Without that (`fused=off`) both sums are requests of the iteration's
//! block.

use std::cell::RefCell;
use std::time::Instant;

use fampi::{
    Ended, Error, FaultCode, FaultReport, Finished, Flow, Interval, ReduceOp, Redundancy, Request,
    Saved, State, Step, TryBlock, World,
};
use harness::account::Account;
use harness::buffers::{Buffers, Places};
use harness::kill_plan::{Mode, Phase};
use harness::witness::Witness;

use crate::cg::{self, Cg, Judgement, Stop};
use crate::exchange::{InBlock, Network as _};
use crate::kill_plan;
use crate::options::{Options, OptionsError};
use crate::partition::PartitionError;
use crate::report::SolveTimes;
use crate::rows::RowMap;
use crate::solve::{self, Iteration, Product, Summary};
use crate::system::{Problem, SetupTimes, System};

/// The number of the protected state.
const STATE: u32 = 0;
/// The numbers in it that say which problem it is of.
const PROBLEM: usize = 5;
/// The code of a rank that finds it to be of another one.
const OTHER_PROBLEM: i32 = 1001;

/// How to end this process, and to see how far the solve is.
pub struct Hooks<'a> {
    /// Ends the process in this way.
    pub die: &'a dyn Fn(Mode),
    /// Sees each committed iteration and its norm.
    pub watch: &'a mut dyn FnMut(u32, f64),
}

/// Why a solve could not be brought to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// The mesh cannot be divided among the ranks.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The options do not fit the number of ranks.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The state of a checkpoint is that of another solve.
    #[error(
        "the checkpoint is not of {} × {} × {} elements with this imbalance, source and limit of \
         iterations; start with the options of the job that saved it",
        .0[0], .0[1], .0[2]
    )]
    OtherProblem([usize; 3]),
    /// Recovery is not possible.
    #[error(transparent)]
    Lost(#[from] Error),
}

impl SolveError {
    /// The error of the library, if recovery is not possible.
    #[must_use]
    pub const fn lost(&self) -> Option<&Error> {
        if let Self::Lost(error) = self { Some(error) } else { None }
    }
}

/// The end of a solve, on every rank.
#[derive(Clone, Debug)]
pub struct Solved {
    /// Partition and sizes.
    pub row_map: RowMap,
    /// Why it ended.
    pub stop: Stop,
    /// Committed iterations.
    pub iterations: u32,
    /// The norm that the last iteration began with.
    pub residual: f64,
    /// The norm that each iteration began with.
    pub history: Vec<f64>,
    /// What all ranks know of the solution.
    pub summary: Summary,
    /// Bytes of this rank's matrix.
    pub matrix_bytes: usize,
    /// Set-up times of this rank.
    pub setup: SetupTimes,
    /// Solve times of this rank.
    pub times: SolveTimes,
    /// What resilience did.
    pub resilience: Account,
}

/// A solve on one rank.
struct Solver<'a, 'h> {
    options: &'a Options,
    witness: Witness<'a>,
    watch: &'h mut dyn FnMut(u32, f64),
    places: Places,
    problem: Problem,
    system: System,
    cg: Cg,
    buffers: Buffers,
    history: Vec<f64>,
    times: SolveTimes,
    /// The encoded state, on its way into a block.
    copy: RefCell<Vec<f64>>,
    /// The residual of the first guess has still to be made.
    begins: bool,
    /// All ranks know of each other where they are.
    joined: bool,
}

/// Solves the problem on the ranks of the world, whatever happens to them. Every rank calls it;
/// a replacement joins in where the others are.
///
/// # Errors
/// [`SolveError`], the same on all ranks that live; the world can still be left in order.
pub fn solve<'a>(
    mut world: World,
    options: &'a Options,
    hooks: Hooks<'a>,
) -> (World, Result<Solved, SolveError>) {
    let problem = options.problem(world.size() as usize).map_err(SolveError::from);
    let divided = problem.and_then(|problem| Ok((problem, problem.divide()?)));
    let (problem, row_map) = match divided {
        Ok(divided) => divided,
        Err(error) => return (world, Err(error)),
    };
    let (system, setup) = System::build(&row_map, world.origin() as usize, problem.source);
    let cg = Cg::new(&system, options.limits);
    let Hooks { die, watch } = hooks;
    let mut solver = Solver {
        options,
        witness: Witness::new(&world, &options.faults, die),
        watch,
        places: Places::of(&world),
        problem,
        system,
        cg,
        buffers: Buffers::default(),
        history: Vec::new(),
        times: SolveTimes::default(),
        copy: RefCell::default(),
        begins: true,
        joined: false,
    };
    let (began, policy, mut end) = (Instant::now(), solver.witness.policy(), None);
    let ended = world.run(&policy, &mut solver, |step, solver| {
        end = solver.step(step)?;
        Ok(if end.is_none() { Flow::Continue } else { Flow::Done })
    });
    solver.times.total = began.elapsed();
    let Solver { witness, system, cg, history, times, .. } = solver;
    let resilience = witness.end(&world);
    if let Ok(Ended::Escalated { report, .. }) = &ended
        && is_of_another(report)
    {
        return (world, Err(SolveError::OtherProblem(problem.mesh.elements())));
    }
    let (stop, summary) = match (ended.and_then(Ended::done), end) {
        (Ok(_), Some(end)) => end,
        (Ok(_), None) => unreachable!("the last step is the one that has an end"),
        (Err(error), _) => return (world, Err(error.into())),
    };
    let solved = Solved {
        row_map,
        stop,
        iterations: cg.state().iteration,
        residual: cg.state().residual_norm(),
        history,
        summary,
        matrix_bytes: system.matrix().bytes(),
        setup,
        times,
        resilience,
    };
    (world, Ok(solved))
}

/// True when a rank has found its state to be of another problem.
fn is_of_another(report: &FaultReport) -> bool {
    report.faults().iter().any(|fault| fault.code == FaultCode::Application(OTHER_PROBLEM))
}

impl State for Solver<'_, '_> {
    const RESIZES: bool = true;

    fn interval(&self) -> Interval {
        self.options.faults.interval()
    }

    fn redundancy(&self) -> Redundancy {
        self.options.faults.redundancy
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.cg = Cg::new(&self.system, self.options.limits);
        self.history.clear();
        (self.begins, self.joined) = (true, false);
        Ok(())
    }

    /// What the problem is, the state before an iteration, and the norms so far.
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        let (state, copy) = (self.cg.state(), &mut *self.copy.borrow_mut());
        let norms = self.options.limits.max_iterations as usize;
        let (begin, end) = (PROBLEM, PROBLEM + state.encoded_len());
        copy.clear();
        copy.resize(end + norms, 0.0);
        copy[..begin].copy_from_slice(&self.problem.numbers());
        state.encode_into(&mut copy[begin..end]);
        copy[end..][..self.history.len()].copy_from_slice(&self.history);
        block.protect(STATE, copy)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        let copy: Vec<f64> = block.restore(STATE)?;
        let (encoded, norms) = self.parts(&copy, self.system.own_rows())?;
        self.cg.restore(encoded);
        self.remember(norms);
        Ok(())
    }

    /// Takes the nodes of this rank from the ranks that had them when there were more, or fewer.
    fn resize(&mut self, _: &mut TryBlock, saved: &mut Saved<'_>) -> Result<(), Error> {
        let before = Problem { ranks: saved.saved_ranks() as usize, ..self.problem };
        let before = before.divide().map_err(|_| Error::Raised(OTHER_PROBLEM))?;
        let mine = self.system.numbering().own_nodes();
        for rank in 0..saved.saved_ranks() {
            let theirs = before.node_box(rank as usize);
            if rank > 0 && mine.meet(&theirs).is_empty() {
                continue;
            }
            let copy: Vec<f64> = saved.state(rank, STATE)?;
            let (encoded, norms) = self.parts(&copy, theirs.len())?;
            self.cg.take_from(&mine, &theirs, encoded);
            self.remember(norms);
        }
        Ok(())
    }
}

impl Solver<'_, '_> {
    /// The encoded state of so many rows in a copy, and the norms; an error if it is that of
    /// another problem, as a checkpoint can be.
    fn parts<'c>(&self, copy: &'c [f64], rows: usize) -> Result<(&'c [f64], &'c [f64]), Error> {
        let rest = copy.strip_prefix(&self.problem.numbers());
        let parts = rest.and_then(|it| it.split_at_checked(cg::State::encoded_rows(rows)));
        let norms = self.options.limits.max_iterations as usize;
        parts.filter(|parts| parts.1.len() == norms).ok_or(Error::Raised(OTHER_PROBLEM))
    }

    /// Goes on behind the iterations that began with the first of these norms.
    fn remember(&mut self, norms: &[f64]) {
        self.history.clear();
        let iterations = self.cg.state().iteration as usize;
        self.history.extend(norms.iter().take(iterations));
        (self.begins, self.joined) = (false, false);
    }

    /// An iteration, or the end.
    fn step(&mut self, step: &mut Step<'_>) -> Result<Option<(Stop, Summary)>, Error> {
        if !self.joined {
            self.join(step)?;
        }
        if let Some(stop) = self.cg.stop() {
            return self.summarize(step, stop);
        }
        let k = self.cg.state().iteration + 1;
        self.witness.begin(k);
        let mut passing = self.witness.passing(k);
        passing(kill_plan::ITERATION);
        let iteration = if self.options.faults.fused {
            self.iterate_fused(step, &mut passing)?
        } else {
            self.iterate_with_sums(step, &mut passing)?
        };
        passing(Phase::UPDATE);
        self.accept(step, k, iteration)
    }

    /// What comes before iterations: the residual, if there is none, and what all ranks have to
    /// know of each other.
    fn join(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        self.places = Places::of(step.world());
        let mut sum = None;
        if self.begins {
            let mut net = InBlock::new(step, &self.places, &mut self.buffers);
            let local = solve::start(&mut net, &mut self.cg, &self.system)?;
            sum = Some(if self.options.faults.fused { local } else { net.sum(local)? });
        }
        let (news, []) = self.witness.exchange_news(step, self.cg.state().iteration, [])?;
        if let Some(local) = sum.filter(|_| self.options.faults.fused) {
            sum = Some(self.witness.commit_reduced(step, [local], ReduceOp::Sum)?.0[0]);
        } else {
            self.witness.commit(step)?;
        }
        if let Some(rt) = sum {
            self.cg.accept_initial(rt);
        }
        (self.begins, self.joined) = (false, true);
        self.witness.resume(step, news);
        Ok(())
    }

    /// An iteration whose sums are made by commits: of its own block, and of blocks that have no
    /// requests.
    fn iterate_fused(
        &mut self,
        step: &mut Step<'_>,
        passing: &mut dyn FnMut(Phase),
    ) -> Result<Iteration, Error> {
        let rt = match self.cg.local_residual_dot() {
            Some(local) => Some(self.sum(step, [local])?[0]),
            None => None,
        };
        self.protect_now(step)?;
        let mut net = InBlock::new(step, &self.places, &mut self.buffers);
        let (cg, system, times) = (&mut self.cg, &self.system, &mut self.times);
        let overlap = self.options.overlap;
        let product = solve::multiply(&mut net, cg, system, rt, overlap, times, passing)?;
        let (sends, Product { norm, local }) = (net.into_sends(), product);
        passing(kill_plan::DOT);
        passing(Phase::FINISH);
        let ([curvature], finished) = self.witness.commit_reduced(step, [local], ReduceOp::Sum)?;
        self.take_back(&finished, sends);
        let mut judgement = self.cg.judge(curvature);
        if judgement == Judgement::NormsNeeded {
            let norms = self.sum(step, self.cg.local_norms())?;
            judgement = self.cg.judge_norms(curvature, norms);
        }
        Ok(Iteration { norm, curvature, judgement })
    }

    /// An iteration whose sums are requests of its block.
    fn iterate_with_sums(
        &mut self,
        step: &mut Step<'_>,
        passing: &mut dyn FnMut(Phase),
    ) -> Result<Iteration, Error> {
        self.protect_now(step)?;
        let mut net = InBlock::new(step, &self.places, &mut self.buffers);
        let (cg, system, times) = (&mut self.cg, &self.system, &mut self.times);
        let iteration = solve::iterate(&mut net, cg, system, self.options.overlap, times, passing)?;
        let sends = net.into_sends();
        passing(Phase::FINISH);
        let finished = self.witness.commit(step)?;
        self.take_back(&finished, sends);
        Ok(iteration)
    }

    fn protect_now(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let began = Instant::now();
        step.protect_now(self)?;
        self.witness.add_copy(began);
        Ok(())
    }

    /// Sums over the ranks, by the commit of a block that has no requests.
    fn sum<const N: usize>(
        &mut self,
        step: &mut Step<'_>,
        local: [f64; N],
    ) -> Result<[f64; N], Error> {
        let began = Instant::now();
        let (sums, _) = self.witness.commit_reduced(step, local, ReduceOp::Sum)?;
        self.times.dot += began.elapsed();
        Ok(sums)
    }

    fn take_back(&mut self, finished: &Finished, sends: Vec<Request<f64>>) {
        let buffers = sends.into_iter().filter_map(|request| finished.take(request).ok());
        buffers.for_each(|buffer| self.buffers.put(buffer));
    }

    /// The update of the solution after a committed iteration, or the end if there can be none.
    fn accept(
        &mut self,
        step: &mut Step<'_>,
        k: u32,
        iteration: Iteration,
    ) -> Result<Option<(Stop, Summary)>, Error> {
        let Iteration { norm, curvature, judgement } = iteration;
        let began = Instant::now();
        self.history.push(norm);
        if judgement == Judgement::Breakdown {
            self.cg.break_down();
            return self.summarize(step, Stop::Breakdown);
        }
        self.cg.commit(curvature);
        self.times.waxpy += began.elapsed();
        self.witness.done(step, k);
        (self.watch)(k, norm);
        Ok(None)
    }

    fn summarize(
        &mut self,
        step: &mut Step<'_>,
        stop: Stop,
    ) -> Result<Option<(Stop, Summary)>, Error> {
        let mut net = InBlock::new(step, &self.places, &mut self.buffers);
        Ok(Some((stop, solve::summarize(&mut net, &self.cg, &self.system)?)))
    }
}
