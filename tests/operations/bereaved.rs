//! A communicator that has lost a member goes on, in all ways of receiving and on all that was
//! derived before the death.

use std::time::Duration;

use fampi::{
    Color, Level, Outcome, Rank, Source, Tag, TagSelector, Timeout,
    sim::{self, Crash, Ending, Simulation},
};

use fampi_kit::programs::{
    aftermath::{Receive, end},
    bereaved::{SIZE, bereaved},
};

#[test]
fn aborts_after_a_death_leave_nothing_for_the_next_block() {
    bereaved(Receive::Exact, &[0, 1, 2], 1, |_| None);
}

#[test]
fn receives_of_any_source_work_after_a_death() {
    bereaved(Receive::AnySource, &[0, 1, 2], 1, |_| None);
}

#[test]
fn receives_and_probes_of_any_tag_never_give_what_an_aborted_block_sent() {
    bereaved(Receive::AnyTag, &[0, 1, 2], 1, |_| None);
    bereaved(Receive::Probed, &[0, 1, 2], 1, |_| None);
}

#[test]
fn a_duplicate_goes_on_through_aborts_of_its_own_and_of_the_world() {
    bereaved(Receive::Exact, &[0, 1, 2], 2, |world| {
        let made = world.idup().expect("one at a time").wait_local(Timeout::Never);
        made.expect("nobody dies").into_comm()
    });
}

#[test]
fn a_part_without_the_dead_goes_on_and_so_does_that_with_it() {
    bereaved(Receive::Exact, &[0, 1, 2], 2, |world| {
        // The parts of rank 3 is its own; the others lost nobody.
        let color = Color::Of(u32::from(world.rank().number() == SIZE - 1));
        let made = world.isplit(color, 0).expect("one at a time").wait_local(Timeout::Never);
        made.expect("nobody dies").into_comm()
    });
}

#[test]
fn a_receive_of_any_tag_leaves_what_is_for_a_later_attempt() {
    for seed in 0..60 {
        let latency = Duration::from_micros(1)..=Duration::from_micros(300);
        let simulation = Simulation::new(SIZE).seed(seed).latency(latency);
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(|world| {
            if world.rank().number() == SIZE - 1 {
                sim::crash();
            }
            let (me, start) = (world.rank(), || world.start(Level::Global).expect("in use"));
            let [before, next] = [2, 1].map(|step| Rank::new((me.number() + step) % 3));
            let mut first = start();
            let _ = first.irecv(vec![0_u64], Rank::new(SIZE - 1), Tag(5)).expect("a rank");
            assert!(!end(first).is_committed());
            for round in 0..12 {
                // Who knows of the first abort sends in the next attempt, while others still look
                // for messages in this one.
                let (mut aborted, mut waiting) = (start(), start());
                if me.number() == round % 3 {
                    aborted.raise_error(7);
                }
                let _ = waiting.irecv(vec![0_u64], before, TagSelector::Any).expect("a rank");
                let waiting = waiting.finish(Timeout::Never);
                assert!(!end(aborted).is_committed());
                let mut good = start();
                let _ = good.isend(vec![u64::from(round)], next, Tag(5)).expect("a rank");
                let came = good.irecv(vec![9_u64], before, Tag(5)).expect("a rank");
                let good = end(good);
                assert!(good.is_committed(), "{:?}", good.report());
                assert_eq!(good.take(came), Ok(vec![u64::from(round)]));
                assert!(matches!(waiting.wait_local(Timeout::Never), Ok(Outcome::Faulty(_))));
            }
            world.finalize();
        });
        let ended = report.processes.iter().filter(|it| matches!(it.ending, Ending::Finished(())));
        assert_eq!(ended.count(), 3, "seed {seed}: {report}");
    }
}

#[test]
fn a_second_death_at_any_moment_ends_the_receives_that_wait_for_a_probe() {
    for effect in (10..110).step_by(2) {
        let simulation = Simulation::new(SIZE).seed(effect).crash(Crash::before_effect(2, effect));
        let report = simulation.time_limit(Duration::from_secs(100)).run_world(|world| {
            if world.rank().number() == SIZE - 1 {
                sim::crash();
            }
            let me = world.rank().number();
            let mut committed = 0;
            for round in 0_u64.. {
                let mut block = world.start(Level::Global).expect("in use");
                // First a ring, then rank 0 and 1 alone.
                if me < 2 || round < 7 {
                    let next = Rank::new(if round < 7 { (me + 1) % 3 } else { 1 - me });
                    let room = vec![0_u64; 3000];
                    let _ = block.irecv(room, Source::Any, Tag(5)).expect("a rank");
                    let _ = block.isend(vec![round; 3000], next, Tag(5)).expect("a rank");
                }
                committed += u32::from(end(block).is_committed());
                if committed == 3 && round > 12 || round == 40 {
                    break;
                }
            }
            world.finalize();
        });
        for process in &report.processes[..2] {
            assert!(matches!(process.ending, Ending::Finished(())), "effect {effect}: {report}");
        }
    }
}
