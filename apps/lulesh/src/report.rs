//! What a run says at its end, as the reference says it, and the last line.

use std::fmt;
use std::time::Duration;

use harness::account::Account;
use harness::digest::Digest;

use crate::mesh::Mesh;
use crate::verify::{Summary, Totals};

/// The last line on standard output, by which two runs are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalLine {
    /// The number of ranks.
    pub ranks: usize,
    /// Elements along an edge of each rank's cube.
    pub edge: usize,
    /// Committed cycles.
    pub cycles: u32,
    /// The energy of the element at the origin.
    pub energy: f64,
    /// The largest difference between mirror images.
    pub max_abs_diff: f64,
    /// The fingerprint of all fields of all ranks.
    pub digest: Digest,
}

impl FinalLine {
    /// Of a result.
    #[must_use]
    pub fn new(mesh: Mesh, summary: &Summary) -> Self {
        Self {
            ranks: mesh.ranks_per_edge.pow(3),
            edge: mesh.edge,
            cycles: summary.clock.cycle,
            energy: summary.totals.origin,
            max_abs_diff: summary.totals.asymmetry.max_abs,
            digest: summary.totals.digest,
        }
    }
}

impl fmt::Display for FinalLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, edge, cycles, energy, max_abs_diff, digest } = self;
        write!(
            f,
            "lulesh: ranks={ranks} edge={edge} cycles={cycles} energy={energy:.16e} \
             max_abs_diff={max_abs_diff:.16e} digest={digest}"
        )
    }
}

/// The text above the last line.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The cube of a rank.
    pub mesh: Mesh,
    /// The result.
    pub summary: &'a Summary,
    /// From the first cycle to the last.
    pub elapsed: Duration,
    /// What resilience did, if it is on.
    pub resilience: Option<Account>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mesh, summary, elapsed, .. } = self;
        let Totals { origin, asymmetry, energy, pressure, viscosity, volume, .. } = summary.totals;
        let ranks = mesh.ranks_per_edge.pow(3);
        let cycles = summary.clock.cycle;
        writeln!(f, "Run completed:")?;
        writeln!(f, "   Problem size        = {}", mesh.edge)?;
        writeln!(f, "   MPI tasks           = {ranks}")?;
        writeln!(f, "   Iteration count     = {cycles}")?;
        writeln!(f, "   Final Origin Energy = {origin:.6e}")?;
        writeln!(f, "   Testing Plane 0 of Energy Array on rank 0:")?;
        writeln!(f, "        MaxAbsDiff   = {:.6e}", asymmetry.max_abs)?;
        writeln!(f, "        TotalAbsDiff = {:.6e}", asymmetry.total_abs)?;
        writeln!(f, "        MaxRelDiff   = {:.6e}", asymmetry.max_rel)?;
        writeln!(f, "   Sums over all elements:")?;
        writeln!(f, "        energy * mass = {energy:.12e}")?;
        writeln!(f, "        pressure      = {pressure:.12e}")?;
        writeln!(f, "        viscosity     = {viscosity:.12e}")?;
        writeln!(f, "        volume        = {volume:.12e}")?;
        let seconds = elapsed.as_secs_f64();
        let zone_cycles = mesh.elements() as f64 * f64::from(cycles.max(1));
        let grind = seconds * 1e6 / zone_cycles;
        writeln!(f, "Elapsed time         = {seconds:.4} s")?;
        writeln!(f, "Grind time (us/z/c)  = {grind:.6} per rank")?;
        writeln!(f, "FOM                  = {:.4} zones per ms", 1e3 * ranks as f64 / grind)?;
        if let Some(resilience) = self.resilience {
            let Account { blocks, copies, recovery, .. } = resilience;
            writeln!(f, "Ends of blocks       = {:.4} s", blocks.as_secs_f64())?;
            writeln!(f, "Copies to partners   = {:.4} s", copies.as_secs_f64())?;
            writeln!(f, "Recovery             = {:.4} s", recovery.as_secs_f64())?;
            if let Some(sentence) = resilience.sentence("cycle") {
                writeln!(f, "{sentence}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Clock;
    use crate::verify::Asymmetry;

    fn summary() -> Summary {
        let asymmetry = Asymmetry { max_abs: 0.5, total_abs: 2e-11, max_rel: 5e-14 };
        Summary {
            clock: Clock { cycle: 231, ..Clock::new(1e-5) },
            totals: Totals {
                origin: 27_205.311_684_703_465,
                asymmetry,
                energy: 344.2,
                pressure: 1.0,
                viscosity: 2.0,
                volume: 1.4,
                digest: Digest::of(1, 2.0),
            },
        }
    }

    #[test]
    fn the_last_line_has_all_digits() {
        let mesh = Mesh::new(5, 0, 8).unwrap();
        let digest = Digest::of(1, 2.0);
        assert_eq!(
            FinalLine::new(mesh, &summary()).to_string(),
            format!(
                "lulesh: ranks=8 edge=5 cycles=231 energy=2.7205311684703465e4 \
                 max_abs_diff=5.0000000000000000e-1 digest={digest}"
            )
        );
    }

    #[test]
    fn a_recovered_run_says_what_it_has_lost() {
        let mesh = Mesh::new(5, 0, 8).unwrap();
        let mut resilience = Account::default();
        let text = |resilience| {
            let elapsed = Duration::from_secs(1);
            let summary = summary();
            Report { mesh, summary: &summary, elapsed, resilience }.to_string()
        };
        assert!(text(None).contains("Final Origin Energy = 2.720531e4"));
        assert!(!text(Some(resilience)).contains("After"));
        (resilience.recoveries, resilience.lost) = (1, 2);
        assert!(text(Some(resilience)).contains("After 1 recovery, 2 cycles had been lost"));
    }
}
