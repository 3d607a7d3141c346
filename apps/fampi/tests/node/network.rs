//! Nodes of a run on name spaces, which are to be lost.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fampi_detector::protocol::board::{HEAD_WORDS, Head};

use crate::{fampi, said};

/// Several jobs that lose nodes would only be slower at once, and each would be blamed for what the
/// lost daemons of another one leave for a while.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The right to lose daemons, and to judge what is left of them; one test at a time has it.
pub(crate) struct Alone(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

/// A run on nodes that can be lost. When a test ends before its job does, the job is ended, and
/// what it has told is printed.
pub(crate) struct Job {
    /// Until it is waited for.
    tool: Option<Child>,
    alone: Alone,
}

/// What an observer shows the ranks of its node.
pub(crate) struct Board(File);

impl Board {
    /// How many tests of ranks and of other nodes have failed.
    pub(crate) fn failed_tests(&self) -> u64 {
        let mut bytes = [0; 8 * HEAD_WORDS];
        self.0.read_exact_at(&mut bytes, 0).expect("a head");
        let (words, _) = bytes.as_chunks();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let head = Head::from_words(&std::array::from_fn(|_| words.next().unwrap_or_default()));
        head.expect("of this version").failed_tests
    }
}

/// What is lost of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Everything,
    Daemon,
    Ranks,
}

/// Sends a signal to processes; some may have ended.
pub(crate) fn signal(signal: &str, pids: &[String]) {
    let sent = Command::new("kill").arg(signal).args(pids).stderr(Stdio::null()).status();
    sent.expect("kill");
}

/// Waits until no other job runs.
pub(crate) fn alone() -> Alone {
    Alone(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// True where there can be name spaces; otherwise the reason is printed. It is tried once: tests
/// that try it at the same time would find the name taken.
pub(crate) fn has_name_spaces() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = *CAN.get_or_init(|| {
        let name = format!("fampi-probe-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        let made = made.is_ok_and(|made| made.status.success());
        if made {
            let gone = Command::new("ip").args(["netns", "delete", &name]).status();
            assert!(gone.expect("ip").success());
        }
        made
    });
    if !can {
        eprintln!("skipped: name spaces take root and iproute2");
    }
    can
}

impl Job {
    /// Starts a program on so many ranks of so many nodes.
    pub(crate) fn start(nodes: u32, ranks: u32, options: &[&str], program: &[&str]) -> Self {
        Self::start_with(nodes, ranks, &[], options, program)
    }

    /// Starts it with these variables in the environment of all processes.
    pub(crate) fn start_with(
        nodes: u32,
        ranks: u32,
        variables: &[(&str, &str)],
        options: &[&str],
        program: &[&str],
    ) -> Self {
        let alone = alone();
        let (nodes, ranks) = (nodes.to_string(), ranks.to_string());
        let mut command = fampi(&[&["--nodes", &nodes, "-n", &ranks], options].concat());
        command.envs(variables.iter().copied()).arg("--").args(program);
        let tool = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self::of(tool.expect("the tool starts"), alone)
    }

    /// One that was started by itself, while no other one runs.
    pub(crate) fn of(tool: Child, alone: Alone) -> Self {
        Self { tool: Some(tool), alone }
    }

    fn tool(&mut self) -> &mut Child {
        self.tool.as_mut().expect("not waited for")
    }

    /// The name of a node.
    pub(crate) fn node(&self, node: u32) -> String {
        format!("fampi-{}-{node}", self.tool.as_ref().expect("not waited for").id())
    }

    fn pids(&self, node: u32) -> Vec<String> {
        if self.tool.is_none() {
            return Vec::new();
        }
        let name = self.node(node);
        let found = Command::new("ip").args(["netns", "pids", &name]).output().expect("ip");
        String::from_utf8_lossy(&found.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// The board of the observer of this node, which can still be read when that has ended.
    pub(crate) fn board(&self, node: u32) -> Board {
        let mut boards = self.pids(node).into_iter().flat_map(|pid| {
            let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
            descriptors.flatten().map(|entry| entry.path())
        });
        let is_board = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("fampi-board"))
        };
        let board = boards.find(is_board).and_then(|path| File::open(path).ok());
        Board(board.unwrap_or_else(|| panic!("no observer on node {node}")))
    }

    /// Waits until a node has a daemon.
    pub(crate) fn wait_for_daemon(&self, node: u32) {
        let begun = Instant::now();
        while !self.pids(node).iter().any(|pid| is_daemon(pid)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "no daemon on node {node}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a process of a node has stopped itself.
    pub(crate) fn wait_for_stop(&self, node: u32) {
        let begun = Instant::now();
        while !self.pids(node).iter().any(|pid| is_stopped(pid)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody stops on node {node}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops the daemon of a node, or lets it go on.
    pub(crate) fn signal_daemon(&self, node: u32, signal: &str) {
        let daemon = self.pids(node).into_iter().find(|pid| is_daemon(pid)).expect("a daemon");
        let done = Command::new("kill").args([signal, &daemon]).status();
        assert!(done.expect("kill").success());
    }

    /// All processes of a node stop for so long.
    pub(crate) fn pause(&self, node: u32, time: Duration) {
        let pids = self.pids(node);
        signal("-STOP", &pids);
        thread::sleep(time);
        signal("-CONT", &pids);
    }

    /// A node is lost, or a part of it.
    pub(crate) fn lose(&self, node: u32, what: What) {
        let pids = self.pids(node);
        let lost = pids.iter().filter(|pid| match what {
            What::Everything => true,
            What::Daemon => is_daemon(pid),
            What::Ranks => is_rank(pid),
        });
        let lost: Vec<&String> = lost.collect();
        if lost.is_empty() {
            // The job is over already: how it ended is judged later.
            return eprintln!("node {node} has nothing to lose");
        }
        let killed = Command::new("kill").arg("-9").args(lost).stderr(Stdio::null()).status();
        killed.expect("kill");
    }

    /// Nothing comes to a node any more, or from it, and no connection is closed.
    pub(crate) fn cut_off(&self, node: u32) {
        let name = self.node(node);
        let job = name.rsplit_once('-').expect("a number behind it").0;
        let (switch, port) = (format!("{job}-s"), format!("port{}", node + 1));
        let cut = ["-n", &switch, "link", "set", &port, "nomaster"];
        assert!(Command::new("ip").args(cut).status().expect("ip").success());
    }

    /// Sets something of the kernel for the network of a node, as `NAME=VALUE`.
    pub(crate) fn set(&self, node: u32, what: &str) {
        let words = ["netns", "exec", &self.node(node), "sysctl", "-q", "-w", what];
        assert!(Command::new("ip").args(words).status().expect("ip").success());
    }

    /// Waits until nothing runs on a node.
    pub(crate) fn wait_until_empty(&self, node: u32) {
        let begun = Instant::now();
        while !self.pids(node).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(40), "node {node} does not stop itself");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads until a line begins so; gives what was read.
    pub(crate) fn read_until(&mut self, start: &str) -> String {
        let mut output = self.tool().stdout.take().expect("piped");
        let (read, is_there) = read_to(&mut output, |line| line.starts_with(start));
        assert!(is_there, "no line begins with {start}: {read}{}", self.errors());
        self.tool().stdout = Some(output);
        read
    }

    /// Reads until the launcher says that a node is lost.
    pub(crate) fn wait_for_loss(&mut self) {
        let mut errors = self.tool().stderr.take().expect("piped");
        let (read, is_there) = read_to(&mut errors, |line| line.contains("is lost"));
        assert!(is_there, "no node is lost: {read}");
        self.tool().stderr = Some(errors);
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        if let Some(mut pipe) = self.tool().stderr.take() {
            let _ = pipe.read_to_string(&mut errors);
        }
        errors
    }

    /// Waits for the end; nothing is left of it.
    pub(crate) fn finish(mut self) -> Output {
        let output = self.end();
        assert_eq!(stale_folders(&self.alone), [""; 0]);
        output
    }

    /// Waits for the end; folders of nodes that did not end by themselves may be left.
    pub(crate) fn end(&mut self) -> Output {
        let tool = self.tool.take().expect("not waited for");
        let id = tool.id();
        let output = tool.wait_with_output().expect("waited for");
        let spaces = Command::new("ip").args(["netns", "list"]).output().expect("ip");
        let spaces = String::from_utf8_lossy(&spaces.stdout).into_owned();
        assert!(!spaces.contains(&format!("fampi-{id}-")), "{spaces}");
        output
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let all: Vec<String> = (0..9).flat_map(|node| self.pids(node)).collect();
        let Some(tool) = self.tool.take() else { return };
        let shown = ["-o", "pid,stat,etimes,time,wchan:20,args", "-p", &all.join(",")];
        let processes = Command::new("ps").args(shown).output();
        signal("-TERM", &[tool.id().to_string()]);
        let told = tool.wait_with_output();
        for output in [processes, told].into_iter().flatten() {
            eprintln!("{}", said(&output));
        }
    }
}

/// What was read up to the end of a line, and true for the one that was looked for.
pub(crate) fn read_to(
    pipe: &mut impl Read,
    mut is_last: impl FnMut(&str) -> bool,
) -> (String, bool) {
    // Nothing is read beyond that line.
    let mut lines = BufReader::with_capacity(1, pipe);
    let mut read = String::new();
    loop {
        let at = read.len();
        let more = lines.read_line(&mut read).expect("text");
        if more == 0 || is_last(&read[at..]) {
            return (read, more > 0);
        }
    }
}

fn is_daemon(pid: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let serves = words.split(|byte| *byte == 0).nth(1).is_some_and(|word| word == b"serve");
    name.trim() == "fampi-node" && serves
}

pub(crate) fn is_stopped(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

pub(crate) fn is_rank(pid: &str) -> bool {
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    variables.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"PMIX_RANK="))
}

/// The folders that daemons of these tests have left.
pub(crate) fn stale_folders(_: &Alone) -> Vec<String> {
    let before = folders_before();
    let mut folders = folders_of_the_gone();
    folders.retain(|name| !before.contains(name));
    folders
}

/// Those that were there before any of these tests started a job.
pub(crate) fn folders_before() -> &'static [String] {
    static BEFORE: OnceLock<Vec<String>> = OnceLock::new();
    BEFORE.get_or_init(folders_of_the_gone)
}

/// The folders of daemons that are gone.
fn folders_of_the_gone() -> Vec<String> {
    let is_gone = |name: &str| {
        let process = name.strip_prefix("fampi-node-").and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !fs::exists(format!("/proc/{process}")).unwrap_or(true))
    };
    let folders = [std::env::temp_dir(), "/dev/shm".into()];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let gone = entries.flatten().filter(|entry| {
        // A daemon that has ended since the folder was listed has removed it.
        is_gone(&entry.file_name().to_string_lossy()) && entry.path().exists()
    });
    gone.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
