//! Jobs that lose their console: they go on, are found, and leave nothing but what they printed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use fampi_kit::processes::{processes_with, sleeps, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::network::{
    Alone, alone, has_name_spaces, is_rank, is_stopped, read_to, signal, stale_folders,
};
use crate::{application, fampi, said, text};

/// A user for whom nothing else runs, with folders of its own.
pub(crate) struct User {
    folder: TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        static BUILT: Once = Once::new();
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let user = Self { folder };
        // It builds the launcher, for which no test has the time.
        BUILT.call_once(|| assert!(user.done(&["jobs"]).status.success()));
        user
    }

    fn is(&self, mut command: Command) -> Command {
        command.env("XDG_STATE_HOME", self.folder.path());
        command.env("TMPDIR", self.folder.path().join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, options: &[&str], program: &[&str]) -> Child {
        self.run_with(&[], options, program)
    }

    /// The same with these variables in the environment.
    pub(crate) fn run_with(
        &self,
        variables: &[(&str, &str)],
        options: &[&str],
        program: &[&str],
    ) -> Child {
        let mut command = fampi(options);
        command.envs(variables.iter().copied()).arg("--").args(program);
        self.is(command).spawn().expect("the tool starts")
    }

    fn call(&self, words: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fampi"));
        command.args(words);
        self.is(command).spawn().expect("the tool starts")
    }

    pub(crate) fn done(&self, words: &[&str]) -> Output {
        self.call(words).wait_with_output().expect("waited for")
    }

    /// True when a secret lies in a file, which it may only while a job or a node starts.
    pub(crate) fn has_key(&self) -> bool {
        let files = fs::read_dir(self.folder.path().join("tmp")).expect("a folder").flatten();
        files.map(|it| it.file_name()).any(|it| it.to_string_lossy().starts_with("fampi-key-"))
    }

    /// The folder of the only job.
    pub(crate) fn job(&self) -> Option<PathBuf> {
        let jobs = fs::read_dir(self.folder.path().join("fampi/jobs")).ok()?;
        jobs.flatten().next().map(|entry| entry.path())
    }

    fn records(&self) -> Vec<Value> {
        let entries = self.job().and_then(|job| fs::read_dir(job).ok()).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let records = paths.filter(|path| path.extension() == Some("json".as_ref()));
        records.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }

    fn wait_for_loss_of_console(&self) {
        wait_until("the daemons have no console", || {
            let records = self.records();
            !records.is_empty() && records.iter().all(|it| it["has_console"] == false)
        });
    }

    /// Waits until so many daemons have left; the status on which they agree.
    fn wait_for_end(&self, daemons: usize) -> u64 {
        let ended = || self.records().into_iter().filter(|it| !it["ended"].is_null()).count();
        wait_until("the job is over", || ended() == daemons);
        let records = self.records();
        let mut statuses = records.iter().filter_map(|it| it["ended"][0].as_u64());
        let first = statuses.next().expect("one has ended");
        assert!(statuses.all(|status| status == first), "{records:?}");
        assert!(records.iter().all(|it| it["ended"].is_null() || it["secret"].is_null()));
        first
    }

    fn printed(&self, file: &str) -> String {
        let path = self.job().expect("a job").join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn processes(&self, is_one: impl Fn(&Path) -> bool) -> Vec<String> {
        let entry = format!("XDG_STATE_HOME={}", self.folder.path().display());
        let processes = fs::read_dir("/proc").expect("Linux").flatten();
        let is_ours = |path: &Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == entry.as_bytes())
        };
        let ours = processes.map(|it| it.path()).filter(|path| is_ours(path) && is_one(path));
        ours.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }

    /// The rank that has stopped itself, once it has.
    fn stopped(&self) -> Vec<String> {
        let is_one = |path: &Path| {
            let number = path.file_name().expect("a number").to_string_lossy();
            // The tool stops its launcher for a moment, too.
            is_stopped(&number) && is_rank(&number)
        };
        let stopped = || self.processes(is_one);
        wait_until("a rank has stopped itself", || !stopped().is_empty());
        stopped()
    }

    /// Nothing runs, and no folder is there but what was printed.
    #[track_caller]
    fn has_left_nothing(&self, alone: &Alone) {
        let entry = format!("XDG_STATE_HOME={}", self.folder.path().display());
        wait_until("no process is left", || processes_with(&entry).is_empty());
        let left = fs::read_dir(self.folder.path().join("tmp")).expect("a folder").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(stale_folders(alone), [""; 0]);
    }
}

/// Nothing may be left to a later test when one fails.
impl Drop for User {
    fn drop(&mut self) {
        signal("-9", &self.processes(|_| true));
    }
}

fn minife(stop: &[&str]) -> Vec<String> {
    let program = application("minife").to_string_lossy().into_owned();
    [&[&program, "nx=30", "yaml=none"], stop].concat().iter().map(|it| (*it).to_owned()).collect()
}

/// Whether a process is that of a program with this first argument.
fn has_words(process: &Path, program: &str, first: &str) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.next().is_some_and(|it| Path::new(&*it).file_name() == Some(program.as_ref()))
        && words.next().is_some_and(|it| it == first)
}

/// The line with the digits.
fn digits(all: &str) -> &str {
    all.lines().last().unwrap_or_default()
}

fn kill(mut tool: Child) {
    tool.kill().expect("killed");
    tool.wait().expect("waited for");
}

/// `MiniFE` with a rank that stops itself, when it does.
fn stopped_minife(user: &User, options: &[&str], stop: &str) -> (Child, Vec<String>) {
    let program = minife(&[stop]);
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let tool = user.run(options, &words);
    (tool, user.stopped())
}

#[test]
fn a_job_whose_console_alone_is_killed_goes_on_to_the_right_digits_and_leaves_nothing() {
    let alone = alone();
    let user = User::new();
    let program = minife(&[]);
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let whole = user.run(&["-n", "4"], &words).wait_with_output().expect("waited for");
    assert!(whole.status.success(), "{}", said(&whole));
    assert_eq!(user.job(), None, "a job that ends with its console leaves no record");

    let (tool, stopped) = stopped_minife(&user, &["-n", "4"], "kill=2@iteration:20:stop");
    signal("-9", &user.processes(|path| has_words(path, "fampi-node", "launch")));
    let output = tool.wait_with_output().expect("waited for");
    assert_eq!(output.status.code(), Some(137), "{}", said(&output));
    assert!(
        text(&output.stderr).contains("`cargo fampi attach` waits for it"),
        "{}",
        said(&output)
    );
    user.wait_for_loss_of_console();
    signal("-CONT", &stopped);
    assert_eq!(user.wait_for_end(1), 0);
    assert_eq!(digits(&user.printed("rank-0.out")), digits(&text(&whole.stdout)));
    user.has_left_nothing(&alone);
}

#[test]
fn jobs_on_three_nodes_go_on_when_the_tool_is_killed_also_when_a_node_is_lost_later() {
    if !has_name_spaces() {
        return;
    }
    let alone = alone();
    let options = ["--nodes", "3", "-n", "6"];
    let user = User::new();
    let program = minife(&[]);
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let whole = user.run(&options, &words).wait_with_output().expect("waited for");
    for loses_node in [false, true] {
        let user = User::new();
        let (tool, stopped) = stopped_minife(&user, &options, "kill=2@iteration:20:stop");
        let spaces = format!("fampi-{}-", tool.id());
        kill(tool);
        user.wait_for_loss_of_console();
        let status = if loses_node {
            let of_node =
                Command::new("ip").args(["netns", "pids", &format!("{spaces}1")]).output();
            let pids = text(&of_node.expect("ip").stdout);
            signal("-9", &pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            // The daemons tell a console that attaches after the loss of it, too.
            let output = user.done(&["attach"]);
            assert_eq!(digits(&text(&output.stdout)), digits(&text(&whole.stdout)));
            assert!(
                text(&output.stderr).contains("-1 is lost, with 2 processes"),
                "{}",
                said(&output)
            );
            output.status.code()
        } else {
            signal("-CONT", &stopped);
            let status = user.wait_for_end(3);
            assert_eq!(digits(&user.printed("rank-0.out")), digits(&text(&whole.stdout)));
            Some(status as i32)
        };
        assert_eq!(status, Some(0), "a node is lost: {loses_node}");
        user.has_left_nothing(&alone);
        let left = text(&Command::new("ip").args(["netns", "list"]).output().expect("ip").stdout);
        assert!(!left.contains(&spaces), "{left}");
    }
}

/// The numbers that a rank has printed.
fn numbers(all: &str, rank: u32) -> Vec<u32> {
    let start = format!("{rank} ");
    all.lines().filter_map(|line| line.strip_prefix(&start)?.parse().ok()).collect()
}

#[test]
fn who_attaches_gets_the_output_that_is_left_once_in_order_and_the_status() {
    let alone = alone();
    let user = User::new();
    let go = |part: u32| user.folder.path().join(format!("go-{part}"));
    let script = format!(
        "for part in 0 1 2; do until [ -e {}/go-$part ]; do sleep 0.02; done\n\
         for i in $(seq 100); do echo $PMIX_RANK $((part * 100 + i)); done; done; exit 7",
        user.folder.path().display()
    );
    let mut tool = user.run(&["-n", "3"], &["sh", "-c", &script]);
    fs::write(go(0), "").expect("written");
    let mut output = tool.stdout.take().expect("piped");
    let mut last = 0;
    let (first, _) = read_to(&mut output, |line| {
        last += u32::from(line.ends_with(" 100\n"));
        last == 3
    });
    // The daemon learns that this was printed.
    thread::sleep(Duration::from_millis(300));
    kill(tool);
    user.wait_for_loss_of_console();
    fs::write(go(1), "").expect("written");
    wait_until("rank 2 has printed to its file", || {
        user.job().is_some_and(|job| {
            fs::read_to_string(job.join("rank-2.out")).is_ok_and(|it| it.ends_with(" 200\n"))
        })
    });
    let listed = user.done(&["jobs"]);
    assert!(text(&listed.stdout).contains("runs without console"), "{}", said(&listed));

    let mut second = user.call(&["attach"]);
    let mut output = second.stdout.take().expect("piped");
    let mut last = 0;
    let (mut rest, _) = read_to(&mut output, |line| {
        last += u32::from(line.ends_with(" 200\n"));
        last == 3
    });
    let third = user.done(&["attach"]);
    assert_eq!(third.status.code(), Some(1), "{}", said(&third));
    assert!(text(&third.stderr).contains("has a console already"), "{}", said(&third));
    fs::write(go(2), "").expect("written");
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(second.wait().expect("waited for").code(), Some(7));
    for rank in 0..3 {
        assert_eq!(numbers(&first, rank), (1..=100).collect::<Vec<_>>(), "rank {rank}");
        assert_eq!(numbers(&rest, rank), (101..=300).collect::<Vec<_>>(), "rank {rank}");
    }
    assert_eq!(user.job(), None);
    user.has_left_nothing(&alone);
}

#[test]
fn a_time_limit_ends_a_job_without_a_console_and_its_end_can_be_looked_at() {
    let alone = alone();
    let user = User::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fampi"));
    command.args(["run", "--launcher", "node", "-n", "2", "--timeout", "3", "--"]);
    let script = "echo here; exec sleep 1000.3125";
    let tool = user
        .is({
            command.args(["sh", "-c", script]);
            command
        })
        .spawn()
        .expect("started");
    wait_until("the ranks run", || sleeps("1000.3125"));
    kill(tool);
    user.wait_for_loss_of_console();
    assert_eq!(user.wait_for_end(1), 124);
    assert!(!sleeps("1000.3125"));
    user.has_left_nothing(&alone);
    let listed = user.done(&["jobs"]);
    assert!(
        text(&listed.stdout).contains("ended with status 124, output in "),
        "{}",
        said(&listed)
    );
    let shown = user.done(&["attach"]);
    assert_eq!(shown.status.code(), Some(124), "{}", said(&shown));
    assert!(text(&shown.stderr).contains("s: ended"), "{}", said(&shown));
    assert!(user.done(&["jobs", "--remove"]).status.success());
    assert_eq!(user.job(), None);
    for (words, sentence) in [
        (&["attach"][..], "there is no job here: `cargo fampi run` starts one"),
        (&["attach", "other"], "there is no job other here: known are none"),
    ] {
        let refused = user.done(words);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(sentence), "{}", said(&refused));
    }
}

#[test]
fn a_job_that_loses_its_only_daemon_after_its_console_is_over_and_leaves_what_it_printed() {
    let alone = alone();
    let user = User::new();
    let tool = user.run(&["-n", "2"], &["sh", "-c", "sleep 1; echo here; exec sleep 1000.5"]);
    wait_until("the job is served", || user.job().is_some());
    kill(tool);
    let printed = || {
        let file = |job: PathBuf| fs::read_to_string(job.join("rank-1.out")).ok();
        user.job().and_then(file).is_some_and(|text| text == "here\n")
    };
    wait_until("a rank has printed", printed);
    wait_until("the ranks sleep", || sleeps("1000.5"));
    signal("-9", &user.processes(|path| has_words(path, "fampi-node", "serve")));
    user.has_left_nothing(&alone);
    assert!(!sleeps("1000.5"));
    assert!(user.records().iter().all(|record| record["secret"].is_null()), "a secret is left");
    let listed = user.done(&["jobs"]);
    assert!(text(&listed.stdout).contains("was killed"), "{}", said(&listed));
    let shown = user.done(&["attach"]);
    assert_eq!(shown.status.code(), Some(1), "{}", said(&shown));
    assert_eq!(text(&shown.stdout), "here\nhere\n", "{}", said(&shown));
}

#[test]
fn an_interrupt_of_who_attached_ends_the_job_and_its_death_does_not() {
    let alone = alone();
    let user = User::new();
    let tool = user.run(&["-n", "2"], &["sleep", "1000.4375"]);
    wait_until("the ranks run", || sleeps("1000.4375"));
    kill(tool);
    user.wait_for_loss_of_console();
    for (sent, status) in [("-KILL", None), ("-HUP", None), ("-INT", Some(130))] {
        let mut console = user.call(&["attach"]);
        wait_until("the job has a console", || {
            user.records().iter().all(|it| it["has_console"] == true)
        });
        assert!(sleeps("1000.4375"), "before {sent}");
        signal(sent, &[console.id().to_string()]);
        assert_eq!(console.wait().expect("waited for").code(), status);
        if status.is_none() {
            user.wait_for_loss_of_console();
        }
    }
    assert!(!sleeps("1000.4375"));
    assert_eq!(user.job(), None);
    user.has_left_nothing(&alone);
}

#[test]
fn input_ends_with_the_console() {
    let alone = alone();
    let user = User::new();
    let mut command = fampi(&["-n", "2"]);
    let program = "cat; [ $PMIX_RANK = 0 ] && echo over || true";
    command.args(["--", "sh", "-c", program]);
    let mut command = user.is(command);
    let mut tool = command.stdin(Stdio::piped()).spawn().expect("the tool starts");
    let mut input = tool.stdin.take().expect("piped");
    input.write_all(b"before\n").expect("it reads");
    let mut printed = [0; 7];
    tool.stdout.as_mut().expect("piped").read_exact(&mut printed).expect("printed");
    assert_eq!(printed, *b"before\n");
    kill(tool);
    user.wait_for_loss_of_console();
    assert_eq!(user.wait_for_end(1), 0);
    assert_eq!(user.printed("rank-0.out").lines().last(), Some("over"));
    drop(input);
    user.has_left_nothing(&alone);
}
