//! A ring of cells that is spread over the ranks, checks itself, and loses ranks on purpose.
//!
//! Each step every rank sends its outermost cells to its neighbours and computes its cells anew
//! from themselves and those beside them. What comes out is the same on any number of ranks and
//! after any deaths, so at the end one rank computes the whole ring alone and compares. With
//! `--deaths SEED` processes end at random moments in random ways ([`deaths`]): in the middle of a
//! step, of a commit, of a recovery, while they join, while they are parked.
//!
//! The last line on standard output is
//! `ring: ranks=… steps=… digest=… generations=… communicators=… growth_kib=…`, and the exit status
//! is 0 only if the digest is that of the whole ring. `generations` counts the rebuilds,
//! `communicators` those of MPI that this process holds, and `growth_kib` the memory that it has
//! taken since a fifth of its steps. Used by `cargo fampi soak`.

mod deaths;
mod ring;

use std::{fs, process::ExitCode, str::FromStr};

use clap::{Parser, error::ErrorKind};
use fampi::{Error, Flow, ReduceOp, Tag, Timeout, World, policy};
use harness::process::{launched_as_first, once, refuse};

/// Bytes of a page of memory, as `/proc/self/statm` counts them.
const PAGE_KIB: u64 = 4;

#[derive(Clone, Copy, Parser)]
#[command(version, about = "A ring of cells that loses ranks on purpose and checks its result")]
struct Options {
    /// Steps to compute
    #[arg(long, default_value = "2000", value_parser = at_least::<1, u64>,
          allow_negative_numbers = true)]
    steps: u64,
    /// Cells of each rank, 1 or more
    #[arg(long, default_value = "2000", value_parser = at_least::<1, u32>,
          allow_negative_numbers = true)]
    cells: u32,
    /// Let processes die at random; the same seed gives the launched ones the same plans
    #[arg(long, value_name = "SEED", value_parser = at_least::<0, u64>,
          allow_negative_numbers = true)]
    deaths: Option<u64>,
}

/// A whole number that is not less than this one.
fn at_least<const LEAST: u8, T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number >= T::from(LEAST));
    number.ok_or_else(|| format!("write a whole number, {LEAST} or more"))
}

/// What the parser refused, in one sentence; or the help that was asked for.
fn explain(error: &clap::Error) -> ExitCode {
    let said = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return once(&said);
    }
    let what = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
    refuse("ring", launched_as_first(), &format!("{what}; --help lists the options"))
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain(&error),
    };
    if let Some(seed) = options.deaths
        && deaths::is_replacement()
    {
        deaths::threaten(seed, options.steps);
    }
    match run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("ring: WRONG: the digest is not the one of the whole ring");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::from(2)
        }
    }
}

/// True when the result is right.
fn run(options: Options) -> Result<bool, Error> {
    let mut world = fampi::init()?;
    if let Some(seed) = options.deaths
        && !deaths::is_replacement()
    {
        deaths::threaten(seed, options.steps);
    }
    let (rank, size) = (world.rank().number(), world.size());
    let mut cells = ring::initial(rank, options.cells);
    let (mut digest, mut taken) = (0, 0);
    let policy = policy::Rebuild::default();
    let ended = world.run(&policy, &mut cells, |step, cells| {
        deaths::step_begins(step.number());
        let ranks = step.comm().size();
        let beside = |by: u32| fampi::Rank::new((step.comm().rank().number() + by) % ranks);
        let (left, right) = (beside(ranks - 1), beside(1));
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        // With two ranks both are the same neighbour; the tags tell the directions.
        let from_left = step.irecv(vec![0], left, Tag(1))?;
        let from_right = step.irecv(vec![0], right, Tag(2))?;
        let sent = [step.isend(vec![last], right, Tag(1))?, step.isend(vec![first], left, Tag(2))?];
        step.waitall_local([from_left, from_right, sent[0], sent[1]], Timeout::Never)?;
        let halo = (step.take(from_left)?[0], step.take(from_right)?[0]);
        for request in sent {
            step.take(request)?;
        }
        ring::advance(cells, halo);
        let sum = step.iallreduce(vec![ring::digest(cells)], ReduceOp::Sum)?;
        step.wait_local(sum, Timeout::Never)?;
        digest = step.take(sum)?[0];
        if step.number() == options.steps / 5 {
            taken = resident_kib();
        }
        Ok(if step.number() + 1 < options.steps { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    deaths::spare_this_process();
    let right = rank != 0 || digest == ring::alone(size, options.cells, options.steps);
    if rank == 0 {
        report(&world, &options, digest, taken);
    }
    world.finalize();
    Ok(right)
}

fn report(world: &World, options: &Options, digest: u64, taken: u64) {
    let growth = if taken > 0 { resident_kib().saturating_sub(taken) } else { 0 };
    println!(
        "ring: ranks={} steps={} digest={digest:016x} generations={} communicators={} \
         growth_kib={growth}",
        world.size(),
        options.steps,
        world.generation(),
        fampi::mpi::communicators(),
    );
}

/// Memory of this process.
fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or_default() * PAGE_KIB
}
