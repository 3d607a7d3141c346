//! Windows under deaths at all moments: memory is what the committed blocks have made of it, on
//! all living ranks, and nothing else.

use fampi::{
    BlockOptions, Codes, Error, Finished, Level, Placement, Rank, ReduceOp, Request, Timeout,
    Tried, TryBlock, Window, World,
    sim::{Crash, Ending, Report, Simulation},
};

use crate::faults::wait;

const RANKS: u32 = 4;
const CELLS: usize = 6;
const ROUNDS: u64 = 5;

/// One access, which all ranks know.
#[derive(Clone, Copy, Debug)]
struct Access {
    target: u32,
    at: usize,
    value: f64,
    /// Nothing for a put.
    op: Option<ReduceOp>,
}

/// The memories of all ranks, by somebody who makes no mistake.
#[derive(Clone, Debug, PartialEq)]
struct Truth(Vec<Vec<f64>>);

impl Truth {
    fn new() -> Self {
        Self((0..RANKS).map(|rank| vec![f64::from(rank); CELLS]).collect())
    }

    fn commit(&mut self, round: u64, living: &[u32]) {
        for access in living.iter().flat_map(|origin| accesses(round, *origin, living)) {
            let cell = &mut self.0[access.target as usize][access.at];
            *cell = match access.op {
                None => access.value,
                Some(ReduceOp::Sum) => *cell + access.value,
                Some(_) => cell.max(access.value),
            };
        }
    }
}

fn draw(what: [u64; 3]) -> u64 {
    let mix = |seed: u64, it: &u64| (seed ^ it).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    what.iter().fold(11, mix)
}

fn accesses(round: u64, origin: u32, living: &[u32]) -> Vec<Access> {
    let draw = |k: u64, what: u64| draw([round * 8 + what, u64::from(origin), k]) >> 20;
    let access = |k: u64| Access {
        target: living[draw(k, 0) as usize % living.len()],
        at: draw(k, 1) as usize % CELLS,
        value: (draw(k, 2) % 1000) as f64 / 7.0,
        op: [None, Some(ReduceOp::Sum), Some(ReduceOp::Max)][draw(k, 3) as usize % 3],
    };
    (0..4).map(access).collect()
}

/// Posts the accesses of a round, and gets the cells of others: which they are, and where.
type Gotten = Vec<(u32, usize, Request<f64>)>;

fn post(
    block: &mut TryBlock,
    window: &Window<f64>,
    (round, me): (u64, u32),
    living: &[u32],
) -> Result<Gotten, Error> {
    let mut gotten = Vec::new();
    for Access { target, at, value, op } in accesses(round, me, living) {
        let (to, value) = (Rank::new(target), vec![value]);
        match op {
            None => block.rput(window, to, at, value)?,
            Some(op) => block.raccumulate(window, to, at, value, op)?,
        };
        gotten.push((target, at, block.rget(window, to, at, vec![f64::NAN])?));
    }
    Ok(gotten)
}

/// What was got is what was there before the block, whatever became of it.
fn verify(finished: &Finished, gotten: &Gotten, before: &Truth) {
    for (target, at, request) in gotten {
        if finished.status(*request).is_some() {
            let found = finished.take(*request).expect("complete");
            assert_eq!(found, [before.0[*target as usize][*at]], "rank {target}, cell {at}");
        }
    }
}

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
    let mut window = world.window(0, Truth::new().0[me as usize].clone()).expect("new");
    let (mut truth, mut verdicts) = (Truth::new(), Vec::new());
    for round in 0..ROUNDS {
        let dead = world.known_failed();
        let living: Vec<u32> = (0..RANKS).filter(|it| !dead.contains(Rank::new(*it))).collect();
        let mut block = world.start(Level::Global).expect("in use");
        let gotten = post(&mut block, &window, (round, me), &living).expect("right");
        let finished = wait(block, Timeout::Never);
        verify(&finished, &gotten, &truth);
        verdicts.push(finished.is_committed());
        if finished.is_committed() {
            truth.commit(round, &living);
        }
        window.with(|memory| assert_eq!(memory, truth.0[me as usize], "{finished:?}"));
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
        let crashes = victims.map(|rank| Crash::before_effect(rank, 3 + draw([seed, 1, 0]) % 90));
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

/// The same rounds, with the world rebuilt after deaths and the memories restored. What is
/// protected in a block is what the blocks before have made.
fn start_again(mut world: World) -> Result<Vec<f64>, Error> {
    let me = world.rank().number();
    let fresh = |round: u64| [&[round as f64], &Truth::new().0[me as usize][..]].concat();
    let (mut window, mut state) = (None, Some(fresh(0)));
    let (mut round, mut outdated) = (0, world.is_replacement());
    while outdated || round < ROUNDS {
        if let Some(state) = state.take() {
            round = state[0] as u64;
            drop(window.take());
            window = Some(world.window(0, state[1..].to_vec())?);
        }
        let used = window.as_mut().expect("made");
        let options = BlockOptions::global(Timeout::Never);
        let tried = world.try_block(options, |block| {
            if outdated {
                return block.restore::<f64>(0).map(Some);
            }
            block.protect(0, &used.with(|memory| [&[round as f64], &memory[..]].concat()))?;
            post(block, used, (round, me), &(0..RANKS).collect::<Vec<_>>())?;
            Ok(None)
        })?;
        match tried {
            Tried::Committed(None, _) => round += 1,
            Tried::Committed(restored, _) => (state, outdated) = (restored, false),
            Tried::Faulty(_, Some(Error::NothingProtected)) => {
                (state, outdated) = (Some(fresh(0)), false);
            }
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => {
                // A rank and its partner: the same on all ranks.
                drop(window);
                world.finalize();
                return Err(error);
            }
            Tried::Faulty(finished, _) => {
                outdated = true;
                if !finished.failed_group(Codes::PROCESS_FAILURES, &world).is_empty() {
                    world = world.rebuild(Placement::SameRanks)?;
                    state = Some(fresh(round));
                }
            }
        }
    }
    let found = window.expect("made").into_vec();
    world.finalize();
    Ok(found)
}

#[test]
fn after_rebuilds_the_result_is_that_of_a_run_without_deaths() {
    let mut truth = Truth::new();
    (0..ROUNDS).for_each(|round| truth.commit(round, &(0..RANKS).collect::<Vec<_>>()));
    let (mut right, mut replaced) = (0, 0);
    for seed in 0..300_u64 {
        let victims = [(seed % 4) as u32, 4, (seed / 4 % 4) as u32];
        let crash = |(at, rank)| Crash::before_effect(rank, 3 + draw([seed, 2, at]) % 150);
        let crashes = (0..).zip(victims).map(crash).take(1 + seed as usize % 3);
        let job = Simulation::new(RANKS).seed(seed).spares(1).crashes(crashes);
        let job = job.run_world(start_again);
        check(&job, &format!("seed {seed}"));
        let found: Vec<_> = job.results().collect();
        for result in &found {
            let lost = matches!(result, Err(Error::StateLost { .. } | Error::DiedAtStart));
            let is_right = result.as_ref().is_ok_and(|it| truth.0.contains(it));
            assert!(lost || is_right, "seed {seed}: {result:?} {truth:?}\n{job}");
        }
        right += usize::from(found.iter().all(|it| it.is_ok()));
        replaced += usize::from(job.processes.len() > 5);
    }
    assert!(right > 200 && replaced > 20, "{right} {replaced}");
}
