//! Blocks that are doomed, and what they leave behind: which operations have a chance, what the
//! next block votes, and what others are told who wait.

use super::*;
use crate::protocol::{agreement::FIRST_SHARED_CONTEXT, interrupt::REVOCATION};

/// What this rank votes on a block whose requests, if it has any, were complete.
fn faults_of(story: &mut Story, block: BlockKey, with_requests: bool) -> Vec<FaultCode> {
    let world = story.name(story.world);
    story.tells(world);
    story.process.vote(block, with_requests.then(Vec::new), &mut story.told);
    let faults = |message: Message| match message {
        Message::Contribute(_, Contribution::Undecided(tally)) => tally.decide(world).faults,
        _ => Vec::new(),
    };
    story.tells(world).into_iter().flat_map(faults).map(|fault| fault.code).collect()
}

#[test]
fn messages_of_an_aborted_attempt_do_not_start_in_a_shared_context() {
    let mut story = Story::new(3);
    story.process.handle_death((UNIVERSE, Rank::new(2)), Source::Platform, &mut story.told);
    story.process.comm_mut(story.world).context = FIRST_SHARED_CONTEXT;
    let (earlier, local) =
        (story.start(story.world), story.process.start_block(story.world, Level::Local));
    story.start(story.world);
    let world = story.name(story.world);
    let next = Decision::all_yes(FIRST_SHARED_CONTEXT + 1, FIRST);
    story.hears_decision(world, SECOND, Decision { committed: false, ..next });
    for block in [earlier, local] {
        assert_eq!(story.process.doom(block, Need::Peer(ROOT)), Some(FaultCode::Interrupted));
    }
}

#[test]
fn a_block_started_before_the_abort_was_known_is_interrupted() {
    let mut story = Story::new(2);
    let world = story.name(story.world);
    for block in [story.start(story.world), story.start(story.world)] {
        story.vote(block);
    }
    story.hears_of_abort(world, FIRST, &[]);
    assert!(story.tells(world).contains(&Message::Interrupt(SECOND)));
}

#[test]
fn an_agreement_started_before_the_abort_was_known_dooms_no_block_that_comes_after_it() {
    let mut story = Story::new(2);
    let world = story.name(story.world);
    let [first, second] = [(); 2].map(|()| story.start(story.world));
    story.vote(first);
    story.process.begin_agreement(second, 1);
    story.hears_of_abort(world, FIRST, &[]);
    assert!(!story.tells(world).contains(&Message::Interrupt(SECOND)));
    let third = story.start(story.world);
    assert!(faults_of(&mut story, third, true).is_empty());
}

#[test]
fn whoever_hears_of_a_revocation_ends_what_the_program_does_beside_blocks() {
    let mut story = Story::new(2);
    let world = story.name(story.world);
    story.hears(world, Message::Interrupt(REVOCATION));
    let retired = Command::RetireContexts(DataId(0), 0, false);
    assert!(story.told.commands.contains(&retired));
}

/// How a block is left whose operations may meet those of the next one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    WithARequest,
    Interrupted,
    InterruptedBefore,
    Doomed,
    WithAFault,
}

#[test]
fn no_block_with_requests_commits_after_one_that_was_left_in_its_context() {
    use Left::*;
    for left in [WithARequest, Interrupted, InterruptedBefore, Doomed, WithAFault] {
        for with_requests in [false, true] {
            let mut story = Story::new(2);
            let world = story.name(story.world);
            if left == InterruptedBefore {
                story.hears(world, Message::Interrupt(FIRST));
            }
            let block = story.start(story.world);
            match left {
                WithARequest => {
                    let (need, code) = (Need::Peer(ROOT), FaultCode::TimedOut);
                    story.process.request_failed(block, need, code, &mut story.told);
                }
                Interrupted => story.hears(world, Message::Interrupt(FIRST)),
                InterruptedBefore => {}
                Doomed => story.process.doom_open_blocks(&mut story.told),
                WithAFault => story.process.raise(block, FaultCode::Application(1)),
            }
            let next = story.start(story.world);
            let doom = story.process.doom(next, Need::All);
            assert_eq!(doom, Some(FaultCode::Interrupted), "{left:?}");
            let faults = faults_of(&mut story, next, with_requests);
            let expected: &[FaultCode] =
                if with_requests { &[FaultCode::Interrupted] } else { &[] };
            assert_eq!(faults, expected, "{left:?}");
        }
    }
}

/// But they do in that one, in local blocks, and in the next context.
#[test]
fn collectives_start_in_no_block_beside_one_with_a_fault() {
    let mut story = Story::new(2);
    let (world, collective) = (story.name(story.world), Need::All);
    let (before, faulty) = (story.start(story.world), story.start(story.world));
    let local = story.process.start_block(story.world, Level::Local);
    let after = story.start(story.world);
    story.process.raise(faulty, FaultCode::Application(1));
    // A further fault changes nothing.
    story.process.raise(after, FaultCode::Application(1));
    for (block, starts) in [(before, false), (faulty, true), (local, true), (after, false)] {
        assert_eq!(story.process.doom(block, collective).is_none(), starts);
        assert_eq!(story.process.doom(block, Need::Peer(ROOT)), None);
    }
    for block in [before, faulty, after] {
        story.vote(block);
    }
    story.hears_of_abort(world, FIRST, &[]);
    let next = story.start(story.world);
    assert_eq!(story.process.doom(next, collective), None);
    // A late fault of the old context says nothing of the new one, where there is one by now.
    let last = story.start(story.world);
    story.process.raise(next, FaultCode::Application(2));
    story.process.raise(after, FaultCode::Application(3));
    assert_eq!(story.process.doom(last, collective), Some(FaultCode::Interrupted));
}

/// Of a local block, whose collective the next one of this rank would meet.
#[test]
fn a_collective_that_a_local_block_gave_up_is_why_the_next_agreed_block_fails() {
    let mut story = Story::new(2);
    let local = story.process.start_block(story.world, Level::Local);
    let (collective, late) = (Need::All, FaultCode::TimedOut);
    story.process.request_failed(local, collective, late, &mut story.told);
    let block = story.start(story.world);
    assert_eq!(story.process.doom(block, collective), Some(FaultCode::Interrupted));
    assert_eq!(story.process.doom(block, Need::Peer(ROOT)), None);
    story.process.raise(block, FaultCode::Application(1));
    let faults = faults_of(&mut story, block, true);
    assert!(faults.len() == 2 && faults.contains(&late), "{faults:?}");
}

#[test]
fn a_request_that_failed_with_its_peer_tells_of_the_death() {
    let mut story = Story::new(3);
    let peer = Rank::new(2);
    let block = story.start(story.world);
    let code = FaultCode::ProcessFailed;
    story.process.request_failed(block, Need::Peer(peer), code, &mut story.told);
    assert!(story.process.comm(story.world).commit.dead().contains(peer));
    assert!(story.told.commands.contains(&Command::Died((UNIVERSE, peer), Source::Request)));
}

/// The others wait in it for messages of this rank, also where it has only waited less long than
/// they do; whose vote has what rides on it serves them after that.
#[test]
fn what_is_made_of_messages_and_given_up_by_one_rank_is_given_up_by_all() {
    let (broken, late) = (FaultCode::Mpi(15), FaultCode::TimedOut);
    let made_of_messages = [Need::Living(0), Need::Coded(0)];
    let cases = made_of_messages.into_iter().flat_map(|need| [(need, broken), (need, late)]);
    let told = cases.map(|case| (case, true));
    for ((need, code), told) in told.chain([((Need::Rider(0), late), false)]) {
        let mut story = Story::new(2);
        let world = story.name(story.world);
        let block = story.start(story.world);
        story.process.request_failed(block, need, code, &mut story.told);
        let tells = story.tells(world);
        assert_eq!(tells.contains(&Message::Interrupt(FIRST)), told, "{need:?} {code:?}");
    }
}

#[test]
fn whatever_was_started_inside_of_a_doomed_block_is_doomed_unless_a_panic_has_left_that() {
    for left_by_a_panic in [false, true] {
        let mut story = Story::new(2);
        let part = story.derived(story.world, &[ROOT, ME]);
        let (world, name) = (story.name(story.world), story.name(part));
        let outer = story.start(story.world);
        if left_by_a_panic {
            story.process.orphan(outer);
        }
        story.start(part);
        story.hears(world, Message::Interrupt(FIRST));
        let told = story.tells(name);
        assert_eq!(told.contains(&Message::Interrupt(FIRST)), !left_by_a_panic);
    }
}

#[test]
fn a_request_of_unknown_need_that_was_cut_short_may_have_needed_who_died() {
    for (dead, code) in
        [(vec![Rank::new(2)], FaultCode::ProcessFailed), (Vec::new(), FaultCode::Interrupted)]
    {
        let mut story = Story::new(3);
        let world = story.name(story.world);
        let block = story.start(story.world);
        story.vote(block);
        story.hears_of_abort(world, FIRST, &dead);
        for need in [Need::All, Need::Anybody, Need::Living(0), Need::Rider(0), Need::Foreign] {
            assert_eq!(story.process.cause_of(block, need, [].into_iter()), code, "{need:?}");
        }
        assert_eq!(
            story.process.cause_of(block, Need::Nobody, [].into_iter()),
            FaultCode::Interrupted
        );
    }
}

#[test]
fn who_asks_hears_how_far_a_block_is() {
    let mut story = Story::new(2);
    let world = story.name(story.world);
    let ask = |story: &mut Story| {
        story.hears(world, Message::HowFar(FIRST));
        story.tells(world)
    };
    assert_eq!(ask(&mut story), []);
    let block = story.start(story.world);
    assert_eq!(ask(&mut story), []);
    story.process.finish(block);
    assert_eq!(ask(&mut story), [Message::Reached(FIRST, Stage::Posted)]);
    story.vote(block);
    let told = story.tells(world);
    assert!(told.contains(&Message::Reached(FIRST, Stage::Over)), "{told:?}");
    assert_eq!(ask(&mut story), [Message::Reached(FIRST, Stage::Over)]);
}

/// Of communicators with other processes it is not known which of them are the same.
#[test]
fn a_block_inside_needs_those_of_the_outer_one_whom_it_has() {
    let third = Rank::new(2);
    let mut story = Story::new(3);
    let part = story.derived(story.world, &[ROOT, ME]);
    let members = (vec![ROOT, ME], ME);
    let (id, data) = (CommId(7), Some(DataId(7)));
    let elsewhere = story.process.register(id, UniverseId(1), members, data, &mut story.told);
    let outer = story.start(story.world);
    for (comm, needed) in [(part, vec![ROOT]), (elsewhere, vec![ROOT, third])] {
        let inner = story.start(comm);
        assert_eq!(story.process.needed_by(outer, inner), needed);
    }
}
