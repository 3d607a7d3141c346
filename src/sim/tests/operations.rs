//! Operations of the application, in the order and with the errors of MPI.

use super::*;
use crate::{
    fault::FaultCode,
    seam::{
        platform::Status,
        reduction::{ReduceOp, ReduceWith},
    },
};

fn sum() -> Operation {
    let reduction = ReduceWith::<f64>::reduction(ReduceOp::Sum).expect("numbers have sums");
    Operation::Collective(Collective::Allreduce { reduction })
}

#[test]
fn an_allreduce_gives_the_same_bits_on_every_rank() {
    let report = Simulation::new(5).run(|mut platform| {
        let data = gather_all(&mut platform, 5);
        let mine = 0.1 + 1e10 / (f64::from(my_rank(&platform)) + 0.3);
        let all = post(&mut platform, data, sum(), vec![mine, -mine]);
        assert!(matches!(wait(&mut platform, all), Progress::Complete(_)));
        content::<f64>(platform.take(all)).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    });
    let results = report.expect_orderly();
    assert!(results.iter().all(|bits| *bits == results[0]));
    let inputs = (0..5).map(|rank| 0.1 + 1e10 / (f64::from(rank) + 0.3));
    assert_eq!(results[0][0], inputs.reduce(|a, b| a + b).expect("five").to_bits());
}

#[test]
fn broadcasts_gathers_and_barriers_move_what_they_should() {
    let report = Simulation::new(3).run(|mut platform| {
        let data = gather_all(&mut platform, 3);
        let me = my_rank(&platform);
        let root = Operation::Collective(Collective::Broadcast { root: rank(1) });
        let one = post(&mut platform, data, root, vec![if me == 1 { 42 } else { 0_i32 }]);
        let mut parts = vec![0_i32; 3];
        parts[me as usize] = 7 * me as i32;
        let all = post(&mut platform, data, allgather(), parts);
        let barrier = post(&mut platform, data, barrier(), Vec::<u8>::new());
        for post in [barrier, all, one] {
            assert!(matches!(wait(&mut platform, post), Progress::Complete(_)));
        }
        drop(platform.take(barrier));
        (content::<i32>(platform.take(one)), content::<i32>(platform.take(all)))
    });
    for result in report.expect_orderly() {
        assert_eq!(result, (vec![42], vec![0, 7, 14]));
    }
}

#[test]
fn a_barrier_holds_everybody_until_the_last_has_come() {
    let report = Simulation::new(3).run(|mut platform| {
        let data = gather_all(&mut platform, 3);
        platform.compute(millis(u64::from(my_rank(&platform))));
        let barrier = post(&mut platform, data, barrier(), Vec::<u8>::new());
        wait(&mut platform, barrier);
        platform.now()
    });
    assert!(report.expect_orderly().iter().all(|now| *now > millis(2)));
}

#[test]
fn receives_match_by_source_and_tag_and_never_overtake() {
    for seed in 0..10 {
        let report = Simulation::new(3).seed(seed).run(|mut platform| {
            let data = gather_all(&mut platform, 3);
            let me = my_rank(&platform);
            if me > 0 {
                for number in 0..10 {
                    post(&mut platform, data, send(0, number % 2), vec![me * 100 + number]);
                }
                return;
            }
            if platform.now().as_nanos() % 2 == 0 {
                platform.compute(millis(1));
            }
            let odd = receive(2, 1);
            let any = Operation::Receive { from: Some(rank(1)), tag: None };
            let wild = Operation::Receive { from: None, tag: None };
            let mut take = |operation: &Operation| {
                let receive = post(&mut platform, data, operation.clone(), vec![0_u32]);
                let Progress::Complete(status) = wait(&mut platform, receive) else { panic!() };
                assert_eq!(status.elements, 1);
                (content::<u32>(platform.take(receive))[0], status)
            };
            let first: Vec<u32> = (0..5).map(|_| take(&odd).0).collect();
            assert_eq!(first, [201, 203, 205, 207, 209]);
            let second: Vec<u32> = (0..10).map(|_| take(&any).0).collect();
            assert_eq!(second, (100..110).collect::<Vec<_>>());
            let third: Vec<(u32, Status)> = (0..5).map(|_| take(&wild)).collect();
            assert!(third.iter().all(|(_, status)| status.source == Some(rank(2))));
            assert_eq!(third.iter().map(|(n, _)| *n % 100).sum::<u32>(), 20);
        });
        report.expect_orderly();
    }
}

#[test]
fn a_message_that_does_not_fit_fails_with_the_class_of_mpi() {
    let report = Simulation::new(2).run(|mut platform| {
        let data = gather_all(&mut platform, 2);
        if my_rank(&platform) == 0 {
            post(&mut platform, data, send(1, 0), vec![1_u8, 2, 3]);
            post(&mut platform, data, send(1, 1), vec![1_u8]);
            return [Progress::Pending; 2];
        }
        let small = post(&mut platform, data, receive(0, 0), vec![0_u8; 2]);
        let wrong = post(&mut platform, data, receive(0, 1), vec![0_i8; 8]);
        [wait(&mut platform, small), wait(&mut platform, wrong)]
    });
    let failed = |class| Progress::Failed(FaultCode::Mpi(class));
    assert_eq!(report.expect_orderly()[1], [failed(15), failed(3)]);
}

#[test]
fn synchronous_and_large_sends_wait_for_their_receive() {
    let report = Simulation::new(2).run(|mut platform| {
        let data = gather_all(&mut platform, 2);
        if my_rank(&platform) == 1 {
            platform.compute(millis(5));
            let small = post(&mut platform, data, receive(0, 0), vec![0_u8; 8]);
            let large = post(&mut platform, data, receive(0, 1), vec![0_u64; 1000]);
            wait(&mut platform, small);
            wait(&mut platform, large);
            return content::<u64>(platform.take(large))[999];
        }
        let synchronous = Operation::Send { to: rank(1), tag: 0, synchronous: true };
        let small = post(&mut platform, data, synchronous, vec![0_u8; 8]);
        let large = post(&mut platform, data, send(1, 1), vec![9_u64; 1000]);
        let eager = post(&mut platform, data, send(1, 2), vec![9_u8; 8]);
        assert!(matches!(platform.progress_of(eager), Progress::Complete(_)));
        assert_eq!(wait_until(&mut platform, large, millis(4)), Progress::Pending);
        assert_eq!(platform.progress_of(small), Progress::Pending);
        assert!(matches!(wait(&mut platform, small), Progress::Complete(_)));
        assert!(matches!(wait(&mut platform, large), Progress::Complete(_)));
        platform.now().as_millis() as u64
    });
    assert_eq!(report.expect_orderly(), [5, 9]);
}

#[test]
fn a_retired_context_is_over_everywhere_and_a_new_one_is_made() {
    let report = Simulation::new(3).run(|mut platform| {
        let data = gather_all(&mut platform, 3);
        let me = my_rank(&platform);
        let left = (me + 2) % 3;
        // Attempt 0: no rank receives what was sent; rank 0 retires the context.
        post(&mut platform, data, send((me + 1) % 3, 0), vec![0_u8]);
        let stale = post(&mut platform, data, receive(left, 1), vec![0_u8]);
        if me == 0 {
            platform.retire_contexts(data, 1, true);
        }
        assert_eq!(wait(&mut platform, stale), Progress::Failed(FaultCode::Interrupted));
        let refused = platform.post(lane(data, 0), &send(0, 0), AnyBuffer::of(vec![0_u8]));
        assert!(matches!(refused, Err((FaultCode::Interrupted, _))));
        // Attempt 1, then attempt 2 in a context that has to be made first.
        for context in 1..5 {
            platform.retire_contexts(data, context, true);
            let mut buffer: AnyBuffer = AnyBuffer::of(vec![context]);
            while let Err((code, back)) = platform.post(lane(data, context), &send(left, 0), buffer)
            {
                assert_eq!(code, FaultCode::Interrupted);
                assert!(context > 1, "two contexts exist from the start");
                buffer = back;
                platform.idle(None, Idle::Busy);
            }
            let receive = receive((me + 1) % 3, 0);
            let receive = platform.post(lane(data, context), &receive, AnyBuffer::of(vec![0_u32]));
            let receive = started(receive).expect("the send was accepted");
            match wait(&mut platform, receive) {
                Progress::Complete(_) => {
                    assert_eq!(content::<u32>(platform.take(receive)), [context]);
                }
                // A neighbour is one attempt further and has retired this one.
                other => assert_eq!(other, Progress::Failed(FaultCode::Interrupted)),
            }
        }
    });
    report.expect_orderly();
}

#[test]
fn abandoned_operations_are_counted_until_they_are_over() {
    let report = Simulation::new(2).run(|mut platform| {
        let data = gather_all(&mut platform, 2);
        let to = 1 - my_rank(&platform);
        let cancelled = post(&mut platform, data, receive(to, 0), vec![0_u8; 4]);
        platform.abandon(Post::Kept(cancelled), None);
        let stays = post(&mut platform, data, send(to, 1), vec![0_u8; 5000]);
        platform.abandon(Post::Kept(stays), None);
        post(&mut platform, data, receive(to, 2), vec![0_u8; 4]);
        platform.finalize(false);
    });
    assert_eq!(report.processes[0].quarantined_buffers, 1);
    assert_eq!(report.processes[0].open_posts, 1);
    report.expect_orderly();
}
