//! Every message survives the wire, and no other bytes are taken for one.

use super::*;
use crate::protocol::fused::ReduceOp;
use alloc::vec;
use proptest::prelude::*;

fn samples() -> Vec<Message> {
    let dead: RankSet = [1, 6].into_iter().map(Rank::new).collect();
    let slow = Slow { block: BlockId(7), ballot: Ballot(3), dead: dead.clone() };
    let fault = Fault { comm: CommId(9), rank: Rank::new(4), code: FaultCode::Application(-2) };
    let values = Values::new(ReduceOp::Max, &[1.5, -2.0, 0.25]).expect("defined");
    let tally = Tally {
        // Miri takes a thousand times as long.
        faults: vec![fault; if cfg!(miri) { 3 } else { 300 }],
        dead: dead.clone(),
        agreed: RankSet::new(),
        causes: [(Rank::new(1), crate::fault::Cause::Killed(9))].into_iter().collect(),
        floor: BlockId(2),
        context_min: 1,
        context_max: 2,
        plain: true,
        shape_min: 0,
        shape_max: values.shape(),
        values: vec![(Rank::new(3), values); 5],
    };
    let decision = tally.clone().decide(CommId(9));
    let committed = Decision { values: Some(Box::new(values)), ..Decision::all_yes(3, BlockId(8)) };
    let rider = RiderId { block: BlockId(10), number: 2 };
    let mut held = Held::NOTHING;
    held.set(&values);
    let yes = Yes { block: BlockId(1), step: 2, view: 3, floor: BlockId(4) };
    vec![
        Message::Yes(yes),
        Message::Fused(Fused { yes, values }),
        Message::Decide(slow.clone(), committed),
        Message::Ask(slow.clone()),
        Message::Contribute(slow.clone(), Contribution::Undecided(tally)),
        Message::Contribute(slow.clone(), Contribution::Decided(decision.clone())),
        Message::Decide(slow, decision),
        Message::Interrupt(BlockId(5)),
        Message::HowFar(BlockId(6)),
        Message::Reached(BlockId(7), Stage::Posted),
        Message::Reached(BlockId(8), Stage::Over),
        Message::Reached(BlockId(9), Stage::Failed),
        Message::Wanted(rider),
        Message::Ahead(Ahead { rider, step: 3, view: 5, values: Held::NOTHING }),
        Message::Ahead(Ahead { rider, step: 3, view: 5, values: held }),
        Message::Retired,
    ]
}

#[test]
fn every_message_survives_the_wire() {
    for message in samples() {
        let frame = encode(CommId(11), &message);
        assert_eq!(decode(&frame), Some((CommId(11), message.clone())));
        let fast = matches!(message, Message::Yes(_) | Message::Fused(_));
        assert_eq!(is_fast(&frame), fast);
        assert!(!is_fast(&frame) || !frame.spilled(), "the fast message fits inline");
    }
}

#[test]
fn every_prefix_and_every_extension_is_refused() {
    for message in samples() {
        let frame = encode(CommId(11), &message);
        for length in 0..frame.len() {
            assert_eq!(decode(&frame[..length]), None);
        }
        let longer: Vec<u8> = frame.iter().copied().chain([0]).collect();
        assert_eq!(decode(&longer), None);
    }
}

proptest! {
    #[test]
    fn bytes_from_outside_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    /// Bytes are changed, and a message ends with the end of another.
    #[test]
    fn damaged_messages_from_outside_never_panic_and_are_understood_alike(
        which in prop::collection::vec(0_usize..13, 2),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 2),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        spliced in any::<bool>(),
    ) {
        let [one, other] = [0, 1].map(|at| encode(CommId(11), &samples()[which[at]]));
        let mut bytes = one.to_vec();
        if spliced {
            bytes.truncate(cuts[0].index(one.len()));
            bytes.extend(&other[cuts[1].index(other.len())..]);
        }
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Some((comm, message)) = decode(&bytes) {
            prop_assert_eq!(decode(&encode(comm, &message)), Some((comm, message)));
        }
    }
}
