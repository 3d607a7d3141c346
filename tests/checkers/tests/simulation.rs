//! Whole programs on simulated ranks: the real engine and interface, with deaths cut anywhere.
//!
//! Each seed draws a job (ranks, spares, latencies, deaths of processes and nodes, a sequence of
//! rounds of many kinds): first a storm, then a calm in which everything must complete. Checked
//! are agreement (all living ranks hold the same verdict and report of every block), validity (a
//! committed block had no *no*), isolation (a completed receive holds what was sent in the same
//! attempt of the same block, a window what committed blocks have put), restored states and
//! termination.
//!
//! `cargo fampi sim` runs more seeds; `src/swarm.rs` is its program.

use std::{panic::catch_unwind, sync::Mutex, time::Instant};

use fampi::sim::CrashPoint;
use fampi_checkers::{
    bugs::{Bug, plant},
    cases,
    simulation::{
        forest::Forest, found, guests::Guests, job::Job, program::Program, runs::RunJob,
        tally::Tally,
    },
};
use fampi_kit::{
    hushed::{hush, hushed},
    seeds::{each_seed, number},
};

/// Of all planted bugs that such jobs have found, the last took 522 of them.
#[test]
fn thousands_of_jobs_end_with_one_story_on_all_living_ranks() {
    swarm::<Job>(5_000);
}

#[test]
fn runs_under_all_policies_end_as_without_failures_or_with_one_error() {
    swarm::<RunJob>(6_000);
}

#[test]
fn blocks_on_derived_communicators_end_alike_and_leave_nobody_waiting() {
    swarm::<Forest>(12_000);
}

#[test]
fn blocks_over_requests_of_the_program_end_alike_and_name_all_who_are_missing() {
    swarm::<Guests>(3_000);
}

/// Runs the programs of so many seeds if the environment says no other number. One that fails is
/// made smaller, and told.
fn swarm<P: Program>(seeds: u64) {
    let seeds = number("FAMPI_SEEDS").unwrap_or(seeds);
    let (began, tally) = (Instant::now(), Mutex::new(Tally::default()));
    let ended: Result<(), (u64, String)> = each_seed(0, seeds, |seed| {
        let seen = P::drawn_from(seed).run(false)?;
        tally.lock().expect("no panic holds it").add(&seen);
        Ok(())
    });
    if let Err((seed, violation)) = ended {
        let (small, again) = P::drawn_from(seed).shrunk(violation.clone());
        let _ = small.run(true);
        let small = small.described();
        panic!("seed {seed}: {violation}\n{}\n{again}:\n{small}", P::repeated(seed));
    }
    let tally = tally.into_inner().expect("no panic holds it");
    println!("{seeds} seeds in {:?}: {tally}", began.elapsed());
    if seeds >= 1000 {
        tally.assert_more_than(P::HAPPENS);
    }
}

#[test]
fn one_run() {
    one::<RunJob>();
}

#[test]
fn one_forest() {
    one::<Forest>();
}

#[test]
fn one_guest() {
    one::<Guests>();
}

/// Runs the seed that the environment names, and tells its story.
fn one<P: Program>() {
    let Some(seed) = number("FAMPI_SEED") else { return };
    let program = P::drawn_from(seed);
    println!("{}", program.described());
    match program.run(true) {
        Ok(seen) => println!("{seen}"),
        Err(violation) => panic!("{violation}\n{}", P::repeated(seed)),
    }
}

#[test]
fn a_job_is_what_its_line_says() {
    for seed in 0..1000 {
        let job = Job::drawn_from(seed);
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
        let line = Job::drawn_from(seed).to_string();
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
        assert_eq!(job.violation(), None, "cargo fampi sim --job '{job}'");
        plant(Some(bug));
        if job.violation().is_none() {
            lost.push(bug);
        }
        plant(None);
    }
    assert_eq!(lost, [], "the jobs of these bugs no longer see them: find others for `found.txt`");
}

/// Programs that own their MPI and failed once, each with a planted bug that undoes the mend.
///
/// - 21: a block of a communicator that the program had freed was decided before this rank came to
///   it, which then waited for the decision for ever.
/// - 151: a rank had the verdict before a shrink, and waited in it for others, which asked it for
///   that verdict, as they had heard of another death.
/// - 506: a message that its receiver had not asked for in one block met a receive of the next, of
///   a rank that went on before the verdict.
/// - 653: a message of the present attempt was taken for one that an older one had left behind, and
///   its receiver waited for it for ever.
const GUESTS_THAT_FAILED: [(Bug, u64); 4] = [
    (Bug::ForgetTheFreed, 21),
    (Bug::CallAtOnce, 151),
    (Bug::NameNoBlock, 506),
    (Bug::ShareTheTags, 653),
];

/// What goes wrong in the program of this seed with a bug.
fn wrong(bug: Option<Bug>, seed: u64) -> Option<String> {
    hushed(move || {
        plant(bug);
        let run = catch_unwind(|| Guests::drawn_from(seed).run(false));
        run.map_or(Some("a panic".into()), Result::err)
    })
}

/// The first program that owns its MPI and sees a bug.
#[test]
fn find_a_guest_for() {
    let Ok(name) = std::env::var("FAMPI_BUG_OF_GUESTS") else { return };
    let bug = found::bug(&name).expect("a bug that can be planted");
    hush();
    let mut seeds = 0..number("FAMPI_SEEDS").unwrap_or(100_000);
    let found = seeds.find_map(|seed| Some((seed, wrong(Some(bug), seed)?)));
    println!("{bug:?}: {found:?}");
}

#[test]
fn programs_that_own_their_mpi_and_failed_once_fail_with_their_bug_and_not_without_it() {
    hush();
    for (bug, seed) in GUESTS_THAT_FAILED {
        assert_eq!(wrong(None, seed), None, "{}", Guests::repeated(seed));
        assert_ne!(
            wrong(Some(bug), seed),
            None,
            "seed {seed} no longer sees {bug:?}: find another"
        );
    }
}

/// For a bug of `found.txt` whose job no longer gets there: another one, made small.
#[test]
fn find_a_job_for() {
    let Ok(name) = std::env::var("FAMPI_BUG") else { return };
    let bug = found::bug(&name).expect("a bug that can be planted");
    let with_bug = |job: &Job| {
        plant(Some(bug));
        let violation = job.violation();
        plant(None);
        violation
    };
    let known = found::jobs().find(|(known, _)| *known == bug);
    let near = |seed| {
        let (_, mut job) = known.clone()?;
        for crash in &mut job.setting.crashes {
            if let CrashPoint::Effect(effect) = &mut crash.at {
                *effect *= 2;
            }
        }
        Some(job.varied(seed))
    };
    let drawn = |seed| Job::drawn_from(seed);
    // Every other job is like the one that was found before, with deaths earlier or later.
    let job = |seed| near(seed).filter(|_| seed % 2 == 0).unwrap_or_else(|| drawn(seed));
    let ended = each_seed(0, number("FAMPI_SEEDS").unwrap_or(1_000_000), |seed| {
        with_bug(&job(seed)).map_or(Ok(()), Err)
    });
    let (seed, violation) = ended.expect_err("no job sees the bug");
    plant(Some(bug));
    let (small, _) = job(seed).shrunk(violation);
    plant(None);
    println!("job {seed}, made small:\n{bug:?}: {small}");
    assert_eq!(small.violation(), None, "it fails without the bug, too");
}

#[test]
fn a_failing_job_becomes_a_small_one_that_fails() {
    plant(Some(Bug::WaitForTheDead));
    let mut jobs = (0..1000).map(Job::drawn_from);
    let (job, violation) = jobs
        .find_map(|job| job.violation().map(|violation| (job, violation)))
        .expect("the bug is seen");
    let (small, _) = job.shrunk(violation);
    let again = Job::from_line(&small.to_string()).expect("a job");
    assert!(again.violation().is_some(), "{again}");
    assert!(
        again.setting.ranks <= 6 && again.setting.crashes.len() == 1 && again.work.len() <= 2,
        "{again}"
    );
    println!("{again}");
    plant(None);
    assert_eq!(again.violation(), None, "it fails without the bug: {again}");
}

#[test]
fn a_block_that_leaves_out_a_rank_of_whose_death_only_a_recovery_knew_is_found() {
    plant(Some(Bug::HushTheDeath));
    let mut seeds = 0..1000;
    let found = seeds.find_map(|seed| Some((seed, Guests::drawn_from(seed).run(false).err()?)));
    plant(None);
    let (seed, violation) = found.expect("the bug is seen");
    println!("seed {seed}: {violation}");
    assert!(violation.contains("which no report names dead"), "{violation}");
    assert!(Guests::drawn_from(seed).run(false).is_ok(), "it fails without the bug");
}

#[test]
fn equal_seeds_tell_equal_stories() {
    for seed in 0..20 {
        let [one, other] = [0; 2].map(|_| Job::drawn_from(seed).report(false).fingerprint);
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn cases_that_are_written_out_end_as_they_must_and_not_with_their_bugs() {
    for (bug, case) in cases::CASES {
        assert_eq!(case(), Ok(()), "{bug:?}");
        plant(Some(bug));
        let ended = std::panic::catch_unwind(case);
        plant(None);
        assert!(!matches!(ended, Ok(Ok(()))), "{bug:?} is not seen");
    }
}
