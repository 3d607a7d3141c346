//! What a run says at its end: the last line on standard output and the YAML file.
//!
//! Sizes per rank are functions of the partition, so the report needs no gather. Times are those
//! of the rank that writes it, as in the reference; so are the conventions for counting
//! operations (elements as the length of a vector, stored entries for the matrix).

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::mesh::Mesh;
use crate::rows::RowMap;
use crate::system::SetupTimes;
use harness::account::Account;
use harness::digest::Digest;

/// The last line on standard output, by which two runs are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalLine {
    /// The number of ranks.
    pub ranks: usize,
    /// Unknowns of all ranks.
    pub rows: usize,
    /// Stored matrix entries of all ranks.
    pub nonzeros: usize,
    /// Committed iterations.
    pub iterations: u32,
    /// The norm that the last iteration began with.
    pub residual: f64,
    /// The largest difference from the series near the middle.
    pub max_error: f64,
    /// The value at the middle node.
    pub centre: f64,
    /// The fingerprint of the solution.
    pub digest: Digest,
}

impl fmt::Display for FinalLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, rows, nonzeros, iterations, .. } = self;
        write!(
            f,
            "minife: ranks={ranks} rows={rows} nnz={nonzeros} iterations={iterations} \
             residual={:.16e} max_error={:.16e} centre={:.16e} digest={}",
            self.residual, self.max_error, self.centre, self.digest
        )
    }
}

/// Time spent in the parts of the solve. Dot products are summed locally inside the kernels that
/// produce their operands, so `dot` is the reduction over the ranks, waiting included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SolveTimes {
    /// Vector updates.
    pub waxpy: Duration,
    /// Sums over the ranks.
    pub dot: Duration,
    /// Exchange and matrix product.
    pub matvec: Duration,
    /// The whole solve.
    pub total: Duration,
}

/// Everything that the YAML file says.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The name of the run.
    pub name: &'a str,
    /// Partition and sizes.
    pub row_map: &'a RowMap,
    /// The last line.
    pub result: FinalLine,
    /// Bytes of this rank's matrix.
    pub matrix_bytes: usize,
    /// Set-up times.
    pub setup: SetupTimes,
    /// Solve times.
    pub solve: SolveTimes,
    /// What resilience did, if it is on.
    pub resilience: Option<Account>,
    /// From start to report.
    pub program: Duration,
    /// When the report is made.
    pub now: SystemTime,
}

impl Report<'_> {
    /// The name of a new file: problem, ranks and time.
    #[must_use]
    pub fn file_name(&self) -> String {
        let [nx, ny, nz] = self.row_map.mesh().elements();
        let stamp = utc(self.now).replace(':', "-").replace(' ', "T");
        format!("miniFE.{nx}x{ny}x{nz}.P{}.{stamp}.yaml", self.row_map.ranks())
    }

    /// The text of the file.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_run(&mut text);
        let _ = self.write_matrix(&mut text);
        let _ = self.write_solve(&mut text);
        text
    }

    fn write_run(&self, out: &mut String) -> fmt::Result {
        let [nx, ny, nz] = self.row_map.mesh().elements();
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        writeln!(out, "Mini-Application Name: {:?}", self.name)?;
        writeln!(out, "Mini-Application Version: {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "Global Run Parameters:")?;
        writeln!(out, "  dimensions: {{nx: {nx}, ny: {ny}, nz: {nz}}}")?;
        writeln!(out, "  load_imbalance: {}", self.row_map.partition().imbalance_percent())?;
        writeln!(out, "  number of processors: {}", self.row_map.ranks())?;
        writeln!(out, "  ScalarType: f64")?;
        writeln!(out, "  GlobalOrdinalType: u64")?;
        writeln!(out, "  LocalOrdinalType: u32")?;
        writeln!(out, "Platform:")?;
        writeln!(out, "  system: {}", std::env::consts::OS)?;
        writeln!(out, "  processor: {}", std::env::consts::ARCH)?;
        writeln!(out, "Build:")?;
        writeln!(out, "  language: Rust")?;
        writeln!(out, "  profile: {build}")?;
        writeln!(out, "Run Date/Time: {:?}", utc(self.now))
    }

    fn write_matrix(&self, out: &mut String) -> fmt::Result {
        let rows = Spread::of(self.row_map.rows_per_rank());
        let nonzeros = Spread::of(self.row_map.nonzeros_per_rank());
        writeln!(out, "Rows-per-proc Load Imbalance:")?;
        writeln!(out, "  Largest (from avg, %): {}", 100.0 * (rows.max as f64 / rows.mean - 1.0))?;
        writeln!(out, "  Std Dev (%): {}", 100.0 * rows.deviation / rows.mean)?;
        writeln!(out, "Matrix structure generation:")?;
        writeln!(out, "  Mat-struc-gen Time: {}", self.setup.structure.as_secs_f64())?;
        writeln!(out, "FE assembly:")?;
        writeln!(out, "  FE assembly Time: {}", self.setup.assembly.as_secs_f64())?;
        writeln!(out, "  Dirichlet Time: {}", self.setup.boundary.as_secs_f64())?;
        writeln!(out, "Matrix attributes:")?;
        writeln!(out, "  Global Nrows: {}", self.result.rows)?;
        writeln!(out, "  Global NNZ: {}", self.result.nonzeros)?;
        writeln!(out, "  Memory of this rank (MB): {}", self.matrix_bytes as f64 / 1e6)?;
        writeln!(out, "  Rows per proc: {rows}")?;
        writeln!(out, "  NNZ per proc: {nonzeros}")
    }

    fn write_solve(&self, out: &mut String) -> fmt::Result {
        let operations = Operations::of(self.row_map.mesh(), self.result.iterations);
        let times = &self.solve;
        writeln!(out, "CG solve:")?;
        writeln!(out, "  Iterations: {}", self.result.iterations)?;
        writeln!(out, "  Final Resid Norm: {:.16e}", self.result.residual)?;
        writeln!(out, "  Max Error: {:.16e}", self.result.max_error)?;
        writeln!(out, "  Centre: {:.16e}", self.result.centre)?;
        writeln!(out, "  Digest: \"{}\"", self.result.digest)?;
        for (name, time, count) in [
            ("WAXPY", times.waxpy, operations.waxpy),
            ("DOT", times.dot, operations.dot),
            ("MATVEC", times.matvec, operations.matvec),
            ("Total CG", times.total, operations.total()),
        ] {
            let seconds = time.as_secs_f64();
            let rate = if seconds > 0.0 { count / seconds / 1e6 } else { 0.0 };
            writeln!(out, "  {name} Time: {seconds}")?;
            writeln!(out, "  {name} Flops: {count:e}")?;
            writeln!(out, "  {name} Mflops: {rate}")?;
        }
        let per_iteration = times.total.as_secs_f64() / f64::from(self.result.iterations.max(1));
        writeln!(out, "  Time per iteration: {per_iteration}")?;
        if let Some(resilience) = &self.resilience {
            writeln!(out, "Resilience:")?;
            writeln!(out, "  Recoveries: {}", resilience.recoveries)?;
            writeln!(out, "  Lost Iterations: {}", resilience.lost)?;
            if let Some(interval) = resilience.interval {
                writeln!(out, "  Chosen Interval Of Copies: {interval}")?;
            }
            writeln!(out, "  Block Time: {}", resilience.blocks.as_secs_f64())?;
            writeln!(out, "  Copy Time: {}", resilience.copies.as_secs_f64())?;
            writeln!(out, "  Recovery Time: {}", resilience.recovery.as_secs_f64())?;
        }
        if let Some(bytes) = resident_bytes() {
            writeln!(out, "RSS of this rank (MB): {}", bytes as f64 / 1e6)?;
        }
        writeln!(out, "Total Program Time: {}", self.program.as_secs_f64())
    }
}

/// Smallest, largest and mean of a size per rank.
struct Spread {
    min: usize,
    max: usize,
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(sizes: impl Iterator<Item = usize>) -> Self {
        let sizes: Vec<usize> = sizes.collect();
        let count = sizes.len() as f64;
        let mean = sizes.iter().sum::<usize>() as f64 / count;
        let squares = sizes.iter().map(|&size| (size as f64 - mean).powi(2)).sum::<f64>();
        Self {
            min: sizes.iter().copied().min().unwrap_or(0),
            max: sizes.iter().copied().max().unwrap_or(0),
            mean,
            deviation: (squares / count).sqrt(),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{min: {}, max: {}, avg: {}}}", self.min, self.max, self.mean)
    }
}

/// Floating-point operations of a solve, counted as the reference counts them.
struct Operations {
    waxpy: f64,
    dot: f64,
    matvec: f64,
}

impl Operations {
    fn of(mesh: Mesh, iterations: u32) -> Self {
        let length = mesh.element_bounds().len() as f64;
        let iterations = f64::from(iterations);
        Self {
            waxpy: (3.0 * iterations + 2.0) * 3.0 * length,
            dot: 2.0 * iterations * 2.0 * length,
            matvec: (iterations + 1.0) * 2.0 * mesh.nonzeros() as f64,
        }
    }

    fn total(&self) -> f64 {
        self.waxpy + self.dot + self.matvec
    }
}

/// The largest resident size of this process so far, where the system tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// `YYYY-MM-DD HH:MM:SS`, universal time.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Eras of 400 years that begin on 1 March, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

#[cfg(test)]
mod tests;
