//! The last line of a run.

use fampi_kit::launch::Run;

/// The numbers of the last line, beside its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct FinalLine {
    pub(crate) text: String,
    pub(crate) ranks: u32,
    pub(crate) edge: u32,
    pub(crate) cycles: u32,
    pub(crate) energy: f64,
    pub(crate) max_abs_diff: f64,
}

impl FinalLine {
    /// The last line of a run's output.
    #[track_caller]
    pub(crate) fn of(run: &Run) -> Self {
        Self::parse(&run.output).unwrap_or_else(|| panic!("no final line: {run}"))
    }

    fn parse(output: &str) -> Option<Self> {
        let text = output.lines().last()?;
        let mut line = Self { text: text.to_owned(), ..Self::default() };
        for word in text.strip_prefix("lulesh: ")?.split(' ') {
            let (name, value) = word.split_once('=')?;
            match name {
                "ranks" => line.ranks = value.parse().ok()?,
                "edge" => line.edge = value.parse().ok()?,
                "cycles" => line.cycles = value.parse().ok()?,
                "energy" => line.energy = value.parse().ok()?,
                "max_abs_diff" => line.max_abs_diff = value.parse().ok()?,
                _ => {}
            }
        }
        Some(line)
    }
}
