//! The points of the paper's figures, row by row.
//!
//! | figure | what is on it |
//! |---|---|
//! | 8 | living nodes declared dead, by period: calm, with loss, with load; nothing fails |
//! | 9, 14 | one node of more and more, period 500 ms |
//! | 10, 13 | one node of 64, by period |
//! | 12 | one process on more and more nodes |
//! | 15 | several nodes of 256 at once, in a row and anywhere, period 100 ms |

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use fampi_kit::observers::stations::Conditions;

use crate::trial::{Detector, Failure, Outcome, Trial};

pub(crate) const COLUMNS: &str = "figure,detector,case,nodes,period_ms,failures,detection_min_ms,\
                                  detection_ms,detection_max_ms,all_know_ms,calm_messages,\
                                  news_messages,false_reports";

/// What to simulate.
pub(crate) struct Plan {
    /// Numbers of nodes.
    pub(crate) nodes: Vec<u32>,
    /// SWIM on up to so many; each member of it keeps all others in a list.
    pub(crate) swim: u32,
    /// For each point; fewer on very many nodes.
    pub(crate) trials: u32,
    pub(crate) seed: u64,
}

/// Nodes of the figures with a fixed number of them.
const FEW: u32 = 64;
const MANY: u32 = 256;
/// Periods in which nothing fails.
const CALM: u32 = 1000;

const PERIODS: [u64; 8] = [10, 20, 30, 50, 100, 200, 500, 1000];
const SHORT_PERIODS: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

/// Prints all rows.
pub(crate) fn all(plan: &Plan) {
    for &nodes in &plan.nodes {
        for detector in of(plan, nodes) {
            plan.point(9, "node", detector, nodes, 500, Failure::Random(1));
        }
    }
    for period in PERIODS {
        for detector in of(plan, FEW) {
            plan.point(10, "node", detector, FEW, period, Failure::Random(1));
        }
    }
    for &nodes in &plan.nodes {
        plan.point(12, "process", Detector::Ring, nodes, 500, Failure::Process);
    }
    for count in [1, 2, 4, 8, 16, 32] {
        plan.point(15, "in a row", Detector::Ring, MANY, 100, Failure::Contiguous(count));
        plan.point(15, "anywhere", Detector::Ring, MANY, 100, Failure::Random(count));
    }
    let calm = Conditions::default();
    let cases = [
        ("calm", calm),
        ("1 % lost", Conditions { loss: 0.01, ..calm }),
        ("5 % load", Conditions { load: 0.05, ..calm }),
    ];
    for (case, conditions) in cases {
        for period in SHORT_PERIODS {
            for detector in of(plan, FEW) {
                plan.accuracy(case, detector, period, conditions);
            }
        }
    }
}

fn of(plan: &Plan, nodes: u32) -> impl Iterator<Item = Detector> + use<> {
    let swim = (nodes <= plan.swim).then_some(Detector::Swim);
    [Some(Detector::Ring), swim].into_iter().flatten()
}

impl Plan {
    fn point(
        &self,
        figure: u32,
        case: &str,
        detector: Detector,
        nodes: u32,
        period_ms: u64,
        failure: Failure,
    ) {
        let trials = self.trials.min((1 << 18) / nodes).max(3);
        let period = Duration::from_millis(period_ms);
        let conditions = Conditions::default();
        let trial = Trial { detector, nodes, period, failure, conditions, seed: self.seed };
        let failures = match failure {
            Failure::None(_) => 0,
            Failure::Process => 1,
            Failure::Contiguous(count) | Failure::Random(count) => count,
        };
        print(figure, case, &trial, failures, &run(trial, trials));
    }

    fn accuracy(&self, case: &str, detector: Detector, period_ms: u64, conditions: Conditions) {
        let period = Duration::from_millis(period_ms);
        let failure = Failure::None(CALM);
        let trial = Trial { detector, nodes: FEW, period, failure, conditions, seed: self.seed };
        print(8, case, &trial, 0, &run(trial, self.trials.min(3)));
    }
}

/// The trial with so many seeds, on all processors.
fn run(trial: Trial, trials: u32) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let mut outcomes: Vec<(usize, Outcome)> = thread::scope(|scope| {
        let work = || {
            let mut outcomes = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= trials as usize {
                    return outcomes;
                }
                let period = trial.period.as_millis() as u64;
                let point = trial.seed << 40 ^ period << 24 ^ u64::from(trial.nodes);
                let seed = point.wrapping_mul(1_000_003) + number as u64;
                outcomes.push((number, Trial { seed, ..trial }.run()));
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(trials as usize);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().flat_map(|it| it.join().expect("a trial panicked"));
        done.collect()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn print(figure: u32, case: &str, trial: &Trial, failures: u32, outcomes: &[Outcome]) {
    let sorted = |of: &dyn Fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let detection = sorted(&|it| millis(it.detection));
    // One trial in which somebody never learned says it all.
    let all_know = sorted(&|it| it.all_know.map_or(f64::INFINITY, millis));
    let worst = all_know.last().copied().unwrap_or_default();
    let middle = |values: &[f64]| values[values.len() / 2];
    let all_know = if worst.is_finite() { middle(&all_know) } else { worst };
    let false_reports: u32 = outcomes.iter().map(|it| it.false_reports).sum();
    println!(
        "{figure},{},{case},{},{},{failures},{:.3},{:.3},{:.3},{all_know:.3},{:.2},{:.2},\
         {false_reports}",
        trial.detector.name(),
        trial.nodes,
        trial.period.as_millis(),
        detection[0],
        middle(&detection),
        detection[detection.len() - 1],
        middle(&sorted(&|it| it.calm)),
        middle(&sorted(&|it| it.news)),
    );
}
