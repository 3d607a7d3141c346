//! Exhaustive checks of the commit: every order of every event, with the properties in
//! `src/properties` asked in every state.
//!
//! Each search pins the number of different states. It changes with the protocol; a change that
//! was not meant is worth a look. The long ones run by `cargo test --release
//! -p fampi-checkers --test model -- --ignored`.

use fampi::protocol::{
    exchange::Shape,
    handshake::Goal,
    membership::{Terms, member::Slow, removal::Rule},
};
use fampi_checkers::{
    model::{benched::Bench, commit::Setup, inside::Inside, on_nodes::OnNodes, recovery::Recovery},
    search::check,
};

#[test]
fn two_ranks() {
    check(Setup::ranks(2), 9);
    check(Setup { crashes: 1, ..Setup::ranks(2) }, 41);
    check(Setup { crashes: 1, naysayer: Some(0), ..Setup::ranks(2) }, 55);
    check(Setup { crashes: 1, naysayer: Some(1), ..Setup::ranks(2) }, 41);
    check(Setup { crashes: 1, leaver: Some(1), ..Setup::ranks(2) }, 53);
}

#[test]
fn three_ranks_of_which_two_die() {
    check(Setup { crashes: 2, ..Setup::ranks(3) }, 956);
    check(Setup { crashes: 2, naysayer: Some(0), ..Setup::ranks(3) }, 2089);
    check(Setup { crashes: 2, naysayer: Some(1), ..Setup::ranks(3) }, 1216);
    check(Setup { crashes: 2, naysayer: Some(2), ..Setup::ranks(3) }, 1141);
}

#[test]
fn a_turn_cut_anywhere_adds_no_way_to_go_wrong() {
    check(Setup { crashes: 1, cuts: true, ..Setup::ranks(2) }, 41);
    check(Setup { crashes: 2, cuts: true, ..Setup::ranks(3) }, 980);
    check(Setup { crashes: 2, cuts: true, naysayer: Some(1), ..Setup::ranks(3) }, 1253);
    check(Setup { crashes: 1, cuts: true, blocks: 2, ..Setup::ranks(2) }, 470);
    check(Setup { crashes: 2, cuts: true, ..Setup::ranks(4) }, 61_254);
}

#[test]
fn four_ranks_of_which_three_die() {
    check(Setup { crashes: 3, ..Setup::ranks(4) }, 78_749);
    check(Setup { crashes: 3, naysayer: Some(0), ..Setup::ranks(4) }, 107_326);
    check(Setup { crashes: 2, naysayer: Some(1), ..Setup::ranks(4) }, 55_000);
    check(Setup { crashes: 2, naysayer: Some(2), ..Setup::ranks(4) }, 100_493);
    check(Setup { crashes: 2, naysayer: Some(3), ..Setup::ranks(4) }, 74_591);
}

#[test]
fn five_ranks_of_which_one_dies() {
    check(Setup { crashes: 1, ..Setup::ranks(5) }, 151_059);
}

#[test]
fn one_round_in_which_all_tell_all() {
    let wide = |ranks| Setup { shape: Shape::WIDE, ..Setup::ranks(ranks) };
    check(Setup { crashes: 1, ..wide(2) }, 41);
    check(Setup { crashes: 2, cuts: true, ..wide(3) }, 1995);
    for naysayer in 0..3 {
        let states = [2887, 1694, 1699][naysayer];
        let naysayer = Some(naysayer as u32);
        check(Setup { crashes: 2, naysayer, ..wide(3) }, states);
    }
    check(Setup { crashes: 2, leaver: Some(1), ..wide(3) }, 4309);
    check(Setup { crashes: 1, blocks: 2, ..wide(3) }, 95_454);
    check(Setup { crashes: 2, blocks: 3, in_sequence: true, ..wide(3) }, 18_780);
    check(Setup { crashes: 1, ..wide(4) }, 63_361);
    check(Setup { crashes: 2, fused: true, ..wide(3) }, 3749);
    check(Setup { fused: true, ..wide(4) }, 23_274);
    check(Setup { crashes: 1, fused: true, misfit: Some(1), ..wide(3) }, 7611);
}

#[test]
fn groups_of_four_and_a_rank_that_folds_into_one() {
    let four = |ranks| Setup { shape: Shape::new(4, 2), ..Setup::ranks(ranks) };
    check(four(5), 9989);
    check(four(6), 14_777);
    check(Setup { naysayer: Some(4), ..four(5) }, 24_110);
    check(Setup { fused: true, ..four(5) }, 38_402);
}

#[test]
fn ranks_of_two_and_three_nodes_whose_heads_die_before_during_and_after_what_they_say() {
    let on = |nodes: &'static [u32]| Setup { nodes, ..Setup::ranks(nodes.len() as u32) };
    // A head and its follower, a head and the other head, a whole node; in the middle of a turn.
    check(Setup { crashes: 2, cuts: true, ..on(&[0, 0, 1]) }, 982);
    check(Setup { crashes: 2, cuts: true, ..on(&[0, 1, 0]) }, 982);
    for naysayer in 0..3 {
        let states = [2014, 1357, 1135][naysayer];
        check(Setup { crashes: 2, naysayer: Some(naysayer as u32), ..on(&[0, 1, 1]) }, states);
    }
    check(Setup { crashes: 2, leaver: Some(0), ..on(&[0, 0, 1]) }, 2999);
    check(Setup { crashes: 1, blocks: 2, ..on(&[0, 0, 1]) }, 20_196);
    check(Setup { crashes: 2, blocks: 3, in_sequence: true, ..on(&[0, 0, 1]) }, 8877);
    check(Setup { crashes: 2, fused: true, ..on(&[0, 1, 0]) }, 1343);
    check(Setup { crashes: 2, ..on(&[0, 0, 1, 1]) }, 29_555);
    check(Setup { crashes: 2, ..on(&[0, 1, 1, 0]) }, 29_555);
    check(Setup { crashes: 1, fused: true, ..on(&[0, 1, 0, 1]) }, 8521);
    check(Setup { crashes: 2, ..on(&[0, 0, 1, 2]) }, 34_049);
    check(Setup { crashes: 1, ..on(&[0, 0, 1, 1, 2]) }, 65_028);
}

#[test]
fn blocks_outstanding_at_once_with_votes_in_any_order() {
    check(Setup { crashes: 1, blocks: 2, ..Setup::ranks(2) }, 470);
    check(Setup { crashes: 1, blocks: 3, ..Setup::ranks(2) }, 7280);
    check(Setup { crashes: 2, blocks: 2, ..Setup::ranks(3) }, 45_249);
    check(Setup { crashes: 2, blocks: 2, naysayer: Some(0), ..Setup::ranks(3) }, 104_765);
    check(Setup { crashes: 1, blocks: 2, naysayer: Some(2), ..Setup::ranks(3) }, 27_973);
}

#[test]
fn blocks_one_after_the_other_across_deaths_and_data_contexts() {
    check(Setup { crashes: 1, blocks: 4, in_sequence: true, ..Setup::ranks(2) }, 243);
    check(Setup { crashes: 2, blocks: 3, in_sequence: true, ..Setup::ranks(3) }, 8855);
    let no = Some(0);
    check(
        Setup { crashes: 2, blocks: 2, in_sequence: true, naysayer: no, ..Setup::ranks(3) },
        7008,
    );
    check(Setup { crashes: 1, blocks: 2, in_sequence: true, ..Setup::ranks(4) }, 178_135);
}

#[test]
fn a_death_that_a_step_of_a_recovery_finds_is_reported_by_a_block() {
    let step = |step, ranks| Setup { blocks: 2, step: Some(step), ..Setup::ranks(ranks) };
    check(Setup { crashes: 1, ..step(1, 2) }, 464);
    check(Setup { crashes: 1, ..step(1, 3) }, 19_322);
    check(Setup { crashes: 1, naysayer: Some(0), ..step(0, 3) }, 60_369);
    check(Setup { crashes: 2, in_sequence: true, ..step(0, 3) }, 4442);
    check(Setup { crashes: 2, in_sequence: true, blocks: 3, ..step(1, 3) }, 9344);
    check(Setup { crashes: 1, in_sequence: true, leaver: Some(1), ..step(0, 3) }, 3819);
}

#[test]
fn an_agreement_has_a_result_whoever_dies_and_is_an_error_until_all_acknowledge() {
    let agree = |acks, ranks| Setup { agreement: Some((0, acks)), ..Setup::ranks(ranks) };
    check(Setup { crashes: 1, cuts: true, ..agree(0b11, 2) }, 47);
    check(Setup { crashes: 2, cuts: true, ..agree(0b111, 3) }, 2130);
    check(Setup { crashes: 2, ..agree(0b101, 3) }, 2092);
    check(Setup { crashes: 2, ..agree(0, 3) }, 2092);
    check(Setup { crashes: 1, leaver: Some(1), ..agree(0b111, 3) }, 1561);
    let between = Setup { blocks: 3, agreement: Some((1, 0b111)), ..Setup::ranks(3) };
    check(Setup { crashes: 2, in_sequence: true, ..between }, 15_935);
    check(Setup { crashes: 2, in_sequence: true, agreement: Some((1, 0b110)), ..between }, 16_463);
    check(Setup { crashes: 1, blocks: 2, agreement: Some((1, 0b111)), ..between }, 39_940);
}

#[test]
fn living_ranks_agree_on_how_others_have_died_and_nobody_waits_for_ever_to_hear_it() {
    let told = |ranks| Setup { causes: true, ..Setup::ranks(ranks) };
    check(Setup { crashes: 1, cuts: true, ..told(2) }, 57);
    check(Setup { crashes: 2, cuts: true, ..told(3) }, 2061);
    check(Setup { crashes: 1, naysayer: Some(1), ..told(3) }, 1319);
    check(Setup { crashes: 1, leaver: Some(1), ..told(3) }, 1753);
    check(Setup { crashes: 2, blocks: 2, in_sequence: true, ..told(3) }, 8275);
    check(Setup { crashes: 1, blocks: 2, step: Some(0), ..told(2) }, 588);
    check(Setup { crashes: 1, agreement: Some((0, 0b101)), ..told(3) }, 1828);
    check(Setup { crashes: 1, ..told(4) }, 43_712);
}

#[test]
fn a_rank_that_gave_up_is_waited_for_by_nobody() {
    for leaver in 0..3 {
        let states = [2999, 1518, 1371][leaver];
        let leaver = Some(leaver as u32);
        check(Setup { crashes: 2, leaver, ..Setup::ranks(3) }, states);
    }
    check(Setup { crashes: 1, blocks: 2, leaver: Some(2), ..Setup::ranks(3) }, 34_037);
    check(Setup { crashes: 2, leaver: Some(1), ..Setup::ranks(4) }, 147_689);
}

#[test]
fn a_farewell_commits_with_farewells_of_all_and_is_a_fault_of_every_block() {
    for (farewells, states) in (1..8).zip([944, 884, 709, 709, 884, 944, 405]) {
        check(Setup { farewells, crashes: 1, ..Setup::ranks(3) }, states);
    }
    check(Setup { farewells: 0b10, crashes: 1, cuts: true, ..Setup::ranks(2) }, 59);
    check(Setup { farewells: 0b111, crashes: 2, ..Setup::ranks(3) }, 956);
    let wide = Setup { shape: Shape::WIDE, ..Setup::ranks(3) };
    check(Setup { farewells: 0b101, crashes: 1, ..wide }, 2990);
    check(Setup { farewells: 1, blocks: 2, crashes: 1, ..Setup::ranks(2) }, 1152);
    check(Setup { farewells: 2, blocks: 2, in_sequence: true, ..Setup::ranks(3) }, 570);
    check(Setup { farewells: 4, ..Setup::ranks(4) }, 1186);
}

#[test]
fn an_interruption_reaches_whoever_waits_for_a_rank_that_went_away() {
    let ring = |ranks| Inside { ring: true, ..Inside::ranks(ranks) };
    check(Inside { crashes: 1, ..ring(2) }, 77);
    check(Inside { crashes: 2, ..ring(3) }, 4047);
    check(Inside { leaver: Some(1), ..ring(3) }, 12_996);
    check(Inside { leaver: Some(1), crashes: 1, ..ring(3) }, 37_666);
}

#[test]
fn an_attempt_after_an_abort_meets_nothing_of_the_one_before() {
    let again = Inside { again: true, ..Inside::ranks(2) };
    check(Inside { ring: true, leaver: Some(1), ..again }, 184);
    check(Inside { ring: true, leaver: Some(1), crashes: 1, ..again }, 562);
    check(Inside { inner: 2, leaver: Some(0), ..again }, 1495);
    check(Inside { inner: 2, naysayer: Some(0), crashes: 1, ..again }, 1038);
    check(Inside { inner: 2, leaver: Some(0), crashes: 1, ..again }, 2772);
}

#[test]
fn an_inner_fault_is_an_outer_fault_whoever_dies() {
    let inside = |inner| Inside { inner, ..Inside::ranks(3) };
    for (inner, states) in [(1, 1310), (2, 1905), (3, 3494)] {
        check(Inside { crashes: 2, ..inside(inner) }, states);
    }
    check(Inside { crashes: 2, naysayer: Some(0), ..inside(2) }, 5074);
    check(Inside { crashes: 1, naysayer: Some(2), ..inside(3) }, 6198);
    check(Inside { crashes: 1, leaver: Some(1), ..inside(2) }, 36_899);
    check(Inside { crashes: 1, leaver: Some(2), ..inside(2) }, 122_914);
    check(Inside { inner: 2, crashes: 1, ..Inside::ranks(4) }, 22_152);
    check(Inside { inner: 2, crashes: 1, ring: true, ..Inside::ranks(3) }, 18_777);
}

#[test]
fn a_recovery_ends_alike_for_all_whoever_dies_in_whichever_step() {
    let shrink = |ranks| Recovery { goal: Goal::Shrink, ..Recovery::rebuild(ranks) };
    check(Recovery { crashes: 1, ..shrink(3) }, 107);
    check(Recovery { crashes: 2, ..shrink(4) }, 18_615);
    check(Recovery { crashes: 2, ..Recovery::rebuild(2) }, 1640);
    check(Recovery { crashes: 1, ..Recovery::rebuild(3) }, 8492);
    check(Recovery { crashes: 2, ..Recovery::rebuild(3) }, 983_786);
    check(Recovery { spares: 1, crashes: 2, ..Recovery::rebuild(2) }, 5380);
    check(Recovery { spares: 1, crashes: 1, ..Recovery::rebuild(3) }, 34_031);
    check(Recovery::rebuild(4), 851);
}

#[test]
fn a_repair_of_a_program_ends_alike_for_all_whoever_dies_in_whichever_step() {
    check(Recovery { crashes: 1, ..Recovery::repair(2) }, 49);
    check(Recovery { crashes: 1, ..Recovery::repair(3) }, 1062);
    check(Recovery { crashes: 2, ..Recovery::repair(3) }, 3644);
    for (refuser, states) in [256, 388].into_iter().enumerate() {
        let refuser = Some(refuser);
        check(Recovery { crashes: 1, refuser, ..Recovery::repair(3) }, states);
    }
    check(Recovery { crashes: 1, ..Recovery::repair(4) }, 66_681);
}

#[test]
fn values_ride_on_every_commit_alike() {
    let fused = |ranks| Setup { fused: true, ..Setup::ranks(ranks) };
    check(Setup { crashes: 1, cuts: true, ..fused(2) }, 43);
    check(Setup { crashes: 2, cuts: true, ..fused(3) }, 1368);
    check(Setup { crashes: 2, naysayer: Some(1), ..fused(3) }, 1781);
    check(Setup { crashes: 2, leaver: Some(1), ..fused(3) }, 2461);
    check(Setup { crashes: 3, ..fused(4) }, 203_560);
    check(Setup { crashes: 1, ..fused(5) }, 638_250);
    check(Setup { crashes: 2, blocks: 2, ..fused(3) }, 101_918);
    check(Setup { crashes: 2, blocks: 3, in_sequence: true, ..fused(3) }, 14_050);
}

#[test]
fn values_that_do_not_fit_are_never_committed() {
    let fused = |ranks| Setup { fused: true, ..Setup::ranks(ranks) };
    for misfit in 0..3 {
        let states = [3538, 3004, 2327][misfit];
        check(Setup { crashes: 2, misfit: Some(misfit as u32), ..fused(3) }, states);
    }
    check(Setup { crashes: 1, misfit: Some(2), ..fused(4) }, 93_094);
}

#[test]
fn members_that_accuse_each_other_and_come_back_make_one_group() {
    let of = |rule, zeta| Bench { terms: Terms { rule, zeta }, ..Bench::ranks(3) };
    for (rule, states) in
        [(Rule::Any, [36_522, 62_946, 39_019]), (Rule::Fewest, [35_610, 61_291, 38_359])]
    {
        check(Bench { fails: 2, passes: 3, ..of(rule, 2) }, states[0]);
        check(Bench { fails: 3, passes: 2, ..of(rule, 1) }, states[1]);
        check(Bench { fails: 2, passes: 1, deaths: 2, ..of(rule, 1) }, states[2]);
    }
    check(Bench { fails: 3, passes: 2, ..of(Rule::Quorum(2), 1) }, 21_952);
    check(Bench { fails: 2, passes: 2, deaths: 1, ..of(Rule::Quorum(2), 1) }, 35_173);
    check(Bench { fails: 3, passes: 3, deaths: 1, ..Bench::ranks(2) }, 10_507);
}

#[test]
fn nodes_that_accuse_each_other_take_their_ranks_along_and_come_back() {
    let on = |places: &[usize], rule, zeta| OnNodes {
        terms: Terms { rule, zeta },
        ..OnNodes::places(places)
    };
    for (rule, states) in [(Rule::Any, [22_859, 6_474]), (Rule::Fewest, [22_587, 6_474])] {
        check(OnNodes { fails: 2, passes: 1, own: 1, ..on(&[0, 0, 1, 2], rule, 1) }, states[0]);
        check(OnNodes { fails: 1, passes: 2, own: 2, ..on(&[0, 0, 1], rule, 2) }, states[1]);
    }
    check(OnNodes { fails: 3, passes: 1, ..on(&[0, 1, 2, 2], Rule::Quorum(2), 1) }, 5_823);
    let dying = OnNodes { deaths: 1, replacements: 1, ..on(&[0, 0, 1], Rule::Fewest, 1) };
    check(OnNodes { fails: 1, passes: 1, ..dying.clone() }, 946);
    let slow = Slow::Probation;
    check(OnNodes { fails: 1, own: 1, slow, ..dying }, 1_628);
}

#[test]
#[ignore = "takes minutes"]
fn more_recoveries() {
    check(Recovery { crashes: 1, ..Recovery::rebuild(4) }, 1_571_437);
}

#[test]
#[ignore = "takes minutes"]
fn a_ring_of_four_inside_a_block() {
    check(Inside { ring: true, crashes: 1, ..Inside::ranks(4) }, 1_206_409);
    let again = Inside { again: true, inner: 2, ..Inside::ranks(3) };
    check(Inside { leaver: Some(2), ..again }, 392_372);
}

#[test]
#[ignore = "takes minutes"]
fn more_commits() {
    check(Setup { crashes: 3, blocks: 2, in_sequence: true, ..Setup::ranks(4) }, 1_218_785);
    check(Setup { crashes: 1, blocks: 3, ..Setup::ranks(3) }, 1_524_432);
    check(Setup { crashes: 2, ..Setup::ranks(5) }, 2_577_773);
    check(Setup { crashes: 1, naysayer: Some(0), ..Setup::ranks(5) }, 911_178);
    check(Setup { crashes: 1, blocks: 2, ..Setup::ranks(4) }, 7_321_314);
    check(Setup { crashes: 1, shape: Shape::new(4, 2), ..Setup::ranks(5) }, 1_116_396);
}
