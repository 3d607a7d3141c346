//! Every story of a few tests of one target: what is lost, late or wrong, and when the tester is
//! kept from running, against what should come of it, reckoned in another way.
//!
//! The driver is that of the observer: what has arrived before what time it is.

use std::{cmp::Ordering, time::Duration};

use fampi_detector::protocol::diagnosis::{
    Answer, Effect, Opinion, Target, Terms, Verdict, primes, tester::Tester,
};

/// Tests in a story.
const INTERVALS: usize = 4;
const TERMS: Terms = Terms {
    interval: milliseconds(1000),
    kappa_percent: 100,
    floor: milliseconds(2),
    first: milliseconds(40),
    work: 1,
    stall_guard: true,
};
const TARGET: Target = Target { number: 7, life: 0 };
/// From an interval's begin the tester is not run, in a story in which it is not, in ms.
const PAUSE: (f64, f64) = (5.0, 105.0);
/// What becomes of the first attempt of a test: when its answer is there, and whether it is right.
const FIRST: [Option<(f64, bool)>; 5] =
    [None, Some((10.0, true)), Some((60.0, true)), Some((250.0, true)), Some((10.0, false))];
/// And of the second, if there is one.
const SECOND: [Option<(f64, bool)>; 2] = [None, Some((10.0, true))];

const fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn in_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// What becomes of one interval.
#[derive(Clone, Copy, Debug)]
struct Fate {
    attempts: [Option<(f64, bool)>; 2],
    paused: bool,
}

/// Something that was told, and when, in ms: a verdict, or what was measured and θ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Verdict(f64, Verdict),
    Measured(f64, f64),
}

impl Told {
    /// The machine reckons in whole nanoseconds.
    fn is_nearly(self, other: Self) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() < 0.001;
        match (self, other) {
            (Self::Verdict(at, one), Self::Verdict(then, other)) => near(at, then) && one == other,
            (Self::Measured(one, over), Self::Measured(other, under)) => {
                near(one, other) && near(over, under)
            }
            _ => false,
        }
    }
}

/// What the machine does.
fn played(story: &[Fate]) -> (Vec<Told>, Opinion) {
    let mut tester = Tester::start(TERMS, Duration::ZERO);
    let (mut told, mut out) = (Vec::new(), Vec::new());
    // Answers on their way: when they are there, and what they are.
    let mut mail: Vec<(Duration, Answer)> = Vec::new();
    for (number, fate) in story.iter().enumerate() {
        let begin = TERMS.interval * number as u32;
        let pause = |at: Duration| {
            let [from, to] = [PAUSE.0, PAUSE.1].map(|it| begin + Duration::from_secs_f64(it / 1e3));
            if fate.paused && at >= from && at < to { to } else { at }
        };
        let end = begin + TERMS.interval;
        let mut now = begin;
        loop {
            mail.sort_by_key(|(at, _)| *at);
            let arrived = mail.iter().take_while(|(at, _)| *at <= now).count();
            for (_, answer) in mail.drain(..arrived) {
                tester.handle_answer(TARGET, answer, now, &mut out);
            }
            if tester.wants_targets(now) {
                tester.handle_interval(now, &[TARGET], &mut out);
            } else {
                tester.handle_time(now, &mut out);
            }
            for effect in out.drain(..) {
                match effect {
                    Effect::Ask(_, question) => {
                        let fate = fate.attempts[usize::from(question.attempt)];
                        mail.extend(fate.map(|(after, right)| {
                            let result = if right { primes::RIGHT } else { primes::Sum::default() };
                            let (sequence, attempt) = (question.sequence, question.attempt);
                            let at = now + Duration::from_secs_f64(after / 1e3);
                            (at, Answer { sequence, attempt, result })
                        }));
                    }
                    Effect::Verdict(_, verdict) => told.push(Told::Verdict(in_ms(now), verdict)),
                    Effect::Measured(_, took, threshold) => {
                        told.push(Told::Measured(in_ms(took), in_ms(threshold)));
                    }
                }
            }
            let next = mail.iter().map(|(at, _)| *at).fold(tester.due(), Duration::min);
            now = pause(next.max(now));
            if now >= end {
                break;
            }
        }
    }
    (told, tester.opinion(TARGET.number))
}

/// What should come of it: the same again, without machines.
#[derive(Default)]
struct Reckoning {
    told: Vec<Told>,
    opinion: Opinion,
    estimate: Option<(f64, f64)>,
}

impl Reckoning {
    fn threshold(&self) -> f64 {
        let (mean, variation) = self.estimate.unwrap_or((in_ms(TERMS.first), 0.0));
        (mean + 4.0 * variation).max(in_ms(TERMS.floor))
    }

    fn measure(&mut self, took: f64, threshold: f64) {
        self.told.push(Told::Measured(took, threshold));
        self.estimate = Some(match self.estimate {
            None => (took, took / 2.0),
            Some((mean, variation)) => {
                (0.9 * mean + 0.1 * took, 0.9 * variation + 0.1 * (took - mean).abs())
            }
        });
    }

    fn judge(&mut self, at: f64, verdict: Verdict) {
        self.told.push(Told::Verdict(at, verdict));
        let Opinion { fails, streak } = self.opinion;
        self.opinion = match verdict {
            Verdict::Passed => Opinion { fails, streak: streak + 1 },
            Verdict::Late | Verdict::Wrong => Opinion { fails: fails + 1, streak: 0 },
        };
    }

    /// One test that begins at a moment; when it is over.
    fn test(&mut self, begin: f64, fate: Fate) -> f64 {
        let threshold = self.threshold();
        let handled = |at: f64| {
            let inside = fate.paused && (PAUSE.0..PAUSE.1).contains(&at);
            if inside { PAUSE.1 } else { at }
        };
        let stalled = fate.paused && PAUSE.1 > threshold && threshold / 2.0 < PAUSE.1;
        let again = handled(threshold / 2.0);
        let first = fate.attempts[0].map(|(after, right)| (after, 0.0, right));
        let unanswered = first.is_none_or(|(after, ..)| handled(after) > again);
        let second = fate.attempts[1].filter(|_| unanswered);
        let second = second.map(|(after, right)| (again + after, again, right));
        let mut answers: Vec<_> = first.into_iter().chain(second).collect();
        answers.sort_by(|one, other| one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal));
        let over = (4.0 * threshold).max(in_ms(TERMS.interval));
        let late = handled(threshold);
        let Some((there, sent, right)) = answers.first().copied() else {
            if !stalled {
                self.judge(begin + late, Verdict::Late);
            }
            return begin + over;
        };
        let there = handled(there);
        // What was there in time is handed over before it is found late.
        if there > late && !stalled {
            self.judge(begin + late, Verdict::Late);
        }
        if right && (there <= threshold || !stalled) {
            self.measure(there - sent, threshold);
        }
        match () {
            () if there > late => {}
            () if !right => self.judge(begin + there, Verdict::Wrong),
            () if there <= threshold => self.judge(begin + there, Verdict::Passed),
            () if !stalled => self.judge(begin + there, Verdict::Late),
            () => {}
        }
        begin + there
    }
}

fn reckoned(story: &[Fate]) -> (Vec<Told>, Opinion) {
    let (mut it, mut over) = (Reckoning::default(), 0.0);
    for (number, fate) in story.iter().enumerate() {
        let begin = in_ms(TERMS.interval) * number as f64;
        if over <= begin {
            over = it.test(begin, *fate);
        }
    }
    (it.told, it.opinion)
}

/// Tells all stories: how many, or the number of the first that ends otherwise, and how.
pub(crate) fn all() -> Result<usize, (usize, String)> {
    let pauses = [false, true];
    let fates: Vec<Fate> = FIRST
        .iter()
        .flat_map(|first| SECOND.iter().map(move |second| [*first, *second]))
        .flat_map(|attempts| pauses.map(|paused| Fate { attempts, paused }))
        .collect();
    let stories = fates.len().pow(INTERVALS as u32);
    for number in 0..stories {
        let of = |at: usize| fates[number / fates.len().pow(at as u32) % fates.len()];
        let story: Vec<Fate> = (0..INTERVALS).map(of).collect();
        let (played, should) = (played(&story), reckoned(&story));
        let alike = played.0.len() == should.0.len()
            && played.0.iter().zip(&should.0).all(|(one, other)| one.is_nearly(*other));
        if !alike || played.1 != should.1 {
            return Err((number + 1, format!("{played:?} for {should:?} of {story:?}")));
        }
    }
    Ok(stories)
}

#[test]
fn every_story_of_four_tests_ends_as_it_should() {
    match all() {
        Ok(stories) => assert_eq!(stories, 160_000),
        Err((number, wrong)) => panic!("story {number}: {wrong}"),
    }
}
