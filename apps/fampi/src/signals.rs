//! Signals that end what the tool has started, and the tool itself when it has started nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::processes;

/// As long as this is there, signals are for a session. Otherwise they end the tool, as they do
/// with any program: what they did before the first session the library cannot bring back.
pub(crate) struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The signals that end a session.
pub(crate) fn watch() -> Result<(Signals, Busy)> {
    static IS_IDLE: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    // Under `nohup` the end of a terminal is none of the run.
    let hangup = (!processes::ignores(SIGHUP)).then_some(SIGHUP);
    let all: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
    let mut is_first = false;
    let is_idle = IS_IDLE.get_or_init(|| {
        is_first = true;
        Arc::default()
    });
    is_idle.store(false, Ordering::Relaxed);
    let busy = Busy(is_idle.clone());
    for signal in all.iter().filter(|_| is_first) {
        let known = flag::register_conditional_default(*signal, is_idle.clone());
        known.context("cannot watch for signals")?;
    }
    Ok((Signals::new(&all).context("cannot watch for signals")?, busy))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    /// Set in the process that the second test starts for the first.
    const HERE: &str = "FAMPI_TEST_OF_SIGNALS";

    #[test]
    fn two_sessions_and_a_signal() {
        if env::var_os(HERE).is_none() {
            return;
        }
        let ask_to_end = || kill_process(getpid(), Signal::TERM).expect("a signal");
        for _ in 0..2 {
            let (mut signals, _busy) = watch().expect("signals");
            ask_to_end();
            while !signals.pending().any(|signal| signal == SIGTERM) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        ask_to_end();
        thread::sleep(Duration::from_secs(20));
    }

    #[test]
    fn a_signal_ends_a_session_and_between_two_the_tool() {
        let mut tool = Command::new(env::current_exe().expect("this test"));
        tool.args(["--exact", "signals::tests::two_sessions_and_a_signal"]).env(HERE, "1");
        let output = tool.output().expect("it starts");
        assert_eq!(output.status.signal(), Some(SIGTERM), "{output:?}");
    }
}
