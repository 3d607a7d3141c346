//! `fampi bench all`: every measurement, several times, into one page.
//!
//! ```text
//!  this tool ── starts itself ──▶ fampi bench commit --ranks 2,4,8 --csv FILE     RUNS times each
//!      │                          fampi bench library …
//!      ▼ median (least to greatest) of all runs, one table for each command
//!  benches/BENCHMARKS.md ──▶ the table of README.md, between its two marks
//! ```
//!
//! Runs of one command are apart in time, as the commands take turns: what else goes on at this
//! machine for a while meets one run of each.
//!
//! **Guarantees.** A file changes only when every measurement has succeeded, in one step. Each
//! number of the README's table is copied from the page.

mod page;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::csv::Row;
use crate::guard;
use crate::progress::Step;
use crate::refusal::{Stopped, whole};
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::{Workspace, shown};

/// One measurement may take so long; it has limits of its own for each launch.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
const PAGE: &str = "benches/BENCHMARKS.md";

#[derive(Args)]
pub(crate) struct Options {
    /// How often each measurement is done
    #[arg(long, value_name = "R", default_value = "3", allow_negative_numbers = true,
          value_parser = whole(1_u32..=100, "a number of runs, from 1 to 100"))]
    runs: u32,
    /// Measure little, once: to see that the command works. The numbers mean nothing, so they are
    /// printed and not written, unless `--to` names a file
    #[arg(long)]
    quick: bool,
    /// Write the page to this file, and leave `benches/BENCHMARKS.md` and README.md alone
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// One command that measures, and how its rows are shown.
struct Bench {
    /// The title of its table.
    title: &'static str,
    /// What is measured, in one sentence or two.
    about: &'static str,
    /// The words after `cargo fampi bench`.
    words: &'static str,
    /// These words when it is to be quick.
    quick: &'static str,
    /// How many columns, from the left, say what a row is about. All others are numbers.
    keys: usize,
    /// The headings of all columns.
    header: &'static [&'static str],
}

const BENCHES: [Bench; 8] = [
    Bench {
        title: "Commit",
        about: "Start, finish and wait of a global block without requests, beside MPI's own calls, \
                alternating in one launch. `fused` is a commit that reduces an `f64`; `exchange` \
                is MPI's messages that a commit would take between nodes.",
        words: "commit --ranks 2,4,8",
        quick: "commit --ranks 2 -- 4",
        keys: 2,
        header: &["ranks", "operation", "µs", "ratio to `MPI_Iallreduce` + wait"],
    },
    Bench {
        title: "Blocks from C",
        about: "A block with messages of 4 bytes, of which half come and half go, from C, in turns \
                with the same from Rust: each request is freed by itself in C, and asked for its \
                buffer in Rust. Without messages it is the commit alone. Plain MPI is \
                `MPI_Waitall` and `MPI_Iallreduce` + wait, in the same launch.",
        words: "library --ranks 2,3,4",
        quick: "library --ranks 2 -- 40",
        keys: 2,
        header: &[
            "ranks",
            "messages",
            "Rust/µs",
            "C/µs",
            "C to Rust",
            "plain MPI/µs",
            "Rust to plain",
            "C to plain",
        ],
    },
    Bench {
        title: "Block",
        about: "A block with requests, of which half receive and half send, beside `MPI_Waitall` \
                over as many and `MPI_Iallreduce` + wait: by one call for each request, and by \
                `isend_all` and `irecv_all`.",
        words: "block --ranks 2,4 -- 60",
        quick: "block --ranks 2 -- 3 4 40",
        keys: 3,
        header: &[
            "ranks",
            "bytes",
            "requests",
            "plain/µs",
            "by a call for each/µs",
            "ratio to plain",
            "all at once/µs",
            "ratio to plain",
        ],
    },
    Bench {
        title: "LULESH, 10³ elements on each rank",
        about: "A cycle with blocks, beside one of the plain program, in turns in one launch: the \
                time step on the commit, by a reduction, and on the commit with copies every ten \
                cycles.",
        words: "lulesh --ranks 8 -- 10 30 180",
        quick: "lulesh --ranks 8 -- 3 4 2",
        keys: 3,
        header: LULESH,
    },
    Bench {
        title: "LULESH, 20³ elements on each rank",
        about: "As above, with cycles that compute more.",
        words: "lulesh --ranks 8 -- 20 8 50",
        quick: "lulesh --ranks 8 -- 4 4 2",
        keys: 3,
        header: LULESH,
    },
    Bench {
        title: "Detection",
        about: "From the death of one of 8 ranks to the board of the node's observer, to the last \
                survivor that knows (`-seen`), and to the report agreed on the last survivor: with \
                observers, with the watcher in each rank, and by MPI alone; `-first` is the first \
                death of a launch.",
        words: "detect --ranks 8 --trials 200",
        quick: "detect --ranks 4 --trials 2 --how SIGKILL",
        keys: 2,
        header: &["way to die", "source", "median/ms", "99th percentile/ms"],
    },
    Bench {
        title: "Recovery",
        about: "From a death to restored data, 1 MiB on each rank, each phase on the last rank; \
                where processes are spawned, of half as many deaths.",
        words: "recovery --ranks 4,8 --trials 100",
        quick: "recovery --ranks 2 --trials 2",
        keys: 3,
        header: &["ranks", "phase", "way", "median/ms", "99th percentile/ms"],
    },
    Bench {
        title: "Noise of the observers",
        about: "What observers and their heartbeats cost a job that loses no rank: the ratio to \
                turns without them in the launch, and the interval that holds the true median \
                with 95 % certainty.",
        words: "noise",
        quick: "noise --rounds 2 --launches 1 --periods 100",
        keys: 3,
        header: &[
            "program",
            "period/ms",
            "service",
            "median/µs",
            "ratio",
            "from",
            "to",
            "observers/µs/s",
        ],
    },
];

const LULESH: &[&str] = &["ranks", "edge", "way", "cycle/ms", "ratio to plain"];

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let mpi = setup::ensure(workspace)?;
    let runs = if options.quick { 1 } else { options.runs };
    let mut tables: Vec<Vec<Vec<Row>>> = BENCHES.iter().map(|_| Vec::new()).collect();
    for run in 1..=runs {
        for (bench, table) in BENCHES.iter().zip(&mut tables) {
            let words = if options.quick { bench.quick } else { bench.words };
            let step = Step::begin(format!("run {run} of {runs}: bench {words}"));
            table.push(rows(workspace, bench, words)?);
            step.finish();
        }
    }
    let summaries: Vec<Vec<Row>> = BENCHES
        .iter()
        .zip(&tables)
        .map(|(bench, runs)| page::summary(bench.keys, runs))
        .collect::<Result<_>>()?;
    let about = page::machine(&mpi.facts.version.to_string(), runs, options.quick)?;
    let text = page::page(&about, &summaries, options.quick);
    if let Some(path) = &options.to {
        write(path, &text)?;
        eprintln!("fampi: {}", shown(path));
    } else if options.quick {
        print!("{text}");
    } else {
        let readme = workspace.root().join("README.md");
        let old = fs::read_to_string(&readme).context("cannot read README.md")?;
        let new = page::with_table(&old, &page::readme_table(&summaries)?)?;
        write(&workspace.root().join(PAGE), &text)?;
        write(&readme, &new)?;
        eprintln!("fampi: wrote {PAGE}, and the table of README.md");
    }
    Ok(0)
}

/// Runs one measurement by this tool itself; its rows.
fn rows(workspace: &Workspace, bench: &Bench, words: &str) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let csv = folder.path().join("rows.csv");
    let mut command = Command::new(guard::tool());
    let (ours, program) = words.split_once(" -- ").unwrap_or((words, ""));
    command.arg("bench").args(ours.split(' ')).arg("--csv").arg(&csv);
    if !program.is_empty() {
        command.arg("--").args(program.split(' '));
    }
    command.current_dir(workspace.root());
    let script = Script { timeout: Some(LIMIT), collect: true, ..Script::default() };
    let finished = session::run(&command, script)?;
    match finished.end {
        End::Exited(0) => {}
        end => {
            let sentence = format!("`bench {words}` failed: nothing was written");
            return Err(Stopped { status: end.status().max(1), sentence }.into());
        }
    }
    let text = fs::read_to_string(&csv).context("the rows are gone")?;
    let rows: Vec<Row> =
        text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect();
    let width = bench.header.len();
    if rows.is_empty() || rows.iter().any(|row: &Row| row.len() != width) {
        bail!("`bench {words}` wrote no rows of {width} columns: nothing was written");
    }
    Ok(rows)
}

/// Writes a file beside its place, and moves it there.
fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = || format!("cannot write {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(refused)?;
    file.write_all(text.as_bytes()).with_context(refused)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(file.path(), mode).with_context(refused)?;
    file.persist(path).with_context(refused)?;
    Ok(())
}
