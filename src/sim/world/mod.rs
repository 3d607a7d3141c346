//! The state of the virtual world: clock, event queue, processes; who runs next, who is dead.
//!
//! Time is in nanoseconds. Each process has a time of its own, which its calls move on; it runs
//! ahead of the clock by [`QUANTUM`] at most, less than the shortest latency, so it never sees
//! anything from the future, and no process has to be switched to in between.

mod collectives;
pub(in crate::sim) mod data;
mod event;
mod files;
pub(in crate::sim) mod groups;
mod matching;
mod network;
pub(in crate::sim) mod process;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use super::{Simulation, draw::Draw};
use crate::{
    ids::mix,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        platform::{Origin, Progress},
    },
};
use data::{Comm, Post};
use event::Event;
use groups::{Creation, CreationKey, Meetings, Universe};
use process::{End, Process, State};

/// Nanoseconds of virtual time.
pub(in crate::sim) type Time = u64;

/// A process, by launch position; spawned processes follow.
pub(in crate::sim) type Pid = usize;

/// How far a process may run ahead of the clock without letting others run.
pub(in crate::sim) const QUANTUM: Time = 1000;

/// Sends of at most this many bytes complete without their receiver.
pub(in crate::sim) const EAGER_BYTES: usize = 4096;

/// The greatest tag.
pub(in crate::sim) const MAX_TAG: u32 = (1 << 23) - 1;

/// The only context of a communicator of the program.
pub(in crate::sim) const PROGRAMS_CONTEXT: u32 = 0;

/// Adds a line to the transcript, if one is kept.
macro_rules! note {
    ($world:expr, $at:expr, $($line:tt)*) => {
        if $world.trace.is_some() {
            let (at, line) = ($at, format!($($line)*));
            $world.add_line(at, line);
        }
    };
}
pub(in crate::sim) use note;

/// Who gets the baton.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim) enum Next {
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

/// What was counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Control frames of the fast path.
    pub fast_frames: u64,
    /// All other control frames.
    pub other_frames: u64,
    /// Sends of the application.
    pub data_messages: u64,
    /// Bytes in them.
    pub data_bytes: u64,
    /// Calls of collective operations of the application.
    pub collectives: u64,
    /// Collective calls that make communicators or universes, with joins.
    pub creations: u64,
    /// How often a process was given the baton.
    pub turns: u64,
}

impl Counters {
    pub(in crate::sim) fn count_frame(&mut self, fast: bool) {
        *(if fast { &mut self.fast_frames } else { &mut self.other_frames }) += 1;
    }
}

/// Everything that is simulated.
pub(in crate::sim) struct World {
    pub(in crate::sim) settings: Simulation,
    pub(in crate::sim) clock: Time,
    pub(in crate::sim) draw: Draw,
    pub(in crate::sim) processes: Vec<Process>,
    pub(in crate::sim) universes: Vec<Universe>,
    /// Those of a program's communicators, in which new processes have the ranks of the dead.
    pub(in crate::sim) seated: BTreeSet<usize>,
    /// Those of which nothing is made any more.
    pub(in crate::sim) cut: BTreeSet<usize>,
    pub(in crate::sim) comms: Vec<Comm>,
    pub(in crate::sim) creations: Vec<Creation>,
    pub(in crate::sim) creation_numbers: BTreeMap<CreationKey, usize>,
    pub(in crate::sim) creation_calls: BTreeMap<CreationKey, u32>,
    pub(in crate::sim) meetings: Meetings,
    /// Contents of files, by path.
    pub(in crate::sim) files: BTreeMap<String, AnyBuffer>,
    pub(in crate::sim) counters: Counters,
    pub(in crate::sim) trace: Option<Vec<(Time, String)>>,
    pub(in crate::sim) fingerprint: u64,
    /// Who runs next, when a process that suspended has found out already.
    pub(in crate::sim) chosen: Option<Next>,
    queue: BinaryHeap<Entry>,
    /// By slot; what has happened leaves its slot to others.
    events: Vec<Option<Event>>,
    vacant: Vec<usize>,
    sequence: u64,
    pub(in crate::sim) running: Pid,
    pub(in crate::sim) living: usize,
    stuck: bool,
}

impl World {
    pub(in crate::sim) fn new(settings: Simulation) -> Self {
        let size = settings.ranks + settings.spares;
        let mut world = Self {
            clock: 0,
            draw: Draw::of_simulation(settings.seed),
            processes: Vec::new(),
            seated: BTreeSet::new(),
            cut: BTreeSet::new(),
            universes: vec![Universe::new((0..size as usize).collect())],
            comms: Vec::new(),
            creations: Vec::new(),
            creation_numbers: BTreeMap::new(),
            creation_calls: BTreeMap::new(),
            meetings: Meetings::default(),
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

    pub(in crate::sim) fn schedule(&mut self, time: Time, event: Event) {
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
    pub(in crate::sim) fn add_line(&mut self, at: Time, line: String) {
        if let Some(trace) = &mut self.trace {
            trace.push((at, line));
        }
    }

    pub(in crate::sim) fn latency(&mut self) -> Time {
        self.draw.within(&self.settings.latency)
    }

    /// The time of the running process, or the clock between two turns.
    pub(in crate::sim) fn now(&self) -> Time {
        let running = &self.processes[self.running];
        if running.state == State::Running { running.local } else { self.clock }
    }

    pub(in crate::sim) fn is_dead(&self, process: Pid) -> bool {
        self.processes[process].dead
    }

    /// True until the process crashes, finishes, exits or is stopped.
    pub(in crate::sim) fn is_active(&self, process: Pid) -> bool {
        self.processes[process].end.is_none()
    }

    /// Follows the queue up to the next process that can run.
    pub(in crate::sim) fn next(&mut self) -> Next {
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

impl World {
    /// What a process waits for, in words.
    pub(in crate::sim) fn what_it_waits_for(&self, process: Pid) -> String {
        let it = &self.processes[process];
        let mut words = match it.state {
            State::Blocked(creation) => self.creations[creation].describe(),
            State::Idle => "idle".to_owned(),
            State::Ready | State::Running | State::Gone => "busy".to_owned(),
        };
        let pending = |post: &&Post| post.progress == Progress::Pending;
        for post in it.posts.values().filter(pending).take(4) {
            words += "; ";
            words += &post.describe();
        }
        words
    }
}
