//! What figure 14 has to look like, whatever the machine.

use super::{Cell, LONG, Sorted, Way};
use crate::median::around_median;

const YES: &str = "yes";
const NO: &str = "no";
const TOO_FEW: &str = "too few runs to tell";
/// Fewer ranks keep shared processors as busy as all ranks do, so the time of a sort does not tell
/// whether it pays that ranks come back.
const SHARED: &str = "not to be seen where ranks share processors";

/// The median of the ratios of runs with one number, an interval that has the true one with a
/// probability of 95 %, and how many ratios there are; of too few the interval is all of them.
fn paired(one: Option<&Cell>, other: Option<&Cell>) -> Option<([f64; 3], usize)> {
    let pairs = one?.runs.iter().zip(&other?.runs);
    let ratio = |(one, other): (&Result<Sorted, String>, &Result<Sorted, String>)| {
        Some(one.as_ref().ok()?.milliseconds / other.as_ref().ok()?.milliseconds)
    };
    let mut ratios: Vec<f64> = pairs.filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let (low, high) = around_median(ratios.len());
    Some(([*ratios.get(ratios.len() / 2)?, ratios[low], ratios[high]], ratios.len()))
}

/// The fewest ratios that have an interval of 95 %.
const FEWEST: usize = 6;

/// A ratio and its interval, and whether it is at most so much: yes if the median is, no if the
/// whole interval is above.
fn at_most(most: f64, ([ratio, low, high], number): ([f64; 3], usize)) -> (String, &'static str) {
    let verdict = match () {
        () if ratio <= most => YES,
        () if low > most && number >= FEWEST => NO,
        () => TOO_FEW,
    };
    (format!("{ratio:.3} ({low:.3} to {high:.3}) ≤ {most:.2}"), verdict)
}

/// What the figure has to look like: each claim, and whether it is so; nothing of what was not run.
pub(super) fn of(cells: &[Cell], shared: bool) -> Vec<(String, &'static str)> {
    let cell = |keys, situation, way| {
        cells.iter().find(|it| (it.keys, it.situation, it.way.0) == (keys, situation, way))
    };
    let holds = |it: bool| if it { YES } else { NO };
    let mut all: Vec<u64> = cells.iter().map(|cell| cell.keys).collect();
    all.dedup();
    let mut claims = Vec::new();
    for keys in all {
        let mut runs = cells.iter().filter(|cell| cell.keys == keys).flat_map(|cell| &cell.runs);
        let right = runs.all(Result::is_ok);
        claims.push((format!("{keys} keys: every digest is right"), holds(right)));
        if keys < LONG {
            continue;
        }
        let tested = cells.iter().filter(|cell| cell.keys == keys && cell.way.0 != Way::Deaths);
        let mut runs = tested.flat_map(|cell| cell.runs.iter().flatten().map(move |it| (cell, it)));
        let benched = runs.all(|(cell, run)| match cell.way.0 {
            // One that is back may be benched again.
            Way::Back => run.benched >= cell.unfit,
            _ => run.benched == cell.unfit,
        });
        claims.push((
            format!("{keys} keys: who is stopped is benched, and nobody else"),
            holds(benched),
        ));
        let [deaths, tests] = [Way::Deaths, Way::Benched].map(|way| cell(keys, "nobody", way));
        if let Some(ratio) = paired(tests, deaths) {
            let (ratio, verdict) = at_most(1.02, ratio);
            let claim = format!("{keys} keys: tests cost nothing where nobody is slow, {ratio}");
            claims.push((claim, verdict));
        }
        for situation in ["half", "all but one"] {
            let [out, back] = [Way::Benched, Way::Back].map(|way| cell(keys, situation, way));
            if let Some(ratio) = paired(back, out) {
                let (ratio, verdict) = at_most(1.0, ratio);
                let claim = format!("{keys} keys, {situation}: to come back pays, {ratio}");
                claims.push((claim, if shared { SHARED } else { verdict }));
            }
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::{super::tests::cell, *};

    #[test]
    fn a_shape_that_does_not_come_out_is_told() {
        let cells = [
            cell("nobody", Way::Deaths, &[100.0, 90.0, 110.0, 100.0, 90.0, 110.0]),
            cell("nobody", Way::Benched, &[101.0, 91.0, 200.0, 101.0, 91.0, 200.0]),
            cell("half", Way::Benched, &[300.0]),
            cell("half", Way::Back, &[200.0]),
            cell("all but one", Way::Benched, &[300.0; 6]),
            cell("all but one", Way::Back, &[310.0; 6]),
        ];
        let judged = |cells: &[Cell], shared| {
            of(cells, shared).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>()
        };
        assert_eq!(judged(&cells, false), [YES, YES, YES, YES, NO]);
        assert_eq!(judged(&cells, true), [YES, YES, YES, SHARED, SHARED]);
        let mut slower = cells;
        slower[1].runs.extend([Err("it hung".to_owned()), Err("it hung".to_owned())]);
        assert_eq!(judged(&slower, false), [NO, YES, YES, YES, NO]);
        slower[1] = cell("nobody", Way::Benched, &[103.0, 93.0, 113.0, 103.0, 93.0, 113.0]);
        assert_eq!(judged(&slower, false), [YES, YES, NO, YES, NO]);
        slower[1] = cell("nobody", Way::Benched, &[103.0, 90.0, 113.0]);
        assert_eq!(judged(&slower, false), [YES, YES, TOO_FEW, YES, NO]);
        slower[1] = cell("nobody", Way::Benched, &[103.0, 93.0, 113.0, 103.0, 93.0]);
        assert_eq!(judged(&slower, false), [YES, YES, TOO_FEW, YES, NO]);
        slower[2].unfit = 2;
        assert_eq!(judged(&slower, false), [YES, NO, TOO_FEW, YES, NO], "one was not noticed");
    }
}
