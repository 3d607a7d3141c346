//! Death at a random moment: a thread that waits for it, then ends the process in a random way.
//!
//! The moment is a step of the program, so that it falls into a run of any length, and a pause
//! after that step began: shorter than a step, or as long as a recovery, into which it then falls
//! if another process has died at that step. Other than that the thread knows nothing of what the
//! process does: whatever that is, it may be the last thing.
//!
//! A process that was launched draws from the seed and its rank, and dies in a step, as a death
//! while MPI starts is survived by no rank; a spare is parked, and dies once it takes part.
//! A process that was spawned draws also from its own number. It dies more seldom, so that a run
//! comes to its end, and in half of these cases while it joins.

use std::{
    env,
    process::{self, Command},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::low_level;

/// How often a process dies that was launched, and one that was spawned.
const SHARES: (f64, f64) = (0.35, 0.2);
/// How often those who die do so at one step that all of a seed share.
const TOGETHER: f64 = 0.4;
/// How long a step takes, about, and a recovery.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];
/// How long a process takes to start and to join, about.
const JOINING: Duration = Duration::from_millis(400);
/// Between two looks at the step.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// A stopped process is killed after so many seconds.
const STOPPED_SECONDS: f64 = 0.3;

/// The step that this process is in, counted from 1; 0 before the first.
static STEP: AtomicU64 = AtomicU64::new(0);
/// Held by what must not be disturbed.
static SPARED: Mutex<bool> = Mutex::new(false);

/// True for a process that was spawned.
pub(crate) fn is_replacement() -> bool {
    env::var_os("FAMPI_PARENT").is_some()
}

/// This step, counted from 0, begins.
pub(crate) fn step_begins(number: u64) {
    STEP.store(number + 1, Relaxed);
}

/// Draws whether and when this process dies in a run of so many steps.
pub(crate) fn threaten(seed: u64, steps: u64) {
    let number = |name| env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let rank = number("OMPI_COMM_WORLD_RANK").unwrap_or(0);
    let spawned = is_replacement();
    let mut shared = Rng::with_seed(seed);
    let moment = shared.f64();
    let own = if spawned { u64::from(process::id()) << 32 } else { 0 };
    let mut rng = Rng::with_seed(shared.u64(..) ^ own ^ rank.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let share = if spawned { SHARES.1 } else { SHARES.0 };
    if rng.f64() >= share {
        return;
    }
    let together = !spawned && rng.f64() < TOGETHER;
    let part = if together { moment } else { rng.f64() };
    let joining = spawned && rng.bool();
    let pause = PAUSES[rng.usize(..PAUSES.len())].mul_f64(rng.f64());
    let way = rng.u8(..6);
    thread::spawn(move || {
        if joining {
            thread::sleep(JOINING.mul_f64(part));
        } else {
            wait_for_a_step(part, steps);
            thread::sleep(pause);
        }
        let spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*spared {
            end(way);
        }
    });
}

/// Returns when this part of the steps is done that this process had before it when it began.
fn wait_for_a_step(part: f64, steps: u64) {
    let mut first = None;
    loop {
        let step = STEP.load(Relaxed);
        if step > 0 {
            let first = *first.get_or_insert(step);
            if step >= aim(first, part, steps) {
                return;
            }
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// The step at this part of the way from the first one, both counted from 1, to the last.
fn aim(first: u64, part: f64, steps: u64) -> u64 {
    first + (steps.saturating_sub(first) as f64 * part) as u64
}

/// The work is done; a death now would only hide the result.
pub(crate) fn spare_this_process() {
    *SPARED.lock().unwrap_or_else(PoisonError::into_inner) = true;
}

fn end(way: u8) {
    let me = getpid();
    let signal = |signal: Signal| {
        let _ = kill_process(me, signal);
    };
    match way {
        0 => signal(Signal::KILL),
        1 => signal(Signal::SEGV),
        2 => process::abort(),
        3 => low_level::exit(0),
        4 => low_level::exit(1),
        _ => stop(me),
    }
}

/// Silent for a while, then gone.
fn stop(me: Pid) {
    let number = me.as_raw_nonzero();
    let script = format!("sleep {STOPPED_SECONDS}; kill -KILL {number}");
    if Command::new("sh").args(["-c", &script]).spawn().is_ok() {
        let _ = kill_process(me, Signal::STOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aim_is_a_step_of_the_run() {
        for (first, steps) in [(1, 1), (1, 2000), (1500, 2000), (2000, 2000)] {
            for part in [0.0, 0.3, 0.999_999] {
                assert!((first..=steps).contains(&aim(first, part, steps)), "{first} {part}");
            }
        }
        assert_eq!(aim(1, 0.5, 2001), 1001);
    }
}
