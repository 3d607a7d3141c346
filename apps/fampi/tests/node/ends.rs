//! How runs end on one node, and launches that cannot succeed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fampi_kit::processes::{sleeps, wait_until};

use crate::network::{alone, folders_before, stale_folders};
use crate::{fampi, said, text};

fn run(options: &[&str], script: &str) -> Output {
    fampi(options).args(["--", "sh", "-c", script]).output().expect("the tool starts")
}

#[test]
fn the_status_of_a_rank_is_passed_on() {
    assert_eq!(run(&["-n", "2"], "exit 0").status.code(), Some(0));
    assert_eq!(run(&["-n", "2"], "exit 5").status.code(), Some(5));
    assert_eq!(run(&["-n", "1"], "kill -9 $$").status.code(), Some(137));
}

#[test]
fn lines_of_a_rank_come_in_its_order_and_all_of_them() {
    let script = "for i in $(seq 2000); do echo $PMIX_RANK $i; done; echo last >&2";
    let output = run(&["-n", "3"], script);
    let all = text(&output.stdout);
    for rank in 0..3 {
        let lines: Vec<u32> = all
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{rank} "))?.parse().ok())
            .collect();
        assert_eq!(lines, (1..=2000).collect::<Vec<_>>(), "rank {rank}");
    }
    assert_eq!(text(&output.stderr).matches("last").count(), 3, "{}", said(&output));
}

#[test]
fn a_time_limit_and_a_signal_end_every_process() {
    let alone = alone();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["run", "--launcher", "node", "-n", "2", "--timeout", "1", "--"]);
    let output = tool.args(["sleep", "1000.0625"]).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(124), "{}", said(&output));
    assert!(!sleeps("1000.0625"));
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let mut tool = fampi(&["-n", "2", "--", "sleep", "1000.1875"]);
        let mut tool = tool.stderr(Stdio::null()).spawn().expect("the tool starts");
        wait_until("the ranks run", || sleeps("1000.1875"));
        let asked = Command::new("kill").args([signal, &tool.id().to_string()]).status();
        assert!(asked.expect("kill starts").success());
        assert_eq!(tool.wait().expect("waited for").code(), Some(status));
        assert!(!sleeps("1000.1875"));
    }
    assert_eq!(stale_folders(&alone), [""; 0]);
}

/// A console that heard its daemon leave killed it while that still removed its folders. They were
/// there for a moment without their process, in nearly every run.
#[test]
fn a_daemon_has_removed_its_folders_before_its_process_is_gone() {
    let alone = alone();
    folders_before();
    for _ in 0..10 {
        let mut tool = fampi(&["-n", "2", "--", "true"]).spawn().expect("the tool starts");
        let status = loop {
            let ended = tool.try_wait().expect("waited for");
            assert_eq!(stale_folders(&alone), [""; 0]);
            if let Some(status) = ended {
                break status;
            }
        };
        assert!(status.success(), "{status}");
    }
}

#[test]
fn a_signal_ends_a_job_whose_output_nobody_reads() {
    let alone = alone();
    let mut tool = fampi(&["-n", "1", "--", "yes", "1000.5625"]);
    tool.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tool = tool.spawn().expect("the tool starts");
    let runs = || processes_with_words("yes\x001000.5625\x00");
    wait_until("the rank runs", runs);
    // The console has more to print than the pipe takes.
    thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    let asked = Command::new("kill").args(["-INT", &tool.id().to_string()]).status();
    assert!(asked.expect("kill starts").success());
    assert_eq!(tool.wait().expect("waited for").code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
    assert!(!runs());
    assert_eq!(stale_folders(&alone), [""; 0]);
}

/// Whether a process was started by these words.
fn processes_with_words(words: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = processes.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line == words.as_bytes())
}

/// An executable script in a folder.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("made executable");
    path
}

/// What four ranks have said, of two each on a host.
#[track_caller]
fn has_four(output: &Output) {
    let all = text(&output.stdout);
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 2", "1 of 2", "2 of 2", "3 of 2"], "{}", said(output));
    assert!(output.status.success(), "{}", said(output));
}

const WHO: &str = "echo $PMIX_RANK of $OMPI_COMM_WORLD_LOCAL_SIZE";

#[test]
fn hosts_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = script(folder.path(), "agent", "shift; exec sh -c \"$*\"");
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "# here\nlocalhost slots=2\n127.0.0.1:2\n").expect("written");
    let mut command = fampi(&["-n", "4", "--hostfile"]);
    command.arg(&hosts).arg("--agent").arg(&agent);
    has_four(&command.args(["--", "sh", "-c", WHO]).output().expect("the tool starts"));
    fs::write(&hosts, "localhost slots=many\n").expect("written");
    let mut command = fampi(&["-n", "4", "--hostfile"]);
    let refused = command.arg(&hosts).args(["--", "true"]).output().expect("the tool starts");
    let told = text(&refused.stderr);
    assert!(!refused.status.success(), "{told}");
    assert!(told.contains("line 1 of") && told.contains("'localhost slots=many'"), "{told}");
    for (options, sentence) in [
        (&["--launcher", "node", "--agent", "ssh"][..], "name them by --hosts or --hostfile"),
        (&["--launcher", "mpirun", "--hostfile", "x"], "add --launcher node"),
    ] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
        let refused = tool.args(["run", "-n", "2"]).args(options).args(["--", "true"]).output();
        let refused = refused.expect("the tool starts");
        let told = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && told.contains(sentence), "{told}");
    }
}

/// Slurm as far as the launcher uses it: its tools are scripts here.
#[test]
fn hosts_come_from_an_allocation_of_slurm() {
    let folder = tempfile::tempdir().expect("a folder");
    script(folder.path(), "scontrol", "test $3 = 'n[1-2]' && echo localhost && echo 127.0.0.1");
    let step = "echo \"$*\" | grep -q -e '--no-kill --kill-on-bad-exit=0' || exit 1\n\
                tasks=$SLURM_NTASKS\n\
                while [ $1 != env ]; do [ $1 = --ntasks ] && tasks=$2; shift; done\n\
                key=$(cat); for task in $(seq $tasks); do\n\
                echo $key | SLURM_PROCID=$((task - 1)) \"$@\" & done; wait";
    script(folder.path(), "srun", step);
    let others = std::env::var("PATH").expect("a path");
    let mut command = fampi(&["-n", "4", "--", "sh", "-c", WHO]);
    command.env("PATH", format!("{}:{others}", folder.path().display()));
    command.env("SLURM_JOB_NODELIST", "n[1-2]").env("SLURM_TASKS_PER_NODE", "2(x2)");
    command.env("SLURM_NTASKS", "4");
    has_four(&command.output().expect("the tool starts"));
}

#[test]
fn what_cannot_be_launched_is_said_in_a_sentence() {
    let host = ["-n", "2", "--hosts", "no-such-host.invalid:2", "--", "true"];
    let output = fampi(&host).output().expect("the tool starts");
    assert!(!output.status.success());
    let told = text(&output.stderr);
    assert!(told.contains("there is no host no-such-host.invalid"), "{told}");

    let agent = ["-n", "2", "--hosts", "localhost:2", "--agent", "false", "--", "true"];
    let output = fampi(&agent).output().expect("the tool starts");
    assert!(!output.status.success());
    let told = text(&output.stderr);
    assert!(told.contains("no daemon on localhost: exit status: 1"), "{told}");

    // The tool has found it, and it is gone when the daemon starts it.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    fs::write(&program, "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("made executable");
    let output = fampi(&["-n", "2", "--"]).arg(&program).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    let told = text(&output.stderr);
    assert!(told.contains("the job did not start: rank"), "{told}");
}
