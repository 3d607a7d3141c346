//! One tester in small cases.

use alloc::vec::Vec;

use super::super::{Question, Verdict, primes};
use super::*;

const TERMS: Terms = Terms::USUAL;

fn target(number: u32, life: u32) -> Target {
    Target { number, life }
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn questions(out: &mut Effects) -> Vec<(Target, Question)> {
    let asked = |effect| match effect {
        Effect::Ask(target, question) => Some((target, question)),
        Effect::Measured(..) | Effect::Verdict(..) => None,
    };
    out.drain(..).filter_map(asked).collect()
}

/// Answers all questions after so long.
fn answer(tester: &mut Tester, out: &mut Effects, now: Duration) {
    for (target, Question { sequence, attempt, .. }) in questions(out) {
        let right = Answer { sequence, attempt, result: primes::RIGHT };
        tester.handle_answer(target, right, now, out);
    }
}

/// A tester of these whose answers took 10 ms, so often.
fn acquainted(targets: &[Target], intervals: u32) -> (Tester, Effects) {
    let (mut tester, mut out) = (Tester::start(TERMS, Duration::ZERO), Effects::new());
    for number in 0..intervals {
        let now = TERMS.interval * number;
        tester.handle_interval(now, targets, &mut out);
        answer(&mut tester, &mut out, now + milliseconds(10));
        out.clear();
    }
    (tester, out)
}

#[test]
fn a_target_that_stops_answering_fails_within_an_interval_and_its_threshold() {
    let both = [target(0, 0), target(1, 0)];
    let (mut tester, mut out) = acquainted(&both, 30);
    let now = TERMS.interval * 30;
    tester.handle_interval(now, &both, &mut out);
    let (stopped, other): (Vec<_>, Vec<_>) =
        questions(&mut out).into_iter().partition(|(target, _)| target.number == 0);
    let (_, Question { sequence, attempt, .. }) = other[0];
    let right = Answer { sequence, attempt, result: primes::RIGHT };
    tester.handle_answer(both[1], right, now + milliseconds(10), &mut out);
    while tester.opinion(0).fails == 0 {
        let due = tester.due();
        assert!(due <= now + tester.threshold(0).expect("a target"));
        tester.handle_time(due, &mut out);
    }
    assert_eq!((tester.opinion(0).streak, tester.opinion(1).fails), (0, 0));
    assert_eq!(stopped.len(), 1);
    let again = questions(&mut out);
    assert!(again.iter().all(|(target, question)| target.number == 0 && question.attempt == 1));
}

#[test]
fn how_long_a_target_took_to_begin_is_no_measure_of_its_answers() {
    let (mut tester, mut out) = (Tester::start(TERMS, Duration::ZERO), Effects::new());
    tester.handle_interval(Duration::ZERO, &[target(0, 0)], &mut out);
    let (_, first) = questions(&mut out)[0];
    let began = milliseconds(600);
    tester.handle_answer(target(0, 0), Answer::BEGINS, began, &mut out);
    let right = Answer { sequence: first.sequence, attempt: 0, result: primes::RIGHT };
    tester.handle_answer(target(0, 0), right, began + milliseconds(10), &mut out);
    let (usual, _) = acquainted(&[target(0, 0)], 1);
    assert_eq!(tester.threshold(0), usual.threshold(0));

    // Said later, it excuses nothing.
    tester.handle_interval(TERMS.interval, &[target(0, 0)], &mut out);
    while tester.due() < TERMS.interval * 2 && tester.opinion(0).fails == 0 {
        let due = tester.due();
        tester.handle_answer(target(0, 0), Answer::BEGINS, due, &mut out);
        tester.handle_time(due, &mut out);
    }
    assert_eq!(tester.opinion(0), Opinion { fails: 1, streak: 0 });
}

#[test]
fn a_target_that_never_begins_fails_as_one_that_never_answers() {
    let (mut tester, mut out) = (Tester::start(TERMS, Duration::ZERO), Effects::new());
    tester.handle_interval(Duration::ZERO, &[target(0, 0)], &mut out);
    while tester.due() <= TERMS.first {
        let due = tester.due();
        if tester.wants_targets(due) {
            tester.handle_interval(due, &[target(0, 0)], &mut out);
        } else {
            tester.handle_time(due, &mut out);
        }
    }
    assert_eq!(tester.opinion(0).fails, 1);
}

#[test]
fn a_new_life_has_no_past_and_the_answers_of_the_old_one_are_not_its() {
    let (mut tester, mut out) = acquainted(&[target(0, 0)], 30);
    assert_eq!(tester.opinion(0), Opinion { fails: 0, streak: 30 });
    let now = TERMS.interval * 30;
    tester.handle_interval(now, &[target(0, 1)], &mut out);
    let (_, Question { sequence, attempt, .. }) = questions(&mut out)[0];
    let right = Answer { sequence, attempt, result: primes::RIGHT };
    tester.handle_answer(target(0, 0), right, now + milliseconds(1), &mut out);
    assert_eq!((tester.opinion(0).streak, tester.threshold(0)), (0, Some(TERMS.first)));
    tester.handle_answer(target(0, 1), right, now + milliseconds(2), &mut out);
    assert_eq!(tester.opinion(0).streak, 1);
    tester.handle_answer(target(0, 1), right, now + milliseconds(3), &mut out);
    assert_eq!(tester.opinion(0).streak, 1, "it came twice");
}

#[test]
fn who_is_not_tested_for_a_while_is_known_after_it_and_the_dead_are_not() {
    let (mut tester, mut out) = acquainted(&[target(0, 0), target(1, 0)], 30);
    let known = tester.threshold(0);
    tester.handle_interval(TERMS.interval * 30, &[], &mut out);
    assert_eq!((tester.threshold(0), questions(&mut out).len()), (known, 0));
    tester.handle_death(0);
    assert_eq!(tester.threshold(0), None);
    let now = TERMS.interval * 31;
    tester.handle_interval(now, &[target(1, 0)], &mut out);
    answer(&mut tester, &mut out, now + milliseconds(10));
    assert_eq!(tester.opinion(1).streak, 31);
}

#[test]
fn a_machine_that_was_suspended_accuses_nobody() {
    let (mut tester, mut out) = acquainted(&[target(0, 0)], 30);
    tester.handle_interval(TERMS.interval * 30, &[target(0, 0)], &mut out);
    tester.handle_time(TERMS.interval * 5000, &mut out);
    tester.handle_interval(TERMS.interval * 5000, &[target(0, 0)], &mut out);
    assert_eq!((tester.opinion(0).fails, tester.stalls()), (0, 1));
    assert!(tester.due() > TERMS.interval * 5000, "what was missed is not made up for");
    let verdicts = out.iter().filter(|it| matches!(it, Effect::Verdict(_, Verdict::Late)));
    assert_eq!(verdicts.count(), 0);
}
