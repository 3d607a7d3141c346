//! All ranks integrate 4 / (1 + x²) from 0 to 1, which is π, whichever of them die.
//!
//! Run it with a death: `cargo fampi run -n 4 --kill 2@step:1000 -- pi`

use fampi::{Error, Flow, ReduceOp, Timeout, World, policy};

/// Where the sum is taken: at so many points by each rank in each of so many steps.
#[derive(Clone, Copy)]
struct Points {
    steps: u64,
    in_step: u64,
}

fn main() -> Result<(), Error> {
    let mut world = fampi::init()?; // a replacement comes out here, too
    let pi = integrate(&mut world, Points { steps: 5_000, in_step: 100_000 })?;
    if world.rank().number() == 0 {
        println!("pi is {pi:.10}");
    }
    world.finalize();
    Ok(())
}

fn integrate(world: &mut World, points: Points) -> Result<f64, Error> {
    let mut sum = vec![0.0]; // the state, of which each commit leaves a copy at the rank's partner
    let ended = world.run(&policy::Rebuild::default(), &mut sum, |step, sum| {
        let ranks = u64::from(step.comm().size());
        let piece = step.number() * ranks + u64::from(step.comm().rank().number());
        let mine = area(piece, points.steps * ranks, points.in_step);
        let all = step.iallreduce(vec![mine], ReduceOp::Sum)?;
        step.wait_local(all, Timeout::Never)?; // ends when a rank dies
        sum[0] += step.take(all)?[0];
        Ok(if step.number() + 1 < points.steps { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    Ok(sum[0])
}

/// The area below the curve in one of so many pieces.
fn area(piece: u64, pieces: u64, points: u64) -> f64 {
    let width = 1.0 / (pieces * points) as f64;
    let middles = (piece * points..(piece + 1) * points).map(|at| (at as f64 + 0.5) * width);
    middles.map(|x| 4.0 / (1.0 + x * x) * width).sum()
}

#[cfg(test)]
mod tests {
    use fampi::sim::{Crash, Simulation};

    use super::*;

    /// The results of all ranks, of which one dies before its effect of this number.
    fn results(effect: u64) -> Vec<f64> {
        let crash = Crash::before_effect(2, effect);
        let job = Simulation::new(4).crash(crash).run_world(|mut world| {
            let pi = integrate(&mut world, Points { steps: 20, in_step: 50 });
            world.finalize();
            pi.expect("a death is survived")
        });
        job.expect_orderly()
    }

    #[test]
    fn whenever_a_rank_dies_all_ranks_have_pi() {
        for effect in (1..400).step_by(7) {
            let results = results(effect);
            assert!((results[0] - std::f64::consts::PI).abs() < 1e-6, "{results:?}");
            assert!(results.iter().all(|it| *it == results[0]), "{effect}: {results:?}");
        }
    }
}
