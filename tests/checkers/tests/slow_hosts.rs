//! The shapes of the paper's figures 7 to 13 come out of the simulation of tests among busy hosts.
//!
//! All of them take as many rounds as the paper's:
//! `cargo test --release -p fampi-checkers --test slow_hosts -- --ignored`.

use fampi_checkers::diagnosis::figures::{Figures, LIKELY, Setting, Shape};

fn shapes(rounds: u32, seed: u64) -> Vec<Shape> {
    Figures::of(Setting { hosts: 18, rounds, seed }).shapes()
}

#[test]
fn one_stalled_tester_removes_most_by_one_rule_and_by_the_other_with_a_guard_does_not() {
    // It takes more rounds until two testers are three suspicions apart.
    let few = shapes(5000, 10).into_iter().filter(|(shape, ..)| !shape.contains("suspicions"));
    for (shape, holds, numbers) in few {
        assert!(holds, "{shape}: {numbers}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn in_as_many_rounds_as_the_papers_all_shapes_come_out_most_of_them_whatever_chance_does() {
    let seeds = 13..=22;
    let runs: Vec<_> = seeds.map(|seed| (seed, shapes(30_000, seed))).collect();
    for (seed, shapes) in &runs {
        for (shape, holds, numbers) in shapes.iter().filter(|(it, ..)| !LIKELY.contains(it)) {
            assert!(*holds, "seed {seed}: {shape}: {numbers}");
        }
    }
    for likely in LIKELY {
        let comes_out =
            |shapes: &[Shape]| shapes.iter().any(|(it, holds, _)| *it == likely && *holds);
        let seeds = runs.iter().filter(|(_, shapes)| comes_out(shapes)).map(|(seed, _)| *seed);
        let seeds: Vec<u64> = seeds.collect();
        assert!(seeds.len() * 2 > runs.len(), "{likely}: with the seeds {seeds:?} alone");
    }
}
