//! Line charts, as SVG and as PNG: on logarithmic axes, or the distribution of measured times.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

/// Width and height of a chart in pixels.
const SIZE: (u32, u32) = (900, 600);

/// Letters that look alike on every machine, also where no font is installed.
pub(crate) fn register_letters() {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        let font = epaint_default_fonts::UBUNTU_LIGHT;
        // It fails for damaged fonts only, and then drawing says so.
        let _ = register_font("sans-serif", FontStyle::Normal, font);
    });
}

/// What drawing comes to with some backend.
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// One line of a chart.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What the axis upwards is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Upwards {
    /// A quantity, on a logarithmic axis.
    Quantity,
    /// A quantity over rounds, which are on a linear axis.
    OverRounds,
    /// The share of all that were measured, from 0 to 1.
    Share,
    /// By how much something changes, in both directions, on a linear axis.
    Change,
}

/// A chart; axes have their units in their names, and the caption says what was assumed.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) upwards: Upwards,
    pub(crate) series: Vec<Series>,
}

impl Chart<'_> {
    /// Writes `name.svg` and `name.png` into the folder; their paths.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<[PathBuf; 2]> {
        write_below_each_other(std::slice::from_ref(self), folder, name)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let (top, bottom) = area.split_vertically(SIZE.1 - 40);
        let style = ("sans-serif", 15).into_text_style(&bottom);
        bottom.draw_text(self.caption, &style, (12, 10))?;
        let points = || self.series.iter().flat_map(|series| &series.points).copied();
        let (x, y) = (range(points().map(|(x, _)| x)), range(points().map(|(_, y)| y)));
        match self.upwards {
            Upwards::Quantity => {
                // So that the legend has a place above the lines.
                let room = 1.0 + self.series.len() as f64 / 4.0;
                self.lines(&top, x.log_scale(), (y.start..y.end * room).log_scale())
            }
            Upwards::OverRounds => self.lines(&top, x, y.log_scale()),
            Upwards::Share => self.lines(&top, x.log_scale(), 0.0..1.0),
            Upwards::Change => {
                let most = points().fold(0.0_f64, |most, (_, y)| most.max(y.abs()));
                let reach = if most > 0.0 { 1.1 * most } else { 1.0 };
                self.lines(&top, x.log_scale(), -reach..reach)
            }
        }
    }

    fn lines<B: DrawingBackend, X, Y>(&self, area: &DrawingArea<B, Shift>, x: X, y: Y) -> Drawn<B>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let legend = match self.upwards {
            Upwards::Quantity | Upwards::Change => SeriesLabelPosition::UpperLeft,
            Upwards::OverRounds => SeriesLabelPosition::UpperRight,
            Upwards::Share => SeriesLabelPosition::LowerRight,
        };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(90)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&|x| format!("{x}"))
            // What adding up tenths leaves over is not for people.
            .y_label_formatter(&|y| format!("{}", (y * 1e9).round() / 1e9))
            .axis_desc_style(("sans-serif", 17))
            .label_style(("sans-serif", 14))
            .draw()?;
        for (at, series) in self.series.iter().enumerate() {
            let color = Palette99::pick(at).mix(1.0);
            let line = LineSeries::new(series.points.clone(), color.stroke_width(2));
            chart.draw_series(line)?.label(&series.name).legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 20, y)], color.stroke_width(2))
            });
            if matches!(self.upwards, Upwards::Quantity | Upwards::Change) {
                let dot = |point: &(f64, f64)| Circle::new(*point, 3, color.filled());
                chart.draw_series(series.points.iter().map(dot))?;
            }
        }
        chart
            .configure_series_labels()
            .position(legend)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .label_font(("sans-serif", 15))
            .draw()?;
        Ok(())
    }
}

/// Writes one picture of all, `name.svg` and `name.png`, into the folder; their paths.
pub(crate) fn write_below_each_other(
    charts: &[Chart<'_>],
    folder: &Path,
    name: &str,
) -> Result<[PathBuf; 2]> {
    register_letters();
    let files = ["svg", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
    let size = (SIZE.0, SIZE.1 * charts.len() as u32);
    draw(charts, &SVGBackend::new(&files[0], size).into_drawing_area())?;
    draw(charts, &BitMapBackend::new(&files[1], size).into_drawing_area())?;
    Ok(files)
}

fn draw<B: DrawingBackend>(charts: &[Chart<'_>], root: &DrawingArea<B, Shift>) -> Result<()> {
    let drawn = root.fill(&WHITE).and_then(|()| {
        let areas = root.split_evenly((charts.len(), 1));
        charts.iter().zip(&areas).try_for_each(|(chart, area)| chart.draw(area))?;
        root.present()
    });
    let titles = charts.iter().map(|chart| chart.title).collect::<Vec<_>>().join(", ");
    drawn.map_err(|error| anyhow!("cannot draw `{titles}`: {error}"))
}

impl Series {
    /// The share of these times that is not above x, over x; those that never ended are not below
    /// any.
    pub(crate) fn distribution(name: String, times: &[f64]) -> Self {
        let mut ended: Vec<f64> = times.iter().copied().filter(|time| time.is_finite()).collect();
        ended.sort_by(f64::total_cmp);
        let share = |below: usize| below as f64 / times.len() as f64;
        let steps = ended.iter().enumerate();
        let points = steps.flat_map(|(at, time)| [(*time, share(at)), (*time, share(at + 1))]);
        Self { name, points: points.collect() }
    }
}

/// From a little below the least to a little above the greatest; logarithms need something.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, greatest) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if least.is_finite() { least / 1.3..greatest * 1.3 } else { 1.0..10.0 }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_distribution_has_a_step_at_each_time_and_ends_below_1_when_some_never_end() {
        let series = Series::distribution("mpi".into(), &[4.0, f64::INFINITY, 2.0, 3.0]);
        let steps = [(2.0, 0.0), (2.0, 0.25), (3.0, 0.25), (3.0, 0.5), (4.0, 0.5), (4.0, 0.75)];
        assert_eq!(series.points, steps);
    }

    #[test]
    fn several_charts_are_one_picture_also_when_one_of_them_is_empty() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let chart = |title, times: &[f64]| Chart {
            title,
            caption: "8 ranks",
            x: "ms",
            y: "share",
            upwards: Upwards::Share,
            series: vec![Series::distribution(format!("{title} by mpi"), times)],
        };
        let charts = [chart("SIGKILL", &[1.0, 40.0]), chart("_exit(1)", &[f64::INFINITY])];
        let [svg, _] = write_below_each_other(&charts, folder.path(), "detect").expect("drawn");
        let text = fs::read_to_string(svg).expect("written");
        for words in ["SIGKILL by mpi", "_exit(1) by mpi", "share", "0.5"] {
            assert!(text.contains(words), "no `{words}`");
        }
        assert!(text.contains("height=\"1200\""), "one below the other");
    }

    #[test]
    fn a_chart_is_written_twice_with_its_words() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let points = vec![(2.0, 10.0), (1024.0, 100.0)];
        let series = vec![Series { name: "commit".into(), points }];
        let (title, caption) = ("How long it takes", "L = 2500 ns");
        let (x, y, upwards) = ("ranks", "latency in µs", Upwards::Quantity);
        let chart = Chart { title, caption, x, y, upwards, series };
        let [svg, png] = chart.write(folder.path(), "latency").expect("drawn");
        let text = fs::read_to_string(svg).expect("written");
        for words in [title, caption, "ranks", "latency in µs", "commit"] {
            assert!(text.contains(words), "no `{words}`");
        }
        let bytes = fs::read(png).expect("written");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5000, "{} bytes", bytes.len());
    }
}
