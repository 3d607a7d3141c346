//! Jobs of which all ranks die, and that go on from their checkpoints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A program as the tests of the workspace have built it; or its name, which the tool builds.
fn built(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_fampi")).with_file_name(name);
    if built.is_file() { built } else { name.into() }
}

/// Runs or restarts one of the applications.
fn fampi(words: &[&str], program: &[&str]) -> Output {
    let (name, arguments) = program.split_first().expect("a program");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
    tool.args(words).args(["--timeout", "100", "--"]).arg(built(name)).args(arguments);
    tool.stdin(Stdio::null()).output().expect("the tool starts")
}

fn said(output: &Output) -> String {
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{said}{errors}")
}

/// The last line, with the digits of the result, of a run that ended in order.
#[track_caller]
fn digits(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
    last.expect("a result")
}

fn checkpoints(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        names.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "ckpt"));
    names.sort();
    names
}

#[test]
fn a_job_whose_ranks_all_die_goes_on_from_its_checkpoint_with_the_same_digits() {
    let shared = &["--checkpoint-files", "job", "--checkpoint-compress"][..];
    for (ranks, program, kill, how) in [
        ("4", ["minife", "nx=20", "yaml=none"], "iteration:40", &[][..]),
        ("8", ["lulesh", "-s", "4"], "cycle:60", shared),
    ] {
        let undisturbed = digits(&fampi(&["run", "-n", ranks], &program));
        let home = tempfile::tempdir().expect("a temporary folder");
        let place = home.path().join("states");
        let folder = place.to_str().expect("a name");
        let kills: Vec<String> = (0..ranks.parse().expect("a number"))
            .map(|rank: u32| format!("kill={rank}@{kill}"))
            .collect();
        let words: Vec<&str> = program
            .into_iter()
            .chain(["protect-every=5"])
            .chain(kills.iter().map(|it| &**it))
            .collect();
        let options = [&["-n", ranks, "--checkpoint-every", "10"], how].concat();
        let lost = fampi(&[&["run", "--checkpoint", folder], &options[..]].concat(), &words);
        assert!(!lost.status.success(), "all ranks were killed: {}", said(&lost));
        let there = checkpoints(&place);
        let all_in_one = there.iter().all(|name| name.contains("-0-to-7-of-8"));
        assert!(!there.is_empty() && all_in_one != how.is_empty(), "{}", said(&lost));

        // Neither by mistake from the beginning, nor with ranks that cannot take it: LULESH cannot
        // be divided anew, and MiniFE knows its problem.
        let again = fampi(&[&["run", "--checkpoint", folder], &options[..]].concat(), &program);
        assert!(!again.status.success() && said(&again).contains("checkpoints of an earlier job"));
        let others = if program[0] == "minife" {
            vec![("1", vec!["minife", "nx=18", "yaml=none"], "is not of 18 × 18 × 18 elements")]
        } else {
            let another = |edge| vec!["lulesh", "-s", edge];
            vec![
                ("1", program.to_vec(), "has no complete checkpoint of 1 ranks"),
                (ranks, another("5"), "is not of 8 ranks with 5³ elements each"),
                (ranks, another("9"), "is not of 8 ranks with 9³ elements each"),
                (ranks, [&program[..], &["i=1"]].concat(), "before cycle 1; start with"),
            ]
        };
        for (ranks, words, sentence) in others {
            let other = fampi(&["restart", folder, "-n", ranks], &words);
            assert!(!other.status.success(), "{}", said(&other));
            // By one rank, and without what the library makes of it.
            assert_eq!(said(&other).matches(sentence).count(), 1, "{}", said(&other));
            assert!(!said(&other).contains("code 1001"), "{}", said(&other));
        }
        assert_eq!(checkpoints(&place), there);

        let whole = fampi(&[&["restart", folder], &options[..]].concat(), &program);
        assert_eq!(digits(&whole), undisturbed, "from {there:?}");
        let newest = checkpoints(&place);
        assert!(newest.last() > there.last(), "{newest:?}");

        // A part that was cut short is not taken.
        let part = place.join(newest.last().expect("a checkpoint"));
        let content = fs::read(&part).expect("read");
        fs::write(&part, &content[..content.len() - 3]).expect("written");
        let damaged = fampi(&["restart", folder, "-n", ranks], &program);
        assert!(!damaged.status.success(), "{}", said(&damaged));
        assert!(said(&damaged).contains("has no complete checkpoint"), "{}", said(&damaged));
        let told = format!("{} is damaged", part.display());
        assert!(said(&damaged).contains(&told), "{}", said(&damaged));
    }
}

#[test]
fn a_state_that_is_lost_with_its_partner_comes_from_the_checkpoint_with_the_same_digits() {
    let program = ["minife", "nx=20", "yaml=none", "protect-every=5"];
    let undisturbed = digits(&fampi(&["run", "-n", "4"], &program));
    // Where all ranks are on one node, the partner of rank 1 of four is rank 3.
    let kills = ["kill=1@iteration:40", "kill=3@iteration:40"];
    let dying = [&program[..], &kills].concat();
    let lost = fampi(&["run", "-n", "4"], &dying);
    assert!(!lost.status.success(), "{}", said(&lost));
    assert!(said(&lost).contains("it and its partner, rank 3, both failed"), "{}", said(&lost));
    let mut sizes = Vec::new();
    for (whose, smaller) in [("rank", &[][..]), ("node", &["--checkpoint-compress"])] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = home.path().to_str().expect("a name");
        let how = ["--checkpoint", folder, "--checkpoint-every", "10", "--checkpoint-files", whose];
        let words = [&["run", "-n", "4", "--spares", "2"], &how[..], smaller].concat();
        let output = fampi(&words, &dying);
        assert_eq!(digits(&output), undisturbed, "{}", said(&output));
        let names = checkpoints(home.path());
        assert!(names.iter().all(|name| name.starts_with("fampi-000002-")), "{names:?}");
        assert_eq!(names.len(), if whose == "rank" { 4 } else { 1 }, "{names:?}");
        let size = |name: &String| fs::metadata(home.path().join(name)).expect("there").len();
        sizes.push(names.iter().map(size).sum::<u64>());
    }
    assert!(sizes[1] < sizes[0], "compressed: {sizes:?}");
}

/// What a line says of a number.
fn number(line: &str, name: &str) -> f64 {
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.expect("a number of this name").parse().expect("a number")
}

#[test]
fn minife_goes_on_with_more_or_fewer_ranks() {
    let program = ["minife", "nx=20", "yaml=none"];
    let undisturbed = digits(&fampi(&["run", "-n", "4"], &program));
    let home = tempfile::tempdir().expect("a temporary folder");
    let place = home.path().join("states");
    let folder = place.to_str().expect("a name");
    let mut command = vec!["run", "--checkpoint", folder];
    let mut before = 0;
    for (ranks, iteration) in [("4", 30), ("3", 45), ("7", 60), ("1", 0)] {
        command.extend(["-n", ranks, "--checkpoint-every", "5"]);
        let kills: Vec<String> = (0..ranks.parse().expect("a number"))
            .map(|rank: u32| format!("kill={rank}@iteration:{iteration}"))
            .collect();
        let words = program.into_iter().chain(["protect-every=5"]);
        let dying = kills.iter().map(|it| &**it).filter(|_| iteration > 0);
        let output = fampi(&command, &words.chain(dying).collect::<Vec<_>>());
        command = vec!["restart", folder];
        if iteration == 0 {
            let last = digits(&output);
            for (name, within) in [("iterations", 0.0), ("residual", 1e-6), ("max_error", 1e-12)] {
                let [found, expected] = [&last, &undisturbed].map(|line| number(line, name));
                assert!((found - expected).abs() <= within * expected, "{name}: {last}");
            }
            continue;
        }
        assert!(!output.status.success(), "all ranks were killed: {}", said(&output));
        let newest = checkpoints(&place).pop().expect("a checkpoint");
        assert!(newest.ends_with(&format!("-of-{ranks}.ckpt")), "{newest}");
        let steps: u32 = newest.split('-').nth(2).expect("steps").parse().expect("a number");
        assert!(steps > before, "each job saves what is newer: {newest}");
        before = steps;
    }
}

#[test]
fn no_two_jobs_save_in_one_folder() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().to_str().expect("a name");
    let run = |program: &[&str]| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_fampi"));
        tool.args(["run", "-n", "1", "--checkpoint", folder, "--"]).args(program);
        tool.stdin(Stdio::null());
        tool
    };
    let begun = home.path().join("begun");
    let program = ["sh", "-c", "touch \"$0\"; sleep 5", begun.to_str().expect("a name")];
    let mut first = run(&program).spawn().expect("the tool starts");
    let waiting = Instant::now();
    while !begun.exists() {
        assert!(waiting.elapsed() < Duration::from_secs(60), "the first job has begun");
        thread::sleep(Duration::from_millis(10));
    }
    let mut second = run(&["true"]).output().expect("the tool starts");
    assert_eq!(second.status.code(), Some(2), "{}", said(&second));
    assert!(said(&second).contains("and has not ended: wait for it"), "{}", said(&second));
    // Its job goes on, and has the folder still.
    thread::sleep(Duration::from_secs(1));
    first.kill().expect("it is there");
    first.wait().expect("it was started");
    second = run(&["true"]).output().expect("the tool starts");
    assert_eq!(second.status.code(), Some(2), "{}", said(&second));
    let begun = Instant::now();
    while !run(&["true"]).status().expect("the tool starts").success() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the job has ended");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn folders_that_will_not_do_are_refused_in_one_sentence() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let [empty, file] = ["empty", "file"].map(|name| home.path().join(name));
    fs::create_dir(&empty).expect("made");
    fs::write(&file, "text").expect("written");
    let [none, below] = [home.path().join("none"), file.join("below")];
    let names = [&empty, &file, &none, &below].map(|path| path.to_str().expect("a name"));
    let [empty, file, none, below] = names;
    for (words, sentence) in [
        (&["restart", empty, "-n", "2"][..], "has no checkpoint to go on from"),
        (&["restart", file, "-n", "2"], "is no folder; name one"),
        (&["restart", none, "-n", "2"], "is not there; name the folder of a job"),
        (&["run", "-n", "2", "--checkpoint", file], "is no folder; name one"),
        (&["run", "-n", "2", "--checkpoint", below], "cannot be made"),
        (&["run", "-n", "2", "--checkpoint-every", "3"], "say where checkpoints go"),
        (&["run", "-n", "2", "--checkpoint-compress"], "say where checkpoints go"),
        (&["run", "-n", "2", "--checkpoint", "x", "--checkpoint-files", "rack"], "rank, node, job"),
        (&["run", "-n", "2", "--checkpoint", "x", "--checkpoint-every", "0"], "a number of steps"),
        (
            &["restart", empty, "-n", "2", "--checkpoint", "x"],
            "leave --checkpoint and --restart out",
        ),
    ] {
        let refused = fampi(words, &["minife"]);
        assert!(!refused.status.success(), "{words:?}");
        assert!(said(&refused).contains(sentence), "{words:?}: {}", said(&refused));
    }
}
