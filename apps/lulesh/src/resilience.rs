//! Blocks, copies and recovery: algorithm 3 of the paper, with data that come back.
//!
//! One global block per cycle, which begins with the reduction of the time step, and in it one
//! local block per exchange. A failed local block dooms the global one: a rank may have moved its
//! nodes when another dies, so the whole cycle is rolled back, never an exchange repeated.
//!
//! Every so often the global block carries a copy of the state that the cycle began with to the
//! partner rank. When ranks have died, the world is rebuilt (or merged), everybody goes back to
//! the last copy, nodal masses are summed again, and the cycles since then run again, with the
//! same bits. The block of the restoration also tells all ranks how far anybody had come.

use std::time::{Duration, Instant};

use fampi::{BlockOptions, Error, FaultCode, Finished, Level, Timeout, Tried, TryBlock, World};
use harness::block::{lost_ranks, wait};
use harness::buffers::Places;

use crate::cycle::{self, CycleError};
use crate::domain::{Broken, Domain};
use crate::exchange::{InBlock, Messages};
use crate::kill_plan::{Mode, Phase};
use crate::mesh::Mesh;
use crate::options::{Options, OptionsError};
use crate::report::Resilience;
use crate::state::State;
use crate::verify::Summary;

/// The number of the protected state.
const STATE: u32 = 0;

/// Codes for [`Broken`], as the reference gives them to `MPI_Abort`.
const CODES: [(Broken, i32); 2] = [(Broken::Volume, -1), (Broken::Viscosity, -2)];

/// How to end this process, and to see how far the simulation is.
pub struct Hooks<'a> {
    /// Ends the process in this way.
    pub die: &'a dyn Fn(Mode),
    /// Sees the state after each committed cycle, and may disturb it.
    pub watch: &'a mut dyn FnMut(&mut State),
}

/// Why a simulation could not be brought to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The options do not fit the number of ranks.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The physics failed, which it would do again.
    #[error("{broken} on rank {rank} in cycle {cycle}; the simulation cannot go on")]
    Broken {
        /// What happened.
        broken: Broken,
        /// To whom.
        rank: u32,
        /// When.
        cycle: u32,
    },
    /// Recovery is not possible.
    #[error(transparent)]
    Lost(#[from] Error),
}

/// The end of a simulation, on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// What all ranks know of the result.
    pub summary: Summary,
    /// From the first cycle to the last.
    pub elapsed: Duration,
    /// What resilience did.
    pub resilience: Resilience,
}

/// A simulation on one rank.
struct Simulation<'a, 'h> {
    options: &'a Options,
    hooks: Hooks<'h>,
    world: World,
    places: Places,
    messages: Messages,
    domain: Domain,
    copy: Vec<f64>,
    resilience: Resilience,
    /// The last cycle that has begun here.
    begun: u32,
    recoveries_joined: u32,
    immortal: bool,
}

/// Where a simulation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Start,
    Cycle,
    Summarize,
    /// The world is whole, but the state is not.
    Restore,
    /// Ranks died.
    Rebuild,
}

/// Simulates on the ranks of the world, whatever happens to them. Every rank calls it; a
/// replacement joins in where the others are.
///
/// # Errors
/// [`SimulationError`], the same on all ranks that live; the world can still be left in order.
pub fn simulate(
    world: World,
    options: &Options,
    hooks: Hooks<'_>,
) -> (World, Result<Simulated, SimulationError>) {
    let mesh: Mesh = match options.mesh(world.origin() as usize, world.size() as usize) {
        Ok(mesh) => mesh,
        Err(error) => return (world, Err(error.into())),
    };
    let mut simulation = Simulation {
        options,
        hooks,
        places: Places::of(&world),
        immortal: world.is_replacement(),
        world,
        messages: Messages::default(),
        domain: Domain::new(mesh, options.division),
        copy: Vec::new(),
        resilience: Resilience::default(),
        begun: 0,
        recoveries_joined: 0,
    };
    let result = simulation.run();
    let Simulation { world, mut resilience, .. } = simulation;
    resilience.recoveries = world.generation();
    let simulated = result.map(|(summary, elapsed)| Simulated { summary, elapsed, resilience });
    (world, simulated)
}

impl Simulation<'_, '_> {
    fn run(&mut self) -> Result<(Summary, Duration), SimulationError> {
        let mut next = if self.immortal {
            self.end_if_planned(Phase::Join, self.world.generation());
            Next::Restore
        } else {
            Next::Start
        };
        let began = Instant::now();
        loop {
            next = match next {
                Next::Start => self.start()?,
                Next::Cycle => self.cycle()?,
                Next::Restore => self.restore()?,
                Next::Rebuild => self.rebuild()?,
                Next::Summarize => {
                    let elapsed = began.elapsed();
                    match self.summarize()? {
                        Ok(summary) => return Ok((summary, elapsed)),
                        Err(next) => next,
                    }
                }
            };
        }
    }

    fn start(&mut self) -> Result<Next, SimulationError> {
        self.domain = Domain::new(self.domain.mesh(), self.options.division);
        let mut block = self.world.start(Level::Global)?;
        let lost = match self.prepare(&mut block, 0) {
            Ok(lost) => lost,
            Err(error) => return self.leave(block, &error, Next::Start),
        };
        match self.commit(block, Next::Start)? {
            Ok(_) => Ok(self.go_on(lost)),
            Err(next) => Ok(next),
        }
    }

    /// What comes before cycles, in one block: nodal masses, and how many cycles have been lost
    /// when `cycle` is where all ranks begin.
    fn prepare(&mut self, block: &mut TryBlock, cycle: u32) -> Result<u32, Error> {
        let mut net = InBlock::new(&self.world, block, &self.places, &mut self.messages);
        cycle::exchange_masses(&mut net, &mut self.domain)?;
        let mut known = [f64::from(self.begun), f64::from(self.resilience.lost_cycles)];
        net.max(&mut known)?;
        let [begun, lost] = known.map(|number| number as u32);
        Ok(lost + begun.saturating_sub(cycle))
    }

    fn go_on(&mut self, lost: u32) -> Next {
        self.resilience.lost_cycles = lost;
        self.begun = self.domain.state().clock.cycle;
        Next::Cycle
    }

    fn cycle(&mut self) -> Result<Next, SimulationError> {
        let clock = self.domain.state().clock;
        if clock.is_over(self.options.most_cycles) {
            return Ok(Next::Summarize);
        }
        let k = clock.cycle + 1;
        self.begun = k;
        self.end_if_planned(Phase::Cycle, k);
        let mut block = self.world.start(Level::Global)?;
        if let Err(error) = self.protect(&mut block, k) {
            return self.leave(block, &error, Next::Restore);
        }
        let (options, immortal) = (self.options, self.immortal);
        let (die, origin) = (self.hooks.die, self.world.origin() as usize);
        let mut passing = |phase| {
            if let Some(mode) = options.kills.due(origin, phase, k).filter(|_| !immortal) {
                die(mode);
            }
        };
        let mut net = InBlock::new(&self.world, &mut block, &self.places, &mut self.messages);
        let result = cycle::run(&mut net, &mut self.domain, &mut passing);
        drop(net);
        match result {
            Ok(()) => {}
            Err(CycleError::Network(error)) => return self.leave(block, &error, Next::Restore),
            Err(CycleError::Broken(broken)) => {
                return self.leave(block, &Error::Raised(code_of(broken)), Next::Restore);
            }
        }
        passing(Phase::Finish);
        if let Err(next) = self.commit(block, Next::Restore)? {
            return Ok(next);
        }
        passing(Phase::Update);
        (self.hooks.watch)(self.domain.state_mut());
        Ok(Next::Cycle)
    }

    fn summarize(&mut self) -> Result<Result<Summary, Next>, SimulationError> {
        let mut block = self.world.start(Level::Global)?;
        let mut net = InBlock::new(&self.world, &mut block, &self.places, &mut self.messages);
        let result = cycle::summarize(&mut net, &self.domain);
        drop(net);
        match result {
            Ok(summary) => Ok(self.commit(block, Next::Summarize)?.map(|_| summary)),
            Err(error) => self.leave(block, &error, Next::Summarize).map(Err),
        }
    }

    /// A copy of the state before cycle k, if it is time for one.
    fn protect(&mut self, block: &mut TryBlock, k: u32) -> Result<(), Error> {
        let every = self.options.protect_every;
        if every == 0 || !(k - 1).is_multiple_of(every) {
            return Ok(());
        }
        let began = Instant::now();
        self.domain.state().encode_into(&mut self.copy);
        let result = block.protect(STATE, &self.copy);
        self.resilience.copies += began.elapsed();
        result
    }

    /// Ends a block; if it is faulty, says where to go on, which is `otherwise` if nobody died.
    fn commit(
        &mut self,
        block: TryBlock,
        otherwise: Next,
    ) -> Result<Result<Finished, Next>, SimulationError> {
        let began = Instant::now();
        let finished = wait(block.finish(Timeout::Never))?;
        self.resilience.blocks += began.elapsed();
        if finished.is_committed() {
            return Ok(Ok(finished));
        }
        self.after(&finished, otherwise).map(Err)
    }

    /// Leaves a block in which something failed; all ranks learn of it.
    fn leave(
        &self,
        block: TryBlock,
        error: &Error,
        otherwise: Next,
    ) -> Result<Next, SimulationError> {
        let finished = wait(block.leave(error))?;
        self.after(&finished, otherwise)
    }

    /// What follows from a faulty block, the same on all ranks: its report is.
    fn after(&self, finished: &Finished, otherwise: Next) -> Result<Next, SimulationError> {
        if lost_ranks(finished) {
            return Ok(Next::Rebuild);
        }
        for fault in finished.report().faults() {
            let FaultCode::Application(code) = fault.code else { continue };
            if let Some((broken, _)) = CODES.iter().find(|(_, known)| *known == code) {
                let (broken, rank) = (*broken, self.world.origin_of(fault.rank));
                return Err(SimulationError::Broken { broken, rank, cycle: self.begun });
            }
        }
        Ok(otherwise)
    }

    fn rebuild(&mut self) -> Result<Next, SimulationError> {
        let began = Instant::now();
        self.recoveries_joined += 1;
        self.end_if_planned(Phase::Recovery, self.recoveries_joined);
        self.world = self.world.rebuild(self.options.recovery.placement())?;
        self.places = Places::of(&self.world);
        self.resilience.recovery += began.elapsed();
        Ok(Next::Restore)
    }

    fn restore(&mut self) -> Result<Next, SimulationError> {
        let began = Instant::now();
        let world = self.world.comm();
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            let copy = block.restore::<f64>(STATE)?;
            self.domain.state_mut().decode_from(&copy);
            self.prepare(block, self.domain.state().clock.cycle)
        })?;
        let next = match tried {
            Tried::Committed(lost, _) => self.resume(lost),
            // The error is the same on all ranks where it says what to do.
            Tried::Faulty(finished, error) => {
                match (self.after(&finished, Next::Restore)?, error) {
                    (Next::Rebuild, _) => Next::Rebuild,
                    (_, Some(Error::NothingProtected)) => Next::Start,
                    (_, Some(error @ Error::StateLost { .. })) => return Err(error.into()),
                    (next, _) => next,
                }
            }
        };
        self.resilience.recovery += began.elapsed();
        Ok(next)
    }

    fn resume(&mut self, lost: u32) -> Next {
        let next = self.go_on(lost);
        let (rank, cycle) = (self.world.rank(), self.begun);
        tracing::info!(target: "fampi::app", %rank, iteration = cycle, "data restored");
        tracing::info!(target: "fampi::app", %rank, iteration = cycle + 1, "iteration resumed");
        next
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

fn code_of(broken: Broken) -> i32 {
    CODES.iter().find(|(known, _)| *known == broken).map_or(0, |(_, code)| *code)
}
