//! Runs of what is expected to panic, off the screen.

use std::{
    panic::{self, RefUnwindSafe, catch_unwind},
    thread,
};

/// Keeps panics off the screen that happen in the threads of a model checker and in those that
/// are called `hushed`.
pub fn hush() {
    let shout = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        if !name.starts_with("checker-") && name != "hushed" {
            shout(panic);
        }
    }));
}

/// Runs a checker in a thread whose panics are not shown.
pub fn hushed<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::Builder::new().name("hushed".into()).spawn(check).expect("a thread");
    thread.join().expect("a checker survives what it finds")
}

/// How many seeds run until one is wrong, and what it says; a panic is wrong.
pub fn first_wrong(
    seeds: u64,
    run: impl Fn(u64) -> Result<(), String> + RefUnwindSafe,
) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| {
        let run = catch_unwind(|| run(seed));
        Some((seed + 1, run.unwrap_or_else(|_| Err("it panicked".into())).err()?))
    })
}
