//! `fampi figure ring-token`: tokens around a ring that loses processes, as in figures 1 and 2 of
//! Bland 2012, on real ranks and simulated, as rows, as a table and beside the paper's figures.
//!
//! ```text
//! real         benches/ring_token.rs, by our own launcher, ranks on name spaces of this machine
//! undisturbed  as many ranks as there are processors: once with this library, and once with MPI
//!              alone, by MPI's launcher and without fault tolerance
//! simulated    apps/detector/benches/simulated_ring: our observers and LogGP, in virtual time
//! ```
//!
//! Deaths are drawn from a seed and are at predetermined times, evenly spread: when a certain token
//! is due, whichever tokens the dying hold. Rank 0 never dies.

mod drawing;
mod panels;
mod pattern;
mod shape;
mod story;

use std::fs;
use std::iter;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::nodes::Nodes;
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::{Workspace, shown};

use pattern::{PATTERNS, Pattern};
use story::{COLUMNS, Part, Story};

/// The transports of MPI alone are those of ours, so that they are no part of the difference.
const TRANSPORTS: [&str; 6] = ["--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp"];

/// Launches of each way of which the overhead is told: of each token the fastest counts.
const ROUNDS: usize = 3;

#[derive(Args)]
pub(crate) struct Options {
    /// Real ranks, 3 or more
    #[arg(short = 'n', long, value_name = "N", default_value = "16", allow_negative_numbers = true,
          value_parser = whole(3_u32..=4096, "a number of ranks, 3 or more"))]
    ranks: u32,
    /// On so many nodes: name spaces of this machine, which take root; without, on one
    #[arg(long, value_name = "N", default_value = "4", allow_negative_numbers = true,
          value_parser = whole(1_u32..=63, "a number of nodes from 1 to 63"))]
    nodes: u32,
    /// Tokens
    #[arg(long, value_name = "T", default_value = "4000", allow_negative_numbers = true,
          value_parser = whole(10_u32..=1_000_000, "a number of tokens, from 10 to 1000000"))]
    tokens: u32,
    /// Microseconds between two tokens of real ranks
    #[arg(long, value_name = "US", default_value = "1000", allow_negative_numbers = true,
          value_parser = whole(1_u32..=1_000_000, "microseconds from 1 to 1000000"))]
    pace: u32,
    /// Simulated processes, as many on each of 64 nodes
    #[arg(long, value_name = "N", default_value = "4096", allow_negative_numbers = true,
          value_parser = whole(64_u32..=65_536, "a number of processes, from 64 to 65536"))]
    processes: u32,
    /// Microseconds between two tokens of simulated processes
    #[arg(long, value_name = "US", default_value = "500", allow_negative_numbers = true,
          value_parser = whole(1_u32..=1_000_000, "microseconds from 1 to 1000000"))]
    simulated_pace: u32,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// What chance is drawn from: who dies, and in what order
    #[arg(long, value_name = "SEED", default_value = "1", allow_negative_numbers = true,
          value_parser = whole(0_u32..=u32::MAX, "a seed, 0 or more"))]
    seed: u32,
    /// The folder for `ring-token.csv`, `ring-token.svg` and `ring-token.png`
    /// [default: `ring-token` below the folder of builds]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// End a launch, or a simulated ring, after so many seconds: it has failed
    #[arg(long, value_name = "SECONDS", default_value = "120", allow_negative_numbers = true,
          value_parser = whole(1_u64..=1_000_000, "seconds, 1 or more"))]
    timeout: u64,
}

impl Options {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Only {
    Real,
    Simulated,
}

/// The nodes of the simulated part, as many as the paper's cluster has.
const SIMULATED_NODES: u32 = 64;

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let (is_real, is_simulated) =
        (options.only != Some(Only::Simulated), options.only != Some(Only::Real));
    if is_real {
        launcher::check_room(options.ranks)?;
    }
    if !options.processes.is_multiple_of(SIMULATED_NODES) {
        let (wrong, less) = (options.processes, options.processes % SIMULATED_NODES);
        let advice = format!("are not as many on each of {SIMULATED_NODES} nodes: try --processes");
        return Err(Misuse(format!("{wrong} processes {advice} {}", wrong - less)).into());
    }
    let folder = options.folder.clone().unwrap_or_else(|| workspace.target().join("ring-token"));
    let made = fs::create_dir_all(&folder);
    made.with_context(|| format!("choose another --folder than {}", folder.display()))?;
    let csv_path = folder.join("ring-token.csv");
    let csv = Csv::open(Some(&csv_path))?;
    let mut stories = Vec::new();
    if is_real {
        match Laboratory::open(workspace, options)?.run()? {
            Ok(real) => stories.extend(real),
            Err(interrupted) => return Ok(interrupted),
        }
    }
    if is_simulated {
        match simulate(workspace, options)? {
            Ok(simulated) => stories.extend(simulated),
            Err(interrupted) => return Ok(interrupted),
        }
    }
    csv.write(COLUMNS, &stories.iter().flat_map(Story::rows).collect::<Vec<Row>>())?;
    println!("{}", table(&stories));
    let claims = shape::of(&stories);
    for (claim, verdict) in &claims {
        println!("{claim}: {verdict}");
    }
    let missed = claims.iter().filter(|(_, verdict)| *verdict != shape::YES).count();
    say!("fampi: {missed} of {} claims were missed", claims.len());
    say!("fampi: {}", shown(&csv_path));
    for file in drawing::write(&stories, &captions(options), &folder)? {
        say!("fampi: {}", shown(&file));
    }
    Ok(0)
}

/// One ring to be made.
struct Ring<'a> {
    options: &'a Options,
    part: Part,
    pattern: Pattern,
    ranks: u32,
    /// Of so many ranks one tells what it knew.
    tell_together: u32,
    /// Microseconds between two tokens.
    pace: u32,
}

impl Ring<'_> {
    fn deaths(&self) -> Vec<(u32, u64)> {
        let whole = u64::from(self.options.tokens) * u64::from(self.pace) * 1000;
        self.pattern.deaths(self.ranks, whole, self.options.seed.into())
    }

    /// The words that both programs read.
    fn words(&self) -> [String; 6] {
        let [tokens, pace] = [self.options.tokens.to_string(), format!("{}000", self.pace)];
        let death = |(rank, moment): &(u32, u64)| format!("{rank}@{moment}");
        let deaths = self.deaths().iter().map(death).collect::<Vec<_>>().join(",");
        ["tokens".into(), tokens, "pace".into(), pace, "deaths".into(), deaths]
    }

    /// What this program tells, if that is all; or the status of an interruption.
    fn told_by(&self, command: &Command, script: Script<'_>) -> Result<Result<Story, u8>> {
        let name = format!("{}, {}", self.part.name(), self.pattern.name());
        let finished = session::run(command, script)?;
        let status = finished.end.status();
        match finished.end {
            End::Interrupted(_) => return Ok(Err(status)),
            End::TimedOut => {
                bail!("{name}: it did not end within {} s: try --timeout", self.options.timeout)
            }
            _ => {}
        }
        let counts = [self.options.tokens as usize, self.deaths().len()];
        let told = (self.ranks, self.tell_together);
        let story = Story::read(finished.lines.iter(), (self.part, self.pattern), told, counts);
        Ok(Ok(story.with_context(|| format!("{name}: the program ended with status {status}"))?))
    }
}

/// What it takes to launch real ranks.
struct Laboratory<'a> {
    options: &'a Options,
    mpi: Installation,
    launcher: PathBuf,
    program: PathBuf,
    /// None without root, and for one node.
    nodes: Option<Nodes>,
}

impl<'a> Laboratory<'a> {
    fn open(workspace: &Workspace, options: &'a Options) -> Result<Self> {
        let mut nodes = None;
        if options.nodes > 1 {
            match Nodes::new(options.nodes.min(options.ranks), &[]) {
                Ok(made) => nodes = Some(made),
                Err(reason) => say!("fampi: all ranks are on one node: {reason:#}"),
            }
        }
        Ok(Self {
            options,
            mpi: setup::ensure(workspace)?,
            launcher: cargo::build(workspace, Program::node())?,
            program: cargo::build(workspace, Program::benchmark_of_messages("ring_token"))?,
            nodes,
        })
    }

    /// All launches, or the status of an interruption.
    fn run(&self) -> Result<Result<Vec<Story>, u8>> {
        let Options { ranks, pace, .. } = *self.options;
        let processors = thread::available_parallelism().map_or(1, usize::from) as u32;
        let few = ranks.min(processors).max(2);
        let all = PATTERNS.map(|pattern| (Part::Real, pattern, ranks)).into_iter();
        let calm = [Part::Undisturbed, Part::Plain].map(|part| (part, Pattern::Nobody, few));
        let mut stories: Vec<Story> = Vec::new();
        // In turns, so that what else the machine does disturbs both.
        for (part, pattern, ranks) in all.chain(iter::repeat_n(calm, ROUNDS).flatten()) {
            let options = self.options;
            let ring = Ring { options, part, pattern, ranks, tell_together: 1, pace };
            let story = match self.launch(&ring)? {
                Ok(story) => story,
                Err(interrupted) => return Ok(Err(interrupted)),
            };
            match stories.iter_mut().find(|it| (it.part, it.pattern) == (part, pattern)) {
                Some(before) => before.take_faster_tokens(&story),
                None => stories.push(story),
            }
        }
        Ok(Ok(stories))
    }

    fn launch(&self, ring: &Ring<'_>) -> Result<Result<Story, u8>> {
        let Ring { ranks, part, pattern, .. } = *ring;
        let step = Step::begin(format!("{ranks} ranks, {}, {}", part.name(), pattern.name()));
        let mut command = self.command(part, ranks)?;
        command.args(ring.words());
        command.env_remove("FAMPI_KILL").env_remove("FAMPI_OBSERVER").env("FAMPI_SPARES", "0");
        let command = match (&self.nodes, part) {
            (Some(nodes), Part::Plain) => nodes.first(command),
            (Some(nodes), _) => nodes.beside(command),
            (None, _) => command,
        };
        let spaces = self.nodes.as_ref().map(Nodes::spaces).unwrap_or_default();
        let usual = Script::of_measurement(self.options.limit(), &[])?;
        let script = Script { elsewhere: true, spaces: &spaces, ..usual };
        let story = ring.told_by(&command, script);
        step.finish();
        story
    }

    fn command(&self, part: Part, ranks: u32) -> Result<Command> {
        if part == Part::Plain {
            let mut extra = TRANSPORTS.map(str::to_owned).to_vec();
            if let Some(nodes) = &self.nodes {
                extra.extend(nodes.arguments(ranks, false)?);
            }
            let launcher = Launcher::with(&self.mpi, &extra);
            let mut command = launcher.plain_command(ranks, &self.program);
            command.args(["way", "plain"]);
            return Ok(command);
        }
        let extra = match &self.nodes {
            Some(nodes) => nodes.own_arguments(ranks)?,
            None => Vec::new(),
        };
        let launcher = Launcher::with(&self.mpi, &extra).by(Some(self.launcher.clone()));
        Ok(launcher.command(ranks, &self.program))
    }
}

/// All simulated rings, or the status of an interruption.
fn simulate(workspace: &Workspace, options: &Options) -> Result<Result<Vec<Story>, u8>> {
    let program = Program::without_mpi("simulated_ring").of(Some("fampi-detector"));
    let program = cargo::build(workspace, program)?;
    let ranks = options.processes;
    let mut stories = Vec::new();
    for pattern in PATTERNS {
        let step = Step::begin(format!("{ranks} simulated processes, {}", pattern.name()));
        let (part, pace) = (Part::Simulated, options.simulated_pace);
        let tell_together = ranks / SIMULATED_NODES;
        let ring = Ring { options, part, pattern, ranks, tell_together, pace };
        let mut command = Command::new(&program);
        command.args(ring.words());
        for (name, number) in
            [("processes", ranks), ("nodes", SIMULATED_NODES), ("seed", options.seed)]
        {
            command.args([name, &number.to_string()]);
        }
        match ring.told_by(&command, Script::of_measurement(options.limit(), &[])?)? {
            Ok(story) => stories.push(story),
            Err(interrupted) => return Ok(Err(interrupted)),
        }
        step.finish();
    }
    Ok(Ok(stories))
}

/// A row for each ring.
fn table(stories: &[Story]) -> String {
    let header = [
        "part",
        "ranks",
        "pattern",
        "deaths",
        "lost",
        "hops: first",
        "last",
        "round trip/ms: first",
        "last",
        "all know/ms: median",
        "most",
    ];
    let time = |time: Option<f64>| time.map_or("-".to_owned(), |it| format!("{it:.3}"));
    let hops = |it: Option<(f64, u32)>| it.map_or("-".to_owned(), |(_, hops)| hops.to_string());
    let row = |story: &Story| {
        let ends = [story.tenth(0), story.tenth(9)];
        let took = |epoch: &story::Epoch| Some(epoch.known_to_all()? - epoch.at);
        let mut known: Vec<f64> = story.epochs.iter().filter_map(took).collect();
        known.sort_by(f64::total_cmp);
        vec![
            story.part.name().to_owned(),
            story.ranks.to_string(),
            story.pattern.name().to_owned(),
            story.epochs.len().to_string(),
            story.lost().to_string(),
            hops(ends[0]),
            hops(ends[1]),
            time(ends[0].map(|(trip, _)| trip)),
            time(ends[1].map(|(trip, _)| trip)),
            time(known.get(known.len() / 2).copied()),
            time(known.last().copied()),
        ]
    };
    let rows: Vec<Row> = stories.iter().map(row).collect();
    let words = "first, last: the median round trip of a tenth of the tokens, and the hops of one\n\
                 all know: from a death until the last survivor knew";
    format!("{}\n{words}", csv::table(&header, &rows))
}

/// What is below the figure: how everything in it was come by.
fn captions(options: &Options) -> Vec<String> {
    let Options { pace, simulated_pace, tokens, .. } = options;
    vec![
        "Paper: Bland 2012. Only what its text and its axes say: hops fall by one with each death, \
         or by two, evenly, until 2 processes are left; the epochs of its 2(a) are"
            .to_owned(),
        "straight lines. Drawn for as many processes as its cluster has nodes, 64. Its text has no \
         times, its axes of figure 1 end at 40 and 60, that of 2(b) is shown."
            .to_owned(),
        format!(
            "Real: {tokens} tokens, one every {pace} µs; each 8th is drawn, and each that is lost, \
             below the axis. Overhead, 2(b): a token's round trip by this library under our own"
        ),
        "launcher minus that of the token with its number by MPI alone, without fault tolerance, \
         under MPI's launcher, by the same transports, with a processor for each rank: MPI"
            .to_owned(),
        format!(
            "alone waits busily, and where ranks share processors that is all that would be seen. \
             Of each token the fastest of {ROUNDS} launches counts."
        ),
        format!(
            "Simulated: a token every {simulated_pace} µs; our observers on {SIMULATED_NODES} \
             nodes (packets 20 µs + 5 µs of chance), LogGP between processes; who shares a node"
        ),
        "shares an observer and learns at once, and one of each is drawn. What detection costs \
         tokens is not simulated: observers have processors of their own."
            .to_owned(),
    ]
}

#[cfg(test)]
fn captions_of_defaults() -> Vec<String> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }
    captions(&<Line as clap::Parser>::parse_from(["ring-token"]).options)
}
