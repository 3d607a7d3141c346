//! Processes of this node, as tests look for them.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Whether `sleep` is alive with this argument.
pub fn sleeps(time: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    processes
        .map(|process| process.path())
        .filter(|path| {
            fs::read_to_string(path.join("stat")).is_ok_and(|stat| !stat.contains(") Z"))
        })
        .filter_map(|path| fs::read(path.join("cmdline")).ok())
        .any(|line| line == format!("sleep\0{time}\0").as_bytes())
}

/// Waits for a condition, for twenty seconds at most.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "still waiting until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The living processes that were started with this entry in their environment.
pub fn processes_with(entry: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let environment = |path: &Path| fs::read(path.join("environ")).unwrap_or_default();
    processes
        .map(|process| process.path())
        .filter(|path| environment(path).split(|byte| *byte == 0).any(|e| e == entry.as_bytes()))
        .filter_map(|path| Some(fs::read_to_string(path.join("comm")).ok()?.trim().to_owned()))
        .collect()
}
