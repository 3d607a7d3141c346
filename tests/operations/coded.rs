//! States that are kept in codes over groups, or by their rank alone: whoever dies, they are those
//! of a run without deaths, as long as no group loses more than it was to survive.

use fampi::{
    Codes, Error, Flow, Interval, Placement, Rank, ReduceOp, Redundancy, State, Timeout, Tried,
    TryBlock, World, policy,
    sim::{self, Crash, Ending, Simulation},
};

mod waits;

const STEPS: u64 = 8;
/// The first effects of a process belong to the launch, which no run has begun in.
const LAUNCH_EFFECTS: u64 = 8;
const XOR: Redundancy = Redundancy::Group { ranks: 3, losses: 1 };
const REED_SOLOMON: Redundancy = Redundancy::Group { ranks: 5, losses: 2 };

/// What a rank has after so many steps; of types and lengths that differ, the first of which may
/// change.
fn state(rank: u32, steps: u64, grows: bool) -> (Vec<f64>, Vec<u16>) {
    let count = if grows { steps * u64::from(rank + 1) % 7 } else { u64::from(rank) };
    let number = |at: u64| (u64::from(rank) * 1009 + steps * 31 + at) as f64 / 7.0;
    let word = |at: u32| (rank * 257 + steps as u32 * 13 + at) as u16;
    ((0..count).map(number).collect(), (0..5 + rank % 2).map(word).collect())
}

struct Coded {
    redundancy: Redundancy,
    grows: bool,
    numbers: Vec<f64>,
    words: Vec<u16>,
}

impl State for Coded {
    fn interval(&self) -> Interval {
        Interval::Every(2)
    }

    fn redundancy(&self) -> Redundancy {
        self.redundancy
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        if self.grows {
            block.protect_any_length(1, &self.numbers)?;
        } else {
            block.protect(1, &self.numbers)?;
        }
        block.protect(0, &self.words)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.numbers = block.restore(1)?;
        self.words = block.restore(0)?;
        Ok(())
    }
}

/// So many steps of a run, before each of which a rank has what it has to have.
pub(crate) fn run(
    mut world: World,
    redundancy: Redundancy,
    grows: bool,
    steps: u64,
) -> Result<(), Error> {
    let me = world.origin();
    let (numbers, words) = state(me, 0, grows);
    let mut coded = Coded { redundancy, grows, numbers, words };
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let ended = world.run(&rebuild, &mut coded, |step, coded| {
        let is = (coded.numbers.clone(), coded.words.clone());
        assert_eq!(is, state(me, step.number(), grows), "rank {me} before step {}", step.number());
        (coded.numbers, coded.words) = state(me, step.number() + 1, grows);
        let sum = step.iallreduce(vec![1_u64], ReduceOp::Sum)?;
        step.wait_local(sum, Timeout::Never)?;
        Ok(if step.number() + 1 < steps { Flow::Continue } else { Flow::Done })
    });
    world.finalize();
    ended?.done().map(|_| ())
}

/// Every rank alone, and in pairs and threes, at moments that differ; how many jobs went well, and
/// how many had lost a state.
fn try_deaths(
    (ranks, redundancy, grows): (u32, Redundancy, bool),
    victims: u32,
    jobs: u64,
) -> (u32, u32) {
    let (mut well, mut lost) = (0, 0);
    let calm = Simulation::new(ranks).run_world(move |world| run(world, redundancy, grows, STEPS));
    let effects = calm.processes[0].effects - LAUNCH_EFFECTS;
    for seed in 0..jobs {
        let effect = |which: u64| LAUNCH_EFFECTS + (seed * (37 + which) + which * 3) % effects;
        let rank = |which: u64| ((seed * 7 + which * (1 + seed / 11)) % u64::from(ranks)) as u32;
        let crashes = (0..u64::from(victims)).map(|it| Crash::before_effect(rank(it), effect(it)));
        let simulation = Simulation::new(ranks).seed(seed).spares(seed as u32 % 3);
        let simulation = simulation.crashes(crashes);
        let report = simulation.run_world(move |world| run(world, redundancy, grows, STEPS));
        let text = format!("{redundancy:?} {victims} of {ranks}, {seed}: {report}");
        let is_dead = |ending: &Ending<_>| matches!(ending, Ending::Crashed);
        let deaths = report.processes.iter().filter(|it| is_dead(&it.ending)).count();
        let results: Vec<_> = report.expect_orderly();
        for result in &results {
            match result {
                Ok(()) | Err(Error::StateLost { partner: None, .. }) => {}
                Err(error) => panic!("{error}: {text}"),
            }
        }
        assert!(results.windows(2).all(|two| two[0] == two[1]), "one end for all: {text}");
        match results.first() {
            Some(Ok(())) if deaths > 0 => well += 1,
            Some(Err(_)) => lost += 1,
            _ => {}
        }
    }
    (well, lost)
}

#[test]
fn as_many_deaths_as_a_code_survives_change_no_bit() {
    for grows in [false, true] {
        for ranks in 2..8 {
            let (well, lost) = try_deaths((ranks, XOR, grows), 1, 60);
            assert!(well > 40 && lost == 0, "{ranks}: {well} {lost}");
        }
        for ranks in [5, 6, 11] {
            let (well, lost) = try_deaths((ranks, REED_SOLOMON, grows), 2, 60);
            assert!(well > 40 && lost == 0, "{ranks}: {well} {lost}");
        }
    }
}

#[test]
fn more_deaths_at_once_are_one_error_that_all_see() {
    let (well, lost) = try_deaths((6, XOR, false), 2, 150);
    assert!(well > 10 && lost > 10, "{well} {lost}");
    let (well, lost) = try_deaths((5, REED_SOLOMON, true), 3, 150);
    assert!(well > 10 && lost > 10, "{well} {lost}");
    let (well, lost) = try_deaths((4, Redundancy::Own, false), 1, 60);
    // Before the first commit all begin anew, and after the last one nobody needs it.
    assert!(well < 30 && lost > 30, "{well} {lost}");
}

/// Rounds by hand of which some ranks object, and the state that each rank has then.
fn object(world: &World, redundancy: Redundancy) -> Vec<u64> {
    let me = u64::from(world.rank().number());
    let (mut value, mut round) = (vec![me; 3], 0);
    while round < 6 {
        let tried = world
            .try_block(fampi::BlockOptions::global(Timeout::Never), |block| {
                block.set_redundancy(redundancy);
                block.protect(0, &value)?;
                let objects = round == 2 || round == 3 && me == 1;
                if objects { Err(Error::WaitTimedOut) } else { Ok(()) }
            })
            .expect("in use");
        round += 1;
        if matches!(tried, Tried::Committed(..)) {
            value = value.iter().map(|it| it + 10).collect();
        }
    }
    let tried = world.try_block(fampi::BlockOptions::global(Timeout::Never), |it| it.restore(0));
    let Ok(Tried::Committed(state, _)) = tried else { panic!("{tried:?}") };
    state
}

#[test]
fn what_did_not_commit_is_forgotten_by_all() {
    for redundancy in [Redundancy::Own, Redundancy::Partner, XOR, REED_SOLOMON] {
        let report = Simulation::new(5).run_world(move |world| {
            let found = object(&world, redundancy);
            world.finalize();
            found
        });
        for (rank, found) in report.expect_orderly().into_iter().enumerate() {
            // Four of six rounds counted, and the last of them has protected what three had made.
            assert_eq!(found, vec![rank as u64 + 30; 3], "{redundancy:?}");
        }
    }
}

/// Deaths one after the other, with a commit between them, and where copies are kept changes.
fn move_around(mut world: World) -> Result<(u32, Vec<f32>), Error> {
    let all = [Redundancy::Partner, XOR, Redundancy::Own, REED_SOLOMON, XOR, Redundancy::Partner];
    let me = world.origin();
    let mut outdated = world.is_replacement();
    let mut round = 0;
    let mut value = vec![me as f32; 2 + me as usize];
    while outdated || round < 12 {
        let redundancy = all[round % all.len()];
        let tried = world.try_block(fampi::BlockOptions::global(Timeout::Never), |block| {
            if outdated {
                return Ok(Some(block.restore::<f32>(5)?));
            }
            block.set_redundancy(redundancy);
            block.protect(5, &value)?;
            // Dies with what was protected by the round before; `Own` is no round before a death.
            let dies = !matches!(all[(round + 5) % 6], Redundancy::Own) && round > 0;
            if dies && me == (round as u32 * 2) % 6 && !world.is_replacement() {
                sim::crash();
            }
            Ok(None)
        })?;
        match tried {
            Tried::Committed(None, _) => {
                round += 1;
                value.fill(me as f32 + round as f32 / 16.0);
            }
            Tried::Committed(Some(restored), _) => {
                (value, outdated) = (restored, false);
                round = ((value[0] - me as f32) * 16.0) as usize;
            }
            Tried::Faulty(finished, error) => {
                if let Some(error @ Error::StateLost { .. }) = error {
                    return Err(error);
                }
                outdated = true;
                if !finished.failed_group(Codes::PROCESS_FAILURES, &world).is_empty() {
                    world = world.rebuild(Placement::SameRanks)?;
                }
            }
        }
    }
    world.finalize();
    Ok((me, value))
}

#[test]
fn where_states_are_kept_may_change_from_block_to_block() {
    for seed in 0..20 {
        let report = Simulation::new(6).seed(seed).run_world(move_around);
        assert!(report.processes.len() > 8, "some died: {report}");
        for result in report.expect_orderly() {
            let (rank, value) = result.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(value, vec![rank as f32 + 12.0 / 16.0; 2 + rank as usize]);
        }
    }
}

/// Protects once; then ranks die one after the other, and nothing but the restore is between them.
fn one_after_the_other(mut world: World, redundancy: Redundancy) -> Result<(), Error> {
    let me = world.origin();
    let own = vec![u64::from(me) + 7; 3 + me as usize];
    if !world.is_replacement() {
        let protected = world.try_block(fampi::BlockOptions::global(Timeout::Never), |block| {
            block.set_redundancy(redundancy);
            block.protect(0, &own)
        })?;
        assert!(matches!(protected, Tried::Committed(..)));
    }
    loop {
        let block = fampi::BlockOptions::global(Timeout::Never);
        if world.generation() > 0 {
            let restored = world.try_block(block, |block| block.restore::<u64>(0))?;
            let Tried::Committed(state, _) = restored else { panic!("{restored:?}") };
            assert_eq!(state, own, "rank {me} in generation {}", world.generation());
        }
        if world.generation() == world.size() {
            world.finalize();
            return Ok(());
        }
        if world.generation() == me {
            sim::crash();
        }
        let ended = world.start(fampi::Level::Global)?.finish(Timeout::Never).wait()?;
        assert!(!ended.is_committed());
        world = world.rebuild(Placement::SameRanks)?;
    }
}

#[test]
fn what_was_restored_is_kept_for_others_again() {
    for redundancy in [Redundancy::Partner, XOR, REED_SOLOMON] {
        for seed in 0..10 {
            let simulation = Simulation::new(4).seed(seed);
            let report = simulation.run_world(move |world| one_after_the_other(world, redundancy));
            assert_eq!(report.processes.len(), 8, "each rank has died once: {report}");
            let results = report.expect_orderly();
            assert_eq!(results, vec![Ok(()); 4], "{redundancy:?}");
        }
    }
}

#[test]
fn a_shrink_needs_partners() {
    let report = Simulation::new(4).run_world(|world| {
        let mut block = world.start(fampi::Level::Global).expect("in use");
        block.set_redundancy(XOR);
        block.protect(1, &[world.rank().number()]).expect("posted");
        let finished = block.finish(Timeout::Never).wait().expect("in use");
        assert!(finished.is_committed());
        if world.rank() == Rank::new(3) {
            sim::crash();
        }
        let finished = world.start(fampi::Level::Global).expect("in use").finish(Timeout::Never);
        assert!(!finished.wait().expect("in use").is_committed());
        let comm = world.shrink().expect("one death");
        let mut block = comm.start(fampi::Level::Global).expect("in use");
        let own = block.restore::<u32>(1).expect("as it was");
        assert_eq!(own, [world.rank().number()]);
        let lost = Error::StateLost { rank: Rank::new(3), partner: None };
        assert_eq!(block.inherit::<u32>(1), Err(lost));
        assert!(block.finish(Timeout::Never).wait().expect("in use").is_committed());
        world.finalize();
    });
    assert_eq!(report.processes.iter().filter(|it| it.ending == Ending::Crashed).count(), 1);
}

/// With MPI every element of this program is a number.
#[cfg(not(feature = "mpi"))]
#[test]
fn what_is_no_number_is_refused() {
    let report = Simulation::new(4).run_world(|world| {
        let mut block = world.start(fampi::Level::Global).expect("in use");
        block.set_redundancy(XOR);
        let refused = block.protect(0, &[true, false]);
        assert_eq!(refused, Err(Error::NotNumbers { slot: 0 }));
        block.set_redundancy(Redundancy::Partner);
        block.protect(0, &[true, false]).expect("of any type");
        assert!(block.finish(Timeout::Never).wait().expect("in use").is_committed());
        world.finalize();
    });
    report.expect_orderly();
}
