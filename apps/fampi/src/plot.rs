//! Line charts on logarithmic axes, as SVG and as PNG.

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 600);

/// The same letters on every machine, also where no font is installed.
pub(crate) fn register_letters() {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        let font = epaint_default_fonts::UBUNTU_LIGHT;
        // It fails for damaged fonts only, and then drawing says so.
        let _ = register_font("sans-serif", FontStyle::Normal, font);
    });
}

/// One line of a chart.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart; axes have their units in their names, and the caption says what was assumed.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) series: Vec<Series>,
}

impl Chart<'_> {
    /// Writes `name.svg` and `name.png` into the folder; their paths.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<[PathBuf; 2]> {
        register_letters();
        let files = ["svg", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
        self.draw(&SVGBackend::new(&files[0], SIZE).into_drawing_area())?;
        self.draw(&BitMapBackend::new(&files[1], SIZE).into_drawing_area())?;
        Ok(files)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        self.lines(area).map_err(|error| anyhow!("cannot draw `{}`: {error}", self.title))
    }

    fn lines<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let (top, bottom) = area.split_vertically(SIZE.1 - 40);
        let style = ("sans-serif", 15).into_text_style(&bottom);
        bottom.draw_text(self.caption, &style, (12, 10))?;
        let points = || self.series.iter().flat_map(|series| &series.points).copied();
        let (x, y) = (range(points().map(|(x, _)| x)), range(points().map(|(_, y)| y)));
        let mut chart = ChartBuilder::on(&top)
            .caption(self.title, ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(90)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
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
            let dot = |point: &(f64, f64)| Circle::new(*point, 3, color.filled());
            chart.draw_series(series.points.iter().map(dot))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .label_font(("sans-serif", 15))
            .draw()?;
        area.present()
    }
}

/// From a little below the least to a little above the greatest; logarithms need something.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
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
    fn a_chart_is_written_twice_with_its_words() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let points = vec![(2.0, 10.0), (1024.0, 100.0)];
        let series = vec![Series { name: "commit".into(), points }];
        let (title, caption) = ("How long it takes", "L = 2500 ns");
        let chart = Chart { title, caption, x: "ranks", y: "latency in µs", series };
        let [svg, png] = chart.write(folder.path(), "latency").expect("drawn");
        let text = fs::read_to_string(svg).expect("written");
        for words in [title, caption, "ranks", "latency in µs", "commit"] {
            assert!(text.contains(words), "no `{words}`");
        }
        let bytes = fs::read(png).expect("written");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5000, "{} bytes", bytes.len());
    }
}
