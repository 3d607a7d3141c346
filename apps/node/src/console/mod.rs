//! The console of a job, which `launch` starts and `attach` finds: prints what its processes print,
//! and ends with its status. It takes no part in what the daemons decide, and when it is lost the
//! job goes on: then a later console takes its place, or files hold what is printed and how the job
//! has ended.

pub mod add;
pub mod attach;
mod collecting;
mod hosts;
mod input;
pub mod jobs;
pub mod launch;
mod listed;
mod printer;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fampi_detector::protocol::envelope::Secret;

use crate::daemon::host;
use crate::poll::Poll;
use crate::protocol::Report;
use crate::protocol::channel::CONSOLE;
use crate::protocol::orders::{MAX_BYTES, Order, Place, Word};
use crate::wire::Link;
use collecting::Folders;
use hosts::By;
use input::Input;
use printer::Printer;

/// How long the daemons have to start and to find each other.
const START: Duration = Duration::from_secs(60);
/// How long they have to leave when all is over.
const LEAVING: Duration = Duration::from_secs(2);
/// How long they have to end the job when they are asked to.
const ENDING: Duration = Duration::from_secs(10);
/// A daemon whose machine takes nothing for so long is lost.
const UNTAKEN: Duration = Duration::from_secs(20);
/// A connection that proves nothing for so long ends.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How many such connections there may be.
const MOST_CALLERS: usize = 256;
/// Signals and agents are looked for so often.
const TURN: Duration = Duration::from_millis(50);
const LISTENER: u64 = 0;
const INPUT: u64 = 1;

/// A daemon, as the console sees it.
#[derive(Debug, Default)]
struct Node {
    name: String,
    slots: u32,
    /// What started it.
    starter: Option<Child>,
    link: Option<u64>,
    address: Option<SocketAddr>,
    is_ready: bool,
    /// There is no link to it any more.
    is_lost: bool,
    /// Nodes that take it for lost.
    lost_for: BTreeSet<usize>,
    over: Option<(u8, Option<String>)>,
}

/// The console of a job.
#[derive(Debug)]
struct Console {
    poll: Poll,
    listener: TcpListener,
    secret: Secret,
    nodes: Vec<Node>,
    links: BTreeMap<u64, Link>,
    /// Those of them that prove nothing yet, and when they came.
    callers: BTreeMap<u64, Instant>,
    last: u64,
    printer: Option<Printer>,
    /// What processes write on other hosts comes here.
    folders: Folders,
    /// What the first process reads, and the node that it is on.
    input: Option<(Input, usize)>,
    signal: Arc<AtomicUsize>,
    /// Where others see this host.
    outside: Option<IpAddr>,
    /// What starts daemons on hosts.
    by: By,
    complaint: Option<String>,
    /// Another console waits for the job.
    is_refused: bool,
    /// What was said to the person already.
    remarks: BTreeSet<String>,
    /// All is over: who is gone now has left.
    is_leaving: bool,
    /// A signal has asked the job to end.
    was_asked: bool,
}

/// True when nothing more is to come from a node: it has said that the job is over, its link has
/// ended, or a node reports it as lost which no other node reports as lost. When the network is cut
/// the nodes of both parts report each other; then the console waits until the daemons of one part
/// stop themselves, and their links end.
fn is_over(nodes: &[Node], node: usize) -> bool {
    let is_here = |at: usize| !nodes[at].is_lost;
    let is_accused = |at: usize| nodes[at].lost_for.iter().any(|by| is_here(*by));
    let Node { is_lost, over, lost_for, .. } = &nodes[node];
    *is_lost || over.is_some() || lost_for.iter().any(|by| is_here(*by) && !is_accused(*by))
}

impl Console {
    /// A console that ends the job at any of these signals.
    fn new(nodes: Vec<Node>, by: By, secret: Secret, signals: &[i32]) -> Result<Self> {
        let poll = Poll::new()?;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot listen")?;
        listener.set_nonblocking(true).context("cannot listen")?;
        poll.add(&listener, LISTENER)?;
        let signal = Arc::new(AtomicUsize::new(0));
        for number in signals.iter().copied() {
            let value = number.unsigned_abs() as usize;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
                .context("cannot watch for signals")?;
        }
        Ok(Self {
            poll,
            listener,
            secret,
            nodes,
            links: BTreeMap::new(),
            callers: BTreeMap::new(),
            last: INPUT,
            printer: Some(Printer::start()),
            folders: Folders::default(),
            input: None,
            signal,
            outside: None,
            by,
            complaint: None,
            is_refused: false,
            remarks: BTreeSet::new(),
            is_leaving: false,
            was_asked: false,
        })
    }

    /// Prints and waits until all is over; the exit status, unless all nodes are lost.
    fn wait(&mut self) -> Result<Option<u8>> {
        let mut asked = None;
        while !self.is_refused && !self.is_over() {
            self.turn()?;
            let signal = self.signal.swap(0, Ordering::Relaxed);
            let is_late = asked.is_some_and(|(since, _): (Instant, u8)| since.elapsed() > ENDING);
            match asked {
                None if signal != 0 => {
                    let status = 128_u8.saturating_add(signal as u8);
                    asked = Some((Instant::now(), status));
                    self.was_asked = true;
                    for node in 0..self.nodes.len() {
                        self.send(node, &Order::End(status));
                    }
                }
                Some((_, status)) if signal != 0 || is_late => {
                    self.say_who_is_left();
                    return Ok(Some(status));
                }
                _ => {}
            }
            if let Some(complaint) = self.complaint.take() {
                say!("fampi-node: {complaint}");
            }
        }
        let overs = || self.nodes.iter().filter(|it| !it.is_lost).filter_map(|it| it.over.as_ref());
        if let Some(why) = overs().find_map(|(_, why)| why.as_ref()) {
            say!("fampi-node: {why}");
        }
        Ok(overs().map(|(status, _)| *status).max())
    }

    /// True when no daemon serves the job any more, as far as is known here.
    fn is_over(&self) -> bool {
        (0..self.nodes.len()).all(|node| is_over(&self.nodes, node))
    }

    /// The person does not wait for them any more.
    fn say_who_is_left(&self) {
        let left = (0..self.nodes.len()).filter(|node| !is_over(&self.nodes, *node));
        for node in left {
            let name = &self.nodes[node].name;
            say!("fampi-node: {name} does not say that the job has ended there: see to it");
        }
    }

    /// A connection to a daemon, or from one, which is heard from now on.
    fn watch(&mut self, link: Link) -> Result<u64> {
        link.watch_machine()?;
        link.bound_sending(UNTAKEN)?;
        self.last += 1;
        self.poll.add(&link, self.last)?;
        self.links.insert(self.last, link);
        Ok(self.last)
    }

    /// Lets in those who call, and ends what has proved nothing for too long.
    fn accept(&mut self) -> Result<()> {
        while self.callers.len() < MOST_CALLERS
            && let Ok((stream, _)) = self.listener.accept()
        {
            let link = Link::accept(stream, CONSOLE, &self.secret, MAX_BYTES)?;
            let number = self.watch(link)?;
            self.callers.insert(number, Instant::now());
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let is_stranger = |since: &Instant| since.elapsed() > HANDSHAKE;
        for (number, _) in self.callers.iter().filter(|(_, since)| is_stranger(since)) {
            if let Some(link) = self.links.remove(number) {
                self.poll.remove(&link);
            }
        }
        self.callers.retain(|_, since| !is_stranger(since));
        for number in self.poll.wait(TURN)? {
            if number == LISTENER {
                self.accept()?;
            } else if number == INPUT {
                self.send_input();
            } else {
                self.hear(number)?;
            }
        }
        for (node, stream, bytes) in self.printer.iter().flat_map(Printer::take_done) {
            let link = self.nodes[node].link.and_then(|number| self.links.get_mut(&number));
            if let Some(link) = link {
                link.send(&Order::Printed(stream, bytes));
            }
        }
        for (number, link) in &mut self.links {
            link.flush();
            if let Some(writable) = link.take_change() {
                self.poll.set_writable(&*link, *number, writable)?;
            }
        }
        Ok(())
    }

    /// Hands on what was read for the first process.
    fn send_input(&mut self) {
        let next = self.input.as_mut().and_then(|(it, at)| Some((it.next(&self.poll)?, *at)));
        if let Some((bytes, at)) = next {
            self.send(at, &Order::Input(bytes));
        }
    }

    fn hear(&mut self, number: u64) -> Result<()> {
        let Some(mut link) = self.links.remove(&number) else { return Ok(()) };
        link.read();
        if link.peer().is_some() || link.is_closed() {
            self.callers.remove(&number);
        }
        let called = self.nodes.iter().position(|node| node.link == Some(number));
        let at = link.peer().map(|peer| peer.node.0 as usize).or(called);
        let known = at.filter(|at| {
            self.nodes.get(*at).is_some_and(|it| it.link.is_none_or(|link| link == number))
        });
        if let Some(at) = known {
            self.nodes[at].link = Some(number);
            while let Some(word) = link.take() {
                self.obey(at, word, &link)?;
            }
        }
        let is_stranger = link.peer().is_some() && known.is_none();
        if link.is_closed() || is_stranger {
            self.poll.remove(&link);
            if let Some(at) = known {
                self.nodes[at].is_lost |= self.nodes[at].over.is_none();
            }
        } else {
            self.links.insert(number, link);
        }
        Ok(())
    }

    fn obey(&mut self, at: usize, word: Word, link: &Link) -> Result<()> {
        if let Word::Report(Report::Came(number, place)) = word {
            self.welcome(number as usize, place);
            return Ok(());
        }
        let node = &mut self.nodes[at];
        match word {
            Word::Here(_, port) => {
                let seen = link.address().map(|address| address.ip()).ok();
                let outside = self.outside;
                let ip = seen.map(|ip| if ip.is_loopback() { outside.unwrap_or(ip) } else { ip });
                node.address = ip.map(|ip| SocketAddr::new(ip, port));
            }
            Word::Ready => node.is_ready = true,
            Word::Output(printed) => {
                if let Some(printer) = &self.printer {
                    printer.print(at, printed);
                }
            }
            Word::Taken(bytes) => {
                if let Some((input, _)) = &mut self.input {
                    input.note_taken(&self.poll, bytes)?;
                }
            }
            Word::Collected(piece) => {
                if let Err(failure) = self.folders.write(at, &piece) {
                    self.remark(at, &format!("what was written there is lost here: {failure:#}"));
                }
            }
            Word::Refused => self.is_refused = true,
            Word::Remark(text) => self.remark(at, &text),
            Word::Report(Report::Over(status, why)) => node.over = Some((status, why)),
            Word::Report(Report::Busy) => node.over = None,
            Word::Report(Report::Lost(lost, processes)) => {
                let Some(lost) = self.nodes.get_mut(lost as usize) else { return Ok(()) };
                // Each daemon tells of it.
                let is_first = lost.lost_for.is_empty() && !self.is_leaving;
                lost.lost_for.insert(at);
                if is_first {
                    say!("fampi-node: {} is lost, with {processes} processes", lost.name);
                }
            }
            // Of others than a console.
            Word::Report(Report::Came(..))
            | Word::Admitted(_)
            | Word::NotAdmitted(_)
            | Word::Came => {}
            Word::Failed(why) => self.complaint = Some(format!("{}: {why}", node.name)),
        }
        Ok(())
    }

    /// Says something about a node to the person, once.
    fn remark(&mut self, at: usize, text: &str) {
        let remark = format!("{}: {text}", self.nodes[at].name);
        if !self.remarks.contains(&remark) {
            say!("fampi-node: {remark}");
            self.remarks.insert(remark);
        }
    }

    /// A node has joined, of which each daemon tells: it is called.
    fn welcome(&mut self, at: usize, place: Place) {
        // Those that were to join, and have not.
        while self.nodes.len() <= at {
            self.nodes.push(Node { is_lost: true, ..Node::default() });
        }
        if self.nodes[at].link.is_some() {
            return;
        }
        let called = Link::call(place.address, CONSOLE, host(at as u32), &self.secret, MAX_BYTES);
        let watched = called.and_then(|link| self.watch(link));
        let link = watched.as_ref().ok().copied();
        let Place { name, slots, address } = place;
        match watched {
            Ok(_) => say!("fampi-node: {name} has joined"),
            Err(error) => say!(
                "fampi-node: {name} has joined; what its processes print stays there: {error:#}"
            ),
        }
        let (address, is_lost) = (Some(address), link.is_none());
        self.nodes[at] =
            Node { name, slots, link, address, is_ready: true, is_lost, ..Node::default() };
    }

    fn send(&mut self, at: usize, order: &Order) {
        let link = self.nodes[at].link.and_then(|number| self.links.get_mut(&number));
        if let Some(link) = link {
            link.send(order);
        }
    }

    /// Lets the daemons leave.
    fn conclude(&mut self) {
        self.is_leaving = true;
        for node in 0..self.nodes.len() {
            self.send(node, &Order::Leave);
        }
        let deadline = Instant::now() + LEAVING;
        let is_linked = |it: &Self| it.links.keys().any(|link| !it.callers.contains_key(link));
        while is_linked(self) && Instant::now() < deadline && self.turn().is_ok() {}
        let was_asked = self.was_asked || self.signal.load(Ordering::Relaxed) != 0;
        if let Some(printer) = self.printer.take() {
            // Nobody may read it any more.
            printer.finish(was_asked.then_some(LEAVING));
        }
        self.links.clear();
        for node in &mut self.nodes {
            // One that was a child of ours has left; an agent that stays is not waited for.
            if let Some(starter) = &mut node.starter
                && !matches!(starter.try_wait(), Ok(Some(_)))
            {
                let _ = starter.kill();
                let _ = starter.wait();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_cut_network_that_accuse_each_other_are_waited_for_until_one_stops() {
        let lost_for = |nodes: &[usize]| nodes.iter().copied().collect();
        let mut nodes: Vec<Node> = (0..4).map(|_| Node::default()).collect();
        let over = |nodes: &[Node]| -> Vec<usize> {
            (0..4).filter(|node| is_over(nodes, *node)).collect()
        };
        nodes[3].lost_for = lost_for(&[0, 1]);
        assert_eq!(over(&nodes), [3], "nobody contradicts");
        nodes[2].lost_for = lost_for(&[0]);
        nodes[0].lost_for = lost_for(&[2, 3]);
        nodes[1].lost_for = lost_for(&[3]);
        assert_eq!(over(&nodes), [0; 0]);
        // The smaller part stops itself, and its links end.
        (nodes[2].is_lost, nodes[3].is_lost) = (true, true);
        assert_eq!(over(&nodes), [2, 3]);
        nodes[0].over = Some((0, None));
        nodes[1].over = Some((0, None));
        assert_eq!(over(&nodes), [0, 1, 2, 3]);
    }
}
