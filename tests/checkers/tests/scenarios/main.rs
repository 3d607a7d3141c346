//! Stories with prose: each file of this folder is a transcript that a run must repeat exactly.
//!
//! A story is prose (lines with `#`), then commands, `----`, and what came of them, any number of
//! times. The commands move messages between commit machines by hand, see `stage.rs`, or run a
//! job as `cargo fampi sim --job` does. `FAMPI_REWRITE=1 cargo test -p fampi-checkers --test
//! scenarios` writes what came into the files; look at the difference.

mod stage;

use std::{fs, path::PathBuf};

use fampi::protocol::exchange::Shape;
use fampi_checkers::simulation::{checks, job::Job};
use stage::Stage;

const MARK: &str = "----";

/// The files, in the order of their names.
fn stories() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let entries = fs::read_dir(folder).expect("the folder of this file");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut stories: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "txt")).collect();
    stories.sort();
    stories
}

/// The text of a story as it comes out today.
fn played(story: &str) -> String {
    let mut stage = Stage::new(0, Shape::DOUBLING);
    let mut text = String::new();
    let mut came = String::new();
    let mut in_output = false;
    for line in story.lines() {
        if in_output {
            // An empty line ends what came of the commands.
            in_output = !line.is_empty();
            if !in_output {
                text += "\n";
            }
            continue;
        }
        text += line;
        text += "\n";
        if line == MARK {
            text += &came;
            came.clear();
            in_output = true;
        } else if let Some(job) = line.strip_prefix("job ") {
            came += &ends(job);
        } else if !line.starts_with('#') && !line.is_empty() {
            let happened = stage.obey(line);
            came += &happened.unwrap_or_else(|wrong| format!("not understood: {wrong}\n"));
        }
    }
    assert!(came.is_empty(), "the last commands have no `{MARK}`: {came}");
    text
}

/// How a job ended for each process.
fn ends(line: &str) -> String {
    let job = match Job::from_line(line) {
        Ok(job) => job,
        Err(wrong) => return format!("not understood: {wrong}\n"),
    };
    let report = job.report(false);
    let mut text = String::new();
    for (process, it) in report.processes.iter().enumerate() {
        let end = match it.ending.finished() {
            None => it.ending.to_string(),
            Some(log) => {
                let end = log.gave_up.as_ref().map_or("done".into(), |error| format!("“{error}”"));
                let role = if log.replacement { "replacement, " } else { "" };
                format!("{role}{} rounds, {} recoveries, {end}", log.rounds_done, log.recoveries)
            }
        };
        text.extend([format!("p{process} {end}\n")]);
    }
    match checks::check(&job, &report) {
        Ok(_) => text + "nothing is wrong\n",
        Err(violation) => format!("{text}wrong: {violation}\n"),
    }
}

#[test]
fn every_story_is_told_as_it_is_written() {
    let stories = stories();
    assert!(stories.len() >= 15, "{} stories", stories.len());
    let rewrite = std::env::var_os("FAMPI_REWRITE").is_some();
    for path in stories {
        let written = fs::read_to_string(&path).expect("readable");
        let played = played(&written);
        let name = path.file_name().expect("a file").display();
        assert!(written.starts_with("# "), "{name} does not begin with prose");
        if rewrite {
            fs::write(&path, played).expect("writable");
            continue;
        }
        assert!(!played.contains("not understood"), "{name}:\n{played}");
        assert_eq!(written, played, "{name} came out otherwise:\n{played}");
    }
}

#[test]
fn a_story_that_is_written_otherwise_is_noticed() {
    let story = "# A block.\nranks 2\nvote 0 1\ndeliver all\nverdicts\n----\nnobody knows\n";
    let told = played(story);
    assert_ne!(told, story);
    assert_eq!(played(&told), told);
}
