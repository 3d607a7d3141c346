//! A job on this machine: its nodes, their observers, and processes of the tests.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Lines, Write as _},
    net::UdpSocket,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fampi_detector::protocol::{
    Cause, Host, Incarnation, Node, Process, Rank, Timing,
    envelope::Secret,
    plan::{Place, Plan},
};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::{network::Network, page, rank::Member};

const OBSERVER: &str = env!("CARGO_BIN_EXE_fampi-observer");
/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calm enough for a machine that does other things, too.
pub(crate) const CALM: Timing = Timing {
    period: Duration::from_millis(50),
    timeout: Duration::from_secs(2),
    start: Duration::from_secs(10),
    requests: 3,
    grace: Duration::from_millis(200),
    hung: None,
    diagnosis: None,
};

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The process of the launch that has this rank.
pub(crate) fn launched(rank: u32) -> Process {
    Process { rank: Rank(rank), incarnation: Incarnation(0) }
}

/// The observer of the launch on this node.
pub(crate) fn host(node: u32) -> Host {
    Host { node: Node(node), incarnation: Incarnation(0) }
}

/// A job whose nodes have so many ranks each.
pub(crate) struct Job {
    pub(crate) folder: TempDir,
    /// Of the observers, unless they have a network.
    pub(crate) sockets: Vec<UdpSocket>,
    plan: Plan,
    network: Option<Network>,
}

impl Job {
    /// All nodes have the network of this machine.
    pub(crate) fn new(ranks_each: &[u32], timing: Timing) -> Self {
        let bind = |_| UdpSocket::bind("127.0.0.1:0").expect("a port");
        let sockets: Vec<UdpSocket> = ranks_each.iter().map(bind).collect();
        let places = sockets.iter().enumerate().map(|(node, socket)| Place {
            address: socket.local_addr().expect("bound"),
            name: format!("cabinet{}node{node}", node % 2),
        });
        let plan = plan(places.collect(), ranks_each, timing);
        Self { folder: folder(), sockets, plan, network: None }
    }

    /// Every node of this network has so many ranks.
    pub(crate) fn across(network: Network, ranks_each: u32, timing: Timing) -> Self {
        let place = |node| Place { address: Network::address(node), name: format!("node{node}") };
        let places: Vec<Place> = (0..network.nodes()).map(place).collect();
        let ranks_each = vec![ranks_each; places.len()];
        let plan = plan(places, &ranks_each, timing);
        Self { folder: folder(), sockets: Vec::new(), plan, network: Some(network) }
    }

    /// The plan of the observer of a node.
    pub(crate) fn plan(&self, node: u32) -> Plan {
        let socket = self.folder.path().join(format!("{node}.sock")).display().to_string();
        Plan { socket, me: host(node), ..self.plan.clone() }
    }

    /// Writes the plan for the observer of a node.
    pub(crate) fn plan_file(&self, node: u32) -> PathBuf {
        let path = self.folder.path().join(format!("{node}.plan"));
        fs::write(&path, self.plan(node).to_text()).expect("our folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our file");
        path
    }

    /// How the observer of a node is started.
    pub(crate) fn command(&self, node: u32) -> Command {
        let mut command = self.program(node, OBSERVER);
        command.arg("--plan").arg(self.plan_file(node)).stdin(Stdio::null());
        if let Some(socket) = self.sockets.get(node as usize) {
            command.stdin(OwnedFd::from(socket.try_clone().expect("a descriptor")));
        }
        command.stdout(Stdio::null());
        command
    }

    fn program(&self, node: u32, program: impl AsRef<OsStr>) -> Command {
        match &self.network {
            Some(_) => Network::command(node, program),
            None => Command::new(program),
        }
    }

    /// The observer of a node; processes may register.
    pub(crate) fn observer(&self, node: u32) -> Observer {
        let mut command = self.command(node);
        let mut child = command.arg("--foreground").stdout(Stdio::piped()).spawn().expect("it");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Observer(child)
    }

    /// This process, registered as this rank.
    pub(crate) fn member(&self, node: u32, rank: u32) -> Member {
        Member::register(&self.plan(node), launched(rank)).expect("a place")
    }

    /// Another process, registered as this rank.
    pub(crate) fn process(&self, node: u32, rank: u32) -> Actor {
        self.life(node, launched(rank))
    }

    /// Another process, registered as this life of a rank.
    pub(crate) fn life(&self, node: u32, process: Process) -> Actor {
        self.showing(node, process, page::RIGHT)
    }

    /// The same with another page ([`page::made`]).
    pub(crate) fn showing(&self, node: u32, process: Process, page: &str) -> Actor {
        let program = std::env::current_exe().expect("this program");
        let mut actor = Actor::start(process, page, &self.plan(node), self.program(node, program));
        assert!(actor.says("registered"), "{process:?} is refused");
        actor
    }
}

/// A folder that is ours alone.
fn folder() -> TempDir {
    let ours_alone = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(ours_alone).tempdir().expect("a folder")
}

/// What all observers of a job are told.
fn plan(nodes: Vec<Place>, ranks_each: &[u32], timing: Timing) -> Plan {
    let ranks = ranks_each.iter().zip(0..);
    let nodes_of = ranks.flat_map(|(ranks, node)| (0..*ranks).map(move |_| Node(node)));
    Plan {
        secret: Secret::new(std::array::from_fn(|at| at as u8 ^ 0x5a)),
        socket: String::new(),
        me: host(0),
        timing,
        nodes_of: nodes_of.collect(),
        nodes,
    }
}

/// A process that is ended with its test.
pub(crate) struct Observer(Child);

impl Observer {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.0, signal);
    }

    /// Kills it; it is over when this returns.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("our child");
        self.0.wait().expect("our child");
    }

    /// Waits until it leaves by itself.
    pub(crate) fn leaves(&mut self) {
        let mut status = None;
        until("the observer leaves", || {
            status = self.0.try_wait().expect("our child");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }

    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().expect("our child").is_none()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that registers, and ends as it is told. It is not asked how it ended before it is
/// dropped, so that the system can tell others.
pub(crate) struct Actor {
    child: Child,
    orders: Option<ChildStdin>,
    /// Kept open: after a minute a test program says that it takes long, and ends if it cannot.
    said: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    fn start(process: Process, page: &str, plan: &Plan, mut command: Command) -> Self {
        command.args(["--exact", "rank::act", "--ignored", "--nocapture", "--quiet"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("this program");
        let mut orders = child.stdin.take();
        let Process { rank, incarnation } = process;
        let plan = plan.to_text();
        let told = orders.as_mut().map(|it| write!(it, "{rank} {} {page}\n{plan}", incarnation.0));
        told.expect("a pipe").expect("it listens");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, orders, said }
    }

    fn says(&mut self, word: &str) -> bool {
        self.said.by_ref().map_while(Result::ok).any(|line| line.ends_with(word))
    }

    /// Tells it what to do with its page, or how to end.
    pub(crate) fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("a pipe");
        writeln!(orders, "{order}").expect("it lives");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Waits for its end, and tells how it ended.
    pub(crate) fn end(&mut self) -> Cause {
        use std::os::unix::process::ExitStatusExt as _;
        let mut status = None;
        until("a process ends", || {
            status = self.child.try_wait().expect("our child");
            status.is_some()
        });
        let status = status.expect("it has ended");
        let signal = status.signal().map(|signal| Cause::Signal(signal as u8));
        signal.unwrap_or_else(|| Cause::Exit(status.code().unwrap_or(0) as u8))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).expect("our child");
}
