//! The protocol of the detector: one observer per node, a heartbeat ring, a flood of the news.
//!
//! An observer sees the processes of its own node die at once, through the system. Nodes are
//! arranged in a ring: each sends heartbeats to its successor every period δ, and is lost when the
//! successor has heard nothing for the timeout η. Who learns of a death tells its neighbours in a
//! binomial graph, which tell theirs, and the processes of its own node.
//!
//! ```text
//! ring         d−1 ── heartbeat, every δ ──▶ d ── heartbeat, every δ ──▶ d+1
//! silence      d+1 ── request ──▶ d          a few times before η: a lost packet is no death
//! lost         d+1 ── request ──▶ d−1        and on over all who are silent
//! news         d+1 ── news ──▶ d+1±2^k ── news ──▶ …     tree edges first, each observer once
//! comparison   a heartbeat carries a digest of what its sender knows; who knows otherwise answers
//! ```
//!
//! | file | idea | source |
//! |---|---|---|
//! | [`observer`] | one node's part in all of it; fences the dead who live | Zhong 2019 §4 |
//! | [`ring`] | who observes whom, and for how long in silence | Zhong 2019 §4.5 |
//! | [`graph`] | the binomial graph, edges of the tree first | Zhong 2019 §4.6 |
//! | [`registry`] | what is known of every process and node | Zhong 2019 §4.3, Bland 2012 §III.A |
//! | [`layout`], [`order`] | who is where; neighbours in different cabinets | Zhong 2019 §5.6 |
//! | [`message`], [`codec`] | what travels, and its bytes | – |
//! | [`envelope`] | authentic, fresh, and meant for us, or refused and counted | – |
//! | [`plan`] | what an observer is told at its start | – |
//! | [`registration`] | how a process and the observer of its node prove who they are | – |
//! | [`board`] | what the observer shows the processes of its node | – |
//! | [`exits`] | the name of a process that exits before its end | – |
//! | [`pulse`] | what a process shows its observer, and when it is hung | – |
//! | [`diagnosis`] | who lives and is slow: tests, and thresholds that follow | Camargo 2018 §3 |
//! | [`view`] | what it shows a person | – |
//!
//! **Guarantees.** A death is known to every living observer in the end: by the flood while fewer
//! nodes died than the graph's degree, else, or when packets are lost, by comparison along the
//! ring. What is reported dead is never un-reported; a newer incarnation takes its place. Who was
//! declared dead and lives is told so, and stopped by its own observer.
//!
//! **Assumes** that the driver hands over what has arrived before it says that a timer has run
//! out: then an observer that was kept from running sees no silence where there was none. Nodes
//! that hear nothing of each other for η take each other for dead: a network that falls apart
//! leaves parts that go on without each other. A node that then hears of one that it holds for
//! dead, and that it is dead to, stops if it knows fewer to live than that one does.
//!
//! **Differs from the paper.** Packets may be lost, so silence is asked about before it is a
//! death. Of many silent neighbours in the ring it asks twice as many at each timeout, so k nodes
//! in a row take log k timeouts, not k. The flood names a node, not its processes: all observers
//! know who is where. Everything has an incarnation, of nodes too.
//!
//! Reference: Zhong 2019 §4; Bland 2012 §III.

pub mod board;
pub mod codec;
pub mod diagnosis;
pub mod envelope;
pub mod exits;
pub mod graph;
pub mod layout;
pub mod message;
pub mod observer;
pub mod order;
pub mod plan;
pub mod pulse;
pub mod registration;
pub mod registry;
pub mod ring;
pub mod view;

use alloc::vec::Vec;
use core::{fmt, time::Duration};

use diagnosis::schedule::Schedule;
use message::Message;

/// A process of the launch, numbered as MPI numbers the world.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rank(pub u32);

impl Rank {
    /// The number as an index into arrays that hold one entry per rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node of the job: its place in the list that all were given at the launch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Node(pub u32);

/// How many times what has this name was replaced (the paper's epoch). The launch is 0.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Incarnation(pub u32);

/// One observer, and by it one life of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Host {
    /// The node.
    pub node: Node,
    /// Which of its observers.
    pub incarnation: Incarnation,
}

/// One life of a rank of the launch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Process {
    /// Its rank in the launch; a replacement has that of the one it replaces.
    pub rank: Rank,
    /// Which process of those that held it.
    pub incarnation: Incarnation,
}

/// Why a process is dead.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cause {
    /// It ended, and the system does not say how.
    Ended,
    /// It ended with this status; 0 says that it left in order, all done.
    Exit(u8),
    /// It ended by this signal.
    Signal(u8),
    /// It made no progress for longer than the user allows.
    Hung,
    /// The ranks have agreed that it is dead, whatever the system says.
    Declared,
    /// Its node is gone: a hard failure, where all others are soft.
    NodeLost,
    /// Another process holds its rank.
    Replaced,
}

impl Cause {
    /// True when the process may not have ended.
    pub const fn may_live(self) -> bool {
        !matches!(self, Self::Ended | Self::Exit(_) | Self::Signal(_))
    }
}

/// How long things take; all observers of a job have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Timing {
    /// δ: between two heartbeats.
    pub period: Duration,
    /// η: a node that was not heard of for so long is lost. More than δ.
    pub timeout: Duration,
    /// Instead of η until the first heartbeat: launches take their time.
    pub start: Duration,
    /// A silent node is asked so many times, evenly between δ and η, before it is lost.
    pub requests: u8,
    /// A process that is told to stop is killed after so long.
    pub grace: Duration,
    /// A process that makes no progress for so long is hung; `None` if nobody ever is.
    pub hung: Option<Duration>,
    /// How this observer tests processes, to find the slow ones; `None` if it tests none.
    pub diagnosis: Option<Schedule>,
}

impl Timing {
    /// The timing of a job of real ranks. They share cores with the observer of their node, and may
    /// keep it from running for a while.
    pub const OF_JOBS: Self = Self {
        period: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        start: Duration::from_secs(10),
        requests: 3,
        grace: Duration::from_millis(500),
        hung: None,
        diagnosis: None,
    };

    /// The timing of a job whose observers send a heartbeat every so often. The timeout is ten of
    /// them, but not less than that of [`OF_JOBS`](Self::OF_JOBS), for its reason.
    pub fn of_jobs_with(period: Duration) -> Self {
        let timeout = period.saturating_mul(10).max(Self::OF_JOBS.timeout);
        Self { period, timeout, start: Self::OF_JOBS.start.max(timeout), ..Self::OF_JOBS }
    }

    /// The timing of the paper, η = 2 δ, with requests in between.
    pub const fn with_period(period: Duration) -> Self {
        Self {
            period,
            timeout: period.saturating_mul(2),
            start: period.saturating_mul(20),
            requests: 3,
            grace: Duration::from_millis(200),
            hung: None,
            diagnosis: None,
        }
    }

    /// Between the last heartbeat and the first request.
    fn patience(&self) -> Duration {
        self.period + self.interval()
    }

    /// Between two requests, and between the last of them and the verdict.
    fn interval(&self) -> Duration {
        self.timeout.saturating_sub(self.period) / (u32::from(self.requests) + 1)
    }
}

/// What runs out. Arming one again moves it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// The next heartbeat is due.
    Heartbeat,
    /// The observed node has been silent.
    Silence,
    /// This process of ours, dead to all others, was told to stop.
    Grace(Process),
}

/// What an observer wants done, in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Effect {
    /// Send this; it may be lost, come twice, or late.
    Send(Host, Message),
    /// Say so after this time, from the moment that this turn is about.
    Arm(Timer, Duration),
    /// Say nothing.
    Disarm(Timer),
    /// Tell the processes of the node what happened.
    Emit(Event),
}

/// What happened.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// A process died on a living node, or did so to all others. Once for each.
    Died(Process, Cause),
    /// A node is lost, with all these processes. Once for each.
    Lost(Host, Vec<Process>),
    /// A process has taken a rank, on this node.
    Joined(Process, Host),
    /// A process of this node is dead to all others: tell it to stop.
    Stop(Process),
    /// It did not: kill it.
    Kill(Process),
    /// This node is lost to all others: its processes are told to stop, and its observer says no
    /// more.
    Fenced,
    /// Somebody who was declared dead, or replaced, still sends; it has been told so.
    Ghost(Host),
    /// A process of ours claims an incarnation that is not newer than what is known of its rank.
    Refused(Process),
}

/// Where effects go.
pub type Effects = Vec<Effect>;

/// Spreads the bits of a word: the finaliser of `SplitMix64`, a bijection.
const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_heartbeats_make_nobody_less_patient() {
        let with = |milliseconds| Timing::of_jobs_with(Duration::from_millis(milliseconds));
        assert_eq!(with(100), Timing::OF_JOBS);
        assert_eq!(
            (with(10).period, with(10).timeout),
            (Duration::from_millis(10), with(100).timeout)
        );
        assert_eq!(
            (with(60_000).timeout, with(60_000).start),
            (Duration::from_secs(600), with(60_000).timeout)
        );
    }
}
