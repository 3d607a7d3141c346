//! The figure: a group of bars for each situation, one of each way, for each number of keys.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::plot::register_letters;

use super::{Cell, SITUATIONS, WAYS};

/// Width, and heights of a number of keys and of the caption, in pixels.
const WIDTH: u32 = 1000;
const HEIGHTS: (u32, u32) = (420, 40);
/// The places of a group: a bar for each way, and room to the next one.
const PLACES: usize = WAYS.len() + 1;
const COLORS: [RGBColor; WAYS.len()] =
    [RGBColor(90, 90, 90), RGBColor(213, 94, 0), RGBColor(0, 114, 178)];

/// What drawing comes to with some backend.
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Writes `figure14.svg` and `figure14.png` into the folder; their paths.
pub(super) fn write(cells: &[Cell], caption: &str, folder: &Path) -> Result<[PathBuf; 2]> {
    register_letters();
    let panels: Vec<&[Cell]> = cells.chunk_by(|one, other| one.keys == other.keys).collect();
    let size = (WIDTH, HEIGHTS.0 * panels.len() as u32 + HEIGHTS.1);
    let files = ["svg", "png"].map(|kind| folder.join(format!("figure14.{kind}")));
    draw(&panels, caption, &SVGBackend::new(&files[0], size).into_drawing_area())?;
    draw(&panels, caption, &BitMapBackend::new(&files[1], size).into_drawing_area())?;
    Ok(files)
}

fn draw<B: DrawingBackend>(
    panels: &[&[Cell]],
    caption: &str,
    root: &DrawingArea<B, Shift>,
) -> Result<()> {
    let drawn = root.fill(&WHITE).and_then(|()| {
        let (top, bottom) = root.split_vertically(HEIGHTS.0 * panels.len() as u32);
        let style = ("sans-serif", 15).into_text_style(&bottom);
        bottom.draw_text(caption, &style, (12, 10))?;
        let areas = top.split_evenly((panels.len().max(1), 1));
        panels.iter().zip(&areas).try_for_each(|(cells, area)| panel(cells, area))?;
        root.present()
    });
    drawn.map_err(|error| anyhow!("cannot draw the figure: {error}"))
}

fn panel<B: DrawingBackend>(cells: &[Cell], area: &DrawingArea<B, Shift>) -> Drawn<B> {
    let medians = || cells.iter().filter_map(Cell::median);
    let most = medians().map(|[_, _, high]| high).fold(1.0, f64::max) * 1.2;
    let keys = cells.first().map_or(0, |cell| cell.keys);
    let groups = SITUATIONS.len();
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{keys} keys"), ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..(groups * PLACES) as f64, 0.0..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc("sort in ms")
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .draw()?;
    let style = ("sans-serif", 16).into_text_style(area);
    for (at, (name, _)) in SITUATIONS.iter().enumerate() {
        let (x, y) = chart.backend_coord(&((at * PLACES) as f64 + 0.5, 0.0));
        let (left, top) = area.get_base_pixel();
        area.draw_text(name, &style, (x - left, y - top + 8))?;
    }
    for (at, ((_, name), color)) in WAYS.iter().zip(COLORS).enumerate() {
        let of_way = cells.iter().skip(at).step_by(WAYS.len()).map(Cell::median).enumerate();
        let bars: Vec<(f64, [f64; 3])> = of_way
            .filter_map(|(group, median)| Some(((group * PLACES + at) as f64 + 0.5, median?)))
            .collect();
        let bar = |(x, [median, _, _]): &(f64, [f64; 3])| {
            Rectangle::new([(x + 0.1, 0.0), (x + 0.9, *median)], color.filled())
        };
        chart
            .draw_series(bars.iter().map(bar))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], color.filled()));
        let interval = |(x, [_, low, high]): &(f64, [f64; 3])| {
            PathElement::new([(x + 0.5, *low), (x + 0.5, *high)], BLACK.stroke_width(2))
        };
        chart.draw_series(bars.iter().map(interval))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .label_font(("sans-serif", 15))
        .draw()
}
