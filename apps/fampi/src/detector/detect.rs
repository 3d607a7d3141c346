//! `fampi bench detect`: from a death to the news of it and to its agreed report, for each way to
//! die: with observers, with the node watcher alone, and by MPI's own reports alone.
//!
//! The program `benches/detect.rs` kills some ranks in each launch and prints a row for each. It is
//! launched until there are enough rows: hundreds of deaths in one job say more about a launcher
//! that has lost hundreds of processes than about detection. One round launches each setting for
//! each way to die once, so that what changes on the machine meanwhile touches all of them. A
//! launch that breaks off early is told and its rows count.
//!
//! Beside the rows their distribution is drawn, a chart for each way to die.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::nodes::Nodes;
use crate::plot::{self, Chart, Series, Upwards};
use crate::progress::Step;
use crate::refusal::{Misuse, whole};
use crate::session::{self, End, Script};
use crate::setup;
use crate::workspace::{Workspace, shown};

const COLUMNS: &str = "how,source,median_ms,p99_ms";
const HEADER: [&str; 4] = ["how", "source", "median/ms", "p99/ms"];
const LEGEND: &str = "\
board: the board of the node shows the death, with observers. Others, with observers and watcher,
with the watcher, with MPI alone: the report is agreed on the last survivor; -seen: the last
survivor knows of the death; -first: the same, of the first death in a launch alone.";
const WAYS: [&str; 5] = ["SIGKILL", "SIGSEGV", "exit(1)", "panic", "_exit(1)"];
/// Deaths in one launch: few, as the job changes with each of them.
const TRIALS_PER_LAUNCH: u32 = 8;
/// A launch takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Where news of a death may come from in a launch. Each tells what those after it tell, too.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    Observer,
    Watcher,
    Mpi,
}

const SETTINGS: [Setting; 3] = [Setting::Observer, Setting::Watcher, Setting::Mpi];

/// One death: the milliseconds from it to each of these.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Death {
    /// The first of its launch: MPI takes longest for that.
    is_first: bool,
    /// The board of the node shows it.
    board: f64,
    /// The last survivor knows of it.
    seen: f64,
    /// The last survivor has the agreed report.
    agreed: f64,
}

/// A row for each way to die: its name, where its deaths are from, and what is taken of each.
type Source = (&'static str, Setting, fn(&Death) -> Option<f64>);

const SOURCES: [Source; 8] = [
    ("board", Setting::Observer, |death| Some(death.board)),
    ("observer-seen", Setting::Observer, |death| Some(death.seen)),
    ("observer", Setting::Observer, |death| Some(death.agreed)),
    ("watcher-seen", Setting::Watcher, |death| Some(death.seen)),
    ("watcher", Setting::Watcher, |death| Some(death.agreed)),
    ("mpi-first", Setting::Mpi, |death| death.is_first.then_some(death.seen)),
    ("mpi-seen", Setting::Mpi, |death| Some(death.seen)),
    ("mpi", Setting::Mpi, |death| Some(death.agreed)),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Number of ranks to measure with, 4 or more
    #[arg(short = 'n', long, value_name = "N", default_value = "8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// Deaths for each row
    #[arg(long, value_name = "T", default_value = "200",
          value_parser = whole(1_u32..=10_000_000, "a number of deaths, 1 or more"),
          allow_negative_numbers = true)]
    trials: u32,
    /// Ways to die; all of them by default
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', default_values = WAYS,
          hide_default_value = true, value_parser = PossibleValuesParser::new(WAYS))]
    how: Vec<String>,
    /// Put the ranks on so many nodes in turns: name spaces of this machine, which take root
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole(1_u32..=64, "a number of nodes from 1 to 64"))]
    nodes: Option<u32>,
    /// Write the rows to this file, too, and draw their distribution beside it: the same name with
    /// the endings .svg and .png
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// All deaths by one way in one setting.
struct Study<'a> {
    way: &'a str,
    setting: Setting,
    deaths: Vec<Death>,
    launches: u32,
}

/// What all launches have in common.
struct Laboratory<'a> {
    mpi: &'a Installation,
    program: PathBuf,
    observer: PathBuf,
    options: &'a Options,
    /// Where the ranks are, unless all are here.
    nodes: Option<Nodes>,
    /// For the time of death.
    folder: tempfile::TempDir,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    launcher::check_room(options.ranks)?;
    if options.ranks < 4 {
        return Err(Misuse("measure with 4 ranks or more, as one dies at a time".to_owned()).into());
    }
    let picture = options.csv.as_deref().map(picture_beside).transpose()?;
    let csv = Csv::open(options.csv.as_deref())?;
    let studies = match studies(workspace, options)? {
        Ok(studies) => studies,
        Err(interrupted) => return Ok(interrupted),
    };
    let rows: Vec<Row> = options.how.iter().flat_map(|way| rows_of(way, &studies)).collect();
    csv.write(COLUMNS, &rows)?;
    println!("{}\n{LEGEND}", csv::table(&HEADER, &rows));
    if let Some((folder, name)) = picture {
        for file in draw(&studies, options, &folder, &name)? {
            say!("fampi: {}", shown(&file));
        }
    }
    Ok(0)
}

/// The deaths by each way in each setting; or the status when a signal came.
fn studies<'a>(workspace: &Workspace, options: &'a Options) -> Result<Result<Vec<Study<'a>>, u8>> {
    let mpi = setup::ensure(workspace)?;
    let laboratory = Laboratory {
        mpi: &mpi,
        program: cargo::build(workspace, Program::benchmark("detect"))?,
        observer: cargo::build(workspace, Program::observer().at_its_best())?,
        options,
        nodes: options.nodes.map(|number| Nodes::new(number, &[])).transpose()?,
        folder: tempfile::tempdir().context("cannot make a temporary folder")?,
    };
    let study = |way, setting| Study { way, setting, deaths: Vec::new(), launches: 0 };
    let all = options.how.iter().flat_map(|way| SETTINGS.map(|setting| study(way, setting)));
    let mut studies: Vec<Study<'_>> = all.collect();
    let step = Step::begin(format!("{} deaths for each row", options.trials));
    while studies.iter().any(|study| study.missing(options) > 0) {
        for study in studies.iter_mut().filter(|study| study.missing(options) > 0) {
            step.say(&format!("{} of them, now by {}", study.deaths.len(), study.way));
            if let End::Interrupted(signal) = study.launch(&laboratory)? {
                return Ok(Err(End::Interrupted(signal).status()));
            }
        }
    }
    step.finish();
    Ok(Ok(studies))
}

/// A source and its times.
pub(super) type Told = (&'static str, Vec<f64>);

/// Of so many deaths by SIGKILL among these ranks, the sources of [`SOURCES`] with the milliseconds
/// of each, ascending; or the status when a signal came.
pub(super) fn kills(
    workspace: &Workspace,
    [ranks, trials]: [u32; 2],
    nodes: Option<u32>,
) -> Result<Result<Vec<Told>, u8>> {
    let how = vec![WAYS[0].to_owned()];
    let options = Options { ranks, trials, how, nodes, csv: None };
    Ok(studies(workspace, &options)?.map(|studies| sources(WAYS[0], &studies).collect()))
}

/// Folder and name, without an ending, of the pictures beside this file.
fn picture_beside(csv: &Path) -> Result<(PathBuf, String), Misuse> {
    let ending = csv.extension().unwrap_or_default();
    let name = csv.file_stem().map(|name| name.to_string_lossy().into_owned());
    match (csv.parent(), name) {
        (Some(folder), Some(name)) if ending != "svg" && ending != "png" => {
            Ok((folder.to_owned(), name))
        }
        _ => Err(Misuse(
            "name the file of --csv otherwise, as in detect.csv: its name with .svg \
                         and .png is for the pictures"
                .to_owned(),
        )),
    }
}

impl Study<'_> {
    /// How many deaths are to come. One that is never reported says it all.
    fn missing(&self, options: &Options) -> u32 {
        let missing = options.trials.saturating_sub(self.deaths.len() as u32);
        if self.is_never_reported() { 0 } else { missing }
    }

    fn launch(&mut self, laboratory: &Laboratory<'_>) -> Result<End> {
        let Laboratory { mpi, program, observer, options, nodes, folder } = laboratory;
        let most = 3 + 2 * options.trials.div_ceil(TRIALS_PER_LAUNCH);
        let (way, told) = (self.way, self.deaths.len());
        if self.launches == most {
            bail!("{most} launches gave {told} of {} deaths by {way}", options.trials);
        }
        self.launches += 1;
        let trials = self.missing(options).min(TRIALS_PER_LAUNCH);
        let extra = nodes.as_ref().map(|nodes| nodes.arguments(options.ranks, true)).transpose()?;
        let extra = extra.unwrap_or_default();
        let mut command = Launcher::with(mpi, &extra).of_failing().command(options.ranks, program);
        command.args([way, &trials.to_string()]).arg(folder.path().join("death"));
        let watches = self.setting != Setting::Mpi;
        command.env("FAMPI_NODE_WATCHER", if watches { "on" } else { "off" });
        match self.setting {
            Setting::Observer => command.env("FAMPI_OBSERVER", observer),
            Setting::Watcher | Setting::Mpi => command.env_remove("FAMPI_OBSERVER"),
        };
        command.env("RUST_BACKTRACE", "0");
        if let Some(nodes) = nodes {
            command = nodes.first(command);
        }
        let spaces = nodes.as_ref().map(Nodes::spaces).unwrap_or_default();
        let leftovers = [folder.path()];
        let script = Script { spaces: &spaces, ..Script::of_measurement(LIMIT, &leftovers)? };
        let finished = session::run(&command, script)?;
        self.deaths.extend(deaths_of(&finished.lines, way));
        let done = self.deaths.len() - told;
        let broke_off = done < trials as usize && !self.is_never_reported();
        if broke_off && !matches!(finished.end, End::Interrupted(_)) {
            say!("fampi: a launch broke off after {done} of {trials} deaths");
        }
        Ok(finished.end)
    }

    fn is_never_reported(&self) -> bool {
        self.deaths.iter().any(|death| death.agreed.is_infinite())
    }

    /// The times of a source, ascending. What once was never reported never is.
    fn times(&self, of: fn(&Death) -> Option<f64>) -> Vec<f64> {
        if self.is_never_reported() {
            return vec![f64::INFINITY];
        }
        let mut times: Vec<f64> = self.deaths.iter().filter_map(of).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// The deaths in rows that begin with the way to die, in their order.
fn deaths_of(lines: &[String], way: &str) -> Vec<Death> {
    let rows = lines.iter().filter_map(|line| line.trim().strip_prefix(way)?.strip_prefix(','));
    let numbers = rows.filter_map(|row| row.split(',').map(|it| it.parse().ok()).collect());
    let three = numbers.filter_map(|row: Vec<f64>| <[f64; 3]>::try_from(row).ok());
    let death = |(at, [board, seen, agreed]): (usize, [f64; 3])| Death {
        is_first: at == 0,
        board,
        seen,
        agreed,
    };
    three.enumerate().map(death).collect()
}

/// Names and times of all sources of a way to die.
fn sources<'a>(
    way: &'a str,
    studies: &'a [Study<'_>],
) -> impl Iterator<Item = (&'static str, Vec<f64>)> + 'a {
    SOURCES.iter().filter_map(move |(name, setting, of)| {
        let mut studies = studies.iter();
        let study = studies.find(|study| study.way == way && study.setting == *setting)?;
        Some((*name, study.times(*of)))
    })
}

fn rows_of(way: &str, studies: &[Study<'_>]) -> Vec<Row> {
    let row = |(name, times): (&str, Vec<f64>)| {
        let (median, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
        [way, name, &number(median), &number(p99)].map(str::to_owned).to_vec()
    };
    sources(way, studies).map(row).collect()
}

/// A chart for each way to die, with a line for each source.
fn draw(
    studies: &[Study<'_>],
    options: &Options,
    folder: &Path,
    name: &str,
) -> Result<[PathBuf; 2]> {
    let caption = format!(
        "{} deaths of one of {} ranks for each line; -seen: the last survivor knows; without: \
         the report is agreed",
        options.trials, options.ranks
    );
    let chart = |way: &'static str| {
        let lines = sources(way, studies).filter(|(name, _)| *name != "mpi-first");
        let line = |(name, times): (&str, Vec<f64>)| match times.last() {
            Some(last) if last.is_finite() => Series::distribution(name.to_owned(), &times),
            _ => Series::distribution(format!("{name}: not always"), &times),
        };
        Chart {
            title: way,
            caption: &caption,
            x: "ms from the death",
            y: "share of the deaths",
            upwards: Upwards::Share,
            series: lines.map(line).collect(),
        }
    };
    let ways = WAYS.into_iter().filter(|way| options.how.iter().any(|asked| asked == way));
    plot::write_below_each_other(&ways.map(chart).collect::<Vec<_>>(), folder, name)
}

/// The value below which this part of the sorted numbers is.
pub(super) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * part).round() as usize).copied().unwrap_or(f64::INFINITY)
}

fn number(milliseconds: f64) -> String {
    if milliseconds.is_finite() { format!("{milliseconds:.2}") } else { "inf".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f64 = f64::INFINITY;

    #[test]
    fn rows_of_one_way_are_told_from_noise() {
        let printed = [
            "exit(1),0.5,1,2.5",
            "noise",
            "_exit(1),1,2,3",
            "exit(1),inf,inf,inf",
            "exit(1),x,1,2",
            "exit(1),1",
        ];
        let lines = printed.map(str::to_owned);
        let [first, second] = deaths_of(&lines, "exit(1)")[..] else { panic!("two deaths") };
        assert_eq!(first, Death { is_first: true, board: 0.5, seen: 1.0, agreed: 2.5 });
        assert_eq!(second, Death { is_first: false, board: NEVER, seen: NEVER, agreed: NEVER });
        assert_eq!(deaths_of(&lines, "_exit(1)").len(), 1);
    }

    #[test]
    fn every_source_has_a_row_for_each_way_and_the_first_deaths_count_for_one_alone() {
        let death = |is_first, agreed| Death { is_first, board: 0.25, seen: agreed / 2.0, agreed };
        let study = |way, setting| {
            let deaths = vec![death(true, 80.0), death(false, 4.0), death(false, 2.0)];
            Study { way, setting, deaths, launches: 1 }
        };
        let ways = ["SIGKILL", "_exit(1)"];
        let studies: Vec<Study<'_>> =
            ways.iter().flat_map(|way| SETTINGS.map(|it| study(way, it))).collect();
        for way in ways {
            let rows: Vec<String> =
                rows_of(way, &studies).iter().map(|row| row[1..].join(",")).collect();
            let seen = "2.00,40.00";
            let expected = [
                "board,0.25,0.25".to_owned(),
                format!("observer-seen,{seen}"),
                "observer,4.00,80.00".to_owned(),
                format!("watcher-seen,{seen}"),
                "watcher,4.00,80.00".to_owned(),
                "mpi-first,40.00,40.00".to_owned(),
                format!("mpi-seen,{seen}"),
                "mpi,4.00,80.00".to_owned(),
            ];
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn quantiles_of_sorted_numbers() {
        let numbers: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((quantile(&numbers, 0.5), quantile(&numbers, 0.99)), (50.0, 99.0));
        assert_eq!(number(quantile(&[1.0, NEVER], 0.99)), "inf");
        assert_eq!(number(quantile(&[], 0.5)), "inf");
    }

    #[test]
    fn the_pictures_are_beside_the_rows_and_never_in_their_place() {
        let beside = picture_beside(Path::new("out/detect.csv")).expect("a name");
        assert_eq!(beside, (PathBuf::from("out"), "detect".to_owned()));
        assert!(picture_beside(Path::new("detect.svg")).is_err());
        assert!(picture_beside(Path::new("/")).is_err());
    }
}
