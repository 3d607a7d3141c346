//! The variables of the environment that change how the library works, looked at before MPI starts.
//!
//! A value that makes no sense is refused on each rank by the same sentence, as launchers give all
//! ranks the same environment. An empty value counts as none.

use std::{
    env,
    ffi::{OsStr, OsString},
    ops::RangeInclusive,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use crate::{error::Error, seam::archive::Files};

/// How many of the launched processes are spares.
const SPARES: &str = "FAMPI_SPARES";
/// The limit of an ordinary call of MPI.
const STUCK: &str = "FAMPI_STUCK_SECONDS";
const STUCK_DEFAULT: Duration = Duration::from_secs(10);
/// Whether ranks watch those of their own node.
const WATCHER: &str = "FAMPI_NODE_WATCHER";
/// Whether ranks of a node exchange votes through shared memory.
const MAILBOX: &str = "FAMPI_MAILBOX";
/// The folder in which runs save checkpoints, whether they go on from one, and after how many steps
/// one is due.
const CHECKPOINT: &str = "FAMPI_CHECKPOINT";
const RESTART: &str = "FAMPI_RESTART";
const CHECKPOINT_EVERY: &str = "FAMPI_CHECKPOINT_EVERY";
/// Whose states share a file of a checkpoint, and whether they are compressed.
const CHECKPOINT_FILES: &str = "FAMPI_CHECKPOINT_FILES";
const CHECKPOINT_COMPRESS: &str = "FAMPI_CHECKPOINT_COMPRESS";
/// The limits that can be set: less is no patience with a machine that does other things, too; more
/// is some thirty years.
const LIMIT_SECONDS: RangeInclusive<f64> = 0.1..=1e9;

/// Who dies when, by plan.
const KILL: &str = "FAMPI_KILL";
/// Set by a program that carries out that plan itself.
static PLAN_IS_THE_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// The program carries out the plan of deaths itself, of which it knows more words.
pub fn leave_the_plan_to_the_program() {
    PLAN_IS_THE_PROGRAMS.store(true, Relaxed);
}

/// The step of a run, counted from 1, at whose beginning this rank of the launch is to die.
pub(in crate::mpi) fn killed_at(rank: u32) -> Option<u64> {
    let plan = set(KILL).filter(|_| !PLAN_IS_THE_PROGRAMS.load(Relaxed))?;
    step_of(plan.to_str()?, rank)
}

/// The first step that a plan names for this rank.
fn step_of(plan: &str, rank: u32) -> Option<u64> {
    plan.split(',').find_map(|kill| {
        let (of, when) = kill.split_once('@')?;
        let (word, step) = when.split_once(':')?;
        let meant = of.parse() == Ok(rank) && ["step", "iteration", "cycle"].contains(&word);
        meant.then(|| step.parse().ok()).flatten()
    })
}

/// The value of a variable, if it has one.
pub(in crate::mpi) fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|text| !text.is_empty())
}

/// The error about a variable whose value makes no sense.
pub(in crate::mpi) fn refused(name: &str, advice: &str) -> Error {
    let text = set(name).unwrap_or_default();
    Error::Unsupported(format!("{name} is '{}'; {advice}", text.display()))
}

/// A limit in seconds, zero for none; `None` for what makes no sense.
pub(in crate::mpi) fn limit_of(text: &OsStr) -> Option<Duration> {
    let seconds: f64 = text.to_str()?.trim().parse().ok()?;
    let makes_sense = seconds == 0.0 || LIMIT_SECONDS.contains(&seconds);
    makes_sense.then(|| Duration::from_secs_f64(seconds))
}

/// A switch; `None` for what makes no sense.
fn switch_of(text: &OsStr) -> Option<bool> {
    match text.to_str()?.trim() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Whose states share a file; `None` for what makes no sense.
fn files_of(text: &OsStr) -> Option<Files> {
    match text.to_str()?.trim() {
        "rank" => Some(Files::OfEachRank),
        "node" => Some(Files::OfEachNode),
        "job" => Some(Files::OfTheJob),
        _ => None,
    }
}

fn number_of(text: &OsStr) -> Option<u32> {
    text.to_str()?.trim().parse().ok()
}

/// What a variable says as `read` understands it, or the value that it has without being set.
fn value<T>(
    name: &str,
    unset: T,
    read: impl Fn(&OsStr) -> Option<T>,
    advice: &str,
) -> Result<T, Error> {
    let Some(text) = set(name) else { return Ok(unset) };
    read(&text).ok_or_else(|| refused(name, advice))
}

/// How many of the launched processes are spares.
///
/// # Errors
///
/// [`Error::Unsupported`] for what is no number.
pub(in crate::mpi) fn spares() -> Result<u32, Error> {
    value(SPARES, 0, number_of, "set it to a number of processes")
}

fn stuck() -> Result<Duration, Error> {
    let advice = "set it to a number of seconds, at least 0.1, or to 0 for no limit";
    value(STUCK, STUCK_DEFAULT, limit_of, advice)
}

fn switch(name: &str, unset: bool) -> Result<bool, Error> {
    value(name, unset, switch_of, "set it to on or off")
}

/// Where runs save checkpoints, as the environment wants it.
#[derive(Clone, Debug)]
pub struct CheckpointSettings {
    /// The folder.
    pub folder: PathBuf,
    /// The first run goes on from what is there.
    pub restart: bool,
    /// After how many steps one is due, if it is set.
    pub every: Option<u32>,
    /// Whose states share a file.
    pub files: Files,
    /// States are compressed.
    pub compressed: bool,
}

/// Where runs save checkpoints, if they do.
///
/// # Errors
///
/// [`Error::Unsupported`] for what is no switch, number of steps, or kind of files.
pub fn checkpoints() -> Result<Option<CheckpointSettings>, Error> {
    let restart = switch(RESTART, false)?;
    let steps = |text: &OsStr| number_of(text).filter(|steps| *steps > 0).map(Some);
    let every = value(CHECKPOINT_EVERY, None, steps, "set it to a number of steps")?;
    let advice = "set it to rank, node or job";
    let files = value(CHECKPOINT_FILES, Files::OfEachRank, files_of, advice)?;
    let compressed = switch(CHECKPOINT_COMPRESS, false)?;
    let folder = set(CHECKPOINT).map(PathBuf::from);
    Ok(folder.map(|folder| CheckpointSettings { folder, restart, every, files, compressed }))
}

/// How long an ordinary call of MPI may last, zero for no limit.
pub(in crate::mpi) fn stuck_limit() -> Duration {
    stuck().unwrap_or(STUCK_DEFAULT)
}

/// True unless the user wants no process of this node to be watched.
pub(in crate::mpi) fn has_watcher() -> bool {
    switch(WATCHER, true).unwrap_or(true)
}

/// True unless the user wants votes to go by MPI alone.
pub(in crate::mpi) fn has_mailbox() -> bool {
    switch(MAILBOX, true).unwrap_or(true)
}

/// Looks whether what is set makes sense.
///
/// # Errors
///
/// [`Error::Unsupported`] about the first variable that does not.
pub(in crate::mpi) fn check() -> Result<(), Error> {
    spares()?;
    stuck()?;
    switch(WATCHER, true)?;
    switch(MAILBOX, true)?;
    checkpoints().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_the_step_of_a_rank_and_what_others_understand_is_left_to_them() {
        let plan = "2@step:40,0@iteration:7,3@forces:2,1@step:x";
        let steps = [0, 1, 2, 3, 4].map(|rank| step_of(plan, rank));
        assert_eq!(steps, [Some(7), None, Some(40), None, None]);
    }

    #[test]
    fn a_limit_is_a_number_of_seconds_that_leaves_ranks_some_time() {
        let limit = |text: &str| limit_of(OsStr::new(text));
        assert_eq!(limit("0"), Some(Duration::ZERO));
        assert_eq!(limit(" 2.5 "), Some(Duration::from_millis(2500)));
        for nonsense in ["", "soon", "-1", "-5", "0.01", "1e10", "inf", "NaN", "nan", "10s"] {
            assert_eq!(limit(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn switches_are_on_or_off_and_spares_a_number() {
        let switch = |text: &str| switch_of(OsStr::new(text));
        assert_eq!((switch("on"), switch(" off ")), (Some(true), Some(false)));
        for nonsense in ["", "0", "no", "Off", "of"] {
            assert_eq!(switch(nonsense), None, "{nonsense:?}");
        }
        let number = |text: &str| number_of(OsStr::new(text));
        assert_eq!(number(" 3 "), Some(3));
        for nonsense in ["", "-1", "1.5", "two", "99999999999"] {
            assert_eq!(number(nonsense), None, "{nonsense:?}");
        }
    }
}
