//! How runs on real ranks end that cannot end well: never with status 0, and never without a
//! sentence.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program as the tests of the workspace have built it; or its name, which the tool builds.
fn built(name: &str, folder: &str) -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_fampi")).with_file_name(folder).join(name);
    if built.is_file() { built.display().to_string() } else { name.to_owned() }
}

fn run(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(["run", "--timeout", "120"]).args(words).envs(variables.iter().copied());
    tool.stdin(Stdio::null()).output().expect("the tool starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Another status than 0, 124 excepted, and this sentence.
#[track_caller]
fn has_failed(output: &Output, sentence: &str) {
    let status = output.status.code().expect("no signal");
    assert!(status != 0 && status != 124, "status {status}: {}", said(output));
    assert!(said(output).contains(sentence), "{sentence}: {}", said(output));
}

#[test]
fn a_spare_that_is_left_over_does_not_make_a_lost_job_a_survived_one() {
    let program = built("minife", ".");
    let kills = ["kill", "exit", "panic", "exit"];
    let kills: Vec<String> =
        (0..).zip(kills).map(|(rank, mode)| format!("kill={rank}@iteration:3:{mode}")).collect();
    let mut words = vec!["-n", "4", "--spares", "1", "--", &program, "nx=8", "yaml=none"];
    words.extend(kills.iter().map(String::as_str));
    has_failed(&run(&words, &[]), "nobody survived");
}

#[test]
fn a_state_that_is_lost_on_all_ranks_is_the_status_that_the_program_gives_it() {
    let lost = "the state of rank 0 is lost: it and its partner, rank 2, both failed";
    let kills = ["kill=0@iteration:3:kill", "kill=2@iteration:3:kill"];
    let minife = built("minife", ".");
    let minife = [&["--", &minife, "nx=8", "yaml=none"], &kills[..]].concat();
    // It returns the error from `main`, as the example of the README does.
    let count = built("count", "examples");
    let count = ["--kill", "0@step:2000", "--kill", "2@step:2000", "--", &count];
    for (program, status) in [(&minife[..], 2), (&count, 1)] {
        for spares in ["0", "2"] {
            let output = run(&[&["-n", "4", "--spares", spares], program].concat(), &[]);
            has_failed(&output, lost);
            assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        }
    }
}

#[test]
fn a_rank_that_dies_before_mpi_has_started_is_told() {
    let program = built("hello_block", "examples");
    // Whenever it is killed, rank 0 has not begun to start MPI.
    let first_waits = "[ \"$PMIX_RANK\" = 0 ] && exec sleep 60; exec \"$0\"";
    let words = ["-n", "2", "--kill", "0@0s", "--", "sh", "-c", first_waits, &program];
    let output = run(&words, &[]);
    assert!(!said(&output).contains("not killed"), "{}", said(&output));
    has_failed(&output, "while MPI started");
}

#[test]
fn a_variable_that_makes_no_sense_is_refused_by_all_ranks() {
    let program = built("hello_block", "examples");
    for (name, value) in [
        ("FAMPI_STUCK_SECONDS", "nan"),
        ("FAMPI_STUCK_SECONDS", "-5"),
        ("FAMPI_STUCK_SECONDS", "abc"),
        ("FAMPI_MAILBOX", "of"),
    ] {
        let output = run(&["-n", "2", "--", &program], &[(name, value)]);
        has_failed(&output, &format!("{name} is '{value}'; set it to"));
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn a_run_tells_who_died_when_and_how_who_noticed_and_what_followed() {
    let program = built("ring", ".");
    let steps = ["--", &program, "--steps", "600"];
    let words = ["-n", "4", "--kill", "2@cycle:300", "--strict"];
    let output = run(&[&words[..], &steps].concat(), &[]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let line = told.lines().find(|line| line.starts_with("fampi: rank 2 died at "));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    for words in [", by plan: noticed by rank ", "; whole again by 1 new process ", "the death, "] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert!(told.contains("1 process died as planned, and the others survived it"), "{told}");
    let advice = "with --spares 1 steps are as fast as before a death";
    assert!(told.contains(advice), "{told}");
    let spared = run(&[&["--spares", "1"], &words[..], &steps].concat(), &[]);
    assert!(said(&spared).contains("; whole again by spares "), "{}", said(&spared));
    assert!(!said(&spared).contains("steps are as fast"), "{}", said(&spared));
    // The same without the plan of the command line, which a strict run does not accept.
    let output = run(&["-n", "2", "--strict", "--kill", "1@step:9999", "--", &program], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let sentence = "--strict: 0 processes died, 0 of them as planned, and --kill names 1";
    assert!(said(&output).contains(sentence), "{}", said(&output));
    // As many deaths as are named, of another rank.
    let dies =
        "[ \"$PMIX_RANK\" = 2 ] && { (sleep 0.5; kill -9 $$) & }; exec \"$0\" --steps 300000";
    let words =
        ["-n", "4", "--strict", "--kill", "1@step:9999999", "--", "sh", "-c", dies, &program];
    let output = run(&words, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let sentence = "--strict: 1 processes died, 0 of them as planned, and --kill names 1";
    assert!(said(&output).contains(sentence), "{}", said(&output));
}

#[test]
fn a_job_goes_on_without_a_reader_of_its_errors_and_under_nohup_without_its_terminal() {
    let program = built("ring", ".");
    let script = r#"
        { "$0" run -n 2 --kill 1@step:2000 -- "$1" --steps 20000; echo $? > "$2"; } 2>&1 | true
    "#;
    let home = tempfile::tempdir().expect("a temporary folder");
    let status = home.path().join("status");
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_fampi"), &program]).arg(&status);
    assert!(shell.status().expect("a shell").success());
    assert_eq!(fs::read_to_string(&status).expect("a status").trim(), "0");

    let script = r#"trap '' HUP; "$0" run -n 1 -- sleep 3 & p=$!; sleep 1; kill -HUP $p; wait $p"#;
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_fampi")]).output().expect("a shell");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn what_cannot_be_printed_is_told_and_is_no_success() {
    let script = r#""$0" run -n 1 -- echo something > /dev/full"#;
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_fampi")]).output().expect("a shell");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cannot be written, and is lost"), "{}", said(&output));
}

#[test]
fn a_death_that_the_program_itself_has_planned_is_told_as_one() {
    let program = built("policy", "examples");
    let output = run(&["-n", "4", "--timeline", "--", &program], &[]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("died as planned") && !told.contains("without a --kill"), "{told}");
    assert!(told.contains("  death detected ") && told.contains("  step resumed "), "{told}");
}

/// The launcher of Open MPI can crash, for example when the root of a spawn dies in it.
#[test]
fn a_launcher_that_crashes_is_told_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mark = format!("9{}.5", std::process::id());
    let ranks = format!(
        "echo running > $FAMPI_STATUS_DIR/$$; sleep 1; test $PMIX_RANK = 0 && kill -SEGV $PPID; \
         exec sleep {mark}"
    );
    let temporary = [("TMPDIR", folder.path().to_str().expect("plain letters"))];
    let words = ["--launcher", "mpirun", "-n", "2", "--", "sh", "-c", &ranks];
    let output = run(&words, &temporary);
    has_failed(&output, "the launcher crashed (signal 11), and took the job with it");
    assert_eq!(output.status.code(), Some(128 + 11));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let sleeps = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.starts_with(b"sleep\0") && String::from_utf8_lossy(&words).contains(&mark)
    };
    let sleeping = fs::read_dir("/proc").expect("Linux").flatten().filter(sleeps);
    assert_eq!(sleeping.count(), 0, "ranks that outlive their launcher");
}
