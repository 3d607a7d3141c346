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
    is_lost: bool,
    /// Its loss has been told.
    is_reported: bool,
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
        })
    }

    /// Prints and waits until all is over; the exit status, unless all nodes are lost.
    fn wait(&mut self) -> Result<Option<u8>> {
        let mut asked = 0;
        let is_over = |node: &Node| node.is_lost || node.over.is_some();
        while !self.is_refused && !self.nodes.iter().all(is_over) {
            self.turn()?;
            let signal = self.signal.load(Ordering::Relaxed);
            if signal != 0 && asked == 0 {
                asked = signal;
                for node in 0..self.nodes.len() {
                    self.send(node, &Order::End(128_u8.saturating_add(signal as u8)));
                }
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

    fn turn(&mut self) -> Result<()> {
        for number in self.poll.wait(TURN)? {
            if number == LISTENER {
                while let Ok((stream, _)) = self.listener.accept() {
                    let link = Link::accept(stream, CONSOLE, &self.secret, MAX_BYTES)?;
                    self.last += 1;
                    self.poll.add(&link, self.last)?;
                    self.links.insert(self.last, link);
                }
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
                if !std::mem::replace(&mut lost.is_reported, true) && !self.is_leaving {
                    lost.is_lost = true;
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
            self.nodes.push(Node { is_lost: true, is_reported: true, ..Node::default() });
        }
        if self.nodes[at].link.is_some() {
            return;
        }
        let called = Link::call(place.address, CONSOLE, host(at as u32), &self.secret, MAX_BYTES);
        self.last += 1;
        let watched = called.and_then(|link| self.poll.add(&link, self.last).map(|()| link));
        let link = watched.is_ok().then_some(self.last);
        let Place { name, slots, address } = place;
        match watched {
            Ok(link) => {
                say!("fampi-node: {name} has joined");
                self.links.insert(self.last, link);
            }
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
        while !self.links.is_empty() && Instant::now() < deadline && self.turn().is_ok() {}
        let was_asked = self.signal.load(Ordering::Relaxed) != 0;
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
