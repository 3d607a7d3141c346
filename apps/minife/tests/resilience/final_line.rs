//! The last line of a run, and what the specification says of it.

use fampi_kit::launch::Run;

/// The numbers of the last line.
#[derive(Clone, Debug, Default)]
pub(crate) struct FinalLine {
    pub(crate) ranks: u32,
    pub(crate) rows: usize,
    pub(crate) nonzeros: usize,
    pub(crate) iterations: u32,
    pub(crate) residual: f64,
    pub(crate) max_error: f64,
    pub(crate) centre: f64,
    pub(crate) digest: String,
}

/// What the specification says of a mesh, for every number of ranks.
pub(crate) struct Expected {
    pub(crate) elements: [usize; 3],
    pub(crate) rows: usize,
    pub(crate) nonzeros: usize,
    pub(crate) iterations: u32,
    pub(crate) residual_below: f64,
    pub(crate) max_error: f64,
    pub(crate) centre: f64,
}

pub(crate) const EXPECTED: [Expected; 4] = [
    Expected {
        elements: [10, 10, 10],
        rows: 1331,
        nonzeros: 29_791,
        iterations: 31,
        residual_below: 3e-16,
        max_error: 0.052_296_698_684_570_65,
        centre: 0.218_963_365_351_237_3,
    },
    Expected {
        elements: [30, 30, 30],
        rows: 29_791,
        nonzeros: 753_571,
        iterations: 99,
        residual_below: 3e-16,
        max_error: 0.055_792_751_023_400_95,
        centre: 0.222_459_417_690_067_6,
    },
    Expected {
        elements: [64, 64, 64],
        rows: 274_625,
        nonzeros: 7_189_057,
        iterations: 200,
        residual_below: 1e-13,
        max_error: 0.056_120_804_741_072,
        centre: 0.222_787_471_407_74,
    },
    Expected {
        elements: [64, 32, 16],
        rows: 36_465,
        nonzeros: 917_329,
        iterations: 200,
        residual_below: 1e-11,
        max_error: 0.055_625_005_276_640_52,
        centre: 0.222_291_671_943_307_2,
    },
];

impl FinalLine {
    /// The last line of a run's output.
    #[track_caller]
    pub(crate) fn of(run: &Run) -> Self {
        Self::parse(&run.output).unwrap_or_else(|| panic!("no final line: {run}"))
    }

    /// The last line, if it is one.
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let mut line = Self::default();
        for word in output.lines().last()?.strip_prefix("minife: ")?.split(' ') {
            let (name, value) = word.split_once('=')?;
            match name {
                "ranks" => line.ranks = value.parse().ok()?,
                "rows" => line.rows = value.parse().ok()?,
                "nnz" => line.nonzeros = value.parse().ok()?,
                "iterations" => line.iterations = value.parse().ok()?,
                "residual" => line.residual = value.parse().ok()?,
                "max_error" => line.max_error = value.parse().ok()?,
                "centre" => line.centre = value.parse().ok()?,
                "digest" => value.clone_into(&mut line.digest),
                _ => {}
            }
        }
        Some(line)
    }

    /// Compares with the specification, within its tolerances.
    #[track_caller]
    pub(crate) fn check(&self, expected: &Expected, ranks: u32, run: &Run) {
        let sizes = (self.ranks, self.rows, self.nonzeros);
        assert_eq!(sizes, (ranks, expected.rows, expected.nonzeros), "{run}");
        assert!(self.iterations.abs_diff(expected.iterations) <= 2, "{run}");
        assert!(self.residual < expected.residual_below, "{run}");
        assert!((self.max_error / expected.max_error - 1.0).abs() < 1e-9, "{run}");
        assert!((self.centre / expected.centre - 1.0).abs() < 1e-9, "{run}");
    }
}
