//! A network of very many ranks in virtual time, with the costs of `LogGP`.
//!
//! ```text
//!  sender    ├─ o ─┤                       busy for o, and the next message not before g + (k−1) G
//!  wire            ├──── L + (k−1) G ────┤
//!  receiver                              ├─ o ─┤ and then what it sends
//! ```
//!
//! A rank does one thing at a time, in the order of arrival. Ties are broken by the order of
//! sending, so a run is the same every time.
//!
//! Reference: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, *`LogGP`: incorporating long
//! messages into the `LogP` model*, SPAA 1995.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Costs in nanoseconds. The defaults between nodes are those of the simulator `LogGOPSim`
/// (Hoefler, Schneider, Lumsdaine, HPDC 2010), about a cluster with `InfiniBand` of that time.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// L: from the end of sending to the arrival.
    pub latency: u64,
    /// o: what a message takes of its sender, and of its receiver.
    pub overhead: u64,
    /// g: between two messages of one sender, at least.
    pub gap: u64,
    /// G: for each byte after the first.
    pub per_byte: u64,
    /// Ranks on a node, which have lower costs among them.
    pub node: u32,
    /// L on a node.
    pub near_latency: u64,
    /// o and g on a node.
    pub near_overhead: u64,
    /// From the moment that a rank needs a dead one until it knows of the death.
    pub detection: u64,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            latency: 2500,
            overhead: 1500,
            gap: 1000,
            per_byte: 6,
            node: 1,
            near_latency: 100,
            near_overhead: 50,
            detection: 0,
        }
    }
}

impl Cost {
    const fn are_near(&self, one: u32, other: u32) -> bool {
        one / self.node == other / self.node
    }
}

/// What an agreement took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Nanoseconds from the votes, which all cast at once, to the last decision.
    pub latency: u64,
    /// Messages of which each had to wait for the one before, on the longest chain to a decision.
    pub delays: u16,
    pub messages: u64,
    /// Messages sent by the rank that sent most.
    pub messages_max: u32,
    pub bytes: u64,
}

/// What happens to a rank.
struct Happening<T> {
    to: u32,
    from: u32,
    /// The length of the chain of messages that ends in this one.
    chain: u16,
    what: T,
}

/// What a network knows of a rank.
#[derive(Clone, Copy, Default)]
struct Station {
    /// It does something else until then.
    busy: u64,
    /// It may send again then.
    next_send: u64,
    sent: u32,
    chain: u16,
}

/// The ranks, and what is on its way to them.
pub struct Network<T> {
    cost: Cost,
    stations: Vec<Station>,
    queue: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// What the queue refers to; places are used again.
    happenings: Vec<Option<Happening<T>>>,
    free: Vec<u32>,
    sequence: u64,
    pub outcome: Outcome,
}

impl<T> Network<T> {
    pub fn new(ranks: u32, cost: Cost) -> Self {
        Self {
            cost,
            stations: vec![Station::default(); ranks as usize],
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            outcome: Outcome::default(),
        }
    }

    fn schedule(&mut self, at: u64, happening: Happening<T>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() as u32 - 1
        });
        self.happenings[slot as usize] = Some(happening);
        self.queue.push(Reverse((at, self.sequence, slot)));
        self.sequence += 1;
    }

    /// A message leaves a rank, as soon as it can.
    pub fn send(&mut self, from: u32, to: u32, bytes: usize, what: T) {
        let near = self.cost.are_near(from, to);
        let (latency, overhead, gap, per_byte) = match (near, self.cost) {
            (true, cost) => (cost.near_latency, cost.near_overhead, cost.near_overhead, 0),
            (false, cost) => (cost.latency, cost.overhead, cost.gap, cost.per_byte),
        };
        let long = (bytes as u64).saturating_sub(1) * per_byte;
        let station = &mut self.stations[from as usize];
        let begins = station.busy.max(station.next_send);
        station.busy = begins + overhead;
        station.next_send = begins + gap.max(overhead) + long;
        station.sent += 1;
        let (arrives, chain) = (station.busy + latency + long, station.chain + 1);
        self.outcome.messages += 1;
        self.outcome.bytes += bytes as u64;
        self.outcome.messages_max = self.outcome.messages_max.max(station.sent);
        self.schedule(arrives, Happening { to, from, chain, what });
    }

    /// A rank is told of the death of another, which it needs from now on.
    pub fn detect(&mut self, rank: u32, dead: u32, what: T) {
        let station = self.stations[rank as usize];
        let at = station.busy + self.cost.detection;
        self.schedule(at, Happening { to: rank, from: dead, chain: station.chain, what });
    }

    /// What happens next: to whom, from whom, and what.
    pub fn take_next(&mut self) -> Option<(u32, u32, T)> {
        let Reverse((at, _, slot)) = self.queue.pop()?;
        let happening = self.happenings[slot as usize].take().expect("each happens once");
        self.free.push(slot);
        let station = &mut self.stations[happening.to as usize];
        let near = self.cost.are_near(happening.from, happening.to);
        let overhead = if near { self.cost.near_overhead } else { self.cost.overhead };
        station.busy = station.busy.max(at) + overhead;
        station.chain = station.chain.max(happening.chain);
        Some((happening.to, happening.from, happening.what))
    }

    /// When something happens next.
    pub fn time_of_next(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// Until when a rank is busy with what has happened to it.
    pub fn time_of(&self, rank: u32) -> u64 {
        self.stations[rank as usize].busy
    }

    /// A rank does nothing before this moment.
    pub fn pass_time(&mut self, rank: u32, until: u64) {
        let busy = &mut self.stations[rank as usize].busy;
        *busy = until.max(*busy);
    }

    /// A rank has decided.
    pub fn decided(&mut self, rank: u32) {
        let station = self.stations[rank as usize];
        self.outcome.latency = self.outcome.latency.max(station.busy);
        self.outcome.delays = self.outcome.delays.max(station.chain);
    }
}
