//! `LULESH` on real ranks that really die: the numbers of the specification, and the digits of the
//! failure-free run after every plan of deaths.
//!
//! `FAMPI_PLANS=50 cargo test --release -p lulesh --test resilience -- random_plans --nocapture`
//! runs more random plans; each failure prints the line that repeats it.

#![allow(clippy::excessive_precision, reason = "the specification has 17 digits")]

mod final_line;
use std::sync::OnceLock;

use fampi_kit::launch::{Launch, Run};
use final_line::FinalLine;
use harness::random_plan::{Choice, RandomPlan};

/// 163 cycles.
const SMALL: &str = "-s 4";
const LAST: u32 = 163;
const RANKS: u32 = 8;

const PLANS: Choice = Choice {
    ranks: &[RANKS],
    phases: &["cycle", "step", "forces", "positions", "gradients", "finish", "update"],
    last_iteration: 150,
};

fn lulesh(ranks: u32, line: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_lulesh"), ranks).words(line.split_whitespace())
}

/// The last line of the failure-free run.
fn undisturbed() -> &'static str {
    static KNOWN: OnceLock<String> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let run = lulesh(RANKS, SMALL).run();
        FinalLine::of(run.expect_orderly(RANKS as usize)).text
    })
}

/// Runs with deaths and compares every digit with the failure-free run.
#[track_caller]
fn survives(launch: &Launch) -> Run {
    let run = launch.run();
    // The launcher remembers the death of a process that was spawned; the living ranks decide.
    let remembered = run.line.contains("@join:") && run.status == 137;
    assert!(run.status == 0 || remembered, "{run}");
    assert_eq!(FinalLine::of(&run).text, undisturbed(), "{run}");
    assert!(run.orderly >= RANKS as usize, "{run}");
    run
}

#[track_caller]
fn survives_kills(kills: &[&str]) -> Run {
    survives(&lulesh(RANKS, SMALL).words(kills.iter().map(|kill| format!("kill={kill}"))))
}

/// Nothing but one sentence and an exit status.
#[track_caller]
fn is_refused(launch: &Launch, complaint: &str) {
    let run = launch.run();
    assert!(run.status != 0, "{run}");
    assert_eq!(run.output, "", "{run}");
    let mut said = run.errors.lines().filter(|line| line.starts_with("lulesh: "));
    assert!(said.next().is_some_and(|line| line.contains(complaint)), "{run}");
    assert_eq!(said.next(), None, "{run}");
}

#[test]
fn the_numbers_of_the_specification_come_out_of_real_ranks_with_and_without_blocks() {
    for (ranks, line, cycles, energy) in [
        (1, "-s 10", 231, 2.720_531_168_470_346_5e4),
        (8, "-s 5", 231, 2.720_531_168_470_341_8e4),
        (8, "-s 10 -i 50", 50, 6.483_836_601_494_058_3e5),
        (27, "-s 10 -i 12", 12, f64::NAN),
    ] {
        let ways = ["fault-tolerance=on", "fused=off", "fault-tolerance=off"];
        let [on, unfused, off] = ways.map(|way| {
            let run = lulesh(ranks, line).words([way]).run();
            assert_eq!(run.status, 0, "{run}");
            FinalLine::of(&run)
        });
        assert_eq!([&on.text; 2], [&unfused.text, &off.text]);
        assert_eq!((on.ranks, on.cycles), (ranks, cycles));
        assert!(on.max_abs_diff <= 1e-9);
        let expected = if energy.is_nan() {
            FinalLine::of(&lulesh(1, "-s 30 -i 12").run()).energy
        } else {
            energy
        };
        assert!((on.energy / expected - 1.0).abs() < 1e-14, "{on:?}");
    }
}

#[test]
fn a_death_at_the_first_a_middle_and_the_last_cycle_changes_no_digit() {
    for k in [1, LAST / 2, LAST] {
        let line = format!("{SMALL} protect-every=1 kill=2@cycle:{k}");
        let run = survives(&lulesh(RANKS, &line));
        let lost = if k == 1 { "1 cycle had" } else { "2 cycles had" };
        let said = format!("After 1 recovery, {lost} been lost and were done again.");
        assert!(run.output.contains(&said), "{run}");
    }
}

#[test]
fn every_rank_may_die_the_first_and_the_last_too() {
    for rank in 0..RANKS {
        survives_kills(&[&format!("{rank}@forces:30")]);
    }
}

#[test]
fn a_death_at_any_point_of_a_cycle_changes_no_digit() {
    for phase in PLANS.phases {
        survives_kills(&[&format!("1@{phase}:25")]);
        survives(&lulesh(RANKS, &format!("{SMALL} fused=off kill=1@{phase}:25")));
    }
}

#[test]
fn every_way_to_die_is_noticed() {
    for mode in ["kill", "segv", "exit", "panic"] {
        survives_kills(&[&format!("3@positions:21:{mode}"), &format!("0@cycle:33:{mode}")]);
    }
}

#[test]
fn two_or_four_that_are_not_partners_may_die_at_once() {
    survives_kills(&["0@cycle:30", "1@cycle:30"]);
    survives_kills(&["2@forces:30", "7@forces:30"]);
    // The partner of rank r is r + 4 of 8.
    survives_kills(&["0@step:30", "5@positions:30", "2@gradients:30", "7@finish:30"]);
}

#[test]
fn with_a_code_over_groups_partners_may_die_at_once() {
    // The even ranks are a group, and the odd ones.
    let kills = "kill=1@forces:30 kill=5@forces:30 kill=2@step:40 kill=4@step:40";
    survives(&lulesh(RANKS, &format!("{SMALL} redundancy=4:2 {kills}")).spares(1));
}

#[test]
fn partners_may_die_one_after_the_other() {
    survives_kills(&["1@cycle:20", "5@cycle:22", "1@cycle:40"]);
}

#[test]
fn a_survivor_or_a_replacement_may_die_in_the_recovery() {
    survives_kills(&["2@cycle:30", "1@recovery:1"]);
    survives_kills(&["1@gradients:11", "0@recovery:1"]);
    survives_kills(&["2@cycle:30", "2@join:1"]);
}

#[test]
fn spares_take_the_places_of_the_dead() {
    for kills in [
        &["kill=2@cycle:30"][..],
        &["kill=0@forces:1", "kill=1@forces:1"],
        // The third replacement has to be spawned.
        &["kill=0@cycle:10", "kill=1@cycle:20", "kill=2@cycle:30"],
    ] {
        survives(&lulesh(RANKS, SMALL).spares(2).words(kills.iter().copied()));
    }
    survives(&lulesh(RANKS, SMALL).spares(2)).expect_orderly(10);
}

#[test]
fn a_state_that_is_protected_seldom_is_restored_from_farther_back() {
    for (every, lost) in [("5", "After 2 recoveries, 9 cycles"), ("0", "After 2 recoveries, 189")] {
        let line = format!("{SMALL} protect-every={every} kill=2@cycle:39 kill=0@forces:150");
        let run = survives(&lulesh(RANKS, &line));
        assert!(run.output.contains(lost), "{run}");
    }
}

#[test]
fn an_interval_that_was_chosen_is_told_and_changes_no_digit() {
    let auto = format!("{SMALL} protect-every=auto mtbf=30 kill=2@cycle:12 kill=0@forces:150");
    let run = survives(&lulesh(RANKS, &auto));
    assert!(run.output.contains("were done again; copies were "), "{run}");
}

#[test]
fn survivors_may_merge_with_a_new_process_and_keep_every_digit() {
    for kills in ["kill=1@cycle:30", "kill=0@forces:20 kill=3@cycle:40"] {
        for spares in [0, 1] {
            survives(&lulesh(RANKS, &format!("{SMALL} recovery=merge {kills}")).spares(spares));
        }
    }
}

#[test]
fn partners_that_die_together_end_the_run_with_one_sentence() {
    let launch = lulesh(RANKS, &format!("{SMALL} kill=1@cycle:30 kill=5@cycle:30"));
    is_refused(&launch, "is lost: it and its partner");
}

#[test]
fn what_cannot_be_done_is_refused_in_one_sentence() {
    for (ranks, line, complaint) in [
        (2, SMALL, "start it on 1 or 8"),
        (2, "-s 4 fault-tolerance=off", "start it on 1 or 8"),
        (8, "-s ten", "the option 's' cannot be 'ten'"),
        (8, "lunch", "there is no option 'lunch'"),
        (8, "kill=8@cycle:3", "names a rank that does not exist, there are 8 ranks"),
    ] {
        is_refused(&lulesh(ranks, line), complaint);
    }
}

#[test]
fn random_plans() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let plans = number("FAMPI_PLANS").unwrap_or(6);
    // A new one each time would make the ordinary run a lottery.
    let first = number("FAMPI_PLAN_SEED").unwrap_or(1);
    for seed in first..first + plans {
        let plan = RandomPlan::drawn_from(seed, &PLANS);
        println!("plan {seed}: {plan}");
        let launch = lulesh(plan.ranks, SMALL).spares(plan.spares).words(plan.words());
        let again = format!(
            "FAMPI_PLANS=1 FAMPI_PLAN_SEED={seed} cargo test --release -p lulesh --test \
             resilience -- random_plans --nocapture"
        );
        let run = std::panic::catch_unwind(|| survives(&launch));
        let Ok(run) = run else { panic!("plan {seed} failed; REPRODUCE WITH: {again}") };
        println!("plan {seed}: the same digits after {:?}", run.took);
    }
}
