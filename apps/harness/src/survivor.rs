//! One rank of a run that loses ranks: blocks, copies and recovery, whatever the numerics are.
//!
//! An application is a loop of iterations, each in a global block, between the restorations of a
//! state. What it does is its own; how a block ends, what follows from a faulty one, when copies
//! are made, and what all ranks have to know of each other when they begin again, is here.
//!
//! ```text
//!  start ──▶ iteration ──▶ … ──▶ summary
//!    ▲           │ a block is faulty: Detour
//!    │           ▼
//!  nothing ◀─ restore ◀── rebuild (ranks died)
//! ```

use std::time::Instant;

use fampi::{
    Codes, Error, Fault, Finished, Outcome, Pending, ReduceOp, Reduced, Timeout, Tried, TryBlock,
    World,
};

use crate::account::Account;
use crate::buffers::Places;
use crate::faults::Faults;
use crate::kill_plan::{Mode, Phase};
use crate::schedule::{Costs, Schedule};
use crate::timeline;

/// The number of the protected state.
const STATE: u32 = 0;

/// Why a part of a run did not come to its end. All ranks that live have the same.
#[derive(Debug)]
pub enum Detour {
    /// Ranks died: the world has to be rebuilt.
    Rebuild,
    /// A rank that lives has left the block, or something in it failed.
    Faulty(Finished),
    /// There is no way on.
    Lost(Error),
}

impl From<Error> for Detour {
    fn from(error: Error) -> Self {
        Self::Lost(error)
    }
}

impl Detour {
    /// What follows from a faulty block.
    #[must_use]
    pub fn after(finished: Finished) -> Self {
        let died = |fault: &Fault| Codes::PROCESS_FAILURES.matches(fault.code);
        if finished.report().faults().iter().any(died) {
            Self::Rebuild
        } else {
            Self::Faulty(finished)
        }
    }
}

/// The end of a block, however long it takes.
///
/// # Errors
/// [`Error::Request`] when an outer block is doomed: pass it on.
pub fn wait(mut pending: Pending) -> Result<Finished, Error> {
    loop {
        pending = match pending.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => return Ok(finished),
            Outcome::TimedOut(pending) => pending,
        };
    }
}

/// The protected state, in a block of the world in which all ranks ask for it.
///
/// # Errors
/// [`Error`], after which the block has to be left.
pub fn restore(block: &mut TryBlock) -> Result<Vec<f64>, Error> {
    block.restore(STATE)
}

/// What a block of restoration came to: nothing if nothing had been protected, and all ranks start
/// anew.
///
/// # Errors
/// [`Detour`], also if a state is lost with its copy.
pub fn restored<T>(tried: Tried<T>) -> Result<Option<T>, Detour> {
    let (finished, error) = match tried {
        Tried::Committed(value, _) => return Ok(Some(value)),
        Tried::Faulty(finished, error) => (finished, error),
    };
    // The error is the same on all ranks where it says what to do.
    match (Detour::after(finished), error) {
        (Detour::Faulty(_), Some(Error::NothingProtected)) => Ok(None),
        (Detour::Faulty(_), Some(error @ Error::StateLost { .. })) => Err(error.into()),
        (detour, _) => Err(detour),
    }
}

/// One rank of a run.
pub struct Survivor<'a, P> {
    /// The world, which recovery replaces.
    pub world: World,
    /// Where the parts of the problem are in it.
    pub places: Places,
    faults: &'a Faults<P>,
    die: &'a dyn Fn(Mode),
    account: Account,
    schedule: Schedule,
    /// The costs that the ranks have agreed on in a block that is not committed yet.
    proposed: Option<Costs>,
    copy: Vec<f64>,
    recoveries_joined: u32,
    replacement: bool,
    /// The last iteration that has begun here.
    begun: u32,
    /// Iterations below this one had been done before.
    redoing: u32,
    began: Instant,
    /// The account when this iteration began.
    before: Account,
}

impl<'a, P: Phase> Survivor<'a, P> {
    /// A rank of this world, which ends as `die` does if it is to. A replacement takes part in the
    /// next restoration.
    #[must_use]
    pub fn new(world: World, faults: &'a Faults<P>, die: &'a dyn Fn(Mode)) -> Self {
        let survivor = Self {
            places: Places::of(&world),
            replacement: world.is_replacement(),
            schedule: Schedule::new(faults.protect, faults.mtbf.unwrap_or_default()),
            world,
            faults,
            die,
            account: Account::default(),
            proposed: None,
            copy: Vec::new(),
            recoveries_joined: 0,
            begun: 0,
            redoing: 0,
            began: Instant::now(),
            before: Account::default(),
        };
        timeline::run_begins(survivor.world.origin(), survivor.replacement);
        if survivor.replacement {
            survivor.end_if_planned(P::JOIN, survivor.world.generation());
        }
        survivor
    }

    /// Whether this process has taken the place of a dead one.
    #[must_use]
    pub const fn is_replacement(&self) -> bool {
        self.replacement
    }

    /// What surviving did and cost so far.
    #[must_use]
    pub fn account(&self) -> Account {
        let (recoveries, interval) = (self.world.generation(), self.schedule.chosen());
        Account { recoveries, interval, ..self.account }
    }

    /// The run is over: the world, and the account.
    #[must_use]
    pub fn end(self) -> (World, Account) {
        let account = self.account();
        timeline::run_ends(self.world.origin(), self.replacement, &account);
        (self.world, account)
    }

    /// The last iteration that has begun here.
    #[must_use]
    pub const fn begun(&self) -> u32 {
        self.begun
    }

    /// Iteration `k` begins.
    pub fn begin(&mut self, k: u32) {
        self.begun = k;
        (self.began, self.before) = (Instant::now(), self.account);
    }

    /// Iteration `k` is committed.
    pub fn done(&mut self, k: u32) {
        let took = self.began.elapsed();
        let making = self.account.copies.saturating_sub(self.before.copies);
        if k < self.redoing {
            let blocks = self.account.blocks.saturating_sub(self.before.blocks);
            self.account.redone += took.saturating_sub(blocks + making);
        }
        self.schedule.note(k, took, making);
        if let Some(costs) = self.proposed.take() {
            self.schedule.choose(self.schedule.interval(costs));
        }
    }

    /// What ends this process at the points of iteration `k`, if the plan says so. Replacements
    /// only die while they join.
    pub fn passing(&self, k: u32) -> impl FnMut(P) + use<'a, P> {
        let (faults, die, replacement) = (self.faults, self.die, self.replacement);
        let rank = self.world.origin();
        move |phase| {
            let mortal = !replacement || phase == P::JOIN;
            let due = faults.kills.due(rank as usize, phase, k);
            if let Some(mode) = due.filter(|_| mortal) {
                timeline::killed(rank);
                die(mode);
            }
        }
    }

    /// Ends this process if the plan says so.
    pub fn end_if_planned(&self, phase: P, count: u32) {
        self.passing(count)(phase);
    }

    /// Puts a copy of the state before iteration `k` into its block, if it is time for one.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    pub fn protect(
        &mut self,
        block: &mut TryBlock,
        k: u32,
        encode: impl FnOnce(&mut Vec<f64>),
    ) -> Result<(), Error> {
        self.proposed = None;
        if self.schedule.is_open(k) {
            let Costs { copy, iteration } = self.schedule.costs();
            let costs = largest(block, vec![copy, iteration])?;
            self.proposed = Some(Costs { copy: costs[0], iteration: costs[1] });
        }
        if !self.schedule.is_due(k) {
            return Ok(());
        }
        let began = Instant::now();
        encode(&mut self.copy);
        let result = block.protect(STATE, &self.copy);
        self.account.copies += began.elapsed();
        result
    }

    /// Ends a block that has to be committed.
    ///
    /// # Errors
    /// [`Detour`] if it is faulty.
    pub fn commit(&mut self, block: TryBlock) -> Result<Finished, Detour> {
        let began = Instant::now();
        let finished = wait(block.finish(Timeout::Never))?;
        if !finished.is_committed() {
            return Err(Detour::after(finished));
        }
        self.account.blocks += began.elapsed();
        Ok(finished)
    }

    /// Ends a block with a reduction that rides on its commit.
    ///
    /// # Errors
    /// [`Detour`] if it is faulty.
    pub fn commit_reduced<const N: usize>(
        &mut self,
        block: TryBlock,
        numbers: [f64; N],
        operation: ReduceOp,
    ) -> Result<(Finished, [f64; N]), Detour> {
        let began = Instant::now();
        let mut reducing = block.finish_allreduce(numbers, operation, Timeout::Never)?;
        loop {
            reducing = match reducing.wait_local(Timeout::Never)? {
                Reduced::Committed(numbers, finished) => {
                    self.account.blocks += began.elapsed();
                    return Ok((finished, numbers));
                }
                Reduced::Faulty(finished) => return Err(Detour::after(finished)),
                Reduced::TimedOut(reducing) => reducing,
            };
        }
    }

    /// Goes on with a block, or leaves it because of the error; all ranks learn of it.
    ///
    /// # Errors
    /// [`Detour`] for an error.
    pub fn go_on<T>(
        &self,
        block: TryBlock,
        result: Result<T, Error>,
    ) -> Result<(TryBlock, T), Detour> {
        match result {
            Ok(value) => Ok((block, value)),
            Err(error) => Err(Detour::after(wait(block.leave(&error))?)),
        }
    }

    /// A world without dead ranks.
    ///
    /// # Errors
    /// [`Error`] if there is no way to get one.
    pub fn rebuild(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        self.recoveries_joined += 1;
        self.end_if_planned(P::RECOVERY, self.recoveries_joined);
        self.world = self.world.rebuild(self.faults.recovery.placement())?;
        self.places = Places::of(&self.world);
        self.account.recovery += began.elapsed();
        Ok(())
    }

    /// Tells all ranks, in a block in which they begin after `iteration`, what they have to know
    /// of each other, and the greatest of these numbers.
    ///
    /// # Errors
    /// [`Error`], after which the block has to be left.
    pub fn exchange_news<const N: usize>(
        &self,
        block: &mut TryBlock,
        iteration: u32,
        numbers: [f64; N],
    ) -> Result<(News, [f64; N]), Error> {
        let interval = self.schedule.chosen().unwrap_or_default();
        let mut all = vec![f64::from(self.begun), self.account.lost.into(), interval.into()];
        all.extend(numbers);
        let all = largest(block, all)?;
        let [begun, lost, interval] = [0, 1, 2].map(|at| all[at] as u32);
        let lost = lost + begun.saturating_sub(iteration);
        let news = News { iteration, begun, lost, interval };
        Ok((news, std::array::from_fn(|at| all[3 + at])))
    }

    /// The block with the news is committed: the iterations after that of the news come next.
    pub fn resume(&mut self, news: &News) {
        self.account.lost = news.lost;
        self.redoing = self.redoing.max(news.begun);
        self.begun = news.iteration;
        if news.interval > 0 {
            self.schedule.choose(news.interval);
        }
        if self.world.generation() > 0 {
            timeline::resumed(self.world.rank(), news.iteration);
        }
    }

    /// Adds what a restoration took since then.
    pub fn add_recovery(&mut self, began: Instant) {
        self.account.recovery += began.elapsed();
    }
}

/// What ranks that begin, or begin again, know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    iteration: u32,
    begun: u32,
    lost: u32,
    interval: u32,
}

/// The largest values over all ranks, element by element.
fn largest(block: &mut TryBlock, values: Vec<f64>) -> Result<Vec<f64>, Error> {
    let request = block.iallreduce(values, ReduceOp::Max)?;
    block.wait_local(request, Timeout::Never)?;
    block.take(request)
}
