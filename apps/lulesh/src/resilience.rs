//! Blocks, copies and recovery: algorithm 3 of the paper, with data that come back.
//!
//! One step of a run ([`World::run`]) per cycle, whose block is global, and in it one local block
//! per exchange. A failed local block dooms the global one: a rank may have moved its nodes when
//! another dies, so the whole cycle is rolled back, never an exchange repeated.
//!
//! The bound on the time step of the next cycle is known when a cycle ends, so its minimum over
//! the ranks rides on the commit and costs no message of its own; minima have the same bits in
//! any order. Without that (`fused=off`) a cycle begins with a reduction.
//!
//! Every so often the global block carries a copy of the state that the cycle began with to the
//! partner rank. When ranks have died, the run rebuilds (or merges) the world and all ranks go
//! back to the last copy; then nodal masses are summed again, in a block of their own, and the
//! cycles since then run again, with the same bits. That block also tells all ranks how far any
//! of them had come, and the bound on the next step.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use fampi::{
    Ended, Error, FaultCode, FaultReport, Flow, Interval, ReduceOp, Redundancy, Step, TryBlock,
    World,
};
use harness::account::Account;
use harness::buffers::Places;
use harness::kill_plan::{Mode, Phase};
use harness::witness::Witness;

use crate::cycle::{self, CycleError};
use crate::domain::{Broken, Domain};
use crate::exchange::{InBlock, Messages};
use crate::kill_plan;
use crate::mesh::Mesh;
use crate::options::{Options, OptionsError};
use crate::state::State;
use crate::verify::Summary;

/// The number of the protected state.
const STATE: u32 = 0;

/// The code of a rank that finds a state to be of another problem, or beyond the last cycle.
const OTHER_PROBLEM: i32 = 1001;
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
    /// The state of a checkpoint is that of another simulation.
    #[error(
        "the checkpoint is not of {ranks} ranks with {edge}³ elements each, before cycle {most}; \
         start with the options of the job that saved it"
    )]
    OtherProblem {
        /// The number of ranks.
        ranks: usize,
        /// Elements along an edge of each.
        edge: usize,
        /// The last cycle that is wanted.
        most: u32,
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
    witness: Witness<'a>,
    watch: &'h mut dyn FnMut(&mut State),
    places: Places,
    messages: Messages,
    domain: Domain,
    /// The bound on the next step that came with a commit.
    bound: Option<f64>,
    /// The encoded state, on its way into a block.
    copy: RefCell<Vec<f64>>,
    /// Masses are summed, and all ranks know of each other where they are.
    joined: bool,
}

/// Simulates on the ranks of the world, whatever happens to them. Every rank calls it; a
/// replacement joins in where the others are.
///
/// # Errors
/// [`SimulationError`], the same on all ranks that live; the world can still be left in order.
pub fn simulate<'a>(
    mut world: World,
    options: &'a Options,
    hooks: Hooks<'a>,
) -> (World, Result<Simulated, SimulationError>) {
    let mesh: Mesh = match options.mesh(world.origin() as usize, world.size() as usize) {
        Ok(mesh) => mesh,
        Err(error) => return (world, Err(error.into())),
    };
    let Hooks { die, watch } = hooks;
    let mut simulation = Simulation {
        options,
        witness: Witness::new(&world, &options.faults, die),
        watch,
        places: Places::of(&world),
        messages: Messages::default(),
        domain: Domain::new(mesh, options.division),
        bound: None,
        copy: RefCell::default(),
        joined: false,
    };
    let (began, policy, mut end) = (Instant::now(), simulation.witness.policy(), None);
    let ended = world.run(&policy, &mut simulation, |step, simulation| {
        let elapsed = began.elapsed();
        end = simulation.step(step)?.map(|summary| (summary, elapsed));
        Ok(if end.is_none() { Flow::Continue } else { Flow::Done })
    });
    let cycle = simulation.witness.begun();
    let resilience = simulation.witness.end(&world);
    let objected = match &ended {
        Ok(Ended::Escalated { report, .. }) if is_of_another(report) => {
            let Mesh { edge, ranks_per_edge, .. } = mesh;
            let (ranks, most) = (ranks_per_edge.pow(3), options.most_cycles);
            Some(SimulationError::OtherProblem { ranks, edge, most })
        }
        Ok(Ended::Escalated { report, .. }) => broken(&world, report, cycle),
        _ => None,
    };
    let result = match (objected, ended.and_then(Ended::done), end) {
        (Some(error), ..) => Err(error),
        (None, Err(error), _) => Err(error.into()),
        (None, Ok(_), Some((summary, elapsed))) => Ok(Simulated { summary, elapsed, resilience }),
        (None, Ok(_), None) => unreachable!("the last step is the one that has an end"),
    };
    (world, result)
}

impl fampi::State for Simulation<'_, '_> {
    fn interval(&self) -> Interval {
        self.options.faults.interval()
    }

    fn redundancy(&self) -> Redundancy {
        self.options.faults.redundancy
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.domain = Domain::new(self.domain.mesh(), self.options.division);
        self.joined = false;
        Ok(())
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        let copy = &mut *self.copy.borrow_mut();
        self.domain.state().encode_into(copy);
        copy.extend(self.problem());
        block.protect(STATE, copy)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        let copy: Vec<f64> = block.restore(STATE)?;
        let state = self.domain.state();
        let encoded = copy.strip_suffix(&self.problem());
        let encoded = encoded.filter(|encoded| encoded.len() == state.encoded_len());
        let encoded = encoded.ok_or(Error::Raised(OTHER_PROBLEM))?;
        self.domain.state_mut().decode_from(encoded);
        if self.domain.state().clock.cycle > self.options.most_cycles {
            return Err(Error::Raised(OTHER_PROBLEM));
        }
        self.joined = false;
        Ok(())
    }
}

impl Simulation<'_, '_> {
    /// What tells the state of one problem from that of another, as a checkpoint may have it.
    fn problem(&self) -> [f64; 2] {
        let Mesh { edge, ranks_per_edge, .. } = self.domain.mesh();
        [edge as f64, ranks_per_edge as f64]
    }

    /// A cycle, or the end.
    fn step(&mut self, step: &mut Step<'_>) -> Result<Option<Summary>, Error> {
        if !self.joined {
            self.join(step)?;
        }
        let clock = self.domain.state().clock;
        if clock.is_over(self.options.most_cycles) {
            let mut net = InBlock::new(step.world(), step, &self.places, &mut self.messages);
            return cycle::summarize(&mut net, &self.domain).map(Some);
        }
        let k = clock.cycle + 1;
        self.witness.begin(k);
        let mut passing = self.witness.passing(k);
        passing(kill_plan::CYCLE);
        let copying = Instant::now();
        step.protect_now(self)?;
        self.witness.add_copy(copying);
        let mut net = InBlock::new(step.world(), step, &self.places, &mut self.messages);
        let result = cycle::run(&mut net, &mut self.domain, self.bound, &mut passing);
        result.map_err(|error| match error {
            CycleError::Network(error) => error,
            CycleError::Broken(broken) => Error::Raised(code_of(broken)),
        })?;
        passing(Phase::FINISH);
        if self.options.faults.fused {
            let bound = self.domain.state().clock.bound();
            let ([bound], _) = self.witness.commit_reduced(step, [bound], ReduceOp::Min)?;
            self.bound = Some(bound);
        } else {
            self.witness.commit(step)?;
        }
        self.witness.done(step, k);
        passing(Phase::UPDATE);
        (self.watch)(self.domain.state_mut());
        Ok(None)
    }

    /// What comes before cycles, in a block of its own: nodal masses, and what all ranks have to
    /// know of each other, the bound on the next step, too.
    fn join(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        self.places = Places::of(step.world());
        let mut net = InBlock::new(step.world(), step, &self.places, &mut self.messages);
        cycle::exchange_masses(&mut net, &mut self.domain)?;
        drop(net);
        let clock = self.domain.state().clock;
        // The least is the greatest of the negated.
        let (news, [bound]) = self.witness.exchange_news(step, clock.cycle, [-clock.bound()])?;
        self.witness.commit(step)?;
        self.bound = self.options.faults.fused.then_some(-bound);
        self.joined = true;
        self.witness.resume(step, news);
        Ok(())
    }
}

/// The failure of the physics in the report of a faulty block, if there is one. It is the same on
/// all ranks, as the report is.
fn is_of_another(report: &FaultReport) -> bool {
    report.faults().iter().any(|fault| fault.code == FaultCode::Application(OTHER_PROBLEM))
}

fn broken(world: &World, report: &FaultReport, cycle: u32) -> Option<SimulationError> {
    report.faults().iter().find_map(|fault| {
        let FaultCode::Application(code) = fault.code else { return None };
        let (broken, _) = *CODES.iter().find(|(_, known)| *known == code)?;
        Some(SimulationError::Broken { broken, rank: world.origin_of(fault.rank), cycle })
    })
}

fn code_of(broken: Broken) -> i32 {
    CODES.iter().find(|(known, _)| *known == broken).map_or(0, |(_, code)| *code)
}
