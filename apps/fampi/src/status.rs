//! What the processes of a run say about their own end, and the exit status that follows.
//!
//! The launcher of an MPI with fault tolerance ends with the status of a rank that exited with
//! other than 0. Of deaths by a signal its status says little: 0 even when all ranks died so, and
//! 137 when a spawned replacement was killed while it joined, although everybody else went on (and
//! whatever the others exited with later). And it may crash at its very end. So the library leaves
//! one small file per process in the folder `FAMPI_STATUS_DIR`, named by the number of the process,
//! which holds `running` from its start and `ok` once it has finalized in order; `ok N` if it then
//! exited with the status N. A process finalizes when all living ranks are at their end, so one
//! `ok` says that every `running` of a process that is gone is a death that was survived.
//!
//! **The rule.** What we ended has the status of that. Else a launcher's status that names no
//! signal (1 to 128, or above 192) was chosen by somebody and is passed on. Else, if processes
//! reported, they decide, whatever the launcher says or whatever signal it died by:
//!
//! | reports | status |
//! |---|---|
//! | nobody finished in order | the launcher's, or 1 if that is 0 |
//! | a process still ran, unfinished, when a launcher that failed was gone | the launcher's |
//! | otherwise | the highest that a finished process exited with; other deaths are told |
//!
//! Without reports (a program without the library) the launcher is believed. One that went on
//! alone and was ended by us says nothing: if nobody finished in order, the status is 1.
//!
//! **Cannot be known.** What a process that reported `ok` and no more exited with, if the launcher
//! names a signal: it passes for 0. Whether a process died before its first report.

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

/// How many processes reported, and how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) reported: usize,
    /// In order.
    pub(crate) finished: usize,
    /// Not in order, but alive when their launcher had ended.
    pub(crate) cut_short: usize,
    /// The highest status that a process which had finished in order exited with.
    pub(crate) status: u8,
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

    /// Reads what is there; `outlived` are the processes that outlived their launcher.
    pub(crate) fn count(&self, outlived: &[i32]) -> Count {
        let files = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let mut count = Count::default();
        for file in files {
            // A process may have been killed while it wrote: such a file has a longer name.
            let name = file.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            count.reported += 1;
            if let Some(status) = text.strip_prefix("ok") {
                count.finished += 1;
                count.status = count.status.max(status.trim().parse().unwrap_or(0));
            } else {
                count.cut_short += usize::from(outlived.contains(&process));
            }
        }
        count
    }
}

/// A launcher's status of 128 + signal, which a shell also gives for a launcher that died by one.
fn names_a_signal(status: u8) -> bool {
    (129..=192).contains(&status)
}

/// The exit status of a run by the rule above. `planned` is the number of deaths in the plan.
pub(crate) fn verdict(end: End, count: Count, planned: usize) -> Verdict {
    let launcher = end.status();
    let silent = Verdict { status: launcher, remark: None };
    match end {
        End::TimedOut | End::Interrupted(_) => return silent,
        End::Deserted => {
            let status = if count.finished > 0 { count.status } else { launcher };
            let remark = Some("all ranks had ended, and the launcher went on: ended".to_owned());
            return Verdict { status, remark };
        }
        End::Exited(_) => {}
    }
    if count.reported == 0 || (launcher != 0 && !names_a_signal(launcher)) {
        return silent;
    }
    let failed = |remark: String| Verdict { status: launcher.max(1), remark: Some(remark) };
    if count.finished == 0 {
        return failed("no process finished in order: nobody survived".to_owned());
    }
    if count.cut_short > 0 && launcher != 0 {
        return failed(format!("{} still ran when the launcher had ended", many(count.cut_short)));
    }
    let unplanned = (count.reported - count.finished).saturating_sub(planned);
    let remark = if unplanned > 0 {
        Some(format!("{} died outside the plan, and the others survived it", many(unplanned)))
    } else if launcher != 0 {
        Some(format!("the launcher ended with status {launcher}, but the ranks finished in order"))
    } else {
        None
    };
    Verdict { status: count.status, remark }
}

fn many(processes: usize) -> String {
    format!("{processes} process{}", if processes == 1 { "" } else { "es" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count(reported: usize, finished: usize) -> Count {
        Count { reported, finished, cut_short: 0, status: 0 }
    }

    /// The status and the remark.
    fn judged(launcher: u8, count: Count, planned: usize) -> (u8, Option<String>) {
        let verdict = verdict(End::Exited(launcher), count, planned);
        (verdict.status, verdict.remark)
    }

    #[test]
    fn the_living_ranks_decide_the_status() {
        assert_eq!(judged(0, count(5, 4), 1), (0, None));
        assert_eq!(verdict(End::TimedOut, count(4, 4), 0).status, 124);
        assert_eq!(verdict(End::Interrupted(2), count(4, 4), 0).status, 130);
    }

    #[test]
    fn a_launcher_that_was_ended_as_it_was_alone_leaves_it_to_the_ranks() {
        let status = |count| verdict(End::Deserted, count, 0).status;
        assert_eq!(status(count(4, 4)), 0);
        assert_eq!(status(Count { status: 3, ..count(4, 2) }), 3);
        assert_eq!(status(count(4, 0)), 1);
        assert_eq!(status(count(0, 0)), 1);
    }

    #[test]
    fn a_status_that_a_rank_chose_is_passed_on() {
        for status in [1, 5, 101, 128, 193, 255] {
            assert_eq!(judged(status, count(5, 4), 1), (status, None));
            assert_eq!(judged(status, count(0, 0), 0), (status, None));
        }
    }

    #[test]
    fn a_signal_that_the_launcher_names_counts_only_if_nobody_finished() {
        let (status, remark) = judged(137, count(6, 4), 1);
        assert!(status == 0 && remark.is_some_and(|remark| remark.starts_with("1 process died")));
        let (status, remark) = judged(139, count(5, 4), 1);
        assert!(status == 0 && remark.is_some_and(|remark| remark.contains("status 139")));
        assert_eq!(judged(137, count(4, 0), 4).0, 137);
        assert_eq!(judged(137, count(0, 0), 0), (137, None));
    }

    #[test]
    fn a_status_that_a_finished_process_reports_is_not_hidden_by_a_signal() {
        let count = Count { status: 3, ..count(6, 4) };
        assert_eq!(judged(137, count, 2).0, 3);
    }

    #[test]
    fn a_run_that_was_cut_short_has_failed() {
        let count = Count { cut_short: 2, ..count(4, 1) };
        let (status, remark) = judged(139, count, 0);
        assert_eq!(status, 139);
        assert!(remark.is_some_and(|remark| remark.starts_with("2 processes still ran")));
    }

    #[test]
    fn a_death_outside_the_plan_is_told() {
        let (status, remark) = judged(0, count(5, 3), 1);
        assert_eq!(status, 0);
        assert!(remark.is_some_and(|remark| remark.starts_with("1 process died")));
    }

    #[test]
    fn a_run_that_nobody_survived_has_failed() {
        assert_eq!(judged(0, count(4, 0), 4).0, 1);
        assert_eq!(judged(0, count(0, 0), 0).0, 0);
    }

    #[test]
    fn only_the_word_ok_is_an_orderly_end() {
        let reports = Reports::new().expect("a temporary folder");
        let texts = [("10", "ok\n"), ("11", "running"), ("12", "ok"), ("13", "running")];
        // The last one was killed while it wrote.
        for (process, text) in texts.into_iter().chain([("14", "ok 3"), ("13.new", "ok 9")]) {
            fs::write(reports.path().join(process), text).expect("written");
        }
        let expected = Count { reported: 5, finished: 3, cut_short: 1, status: 3 };
        assert_eq!(reports.count(&[12, 13, 99]), expected);
    }
}
