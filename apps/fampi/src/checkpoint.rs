//! `fampi run --checkpoint`: jobs whose states outlive them.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::FlockOperation;
use rustix::io::{Errno, FdFlags};

use crate::refusal::{Misuse, whole};

/// How the names of checkpoints end.
const ENDING: &str = "ckpt";

#[derive(Args)]
pub(crate) struct Checkpoints {
    /// Save the states of all ranks in this folder, which must not have checkpoints yet. The run
    /// goes back to them when a rank dies together with those that keep its copy; `fampi restart`
    /// goes on from them
    #[arg(long, value_name = "FOLDER")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the newest complete checkpoint in this folder, and save others there
    #[arg(long, value_name = "FOLDER", conflicts_with = "checkpoint")]
    pub(crate) restart: Option<PathBuf>,
    /// Save every so many steps; without this as often as costs least if a failure comes every hour
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true,
          value_parser = whole(1_u32..=u32::MAX, "a number of steps, at least 1"))]
    checkpoint_every: Option<u32>,
    /// Who writes a file together: each `rank` alone, ranks with consecutive numbers on one `node`,
    /// or the whole `job`, whose nodes all have to see the folder
    #[arg(long, value_name = "WHOSE", value_parser = ["rank", "node", "job"])]
    checkpoint_files: Option<String>,
    /// Compress each state (LZ4) where that makes it smaller
    #[arg(long)]
    checkpoint_compress: bool,
}

/// A folder that no other job takes, as long as this tool or a process of its job here lives.
pub(crate) struct Claim(Option<File>);

impl Claim {
    /// From now on the processes that this tool starts have it, too. To be called when all is
    /// built: a compiler may leave processes behind.
    pub(crate) fn hand_on(&self) {
        if let Some(file) = &self.0 {
            let _ = rustix::io::fcntl_setfd(file, FdFlags::empty());
        }
    }
}

impl Checkpoints {
    /// Takes the folder for the job that this tool is about to start, if it will do.
    pub(crate) fn claim(&self, is_here: bool) -> Result<Claim, Misuse> {
        self.check(is_here)?;
        self.lock().map(Claim)
    }

    /// Refuses folders that will not do. Where all ranks are on this machine, the folder for
    /// checkpoints is there afterwards; other machines may have one of their own.
    fn check(&self, is_here: bool) -> Result<(), Misuse> {
        match (&self.checkpoint, &self.restart) {
            (None, None) if self.has_details() => {
                Err(Misuse("say where checkpoints go, too: --checkpoint FOLDER".to_owned()))
            }
            (Some(folder), _) | (_, Some(folder)) if folder.exists() && !folder.is_dir() => {
                Err(Misuse(format!("{} is no folder; name one", folder.display())))
            }
            (Some(folder), _) if has_checkpoints(folder) => Err(Misuse(format!(
                "{0} has checkpoints of an earlier job: go on from them by `fampi restart {0}`, or \
                 choose another folder",
                folder.display()
            ))),
            (_, Some(folder)) if is_here && !folder.exists() => {
                Err(Misuse(format!("{} is not there; name the folder of a job", folder.display())))
            }
            (_, Some(folder)) if is_here && !has_checkpoints(folder) => {
                Err(Misuse(format!("{} has no checkpoint to go on from", folder.display())))
            }
            (Some(folder), _) if is_here => std::fs::create_dir_all(folder)
                .map_err(|error| Misuse(format!("{} cannot be made: {error}", folder.display()))),
            _ => Ok(()),
        }
    }

    /// Keeps other jobs off the folder as long as the file is open: two of them would save parts of
    /// one set.
    ///
    /// # Errors
    ///
    /// Another job has it.
    fn lock(&self) -> Result<Option<File>, Misuse> {
        let Some(folder) = self.checkpoint.as_ref().or(self.restart.as_ref()) else {
            return Ok(None);
        };
        // A folder that is not here is on other hosts.
        let Ok(file) = File::open(folder) else { return Ok(None) };
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        // Some file systems have no locks.
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(Misuse(format!(
                "a job saves in {} and has not ended: wait for it (`fampi jobs`), or end it",
                folder.display()
            )));
        }
        Ok(Some(file))
    }

    /// True when it is said how to save.
    fn has_details(&self) -> bool {
        let Self { checkpoint_every, checkpoint_files, checkpoint_compress, .. } = self;
        checkpoint_every.is_some() || checkpoint_files.is_some() || *checkpoint_compress
    }

    /// What the library is told.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Some(folder) = self.checkpoint.as_ref().or(self.restart.as_ref()) else {
            return Vec::new();
        };
        // Ranks may run elsewhere.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let mut variables = vec![("FAMPI_CHECKPOINT", folder.into_os_string())];
        variables.extend(self.restart.iter().map(|_| ("FAMPI_RESTART", "on".into())));
        let every = self.checkpoint_every.map(|steps| steps.to_string().into());
        variables.extend(every.map(|steps| ("FAMPI_CHECKPOINT_EVERY", steps)));
        let files = self.checkpoint_files.as_ref().map(Into::into);
        variables.extend(files.map(|whose| ("FAMPI_CHECKPOINT_FILES", whose)));
        let compress = self.checkpoint_compress.then(|| "on".into());
        variables.extend(compress.map(|on| ("FAMPI_CHECKPOINT_COMPRESS", on)));
        variables
    }
}

fn has_checkpoints(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|it| it == ENDING))
}
