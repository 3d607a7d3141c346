//! Blocks, copies and recovery: algorithm 3 of the paper, with data that come back.
//!
//! One global block per cycle, and in it one local block per exchange. A failed local block dooms
//! the global one: a rank may have moved its nodes when another dies, so the whole cycle is rolled
//! back, never an exchange repeated.
//!
//! The bound on the time step of the next cycle is known when a cycle ends, so its minimum over
//! the ranks rides on the commit and costs no message of its own; minima have the same bits in
//! any order. Without that (`fused=off`) a cycle begins with a reduction.
//!
//! Every so often the global block carries a copy of the state that the cycle began with to the
//! partner rank. When ranks have died, the world is rebuilt (or merged), everybody goes back to
//! the last copy, nodal masses are summed again, and the cycles since then run again, with the
//! same bits. The block of the restoration also tells all ranks how far anybody had come, and the
//! bound on the next step.

use std::time::{Duration, Instant};

use fampi::{BlockOptions, Error, FaultCode, Finished, Level, ReduceOp, Timeout, TryBlock, World};
use harness::account::Account;
use harness::survivor::{Detour, News, Survivor, restore, restored};

use crate::cycle::{self, CycleError};
use crate::domain::{Broken, Domain};
use crate::exchange::{InBlock, Messages};
use crate::kill_plan::{Mode, Phase};
use crate::mesh::Mesh;
use crate::options::{Options, OptionsError};
use crate::state::State;
use crate::verify::Summary;

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

impl SimulationError {
    /// The error of the library, if recovery is not possible.
    #[must_use]
    pub const fn lost(&self) -> Option<&Error> {
        if let Self::Lost(error) = self { Some(error) } else { None }
    }
}

/// The end of a simulation, on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// What all ranks know of the result.
    pub summary: Summary,
    /// From the first cycle to the last.
    pub elapsed: Duration,
    /// What resilience did.
    pub resilience: Account,
}

/// A simulation on one rank.
struct Simulation<'a, 'h> {
    options: &'a Options,
    survivor: Survivor<'a, Phase>,
    watch: &'h mut dyn FnMut(&mut State),
    messages: Messages,
    domain: Domain,
    /// The bound on the next step that came with a commit.
    bound: Option<f64>,
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
pub fn simulate<'a>(
    world: World,
    options: &'a Options,
    hooks: Hooks<'a>,
) -> (World, Result<Simulated, SimulationError>) {
    let mesh: Mesh = match options.mesh(world.origin() as usize, world.size() as usize) {
        Ok(mesh) => mesh,
        Err(error) => return (world, Err(error.into())),
    };
    let domain = Domain::new(mesh, options.division);
    let Hooks { die, watch } = hooks;
    let mut simulation = Simulation {
        options,
        survivor: Survivor::new(world, &options.faults, die),
        watch,
        messages: Messages::default(),
        domain,
        bound: None,
    };
    let result = simulation.run();
    let (world, resilience) = simulation.survivor.end();
    let simulated = result.map(|(summary, elapsed)| Simulated { summary, elapsed, resilience });
    (world, simulated)
}

impl Simulation<'_, '_> {
    fn run(&mut self) -> Result<(Summary, Duration), SimulationError> {
        let joins = self.survivor.is_replacement();
        let mut next = if joins { Next::Restore } else { Next::Start };
        let began = Instant::now();
        loop {
            let elapsed = began.elapsed();
            let gone_on = match next {
                Next::Start => self.start(),
                Next::Cycle => self.cycle(),
                Next::Restore => self.restore(),
                Next::Rebuild => {
                    self.survivor.rebuild().map(|()| Next::Restore).map_err(Detour::from)
                }
                Next::Summarize => match self.summarize() {
                    Ok(summary) => return Ok((summary, elapsed)),
                    Err(detour) => Err(detour),
                },
            };
            next = match gone_on {
                Ok(next) => next,
                Err(Detour::Rebuild) => Next::Rebuild,
                Err(Detour::Faulty(finished)) => {
                    self.check(&finished)?;
                    // A cycle leaves a state that is neither the old nor the new one.
                    if next == Next::Cycle { Next::Restore } else { next }
                }
                Err(Detour::Lost(error)) => return Err(error.into()),
            };
        }
    }

    fn start(&mut self) -> Result<Next, Detour> {
        self.domain = Domain::new(self.domain.mesh(), self.options.division);
        let mut block = self.survivor.world.start(Level::Global)?;
        let prepared = self.prepare(&mut block);
        let (block, news) = self.survivor.go_on(block, prepared)?;
        self.survivor.commit(block)?;
        Ok(self.resume(news))
    }

    /// What comes before cycles, in one block: nodal masses, and what all ranks have to know of
    /// each other, the bound on the next step too.
    fn prepare(&mut self, block: &mut TryBlock) -> Result<(News, f64), Error> {
        let Survivor { world, places, .. } = &self.survivor;
        let mut net = InBlock::new(world, block, places, &mut self.messages);
        cycle::exchange_masses(&mut net, &mut self.domain)?;
        drop(net);
        let clock = self.domain.state().clock;
        // The least is the greatest of the negated.
        let (news, [bound]) = self.survivor.exchange_news(block, clock.cycle, [-clock.bound()])?;
        Ok((news, -bound))
    }

    fn resume(&mut self, (news, bound): (News, f64)) -> Next {
        self.survivor.resume(&news);
        self.bound = self.options.faults.fused.then_some(bound);
        Next::Cycle
    }

    fn cycle(&mut self) -> Result<Next, Detour> {
        let clock = self.domain.state().clock;
        if clock.is_over(self.options.most_cycles) {
            return Ok(Next::Summarize);
        }
        let k = clock.cycle + 1;
        self.survivor.begin(k);
        let mut passing = self.survivor.passing(k);
        passing(Phase::Cycle);
        let mut block = self.survivor.world.start(Level::Global)?;
        let state = self.domain.state();
        let protected = self.survivor.protect(&mut block, k, |copy| state.encode_into(copy));
        let (mut block, ()) = self.survivor.go_on(block, protected)?;
        let Survivor { world, places, .. } = &self.survivor;
        let mut net = InBlock::new(world, &mut block, places, &mut self.messages);
        let result = cycle::run(&mut net, &mut self.domain, self.bound, &mut passing);
        drop(net);
        let result = result.map_err(|error| match error {
            CycleError::Network(error) => error,
            CycleError::Broken(broken) => Error::Raised(code_of(broken)),
        });
        let (block, ()) = self.survivor.go_on(block, result)?;
        passing(Phase::Finish);
        if self.options.faults.fused {
            let bound = self.domain.state().clock.bound();
            let (_, [bound]) = self.survivor.commit_reduced(block, [bound], ReduceOp::Min)?;
            self.bound = Some(bound);
        } else {
            self.survivor.commit(block)?;
        }
        self.survivor.done(k);
        passing(Phase::Update);
        (self.watch)(self.domain.state_mut());
        Ok(Next::Cycle)
    }

    fn summarize(&mut self) -> Result<Summary, Detour> {
        let mut block = self.survivor.world.start(Level::Global)?;
        let Survivor { world, places, .. } = &self.survivor;
        let mut net = InBlock::new(world, &mut block, places, &mut self.messages);
        let result = cycle::summarize(&mut net, &self.domain);
        drop(net);
        let (block, summary) = self.survivor.go_on(block, result)?;
        self.survivor.commit(block)?;
        Ok(summary)
    }

    fn restore(&mut self) -> Result<Next, Detour> {
        let began = Instant::now();
        let world = self.survivor.world.comm();
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            let copy = restore(block)?;
            self.domain.state_mut().decode_from(&copy);
            self.prepare(block)
        })?;
        self.survivor.add_recovery(began);
        Ok(restored(tried)?.map_or(Next::Start, |news| self.resume(news)))
    }

    /// Looks for failures of the physics in a faulty block, the same on all ranks: its report is.
    fn check(&self, finished: &Finished) -> Result<(), SimulationError> {
        for fault in finished.report().faults() {
            let FaultCode::Application(code) = fault.code else { continue };
            if let Some((broken, _)) = CODES.iter().find(|(_, known)| *known == code) {
                let (broken, cycle) = (*broken, self.survivor.begun());
                let rank = self.survivor.world.origin_of(fault.rank);
                return Err(SimulationError::Broken { broken, rank, cycle });
            }
        }
        Ok(())
    }
}

fn code_of(broken: Broken) -> i32 {
    CODES.iter().find(|(known, _)| *known == broken).map_or(0, |(_, code)| *code)
}
