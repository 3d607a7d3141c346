//! The part of an application in the trace of its run: its solve, its planned end, its restarts.

use fampi::trace;

use crate::account::Account;

/// The name of the phase that all iterations are in.
const RUN: &str = "run";

/// The run begins, on the rank that had this number at the launch.
pub fn run_begins(rank: u32, replacement: bool) {
    trace::begin(RUN, &[("rank", rank.into()), ("replacement", replacement.into())]);
}

/// The run is over: what it cost, in microseconds of this rank.
pub fn run_ends(account: &Account) {
    let Account { lost, blocks, copies, recovery, redone, .. } = account;
    let [blocks, copies, recovery, redone] =
        [blocks, copies, recovery, redone].map(|time| time.as_micros() as u64);
    let costs = [
        ("blocks_us", blocks),
        ("copies_us", copies),
        ("recovery_us", recovery),
        ("redone_us", redone),
    ];
    trace::end(RUN, &[&[("lost", u64::from(*lost))], &costs[..]].concat());
}

/// This process is about to end by plan.
pub(crate) fn killed(rank: u32) {
    trace::mark("killed by plan", &[("rank", rank.into())]);
}

/// The data are those after this iteration, and the next one begins.
pub(crate) fn resumed(iteration: u32) {
    trace::mark("iteration resumed", &[("iteration", u64::from(iteration) + 1)]);
}
