//! `HyperQuickSort` on real ranks that really die: the digests of the specification for all options
//! that must not change them, and after every plan of deaths.
//!
//! `FAMPI_PLANS=50 cargo test --release -p hyperquicksort --test resilience -- random_plans` runs
//! more random plans; each failure prints the line that repeats it.

use std::path::{Path, PathBuf};

use fampi::sim::Draw;
use fampi_kit::launch::{Launch, Run};
use serial_test::{parallel, serial};

/// Small enough for dozens of runs.
const COUNT: &str = "n=100000";
const DIGEST: &str = "ef5386b1985cbcee";

fn sort(ranks: u32, words: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hyperquicksort"), ranks);
    launch.words(words.split_whitespace())
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// The value of a name in the last line.
#[track_caller]
fn said<'a>(run: &'a Run, name: &str) -> &'a str {
    let line = run.output.lines().last().and_then(|line| line.strip_prefix("hyperquicksort: "));
    let mut words = line.unwrap_or_else(|| panic!("no final line: {run}")).split(' ');
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name}: {run}"))
}

#[track_caller]
fn has_digest(run: &Run, digest: &str) {
    assert_eq!((run.status, said(run, "digest")), (0, digest), "{run}");
}

/// Runs with deaths and compares with the run without any.
#[track_caller]
fn survives(launch: &Launch, left: usize) -> Run {
    let run = launch.run();
    has_digest(&run, DIGEST);
    assert!(run.orderly >= left, "{run}");
    run
}

/// Nothing but one sentence and an exit status.
#[track_caller]
fn is_refused(launch: &Launch, complaint: &str) {
    let run = launch.run();
    assert!(run.status != 0 && run.output.is_empty(), "{run}");
    let mut said = run.errors.lines().filter(|line| line.starts_with("hyperquicksort: "));
    assert!(said.next().is_some_and(|line| line.contains(complaint)), "{run}");
    assert_eq!(said.next(), None, "{run}");
}

#[test]
#[parallel]
fn the_digests_of_the_specification_come_out_of_real_ranks() {
    for (words, expected) in [
        ("n=1000", "min=-2145035714 median=140804066 max=2140834161 digest=9eaf8470130d4835"),
        ("n=1000 type=i64", "max=9194812707812412316 digest=b06579a284fdbe04"),
        ("n=1000 input=few", "max=15 digest=2c9f4164338ca263"),
        ("n=1000 input=sorted", "min=0 median=500 max=999 digest=b36bc938fc870b49"),
        ("n=1000 input=reverse", "min=0 median=500 max=999 digest=b36bc938fc870b49"),
        ("n=1000 input=equal", "min=42 median=42 max=42 digest=7e6fc7661a37b19a"),
        ("n=100000", "min=-2147401308 median=-1637031 max=2147380551 digest=ef5386b1985cbcee"),
        ("n=100000 type=i64", "max=9222929241818615294 digest=72eb7d0d37e878f6"),
        ("n=100000 input=few", "max=15 digest=f9bd4a03e9c4250e"),
        ("n=100000 input=sorted", "max=99999 digest=712ca114e74b22e4"),
        ("n=100000 input=reverse type=i64", "max=99999 digest=712ca114e74b22e4"),
        ("n=100000 input=equal", "max=42 digest=48f341bed14ca53f"),
        ("n=1000000", "min=-2147472146 median=-3621186 max=2147478455 digest=90b8b547893cdff1"),
        ("n=1024000", "min=-2147472146 median=-3249731 max=2147478455 digest=04b2b2444415f0cd"),
    ] {
        let run = sort(4, words).run();
        let line = run.expect_orderly(4).output.lines().last().unwrap_or_default();
        assert!(line.ends_with(expected), "{run}");
    }
}

#[test]
#[parallel]
fn no_number_of_ranks_and_no_option_changes_the_digest() {
    for ranks in [1, 2, 3, 6, 8, 16] {
        has_digest(&sort(ranks, COUNT).run(), DIGEST);
    }
    let lists = folder("digest-lists");
    for words in [
        "parts=64",
        "pivot=root split=strict",
        "pivot=medians owners=paper",
        "local=comparison store=copies",
        "repeat=3",
        "fault-tolerance=off",
        "fault-tolerance=off pivot=root split=strict parts=32",
        "algorithm=samplesort",
        &format!("store=files folder={}", lists.display()),
        &format!("paper folder={}", lists.display()),
    ] {
        has_digest(&sort(6, COUNT).words(words.split(' ')).run(), DIGEST);
    }
    assert!(!lists.exists(), "the files are removed");
}

#[test]
#[parallel]
fn few_keys_or_none_are_sorted_like_many() {
    let none = sort(8, "n=0").run();
    assert_eq!((said(&none, "min"), said(&none, "digest")), ("none", "0000000000000000"));
    let one = sort(3, "n=1 input=sorted").run();
    assert_eq!((said(&one, "median"), said(&one, "keys")), ("0", "1"), "{one}");
    let alone = sort(1, "n=5").run();
    for words in ["n=5", "n=5 fault-tolerance=off", "n=5 algorithm=samplesort"] {
        has_digest(&sort(8, words).run(), said(&alone, "digest"));
    }
}

#[test]
#[parallel]
fn a_file_is_sorted_into_a_file_also_when_a_rank_dies() {
    let folder = folder("file");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (from, to) = (folder.join("keys"), folder.join("sorted"));
    let mut keys: Vec<i64> = (0..50_000).map(|key| key * 48_271 % 65_537 - 30_000).collect();
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    std::fs::write(&from, bytes).expect("written");
    keys.sort_unstable();
    let expected: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let words = format!("input={} output={} type=i64", from.display(), to.display());
    for kill in ["", "kill=1@exchange:2", "fault-tolerance=off"] {
        let run = sort(4, &words).words(kill.split_whitespace()).run();
        assert_eq!(run.status, 0, "{run}");
        assert!(std::fs::read(&to).expect("written") == expected, "{run}");
        std::fs::remove_file(&to).expect("it is there");
    }
    // Into its own place: a rank that dies needs the keys as they were.
    for kill in ["", "kill=1@exchange:2", "algorithm=samplesort"] {
        std::fs::copy(&from, &to).expect("copied");
        let words = format!("input={0} output={0} type=i64 {kill}", to.display());
        assert_eq!(sort(4, &words).run().status, 0, "{kill}");
        assert!(std::fs::read(&to).expect("written") == expected, "{kill}");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2, "nothing beside it");
}

#[test]
#[parallel]
fn files_of_others_and_a_folder_that_was_there_stay() {
    let folder = folder("theirs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let words = format!("{COUNT} store=files folder={} kill=2@exchange:2", folder.display());
    survives(&sort(4, &words), 3);
    assert!(folder.is_dir());
    for name in ["1.2.3", "2026.11.29", "1.2.3.part"] {
        std::fs::write(folder.join(name), "").expect("written");
    }
    survives(&sort(4, &words), 3);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 3);
}

#[test]
#[parallel]
fn every_rank_may_die_in_every_phase() {
    for (rank, death) in [
        "local:1",
        "pivot:1",
        "exchange:2",
        "merge:3",
        "store:1",
        "finish:2",
        "update:3",
        "pivot:3",
    ]
    .iter()
    .enumerate()
    {
        survives(&sort(8, COUNT).words([format!("kill={rank}@{death}")]), 7);
    }
}

#[test]
#[parallel]
fn every_way_to_die_and_every_store_is_survived() {
    let lists = folder("mode-lists");
    for (store, mode) in [
        ("lineage", "kill"),
        ("lineage", "exit"),
        ("copies", "segv"),
        ("copies", "panic"),
        ("files", "kill"),
        ("files", "exit"),
    ] {
        let words = format!("{COUNT} store={store} folder={}", lists.display());
        survives(&sort(4, &words).words([format!("kill=2@exchange:2:{mode}")]), 3);
    }
    assert!(!lists.exists(), "also those of the dead");
}

#[test]
#[parallel]
fn two_at_once_partners_too_and_one_in_the_recovery_of_the_other() {
    for kills in [
        "kill=0@exchange:1 kill=4@exchange:1",
        "kill=2@merge:3 kill=3@merge:3",
        "kill=5@finish:2:segv kill=6@pivot:2",
        "kill=1@exchange:2 kill=3@recovery:1",
        "kill=0@local:1 kill=1@recovery:1 kill=2@recovery:2",
    ] {
        survives(&sort(8, COUNT).words(kills.split(' ')), 5);
    }
}

#[test]
#[parallel]
fn all_but_one_may_die() {
    let lists = folder("last-lists");
    for (survivor, store, at_once) in
        [(0, "lineage", false), (5, "lineage", true), (7, "files", false), (3, "files", true)]
    {
        let words = format!("{COUNT} store={store} folder={}", lists.display());
        let others = (0..8).filter(|rank| *rank != survivor).enumerate();
        let kills = others.map(|(at, rank)| {
            let round = if at_once { 1 } else { 1 + at % 3 };
            format!("kill={rank}@exchange:{round}")
        });
        let run = survives(&sort(8, &words).words(kills).ignoring_statuses(), 1);
        assert!(run.output.contains("ranks lost: 7,"), "{run}");
    }
}

#[test]
#[parallel]
fn replacements_take_the_places_of_the_dead() {
    for (spares, words) in [
        (2, "kill=2@exchange:2 kill=5@merge:3"),
        (1, "store=copies kill=0@exchange:1 kill=3@pivot:3"),
        (0, "kill=6@finish:1"),
    ] {
        let launch = sort(8, COUNT).words(["recovery=rebuild"]).words(words.split(' '));
        survives(&launch.spares(spares), 8);
    }
}

#[test]
#[parallel]
fn rounds_count_on_over_repetitions_and_a_slow_rank_only_takes_time() {
    let run = survives(&sort(4, COUNT).words(["repeat=3", "kill=1@merge:5"]), 3);
    assert!(run.output.contains("ranks lost: 1,"), "{run}");
    let run = survives(&sort(4, COUNT).words(["repeat=2", "slow=2@round:2:150:2"]), 4);
    assert!(run.took.as_millis() >= 300, "{run}");
}

/// How often ranks were benched, and came back.
#[track_caller]
fn benched_and_back(run: &Run) -> (u32, u32) {
    let line = run.output.lines().find_map(|line| line.strip_prefix("benched: "));
    let numbers = line.and_then(|line| {
        let (benched, rest) = line.split_once(", back: ")?;
        Some((benched.parse().ok()?, rest.split_once(',')?.0.parse().ok()?))
    });
    numbers.unwrap_or_else(|| panic!("nothing is said of it: {run}"))
}

/// How often ranks are benched, and come back, in a sort of which these are the words. Tests are 20
/// ms apart, and ten in a row are enough.
#[track_caller]
fn tested(words: &str) -> (u32, u32) {
    let observer = Path::new(env!("CARGO_BIN_EXE_hyperquicksort")).with_file_name("fampi-observer");
    let advice = "this test needs `cargo build --package fampi-detector` before it";
    assert!(observer.is_file(), "{advice}");
    let launch = sort(4, "n=1000000 repeat=40 membership=tests").words(words.split(' '));
    let launch = launch.variable("FAMPI_OBSERVER", &observer.display());
    let run = launch.variable("FAMPI_DIAGNOSIS", &"20ms:2.5:10").run();
    has_digest(&run, "90b8b547893cdff1");
    benched_and_back(&run)
}

/// The others wait for the rank that is stopped. No other launch takes processor time from this
/// one, as an accusation is void once the rank has passed ten tests.
#[test]
#[serial]
fn a_slow_rank_is_benched_and_comes_back_unless_it_may_not() {
    let (benched, back) = tested("slow=2@round:15:600");
    assert!(benched > 0 && back > 0, "benched {benched} times, back {back} times");
    // It writes its list when all others have done so, and they do not trust it any more.
    let folder = folder("late");
    let words = format!("slow=2@round:15:600 rejoin=off store=files folder={}", folder.display());
    let (benched, back) = tested(&words);
    assert!(benched > 0 && back == 0, "benched {benched} times, back {back} times");
}

#[test]
#[serial]
fn a_replacement_works_when_it_has_passed_its_tests() {
    let (benched, back) = tested("recovery=rebuild kill=1@merge:3");
    assert!(benched > 0 && back > 0, "benched {benched} times, back {back} times");
}

#[test]
#[parallel]
fn a_list_that_is_lost_with_its_copy_ends_the_run_with_one_sentence() {
    let launch = sort(4, "n=1000 store=copies kill=2@exchange:2 kill=3@exchange:2");
    is_refused(&launch, "those of parts 2, 3");
}

#[test]
#[parallel]
fn what_cannot_be_done_is_refused_in_one_sentence_and_nothing_is_written() {
    let folder = folder("refused");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("odd"), [1; 7]).expect("written");
    for (words, complaint) in [
        ("lunch=1", "there is no option 'lunch=1'"),
        ("n=-1", "a whole number"),
        ("membership=all", "failures or tests"),
        ("rejoin=perhaps", "on or off"),
        ("probation=perhaps", "on or off"),
        ("n=1e6x", "a whole number"),
        ("parts=3", "a power of two"),
        ("parts=2", "parts must be a power of two from 4"),
        ("kill=8@local:1", "names a rank that does not exist, there are 4 ranks"),
        ("input=nothing", "no file of this name can be read"),
        ("input=odd", "has 7 bytes"),
        ("store=files", "store=files needs a folder"),
        ("store=files folder=odd", "the folder with lists cannot be made"),
        ("output=nowhere/sorted n=10", "the output nowhere/sorted cannot be written"),
    ] {
        is_refused(&sort(4, words).inside(&folder), complaint);
    }
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
}

#[test]
#[parallel]
fn random_plans() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let plans = number("FAMPI_PLANS").unwrap_or(3);
    // A new one each time would make the ordinary run a lottery.
    let first = number("FAMPI_PLAN_SEED").unwrap_or(1);
    for seed in first..first + plans {
        let mut draw = Draw(seed);
        let ranks = draw.one_of(&[3, 4, 5, 6, 8]);
        let store = draw.one_of(&["lineage", "lineage", "files"]);
        let lists = folder("random-lists");
        let mut words = vec![format!("store={store}"), format!("folder={}", lists.display())];
        let mut struck = Vec::new();
        for _ in 0..=draw.below(u64::from(ranks) - 1) {
            let rank = draw.below(u64::from(ranks));
            if struck.len() as u32 + 1 < ranks && !struck.contains(&rank) {
                struck.push(rank);
                let phases = ["pivot", "exchange", "merge", "store", "finish", "update"];
                let (phase, round) = (draw.one_of(&phases), 1 + draw.below(4));
                let mode = draw.one_of(&["kill", "segv", "exit", "panic"]);
                words.push(format!("kill={rank}@{phase}:{round}:{mode}"));
            }
        }
        println!("plan {seed}: {ranks} ranks, {}", words.join(" "));
        let again = format!(
            "FAMPI_PLANS=1 FAMPI_PLAN_SEED={seed} cargo test --release -p hyperquicksort --test \
             resilience -- random_plans --nocapture"
        );
        let launch = sort(ranks, COUNT).words(["repeat=2"]).words(words).ignoring_statuses();
        let run = std::panic::catch_unwind(|| survives(&launch, 1));
        assert!(run.is_ok(), "plan {seed} failed; REPRODUCE WITH: {again}");
    }
}
