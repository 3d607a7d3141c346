//! Programs that end by an error: what all ranks got is an end in order, what one got is a death.

use fampi::{
    Error, Flow, Level, ReduceOp, Timeout, World, policy,
    sim::{self, Crash, Ending, Report, Simulation},
};

const RANKS: u32 = 4;

/// A run that the first death stops.
fn stopped(world: &mut World) -> Result<u64, Error> {
    let mut count = vec![0_u64];
    let ended = world.run(&policy::Stop, &mut count, |step, count| {
        let ranks = step.iallreduce(vec![1], ReduceOp::Sum)?;
        step.wait_local(ranks, Timeout::Never)?;
        count[0] += step.take(ranks)?[0];
        Ok(if step.number() < 20 { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    Ok(count[0])
}

/// Every rank returns the error by `?`, and its world is dropped.
fn simulate(crash: Crash) -> Report<Result<u64, Error>> {
    Simulation::new(RANKS).crash(crash).run_world(|mut world| {
        let count = stopped(&mut world)?;
        world.finalize();
        Ok(count)
    })
}

#[test]
fn whoever_returns_an_error_that_all_ranks_got_leaves_in_order() {
    let mut stopped = 0;
    for effect in 1..400 {
        let report = simulate(Crash::before_effect(1, effect));
        for (rank, process) in report.processes.iter().enumerate() {
            match &process.ending {
                Ending::Crashed => assert_eq!(rank, 1),
                // It came to a world that is over before it held a rank.
                Ending::Exited => {}
                Ending::Finished(result) => {
                    assert!(process.finalized, "effect {effect}, rank {rank}: {result:?}");
                    stopped += usize::from(matches!(result, Err(Error::Stopped { .. })));
                }
                other => panic!("effect {effect}, rank {rank}: {other}"),
            }
        }
    }
    assert!(stopped > 100, "{stopped} ranks were stopped");
}

#[test]
fn whoever_goes_on_after_such_an_error_and_then_fails_alone_is_dead() {
    let report =
        Simulation::new(RANKS).crash(Crash::before_effect(1, 60)).run_world(|mut world| {
            let Err(Error::Stopped { .. }) = stopped(&mut world) else { panic!("somebody died") };
            let rest = world.shrink()?;
            let block = rest.start(Level::Global)?;
            if rest.rank().index() == 0 {
                // An error of its own, after which the real process would exit, and die by that.
                drop((block, world));
                sim::crash();
                return Err(Error::Raised(7));
            }
            let finished = block.finish(Timeout::Never).wait()?;
            world.finalize();
            Ok(finished.is_committed())
        });
    let finalized: Vec<bool> = report.processes.iter().map(|it| it.finalized).collect();
    assert_eq!(finalized, [false, false, true, true], "{report}");
}
