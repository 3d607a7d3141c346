//! The loop of a daemon.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fampi_detector::protocol::{Node, envelope::Secret};

use super::children::Children;
use super::deaths::Deaths;
use super::job::View;
use super::links::{LISTENER, Links, Silence, host};
use super::pmi::Pmi;
use super::pmix::Pmix;
use super::runtime::Runtime;
use super::{Language, Options};
use crate::place;
use crate::poll::Poll;
use crate::protocol::channel::CONSOLE;
use crate::protocol::message::Message;
use crate::protocol::orders::{MAX_BYTES, Order, Place, Plan, Printed, Word};
use crate::protocol::space::{Exit, Space};
use crate::protocol::{Effect, Effects, Failure, Report, daemon::Daemon};
use crate::wire::Link;

/// Numbers of what is waited for; links and processes have others.
const SERVER: u64 = 0;
const CONSOLE_LINK: u64 = 1;
/// While so much waits for the console, what processes print is not read.
const MOST_UNSENT: usize = 4 << 20;
/// What has to be done is looked for so often.
const TURN: Duration = Duration::from_millis(100);

/// How far the daemon has come.
#[derive(Debug)]
enum Stage {
    /// It does not know the job.
    Waiting,
    /// It meets the others.
    Meeting(Box<Plan>),
    /// It serves.
    Serving(Box<Plan>, Box<Daemon>),
}

/// A daemon at work.
#[derive(Debug)]
pub(super) struct Service {
    poll: Poll,
    runtime: Box<dyn Runtime>,
    console: Link,
    links: Links,
    children: Children,
    stage: Stage,
    /// What daemons have sent that were told to go before this one was.
    early: Vec<(Node, Message)>,
    me: Node,
    cores: u32,
    place: place::Place,
    deaths: Deaths,
    is_over: bool,
}

impl Service {
    /// Makes everything ready, and says so to the console.
    pub(super) fn start(options: &Options, secret: &Secret) -> Result<Self> {
        let (me, poll) = (options.number()?, Poll::new()?);
        let mut console = Link::call(options.console, host(me), CONSOLE, secret, MAX_BYTES)?;
        let links = Links::open(me, secret)?;
        let place = place::Place::make()?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let runtime: Box<dyn Runtime> = match options.language {
            Language::Pmix => Box::new(Pmix::start(&options.mpi, Node(me), &name, &place)?),
            Language::Pmi => Box::new(Pmi::new(Node(me))?),
        };
        while console.peer().is_none() && !console.is_closed() {
            console.read();
            thread::sleep(Duration::from_millis(1));
        }
        poll.add(&console, CONSOLE_LINK)?;
        poll.add(runtime.descriptor(), SERVER)?;
        links.watch(&poll)?;
        console.send(&Word::Here(name, links.port()?));
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok(Self {
            poll,
            runtime,
            console,
            links,
            children: Children::default(),
            stage: Stage::Waiting,
            early: Vec::new(),
            me: Node(me),
            cores: options.cores.unwrap_or(cores),
            deaths: Deaths::new(&place),
            place,
            is_over: false,
        })
    }

    /// Serves until the console says that all is over, or is gone.
    pub(super) fn run(mut self) -> Result<()> {
        while !self.is_over {
            if let Err(failure) = self.turn() {
                self.console.send(&Word::Failed(format!("{failure:#}")));
                self.children.kill();
                bail!(failure);
            }
        }
        self.children.kill();
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let deadlines = self.children.deadline().into_iter().chain([self.links.deadline()]);
        let next = deadlines.min().unwrap_or_else(Instant::now);
        let limit = next.saturating_duration_since(Instant::now()).min(TURN);
        let numbers = self.poll.wait(limit)?;
        let mut out = Effects::new();
        let mut ended = Vec::new();
        for number in numbers {
            match number {
                SERVER => {}
                CONSOLE_LINK => self.obey(&mut out)?,
                LISTENER => self.links.accept(&self.poll)?,
                number if Children::owns(number) => ended.push(number),
                number if self.links.is_caller(number) => {
                    if let Some(node) = self.links.hear_caller(&self.poll, number)? {
                        self.hear(node, &mut out)?;
                    }
                }
                number => {
                    if let Some(node) = Links::node_of(number) {
                        self.hear(node, &mut out)?;
                    }
                }
            }
            self.perform(&mut out)?;
        }
        // A process that is done says so before it ends.
        self.serve()?;
        for number in ended {
            let (printed, ended) = self.children.look(&self.poll, number);
            self.print(printed);
            if let (Some((process, exit)), Stage::Serving(_, daemon)) = (ended, &mut self.stage) {
                self.runtime.note_end(&process, daemon, &mut out);
                daemon.handle_exit(&process, exit, &mut out);
            }
            self.perform(&mut out)?;
        }
        self.take_time(&mut out)?;
        self.perform(&mut out)
    }

    /// Takes what ranks ask.
    fn serve(&mut self) -> Result<()> {
        let mut out = Effects::new();
        while let Stage::Serving(_, daemon) = &mut self.stage {
            if !self.runtime.serve(daemon, &mut out)? {
                break;
            }
            self.perform(&mut out)?;
        }
        Ok(())
    }

    /// Does what the console says; without one the job ends.
    fn obey(&mut self, out: &mut Effects) -> Result<()> {
        self.console.read();
        while let Some(order) = self.console.take() {
            match order {
                Order::Plan(plan) => {
                    let period = Duration::from_millis(plan.beat_milliseconds.into());
                    self.links.call(&self.poll, &plan.nodes, period)?;
                    self.stage = Stage::Meeting(plan);
                    self.look_around();
                }
                Order::Go => self.go(out),
                Order::End(status) => match &mut self.stage {
                    Stage::Serving(_, daemon) => daemon.handle_end(status, out),
                    _ => self.is_over = true,
                },
                Order::Leave => self.is_over = true,
            }
        }
        self.is_over |= self.console.is_closed();
        Ok(())
    }

    /// Says that all others are linked, once they are.
    fn look_around(&mut self) {
        if let Stage::Meeting(plan) = &self.stage
            && self.links.are_complete(plan.nodes.len())
        {
            self.console.send(&Word::Ready);
        }
    }

    fn go(&mut self, out: &mut Effects) {
        match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Meeting(plan) => {
                let rooms = plan.nodes.iter().map(Place::room).collect();
                let machine = self.runtime.machine(Daemon::new(self.me, rooms));
                let mut daemon = Box::new(machine);
                daemon.handle_launch(plan.space.clone(), out);
                for (node, message) in self.early.drain(..) {
                    daemon.handle_message(node, message, out);
                }
                self.stage = Stage::Serving(plan, daemon);
            }
            stage => self.stage = stage,
        }
    }

    /// Takes what another daemon has sent.
    fn hear(&mut self, node: Node, out: &mut Effects) -> Result<()> {
        let (messages, is_closed) = self.links.receive(node);
        let Stage::Serving(_, daemon) = &mut self.stage else {
            if is_closed {
                bail!("node {} was lost before the job has started", node.0);
            }
            self.early.extend(messages.into_iter().map(|message| (node, message)));
            self.look_around();
            return Ok(());
        };
        for message in messages {
            daemon.handle_message(node, message, out);
        }
        if is_closed {
            daemon.handle_closed(node, out);
        }
        Ok(())
    }

    fn take_time(&mut self, out: &mut Effects) -> Result<()> {
        let now = Instant::now();
        self.children.handle_time(now);
        for (node, silence) in self.links.handle_time(&self.poll, now)? {
            let Stage::Serving(_, daemon) = &mut self.stage else { continue };
            match silence {
                Silence::Broken => daemon.handle_heard(node),
                Silence::Quiet => daemon.handle_quiet(node, out),
                Silence::Silent => daemon.handle_silence(node, out),
            }
        }
        self.console.flush();
        if let Some(writable) = self.console.take_change() {
            self.poll.set_writable(&self.console, CONSOLE_LINK, writable)?;
        }
        self.children.pause(&self.poll, self.console.backlog() > MOST_UNSENT)
    }

    fn print(&mut self, printed: Vec<Printed>) {
        for printed in printed {
            self.console.send(&Word::Output(printed));
        }
    }

    /// Does what the machine wants, and what follows from that.
    fn perform(&mut self, out: &mut Effects) -> Result<()> {
        let mut effects: VecDeque<Effect> = out.drain(..).collect();
        while let Some(effect) = effects.pop_front() {
            let mut more = Effects::new();
            match effect {
                Effect::Send(node, message) => self.links.send(node, &message),
                Effect::Answer(ticket, answer) => self.runtime.pay(ticket, answer),
                Effect::Start(space) => self.begin(&space, &mut more)?,
                Effect::Ask(process, number) => {
                    let is_asked = self.runtime.ask(&process, number);
                    if let (false, Stage::Serving(_, daemon)) = (is_asked, &mut self.stage) {
                        daemon.handle_data(number, Err(Failure::NotFound), &mut more);
                    }
                }
                Effect::Tell(dead) => {
                    self.deaths.note(&dead);
                    let dead: Vec<_> = dead.into_iter().map(|(process, _)| process).collect();
                    self.runtime.tell(&dead)?;
                }
                Effect::Kill(processes) => self.children.end(&processes),
                Effect::Report(report) => {
                    if let Report::Lost(node, _) = report {
                        self.links.part(&self.poll, Node(node));
                    }
                    self.console.send(&Word::Report(report));
                }
                Effect::Leave => {
                    self.children.kill();
                    self.is_over = true;
                }
            }
            effects.extend(more);
        }
        Ok(())
    }

    /// Makes a namespace known to the server, and starts its processes that belong here.
    fn begin(&mut self, space: &Space, out: &mut Effects) -> Result<()> {
        let Stage::Serving(plan, daemon) = &mut self.stage else { return Ok(()) };
        let names: Vec<String> = plan.nodes.iter().map(|place| place.name.clone()).collect();
        let (me, cores, place) = (self.me, self.cores, &self.place);
        let view = View { names: &names, me, cores, place };
        self.runtime.begin(space, view)?;
        let mut is_started = true;
        for rank in space.ranks_on(me) {
            let process = space.process(rank);
            let mut command = command(space, plan);
            self.deaths.show(&process, &mut command);
            let _until_started = self.runtime.prepare(space, rank, view, &mut command)?;
            if let Err(failure) = self.children.start(&self.poll, process.clone(), command) {
                is_started = false;
                let bytes = format!("fampi-node: {failure:#}\n").into_bytes();
                let space = space.name.clone();
                let printed = Printed { space, rank, is_error: true, bytes };
                self.console.send(&Word::Output(printed));
                self.runtime.note_end(&process, daemon, out);
                daemon.handle_exit(&process, Exit::NotStarted, out);
            }
        }
        daemon.handle_started(&space.name, is_started, out);
        Ok(())
    }
}

/// What starts a process.
fn command(space: &Space, plan: &Plan) -> Command {
    let program = &space.program;
    let mut words = program.words.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    command.args(words).env_clear();
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    let folder = PathBuf::from(&program.folder);
    if folder.is_dir() {
        command.current_dir(folder);
    }
    command
}
