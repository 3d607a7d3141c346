//! One cycle, and what comes before the first and after the last one: physics and communication
//! in their order.

use fampi::Error;
use harness::kill_plan::Phase;

use crate::domain::{Broken, Domain};
use crate::exchange::Network;
use crate::kill_plan;
use crate::verify::{Summary, Totals};

/// A point that a cycle passes; the caller may have plans for it.
pub type Passing<'a> = &'a mut dyn FnMut(Phase);

/// Why a cycle did not come to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CycleError {
    /// The network failed.
    #[error(transparent)]
    Network(#[from] Error),
    /// The physics failed.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Sums the masses of shared nodes, once, before the first cycle of a process.
///
/// # Errors
/// [`Error`] of the network.
pub fn exchange_masses(net: &mut impl Network, domain: &mut Domain) -> Result<(), Error> {
    let halo = domain.halo();
    let plan = &halo.masses;
    domain.reset_nodal_masses();
    net.open(plan)?;
    net.send(plan, &mut |to, message| domain.pack_masses(to, message))?;
    net.close(plan, &mut |from, message| domain.add_masses(from, message))
}

/// One cycle. If it fails, the state is neither the old nor the new one, and has to be restored.
/// The bound on the time step is reduced over the ranks here, unless they have `agreed` on it.
///
/// # Errors
/// [`CycleError`].
pub fn run(
    net: &mut impl Network,
    domain: &mut Domain,
    agreed: Option<f64>,
    passing: Passing<'_>,
) -> Result<(), CycleError> {
    let halo = domain.halo();
    if agreed.is_none() {
        net.begin_min(domain.state().clock.bound())?;
    }
    passing(kill_plan::STEP);
    let bound = agreed.map_or_else(|| net.end_min(), Ok)?;
    domain.state_mut().clock.advance(bound);

    net.open(&halo.forces)?;
    domain.compute_forces()?;
    net.send(&halo.forces, &mut |to, message| domain.pack_forces(to, message))?;
    passing(kill_plan::FORCES);
    net.close(&halo.forces, &mut |from, message| domain.add_forces(from, message))?;

    net.open(&halo.positions)?;
    domain.move_nodes();
    net.send(&halo.positions, &mut |to, message| domain.pack_positions(to, message))?;
    passing(kill_plan::POSITIONS);
    net.close(&halo.positions, &mut |from, message| domain.overwrite_positions(from, message))?;

    net.open(&halo.gradients)?;
    domain.compute_motion()?;
    net.send(&halo.gradients, &mut |to, message| domain.pack_gradients(to, message))?;
    passing(kill_plan::GRADIENTS);
    net.close(&halo.gradients, &mut |from, message| domain.unpack_gradients(from, message))?;
    domain.update_material()?;
    Ok(())
}

/// The end: what all ranks know of the result.
///
/// # Errors
/// [`Error`] of the network.
pub fn summarize(net: &mut impl Network, domain: &Domain) -> Result<Summary, Error> {
    let mut numbers = Totals::of(domain).to_numbers();
    net.sum(&mut numbers)?;
    Ok(Summary { clock: domain.state().clock, totals: Totals::from_numbers(numbers) })
}
