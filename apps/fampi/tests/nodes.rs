//! Several nodes under Open MPI's launcher: name spaces of this machine, which take root.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `minife` on four ranks, with these options of `fampi run`.
fn minife(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fampi"));
    command.args(["run", "--launcher", "mpirun", "--timeout", "100", "-n", "4"]).args(options);
    let built = Path::new(env!("CARGO_BIN_EXE_fampi")).with_file_name("minife");
    // As the tests of the workspace have built it; or its name, and the tool builds it.
    let program = if built.is_file() { built } else { "minife".into() };
    command.arg("--").arg(program).args(["nx=20", "yaml=none"]);
    command.output().expect("the tool starts")
}

/// The last line, with the digits of the result, of a run that ended in order.
fn digits(output: &Output) -> String {
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{said}{errors}");
    said.lines().last().expect("a result").to_owned()
}

fn has_name_spaces() -> bool {
    let made = Command::new("ip").args(["netns", "add", "fampi-test"]).output();
    let made = made.is_ok_and(|made| made.status.success());
    if made {
        let gone = Command::new("ip").args(["netns", "delete", "fampi-test"]).status();
        assert!(gone.expect("ip").success());
    } else {
        eprintln!("skipped: name spaces take root and iproute2");
    }
    made
}

#[test]
fn heads_and_others_of_two_and_three_nodes_die_and_no_digit_changes() {
    if !has_name_spaces() {
        return;
    }
    let alone = digits(&minife(&[]));
    assert_eq!(digits(&minife(&["--nodes", "2"])), alone, "nobody dies");
    // Ranks are placed in turns: 0 and 1 are the first of their nodes.
    for (nodes, kills) in [
        ("2", &["0@iteration:9"][..]),
        ("2", &["3@iteration:9"]),
        ("3", &["0@iteration:9", "1@iteration:30"]),
    ] {
        let mut options = vec!["--nodes", nodes, "--spares", "2"];
        options.extend(kills.iter().flat_map(|kill| ["--kill", kill]));
        assert_eq!(digits(&minife(&options)), alone, "{nodes} nodes, {kills:?}");
    }
}
