//! Observers in virtual time, whatever their protocol: packets that are lost and overtake each
//! other, processors that are busy with something else, deaths.
//!
//! ```text
//!  sender    ├ o ┤├ o ┤                  busy for o with each message
//!  wire           ├── L + chance ──┤     or lost
//!  receiver                        ├ late ┤├ o ┤   late when the node is loaded
//! ```
//!
//! A station that was kept from running takes what has arrived before it looks at its timers, as a
//! driver of the real detector has to.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

/// An observer and its protocol.
pub trait Station {
    type Wire;
    type Timer;
    fn begin(&mut self, out: &mut Out<Self::Wire, Self::Timer>);
    fn receive(&mut self, from: u32, wire: Self::Wire, out: &mut Out<Self::Wire, Self::Timer>);
    fn expire(&mut self, timer: Self::Timer, out: &mut Out<Self::Wire, Self::Timer>);
}

/// What a station wants done.
pub struct Out<W, T> {
    pub sends: Vec<(u32, W)>,
    pub timers: Vec<(T, Duration)>,
    /// Nodes, or what stands behind their numbers, that it takes for dead from now on.
    pub dead: Vec<u32>,
}

/// What time things take, and what goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// L: of a packet on the way, at least.
    pub latency: Duration,
    /// On average so much more; packets overtake each other.
    pub jitter: Duration,
    /// o: of a processor, for each packet that it sends or takes.
    pub overhead: Duration,
    /// The part of all packets that is lost.
    pub loss: f64,
    /// The part of all events that find the processor taken.
    pub load: f64,
    /// How long until it is free, on average.
    pub stall: Duration,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(20),
            jitter: Duration::from_micros(5),
            overhead: Duration::from_micros(3),
            loss: 0.0,
            load: 0.0,
            stall: Duration::from_millis(5),
        }
    }
}

enum What<W, T> {
    Begin,
    Message(u32, W),
    Timer(T),
    Death,
    /// Its processor may be free for what waits.
    Free,
}

struct Happening<W, T> {
    to: u32,
    what: What<W, T>,
    /// It has waited for the processor.
    late: bool,
}

/// When something was told dead, and by how many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub by: u32,
    pub first: Duration,
    pub last: Duration,
}

/// Who told what dead, and when.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub node: u32,
    pub dead: u32,
    pub at: Duration,
}

pub struct World<S: Station> {
    pub stations: Vec<S>,
    pub alive: Vec<bool>,
    pub now: Duration,
    pub conditions: Conditions,
    /// Packets sent so far.
    pub messages: u64,
    /// By the number of what was told dead.
    pub told: Vec<Told>,
    /// All that was told, in order, as long as nobody has taken it.
    pub heard: Vec<Heard>,
    busy: Vec<Duration>,
    /// What waits for the processor of each: messages before timers, then by order of scheduling.
    waiting: Vec<BinaryHeap<Reverse<(bool, u64, u32)>>>,
    /// By time; then messages before timers; then by order of scheduling.
    queue: BinaryHeap<Reverse<(Duration, bool, u64, u32)>>,
    happenings: Vec<Option<Happening<S::Wire, S::Timer>>>,
    free: Vec<u32>,
    sequence: u64,
    pub random: SmallRng,
    out: Out<S::Wire, S::Timer>,
}

impl<S: Station> World<S> {
    /// Stations that begin at random times within this spread, and how many things can be dead.
    pub fn new(
        stations: Vec<S>,
        subjects: u32,
        conditions: Conditions,
        spread: Duration,
        seed: u64,
    ) -> Self {
        let count = stations.len();
        let mut world = Self {
            stations,
            alive: vec![true; count],
            now: Duration::ZERO,
            conditions,
            messages: 0,
            told: vec![Told::default(); subjects as usize],
            heard: Vec::new(),
            busy: vec![Duration::ZERO; count],
            waiting: (0..count).map(|_| BinaryHeap::new()).collect(),
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            random: SmallRng::seed_from_u64(seed),
            out: Out { sends: Vec::new(), timers: Vec::new(), dead: Vec::new() },
        };
        for to in 0..count as u32 {
            let at = spread.mul_f64(world.random.random());
            world.schedule(at, Happening { to, what: What::Begin, late: true });
        }
        world
    }

    /// A node dies then.
    pub fn kill(&mut self, node: u32, at: Duration) {
        self.schedule(at, Happening { to: node, what: What::Death, late: true });
    }

    /// Lets time pass until this moment, or until `done` says so after an event.
    pub fn run(&mut self, until: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        while let Some(&Reverse((at, ..))) = self.queue.peek() {
            if at > until {
                break;
            }
            self.step();
            if done(self) {
                return true;
            }
        }
        self.now = self.now.max(until);
        false
    }

    /// Something happens to a station now that no other station knows of.
    pub fn turn(&mut self, node: u32, action: impl FnOnce(&mut S, &mut Out<S::Wire, S::Timer>)) {
        let mut out = std::mem::replace(&mut self.out, none());
        action(&mut self.stations[node as usize], &mut out);
        self.carry_out(node, &mut out);
        self.out = out;
    }

    /// A packet that no station has sent arrives now.
    pub fn inject(&mut self, from: u32, to: u32, wire: S::Wire) {
        self.schedule(self.now, Happening { to, what: What::Message(from, wire), late: false });
    }

    fn schedule(&mut self, at: Duration, happening: Happening<S::Wire, S::Timer>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() as u32 - 1
        });
        let is_timer = matches!(happening.what, What::Timer(_));
        self.happenings[slot as usize] = Some(happening);
        self.queue.push(Reverse((at, is_timer, self.sequence, slot)));
        self.sequence += 1;
    }

    fn step(&mut self) {
        let Some(Reverse((at, is_timer, sequence, slot))) = self.queue.pop() else { return };
        self.now = self.now.max(at);
        let entry = &mut self.happenings[slot as usize];
        let Some(happening) = entry.as_mut() else { return };
        let to = happening.to as usize;
        if let What::Free = happening.what {
            *entry = None;
            self.free.push(slot);
            return self.go_on(to, at);
        }
        if !self.alive[to] {
            *entry = None;
            self.free.push(slot);
            return;
        }
        if !happening.late && self.conditions.load > 0.0 {
            happening.late = true;
            if self.random.random_bool(self.conditions.load) {
                let stall = exponential(&mut self.random, self.conditions.stall);
                self.busy[to] = self.busy[to].max(at + stall);
            }
        }
        let is_death = matches!(happening.what, What::Death);
        let has_to_wait = self.busy[to] > at || !self.waiting[to].is_empty();
        if has_to_wait && !is_death {
            if self.waiting[to].is_empty() {
                self.wake(to);
            }
            return self.waiting[to].push(Reverse((is_timer, sequence, slot)));
        }
        self.happen(to, at, slot);
    }

    /// Tells a station when its processor is free.
    fn wake(&mut self, to: usize) {
        let what = Happening { to: to as u32, what: What::Free, late: true };
        self.schedule(self.busy[to].max(self.now), what);
    }

    /// The processor of a station may be free for what waits.
    fn go_on(&mut self, to: usize, at: Duration) {
        if self.busy[to] <= at
            && let Some(Reverse((_, _, slot))) = self.waiting[to].pop()
        {
            if self.alive[to] {
                self.happen(to, at, slot);
            } else {
                self.happenings[slot as usize] = None;
                self.free.push(slot);
            }
        }
        if !self.waiting[to].is_empty() {
            self.wake(to);
        }
    }

    fn happen(&mut self, to: usize, at: Duration, slot: u32) {
        let happening = self.happenings[slot as usize].take();
        self.free.push(slot);
        let mut out = std::mem::replace(&mut self.out, none());
        match happening.map(|it| it.what) {
            Some(What::Begin) => self.stations[to].begin(&mut out),
            Some(What::Message(from, wire)) => {
                self.busy[to] = at + self.conditions.overhead;
                self.stations[to].receive(from, wire, &mut out);
            }
            Some(What::Timer(timer)) => self.stations[to].expire(timer, &mut out),
            Some(What::Death) => self.alive[to] = false,
            Some(What::Free) | None => {}
        }
        self.carry_out(to as u32, &mut out);
        self.out = out;
    }

    fn carry_out(&mut self, from: u32, out: &mut Out<S::Wire, S::Timer>) {
        let mut leaves = self.busy[from as usize].max(self.now);
        for (timer, after) in out.timers.drain(..) {
            let what = What::Timer(timer);
            self.schedule(self.now + after, Happening { to: from, what, late: false });
        }
        for dead in out.dead.drain(..) {
            let told = &mut self.told[dead as usize];
            if told.by == 0 {
                told.first = leaves;
            }
            told.by += 1;
            told.last = told.last.max(leaves);
            self.heard.push(Heard { node: from, dead, at: leaves });
        }
        for (to, wire) in out.sends.drain(..) {
            leaves += self.conditions.overhead;
            self.messages += 1;
            if self.conditions.loss > 0.0 && self.random.random_bool(self.conditions.loss) {
                continue;
            }
            let jitter = exponential(&mut self.random, self.conditions.jitter);
            let arrives = leaves + self.conditions.latency + jitter;
            self.schedule(arrives, Happening { to, what: What::Message(from, wire), late: false });
        }
        self.busy[from as usize] = leaves.max(self.busy[from as usize]);
    }
}

fn none<W, T>() -> Out<W, T> {
    Out { sends: Vec::new(), timers: Vec::new(), dead: Vec::new() }
}

fn exponential(random: &mut SmallRng, mean: Duration) -> Duration {
    let chance: f64 = random.random();
    mean.mul_f64(-(1.0 - chance).ln())
}
