//! The plain program: the same solve without blocks, copies or recovery.

use std::time::Instant;

use harness::account::Account;
use harness::timeline;

use crate::cg::{Cg, Judgement, Stop};
use crate::exchange::Network;
use crate::options::Options;
use crate::report::SolveTimes;
use crate::resilience::{SolveError, Solved};
use crate::solve;
use crate::system::System;

/// Solves the problem as rank `rank` of `ranks`.
///
/// # Errors
/// [`SolveError`] when options and mesh do not fit the number of ranks, the same on all ranks.
pub fn solve(
    net: &mut impl Network,
    rank: usize,
    ranks: usize,
    options: &Options,
) -> Result<Solved, SolveError> {
    let problem = options.problem(ranks)?;
    let row_map = problem.divide()?;
    let (system, setup) = System::build(&row_map, rank, problem.source);
    let mut cg = Cg::new(&system, options.limits);
    let (mut times, mut history) = (SolveTimes::default(), Vec::new());
    let began = Instant::now();
    timeline::run_begins(rank as u32, false);
    let local = solve::start(net, &mut cg, &system)?;
    let rt = net.sum(local)?;
    cg.accept_initial(rt);
    let stop = loop {
        if let Some(stop) = cg.stop() {
            break stop;
        }
        let overlap = options.overlap;
        let step = solve::iterate(net, &mut cg, &system, overlap, &mut times, &mut |_| {})?;
        history.push(step.norm);
        if step.judgement == Judgement::Breakdown {
            cg.break_down();
            break Stop::Breakdown;
        }
        let updating = Instant::now();
        cg.commit(step.curvature);
        times.waxpy += updating.elapsed();
    };
    let summary = solve::summarize(net, &cg, &system)?;
    times.total = began.elapsed();
    let resilience = Account::default();
    timeline::run_ends(&resilience);
    Ok(Solved {
        row_map,
        stop,
        iterations: cg.state().iteration,
        residual: cg.state().residual_norm(),
        history,
        summary,
        matrix_bytes: system.matrix().bytes(),
        setup,
        times,
        resilience,
    })
}
