//! A step of a run: its blocks, its copy, and where the run is.
//!
//! ```text
//!  one block:       ├── what the step does ── copy ──┤ commit by the run
//!  several blocks:  ├── copy, what the step does ──┤ commit ├── more ──┤ commit ├ ─ ─ ─
//!                                                                              └▶ the next step
//! ```
//!
//! A step that commits by itself ends with its last commit: what comes after that one goes into
//! the first block of the next step, so that no block is made for nothing. Only the last step of a
//! run always ends with a commit of the run, on which all ranks agree.
//!
//! **Guarantees.** A copy counts from the commit of the block that carries it, on all ranks or on
//! none, and with it the number of steps to which a fault leads back: a rank that dies between any
//! two lines here leaves all others with the same of both.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use super::{Comm, Finished, Reduced, Reducing, State, Tried, TryBlock, World};
use crate::{
    engine::Level,
    error::Error,
    recovery::{
        filing::Filing,
        interval::{Costs, Schedule},
    },
    seam::reduction::{Fusible, ReduceOp, Values},
    timeout::Timeout,
};

/// Whether a run goes on after a step. All ranks say the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// There is another step.
    Continue,
    /// This was the last one, if it commits. Where not all ranks say so the run ends on all of them
    /// with [`Error::NotAllDone`].
    Done,
}

/// A step of a run: its open block, and where the run is.
///
/// # Panics
///
/// A step whose own commit has failed ([`Error::NotCommitted`]) has no block any more: whatever is
/// asked of that block panics. Pass the error on by `?`.
pub struct Step<'a> {
    /// The open block; nothing once a commit of the step has failed.
    open: Option<Open>,
    world: &'a World,
    comm: &'a Comm,
    ledger: &'a mut Ledger,
    /// Where states are saved, if they are.
    filing: Option<&'a Filing>,
    number: u64,
    /// The step that began the open block, or the one that failed.
    since: u64,
    timeout: Timeout,
    /// A copy is made after the step, if it is due.
    protects: bool,
    /// The step has committed a block.
    commits: bool,
    /// When the step began, if its time is measured.
    began: Option<Duration>,
    /// How long it took to make the copy of this step, if that is measured.
    making: Option<Duration>,
    /// The block of the step that did not commit.
    faulty: Option<Finished>,
}

/// A block of a step, and what becomes valid with its commit.
pub(super) struct Open {
    block: TryBlock,
    /// The step that began the block.
    since: u64,
    /// The number of steps that lead to the state of which the block carries a copy.
    copied: Option<u64>,
    /// What a copy and a step cost, on the ranks where they cost most.
    costs: Option<Costs>,
}

/// What a run knows of its copies, on all ranks alike.
pub(super) struct Ledger {
    pub(super) schedule: Schedule,
    /// Faulty blocks since the run was farther than before them, or had protected a step: what
    /// leads back before them is no progress.
    pub(super) steps_faulty: u32,
    /// How many steps the run has to reach to be farther than before its faults.
    pub(super) to_reach: u64,
    /// One more than the steps before the latest state that was ever protected: where a run goes
    /// back to a checkpoint, what it protects on the way there again is no progress.
    pub(super) latest: u64,
    /// The steps that lead to the last copy since the last fault.
    copied: u64,
    /// Faults of this run as far as this rank has seen, and when it entered the run.
    pub(super) faults: u32,
    pub(super) entered: Duration,
}

/// What a step came to, on all living ranks alike.
pub(super) enum Ran {
    /// The run goes on.
    On,
    /// It was the last step.
    Over,
    /// A block is faulty, which was begun in this step; with what [`Tried::Faulty`] has.
    Faulty { finished: Finished, error: Option<Error>, since: u64 },
}

impl<'a> Step<'a> {
    /// The step with this number, which goes on with the block that the step before has left open.
    pub(super) fn begin(
        world: &'a World,
        comm: &'a Comm,
        (ledger, filing): (&'a mut Ledger, Option<&'a Filing>),
        number: u64,
        left_open: Option<Open>,
    ) -> Result<Self, Error> {
        let open = left_open.map_or_else(|| Open::begin(comm, number), Ok)?;
        Ok(Step {
            since: open.since,
            open: Some(open),
            world,
            comm,
            began: ledger.schedule.is_learning().then(|| now(comm)),
            ledger,
            filing,
            number,
            timeout: Timeout::Never,
            protects: true,
            commits: false,
            making: None,
            faulty: None,
        })
    }

    /// The communicator of the step's block: the world's, or after a shrink the survivors'.
    pub fn comm(&self) -> &'a Comm {
        self.comm
    }

    /// The world: of this generation, with its children.
    pub fn world(&self) -> &'a World {
        self.world
    }

    /// How many steps have been committed before this one, the same on all ranks.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The interval between copies that the ranks have chosen, in steps; nothing before they have,
    /// and where [`State::interval`] leaves no choice.
    pub fn interval(&self) -> Option<u32> {
        self.ledger.schedule.chosen()
    }

    /// How long the requests of the step's blocks may take after the end of the block before they
    /// are faults; as long as they like without this call.
    pub fn set_timeout(&mut self, timeout: Timeout) {
        self.timeout = timeout;
    }

    /// Makes no copy after this step: a fault leads back to the last step that made one. All
    /// ranks do so in the same steps.
    pub fn skip_protection(&mut self) {
        self.protects = false;
    }

    /// Protects the state as it is now, in the open block, instead of after the step, if a copy is
    /// due ([`State::interval`], [`Checkpoints::every`](crate::Checkpoints::every)): so it travels
    /// while the step computes, and costs less. All ranks call it in the same block of the same
    /// steps. It counts from the commit of that block, and a fault leads back to the beginning of
    /// this step; so nothing may have changed in the state since then.
    ///
    /// # Errors
    ///
    /// Those of [`State::protect`]; pass them on by `?`.
    pub fn protect_now(&mut self, state: &impl State) -> Result<(), Error> {
        self.protects = false;
        self.copy(state, self.number)
    }

    /// Commits what the step has done so far, and begins its next block. All ranks call it at the
    /// same places. Requests of the block that was committed are found in what it returns.
    ///
    /// A fault leads back to the last copy all the same, not to this commit. What a step does
    /// after its last commit belongs to the first block of the next step.
    ///
    /// # Errors
    ///
    /// [`Error::NotCommitted`], on all living ranks: pass it on by `?`, the policy decides.
    ///
    /// # Examples
    ///
    /// See [`Self::commit_allreduce`].
    pub fn commit(&mut self) -> Result<Finished, Error> {
        let open = self.open.take().ok_or(Error::NotCommitted)?;
        let finished = open.block.finish(self.timeout).wait()?;
        self.go_on(open.copied, open.costs, finished)
    }

    /// Commits as [`Self::commit`] does, and reduces up to eight numbers over all ranks with the
    /// messages of the commit, as [`TryBlock::finish_allreduce`] does.
    ///
    /// ```
    /// use fampi::{Error, Flow, Interval, ReduceOp, State, TryBlock, World, policy};
    /// use fampi::sim::{Crash, Simulation};
    ///
    /// /// Makes each rank's number smaller, as fast as all ranks can.
    /// struct Descent(f64);
    ///
    /// impl State for Descent {
    ///     fn interval(&self) -> Interval {
    ///         Interval::Every(3)
    ///     }
    ///
    ///     fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
    ///         self.0 = 100.0; // It can be made again from nothing, so it needs no copy yet.
    ///         Ok(())
    ///     }
    ///
    ///     fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
    ///         block.protect(0, &[self.0])
    ///     }
    ///
    ///     fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
    ///         self.0 = block.restore(0)?[0];
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn descend(mut world: World) -> Result<f64, Error> {
    ///     let mut state = Descent(f64::NAN);
    ///     let most = f64::from(world.origin() + 2);
    ///     let ended = world.run(&policy::Rebuild::default(), &mut state, |step, state| {
    ///         step.protect_now(state)?;
    ///         let ([least], _) = step.commit_allreduce([most], ReduceOp::Min)?;
    ///         state.0 -= least; // There is a step if and only if the commit counts.
    ///         Ok(if state.0 > 0.0 { Flow::Continue } else { Flow::Done })
    ///     })?;
    ///     ended.done()?;
    ///     world.finalize();
    ///     Ok(state.0)
    /// }
    ///
    /// let job = Simulation::new(4).crash(Crash::before_effect(2, 300)).run_world(descend);
    /// assert_eq!(job.expect_orderly(), [Ok(0.0), Ok(0.0), Ok(0.0), Ok(0.0)]);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotCommitted`] as [`Self::commit`]; [`Error::NoSuchReduction`] for bit operations
    /// on floats, and then nothing has happened.
    pub fn commit_allreduce<T: Fusible, const N: usize>(
        &mut self,
        numbers: [T; N],
        op: ReduceOp,
    ) -> Result<([T; N], Finished), Error> {
        let values = Values::new(op, &numbers).ok_or(Error::NoSuchReduction)?;
        let open = self.open.take().ok_or(Error::NotCommitted)?;
        let mut reducing: Reducing<T, N> = open.block.finish_fused(&values, self.timeout);
        loop {
            reducing = match reducing.wait_local(Timeout::Never)? {
                Reduced::Committed(numbers, finished) => {
                    return Ok((numbers, self.go_on(open.copied, open.costs, finished)?));
                }
                Reduced::Faulty(finished) => {
                    self.faulty = Some(finished);
                    return Err(Error::NotCommitted);
                }
                Reduced::TimedOut(reducing) => reducing,
            };
        }
    }

    /// A block of this step is decided: goes on with the next one if it is committed.
    fn go_on(
        &mut self,
        copied: Option<u64>,
        costs: Option<Costs>,
        finished: Finished,
    ) -> Result<Finished, Error> {
        if !finished.is_committed() {
            self.faulty = Some(finished);
            return Err(Error::NotCommitted);
        }
        self.ledger.settle(self.comm, copied, costs);
        self.commits = true;
        self.since = self.number;
        self.open = Some(Open::begin(self.comm, self.number)?);
        Ok(finished)
    }

    /// Puts a copy of the state after so many steps into the open block, if it is due.
    fn copy(&mut self, state: &impl State, steps: u64) -> Result<(), Error> {
        let open = self.open.as_mut().ok_or(Error::NotCommitted)?;
        let schedule = &self.ledger.schedule;
        if let Some(mine) = schedule.asks(steps) {
            open.costs = Some(largest(&mut open.block, mine)?);
        }
        let is_due = schedule.is_due(steps, self.ledger.steps_faulty);
        let saving = |filing: &Filing| {
            let saving = &self.comm.engine().borrow().job.saving;
            let asks = |steps| filing.asks_for_copy(saving, steps);
            // The last copy may be in a block that is not decided yet.
            asks(steps) && !asks(self.ledger.copied)
        };
        if is_due || self.filing.is_some_and(saving) {
            let began = self.began.map(|_| now(self.comm));
            open.block.set_redundancy(state.redundancy());
            state.protect(&mut open.block)?;
            if open.block.protects() {
                (open.copied, self.ledger.copied) = (Some(steps), steps);
            }
            self.making = began.map(|began| now(self.comm).saturating_sub(began));
        }
        Ok(())
    }

    /// Ends the step as its content wants it; the block that it leaves open is that of the next.
    pub(super) fn end(
        mut self,
        mut result: Result<Flow, Error>,
        state: &impl State,
    ) -> Result<(Ran, Option<Open>), Error> {
        let since = self.since;
        if let Some(finished) = self.faulty.take() {
            let error = finished.agreed_error();
            return Ok((Ran::Faulty { finished, error, since }, None));
        }
        if let (Ok(Flow::Done), Some(open)) = (&result, &mut self.open) {
            open.block.say_last();
        }
        // After the last step, too: others may take it for one of several, and wait for the copy.
        if self.protects
            && result.is_ok()
            && let Err(error) = self.copy(state, self.number + 1)
        {
            result = Err(error);
        }
        let Some(open) = self.open.take() else {
            return Err(result.err().unwrap_or(Error::Abandoned));
        };
        if self.commits && matches!(result, Ok(Flow::Continue)) {
            // The last of its blocks is open: it is the first of the next step.
            self.ledger.reach(self.number);
            self.note();
            return Ok((Ran::On, Some(open)));
        }
        let Open { block, copied, costs, .. } = open;
        match Comm::conclude(block, result, self.timeout)? {
            Tried::Committed(flow, _) => {
                self.ledger.settle(self.comm, copied, costs);
                self.ledger.reach(self.number + 1);
                self.note();
                Ok((if flow == Flow::Done { Ran::Over } else { Ran::On }, None))
            }
            Tried::Faulty(finished, error) => Ok((Ran::Faulty { finished, error, since }, None)),
        }
    }

    /// Notes what the committed step has cost, as long as that is measured.
    fn note(&mut self) {
        if let Some(began) = self.began {
            let took = now(self.comm).saturating_sub(began);
            self.ledger.schedule.note(took, self.making);
        }
    }
}

impl Open {
    fn begin(comm: &Comm, since: u64) -> Result<Self, Error> {
        Ok(Self { block: comm.start(Level::Global)?, since, copied: None, costs: None })
    }
}

impl Ledger {
    pub(super) fn new(schedule: Schedule, entered: Duration) -> Self {
        let (steps_faulty, to_reach, latest, copied, faults) = Default::default();
        Self { schedule, steps_faulty, to_reach, latest, copied, faults, entered }
    }

    /// A block that was begun in this step is faulty.
    pub(super) fn fail(&mut self, step: u64) {
        self.steps_faulty += 1;
        self.copied = 0;
        self.to_reach = self.to_reach.max(step + 1);
    }

    /// All blocks of so many steps are committed.
    fn reach(&mut self, steps: u64) {
        if steps >= self.to_reach {
            self.steps_faulty = 0;
        }
    }

    /// A block is committed, and with it what it carried.
    fn settle(&mut self, comm: &Comm, copied: Option<u64>, costs: Option<Costs>) {
        if let Some(costs) = costs {
            self.schedule.agree(costs);
        }
        if let Some(steps) = copied {
            comm.engine().borrow_mut().job.protected_steps = steps + 1;
            // A copy of what was protected before is no progress.
            if self.latest <= steps {
                (self.steps_faulty, self.latest) = (0, steps + 1);
            }
        }
    }
}

fn now(comm: &Comm) -> Duration {
    comm.engine().borrow().platform.now()
}

/// The largest costs over all ranks.
fn largest(block: &mut TryBlock, Costs { copy, step }: Costs) -> Result<Costs, Error> {
    let costs = block.iallreduce(vec![copy, step], ReduceOp::Max)?;
    block.wait_local(costs, Timeout::Never)?;
    let costs = block.take(costs)?;
    Ok(Costs { copy: costs[0], step: costs[1] })
}

/// Why a step has no block: it goes on after a commit that failed, although that returns an error.
const NO_BLOCK: &str = "a step whose block did not commit has none: pass the error on by `?`";

impl Deref for Step<'_> {
    type Target = TryBlock;

    fn deref(&self) -> &TryBlock {
        &self.open.as_ref().expect(NO_BLOCK).block
    }
}

impl DerefMut for Step<'_> {
    fn deref_mut(&mut self) -> &mut TryBlock {
        &mut self.open.as_mut().expect(NO_BLOCK).block
    }
}
