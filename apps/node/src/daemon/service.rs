//! The loop of a daemon.

mod others;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use fampi_detector::protocol::{Node, envelope::Secret};

use super::children::Children;
use super::collected::Collected;
use super::console::Console;
use super::deaths::Deaths;
use super::guests::{Guests, wait_for_invitation};
use super::input::Input;
use super::job::View;
use super::links::{Called, LISTENER, Links, Silence, host};
use super::pmi::Pmi;
use super::pmix::Pmix;
use super::runtime::Runtime;
use super::{Language, Options};
use crate::place;
use crate::poll::Poll;
use crate::protocol::channel::{CONSOLE, NEWCOMER};
use crate::protocol::message::Message;
use crate::protocol::orders::{Invitation, MAX_BYTES, Order, Place, Plan, Printed, Stream, Word};
use crate::protocol::space::{Exit, Program, Space};
use crate::protocol::{Effect, Effects, Failure, Refusal, Report, daemon::Daemon};
use crate::wire::Link;

/// Numbers of what is waited for; links and processes have others.
const SERVER: u64 = 0;
const CONSOLE_LINK: u64 = 1;
const INPUT: u64 = 3;
/// How long after the time limit of a job it is ended here: the console is to be the first.
const LATE: Duration = Duration::from_secs(1);
/// How long a daemon hands messages on when all is over, where not all are linked.
const STAYS: Duration = Duration::from_secs(2);
/// What has to be done is looked for so often.
const TURN: Duration = Duration::from_millis(100);

/// How far the daemon has come.
#[derive(Debug)]
enum Stage {
    /// It does not know the job.
    Waiting,
    /// It meets the others, these nodes.
    Meeting(Box<Plan>, BTreeSet<Node>),
    /// It serves.
    Serving(Box<Plan>, Box<Daemon>),
}

/// A daemon at work.
#[derive(Debug)]
pub(super) struct Service {
    poll: Poll,
    runtime: Box<dyn Runtime>,
    guests: Guests,
    /// This node has joined a job that ran, of which these nodes were lost.
    joined: Option<Vec<u32>>,
    /// Holds the secret while the job starts.
    key: PathBuf,
    links: Links,
    children: Children,
    input: Input,
    stage: Stage,
    /// What daemons have sent that were told to go before this one was.
    early: Vec<(Node, Message)>,
    me: Node,
    cores: u32,
    place: place::Place,
    deaths: Deaths,
    /// When the machine is told again that time has passed.
    moment: Instant,
    /// When the job is ended, and after how long that is.
    limit: Option<(Instant, Duration)>,
    /// Until then this daemon stays when all is over.
    stays: Instant,
    /// All daemons know that the job is over: its status, and what is to be said.
    concluded: Option<(u8, Option<String>)>,
    is_over: bool,
    /// Closed last: who hears that takes all for removed, and may kill this process.
    console: Console,
}

impl Service {
    /// Makes everything ready, and says so to the console. A node that joins a job waits until it
    /// is told which.
    pub(super) fn start(options: &Options, secret: &Secret) -> Result<Self> {
        let (number, poll) = (options.number()?, Poll::new()?);
        let own = number.map_or(NEWCOMER, host);
        let mut console = Link::call(options.console, own, CONSOLE, secret, MAX_BYTES)?;
        let mut links = Links::open(own, secret)?;
        let place = place::Place::make()?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        while console.peer().is_none() && !console.is_closed() {
            console.read();
            thread::sleep(Duration::from_millis(1));
        }
        let (me, invitation) = if let Some(number) = number {
            (number, None)
        } else {
            let here = Word::Here(name.clone(), links.port()?);
            let invitation = wait_for_invitation(&mut console, &here)?;
            (invitation.number, Some(invitation))
        };
        links.set_number(me);
        let runtime: Box<dyn Runtime> = match options.language {
            Language::Pmix => Box::new(Pmix::start(&options.mpi, Node(me), &name, &place)?),
            Language::Pmi => Box::new(Pmi::new(Node(me))?),
        };
        let mut console = Console::new(&poll, console, CONSOLE_LINK)?;
        poll.add(runtime.descriptor(), SERVER)?;
        links.watch(&poll)?;
        if number.is_some() {
            console.send(&Word::Here(name, links.port()?));
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut service = Self {
            poll,
            runtime,
            console,
            guests: Guests::default(),
            joined: None,
            key: options.key.clone(),
            links,
            children: Children::new(options.binds()),
            input: Input::default(),
            stage: Stage::Waiting,
            early: Vec::new(),
            me: Node(me),
            cores: options.cores.unwrap_or(cores),
            deaths: Deaths::new(&place),
            place,
            moment: Instant::now(),
            limit: None,
            stays: Instant::now(),
            concluded: None,
            is_over: false,
        };
        if let Some(Invitation { lost, plan, .. }) = invitation {
            service.call_others(Box::new(plan), &lost)?;
            service.joined = Some(lost);
        }
        Ok(service)
    }

    /// Serves until all is over: the console says so, or all daemons know it and there is none.
    pub(super) fn run(mut self) -> Result<()> {
        while !self.is_over {
            if let Err(failure) = self.turn() {
                self.console.fail(&format!("{failure:#}"));
                self.children.kill();
                bail!(failure);
            }
        }
        self.children.kill();
        // Of daemons that were killed on this host: there may be no console to do it.
        place::remove_stale();
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
                SERVER | INPUT => {}
                CONSOLE_LINK => self.obey(&mut out)?,
                LISTENER => self.links.accept(&self.poll)?,
                number if Children::owns(number) => ended.push(number),
                number if Guests::owns(number) => self.hear_guest(number, &mut out),
                number if self.links.is_caller(number) => {
                    match self.links.hear_caller(&self.poll, number)? {
                        Some(Called::Node(node)) => self.hear(node, &mut out)?,
                        Some(Called::Before(node)) => self.call_back(node)?,
                        Some(Called::Console(link)) => self.meet(*link, &mut out)?,
                        Some(Called::Guest(link)) => {
                            let number = self.guests.admit(&self.poll, *link)?;
                            self.hear_guest(number, &mut out);
                        }
                        None => {}
                    }
                }
                number => {
                    if let Some(node) = Links::node_of(number) {
                        self.hear(node, &mut out)?;
                    }
                    self.hear_dialled(number, &mut out)?;
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

    /// Does what the console says, and goes on without it if it is gone.
    fn obey(&mut self, out: &mut Effects) -> Result<()> {
        for order in self.console.orders() {
            match order {
                Order::Plan(plan) => {
                    self.call_others(plan, &[])?;
                    self.look_around(out);
                }
                Order::Go => self.go(out),
                Order::Input(bytes) => self.input.push(&bytes),
                Order::Printed(..) | Order::Add(_) | Order::Join(_) => {}
                Order::End(status) => match &mut self.stage {
                    Stage::Serving(_, daemon) => daemon.handle_end(status, "", out),
                    _ => self.is_over = true,
                },
                Order::Leave => {
                    self.console.leave();
                    self.is_over = true;
                }
            }
        }
        if self.console.take_loss(&self.poll) && !self.is_over {
            self.input.end();
            if !self.console.is_dispensable() {
                // The console would have removed it.
                let _ = std::fs::remove_file(&self.key);
                self.is_over = true;
            }
            self.conclude();
        }
        Ok(())
    }

    /// Another console has called.
    fn meet(&mut self, link: Link, out: &mut Effects) -> Result<()> {
        // The end of the one before may not have been looked at.
        self.obey(out)?;
        self.console.admit(&self.poll, link)?;
        self.obey(out)
    }

    /// Leaves when all is over and no console is there to say so.
    fn conclude(&mut self) {
        let is_waited_for = self.console.is_there() || Instant::now() < self.stays;
        if let Some((status, why)) = self.concluded.clone().filter(|_| !is_waited_for) {
            self.console.conclude(status, why);
            self.is_over = true;
        }
    }

    /// Hears who brings a node.
    fn hear_guest(&mut self, number: u64, out: &mut Effects) {
        let (guest, places) = self.guests.hear(&self.poll, number);
        let Stage::Serving(_, daemon) = &mut self.stage else {
            return self.guests.answer(guest, &Word::NotAdmitted(Refusal::NotNow));
        };
        match places {
            Some(places) => places.into_iter().for_each(|it| daemon.handle_add(guest, it, out)),
            None => daemon.handle_guest_gone(guest, out),
        }
    }

    fn go(&mut self, out: &mut Effects) {
        match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Meeting(plan, others) => {
                self.links.begin();
                let lost = self.joined.as_deref().unwrap_or_default();
                self.console.begin(self.me.0, &plan, lost, self.links.secret());
                match Collected::begin(&plan, &self.place.files) {
                    Ok(collected) => self.console.collected = collected,
                    Err(failure) => self.console.send(&Word::Remark(format!("{failure:#}"))),
                }
                let limit = plan.limit_milliseconds.map(Duration::from_millis);
                let ends = limit.and_then(|limit| Instant::now().checked_add(limit + LATE));
                self.limit = ends.zip(limit);
                let launched = plan.nodes.iter().take(plan.launched as usize);
                let rooms = launched.map(Place::room).collect();
                let machine = Daemon::new(self.me, rooms).under(plan.partition);
                let mut machine = self.runtime.machine(machine);
                if self.joined.is_some() {
                    machine = machine.that_joins();
                    self.console.release(&self.poll);
                }
                if !plan.is_mesh() {
                    machine = machine.in_graph();
                }
                let mut daemon = Box::new(machine);
                daemon.handle_launch(plan.space.clone(), out);
                for node in self.links.proved().filter(|node| !others.contains(node)) {
                    daemon.handle_linked(node, out);
                }
                for (node, message) in self.early.drain(..) {
                    daemon.handle_message(node, message, out);
                }
                self.links.ended().into_iter().for_each(|node| daemon.handle_closed(node, out));
                self.stage = Stage::Serving(plan, daemon);
            }
            stage => self.stage = stage,
        }
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
                Silence::Absent => daemon.handle_closed(node, out),
            }
        }
        if now >= self.moment
            && let Stage::Serving(_, daemon) = &mut self.stage
        {
            self.moment = now + TURN;
            daemon.handle_moment(out);
            self.conclude();
        }
        if let Some((_, limit)) = self.limit.take_if(|(ends, _)| *ends <= now)
            && self.concluded.is_none()
            && let Stage::Serving(_, daemon) = &mut self.stage
        {
            let why = format!("still running after {} s: ended", limit.as_secs_f64());
            daemon.handle_end(124, &why, out);
        }
        self.guests.flush();
        let taken = self.input.flush(&self.poll, INPUT)?;
        if taken > 0 {
            self.console.send(&Word::Taken(taken));
        }
        self.console.feed();
        self.console.wait(&self.poll)?;
        self.children.pause(&self.poll, self.console.is_full())
    }

    fn print(&mut self, printed: Vec<Printed>) {
        for printed in printed {
            self.console.print(printed);
        }
    }

    /// Does what the machine wants, and what follows from that.
    fn perform(&mut self, out: &mut Effects) -> Result<()> {
        let mut effects: VecDeque<Effect> = out.drain(..).collect();
        while let Some(effect) = effects.pop_front() {
            let mut more = Effects::new();
            match effect {
                Effect::Send(node, message) => self.links.send(node, message),
                Effect::Call(node) => self.links.dial(&self.poll, node)?,
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
                Effect::Expect(node, place) => self.expect(node, place),
                Effect::Admit(guest, admitted) => {
                    if let Stage::Serving(plan, _) = &self.stage {
                        self.guests.answer(guest, &Guests::word(plan, admitted));
                    }
                }
                Effect::Greet(guest) => self.guests.answer(guest, &Word::Came),
                Effect::Report(report) => {
                    if let Report::Lost(node, _) = report {
                        self.links.part(&self.poll, Node(node));
                    }
                    // What leaves when all is over is not lost.
                    if self.concluded.is_none() {
                        self.console.report(report);
                    }
                }
                Effect::Conclude(status, why) => {
                    self.concluded = Some((status, why));
                    // Others may hear of that through this node.
                    if matches!(&self.stage, Stage::Serving(plan, _) if !plan.is_mesh()) {
                        self.stays = Instant::now() + STAYS;
                    }
                    self.conclude();
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
        // What a full disk refuses is no reason for others to lose this node.
        let known = self.runtime.begin(space, view);
        if let Err(failure) = &known {
            self.console.send(&Word::Remark(format!("{} is not started: {failure:#}", space.name)));
        }
        self.deaths.note_start(space);
        if space.spawner.is_none() {
            self.children.share(space.ranks_on(me).count());
        }
        let mut is_started = known.is_ok();
        for rank in space.ranks_on(me) {
            let process = space.process(rank);
            let mut command = command(space.program_of(rank).1, plan);
            self.console.collected.tell(&mut command);
            self.deaths.show(&process, &mut command);
            let is_first = rank == 0 && space.spawner.is_none();
            command.stdin(if is_first { Stdio::piped() } else { Stdio::null() });
            let prepared = match &known {
                Ok(()) => self.runtime.prepare(space, rank, view, &mut command),
                Err(_) => Err(anyhow!("rank {rank} is not started")),
            };
            let started = prepared.and_then(|_until_started| {
                self.children.start(&self.poll, process.clone(), command)
            });
            match started {
                Ok(Some(input)) => self.input.connect(input)?,
                Ok(None) => {}
                Err(failure) => {
                    is_started = false;
                    let bytes = format!("fampi-node: {failure:#}\n").into_bytes();
                    let stream = Stream { space: space.name.clone(), rank, is_error: true };
                    self.console.print(Printed { stream, bytes });
                    self.runtime.note_end(&process, daemon, out);
                    daemon.handle_exit(&process, Exit::NotStarted, out);
                }
            }
        }
        daemon.handle_started(&space.name, is_started, out);
        Ok(())
    }
}

/// What starts a process.
fn command(program: &Program, plan: &Plan) -> Command {
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
