//! Windows under deaths at all moments: memory is what the committed blocks have made of it, on
//! all living ranks, and nothing else.

use fampi::{
    Error, Level, Timeout, World,
    sim::{Crash, Ending, Report, Simulation},
};
use fampi_kit::programs::cells::{Truth, draw, living, post, start_again, verify};

use crate::faults::wait;

const RANKS: u32 = 4;
const ROUNDS: u64 = 5;

/// Makes sure that nobody hangs or panics.
#[track_caller]
fn check<R>(report: &Report<R>, what: &str) {
    for process in &report.processes {
        let well = matches!(process.ending, Ending::Finished(_) | Ending::Crashed);
        assert!(well, "{what}: {report}");
    }
}

/// Rounds on one communicator, whoever dies; the verdicts, and the truth.
fn go_on(world: World) -> (Vec<bool>, Truth) {
    let me = world.rank().number();
    let window = world.window(0, Truth::new(RANKS).0[me as usize].clone()).expect("new");
    let (mut truth, mut verdicts) = (Truth::new(RANKS), Vec::new());
    for round in 0..ROUNDS {
        let living = living(&world);
        let mut block = world.start(Level::Global).expect("in use");
        let gotten = post(&mut block, &window, (round, me), &living).expect("right");
        let finished = wait(block, Timeout::Never);
        verify(&finished, &gotten, &truth);
        verdicts.push(finished.is_committed());
        if finished.is_committed() {
            truth.commit(round, &living);
        }
        window.read(|memory| assert_eq!(memory, truth.0[me as usize], "{finished:?}"));
    }
    drop(window);
    world.finalize();
    (verdicts, truth)
}

#[test]
fn the_living_go_on_and_have_exactly_what_was_committed() {
    let (mut whole, mut disturbed, mut recovered) = (0, 0, 0);
    for seed in 0..600_u64 {
        // Not before the job has begun: nobody could answer.
        let victims = [(seed % 4) as u32, (seed / 4 % 4) as u32];
        let effect = |rank: u32| 3 + draw([seed, 1, rank.into()]) % 90;
        let crashes = victims.map(|rank| Crash::before_effect(rank, effect(rank)));
        let crashes = crashes.into_iter().take(1 + seed as usize % 2);
        let job = Simulation::new(RANKS).seed(seed).crashes(crashes).run_world(go_on);
        check(&job, &format!("seed {seed}"));
        let mut results = job.results();
        let Some(first) = results.next() else { continue };
        assert!(results.all(|other| other == first), "seed {seed}: {job}");
        let faulty = first.0.iter().position(|committed| !committed);
        whole += usize::from(faulty.is_none());
        disturbed += usize::from(faulty.is_some());
        recovered += usize::from(faulty.is_some_and(|at| first.0[at..].contains(&true)));
    }
    assert!(whole > 0 && disturbed > 100 && recovered > 100, "{whole} {disturbed} {recovered}");
}

#[test]
fn after_rebuilds_the_result_is_that_of_a_run_without_deaths() {
    let (mut right, mut replaced) = (0, 0);
    for seed in 0..300_u64 {
        let victims = [(seed % 4) as u32, 4, (seed / 4 % 4) as u32];
        let crash = |(at, rank)| Crash::before_effect(rank, 3 + draw([seed, 2, at]) % 150);
        let crashes = (0..).zip(victims).map(crash).take(1 + seed as usize % 3);
        let job = Simulation::new(RANKS).seed(seed).spares(1).crashes(crashes);
        let job = job.run_world(|world| {
            let (world, memories) = start_again(world, ROUNDS, |_, _, _| {})?;
            world.finalize();
            Ok::<_, Error>(memories)
        });
        check(&job, &format!("seed {seed}"));
        let found: Vec<_> = job.results().collect();
        for result in &found {
            let lost = matches!(result, Err(Error::StateLost { .. } | Error::DiedAtStart));
            let is_right = result.as_ref().is_ok_and(|[found, truth]| found == truth);
            assert!(lost || is_right, "seed {seed}: {result:?}\n{job}");
        }
        right += usize::from(found.iter().all(|it| it.is_ok()));
        replaced += usize::from(job.processes.len() > 5);
    }
    assert!(right > 200 && replaced > 20, "{right} {replaced}");
}
