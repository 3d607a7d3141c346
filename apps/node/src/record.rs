//! What a daemon keeps of its job on disk while it lives, so that the job can be found when its
//! console is gone, and what its ranks print then.
//!
//! ```text
//! $XDG_STATE_HOME/fampi/jobs, or ~/.local/state/fampi/jobs
//! └─ fampi-1a2b3c4d          the job; only its user can look inside
//!    ├─ node-0.json          a record, of each node that uses this folder
//!    ├─ rank-0.out           what rank 0 has printed on standard output and no console has taken
//!    └─ rank-0@2.err         the same on standard error, of processes that were started later
//! ```
//!
//! A record is replaced as a whole. It names its daemon by the process, when that was started, and
//! the start of its machine: so the record of a daemon that is gone is told from others, and it is
//! only believed to live elsewhere where hosts share the folder. The secret of the job stands in
//! it as long as the daemon serves; that of a daemon that was killed is removed by the next one
//! who looks.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::place::started;
use crate::protocol::orders::{Place, Plan};

/// What is left of a job is kept for so long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A process that can be told from all others, on this machine and on others.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Life {
    /// The name of its host.
    pub(crate) host: String,
    /// Of this start of the machine.
    boot: String,
    process: u32,
    /// When it began, in ticks since the machine did.
    began: u64,
}

/// What a daemon keeps of its job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Record {
    /// The job.
    pub(crate) job: String,
    /// The node that keeps this.
    pub(crate) node: u32,
    /// Its daemon.
    pub(crate) life: Life,
    /// When the job began, in seconds of the calendar.
    pub(crate) since: u64,
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// The processes that were launched.
    pub(crate) processes: u32,
    /// All nodes of the job.
    pub(crate) nodes: Vec<Place>,
    /// Those of them that are lost.
    pub(crate) lost: Vec<u32>,
    /// What has to be put before a command that is to reach the nodes from this host.
    pub(crate) reach: Vec<String>,
    /// What starts a daemon on a host, and the words of a daemon.
    pub(crate) agent: Vec<String>,
    /// See there.
    pub(crate) daemon: Vec<String>,
    /// The secret of the job, while it runs.
    pub(crate) secret: Option<String>,
    /// True while a console waits for the job.
    pub(crate) has_console: bool,
    /// How it has ended, without a console: the status, and what is to be said of it.
    pub(crate) ended: Option<(u8, Option<String>)>,
    /// What else a person should know.
    pub(crate) remark: Option<String>,
    /// What was known of the daemon when this was read.
    #[serde(skip)]
    pub(crate) state: State,
}

/// What is known of the daemon of a record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum State {
    /// It serves.
    #[default]
    Runs,
    /// It has ended in order, as has the job.
    Ended,
    /// It was killed.
    Gone,
    /// It is on another machine, and cannot be seen from here.
    Elsewhere,
}

impl Life {
    /// This process.
    pub(crate) fn own() -> Result<Self> {
        let process = std::process::id();
        let began = started(process).context("this process cannot see itself: is /proc there?")?;
        Ok(Self { host: host(), boot: boot(), process, began })
    }

    fn state(&self) -> State {
        let is_here = self.boot == boot();
        match is_here && started(self.process) == Some(self.began) {
            true => State::Runs,
            false if is_here || self.host == host() => State::Gone,
            false => State::Elsewhere,
        }
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Seconds of the calendar.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The folder of all jobs of this user.
pub(crate) fn all_jobs() -> Result<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    let state = state.context("neither HOME nor XDG_STATE_HOME names a folder")?;
    Ok(state.join("fampi/jobs"))
}

impl Record {
    /// True while the daemon serves, as far as can be seen from here.
    pub(crate) fn runs(&self) -> bool {
        self.state == State::Runs
    }

    /// That of the daemon that this process is, of a job that has lost these nodes.
    pub(crate) fn new(node: u32, plan: &Plan, lost: &[u32], secret: String) -> Result<Self> {
        Ok(Self {
            job: plan.space.job().to_owned(),
            node,
            life: Life::own()?,
            since: now(),
            program: plan.space.program.words.clone(),
            processes: plan.space.places.len() as u32,
            nodes: plan.nodes.clone(),
            lost: lost.to_vec(),
            reach: plan.reach.clone(),
            agent: plan.agent.clone(),
            daemon: plan.daemon.clone(),
            secret: Some(secret),
            has_console: true,
            ended: None,
            remark: None,
            state: State::Runs,
        })
    }

    /// The folder of the job.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        Ok(all_jobs()?.join(&self.job))
    }

    fn path(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join(format!("node-{}.json", self.node)))
    }

    /// Reads one.
    fn read(path: &Path) -> Option<Self> {
        let read = || serde_json::from_slice::<Self>(&fs::read(path).ok()?).ok();
        let mut record = read()?;
        let state = record.life.state();
        if state == State::Gone {
            // It may have been written after it was read: not any more.
            record = read()?;
        }
        record.state = if record.ended.is_some() { State::Ended } else { state };
        Some(record)
    }

    /// How long it was not changed.
    fn age(&self) -> Duration {
        let changed = self.path().and_then(|path| Ok(fs::metadata(path)?.modified()?));
        changed.ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default()
    }

    /// Writes it, in place of what there was.
    pub(crate) fn write(&self) -> Result<()> {
        let path = self.path()?;
        let folder = self.folder()?;
        let shown = || format!("cannot keep a record of the job in {}", folder.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(shown)?;
        let next = path.with_extension("next");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&next).with_context(shown)?;
        file.write_all(&serde_json::to_vec_pretty(self)?).with_context(shown)?;
        fs::rename(&next, &path).with_context(shown)
    }

    /// Writes it, unless it was removed. One that cannot be written is removed if a secret would
    /// stay behind.
    pub(crate) fn replace(&self) {
        if self.path().is_ok_and(|path| path.exists())
            && self.write().is_err()
            && self.secret.is_none()
        {
            self.remove();
        }
    }

    /// Removes it, and the folder if it was the last thing there.
    pub(crate) fn remove(&self) {
        if let (Ok(path), Ok(folder)) = (self.path(), self.folder()) {
            let _ = fs::remove_file(path.with_extension("next"));
            let _ = fs::remove_file(path);
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The records of all jobs of this user, job by job, in the order of their nodes.
pub(crate) fn all() -> Result<Vec<Vec<Record>>> {
    let mut jobs = Vec::new();
    for folder in fs::read_dir(all_jobs()?).into_iter().flatten().flatten() {
        let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let files = files.filter(|path| path.extension() == Some("json".as_ref()));
        let mut records: Vec<_> = files.filter_map(|path| Record::read(&path)).collect();
        records.sort_by_key(|record| record.node);
        if !records.is_empty() {
            jobs.push(records);
        }
    }
    jobs.sort_by_key(|records| records[0].since);
    Ok(jobs)
}

/// The records of one job.
pub(crate) fn of_job(job: &str) -> Result<Vec<Record>> {
    Ok(all()?.into_iter().find(|records| records[0].job == job).unwrap_or_default())
}

/// Removes all that is kept of a job. To be called when nothing of it runs.
pub(crate) fn forget(job: &str) {
    if let Ok(folder) = all_jobs().map(|all| all.join(job)) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Removes the secrets of daemons that were killed, and what is left of jobs that are long over, or
/// that were killed with a console, which has printed all.
pub(crate) fn tidy() {
    for records in all().unwrap_or_default() {
        // This host cannot tell whether a job on other hosts still runs, so its record stays.
        let is_over = |it: &Record| matches!(it.state, State::Ended | State::Gone);
        let is_old = |it: &Record| is_over(it) && it.age() > KEPT;
        let is_void = |it: &Record| it.state == State::Gone && it.has_console;
        if records.iter().all(is_old) || records.iter().all(is_void) {
            forget(&records[0].job);
            continue;
        }
        for record in records.iter().filter(|it| it.state == State::Gone && it.secret.is_some()) {
            Record { secret: None, ..record.clone() }.replace();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::membership::Partition;
    use crate::protocol::space::{Program, Space};

    fn record() -> Record {
        let program = Program::default();
        let (name, places) = ("fampi-1@1".into(), vec![0, 0]);
        let space = Space { name, places, program, ..Space::default() };
        let plan = Plan {
            nodes: Vec::new(),
            launched: 0,
            partition: Partition::Majority,
            space,
            mesh: 1,
            beat_milliseconds: 100,
            limit_milliseconds: None,
            reach: Vec::new(),
            agent: Vec::new(),
            daemon: Vec::new(),
            environment: Vec::new(),
            collected: Vec::new(),
        };
        Record::new(0, &plan, &[], "secret".into()).expect("this process")
    }

    #[test]
    fn a_daemon_is_told_from_one_that_had_its_number_and_from_those_of_other_machines() {
        let own = record().life;
        assert_eq!(own.state(), State::Runs);
        let earlier = Life { began: own.began - 1, ..own.clone() };
        assert_eq!(earlier.state(), State::Gone);
        let before_boot = Life { boot: "other".into(), ..own.clone() };
        assert_eq!(before_boot.state(), State::Gone);
        let elsewhere = Life { boot: "other".into(), host: "other".into(), ..own };
        assert_eq!(elsewhere.state(), State::Elsewhere);
    }

    #[test]
    fn a_record_is_read_as_it_was_written_with_what_is_known_of_its_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("node-0.json");
        let mut record = record();
        let read = |record: &Record| {
            fs::write(&path, serde_json::to_vec(record).expect("text")).expect("written");
            Record::read(&path).expect("a record")
        };
        assert_eq!(read(&record), record);
        record.life.began -= 1;
        assert_eq!(read(&record).state, State::Gone);
        record.ended = Some((3, None));
        assert_eq!(read(&record).state, State::Ended);
        fs::write(&path, "{").expect("written");
        assert_eq!(Record::read(&path), None);
    }
}
