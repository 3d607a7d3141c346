//! The figure: a bar for each situation, made of the parts of its time, for each application.
//!
//! To the left the whole run; to the right, on a scale of its own, what a fault has cost, which
//! is too short to be seen beside it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot::register_letters;

use super::parts::{PARTS, Part, Parts};

/// Width of the whole and of its left half, in pixels.
const WIDTHS: (u32, u32) = (1500, 880);
/// Heights of the title, of one application, and of legend and caption.
const HEIGHTS: (u32, u32, u32) = (48, 440, 104);
/// What a fault costs, in the order of the parts.
const COSTS: Range<usize> = Part::Detection as usize..PARTS.len();
const WHOLE: Range<usize> = 0..PARTS.len();

/// One situation: its median run, and its fastest and slowest time in ms; nothing if all failed.
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) median: Option<Parts>,
    pub(super) range: Option<(f64, f64)>,
}

/// One application.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

/// All of it; the lines of the caption say what was run, and what the parts are.
pub(super) struct Figure {
    pub(super) panels: Vec<Panel>,
    pub(super) caption: [String; 2],
}

/// One of the two sides of a panel.
struct Side<'a> {
    title: &'a str,
    unit: &'a str,
    /// Milliseconds in a unit.
    scale: f64,
    parts: Range<usize>,
    names: bool,
}

/// What drawing comes to with some backend.
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

impl Figure {
    /// Writes `figure2.svg` and `figure2.png` into the folder; their paths.
    pub(super) fn write(&self, folder: &Path) -> Result<[PathBuf; 2]> {
        register_letters();
        let files = ["svg", "png"].map(|kind| folder.join(format!("figure2.{kind}")));
        let (top, panel, bottom) = HEIGHTS;
        let size = (WIDTHS.0, top + panel * self.panels.len() as u32 + bottom);
        self.draw(&SVGBackend::new(&files[0], size).into_drawing_area())?;
        self.draw(&BitMapBackend::new(&files[1], size).into_drawing_area())?;
        Ok(files)
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Result<()> {
        self.areas(root).map_err(|error| anyhow!("cannot draw the figure: {error}"))
    }

    fn areas<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Drawn<B> {
        root.fill(&WHITE)?;
        let (top, panel, bottom) = HEIGHTS;
        let title = "Applications that lose processes: time to the same solution";
        let middle = Pos::new(HPos::Center, VPos::Top);
        let style = ("sans-serif", 24).into_text_style(root).pos(middle);
        root.draw_text(title, &style, (WIDTHS.0.cast_signed() / 2, 14))?;
        let (_, rest) = root.split_vertically(top);
        let (charts, foot) = rest.split_vertically(panel * self.panels.len() as u32);
        for (area, panel) in charts.split_evenly((self.panels.len(), 1)).iter().zip(&self.panels) {
            let (left, right) = area.split_horizontally(WIDTHS.1);
            let title = panel.title.as_str();
            let whole = Side { title, unit: "s", scale: 1e3, parts: WHOLE, names: true };
            let title = "of this, what the faults cost";
            let costs = Side { title, unit: "ms", scale: 1.0, parts: COSTS, names: false };
            whole.draw(root, &left, &panel.bars)?;
            costs.draw(root, &right, &panel.bars)?;
        }
        self.legend(&foot, bottom)?;
        root.present()
    }

    fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, height: u32) -> Drawn<B> {
        let style = ("sans-serif", 16).into_text_style(area);
        let mut x = 40;
        for (name, color) in PARTS {
            let square = [(x, 12), (x + 18, 30)];
            area.draw(&Rectangle::new(square, color.filled()))?;
            area.draw_text(name, &style, (x + 25, 13))?;
            x += 60 + area.estimate_text_size(name, &style)?.0.cast_signed();
        }
        for (line, y) in self.caption.iter().zip((48..height.cast_signed()).step_by(24)) {
            area.draw_text(line, &style, (40, y))?;
        }
        Ok(())
    }
}

impl Side<'_> {
    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, Shift>,
        area: &DrawingArea<B, Shift>,
        bars: &[Bar],
    ) -> Drawn<B> {
        let most = bars.iter().map(|bar| self.end(bar)).fold(0.0, f64::max);
        // Room for the numbers behind the bars.
        let most = if most > 0.0 { most * 1.17 } else { 1.0 };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 19))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(if self.names { 140 } else { 12 })
            .build_cartesian_2d(0.0..most, 0.0..bars.len() as f64)?;
        let digits = Self::digits(most);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .y_labels(0)
            .x_desc(format!("time in {}", self.unit))
            .x_label_formatter(&|x| format!("{x:.digits$}"))
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 15))
            .draw()?;
        for (at, bar) in bars.iter().enumerate() {
            // The first one is at the top.
            let low = (bars.len() - 1 - at) as f64;
            let mut x = 0.0;
            for part in self.parts.clone() {
                let Some(median) = &bar.median else { break };
                let end = x + median.milliseconds[part] / self.scale;
                let corners = [(x, low + 0.17), (end, low + 0.83)];
                chart.draw_series([Rectangle::new(corners, PARTS[part].1.filled())])?;
                x = end;
            }
            if let Some((fastest, slowest)) =
                bar.range.filter(|(one, other)| self.is_whole() && one < other)
            {
                let [one, other] = [fastest, slowest].map(|time| time / self.scale);
                let line = vec![(one, low + 0.5), (other, low + 0.5)];
                chart.draw_series([PathElement::new(line, BLACK)])?;
                let cap = |x| PathElement::new(vec![(x, low + 0.4), (x, low + 0.6)], BLACK);
                chart.draw_series([cap(one), cap(other)])?;
            }
            let place = |x| chart.plotting_area().map_coordinate(&(x, low + 0.5));
            let text = |align| {
                let style = ("sans-serif", 15).into_text_style(root);
                style.pos(Pos::new(align, VPos::Center))
            };
            let (zero, end) = (place(0.0), place(self.end(bar)));
            if self.names {
                root.draw_text(bar.name, &text(HPos::Right), (zero.0 - 10, zero.1))?;
            }
            let said = match &bar.median {
                None => "all runs failed".to_owned(),
                Some(_) if x == 0.0 => continue,
                Some(_) => format!("{x:.*}", digits + 1),
            };
            root.draw_text(&said, &text(HPos::Left), (end.0 + 6, end.1))?;
        }
        Ok(())
    }

    /// Where a bar and its line end.
    fn end(&self, bar: &Bar) -> f64 {
        let parts = bar
            .median
            .as_ref()
            .map_or(0.0, |run| run.milliseconds[self.parts.clone()].iter().sum::<f64>());
        let slowest = bar.range.filter(|_| self.is_whole()).map_or(0.0, |(_, slowest)| slowest);
        parts.max(slowest) / self.scale
    }

    fn is_whole(&self) -> bool {
        self.parts == WHOLE
    }

    /// Digits after the point that tell the labels of an axis apart.
    fn digits(most: f64) -> usize {
        if most < 1.0 { 2 } else { usize::from(most < 10.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_names_every_situation_and_every_part_also_when_runs_failed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let milliseconds = [900.0, 80.0, 10.0, 4.0, 2.0, 30.0, 20.0, 5.0, 60.0];
        let run = Parts { milliseconds, lost: 3 };
        let bars = || {
            vec![
                Bar { name: "First-Fault", median: Some(run.clone()), range: Some((1e3, 1.2e3)) },
                Bar { name: "Mid-Fault", median: None, range: None },
            ]
        };
        let panel = |title: &str| Panel { title: title.to_owned(), bars: bars() };
        let panels = vec![panel("one application"), panel("another one")];
        let figure = Figure { panels, caption: ["200 iterations", "parts"].map(str::to_owned) };
        let [svg, png] = figure.write(folder.path()).expect("drawn");
        let text = std::fs::read_to_string(svg).expect("written");
        let titles =
            ["one application", "another one", "200 iterations", "time in s", "time in ms"];
        let bars = ["First-Fault", "Mid-Fault", "all runs failed"];
        for words in titles.into_iter().chain(bars).chain(PARTS.map(|(name, _)| name)) {
            assert!(text.contains(words), "no `{words}`");
        }
        let bytes = std::fs::read(png).expect("written");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{} bytes", bytes.len());
    }
}
