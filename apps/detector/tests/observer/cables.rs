//! Nodes with a network of their own between them: they die, and cables are pulled.
//!
//! Each test prints the latencies that it measures; none is judged by them but for η and a time
//! that no machine needs:
//!
//! ```text
//! cargo test --release --package fampi-detector --test observer -- --nocapture cables
//! ```
//!
//! As root; else the tests say that they are skipped. The quiet one goes on for as long as it is
//! told, which for ten minutes is
//!
//! ```text
//! FAMPI_QUIET_SECONDS=600 cargo test --release --package fampi-detector --test observer -- \
//!     --nocapture no_false_report
//! ```

use std::{
    env,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    hint,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime},
};

use fampi_detector::protocol::{Cause, Timing, board::Entry};
use rustix::process::Signal;

use crate::{
    job::{Actor, Job, Observer, until},
    network::Network,
    nodes::{dead, sorted},
    rank::Member,
};

const TIMING: Timing = Timing::OF_JOBS;
/// Ranks of each node.
const RANKS: u32 = 2;
/// Beyond what a detection takes: a busy machine, and whatever else it does.
const SLACK: Duration = Duration::from_secs(20);
const QUIET_SECONDS: &str = "FAMPI_QUIET_SECONDS";

/// A job on a network.
struct Nodes {
    observers: Vec<Option<Observer>>,
    /// This process, as the first rank of each node that is not to be lost.
    witnesses: Vec<Member>,
    actors: Vec<Vec<Actor>>,
    lost: Vec<u32>,
    // The last to go: on its network there is nobody left then.
    _job: Job,
}

impl Nodes {
    /// So many nodes, of which these will be lost.
    fn start(nodes: u32, mortal: &[u32], timing: Timing) -> Option<Self> {
        let job = Job::across(Network::of(nodes)?, RANKS, timing);
        let observers = (0..nodes).map(|node| Some(job.observer(node))).collect();
        let safe = (0..nodes).filter(|node| !mortal.contains(node));
        let witnesses = safe.map(|node| job.member(node, RANKS * node)).collect();
        let actors = (0..nodes).map(|node| {
            let witnessed = u32::from(!mortal.contains(&node));
            (witnessed..RANKS).map(|rank| job.process(node, RANKS * node + rank)).collect()
        });
        let actors = actors.collect();
        // All have heard of each other.
        thread::sleep(3 * timing.period);
        Some(Self { observers, witnesses, actors, lost: Vec::new(), _job: job })
    }

    /// All processes of a node die, the observer first: nobody is left to tell.
    fn kill(&mut self, node: u32) {
        self.observers[node as usize].take().expect("it lives").kill();
        self.actors[node as usize].iter().for_each(|actor| actor.signal(Signal::KILL));
    }

    /// Every board shows that these nodes are lost, each with all its ranks at once, within so many
    /// timeouts.
    fn are_lost(&mut self, what: &str, nodes: &[u32], timeouts: u32, since: Instant) {
        self.lost.extend(nodes);
        let expected = RANKS * self.lost.len() as u32;
        let mut times = vec![None; self.witnesses.len()];
        until(what, || {
            for (time, witness) in times.iter_mut().zip(&self.witnesses) {
                let entries = witness.head().entries;
                assert!(entries.is_multiple_of(RANKS), "{what}: a part of a node is lost");
                if time.is_none() && entries == expected {
                    *time = Some(since.elapsed());
                }
            }
            times.iter().all(Option::is_some)
        });
        let mut times: Vec<u128> = times.into_iter().flatten().map(|it| it.as_millis()).collect();
        times.sort_unstable();
        let [first, .., last] = times[..] else { panic!("two boards at least") };
        println!("{what}: on {} other boards after {first} to {last} ms", times.len());
        assert!(last < (timeouts * TIMING.timeout + SLACK).as_millis(), "{what}: {last} ms");
        self.nothing_else_is_told();
    }

    fn nothing_else_is_told(&self) {
        let mut lost = self.lost.clone();
        lost.sort_unstable();
        let ranks = lost.into_iter().flat_map(|node| {
            (0..RANKS).map(move |rank| dead(node, RANKS * node + rank, Cause::NodeLost))
        });
        let expected: Vec<Entry> = ranks.collect();
        assert!(expected.iter().all(Entry::is_hard));
        for witness in &self.witnesses {
            assert_eq!(sorted(witness), expected);
            assert!(!witness.head().fenced);
        }
    }
}

#[test]
fn a_node_whose_processes_are_all_killed_is_lost() {
    let Some(mut nodes) = Nodes::start(4, &[2], TIMING) else { return };
    let since = Instant::now();
    nodes.kill(2);
    nodes.are_lost("a node was killed", &[2], 1, since);
}

/// It has found out by now that it is alone, and nothing of what it said is on its way any more.
#[test]
fn a_node_whose_cable_is_pulled_is_lost_and_stopped_when_it_comes_back() {
    pull_a_cable(4 * TIMING.timeout);
}

/// It has declared others dead, and that reaches them when the cable is plugged in again.
#[test]
fn a_node_whose_cable_was_out_for_a_moment_takes_nobody_with_it() {
    pull_a_cable(3 * TIMING.timeout / 2);
}

fn pull_a_cable(passed: Duration) {
    let Some(mut nodes) = Nodes::start(4, &[1], TIMING) else { return };
    let since = Instant::now();
    Network::cut(1);
    nodes.are_lost("a cable was pulled", &[1], 1, since);
    let mut observer = nodes.observers[1].take().expect("it goes on");
    thread::sleep(passed);
    assert!(observer.lives(), "it cannot know that it is the one that is lost");
    Network::join(1);
    for actor in &mut nodes.actors[1] {
        assert_eq!(actor.end(), Cause::Signal(9), "it is dead to all others");
    }
    observer.leaves();
    nodes.nothing_else_is_told();
}

#[test]
fn three_nodes_in_a_row_are_lost_at_once_and_the_ring_mends() {
    // Names of these nodes show nothing: the ring is in their order.
    lose_at_once("three in a row", [3, 4, 5]);
}

#[test]
fn three_nodes_anywhere_are_lost_at_once_and_the_ring_mends() {
    let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let seed = env::var("FAMPI_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or_else(now);
    let mut nodes: Vec<u32> = (0..8).collect();
    nodes.sort_by_cached_key(|node| {
        let mut digest = DefaultHasher::new();
        (seed, node).hash(&mut digest);
        digest.finish()
    });
    println!("FAMPI_SEED={seed}");
    lose_at_once("three anywhere", [nodes[0], nodes[1], nodes[2]]);
}

/// Loses three of eight nodes, then the living one before a gap, which by now is observed from
/// beyond that gap.
fn lose_at_once(what: &str, lost: [u32; 3]) {
    let mut before = (1..8).map(|distance| (lost[0] + 8 - distance) % 8);
    let next = before.find(|node| !lost.contains(node)).expect("five more");
    let mortal = [&lost[..], &[next]].concat();
    let Some(mut nodes) = Nodes::start(8, &mortal, TIMING) else { return };
    let since = Instant::now();
    for node in lost {
        nodes.kill(node);
    }
    // One timeout for the first of them, one for the two before it.
    nodes.are_lost(&format!("{what}, {lost:?}"), &lost, 2, since);
    let since = Instant::now();
    nodes.kill(next);
    nodes.are_lost(&format!("{next}, beyond the gap"), &[next], 1, since);
}

/// For how long tests without deaths are to go on, if somebody wants them to.
pub(crate) fn quiet_seconds() -> Option<Duration> {
    let seconds = env::var(QUIET_SECONDS).ok()?;
    Some(Duration::from_secs(seconds.parse().expect("a number of seconds")))
}

#[test]
fn a_heartbeat_of_10_ms_on_a_busy_machine_makes_no_false_report() {
    let quick = Timing { period: Duration::from_millis(10), ..TIMING };
    let Some(nodes) = Nodes::start(4, &[], quick) else { return };
    let duration = quiet_seconds().unwrap_or(Duration::from_secs(10));
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        thread::sleep(duration);
        is_over.store(true, Relaxed);
    });
    println!("{threads} threads were busy for {duration:?}");
    nodes.nothing_else_is_told();
    assert!(nodes.observers.into_iter().flatten().all(|mut observer| observer.lives()));
}
