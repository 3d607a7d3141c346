//! `fampi bench all`: every measurement, several times, into one page.
//!
//! ```text
//!  this tool ── starts itself ──▶ fampi bench commit --ranks 2,4,8 --csv FILE     RUNS times each,
//!      │                          fampi bench library …                     simulations once
//!      ▼ median (least to greatest) of all runs, one table for each command
//!  benches/BENCHMARKS.md ──▶ the table of README.md, between its two marks
//! ```
//!
//! Runs of one command are apart in time, as the commands take turns: what else goes on at this
//! machine for a while meets one run of each.
//!
//! **Guarantees.** A file changes only when every measurement has succeeded, in one step. What is
//! left out without root is named on the page. Each
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
use crate::scale;
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
    /// The words after `cargo fampi`.
    words: &'static str,
    /// These words when it is to be quick.
    quick: &'static str,
    /// How many columns, from the left, say what a row is about. All others are numbers.
    keys: usize,
    /// The headings of all columns.
    header: &'static [&'static str],
    how: How,
}

/// How numbers come about.
#[derive(Clone, Copy, Eq, PartialEq)]
enum How {
    Measured,
    /// With nodes made of this machine's name spaces, which takes root; left out without.
    OnNodes,
    /// By a simulation that gives the same each time, and runs once.
    Simulated,
}

const BENCHES: [Bench; 13] = [
    Bench {
        title: "Commit",
        about: "Start, finish and wait of a global block without requests, beside MPI's own calls, \
                alternating in one launch. `fused` is a commit that reduces an `f64`; `exchange` \
                is MPI's messages that a commit would take between nodes.",
        words: "bench commit --ranks 2,4,8",
        quick: "bench commit --ranks 2 -- 4",
        keys: 2,
        header: &["ranks", "operation", "µs", "ratio to `MPI_Iallreduce` + wait"],
        how: How::Measured,
    },
    Bench {
        title: "Commit on several nodes",
        about: "As above, with ranks on two or four nodes of one machine: each is a network name \
                space with a processor of its own as long as there are enough, and messages \
                between nodes go by TCP through a bridge. Consecutive ranks share a node (`slot`), \
                or take turns on the nodes (`node`). A rank that is alone on its node gains \
                nothing over bare messages; those of one node vote through memory, but share the \
                processor with the head of their node; and nodes that share a processor send and \
                receive one after the other.",
        words: "bench commit --nodes 2,4 --ranks 2,4,8 -- 15 iallreduce commit fused exchange \
                allreduce",
        quick: "bench commit --nodes 2 --ranks 2 -- 2 iallreduce commit",
        keys: 4,
        header: &[
            "nodes",
            "placed by",
            "ranks",
            "operation",
            "µs",
            "ratio to `MPI_Iallreduce` + wait",
        ],
        how: How::OnNodes,
    },
    Bench {
        title: "Commit on up to a million ranks, one on each node",
        about: SCALE,
        words: "sim scale --ranks 1024,32768,1048576 --deaths 0 --node 1",
        quick: "sim scale --ranks 16 --deaths 0 --node 1",
        keys: 3,
        header: &scale::HEADER,
        how: How::Simulated,
    },
    Bench {
        title: "Commit on up to a million ranks, 32 on each node",
        about: "As above, with a latency of 0.1 µs on a node.",
        words: "sim scale --ranks 1024,32768,1048576 --deaths 0 --node 32",
        quick: "sim scale --ranks 16 --deaths 0 --node 4",
        keys: 3,
        header: &scale::HEADER,
        how: How::Simulated,
    },
    Bench {
        title: "Blocks from C",
        about: "A block with messages of 4 bytes, of which half come and half go, from C, in turns \
                with the same from Rust: each request is freed by itself in C, and asked for its \
                buffer in Rust. Without messages it is the commit alone. Plain MPI is \
                `MPI_Waitall` and `MPI_Iallreduce` + wait, in the same launch.",
        words: "bench library --ranks 2,3,4",
        quick: "bench library --ranks 2 -- 40",
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
        how: How::Measured,
    },
    Bench {
        title: "Block",
        about: "A block with requests, of which half receive and half send, beside `MPI_Waitall` \
                over as many and `MPI_Iallreduce` + wait: by one call for each request, and by \
                `isend_all` and `irecv_all`.",
        words: "bench block --ranks 2,4 -- 60",
        quick: "bench block --ranks 2 -- 3 4 40",
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
        how: How::Measured,
    },
    Bench {
        title: "LULESH, 10³ elements on each rank",
        about: "A cycle with blocks, beside one of the plain program, in turns in one launch: the \
                time step on the commit, by a reduction, on the commit with copies every ten \
                cycles, and as the program is by default, with copies as often as pays.",
        words: "bench lulesh --ranks 8 -- 10 30 180",
        quick: "bench lulesh --ranks 8 -- 3 4 2",
        keys: 3,
        header: LULESH,
        how: How::Measured,
    },
    Bench {
        title: "LULESH, 20³ elements on each rank",
        about: "As above, with cycles that compute more.",
        words: "bench lulesh --ranks 8 -- 20 60 14",
        quick: "bench lulesh --ranks 8 -- 4 4 2",
        keys: 3,
        header: LULESH,
        how: How::Measured,
    },
    Bench {
        title: "MiniFE, 64³ elements",
        about: "An iteration with blocks, beside one of the plain program, in turns in one launch: \
                both sums on commits, or by reductions, without copies; and as the program is by \
                default, with copies as often as pays.",
        words: "bench minife --ranks 4 -- 64 100 50",
        quick: "bench minife --ranks 4 -- 8 4 2",
        keys: 3,
        header: &["ranks", "edge", "way", "iteration/ms", "ratio to plain"],
        how: How::Measured,
    },
    Bench {
        title: "Detection",
        about: "From the death of one of 8 ranks to the board of the node's observer, to the last \
                survivor that knows (`-seen`), and to the report agreed on the last survivor: with \
                observers, with the watcher in each rank, and by MPI alone; `-first` is the first \
                death of a launch.",
        words: "bench detect --ranks 8 --trials 200",
        quick: "bench detect --ranks 4 --trials 2 --how SIGKILL",
        keys: 2,
        header: &["way to die", "source", "median/ms", "99th percentile/ms"],
        how: How::Measured,
    },
    Bench {
        title: "Recovery",
        about: "From a death to restored data, 1 MiB on each rank, each phase on the last rank; \
                where processes are spawned, of half as many deaths. One after the other a \
                recovery with a spare takes at most 9 log₂ n messages, 23 with 8 ranks and 58 with \
                128 (`tests/operations/critical_path.rs`).",
        words: "bench recovery --ranks 4,8 --trials 100",
        quick: "bench recovery --ranks 2 --trials 2",
        keys: 3,
        header: &["ranks", "phase", "way", "median/ms", "99th percentile/ms"],
        how: How::Measured,
    },
    Bench {
        title: "Protected states",
        about: "What it costs to protect a state by where it is kept, from the start of a block to \
                its verdict, beside a copy in memory on all ranks at once, a plain exchange of the \
                same bytes, the copies and messages by which Fenix's in-memory redundancy keeps a \
                state at a partner (`as-fenix`, without Fenix itself), and a synced file of each \
                rank. All pages have changed, or so many of them.",
        words: "bench data --ranks 2,8 --mib 16,64",
        quick: "bench data --ranks 2 --mib 1",
        keys: 4,
        header: &[
            "ranks",
            "MiB",
            "level",
            "phase",
            "median/ms",
            "MiB/s",
            "ratio to memcpy",
            "ratio to exchange",
        ],
        how: How::Measured,
    },
    Bench {
        title: "Noise of the observers",
        about: "What observers and their heartbeats cost a job that loses no rank: the ratio to \
                turns without them in the launch, and the interval that holds the true median \
                with 95 % certainty.",
        words: "bench noise",
        quick: "bench noise --rounds 2 --launches 1 --periods 100",
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
        how: How::Measured,
    },
];

const SCALE: &str = "Simulated, not measured: µs by the cost model LogGP, with a latency of 2.5 µs \
                     between nodes, without deaths.";
const LULESH: &[&str] = &["ranks", "edge", "way", "cycle/ms", "ratio to plain"];

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let mpi = setup::ensure(workspace)?;
    let runs = if options.quick { 1 } else { options.runs };
    let may_make_nodes = rustix::process::geteuid().is_root();
    let mut tables: Vec<Vec<Vec<Row>>> = BENCHES.iter().map(|_| Vec::new()).collect();
    for run in 1..=runs {
        for (bench, table) in BENCHES.iter().zip(&mut tables) {
            if run > 1 && bench.how == How::Simulated {
                continue;
            }
            if bench.how == How::OnNodes && !may_make_nodes {
                say!("fampi: left out, as it takes root: `cargo fampi {}`", bench.words);
                continue;
            }
            let words = if options.quick { bench.quick } else { bench.words };
            let step = Step::begin(format!("run {run} of {runs}: {words}"));
            table.push(rows(workspace, bench, words)?);
            step.finish();
        }
    }
    let summary = |(bench, runs): (&'static Bench, &Vec<Vec<Row>>)| {
        let is_left_out = bench.how == How::OnNodes && runs.is_empty();
        let rows = if is_left_out { Vec::new() } else { page::summary(bench.keys, runs)? };
        Ok((bench, rows))
    };
    let summaries: Vec<(&Bench, Vec<Row>)> =
        BENCHES.iter().zip(&tables).map(summary).collect::<Result<_>>()?;
    let about = page::machine(&mpi.facts.version.to_string(), runs, options.quick)?;
    let text = page::page(&about, &summaries, options.quick);
    if let Some(path) = &options.to {
        write(path, &text)?;
        say!("fampi: {}", shown(path));
    } else if options.quick {
        print!("{text}");
    } else {
        let readme = workspace.root().join("README.md");
        let old = fs::read_to_string(&readme).context("cannot read README.md")?;
        let new = page::with_table(&old, &page::readme_table(&summaries)?)?;
        write(&workspace.root().join(PAGE), &text)?;
        write(&readme, &new)?;
        say!("fampi: wrote {PAGE}, and the table of README.md");
    }
    Ok(0)
}

/// Runs one measurement by this tool itself; its rows.
fn rows(workspace: &Workspace, bench: &Bench, words: &str) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let csv = folder.path().join("rows.csv");
    let mut command = Command::new(guard::tool());
    let (ours, program) = words.split_once(" -- ").unwrap_or((words, ""));
    command.args(ours.split(' ')).arg("--csv").arg(&csv);
    if !program.is_empty() {
        command.arg("--").args(program.split(' '));
    }
    command.current_dir(workspace.root());
    let script = Script { timeout: Some(LIMIT), collect: true, ..Script::default() };
    let finished = session::run(&command, script)?;
    match finished.end {
        End::Exited(0) => {}
        end => {
            let sentence = format!("`{words}` failed: nothing was written");
            return Err(Stopped { status: end.status().max(1), sentence }.into());
        }
    }
    let text = fs::read_to_string(&csv).context("the rows are gone")?;
    let rows: Vec<Row> =
        text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect();
    let width = bench.header.len();
    if rows.is_empty() || rows.iter().any(|row: &Row| row.len() != width) {
        bail!("`{words}` wrote no rows of {width} columns: nothing was written");
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
