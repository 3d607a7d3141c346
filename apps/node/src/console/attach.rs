//! A console for a job whose own one is gone.
//!
//! It finds the job by the records of its daemons, calls each of them, and takes the place of the
//! first console: it prints what no console has printed yet, then what ranks print from now on.
//! Ctrl-C ends the job, as at the first one. When this console is killed, or its terminal closed,
//! the job goes on without one again.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::hosts::By;
use super::jobs::state;
use super::printer::write;
use super::{Console, Node};
use crate::daemon::{host, parse_secret};
use crate::place;
use crate::protocol::channel::CONSOLE;
use crate::protocol::orders::{MAX_BYTES, Place};
use crate::record::{self, Record, State};
use crate::wire::Link;

/// Set where the nodes can be reached.
const REACHED: &str = "FAMPI_NODE_REACHED";

/// How long daemons have to prove that they are those of the job.
const PROOFS: Duration = Duration::from_secs(10);

/// Which job.
#[derive(Args, Debug)]
pub struct Options {
    /// The job, as `jobs` names it; the only one without it
    #[arg(value_name = "JOB")]
    job: Option<String>,
}

/// Prints what a job prints, and ends with its status.
pub fn main(options: &Options) -> Result<u8> {
    record::tidy();
    let records = find(options.job.as_deref())?;
    let job = records[0].job.clone();
    let running = [State::Runs, State::Elsewhere];
    let mut candidates =
        running.iter().flat_map(|state| records.iter().filter(|it| it.state == *state));
    let Some(record) = candidates.find(|it| it.secret.is_some()) else {
        return show_end(&records);
    };
    go_where_nodes_are(record, &["attach".to_owned(), job.clone()])?;
    let mut console = Console::attaching(record)?;
    let status = console.wait()?;
    if console.is_refused {
        bail!("{job} has a console already, which waits for its end");
    }
    console.conclude();
    place::remove_stale();
    let left = record::of_job(&job)?;
    let Some(status) = status else {
        // It has ended while it was called.
        return show_end(if left.is_empty() { &records } else { &left });
    };
    // Of nodes that have left before, or were lost.
    print_files(record)?;
    if console.is_over() {
        record::forget(&job);
    }
    Ok(status)
}

/// Becomes this program with these words where the nodes of a job can be reached, unless that is
/// here.
pub(super) fn go_where_nodes_are(record: &Record, words: &[String]) -> Result<()> {
    if let Some((first, rest)) = record.reach.split_first()
        && env::var_os(REACHED).is_none()
    {
        let program = env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(first);
        command.args(rest).arg(program).args(words).env(REACHED, "1");
        return Err(command.exec()).with_context(|| format!("cannot start {first}"));
    }
    Ok(())
}

/// The records of this job, or of the only one.
pub(super) fn find(job: Option<&str>) -> Result<Vec<Record>> {
    let mut jobs = record::all()?;
    let names = |jobs: &[Vec<Record>]| {
        let names: Vec<&str> = jobs.iter().map(|records| records[0].job.as_str()).collect();
        names.join(", ")
    };
    if let Some(job) = job {
        let names_it = |name: &str| name == job || name.strip_prefix("fampi-") == Some(job);
        let found = jobs.iter().position(|it| names_it(&it[0].job));
        let Some(found) = found else {
            let known = if jobs.is_empty() { "none".to_owned() } else { names(&jobs) };
            bail!("there is no job {job} here: known are {known}");
        };
        return Ok(jobs.swap_remove(found));
    }
    // One that has ended is meant only if no other one is.
    if jobs.iter().any(|it| state(it) == State::Runs) {
        jobs.retain(|it| state(it) == State::Runs);
    }
    match jobs.len() {
        0 => bail!("there is no job here: `cargo fampi run` starts one"),
        1 => Ok(jobs.remove(0)),
        _ => bail!("there are several jobs, name one of them: {}", names(&jobs)),
    }
}

impl Console {
    /// A console that calls the daemons of a job which runs.
    fn attaching(record: &Record) -> Result<Self> {
        let secret = record.secret.as_deref().and_then(parse_secret);
        let secret = secret.context("the record of the job holds no secret")?;
        let node = |(at, place): (u32, &Place)| Node {
            name: place.name.clone(),
            slots: place.slots,
            address: Some(place.address),
            is_ready: true,
            is_lost: record.lost.contains(&at),
            ..Node::default()
        };
        let nodes = (0..).zip(&record.nodes).map(node).collect();
        let mut console = Self::new(nodes, By::Child, secret, &[SIGINT, SIGTERM])?;
        for (at, place) in record.nodes.iter().enumerate() {
            if console.nodes[at].is_lost {
                continue;
            }
            let (me, peer) = (CONSOLE, host(at as u32));
            let called = Link::call(place.address, me, peer, &console.secret, MAX_BYTES);
            let Ok(link) = called else {
                console.nodes[at].is_lost = true;
                continue;
            };
            console.nodes[at].link = Some(console.watch(link)?);
        }
        console.wait_for_proofs()?;
        Ok(console)
    }

    /// Waits until each daemon that was called has proved that it is one. Nothing can be told them
    /// before. One that does not do that in time counts as lost.
    fn wait_for_proofs(&mut self) -> Result<()> {
        let deadline = Instant::now() + PROOFS;
        let is_open = |(number, link): (&u64, &Link)| link.peer().is_none().then_some(*number);
        while self.links.iter().find_map(is_open).is_some() && Instant::now() < deadline {
            self.turn()?;
        }
        let silent: Vec<u64> = self.links.iter().filter_map(is_open).collect();
        for number in silent {
            if let Some(link) = self.links.remove(&number) {
                self.poll.remove(&link);
            }
            for node in self.nodes.iter_mut().filter(|node| node.link == Some(number)) {
                node.is_lost = true;
            }
        }
        Ok(())
    }
}

/// Prints what is left of a job that has ended; its exit status.
fn show_end(records: &[Record]) -> Result<u8> {
    let first = &records[0];
    print_files(first)?;
    for (place, number) in first.nodes.iter().zip(0..) {
        let is_here = records.iter().any(|record| record.node == number);
        if !is_here && !first.lost.contains(&number) {
            let (name, folder) = (&place.name, first.folder()?);
            say!("fampi-node: what was printed on {name} is there, in {}", folder.display());
        }
    }
    for remark in records.iter().filter_map(|it| it.remark.as_ref()) {
        say!("fampi-node: {remark}");
    }
    let Some((status, why)) = records.iter().find_map(|it| it.ended.clone()) else {
        bail!("{} was killed with all that is known of it here", first.job);
    };
    if let Some(why) = why {
        say!("fampi-node: {why}");
    }
    Ok(status)
}

/// Prints what files hold of a job, rank by rank.
fn print_files(record: &Record) -> Result<()> {
    let entries = fs::read_dir(record.folder()?).into_iter().flatten().flatten();
    let mut files: Vec<(u32, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rank = name.strip_prefix("rank-")?.split(['.', '@']).next()?.parse().ok()?;
            Some((rank, name))
        })
        .collect();
    files.sort();
    for (_, name) in files {
        let bytes = fs::read(record.folder()?.join(&name)).unwrap_or_default();
        write(Path::new(&name).extension() == Some("err".as_ref()), &bytes)
            .context("what the job has printed cannot be written, and stays")?;
    }
    Ok(())
}
