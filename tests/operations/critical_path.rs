//! How many messages one after the other a recovery takes: where a message takes a second and all
//! else next to nothing, the time that it adds to a run. From the death, of which each rank hears
//! after one message, until the step that the dead rank did not end has ended, with a spare in its
//! place and its state from its partner. A call of MPI that makes a communicator counts as one.

use std::{ops::RangeInclusive, time::Duration};

use fampi::{
    Ended, Flow, ReduceOp, policy,
    sim::{self, Simulation},
};

const MESSAGE: Duration = Duration::from_secs(1);
const STEPS: u64 = 6;
/// The step that its rank does not survive.
const DYING: u64 = 3;

/// How long so many ranks take, in messages, if this one of them dies.
fn messages(ranks: u32, dead: Option<u32>) -> f64 {
    let each: RangeInclusive<Duration> = MESSAGE..=MESSAGE;
    let job = Simulation::new(ranks).spares(1).latency(each.clone()).detection(each);
    let job = job.call_cost(Duration::from_nanos(1)).time_limit(1000 * MESSAGE);
    let report = job.run_world(move |mut world| {
        let dies = !world.is_replacement() && dead == Some(world.origin());
        let mut sums = vec![u64::from(world.origin())];
        let ended = world.run(&policy::Rebuild::default(), &mut sums, |step, sums| {
            if dies && step.number() == DYING {
                sim::crash();
            }
            sums[0] += step.commit_allreduce([1], ReduceOp::Sum)?.0[0];
            Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
        });
        assert!(matches!(ended, Ok(Ended::Done(_))), "{ended:?}");
        let origin = world.origin();
        world.finalize();
        assert_eq!(sums, [u64::from(origin) + STEPS * u64::from(ranks)]);
    });
    let end = report.end;
    report.expect_orderly();
    end.as_secs_f64() / MESSAGE.as_secs_f64()
}

#[test]
fn twice_the_ranks_cost_a_recovery_a_few_more_messages_one_after_the_other() {
    for ranks in [4, 8, 16, 32, 64, 128] {
        let calm = messages(ranks, None);
        let deaths = [0, 1, ranks / 2, ranks - 1];
        let taken = deaths.map(|dead| messages(ranks, Some(dead)) - calm);
        println!("{ranks} ranks, one of {deaths:?} dies: {taken:.0?} messages");
        // The rest is the calls themselves.
        let most = f64::from(9 * ranks.ilog2()) + 0.01;
        assert!(taken.iter().all(|it| *it <= most), "{ranks} ranks: {taken:?}");
    }
}
