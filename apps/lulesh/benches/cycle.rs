//! Prints microseconds per zone and cycle of one rank alone, best of several runs.
//!
//! `cargo bench -p lulesh --bench cycle -- 30 100` is for edge 30 and 100 cycles.

use std::time::Instant;

use lulesh::domain::Domain;
use lulesh::mesh::Mesh;
use lulesh::regions::Division;

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (edge, cycles) = (numbers.next().unwrap_or(30), numbers.next().unwrap_or(100));
    let mesh = Mesh::new(edge, 0, 1).expect("one is a cube");
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let mut domain = Domain::new(mesh, Division::default());
        let began = Instant::now();
        for _ in 0..cycles {
            let bound = domain.state().clock.bound();
            domain.state_mut().clock.advance(bound);
            domain.compute_forces().expect("the mesh is sound");
            domain.move_nodes();
            domain.compute_motion().expect("the mesh is sound");
            domain.update_material().expect("the viscosity is finite");
        }
        let zones = (mesh.elements() * cycles) as f64;
        best = best.min(began.elapsed().as_secs_f64() * 1e6 / zones);
        println!("{} {:.17e}", domain.state().clock.cycle, domain.state().energy[0]);
    }
    println!("edge {edge}, {cycles} cycles, 1 rank: {best:.3} microseconds per zone and cycle");
}
