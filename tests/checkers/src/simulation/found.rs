//! Jobs that have found a bug, each with that bug, to be planted again.

use super::job::Job;
use crate::bugs::Bug;

/// Each bug that `found.txt` names, and the job that has to find it.
pub fn jobs() -> impl Iterator<Item = (Bug, Job)> {
    let lines = include_str!("found.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (name, job) = line.split_once(": ").expect("a bug and a job");
        (bug(name).expect("a bug that can be planted"), Job::from_line(job).expect("a job"))
    })
}

/// The bug of this name.
pub fn bug(name: &str) -> Option<Bug> {
    Bug::ALL.iter().find(|(_, known)| *known == name).map(|(bug, _)| *bug)
}
