//! The calls of ULFM on simulated ranks: agreements, deaths that are acknowledged, communicators
//! that are revoked and shrunk; whoever dies, and wherever.

use fampi::{
    Error, FaultCode, Level, Outcome, Rank, Tag, Timeout, World,
    sim::{Crash, Ending, Simulation},
    ulfm::{self, Agreed},
};

/// What a rank has seen of a few agreements, with a block between them.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    agreed: Vec<Agreed>,
    committed: bool,
    /// The size of the shrunken communicator, and an agreement there.
    shrunk: (u32, i32),
}

/// All bits but that of the rank.
fn flag_of(rank: Rank) -> i32 {
    !(1 << rank.number())
}

fn agreements(world: &World) -> Result<Seen, Error> {
    let mut agreed = Vec::new();
    agreed.push(ulfm::agree(world, flag_of(world.rank()))?);
    ulfm::failure_ack(world);
    let block = world.start(Level::Global)?;
    let mut later = ulfm::iagree(world, flag_of(world.rank()))?;
    let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
    let committed = matches!(outcome, Outcome::Committed(_));
    agreed.push(later.wait_local(Timeout::Never)?.expect("it has no limit"));
    ulfm::failure_ack(world);
    agreed.push(ulfm::agree(world, flag_of(world.rank()))?);
    if world.rank().number() == 1 {
        ulfm::revoke(world);
    }
    let shrunk = ulfm::shrink(world)?;
    let last = ulfm::agree(&shrunk, -1)?;
    Ok(Seen { agreed, committed, shrunk: (shrunk.size(), last.flag) })
}

/// The result counts all that live, and nobody who was not there; what is told is the same.
fn check(seen: &[(Rank, Seen)], size: u32, dead: &[u32]) -> Result<(), String> {
    let (_, first) = &seen[0];
    if let Some((rank, other)) = seen.iter().find(|(_, it)| {
        (&it.agreed, it.committed, it.shrunk) != (&first.agreed, first.committed, first.shrunk)
    }) {
        return Err(format!("rank {rank} has {other:?}, the first one {first:?}"));
    }
    for agreed in &first.agreed {
        for rank in 0..size {
            let left_out = agreed.flag >> rank & 1 == 1;
            if left_out && !dead.contains(&rank) {
                return Err(format!("{agreed:?} is without rank {rank}, which lives"));
            }
        }
        if agreed.unacknowledged.iter().any(|rank| !dead.contains(&rank.number())) {
            return Err(format!("{agreed:?} names a rank that lives"));
        }
    }
    if first.shrunk.0 > size || first.shrunk.0 < seen.len() as u32 || first.shrunk.1 != -1 {
        return Err(format!("{} living ranks of {size} have {first:?}", seen.len()));
    }
    Ok(())
}

fn run(simulation: Simulation, size: u32, what: &str) -> usize {
    let report = simulation.run_world(|world| {
        let rank = world.rank();
        let seen = agreements(&world);
        world.finalize();
        (rank, seen)
    });
    let ended = |ending: &Ending<_>| matches!(ending, Ending::Finished(_) | Ending::Crashed);
    assert!(report.processes.iter().all(|it| ended(&it.ending)), "{what}: {report}");
    let seen: Vec<(Rank, Seen)> = report
        .results()
        .map(|(rank, seen)| match seen {
            Ok(seen) => (*rank, seen.clone()),
            Err(error) => panic!("{what}: rank {rank}: {error}"),
        })
        .collect();
    // Who dies in the launch is replaced.
    let lives = |rank: &u32| seen.iter().any(|(living, _)| living.number() == *rank);
    let dead: Vec<u32> = (0..size).filter(|rank| !lives(rank)).collect();
    check(&seen, size, &dead).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    dead.len()
}

#[test]
fn agreements_beside_blocks_have_one_result_at_whichever_effect_somebody_dies() {
    let mut deaths = 0;
    for size in [2, 3, 5] {
        for process in 0..size {
            for effect in 1..60 {
                let simulation = Simulation::new(size).seed(effect);
                let simulation = simulation.crash(Crash::before_effect(process, effect));
                let what = format!("{size} ranks, {process} dies before effect {effect}");
                deaths += run(simulation, size, &what);
            }
        }
    }
    assert!(deaths > 200, "{deaths} deaths");
    for seed in 0..300 {
        let simulation = Simulation::new(6).seed(seed);
        let simulation = simulation.crash(Crash::before_effect(seed as u32 % 6, seed % 41 + 1));
        let other = (seed as u32 / 6 + 1) % 6;
        run(simulation.crash(Crash::before_effect(other, seed % 53 + 1)), 6, &format!("{seed}"));
    }
}

#[test]
fn an_agreement_is_an_error_on_all_until_all_have_acknowledged() {
    let report = Simulation::new(3).run_world(|world| {
        if world.rank().number() == 2 {
            fampi::sim::crash();
        }
        let mut news = Vec::new();
        let mut agree = |flag| {
            let agreed = ulfm::agree(&world, flag).expect("the living agree");
            news.push((agreed.flag, agreed.is_ok()));
        };
        agree(0b110);
        assert_eq!(ulfm::get_failed(&world), [Rank::new(2)]);
        assert_eq!(ulfm::ack_failed(&world, 0), 0);
        agree(0b011);
        if world.rank().number() == 0 {
            ulfm::failure_ack(&world);
        }
        agree(0b101);
        assert_eq!(ulfm::ack_failed(&world, 5), 1);
        assert_eq!(ulfm::failure_get_acked(&world).as_slice(), [Rank::new(2)]);
        agree(if world.rank().number() == 0 { 0b111 } else { 0b101 });
        // It was acknowledged, and no block has reported it.
        let block = world.start(Level::Global).expect("in use").finish(Timeout::Never);
        let outcome = block.wait_local(Timeout::Never).expect("decided");
        assert!(matches!(outcome, Outcome::Faulty(_)));
        world.finalize();
        news
    });
    let results: Vec<_> = report.results().collect();
    assert_eq!(results.len(), 2, "{report}");
    let expected = vec![(0b110, false), (0b011, false), (0b101, false), (0b101, true)];
    assert!(results.iter().all(|news| **news == expected), "{results:?}");
}

#[test]
fn a_revoked_communicator_has_no_committed_block_and_can_be_shrunk() {
    for seed in 0..50 {
        let report = Simulation::new(4).seed(seed).run_world(|world| {
            let mut block = world.start(Level::Global).expect("in use");
            // Nobody sends it.
            let right = Rank::new((world.rank().number() + 1) % world.size());
            let request = block.irecv(vec![0_u8], right, Tag(1)).expect("a rank");
            if world.rank().number() == 3 {
                ulfm::revoke(&world);
            } else {
                let ended = block.wait_local(request, Timeout::Never);
                assert_eq!(ended, Err(Error::Request(FaultCode::Interrupted)));
            }
            // Another rank that has heard of it may have been quicker to end the block.
            while !ulfm::is_revoked(&world) {}
            let first = block.finish(Timeout::Never).wait_local(Timeout::Never);
            let second = world.start(Level::Global).expect("in use").finish(Timeout::Never);
            let second = second.wait_local(Timeout::Never);
            for outcome in [first, second] {
                assert!(matches!(outcome, Ok(Outcome::Faulty(_))));
            }
            assert!(ulfm::agree(&world, 1).expect("all live").is_ok());
            let shrunk = ulfm::shrink(&world).expect("all live");
            assert!(!ulfm::is_revoked(&shrunk));
            let third = shrunk.start(Level::Global).expect("in use").finish(Timeout::Never);
            let third = third.wait_local(Timeout::Never);
            assert!(matches!(third, Ok(Outcome::Committed(_))));
            world.finalize();
        });
        assert_eq!(report.results().count(), 4, "seed {seed}: {report}");
    }
}

#[test]
fn whoever_agrees_while_others_end_a_block_is_told_so() {
    let report = Simulation::new(3).run_world(|world| {
        let told = if world.rank().number() == 1 {
            ulfm::agree(&world, 1).map(|agreed| agreed.flag)
        } else {
            let block = world.start(Level::Global).expect("in use").finish(Timeout::Never);
            let outcome = block.wait_local(Timeout::Never).expect("decided");
            assert!(matches!(outcome, Outcome::Faulty(_)));
            Err(Error::Request(FaultCode::NotAgreed))
        };
        world.finalize();
        told
    });
    let not_agreed = Err(Error::Request(FaultCode::NotAgreed));
    assert_eq!(report.results().filter(|told| **told == not_agreed).count(), 3, "{report}");
}
