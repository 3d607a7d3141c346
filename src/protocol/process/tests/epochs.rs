//! Communicators that start afresh: what they take along, what is asked of their past, and when
//! that is forgotten.

use super::*;
use crate::protocol::agreement::FIRST_SHARED_CONTEXT;

const BOTH: [Rank; 2] = [ROOT, ME];
const THIRD: Rank = Rank::new(2);

/// The world, one of its parts, and a part of that.
fn three_levels() -> (Story, CommKey, CommKey) {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let inner = story.derived(part, &BOTH);
    (story, part, inner)
}

/// The root has decided first what this rank hears last, and has begun a block in between.
///
/// ```text
/// root     part's block ✗, a block of the inner one …, world's block ✗
/// this     world's block ✗, part's block ✗
/// ```
#[test]
fn a_block_between_two_aborts_gets_a_no_from_who_hears_of_them_in_the_other_order() {
    for asks_early in [false, true] {
        let (mut story, part, inner) = three_levels();
        let (world, part) = (story.name(story.world), story.name(part));
        let between = story.process.comm(inner).id.after_abort(part, FIRST);
        story.hears_of_abort(world, FIRST, &[]);
        if asks_early {
            assert!(!story.refuses(between, FIRST), "it does not know that name yet");
        }
        story.hears_of_abort(part, FIRST, &[]);
        let refuses =
            if asks_early { is_no(&story.tells(between)) } else { story.refuses(between, FIRST) };
        assert!(refuses, "asked before the abort is known: {asks_early}");
    }
}

#[test]
fn an_epoch_that_was_overtaken_is_answered_for_until_all_know_the_later_abort() {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let world = story.name(story.world);
    let between = story.process.comm(part).id.after_abort(world, FIRST);
    for block in [SECOND, FIRST] {
        story.hears_of_abort(world, block, &[]);
    }
    story.hears_floor(SECOND);
    assert!(story.refuses(between, FIRST), "the root may be in it: it need not know of the second");
    story.hears_floor(BlockId(2));
    assert_eq!(story.process.remembered().communicators, 2);
}

#[test]
fn a_new_epoch_ends_what_ended_with_a_block_of_the_old_one() {
    let (mut story, part, _) = three_levels();
    let (world, part) = (story.name(story.world), story.name(part));
    story.hears_of_abort(part, FIRST, &[]);
    story.hears_of_abort(world, FIRST, &[]);
    assert_eq!(story.process.remembered().communicators, 6);
    story.hears_floor(SECOND);
    assert_eq!(story.process.remembered().communicators, 3, "no block of the part is needed");
}

#[test]
fn an_epoch_takes_along_what_the_application_has_set() {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let dead: RankSet = [ROOT].into_iter().collect();
    let state = story.process.comm_mut(part);
    (state.patience, state.run_through) = (Patience::Patient, true);
    state.acknowledged.tell(&dead);
    state.acknowledged.acknowledge(1);
    story.process.revoke(part, &mut story.told);
    let (world, name) = (story.name(story.world), story.name(part));
    story.hears_of_abort(world, FIRST, &[]);
    let state = story.process.comm(part);
    assert!(state.wire != name && state.interrupts.is_revoked());
    assert_eq!(state.acknowledged.ranks(), dead);
    assert_eq!((state.patience, state.run_through), (Patience::Patient, true));
}

#[test]
fn the_epoch_of_a_part_that_lost_a_rank_shares_a_context() {
    let mut story = Story::new(3);
    let whole = story.derived(story.world, &[ROOT, ME, THIRD]);
    let rest = story.derived(story.world, &BOTH);
    let world = story.name(story.world);
    story.hears_of_abort(world, FIRST, &[THIRD]);
    assert_eq!(story.process.comm(whole).context, FIRST_SHARED_CONTEXT);
    assert_eq!(story.process.comm(rest).context, 1);
    assert!(story.process.told_dead(whole).contains(THIRD), "the report of the world counts");
}

#[test]
fn who_asks_about_a_block_of_an_old_epoch_is_answered() {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let (world, old) = (story.name(story.world), story.name(part));
    story.hears(old, Message::HowFar(FIRST));
    assert_eq!(story.tells(old), []);
    story.hears_of_abort(world, FIRST, &[]);
    assert!(story.tells(old).contains(&Message::Reached(FIRST, Stage::Failed)));
    assert!(story.refuses(old, FIRST));
    story.hears(old, Message::HowFar(FIRST));
    assert_eq!(story.tells(old), [Message::Reached(FIRST, Stage::Failed)], "asked afterwards");
}

#[test]
fn who_gives_up_or_leaves_tells_those_who_wait() {
    for leaves in [false, true] {
        let mut story = Story::new(2);
        let world = story.name(story.world);
        story.hears(world, Message::HowFar(FIRST));
        if leaves {
            story.process.leave_comm(story.world, &mut story.told);
        } else {
            story.process.give_up(story.world, &mut story.told);
        }
        let told = story.tells(world);
        assert!(told.contains(&Message::Reached(FIRST, Stage::Failed)), "{leaves}: {told:?}");
        assert!(told.contains(&Message::Interrupt(FIRST)), "{leaves}: {told:?}");
    }
}

/// This rank waits for a block of the old epoch, so the others may not forget it.
#[test]
fn the_floor_waits_for_blocks_of_an_old_epoch() {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let (world, old) = (story.name(story.world), story.name(part));
    let floor = |story: &mut Story| {
        let block = story.start(story.world);
        story.vote(block);
        story.tells(world).into_iter().find_map(|message| match message {
            Message::Yes(yes) => Some(yes.floor),
            _ => None,
        })
    };
    for block in [story.start(story.world), story.start(part)] {
        story.vote(block);
    }
    story.hears_of_abort(world, FIRST, &[]);
    story.tells(world);
    assert_eq!(floor(&mut story), Some(FIRST));
    story.hears_of_abort(old, FIRST, &[]);
    assert!(story.process.is_sweep_due());
    assert_eq!(floor(&mut story), Some(SECOND));
}

#[test]
fn worlds_that_are_left_one_after_the_other_are_over_with_the_last() {
    let mut story = Story::new(2);
    let mut last = UNIVERSE;
    for number in 1..4 {
        let (universe, members) = (UniverseId(number), (BOTH.to_vec(), ME));
        let id = CommId(100 * u64::from(number));
        let next = story.process.register(id, universe, members, None, &mut story.told);
        story.process.leave_behind(last, next);
        (last, story.world) = (universe, next);
    }
    for key in story.process.comms() {
        story.process.comm_mut(key).handles = 0;
    }
    let name = story.name(story.world);
    let decide = Message::Decide(slow(FIRST), Decision::all_yes(0, SECOND));
    story.process.handle_message((last, ROOT), name, decide, &mut story.told);
    story.process.sweep(|_| false, &mut story.told);
    let remembered = story.process.remembered();
    assert_eq!((remembered.communicators, remembered.universes), (1, 1));
}

#[test]
fn what_comes_late_for_what_is_forgotten_is_not_kept() {
    let mut story = Story::new(2);
    let part = story.derived(story.world, &BOTH);
    let (world, old) = (story.name(story.world), story.name(part));
    story.hears_of_abort(world, FIRST, &[]);
    story.hears_floor(SECOND);
    assert_eq!(story.process.remembered().communicators, 2);
    story.hears(old, Message::HowFar(FIRST));
    assert_eq!(story.process.early, []);
    // Of a universe that is over, this one never had that communicator.
    story.hears(CommId(77), Message::HowFar(FIRST));
    assert_eq!(story.process.early.len(), 1);
    let members = (BOTH.to_vec(), ME);
    let next = story.process.register(CommId(100), UniverseId(1), members, None, &mut story.told);
    story.process.leave_behind(UNIVERSE, next);
    let decide = Message::Decide(slow(FIRST), Decision::all_yes(0, SECOND));
    story.process.handle_message((UniverseId(1), ROOT), CommId(100), decide, &mut story.told);
    story.process.sweep(|_| false, &mut story.told);
    assert_eq!(story.process.early, []);
}

#[test]
fn deaths_in_a_universe_that_was_never_adopted_are_forgotten_with_it() {
    let mut story = Story::new(2);
    let given_up = (UniverseId(5), ROOT);
    story.process.handle_death(given_up, Source::Platform, &mut story.told);
    assert_eq!(story.process.early_deaths, [given_up]);
    story.process.forget_universe(given_up.0);
    assert_eq!(story.process.early_deaths, []);
}
