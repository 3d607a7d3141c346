//! States that have another length each time, and requests that fail one by one.

use fampi::{
    Error, Flow, Interval, Level, Rank, State, Tag, Timeout, TryBlock, World, policy,
    sim::{self, Crash, Simulation},
};

const RANKS: u32 = 4;
const STEPS: u64 = 12;

/// What a rank has after so many steps: as many elements as it likes.
fn list(rank: u64, steps: u64) -> Vec<u64> {
    (0..steps * rank % 7).map(|at| at + 10 * steps + 1000 * rank).collect()
}

/// A copy goes with each step.
struct List(Vec<u64>);

impl State for List {
    fn interval(&self) -> Interval {
        Interval::Every(1)
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect_any_length(3, &self.0)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0 = block.restore(3)?;
        Ok(())
    }
}

fn change(mut world: World) -> (u64, Vec<u64>) {
    let mut state = List(Vec::new());
    let ended = world.run(&policy::Rebuild::default(), &mut state, |step, state| {
        let rank = u64::from(step.comm().rank().number());
        assert_eq!(state.0, list(rank, step.number()), "as the last step has left it");
        state.0 = list(rank, step.number() + 1);
        Ok(if step.number() + 1 < STEPS { Flow::Continue } else { Flow::Done })
    });
    ended.and_then(fampi::Ended::done).expect("one death is survived");
    let rank = u64::from(world.rank().number());
    world.finalize();
    (rank, state.0)
}

#[test]
fn a_state_may_have_another_length_each_time_whoever_dies() {
    for rank in 0..RANKS {
        for effect in (1..260).step_by(3) {
            let crash = Crash::before_effect(rank, effect);
            let report = Simulation::new(RANKS).seed(effect).crash(crash).run_world(change);
            for (rank, state) in report.expect_orderly() {
                assert_eq!(state, list(rank, STEPS), "effect {effect}");
            }
        }
    }
}

#[test]
fn who_waits_for_the_next_of_many_learns_which_one_has_failed() {
    let report = Simulation::new(RANKS).run_world(|world| {
        world.set_patience(fampi::Patience::Patient);
        let mut block = world.start(Level::Global).expect("in use");
        let me = world.rank();
        if me == Rank::new(2) {
            sim::crash();
        }
        let others: Vec<Rank> = (0..RANKS).map(Rank::new).filter(|it| *it != me).collect();
        let mut receives = Vec::new();
        let mut peers = Vec::new();
        for other in others {
            block.isend(vec![me.number()], other, Tag(0)).expect("posted");
            let receive = block.irecv(vec![0_u32], other, Tag(0)).expect("posted");
            receives.push(receive);
            peers.push((receive, other));
        }
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        while let Ok(Some((request, over))) = block.wait_next_local(&mut receives, Timeout::Never) {
            let peer = peers.iter().find(|(of, _)| *of == request).expect("one of them").1;
            if over.is_ok() { good.push(peer) } else { bad.push(peer) }
        }
        let _ = block.finish(Timeout::Never).wait();
        world.finalize();
        (good.len(), bad)
    });
    let results = report.expect_orderly();
    assert_eq!(results, vec![(2, vec![Rank::new(2)]); 3]);
}

/// Words by their lengths, which serde takes apart.
#[cfg(feature = "serde")]
#[test]
fn a_value_that_serde_can_take_apart_is_a_state() {
    use std::collections::BTreeMap;

    for effect in (1..200).step_by(9) {
        let crash = Crash::before_effect(1, effect);
        let report = Simulation::new(RANKS).crash(crash).run_world(|mut world| {
            let mut state = fampi::Serde(BTreeMap::<String, Vec<f64>>::new());
            let ended = world.run(&policy::Rebuild::default(), &mut state, |step, state| {
                let (number, rank) = (step.number(), step.comm().rank());
                let numbers = vec![0.1 * f64::from(rank.number()); number as usize];
                state.0.insert(format!("{number} of {rank}"), numbers);
                Ok(if number < 6 { Flow::Continue } else { Flow::Done })
            });
            ended.and_then(fampi::Ended::done).expect("one death is survived");
            world.finalize();
            state.0
        });
        for state in report.expect_orderly() {
            let lengths: Vec<usize> = state.values().map(Vec::len).collect();
            assert_eq!(lengths, [0, 1, 2, 3, 4, 5, 6], "effect {effect}: {state:?}");
        }
    }
}
