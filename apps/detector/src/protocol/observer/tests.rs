//! One observer at a time, told of everything by hand.

use super::*;
use crate::protocol::{Incarnation, Rank, message::Company};
use alloc::vec;
use core::time::Duration;

const TIMING: Timing = Timing::with_period(Duration::from_millis(100));

fn host(node: u32) -> Host {
    Host { node: Node(node), incarnation: Incarnation(0) }
}

fn process(rank: u32, incarnation: u32) -> Process {
    Process { rank: Rank(rank), incarnation: Incarnation(incarnation) }
}

/// The observer of a node among so many, two processes on each.
fn observer(node: u32, nodes: u32) -> (Observer, Effects) {
    let mut out = Vec::new();
    let layout = Arc::new(Layout::regular(nodes, 2));
    let it = Observer::start(host(node), TIMING, layout, &mut out);
    (it, out)
}

fn turn(it: &mut Observer, turn: impl FnOnce(&mut Observer, &mut Effects)) -> Effects {
    let mut out = Vec::new();
    turn(it, &mut out);
    out
}

fn sent(out: &[Effect]) -> Vec<(Node, &Message)> {
    let sends = out.iter().filter_map(|effect| match effect {
        Effect::Send(to, message) => Some((to.node, message)),
        _ => None,
    });
    sends.collect()
}

fn events(out: &[Effect]) -> Vec<Event> {
    let events = out.iter().filter_map(|effect| match effect {
        Effect::Emit(event) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

/// Lets the observed nodes be silent until the verdict.
fn time_out(it: &mut Observer) -> Effects {
    for _ in 0..TIMING.requests {
        turn(it, |it, out| it.handle_timer(Timer::Silence, out));
    }
    turn(it, |it, out| it.handle_timer(Timer::Silence, out))
}

#[test]
fn the_ring_is_that_of_the_paper() {
    let (mut it, out) = observer(0, 4);
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [Node(3)]);
    assert_eq!(it.ring().successor(), Some(Node(1)));
    assert!(out.contains(&Effect::Arm(Timer::Silence, TIMING.start)), "launches take their time");
    let out = turn(&mut it, |it, out| it.handle_timer(Timer::Heartbeat, out));
    assert_eq!(sent(&out), [(Node(1), &Message::Heartbeat(0))]);
    assert!(out.contains(&Effect::Arm(Timer::Heartbeat, TIMING.period)));
}

#[test]
fn from_the_last_heartbeat_to_the_verdict_it_takes_the_timeout() {
    let (mut it, _) = observer(0, 4);
    let mut passed = Duration::ZERO;
    let mut out = turn(&mut it, |it, out| it.handle_message(host(3), Message::Heartbeat(0), out));
    let mut requests = 0;
    while events(&out).is_empty() {
        let wait = out.iter().find_map(|effect| match effect {
            Effect::Arm(Timer::Silence, wait) => Some(*wait),
            _ => None,
        });
        passed += wait.expect("it waits on");
        out = turn(&mut it, |it, out| it.handle_timer(Timer::Silence, out));
        requests += sent(&out).iter().filter(|it| *it == &(Node(3), &Message::Request)).count();
    }
    assert_eq!(passed, TIMING.timeout);
    assert_eq!(requests, usize::from(TIMING.requests));
    assert_eq!(events(&out), [Event::Lost(host(3), vec![process(6, 0), process(7, 0)])]);
}

#[test]
fn one_answer_to_a_request_is_a_sign_of_life() {
    let (mut it, _) = observer(0, 4);
    turn(&mut it, |it, out| it.handle_timer(Timer::Silence, out));
    let out = turn(&mut it, |it, out| it.handle_message(host(3), Message::Heartbeat(0), out));
    assert_eq!(out, [Effect::Arm(Timer::Silence, TIMING.patience())]);
    assert!(events(&time_out(&mut it)).len() == 1, "and counts as long as any other");
}

#[test]
fn the_ring_mends_over_a_row_of_dead_in_as_many_timeouts_as_their_number_has_digits() {
    let (mut it, _) = observer(0, 40);
    // 37 to 30, and 39: known from elsewhere, it is skipped.
    let news = Message::News { origin: Node(20), facts: vec![Fact::Lost(host(38))] };
    turn(&mut it, |it, out| it.handle_message(host(20), news, out));
    let out = time_out(&mut it);
    assert!(sent(&out).contains(&(Node(39), &Message::Fence(None))));
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [37, 36].map(Node));
    time_out(&mut it);
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [35, 34, 33, 32].map(Node));
    turn(&mut it, |it, out| it.handle_message(host(33), Message::Heartbeat(0), out));
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [35, 34, 33].map(Node), "32 is 33's");
    let out = time_out(&mut it);
    assert_eq!(events(&out).len(), 2);
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [Node(33)]);
    assert!(it.registry().is_alive(Node(33)) && !it.registry().is_alive(Node(34)));
    assert_eq!(time_out(&mut it).iter().filter(|it| matches!(it, Effect::Emit(_))).count(), 1);
}

#[test]
fn the_last_of_all_observes_nobody_and_still_shows_itself() {
    let (mut it, _) = observer(0, 2);
    let out = time_out(&mut it);
    assert!(out.contains(&Effect::Disarm(Timer::Silence)));
    let out = turn(&mut it, |it, out| it.handle_timer(Timer::Heartbeat, out));
    assert_eq!(sent(&out).len(), 1, "if the other one lives it will fence us");
    let alone = |first| Message::Fence(Some(Company { nodes: 1, first: Node(first) }));
    let out = turn(&mut it, |it, out| it.handle_message(host(1), alone(1), out));
    assert_eq!(sent(&out), [(Node(1), &alone(0))], "of two that are alone the first stays");
    let (mut other, _) = observer(1, 2);
    time_out(&mut other);
    let out = turn(&mut other, |it, out| it.handle_message(host(0), alone(0), out));
    assert!(events(&out).contains(&Event::Fenced));
}

#[test]
fn who_was_cut_off_takes_nobody_with_it_when_it_comes_back() {
    let (mut cut, _) = observer(0, 5);
    let (mut other, _) = observer(4, 5);
    let news = Message::News { origin: Node(1), facts: vec![Fact::Lost(host(0))] };
    turn(&mut other, |it, out| it.handle_message(host(1), news, out));
    time_out(&mut cut);
    time_out(&mut cut);
    // What it has said alone, of node 4, comes late.
    let out = turn(&mut other, |it, out| it.handle_message(host(0), Message::Fence(None), out));
    let answer = Message::Fence(Some(Company { nodes: 4, first: Node(1) }));
    assert_eq!(sent(&out), [(Node(0), &answer)]);
    assert!(!other.is_fenced());
    turn(&mut cut, |it, out| it.handle_message(host(4), answer, out));
    assert!(cut.is_fenced());
}

#[test]
fn news_are_passed_on_once_and_told_after() {
    let (mut it, _) = observer(3, 8);
    let fact = Fact::Died(process(0, 0), Cause::Signal(9));
    let news = Message::News { origin: Node(0), facts: vec![fact] };
    let out = turn(&mut it, |it, out| it.handle_message(host(2), news.clone(), out));
    let told: Vec<Node> = sent(&out).into_iter().map(|(to, _)| to).collect();
    assert_eq!(told, [7, 4, 5, 1].map(Node), "the tree first, and not back");
    assert_eq!(events(&out), [Event::Died(process(0, 0), Cause::Signal(9))]);
    assert!(matches!(out.last(), Some(Effect::Emit(_))));
    assert_eq!(turn(&mut it, |it, out| it.handle_message(host(4), news, out)), []);
}

#[test]
fn who_knows_otherwise_says_so_and_hears_what_it_lacks() {
    let ((mut one, _), (mut other, _)) = (observer(0, 4), observer(1, 4));
    turn(&mut one, |it, out| it.handle_exit(process(0, 0), Cause::Exit(1), out));
    turn(&mut other, |it, out| it.handle_exit(process(2, 0), Cause::Exit(2), out));
    let heartbeat = turn(&mut one, |it, out| it.handle_timer(Timer::Heartbeat, out));
    let [(_, heartbeat)] = sent(&heartbeat)[..] else { panic!("one heartbeat") };
    let out = turn(&mut other, |it, out| it.handle_message(host(0), heartbeat.clone(), out));
    let [(Node(0), comparison)] = sent(&out)[..] else { panic!("one comparison") };
    let out = turn(&mut one, |it, out| it.handle_message(host(1), comparison.clone(), out));
    let answer = sent(&out)
        .into_iter()
        .find(|(to, message)| *to == Node(1) && matches!(message, Message::Comparison { .. }));
    let (_, answer) = answer.expect("an answer");
    turn(&mut other, |it, out| it.handle_message(host(0), answer.clone(), out));
    assert_eq!(one.registry().digest(), other.registry().digest());
    let heartbeat = Message::Heartbeat(one.registry().digest());
    let out = turn(&mut other, |it, out| it.handle_message(host(0), heartbeat, out));
    assert_eq!(sent(&out), []);
}

#[test]
fn a_process_that_hangs_is_dead_to_all_then_stopped_then_killed() {
    let (mut it, _) = observer(1, 4);
    let hung = process(2, 0);
    let out = turn(&mut it, |it, out| it.handle_declaration(hung, Cause::Hung, out));
    assert_eq!(events(&out), [Event::Died(hung, Cause::Hung), Event::Stop(hung)]);
    assert!(out.contains(&Effect::Arm(Timer::Grace(hung), TIMING.grace)));
    let out = turn(&mut it, |it, out| it.handle_timer(Timer::Grace(hung), out));
    assert_eq!(events(&out), [Event::Kill(hung)]);
    let out = turn(&mut it, |it, out| it.handle_exit(hung, Cause::Signal(9), out));
    assert_eq!(out, [Effect::Disarm(Timer::Grace(hung))], "that is no second death");
    assert_eq!(turn(&mut it, |it, out| it.handle_timer(Timer::Grace(hung), out)), []);
}

#[test]
fn a_replaced_process_that_lives_is_stopped_and_its_end_is_no_news() {
    let (mut it, _) = observer(1, 4);
    let facts = vec![Fact::Joined(process(3, 1), host(0))];
    let news = Message::News { origin: Node(0), facts };
    let out = turn(&mut it, |it, out| it.handle_message(host(0), news, out));
    let old = process(3, 0);
    let expected = [
        Event::Died(old, Cause::Replaced),
        Event::Stop(old),
        Event::Joined(process(3, 1), host(0)),
    ];
    assert_eq!(events(&out), expected);
    let out = turn(&mut it, |it, out| it.handle_exit(old, Cause::Exit(0), out));
    assert_eq!(events(&out), []);
}

#[test]
fn only_a_newer_incarnation_takes_a_rank() {
    let (mut it, _) = observer(1, 4);
    let ended = Cause::Ended;
    let register = |it: &mut Observer, process| {
        events(&turn(it, |it, out| it.handle_registration(process, out)))
    };
    assert_eq!(register(&mut it, process(2, 0)), [], "the launch knows it");
    turn(&mut it, |it, out| it.handle_exit(process(2, 0), ended, out));
    assert_eq!(register(&mut it, process(2, 0)), [Event::Refused(process(2, 0))]);
    assert_eq!(register(&mut it, process(0, 0)), [Event::Refused(process(0, 0))]);
    let joined = Event::Joined(process(2, 1), host(1));
    assert_eq!(register(&mut it, process(2, 1)), [joined]);
    assert_eq!(it.registry().hosted(host(1)), [process(2, 1), process(3, 0)]);
}

#[test]
fn the_dead_are_told_so_and_change_nothing() {
    let (mut it, _) = observer(0, 4);
    time_out(&mut it);
    let before = it.clone();
    let news = Message::News { origin: Node(3), facts: vec![Fact::Lost(host(1))] };
    let out = turn(&mut it, |it, out| it.handle_message(host(3), news, out));
    let fence = Message::Fence(Some(Company { nodes: 3, first: Node(0) }));
    assert_eq!(out, [Effect::Send(host(3), fence), Effect::Emit(Event::Ghost(host(3)))]);
    assert_eq!(it, before);
}

#[test]
fn a_fenced_observer_stops_its_processes_and_says_no_more() {
    let (mut it, _) = observer(1, 4);
    let out = turn(&mut it, |it, out| it.handle_message(host(2), Message::Fence(None), out));
    let stops = [process(2, 0), process(3, 0)];
    let expected = [Event::Stop(stops[0]), Event::Stop(stops[1]), Event::Fenced];
    assert_eq!(events(&out), expected);
    assert!(it.is_fenced());
    for timer in [Timer::Heartbeat, Timer::Silence] {
        assert_eq!(turn(&mut it, |it, out| it.handle_timer(timer, out)), []);
    }
    let out = turn(&mut it, |it, out| it.handle_timer(Timer::Grace(stops[0]), out));
    assert_eq!(events(&out), [Event::Kill(stops[0])]);
}

#[test]
fn a_new_observer_of_a_node_is_a_new_life_and_ends_the_old_one() {
    let (mut it, _) = observer(2, 4);
    let again = Host { node: Node(1), incarnation: Incarnation(1) };
    let out = turn(&mut it, |it, out| it.handle_message(again, Message::Heartbeat(0), out));
    let hosted = vec![process(2, 0), process(3, 0)];
    assert_eq!(events(&out), [Event::Lost(host(1), hosted)]);
    assert_eq!(it.ring().observed().collect::<Vec<_>>(), [Node(1)]);
    let out = turn(&mut it, |it, out| it.handle_message(host(1), Message::Request, out));
    let fence = Message::Fence(Some(Company { nodes: 4, first: Node(0) }));
    assert_eq!(sent(&out), [(Node(1), &fence)]);
    assert!(it.registry().is_alive(Node(1)));
}

#[test]
fn nonsense_of_a_member_is_survived() {
    let (mut it, _) = observer(0, 4);
    let far = |node| Host { node: Node(node), incarnation: Incarnation(u32::MAX) };
    let facts = vec![Fact::Lost(far(4)), Fact::Returned(far(u32::MAX))];
    for message in [
        Message::News { origin: Node(u32::MAX), facts: facts.clone() },
        Message::Comparison { digest: 1, facts, answer: true },
    ] {
        turn(&mut it, |it, out| it.handle_message(host(1), message, out));
    }
    turn(&mut it, |it, out| it.handle_message(far(9), Message::Fence(None), out));
    turn(&mut it, |it, out| it.handle_message(host(0), Message::Fence(None), out));
    assert!(!it.is_fenced());
}
