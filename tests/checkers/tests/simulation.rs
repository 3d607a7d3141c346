//! Whole programs on simulated ranks: the real engine and interface, with deaths cut anywhere.
//!
//! Each seed draws a job (ranks, spares, latencies, deaths of processes and nodes, a sequence of
//! rounds of many kinds): first a storm, then a calm in which everything must complete. Checked
//! are agreement (all living ranks hold the same verdict and report of every block), validity (a
//! committed block had no *no*), isolation (a completed receive holds what was sent in the same
//! attempt of the same block, a window what committed blocks have put), restored states and
//! termination.
//!
//! `cargo fampi sim` runs more seeds, and makes one that fails smaller; `src/swarm.rs` is its program.

use std::fmt::{Debug, Display};

use fampi::{
    protocol::planted::{self, Bug},
    sim::CrashPoint,
};
use fampi_checkers::{
    cases,
    simulation::{
        checks,
        forest::{Forest, Seen},
        found,
        guests::{self, Guests},
        job::{Job, RANKS},
        runs::RunJob,
        shrink,
    },
};
use fampi_kit::seeds::each_seed;

/// How many seeds run when nobody says how many.
const SEEDS: u64 = 20_000;
/// The same for jobs that a policy drives.
const RUNS: u64 = 6_000;
/// The same for derived communicators.
const FORESTS: u64 = 12_000;
/// The same for programs that own their MPI.
const GUESTS: u64 = 3_000;

#[test]
fn thousands_of_jobs_end_with_one_story_on_all_living_ranks() {
    let seeds = seeds(SEEDS);
    let began = std::time::Instant::now();
    let tally = std::sync::Mutex::new(checks::Tally::default());
    let ended = each_seed(0, seeds, |seed| {
        let seen = Job::drawn_from(seed, &RANKS).run()?;
        tally.lock().expect("no panic holds it").add(&seen);
        Ok(())
    });
    if let Err((seed, violation)) = ended {
        let violation: String = violation;
        let (small, again) = shrink::shrink(Job::drawn_from(seed, &RANKS), violation.clone());
        panic!("seed {seed}: {violation}\n{again}:\ncargo fampi sim --job '{small}'");
    }
    let tally = tally.into_inner().expect("no panic holds it");
    println!("{seeds} seeds in {:?}: {tally}", began.elapsed());
    if seeds >= 1000 {
        tally.assert_everything_happened();
    }
}

#[test]
fn runs_under_all_policies_end_as_without_failures_or_with_one_error() {
    let seeds = seeds(RUNS);
    let seen = std::sync::Mutex::new(std::collections::BTreeMap::new());
    let ended = each_seed(0, seeds, |seed| {
        let end = RunJob::drawn_from(seed).run(false)?;
        *seen.lock().expect("no panic holds it").entry(end).or_insert(0_u64) += 1;
        Ok(())
    });
    if let Err((seed, violation)) = ended {
        let violation: String = violation;
        panic!("{violation}\n{}", reproduce("one_run", seed));
    }
    let seen = seen.into_inner().expect("no panic holds it");
    println!("{seeds} seeds: {seen:?}");
    assert!(seeds < 1000 || seen.len() >= 5, "the jobs are too tame: {seen:?}");
}

#[test]
fn blocks_on_derived_communicators_end_alike_and_leave_nobody_waiting() {
    let seeds = seeds(FORESTS);
    let all = std::sync::Mutex::new(Seen::default());
    let ended = each_seed(0, seeds, |seed| {
        let seen = Forest::drawn_from(seed).run(false)?;
        all.lock().expect("no panic holds it").add(&seen);
        Ok(())
    });
    if let Err((seed, violation)) = ended {
        let violation: String = violation;
        panic!("{violation}\n{}", reproduce("one_forest", seed));
    }
    let seen = all.into_inner().expect("no panic holds it");
    println!("{seeds} seeds: {seen}");
    if seeds >= 1000 {
        seen.assert_everything_happened();
    }
}

#[test]
fn blocks_over_requests_of_the_program_end_alike_and_name_all_who_are_missing() {
    let seeds = seeds(GUESTS);
    let all = std::sync::Mutex::new(guests::Seen::default());
    let ended = each_seed(0, seeds, |seed| {
        let seen = Guests::drawn_from(seed).run(false)?;
        all.lock().expect("no panic holds it").add(&seen);
        Ok(())
    });
    if let Err((seed, violation)) = ended {
        let violation: String = violation;
        panic!("{violation}\n{}", reproduce("one_guest", seed));
    }
    let seen = all.into_inner().expect("no panic holds it");
    println!("{seeds} seeds: {seen}");
    if seeds >= 1000 {
        seen.assert_everything_happened();
    }
}

/// The number of seeds, if nobody says another.
fn seeds(otherwise: u64) -> u64 {
    let asked = std::env::var("FAMPI_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    asked.unwrap_or(otherwise)
}

#[test]
fn a_job_is_what_its_line_says() {
    for seed in 0..1000 {
        let job = Job::drawn_from(seed, &RANKS);
        assert_eq!(Job::from_line(&job.to_string()), Ok(job));
    }
    for wrong in ["ranks", "ranks=x", "ranks=0", "work=", "crashes=1", "name=1", "calm=2"] {
        assert!(Job::from_line(wrong).is_err(), "{wrong}");
    }
}

proptest::proptest! {
    /// Lines as they are printed, of which some words are changed.
    #[test]
    fn lines_from_outside_are_jobs_or_refused(
        seed in 0_u64..1 << 40,
        changes in proptest::collection::vec((0_usize..20, "[a-z0-9@#.,x=-]{0,9}"), 0..4),
    ) {
        let line = Job::drawn_from(seed, &RANKS).to_string();
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for (at, change) in changes {
            let at = at % words.len();
            let name = words[at].split('=').next().unwrap_or_default();
            words[at] = format!("{name}={change}");
        }
        if let Ok(job) = Job::from_line(&words.join(" ")) {
            proptest::prop_assert_eq!(Job::from_line(&job.to_string()), Ok(job));
        }
    }
}

#[test]
fn jobs_that_failed_once_fail_with_their_bug_and_not_without_it() {
    let mut lost = Vec::new();
    for (bug, job) in found::jobs() {
        assert_eq!(shrink::try_run(&job), None, "cargo fampi sim --job '{job}'");
        planted::plant(Some(bug));
        if shrink::try_run(&job).is_none() {
            lost.push(bug);
        }
        planted::plant(None);
    }
    assert_eq!(lost, [], "the jobs of these bugs no longer see them: find others for `found.txt`");
}

/// Programs that own their MPI and failed once.
///
/// - 127: a block of a communicator that the program had freed was decided before this rank came to
///   it, which then waited for the decision for ever.
/// - 10643: a block told one rank of a death while a communicator was shrunk, which that rank then
///   took to have one member less than the others did.
/// - 19263: a block told one rank of a death after the vote on a shrink and before the call, which
///   that rank then made without the dead one, and the others with it.
const GUESTS_THAT_FAILED: [u64; 3] = [127, 10_643, 19_263];

#[test]
fn programs_that_own_their_mpi_and_failed_once_do_not_fail_again() {
    for seed in GUESTS_THAT_FAILED {
        let run = Guests::drawn_from(seed).run(false);
        run.unwrap_or_else(|violation| panic!("{violation}\n{}", reproduce("one_guest", seed)));
    }
}

/// For a bug of `found.txt` whose job no longer gets there: another one, made small.
#[test]
fn find_a_job_for() {
    let Ok(name) = std::env::var("FAMPI_BUG") else { return };
    let bug = found::bug(&name).expect("a bug that can be planted");
    let with_bug = |job: &Job| {
        planted::plant(Some(bug));
        let violation = shrink::try_run(job);
        planted::plant(None);
        violation
    };
    let known = found::jobs().find(|(known, _)| *known == bug);
    let near = |seed| {
        let (_, mut job) = known.clone()?;
        for crash in &mut job.crashes {
            if let CrashPoint::Effect(effect) = &mut crash.at {
                *effect *= 2;
            }
        }
        Some(shrink::varied(&job, seed))
    };
    let drawn = |seed| Job::drawn_from(seed, &RANKS);
    // Every other job is like the one that was found before, with deaths earlier or later.
    let job = |seed| near(seed).filter(|_| seed % 2 == 0).unwrap_or_else(|| drawn(seed));
    let ended = each_seed(0, seeds(1_000_000), |seed| with_bug(&job(seed)).map_or(Ok(()), Err));
    let (seed, violation) = ended.expect_err("no job sees the bug");
    planted::plant(Some(bug));
    let (small, _) = shrink::shrink(job(seed), violation);
    planted::plant(None);
    println!("job {seed}, made small:\n{bug:?}: {small}");
    assert_eq!(shrink::try_run(&small), None, "it fails without the bug, too");
}

#[test]
fn a_failing_job_becomes_a_small_one_that_fails() {
    planted::plant(Some(Bug::WaitForTheDead));
    let mut jobs = (0..1000).map(|seed| Job::drawn_from(seed, &RANKS));
    let (job, violation) = jobs
        .find_map(|job| shrink::try_run(&job).map(|violation| (job, violation)))
        .expect("the bug is seen");
    let (small, _) = shrink::shrink(job, violation);
    let again = Job::from_line(&small.to_string()).expect("a job");
    assert!(shrink::try_run(&again).is_some(), "{again}");
    assert!(again.ranks <= 6 && again.crashes.len() == 1 && again.work.len() <= 2, "{again}");
    println!("{again}");
    planted::plant(None);
    assert_eq!(shrink::try_run(&again), None, "it fails without the bug: {again}");
}

#[test]
fn one_run() {
    one("one_run", RunJob::drawn_from, |job| job.run(true));
}

#[test]
fn one_forest() {
    one("one_forest", Forest::drawn_from, |job| job.run(true));
}

/// Runs the seed that somebody asked for, and tells its story.
fn one<J: Debug, E: Display>(
    test: &str,
    drawn_from: impl Fn(u64) -> J,
    run: impl Fn(&J) -> Result<E, String>,
) {
    let asked = std::env::var("FAMPI_SEED").ok().and_then(|seed| seed.parse().ok());
    let Some(seed) = asked else { return };
    let job = drawn_from(seed);
    println!("{job:#?}");
    match run(&job) {
        Ok(end) => println!("all: {end}"),
        Err(violation) => panic!("{violation}\n{}", reproduce(test, seed)),
    }
}

#[test]
fn a_block_that_leaves_out_a_rank_of_whose_death_only_a_recovery_knew_is_found() {
    planted::plant(Some(Bug::HushTheDeath));
    let mut seeds = 0..1000;
    let found = seeds.find_map(|seed| Some((seed, Guests::drawn_from(seed).run(false).err()?)));
    planted::plant(None);
    let (seed, violation) = found.expect("the bug is seen");
    println!("seed {seed}: {violation}");
    assert!(violation.contains("which no report names dead"), "{violation}");
    assert!(Guests::drawn_from(seed).run(false).is_ok(), "it fails without the bug");
}

#[test]
fn one_guest() {
    let Some(seed) = std::env::var("FAMPI_SEED").ok().and_then(|seed| seed.parse().ok()) else {
        return;
    };
    let job = Guests::drawn_from(seed);
    println!("{job:#?}");
    match job.run(true) {
        Ok(seen) => println!("{seen}"),
        Err(violation) => panic!("{violation}\n{}", reproduce("one_guest", seed)),
    }
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..20 {
        let [one, other] = [0; 2].map(|_| Job::drawn_from(seed, &RANKS).fingerprint());
        assert_eq!(one, other, "seed {seed}");
    }
}

fn reproduce(test: &str, seed: u64) -> String {
    format!(
        "REPRODUCE WITH: FAMPI_SEED={seed} cargo test --release -p fampi-checkers --test simulation \
         -- {test} --nocapture"
    )
}

#[test]
fn cases_that_are_written_out_end_as_they_must_and_not_with_their_bugs() {
    for (bug, case) in cases::CASES {
        assert_eq!(case(), Ok(()), "{bug:?}");
        planted::plant(Some(bug));
        let ended = std::panic::catch_unwind(case);
        planted::plant(None);
        assert!(!matches!(ended, Ok(Ok(()))), "{bug:?} is not seen");
    }
}
