//! How tests of who is slow grow with the number of hosts: how many there are, how soon a host that
//! stops answering fails one, and how many fail that should not, by who tests whom.
//!
//! Tests are counted over all hosts. What chance decides is looked at on some testers, and on some
//! of their targets where they test all others: testers know nothing of each other.

use std::time::Duration;

use fampi_detector::protocol::diagnosis::{
    Answer, Effect, Target, Terms, Verdict,
    clusters::{Assignment, cluster, dimensions},
    primes,
    tester::Tester,
};

use super::hosts::{Hosts, INTERVAL, moment};

/// Rounds of a tester, and the one in which one of its targets stops.
const ROUNDS: u32 = 60;
const STOPS_IN: u32 = 50;
/// So many tests are looked at for each size, or those of two testers.
const TESTS: u32 = 2000;
/// The most targets of one tester that are looked at, where it tests all others.
const MOST_TARGETS: u32 = 64;
/// Of a hundred packets so many are lost.
const LOSSES: [u32; 3] = [0, 1, 5];

pub const COLUMNS: &str = "hosts,assignment,loss_percent,tests_per_round,testers_most,\
                           accused_after_ms,allowed_ms,blind,tests,false_per_million";

/// What came of one size, one assignment and one loss.
#[derive(Clone, Debug)]
pub struct Row {
    pub hosts: u32,
    pub assignment: Assignment,
    pub loss: u32,
    /// In each interval, over all hosts.
    pub per_round: u64,
    /// The most hosts that test the same one.
    pub testers_most: u32,
    /// The longest time from a stop to the failed test, and what an interval and the threshold
    /// allow for that.
    pub accused_ms: f64,
    pub allowed_ms: f64,
    /// Testers that had no answer of it yet, as the first question was lost twice: they give it
    /// half a minute, and are not among those above.
    pub blind: u32,
    /// Tests of targets that answer, of which so many failed.
    pub tests: u64,
    pub failed: u64,
}

impl Row {
    fn take(&mut self, seen: &Seen) {
        self.tests += seen.tests;
        self.failed += seen.failed;
        if seen.is_blind {
            self.blind += 1;
            return;
        }
        // The one that was nearest to its limit, or beyond it.
        let is_first = self.allowed_ms == 0.0;
        if is_first || seen.accused_ms - seen.allowed_ms > self.accused_ms - self.allowed_ms {
            (self.accused_ms, self.allowed_ms) = (seen.accused_ms, seen.allowed_ms);
        }
    }

    pub fn to_line(&self) -> String {
        let Self { hosts, assignment, loss, per_round, testers_most, .. } = self;
        let rate = self.failed as f64 * 1e6 / self.tests.max(1) as f64;
        format!(
            "{hosts},{assignment:?},{loss},{per_round},{testers_most},{:.0},{:.0},{},{},{rate:.0}",
            self.accused_ms, self.allowed_ms, self.blind, self.tests
        )
    }
}

/// All rows of these sizes, with everybody a member.
pub fn rows(sizes: &[u32], seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for &hosts in sizes {
        let world = Hosts::new(hosts, ROUNDS + 1, seed);
        for assignment in [Assignment::All, Assignment::VCube, Assignment::Ring] {
            rows.extend(LOSSES.map(|loss| row(&world, assignment, loss)));
        }
    }
    rows
}

/// Who tests a host when all are members.
fn testers(assignment: Assignment, target: u32, hosts: u32) -> Vec<u32> {
    match assignment {
        Assignment::All => (0..hosts).filter(|it| *it != target).collect(),
        Assignment::Ring => vec![(target + 1) % hosts],
        Assignment::VCube => {
            let first = |s| cluster(target, s).find(|it| *it < hosts);
            (1..=dimensions(hosts)).filter_map(first).collect()
        }
    }
}

/// Of the hosts that one tests so many, all over their numbers.
fn some_targets(assignment: Assignment, tester: u32, hosts: u32) -> Vec<u32> {
    let tests = |target: &u32| assignment.tests((tester, *target), hosts, |_| true);
    let step = if assignment == Assignment::All { hosts.div_ceil(MOST_TARGETS) } else { 1 };
    (0..hosts).step_by(step as usize).filter(tests).collect()
}

fn row(world: &Hosts, assignment: Assignment, loss: u32) -> Row {
    let hosts = world.count();
    let (per_round, testers_most) = if assignment == Assignment::All {
        (u64::from(hosts) * u64::from(hosts - 1), hosts - 1)
    } else {
        let each = || (0..hosts).map(|target| testers(assignment, target, hosts).len());
        (each().sum::<usize>() as u64, each().max().unwrap_or(0) as u32)
    };
    let (accused_ms, allowed_ms, blind, tests, failed) = (0.0, 0.0, 0, 0, 0);
    let mut row = Row {
        hosts,
        assignment,
        loss,
        per_round,
        testers_most,
        accused_ms,
        allowed_ms,
        blind,
        tests,
        failed,
    };
    let mut looked_at = 0;
    for turn in 0..hosts {
        // All over the numbers.
        let tester = (u64::from(turn) * 40_503 % u64::from(hosts)) as u32;
        let targets = some_targets(assignment, tester, hosts);
        if targets.is_empty() {
            continue;
        }
        looked_at += targets.len() as u32;
        row.take(&look(world, tester, &targets, loss));
        if looked_at >= TESTS && turn > 0 {
            break;
        }
    }
    row
}

/// What one tester has seen.
struct Seen {
    accused_ms: f64,
    allowed_ms: f64,
    is_blind: bool,
    tests: u64,
    failed: u64,
}

/// One tester, whose targets answer as the hosts of a world do, but for one that stops.
struct Look<'a> {
    world: &'a Hosts,
    tester: u32,
    loss: u32,
    stopped: u32,
    stops_at: f64,
    mail: Vec<(Duration, Target, Answer)>,
    seen: Seen,
}

fn look(world: &Hosts, tester: u32, targets: &[u32], loss: u32) -> Seen {
    let stopped = targets[tester as usize % targets.len()];
    let stops_at = f64::from(STOPS_IN) * INTERVAL + world.phase(stopped);
    let seen = Seen { accused_ms: f64::MAX, allowed_ms: 0.0, is_blind: false, tests: 0, failed: 0 };
    let mut look = Look { world, tester, loss, stopped, stops_at, mail: Vec::new(), seen };
    let mut it = Tester::start(Terms::default(), moment(world.phase(tester)));
    let target = |number: &u32| Target { number: *number, life: 0 };
    let all: Vec<Target> = targets.iter().map(target).collect();
    let (mut out, mut now) = (Vec::new(), it.due());
    while now < moment(f64::from(ROUNDS) * INTERVAL) {
        look.mail.sort_unstable_by_key(|(there, ..)| *there);
        let arrived = look.mail.iter().take_while(|(there, ..)| *there <= now).count();
        for (_, from, answer) in look.mail.drain(..arrived) {
            it.handle_answer(from, answer, now, &mut out);
        }
        if it.wants_targets(now) {
            if now.as_secs_f64() * 1e3 < stops_at + INTERVAL {
                let threshold = it.threshold(stopped).unwrap_or_default();
                look.seen.is_blind = threshold == Terms::default().first;
                look.seen.allowed_ms = INTERVAL + threshold.as_secs_f64() * 1e3;
            }
            it.handle_interval(now, &all, &mut out);
        } else {
            it.handle_time(now, &mut out);
        }
        out.drain(..).for_each(|effect| look.perform(effect, now.as_secs_f64() * 1e3));
        let next = look.mail.iter().map(|(there, ..)| *there);
        now = next.fold(it.due(), Duration::min).max(now + Duration::from_nanos(1));
    }
    look.seen
}

impl Look<'_> {
    fn perform(&mut self, effect: Effect, now_ms: f64) {
        let gone = |target: Target| target.number == self.stopped && now_ms >= self.stops_at;
        match effect {
            Effect::Ask(target, question) => {
                let name = (self.tester, (now_ms / INTERVAL) as u32, question.attempt);
                if gone(target) || self.world.is_lost(target.number, name, self.loss) {
                    return;
                }
                let after = self.world.delay(target.number, now_ms, name);
                let (sequence, attempt) = (question.sequence, question.attempt);
                let answer = Answer { sequence, attempt, result: primes::RIGHT };
                self.mail.push((moment(now_ms + after), target, answer));
            }
            Effect::Verdict(target, Verdict::Passed) if gone(target) => {}
            Effect::Verdict(target, _) if gone(target) => {
                self.seen.accused_ms = self.seen.accused_ms.min(now_ms - self.stops_at);
            }
            Effect::Verdict(_, verdict) => {
                self.seen.tests += 1;
                self.seen.failed += u64::from(verdict != Verdict::Passed);
            }
            Effect::Measured(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_tests_as_it_is_said_and_who_stops_is_accused_in_time() {
        for row in rows(&[2, 16, 18], 1) {
            let (hosts, dimension) = (u64::from(row.hosts), u64::from(dimensions(row.hosts)));
            match row.assignment {
                Assignment::All => assert_eq!(row.per_round, hosts * (hosts - 1)),
                Assignment::VCube if hosts.is_power_of_two() => {
                    assert_eq!(row.per_round, hosts * dimension);
                }
                Assignment::VCube => assert!(row.per_round <= hosts * dimension, "{row:?}"),
                Assignment::Ring => assert_eq!(row.per_round, hosts),
            }
            for (tester, target) in
                (0..row.hosts).flat_map(|it| (0..row.hosts).map(move |to| (it, to)))
            {
                let tests = row.assignment.tests((tester, target), row.hosts, |_| true);
                let told = testers(row.assignment, target, row.hosts).contains(&tester);
                assert_eq!(told && tester != target, tests, "{tester} {target} {row:?}");
            }
            assert!(row.accused_ms <= row.allowed_ms, "{row:?}");
        }
    }
}
