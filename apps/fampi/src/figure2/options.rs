//! What the figure is drawn of: sizes, numbers of runs and of iterations.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::refusal::Misuse;

use super::situation::Application;

/// Below this the first, the middle and the last iteration are too close to each other.
const FEWEST_ITERATIONS: u32 = 8;

#[derive(Args)]
pub(crate) struct Options {
    /// Runs of each situation
    #[arg(long, value_name = "R", default_value = "5", value_parser = runs,
          allow_negative_numbers = true)]
    pub(super) runs: u32,
    /// Iterations and cycles of each run
    #[arg(long, value_name = "N", default_value = "200", value_parser = iterations,
          allow_negative_numbers = true)]
    pub(super) iterations: u32,
    /// Iterations between partner copies
    #[arg(long, value_name = "K", default_value = "10", value_parser = interval,
          allow_negative_numbers = true)]
    pub(super) protect_every: u32,
    /// Ranks of `MiniFE`, 4 or more
    #[arg(long, value_name = "N", default_value = "4", value_parser = ranks,
          allow_negative_numbers = true)]
    pub(super) minife_ranks: u32,
    /// Elements of `MiniFE` along x, y and z, or along each
    #[arg(long, value_name = "NX[,NY,NZ]", default_value = "64", value_parser = elements,
          allow_negative_numbers = true)]
    pub(super) minife_size: Elements,
    /// Ranks of LULESH, a cube of 2 or more
    #[arg(long, value_name = "N", default_value = "8", value_parser = cube,
          allow_negative_numbers = true)]
    pub(super) lulesh_ranks: u32,
    /// Elements of LULESH along each edge of a rank's cube
    #[arg(long, value_name = "S", default_value = "15", value_parser = edge,
          allow_negative_numbers = true)]
    pub(super) lulesh_size: u32,
    /// The sizes of the paper, for a cluster: 2000×1000×1000 elements on 1024 ranks, and a domain
    /// of 50³ on 1000
    #[arg(long, conflicts_with_all = ["minife_ranks", "minife_size", "lulesh_ranks",
                                      "lulesh_size"])]
    pub(super) paper: bool,
    /// The folder for `figure2.csv`, `figure2.svg`, `figure2.png` and what failed runs said
    /// [default: `figure2` below the folder of builds]
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
    /// End a run after so many seconds: it has failed
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = limit,
          allow_negative_numbers = true)]
    pub(super) timeout: Duration,
    /// Hand a flag to the launcher itself, as in --launcher-flag=--hostfile
    #[arg(long = "launcher-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(super) launcher_flags: Vec<String>,
}

/// Numbers of elements along x, y, z.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements([u32; 3]);

/// A whole number in a range, or this sentence.
fn number(text: &str, range: std::ops::RangeInclusive<u32>, sentence: &str) -> Result<u32, Misuse> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| Misuse(sentence.to_owned()))
}

fn runs(text: &str) -> Result<u32, Misuse> {
    number(text, 1..=1000, "write a number of runs, from 1 to 1000")
}

fn iterations(text: &str) -> Result<u32, Misuse> {
    let range = FEWEST_ITERATIONS..=1_000_000;
    number(text, range, "write a number of iterations, from 8 to 1000000")
}

fn interval(text: &str) -> Result<u32, Misuse> {
    number(text, 0..=1_000_000, "write a number of iterations, or 0 for no copies")
}

fn ranks(text: &str) -> Result<u32, Misuse> {
    let sentence = "two die at once that keep no copies for each other: write 4 ranks or more";
    number(text, 4..=u32::MAX, sentence)
}

fn cube(text: &str) -> Result<u32, Misuse> {
    let sentence = "the ranks of LULESH are a cube that can lose two: write 8, 27, 64 or so";
    let ranks = number(text, 8..=1_000_000, sentence)?;
    let is_cube = (2..=100_u32).any(|edge| edge.pow(3) == ranks);
    if is_cube { Ok(ranks) } else { Err(Misuse(sentence.to_owned())) }
}

fn edge(text: &str) -> Result<u32, Misuse> {
    number(text, 1..=1000, "write a number of elements, from 1 to 1000")
}

fn elements(text: &str) -> Result<Elements, Misuse> {
    let sentence = "write one number of elements, from 4 to 100000, or three with commas";
    let numbers = text.split(',').map(|text| number(text, 4..=100_000, sentence));
    match numbers.collect::<Result<Vec<u32>, Misuse>>()?[..] {
        [n] => Ok(Elements([n; 3])),
        [x, y, z] => Ok(Elements([x, y, z])),
        _ => Err(Misuse(sentence.to_owned())),
    }
}

fn limit(text: &str) -> Result<Duration, Misuse> {
    let seconds = number(text, 1..=1_000_000, "write a number of seconds, 1 or more")?;
    Ok(Duration::from_secs(seconds.into()))
}

impl Options {
    /// The options that these words mean.
    #[cfg(test)]
    pub(super) fn parse_from(words: &[&str]) -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let line = std::iter::once("figure2").chain(words.iter().copied());
        <Line as clap::Parser>::parse_from(line).options
    }

    pub(super) fn applications(&self) -> [Application; 2] {
        let (minife, size, lulesh, edge) = if self.paper {
            (1024, Elements([2000, 1000, 1000]), 1000, 5)
        } else {
            (self.minife_ranks, self.minife_size, self.lulesh_ranks, self.lulesh_size)
        };
        let Elements([x, y, z]) = size;
        let n = self.iterations;
        let minife_words = format!("nx={x} ny={y} nz={z} iterations={n} tolerance=0 yaml=none");
        [
            Application {
                name: "minife",
                title: "MiniFE",
                size: format!("{x}×{y}×{z} elements on {minife} ranks"),
                ranks: minife,
                words: minife_words,
                phase: "iteration",
            },
            Application {
                name: "lulesh",
                title: "LULESH",
                size: format!("{edge}³ elements on each of {lulesh} ranks"),
                ranks: lulesh,
                words: format!("s={edge} i={n} quiet"),
                phase: "cycle",
            },
        ]
    }

    /// What a reader of the figure has to know.
    pub(super) fn caption(&self) -> [String; 2] {
        let copies = match self.protect_every {
            0 => "no partner copies".to_owned(),
            k => format!("partner copies every {k}"),
        };
        let bars = match self.runs {
            1 => "Each bar is one run.".to_owned(),
            runs => format!(
                "Each bar is the median of {runs} runs, its line goes from the fastest to the \
                 slowest."
            ),
        };
        [
            format!(
                "{} iterations or cycles, {copies}; replacements are spawned, and merged or, with \
                 -R, put into the same ranks. {bars}",
                self.iterations
            ),
            "commit: the ends of blocks, with the reductions that ride on them and the wait for \
             the slowest rank, which without FA-MPI are part of the application."
                .to_owned(),
        ]
    }
}
