//! The links to the daemons of all other nodes, and their signs of life.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fampi_detector::protocol::{Host, Incarnation, Node, Timing, envelope::Secret};

use crate::poll::Poll;
use crate::protocol::channel::CONSOLE;
use crate::protocol::message::{MAX_BYTES, Message};
use crate::protocol::orders::Place;
use crate::protocol::patience::{Greatest, MOST_LATE, Patience};
use crate::wire::Link;

/// Numbers of what is waited for.
pub(super) const LISTENER: u64 = 2;
const LINKS: u64 = 1 << 10;
const CALLERS: u64 = 1 << 33;
/// A connection that proves nothing for so long ends.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Silence that is always borne: a daemon may wait so long for a disk or a processor at the first
/// time, and a link that ends tells most deaths at once.
const SHORTEST: Duration = Duration::from_secs(3);
/// How many of these there may be.
const MOST_CALLERS: usize = 64;

/// How a node's silence is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// It was heard of again.
    Broken,
    /// Not heard of for a while.
    Quiet,
    /// Not heard of for so long that it has stopped itself, if it lives.
    Silent,
}

/// Who has called.
#[derive(Debug)]
pub(super) enum Called {
    /// A node that had no link yet.
    Node(Node),
    /// A console.
    Console(Box<Link>),
}

#[derive(Debug)]
struct Neighbour {
    link: Link,
    heard: Instant,
    is_quiet: bool,
    patience: Patience,
}

/// The links of a daemon.
#[derive(Debug)]
pub(super) struct Links {
    me: Host,
    secret: Secret,
    listener: TcpListener,
    neighbours: BTreeMap<Node, Neighbour>,
    /// Those that have called, and proved nothing yet.
    callers: BTreeMap<u64, (Link, Instant)>,
    called: u64,
    /// Lost nodes: what was told them is still on its way, so that they learn of it if they live.
    parted: Vec<Link>,
    /// Between two signs of life, and how long silence may last.
    timing: Timing,
    beat: Instant,
    begun: Instant,
    /// By how many milliseconds this daemon has been late, of late.
    late: Greatest,
    /// Connections that were refused.
    refused: u64,
}

/// This node in its only life: a daemon that ends does not come back.
pub(crate) const fn host(node: u32) -> Host {
    Host { node: Node(node), incarnation: Incarnation(0) }
}

impl Links {
    /// None yet; others may call.
    pub(super) fn open(me: u32, secret: &Secret) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot listen")?;
        listener.set_nonblocking(true).context("cannot listen")?;
        let now = Instant::now();
        Ok(Self {
            me: host(me),
            secret: secret.clone(),
            listener,
            neighbours: BTreeMap::new(),
            callers: BTreeMap::new(),
            called: 0,
            parted: Vec::new(),
            timing: Timing::OF_JOBS,
            beat: now,
            begun: now,
            late: Greatest::default(),
            refused: 0,
        })
    }

    /// The secret of the job.
    pub(super) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The port at which others can call.
    pub(super) fn port(&self) -> Result<u16> {
        Ok(self.listener.local_addr().context("no port")?.port())
    }

    /// Waits for calls.
    pub(super) fn watch(&self, poll: &Poll) -> Result<()> {
        poll.add(&self.listener, LISTENER)
    }

    /// Calls all nodes before this one; those behind it call here.
    pub(super) fn call(&mut self, poll: &Poll, nodes: &[Place], period: Duration) -> Result<()> {
        self.timing = Timing::of_jobs_with(period);
        for (node, place) in (0..self.me.node.0).zip(nodes) {
            let link = Link::call(place.address, self.me, host(node), &self.secret, MAX_BYTES)
                .with_context(|| format!("{} cannot be reached", place.name))?;
            self.join(poll, Node(node), link)?;
        }
        // Until now this daemon has waited for others, too.
        (self.beat, self.late) = (Instant::now(), Greatest::default());
        Ok(())
    }

    fn join(&mut self, poll: &Poll, node: Node, link: Link) -> Result<()> {
        poll.add(&link, LINKS + u64::from(node.0))?;
        let (heard, patience) = (Instant::now(), Patience::default());
        let neighbour = Neighbour { link, heard, is_quiet: false, patience };
        self.neighbours.insert(node, neighbour);
        Ok(())
    }

    /// True when each of so many nodes is linked and has proved who it is.
    pub(super) fn are_complete(&self, nodes: usize) -> bool {
        let proved = self.neighbours.values().filter(|it| it.link.peer().is_some());
        proved.count() + 1 == nodes
    }

    /// The node whose link has this number.
    pub(super) fn node_of(number: u64) -> Option<Node> {
        let at = number.checked_sub(LINKS).filter(|at| *at < u64::from(u32::MAX))?;
        Some(Node(at as u32))
    }

    /// True for the number of one that has called.
    pub(super) fn is_caller(&self, number: u64) -> bool {
        self.callers.contains_key(&number)
    }

    /// Lets in those who call.
    pub(super) fn accept(&mut self, poll: &Poll) -> Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let link = Link::accept(stream, self.me, &self.secret, MAX_BYTES)?;
                    if self.callers.len() == MOST_CALLERS {
                        self.callers.pop_first();
                        self.refused += 1;
                    }
                    let number = CALLERS + self.called;
                    self.called += 1;
                    poll.add(&link, number)?;
                    self.callers.insert(number, (link, Instant::now()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What the system cannot give now it may give later.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Hears one that has called: it may prove that it is a console, or a node without a link yet.
    pub(super) fn hear_caller(&mut self, poll: &Poll, number: u64) -> Result<Option<Called>> {
        let Some((mut link, since)) = self.callers.remove(&number) else { return Ok(None) };
        link.read();
        let Some(peer) = link.peer() else {
            if link.is_closed() {
                self.refused += 1;
            } else {
                self.callers.insert(number, (link, since));
            }
            return Ok(None);
        };
        if peer == CONSOLE {
            poll.remove(&link);
            return Ok(Some(Called::Console(Box::new(link))));
        }
        let is_expected = peer.node.0 > self.me.node.0 && !self.neighbours.contains_key(&peer.node);
        if !is_expected {
            self.refused += 1;
            return Ok(None);
        }
        poll.remove(&link);
        self.join(poll, peer.node, link)?;
        Ok(Some(Called::Node(peer.node)))
    }

    /// What a node has sent, and whether its link has ended after that.
    pub(super) fn receive(&mut self, node: Node) -> (Vec<Message>, bool) {
        let Some(neighbour) = self.neighbours.get_mut(&node) else { return (Vec::new(), false) };
        neighbour.link.read();
        let mut messages = Vec::new();
        while let Some(message) = neighbour.link.take() {
            if let Message::Beat(beat) = message {
                neighbour.patience.handle_beat(beat, self.begun.elapsed());
            }
            messages.push(message);
        }
        if !messages.is_empty() {
            neighbour.heard = Instant::now();
        }
        (messages, neighbour.link.is_closed())
    }

    /// Sends a message, as far as there is a link.
    pub(super) fn send(&mut self, node: Node, message: &Message) {
        if let Some(neighbour) = self.neighbours.get_mut(&node) {
            neighbour.link.send(message);
        }
    }

    /// A node is lost: it is not heard any more.
    pub(super) fn part(&mut self, poll: &Poll, node: Node) {
        if let Some(mut neighbour) = self.neighbours.remove(&node) {
            poll.remove(&neighbour.link);
            neighbour.link.flush();
            if !neighbour.link.is_closed() {
                self.parted.push(neighbour.link);
            }
        }
    }

    /// Sends signs of life, and what there was no room for; says whose silence has changed.
    pub(super) fn handle_time(
        &mut self,
        poll: &Poll,
        now: Instant,
    ) -> Result<Vec<(Node, Silence)>> {
        let (at, was_late) =
            (now.duration_since(self.begun), now.saturating_duration_since(self.beat));
        let beats = now >= self.beat;
        if beats {
            self.beat = now + self.timing.period;
            self.late.note(was_late.min(MOST_LATE).as_millis() as u32, at);
        }
        let late = Duration::from_millis(self.late.get().into());
        let shortest = self.timing.timeout.max(SHORTEST);
        self.callers.retain(|_, (_, since)| now.duration_since(*since) < HANDSHAKE);
        let mut changes = Vec::new();
        for (node, neighbour) in &mut self.neighbours {
            if beats && neighbour.link.peer().is_some() {
                let beat = neighbour.patience.beat(late, at);
                neighbour.link.send(&Message::Beat(beat));
            }
            neighbour.link.flush();
            if let Some(writable) = neighbour.link.take_change() {
                poll.set_writable(&neighbour.link, LINKS + u64::from(node.0), writable)?;
            }
            if was_late > shortest / 2 {
                // While this daemon did not run it heard no other.
                neighbour.heard = now;
            }
            let silent = now.duration_since(neighbour.heard);
            let is_quiet = silent > neighbour.patience.quiet_after(shortest);
            if silent > neighbour.patience.lost_after(shortest) {
                changes.push((*node, Silence::Silent));
            } else if is_quiet != neighbour.is_quiet {
                let silence = if is_quiet { Silence::Quiet } else { Silence::Broken };
                changes.push((*node, silence));
            }
            neighbour.is_quiet = is_quiet;
        }
        for link in &mut self.parted {
            link.flush();
        }
        Ok(changes)
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    pub(super) const fn deadline(&self) -> Instant {
        self.beat
    }
}
