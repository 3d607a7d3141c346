//! What an application does around its steps, whatever its numerics are: it dies by plan, tells
//! the other ranks what was lost, and measures what surviving costs.
//!
//! How steps are committed, copied, and done again is the library's affair ([`World::run`]).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use fampi::policy::{self, Decision, Situation};
use fampi::{Error, FaultCode, Finished, Policy, ReduceOp, Step, Timeout, TryBlock, World};

use crate::account::Account;
use crate::faults::Faults;
use crate::kill_plan::{Mode, Phase};
use crate::timeline;

/// After so many faulty steps in a row a run is given up.
const PATIENCE: u32 = 100;

/// One rank of a run, as seen from outside of its numerics.
pub struct Witness<'a> {
    faults: &'a Faults,
    die: &'a dyn Fn(Mode),
    /// The rank of the launch that this process stands for.
    rank: u32,
    replacement: bool,
    recovering: Rc<Recovering>,
    account: Account,
    /// The last iteration that has begun here.
    begun: u32,
    /// Iterations below this one had been done before.
    redoing: u32,
    began: Instant,
    /// The account when this iteration began.
    before: Account,
}

/// What the policy of a run notes of it.
#[derive(Default)]
struct Recovering {
    /// Recoveries that this process has taken part in.
    joined: Cell<u32>,
    /// When the recovery that is under way began.
    since: Cell<Option<Instant>>,
}

impl<'a> Witness<'a> {
    /// The witness of this rank, whose process ends as `die` does if it is to.
    #[must_use]
    pub fn new(world: &World, faults: &'a Faults, die: &'a dyn Fn(Mode)) -> Self {
        let replacement = world.is_replacement();
        let witness = Self {
            faults,
            die,
            rank: world.origin(),
            replacement,
            recovering: Rc::default(),
            account: Account::default(),
            begun: 0,
            redoing: 0,
            began: Instant::now(),
            before: Account::default(),
        };
        timeline::run_begins(witness.rank, replacement);
        if replacement {
            witness.recovering.since.set(Some(witness.began));
            witness.passing(world.generation())(Phase::JOIN);
        }
        witness
    }

    /// Rebuilds or shrinks after a death, repeats after a fault without one, and gives up when the
    /// application itself has objected, as it would do so again.
    pub fn policy(&self) -> impl Policy + use<'a> {
        let placement = self.faults.recovery.placement();
        let recovering = Rc::clone(&self.recovering);
        let at_risk = self.end_of_process();
        move |situation: &Situation<'_>| {
            let Recovering { joined, since } = &*recovering;
            since.set(since.get().or_else(|| Some(Instant::now())));
            let decision = match placement {
                Some(placement) => policy::Rebuild { placement, times: PATIENCE }.decide(situation),
                // Each shrink has fewer ranks than the one before: no number of them is too many.
                None if !situation.dead.is_empty() => Decision::Shrink,
                None => policy::Retry { times: PATIENCE }.decide(situation),
            };
            match decision {
                Decision::Rebuild(_) | Decision::Shrink => {
                    joined.set(joined.get() + 1);
                    at_risk(Phase::RECOVERY, joined.get());
                    decision
                }
                Decision::Retry if has_objected(situation) => Decision::Escalate,
                _ => decision,
            }
        }
    }

    /// The run is over: what surviving did and cost.
    #[must_use]
    pub fn end(self, world: &World) -> Account {
        let account = Account { recoveries: world.generation(), ..self.account };
        timeline::run_ends(&account);
        account
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
    pub fn done(&mut self, step: &Step<'_>, k: u32) {
        self.account.interval = step.interval();
        if k < self.redoing {
            let took = self.began.elapsed();
            let blocks = self.account.blocks.saturating_sub(self.before.blocks);
            let making = self.account.copies.saturating_sub(self.before.copies);
            self.account.redone += took.saturating_sub(blocks + making);
        }
    }

    /// What ends this process at the points of iteration `k`, if the plan says so.
    pub fn passing(&self, k: u32) -> impl FnMut(Phase) + use<'a> {
        let end = self.end_of_process();
        move |phase| end(phase, k)
    }

    /// What ends this process at a phase with this count, if the plan says so. Replacements only
    /// die while they join.
    fn end_of_process(&self) -> impl Fn(Phase, u32) + use<'a> {
        let (faults, die, rank, replacement) = (self.faults, self.die, self.rank, self.replacement);
        move |phase, count| {
            let mortal = !replacement || phase == Phase::JOIN;
            let due = faults.kills.due(rank as usize, phase, count);
            if let Some(mode) = due.filter(|_| mortal) {
                timeline::killed(rank);
                die(mode);
            }
        }
    }

    /// Ends a block of the step.
    ///
    /// # Errors
    /// [`Error::NotCommitted`].
    pub fn commit(&mut self, step: &mut Step<'_>) -> Result<Finished, Error> {
        let began = Instant::now();
        let finished = step.commit()?;
        self.account.blocks += began.elapsed();
        Ok(finished)
    }

    /// Ends a block of the step with a reduction that rides on its commit.
    ///
    /// # Errors
    /// [`Error::NotCommitted`].
    pub fn commit_reduced<const N: usize>(
        &mut self,
        step: &mut Step<'_>,
        numbers: [f64; N],
        operation: ReduceOp,
    ) -> Result<([f64; N], Finished), Error> {
        let began = Instant::now();
        let reduced = step.commit_allreduce(numbers, operation)?;
        self.account.blocks += began.elapsed();
        Ok(reduced)
    }

    /// Adds what making a copy took since then.
    pub fn add_copy(&mut self, began: Instant) {
        self.account.copies += began.elapsed();
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
        let mut all = vec![f64::from(self.begun), self.account.lost.into()];
        all.extend(numbers);
        let all = block.iallreduce(all, ReduceOp::Max)?;
        block.wait_local(all, Timeout::Never)?;
        let all = block.take(all)?;
        let [begun, lost] = [0, 1].map(|at| all[at] as u32);
        let lost = lost + begun.saturating_sub(iteration);
        Ok((News { iteration, begun, lost }, std::array::from_fn(|at| all[2 + at])))
    }

    /// The block with the news is committed: the iterations after that of the news come next.
    pub fn resume(&mut self, step: &Step<'_>, news: News) {
        self.account.lost = news.lost;
        self.account.interval = step.interval();
        self.redoing = self.redoing.max(news.begun);
        self.begun = news.iteration;
        let recovering = self.recovering.since.take();
        self.account.recovery += recovering.map(|since| since.elapsed()).unwrap_or_default();
        if step.world().generation() > 0 {
            timeline::resumed(news.iteration);
        }
    }
}

/// What ranks that begin, or begin again, know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    iteration: u32,
    begun: u32,
    lost: u32,
}

/// True when a rank has left a block with an error of the application.
fn has_objected(situation: &Situation<'_>) -> bool {
    let mut faults = situation.report.faults().iter();
    faults.any(|fault| matches!(fault.code, FaultCode::Application(_)))
}
