//! Drives the tests of who is slow: of the ranks of this node, and of the observers of others.
//!
//! A rank answers on a connection of its own, of which it gets the other end with its welcome: the
//! one on which it registered stays silent. What goes over it are the observers' messages, one in
//! a packet, and with an answer the moment at which the rank gave it, by the clock of the machine.
//! So the observer need not wake up for an answer: it reads all of them when something is due.
//! Targets are numbered: first the ranks of the launch, then the nodes.
//!
//! Nothing is decided here. What was counted is shown: on the board to the ranks of this node, and
//! in the view to a person.

use std::{
    collections::BTreeMap,
    mem,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
    process::Pid,
    thread::CpuSet,
};

use crate::{
    clock,
    daemon::{board::Board, link::Link, view::View},
    protocol::{
        Host, Node, Process, Rank,
        codec::{Frame, MAX_BYTES, decode_at, encode},
        diagnosis::{
            Answer, Effect, Opinion, Question, Target, Terms, Verdict, clusters::Assignment,
            schedule::Schedule, tester::Tester,
        },
        message::Message,
        plan::Plan,
        registry::Registry,
    },
};

/// As long as Linux, as usually built, lets a process run before the next one has its turn.
const TURN: Duration = Duration::from_millis(3);

/// How often two clocks are compared.
const TRIES: u32 = 5;

/// A rank that answers.
#[derive(Debug)]
struct Line {
    process: Process,
    /// Closed at the other end when that process ends.
    connection: OwnedFd,
}

/// What is tested, and what was counted.
#[derive(Debug)]
pub struct Diagnosis {
    tester: Tester,
    began: Instant,
    /// That moment by the clock of the machine.
    clock: Duration,
    me: Node,
    /// Ranks of the launch.
    ranks: u32,
    /// The most ranks that a node has.
    together: usize,
    /// The processors that ranks of this node may use.
    processors: CpuSet,
    /// So many good tests in a row make a target well.
    zeta: u32,
    /// By the number of the ward.
    lines: BTreeMap<u64, Line>,
    out: Vec<Effect>,
    failed: u64,
}

/// By what others hear of it.
#[derive(Debug)]
pub struct Means<'a> {
    /// The way to other observers.
    pub link: &'a mut Link,
    /// What ranks are shown.
    pub board: &'a mut Board,
    /// What a person is shown.
    pub view: &'a mut View,
}

impl Diagnosis {
    /// The tests that this plan asks for.
    pub fn start(plan: &Plan, schedule: Schedule, now: Instant) -> Self {
        let (me, ranks) = (plan.me.node, plan.nodes_of.len() as u32);
        let on = |node: &Node| plan.nodes_of.iter().filter(|it| *it == node).count();
        let together = plan.nodes_of.iter().map(on).max().unwrap_or(0);
        let tester = Tester::start(schedule.terms(), schedule.interval);
        let (lines, out) = (BTreeMap::new(), Vec::new());
        Self {
            tester,
            began: now,
            clock: clock_at(now),
            me,
            ranks,
            together,
            processors: CpuSet::new(),
            zeta: schedule.zeta,
            lines,
            out,
            failed: 0,
        }
    }

    /// When [`Self::handle_time`] has something to do.
    pub fn due(&self) -> Instant {
        self.began + self.tester.due()
    }

    /// Tests that were failed, and intervals in which this process was kept from testing.
    pub fn counts(&self) -> [u64; 2] {
        [self.failed, self.tester.stalls()]
    }

    /// A process has this number here, and this one in the system: the end of the connection on
    /// which it answers.
    pub fn connect(&mut self, number: u64, process: Process, pid: Option<Pid>) -> Option<OwnedFd> {
        if process.rank.0 >= self.ranks {
            return None;
        }
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let ends = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let (connection, other) = ends.ok()?;
        self.lines.insert(number, Line { process, connection });
        // Not by what this observer may use: it may be bound as the rank is that started it.
        if let Ok(allowed) = rustix::thread::sched_getaffinity(pid) {
            let all = (0..CpuSet::MAX_CPU).filter(|at| allowed.is_set(*at));
            all.for_each(|at| self.processors.set(at));
        }
        let processors = self.processors.count() as usize;
        let wait = waits_for_processors(self.together, processors);
        self.tester.set_floor(Terms::USUAL.floor + wait);
        Some(other)
    }

    /// Takes what a process has said by this moment; one that says something else than answers is
    /// heard no more.
    fn hear(&mut self, number: u64, now: Duration) {
        while let Some(line) = self.lines.get(&number) {
            // One byte more tells what is too long.
            let mut packet = [0; MAX_BYTES + 1];
            let taken = rustix::net::recv(&line.connection, &mut packet, RecvFlags::DONTWAIT);
            let length = match taken {
                Ok((length, _)) => length,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => 0,
            };
            let said = decode_at(&packet[..length.min(MAX_BYTES)]);
            let Some((Message::Answer(answer), at)) = said else { return self.end(number) };
            let Process { rank, incarnation } = line.process;
            let target = Target { number: rank.0, life: incarnation.0 };
            let at = at.saturating_sub(self.clock).min(now);
            self.tester.handle_answer(target, answer, at, &mut self.out);
        }
    }

    /// Takes all that ranks have said by this moment.
    fn hear_all(&mut self, now: Duration) {
        let is_awaited = |line: &Line| self.tester.awaits(line.process.rank.0);
        let awaited = self.lines.iter().filter(|(_, line)| is_awaited(line));
        for number in awaited.map(|(number, _)| *number).collect::<Vec<u64>>() {
            self.hear(number, now);
        }
    }

    /// The observer of another node has answered.
    pub fn handle_answer(&mut self, from: Host, answer: Answer, now: Instant) {
        self.hear_all(now - self.began);
        let target = Target { number: self.ranks + from.node.0, life: from.incarnation.0 };
        self.tester.handle_answer(target, answer, now - self.began, &mut self.out);
    }

    /// So much time has passed, and all packets that have come were taken.
    pub fn handle_time(&mut self, now: Instant, registry: &Registry) {
        if now < self.due() {
            return;
        }
        let time = now - self.began;
        self.hear_all(time);
        if self.tester.wants_targets(time) {
            let targets = self.targets(registry);
            self.tester.handle_interval(time, &targets, &mut self.out);
        } else {
            self.tester.handle_time(time, &mut self.out);
        }
    }

    /// The process with this number has ended, or answers no more: it is not tested.
    pub fn end(&mut self, number: u64) {
        if let Some(line) = self.lines.remove(&number) {
            self.tester.handle_death(line.process.rank.0);
        }
    }

    /// A node is lost.
    pub fn lose(&mut self, node: Node) {
        self.tester.handle_death(self.ranks + node.0);
    }

    fn targets(&self, registry: &Registry) -> Vec<Target> {
        let rank =
            |line: &Line| Target { number: line.process.rank.0, life: line.process.incarnation.0 };
        let nodes = registry.layout().nodes();
        let assignment = Assignment::among(nodes);
        let is_member = |node: u32| registry.is_alive(Node(node));
        // Before a rank has registered here, the observers of other nodes may not have started.
        let others = (0..nodes).filter(|_| !self.lines.is_empty());
        let tested = others.filter(|node| {
            is_member(*node) && assignment.tests((self.me.0, *node), nodes, is_member)
        });
        let node = |node: u32| Target {
            number: self.ranks + node,
            life: registry.host(Node(node)).incarnation.0,
        };
        self.lines.values().map(rank).chain(tested.map(node)).collect()
    }

    /// Asks what is to be asked, and shows what was counted.
    pub fn perform(&mut self, means: &mut Means<'_>, registry: &Registry) -> Result<()> {
        for effect in mem::take(&mut self.out) {
            match effect {
                Effect::Ask(target, question) => match self.node(target) {
                    Some(node) => {
                        let message = Message::Question(question);
                        means.link.send(registry.host(node), &message);
                    }
                    None => self.ask(target, question),
                },
                Effect::Verdict(target, verdict) => {
                    self.failed += u64::from(verdict != Verdict::Passed);
                    self.show(target, means)?;
                }
                Effect::Measured(..) => {}
            }
        }
        Ok(())
    }

    fn node(&self, target: Target) -> Option<Node> {
        target.number.checked_sub(self.ranks).map(Node)
    }

    /// One that does not take the question has not answered others: it is as good as lost.
    fn ask(&self, target: Target, question: Question) {
        let mut frame = Frame::new();
        encode(&Message::Question(question), &mut frame);
        for line in self.lines.values().filter(|it| it.process.rank == Rank(target.number)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&line.connection, &frame, flags);
        }
    }

    fn show(&self, target: Target, means: &mut Means<'_>) -> Result<()> {
        let opinion = self.tester.opinion(target.number);
        means.board.think(target.number, opinion).context("cannot write to the board")?;
        // A person is shown who is well, and not for how long.
        let opinion = Opinion { streak: opinion.streak.min(self.zeta), ..opinion };
        match self.node(target) {
            Some(node) => means.view.think_of_node(node, opinion),
            None => means.view.think_of_rank(Rank(target.number), opinion),
        }
        Ok(())
    }
}

/// What the clock of the machine showed at this moment: by that of a few tries in which both clocks
/// were read the soonest one after the other, as this process may be kept from running in between.
fn clock_at(moment: Instant) -> Duration {
    let tries = (0..TRIES).map(|_| {
        let (since, clock) = (moment.elapsed(), clock::now());
        (moment.elapsed().saturating_sub(since), clock.saturating_sub(since))
    });
    tries.min().unwrap_or_default().1
}

/// How long an answer may be under way on a node where as many ranks compute without pause: who
/// answers waits for a turn of each that shares its processor, and then does who hears it. That is
/// no reason to call any of them slow.
fn waits_for_processors(ranks: usize, processors: usize) -> Duration {
    let each = ranks.div_ceil(processors.max(1));
    if each > 1 { 2 * TURN * each as u32 } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Incarnation, Timing, codec::encode_at, envelope::Secret, plan::Place};

    const INTERVAL: Duration = Duration::from_secs(1);

    /// An observer alone on its node, with one rank that says nothing but what a test writes to the
    /// other end.
    fn alone() -> (Diagnosis, OwnedFd, Registry) {
        let me = Host { node: Node(0), incarnation: Incarnation(0) };
        let place = Place { address: ([127, 0, 0, 1], 4711).into(), name: "here".into() };
        let plan = Plan {
            secret: Secret::new([7; 32]),
            socket: String::new(),
            me,
            timing: Timing::OF_JOBS,
            nodes: vec![place],
            nodes_of: vec![Node(0)],
        };
        let schedule = Schedule { interval: INTERVAL, kappa_percent: 250, zeta: 5 };
        let began = Instant::now().checked_sub(INTERVAL).expect("the machine runs for longer");
        let mut diagnosis = Diagnosis::start(&plan, schedule, began);
        let process = Process { rank: Rank(0), incarnation: Incarnation(0) };
        let other = diagnosis.connect(9, process, None).expect("a rank of the launch");
        (diagnosis, other, Registry::new(plan.layout()))
    }

    /// The verdicts since the last look.
    fn verdicts(diagnosis: &mut Diagnosis) -> Vec<Verdict> {
        let told = mem::take(&mut diagnosis.out).into_iter();
        told.filter_map(|it| if let Effect::Verdict(_, it) = it { Some(it) } else { None })
            .collect()
    }

    fn answer(line: &OwnedFd, sequence: u32, at: Duration) {
        let question = Question { sequence, attempt: 0, work: 1 };
        let mut frame = Frame::new();
        encode_at(&Message::Answer(question.answer()), at, &mut frame);
        rustix::net::send(line, &frame, SendFlags::empty()).expect("sent");
    }

    #[test]
    fn an_answer_counts_from_when_it_was_given_however_late_it_is_read() {
        let (mut it, line, registry) = alone();
        let first = it.due();
        it.handle_time(first, &registry);
        answer(&line, 1, it.clock + (first - it.began) + Duration::from_millis(1));
        // Before the next question, which is due much later.
        it.handle_time(first + INTERVAL, &registry);
        assert_eq!(verdicts(&mut it), [Verdict::Passed]);
        let most = it.tester.threshold(0).expect("an answer was measured");
        assert!(most < Duration::from_millis(50), "{most:?}");
    }

    #[test]
    fn who_closes_its_end_is_tested_no_more_and_failed_nothing() {
        let (mut it, line, registry) = alone();
        let first = it.due();
        it.handle_time(first, &registry);
        drop(line);
        for interval in 1..100 {
            it.handle_time(first + interval * INTERVAL, &registry);
        }
        assert_eq!((verdicts(&mut it), it.lines.len()), (vec![], 0));
    }

    #[test]
    fn ranks_that_share_processors_may_wait_for_a_turn_of_each_and_so_may_their_observer() {
        for (ranks, processors, turns) in [(0, 2, 0), (2, 2, 0), (3, 2, 4), (8, 2, 8), (5, 0, 10)] {
            assert_eq!(waits_for_processors(ranks, processors), turns * TURN, "{ranks}");
        }
    }
}
