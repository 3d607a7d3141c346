//! One process: when it runs, waits, dies and ends.
//!
//! ```text
//!             make_ready              run                 fall_idle
//!   (born) ──────────────▶ Ready ───────────▶ Running ─────────────────▶ Idle
//!                            ▲                 │   │ collective call      │
//!                            │   return        │   └────────▶ Blocked ──┐ │ news, timer
//!                            └─────────────────┼────────────────────────┴─┘
//!                                              ▼ its life ends
//!                                            Gone
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Pid, Time, World,
    data::Post,
    event::{Event, Message, News},
    files::OpenFile,
    note,
};
use crate::{
    error::Error,
    seam::platform::{Made, Origin},
    sim::{Crash, CrashPoint},
};

/// How long others of a program that owns its MPI wait before they are told that a process has left
/// in order, as it is on real ranks.
const LONG: Time = 1_000_000_000;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim) enum State {
    /// It has the baton.
    Running,
    /// It will have the baton when its event comes.
    Ready,
    /// It waits for news or a moment.
    Idle,
    /// It waits in a collective call.
    Blocked(usize),
    /// Its life has ended.
    Gone,
}

/// Why a process ended.
#[derive(Clone, Debug)]
pub(in crate::sim) enum End {
    Finished,
    Crashed,
    Exited,
    Panicked(String),
    Stuck(String),
}

/// One simulated process.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of one machine")]
pub(in crate::sim) struct Process {
    pub(in crate::sim) origin: Origin,
    pub(in crate::sim) state: State,
    /// Set when the process has to end or has ended.
    pub(in crate::sim) end: Option<End>,
    /// True from the moment of a crash on; a process that finished is not dead.
    pub(in crate::sim) dead: bool,
    /// Its own time.
    pub(in crate::sim) local: Time,
    /// Which of its resume events counts.
    pub(in crate::sim) epoch: u64,
    /// Something happened since it last was idle.
    news: bool,
    /// Its last poll found something, so there may be more.
    pub(in crate::sim) undrained: bool,
    until: Option<Time>,
    timer: Option<Time>,
    crash_time: Option<Time>,
    crash_effect: Option<u64>,
    pub(in crate::sim) effects: u64,
    pub(in crate::sim) ghost_calls: u64,
    /// Fast frames of others than the awaited process stay in the inbox.
    pub(in crate::sim) holds_fast: bool,
    pub(in crate::sim) inbox: VecDeque<News>,
    /// Deaths that its detector has told it.
    pub(in crate::sim) knows: BTreeSet<Pid>,
    /// By local number: the universe, and whether it is still in use.
    pub(in crate::sim) universes: Vec<(usize, bool)>,
    /// By local number: communicator and rank in it, until discarded.
    pub(in crate::sim) datas: Vec<Option<(usize, usize)>>,
    /// The communicators that are the program's own.
    pub(in crate::sim) programs: BTreeSet<usize>,
    pub(in crate::sim) posts: BTreeMap<u32, Post>,
    pub(in crate::sim) next_post: u32,
    /// It has looked for a message that was not there.
    pub(in crate::sim) probes: bool,
    /// Messages that a probe has matched.
    pub(in crate::sim) matched: BTreeMap<u32, Message>,
    /// By number.
    pub(in crate::sim) files: Vec<OpenFile>,
    /// The creation that a spawned process joins.
    pub(in crate::sim) born_of: Option<usize>,
    pub(in crate::sim) returned: Option<Result<Made, Error>>,
    pub(in crate::sim) finalized: bool,
    pub(in crate::sim) open_posts: usize,
    pub(in crate::sim) quarantined: usize,
}

impl World {
    /// A new process.
    pub(in crate::sim) fn add_process(&mut self, origin: Origin, start: Time) -> Pid {
        let me = self.processes.len();
        let mine = |crash: &&Crash| crash.process as usize == me;
        let points = || self.settings.crashes.iter().filter(mine).map(|crash| crash.at);
        let calm_from = self.settings.calm_from;
        let times = points().filter_map(|at| match at {
            CrashPoint::Time(time) => Some(time.as_nanos() as Time),
            CrashPoint::Effect(_) => None,
        });
        let effects = points().filter_map(|at| match at {
            CrashPoint::Effect(effect) => Some(effect),
            CrashPoint::Time(_) => None,
        });
        let process = Process {
            origin,
            state: State::Ready,
            end: None,
            dead: false,
            local: start,
            epoch: 0,
            news: false,
            undrained: false,
            until: None,
            timer: None,
            crash_time: times.min().filter(|time| *time < calm_from),
            crash_effect: effects.min(),
            effects: 0,
            ghost_calls: 0,
            holds_fast: self.draw.chance(2),
            inbox: VecDeque::new(),
            knows: (0..me).filter(|other| self.processes[*other].dead).collect(),
            universes: Vec::new(),
            datas: Vec::new(),
            programs: BTreeSet::new(),
            posts: BTreeMap::new(),
            next_post: 0,
            probes: false,
            matched: BTreeMap::new(),
            files: Vec::new(),
            born_of: None,
            returned: None,
            finalized: false,
            open_posts: 0,
            quarantined: 0,
        };
        if let Some(time) = process.crash_time {
            self.schedule(time.max(self.clock), Event::Crash { process: me });
        }
        self.processes.push(process);
        self.living += 1;
        self.make_ready(me, start);
        me
    }

    pub(in crate::sim) fn run(&mut self, process: Pid) {
        let it = &mut self.processes[process];
        it.state = State::Running;
        it.until = None;
        it.local = it.local.max(self.clock);
        self.running = process;
        self.counters.turns += 1;
    }

    pub(in crate::sim) fn fire_timer(&mut self, process: Pid, time: Time) {
        let it = &mut self.processes[process];
        if it.timer != Some(time) {
            return;
        }
        it.timer = None;
        match it.until {
            Some(until) if it.state == State::Idle && until <= time => {
                self.make_ready(process, time);
            }
            Some(until) if it.state == State::Idle => self.arm(process, until),
            _ => {}
        }
    }

    fn arm(&mut self, process: Pid, time: Time) {
        let it = &mut self.processes[process];
        // An earlier timer is on its way: when it fires it is armed again for the rest.
        if it.timer.is_none_or(|earlier| time < earlier) {
            it.timer = Some(time);
            self.schedule(time, Event::Timer { process });
        }
    }

    /// Lets the process run at `time`, whatever happens before.
    pub(in crate::sim) fn make_ready(&mut self, process: Pid, time: Time) {
        let it = &mut self.processes[process];
        it.state = State::Ready;
        it.epoch += 1;
        let event = Event::Resume { process, epoch: it.epoch };
        let time = time.max(it.local);
        self.schedule(time, event);
    }

    /// Prepares to wait for news until `until`; false when there is no need to.
    pub(in crate::sim) fn fall_idle(&mut self, process: Pid, until: Option<Time>) -> bool {
        let it = &mut self.processes[process];
        if std::mem::take(&mut it.news) || it.undrained {
            return false;
        }
        if until.is_some_and(|until| until <= it.local) {
            let soon = it.local + 1;
            self.make_ready(process, soon);
            return true;
        }
        it.state = State::Idle;
        it.until = until;
        if let Some(until) = until {
            self.arm(process, until);
        }
        true
    }

    pub(in crate::sim) fn forget_news(&mut self, process: Pid) {
        self.processes[process].news = false;
    }

    /// Something happened to the process.
    pub(in crate::sim) fn wake(&mut self, process: Pid) {
        self.processes[process].news = true;
        if self.processes[process].state == State::Idle {
            self.make_ready(process, self.clock);
        }
    }

    /// Counts a call of the running process, and an effect if it is one; the process may die
    /// right before it.
    pub(in crate::sim) fn charge(&mut self, process: Pid, is_effect: bool) {
        let (cost, calm_from) = (self.settings.call_cost, self.settings.calm_from);
        let it = &mut self.processes[process];
        it.local += cost;
        let local = it.local;
        if it.crash_time.is_some_and(|time| time <= local) {
            return self.die(process, local);
        }
        if is_effect {
            it.effects += 1;
            let effects = it.effects;
            if it.crash_effect == Some(effects) && local < calm_from {
                note!(self, local, "p{process} dies before its effect {effects}");
                self.die(process, local);
            }
        }
    }

    /// The process is dead from now on; it has still to unwind.
    pub(in crate::sim) fn die(&mut self, process: Pid, at: Time) {
        note!(self, at, "p{process} crashes");
        let it = &mut self.processes[process];
        it.end.get_or_insert(End::Crashed);
        it.dead = true;
        it.posts.clear();
        it.matched.clear();
        it.inbox.clear();
        self.tell_all(process, at);
        self.choose_victims(process);
    }

    /// Tells all others that a process takes part in nothing from this moment on.
    fn tell_all(&mut self, process: Pid, at: Time) {
        for observer in 0..self.processes.len() {
            if self.is_active(observer) {
                let delay = self.draw.within(&self.settings.detection);
                self.schedule(at + delay, Event::Detection { observer, dead: process });
            }
        }
    }

    /// The life of the process has ended.
    pub(in crate::sim) fn leave(&mut self, process: Pid, panic: Option<String>) {
        let local = self.processes[process].local;
        if let Some(message) = panic {
            note!(self, local, "p{process} panics: {message}");
            if self.is_active(process) {
                self.processes[process].end = Some(End::Panicked(message));
                self.die(process, local);
            }
        }
        if self.is_active(process) {
            note!(self, local, "p{process} finishes");
            self.count_leftovers(process);
            self.processes[process].end = Some(End::Finished);
            if !self.processes[process].programs.is_empty() {
                self.tell_all(process, local + LONG);
            }
        }
        self.processes[process].state = State::Gone;
        self.clock = self.clock.max(local);
        self.living -= 1;
    }
}
