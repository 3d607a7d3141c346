//! Death at a random moment: a thread that sleeps, then ends the process in a random way.
//!
//! It knows nothing of what the process does: whatever that is, it may be the last thing. In a
//! process that was launched it starts when the job has started, as a death while MPI starts is
//! survived by nobody; a spare is parked then, or takes part. It draws from the seed and the rank.
//! In a process that was spawned it starts before MPI does, so that this may die while it joins;
//! it draws also from its own number, and dies more seldom, so that a run comes to its end.

use std::{
    env,
    process::{self, Command},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use fastrand::Rng;
use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::low_level;

/// How often a process dies that was launched, and one that was spawned.
const SHARES: (f64, f64) = (0.35, 0.2);
/// How often those who die do so at one moment that all of a seed share.
const TOGETHER: f64 = 0.4;
/// Around that moment.
const JITTER: Duration = Duration::from_millis(5);
/// A stopped process is killed after so many seconds.
const STOPPED_SECONDS: f64 = 0.3;

/// Held by whoever must not be disturbed.
static SPARED: Mutex<bool> = Mutex::new(false);

/// True for a process that was spawned.
pub(crate) fn is_replacement() -> bool {
    env::var_os("FAMPI_PARENT").is_some()
}

/// Draws whether and when this process dies.
pub(crate) fn threaten(seed: u64, within_milliseconds: u64) {
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
    let jitter = JITTER.mul_f64(rng.f64());
    let delay = Duration::from_millis(within_milliseconds).mul_f64(part) + jitter;
    let way = rng.u8(..6);
    thread::spawn(move || {
        thread::sleep(delay);
        let spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*spared {
            end(way);
        }
    });
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
