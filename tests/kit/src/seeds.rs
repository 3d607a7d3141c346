//! Many seeds, on all cores.

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// Runs the seeds from `first` on, on all cores, until one says that something is wrong: the
/// lowest such seed of those that ran, and what it said.
pub fn each_seed<E: Send>(
    first: u64,
    seeds: u64,
    run: impl Fn(u64) -> Result<(), E> + Sync,
) -> Result<(), (u64, E)> {
    let next = AtomicU64::new(0);
    let wrong: Mutex<Option<(u64, E)>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= seeds {
                        return;
                    }
                    let Err(violation) = run(first + at) else { continue };
                    next.store(seeds, Ordering::Relaxed);
                    let mut wrong = wrong.lock().expect("nobody panics with it");
                    if wrong.as_ref().is_none_or(|(seed, _)| first + at < *seed) {
                        *wrong = Some((first + at, violation));
                    }
                }
            });
        }
    });
    wrong.into_inner().expect("nobody panics with it").map_or(Ok(()), Err)
}

/// The number that a variable of the environment holds, if there is one.
pub fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
