//! Nodes that are lost one after the other: wherever the replacements are, no state is lost with
//! what was kept of it.

use std::sync::Arc;
use std::time::Duration;

use fampi::{
    BlockOptions, Error, Level, Placement, Redundancy, Timeout, Tried, World,
    sim::{self, Crash, Simulation},
};

use crate::coded;

const XOR: Redundancy = Redundancy::Group { ranks: 3, losses: 1 };
const REED_SOLOMON: Redundancy = Redundancy::Group { ranks: 5, losses: 2 };

/// Where processes are, those as well that replace others: on the least loaded nodes that live.
#[derive(Clone, Debug)]
struct Nodes {
    /// The node of each process.
    of: Vec<u32>,
    /// The nodes that are lost, in this order, and how many processes were spawned before each.
    lost: Vec<(u32, usize)>,
}

impl Nodes {
    /// So many ranks on so many nodes, of which so many are lost; a lost one comes back empty.
    fn drawn(ranks: u32, nodes: u32, losses: u64, seed: u64) -> Self {
        let draw = |what: u64| {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(what);
            state = (state ^ state >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (state ^ state >> 29) as u32
        };
        let by_block = seed.is_multiple_of(2);
        let first = |rank: u32| if by_block { rank * nodes / ranks } else { rank % nodes };
        let mut of: Vec<u32> = (0..ranks).map(first).collect();
        let mut living: Vec<usize> = (0..of.len()).collect();
        let mut lost = Vec::new();
        for loss in 0..losses {
            let victim = of[living[draw(loss) as usize % living.len()]];
            lost.push((victim, of.len()));
            let dead = living.iter().filter(|process| of[**process] == victim).count();
            living.retain(|process| of[*process] != victim);
            for new in 0..dead as u32 {
                let load = |node: u32| living.iter().filter(|it| of[**it] == node).count();
                let others = (0..nodes).filter(|node| *node != victim);
                let turned = |node: u32| (node + draw(100 + loss) + new) % nodes;
                let node = others.min_by_key(|node| (load(*node), turned(*node)));
                living.push(of.len());
                of.push(node.expect("several nodes"));
            }
        }
        Self { of, lost }
    }
}

/// Protects once; then nodes are lost, and nothing but the restores is between.
fn run(mut world: World, redundancy: Redundancy, nodes: &Nodes) -> Result<(), Error> {
    let me = world.origin();
    let own = |slot: u32| vec![u64::from(me * 10 + slot) + 7; 3 + me as usize];
    if !world.is_replacement() {
        let protected = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            block.set_redundancy(redundancy);
            block.protect(0, &own(0))?;
            block.protect(1, &own(1))
        })?;
        assert!(matches!(protected, Tried::Committed(..)));
    }
    loop {
        if world.generation() > 0 {
            let restored = world.try_block(BlockOptions::global(Timeout::Never), |block| {
                Ok([block.restore::<u64>(0)?, block.restore::<u64>(1)?])
            })?;
            let Tried::Committed(states, _) = restored else {
                let Tried::Faulty(finished, _) = restored else { panic!("{restored:?}") };
                return Err(finished.agreed_error().unwrap_or_else(|| panic!("{finished:?}")));
            };
            assert_eq!(states, [own(0), own(1)], "rank {me} in {}", world.generation());
        }
        let Some((lost, _)) = nodes.lost.get(world.generation() as usize) else {
            world.finalize();
            return Ok(());
        };
        if nodes.of[sim::process().expect("simulated")] == *lost {
            sim::crash();
        }
        let ended = world.start(Level::Global)?.finish(Timeout::Never).wait()?;
        assert!(!ended.is_committed());
        world = world.rebuild(Placement::SameRanks)?;
    }
}

/// What came of it at each rank.
fn lose(ranks: u32, nodes: Nodes, redundancy: Redundancy, seed: u64) -> Vec<Result<(), Error>> {
    let simulation = Simulation::new(ranks).seed(seed).nodes(nodes.of.clone());
    let nodes = Arc::new(nodes);
    let report = simulation.run_world(move |world| run(world, redundancy, &nodes));
    report.expect_orderly()
}

#[test]
fn a_copy_is_on_another_node_wherever_the_replacements_are() {
    // The last one of two nodes has all, and what it loses is lost.
    let losses = [(4, 2, 1), (6, 3, 4), (7, 4, 4), (8, 4, 4), (9, 4, 4), (10, 5, 4)];
    for (ranks, nodes, losses) in losses {
        for seed in 0..40 {
            let drawn = Nodes::drawn(ranks, nodes, losses, seed);
            let results = lose(ranks, drawn.clone(), Redundancy::Partner, seed);
            assert_eq!(results, vec![Ok(()); ranks as usize], "{drawn:?} {seed}");
        }
    }
}

#[test]
fn a_group_is_on_as_many_nodes_as_there_are_wherever_the_replacements_are() {
    for (ranks, nodes, redundancy) in [(6, 4, XOR), (8, 5, XOR), (6, 4, REED_SOLOMON)] {
        for seed in 0..40 {
            let drawn = Nodes::drawn(ranks, nodes, 4, seed);
            let results = lose(ranks, drawn.clone(), redundancy, seed);
            assert_eq!(results, vec![Ok(()); ranks as usize], "{drawn:?} {seed}");
        }
    }
}

#[test]
fn a_node_that_is_lost_at_any_moment_leaves_the_right_states_or_one_error() {
    let (mut well, mut lost) = (0, 0);
    for seed in 0..300 {
        let (ranks, redundancy) = [(6, Redundancy::Partner), (8, XOR)][seed as usize % 2];
        let drawn = Nodes::drawn(ranks, 4, 2, seed);
        let first = 200 + seed * 37 % 1500;
        // At any moment of the first recovery, or behind it.
        let moments = [first, first + seed * 61 % 9000].map(Duration::from_micros);
        let crashes = drawn.lost.iter().zip(moments).flat_map(|((node, spawned), moment)| {
            let there = (0..*spawned).filter(|process| drawn.of[*process] == *node);
            there.map(move |process| Crash::at_time(process as u32, moment))
        });
        let simulation = Simulation::new(ranks).seed(seed).nodes(drawn.of.clone());
        let millisecond = Duration::from_millis(1);
        let simulation = simulation.spawn_time(millisecond..=4 * millisecond).crashes(crashes);
        let grows = seed % 3 == 0;
        let report = simulation.run_world(move |it| coded::run(it, redundancy, grows, 30));
        let text = format!("{seed} {drawn:?} {moments:?}: {report}");
        let results: Vec<_> = report.expect_orderly();
        assert!(
            results.windows(2).all(|two| two[0] == two[1]),
            "one end for all: {results:?} {text}"
        );
        match results.first() {
            Some(Ok(())) => well += 1,
            Some(Err(Error::StateLost { .. })) => lost += 1,
            other => panic!("{other:?}: {text}"),
        }
    }
    assert!(well > 150 && lost > 5, "{well} {lost}");
}

/// A node is lost, and one of the other processes, or of those that were started for it, dies right
/// before one of its effects: each of them, by turns. How many jobs had their states, and how many
/// had lost one.
fn die_in_the_recovery(redundancy: Redundancy) -> (u32, u32) {
    const LOSS: Duration = Duration::from_micros(700);
    let (mut well, mut lost) = (0, 0);
    // Partners and groups move: by turns is half of all ranks on the same node.
    let nodes = [0, 1, 2, 0, 1, 2, 1, 2, 1, 2, 0];
    let simulation = || {
        let millisecond = Duration::from_millis(1);
        let dead = [0, 3].map(|process| Crash::at_time(process, LOSS));
        Simulation::new(6).nodes(nodes).spawn_time(millisecond..=2 * millisecond).crashes(dead)
    };
    let calm = simulation().run_world(move |world| coded::run(world, redundancy, false, 12));
    let effects: Vec<u64> = calm.processes.iter().map(|it| it.effects).collect();
    assert!(calm.expect_orderly().iter().all(Result::is_ok));
    for process in [1, 2, 4, 6, 7] {
        for effect in 1..=effects[process as usize] {
            let crash = Crash::before_effect(process, effect);
            let simulation = simulation().seed(effect).crash(crash);
            let report = simulation.run_world(move |it| coded::run(it, redundancy, false, 12));
            let text = format!("{crash:?}: {report}");
            let results: Vec<_> = report.expect_orderly();
            assert!(results.windows(2).all(|two| two[0] == two[1]), "{results:?} {text}");
            match results.first() {
                Some(Ok(())) => well += 1,
                Some(Err(Error::StateLost { .. } | Error::DiedAtStart)) => lost += 1,
                other => panic!("{other:?}: {text}"),
            }
        }
    }
    (well, lost)
}

#[test]
fn a_death_in_each_step_of_a_restore_that_moves_copies_has_one_end() {
    for redundancy in [Redundancy::Partner, XOR] {
        let (well, lost) = die_in_the_recovery(redundancy);
        println!("{redundancy:?}: {well} {lost}");
        assert!(well > 200 && lost > 10, "{redundancy:?}: {well} {lost}");
    }
    // In two groups of three, of which the node and the process take two ranks at most. Parities
    // are passed on in the restore, as the groups have moved.
    let (well, lost) = die_in_the_recovery(Redundancy::Group { ranks: 3, losses: 2 });
    assert!(well > 200 && lost == 0, "{well} {lost}");
}

#[test]
fn who_shrinks_inherits_the_states_of_a_whole_node() {
    let report = Simulation::new(4).nodes([0, 1, 0, 1]).run_world(|world| {
        let me = world.rank().number();
        let protected =
            world.try_block(BlockOptions::global(Timeout::Never), |block| block.protect(0, &[me]));
        assert!(matches!(protected, Ok(Tried::Committed(..))));
        if me % 2 == 0 {
            sim::crash();
        }
        let ended = world.start(Level::Global).expect("in use").finish(Timeout::Never).wait();
        assert!(!ended.expect("in use").is_committed());
        let comm = world.shrink().expect("two are left");
        let mut block = comm.start(Level::Global).expect("in use");
        let inherited = block.inherit::<u32>(0).expect("nothing is lost").expect("a copy");
        assert!(block.finish(Timeout::Never).wait().expect("in use").is_committed());
        world.finalize();
        assert_eq!(inherited.1, [inherited.0.number()]);
        inherited.1[0]
    });
    let mut inherited = report.expect_orderly();
    inherited.sort_unstable();
    assert_eq!(inherited, [0, 2], "each state of the lost node once");
}
