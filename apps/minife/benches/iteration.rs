//! Prints set-up time and milliseconds per iteration of one rank alone, best of several solves.

use std::time::Instant;

use minife::cg::Limits;
use minife::lockstep::Lockstep;
use minife::mesh::Mesh;
use minife::system::{Problem, System};

fn main() {
    for elements in [[30; 3], [40, 30, 20], [64; 3], [100; 3]] {
        let mesh = Mesh::new(elements);
        let problem = Problem { mesh, ranks: 1, load_imbalance_percent: 0.0, source: 1.0 };
        let limits = Limits { max_iterations: 150, tolerance: 0.0 };
        let ranks = Lockstep::new(&problem, limits).expect("one rank has all elements");
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let mut run = ranks.clone();
            let start = Instant::now();
            let solution = run.solve();
            let per = start.elapsed().as_secs_f64() * 1e3 / f64::from(solution.iterations);
            best = best.min(per);
        }
        println!("{elements:?}, 1 rank: {best:.3} ms per iteration");
    }
    let mesh = Mesh::new([64; 3]);
    for ranks in [1, 4] {
        let problem = Problem { mesh, ranks, load_imbalance_percent: 0.0, source: 1.0 };
        let row_map = problem.divide().expect("the mesh has enough elements");
        for rank in 0..ranks {
            let start = Instant::now();
            let (_, times) = System::build(&row_map, rank, 1.0);
            println!("64^3 set-up, rank {rank} of {ranks}: {:?} {times:?}", start.elapsed());
        }
    }
}
