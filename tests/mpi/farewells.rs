//! Ranks that leave while others go on, and whose fault it is when a block is cut short.

use std::{thread, time::Duration};

use fampi::{
    BlockOptions, Codes, Error, FaultCode, FileMode, Flow, Level, Outcome, Rank, ReduceOp, Tag,
    Timeout, Tried, World, policy,
};

use super::{
    all_say, example, program,
    programs::{Ended, FOREVER, die, say},
};

/// How long whoever comes late does so, in milliseconds.
const LATE: &str = "LATE";

/// Rank 1 leaves after a block, before the others start the next one, or after that.
pub(crate) fn leaves(world: World) -> Ended {
    assert!(matches!(world.try_block(FOREVER, |_| Ok(()))?, Tried::Committed(..)));
    let late: i64 = std::env::var(LATE).map_or(0, |text| text.parse().expect("a number"));
    let leaves = world.rank() == Rank::new(1);
    if leaves == (late < 0) {
        thread::sleep(Duration::from_millis(late.unsigned_abs()));
    }
    if leaves {
        return say(world, "left");
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(match world.try_block(FOREVER, |_| Ok(()))? {
            Tried::Committed(..) => "committed".to_owned(),
            Tried::Faulty(finished, _) => finished.report().to_string(),
        });
    }
    say(world, &seen.join(", "))
}

/// Rank 3 dies while rank 0 waits for it in one request, for rank 1 in another, and all in a sum.
pub(crate) fn codes(world: World) -> Ended {
    let mut block = world.start(Level::Global)?;
    if world.rank() == Rank::new(3) {
        die();
    }
    let dead = block.irecv(vec![0_u8], Rank::new(3), Tag(1))?;
    let alive = (world.rank() == Rank::new(0))
        .then(|| block.irecv(vec![0_u8], Rank::new(1), Tag(2)))
        .transpose()?;
    let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
    let Outcome::Faulty(finished) = block.finish(Timeout::Never).wait_local(Timeout::Never)? else {
        panic!("one of us is dead");
    };
    let own = Codes::Of(&[FaultCode::ProcessFailed]);
    assert_eq!(finished.failed_group(own, &world).as_slice(), [Rank::new(3)]);
    assert_eq!(finished.report().faults().len(), 1, "{}", finished.report());
    assert_eq!(finished.fault(dead), Some(FaultCode::ProcessFailed));
    assert_eq!(finished.fault(sum), Some(FaultCode::ProcessFailed));
    if let Some(alive) = alive {
        assert_eq!(finished.fault(alive), Some(FaultCode::Interrupted));
    }
    say(world, "right codes")
}

/// Enters the job again, before its end and afterwards, and uses what is left of it.
pub(crate) fn again(world: World) -> Ended {
    let is_refused = |sentence: &str| {
        let refused = fampi::init().expect_err("it is not the first time").to_string();
        assert!(refused.contains(sentence), "{refused}");
    };
    is_refused("this process has entered the job before");
    let (twin, rank) = (world.idup()?.wait()?.expect("a colour"), world.rank());
    world.finalize();
    is_refused("MPI has ended in this process");
    assert_eq!(twin.open_file::<u8>("none", FileMode::Read).err(), Some(Error::HasLeft));
    assert_eq!(twin.to_rsmpi().err(), Some(Error::HasLeft));
    println!("rank {rank}: refused");
    Ok(())
}

/// Rank 2 leaves each block by an error, in which the others wait for a sum.
pub(crate) fn innocents(world: World) -> Ended {
    for round in 0..40 {
        let options = BlockOptions::global(Timeout::Never);
        let tried = world.try_block(options, |block| {
            if world.rank() == Rank::new(2) {
                return Err(Error::Raised(round));
            }
            let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum)?;
            block.wait_local(sum, Timeout::Never)
        })?;
        let Tried::Faulty(finished, error) = tried else { panic!("one rank votes no") };
        let report = finished.report();
        let only = report.faults().iter().map(|it| (it.rank, it.code)).collect::<Vec<_>>();
        assert_eq!(only, [(Rank::new(2), FaultCode::Application(round))], "{report}");
        if world.rank() != Rank::new(2) {
            assert_eq!(error, Some(Error::Request(FaultCode::Interrupted)));
        }
    }
    say(world, "no innocents")
}

/// Rank 3 dies in a run that stops then: the others get one error, which they return.
pub(crate) fn stopped(mut world: World) -> Ended {
    let mut sum = vec![0_u32];
    let ended = world.run(&policy::Stop, &mut sum, |step, sum| {
        if step.number() == 5 && step.comm().rank() == Rank::new(3) {
            die();
        }
        let ranks = step.iallreduce(vec![1], ReduceOp::Sum)?;
        step.wait_local(ranks, Timeout::Never)?;
        sum[0] += step.take(ranks)?[0];
        Ok(Flow::Continue)
    })?;
    ended.done()?;
    say(world, "it went on")
}

#[test]
fn an_error_that_all_ranks_return_is_told_with_their_ranks_and_is_no_death() {
    let run = program("stopped by a policy", 4).run();
    assert_ne!(run.status, 0, "{run}");
    let told: Vec<bool> = (0..4)
        .map(|rank| format!("rank {rank}: the policy stopped the run: rank 3: the process failed"))
        .map(|sentence| run.errors.contains(&sentence))
        .collect();
    assert_eq!(told, [true, true, true, false], "{run}");
    assert!(!run.errors.contains("exits without `finalize`"), "{run}");
}

#[test]
fn a_farewell_is_no_block_whoever_comes_first() {
    for late in [0, 300, 2500, -300, -2500] {
        let run = program("leaves", 4).variable(LATE, &late).run();
        let others = ["rank 1: the rank had left the job after 1 blocks"; 3].join(", ");
        let expected: Vec<String> = (0..4)
            .map(|rank| format!("rank {rank}: {}", if rank == 1 { "left" } else { &others }))
            .collect();
        assert_eq!(super::said(&run), expected, "late by {late}: {run}");
    }
}

#[test]
fn the_code_of_a_request_follows_from_who_died_and_not_from_who_was_faster() {
    for _ in 0..5 {
        let run = program("codes", 4).run();
        let expected: Vec<String> =
            (0..3).map(|rank| format!("rank {rank}: right codes")).collect();
        assert_eq!(super::said(&run), expected, "{run}");
    }
}

#[test]
fn nobody_enters_a_job_twice_nor_uses_what_is_left_of_one() {
    all_say(&program("again", 2), 2, "refused");
}

#[test]
fn a_reduction_that_was_cut_short_is_nobodys_fault() {
    all_say(&program("innocents", 4), 4, "no innocents");
    for _ in 0..5 {
        let run = example("vote", 4).run();
        let lines = run.expect_orderly(4).sorted_lines();
        assert!(lines.iter().all(|line| !line.contains("MPI_ERR")), "{run}");
    }
}
