//! What is drawn in each panel.
//!
//! | row | paper | real | simulated |
//! |---|---|---|---|
//! | round trips and hops, one death at a time | figure 1(a) | 4,000 tokens | 4,000 tokens |
//! | the same, two at a time | figure 1(b) | the same | the same |
//! | the same, n/2 and n − 2 at once | its text | both | both |
//! | when each rank knew of each death | figure 2(a) | each rank | one of each node |
//! | what fault tolerance costs a token | figure 2(b) | ours minus MPI alone | not simulated |

use std::ops::Range;

use plotters::style::RGBColor;

use super::pattern::Pattern;
use super::story::{Part, Story};

/// Of the paper's cluster, which is as many processes as are drawn for it.
const PAPER_NODES: u32 = 64;
/// Of so many tokens one is drawn.
const THINNED: usize = 8;

const WITH: RGBColor = RGBColor(213, 94, 0);
const WITHOUT: RGBColor = RGBColor(0, 114, 178);
const LOST: RGBColor = RGBColor(200, 0, 30);
const GREY: RGBColor = RGBColor(90, 90, 90);

pub(super) type Points = Vec<(f64, f64)>;

/// An axis: its title, and from where to where it goes.
type Axis = (&'static str, Range<f64>);

/// A line, or points of one kind.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) color: RGBColor,
    pub(super) points: Points,
}

#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) dots: Vec<Series>,
    pub(super) lines: Vec<Series>,
    /// A line on an axis of its own, from 0 to so many.
    pub(super) second: Option<(&'static str, f64, Points)>,
    pub(super) note: &'static str,
}

/// All panels, by rows.
pub(super) fn all(stories: &[Story]) -> Vec<Vec<Panel>> {
    let find = |part, pattern| {
        stories.iter().find(move |story| (story.part, story.pattern) == (part, pattern))
    };
    let parts = [Part::Real, Part::Simulated];
    let parts = parts.into_iter().filter(|part| stories.iter().any(|it| it.part == *part));
    let parts: Vec<Part> = parts.collect();
    let mut rows = Vec::new();
    for (pattern, figure, at_once) in [(Pattern::One, "1(a)", 1), (Pattern::Two, "1(b)", 2)] {
        let ours = parts.iter().filter_map(|part| {
            Some(round_trips(find(*part, pattern)?, find(*part, Pattern::Nobody)?))
        });
        rows.push([paper_hops(figure, at_once)].into_iter().chain(ours).collect());
    }
    for pattern in [Pattern::Half, Pattern::AllButTwo] {
        let ours = parts.iter().filter_map(|part| {
            Some(round_trips(find(*part, pattern)?, find(*part, Pattern::Nobody)?))
        });
        let title = format!("paper, its text: {}", pattern.name());
        let note = "“we were able to handle rates of n/2 or n − 2 simultaneous failures”";
        rows.push([nothing(title, note)].into_iter().chain(ours).collect());
    }
    let ours = parts.iter().filter_map(|part| find(*part, Pattern::One)).map(epochs);
    rows.push([paper_epochs()].into_iter().chain(ours).collect());
    let plain = find(Part::Plain, Pattern::Nobody);
    let ours = find(Part::Undisturbed, Pattern::Nobody).zip(plain);
    let ours = ours.map(|(ours, plain)| overhead(ours, plain));
    let paper = Panel {
        y: ("ms", -0.4..1.0),
        ..nothing("paper, figure 2(b): its axes".into(), "“little impact on performance”")
    };
    let mut row: Vec<Panel> = [paper].into_iter().chain(ours).collect();
    if parts.contains(&Part::Simulated) {
        row.push(nothing("simulated: overhead".into(), "not simulated"));
    }
    rows.push(row);
    rows
}

fn nothing(title: String, note: &'static str) -> Panel {
    let (x, y) = (("token", 0.0..1000.0), ("", 0.0..1.0));
    Panel { title, x, y, dots: Vec::new(), lines: Vec::new(), second: None, note }
}

/// The staircase of the paper's text: evenly from all processes to 2.
fn paper_hops(figure: &str, at_once: u32) -> Panel {
    let moments = (PAPER_NODES - 2) / at_once;
    let token = |moment: u32| 4000.0 * f64::from(moment) / f64::from(moments + 1);
    let step = |at: u32| {
        let hops = f64::from(PAPER_NODES - at * at_once);
        [(token(at), hops), (token(at + 1), hops)]
    };
    let points = (0..=moments).flat_map(step).collect();
    let title = format!("paper, figure {figure}: hops as in its text");
    Panel {
        x: ("token", 0.0..4000.0),
        y: ("round trip: no times in its text", 0.0..60.0),
        second: Some(("hops", 70.0, points)),
        ..nothing(title, "")
    }
}

/// Straight lines, as the paper's text says, from 0.05 to 0.45 s, as its axis does.
fn paper_epochs() -> Panel {
    let epochs = PAPER_NODES - 2;
    let line = |epoch: u32| {
        let at = 0.05 + 0.4 * f64::from(epoch) / f64::from(epochs - 1);
        let points = vec![(at, 0.0), (at, f64::from(PAPER_NODES))];
        Series { name: "", color: GREY, points }
    };
    Panel {
        x: ("time of notification in s", 0.0..0.5),
        y: ("rank", 0.0..f64::from(PAPER_NODES)),
        lines: (0..epochs).map(line).collect(),
        ..nothing("paper, figure 2(a): straight lines, as in its text".into(), "")
    }
}

/// Round trips with and without deaths, and the hops of those with deaths.
fn round_trips(story: &Story, calm: &Story) -> Panel {
    let points = |story: &Story| -> Points {
        let tokens = story.tokens.iter().enumerate().step_by(THINNED);
        tokens.filter_map(|(number, token)| Some((number as f64, token.round_trip()?))).collect()
    };
    let (with, without) = (points(story), points(calm));
    // A few tokens that waited for a processor would press all others to the axis.
    let most = 1.3 * usual_most(&with).max(usual_most(&without));
    let visible = |points: Points| points.into_iter().filter(|(_, y)| *y <= most).collect();
    let lost = story.tokens.iter().enumerate().filter(|(_, token)| token.back.is_none());
    let hops = story.tokens.iter().enumerate();
    let hops = hops.filter_map(|(number, token)| Some((number as f64, f64::from(token.back?.1))));
    let hops: Points = hops.collect();
    let series = |name, color, points| Series { name, color, points };
    let (part, ranks, pattern) = (story.part.name(), story.ranks, story.pattern.name());
    Panel {
        x: ("token", 0.0..story.tokens.len() as f64),
        y: ("round trip in ms", -0.05 * most..most),
        dots: vec![
            series("no failures", WITHOUT, visible(without)),
            series("failures", WITH, visible(with)),
            series("lost", LOST, lost.map(|(at, _)| (at as f64, -0.025 * most)).collect()),
        ],
        second: Some(("hops", 1.1 * f64::from(ranks), stairs(&hops))),
        ..nothing(format!("{part}, {ranks} processes, {pattern}"), "")
    }
}

/// The points with a corner wherever they rise or fall: what is lost between two has no hops.
fn stairs(points: &[(f64, f64)]) -> Points {
    let before = points.first().into_iter().chain(points);
    let corner = |((_, before), (x, y)): (&(f64, f64), &(f64, f64))| [(*x, *before), (*x, *y)];
    let mut stairs: Points = before.zip(points).flat_map(corner).collect();
    stairs.dedup();
    stairs
}

/// What 97 of 100 are not above.
fn usual_most(points: &[(f64, f64)]) -> f64 {
    let mut all: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() * 97 / 100).copied().unwrap_or(1e-3).max(1e-6)
}

/// A line for each epoch, through the moments at which ranks knew of it.
fn epochs(story: &Story) -> Panel {
    let line = |(_, epoch): (usize, &super::story::Epoch)| {
        let points = epoch.known.iter().map(|(rank, at)| (at / 1e3, f64::from(*rank))).collect();
        Series { name: "", color: GREY, points }
    };
    let last = story.epochs.iter().filter_map(super::story::Epoch::known_to_all);
    let last = last.fold(1e-3, f64::max) / 1e3;
    let (part, ranks, pattern) = (story.part.name(), story.ranks, story.pattern.name());
    let lines: Vec<Series> = story.detailed().map(line).collect();
    let (drawn, all) = (lines.len(), story.epochs.len());
    Panel {
        x: ("time of notification in s", 0.0..1.05 * last),
        y: ("rank", 0.0..f64::from(ranks)),
        lines,
        ..nothing(format!("{part}, {ranks} processes, {pattern}: {drawn} of {all} epochs"), "")
    }
}

/// What a token takes more than that with its number by MPI alone.
fn overhead(ours: &Story, plain: &Story) -> Panel {
    let pairs = ours.tokens.iter().zip(&plain.tokens).enumerate().step_by(THINNED);
    let differences: Points = pairs
        .filter_map(|(number, (ours, plain))| {
            Some((number as f64, ours.round_trip()? - plain.round_trip()?))
        })
        .collect();
    let sizes: Points = differences.iter().map(|(x, y)| (*x, y.abs())).collect();
    let most = 1.3 * usual_most(&sizes);
    let ranks = ours.ranks;
    let points = differences.into_iter().filter(|(_, y)| y.abs() <= most).collect();
    Panel {
        x: ("token", 0.0..ours.tokens.len() as f64),
        y: ("ms", -most..most),
        dots: vec![Series { name: "ours minus MPI alone", color: WITH, points }],
        ..nothing(format!("real, {ranks} processes: overhead without deaths"), "")
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::{Epoch, Token};
    use super::super::{captions_of_defaults, drawing};
    use super::*;

    fn story(part: Part, pattern: Pattern) -> Story {
        let dies = pattern != Pattern::Nobody;
        let token = |number: u32| {
            let made = f64::from(number);
            let hops = if dies && number > 20 { 3 } else { 4 };
            Token { made, back: (!dies || number != 20).then_some((made + 0.5, hops)) }
        };
        let epoch = Epoch { dead: 2, at: 20.0, known: vec![(0, 20.2), (1, 20.1), (3, 20.3)] };
        let (tokens, epochs) =
            ((0..40).map(token).collect(), dies.then_some(epoch).into_iter().collect());
        Story { part, pattern, ranks: 4, tell_together: 1, tokens, epochs }
    }

    #[test]
    fn the_paper_s_hops_fall_from_all_processes_to_two() {
        for (at_once, steps) in [(1, 63), (2, 32)] {
            let (_, _, points) = paper_hops("1", at_once).second.expect("hops");
            assert_eq!(points.len(), 2 * steps);
            assert_eq!((points[0].1, points[points.len() - 1]), (64.0, (4000.0, 2.0)));
        }
    }

    #[test]
    fn a_lost_token_is_a_gap_and_a_mark_and_hops_fall() {
        let panel =
            round_trips(&story(Part::Real, Pattern::One), &story(Part::Real, Pattern::Nobody));
        assert_eq!(panel.dots[2].points.len(), 1);
        let (_, most, hops) = panel.second.expect("hops");
        assert!(most > 4.0);
        assert_eq!((hops.len(), hops[19].1), (40, 4.0));
        assert_eq!(hops[20..22], [(21.0, 4.0), (21.0, 3.0)]);
    }

    #[test]
    fn the_figure_has_the_paper_beside_ours_as_svg_and_png() {
        let patterns = [Pattern::Nobody, Pattern::One, Pattern::Two, Pattern::Half];
        let patterns = patterns.into_iter().chain([Pattern::AllButTwo]);
        let parts = [Part::Real, Part::Simulated];
        let mut stories: Vec<Story> =
            patterns.flat_map(|pattern| parts.map(|part| story(part, pattern))).collect();
        stories.push(story(Part::Undisturbed, Pattern::Nobody));
        stories.push(story(Part::Plain, Pattern::Nobody));
        let rows = all(&stories);
        assert!(rows.len() == 6 && rows.iter().all(|row| row.len() == 3));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let captions = captions_of_defaults();
        let [svg, png] = drawing::write(&stories, &captions, folder.path()).expect("drawn");
        let text = std::fs::read_to_string(svg).expect("written");
        for words in ["paper, figure 1(a)", "real, 4 processes, two at a time", "Bland 2012"] {
            assert!(text.contains(words), "no `{words}`");
        }
        assert!(std::fs::read(png).expect("written").starts_with(b"\x89PNG"));
        stories.retain(|story| story.part == Part::Simulated);
        assert!(all(&stories).iter().all(|row| row.len() == 2), "what was not run is left out");
    }
}
