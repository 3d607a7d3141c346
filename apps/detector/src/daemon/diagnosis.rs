//! Drives the tests of who is slow: of the ranks of this node, and of the observers of others.
//!
//! A rank answers on a connection of its own, of which it gets the other end with its welcome: the
//! one on which it registered stays silent. What goes over it are the observers' messages, one in
//! a packet. Targets are numbered: first the ranks of the launch, then the nodes.
//!
//! Nothing is decided here. What was counted is shown: on the board to the ranks of this node, and
//! in the view to a person.

use std::{
    collections::BTreeMap,
    mem,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Instant,
};

use anyhow::{Context, Result};
use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};

use crate::{
    daemon::{board::Board, link::Link, view::View},
    protocol::{
        Host, Node, Process, Rank,
        codec::{Frame, MAX_BYTES, decode, encode},
        diagnosis::{
            Answer, Effect, Question, Target, Verdict, clusters::Assignment, schedule::Schedule,
            tester::Tester,
        },
        message::Message,
        plan::Plan,
        registry::Registry,
    },
};

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
    me: Node,
    /// Ranks of the launch.
    ranks: u32,
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
        let tester = Tester::start(schedule.terms(), schedule.interval);
        let (me, ranks) = (plan.me.node, plan.nodes_of.len() as u32);
        let (lines, out) = (BTreeMap::new(), Vec::new());
        Self { tester, began: now, me, ranks, lines, out, failed: 0 }
    }

    /// When [`Self::handle_time`] has something to do.
    pub fn due(&self) -> Instant {
        self.began + self.tester.due()
    }

    /// Tests that were failed, and intervals in which this process was kept from testing.
    pub fn counts(&self) -> [u64; 2] {
        [self.failed, self.tester.stalls()]
    }

    /// A process has this number: where it answers, which is to be heard, and the end of it that
    /// it needs for that.
    pub fn connect(&mut self, number: u64, process: Process) -> Option<(BorrowedFd<'_>, OwnedFd)> {
        if process.rank.0 >= self.ranks {
            return None;
        }
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let ends = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let (connection, other) = ends.ok()?;
        let line = self.lines.entry(number).or_insert(Line { process, connection });
        Some((line.connection.as_fd(), other))
    }

    /// Hears what a process says; one that says something else is heard no more.
    pub fn hear(&mut self, number: u64, now: Instant) {
        while let Some(line) = self.lines.get(&number) {
            // One byte more tells what is too long.
            let mut packet = [0; MAX_BYTES + 1];
            let taken = rustix::net::recv(&line.connection, &mut packet, RecvFlags::DONTWAIT);
            let length = match taken {
                Ok((length, _)) => length,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => 0,
            };
            let Some(Message::Answer(answer)) = decode(&packet[..length.min(MAX_BYTES)]) else {
                return self.end(number);
            };
            let Process { rank, incarnation } = line.process;
            let target = Target { number: rank.0, life: incarnation.0 };
            self.tester.handle_answer(target, answer, now - self.began, &mut self.out);
        }
    }

    /// The observer of another node has answered.
    pub fn handle_answer(&mut self, from: Host, answer: Answer, now: Instant) {
        let target = Target { number: self.ranks + from.node.0, life: from.incarnation.0 };
        self.tester.handle_answer(target, answer, now - self.began, &mut self.out);
    }

    /// So much time has passed, and all packets that have come were taken.
    pub fn handle_time(&mut self, now: Instant, registry: &Registry) {
        if now < self.due() {
            return;
        }
        let numbers: Vec<u64> = self.lines.keys().copied().collect();
        for number in numbers {
            self.hear(number, now);
        }
        let time = now - self.began;
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
        match self.node(target) {
            Some(node) => means.view.think_of_node(node, opinion),
            None => means.view.think_of_rank(Rank(target.number), opinion),
        }
        Ok(())
    }
}
