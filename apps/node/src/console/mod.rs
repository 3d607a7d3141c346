//! The console: starts the daemons of a job, prints what its processes print, and ends with its
//! status. It takes no part in what the daemons decide, and when it is lost the job goes on: then a
//! later console takes its place, or files hold what is printed and how the job has ended.

pub mod attach;
mod hosts;
pub mod jobs;
mod listed;
mod printer;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use fampi_detector::protocol::envelope::Secret;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::daemon::Language;
use crate::place;
use crate::poll::Poll;
use crate::protocol::Report;
use crate::protocol::channel::CONSOLE;
use crate::protocol::orders::{MAX_BYTES, Order, Place, Plan, Word};
use crate::protocol::placement;
use crate::protocol::space::{Program, Space};
use crate::record;
use crate::wire::Link;
use hosts::{By, HostSlots, KeyFile, Starter, own_address};
use printer::Printer;

/// How long the daemons have to start and to find each other.
const START: Duration = Duration::from_secs(60);
/// How long they have to leave when all is over.
const LEAVING: Duration = Duration::from_secs(2);
/// Signals and agents are looked for so often.
const TURN: Duration = Duration::from_millis(50);
const LISTENER: u64 = 0;

/// What is to be launched.
#[derive(Args, Debug)]
pub struct Options {
    /// The prefix of the MPI, which holds bin and lib
    #[arg(long, value_name = "PREFIX")]
    mpi: PathBuf,
    /// What the processes speak with their daemon
    #[arg(long, value_enum, default_value_t)]
    language: Language,
    /// Processes to start
    #[arg(short = 'n', long, value_name = "N")]
    processes: u32,
    /// The hosts, and how many processes each takes, which are put there in this order; without it
    /// all are here
    #[arg(long, value_name = "HOST:N,…", value_delimiter = ',')]
    hosts: Vec<HostSlots>,
    /// Lists the hosts: a line `HOST`, `HOST:N` or `HOST slots=N` for each
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// Starts a daemon: called as `COMMAND HOST WORDS…`, may return at once; `ssh` without it
    #[arg(long, value_name = "COMMAND")]
    agent: Option<String>,
    /// Put the processes on the hosts in turns
    #[arg(long)]
    in_turns: bool,
    /// Processors that each host has for this job, where that is not all that it has
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// End the job after so many seconds, also when this console is gone
    #[arg(long, value_name = "SECONDS")]
    limit: Option<f64>,
    /// What has to be put before a command that is to reach the hosts from here, for `attach`
    #[arg(long, value_name = "WORDS", default_value = "")]
    reach: String,
    /// Preload this library into the daemons
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

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

/// Launches a job; its exit status.
pub fn main(options: &Options) -> Result<u8> {
    let mut secret = [0; 32];
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
        .context("the system has no random numbers")?;
    let mut job = [0; 4];
    rustix::rand::getrandom(&mut job, rustix::rand::GetRandomFlags::empty())
        .context("the system has no random numbers")?;
    let job = u32::from_le_bytes(job);
    let job = format!("fampi-{job:08x}");
    let mut console = Console::launching(options, Secret::new(secret))?;
    let status = console.run(options, &format!("{job}@1"));
    console.conclude();
    record::forget(&job);
    place::remove_stale();
    status
}

impl Options {
    /// The hosts, and what starts daemons there; no host where the one daemon is a child of ours.
    fn places(&self) -> Result<(Vec<HostSlots>, By)> {
        let listed = self.hostfile.as_deref().map(listed::of_file).transpose()?;
        let named = listed.unwrap_or_else(|| self.hosts.clone());
        if named.is_empty() {
            ensure!(self.agent.is_none(), "--agent starts daemons on hosts: name them by --hosts");
            let allocated = listed::of_slurm()?;
            return Ok(allocated.map_or((named, By::Child), |hosts| (hosts, By::Slurm)));
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let agent = self.agent.as_deref().map_or_else(|| words("ssh -o BatchMode=yes"), words);
        Ok((named, By::Agent(agent)))
    }
}

impl Console {
    /// The console of a job that is to be launched.
    fn launching(options: &Options, secret: Secret) -> Result<Self> {
        let node = |host: &HostSlots| Node {
            name: host.name.clone(),
            slots: host.slots,
            ..Node::default()
        };
        let (hosts, by) = options.places()?;
        let mut nodes: Vec<Node> = hosts.iter().map(node).collect();
        if nodes.is_empty() {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            nodes.push(Node { name, slots: options.processes, ..Node::default() });
        }
        Self::new(nodes, by, secret, &[SIGINT, SIGTERM, SIGHUP])
    }

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
            last: LISTENER,
            printer: Some(Printer::start()),
            signal,
            outside: None,
            by,
            complaint: None,
            is_refused: false,
            remarks: BTreeSet::new(),
            is_leaving: false,
        })
    }

    fn run(&mut self, options: &Options, job: &str) -> Result<u8> {
        let key = KeyFile::write(&self.secret)?;
        self.start_daemons(options, &key)?;
        let deadline = Instant::now() + START;
        self.wait_until(deadline, |node| node.address.is_some())?;
        let plan = self.plan(options, job)?;
        for node in 0..self.nodes.len() {
            self.send(node, &Order::Plan(Box::new(plan.clone())));
        }
        self.wait_until(deadline, |node| node.is_ready)?;
        drop(key);
        for node in 0..self.nodes.len() {
            self.send(node, &Order::Go);
        }
        self.serve()
    }

    fn start_daemons(&mut self, options: &Options, key: &KeyFile) -> Result<()> {
        let starter = Starter {
            by: self.by.clone(),
            mpi: options.mpi.clone(),
            language: options.language,
            preload: options.preload.clone(),
            cores: options.cores,
        };
        let port = self.listener.local_addr().context("no port")?.port();
        let mut addresses = Vec::new();
        for node in &self.nodes {
            let here = || Ok(IpAddr::from(Ipv4Addr::LOCALHOST));
            let address = if starter.by == By::Child { here() } else { own_address(&node.name) }?;
            addresses.push(address);
        }
        self.outside = addresses.iter().copied().find(|address| !address.is_loopback());
        // One step of Slurm starts all.
        let started = if starter.by == By::Slurm { 1 } else { addresses.len() };
        for (at, address) in addresses.into_iter().enumerate().take(started) {
            let number = self.nodes.len();
            let node = &mut self.nodes[at];
            let console = SocketAddr::new(address, port);
            let which = (at as u32, node.name.as_str(), number);
            let started = starter.start(which, console, &key.0, &self.secret);
            let name = &node.name;
            node.starter =
                Some(started.with_context(|| format!("no daemon can be started on {name}"))?);
        }
        Ok(())
    }

    /// The plan of a job whose daemons are all here.
    fn plan(&self, options: &Options, job: &str) -> Result<Plan> {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let address = node.address.context("a daemon that is not here")?;
            nodes.push(Place { name: node.name.clone(), slots: node.slots, address });
        }
        let rooms: Vec<_> = nodes.iter().map(Place::room).collect();
        let folder = std::env::current_dir().context("the working folder is gone")?;
        let program = Program {
            words: options.program.clone(),
            environment: Vec::new(),
            folder: folder.to_string_lossy().into_owned(),
            said: Vec::new(),
        };
        let places = placement::of_launch(options.processes, &rooms, options.in_turns);
        let space = Space { name: job.to_owned(), places, spawner: None, port: None, program };
        let environment = settings::environment(&options.mpi, options.language);
        let beat_milliseconds = settings::beat_milliseconds()?;
        let limit_milliseconds = options.limit.map(|seconds| (seconds * 1e3).ceil() as u64);
        let reach = options.reach.split_whitespace().map(str::to_owned).collect();
        Ok(Plan { nodes, space, beat_milliseconds, limit_milliseconds, reach, environment })
    }

    /// Waits until this holds for all nodes; an error if one of them cannot get there.
    fn wait_until(&mut self, deadline: Instant, holds: impl Fn(&Node) -> bool) -> Result<()> {
        while !self.nodes.iter().all(&holds) {
            self.turn()?;
            if let Some(complaint) = self.complaint.take() {
                bail!("the job did not start: {complaint}");
            }
            if let Some(node) = self.nodes.iter().find(|node| node.is_lost) {
                bail!("the job did not start: the daemon on {} has ended", node.name);
            }
            for node in &mut self.nodes {
                let ended = node.starter.as_mut().and_then(|it| it.try_wait().ok().flatten());
                let failed = ended.filter(|status| !status.success() && node.link.is_none());
                if let Some(status) = failed {
                    bail!("the job did not start: no daemon on {}: {status}", node.name);
                }
            }
            let signal = self.signal.load(Ordering::Relaxed);
            if signal != 0 {
                bail!("the job did not start: signal {signal} has come");
            }
            if Instant::now() >= deadline {
                let late = self.nodes.iter().find(|node| !holds(node));
                let name = late.map_or("", |node| node.name.as_str());
                let limit = START.as_secs();
                bail!("the job did not start: {name} has not answered after {limit} s");
            }
        }
        Ok(())
    }

    /// Prints and waits until all is over; the exit status.
    fn serve(&mut self) -> Result<u8> {
        let status = self.wait()?;
        if status.is_none() {
            eprintln!("fampi-node: all nodes are lost");
        }
        Ok(status.unwrap_or(1))
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
                eprintln!("fampi-node: {complaint}");
            }
        }
        let overs = || self.nodes.iter().filter(|it| !it.is_lost).filter_map(|it| it.over.as_ref());
        if let Some(why) = overs().find_map(|(_, why)| why.as_ref()) {
            eprintln!("fampi-node: {why}");
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
            } else {
                self.hear(number);
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

    fn hear(&mut self, number: u64) {
        let Some(mut link) = self.links.remove(&number) else { return };
        link.read();
        let called = self.nodes.iter().position(|node| node.link == Some(number));
        let at = link.peer().map(|peer| peer.node.0 as usize).or(called);
        let known = at.filter(|at| {
            self.nodes.get(*at).is_some_and(|it| it.link.is_none_or(|link| link == number))
        });
        if let Some(at) = known {
            self.nodes[at].link = Some(number);
            while let Some(word) = link.take() {
                self.obey(at, word, &link);
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
    }

    fn obey(&mut self, at: usize, word: Word, link: &Link) {
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
            Word::Refused => self.is_refused = true,
            Word::Remark(text) => {
                let remark = format!("{}: {text}", node.name);
                if !self.remarks.contains(&remark) {
                    eprintln!("fampi-node: {remark}");
                    self.remarks.insert(remark);
                }
            }
            Word::Report(Report::Over(status, why)) => node.over = Some((status, why)),
            Word::Report(Report::Busy) => node.over = None,
            Word::Report(Report::Lost(lost, processes)) => {
                let Some(lost) = self.nodes.get_mut(lost as usize) else { return };
                // Each daemon tells of it.
                if !std::mem::replace(&mut lost.is_reported, true) && !self.is_leaving {
                    lost.is_lost = true;
                    eprintln!("fampi-node: {} is lost, with {processes} processes", lost.name);
                }
            }
            Word::Failed(why) => self.complaint = Some(format!("{}: {why}", node.name)),
        }
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
