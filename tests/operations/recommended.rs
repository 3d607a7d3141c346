//! The group of recommended processes: who is benched by what tests have found is the same on all
//! ranks, is seen by policies, and stays so when others die.

use std::{cell::RefCell, time::Duration};

use fampi::{
    Error, Flow, Placement, Rank, RankSet, ReduceOp, World,
    membership::{
        evidence::{Opinion, Tested},
        levels::Levels,
        member::Slow,
    },
    policy::{Decision, Shrink, Situation},
    sim::{Crash, Simulation, compute, crash, process},
};

const STEPS: u64 = 80;

/// Process 2 fails a test after 5 ms, and passes none for the next 55 ms.
fn tests(_: u64, process: u32, now: Duration) -> Tested {
    let (fails, now) = (u32::from(process == 2 && now.as_millis() >= 5), now.as_millis() as u32);
    let streak = if fails == 0 { now } else { now.saturating_sub(60) };
    Tested::of(Opinion { fails, streak }, 3)
}

/// What a rank has seen: the members of the launch that worked in each step, and in which step a
/// policy was asked, and who was benched then.
type Seen = (Vec<Vec<u32>>, Vec<(Option<u64>, RankSet)>);

/// A run of a millisecond for each step, in which rank 0 objects in the steps 8 and 14, and process
/// 1 dies in step 11.
fn watched(mut world: World, slow: Slow, at_a_death: Decision) -> Result<Seen, Error> {
    let mut group = world.recommended(slow);
    let (mut worked, asked) = (Vec::new(), RefCell::new(Vec::new()));
    let (mut on, mut objections) = (None, vec![14, 8]);
    let policy = |situation: &Situation<'_>| {
        asked.borrow_mut().push((situation.step, situation.benched.clone()));
        if situation.dead.is_empty() { Decision::Retry } else { at_a_death }
    };
    let ended = world.run(&policy, &mut vec![0_u64], |step, _| {
        let now = (step.world().generation(), step.comm().size());
        if on != Some(now) {
            group.renew(step)?;
            on = Some(now);
        }
        compute(Duration::from_millis(1));
        if step.comm().rank() == Rank::new(0) && objections.last() == Some(&step.number()) {
            objections.pop();
            return Err(Error::Raised(7));
        }
        if step.number() == 11 && process() == Some(1) {
            crash();
        }
        let ([news], _) = step.commit_allreduce([group.news(step.comm())], ReduceOp::Or)?;
        worked.push(group.view().members().map(Rank::number).collect());
        if news != 0 {
            group.renew(step)?;
        }
        Ok(if step.number() < STEPS { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    world.finalize();
    Ok((worked, asked.into_inner()))
}

/// What all ranks have seen, of whom the first `survivors` were there from the beginning.
fn seen(slow: Slow, at_a_death: Decision, observed: bool) -> Vec<Seen> {
    let simulation = Simulation::new(4);
    let simulation = if observed { simulation.tests(tests) } else { simulation };
    let report = simulation.run_world(move |world| watched(world, slow, at_a_death));
    report.expect_orderly().into_iter().map(|seen| seen.expect("it goes on")).collect()
}

/// Who was benched whenever a policy was asked in a step, which is the same on all these ranks.
#[track_caller]
fn benched(all: &[Seen]) -> Vec<Vec<u32>> {
    assert!(all.iter().all(|(_, asked)| *asked == all[0].1), "{all:?}");
    let in_steps = all[0].1.iter().filter(|(step, _)| step.is_some());
    in_steps.map(|(_, benched)| benched.iter().map(Rank::number).collect()).collect()
}

#[test]
fn a_policy_sees_who_is_benched_by_ranks_of_its_communicator_whoever_dies() {
    let all = seen(Slow::Return, Decision::Shrink, true);
    // Member 2 is rank 1 among the survivors 0, 2 and 3.
    assert_eq!(benched(&all), [[2], [2], [1]]);
    for (worked, _) in &all {
        assert_eq!(worked.first(), Some(&vec![0, 1, 2, 3]));
        assert!(worked.contains(&vec![0, 1, 3]) && worked.contains(&vec![0, 3]), "{worked:?}");
        assert_eq!(worked.last(), Some(&vec![0, 2, 3]), "it came back");
        assert_eq!(*worked, all[0].0);
    }
}

#[test]
fn who_begins_in_the_place_of_the_dead_is_told_who_is_benched() {
    let all = seen(Slow::Return, Decision::Rebuild(Placement::SameRanks), true);
    let (survivors, new): (Vec<Seen>, Vec<Seen>) =
        all.into_iter().partition(|(worked, _)| worked.first() == Some(&vec![0, 1, 2, 3]));
    assert_eq!((survivors.len(), new.len()), (3, 1));
    assert_eq!(benched(&survivors), [[2], [2], [2]]);
    assert_eq!(benched(&new), [[2]], "it was asked about the last one alone");
    for (worked, _) in survivors.iter().chain(&new) {
        assert!(survivors[0].0.ends_with(&new[0].0) && worked.ends_with(&new[0].0));
        assert!(worked.contains(&vec![0, 1, 3]), "{worked:?}");
        assert_eq!(worked.last(), Some(&vec![0, 1, 2, 3]));
    }
}

#[test]
fn who_is_slow_may_stay_or_leave_for_good_and_without_tests_only_the_dead_go() {
    let all = seen(Slow::Leave, Decision::Shrink, true);
    assert_eq!(benched(&all), [[2], [2], [1]]);
    assert!(all.iter().all(|(worked, _)| worked.last() == Some(&vec![0, 3])));
    for (slow, observed) in [(Slow::Stay, true), (Slow::Return, false)] {
        let all = seen(slow, Decision::Shrink, observed);
        assert_eq!(benched(&all), [[0_u32; 0]; 3]);
        assert!(all.iter().all(|(worked, _)| worked.last() == Some(&vec![0, 2, 3])));
    }
}

/// The observers of both other nodes find node 1 slow after 3 ms.
fn node_1_is_slow(_: u64, (_, node): (u32, u32), now: Duration) -> Opinion {
    Opinion { fails: u32::from(node == 1 && now.as_millis() >= 3), streak: 0 }
}

/// The group after some steps of a millisecond, in which a census is taken when there is news.
fn levels(mut world: World) -> Result<Levels, Error> {
    let mut group = world.recommended(Slow::Return);
    let mut size = 0;
    let ended = world.run(&Shrink::default(), &mut vec![0_u64], |step, _| {
        if step.comm().size() != size {
            group.renew(step)?;
            size = step.comm().size();
        }
        compute(Duration::from_millis(1));
        let ([news], _) = step.commit_allreduce([group.news(step.comm())], ReduceOp::Or)?;
        if news != 0 {
            group.renew(step)?;
        }
        Ok(if step.number() < 6 { Flow::Continue } else { Flow::Done })
    })?;
    ended.done()?;
    world.finalize();
    Ok(group.levels().clone())
}

/// Two gathers of a census are of nodes and of what each has to say of others.
#[test]
fn a_death_at_any_moment_of_a_census_of_nodes_leaves_one_group() {
    let nodes = [0, 0, 1, 1, 2, 2];
    let run = |crash: Option<Crash>| {
        let simulation = Simulation::new(6).tests(|_, _, _| Tested::of(Opinion::default(), 3));
        let simulation = simulation.nodes(nodes).node_tests(node_1_is_slow);
        simulation.crashes(crash).run_world(levels)
    };
    let calm = run(None);
    let effects = calm.processes[0].effects;
    let all = calm.expect_orderly();
    let is_benched = |levels: &Levels, rank| levels.view().is_benched(Rank::new(rank));
    assert!((2..4).all(|rank| is_benched(all[0].as_ref().expect("it goes on"), rank)));
    let mut died = 0;
    // The first effects belong to the launch, which no recovery follows.
    for (effect, victim) in (8..effects).flat_map(|effect| [(effect, 0), (effect, 3)]) {
        let survivors = run(Some(Crash::before_effect(victim, effect))).expect_orderly();
        let first = survivors[0].as_ref().expect("it goes on");
        assert!(survivors.iter().all(|it| it.as_ref().ok() == Some(first)), "{effect} {victim}");
        assert!(is_benched(first, 2), "{effect} {victim}");
        died += 6 - survivors.len();
    }
    assert!(died as u64 > effects, "{died} of two times {effects}");
}
