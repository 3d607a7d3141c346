//! What the processes of a run say about their own end, and the exit status that follows.
//!
//! The launcher of an MPI with fault tolerance ends with the status of a rank that exited with
//! other than 0, and is silent about ranks that died by a signal: its status is 0 even when all of
//! them did. So the library leaves one small file per process in the folder `FAMPI_STATUS_DIR`,
//! named by the number of the process, which holds `running` from its start and `ok` once it has
//! finalized in order. A program without the library leaves none, and the launcher is believed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::session::End;

pub(crate) const VARIABLE: &str = "FAMPI_STATUS_DIR";

/// The folder for one run.
#[derive(Debug)]
pub(crate) struct Reports {
    folder: TempDir,
}

/// How many processes reported, and how many of them finished in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) reported: usize,
    pub(crate) finished: usize,
}

/// The exit status of a run, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: u8,
    pub(crate) remark: Option<String>,
}

impl Reports {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fampi-status-").tempdir();
        Ok(Self { folder: folder.context("cannot make a temporary folder")? })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn count(&self) -> Count {
        let files = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let mut count = Count { reported: 0, finished: 0 };
        for file in files {
            count.reported += 1;
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            count.finished += usize::from(text.trim() == "ok");
        }
        count
    }
}

/// The status that the living ranks give: 0 when each of them, replacements included, ended with 0
/// and at least one finished in order.
pub(crate) fn verdict(end: End, count: Count, planned: usize) -> Verdict {
    if end != End::Exited(0) {
        return Verdict { status: end.status(), remark: None };
    }
    if count.finished == 0 && count.reported > 0 {
        let remark = "no process finished in order: nobody survived".to_owned();
        return Verdict { status: 1, remark: Some(remark) };
    }
    let unplanned = (count.reported - count.finished).saturating_sub(planned);
    let remark = (unplanned > 0).then(|| {
        let processes = if unplanned == 1 { "process" } else { "processes" };
        format!("{unplanned} {processes} died outside the plan, and the others survived it")
    });
    Verdict { status: 0, remark }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count(reported: usize, finished: usize) -> Count {
        Count { reported, finished }
    }

    #[test]
    fn the_living_ranks_decide_the_status() {
        let survived = verdict(End::Exited(0), count(5, 4), 1);
        assert_eq!(survived, Verdict { status: 0, remark: None });
        assert_eq!(verdict(End::Exited(3), count(5, 4), 1).status, 3);
        assert_eq!(verdict(End::TimedOut, count(4, 4), 0).status, 124);
    }

    #[test]
    fn a_death_outside_the_plan_is_told() {
        let verdict = verdict(End::Exited(0), count(5, 3), 1);
        assert_eq!(verdict.status, 0);
        assert!(verdict.remark.is_some_and(|remark| remark.starts_with("1 process died")));
    }

    #[test]
    fn a_run_that_nobody_survived_has_failed() {
        assert_eq!(verdict(End::Exited(0), count(4, 0), 4).status, 1);
        assert_eq!(verdict(End::Exited(0), count(0, 0), 0).status, 0);
    }

    #[test]
    fn only_the_word_ok_is_an_orderly_end() {
        let reports = Reports::new().expect("a temporary folder");
        for (process, text) in [("10", "ok\n"), ("11", "running"), ("12", "ok")] {
            fs::write(reports.path().join(process), text).expect("written");
        }
        assert_eq!(reports.count(), count(3, 2));
    }
}
