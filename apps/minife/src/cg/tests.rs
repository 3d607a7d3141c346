//! The solver, against the textbook's and against itself, bit by bit.

use super::*;
use crate::mesh::Mesh;
use crate::system::Problem;

fn one_rank(elements: [usize; 3]) -> System {
    let mesh = Mesh::new(elements);
    let problem = Problem { mesh, ranks: 1, load_imbalance_percent: 0.0, source: 1.0 };
    System::build(&problem.divide().unwrap(), 0, problem.source).0
}

fn started(system: &System) -> Cg {
    let mut cg = Cg::new(system, Limits::default());
    cg.load_initial();
    let rt = cg.initial_residual(system);
    cg.accept_initial(rt);
    cg
}

fn iterate(cg: &mut Cg, system: &System) -> f64 {
    let rt = cg.local_residual_dot();
    let norm = cg.form_direction(rt);
    let curvature = cg.multiply(system);
    assert_eq!(cg.judge(curvature), Judgement::Proceed);
    cg.commit(curvature);
    norm
}

#[test]
fn the_recurrence_equals_the_textbook_one_bit_by_bit() {
    let system = one_rank([6, 5, 4]);
    let mut cg = started(&system);
    let rows = system.own_rows();
    let product = |p: &[f64]| {
        let row = |row| {
            let (columns, values) = system.matrix().row(row);
            columns.iter().zip(values).fold(0.0, |sum, (&c, a)| sum + a * p[c as usize])
        };
        (0..rows).map(row).collect::<Vec<f64>>()
    };
    let (mut x, mut r) = (vec![0.0; rows], system.rhs().to_vec());
    let mut p = r.clone();
    let mut rt = vector::dot(&r, &r);
    for k in 1..=7 {
        if k > 1 {
            let old = std::mem::replace(&mut rt, vector::dot(&r, &r));
            p = r.iter().zip(&p).map(|(r, p)| r + rt / old * p).collect();
        }
        assert_eq!(iterate(&mut cg, &system).to_bits(), rt.sqrt().to_bits());
        let ap = product(&p);
        let alpha = rt / vector::dot(&ap, &p);
        for i in 0..rows {
            x[i] += alpha * p[i];
            r[i] -= alpha * ap[i];
        }
        assert_eq!(cg.state().x, x);
        assert_eq!(cg.state().r, r);
    }
    assert_eq!(cg.state().iteration, 7);
}

#[test]
fn the_second_iteration_is_the_first_that_needs_a_sum() {
    let system = one_rank([4; 3]);
    let mut cg = started(&system);
    assert_eq!(cg.local_residual_dot(), None);
    let initial = cg.state().residual_norm();
    assert_eq!(iterate(&mut cg, &system).to_bits(), initial.to_bits());
    assert_eq!(cg.state().residual_norm().to_bits(), initial.to_bits());
    assert!(cg.local_residual_dot().is_some());
}

#[test]
fn an_iteration_that_is_not_committed_leaves_no_trace() {
    let system = one_rank([4; 3]);
    let (mut straight, mut disturbed) = (started(&system), started(&system));
    for _ in 0..5 {
        iterate(&mut straight, &system);
        let before = disturbed.state().clone();
        let rt = disturbed.local_residual_dot();
        let _ = disturbed.form_direction(rt);
        let _ = disturbed.multiply(&system);
        assert_eq!(*disturbed.state(), before);
        iterate(&mut disturbed, &system);
    }
    assert_eq!(straight.state(), disturbed.state());
}

#[test]
fn a_restored_state_continues_with_the_same_bits() {
    let system = one_rank([5; 3]);
    let mut original = started(&system);
    for _ in 0..4 {
        iterate(&mut original, &system);
    }
    let mut encoded = vec![0.0; original.state().encoded_len()];
    original.state().encode_into(&mut encoded);
    let mut replacement = Cg::new(&system, Limits::default());
    replacement.restore(&encoded);
    for _ in 0..4 {
        let (here, there) = (iterate(&mut original, &system), iterate(&mut replacement, &system));
        assert_eq!(here.to_bits(), there.to_bits());
    }
    assert_eq!(original.state(), replacement.state());
}

#[test]
fn overlapping_gives_the_same_bits() {
    let problem =
        Problem { mesh: Mesh::new([6, 5, 7]), ranks: 3, load_imbalance_percent: 0.0, source: 1.0 };
    let (system, _) = System::build(&problem.divide().unwrap(), 1, 1.0);
    let mut cg = Cg::new(&system, Limits::default());
    for (i, value) in cg.direction_mut().iter_mut().enumerate() {
        *value = (i as f64).sin();
    }
    let whole = cg.multiply(&system);
    let product = cg.product.clone();
    cg.product.fill(f64::NAN);
    cg.multiply_interior(&system);
    assert_eq!(cg.multiply_edge(&system).to_bits(), whole.to_bits());
    assert_eq!(cg.product, product);
}

#[test]
fn a_small_curvature_is_judged_against_the_norms() {
    let system = one_rank([4; 3]);
    let mut cg = started(&system);
    let _ = cg.form_direction(None);
    assert_eq!(cg.judge(f64::EPSILON), Judgement::Proceed);
    assert_eq!(cg.judge(-1e-30), Judgement::Breakdown);
    assert_eq!(cg.judge(1e-17), Judgement::NormsNeeded);
    assert_eq!(cg.judge_norms(1e-17, [1.0, 1.0]), Judgement::Breakdown);
    assert_eq!(cg.judge_norms(1e-17, [1e-8, 1e-8]), Judgement::Proceed);
    cg.commit(1e-17);
    assert_eq!(cg.judge(2e-18), Judgement::Proceed, "the floor is a tenth of what was accepted");
    assert_eq!(cg.judge(0.5e-18), Judgement::NormsNeeded);
}

#[test]
fn the_limits_stop_the_solve() {
    let system = one_rank([4; 3]);
    let mut cg = Cg::new(&system, Limits { max_iterations: 1, tolerance: 1e-3 });
    assert_eq!(cg.stop(), None);
    cg.accept_initial(1e-6 * (1.0 - 1e-15));
    assert_eq!(cg.stop(), Some(Stop::Converged));
    cg.accept_initial(f64::NAN);
    assert_eq!(cg.stop(), Some(Stop::Breakdown));
    cg = Cg { limits: cg.limits, ..started(&system) };
    assert_eq!(cg.stop(), None);
    iterate(&mut cg, &system);
    assert_eq!(cg.stop(), Some(Stop::IterationLimit));
    assert!(cg.prints(1) && cg.prints(40) && !cg.prints(41));
}
