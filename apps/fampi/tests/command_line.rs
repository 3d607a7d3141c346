//! What the tool answers to command lines that cannot be meant. None of this needs an MPI.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn tool(arguments: &[&str]) -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(arguments);
    tool
}

fn fampi(arguments: &[&str]) -> Output {
    tool(arguments).output().expect("the tool starts")
}

/// This status, nothing on standard output, and one sentence on standard error, with the words.
fn refused_with(status: i32, output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    assert!(said.starts_with("fampi: ") && said.lines().count() == 1, "{said}");
    assert!(said.contains(words), "{words}: {said}");
}

/// Status 2, and the words.
fn refused(arguments: &[&str], words: &str) {
    refused_with(2, &fampi(arguments), words);
}

/// A checkout in which nothing is set up: a run that begins a set-up there says so.
fn bare_checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for package in ["fampi", "minife"] {
        let package = folder.path().join("apps").join(package);
        fs::create_dir_all(package.join("src")).expect("made");
        fs::write(package.join("Cargo.toml"), "").expect("written");
        fs::write(package.join("src/main.rs"), "").expect("written");
    }
    folder
}

fn inside(checkout: &Path, arguments: &[&str]) -> Output {
    let mut tool = tool(arguments);
    tool.current_dir(checkout).env_remove("CARGO_MANIFEST_DIR");
    tool.output().expect("the tool starts")
}

#[test]
fn a_rank_that_is_not_launched_cannot_be_killed() {
    let expected = "rank 4 cannot be killed, as 4 processes are launched: choose one from 0 to 3";
    refused(&["run", "-n", "4", "--kill", "4@1s", "--", "true"], expected);
    refused(&["run", "-n", "4", "--spares", "2", "--kill", "6@1s", "--", "true"], "0 to 5");
    refused(&["run", "-n", "4", "--spares", "2", "--kill", "4@iteration:1", "--", "x"], "0 to 3");
}

#[test]
fn a_time_of_death_that_cannot_be_read_is_explained() {
    for plan in ["2", "2@", "2@7", "2@soon", "2@iteration:x", "x@1s"] {
        refused(&["run", "-n", "4", "--kill", plan, "--", "true"], "RANK@step:40");
    }
}

#[test]
fn each_rank_can_be_killed_once() {
    for second in ["1@1s", "1@iteration:5"] {
        let kills = ["--kill", "1@iteration:5", "--kill", second];
        refused(
            &[&["run", "-n", "4"][..], &kills, &["--", "true"]].concat(),
            "rank 1 is killed twice",
        );
    }
}

#[test]
fn a_run_needs_ranks_and_a_program() {
    let line = "write `cargo fampi run --ranks <N> -- <PROGRAM>...`";
    for number in ["0", "-1", "two", ""] {
        refused(&["run", "-n", number, "--", "true"], "write a number of ranks, 1 or more");
    }
    refused(&["run", "-n", "4"], line);
    refused(&["run", "-n", "4", "--"], line);
    refused(&["run", "--", "true"], line);
    refused(&["run", "-n", "4", "minife"], "`minife` has no place here");
    refused(&["run", "-n", "4", "--nonsense", "--", "true"], "`--nonsense` has no place here");
    refused(&["run", "-n", "4", "--kil", "1@1s", "--", "true"], "but there is `--kill`");
    for limit in ["-3", "0", "soon", "1e30"] {
        let arguments = ["run", "-n", "2", "--timeout", limit, "--", "true"];
        refused(&arguments, "write the time limit as a number of seconds above 0");
    }
}

#[test]
fn more_processes_than_a_machine_can_bear_are_a_slip() {
    refused(&["run", "-n", "4", "--spares", "4294967295", "--", "true"], "are too many for");
    refused(&["run", "-n", "4", "--spares", "-1", "--", "true"], "0 or more");
    refused(&["bench", "commit", "--ranks", "2,1000000"], "are too many for");
    refused(&["bench", "recovery", "--ranks", "1000000"], "are too many for");
    refused(&["demo", "--ranks", "1000000"], "are too many for");
}

#[test]
fn the_demo_and_the_benchmarks_refuse_what_they_cannot_do() {
    refused(&["demo", "--kill", "1@2s"], "kills in an iteration");
    refused(&["demo", "--kill", "4@iteration:9"], "0 to 3");
    refused(&["demo", "-n", "1"], "2 or more");
    refused(&["demo", "--size", "2"], "from 4 to 512");
    for ranks in ["2,zero", "0", "", "2,,4"] {
        refused(&["bench", "commit", "--ranks", ranks], "write a number of ranks, 1 or more");
        refused(&["bench", "commit", "-n", ranks], "write a number of ranks, 1 or more");
        refused(&["bench", "block", "-n", ranks], "write a number of ranks, 1 or more");
    }
    for ranks in ["4,1", "0", "four"] {
        refused(&["bench", "recovery", "--ranks", ranks], "write a number of ranks, 2 or more");
    }
    for trials in ["1", "-5", "100000", "many"] {
        refused(&["bench", "recovery", "--trials", trials], "a number of deaths, from 2 to 10000");
    }
    refused(&["no-such-command"], "`cargo fampi --help` lists them");
    refused(&["bench", "no-such-benchmark"], "`cargo fampi bench --help` lists them");
}

/// Command lines that cannot be meant, by words, and what the answer says.
const REFUSED: &[(&str, &str)] = &[
    ("--nonsense", "`--nonsense` has no place here: write `cargo fampi <COMMAND>`"),
    ("run -n 4 --kill -1@1s -- true", "the rank is not a number: write RANK@1.5s"),
    ("run -n 2 --observer=x -- true", "unexpected value 'x' for '--observer'"),
    ("run -n 2 --timelin -- true", "but there is `--timeline`"),
    ("run -n 2 -n 3 -- true", "'--ranks <N>' cannot be used multiple times"),
    ("demo extra", "`extra` has no place here"),
    ("demo --kill x", "there is no @: write RANK@1.5s or RANK@step:40"),
    ("test --profile nonsense", "write release or dev"),
    ("setup --nope", "`--nope` has no place here"),
    ("doctor x", "`x` has no place here"),
    ("install", "--prefix <DIR> is missing"),
    ("sim nonsense", "there is no command `nonsense`: `cargo fampi sim --help` lists them"),
    ("sim --seeds -3", "write a number of seeds, 1 or more"),
    ("sim --seeds 0", "write a number of seeds, 1 or more"),
    ("sim --seeds many", "write a number of seeds, 1 or more"),
    ("sim --seeds 99999999999999999999", "write a number of seeds, 1 or more"),
    ("sim --from -1", "write a seed, 0 or more"),
    ("sim --from 18446744073709551615 --seeds 2", "write a lower --from, or fewer --seeds"),
    ("sim --seed x", "write a seed, 0 or more"),
    ("sim --seed 1 --seeds 2", "cannot be used with"),
    ("sim --ranks 0", "or a range as in 2-16"),
    ("sim --ranks -3", "or a range as in 2-16"),
    ("sim --ranks 5-2", "or a range as in 2-16"),
    ("sim --ranks 1000000", "write a number from 1 to 128"),
    ("sim --seeds 4 scale", "cannot be used with '--seeds <N>'"),
    ("sim scale --ranks 1", "numbers of ranks from 2 to 4194304"),
    ("sim scale --ranks -1", "numbers of ranks from 2 to 4194304"),
    ("sim scale --ranks 16,", "numbers of ranks from 2 to 4194304"),
    ("sim scale --deaths -1", "write numbers of deaths, 0 or more"),
    ("sim scale --latency x", "a whole number of nanoseconds, 0 or more"),
    ("sim scale --gap -1", "a whole number of nanoseconds, 0 or more"),
    ("bench detect --trials 0", "write a number of deaths, 1 or more"),
    ("bench detect -n 2", "measure with 4 ranks or more"),
    ("bench detect --how poison", "possible values: SIGKILL, SIGSEGV"),
    ("bench detect --csv detect.png", "name the file of --csv otherwise, as in detect.csv"),
    ("bench noise --periods 100,0", "write milliseconds, from 1 to 60000"),
    ("bench library -- 40 fast", "fast is no number of messages: give numbers from 1 to 65535"),
    ("bench nodes --nodes 2", "write a number of nodes from 3 to 63"),
    ("bench nodes --nodes 4 -n 6", "6 ranks are not as many on each of 4 nodes: try -n 4"),
    ("bench nodes --trials 0", "write a number of lost nodes, from 1 to 10000"),
    ("bench noise --rounds 0", "write a number of rounds, from 1 to 10000"),
    ("timeline", "<FILE> is missing"),
    ("new", "<DIR> is missing"),
    ("new 2heat", "name the folder otherwise"),
    ("new src", "src exists: name a folder to be made"),
    ("env --fish", "`--fish` has no place here"),
    ("timeline file --from -1", "write a number of milliseconds, 0 or more"),
    ("timeline file --to x", "write a number of milliseconds, 0 or more"),
    ("run -n 2 --trace", "a value is required for '--trace <FILE>'"),
    ("soak --minutes 0", "write a number of minutes above 0"),
    ("soak --minutes nan", "write a number of minutes above 0"),
    ("soak --rounds 0", "write a number of rounds, 1 or more"),
    ("run -n 2 --kill 1@step:0 -- true", "the step is no number from 1 on: write RANK@1.5s"),
    ("run -n 2 --kill 1@cycle:x -- true", "the step is no number from 1 on: write RANK@1.5s"),
    ("run -n 2 --strict=yes -- true", "unexpected value 'yes' for '--strict'"),
    ("run -n 2 --hung 0 -- true", "write the patience with ranks as seconds, at least 0.1"),
    ("run -n 2 --partition some -- true", "majority, any"),
    ("run -n 2 --launcher mpirun --partition any -- true", "mpirun ends the job"),
    ("run -n 2 --launcher mpirun --hosts a:1 -- true", "are for our own launcher: add --launcher"),
    ("run -n 2 --nodes 0 -- true", "a number of nodes from 1 to 250"),
    ("run -n 2 --mpi mpich --launcher mpirun -- true", "ends the job when a rank dies: leave"),
    ("run -n 2 --launcher srun -- true", "possible values: mpirun, node"),
    ("figure nonsense", "there is no command `nonsense`: `cargo fampi figure --help` lists them"),
    ("figure ring-token -n 2", "write a number of ranks, 3 or more"),
    ("figure ring-token -n 100000", "write a number of ranks, 3 or more"),
    ("figure ring-token -n 4096", "are too many for"),
    ("figure ring-token --nodes 0", "write a number of nodes from 1 to 63"),
    ("figure ring-token --tokens 9", "write a number of tokens, from 10 to 1000000"),
    ("figure ring-token --pace -1", "write microseconds from 1 to 1000000"),
    ("figure ring-token --processes 1", "write a number of processes, from 64 to 65536"),
    ("figure ring-token --processes 100", "not as many on each of 64 nodes: try --processes 64"),
    ("figure ring-token --only paper", "possible values: real, simulated"),
    ("figure ring-token --seed x", "write a seed, 0 or more"),
    ("figure ring-token --timeout 0", "write seconds, 1 or more"),
    ("figure detector --parts all", "possible values: simulated, silence, deaths, noise"),
    ("figure detector --ranks 2,4", "figure 11 takes 4 ranks or more"),
    ("figure detector --nodes 8 --ranks 4", "--ranks has no number that is enough for 8 nodes"),
    ("figure detector --nodes 0", "write a number of nodes from 1 to 64"),
    ("figure detector --deaths 0", "write a number of deaths, 1 or more"),
    ("figure detector --trials 0", "write a number of trials, from 1 to 10000"),
    ("figure detector --periods 0", "write milliseconds, from 1 to 60000"),
    ("figure detector --seconds 0", "write seconds, 1 or more"),
    ("figure ring-token extra", "`extra` has no place here"),
    ("soak -n 0", "write a number of ranks, 1 or more"),
    ("soak -n 4294967295", "are too many for"),
    ("soak --seed -1", "write a seed, 0 or more"),
    ("soak --nodes 2", "write a number of nodes from 3 to 63"),
    ("soak --nodes 3 --every 0", "write a number of seconds above 0"),
    ("soak --nodes 3 -n 2", "2 ranks are fewer than 3 nodes: use -n 3 or more"),
];

#[test]
fn every_wrong_command_line_gets_one_sentence() {
    assert!(REFUSED.len() >= 40);
    for (line, words) in REFUSED {
        refused(&line.split(' ').collect::<Vec<_>>(), words);
    }
}

#[test]
fn an_option_without_its_value_is_told_by_its_name() {
    let lines = ["run -n", "run --kill", "demo --size", "test --profile", "setup --mpi"];
    let more = ["install --prefix", "sim --job", "bench commit --csv", "soak --minutes"];
    for line in lines.into_iter().chain(more) {
        let words: Vec<&str> = line.split(' ').collect();
        refused(&words, "a value is required for");
    }
}

#[test]
fn a_file_that_is_no_trace_is_told() {
    let checkout = bare_checkout();
    fs::write(checkout.path().join("text"), "{\"traceEvents\":[").expect("written");
    for file in ["text", "no-such-file", "apps"] {
        let output = inside(checkout.path(), &["timeline", file]);
        refused_with(1, &output, "give a file that `cargo fampi run --trace FILE` has written");
    }
    for file in ["no-such-folder/trace", "apps"] {
        let output = inside(checkout.path(), &["run", "-n", "2", "--trace", file, "--", "true"]);
        refused_with(1, &output, "choose another file for --trace");
    }
    let trace = "{\"traceEvents\":[{\"name\":\"a\",\"cat\":\"life\",\"ph\":\"X\",\"dur\":9}]}";
    fs::write(checkout.path().join("trace"), trace).expect("written");
    let output = inside(checkout.path(), &["timeline", "trace", "--from", "5", "--to", "4"]);
    refused_with(2, &output, "nothing is between 5 and 4 ms");
    let output = inside(checkout.path(), &["timeline", "trace", "--svg", "no-such-folder/it"]);
    refused_with(1, &output, "choose another file for --svg");
    assert!(!checkout.path().join("target").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_anything_is_built() {
    let checkout = bare_checkout();
    fs::write(checkout.path().join("file"), "").expect("written");
    let output = inside(checkout.path(), &["install", "--prefix", "file/below"]);
    refused_with(1, &output, "choose a prefix that is yours");
    let output = inside(checkout.path(), &["sim", "scale", "--plots", "file/below"]);
    refused_with(1, &output, "choose another --plots");
    let output = inside(checkout.path(), &["setup", "--mpi", "no-such-folder"]);
    refused_with(1, &output, "give the one that holds bin/mpicc");
}

#[test]
fn what_cannot_be_started_is_told_before_anything_is_set_up() {
    let checkout = bare_checkout();
    let run = |program| inside(checkout.path(), &["run", "-n", "2", "--", program]);
    fs::write(checkout.path().join("text"), "text").expect("written");
    refused_with(127, &run("./no-such-program"), "there is no program ./no-such-program: check");
    refused_with(127, &run("no-such-program"), "or one of ours (minife)");
    refused_with(127, &run(""), "or one of ours (minife)");
    refused_with(126, &run("./text"), "./text is not executable: if it is a program, `chmod +x");
    refused_with(126, &run("text"), "text is not executable");
    refused_with(126, &run("./apps"), "./apps is no file that can be started");
    refused_with(126, &run("apps"), "apps is no file that can be started");
    assert!(!checkout.path().join("target").exists());
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_measurement() {
    let checkout = bare_checkout();
    for (what, file) in [("commit", "no-such-folder/commit.csv"), ("block", "."), ("recovery", ".")]
    {
        let output = inside(checkout.path(), &["bench", what, "--csv", file]);
        refused_with(1, &output, "choose another file for --csv");
    }
    assert!(!checkout.path().join("target").exists());
}

#[test]
fn the_doctor_needs_an_mpi_and_installs_none() {
    let checkout = bare_checkout();
    let output = inside(checkout.path(), &["doctor"]);
    refused_with(1, &output, "no MPI is set up here: run `cargo fampi setup`, then ask again");
    assert!(!checkout.path().join("target").exists());
}

#[test]
fn who_looks_at_observers_builds_none() {
    let checkout = bare_checkout();
    let output = inside(checkout.path(), &["top", "--once"]);
    refused_with(1, &output, "`cargo fampi run --observer` builds and starts one");
    assert!(!checkout.path().join("target").exists());
}

#[test]
fn outside_a_checkout_the_tool_uses_what_the_user_has() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Not below the workspace, from where it would be found.
    let copy = folder.path().join("fampi");
    // By another process: one that a test beside this one starts meanwhile would have it open.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_fampi")).arg(&copy).status();
    assert!(copied.expect("cp starts").success());
    let mut tool = Command::new(copy);
    tool.arg("doctor").current_dir(folder.path()).env_remove("CARGO_MANIFEST_DIR");
    tool.env("XDG_DATA_HOME", folder.path());
    refused_with(1, &tool.output().expect("the tool starts"), "no MPI is set up here");
}

#[test]
fn every_command_explains_itself() {
    for command in
        ["setup", "doctor", "install", "run", "demo", "test", "sim", "bench", "soak", "timeline"]
    {
        let output = fampi(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: cargo fampi"));
    }
}

#[test]
fn a_figure_that_cannot_be_drawn_is_refused_in_one_sentence() {
    for (line, sentence) in [
        ("--runs 0", "write a number of runs, from 1 to 1000"),
        ("--iterations 3", "write a number of iterations, from 8 to 1000000"),
        ("--protect-every often", "write a number of iterations, or 0 for no copies"),
        ("--minife-ranks 3", "write 4 ranks or more"),
        ("--minife-size 64,64", "write one number of elements"),
        ("--lulesh-ranks 9", "the ranks of LULESH are a cube"),
        ("--lulesh-size -1", "write a number of elements, from 1 to 1000"),
        ("--timeout 0", "write a number of seconds"),
        ("--minife-ranks 100000", "are too many for this machine"),
        ("--paper --lulesh-size 5", "--paper"),
    ] {
        let words: Vec<&str> = ["figure2"].into_iter().chain(line.split(' ')).collect();
        refused(&words, sentence);
    }
}
