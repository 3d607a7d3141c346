//! Blocks, copies and recovery: algorithm 2 of the paper, with the dot products inside.
//!
//! One global block per iteration. It carries, every so often, a copy of the state that the
//! iteration began with to the partner rank. When a block is faulty because ranks died, the world
//! is rebuilt (or merged), everybody goes back to the last copy, and the iterations since then
//! run again, with the same bits.

use std::time::Instant;

use fampi::{BlockOptions, Error, Finished, Level, Timeout, TryBlock, World};
use harness::block::{lost_ranks, wait};
use harness::buffers::{Buffers, Places};

use crate::cg::{Cg, Judgement, Stop};
use crate::exchange::InBlock;
use crate::kill_plan::{Mode, Phase};
use crate::options::Options;
use crate::partition::PartitionError;
use crate::report::{Resilience, SolveTimes};
use crate::rows::RowMap;
use crate::solve::{self, Iteration, Summary};
use crate::system::{SetupTimes, System};

/// The number of the protected state.
const STATE: u32 = 0;

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
    Options(#[from] crate::options::OptionsError),
    /// Recovery is not possible.
    #[error(transparent)]
    Lost(#[from] Error),
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
    pub resilience: Resilience,
}

/// A solve on one rank.
struct Solver<'a, 'h> {
    options: &'a Options,
    hooks: Hooks<'h>,
    world: World,
    places: Places,
    system: System,
    cg: Cg,
    buffers: Buffers,
    history: Vec<f64>,
    copy: Vec<f64>,
    times: SolveTimes,
    resilience: Resilience,
    recoveries_joined: u32,
    immortal: bool,
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
pub fn solve(
    world: World,
    options: &Options,
    hooks: Hooks<'_>,
) -> (World, Result<Solved, SolveError>) {
    let problem = options.problem(world.size() as usize).map_err(SolveError::from);
    let divided = problem.and_then(|problem| Ok((problem, problem.divide()?)));
    let (problem, row_map) = match divided {
        Ok(divided) => divided,
        Err(error) => return (world, Err(error)),
    };
    let (system, setup) = System::build(&row_map, world.origin() as usize, problem.source);
    let cg = Cg::new(&system, options.limits);
    let mut solver = Solver {
        options,
        hooks,
        places: Places::of(&world),
        immortal: world.is_replacement(),
        world,
        system,
        cg,
        buffers: Buffers::default(),
        history: Vec::new(),
        copy: Vec::new(),
        times: SolveTimes::default(),
        resilience: Resilience::default(),
        recoveries_joined: 0,
    };
    let result = solver.run();
    let Solver { world, system, cg, history, times, resilience, .. } = solver;
    let (stop, summary) = match result {
        Ok(end) => end,
        Err(error) => return (world, Err(error)),
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
    fn run(&mut self) -> Result<(Stop, Summary), SolveError> {
        let began = Instant::now();
        let mut next = if self.immortal {
            self.end_if_planned(Phase::Join, self.world.generation());
            Next::Restore
        } else {
            Next::Start
        };
        loop {
            next = match next {
                Next::Start => self.start()?,
                Next::Iterate => self.iterate()?,
                Next::Restore => self.restore()?,
                Next::Rebuild => self.rebuild()?,
                Next::Summarize(stop) => match self.summarize()? {
                    Ok(summary) => {
                        self.times.total = began.elapsed();
                        return Ok((stop, summary));
                    }
                    Err(next) => next,
                },
            };
        }
    }

    fn start(&mut self) -> Result<Next, Error> {
        self.cg = Cg::new(&self.system, self.options.limits);
        self.history.clear();
        let mut block = self.world.start(Level::Global)?;
        let mut net = InBlock::new(&mut block, &self.places, &mut self.buffers);
        let result = solve::start(&mut net, &mut self.cg, &self.system);
        let rt = match result {
            Ok(rt) => rt,
            Err(error) => {
                let next = Self::leave(block, &error)?;
                return Ok(if next == Next::Iterate { Next::Start } else { next });
            }
        };
        match self.commit(block)? {
            Ok(_) => {
                self.cg.accept_initial(rt);
                Ok(Next::Iterate)
            }
            Err(Next::Iterate) => Ok(Next::Start),
            Err(next) => Ok(next),
        }
    }

    fn iterate(&mut self) -> Result<Next, Error> {
        if let Some(stop) = self.cg.stop() {
            return Ok(Next::Summarize(stop));
        }
        let k = self.cg.state().iteration + 1;
        self.end_if_planned(Phase::Iteration, k);
        let mut block = self.world.start(Level::Global)?;
        if let Err(error) = self.protect(&mut block, k) {
            return Self::leave(block, &error);
        }
        let mut net = InBlock::new(&mut block, &self.places, &mut self.buffers);
        let (cg, system, overlap) = (&mut self.cg, &self.system, self.options.overlap);
        let (options, immortal) = (self.options, self.immortal);
        let (die, origin) = (self.hooks.die, self.world.origin() as usize);
        let mut passing = |phase| {
            if let Some(mode) = options.kills.due(origin, phase, k).filter(|_| !immortal) {
                die(mode);
            }
        };
        let result = solve::iterate(&mut net, cg, system, overlap, &mut self.times, &mut passing);
        let sends = net.into_sends();
        let iteration = match result {
            Ok(iteration) => iteration,
            Err(error) => return Self::leave(block, &error),
        };
        passing(Phase::Finish);
        let finished = match self.commit(block)? {
            Ok(finished) => finished,
            Err(next) => return Ok(next),
        };
        for request in sends {
            if let Ok(buffer) = finished.take(request) {
                self.buffers.put(buffer);
            }
        }
        self.end_if_planned(Phase::Update, k);
        Ok(self.accept(iteration))
    }

    fn accept(&mut self, iteration: Iteration) -> Next {
        let Iteration { norm, curvature, judgement } = iteration;
        let began = Instant::now();
        self.history.push(norm);
        if judgement == Judgement::Breakdown {
            self.cg.break_down();
            return Next::Summarize(Stop::Breakdown);
        }
        self.cg.commit(curvature);
        self.times.waxpy += began.elapsed();
        (self.hooks.watch)(self.cg.state().iteration, norm);
        Next::Iterate
    }

    fn summarize(&mut self) -> Result<Result<Summary, Next>, Error> {
        let mut block = self.world.start(Level::Global)?;
        let mut net = InBlock::new(&mut block, &self.places, &mut self.buffers);
        match solve::summarize(&mut net, &self.cg, &self.system) {
            Ok(summary) => Ok(self.commit(block)?.map(|_| summary)),
            Err(error) => Self::leave(block, &error).map(Err),
        }
    }

    /// A copy of the state before iteration k, with the norms so far, if it is time for one.
    fn protect(&mut self, block: &mut TryBlock, k: u32) -> Result<(), Error> {
        let every = self.options.protect_every;
        if every == 0 || !(k - 1).is_multiple_of(every) {
            return Ok(());
        }
        let began = Instant::now();
        let state = self.cg.state();
        let norms = self.options.limits.max_iterations as usize;
        self.copy.resize(state.encoded_len() + norms, 0.0);
        let (encoded, history) = self.copy.split_at_mut(state.encoded_len());
        state.encode_into(encoded);
        history.fill(0.0);
        history[..self.history.len()].copy_from_slice(&self.history);
        let result = block.protect(STATE, &self.copy);
        self.resilience.copies += began.elapsed();
        result
    }

    /// Ends a block; the error says where to go on when it is faulty.
    fn commit(&mut self, block: TryBlock) -> Result<Result<Finished, Next>, Error> {
        let began = Instant::now();
        let finished = wait(block.finish(Timeout::Never))?;
        self.resilience.blocks += began.elapsed();
        if finished.is_committed() {
            return Ok(Ok(finished));
        }
        Ok(Err(Self::after(&finished, Next::Iterate)))
    }

    /// Leaves a block in which something failed; all ranks learn of it.
    fn leave(block: TryBlock, error: &Error) -> Result<Next, Error> {
        let finished = wait(block.leave(error))?;
        Ok(Self::after(&finished, Next::Iterate))
    }

    /// What follows from a faulty block, the same on all ranks: its report is.
    fn after(finished: &Finished, otherwise: Next) -> Next {
        if lost_ranks(finished) { Next::Rebuild } else { otherwise }
    }

    fn rebuild(&mut self) -> Result<Next, SolveError> {
        let began = Instant::now();
        self.recoveries_joined += 1;
        self.end_if_planned(Phase::Recovery, self.recoveries_joined);
        self.world = self.world.rebuild(self.options.recovery.placement())?;
        self.places = Places::of(&self.world);
        self.resilience.recoveries += 1;
        self.resilience.recovery += began.elapsed();
        Ok(Next::Restore)
    }

    fn restore(&mut self) -> Result<Next, SolveError> {
        let began = Instant::now();
        let options = BlockOptions::global(Timeout::Never);
        let tried = self.world.try_block(options, |block| block.restore::<f64>(STATE))?;
        self.resilience.recovery += began.elapsed();
        let (finished, error) = match tried {
            fampi::Tried::Committed(copy, _) => {
                self.resume(&copy);
                return Ok(Next::Iterate);
            }
            fampi::Tried::Faulty(finished, error) => (finished, error),
        };
        match (Self::after(&finished, Next::Restore), error) {
            (Next::Rebuild, _) => Ok(Next::Rebuild),
            (_, Some(Error::NothingProtected)) => Ok(Next::Start),
            (_, Some(error @ Error::StateLost { .. })) => Err(error.into()),
            (next, _) => Ok(next),
        }
    }

    fn resume(&mut self, copy: &[f64]) {
        let (encoded, history) = copy.split_at(self.cg.state().encoded_len());
        self.cg.restore(encoded);
        let k = self.cg.state().iteration;
        self.history.clear();
        self.history.extend_from_slice(&history[..k as usize]);
        let rank = self.world.rank();
        tracing::info!(target: "fampi::app", %rank, iteration = k, "data restored");
        tracing::info!(target: "fampi::app", %rank, iteration = k + 1, "iteration resumed");
    }

    /// Ends this process if the plan says so. Replacements only die while they join.
    fn end_if_planned(&self, phase: Phase, count: u32) {
        let rank = self.world.origin() as usize;
        let mortal = !self.immortal || phase == Phase::Join;
        if let Some(mode) = self.options.kills.due(rank, phase, count).filter(|_| mortal) {
            tracing::info!(target: "fampi::app", rank, "killed by plan");
            (self.hooks.die)(mode);
        }
    }
}
