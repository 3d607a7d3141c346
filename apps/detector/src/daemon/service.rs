//! The loop of an observer: what happened goes to the machine, and what it wants is done.
//!
//! ```text
//! wait for events or the next deadline
//! ends of processes, newcomers ─▶ machine
//! all packets that have come   ─▶ machine        before any timer but our heartbeat: a message
//! timers that were due         ─▶ machine        that was here in time is heard, however late
//! a ward without progress      ─▶ machine        if the plan sets a limit
//! tests that are due           ─▶ those tested   if the plan asks for them
//! counters                     ─▶ board
//! ```
//!
//! To be woken up costs more than what is then to be done. So a heartbeat that is due soon goes out
//! when one has come, and from then on waits a little for that one, as long as it comes: around the
//! ring they go in one wave, and each node but the first wakes up once in a period, not twice. One
//! that has no other nodes sleeps.
//!
//! Time is that of a monotonic clock, read once in a turn, before packets are taken. Of each turn
//! of the machine what it sends goes first, then what the node's processes are told.

use std::{
    collections::BTreeMap,
    mem,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    process::Pid,
};

use crate::{
    daemon::{
        board::Board,
        diagnosis::{Diagnosis, Means},
        door::{Door, Registered},
        link::Link,
        place,
        pulse::Page,
        view::View,
        wards::{self, Wards},
    },
    protocol::{
        Cause, Effect, Effects, Event, Host, Process, Timer,
        board::{self, Entry},
        message::Message,
        observer::Observer,
        pulse::LOOKS,
        registration::Rejection,
    },
};

/// How long we stay when the last process has ended: it may be replaced.
const LINGER: Duration = Duration::from_secs(2);
/// More packets than a socket holds: what has come when a turn begins is taken in it.
const MOST_PACKETS: u32 = 4096;
/// The parts of a period by which a heartbeat may go out early when another one has come, and by
/// which it is late when that one does not come any more.
const EARLY: u32 = 2;
const LATE: u32 = 8;
/// Events of one turn.
const EVENTS: usize = 64;

/// Numbers of what is waited for; clients and wards have those that follow.
const LINK: u64 = 0;
const DOOR: u64 = 1;
/// Added to the number of a ward: one of its threads.
const THREAD: u64 = 1 << 63;

/// An observer at work.
#[derive(Debug)]
pub struct Service {
    poll: OwnedFd,
    link: Link,
    door: Door,
    is_door_open: bool,
    wards: Wards,
    most_wards: usize,
    board: Board,
    view: View,
    machine: Observer,
    timers: BTreeMap<Timer, Instant>,
    /// Between our heartbeats.
    period: Duration,
    /// The last of them went out as another one had come.
    follows: bool,
    out: Effects,
    /// The last number that was given.
    number: u64,
    /// When we leave, should nobody come.
    leaves: Option<Instant>,
    watchdog: Option<Watchdog>,
    diagnosis: Option<Diagnosis>,
    tally: Tally,
}

/// What is told at the end.
#[derive(Debug, Default)]
struct Tally {
    registered: u64,
    deaths: u64,
    hung: u64,
    lost_nodes: u64,
    /// For signs of life.
    requests: u64,
}

/// When the wards are looked at for progress.
#[derive(Debug)]
struct Watchdog {
    period: Duration,
    next: Instant,
}

impl Service {
    /// Reads the plan, and makes everything ready: processes may register.
    pub fn start(plan: &Path) -> Result<Self> {
        let plan = place::take_plan(plan)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (link, door) = (Link::new(&plan)?, Door::open(&plan)?);
        for (what, number) in [(link.as_fd(), LINK), (door.as_fd(), DOOR)] {
            epoll::add(&poll, what, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        let board = Board::of(&plan)?;
        let (now, mut out) = (Instant::now(), Effects::new());
        let period = plan.timing.hung.map(|limit| limit / LOOKS);
        let machine = Observer::start(plan.me, plan.timing, plan.layout(), &mut out);
        let mut service = Self {
            poll,
            link,
            door,
            is_door_open: true,
            wards: Wards::default(),
            most_wards: wards::most(),
            board,
            view: View::new(&plan)?,
            machine,
            timers: BTreeMap::new(),
            period: plan.timing.period,
            follows: false,
            out,
            number: DOOR,
            leaves: Some(now + plan.timing.start),
            diagnosis: plan.timing.diagnosis.map(|it| Diagnosis::start(&plan, it, now)),
            watchdog: period.map(|period| Watchdog { period, next: now + period }),
            tally: Tally::default(),
        };
        service.perform(now)?;
        Ok(service)
    }

    /// Serves until the job has left.
    pub fn run(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while self.turn(&mut events)? {}
        self.sum_up();
        Ok(())
    }

    /// Tells those who listen, if this is part of their program.
    fn sum_up(&self) {
        let Tally { registered, deaths, hung, lost_nodes, requests } = self.tally;
        let head = self.board.head;
        let board::Head { packets, clients, unsent, ghosts, fenced, failed_tests, .. } = head;
        tracing::info!(
            target: "fampi::metrics", node = self.machine.me().node.0, registered, deaths, hung,
            lost_nodes, requests, refused_packets = packets.total(),
            refused_connections = clients.total(), unsent_packets = unsent, ghosts, fenced,
            failed_tests, stalls = head.stalls,
            "observer left"
        );
    }

    /// Waits for something and does what is to be done; false when it is time to leave.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> Result<bool> {
        self.wait(events)?;
        let now = Instant::now();
        // What does not fit into a list of events may be anything.
        let mut mail = events.len() == EVENTS || self.is_late_for_mail(now);
        for event in &*events {
            match event.data.u64() {
                LINK => mail = true,
                DOOR => self.let_in(now)?,
                number if self.door.knows(number) => {
                    if let Some(registered) = self.door.hear(number) {
                        self.register(number, registered, now)?;
                    }
                }
                number if number & THREAD != 0 => self.look_at(number & !THREAD, now)?,
                number => self.end(number, now)?,
            }
        }
        let heard = mail && self.take_packets(now)?;
        self.take_timers(now, heard)?;
        self.diagnose(now)?;
        self.look_for_progress(now)?;
        self.door.handle_time(now);
        self.watch_door()?;
        self.count(self.wards.count())?;
        if self.wards.count() > 0 {
            self.leaves = None;
        }
        Ok(self.leaves.is_none_or(|leaves| leaves > now))
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<()> {
        events.clear();
        let timers = self.timers.iter().map(|(timer, at)| self.latest(*timer, *at));
        let deadlines = timers.chain(self.door.deadline());
        let looks = self.watchdog.iter().map(|watchdog| watchdog.next);
        let tests = self.diagnosis.iter().map(Diagnosis::due);
        let next = deadlines.chain(self.leaves).chain(looks).chain(tests).min();
        let wait = next.map(|next| next.saturating_duration_since(Instant::now()));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match epoll::wait(&self.poll, spare_capacity(events), wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    /// Lets in who stands at the door.
    fn let_in(&mut self, now: Instant) -> Result<()> {
        for _ in 0..self.door.crowd() {
            self.number += 1;
            let Some(connection) = self.door.let_in(self.number, now) else { break };
            let data = epoll::EventData::new_u64(self.number);
            epoll::add(&self.poll, connection, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    /// While the system can let in nobody, nobody knocks.
    fn watch_door(&mut self) -> Result<()> {
        if self.door.is_open() == self.is_door_open {
            return Ok(());
        }
        self.is_door_open = self.door.is_open();
        let wanted =
            if self.is_door_open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        epoll::modify(&self.poll, &self.door, epoll::EventData::new_u64(DOOR), wanted)?;
        Ok(())
    }

    /// A process has proved who it is: it is watched, if it may be who it says.
    fn register(&mut self, number: u64, newcomer: Registered, now: Instant) -> Result<()> {
        let process = newcomer.process;
        let crowded = self.wards.count() == self.most_wards;
        if crowded || self.wards.holds(process) {
            let why = if crowded { Rejection::Crowded } else { Rejection::Refused };
            self.door.reject(why);
            return Ok(());
        }
        self.machine.handle_registration(process, &mut self.out);
        let refused = self.out.contains(&Effect::Emit(Event::Refused(process)));
        self.perform(now)?;
        if refused {
            self.door.reject(Rejection::Refused);
            return Ok(());
        }
        epoll::delete(&self.poll, newcomer.connection())?;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.poll, &newcomer.candidate.descriptor, data, epoll::EventFlags::IN)?;
        let page = newcomer.page.as_ref().map(Page::number);
        self.view.watch(process, newcomer.candidate.number(), page);
        // Whoever is welcomed finds itself counted.
        self.count(self.wards.count() + 1)?;
        let room = self.board.room();
        let pid = Pid::from_raw(newcomer.candidate.number() as i32);
        let diagnosis = self.diagnosis.as_mut();
        let answers = diagnosis.and_then(|it| it.connect(number, process, pid));
        let given = (self.board.for_readers(), answers);
        let (candidate, connection, page) = self.door.welcome(newcomer, given, room);
        self.wards.add(number, process, candidate, connection, page);
        self.watch_threads(number);
        self.tally.registered += 1;
        Ok(())
    }

    /// Watches threads of a process of ours, too: by them its end is known earlier.
    fn watch_threads(&mut self, number: u64) {
        let data = epoll::EventData::new_u64(number | THREAD);
        for thread in self.wards.watch_threads(number) {
            // Without it the end is known all the same.
            let _ = epoll::add(&self.poll, thread, data, epoll::EventFlags::IN);
        }
    }

    /// A thread of a process of ours has ended: for itself, or as all of them do.
    fn look_at(&mut self, number: u64, now: Instant) -> Result<()> {
        if self.wards.is_ending(number) {
            return self.end(number, now);
        }
        self.watch_threads(number);
        Ok(())
    }

    /// A process of ours has ended, or will run no more of its program.
    fn end(&mut self, number: u64, now: Instant) -> Result<()> {
        self.diagnosis.iter_mut().for_each(|it| it.end(number));
        let Some((process, cause)) = self.wards.take_ended(number) else { return Ok(()) };
        if self.wards.count() == 0 {
            self.leaves = Some(now + LINGER);
        }
        self.machine.handle_exit(process, cause, &mut self.out);
        self.perform(now)
    }

    /// True when a timer is due that a packet could stop, which may have come while we did not run.
    fn is_late_for_mail(&self, now: Instant) -> bool {
        self.timers.iter().any(|(timer, at)| *timer != Timer::Heartbeat && *at <= now)
            || self.diagnosis.as_ref().is_some_and(|it| it.due() <= now)
    }

    /// True when there was a heartbeat among them.
    fn take_packets(&mut self, now: Instant) -> Result<bool> {
        let (mut packets, mut heard) = (MOST_PACKETS, false);
        while let Some((from, message)) = self.link.receive(&mut packets) {
            heard |= matches!(message, Message::Heartbeat(_));
            self.test(from, &message, now);
            self.machine.handle_message(from, message, &mut self.out);
            self.perform(now)?;
            if !self.machine.registry().is_lost(from) {
                self.view.hear(from, now);
            }
        }
        Ok(heard)
    }

    /// What another observer asks of us, or answers, if it is not dead to us, nor we to it.
    fn test(&mut self, from: Host, message: &Message, now: Instant) {
        let is_dead = self.machine.is_fenced() || self.machine.registry().is_lost(from);
        let Some(diagnosis) = self.diagnosis.as_mut().filter(|_| !is_dead) else { return };
        match message {
            Message::Question(question) => {
                self.link.send(from, &Message::Answer(question.answer()));
            }
            Message::Answer(answer) => diagnosis.handle_answer(from, *answer, now),
            _ => {}
        }
    }

    /// Tests who is to be tested, and shows what has come of it.
    fn diagnose(&mut self, now: Instant) -> Result<()> {
        let Some(diagnosis) = &mut self.diagnosis else { return Ok(()) };
        let registry = self.machine.registry();
        diagnosis.handle_time(now, registry);
        let Self { link, board, view, .. } = self;
        diagnosis.perform(&mut Means { link, board, view }, registry)?;
        [self.board.head.failed_tests, self.board.head.stalls] = diagnosis.counts();
        Ok(())
    }

    fn take_timers(&mut self, now: Instant, heard: bool) -> Result<()> {
        let soon = now + self.period / EARLY;
        let is_due = |service: &Self, timer: Timer, at: Instant| {
            service.latest(timer, at) <= now || (timer == Timer::Heartbeat && heard && at <= soon)
        };
        let timers = self.timers.iter().map(|(timer, at)| (*timer, *at));
        let due = timers.filter(|(timer, at)| is_due(self, *timer, *at)).map(|(timer, _)| timer);
        for timer in due.collect::<Vec<Timer>>() {
            // What an earlier timer has moved is not due any more.
            if !self.timers.get(&timer).is_some_and(|at| is_due(self, timer, *at)) {
                continue;
            }
            self.timers.remove(&timer);
            if timer == Timer::Heartbeat {
                self.follows = heard;
            }
            self.machine.handle_timer(timer, &mut self.out);
            self.perform(now)?;
        }
        Ok(())
    }

    /// When a timer that runs out at this moment has to be taken.
    fn latest(&self, timer: Timer, at: Instant) -> Instant {
        let waits = timer == Timer::Heartbeat && self.follows;
        if waits { at + self.period / LATE } else { at }
    }

    /// Declares a ward that makes no progress. Looks are at least a period apart, also when we were
    /// kept from running in the middle of one.
    fn look_for_progress(&mut self, now: Instant) -> Result<()> {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.next <= now) else {
            return Ok(());
        };
        let registry = self.machine.registry();
        let hung = self.wards.look(|process| registry.cause(process).is_none());
        watchdog.next = Instant::now() + watchdog.period;
        self.wards.stillness().for_each(|(process, looks)| self.view.suspect(process, looks));
        if let Some(process) = hung {
            self.machine.handle_declaration(process, Cause::Hung, &mut self.out);
            self.perform(now)?;
        }
        Ok(())
    }

    /// Does what the machine wants, in a turn that is about this moment.
    fn perform(&mut self, now: Instant) -> Result<()> {
        let mut out = mem::take(&mut self.out);
        for effect in out.drain(..) {
            match effect {
                Effect::Send(to, message) => {
                    self.link.send(to, &message);
                    if message == Message::Request {
                        self.view.ask(to.node);
                        self.tally.requests += 1;
                    }
                }
                Effect::Arm(timer, after) => {
                    self.timers.insert(timer, now + after);
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Emit(event) => self.tell(event)?,
            }
        }
        self.out = out;
        self.board.publish()
    }

    /// Tells the processes of the node.
    fn tell(&mut self, event: Event) -> Result<()> {
        let me = self.machine.me();
        match event {
            Event::Died(process, cause) => {
                // Who left in order has ended, and not died.
                self.tally.deaths += u64::from(cause != Cause::Exit(0));
                self.tally.hung += u64::from(cause == Cause::Hung);
                let host = self.machine.registry().host_of(process).unwrap_or(me);
                self.view.die(process, cause);
                self.write(process, host, cause)
            }
            Event::Lost(host, processes) => {
                self.tally.lost_nodes += 1;
                self.view.lose(host, &processes);
                self.diagnosis.iter_mut().for_each(|it| it.lose(host.node));
                let mut lost = processes.into_iter();
                lost.try_for_each(|process| self.write(process, host, Cause::NodeLost))
            }
            Event::Joined(process, host) => {
                self.view.join(process, host);
                Ok(())
            }
            Event::Stop(process) => self.write(process, me, Cause::Declared),
            Event::Kill(process) => {
                self.wards.kill(process);
                Ok(())
            }
            Event::Fenced => {
                self.board.head.fenced = true;
                Ok(())
            }
            Event::Ghost(_) => {
                self.board.head.ghosts += 1;
                Ok(())
            }
            // Who was refused sees that its connection has ended.
            Event::Refused(_) => Ok(()),
        }
    }

    fn write(&mut self, process: Process, host: Host, cause: Cause) -> Result<()> {
        self.board.write(Entry { process, host, cause }).context("cannot write to the board")
    }

    /// Shows how many are watched, and what else was counted.
    fn count(&mut self, watched: usize) -> Result<()> {
        let head = &mut self.board.head;
        head.registered = watched as u64;
        head.packets = self.link.refusals();
        head.clients = self.door.rejections();
        head.unsent = self.link.unsent();
        let refused = head.packets.total() + head.clients.total();
        self.view.count(head.registered, refused, head.fenced);
        self.board.publish()
    }
}
