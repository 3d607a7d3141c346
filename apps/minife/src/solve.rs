//! The parts of a solve, each between two points where the state is whole. They read the state
//! and write scratch; what they return is put into the state when it is known to count.

use std::time::Instant;

use fampi::Error;
use harness::kill_plan::Phase;

use crate::cg::{Cg, Judgement};
use crate::exchange::Network;
use crate::kill_plan;
use crate::report::SolveTimes;
use crate::system::System;
use crate::verify;
use harness::digest::Digest;

/// A point that the solve passes; the caller may have plans for it.
pub type Passing<'a> = &'a mut dyn FnMut(Phase);

/// What an iteration wants to be done with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// The norm that it began with.
    pub norm: f64,
    /// p·Ap over all ranks.
    pub curvature: f64,
    /// Commit, or end the solve.
    pub judgement: Judgement,
}

/// What all ranks know at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The largest difference from the series near the middle.
    pub max_error: f64,
    /// How many nodes were compared.
    pub points: usize,
    /// The value at the middle node.
    pub centre: f64,
    /// The fingerprint of the solution.
    pub digest: Digest,
}

/// The start: the residual of the first guess, as this rank's part of r·r.
///
/// # Errors
/// [`Error`] of the network.
pub fn start(net: &mut impl Network, cg: &mut Cg, system: &System) -> Result<f64, Error> {
    cg.load_initial();
    net.begin_exchange(system, cg.direction())?;
    net.end_exchange(system, cg.direction_mut())?;
    Ok(cg.initial_residual(system))
}

/// One iteration, up to the point where it could be committed. The network makes the sums.
///
/// # Errors
/// [`Error`] of the network.
pub fn iterate(
    net: &mut impl Network,
    cg: &mut Cg,
    system: &System,
    overlap: bool,
    times: &mut SolveTimes,
    passing: Passing<'_>,
) -> Result<Iteration, Error> {
    let began = Instant::now();
    let rt = match cg.local_residual_dot() {
        Some(local) => Some(net.sum(local)?),
        None => None,
    };
    times.dot += began.elapsed();
    let Product { norm, local } = multiply(net, cg, system, rt, overlap, times, passing)?;
    let multiplied = Instant::now();
    net.begin_sum(&[local])?;
    passing(kill_plan::DOT);
    let curvature = net.end_sum()?[0];
    let mut judgement = cg.judge(curvature);
    if judgement == Judgement::NormsNeeded {
        net.begin_sum(&cg.local_norms())?;
        let norms = net.end_sum()?;
        judgement = cg.judge_norms(curvature, [norms[0], norms[1]]);
    }
    times.dot += multiplied.elapsed();
    Ok(Iteration { norm, curvature, judgement })
}

/// The part of an iteration that needs neighbours only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// The norm that the iteration began with.
    pub norm: f64,
    /// This rank's part of p·Ap.
    pub local: f64,
}

/// Forms the direction from r·r over all ranks (`None` in the first iteration), exchanges and
/// multiplies it.
///
/// # Errors
/// [`Error`] of the network.
pub fn multiply(
    net: &mut impl Network,
    cg: &mut Cg,
    system: &System,
    rt: Option<f64>,
    overlap: bool,
    times: &mut SolveTimes,
    passing: Passing<'_>,
) -> Result<Product, Error> {
    let began = Instant::now();
    let norm = cg.form_direction(rt);
    let formed = Instant::now();
    net.begin_exchange(system, cg.direction())?;
    passing(kill_plan::EXCHANGE);
    let local = if overlap {
        cg.multiply_interior(system);
        net.end_exchange(system, cg.direction_mut())?;
        passing(kill_plan::MULTIPLY);
        cg.multiply_edge(system)
    } else {
        net.end_exchange(system, cg.direction_mut())?;
        passing(kill_plan::MULTIPLY);
        cg.multiply(system)
    };
    times.waxpy += formed - began;
    times.matvec += formed.elapsed();
    Ok(Product { norm, local })
}

/// The end: what is said about the solution.
///
/// # Errors
/// [`Error`] of the network.
pub fn summarize(net: &mut impl Network, cg: &Cg, system: &System) -> Result<Summary, Error> {
    let (mesh, numbering, x) = (system.mesh(), system.numbering(), &cg.state().x);
    let error = verify::local_error(mesh, numbering, x);
    let [low, high] = verify::local_digest(mesh, numbering, x).to_limbs();
    let centre = verify::local_centre(mesh, numbering, x);
    net.begin_sum(&[error.points as f64, centre, low, high])?;
    let sums = net.end_sum()?;
    // A maximum may lose what is not a number; a sum does not.
    let not_a_number = net.sum(f64::from(u8::from(error.max_error.is_nan())))?;
    let max_error = net.max(error.max_error)?;
    Ok(Summary {
        max_error: if not_a_number > 0.0 { f64::NAN } else { max_error },
        points: sums[0] as usize,
        centre: sums[1],
        digest: Digest::from_limbs([sums[2], sums[3]]),
    })
}
