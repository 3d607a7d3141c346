//! Name spaces of this machine by their names: what runs in them, and their removal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

/// Names of the hosts of a name space: `ip netns exec` shows this folder as `/etc`.
pub(crate) const NAMES: &str = "/etc/netns";

/// Removes a name space, with all that runs in it.
pub(crate) fn remove_space(name: &str) {
    kill_in(name, None);
    let _ = ip(&["netns", "delete", name]);
    let _ = fs::remove_dir_all(folder(name));
}

/// What a name space sees as `/etc`, as far as it has its own.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// Kills what runs in a name space, or the programs of this name.
pub(crate) fn kill_in(name: &str, program: Option<&str>) {
    for pid in processes_in(name) {
        if program.is_none_or(|program| runs(pid).is_some_and(|it| it == program)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// True when ranks run in a name space.
pub(crate) fn has_ranks(name: &str) -> bool {
    let is_rank = |it: String| !["fampi-node", "fampi-observer"].contains(&&*it);
    processes_in(name).into_iter().any(|pid| runs(pid).is_some_and(is_rank))
}

/// What a process runs.
fn runs(pid: Pid) -> Option<String> {
    let runs = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    Some(runs.trim_end().to_owned())
}

/// What runs in a name space.
pub(crate) fn processes_in(name: &str) -> Vec<Pid> {
    let found = Command::new("ip").args(["netns", "pids", name]).stderr(Stdio::null()).output();
    let found = found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned());
    let numbers = found.unwrap_or_default();
    numbers.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

pub(crate) fn ip(words: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(words).output();
    let advice = "install iproute2, or name --hosts if it takes them";
    let done = done.with_context(|| format!("name spaces take the tool `ip`: {advice}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("`ip {}` failed, so there are no name spaces: {}", words.join(" "), said.trim());
    }
    Ok(())
}
