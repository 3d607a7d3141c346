//! `fampi bench library`: what a commit, and a block with messages, cost from C, beside the same
//! from Rust.
//!
//! ```text
//!  messages   from Rust    from C               beside, in each of the two
//!  none       commit       ffi/benches/commit   MPI_Iallreduce, MPI_Wait
//!  some       block        ffi/benches/block    MPI_Waitall, MPI_Iallreduce, MPI_Wait
//! ```
//!
//! Two programs for each, as each has its own way into MPI, in turns, so that whatever else goes on
//! meets both. Each measures plain MPI, too, in turns within its launch: a ratio to plain MPI is of
//! one launch. All numbers are the medians of those of all turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fampi_kit::median::median;

use crate::cargo::{self, Program};
use crate::csv::Options;
use crate::csv::{self, Csv, Row};
use crate::install;
use crate::installation::{Family, Installation};
use crate::launcher::{self, Launcher};
use crate::progress::Step;
use crate::refusal::{Misuse, Stopped};
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::Workspace;

const TURNS: usize = 15;
/// What both programs print about commits, and what each prints about blocks.
const OF_COMMITS: &str = "ranks,operation,median_us,ratio_to_iallreduce";
const OF_BLOCKS: &str = "ranks,messages,plain_us,block_us,ratio";
const OF_RUST_BLOCKS: &str = "ranks,bytes,requests,plain_us,block_us,ratio,all_us,all_ratio";
/// Numbers of messages in a block, unless the command line has others.
const MESSAGES: [&str; 3] = ["40", "400", "2000"];
/// Batches of each way in a launch.
const BATCHES: &str = "60";
const COLUMNS: &str = "ranks,messages,rust_us,c_us,c_to_rust,plain_us,rust_to_plain,c_to_plain";
const HEADER: [&str; 8] = [
    "ranks",
    "messages",
    "Rust/µs",
    "C/µs",
    "C to Rust",
    "plain MPI/µs",
    "Rust to plain",
    "C to plain",
];

pub(crate) const NOT_ON_MPICH: &str =
    "it measures the C library, with Open MPI alone: leave --mpi out";

/// The programs that measure.
struct Programs {
    commit: [PathBuf; 2],
    block: [PathBuf; 2],
    /// How long each may take.
    limit: Duration,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    if options.mpi == Family::Mpich {
        return Err(Misuse(NOT_ON_MPICH.to_owned()).into());
    }
    options.ranks.iter().try_for_each(|&ranks| launcher::check_room(ranks))?;
    let messages = messages(&options.arguments)?;
    let csv = Csv::open(options.csv.as_deref())?;
    let mpi = setup::ensure(workspace)?;
    let of_rust = |name| cargo::build(workspace, Program::benchmark(name));
    let of_c = |name| compile(workspace, &mpi, name);
    let programs = Programs {
        commit: [of_rust("commit")?, of_c("commit")?],
        block: [of_rust("block")?, of_c("block")?],
        limit: options.limit(),
    };
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        let step = Step::begin(format!("measure with {ranks} ranks"));
        let turns = (0..TURNS).map(|_| turn(&mpi, ranks, &programs, &messages));
        let turns = turns.collect::<Result<Vec<_>>>()?;
        rows.extend(table(ranks, &messages, &turns));
        step.finish();
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}", csv::table(&HEADER, &rows));
    Ok(0)
}

/// The numbers of messages to measure with.
fn messages(arguments: &[String]) -> Result<Vec<String>> {
    if let Some(odd) = arguments.iter().find(|it| it.parse::<u16>().map_or(true, |it| it == 0)) {
        let sentence = format!("{odd} is no number of messages: give numbers from 1 to 65535");
        return Err(Stopped { status: 2, sentence }.into());
    }
    let usual = || MESSAGES.map(str::to_owned).to_vec();
    Ok(if arguments.is_empty() { usual() } else { arguments.to_vec() })
}

/// What one kind of block took: from Rust, from C, and both beside plain MPI.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Took {
    rust: f64,
    c: f64,
    plain: f64,
    rust_to_plain: f64,
    c_to_plain: f64,
}

/// All programs once: the commit, then the blocks with these numbers of messages.
fn turn(
    mpi: &Installation,
    ranks: u32,
    programs: &Programs,
    messages: &[String],
) -> Result<Vec<Took>> {
    let run = |program: &Path, words: &[&str]| {
        let mut command = Launcher::new(mpi).command(ranks, program);
        command.args(words);
        lines_of(&command, ranks, programs.limit)
    };
    let [rust, c] = &programs.commit;
    // What the program in C does, in the same turns.
    let of_rust = run(rust, &[BATCHES, "iallreduce", "commit", "allreduce"])?;
    let (of_rust, of_c) = (csv::rows_of(&of_rust, OF_COMMITS), run(c, &[])?);
    let mut took = vec![commits(&of_rust, &csv::rows_of(&of_c, OF_COMMITS))?];
    let [rust, c] = &programs.block;
    let words: Vec<&str> =
        std::iter::once(BATCHES).chain(messages.iter().map(String::as_str)).collect();
    let of_rust = run(rust, &[&words[..], &["bytes=4"]].concat())?;
    let (of_rust, of_c) = (csv::rows_of(&of_rust, OF_RUST_BLOCKS), run(c, &words)?);
    let of_c = csv::rows_of(&of_c, OF_BLOCKS);
    for number in messages {
        took.push(blocks(number, &of_rust, &of_c)?);
    }
    Ok(took)
}

/// What both programs say about commits.
fn commits(of_rust: &[Row], of_c: &[Row]) -> Result<Took> {
    let of = |rows, name| number(rows, (1, name), 2);
    let (rust, c) = (of(of_rust, "commit")?, of(of_c, "commit")?);
    let (beside_rust, plain) = (of(of_rust, "iallreduce")?, of(of_c, "iallreduce")?);
    Ok(Took { rust, c, plain, rust_to_plain: rust / beside_rust, c_to_plain: c / plain })
}

/// What both programs say about blocks with so many messages.
fn blocks(messages: &str, of_rust: &[Row], of_c: &[Row]) -> Result<Took> {
    let [of_rust, of_c] =
        [(of_rust, 2), (of_c, 1)].map(|(rows, key)| move |at| number(rows, (key, messages), at));
    Ok(Took {
        rust: of_rust(4)?,
        c: of_c(3)?,
        plain: of_c(2)?,
        rust_to_plain: of_rust(5)?,
        c_to_plain: of_c(4)?,
    })
}

/// The rows of these turns: for the commit, which has no messages, and for each kind of block.
fn table(ranks: u32, messages: &[String], turns: &[Vec<Took>]) -> Vec<Row> {
    let none = "0".to_owned();
    let kinds = std::iter::once(&none).chain(messages).enumerate();
    let row = |(at, messages): (usize, &String)| {
        let of_turns = |of: fn(&Took) -> f64| {
            let all: Vec<f64> = turns.iter().map(|turn| of(&turn[at])).collect();
            format!("{:.3}", median(&all))
        };
        let c_to_rust = |it: &Took| it.c / it.rust;
        let numbers: [fn(&Took) -> f64; 6] = [
            |it| it.rust,
            |it| it.c,
            c_to_rust,
            |it| it.plain,
            |it| it.rust_to_plain,
            |it| it.c_to_plain,
        ];
        [ranks.to_string(), messages.clone()].into_iter().chain(numbers.map(of_turns)).collect()
    };
    kinds.map(row).collect()
}

/// Builds the C library and a program that measures it; where it is.
pub(crate) fn compile(workspace: &Workspace, mpi: &Installation, name: &str) -> Result<PathBuf> {
    let libraries = install::build(workspace, cargo::BEST)?;
    let (source, made) = (workspace.root().join("ffi"), libraries.join(format!("{name}-of-c")));
    let mut compiler = Command::new(mpi.prefix.join("bin/mpicc"));
    compiler.args(["-O2", "-I"]).arg(source.join("include")).arg("-o").arg(&made);
    let program = source.join("benches").join(name).with_extension("c");
    compiler.arg(program).arg("-L").arg(&libraries).arg("-lfampi");
    for folder in [&libraries, &mpi.prefix.join("lib")] {
        compiler.arg(format!("-Wl,-rpath,{}", folder.display()));
    }
    if !compiler.status().context("cannot start mpicc")?.success() {
        bail!("the program in C cannot be built: see above");
    }
    Ok(made)
}

/// What a program prints.
fn lines_of(command: &Command, ranks: u32, limit: Duration) -> Result<Vec<String>> {
    let script = Script { timeout: Some(limit), collect: true, ..Script::default() };
    let finished = session::run(command, script)?;
    let why = match finished.end {
        End::Exited(0) => return Ok(finished.lines),
        End::TimedOut => format!("did not end within {} s", limit.as_secs()),
        _ => "failed: see above".to_owned(),
    };
    bail!("the measurement with {ranks} ranks {why}");
}

/// The number in a column of the row that has this name in another column.
fn number(rows: &[Row], (key, name): (usize, &str), column: usize) -> Result<f64> {
    let row = rows.iter().find(|row| row[key] == name);
    let number = row.and_then(|row| row[column].parse().ok());
    number.with_context(|| format!("the measuring program printed no row about {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &str, text: &str) -> Vec<Row> {
        csv::rows_of(&text.lines().map(str::to_owned).collect::<Vec<_>>(), columns)
    }

    #[test]
    fn a_turn_compares_each_program_with_plain_mpi_in_its_own_launch() {
        let of_rust = rows(OF_COMMITS, "2,iallreduce,0.5,1\n2,commit,0.25,0.5");
        let of_c = rows(OF_COMMITS, "2,iallreduce,0.8,1\n2,commit,0.2,0.25");
        let took = commits(&of_rust, &of_c).expect("both rows");
        let (rust_to_plain, c_to_plain) = (0.5, 0.25);
        assert_eq!(took, Took { rust: 0.25, c: 0.2, plain: 0.8, rust_to_plain, c_to_plain });
        assert!(commits(&of_rust[..1], &of_c).is_err());

        let of_rust = rows(OF_RUST_BLOCKS, "2,4,40,3,6,2,5,1.7\n2,4,400,30,45,1.5,40,1.3");
        let of_c = rows(OF_BLOCKS, "2,40,4,8,2\n2,400,40,50,1.25");
        let took = blocks("400", &of_rust, &of_c).expect("both rows");
        let (rust_to_plain, c_to_plain) = (1.5, 1.25);
        assert_eq!(took, Took { rust: 45.0, c: 50.0, plain: 40.0, rust_to_plain, c_to_plain });
        assert!(blocks("2000", &of_rust, &of_c).is_err());
    }

    #[test]
    fn the_table_has_a_row_for_the_commit_and_one_for_each_number_of_messages() {
        let took = |c| Took { rust: 2.0, c, plain: 4.0, rust_to_plain: 0.5, c_to_plain: c / 4.0 };
        let turns = [vec![took(1.0), took(6.0)], vec![took(3.0), took(8.0)], vec![took(2.0); 2]];
        let table = table(3, &["40".to_owned()], &turns);
        let expected = [
            ["3", "0", "2.000", "2.000", "1.000", "4.000", "0.500", "0.500"],
            ["3", "40", "2.000", "6.000", "3.000", "4.000", "0.500", "1.500"],
        ];
        assert_eq!(table, expected);
        assert!(table.iter().all(|row| row.len() == HEADER.len()));
        assert_eq!(COLUMNS.split(',').count(), HEADER.len());
    }

    #[test]
    fn arguments_are_numbers_of_messages() {
        assert_eq!(messages(&[]).expect("the usual"), MESSAGES);
        assert_eq!(messages(&["7".to_owned()]).expect("a number"), ["7"]);
        assert!(messages(&["0".to_owned()]).is_err());
        assert!(messages(&["fast".to_owned()]).is_err());
    }
}
