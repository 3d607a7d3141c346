//! Every number of the specification, on one to 27 simulated ranks in one process.
//!
//! `cargo test --release -p lulesh --test specification -- --ignored` also runs the long ones.

#![allow(clippy::excessive_precision, reason = "the specification has 17 digits")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fampi::sim::Simulation;
use fampi::{Error, Level, Timeout, World};
use harness::buffers::Places;
use lulesh::cycle;
use lulesh::domain::Domain;
use lulesh::exchange::{InBlock, Messages};
use lulesh::mesh::Mesh;
use lulesh::options::{Options, Request};
use lulesh::regions::Division;
use lulesh::resilience::{self, Hooks};
use lulesh::state::{Clock, State};
use lulesh::verify::Summary;

/// The final result, the same on all ranks but for the bounds, and the clock after each cycle.
fn simulate(ranks: u32, line: &str) -> (Summary, Vec<Clock>) {
    let Ok(Request::Run(options)) = Options::parse(line.split_whitespace()) else {
        panic!("'{line}' are options")
    };
    let options: Arc<Options> = Arc::from(options);
    let clocks = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&clocks);
    let report = Simulation::new(ranks).run_world(move |world| {
        let first = world.rank().number() == 0;
        let mut watch = |state: &mut State| {
            if first {
                seen.lock().expect("one runs at a time").push(state.clock);
            }
        };
        let hooks = Hooks { die: &|_| (), watch: &mut watch };
        let (world, result) = resilience::simulate(world, &options, hooks);
        world.finalize();
        result.map(|simulated| simulated.summary)
    });
    let results = report.expect_orderly();
    let summaries: Vec<Summary> = results.into_iter().map(|it| it.expect("no failure")).collect();
    for summary in &summaries {
        assert_eq!(summary.totals, summaries[0].totals);
        assert_eq!(summary.clock.cycle, summaries[0].clock.cycle);
    }
    let clocks = clocks.lock().expect("all have ended").clone();
    (summaries[0], clocks)
}

#[track_caller]
fn near(actual: f64, expected: f64, relative: f64) {
    let difference = (actual - expected).abs() / expected.abs();
    assert!(difference <= relative, "{actual:.17e} is not {expected:.17e}: {difference:e}");
}

/// Runs with no limit, or up to a number of cycles: ranks, edge, limit, cycles, energy.
type Expected = (u32, usize, Option<u32>, u32, f64);

#[track_caller]
fn check(expected: &[Expected]) {
    for &(ranks, edge, limit, cycles, energy) in expected {
        let limit = limit.map_or_else(String::new, |limit| format!("-i {limit}"));
        let line = format!("-s {edge} {limit} protect-every=0");
        let (summary, clocks) = simulate(ranks, &line);
        println!("{ranks} ranks, {line}: {:.17e}", summary.totals.origin);
        assert_eq!((summary.clock.cycle, clocks.len()), (cycles, cycles as usize), "{line}");
        near(summary.totals.origin, energy, 1e-12);
        let asymmetry = summary.totals.asymmetry;
        assert!(asymmetry.max_abs <= 1e-9 && asymmetry.max_rel <= 1e-10, "{asymmetry:?}");
        assert!(asymmetry.passes());
    }
}

#[test]
fn whole_runs_have_the_cycles_and_the_energy_of_the_specification() {
    check(&[
        (1, 2, None, 5, 2.746_125_041_139_014_7e3),
        (1, 3, None, 23, 4.001_337_895_665_137_2e3),
        (1, 4, None, 45, 5.550_021_237_340_225_5e3),
        (8, 2, None, 45, 5.550_021_237_340_225_5e3),
        (1, 5, None, 72, 7.853_665_102_145_846_5e3),
        (1, 8, None, 163, 1.788_182_072_589_547_2e4),
        (8, 4, None, 163, 1.788_182_072_589_545_7e4),
        (1, 10, None, 231, 2.720_531_168_470_346_5e4),
        (8, 5, None, 231, 2.720_531_168_470_341_8e4),
    ]);
}

#[test]
fn runs_that_end_early_have_the_energy_of_the_specification() {
    check(&[
        (1, 10, Some(50), 50, 8.104_795_751_845_136_7e4),
        (1, 10, Some(72), 72, 6.232_687_259_207_358_9e4),
        (1, 10, Some(200), 200, 3.002_195_285_301_796_7e4),
        (8, 5, Some(50), 50, 8.104_795_751_845_136_7e4),
        (8, 5, Some(72), 72, 6.232_687_259_207_358_9e4),
        (8, 5, Some(200), 200, 3.002_195_285_301_793e4),
        (1, 20, Some(50), 50, 6.483_836_601_494_058_3e5),
        (8, 10, Some(50), 50, 6.483_836_601_494_058_3e5),
        (1, 30, Some(50), 50, 2.188_294_852_994_803_3e6),
        (8, 15, Some(50), 50, 2.188_294_852_994_803_3e6),
        (27, 10, Some(50), 50, 2.188_294_852_994_803_3e6),
    ]);
}

#[test]
#[ignore = "minutes"]
fn long_runs_have_the_cycles_and_the_energy_of_the_specification() {
    check(&[
        (1, 20, None, 575, 9.668_855_981_577_847e4),
        (8, 10, None, 575, 9.668_855_981_577_847e4),
        (1, 20, Some(200), 200, 2.401_756_219_305_970_3e5),
        (8, 10, Some(200), 200, 2.401_756_219_305_970_3e5),
        (1, 30, Some(200), 200, 8.105_927_232_245_134_7e5),
        (8, 15, Some(200), 200, 8.105_927_232_245_134_7e5),
        (27, 10, Some(200), 200, 8.105_927_232_245_134_7e5),
        (1, 30, None, 932, 2.025_074_785_071_991_5e5),
        (8, 15, None, 932, 2.025_074_785_071_991_5e5),
        (27, 10, None, 932, 2.025_074_785_071_991_5e5),
        (27, 15, Some(200), 200, 2.735_750_439_354_608_8e6),
        (1, 45, Some(200), 200, 2.735_750_439_354_608_8e6),
        (1, 45, None, 1477, 4.234_875_113_400_566_6e5),
        (8, 50, Some(1), 1, 4.333_328_943_758_574_1e8),
    ]);
}

#[test]
fn the_first_cycles_have_the_times_of_the_specification() {
    for ranks in [1, 8] {
        let edge = if ranks == 1 { 10 } else { 5 };
        let (_, clocks) = simulate(ranks, &format!("-s {edge} -i 11"));
        for (cycle, time, step) in [
            (1, 6.042_222e-5, 6.042_222e-5),
            (2, 1.329_289e-4, 7.250_667e-5),
            (3, 1.577_814e-4, 2.485_252e-5),
            (4, 1.785_352e-4, 2.075_378e-5),
            (5, 1.970_364e-4, 1.850_120e-5),
            (10, 2.769_363e-4, 1.519_719e-5),
            (11, 2.951_729e-4, 1.823_663e-5),
        ] {
            let clock = clocks[cycle - 1];
            assert_eq!(clock.cycle as usize, cycle);
            // They have seven digits.
            near(clock.time, time, 4e-7);
            near(clock.step, step, 4e-7);
        }
    }
}

#[test]
fn sums_over_all_elements_are_those_of_the_specification() {
    for (ranks, edge) in [(1, 10), (8, 5)] {
        let totals = simulate(ranks, &format!("-s {edge}")).0.totals;
        near(totals.energy, 3.442_050_536_542_88e2, 1e-12);
        near(totals.pressure, 1.998_355_297_102e5, 1e-12);
        near(totals.viscosity, 7.197_891_091_10e4, 1e-11);
        near(totals.volume, 1.423_932_452_954, 1e-12);
    }
    for (ranks, edge) in [(1, 10), (1, 20), (8, 5), (27, 4)] {
        let totals = simulate(ranks, &format!("-s {edge} -i 50")).0.totals;
        near(totals.energy, 325.855_159_76, 1e-10);
    }
}

#[test]
fn sizes_that_are_not_in_the_specification_agree_across_decompositions() {
    for (global, limit) in [(6, 1000), (12, 150), (18, 40)] {
        let energies = [1_usize, 2, 3].map(|root| {
            let line = format!("-s {} -i {limit}", global / root);
            let (summary, _) = simulate(root.pow(3) as u32, &line);
            (summary.clock.cycle, summary.totals.origin)
        });
        for (cycle, energy) in energies {
            assert_eq!(cycle, energies[0].0);
            near(energy, energies[0].1, 1e-14);
        }
    }
}

#[test]
fn regions_change_no_bit() {
    let digest = |words: &str| simulate(8, &format!("-s 4 -i 50 {words}")).0.totals.digest;
    let expected = digest("");
    for words in ["-r 1", "-r 22", "-b 0", "-b 2", "-b 8", "-c 0", "-c 8", "-c 32"] {
        assert_eq!(digest(words), expected, "{words}");
    }
    assert_ne!(digest("-i 49"), expected);
}

#[test]
fn all_copies_of_a_shared_node_have_the_same_bits() {
    for ranks in [8, 27] {
        let report = Simulation::new(ranks).run_world(|world| copies(&world));
        let mut nodes: BTreeMap<[u64; 3], [u64; 6]> = BTreeMap::new();
        let mut met = 0;
        for (place, bits) in report.results().flat_map(|it| it.as_ref().expect("no failure")) {
            assert_eq!(nodes.entry(*place).or_insert(*bits), bits, "{place:?}");
            met += 1;
        }
        assert!(met > nodes.len() && nodes.values().any(|bits| bits[3] != 0));
    }
}

/// Nodes: their global places, and the bits of their positions and velocities.
type Nodes = Vec<([u64; 3], [u64; 6])>;

/// The nodes of this rank after some cycles.
fn copies(world: &World) -> Result<Nodes, Error> {
    let (rank, ranks) = (world.rank().index(), world.size() as usize);
    let mesh = Mesh::new(3, rank, ranks).expect("a cube");
    let mut domain = Domain::new(mesh, Division::default());
    let (places, mut messages) = (Places::of(world), Messages::default());
    let mut block = world.start(Level::Global)?;
    let mut net = InBlock::new(world, &mut block, &places, &mut messages);
    cycle::exchange_masses(&mut net, &mut domain)?;
    for _ in 0..40 {
        cycle::run(&mut net, &mut domain, None, &mut |_| {}).expect("no failure");
    }
    let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
    let state = domain.state();
    let nodes = mesh.node_places().enumerate().map(|(node, place)| {
        let global = [0, 1, 2].map(|axis| (mesh.place[axis] * mesh.edge + place[axis]) as u64);
        let [x, y, z] = state.position.each_ref().map(|field| field[node].to_bits());
        let [u, v, w] = state.velocity.each_ref().map(|field| field[node].to_bits());
        (global, [x, y, z, u, v, w])
    });
    Ok(nodes.collect())
}
