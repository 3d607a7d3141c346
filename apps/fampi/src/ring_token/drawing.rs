//! The figure: panels of the paper to the left, of real ranks in the middle, simulated ones to the
//! right.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::panels::{self, Panel};
use super::story::Story;
use crate::plot::register_letters;

/// Of a panel, in pixels.
const SIZE: (u32, u32) = (470, 300);
/// Of the captions below, for each line.
const LINE: u32 = 22;
const SMALL: (&str, u32) = ("sans-serif", 13);

/// What drawing comes to with some backend.
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Writes `ring-token.svg` and `ring-token.png` into the folder; their paths.
pub(super) fn write(stories: &[Story], captions: &[String], folder: &Path) -> Result<[PathBuf; 2]> {
    register_letters();
    let rows = panels::all(stories);
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default() as u32;
    let height = SIZE.1 * rows.len() as u32 + LINE * (captions.len() as u32 + 1);
    let size = (SIZE.0 * columns, height);
    let files = ["svg", "png"].map(|kind| folder.join(format!("ring-token.{kind}")));
    draw(&rows, captions, &SVGBackend::new(&files[0], size).into_drawing_area())?;
    draw(&rows, captions, &BitMapBackend::new(&files[1], size).into_drawing_area())?;
    Ok(files)
}

fn draw<B: DrawingBackend>(
    rows: &[Vec<Panel>],
    captions: &[String],
    root: &DrawingArea<B, Shift>,
) -> Result<()> {
    let drawn = root.fill(&WHITE).and_then(|()| {
        let (top, bottom) = root.split_vertically(SIZE.1 * rows.len() as u32);
        for (row, panels) in top.split_evenly((rows.len().max(1), 1)).iter().zip(rows) {
            let areas = row.split_evenly((1, panels.len().max(1)));
            panels.iter().zip(&areas).try_for_each(|(panel, area)| one(panel, area))?;
        }
        let style = ("sans-serif", 15).into_text_style(&bottom);
        for (line, at) in captions.iter().zip(0..) {
            bottom.draw_text(line, &style, (12, 8 + at * LINE as i32))?;
        }
        root.present()
    });
    drawn.map_err(|error| anyhow!("cannot draw the figure: {error}"))
}

fn one<B: DrawingBackend>(panel: &Panel, area: &DrawingArea<B, Shift>) -> Drawn<B> {
    let second = panel.second.as_ref();
    let hops = second.map_or(1.0, |(_, most, _)| *most);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .right_y_label_area_size(if second.is_some() { 60 } else { 0 })
        .build_cartesian_2d(panel.x.1.clone(), panel.y.1.clone())?
        .set_secondary_coord(panel.x.1.clone(), 0.0..hops);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(panel.x.0)
        .y_desc(panel.y.0)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|number| plain(*number))
        .y_label_formatter(&|number| plain(*number))
        .axis_desc_style(SMALL)
        .label_style(SMALL)
        .draw()?;
    for dots in &panel.dots {
        let color = dots.color;
        let mark = |point: &(f64, f64)| Circle::new(*point, 1, color.filled());
        chart
            .draw_series(dots.points.iter().map(mark))?
            .label(dots.name)
            .legend(move |at| Circle::new(at, 3, color.filled()));
    }
    for line in &panel.lines {
        let color = line.color;
        let drawn = chart.draw_series(LineSeries::new(line.points.clone(), color))?;
        if !line.name.is_empty() {
            let sample = move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color);
            drawn.label(line.name).legend(sample);
        }
    }
    if let Some((name, _, points)) = second {
        chart
            .configure_secondary_axes()
            .y_desc(*name)
            .y_label_formatter(&|number| plain(*number))
            .label_style(SMALL)
            .draw()?;
        let line = LineSeries::new(points.clone(), BLACK.stroke_width(2));
        let sample = |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], BLACK.stroke_width(2));
        chart.draw_secondary_series(line)?.label(*name).legend(sample);
    }
    if !panel.note.is_empty() {
        let style = SMALL.into_text_style(area);
        area.draw_text(panel.note, &style, (72, SIZE.1 as i32 / 2))?;
    }
    if panel.dots.iter().any(|dots| !dots.points.is_empty()) || second.is_some() {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .label_font(SMALL)
            .draw()?;
    }
    Ok(())
}

/// A number for people: without what adding up tenths leaves over.
fn plain(number: f64) -> String {
    format!("{}", (number * 1e6).round() / 1e6)
}
