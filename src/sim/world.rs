//! The state of the virtual world: clock, event queue, processes; who runs next, who is dead.
//!
//! Time is in nanoseconds. Each process has a time of its own, which its calls move on; it runs
//! ahead of the clock by [`QUANTUM`] at most, less than the shortest latency, so it never sees
//! anything from the future, and nobody has to be switched to in between.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BinaryHeap},
};

use super::{
    Simulation,
    data::Comm,
    draw::Draw,
    event::Event,
    groups::{Creation, CreationKey, Universe},
    process::{End, Process, State},
    report::Counters,
};
use crate::{
    ids::mix,
    rank::Rank,
    seam::{buffer::AnyBuffer, platform::Origin},
};

/// Nanoseconds of virtual time.
pub(super) type Time = u64;

/// A process, by launch position; spawned processes follow.
pub(super) type Pid = usize;

/// How far a process may run ahead of the clock without letting others run.
pub(super) const QUANTUM: Time = 1000;

/// Adds a line to the transcript, if one is kept.
macro_rules! note {
    ($world:expr, $at:expr, $($line:tt)*) => {
        if $world.trace.is_some() {
            let (at, line) = ($at, format!($($line)*));
            $world.add_line(at, line);
        }
    };
}
pub(super) use note;

/// Who gets the baton.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    Run(Pid),
    Over,
}

/// What is due when. The event itself does not move with it.
struct Entry {
    time: Time,
    sequence: u64,
    slot: usize,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

/// Everything that is simulated.
pub(super) struct World {
    pub(super) settings: Simulation,
    pub(super) clock: Time,
    pub(super) draw: Draw,
    pub(super) processes: Vec<Process>,
    pub(super) universes: Vec<Universe>,
    pub(super) comms: Vec<Comm>,
    pub(super) creations: Vec<Creation>,
    pub(super) creation_numbers: BTreeMap<CreationKey, usize>,
    pub(super) creation_calls: BTreeMap<CreationKey, u32>,
    /// Contents of files, by path.
    pub(super) files: BTreeMap<String, AnyBuffer>,
    pub(super) counters: Counters,
    pub(super) trace: Option<Vec<(Time, String)>>,
    pub(super) fingerprint: u64,
    /// Who runs next, when a process that suspended has found out already.
    pub(super) chosen: Option<Next>,
    queue: BinaryHeap<Entry>,
    /// By slot; what has happened leaves its slot to others.
    events: Vec<Option<Event>>,
    vacant: Vec<usize>,
    sequence: u64,
    pub(super) running: Pid,
    pub(super) living: usize,
    stuck: bool,
}

impl World {
    pub(super) fn new(settings: Simulation) -> Self {
        let size = settings.ranks + settings.spares;
        let mut world = Self {
            clock: 0,
            draw: Draw::of_simulation(settings.seed),
            processes: Vec::new(),
            universes: vec![Universe::new((0..size as usize).collect())],
            comms: Vec::new(),
            creations: Vec::new(),
            creation_numbers: BTreeMap::new(),
            creation_calls: BTreeMap::new(),
            files: BTreeMap::new(),
            counters: Counters::default(),
            trace: settings.trace.then(Vec::new),
            fingerprint: settings.seed,
            chosen: None,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            vacant: Vec::new(),
            sequence: 0,
            running: 0,
            living: 0,
            stuck: false,
            settings,
        };
        for rank in 0..size {
            let (spares, spawns) = (world.settings.spares, world.settings.spawns);
            let origin = Origin::Launched { rank: Rank::new(rank), size, spares, spawns };
            let start = world.latency();
            let me = world.add_process(origin, start);
            world.processes[me].universes.push((0, true));
        }
        world
    }

    pub(super) fn schedule(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.queue.push(Entry { time, sequence: self.sequence, slot });
    }

    /// The next event up to the limit of time, if there is one.
    fn due(&mut self) -> Option<(Time, Event)> {
        if self.queue.peek()?.time > self.settings.time_limit {
            return None;
        }
        let Entry { time, slot, .. } = self.queue.pop()?;
        self.vacant.push(slot);
        Some((time, self.events[slot].take()?))
    }

    /// A line of the transcript; asked for by `note!`.
    pub(super) fn add_line(&mut self, at: Time, line: String) {
        if let Some(trace) = &mut self.trace {
            trace.push((at, line));
        }
    }

    pub(super) fn latency(&mut self) -> Time {
        self.draw.within(&self.settings.latency)
    }

    /// The time of the running process, or the clock between two turns.
    pub(super) fn now(&self) -> Time {
        let running = &self.processes[self.running];
        if running.state == State::Running { running.local } else { self.clock }
    }

    pub(super) fn is_dead(&self, process: Pid) -> bool {
        self.processes[process].dead
    }

    /// True until the process crashes, finishes, exits or is stopped.
    pub(super) fn is_active(&self, process: Pid) -> bool {
        self.processes[process].end.is_none()
    }

    /// Follows the queue up to the next process that can run.
    pub(super) fn next(&mut self) -> Next {
        if self.living == 0 {
            return Next::Over;
        }
        while !self.stuck
            && let Some((time, event)) = self.due()
        {
            if let Some(process) = self.handle(time, event) {
                return Next::Run(process);
            }
        }
        self.stuck = true;
        let left = |process: &Process| process.state != State::Gone;
        let process = self.processes.iter().position(left).expect("somebody lives");
        if self.is_active(process) {
            let waits_for = self.what_it_waits_for(process);
            note!(self, self.clock, "p{process} is stuck: {waits_for}");
            self.processes[process].end = Some(End::Stuck(waits_for));
        }
        self.processes[process].state = State::Running;
        Next::Run(process)
    }

    fn handle(&mut self, time: Time, event: Event) -> Option<Pid> {
        match event {
            Event::Resume { process, epoch } => {
                let it = &self.processes[process];
                if it.state != State::Ready || it.epoch != epoch {
                    return None;
                }
                self.pass_time(time, 1, process);
                self.run(process);
                Some(process)
            }
            Event::Timer { process } => {
                self.fire_timer(process, time);
                None
            }
            Event::Crash { process } => {
                if !self.is_active(process) {
                    return None;
                }
                self.pass_time(time, 2, process);
                self.die(process, time);
                self.run(process);
                Some(process)
            }
            happening => {
                self.pass_time(time, 3, happening.process(self));
                self.happen(happening);
                None
            }
        }
    }

    fn pass_time(&mut self, time: Time, kind: u64, process: Pid) {
        self.clock = self.clock.max(time);
        self.fingerprint = mix(self.fingerprint ^ mix(time) ^ kind << 32 ^ process as u64);
    }
}
