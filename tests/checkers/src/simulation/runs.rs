//! Whole applications driven by a policy, with deaths and objections drawn from a seed.
//!
//! Every rank has a bag of numbers. In each step a rank adds one to all of its numbers, or, in a
//! wide bag, to one of them, so that it sends its partner only what has changed. Then the ranks add
//! up all bags. Whichever ranks die, each step has the sum that it has in a run without failures: a
//! replacement gets the bag of the dead rank, and after a shrink who keeps the copy takes it over.

use std::time::Duration;

use fampi::{
    Ended, Error, Flow, Interval, Placement, Policy, ReduceOp, State, Step, Timeout, TryBlock,
    World, policy,
    policy::{Decision, Situation},
    sim::{Crash, Draw},
};

use super::{
    oracle::{alike, ended},
    program::Program,
    setting::Setting,
    tally::Tally,
};

/// What drives the job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Driver {
    Retry,
    Shrink,
    Rebuild(Placement),
    Escalate,
    Stop,
    /// Spares first, then fewer ranks.
    Own,
}

/// How ranks object to a step without dying.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Objection {
    Never,
    /// In this step, as long as this process has not objected before.
    Once(u64),
    /// In this step, every time.
    Always(u64),
}

/// A setting, and an application with its policy.
#[derive(Clone, Debug, PartialEq)]
pub struct RunJob {
    setting: Setting,
    steps: u64,
    /// A copy is made after each step with a number that is a multiple of this.
    protect_every: u64,
    driver: Driver,
    objection: Objection,
    way: Way,
    /// Ranks that object do so after the commits of the step.
    late: bool,
}

/// How the job uses its run.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    /// Between copies, where they are due; 0 for none.
    interval: u32,
    /// Copies are made at the beginning of a step.
    early: bool,
    /// The bag is made when the run begins, and not protected then.
    anew: bool,
    /// Commits of the step itself.
    commits: u64,
    /// Bags have so many numbers that a step changes few of them.
    wide: bool,
}

/// The numbers of a wide bag; each of them is a page.
const WIDE: usize = 16;

/// How a process ended its run.
#[derive(Clone, Debug, Eq, PartialEq)]
enum End {
    Done,
    Escalated,
    Failed(Error),
    Wrong(String),
}

/// The numbers of one rank.
struct Bag {
    numbers: Vec<u64>,
    /// What it begins anew with, if it does.
    first: Option<Vec<u64>>,
    interval: Interval,
}

impl State for Bag {
    const INHERITED: bool = true;

    fn interval(&self) -> Interval {
        self.interval
    }

    fn begin(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        match &self.first {
            Some(first) => self.numbers.clone_from(first),
            None => self.protect(block)?,
        }
        Ok(())
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(1, &self.numbers)?;
        block.protect(0, &[self.numbers.len() as u32])
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.numbers = block.restore(1)?;
        let length: Vec<u32> = block.restore(0)?;
        assert_eq!(length, [self.numbers.len() as u32], "two slots of one commit");
        Ok(())
    }

    fn inherit(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        if let Some((_, theirs)) = block.inherit::<u64>(1)? {
            self.numbers.extend(theirs);
        }
        Ok(())
    }
}

impl Program for RunJob {
    const HAPPENS: &[(&'static str, u64)] =
        &[("done", 20), ("escalated", 20), ("stopped", 20), ("states lost", 0), ("deaths", 100)];
    const TEST: &str = "one_run";

    fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed ^ 0x7275_6e73);
        let ranks = 1 + draw.below(8) as u32;
        let spares = if draw.one_in(3) { 1 + draw.below(2) as u32 } else { 0 };
        let driver = match draw.below(10) {
            0 => Driver::Retry,
            1 | 2 => Driver::Shrink,
            3 => Driver::Rebuild(Placement::Append),
            4 => Driver::Escalate,
            5 => Driver::Stop,
            6 | 7 => Driver::Own,
            _ => Driver::Rebuild(Placement::SameRanks),
        };
        let steps = 2 + draw.below(8);
        let objection = match draw.below(6) {
            0 => Objection::Always(draw.below(steps)),
            1 | 2 => Objection::Once(draw.below(steps)),
            _ => Objection::Never,
        };
        let deaths = draw.below(4).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            let process = draw.below(u64::from(ranks + spares + 1)) as u32;
            if draw.one_in(3) {
                Crash::at_time(process, Duration::from_micros(200 + draw.below(2000)))
            } else {
                Crash::before_effect(process, 4 + draw.below(200))
            }
        });
        let crashes = crashes.collect();
        let protect_every = if draw.one_in(3) { 1 + draw.below(4) } else { 1 };
        let spawns = !draw.one_in(4);
        let interval = if draw.one_in(3) { draw.below(4) as u32 } else { 1 };
        let [early, anew, late] = [3, 4, 2].map(|share| draw.one_in(share));
        let commits = if draw.one_in(2) { 1 + draw.below(2) } else { 0 };
        let wide = draw.one_in(2);
        let way = Way { interval, early, anew, commits, wide };
        let setting = Setting {
            seed,
            ranks,
            spares,
            crashes,
            // As late as can be: these programs have no calm.
            calm_from: 20_000_000,
            detection: [50, 500],
            latency: [1, 20],
            exchange: [8, 2],
            nodes: Setting::nodes_of(seed),
            spawn: [5_000, 20_000],
            spawns,
            ..Setting::plain()
        };
        Self { setting, steps, protect_every, driver, objection, way, late }
    }

    fn run(&self, told: bool) -> Result<Tally, String> {
        let (job, mut tally) = (self.clone(), Tally::default());
        let simulation = self.setting.simulation(told).page_bytes(size_of::<u64>());
        let report = simulation.run_world(move |world| job.application(world));
        if told {
            println!("{report}");
        }
        let logs = ended(&report, |_| None, &mut tally)?;
        let end = alike(logs.iter().map(|(_, end)| *end))?;
        tally.count(end.map_or(Ok("all dead"), |end| self.judge(end))?, 1);
        Ok(tally)
    }

    fn setting(&mut self) -> &mut Setting {
        &mut self.setting
    }

    fn simpler(&self) -> Vec<Self> {
        let fewer = (1..self.steps).map(|steps| Self { steps, ..self.clone() });
        let without = Self { objection: Objection::Never, ..self.clone() };
        fewer.chain([without]).collect()
    }
}

impl RunJob {
    /// Whether this end is one that the policy allows.
    fn judge(&self, end: &End) -> Result<&'static str, String> {
        let troubled = !self.setting.crashes.is_empty() || self.objection != Objection::Never;
        let (name, right) = match end {
            End::Done => ("done", !self.always_objected()),
            End::Escalated => ("escalated", self.driver == Driver::Escalate && troubled),
            End::Failed(Error::Stopped { .. }) => {
                let patient = matches!(self.driver, Driver::Shrink | Driver::Rebuild(_));
                ("stopped", troubled && (!patient || self.always_objected()))
            }
            End::Failed(Error::StateLost { .. }) => ("states lost", self.setting.crashes.len() > 1),
            // Somebody died before all had a copy somewhere, and nobody took the rank.
            End::Failed(Error::NothingProtected) => {
                ("nothing protected", matches!(self.driver, Driver::Shrink | Driver::Own))
            }
            End::Failed(Error::TooFewSpares { dead, spares }) => {
                let rebuilds = matches!(self.driver, Driver::Rebuild(_) | Driver::Own);
                let too_few = dead > spares && *spares <= self.setting.spares;
                ("too few spares", !self.setting.spawns && rebuilds && too_few)
            }
            End::Failed(Error::CannotShrink) => ("cannot shrink", self.driver == Driver::Own),
            End::Failed(_) | End::Wrong(_) => ("", false),
        };
        if right { Ok(name) } else { Err(format!("all ended with {end:?}")) }
    }

    fn always_objected(&self) -> bool {
        matches!(self.objection, Objection::Always(_))
    }

    fn application(&self, mut world: World) -> End {
        let origin = u64::from(world.origin());
        let numbers = vec![origin * 100; self.width(origin)];
        let first = self.way.anew.then(|| numbers.clone());
        let interval = match self.way.interval {
            0 => Interval::Never,
            every => Interval::Every(every),
        };
        let mut bag = Bag { numbers, first, interval };
        let mut objected = false;
        let ended =
            world.run(self.policy(), &mut bag, |step, bag| self.step(step, bag, &mut objected));
        let end = match ended {
            Ok(Ended::Done(_)) => End::Done,
            Ok(Ended::Escalated { .. }) => End::Escalated,
            Err(Error::Raised(sum)) => End::Wrong(format!("the sum was {sum}")),
            // The report is the same on all ranks; with which error a rank left is its own affair.
            Err(Error::Stopped { report, .. }) => {
                End::Failed(Error::Stopped { report, here: None })
            }
            Err(error) => End::Failed(error),
        };
        world.finalize();
        end
    }

    fn step(&self, step: &mut Step<'_>, bag: &mut Bag, objected: &mut bool) -> Result<Flow, Error> {
        let number = step.number();
        if self.way.early {
            step.protect_now(bag)?;
        }
        if self.way.wide {
            for bag in bag.numbers.chunks_mut(WIDE) {
                bag[number as usize * 5 % WIDE] += 1;
            }
        } else {
            bag.numbers.iter_mut().for_each(|item| *item += 1);
        }
        let objects = match self.objection {
            Objection::Never => false,
            Objection::Once(at) => at == number && !*objected,
            Objection::Always(at) => at == number,
        };
        let last = step.comm().size() - 1;
        let objects = objects && step.comm().rank().number() == last;
        if objects && !self.late {
            *objected = true;
            return Err(Error::Raised(9));
        }
        let mine = bag.numbers.iter().sum::<u64>();
        let all = if self.way.commits == 0 {
            let sum = step.iallreduce(vec![mine], ReduceOp::Sum)?;
            step.wait_local(sum, Timeout::Never)?;
            step.take(sum)?[0]
        } else {
            step.commit_allreduce([mine], ReduceOp::Sum)?.0[0]
        };
        assert_eq!(all, self.expected(number + 1), "the sum of step {number}");
        if self.way.commits > 1 {
            step.commit()?;
            step.iallreduce(vec![number], ReduceOp::Max)?;
        }
        if objects {
            *objected = true;
            return Err(Error::Raised(9));
        }
        if !number.is_multiple_of(self.protect_every) {
            step.skip_protection();
        }
        Ok(if number + 1 < self.steps { Flow::Continue } else { Flow::Done })
    }

    /// The sum over all bags after so many steps, if nobody dies.
    fn expected(&self, steps: u64) -> u64 {
        let bag = |origin| {
            let width = self.width(origin) as u64;
            width * origin * 100 + steps * if self.way.wide { 1 } else { width }
        };
        (0..u64::from(self.setting.ranks)).map(bag).sum()
    }

    /// The numbers in the bag of a rank.
    fn width(&self, origin: u64) -> usize {
        if self.way.wide { WIDE } else { 1 + origin as usize % 3 }
    }

    fn policy(&self) -> &'static dyn Policy {
        const SAME: policy::Rebuild =
            policy::Rebuild { placement: Placement::SameRanks, times: 10 };
        const APPEND: policy::Rebuild = policy::Rebuild { placement: Placement::Append, times: 10 };
        match self.driver {
            Driver::Retry => &policy::Retry { times: 4 },
            Driver::Shrink => &policy::Shrink { times: 10 },
            Driver::Rebuild(Placement::SameRanks) => &SAME,
            Driver::Rebuild(Placement::Append) => &APPEND,
            Driver::Escalate => &policy::Escalate,
            Driver::Stop => &policy::Stop,
            Driver::Own => &spares_then_shrink,
        }
    }
}

fn spares_then_shrink(situation: &Situation<'_>) -> Decision {
    let dead = situation.dead.len();
    match dead {
        _ if situation.faulty_in_a_row > 10 => Decision::Stop,
        0 => Decision::Retry,
        _ if !situation.shrunk && dead <= situation.spares => {
            Decision::Rebuild(Placement::SameRanks)
        }
        _ => Decision::Shrink,
    }
}
