//! What the processes of a run say about their own end, and the exit status that follows.
//!
//! The launcher of an MPI with fault tolerance ends with the status of a rank that exited with
//! other than 0. Of deaths by a signal its status says little: 0 even when all ranks died so, and
//! 137 when a spawned replacement was killed while it joined, although all others went on (and
//! whatever the others exited with later). And it may crash at its very end. So the library leaves
//! one small file per process in the folder `FAMPI_STATUS_DIR`, named by the number of the process.
//! From hosts that do not share it our own launcher brings these files, with the number of the node
//! before their names.
//!
//! | it holds | from |
//! |---|---|
//! | `starting` | `fampi::init` on, before MPI starts |
//! | `running` | the start of MPI on |
//! | `ok` | its end in order as a rank, which all living ranks reach together |
//! | `ok N` | its exit with the status N, other than 0, after such an end |
//! | `unused` | its end in order without ever having been a rank |
//!
//! One `ok` says that every death was survived; an `unused` says nothing of the job, as it is that
//! of a spare that was not needed, or of a replacement that came too late.
//!
//! **The rule.** The first line that fits decides:
//!
//! | what happened | status |
//! |---|---|
//! | we ended the run: at its time limit, by a signal | 124; 128 + the signal |
//! | no process reported, and we killed one | the launcher's, or 1 if that is 0; it is told |
//! | no process reported: the program does not use the library | the launcher's |
//! | no rank finished in order | the launcher's, or 1 if that is 0; its crash is told |
//! | the launcher went on alone, until we ended it | the highest that a finished rank exited with |
//! | the launcher's status names no signal (1 to 128, or above 192) | the launcher's: a rank's |
//! | a process still ran, unfinished, when a launcher that failed was gone | the launcher's |
//! | otherwise | the highest that a finished rank exited with; deaths are told |
//!
//! So a status of 0 means that ranks finished in order and all of them exited with 0, or, without
//! reports, that the launcher says so and no process was killed by us.
//!
//! **Cannot be known.** What a process that reported `ok` and no more exited with, if the launcher
//! names a signal: it passes for 0. How a program without the library ended, if by a signal.

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
    /// While MPI started, or never.
    pub(crate) starting: usize,
    /// In order, as ranks.
    pub(crate) finished: usize,
    /// In order, without ever having been a rank.
    pub(crate) unused: usize,
    /// Not in order, but alive when their launcher had ended.
    pub(crate) cut_short: usize,
    /// The highest status that a process which had finished in order exited with.
    pub(crate) status: u8,
    /// There may be others, whose reports are on other hosts: of a launcher that does not collect
    /// them.
    pub(crate) is_partial: bool,
}

/// Deaths by the plan of the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kills {
    /// How many it names.
    pub(crate) planned: usize,
    /// How many processes the tool itself has killed.
    pub(crate) done: usize,
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
            // A process may have been killed while it wrote: such a file has a longer name. That of
            // another host begins with the number of its node.
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let (node, number) =
                name.rsplit_once('-').map_or((None, name), |it| (Some(it.0), it.1));
            let Ok(process) = number.parse::<i32>() else { continue };
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            count.reported += 1;
            if let Some(status) = text.strip_prefix("ok") {
                count.finished += 1;
                count.status = count.status.max(status.trim().parse().unwrap_or(0));
            } else if text.trim() == "unused" {
                count.unused += 1;
            } else {
                count.starting += usize::from(text.trim() == "starting");
                count.cut_short += usize::from(node.is_none() && outlived.contains(&process));
            }
        }
        count
    }
}

impl Count {
    /// Processes in which MPI has started, also those that have ended.
    pub(crate) fn running(&self) -> usize {
        self.reported - self.starting
    }

    /// Processes that did not end in order.
    pub(crate) fn deaths(&self) -> usize {
        self.reported.saturating_sub(self.finished + self.unused)
    }

    /// True when no process got beyond the start of MPI.
    pub(crate) fn did_not_start(&self) -> bool {
        self.starting == self.deaths() && self.finished + self.unused == 0
    }

    /// True when the job, of which so many were launched, was over before MPI had started all of
    /// them: one has died in the middle, which no other survives.
    pub(crate) fn was_lost_in_the_start(&self, launched: usize) -> bool {
        let had_others = self.reported > launched || self.finished > 0;
        self.did_not_start() || (self.starting > 0 && !had_others)
    }

    /// What a person should know of a run in which no rank finished in order.
    fn loss(&self) -> String {
        if self.did_not_start() {
            return format!(
                "the job did not start: {} died while MPI started",
                many(self.starting)
            );
        }
        if self.cut_short > 0 {
            let left = many(self.cut_short);
            return format!("no rank finished in order: {left} still ran when the launcher ended");
        }
        let unused = match self.unused {
            0 => String::new(),
            1 => format!(" ({} was never needed)", many(1)),
            unused => format!(" ({} were never needed)", many(unused)),
        };
        format!("no rank finished in order: nobody survived{unused}")
    }
}

/// A launcher's status of 128 + signal, which a shell also gives for a launcher that died by one.
fn names_a_signal(status: u8) -> bool {
    (129..=192).contains(&status)
}

/// The exit status of a run by the rule above.
pub(crate) fn verdict(end: End, count: Count, kills: Kills) -> Verdict {
    let launcher = end.status();
    let told = |status: u8, remark: String| Verdict { status, remark: Some(remark) };
    let silent = |status: u8| Verdict { status, remark: None };
    if matches!(end, End::TimedOut | End::Interrupted(_)) {
        return silent(launcher);
    }
    if let (End::Exited(_), 0, 1..) = (end, count.reported, kills.done) {
        return told(launcher.max(1), unheard(kills.done));
    }
    if let (End::Crashed(signal), 0) = (end, count.finished) {
        return told(launcher, crash(signal));
    }
    // Our launcher knows how those on other hosts have ended.
    let is_known = !count.is_partial || launcher != 0;
    if count.reported > 0 && count.finished == 0 && is_known {
        return told(launcher.max(1), count.loss());
    }
    if end == End::Deserted {
        let status = if count.finished > 0 { count.status } else { launcher };
        return told(status, "all ranks had ended, and the launcher went on: ended".to_owned());
    }
    if count.reported == 0 {
        return silent(launcher);
    }
    if launcher != 0 && !names_a_signal(launcher) {
        return silent(launcher);
    }
    if count.cut_short > 0 && launcher != 0 {
        let left = many(count.cut_short);
        return told(launcher, format!("{left} still ran when the launcher had ended"));
    }
    match count.deaths() {
        0 if launcher == 0 => silent(count.status),
        0 => told(
            count.status,
            format!("the launcher ended with status {launcher}, but the ranks finished in order"),
        ),
        deaths => told(count.status, survived(deaths, kills.planned)),
    }
}

/// The launcher died by a signal before any rank had finished in order.
pub(crate) fn crash(signal: i32) -> String {
    format!(
        "the launcher crashed (signal {signal}), and took the job with it: start the job again, by \
         `cargo fampi run` without --launcher mpirun, where a job outlives that"
    )
}

/// We have killed processes of a program that says nothing.
fn unheard(killed: usize) -> String {
    format!(
        "{} killed before any process had reported: the job did not start, or the program does \
         not use fampi and nobody knows whether the others survived",
        if killed == 1 { "1 process was".to_owned() } else { format!("{killed} processes were") }
    )
}

/// Processes died, and the others finished in order.
fn survived(deaths: usize, planned: usize) -> String {
    let unplanned = deaths.saturating_sub(planned);
    let whose = match unplanned {
        0 => "as planned".to_owned(),
        _ if planned == 0 => "without a --kill".to_owned(),
        _ => format!("({unplanned} without a --kill)"),
    };
    format!("{} died {whose}, and the others survived it", many(deaths))
}

fn many(processes: usize) -> String {
    format!("{processes} process{}", if processes == 1 { "" } else { "es" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count(reported: usize, finished: usize) -> Count {
        let (starting, unused, cut_short, status, is_partial) = (0, 0, 0, 0, false);
        Count { reported, starting, finished, unused, cut_short, status, is_partial }
    }

    /// After so many planned deaths, all of which the tool carried out.
    const fn kills(planned: usize) -> Kills {
        Kills { planned, done: planned }
    }

    #[track_caller]
    fn is(end: End, count: Count, planned: usize, status: u8, remark: &str) {
        let verdict = verdict(end, count, kills(planned));
        assert_eq!(verdict.status, status, "{end:?} {count:?}: {verdict:?}");
        let said = verdict.remark.unwrap_or_default();
        assert_eq!(said.is_empty(), remark.is_empty(), "{end:?} {count:?}: {said}");
        assert!(said.contains(remark), "{end:?} {count:?}: {said}");
    }

    #[test]
    fn what_we_ended_has_the_status_of_that() {
        is(End::TimedOut, count(4, 4), 0, 124, "");
        is(End::Interrupted(2), count(4, 4), 0, 130, "");
    }

    #[test]
    fn a_job_that_failed_completely_never_ends_with_0() {
        let spare = |of: Count| Count { unused: 1, reported: of.reported + 1, ..of };
        let lost = [
            (count(4, 0), "nobody survived"),
            // The spare that was not needed is no survivor.
            (spare(count(4, 0)), "nobody survived (1 process was never needed)"),
            (Count { starting: 1, ..count(4, 0) }, "nobody survived"),
            (Count { starting: 4, ..count(4, 0) }, "4 processes died while MPI started"),
            (spare(count(0, 0)), "nobody survived"),
            (Count { cut_short: 2, ..count(4, 0) }, "2 processes still ran when"),
        ];
        for (count, remark) in lost {
            for planned in [0, 1, 4] {
                is(End::Exited(0), count, planned, 1, remark);
                is(End::Exited(3), count, planned, 3, remark);
                is(End::Exited(137), count, planned, 137, remark);
                is(End::Deserted, count, planned, 1, remark);
            }
        }
    }

    #[test]
    fn ranks_whose_reports_are_elsewhere_are_no_loss() {
        let partial = Count { is_partial: true, ..count(2, 0) };
        is(End::Exited(0), partial, 2, 0, "2 processes died as planned");
        is(End::Exited(1), partial, 2, 1, "nobody survived");
    }

    #[test]
    fn no_status_0_without_a_report_when_we_killed_somebody() {
        is(End::Exited(0), count(0, 0), 0, 0, "");
        is(End::Exited(0), count(0, 0), 1, 1, "1 process was killed before any process had");
        for status in [1, 5, 101, 128, 137, 193, 255] {
            is(End::Exited(status), count(0, 0), 0, status, "");
            is(End::Exited(status), count(0, 0), 1, status, "1 process was killed before any");
        }
        is(End::Crashed(11), count(0, 0), 1, 139, "the launcher crashed (signal 11)");
        is(End::Deserted, count(0, 0), 0, 1, "the launcher went on");
        let undone = verdict(End::Exited(0), count(0, 0), Kills { planned: 1, done: 0 });
        assert_eq!(undone, Verdict { status: 0, remark: None }, "the run was over before");
    }

    #[test]
    fn the_living_ranks_decide_the_status() {
        is(End::Exited(0), count(4, 4), 0, 0, "");
        is(End::Exited(0), Count { unused: 1, ..count(5, 4) }, 0, 0, "");
        is(End::Exited(0), count(5, 4), 1, 0, "1 process died as planned");
        is(End::Exited(0), count(5, 4), 0, 0, "1 process died without a --kill");
        is(End::Exited(0), count(6, 3), 1, 0, "3 processes died (2 without a --kill)");
        is(End::Exited(0), Count { unused: 1, ..count(6, 4) }, 1, 0, "1 process died as planned");
    }

    #[test]
    fn a_launcher_that_was_ended_as_it_was_alone_leaves_it_to_the_ranks() {
        is(End::Deserted, count(4, 4), 0, 0, "the launcher went on");
        is(End::Deserted, Count { status: 3, ..count(4, 2) }, 0, 3, "the launcher went on");
    }

    #[test]
    fn a_status_that_a_rank_chose_is_passed_on() {
        for status in [1, 5, 101, 128, 193, 255] {
            is(End::Exited(status), count(5, 4), 1, status, "");
        }
    }

    #[test]
    fn a_signal_that_the_launcher_names_counts_only_if_nobody_finished() {
        is(End::Exited(137), count(6, 4), 1, 0, "2 processes died (1 without a --kill)");
        is(End::Exited(139), count(5, 5), 1, 0, "status 139, but the ranks finished in order");
        is(End::Exited(137), Count { status: 3, ..count(6, 4) }, 2, 3, "as planned");
    }

    #[test]
    fn a_launcher_that_crashes_is_told_unless_ranks_had_finished() {
        let crashed = End::Crashed(11);
        for count in [count(0, 0), count(4, 0), Count { cut_short: 2, ..count(4, 0) }] {
            is(crashed, count, 0, 139, "the launcher crashed (signal 11)");
        }
        is(crashed, count(4, 4), 0, 0, "status 139, but the ranks finished in order");
        is(crashed, Count { cut_short: 2, ..count(4, 1) }, 0, 139, "2 processes still ran");
        // A rank's signal, which the launcher passes on, is no crash of it.
        is(End::Exited(139), count(4, 0), 0, 139, "nobody survived");
    }

    #[test]
    fn a_run_that_was_cut_short_has_failed() {
        let count = Count { cut_short: 2, ..count(4, 1) };
        is(End::Exited(139), count, 0, 139, "2 processes still ran");
    }

    #[test]
    fn only_the_word_ok_is_an_orderly_end_of_a_rank() {
        let reports = Reports::new().expect("a temporary folder");
        let texts = [("10", "ok\n"), ("11", "running"), ("12", "ok"), ("13", "running")];
        // The last one was killed while it wrote.
        let more = [("14", "ok 3"), ("15", "unused"), ("16", "starting\n"), ("13.new", "ok 9")];
        for (process, text) in texts.into_iter().chain(more) {
            fs::write(reports.path().join(process), text).expect("written");
        }
        let expected = Count { starting: 1, unused: 1, cut_short: 1, status: 3, ..count(7, 3) };
        assert_eq!(reports.count(&[12, 13, 15, 99]), expected);
        assert_eq!(expected.deaths(), 3);
    }

    #[test]
    fn a_launch_that_lost_some_while_mpi_started_is_told_from_one_that_was_under_way() {
        let some = Count { starting: 5, ..count(7, 0) };
        assert!(some.was_lost_in_the_start(7));
        assert!(!some.was_lost_in_the_start(6), "a replacement may have been starting");
        assert!(!count(7, 0).was_lost_in_the_start(7), "all were under way");
        assert!(!Count { starting: 1, ..count(7, 3) }.was_lost_in_the_start(7));
    }
}
