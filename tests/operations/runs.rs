//! Applications that a run drives: copies before and after the step, seldom or as measured, steps
//! of several blocks, and states that begin anew. Whoever dies, and wherever, all ranks end with
//! the numbers of one process alone.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use fampi::{
    Ended, Error, Flow, Interval, Rank, ReduceOp, State, Step, Tag, Timeout, TryBlock, World,
    policy::{self, Decision, Situation},
    sim::{Crash, Ending, ProcessReport, Report, Simulation},
};

const RANKS: u32 = 4;
/// The first effects of a process belong to the launch, which no run has begun in.
const LAUNCH_EFFECTS: u64 = 8;

/// How an application uses its run.
#[derive(Clone, Copy, Debug)]
struct Way {
    interval: Interval,
    /// The state is made by `begin`, not protected there.
    anew: bool,
    /// Copies are made at the beginning of a step.
    early: bool,
    /// Commits of the step itself.
    commits: u32,
    steps: u64,
}

/// A number that follows from those of all ranks.
struct Number {
    way: Way,
    value: u64,
    first: u64,
}

impl State for Number {
    fn interval(&self) -> Interval {
        self.way.interval
    }

    fn begin(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        if self.way.anew {
            self.value = self.first;
            return Ok(());
        }
        self.protect(block)
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, &[self.value])
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.value = block.restore(0)?[0];
        Ok(())
    }
}

fn mix(value: u64, sum: u64, left: u64) -> u64 {
    (value * 31 + sum * 17 + left) % 1_000_003
}

/// What comes from the rank to the left.
fn from_left(step: &mut Step<'_>, value: u64) -> Result<u64, Error> {
    let (me, size) = (step.comm().rank().number(), step.comm().size());
    let beside = |by: u32| Rank::new((me + by) % size);
    let received = step.irecv(vec![0], beside(size - 1), Tag(3))?;
    step.isend(vec![value], beside(1), Tag(3))?;
    step.wait_local(received, Timeout::Never)?;
    Ok(step.take(received)?[0])
}

impl Number {
    fn of(world: &World, way: Way) -> Self {
        let first = u64::from(world.origin()) + 1;
        // A state that begins anew does not depend on what the program has made.
        Self { way, value: if way.anew { 999 } else { first }, first }
    }

    fn step(&mut self, step: &mut Step<'_>) -> Result<Flow, Error> {
        if self.way.early {
            step.protect_now(self)?;
        }
        let (value, left, sum);
        match self.way.commits {
            0 => {
                left = from_left(step, self.value)?;
                let all = step.iallreduce(vec![self.value], ReduceOp::Sum)?;
                step.wait_local(all, Timeout::Never)?;
                sum = step.take(all)?[0];
            }
            1 => {
                left = from_left(step, self.value)?;
                [sum] = step.commit_allreduce([self.value], ReduceOp::Sum)?.0;
            }
            _ => {
                left = from_left(step, self.value)?;
                assert!(step.commit()?.is_committed());
                [sum] = step.commit_allreduce([self.value], ReduceOp::Sum)?.0;
                // This belongs to the first block of the next step.
                assert_eq!(from_left(step, step.number())?, step.number());
            }
        }
        value = mix(self.value, sum, left);
        self.value = value;
        Ok(if step.number() + 1 < self.way.steps { Flow::Continue } else { Flow::Done })
    }
}

fn alone(steps: u64) -> Vec<u64> {
    let first = (1..=u64::from(RANKS)).collect();
    (0..steps).fold(first, |old: Vec<u64>, _| {
        let (sum, size) = (old.iter().sum(), old.len());
        (0..size).map(|me| mix(old[me], sum, old[(me + size - 1) % size])).collect()
    })
}

fn run(mut world: World, way: Way) -> Result<u64, Error> {
    let (mut number, origin) = (Number::of(&world, way), world.origin() as usize);
    let expected = alone(way.steps)[origin];
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let ended = world.run(&rebuild, &mut number, |step, number| number.step(step));
    world.finalize();
    ended?.done()?;
    assert_eq!(number.value, expected, "the number of rank {origin}");
    Ok(number.value)
}

fn ways() -> impl Iterator<Item = Way> {
    let intervals = [
        (Interval::Never, 5),
        (Interval::Every(1), 5),
        (Interval::Every(3), 8),
        (Interval::Auto { mtbf: Duration::from_secs(1) }, 20),
    ];
    intervals.into_iter().flat_map(|(interval, steps)| {
        [(false, false), (true, false), (false, true), (true, true)].into_iter().flat_map(
            move |(anew, early)| {
                (0..3).map(move |commits| Way { interval, anew, early, commits, steps })
            },
        )
    })
}

#[test]
fn a_death_before_any_effect_of_any_kind_of_run_changes_no_number() {
    let began = Instant::now();
    let mut deaths = 0;
    for (nth, way) in ways().enumerate() {
        let calm = Simulation::new(RANKS).run_world(move |world| run(world, way));
        let effects = calm.processes[1].effects;
        assert_eq!(calm.expect_orderly().len(), RANKS as usize, "{way:?}");
        // Others in each way.
        let stride = 1 + effects as usize / 40;
        for effect in (LAUNCH_EFFECTS + nth as u64 % 8..effects).step_by(stride) {
            let crash = Crash::before_effect(1 + effect as u32 % 2, effect);
            let simulation = Simulation::new(RANKS).seed(effect).crash(crash);
            let report = simulation.run_world(move |world| run(world, way));
            let died = report.processes.iter().any(|it| matches!(it.ending, Ending::Crashed));
            deaths += u32::from(died);
            let text = report.to_string();
            for result in report.expect_orderly() {
                assert!(result.is_ok(), "{way:?} {crash:?}: {result:?}\n{text}");
            }
        }
    }
    println!("{deaths} deaths in {:?}", began.elapsed());
    assert!(deaths > 1000);
}

#[test]
fn two_deaths_lose_a_state_only_with_its_copy() {
    let mut lost = 0;
    for (way, seed) in ways().flat_map(|way| (0..40).map(move |seed| (way, seed))) {
        let effect = |which: u64| LAUNCH_EFFECTS + (seed * (31 + which) + which * 17) % 150;
        let crashes = [(seed as u32 % RANKS, 1), ((seed / 4) as u32 % 6, 2)];
        let crashes = crashes.map(|(process, which)| Crash::before_effect(process, effect(which)));
        let simulation = Simulation::new(RANKS).seed(seed).spares(seed as u32 % 2).crashes(crashes);
        let report = simulation.run_world(move |world| run(world, way));
        let text = format!("{way:?} {seed}: {report}");
        let results: Vec<_> = report.expect_orderly();
        for result in &results {
            match result {
                Ok(_) => {}
                Err(Error::StateLost { rank, partner: Some(partner) }) => {
                    assert_eq!(rank.number().abs_diff(partner.number()), RANKS / 2, "{text}");
                    lost += 1;
                }
                Err(error) => panic!("{error}: {text}"),
            }
        }
        assert!(results.windows(2).all(|two| two[0].is_ok() == two[1].is_ok()), "{text}");
    }
    assert!(lost > 0, "partners died, too");
}

/// What all ranks saw of a run in which rank 2 objects once: at the beginning of this step, or
/// after so many of its commits.
fn objected(way: Way, at: u64, after: u32) -> Vec<Vec<Option<u64>>> {
    let report = Simulation::new(RANKS).run_world(move |mut world| {
        let (seen, me) = (RefCell::new(Vec::new()), world.rank().number());
        let retry = |situation: &Situation<'_>| {
            seen.borrow_mut().push(situation.step);
            if situation.faulty_in_a_row > 3 { Decision::Stop } else { Decision::Retry }
        };
        let (mut number, mut objects) = (Number::of(&world, way), me == 2);
        let ended = world.run(&retry, &mut number, |step, number| {
            let mut object = |step: &Step<'_>, commits| {
                if step.number() == at && after == commits && std::mem::take(&mut objects) {
                    return Err(Error::Raised(7));
                }
                Ok(())
            };
            object(step, 0)?;
            if way.early {
                step.protect_now(number)?;
            }
            let ([sum], _) = step.commit_allreduce([number.value], ReduceOp::Sum)?;
            object(step, 1)?;
            step.commit()?;
            object(step, 2)?;
            number.value = mix(number.value, sum, 0);
            Ok(if step.number() < 6 { Flow::Continue } else { Flow::Done })
        });
        assert!(matches!(ended, Ok(Ended::Done(_))), "{ended:?}");
        world.finalize();
        (seen.into_inner(), number.value)
    });
    let text = format!("{way:?} {at} {after}: {report}");
    let all: Vec<_> = report.expect_orderly();
    let calm = (0..7).fold((1..=u64::from(RANKS)).collect(), |old: Vec<u64>, _| {
        let sum = old.iter().sum();
        old.iter().map(|value| mix(*value, sum, 0)).collect()
    });
    assert!(all.iter().map(|(_, value)| *value).eq(calm), "{text}");
    all.into_iter().map(|(seen, _)| seen).collect()
}

#[test]
fn all_ranks_see_one_situation_also_when_one_of_them_has_begun_the_next_step() {
    for way in ways().filter(|way| way.commits == 2 && way.steps < 20) {
        for (at, after) in (0..6).flat_map(|at| (0..3).map(move |after| (at, after))) {
            let seen = objected(way, at, after);
            // The first block of a step is begun by the commit before it.
            let since = if after == 0 { at.saturating_sub(1) } else { at };
            assert_eq!(seen, vec![vec![Some(since)]; RANKS as usize], "{way:?} {at} {after}");
        }
    }
}

#[test]
fn a_reduction_that_is_not_defined_is_refused_before_anything_has_happened() {
    let report = Simulation::new(2).run_world(|mut world| {
        let mut count = vec![0_u64];
        let ended = world.run(&policy::Stop, &mut count, |step, count| {
            let refused = step.commit_allreduce([0.5], ReduceOp::And);
            assert_eq!(refused.map(|_| ()), Err(Error::NoSuchReduction));
            count[0] += step.commit_allreduce([1], ReduceOp::Sum)?.0[0];
            Ok(if count[0] < 10 { Flow::Continue } else { Flow::Done })
        });
        assert!(matches!(ended, Ok(Ended::Done(_))));
        world.finalize();
        count[0]
    });
    assert_eq!(report.expect_orderly(), [10, 10]);
}

#[test]
fn a_commit_that_fails_ends_the_step_and_its_report_goes_to_the_policy() {
    let report = Simulation::new(3).run_world(|mut world| {
        let me = world.rank().number();
        let ended = world.run(&policy::Escalate, &mut vec![0_u64], |step, _| {
            if me == 1 {
                return Err(Error::Raised(5));
            }
            assert_eq!(step.commit().map(|_| ()), Err(Error::NotCommitted));
            // Whatever else a step says then does not count.
            Ok(Flow::Continue)
        });
        let Ok(Ended::Escalated { report, error, .. }) = ended else { panic!("rank 1 objects") };
        assert_eq!(report.faults()[0].code, fampi::FaultCode::Application(5));
        world.finalize();
        error
    });
    assert_eq!(report.expect_orderly(), [None, Some(Error::Raised(5)), None]);
}

#[test]
fn a_step_that_fails_after_its_commit_each_time_is_given_up() {
    for way in ways().filter(|way| way.steps < 20 && way.commits == 0) {
        let report = Simulation::new(RANKS).run_world(move |mut world| {
            let (me, mut number) = (world.rank().number(), Number::of(&world, way));
            let retry = policy::Retry { times: 3 };
            let mut tries = 0;
            let ended = world.run(&retry, &mut number, |step, number| {
                if way.early {
                    step.protect_now(number)?;
                }
                step.commit()?;
                tries += u32::from(step.number() == 2);
                if me == 1 && step.number() == 2 {
                    return Err(Error::Raised(3));
                }
                Ok(Flow::Continue)
            });
            world.finalize();
            (matches!(ended, Err(Error::Stopped { .. })), tries)
        });
        for result in report.expect_orderly() {
            assert_eq!(result, (true, 4), "{way:?}");
        }
    }
}

/// Every second step of this run fails on one rank; another one may die besides.
fn every_second_step_fails(death: Option<Crash>) -> Report<u64> {
    Simulation::new(3).crashes(death).run_world(|mut world| {
        let (me, mut good_in_a_row) = (world.rank().number(), 0);
        let mut count = vec![0_u64];
        let ended = world.run(&policy::Rebuild::default(), &mut count, |step, count| {
            good_in_a_row = (good_in_a_row + 1) % 2;
            if me == 1 && good_in_a_row == 0 {
                return Err(Error::Raised(5));
            }
            let sum = step.iallreduce(vec![1_u64], ReduceOp::Sum)?;
            step.wait_local(sum, Timeout::Never)?;
            count[0] += step.take(sum)?[0];
            Ok(if count[0] < 90 { Flow::Continue } else { Flow::Done })
        });
        assert!(matches!(ended, Ok(Ended::Done(_))), "{ended:?}");
        world.finalize();
        count[0]
    })
}

#[test]
fn a_run_goes_on_where_each_second_step_fails_and_a_rank_dies_before_any_effect() {
    let calm = every_second_step_fails(None);
    let effects = calm.processes[1].effects;
    assert_eq!(calm.expect_orderly(), [90; 3]);
    let mut deaths = 0;
    for rank in 0..3 {
        for effect in (LAUNCH_EFFECTS + u64::from(rank)..effects).step_by(7) {
            let report = every_second_step_fails(Some(Crash::before_effect(rank, effect)));
            let is_crashed = |it: &ProcessReport<u64>| matches!(it.ending, Ending::Crashed);
            deaths += u32::from(report.processes.iter().any(is_crashed));
            let counts = report.expect_orderly();
            // Who dies when all is done is not replaced.
            let all = (2..=3).contains(&counts.len()) && counts.iter().all(|count| *count == 90);
            assert!(all, "rank {rank} before effect {effect}: {counts:?}");
        }
    }
    assert!(deaths > 120, "{deaths} deaths before {effects} effects");
}

#[test]
fn an_interval_is_chosen_and_chosen_anew_after_a_death_and_replacements_learn_it() {
    let way = Way {
        interval: Interval::Auto { mtbf: Duration::from_secs(1) },
        anew: true,
        early: true,
        commits: 1,
        steps: 60,
    };
    for effect in [None, Some(60), Some(150), Some(300)] {
        let crashes = effect.map(|effect| Crash::before_effect(2, effect));
        let report = Simulation::new(RANKS).crashes(crashes).run_world(move |mut world| {
            let mut number = Number::of(&world, way);
            let (mut chosen, rebuild) = (Vec::new(), policy::Rebuild::default());
            let ended = world.run(&rebuild, &mut number, |step, number| {
                let flow = number.step(step)?;
                assert_eq!(step.interval().is_some(), step.number() >= 6);
                chosen.extend(step.interval());
                Ok(flow)
            });
            assert!(matches!(ended, Ok(Ended::Done(_))));
            world.finalize();
            chosen.dedup();
            chosen
        });
        let all = report.expect_orderly();
        let last = all[0].last();
        assert!(all.iter().all(|chosen| chosen.last() == last), "{all:?}");
        // One death in so short a time: copies come closer than for a failure in a second.
        let chosen = if effect.is_some() { 2 } else { 1 };
        assert!(all[0].len() == chosen && all[0].is_sorted_by(|a, b| a > b), "{effect:?} {all:?}");
        assert!(last > Some(&1), "{all:?}");
    }
}
