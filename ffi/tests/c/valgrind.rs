//! The programs under valgrind, where it is installed: it must find nothing of ours.
//!
//! MPI has findings of its own. One is ours when the first place that is not in the C library, or
//! in what valgrind puts before it, is in libfampi or in the program.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use fampi_kit::launch::Launch;

use crate::build::{Link, program};

/// Libraries that others use; where their sources are known, these are named instead.
const USED: [&str; 3] = ["vgpreload_memcheck", "libc.so", "ld-linux"];

/// The errors of a log in which fampi is to blame, or a program made of this file.
fn ours(log: &str, program: &str) -> Vec<String> {
    let files = [".rs:", "libfampi", "check.h:", program];
    // Without the number of the process in front of each line.
    let lines = log.lines().map(|line| line.trim_start_matches(['=', '-']));
    let said: Vec<&str> =
        lines.map(|line| line.split_once("== ").map_or("", |(_, said)| said)).collect();
    let errors = said.split(|line| line.trim().is_empty());
    let is_ours = |error: &&[&str]| {
        let mut places = error.iter().map(|line| line.trim_start()).filter(|line| {
            let is_place = line.starts_with("at 0x") || line.starts_with("by 0x");
            is_place && !USED.iter().any(|used| line.contains(used))
        });
        let own = |place: &str| files.iter().any(|file| place.contains(file));
        places.find(|place| own(place) || place.contains("(in /")).is_some_and(own)
    };
    errors.filter(is_ours).map(|error| error.join("\n")).collect()
}

fn is_installed() -> bool {
    let mut valgrind = Command::new("valgrind");
    let quiet = valgrind.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[test]
fn valgrind_finds_nothing_of_ours() {
    if !is_installed() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let deaths = (5, &["halo"][..], 3, ": survived");
    for (name, (ranks, words, lines, said)) in [
        ("misuse", (2, &[][..], 2, ": passed")),
        ("blocks", (2, &[], 2, ": passed")),
        ("deaths", deaths),
    ] {
        let program = program(&[&format!("tests/programs/{name}.c")], Link::Shared, &[]);
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("valgrind-{name}"));
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs).expect("a folder for what it says");
        let mut line = vec![
            "--num-callers=30".to_owned(),
            "--leak-check=no".to_owned(),
            format!("--log-file={}/%p", logs.display()),
            program.to_string_lossy().into_owned(),
        ];
        line.extend(words.iter().map(|word| (*word).to_owned()));
        let run = Launch::new("valgrind", ranks).words(line).limit(150).run();
        let found = run.output.lines().filter(|line| line.contains(said)).count();
        assert_eq!(found, lines, "{run}");
        let mut read = 0;
        for log in fs::read_dir(&logs).expect("logs").flatten() {
            let text = fs::read_to_string(log.path()).expect("a log");
            read += usize::from(text.contains("Memcheck"));
            let ours = ours(&text, &format!("{name}.c:"));
            assert!(ours.is_empty(), "{name}:\n{}", ours.join("\n\n"));
        }
        assert_eq!(read, ranks as usize, "each rank was watched");
    }
}

#[test]
fn a_finding_of_ours_is_told_from_one_of_mpi() {
    let text = "==7== Invalid read of size 8\n\
                ==7==    at 0x1: memcpy (in /x/vgpreload_memcheck.so)\n\
                ==7==    by 0x2: FAMPI_Init (block.rs:3)\n==7== \n==7== Invalid write of size 8\n\
                ==7==    at 0x3: writev (writev.c:26)\n\
                ==7==    by 0x3: PMPI_Init (in /x/libmpi.so.40)\n==7==    by 0x4: main (a.c:3)\n";
    let found = ours(text, "a.c:");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("FAMPI_Init"));
}
