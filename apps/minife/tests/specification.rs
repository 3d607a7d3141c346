//! Every number of the specification, on one to eight ranks in one process.
//!
//! Residuals are compared where they are reproducible (not between about k = 8 and 30, where
//! rounding grows into a transient that depends on the order of summation), iteration counts
//! within two, the solution to 1e-9.

use minife::cg::{Limits, Stop};
use minife::lockstep::{Lockstep, Solution};
use minife::mesh::Mesh;
use minife::system::{Problem, System};
use minife::verify::Check;

const RANKS: [usize; 6] = [1, 2, 3, 4, 5, 8];

struct Expected {
    elements: [usize; 3],
    initial_norm: f64,
    /// The norms that iterations begin with: (k, norm).
    history: &'static [(usize, f64)],
    iterations: u32,
    final_norm_below: f64,
    centre: f64,
    max_error: f64,
    points: usize,
}

fn solve(elements: [usize; 3], ranks: usize, source: f64) -> Solution {
    let mesh = Mesh::new(elements);
    let problem = Problem { mesh, ranks, load_imbalance_percent: 0.0, source };
    let mut run = Lockstep::new(&problem, Limits::default()).expect("every rank has elements");
    let rows: usize = run.systems().iter().map(System::own_rows).sum();
    let nonzeros: usize = run.systems().iter().map(|system| system.matrix().nonzeros()).sum();
    assert_eq!((rows, nonzeros), (mesh.rows(), mesh.nonzeros()));
    run.solve()
}

fn near(actual: f64, expected: f64, relative: f64, what: &str) {
    let difference = (actual - expected).abs() / expected.abs();
    assert!(difference <= relative, "{what}: {actual:.17} is not {expected:.17}");
}

fn check(expected: &Expected, ranks: &[usize]) {
    for &ranks in ranks {
        let solution = solve(expected.elements, ranks, 1.0);
        let name = format!("{:?} on {ranks} ranks", expected.elements);
        near(solution.initial_norm, expected.initial_norm, 1e-12, &name);
        assert_eq!(solution.history[0].to_bits(), solution.initial_norm.to_bits());
        for &(k, norm) in expected.history {
            near(solution.history[k - 1], norm, 1e-9, &format!("{name}, k = {k}"));
        }
        let off = solution.iterations.abs_diff(expected.iterations);
        assert!(off <= 2, "{name}: {} iterations", solution.iterations);
        let limited = expected.iterations == 200;
        assert_eq!(solution.stop == Stop::IterationLimit, limited, "{name}: {:?}", solution.stop);
        assert!(solution.final_norm < expected.final_norm_below, "{}", solution.final_norm);
        near(solution.centre, expected.centre, 1e-9, &name);
        near(solution.error.max_error, expected.max_error, 1e-9, &name);
        assert_eq!(solution.error.points, expected.points);
        let mesh = Mesh::new(expected.elements);
        assert!(Check::new(mesh, 1.0, solution.error.max_error).passes());
    }
}

#[test]
fn ten_cubed_gives_the_numbers_of_the_specification() {
    let expected = Expected {
        elements: [10; 3],
        initial_norm: 11.028_870_502_255,
        history: &[
            (2, 0.637_760_033_626),
            (3, 0.312_989_213_619),
            (5, 0.120_383_859_117),
            (8, 0.030_311_543_032),
        ],
        iterations: 31,
        final_norm_below: f64::EPSILON,
        centre: 0.218_963_365_351_237_3,
        max_error: 0.052_296_698_684_570_65,
        points: 1,
    };
    check(&expected, &RANKS);
}

#[test]
fn thirty_cubed_gives_the_numbers_of_the_specification() {
    let expected = Expected {
        elements: [30; 3],
        initial_norm: 31.013_966_535_849,
        history: &[
            (2, 0.868_736_916_165),
            (3, 0.433_669_776_214),
            (5, 0.203_569_628_982),
            (6, 0.156_626_385_803),
            (15, 0.039_825_764_318),
        ],
        iterations: 100,
        final_norm_below: f64::EPSILON,
        centre: 0.222_459_417_690_067_6,
        max_error: 0.055_792_751_023_400_95,
        points: 27,
    };
    check(&expected, &RANKS);
}

#[test]
fn the_initial_residual_of_thirty_cubed_has_every_digit_of_the_reference() {
    for (ranks, norm) in [
        (1, 31.013_966_535_849_182),
        (2, 31.013_966_535_848_784),
        (4, 31.013_966_535_848_69),
        (8, 31.013_966_535_848_14),
    ] {
        assert_eq!(solve([30; 3], ranks, 1.0).initial_norm.to_bits(), f64::to_bits(norm));
    }
}

#[test]
fn a_flat_mesh_gives_the_numbers_of_the_specification() {
    let expected = Expected {
        elements: [64, 32, 16],
        initial_norm: 23.828_320_906_424,
        history: &[],
        iterations: 200,
        final_norm_below: 1e-12,
        centre: 0.222_291_671_943_307_18,
        max_error: 0.055_625_005_276_640_52,
        points: 21,
    };
    check(&expected, &RANKS);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation; run with --release")]
fn sixty_four_cubed_gives_the_numbers_of_the_specification() {
    let expected = Expected {
        elements: [64; 3],
        initial_norm: 65.007_196_211_717,
        history: &[
            (2, 0.937_060_963_217),
            (3, 0.468_322_576_752),
            (5, 0.227_486_125_960),
            (6, 0.178_805_380_217),
        ],
        iterations: 200,
        final_norm_below: 5e-14,
        centre: 0.222_787_471_407_74,
        max_error: 0.056_120_804_741_072,
        points: 343,
    };
    check(&expected, &RANKS);
}

#[test]
fn without_the_source_the_error_is_of_second_order() {
    for (elements, error) in [([10; 3], 4.79e-3), ([20; 3], 1.19e-3), ([30; 3], 5.31e-4)] {
        for ranks in [1, 4] {
            let solution = solve(elements, ranks, 0.0);
            let check = Check::new(Mesh::new(elements), 0.0, solution.error.max_error);
            assert!(check.passes(), "{check:?}");
            near(check.max_error, error, 2e-3, "error without source");
            let shipped = Check::new(Mesh::new(elements), 1.0, check.max_error);
            assert!(shipped.passes());
        }
    }
}

#[test]
fn the_meaningful_check_fails_where_the_shipped_one_passes() {
    let solution = solve([10; 3], 1, 1.0);
    let mesh = Mesh::new([10; 3]);
    assert!(Check::new(mesh, 1.0, solution.error.max_error).passes());
    assert!(!Check::new(mesh, 0.0, solution.error.max_error).passes());
}

#[test]
fn the_same_run_gives_the_same_bits_and_another_one_does_not() {
    let (first, again) = (solve([10; 3], 4, 1.0), solve([10; 3], 4, 1.0));
    assert_eq!(first, again);
    assert_ne!(first.digest, solve([10; 3], 4, 0.0).digest);
}

#[test]
fn an_uneven_partition_solves_the_same_problem() {
    let mesh = Mesh::new([10; 3]);
    let problem = Problem { mesh, ranks: 4, load_imbalance_percent: 40.0, source: 1.0 };
    let mut run = Lockstep::new(&problem, Limits::default()).expect("40 % is within reach");
    let solution = run.solve();
    near(solution.centre, 0.218_963_365_351_237_3, 1e-9, "centre");
    assert!(solution.iterations.abs_diff(31) <= 2);
}
