//! Launches a job: starts the daemons, gives them the plan once all have called, and lets them go
//! when all are linked with each other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use fampi_detector::protocol::envelope::Secret;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::collecting::Folders;
use super::hosts::{By, HostSlots, KeyFile, Processors, Starter, agent, daemon, own_address};
use super::input::Input;
use super::{Console, INPUT, Node, START, listed, settings};
use crate::daemon::Language;
use crate::place;
use crate::protocol::membership::Partition;
use crate::protocol::orders::{Order, Place, Plan};
use crate::protocol::placement;
use crate::protocol::space::{Program, Space};
use crate::record;

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
    #[command(flatten)]
    processors: Processors,
    /// When the network between hosts is cut, let the larger part go on (`majority`), or each by
    /// itself, however small (`any`)
    #[arg(long, value_name = "WHICH", default_value = "majority", value_parser = partition)]
    partition: Partition,
    /// End the job after so many seconds, also when this console is gone
    #[arg(long, value_name = "SECONDS")]
    limit: Option<f64>,
    /// What has to be put before a command that is to reach the hosts from here, for `attach`
    #[arg(long, value_name = "WORDS", default_value = "")]
    reach: String,
    /// A variable that names a folder: what processes write there on hosts that do not share it
    /// comes to the one of this host
    #[arg(long, value_name = "VARIABLE")]
    collect: Vec<String>,
    /// Preload this library into the daemons
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

fn partition(text: &str) -> Result<Partition> {
    match text {
        "majority" => Ok(Partition::Majority),
        "any" => Ok(Partition::Any),
        _ => bail!("write majority or any"),
    }
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
    // What may still run is to be found by `jobs`.
    if status.is_err() || console.is_over() {
        record::forget(&job);
    }
    place::remove_stale();
    // A caller that sees status 0 assumes that the output is complete.
    status.map(|status| if status == 0 && super::printer::has_failed() { 1 } else { status })
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
        Ok((named, By::Agent(agent(self.agent.as_deref()))))
    }

    /// What a daemon of this job is executed by.
    fn daemon(&self) -> Result<Vec<String>> {
        daemon(&self.mpi, self.language, self.preload.as_deref(), self.processors)
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
        let mut console = Self::new(nodes, by, secret, &[SIGINT, SIGTERM, SIGHUP])?;
        console.folders = Folders::of(&options.collect);
        Ok(console)
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
        let first = plan.space.places.first().map_or(0, |node| *node as usize);
        self.input = Some((Input::start(&self.poll, INPUT)?, first));
        self.serve()
    }

    fn start_daemons(&mut self, options: &Options, key: &KeyFile) -> Result<()> {
        let starter = Starter { by: self.by.clone(), words: options.daemon()? };
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
            let is_slurm = starter.by == By::Slurm;
            let which = if is_slurm { "--slurm".to_owned() } else { format!("--node={at}") };
            let which = (which.as_str(), node.name.as_str(), number);
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
        let (name, others) = (job.to_owned(), Vec::new());
        let space = Space { name, places, spawner: None, port: None, program, others };
        let environment = settings::environment(&options.mpi, options.language);
        let (beat_milliseconds, mesh) = (settings::beat_milliseconds()?, settings::mesh()?);
        let limit_milliseconds = options.limit.map(|seconds| (seconds * 1e3).ceil() as u64);
        let reach = options.reach.split_whitespace().map(str::to_owned).collect();
        let agent = if let By::Agent(agent) = &self.by { agent.clone() } else { Vec::new() };
        Ok(Plan {
            launched: nodes.len() as u32,
            partition: options.partition,
            nodes,
            space,
            mesh,
            beat_milliseconds,
            limit_milliseconds,
            reach,
            agent,
            daemon: options.daemon()?,
            environment,
            collected: options.collect.clone(),
        })
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
            say!("fampi-node: all nodes are lost");
        }
        Ok(status.unwrap_or(1))
    }
}
