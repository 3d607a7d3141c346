//! The picture of a trace: a row for each rank, time to the right.
//!
//! What is narrower than half a pixel is drawn together with what follows, so that a picture of
//! a hundred thousand blocks stays small.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot;
use crate::trace::{Event, Recording};

/// Width of a picture, and heights of its parts, in pixels.
const WIDTH: u32 = 1400;
const ROW: u32 = 52;
const HEAD: u32 = 48;
const FOOT: u32 = 114;
const LEGEND_FROM: i32 = 20;
/// To the left of the rows, and to their right.
const MARGINS: (u32, u32) = (110, 30);
/// Narrower than this, in pixels, is drawn with its neighbours.
const NARROW: f64 = 0.5;
/// About so many numbers are written below the axis.
const TICKS: f64 = 12.0;
const FONT: &str = "sans-serif";

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// What colours mean, in the order of the legend.
const COLOURS: [(&str, RGBColor); 10] = [
    ("alive", RGBColor(232, 234, 238)),
    ("block", RGBColor(140, 190, 240)),
    ("inner block", RGBColor(90, 205, 190)),
    ("commit, with waiting", RGBColor(35, 95, 175)),
    ("faulty block", RGBColor(245, 160, 70)),
    ("launch, join", RGBColor(190, 190, 175)),
    ("shrink, split", RGBColor(170, 120, 200)),
    ("rebuild", RGBColor(150, 205, 115)),
    ("regroup, spawn", RGBColor(60, 140, 60)),
    ("restore", RGBColor(225, 200, 40)),
];
const DEATH: RGBColor = RGBColor(200, 0, 30);
const DETECTED: RGBColor = RGBColor(225, 60, 60);
const REPORT: RGBColor = RGBColor(120, 40, 140);

/// What is drawn for a slice: the name of its colour, and how far it is from the row's edges, as
/// a part of its height.
fn shape(event: &Event, depth: usize) -> Option<(&'static str, f64)> {
    let inner = 0.06 * depth.min(3) as f64;
    let faulty = event.arg("verdict").as_deref() == Some("faulty");
    Some(match (event.cat.as_str(), event.name.as_str()) {
        ("life", _) => ("alive", 0.06),
        ("block", _) if faulty => ("faulty block", 0.28 + inner),
        ("block", _) if depth > 0 => ("inner block", 0.28 + inner),
        ("block", _) => ("block", 0.28),
        ("commit", _) => ("commit, with waiting", 0.28 + inner),
        ("recovery", "shrink" | "split") => ("shrink, split", 0.12),
        ("recovery", "rebuild") => ("rebuild", 0.12),
        ("recovery", "regroup") => ("regroup, spawn", 0.18),
        ("recovery", "restore") => ("restore", 0.36),
        ("recovery", "launch" | "join") => ("launch, join", 0.12),
        // Agreements of a recovery are what fills its slice; a parked spare only waits.
        _ => return None,
    })
}

/// A slice as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    row: u32,
    colour: usize,
    edge: f64,
    /// In milliseconds.
    from: f64,
    to: f64,
}

/// The slices of the visible time in the order of drawing, narrow ones together.
fn bars(events: &[Event], (from, to): (f64, f64), narrow: f64) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    let mut last: BTreeMap<(u32, usize, u64), usize> = BTreeMap::new();
    let mut around: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.ph == "X") {
        let open = around.entry(event.tid).or_default();
        open.retain(|end| *end > event.ts);
        let depth = open.len().saturating_sub(usize::from(event.cat == "commit"));
        if event.cat == "block" {
            open.push(event.end());
        }
        let Some((name, edge)) = shape(event, depth) else { continue };
        let (begin, end) = (event.ts / 1e3, event.end() / 1e3);
        if end < from || begin > to {
            continue;
        }
        let colour = COLOURS.iter().position(|(known, _)| *known == name).unwrap_or_default();
        let bar = Bar { row: event.pid, colour, edge, from: begin.max(from), to: end.min(to) };
        let key = (bar.row, colour, edge.to_bits());
        let before = last.get(&key).map(|at| (*at, bars[*at]));
        match before {
            Some((at, before))
                if bar.from - before.to < narrow && before.to - before.from < narrow =>
            {
                bars[at].to = before.to.max(bar.to);
            }
            _ => {
                last.insert(key, bars.len());
                bars.push(bar);
            }
        }
    }
    bars
}

/// A run between two moments, in milliseconds.
pub(super) struct Picture<'a> {
    recording: &'a Recording,
    /// From the top, by their numbers in the trace.
    rows: Vec<(u32, String)>,
    from: f64,
    to: f64,
}

impl<'a> Picture<'a> {
    pub(super) fn new(recording: &'a Recording, from: f64, to: f64) -> Self {
        Self { recording, rows: recording.rows(), from, to }
    }

    pub(super) fn svg(&self, path: &Path) -> Result<()> {
        self.draw(&SVGBackend::new(path, self.size()).into_drawing_area())
    }

    pub(super) fn png(&self, path: &Path) -> Result<()> {
        self.draw(&BitMapBackend::new(path, self.size()).into_drawing_area())
    }

    fn size(&self) -> (u32, u32) {
        (WIDTH, HEAD + ROW * self.rows.len() as u32 + FOOT)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        plot::register_letters();
        self.all(area).map_err(|error| anyhow!("cannot draw the timeline: {error}"))
    }

    fn all<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        area.fill(&WHITE)?;
        self.axis(area)?;
        self.slices(area)?;
        self.marks(area)?;
        self.legend(area)?;
        area.present()
    }

    /// Pixels for each millisecond.
    fn scale(&self) -> f64 {
        f64::from(WIDTH - MARGINS.0 - MARGINS.1) / (self.to - self.from)
    }

    fn x(&self, milliseconds: f64) -> i32 {
        (f64::from(MARGINS.0) + (milliseconds - self.from) * self.scale()).round() as i32
    }

    /// The upper edge of a row.
    fn y(&self, row: u32) -> Option<i32> {
        let place = self.rows.iter().position(|(number, _)| *number == row)?;
        Some((HEAD + ROW * place as u32) as i32)
    }

    /// Where the rows end.
    fn bottom(&self) -> i32 {
        (HEAD + ROW * self.rows.len() as u32) as i32
    }

    fn axis<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let text = |size: u32, horizontal| {
            let style = (FONT, size).into_text_style(area);
            style.pos(Pos::new(horizontal, VPos::Center))
        };
        area.draw_text(
            "What happened on each rank",
            &text(20, HPos::Left),
            (MARGINS.0 as i32, 22),
        )?;
        let step = step((self.to - self.from) / TICKS);
        let mut tick = (self.from / step).ceil() * step;
        let digits = (-step.log10().floor()).max(0.0) as usize;
        while tick <= self.to {
            let x = self.x(tick);
            let line = vec![(x, HEAD as i32), (x, self.bottom() + 5)];
            area.draw(&PathElement::new(line, BLACK.mix(0.15)))?;
            let below = (x, self.bottom() + 15);
            area.draw_text(&format!("{tick:.digits$}"), &text(14, HPos::Center), below)?;
            tick += step;
        }
        let middle = ((MARGINS.0 + WIDTH - MARGINS.1) / 2) as i32;
        let below = (middle, self.bottom() + 36);
        area.draw_text("time since the beginning in ms", &text(15, HPos::Center), below)?;
        for (row, name) in &self.rows {
            let Some(y) = self.y(*row) else { continue };
            let place = (MARGINS.0 as i32 - 10, y + (ROW / 2) as i32);
            area.draw_text(name, &text(16, HPos::Right), place)?;
        }
        Ok(())
    }

    fn slices<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        for bar in bars(&self.recording.events, (self.from, self.to), NARROW / self.scale()) {
            let Some(y) = self.y(bar.row) else { continue };
            let inset = (bar.edge * f64::from(ROW)).round() as i32;
            let (left, right) = (self.x(bar.from), self.x(bar.to));
            let corners = [(left, y + inset), (right.max(left + 1), y + ROW as i32 - inset)];
            area.draw(&Rectangle::new(corners, COLOURS[bar.colour].1.filled()))?;
            if right - left > 4 && COLOURS[bar.colour].0 != "alive" {
                area.draw(&Rectangle::new(corners, BLACK.mix(0.25)))?;
            }
        }
        Ok(())
    }

    fn marks<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        for event in self.recording.events.iter().filter(|event| event.ph == "i") {
            let time = event.ts / 1e3;
            let Some(y) = self.y(event.pid).filter(|_| (self.from..=self.to).contains(&time))
            else {
                continue;
            };
            let (x, middle) = (self.x(time), y + (ROW / 2) as i32);
            match event.name.as_str() {
                "died" => area.draw(&Cross::new((x, middle), 9, DEATH.stroke_width(4)))?,
                "death detected" => {
                    area.draw(&TriangleMarker::new((x, y + 8), 6, DETECTED.filled()))?;
                }
                "report agreed" => {
                    let line = vec![(x, y + 2), (x, y + ROW as i32 - 2)];
                    area.draw(&PathElement::new(line, REPORT.stroke_width(2)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let style = (FONT, 14).into_text_style(area);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let marks = ["death", "death detected", "report agreed"];
        let names = COLOURS.iter().map(|(name, _)| *name).chain(marks);
        let (mut x, mut y) = (LEGEND_FROM, self.bottom() + 68);
        for name in names {
            let width = area.estimate_text_size(name, &style)?.0 as i32;
            if x + 22 + width > WIDTH as i32 {
                (x, y) = (LEGEND_FROM, y + 26);
            }
            match COLOURS.iter().find(|(known, _)| *known == name) {
                Some((_, colour)) => {
                    area.draw(&Rectangle::new([(x, y - 8), (x + 16, y + 8)], colour.filled()))?;
                }
                None if name == "death" => {
                    area.draw(&Cross::new((x + 8, y), 6, DEATH.stroke_width(3)))?;
                }
                None if name == "report agreed" => {
                    let line = vec![(x + 8, y - 9), (x + 8, y + 9)];
                    area.draw(&PathElement::new(line, REPORT.stroke_width(2)))?;
                }
                None => area.draw(&TriangleMarker::new((x + 8, y), 6, DETECTED.filled()))?,
            }
            area.draw_text(name, &style, (x + 22, y))?;
            x += 22 + width + 26;
        }
        Ok(())
    }
}

/// 1, 2 or 5 times a power of ten, not less than this.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-6).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|it| *it >= least)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(category: &str, from: f64, to: f64) -> Event {
        let text = format!(
            r#"{{"name":"","cat":"{category}","ph":"X","ts":{},"dur":{},"pid":1,"tid":1}}"#,
            from * 1e3,
            (to - from) * 1e3
        );
        serde_json::from_str(&text).expect("an event")
    }

    #[test]
    fn narrow_slices_are_drawn_together_and_wide_ones_apart() {
        let mut events: Vec<Event> =
            (0..1000).map(|at| slice("block", f64::from(at), f64::from(at) + 0.9)).collect();
        assert_eq!(bars(&events, (0.0, 1000.0), 0.05).len(), 1000);
        let few = bars(&events, (0.0, 1000.0), 20.0);
        assert!(few.len() < 60, "{} bars", few.len());
        assert_eq!(few.last().map(|bar| bar.to), Some(999.9));
        assert_eq!(bars(&events, (10.2, 12.5), 0.05).len(), 3);
        events =
            vec![slice("block", 0.0, 9.0), slice("block", 1.0, 2.0), slice("commit", 5.0, 9.0)];
        let names = bars(&events, (0.0, 9.0), 0.05).into_iter().map(|bar| COLOURS[bar.colour].0);
        let expected = ["block", "inner block", "commit, with waiting"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_picture_has_its_rows_its_axis_and_its_legend() {
        let row = r#"{"name":"process_name","ph":"M","pid":1,"args":{"name":"rank 0"}}"#;
        let died = r#"{"name":"died","cat":"death","ph":"i","ts":7000,"pid":1}"#;
        let mut events: Vec<Event> =
            [row, died].map(|text| serde_json::from_str(text).expect("an event")).into();
        events.push(slice("life", 0.0, 7.0));
        let recording = Recording { events, ..Recording::default() };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (svg, png) = (folder.path().join("a.svg"), folder.path().join("a.png"));
        let picture = Picture::new(&recording, 0.0, 10.0);
        picture.svg(&svg).and_then(|()| picture.png(&png)).expect("drawn");
        let text = std::fs::read_to_string(svg).expect("text");
        for word in ["rank 0", "in ms", "death detected", "regroup, spawn", "#C8001E"] {
            assert!(text.contains(word), "no {word}");
        }
        assert!(std::fs::read(png).expect("read").starts_with(b"\x89PNG"));
    }

    #[test]
    fn ticks_are_at_round_numbers() {
        for (least, expected) in [(0.3, 0.5), (1.0, 1.0), (11.0, 20.0), (51.0, 100.0)] {
            assert!((step(least) - expected).abs() < 1e-9, "{least}: {}", step(least));
        }
    }
}
