//! The plain program: the same simulation without blocks, copies or recovery.

use std::time::Instant;

use harness::account::Account;
use harness::timeline;

use crate::cycle::{self, CycleError};
use crate::domain::Domain;
use crate::exchange::Network;
use crate::mesh::Mesh;
use crate::options::Options;
use crate::resilience::Simulated;
use crate::state::Clock;

/// Simulates the part of one rank.
///
/// # Errors
/// [`CycleError`], on this rank only; the others wait for it.
pub fn simulate(
    net: &mut impl Network,
    mesh: Mesh,
    options: &Options,
    watch: &mut dyn FnMut(&Clock),
) -> Result<Simulated, CycleError> {
    let mut domain = Domain::new(mesh, options.division);
    cycle::exchange_masses(net, &mut domain)?;
    let rank = mesh.rank() as u32;
    timeline::run_begins(rank, false);
    let began = Instant::now();
    while !domain.state().clock.is_over(options.most_cycles) {
        cycle::run(net, &mut domain, None, &mut |_| {})?;
        watch(&domain.state().clock);
    }
    let elapsed = began.elapsed();
    let summary = cycle::summarize(net, &domain)?;
    let resilience = Account::default();
    timeline::run_ends(&resilience);
    Ok(Simulated { summary, elapsed, resilience })
}
