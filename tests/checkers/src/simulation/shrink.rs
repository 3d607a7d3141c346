//! Makes a job that fails smaller, as long as it fails.
//!
//! Each candidate leaves something out: a death, a round, a rank. What happens then happens at
//! other moments, so each is tried with a few other seeds and moments of death, too. The first
//! that still fails, in whatever way, takes the job's place, until none does.

use fampi::sim::{CrashPoint, Draw};

use super::job::Job;

/// Runs that a shrinking may take; each takes about a millisecond.
const RUNS: u64 = 6_000;
/// Ways in which a candidate is tried.
const WAYS: u64 = 16;

/// The smallest failing job that was found, and how it fails.
pub fn shrink(job: Job, violation: String) -> (Job, String) {
    let mut best = (job, violation);
    let mut runs: u64 = 0;
    loop {
        let all = candidates(&best.0);
        let tries = all.iter().flat_map(|job| (0..WAYS).map(move |way| varied(job, way)));
        let left = RUNS.saturating_sub(runs);
        let smaller = tries.take(left as usize).find_map(|candidate| {
            runs += 1;
            let violation = try_run(&candidate)?;
            Some((candidate, violation))
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// The job itself, or with another seed and other moments of death.
pub fn varied(job: &Job, way: u64) -> Job {
    let mut job = job.clone();
    if way > 0 {
        let mut draw = Draw(way);
        job.seed = way;
        for crash in &mut job.crashes {
            if let CrashPoint::Effect(effect) = &mut crash.at {
                *effect = 1 + draw.below(*effect);
            }
        }
    }
    job
}

/// What is wrong with a run of this job, if anything; a panic of the simulator is.
pub fn try_run(job: &Job) -> Option<String> {
    let run = std::panic::catch_unwind(|| job.run());
    run.unwrap_or_else(|_| Err("the simulator panicked".into())).err()
}

fn candidates(job: &Job) -> Vec<Job> {
    let mut candidates = Vec::new();
    let mut add = |change: &dyn Fn(&mut Job)| {
        let mut candidate = job.clone();
        change(&mut candidate);
        if candidate != *job && candidate.calm < candidate.work.len() {
            candidates.push(candidate);
        }
    };
    for at in 0..job.crashes.len() {
        add(&|job| _ = job.crashes.remove(at));
    }
    for at in 0..job.work.len() {
        add(&|job| _ = job.work.remove(at));
    }
    if job.ranks > 2 {
        add(&|job| job.ranks = 2);
        add(&|job| job.ranks /= 2);
        add(&|job| job.ranks -= 1);
        // The same with everybody moved down, so that who dies has still a place.
        add(&|job| {
            job.ranks -= 1;
            job.crashes.iter_mut().for_each(|it| it.process = it.process.saturating_sub(1));
        });
    }
    add(&|job| job.spares = 0);
    add(&|job| job.calm = 0);
    add(&|job| job.slow = None);
    add(&|job| job.rows = false);
    add(&|job| job.depth = 1);
    add(&|job| job.outstanding = 2);
    add(&|job| job.latency = [5, 5]);
    add(&|job| job.exchange = [2, 2]);
    add(&|job| job.patience = 1);
    add(&|job| job.detection = [100, 100]);
    add(&|job| job.spawn = [2_000, 2_000]);
    add(&|job| job.spawns = true);
    candidates
}
