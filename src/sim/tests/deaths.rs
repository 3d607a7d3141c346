//! What the living see of a death, wherever it cuts.

use super::*;
use crate::{
    fault::FaultCode,
    seam::reduction::{ReduceOp, ReduceWith},
};

#[test]
fn a_death_cuts_between_any_two_effects() {
    for cut in 1..=5_u64 {
        let simulation = Simulation::new(5).crash(Crash::before_effect(0, cut));
        let report = simulation.run(|mut platform| {
            if my_rank(&platform) == 0 {
                for to in 1..5 {
                    platform.send(LAUNCH, rank(to), &plain(0));
                }
                platform.finalize(false);
            }
            let first = next_number(&mut platform, None).is_some();
            first && next_number(&mut platform, None).is_none()
        });
        assert_eq!(report.processes[0].ending, Ending::Crashed);
        assert_eq!(report.processes[0].effects, cut);
        let reached = report.results().filter(|reached| **reached).count();
        assert_eq!(reached as u64, cut - 1, "{report}");
    }
}

#[test]
fn each_survivor_is_told_of_a_death_once_at_a_time_of_its_own() {
    let simulation = Simulation::new(4).crash(Crash::at_time(2, millis(1)));
    let report = simulation.run(|mut platform| {
        assert!(next_number(&mut platform, None).is_none());
        let told = platform.now();
        platform.idle(Some(millis(10)), Idle::Busy);
        assert!(platform.poll(None).is_none());
        told
    });
    let times: Vec<Duration> = report.results().copied().collect();
    assert_eq!(times.len(), 3);
    assert!(times.iter().all(|time| *time > millis(1) && *time < millis(2)));
    assert!(times[0] != times[1] && times[1] != times[2]);
}

#[test]
fn operations_that_need_the_dead_fail_and_the_others_stay_pending() {
    let simulation = Simulation::new(2).crash(Crash::at_time(1, millis(1)));
    let report = simulation.run(|mut platform| {
        let data = gather_all(&mut platform, 2);
        if my_rank(&platform) == 1 {
            platform.idle(None, Idle::Busy);
        }
        let receiving = post(&mut platform, data, receive(1, 0), vec![0_u8]);
        let large = post(&mut platform, data, send(1, 0), vec![0_u8; 5000]);
        let any = Operation::Receive { from: None, tag: None };
        let any = post(&mut platform, data, any, vec![0_u8]);
        let barrier = post(&mut platform, data, barrier(), Vec::<u8>::new());
        let over = wait_until(&mut platform, any, millis(10));
        let eager = post(&mut platform, data, send(1, 0), vec![0_u8]);
        let late = post(&mut platform, data, receive(1, 0), vec![0_u8]);
        let mut progress = vec![over];
        for post in [receiving, large, barrier, late, eager] {
            progress.push(platform.progress_of(post));
        }
        progress
    });
    let progress = report.processes[0].ending.finished().expect("rank 0 lives");
    let failed = Progress::Failed(FaultCode::ProcessFailed);
    assert_eq!(progress[..5], [Progress::Pending, failed, failed, failed, failed]);
    assert!(matches!(progress[5], Progress::Complete(_)));
}

/// Broadcasts until something fails; then retires the context so that no rank waits for ever.
fn broadcasts(platform: &mut SimPlatform, rounds: u32) -> (u32, Option<FaultCode>) {
    let data = gather_all(platform, 4);
    platform.compute(millis(1));
    for round in 0..rounds {
        let root = Operation::Collective(Collective::Broadcast { root: rank(round % 4) });
        let Some(one) = started(platform.post(lane(data, 0), &root, AnyBuffer::of(vec![round])))
        else {
            return (round, None);
        };
        if let Progress::Failed(code) = wait(platform, one) {
            platform.retire_contexts(data, 1, true);
            return (round, Some(code));
        }
        assert_eq!(content::<u32>(platform.take(one)), [round]);
    }
    (rounds, None)
}

#[test]
fn a_death_anywhere_in_a_loop_of_broadcasts_leaves_nobody_waiting() {
    let simulation = Simulation::new(4);
    let effects = simulation.run(|mut platform| broadcasts(&mut platform, 6)).processes[2].effects;
    assert_eq!(effects, 8, "a gather has two, a broadcast one");
    for cut in 3..=effects {
        for seed in 0..50 {
            let simulation = Simulation::new(4).seed(seed).crash(Crash::before_effect(2, cut));
            let report = simulation.run(|mut platform| {
                let outcome = broadcasts(&mut platform, 6);
                // Late notices and interrupts must find a process.
                platform.compute(millis(1));
                outcome
            });
            assert_eq!(report.processes[2].ending, Ending::Crashed);
            assert_eq!(report.expect_orderly().len(), 3);
        }
    }
}

#[test]
fn a_broken_allreduce_is_never_silent_everywhere() {
    let (mut completed, mut failed, mut silent) = (0, 0, 0);
    for seed in 0..200 {
        let simulation = Simulation::new(5).seed(seed).crash(Crash::before_effect(1, 4));
        let report = simulation.run(|mut platform| {
            let data = gather_all(&mut platform, 5);
            let me = my_rank(&platform);
            let delay = u64::from(me) * u64::from(platform.now().subsec_nanos() % 200);
            platform.compute(millis(1) + Duration::from_micros(delay));
            let barrier = post(&mut platform, data, barrier(), Vec::<u8>::new());
            if me == 1 {
                platform.finalize(false);
            }
            wait_until(&mut platform, barrier, millis(20))
        });
        let results = report.expect_orderly();
        let count = |chosen: fn(&Progress) -> bool| results.iter().filter(|p| chosen(p)).count();
        let complete = count(|progress| matches!(progress, Progress::Complete(_)));
        let fails = count(|p| match p {
            Progress::Failed(code) => *code == FaultCode::ProcessFailed || code.is_unspecific(),
            _ => false,
        });
        assert!(fails > 0 || complete == results.len(), "seed {seed}: {results:?}");
        completed += complete;
        failed += fails;
        silent += results.len() - complete - fails;
    }
    assert!(completed > 0 && failed > 0 && silent > 0, "{completed} {failed} {silent}");
}

#[test]
fn messages_of_the_dead_still_arrive() {
    let report = Simulation::new(2).crash(Crash::before_effect(0, 4)).run(|mut platform| {
        let data = gather_all(&mut platform, 2);
        if my_rank(&platform) == 0 {
            post(&mut platform, data, send(1, 0), vec![5_u8]);
            platform.finalize(false);
        }
        assert!(next_number(&mut platform, None).is_none());
        let receiving = post(&mut platform, data, receive(0, 0), vec![0_u8]);
        wait(&mut platform, receiving);
        content::<u8>(platform.take(receiving))[0]
    });
    assert_eq!(report.expect_orderly(), [5]);
}

#[test]
fn destructors_of_a_crashed_process_run_and_can_do_no_harm() {
    struct Careless(SimPlatform);
    impl Drop for Careless {
        fn drop(&mut self) {
            self.0.send(LAUNCH, rank(1), &plain(9));
            assert!(self.0.poll(None).is_none());
            self.0.idle(None, Idle::Busy);
            assert!(self.0.gather(LAUNCH, &[]).is_err());
            let refused = self.0.post(lane(DataId(7), 0), &send(0, 0), AnyBuffer::of(vec![1_u8]));
            assert!(refused.is_err());
            drop(self.0.take(PostId(3)));
            self.0.abandon(Post::Kept(PostId(3)), None);
            self.0.finalize(false);
        }
    }
    let simulation = Simulation::new(2).crash(Crash::at_time(0, millis(1)));
    let report = simulation.run(|mut platform| {
        if my_rank(&platform) == 1 {
            return next_number(&mut platform, None).is_none();
        }
        let mut careless = Careless(platform);
        careless.0.idle(None, Idle::Busy);
        true
    });
    assert_eq!(report.processes[0].ending, Ending::Crashed);
    assert_eq!(report.processes[1].ending, Ending::Finished(true));
}

#[test]
fn no_broken_collective_is_silent_everywhere() {
    let reduction = ReduceWith::<u32>::reduction(ReduceOp::Sum).expect("numbers have sums");
    let (root, parts) = (rank(0), || Parts::Even);
    let all = [
        Collective::Reduce { root, reduction },
        Collective::Scan { exclusive: true, reduction },
        Collective::ReduceScatter { parts: parts(), reduction },
        Collective::Gather { root, parts: parts() },
        Collective::Scatter { root: rank(2), parts: parts() },
        Collective::Allgather { parts: parts() },
        Collective::Alltoall,
    ];
    for collective in all {
        let mut broken = 0;
        for seed in 0..100 {
            let collective = collective.clone();
            let crash = Crash::before_effect(2, 3 + seed % 2);
            let report = Simulation::new(4).seed(seed).crash(crash).run(move |mut platform| {
                let data = gather_all(&mut platform, 4);
                let operation = Operation::Collective(collective.clone());
                let call = post(&mut platform, data, operation, vec![1_u32; 4]);
                let progress = wait_until(&mut platform, call, millis(20));
                platform.compute(millis(1));
                progress
            });
            let living: Vec<Progress> = report.results().copied().collect();
            let failed = living.iter().any(|it| matches!(it, Progress::Failed(_)));
            assert!(failed || !living.contains(&Progress::Pending), "{report}");
            broken += u32::from(failed);
        }
        assert!(broken > 0, "{}", collective.name());
    }
}

#[test]
fn a_message_does_not_overtake_one_whose_sender_died_before_its_data_were_fetched() {
    for late in [false, true] {
        let simulation = Simulation::new(2).crash(Crash::at_time(0, millis(1)));
        let report = simulation.run(move |mut platform| {
            let data = gather_all(&mut platform, 2);
            if my_rank(&platform) == 0 {
                platform.idle(Some(Duration::from_micros(999)), Idle::Busy);
                let long = post(&mut platform, data, send(1, 0), vec![1_u8; 5000]);
                let short = post(&mut platform, data, send(1, 0), vec![2_u8]);
                wait_until(&mut platform, long, millis(10));
                wait_until(&mut platform, short, millis(10));
                unreachable!("it dies before");
            }
            if late {
                platform.idle(Some(millis(1) + Duration::from_micros(50)), Idle::Busy);
            }
            let first = post(&mut platform, data, receive(0, 0), vec![0_u8; 5000]);
            let second = post(&mut platform, data, receive(0, 0), vec![0_u8; 5000]);
            let second = wait_until(&mut platform, second, millis(10));
            (wait_until(&mut platform, first, millis(10)), second)
        });
        let Ending::Finished((first, second)) = report.processes[1].ending else {
            panic!("{report}")
        };
        assert_eq!(first, Progress::Failed(FaultCode::ProcessFailed), "{late}");
        assert!(matches!(second, Progress::Complete(it) if it.elements == 1), "{late}: {second:?}");
    }
}
