//! Which command lines are understood, and what is said about the others.

use harness::kill_plan::Mode;

use super::*;
use crate::kill_plan;

fn run(line: &str) -> Options {
    match Options::parse(line.split_whitespace()) {
        Ok(Request::Run(options)) => *options,
        other => panic!("'{line}' gives {other:?}"),
    }
}

#[test]
fn every_option_is_understood() {
    assert_eq!(run(""), Options::default());
    let line = "n=5 --type i64 seed:7 input=zipf parts 16 --owners=paper pivot=medians \
                split=strict local=comparison store=copies recovery=rebuild repeat=3 output=out \
                progress slow=2@round:4:400:2 rejoin=off probation=off kill=1@merge:2:exit";
    let options = run(line);
    assert_eq!(options.keys, Keys { count: 5, seed: 7, input: Input::Zipf });
    assert_eq!((options.key_type, options.parts), (KeyType::I64, Some(16)));
    assert_eq!((options.owners, options.pivot), (Rule::Paper, Pivot::Medians));
    assert_eq!((options.split, options.local), (Split::Strict, Local::Comparison));
    assert_eq!((options.store, options.repeat, options.progress), (Store::Copies, 3, true));
    assert_eq!(options.faults.recovery, Recovery::Rebuild);
    assert_eq!(options.faults.kills.due(1, kill_plan::MERGE, 2), Some(Mode::Exit));
    let time = Duration::from_millis(400);
    assert_eq!(options.slow, [Slow { rank: 2, round: 4, time, rounds: 2 }]);
    let slow = [3, 4, 5, 6].map(|round| options.slowness(2, round));
    assert_eq!(slow, [Duration::ZERO, time, time, Duration::ZERO]);
    assert_eq!(options.slowness(1, 4), Duration::ZERO);
    assert_eq!((options.rejoin, options.probation), (false, false));
}

#[test]
fn one_word_makes_the_sort_of_the_paper() {
    let options = run("paper folder=lists");
    assert_eq!((options.owners, options.pivot), (Rule::Paper, Pivot::Root));
    assert_eq!((options.split, options.store), (Split::Strict, Store::Files));
}

#[test]
fn what_cannot_be_followed_is_said_in_one_sentence() {
    for (line, complaint) in [
        ("lunch=1", "there is no option 'lunch=1'"),
        ("n", "needs a value"),
        ("n=-1", "'n' cannot be '-1', it needs a whole number"),
        ("n=1e6x", "a whole number"),
        ("parts=3", "a power of two up to 4096"),
        ("parts=8192", "a power of two up to 4096"),
        ("type=f64", "i32 or i64"),
        ("store=prayer", "lineage, copies or files"),
        ("store=files", "store=files needs a folder"),
        ("recovery=merge", "none or rebuild"),
        ("kill=1@lunch:1", "'lunch' is not a phase"),
        ("slow=1@lunch:1:1", "RANK@round:K:MS[:ROUNDS]"),
        ("slow=1@round:0:1", "RANK@round:K:MS[:ROUNDS]"),
        ("repeat=0", "at least 1"),
        ("input=nothing", "there is no input 'nothing', and no file of this name can be read"),
        ("n=3000000000 input=sorted", "take type=i64"),
    ] {
        let error = Options::parse(line.split_whitespace()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{line}: {error}");
    }
}

#[test]
fn ranks_that_do_not_fit_are_refused() {
    assert_eq!(run("").way(6).unwrap().parts, 8);
    assert_eq!(run("parts=64").way(6).unwrap().rounds(), 6);
    assert_eq!(run("").way(1).unwrap().rounds(), 0);
    for (line, complaint) in [
        ("parts=4", "parts must be a power of two from 6 to 4096"),
        ("kill=6@local:1", "names a rank that does not exist, there are 6 ranks"),
        ("slow=6@round:1:1", "slow names rank 6, and there are 6 ranks"),
        ("n=1000000000000000", "at least"),
    ] {
        let error = run(line).way(6).unwrap_err().to_string();
        assert!(error.contains(complaint), "{line}: {error}");
    }
}

#[test]
fn a_file_says_how_many_keys_there_are() {
    let path = std::env::temp_dir().join(format!("hyperquicksort-{}", std::process::id()));
    std::fs::write(&path, [0; 12]).unwrap();
    let line = format!("input={}", path.display());
    assert_eq!(run(&line).keys.count, 3);
    for (words, complaint) in [
        ("type=i64", "has 12 bytes, which are not a whole number of 8"),
        ("n=4", "3 keys and not n=4"),
    ] {
        let error = Options::parse([&line, words]).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
}
