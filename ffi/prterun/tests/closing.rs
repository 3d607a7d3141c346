//! A program that is called like the launcher, with something in the place of its libraries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fampi_kit::selection;

/// Runs a command that must succeed and gives what it prints.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [output, errors] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(done.status.success(), "{command:?}\n{output}\n{errors}");
    output.into_owned()
}

/// The library, built for the profile that the tests are built for.
fn mender() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folder = own.ancestors().nth(2).expect("two folders above");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).args(selection::library("fampi-prterun"));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    run(&mut cargo);
    folder.join("libfampi_prterun.so")
}

/// What the program prints under this name, with something else preloaded, too.
fn printed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (events, program) = (folder.join("libevents.so"), folder.join(name));
    let compiler = || {
        let mut command = Command::new("cc");
        command.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-o"]);
        command
    };
    run(compiler().arg(&events).args(["-shared", "-fPIC"]).arg(sources.join("events.c")));
    run(compiler().arg(&program).arg(sources.join("prterun.c")).arg(&events));
    let preloaded = format!("{}:{}", mender().display(), events.display());
    run(Command::new(&program).env("LD_PRELOAD", preloaded))
}

#[test]
fn a_launcher_deletes_what_is_registered_before_it_closes_and_has_room_behind_arrays() {
    let text = printed("prterun");
    let mut lines = text.lines();
    let added: Vec<&str> =
        lines.by_ref().take(4).filter_map(|line| line.strip_prefix("added ")).collect();
    let [_once, kept, deleted, freed] = added[..] else { panic!("{text}") };
    let expected = [
        format!("deleted {deleted}"),
        format!("deleted {freed}"),
        "closing".to_owned(),
        format!("deleted {kept}"),
    ];
    assert_eq!(lines.by_ref().take(4).collect::<Vec<_>>(), expected, "{text}");
    assert_eq!(lines.by_ref().take(2).collect::<Vec<_>>(), ["elements 0", "elements 2"], "{text}");
    let end = lines.next().expect("a last line");
    assert!(end.starts_with("closed, preloaded: ") && end.ends_with("libevents.so"), "{text}");
    assert!(!end.contains("libfampi_prterun"), "nobody else inherits it: {text}");
}

#[test]
fn every_other_program_is_left_alone() {
    let text = printed("program");
    assert!(text.contains("closing\nelements 0\nelements 1\nclosed, preloaded: "), "{text}");
    assert!(text.contains("libfampi_prterun"), "{text}");
}
