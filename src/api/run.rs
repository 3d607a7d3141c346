//! A run: a whole application driven through its steps, whatever dies on the way.
//!
//! ```text
//!        ┌──── retry, shrink, rebuild ◀── policy ◀── faulty ──┬───────────┐
//!        ▼                                                    │           │
//! enter ─▶ join: protect the state, or bring it back ── committed ─▶ step ─▶ committed, done
//!                                                        ▲           │
//!                                                        └─ committed ┘
//! ```
//!
//! *Join* is one block for all cases: the first start, the way back after a fault, the entrance
//! of a replacement. Its ranks tell each other how many steps are protected; if none is, each
//! protects the state it came with, otherwise each gets the protected one.

use std::ops::{Deref, DerefMut};

use super::{Comm, Tried, TryBlock, World};
use crate::{
    engine::{Level, buffer::Element, reduction::ReduceOp},
    error::Error,
    fault::FaultReport,
    recovery::policy::{Decision, Policy, Situation},
    timeout::Timeout,
};

/// What a rank must not lose: how it is protected, and how it comes back.
///
/// All ranks call these in the same blocks, so each may also communicate. A `Vec` of numbers is a
/// state in slot 0, which forgets the dead after a shrink.
pub trait State {
    /// True when [`Self::inherit`] takes over the states of the dead: then ranks that die
    /// together with their partner end a run that wants to shrink with [`Error::StateLost`], and
    /// those that die before the first commit with [`Error::NothingProtected`].
    const INHERITED: bool = false;

    /// Protects the state in a block, by [`TryBlock::protect`] in any number of slots.
    ///
    /// # Errors
    ///
    /// Whatever it meets in the block; it becomes this rank's vote.
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error>;

    /// Brings back what was protected, by [`TryBlock::restore`]. Before, the state is as a step
    /// that did not count has left it, or, on a replacement, as the program has made it.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error>;

    /// Called after a shrink and [`Self::restore`], on all ranks, to take over what
    /// [`TryBlock::inherit`] gives. Without it the states of the dead are dropped.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn inherit(&mut self, _block: &mut TryBlock) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: Element + Default> State for Vec<T> {
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, self)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        *self = block.restore(0)?;
        Ok(())
    }
}

/// Whether a run goes on after a step. All ranks say the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// There is another step.
    Continue,
    /// This was the last one, if it commits. Where not all ranks say so the run ends on all of them
    /// with [`Error::NotAllDone`].
    Done,
}

/// A step of a run: its block, and where the run is.
pub struct Step<'a> {
    block: TryBlock,
    world: &'a World,
    comm: &'a Comm,
    number: u64,
    timeout: Timeout,
    protects: bool,
}

impl Step<'_> {
    /// The communicator of the step's block: the world's, or after a shrink the survivors'.
    pub fn comm(&self) -> &Comm {
        self.comm
    }

    /// The world: of this generation, with its children.
    pub fn world(&self) -> &World {
        self.world
    }

    /// How many steps have been committed before this one, the same on all ranks.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How long the step's requests may take after its end before they are faults; as long as
    /// they like if nobody calls this.
    pub fn set_timeout(&mut self, timeout: Timeout) {
        self.timeout = timeout;
    }

    /// Makes no copy after this step: a fault leads back to the last step that made one. All
    /// ranks do so in the same steps.
    pub fn skip_protection(&mut self) {
        self.protects = false;
    }
}

impl Deref for Step<'_> {
    type Target = TryBlock;

    fn deref(&self) -> &TryBlock {
        &self.block
    }
}

impl DerefMut for Step<'_> {
    fn deref_mut(&mut self) -> &mut TryBlock {
        &mut self.block
    }
}

/// How a run ended, on all living ranks the same way.
#[derive(Debug)]
#[must_use = "the policy may have escalated; `done` makes that an error"]
pub enum Ended {
    /// The last step is committed. The run ended on this communicator: the world's, or the
    /// survivors'.
    Done(Comm),
    /// The policy gave a report to the caller.
    Escalated {
        /// The communicator that the run was on, which may have dead ranks.
        comm: Comm,
        /// The faults.
        report: FaultReport,
        /// What this rank's own step returned; not the same on all ranks.
        error: Option<Error>,
    },
}

impl Ended {
    /// The communicator of a run that was done.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] with the report that the policy escalated.
    pub fn done(self) -> Result<Comm, Error> {
        match self {
            Self::Done(comm) => Ok(comm),
            Self::Escalated { report, error, .. } => {
                Err(Error::Stopped { report, here: error.map(Box::new) })
            }
        }
    }
}

impl World {
    /// Runs an application step by step, whatever dies on the way. Each step is a global block;
    /// with its commit the state of each rank is protected by a copy at its partner. After a
    /// faulty block the policy decides, on all ranks alike, how to go on; then all go back to the
    /// protected states, and replacements, which enter the same call, get those of the dead.
    ///
    /// A step changes the state in place; what it changes elsewhere is not taken back after a
    /// fault. A program has one run at a time that replacements can enter; if it runs again after
    /// [`Ended::Escalated`], that goes on from the protected states.
    ///
    /// # Errors
    ///
    /// The same on all living ranks; the world can still be left in order: [`Error::Stopped`],
    /// [`Error::StateLost`], [`Error::RecoveryExhausted`], [`Error::NotAllDone`], [`Error::Left`],
    /// and what a policy asks for in vain, [`Error::TooFewSpares`], [`Error::CannotShrink`] and
    /// [`Error::CannotRebuild`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fampi::{Flow, ReduceOp, Timeout, World, policy, sim::{Crash, Simulation}};
    ///
    /// fn count(mut world: World) -> Result<u64, fampi::Error> {
    ///     let mut count = vec![0_u64];
    ///     let ended = world.run(&policy::Rebuild::default(), &mut count, |step, count| {
    ///         let ranks = step.iallreduce(vec![1], ReduceOp::Sum)?;
    ///         step.wait_local(ranks, Timeout::Never)?;
    ///         count[0] += step.take(ranks)?[0];
    ///         Ok(if count[0] < 40 { Flow::Continue } else { Flow::Done })
    ///     })?;
    ///     ended.done()?;
    ///     world.finalize();
    ///     Ok(count[0])
    /// }
    ///
    /// let job = Simulation::new(4).crash(Crash::before_effect(2, 200)).run_world(count);
    /// assert_eq!(job.expect_orderly(), [Ok(40), Ok(40), Ok(40), Ok(40)]);
    /// ```
    pub fn run<S: State>(
        &mut self,
        policy: &(impl Policy + ?Sized),
        state: &mut S,
        mut step: impl FnMut(&mut Step<'_>, &mut S) -> Result<Flow, Error>,
    ) -> Result<Ended, Error> {
        let comm = self.comm();
        let mut run = Run {
            world: self,
            comm,
            shrunk: false,
            whole: true,
            steps: None,
            steps_faulty: 0,
            joins_faulty: 0,
        };
        loop {
            let tried = match run.steps {
                Some(number) => run.step(number, state, &mut step)?,
                None => run.join(state)?,
            };
            let (finished, error) = match tried {
                Tried::Committed(Flow::Continue, _) => continue,
                Tried::Committed(Flow::Done, _) => return Ok(Ended::Done(run.comm)),
                Tried::Faulty(finished, error) => (finished, error),
            };
            let report = finished.report();
            drop(finished);
            if let Some(ended) = run.answer(policy, report, error)? {
                return Ok(ended);
            }
        }
    }
}

/// Where a run is.
struct Run<'a> {
    world: &'a mut World,
    comm: Comm,
    shrunk: bool,
    /// The states were protected on this communicator, so nobody's is to be inherited.
    whole: bool,
    /// Committed steps; `None` as long as the ranks have to join.
    steps: Option<u64>,
    /// Faulty blocks since a step was protected: what leads back before them is no progress.
    steps_faulty: u32,
    /// Faulty attempts to join since the last rebuild, so that replacements count alike.
    joins_faulty: u32,
}

impl Run<'_> {
    /// All ranks get their states and learn where the run is.
    fn join<S: State>(&mut self, state: &mut S) -> Result<Tried<Flow>, Error> {
        let protected = self.comm.engine().borrow().job.protected_steps;
        if S::INHERITED && !self.whole {
            let lost = self.comm.engine().borrow().lost_to(self.comm.key());
            if let Some(error) = lost {
                return Err(error);
            }
        }
        let mut block = self.comm.start(Level::Global)?;
        let mine = vec![protected, u64::from(self.steps_faulty)];
        let joined = join(&mut block, mine, self.whole, state);
        Ok(match Comm::conclude(block, joined, Timeout::Never)? {
            Tried::Committed(all, finished) => {
                let mut engine = self.comm.engine().borrow_mut();
                engine.job.protected_steps = all[0].max(1);
                engine.job.roster.settled = engine.job.roster.generation;
                drop(engine);
                self.steps = Some(all[0].saturating_sub(1));
                (self.steps_faulty, self.joins_faulty, self.whole) = (all[1] as u32, 0, true);
                Tried::Committed(Flow::Continue, finished)
            }
            Tried::Faulty(finished, error) => Tried::Faulty(finished, error),
        })
    }

    fn step<S: State>(
        &mut self,
        number: u64,
        state: &mut S,
        body: &mut impl FnMut(&mut Step<'_>, &mut S) -> Result<Flow, Error>,
    ) -> Result<Tried<Flow>, Error> {
        let block = self.comm.start(Level::Global)?;
        let (world, comm) = (&*self.world, &self.comm);
        let mut step = Step { block, world, comm, number, timeout: Timeout::Never, protects: true };
        let mut result = body(&mut step, state);
        if matches!(result, Ok(Flow::Done)) {
            step.block.say_last();
        }
        if step.protects
            && result.is_ok()
            && let Err(error) = state.protect(&mut step.block)
        {
            result = Err(error);
        }
        let Step { block, timeout, protects, .. } = step;
        let tried = Comm::conclude(block, result, timeout)?;
        if let Tried::Committed(flow, _) = &tried {
            self.steps = Some(number + 1);
            if protects {
                self.steps_faulty = 0;
            }
            let protected = &mut self.comm.engine().borrow_mut().job.protected_steps;
            match flow {
                // What comes after this run begins with states of its own.
                Flow::Done => *protected = 0,
                Flow::Continue if protects => *protected = number + 2,
                Flow::Continue => {}
            }
        }
        Ok(tried)
    }

    /// Does what the policy says about a faulty block; the end of the run, if that is it.
    fn answer(
        &mut self,
        policy: &(impl Policy + ?Sized),
        report: FaultReport,
        error: Option<Error>,
    ) -> Result<Option<Ended>, Error> {
        if let Some(error) = self.comm.engine().borrow().agreed_error(&report) {
            return Err(error);
        }
        let decision = policy.decide(&self.situation(&report));
        tracing::info!(
            target: "fampi::run", %report, ?decision, step = self.steps, here = ?error, "faulty"
        );
        self.steps = None;
        match decision {
            Decision::Retry => {}
            Decision::Shrink => self.shrink()?,
            Decision::Rebuild(_) if self.shrunk => return Err(Error::CannotRebuild),
            Decision::Rebuild(placement) => {
                *self.world = self.world.rebuild(placement)?;
                self.comm = self.world.comm();
                self.joins_faulty = 0;
            }
            Decision::Escalate => {
                return Ok(Some(Ended::Escalated { comm: self.comm.clone(), report, error }));
            }
            Decision::Stop => return Err(Error::Stopped { report, here: error.map(Box::new) }),
        }
        Ok(None)
    }

    fn situation<'r>(&mut self, report: &'r FaultReport) -> Situation<'r> {
        let engine = self.comm.engine().borrow();
        let roster = &engine.job.roster;
        let (generation, spares) = (roster.generation, roster.spares.len());
        let rebuilds = generation.saturating_sub(roster.settled);
        drop(engine);
        let faulty_in_a_row = if self.steps.is_some() {
            self.steps_faulty += 1;
            self.steps_faulty
        } else {
            self.joins_faulty += 1;
            self.joins_faulty + rebuilds
        };
        Situation {
            report,
            dead: self.comm.known_failed(),
            ranks: self.comm.size(),
            spares,
            generation,
            step: self.steps,
            faulty_in_a_row,
            shrunk: self.shrunk,
        }
    }

    fn shrink(&mut self) -> Result<(), Error> {
        let engine = self.comm.engine().borrow();
        let settled = engine.job.roster.settled == engine.job.roster.generation;
        drop(engine);
        if !settled {
            return Err(Error::CannotShrink);
        }
        self.comm = self.comm.shrink()?;
        (self.shrunk, self.whole) = (true, false);
        Ok(())
    }
}

/// The content of the block in which ranks join; what all know is how many steps are protected,
/// and how often the next one was faulty.
fn join<S: State>(
    block: &mut TryBlock,
    mine: Vec<u64>,
    whole: bool,
    state: &mut S,
) -> Result<Vec<u64>, Error> {
    let known = block.iallreduce(mine, ReduceOp::Max)?;
    block.wait_local(known, Timeout::Never)?;
    let known = block.take(known)?;
    if known[0] == 0 {
        state.protect(block)?;
        return Ok(known);
    }
    state.restore(block)?;
    if !whole {
        state.inherit(block)?;
        state.protect(block)?;
    }
    Ok(known)
}
