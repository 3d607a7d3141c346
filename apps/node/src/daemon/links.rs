//! The links to the daemons of other nodes, and their signs of life.

mod dialled;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fampi_detector::protocol::{Host, Incarnation, Node, Timing, envelope::Secret};

pub(super) use self::dialled::Answered;
use self::dialled::Dialled;
use crate::poll::Poll;
use crate::protocol::channel::{CONSOLE, GUEST};
use crate::protocol::message::{MAX_BYTES, Message};
use crate::protocol::orders::Place;
use crate::protocol::patience::{self, Greatest, MOST_LATE, Patience};
use crate::wire::{End, Link};

/// Numbers of what is waited for.
pub(super) const LISTENER: u64 = 2;
const LINKS: u64 = 1 << 10;
const CALLERS: u64 = 1 << 33;
/// A connection that proves nothing for so long ends.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Silence that is always borne: a daemon may wait so long for a disk or a processor at the first
/// time, and a link that ends tells most deaths at once.
const SHORTEST: Duration = Duration::from_secs(3);
/// A node that is to join and does not call for so long is given up.
const JOINING: Duration = Duration::from_secs(10);
/// How many connections there may be that prove nothing yet.
const MOST_CALLERS: usize = 64;
/// One that is as old may be ended for a new one.
const FRESH: Duration = Duration::from_secs(1);
/// The system gives up a link that takes nothing for so long: later than any silence is judged, as
/// that is no proof that its node is dead.
const UNTAKEN: Duration = Duration::from_secs(120);

/// How a node's silence is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// It was heard of again.
    Broken,
    /// Not heard of for a while.
    Quiet,
    /// Not heard of for so long that it has stopped itself, if it lives.
    Silent,
    /// It was to join, and has not called.
    Absent,
}

/// Who has called.
#[derive(Debug)]
pub(super) enum Called {
    /// A node that had no link yet.
    Node(Node),
    /// A node before this one, which wants to be called: it is always the later one that calls.
    Before(Node),
    /// A console.
    Console(Box<Link>),
    /// Who brings a node.
    Guest(Box<Link>),
}

/// What has come from a node.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Its link was made after this node began to serve, and nothing was received over it before.
    pub(super) is_linked: bool,
    /// What it has sent.
    pub(super) messages: Vec<Message>,
    /// After that its link has ended, in this way.
    pub(super) end: Option<End>,
}

#[derive(Debug)]
struct Neighbour {
    link: Link,
    /// It was made while this node serves, and nothing was received over it.
    is_new: bool,
    heard: Instant,
    is_quiet: bool,
    /// Of this silence a time was taken off in which this daemon did not run.
    is_excused: bool,
    patience: Patience,
}

/// The links of a daemon.
#[derive(Debug)]
pub(super) struct Links {
    me: Host,
    secret: Secret,
    listener: TcpListener,
    neighbours: BTreeMap<Node, Neighbour>,
    /// Nodes that are to join and have not called: since when, and what they are sent then.
    expected: BTreeMap<Node, (Instant, Vec<Message>)>,
    /// Nodes that are not expected may call, too: this one does not serve yet.
    is_meeting: bool,
    /// Not all nodes are linked with each other, and links are made later, too.
    is_graph: bool,
    addresses: Vec<SocketAddr>,
    /// Nodes that were called, or asked to call, and have not answered.
    dialled: BTreeMap<Node, Dialled>,
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
    /// By how much nodes that are lost had been late.
    parted_late: Greatest,
    /// Connections that were refused.
    refused: u64,
}

/// Sends over the link of this number what there is room for, and waits for room for the rest.
fn push(poll: &Poll, link: &mut Link, number: u64) -> Result<()> {
    link.flush();
    // Of one that has ended nothing is waited for.
    let change = link.take_change().filter(|_| !link.is_closed());
    change.map_or(Ok(()), |writable| poll.set_writable(&*link, number, writable))
}

/// This node in its only life: a daemon that ends does not come back.
pub(crate) const fn host(node: u32) -> Host {
    Host { node: Node(node), incarnation: Incarnation(0) }
}

impl Links {
    /// None yet; others may call.
    pub(super) fn open(me: Host, secret: &Secret) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot listen")?;
        listener.set_nonblocking(true).context("cannot listen")?;
        let now = Instant::now();
        Ok(Self {
            me,
            secret: secret.clone(),
            listener,
            neighbours: BTreeMap::new(),
            expected: BTreeMap::new(),
            is_meeting: true,
            is_graph: false,
            addresses: Vec::new(),
            dialled: BTreeMap::new(),
            callers: BTreeMap::new(),
            called: 0,
            parted: Vec::new(),
            timing: Timing::OF_JOBS,
            beat: now,
            begun: now,
            late: Greatest::default(),
            parted_late: Greatest::default(),
            refused: 0,
        })
    }

    /// This node has got its number.
    pub(super) const fn set_number(&mut self, number: u32) {
        self.me = host(number);
    }

    /// This node serves from now on.
    pub(super) const fn begin(&mut self) {
        self.is_meeting = false;
    }

    /// A node is to join, and calls soon.
    pub(super) fn expect(&mut self, node: Node) {
        if !self.neighbours.contains_key(&node) {
            self.expected.insert(node, (Instant::now(), Vec::new()));
        }
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

    /// Calls those of these nodes that are before this one; those behind it call here.
    pub(super) fn call(
        &mut self,
        poll: &Poll,
        nodes: &[Place],
        these: &BTreeSet<Node>,
        period: Duration,
        is_graph: bool,
    ) -> Result<()> {
        self.is_graph = is_graph;
        self.addresses = nodes.iter().map(|place| place.address).collect();
        self.timing = Timing::of_jobs_with(period);
        let me = self.me.node;
        for node in these.iter().copied().filter(|node| *node < me) {
            let place = nodes.get(node.0 as usize).context("a node that has no place")?;
            let link = Link::call(place.address, self.me, host(node.0), &self.secret, MAX_BYTES)
                .with_context(|| format!("{} cannot be reached", place.name))?;
            self.join(poll, node, link)?;
        }
        // Until now this daemon has waited for others, too.
        (self.beat, self.late) = (Instant::now(), Greatest::default());
        Ok(())
    }

    fn join(&mut self, poll: &Poll, node: Node, link: Link) -> Result<()> {
        poll.add(&link, LINKS + u64::from(node.0))?;
        link.bound_sending(UNTAKEN)?;
        let (heard, patience) = (Instant::now(), Patience::default());
        let is_new = !self.is_meeting;
        let mut neighbour =
            Neighbour { link, is_new, heard, is_quiet: false, is_excused: false, patience };
        if let Some(dialled) = self.dialled.remove(&node) {
            poll.remove(&dialled.link);
        }
        for message in self.expected.remove(&node).map(|it| it.1).into_iter().flatten() {
            neighbour.link.send(&message);
        }
        self.neighbours.insert(node, neighbour);
        Ok(())
    }

    /// True when each of these nodes is linked and has proved who it is.
    pub(super) fn have_all(&self, nodes: &BTreeSet<Node>) -> bool {
        let is_proved = |it: &Neighbour| it.link.peer().is_some();
        nodes.iter().all(|node| self.neighbours.get(node).is_some_and(is_proved))
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
            if self.callers.len() == MOST_CALLERS {
                // Those that have come at once are heard before more are let in.
                let old = self.callers.first_entry().filter(|it| it.get().1.elapsed() > FRESH);
                let Some(old) = old else { return Ok(()) };
                poll.remove(&old.remove().0);
                self.refused += 1;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let link = Link::accept(stream, self.me, &self.secret, MAX_BYTES)?;
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

    /// Hears one that has called: it may prove that it is a console, a guest, or a node that has no
    /// link yet.
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
        if peer == CONSOLE || peer == GUEST {
            poll.remove(&link);
            let link = Box::new(link);
            let is_console = peer == CONSOLE;
            return Ok(Some(if is_console { Called::Console(link) } else { Called::Guest(link) }));
        }
        // One that joins has no address here, and comes when it is expected.
        let is_launched = (peer.node.0 as usize) < self.addresses.len();
        let may_call = self.is_meeting || self.is_graph && is_launched;
        let is_new = !self.neighbours.contains_key(&peer.node);
        if self.is_graph && is_new && peer.node < self.me.node {
            poll.remove(&link);
            return Ok(Some(Called::Before(peer.node)));
        }
        let is_expected = self.expected.contains_key(&peer.node)
            || may_call && peer.node > self.me.node && is_new;
        if !is_expected {
            self.refused += 1;
            return Ok(None);
        }
        poll.remove(&link);
        self.join(poll, peer.node, link)?;
        Ok(Some(Called::Node(peer.node)))
    }

    /// The end of this link was seen, and need not be told again.
    pub(super) fn unwatch(&self, poll: &Poll, node: Node) {
        if let Some(neighbour) = self.neighbours.get(&node) {
            poll.remove(&neighbour.link);
        }
    }

    /// The nodes whose links were closed.
    pub(super) fn ended(&self) -> Vec<Node> {
        let ended = self.neighbours.iter().filter(|(_, it)| it.link.end() == Some(End::Closed));
        ended.map(|(node, _)| *node).collect()
    }

    /// The nodes that have proved who they are.
    pub(super) fn proved(&self) -> impl Iterator<Item = Node> {
        let proved = self.neighbours.iter().filter(|(_, it)| it.link.peer().is_some());
        proved.map(|(node, _)| *node)
    }

    /// What a node has sent, and whether its link has ended after that.
    pub(super) fn receive(&mut self, node: Node) -> Received {
        let Some(neighbour) = self.neighbours.get_mut(&node) else { return Received::default() };
        // Of a long message, too: what was sent behind it has to wait.
        let has_come = neighbour.link.read();
        let is_linked = std::mem::take(&mut neighbour.is_new);
        let mut messages = Vec::new();
        while let Some(message) = neighbour.link.take() {
            if let Message::Beat(beat) = message {
                neighbour.patience.handle_beat(beat, self.begun.elapsed());
            }
            messages.push(message);
        }
        if has_come {
            neighbour.heard = Instant::now();
            neighbour.is_excused = false;
        }
        Received { is_linked, messages, end: neighbour.link.end() }
    }

    /// Sends a message, as far as there is a link, or one is expected.
    pub(super) fn send(&mut self, node: Node, message: Message) {
        if let Some(neighbour) = self.neighbours.get_mut(&node) {
            neighbour.link.send(&message);
        } else if let Some((_, unsent)) = self.expected.get_mut(&node) {
            unsent.push(message);
        }
    }

    /// A node is lost: it is not heard any more.
    pub(super) fn part(&mut self, poll: &Poll, node: Node) {
        self.expected.remove(&node);
        if let Some(dialled) = self.dialled.remove(&node) {
            poll.remove(&dialled.link);
        }
        if let Some(mut neighbour) = self.neighbours.remove(&node) {
            poll.remove(&neighbour.link);
            // Those who heard it go on making allowance for it.
            let greatest = neighbour.patience.greatest().min(MOST_LATE).as_millis() as u32;
            self.parted_late.note(greatest, self.begun.elapsed());
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
        let is_absent = |since: Instant| now.duration_since(since) > JOINING;
        let absent = self.expected.iter().filter(|(_, (since, _))| is_absent(*since));
        let mut changes: Vec<_> = absent.map(|(node, _)| (*node, Silence::Absent)).collect();
        // The greatest lateness of any: who is cut off may hear the latest one for longest.
        let all = self.neighbours.values().map(|it| it.patience.greatest());
        self.parted_late.pass(at);
        let parted = Duration::from_millis(self.parted_late.get().into());
        let greatest = all.fold(parted, Duration::max);
        let lost_after = if self.is_graph {
            patience::lost_after_in_graph(shortest)
        } else {
            patience::lost_after(shortest, greatest)
        };
        // This daemon cannot hear while it does not run: once in each silence it makes up for that.
        let was_late = if was_late > shortest / 2 { was_late } else { Duration::ZERO };
        if beats {
            changes.extend(self.look_after_dialled(poll, now, (was_late, lost_after))?);
        }
        for (node, neighbour) in &mut self.neighbours {
            if beats && neighbour.link.peer().is_some() {
                let beat = neighbour.patience.beat(late, at);
                neighbour.link.send(&Message::Beat(beat));
            }
            push(poll, &mut neighbour.link, LINKS + u64::from(node.0))?;
            if was_late > Duration::ZERO && !std::mem::replace(&mut neighbour.is_excused, true) {
                neighbour.heard = (neighbour.heard + was_late).min(now);
            }
            let silent = now.duration_since(neighbour.heard);
            let late = if self.is_graph { MOST_LATE } else { neighbour.patience.last() };
            // What the network has lost here it may have lost there, too.
            let is_quiet =
                neighbour.link.is_closed() || silent > patience::quiet_after(shortest, late);
            if silent > lost_after {
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
