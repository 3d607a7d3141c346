//! A run: a whole application driven through its steps, whatever dies on the way.
//!
//! ```text
//!        ┌──── retry, shrink, rebuild ◀── policy ◀── faulty ───┬───────────┐
//!        ▼                                                     │           │
//! enter ─▶ join: begin with a state, or bring it back ── committed ─▶ step ─▶ committed, done
//!                                                         ▲           │
//!                                                         └─ committed ┘
//! ```
//!
//! *Join* is one block for all cases: the first start, the way back after a fault, the entrance
//! of a replacement. Its ranks tell each other how many steps are protected, and what else a
//! replacement has to know; if no step is protected each begins anew, otherwise each gets the
//! protected state.

use super::{
    Comm, Flow, Saved, State, Step, Tried, TryBlock, World,
    step::{Ledger, Open, Ran},
};
use crate::{
    engine::Level,
    error::Error,
    fault::FaultReport,
    recovery::{
        filing::{Begun, Filing},
        interval::Schedule,
        policy::{Decision, Policy, Situation},
        told::{Loss, Told},
    },
    seam::{platform::Quit, reduction::ReduceOp, trace},
    timeout::Timeout,
};

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
            Self::Escalated { comm, report, error } => {
                let stopped = Error::Stopped { report, here: error.map(Box::new) };
                comm.engine().borrow_mut().note_error(&stopped);
                Err(stopped)
            }
        }
    }
}

impl World {
    /// Runs an application step by step, whatever dies on the way. Each step is a global block;
    /// with its commit the state of each rank is protected by a copy at its partner, where one is
    /// due ([`State::interval`]: by default as often as pays). After a faulty block the policy
    /// decides, on all ranks alike, how to go on; then all go back to the protected states, and
    /// replacements, which enter the same call, get those of the dead.
    ///
    /// What comes before and after the steps needs no loop of its own: [`State::begin`] and
    /// [`State::restore`] make a state whole, in a block; what needs several blocks is a part of
    /// the step, which ends each by [`Step::commit`] or, with a reduction for nothing, by
    /// [`Step::commit_allreduce`]; the last step sums up the result.
    ///
    /// With checkpoints ([`World::set_checkpoints`]) all go back to the newest one where a rank has
    /// died with those that kept its state.
    ///
    /// A step changes the state in place; what it changes elsewhere is not taken back after a
    /// fault. A program has one run at a time that replacements can enter; if it runs again after
    /// [`Ended::Escalated`], that goes on from the protected states.
    ///
    /// # Errors
    ///
    /// All living ranks get one error; the world can still be left in order: [`Error::Stopped`],
    /// [`Error::StateLost`], [`Error::RecoveryExhausted`], [`Error::NotAllDone`], [`Error::Left`],
    /// with checkpoints [`Error::CheckpointsExist`] and [`Error::NoCheckpoint`], and of policies
    /// [`Error::TooFewSpares`], [`Error::CannotShrink`] and [`Error::CannotRebuild`].
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
        step: impl FnMut(&mut Step<'_>, &mut S) -> Result<Flow, Error>,
    ) -> Result<Ended, Error> {
        let ended = self.run_steps(policy, state, step);
        if let Err(error) = &ended {
            self.engine().borrow_mut().note_error(error);
        }
        ended
    }

    fn run_steps<S: State>(
        &mut self,
        policy: &(impl Policy + ?Sized),
        state: &mut S,
        mut step: impl FnMut(&mut Step<'_>, &mut S) -> Result<Flow, Error>,
    ) -> Result<Ended, Error> {
        let comm = self.comm();
        let schedule = Schedule::new(state.interval());
        let engine = comm.engine().borrow();
        let (entered, killed_at) = (engine.platform.now(), engine.platform.setup().killed_at);
        drop(engine);
        let mut run = Run {
            filing: self.filing.take(),
            world: self,
            comm,
            shrunk: false,
            whole: true,
            steps: None,
            killed_at,
            left_open: None,
            ledger: Ledger::new(schedule, entered),
            joins_faulty: 0,
        };
        let mut go_on = || loop {
            let ran = match run.steps {
                Some(_) if run.saves() => run.checkpoint()?,
                Some(number) => run.step(number, state, &mut step)?,
                None => run.join(state)?,
            };
            match ran {
                Ran::On => {}
                Ran::Over => {
                    run.saves_newer();
                    return Ok(Ended::Done(run.comm.clone()));
                }
                Ran::Faulty { finished, error, since } => {
                    let report = finished.report();
                    drop(finished);
                    if let Some(ended) = run.answer(policy, report, error, since)? {
                        return Ok(ended);
                    }
                }
            }
        };
        let ended = go_on();
        run.world.filing = run.filing;
        ended
    }
}

/// Where a run is.
struct Run<'a> {
    world: &'a mut World,
    comm: Comm,
    shrunk: bool,
    /// The states were protected on this communicator, so no state is to be inherited.
    whole: bool,
    /// Committed steps; `None` as long as the ranks have to join.
    steps: Option<u64>,
    /// The step, counted from 1, at whose beginning a plan kills this process.
    killed_at: Option<u64>,
    /// The block that the last step has begun and left to the next one.
    left_open: Option<Open>,
    ledger: Ledger,
    /// Where states are saved, if they are.
    filing: Option<Filing>,
    /// Faulty attempts to join since the last rebuild, so that replacements count alike.
    joins_faulty: u32,
}

impl Run<'_> {
    /// All ranks get their states and learn where the run is.
    fn join<S: State>(&mut self, state: &mut S) -> Result<Ran, Error> {
        let engine = self.comm.engine().borrow();
        let (protected, now) = (engine.job.protected_steps, engine.platform.now());
        drop(engine);
        if S::INHERITED && !self.whole && self.lost().is_none() {
            let lost = self.comm.engine().borrow().lost_to(self.comm.key());
            match lost {
                Some(Error::StateLost { rank, partner }) => self.note_lost(Some((rank, partner))),
                Some(error) => return Err(error),
                None => {}
            }
        }
        let mut block = self.comm.start(Level::Global)?;
        let Ledger { schedule, steps_faulty, to_reach, latest, faults, entered, .. } = &self.ledger;
        let interval = schedule.after_faults(*faults, now.saturating_sub(*entered));
        let latest = protected.max(*latest);
        let mine = [protected, u64::from(*steps_faulty), *to_reach, latest, u64::from(interval)];
        let told = Filing::tell(self.filing.as_mut(), &self.comm.engine().borrow().job);
        let joined = self.exchange(&mut block, mine, told, state);
        Ok(match Comm::conclude(block, joined, Timeout::Never)? {
            Tried::Committed(Err(refusal), _) => return Err(refusal),
            Tried::Committed(Ok(known), _) => {
                let [protected, steps_faulty, to_reach, latest, interval] = known;
                let mut engine = self.comm.engine().borrow_mut();
                engine.job.protected_steps = protected;
                engine.job.roster.settled = engine.job.roster.generation;
                drop(engine);
                (self.ledger.steps_faulty, self.ledger.to_reach) = (steps_faulty as u32, to_reach);
                self.ledger.latest = latest.max(protected);
                self.ledger.schedule.take(interval as u32);
                let number = protected.saturating_sub(1);
                self.steps = Some(number);
                if let Some(failed) = to_reach.checked_sub(1) {
                    let again = failed.saturating_sub(number);
                    trace::mark("step resumed", &[("step", number + 1), ("again", again)]);
                }
                (self.joins_faulty, self.whole) = (0, true);
                Ran::On
            }
            Tried::Faulty(finished, error) => Ran::Faulty { finished, error, since: 0 },
        })
    }

    fn step<S: State>(
        &mut self,
        number: u64,
        state: &mut S,
        body: &mut impl FnMut(&mut Step<'_>, &mut S) -> Result<Flow, Error>,
    ) -> Result<Ran, Error> {
        if self.killed_at == Some(number + 1) {
            trace::mark("killed by plan", &[]);
            self.comm.engine().borrow_mut().platform.quit(Quit::Killed);
        }
        let ledger = (&mut self.ledger, self.filing.as_ref());
        let mut step = Step::begin(self.world, &self.comm, ledger, number, self.left_open.take())?;
        let result = body(&mut step, state);
        let (ran, left_open) = step.end(result, state)?;
        self.left_open = left_open;
        match ran {
            Ran::On => self.steps = Some(number + 1),
            // What comes after this run begins with states of its own.
            Ran::Over => self.comm.engine().borrow_mut().job.protected_steps = 0,
            Ran::Faulty { .. } => {}
        }
        Ok(ran)
    }

    /// Does what the policy says about a faulty block that was begun in this step; the end of the
    /// run, if that is it.
    fn answer(
        &mut self,
        policy: &(impl Policy + ?Sized),
        report: FaultReport,
        error: Option<Error>,
        since: u64,
    ) -> Result<Option<Ended>, Error> {
        let agreed = self.comm.engine().borrow().agreed_error(&report);
        // A checkpoint may have it. Replacements do not know yet whether there is one: all learn it
        // when they join again.
        let lost = match agreed {
            Some(Error::StateLost { rank, partner }) if self.steps.is_none() => {
                Some((rank, partner))
            }
            Some(error) => return Err(error),
            None => None,
        };
        self.note_lost(lost.or(self.lost()));
        // A rank may be in the next step already; all know in which one the block was begun.
        let step = self.steps.take().map(|_| since);
        let decision = policy.decide(&self.situation(&report, step, lost.is_some()));
        tracing::info!(
            target: "fampi::run", %report, ?decision, step, here = ?error, "faulty"
        );
        self.left_open = None;
        // Who has joined since another report named a loss may not know that one.
        if let Some((rank, partner)) = lost
            && matches!(decision, Decision::Escalate | Decision::Stop)
        {
            return Err(Error::StateLost { rank, partner });
        }
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

    /// The state that an attempt to join has found lost, so that the next one takes all states from
    /// a checkpoint, if there is one.
    fn lost(&self) -> Option<Loss> {
        self.comm.engine().borrow().job.lost
    }

    fn note_lost(&self, lost: Option<Loss>) {
        self.comm.engine().borrow_mut().job.lost = lost;
    }

    /// The error about a state that no living rank has.
    fn loss(&self) -> Option<Error> {
        self.lost().map(|(rank, partner)| Error::StateLost { rank, partner })
    }

    fn situation<'r>(
        &mut self,
        report: &'r FaultReport,
        step: Option<u64>,
        is_loss_new: bool,
    ) -> Situation<'r> {
        let engine = self.comm.engine().borrow();
        let roster = &engine.job.roster;
        let (generation, spares) = (roster.generation, roster.spares.len());
        let rebuilds = generation.saturating_sub(roster.settled);
        drop(engine);
        self.ledger.faults += 1;
        // Who joins knows of no census yet.
        let benched = step.map(|_| self.comm.benched()).unwrap_or_default();
        let faulty_in_a_row = if let Some(step) = step {
            self.ledger.fail(step);
            self.ledger.steps_faulty
        } else {
            // Going back to a checkpoint is another way, and not the same attempt again.
            self.joins_faulty += u32::from(!is_loss_new);
            (self.joins_faulty + rebuilds).max(1)
        };
        Situation {
            report,
            dead: self.comm.known_failed(),
            benched,
            ranks: self.comm.size(),
            spares,
            generation,
            step,
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

    /// The content of the block in which ranks join. What all know then is how many steps are
    /// protected, how many blocks were faulty since, how many steps are progress, how many were
    /// ever protected, and the interval; or why the run cannot go on.
    fn exchange<S: State>(
        &mut self,
        block: &mut TryBlock,
        mine: [u64; 5],
        told: Told,
        state: &mut S,
    ) -> Result<Result<[u64; 5], Error>, Error> {
        block.set_redundancy(state.redundancy());
        let all = [&mine[..], &told.words()].concat();
        let known = block.iallreduce(all, ReduceOp::Max)?;
        block.wait_local(known, Timeout::Never)?;
        let all = block.take(known)?;
        let mut known = [0, 1, 2, 3, 4].map(|at| all[at]);
        let told = Told::from_words(std::array::from_fn(|at| all[known.len() + at]));
        self.note_lost(told.loss());
        Filing::hear(self.filing.as_ref(), told);
        match self.bring_back(block, known[0], told, state)? {
            Ok(protected) => known[0] = protected,
            Err(refusal) => return Ok(Err(refusal)),
        }
        let mut engine = self.comm.engine().borrow_mut();
        let saving = told.saving(&engine.job.saving, known[0], engine.platform.now());
        engine.will_know(block.key, saving);
        Ok(Ok(known))
    }

    /// Each rank has its state again, or begins, where so many steps are protected; how many are
    /// then.
    fn bring_back<S: State>(
        &mut self,
        block: &mut TryBlock,
        mut protected: u64,
        told: Told,
        state: &mut S,
    ) -> Result<Result<u64, Error>, Error> {
        if let Some(refusal) = told.refusal(&Filing::place_of(self.filing.as_ref())) {
            return Ok(Err(refusal));
        }
        let mut inherits = !self.whole;
        if told.loss().is_some() || (protected == 0 && told.restarts()) {
            let part = self.part();
            let Some(filing) = self.filing.as_mut().filter(|_| told.all_have_some()) else {
                let place = Filing::place_of(self.filing.as_ref());
                let none = Error::NoCheckpoint { place, ranks: part.1 };
                return Ok(Err(self.loss().unwrap_or(none)));
            };
            let mut engine = self.comm.engine().borrow_mut();
            match filing.begin(&mut engine, block.key, part, told, S::RESIZES)? {
                Begun::Refused(refusal) => {
                    drop(engine);
                    return Ok(Err(self.loss().unwrap_or(refusal)));
                }
                Begun::Loaded(set) => {
                    (protected, inherits) = (set.protected, false);
                    if told.loss().is_some() {
                        // They are what this rank has even if the block fails.
                        engine.job.protected_steps = protected;
                    }
                }
                Begun::Resized(reader) => {
                    drop(engine);
                    let protected = reader.set.protected;
                    state.resize(block, &mut Saved::new(filing, reader))?;
                    state.protect(block)?;
                    return Ok(Ok(protected));
                }
            }
        } else if protected == 0 {
            state.begin(block)?;
            return Ok(Ok(block.protects().into()));
        }
        state.restore(block)?;
        if inherits {
            state.inherit(block)?;
        }
        if !self.whole {
            state.protect(block)?;
        }
        Ok(Ok(protected))
    }

    /// Whose state this rank has, of how many: in the world that of a rank of the launch.
    fn part(&self) -> (u32, u32) {
        let rank = if self.shrunk { self.comm.rank().number() } else { self.world.origin() };
        (rank, self.comm.size())
    }

    /// A further run of the program saves newer checkpoints than those of this one, if it has any.
    fn saves_newer(&self) {
        let saving = &mut self.comm.engine().borrow_mut().job.saving;
        if saving.launch > 0 {
            *saving = saving.anew(saving.launch + 1);
        }
    }

    /// True when the states are to be saved before the next step, on all ranks alike.
    fn saves(&self) -> bool {
        let job = &self.comm.engine().borrow().job;
        self.filing.as_ref().is_some_and(|it| it.is_due(&job.saving, job.protected_steps))
    }

    /// All ranks save their states.
    fn checkpoint(&mut self) -> Result<Ran, Error> {
        let since = self.steps.unwrap_or_default();
        let part = self.part();
        let Some(filing) = &mut self.filing else { return Ok(Ran::On) };
        let block = self.comm.start(Level::Global)?;
        let mut engine = self.comm.engine().borrow_mut();
        let protected = engine.job.protected_steps;
        let saved = filing.save(&mut engine, block.key, part, protected);
        drop(engine);
        Ok(match Comm::conclude(block, saved, Timeout::Never)? {
            Tried::Committed(..) => Ran::On,
            Tried::Faulty(finished, error) => Ran::Faulty { finished, error, since },
        })
    }
}
