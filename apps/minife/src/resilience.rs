//! Blocks, copies and recovery: algorithm 2 of the paper, with the dot products inside.
//!
//! One global block per iteration. It carries, every so often, a copy of the state that the
//! iteration began with to the partner rank. When a block is faulty because ranks died, the world
//! is rebuilt (or merged), everybody goes back to the last copy, and the iterations since then
//! run again, with the same bits.
//!
//! The sum of `p·Ap` rides on the commit of the iteration, as nothing of the state has changed by
//! then, and `r·r`, which follows from it, on the commit of a block of its own that has no
//! requests. So an iteration has two commits and no other reduction, as the plain program has two
//! reductions and no commit. Without that (`fused=off`) both sums are requests of the iteration's
//! block.

use std::time::Instant;

use fampi::{BlockOptions, Error, Finished, Level, ReduceOp, Request, Timeout, TryBlock, World};
use harness::account::Account;
use harness::buffers::Buffers;
use harness::survivor::{Detour, Survivor, restore, restored};

use crate::cg::{Cg, Judgement, Stop};
use crate::exchange::{InBlock, Network as _};
use crate::kill_plan::{Mode, Phase};
use crate::options::{Options, OptionsError};
use crate::partition::PartitionError;
use crate::report::SolveTimes;
use crate::rows::RowMap;
use crate::solve::{self, Iteration, Product, Summary};
use crate::system::{SetupTimes, System};

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
    survivor: Survivor<'a, Phase>,
    watch: &'h mut dyn FnMut(u32, f64),
    system: System,
    cg: Cg,
    buffers: Buffers,
    history: Vec<f64>,
    times: SolveTimes,
}

/// Where a solve goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Start,
    Iterate,
    Summarize(Stop),
    /// The world is whole, but the state is not.
    Restore,
    /// Ranks died.
    Rebuild,
}

/// Solves the problem on the ranks of the world, whatever happens to them. Every rank calls it;
/// a replacement joins in where the others are.
///
/// # Errors
/// [`SolveError`], the same on all ranks that live; the world can still be left in order.
pub fn solve<'a>(
    world: World,
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
        survivor: Survivor::new(world, &options.faults, die),
        watch,
        system,
        cg,
        buffers: Buffers::default(),
        history: Vec::new(),
        times: SolveTimes::default(),
    };
    let result = solver.run();
    let Solver { survivor, system, cg, history, times, .. } = solver;
    let (world, resilience) = survivor.end();
    let (stop, summary) = match result {
        Ok(end) => end,
        Err(error) => return (world, Err(error.into())),
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

impl Solver<'_, '_> {
    fn run(&mut self) -> Result<(Stop, Summary), Error> {
        let began = Instant::now();
        let joins = self.survivor.is_replacement();
        let mut next = if joins { Next::Restore } else { Next::Start };
        loop {
            let gone_on = match next {
                Next::Start => self.start(),
                Next::Iterate => self.iterate(),
                Next::Restore => self.restore(),
                Next::Rebuild => {
                    self.survivor.rebuild()?;
                    Ok(Next::Restore)
                }
                Next::Summarize(stop) => match self.summarize() {
                    Ok(summary) => {
                        self.times.total = began.elapsed();
                        return Ok((stop, summary));
                    }
                    Err(detour) => Err(detour),
                },
            };
            next = match gone_on {
                Ok(next) => next,
                Err(Detour::Rebuild) => Next::Rebuild,
                // Nothing has touched the state.
                Err(Detour::Faulty(_)) => next,
                Err(Detour::Lost(error)) => return Err(error),
            };
        }
    }

    fn start(&mut self) -> Result<Next, Detour> {
        self.cg = Cg::new(&self.system, self.options.limits);
        self.history.clear();
        let mut block = self.survivor.world.start(Level::Global)?;
        let mut net = InBlock::new(&mut block, &self.survivor.places, &mut self.buffers);
        let mut result = solve::start(&mut net, &mut self.cg, &self.system);
        if !self.options.faults.fused {
            result = result.and_then(|local| net.sum(local));
        }
        let told =
            result.and_then(|sum| Ok((sum, self.survivor.exchange_news(&mut block, 0, [])?.0)));
        let (block, (sum, news)) = self.survivor.go_on(block, told)?;
        let rt = if self.options.faults.fused {
            let (_, [rt]) = self.survivor.commit_reduced(block, [sum], ReduceOp::Sum)?;
            rt
        } else {
            self.survivor.commit(block)?;
            sum
        };
        self.cg.accept_initial(rt);
        self.survivor.resume(&news);
        Ok(Next::Iterate)
    }

    fn iterate(&mut self) -> Result<Next, Detour> {
        if let Some(stop) = self.cg.stop() {
            return Ok(Next::Summarize(stop));
        }
        let k = self.cg.state().iteration + 1;
        self.survivor.begin(k);
        self.survivor.end_if_planned(Phase::Iteration, k);
        let iteration = if self.options.faults.fused {
            self.iterate_fused(k)?
        } else {
            self.iterate_with_sums(k)?
        };
        self.survivor.end_if_planned(Phase::Update, k);
        Ok(self.accept(k, iteration))
    }

    /// An iteration whose sums are made by commits: of its own block, and of blocks that have no
    /// requests.
    fn iterate_fused(&mut self, k: u32) -> Result<Iteration, Detour> {
        let rt = match self.cg.local_residual_dot() {
            Some(local) => Some(self.sum([local])?[0]),
            None => None,
        };
        let mut block = self.survivor.world.start(Level::Global)?;
        let protected = self.protect(&mut block, k);
        let (mut block, ()) = self.survivor.go_on(block, protected)?;
        let mut passing = self.survivor.passing(k);
        let mut net = InBlock::new(&mut block, &self.survivor.places, &mut self.buffers);
        let (cg, system, times) = (&mut self.cg, &self.system, &mut self.times);
        let overlap = self.options.overlap;
        let result = solve::multiply(&mut net, cg, system, rt, overlap, times, &mut passing);
        let sends = net.into_sends();
        let (block, Product { norm, local }) = self.survivor.go_on(block, result)?;
        passing(Phase::Dot);
        passing(Phase::Finish);
        let (finished, [curvature]) =
            self.survivor.commit_reduced(block, [local], ReduceOp::Sum)?;
        self.take_back(&finished, sends);
        let mut judgement = self.cg.judge(curvature);
        if judgement == Judgement::NormsNeeded {
            let norms = self.sum(self.cg.local_norms())?;
            judgement = self.cg.judge_norms(curvature, norms);
        }
        Ok(Iteration { norm, curvature, judgement })
    }

    /// An iteration whose sums are requests of its block.
    fn iterate_with_sums(&mut self, k: u32) -> Result<Iteration, Detour> {
        let mut block = self.survivor.world.start(Level::Global)?;
        let protected = self.protect(&mut block, k);
        let (mut block, ()) = self.survivor.go_on(block, protected)?;
        let mut passing = self.survivor.passing(k);
        let mut net = InBlock::new(&mut block, &self.survivor.places, &mut self.buffers);
        let (cg, system, times) = (&mut self.cg, &self.system, &mut self.times);
        let overlap = self.options.overlap;
        let result = solve::iterate(&mut net, cg, system, overlap, times, &mut passing);
        let sends = net.into_sends();
        let (block, iteration) = self.survivor.go_on(block, result)?;
        passing(Phase::Finish);
        let finished = self.survivor.commit(block)?;
        self.take_back(&finished, sends);
        Ok(iteration)
    }

    /// Sums over the ranks, by the commit of a block that has no requests.
    fn sum<const N: usize>(&mut self, local: [f64; N]) -> Result<[f64; N], Detour> {
        let began = Instant::now();
        let block = self.survivor.world.start(Level::Global)?;
        let (_, sums) = self.survivor.commit_reduced(block, local, ReduceOp::Sum)?;
        self.times.dot += began.elapsed();
        Ok(sums)
    }

    fn take_back(&mut self, finished: &Finished, sends: Vec<Request<f64>>) {
        let buffers = sends.into_iter().filter_map(|request| finished.take(request).ok());
        buffers.for_each(|buffer| self.buffers.put(buffer));
    }

    fn accept(&mut self, k: u32, iteration: Iteration) -> Next {
        let Iteration { norm, curvature, judgement } = iteration;
        let began = Instant::now();
        self.history.push(norm);
        if judgement == Judgement::Breakdown {
            self.cg.break_down();
            return Next::Summarize(Stop::Breakdown);
        }
        self.cg.commit(curvature);
        self.times.waxpy += began.elapsed();
        self.survivor.done(k);
        (self.watch)(k, norm);
        Next::Iterate
    }

    fn summarize(&mut self) -> Result<Summary, Detour> {
        let mut block = self.survivor.world.start(Level::Global)?;
        let mut net = InBlock::new(&mut block, &self.survivor.places, &mut self.buffers);
        let result = solve::summarize(&mut net, &self.cg, &self.system);
        let (block, summary) = self.survivor.go_on(block, result)?;
        self.survivor.commit(block)?;
        Ok(summary)
    }

    /// A copy of the state before iteration k, with the norms so far, if it is time for one.
    fn protect(&mut self, block: &mut TryBlock, k: u32) -> Result<(), Error> {
        let (state, history) = (self.cg.state(), &self.history);
        let norms = self.options.limits.max_iterations as usize;
        self.survivor.protect(block, k, |copy| {
            copy.clear();
            copy.resize(state.encoded_len() + norms, 0.0);
            let (encoded, old) = copy.split_at_mut(state.encoded_len());
            state.encode_into(encoded);
            old[..history.len()].copy_from_slice(history);
        })
    }

    fn restore(&mut self) -> Result<Next, Detour> {
        let began = Instant::now();
        let world = self.survivor.world.comm();
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            let copy = restore(block)?;
            let (encoded, norms) = copy.split_at(self.cg.state().encoded_len());
            self.cg.restore(encoded);
            let k = self.cg.state().iteration;
            self.history.clear();
            self.history.extend_from_slice(&norms[..k as usize]);
            Ok(self.survivor.exchange_news(block, k, [])?.0)
        })?;
        self.survivor.add_recovery(began);
        let Some(news) = restored(tried)? else { return Ok(Next::Start) };
        self.survivor.resume(&news);
        Ok(Next::Iterate)
    }
}
