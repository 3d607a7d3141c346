//! The folders of a daemon: one for the sockets and files of its ranks, one in memory for what they
//! share. Both are named by the daemon's process, and go with it.
//!
//! A daemon that is killed leaves them; the next one that starts or ends, the console, and who
//! lists the jobs remove what belongs to a process of this user that is gone. Hosts and containers
//! may share a temporary folder: a name also says who sees the process. What is there from before a
//! machine was started anew is left to who cleans such folders.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

const PREFIX: &str = "fampi-node-";
/// Among the flags of a process that Linux shows: it ends (`PF_EXITING`).
const EXITING: u64 = 4;
/// Where the system keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// The folders of this process; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    /// For sockets and files.
    pub(crate) files: PathBuf,
    /// For shared memory, where there is such a thing.
    pub(crate) memory: Option<PathBuf>,
}

impl Place {
    /// Makes them, and removes those of daemons that are gone.
    pub(crate) fn make() -> Result<Self> {
        remove_stale();
        let own = std::process::id();
        let started = started(own).context("this process cannot see itself: is /proc there?")?;
        let name = format!("{PREFIX}{own}-{started}-{}", seen_by());
        let files = make_below(&std::env::temp_dir(), &name)?;
        let memory = make_below(Path::new(MEMORY), &name).ok();
        Ok(Self { files, memory })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for folder in [Some(&self.files), self.memory.as_ref()].into_iter().flatten() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Says on which machine, in this start of it, and in which name space of it, processes have their
/// numbers. Nodes that are name spaces of one machine see the same ones.
fn seen_by() -> String {
    let mut hasher = DefaultHasher::new();
    fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn make_below(above: &Path, name: &str) -> Result<PathBuf> {
    let folder = above.join(name);
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}

/// When a process was started, in ticks since the machine was: tells apart two processes that had
/// one number. Nothing for a process that has ended, or is about to: a peer may hear that its
/// sockets are closed a while before it is a zombie.
pub(crate) fn started(process: u32) -> Option<u64> {
    began(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// When a process was started, by what Linux shows of it; nothing for one that is over.
fn began(stat: &str) -> Option<u64> {
    // The name of the program, in parentheses, can hold anything.
    let words: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let flags: u64 = words.get(6)?.parse().ok()?;
    let began = words.get(19)?.parse().ok()?;
    let is_over = matches!(words[0], "Z" | "X") || flags & EXITING != 0;
    (!is_over).then_some(began)
}

/// Removes the folders of daemons of this user that are gone.
pub(crate) fn remove_stale() {
    let seen_by = seen_by();
    let parts = |name: &str| {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let (process, began) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        // That of another machine may live.
        (parts.next()? == seen_by).then_some((process, began))
    };
    for above in [std::env::temp_dir(), MEMORY.into()] {
        for entry in fs::read_dir(above).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some((process, began)) = name.to_str().and_then(parts) else { continue };
            let user = rustix::process::geteuid().as_raw();
            let is_ours = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == user);
            if is_ours && started(process) != Some(began) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_with_their_process_and_those_of_the_dead_are_removed() {
        let own = Place::make().expect("folders");
        let of = |who: &str| {
            let name = format!("{PREFIX}{}-1-{who}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (dead, elsewhere) = (of(&seen_by()), of("elsewhere"));
        fs::create_dir_all(dead.join("inside")).expect("made");
        fs::create_dir_all(&elsewhere).expect("made");
        remove_stale();
        assert!(own.files.is_dir() && !dead.exists() && elsewhere.is_dir());
        fs::remove_dir(elsewhere).expect("removed");
        let files = own.files.clone();
        drop(own);
        assert!(!files.exists());
    }

    /// A console that saw a daemon's link close looked at once for folders of dead daemons, took
    /// this one for living, and left its folders.
    #[test]
    fn a_process_is_over_for_us_before_it_is_a_zombie() {
        let shown = |state: &str, flags: u32| {
            let zeros = "0 ".repeat(12);
            format!("7 (a) name) {state} 1 7 7 0 -1 {flags} {zeros}8675 1 2 3\n")
        };
        assert_eq!(began(&shown("R", 0x40_0000)), Some(8675));
        // `PF_EXITING`: its sockets are closed, or are about to be.
        assert_eq!(began(&shown("R", 0x40_0004)), None);
        assert_eq!(began(&shown("Z", 0x40_000c)), None);
        assert!(started(std::process::id()).is_some());
    }
}
