//! The group of recommended processes: who of the living gets work, the same on all ranks.

use super::{Comm, Finished, Step, TryBlock, World};
use crate::{
    engine::{
        CommKey,
        membership::{
            Membership,
            levels::Levels,
            member::{Census, Member, Slow},
            removal::Rule,
        },
    },
    error::Error,
    rank::{Rank, RankSet},
    timeout::Timeout,
};

/// The living ranks that are fast enough for work, as one rank of the world knows them.
///
/// With observers that test who is slow (`fampi run --diagnosis`) each rank sees what was counted
/// of itself ([`Comm::tested`]). Whether there is anything new of it is one word ([`Self::news`])
/// that rides on a commit. If all ranks together have news, they tell them each other in a
/// *census*, and get the same group from it. Who is *benched* keeps its rank and takes part in all
/// blocks; the application gives it no work. It comes back after ζ good tests in a row.
///
/// Observers of several nodes test each other, too: a node that others accuse takes its ranks along
/// ([`Self::by`] is the rule), and comes back when more than half of the others saw it well.
///
/// Members are the ranks of the launch ([`World::origin`]), which they stay when the world shrinks
/// and when others take their places. Who is missing in a census is dead, so there is one after
/// each recovery. Without observers that test, the group is all who live.
///
/// ```
/// use std::time::Duration;
/// use fampi::membership::{evidence::{Opinion, Tested}, member::Slow};
/// use fampi::{Error, Flow, Rank, ReduceOp, World, policy, sim::Simulation};
///
/// fn work(mut world: World) -> Result<Vec<bool>, Error> {
///     let mut group = world.recommended(Slow::Return);
///     let (me, mut worked) = (Rank::new(world.origin()), vec![0.0]);
///     let mut turns = Vec::new();
///     let ended = world.run(&policy::Shrink::default(), &mut worked, |step, worked| {
///         turns.push(group.view().is_member(me));
///         if group.view().is_member(me) {
///             fampi::sim::compute(Duration::from_millis(1));
///             worked[0] += 1.0;
///         }
///         let ([news], _) = step.commit_allreduce([group.news(step.comm())], ReduceOp::Or)?;
///         if news != 0 {
///             group.renew(step)?;
///         }
///         Ok(if turns.len() < 8 { Flow::Continue } else { Flow::Done })
///     })?;
///     ended.done()?;
///     world.finalize();
///     Ok(turns)
/// }
///
/// /// Rank 1 fails a test in the third millisecond, and passes three after it.
/// fn tests(_: u64, rank: u32, now: Duration) -> Tested {
///     let fails = u32::from(rank == 1 && now > Duration::from_micros(2500));
///     let passed = now.as_millis().saturating_sub(3) as u32;
///     Tested::of(Opinion { fails, streak: passed }, 3)
/// }
///
/// let turns = Simulation::new(3).tests(tests).run_world(work).expect_orderly();
/// let turns: Vec<_> = turns.into_iter().map(|turns| turns.expect("no rank dies")).collect();
/// assert!(turns[0].iter().all(|works| *works) && turns[2] == turns[0]);
/// assert!(turns[1].contains(&false) && turns[1][7], "benched, and back");
/// ```
///
/// Reference: Camargo and Duarte 2018, section 3.
#[derive(Debug)]
pub struct Recommended {
    member: Member,
    /// This rank has accepted a census.
    knows: bool,
}

/// The group that a census came to, which counts if its block commits.
#[derive(Debug)]
#[must_use = "`Recommended::accept` makes it the group"]
pub struct Counted {
    levels: Levels,
    /// By the ranks of this communicator.
    benched: (CommKey, RankSet),
}

impl World {
    /// All ranks of the launch, as the group that they are before anybody was tested. All ranks
    /// call it, replacements, too, and say the same about the slow.
    pub fn recommended(&self, slow: Slow) -> Recommended {
        let origins = &self.engine().borrow().job.roster.origins;
        let ranks = origins.iter().max().map_or(0, |most| most + 1);
        let me = Rank::new(origins[self.rank().index()]);
        let member = Member::new(me, ranks, slow, &*self.engine().borrow());
        Recommended { member, knows: false }
    }
}

impl Counted {
    /// The group that it is if the block commits.
    pub fn view(&self) -> &Membership {
        self.levels.view()
    }
}

impl Comm {
    /// The living ranks of this communicator that its last census has found too slow for work, the
    /// same on all ranks; none before there was one.
    pub fn benched(&self) -> RankSet {
        self.engine().borrow().comm(self.key()).benched.clone()
    }
}

impl Recommended {
    /// The group, by ranks of the launch, as the last census that was accepted has found it.
    pub fn view(&self) -> &Membership {
        self.member.view()
    }

    /// Chooses the rule by which nodes that accuse each other are benched. All ranks choose the
    /// same one; without this call it is [`Rule::Fewest`].
    #[must_use]
    pub fn by(self, rule: Rule) -> Self {
        Self { member: self.member.by(rule), ..self }
    }

    /// What the group is made of: who is benched for itself, and who with its node.
    pub fn levels(&self) -> &Levels {
        self.member.levels()
    }

    /// What this rank has to tell: 0 while nothing is new. All ranks learn whether anything is by
    /// [`ReduceOp::Or`](crate::ReduceOp::Or) over it, with their next commit.
    pub fn news(&mut self, comm: &Comm) -> u32 {
        self.member.news(&*comm.engine().borrow())
    }

    /// Takes a census, with a commit of the step. All ranks of a run call it at the same places:
    /// where one of them had news, and first of all after a recovery.
    ///
    /// # Errors
    ///
    /// [`Error::NotCommitted`], on all living ranks: pass it on by `?`.
    pub fn renew(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let counted = self.census(step)?;
        let finished = step.commit()?;
        self.accept(counted, &finished);
        Ok(())
    }

    /// All living ranks tell each other in a block what was counted of them, which waits for them.
    ///
    /// # Errors
    ///
    /// Those of [`TryBlock::iallgather`] and of waiting; finish the block all the same.
    pub fn census(&mut self, block: &mut TryBlock) -> Result<Counted, Error> {
        let (me, ranks, key) = block.place_in();
        let tests = block.engine().clone();
        let words = Census::words(&mut self.member, self.knows, &*tests.borrow(), (me, ranks));
        let mut census = Census::of_words(&gather(block, words)?);
        if census.more() > 0 {
            let words = census.more_words(&self.member, (me, ranks));
            census.add(gather(block, words)?);
        }
        if let Some(speaker) = census.speaker() {
            let told = block.ibcast(census.group_words(&self.member), Rank::from(speaker))?;
            block.wait_local(told, Timeout::Never)?;
            let words = block.take(told)?;
            if !self.knows {
                Census::teach(&mut self.member, &words);
            }
        }
        let levels = census.next(&mut self.member);
        let benched = (key, census.benched(levels.view()));
        Ok(Counted { levels, benched })
    }

    /// Makes what a census came to the group, if its block is committed. A policy sees from now on
    /// who is benched ([`Situation::benched`](crate::policy::Situation::benched)).
    pub fn accept(&mut self, counted: Counted, finished: &Finished) {
        if finished.is_committed() {
            let (key, benched) = counted.benched.clone();
            let mut engine = finished.engine.borrow_mut();
            engine.accept_census(key, benched, (self.member.view(), counted.view()));
            self.member.accept(counted.levels);
            self.knows = true;
        }
    }
}

/// Waits for the words of all ranks.
fn gather(block: &mut TryBlock, words: Vec<u64>) -> Result<Vec<u64>, Error> {
    let all = block.iallgather(words)?;
    block.wait_local(all, Timeout::Never)?;
    block.take(all)
}
