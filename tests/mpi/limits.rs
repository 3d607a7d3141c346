//! Waits keep to their limits while a rank that they need is stopped, judged by how far a sleep of
//! the same length goes beyond it.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use fampi::{
    Error, Formed, Forming, Level, Outcome, Placement, Rank, Rebuilding, Rebuilt, Tag, Timeout,
    TryBlock, World,
};
use serial_test::serial;

use crate::{
    program,
    programs::{Ended, command, die, say, wait},
    said,
};

const LIMIT: Duration = Duration::from_millis(40);
/// How much longer a wait may take.
const SLACK: Duration = Duration::from_millis(10);
/// The rank that is stopped for 0.9 s, and the one that dies before, of five.
const LATE: Rank = Rank::new(3);
const DYING: Rank = Rank::new(4);
/// On a machine that does other things, too, one of a few launches is undisturbed.
const LAUNCHES: usize = 4;

/// How far sleeps and waits went beyond their limit.
#[derive(Default)]
struct Overruns {
    sleeps: Vec<Duration>,
    waits: Vec<Duration>,
}

impl Overruns {
    /// Waits until this says that it is over, with a sleep before each wait. The last timeout may
    /// come while the stopped rank is back, and does not count.
    fn wait(
        &mut self,
        mut is_over: impl FnMut(Timeout) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let before = self.waits.len();
        loop {
            let began = Instant::now();
            thread::sleep(LIMIT);
            self.sleeps.push(began.elapsed().saturating_sub(LIMIT));
            let began = Instant::now();
            if is_over(Timeout::After(LIMIT))? {
                self.waits.truncate(before.max(self.waits.len().saturating_sub(1)));
                return Ok(());
            }
            self.waits.push(began.elapsed().saturating_sub(LIMIT));
        }
    }

    /// Where sleeps are late, too, the waits in the middle count.
    fn are_kept(&mut self) -> bool {
        self.sleeps.sort_unstable();
        self.waits.sort_unstable();
        let longest = self.sleeps[self.sleeps.len() - 1];
        let is_busy = longest > SLACK / 2;
        let of = |all: &[Duration]| all[if is_busy { all.len() / 2 } else { all.len() - 1 }];
        of(&self.waits) <= SLACK + of(&self.sleeps)
    }
}

/// Stops this process for a while, from outside.
fn stop() {
    command("kill -STOP PID; sleep 0.9; kill -CONT PID");
    // The shell needs a moment, and this rank is late from here on.
    thread::sleep(Duration::from_millis(100));
}

/// Requests and the end of a block, each of which needs the rank that is stopped.
fn block(world: &World, overruns: &mut Overruns, faulty: bool) -> Ended {
    let is_late = world.rank() == LATE;
    let mut block = world.start(Level::Global)?;
    if world.rank() == Rank::new(0) && faulty {
        block.raise_error(7);
    }
    if is_late {
        stop();
        for to in 0..LATE.number() {
            (0..4)
                .try_for_each(|tag| block.isend(vec![1_u8], Rank::new(to), Tag(tag)).map(drop))?;
        }
    } else if !faulty {
        receive(&mut block, overruns)?;
    }
    let mut pending = Some(block.finish(Timeout::Never));
    let mut committed = false;
    let mut end = |timeout| {
        match pending.take().expect("it is pending").wait_local(timeout)? {
            Outcome::TimedOut(again) => pending = Some(again),
            Outcome::Committed(_) => committed = true,
            Outcome::Faulty(_) => {}
        }
        Ok(pending.is_none())
    };
    if is_late {
        while !end(Timeout::Never)? {}
    } else {
        overruns.wait(end)?;
    }
    assert_eq!(committed, !faulty);
    Ok(())
}

/// Receives from the stopped rank, waited for in each way.
fn receive(block: &mut TryBlock, overruns: &mut Overruns) -> Ended {
    let mut posted = Vec::new();
    for tag in 0..4 {
        posted.push(block.irecv(vec![0_u8], LATE, Tag(tag))?.id());
    }
    let mut way = 0;
    overruns.wait(|timeout| {
        way += 1;
        let waited = match way % 4 {
            0 => block.wait_local(posted[0], timeout).map(drop),
            1 => block.waitall_local(posted.clone(), timeout),
            2 => block.waitany_local(&mut posted.clone(), timeout).map(drop),
            _ => block.waitsome_local(&mut posted.clone(), timeout).map(drop),
        };
        match waited {
            Err(Error::WaitTimedOut) => Ok(false),
            over => over.map(|()| true),
        }
    })
}

fn make(overruns: Option<&mut Overruns>, forming: Forming) -> Ended {
    let mut forming = Some(forming);
    let mut end = |timeout| {
        if let Formed::TimedOut(again) =
            forming.take().expect("in the making").wait_local(timeout)?
        {
            forming = Some(again);
        }
        Ok(forming.is_none())
    };
    match overruns {
        Some(overruns) => overruns.wait(end),
        None => end(Timeout::Never).map(drop),
    }
}

fn rebuild(overruns: Option<&mut Overruns>, rebuilding: Rebuilding) -> Result<World, Error> {
    let (mut rebuilding, mut made) = (Some(rebuilding), None);
    let mut end = |timeout| {
        match rebuilding.take().expect("in the making").wait_local(timeout)? {
            Rebuilt::TimedOut(again) => rebuilding = Some(again),
            Rebuilt::World(world) => made = Some(world),
        }
        Ok(rebuilding.is_none())
    };
    match overruns {
        Some(overruns) => overruns.wait(end)?,
        None => end(Timeout::Never).map(drop)?,
    }
    Ok(made.expect("it is over"))
}

/// What a launched copy does.
pub(crate) fn with_a_late_rank(mut world: World) -> Ended {
    let what = env::var("WHAT").expect("told");
    let mut overruns = Overruns::default();
    if !world.is_replacement() {
        let is_late = world.rank() == LATE;
        if world.rank() == DYING {
            die();
        }
        let finished = wait(world.start(Level::Global)?.finish(Timeout::Never))?;
        assert!(!finished.is_committed());
        drop(finished);
        if is_late && what != "block" {
            stop();
        }
        let waiting = (!is_late).then_some(&mut overruns);
        match &*what {
            "block" => {
                block(&world, &mut overruns, false)?;
                block(&world, &mut overruns, true)?;
            }
            "shrink" => make(waiting, world.ishrink()?)?,
            "rebuild" => world = rebuild(waiting, world.irebuild(Placement::SameRanks)?)?,
            other => unreachable!("there is no {other}"),
        }
        if !is_late {
            assert!(overruns.waits.len() >= 5, "{} waits timed out", overruns.waits.len());
            let (kept, longest) = (overruns.are_kept(), overruns.waits.last());
            let word = if kept { "kept" } else { "late" };
            let sleeps = overruns.sleeps.last();
            return say(world, &format!("{word}: {longest:?} beyond, sleeps {sleeps:?}"));
        }
    }
    say(world, "waited without a limit")
}

#[test]
#[serial]
fn no_wait_goes_on_beyond_its_limit_by_more_than_a_sleep_does_and_ten_milliseconds() {
    for (what, spares, ranks) in [("block", 0, 4), ("shrink", 0, 4), ("rebuild", 1, 5)] {
        let launch = program("limits", 5).spares(spares).variable("WHAT", &what).limit(60);
        let mut runs = (0..LAUNCHES).map(|_| launch.run());
        let kept = runs.find(|run| {
            let lines = said(run);
            assert_eq!(lines.len(), ranks, "{what}: {run}");
            lines.iter().filter(|line| line.contains(": kept: ")).count() == 3
        });
        let kept = kept.unwrap_or_else(|| panic!("{what}: {}", launch.run()));
        println!("{what}: {:?}", said(&kept));
    }
}
