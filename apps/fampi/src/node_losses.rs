//! `fampi bench nodes`: from the loss of a whole node to the report, and to a world that is whole
//! again, phase by phase.
//!
//! The program `benches/recovery.rs` runs on name spaces of this machine, by the launcher of our
//! own, and in each launch one node is lost, the first one as well as the others, in turns: all its
//! processes are killed, the daemon among them. Spares are on a node of their own, so that a
//! replacement is on another node in each case.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::{self, Program};
use crate::csv::{self, Csv, Row};
use crate::installation::Installation;
use crate::launcher::{self, Launcher};
use crate::nodes::Nodes;
use crate::recovery::{Way, measure};
use crate::refusal::{Misuse, whole};
use crate::session::{self, Script};
use crate::setup;
use crate::workspace::Workspace;

const COLUMNS: &str = "nodes,ranks,phase,how,median_ms,p99_ms";
const HEADER: [&str; 6] = ["nodes", "ranks", "phase", "how", "median/ms", "p99/ms"];
const LEGEND: &str = "\
report: from the loss to the agreed report, on the last survivor; the phases after it follow each
other, and total is from the loss to the last of them. Spares are on one more node.";
/// A launch takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(30);

const REBUILT: &[&str] = &["report", "irebuild", "restore", "total"];

const WAYS: [Way; 3] = [
    Way { name: "shrink", phases: &["report", "ishrink", "total"], has_spares: false },
    Way { name: "spares", phases: REBUILT, has_spares: true },
    Way { name: "spawn", phases: REBUILT, has_spares: false },
];

#[derive(Args)]
pub(crate) struct Options {
    /// On how many nodes the ranks are, 3 or more: name spaces of this machine, which take root
    #[arg(long, value_name = "N", default_value = "4", allow_negative_numbers = true,
          value_parser = whole(3_u32..=63, "a number of nodes from 3 to 63"))]
    nodes: u32,
    /// Number of ranks, as many on each node
    #[arg(short = 'n', long, value_name = "N", default_value = "8",
          value_parser = launcher::ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// Lost nodes for each row
    #[arg(long, value_name = "T", default_value = "20", allow_negative_numbers = true,
          value_parser = whole(1_u32..=10_000, "a number of lost nodes, from 1 to 10000"))]
    trials: u32,
    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// What all launches have in common.
struct Laboratory<'a> {
    mpi: &'a Installation,
    launcher: PathBuf,
    program: PathBuf,
    options: &'a Options,
    /// For the time of the loss.
    folder: &'a Path,
    /// What is in it is on no node.
    network: PathBuf,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let Options { nodes, ranks, .. } = *options;
    let each = ranks / nodes;
    if each == 0 || each * nodes != ranks {
        let advice = format!("{ranks} ranks are not as many on each of {nodes} nodes: try -n");
        return Err(Misuse(format!("{advice} {}", nodes * each.max(1))).into());
    }
    launcher::check_room(ranks.saturating_add(each))?;
    let csv = Csv::open(options.csv.as_deref())?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let laboratory = Laboratory {
        mpi: &setup::ensure(workspace)?,
        launcher: cargo::build(workspace, Program::node().at_its_best())?,
        program: cargo::build(workspace, Program::benchmark("recovery"))?,
        options,
        folder: folder.path(),
        network: fs::read_link("/proc/self/ns/net").context("name spaces take Linux")?,
    };
    let mut rows: Vec<Row> = Vec::new();
    for way in &WAYS {
        match laboratory.losses(way)? {
            Ok(new) => rows.extend(new),
            Err(interrupted) => return Ok(interrupted),
        }
    }
    csv.write(COLUMNS, &rows)?;
    println!("{}\n{LEGEND}", csv::table(&HEADER, &rows));
    Ok(0)
}

impl Laboratory<'_> {
    /// A row for each phase; or the status when a signal came.
    fn losses(&self, way: &Way) -> Result<Result<Vec<Row>, u8>> {
        let Options { nodes: number, ranks, trials, .. } = *self.options;
        let each = ranks / number;
        let spares = if way.has_spares { each } else { 0 };
        let nodes = Nodes::new(number + u32::from(way.has_spares), &[])?;
        let flags = nodes.own_arguments(ranks + spares)?;
        let what = format!("{trials} lost nodes of {number}");
        let rows = measure(&what, ranks, way, [trials, 1], |before, _| {
            let launcher = Launcher::with(self.mpi, &flags).by(Some(self.launcher.clone()));
            let mut command = launcher.command(ranks + spares, &self.program);
            let first = each * (before % number);
            command.args([way.name, "1"]).arg(self.folder.join("loss"));
            command.arg(first.to_string()).arg(&self.network);
            command.env("FAMPI_SPARES", spares.to_string()).env_remove("FAMPI_OBSERVER");
            let leftovers = [self.folder];
            let script = Script {
                elsewhere: true,
                spaces: &nodes.spaces(),
                ..Script::of_measurement(LIMIT, &leftovers)?
            };
            session::run(&nodes.beside(command), script)
        })?;
        let with_nodes = |row: Row| [number.to_string()].into_iter().chain(row).collect();
        Ok(rows.map(|rows| rows.into_iter().map(with_nodes).collect()))
    }
}
