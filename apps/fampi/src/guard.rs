//! A second process of the tool that outlives it, and then ends what the tool has launched.
//!
//! ```text
//!  fampi ── starts itself ──▶ guard (process group of its own), reads a pipe that only the
//!    │                                               tool can write to:
//!    ├─ "4711 98765"  session 4711 is about to launch; its leader began at tick 98765
//!    ├─ "over"        it is clean: the guard leaves and touches nothing
//!    ├─ "failed"      the tool cannot go on: session 4711 is ended
//!    └─ end of file   without that: the tool is gone, so session 4711 is ended
//! ```
//!
//! A session that outlives the tool is not ended when the tool is gone: the guard waits for its
//! end. In each case it removes what the tool has made for that session.
//!
//! Name spaces have a guard of their own from before they are made on, also between sessions. When
//! the tool is gone it waits until nothing runs in them, which is what the guards of sessions see
//! to, and removes them.
//!
//! **Guarantees.** The kernel closes the pipe however the tool dies, so nothing can keep the guard
//! from hearing of it. A process is only ever ended as a member of the announced session: should
//! its number belong to another process by now, the start of that process tells.
//!
//! **Assumes.** That the guard itself lives. If it is killed together with the tool, what is left
//! is the request to end that the kernel sends to the launcher.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::processes::{self, Process};
use crate::spaces;

/// How the tool starts itself to be the guard.
const GUARD: &str = "__guard";
const OVER: &str = "over";
const FAILED: &str = "failed";
/// How it is told of the launcher of a session that outlives the tool, and of name spaces that are
/// to be removed.
const OUTLIVED: &str = "--outlived=";
const SPACE: &str = "--space=";
/// How it is told that these are all that it looks after.
const SPACES: &str = "--spaces";
/// How often it looks whether such a session is over.
const WAIT_PERIOD: Duration = Duration::from_millis(100);
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Between asking a launcher to end and ending it.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The guard of one run. Dropped before it is dismissed, it ends the session.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
    orders: Option<ChildStdin>,
    /// It stays when this is dropped.
    stays: bool,
}

impl Guard {
    /// Starts a guard that also removes these folders and name spaces when the tool is gone, after
    /// the end of a session that outlives the tool.
    pub(crate) fn start(
        leftovers: &[&Path],
        spaces: &[String],
        outlived: Option<&Path>,
    ) -> Result<Self> {
        let outlived = outlived.map(|launcher| format!("{OUTLIVED}{}", launcher.display()));
        let spaces = spaces.iter().map(|name| format!("{SPACE}{name}"));
        let words = outlived.into_iter().chain(spaces).map(OsString::from);
        Self::with(words.chain(leftovers.iter().map(|path| path.as_os_str().to_owned())))
    }

    /// Starts a guard that removes these name spaces when the tool is gone and nothing runs in them
    /// any more.
    pub(crate) fn of_spaces(names: &[String]) -> Result<Self> {
        Self::with([SPACES.into()].into_iter().chain(names.iter().map(OsString::from)))
    }

    fn with(words: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let mut guard = Command::new(tool());
        guard.arg0("fampi").arg(GUARD).args(words).process_group(0);
        // It must not hold what others wait to see closed.
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = guard.spawn().context("cannot start this tool a second time")?;
        let orders = process.stdin.take();
        Ok(Self { process, orders, stays: false })
    }

    /// From now on the end of the tool is the end of the session that this process leads.
    pub(crate) fn watch(&mut self, leader: Process) -> Result<()> {
        self.tell(&format!("{} {}", leader.pid, leader.started))
            .context("the guard of this run is gone")
    }

    /// Nothing of the session is left, and its number is not free yet.
    pub(crate) fn dismiss(mut self) {
        // A guard that another process has ended has nothing to do either.
        let _ = self.tell(OVER);
        self.orders = None;
    }

    /// The session goes on, and is the guard's alone from now on.
    pub(crate) fn leave(mut self) {
        self.stays = true;
    }

    fn tell(&mut self, order: &str) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write, which a pipe takes as a whole or not at all.
        orders.write_all(format!("{order}\n").as_bytes())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        // A guard that is gone has nothing to do.
        let _ = self.orders.is_some().then(|| self.tell(FAILED));
        self.orders = None;
        let _ = self.process.wait();
    }
}

/// This program, also when its file has been replaced since it was started.
pub(crate) fn tool() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { running } else { env::current_exe().unwrap_or(running) }
}

/// In a process that [`Guard::start`] started: stands guard to the end, and returns true. Returns
/// false at once in every other process.
pub(crate) fn stand_if_asked() -> bool {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != GUARD) {
        return false;
    }
    let mut orders = io::stdin().lock().lines().map_while(Result::ok);
    let watched = orders.next();
    let last = orders.next();
    if [&watched, &last].into_iter().flatten().any(|order| order == OVER) {
        return true;
    }
    let mut left: Vec<OsString> = arguments.collect();
    if left.first().is_some_and(|word| word == SPACES) {
        remove_spaces(&left[1..]);
        return true;
    }
    let outlived = left.iter().find_map(|word| word.to_str()?.strip_prefix(OUTLIVED));
    let outlived = outlived.filter(|_| last.is_none()).map(PathBuf::from);
    left.retain(|word| !word.to_string_lossy().starts_with(OUTLIVED));
    let numbers = watched.as_deref().and_then(|numbers| numbers.split_once(' '));
    if let Some((Ok(session), Ok(started))) = numbers.map(|(s, t)| (s.parse(), t.parse())) {
        if outlived.is_some() {
            wait(session, started);
        } else {
            end(session, started);
        }
    }
    for word in &left {
        match word.to_str().and_then(|word| word.strip_prefix(SPACE)) {
            Some(name) => spaces::remove_space(name),
            None => _ = fs::remove_dir_all(word),
        }
    }
    if let Some(launcher) = outlived {
        // It looks for what killed processes have left.
        let _ = Command::new(launcher).arg("jobs").stdout(Stdio::null()).status();
    }
    true
}

/// Removes name spaces in which nothing runs any more; and again, as the tool may have been making
/// one when it died.
fn remove_spaces(names: &[OsString]) {
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    for _ in 0..2 {
        while names.iter().any(|name| !spaces::processes_in(name).is_empty()) {
            thread::sleep(WAIT_PERIOD);
        }
        for name in &names {
            spaces::remove_space(name);
        }
        thread::sleep(WAIT_PERIOD);
    }
}

/// Waits until no process is left of a session.
fn wait(session: i32, started: u64) {
    // The number of one that is over may lead another one.
    let is_it = || Process::find(session).is_none_or(|leader| leader.started == started);
    while is_it() && !processes::of_session(session).is_empty() {
        thread::sleep(WAIT_PERIOD);
    }
}

/// Ends a session whose tool is gone. The kernel has asked the launcher to end its ranks, which
/// gets a moment for that.
fn end(session: i32, started: u64) {
    let begun = Instant::now();
    let leader = || Process::find(session);
    while leader().is_some_and(|now| now.started == started && !now.gone) {
        if begun.elapsed() >= GRACE_PERIOD {
            break;
        }
        thread::sleep(LOOK_PERIOD);
    }
    // A number that leads a session is given away again only when no process is left in it.
    if leader().is_none_or(|now| now.started == started) {
        end_what_is_left(session);
    }
}

/// Ends the members that outlived their launcher. One that the kernel cannot end yet is left to it.
pub(crate) fn end_what_is_left(session: i32) {
    let begun = Instant::now();
    let segments = processes::segments_of_session(session);
    while processes::kill_session(session) > 0 && begun.elapsed() < GRACE_PERIOD {
        thread::sleep(LOOK_PERIOD);
    }
    for segment in segments {
        let _ = fs::remove_file(segment);
    }
}
