//! Sections of arrays: every shape against every other, what may be used at once, and what the
//! application may do with an array meanwhile.

use std::ops::Range;

use fampi::{Array, Error, FaultCode, Level, Outcome, Rank, Tag, Timeout, World, sim::Simulation};

/// Runs the same on two ranks with some seeds; nothing of it may be left over.
fn on_two_ranks(program: fn(&World, Rank)) {
    for seed in 0..10 {
        let report = Simulation::new(2).seed(seed).run_world(move |world| {
            program(&world, Rank::new(1 - world.rank().number()));
            world.finalize();
        });
        report.expect_orderly();
    }
}

fn committed(block: fampi::TryBlock) -> bool {
    let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never);
    matches!(outcome, Ok(Outcome::Committed(_)))
}

/// Sections of a box with as many elements each, in different shapes.
const SECTIONS: [[Range<usize>; 3]; 6] = [
    [0..1, 0..3, 0..4],
    [1..3, 1..3, 1..4],
    [0..3, 1..3, 2..4],
    [0..4, 0..3, 3..4],
    [2..3, 0..3, 0..4],
    [0..4, 2..3, 1..4],
];

const SHAPE: [usize; 3] = [4, 3, 4];

fn places(section: &[Range<usize>; 3]) -> Vec<usize> {
    let [k, j, i] = section.clone();
    let rows = k.flat_map(|k| j.clone().map(move |j| (k * SHAPE[1] + j) * SHAPE[2]));
    rows.flat_map(|row| i.clone().map(move |i| row + i)).collect()
}

#[test]
fn a_section_of_any_shape_fills_one_of_any_other_in_the_order_of_its_elements() {
    on_two_ranks(|world, other| {
        let sent = Array::new(SHAPE, (0..48_u32).collect()).expect("as long as its shape");
        for from in &SECTIONS {
            for to in &SECTIONS {
                let mut received = Array::new(SHAPE, vec![99_u32; 48]).expect("as long");
                let mut block = world.start(Level::Global).expect("in use");
                let plain = block.irecv(vec![0_u32; 12], other, Tag(2)).expect("posted");
                for tag in [Tag(1), Tag(2)] {
                    block.isend_section(&sent, from.clone(), other, tag).expect("free");
                }
                let id = block.irecv_section(&received, to.clone(), other, Tag(1)).expect("free");
                let status = block.wait_local(id, Timeout::Never).expect("received");
                assert_eq!((status.source, status.tag, status.elements), (Some(other), Tag(1), 12));
                block.wait_local(plain, Timeout::Never).expect("received");
                let packed: Vec<u32> = places(from).into_iter().map(|at| at as u32).collect();
                assert_eq!(block.take(plain).expect("complete"), packed);
                assert!(committed(block));
                let mut expected = vec![99; 48];
                places(to).into_iter().zip(packed).for_each(|(at, it)| expected[at] = it);
                assert_eq!(received.elements_mut().expect("all is over"), expected);
            }
        }
        assert!(sent.into_vec().is_ok());
    });
}

#[test]
fn a_shorter_message_fills_the_first_elements_and_a_longer_one_is_a_fault() {
    on_two_ranks(|world, other| {
        let mut field = Array::new([3, 3], vec![0_u8; 9]).expect("as long as its shape");
        let mut block = world.start(Level::Global).expect("in use");
        let id = block.irecv_section(&field, [0..3, 1..2], other, Tag(1)).expect("free");
        block.isend(vec![5_u8, 6], other, Tag(1)).expect("sent");
        assert_eq!(block.wait_local(id, Timeout::Never).expect("received").elements, 2);
        assert!(committed(block));
        assert_eq!(field.elements_mut().expect("all is over"), [0, 5, 0, 0, 6, 0, 0, 0, 0]);
        let mut block = world.start(Level::Global).expect("in use");
        let id = block.irecv_section(&field, [0..3, 1..2], other, Tag(1)).expect("free");
        block.isend(vec![5_u8; 4], other, Tag(1)).expect("sent");
        let truncated = Err(Error::Request(FaultCode::Mpi(15)));
        assert_eq!(block.wait_local(id, Timeout::Never), truncated);
        assert!(!committed(block));
    });
}

#[test]
fn nothing_is_started_that_could_meet_another_request() {
    on_two_ranks(|world, other| {
        let mut field = Array::new([4, 4], vec![7_u64; 16]).expect("as long as its shape");
        let short = Array::new([4, 4], vec![7_u64; 15]).map(|_| ());
        assert_eq!(short, Err(Error::WrongLength { expected: 16, elements: 15 }));
        let mut block = world.start(Level::Global).expect("in use");
        let outside = Error::OutsideOfArray { axis: 0, start: 3, end: 5, length: 4 };
        let found = block.isend_section(&field, [3..5, 0..1], other, Tag(1));
        assert_eq!(found, Err(outside));
        let nobody = Error::NoSuchRank { rank: Rank::new(2), size: 2 };
        let found = block.irecv_section(&field, [0..4, 0..1], Rank::new(2), Tag(1));
        assert_eq!(found, Err(nobody));
        // What was refused has claimed nothing.
        assert!(field.elements_mut().is_ok());
        let ghosts = block.irecv_section(&field, [0..4, 0..1], other, Tag(1)).expect("free");
        let found = block.isend_section(&field, [0..1, 0..4], other, Tag(1));
        assert_eq!(found, Err(Error::SectionInUse));
        assert_eq!(field.elements_mut().err(), Some(Error::ArrayInUse));
        assert_eq!(field.read().err(), Some(Error::ArrayInUse));
        let beside = block.isend_section(&field, [0..4, 1..2], other, Tag(1)).expect("free");
        block.waitall_local([ghosts, beside], Timeout::Never).expect("both are over");
        // A request that is over has given its section back, in the block already.
        let sent = block.isend_section(&field, [0..1, 0..4], other, Tag(2)).expect("free");
        {
            let seen = field.read().expect("nobody writes");
            assert_eq!(*seen, [7; 16]);
            let found = block.irecv_section(&field, [3..4, 0..4], other, Tag(2));
            assert_eq!(found, Err(Error::ArrayInUse));
        }
        let last = block.irecv_section(&field, [3..4, 0..4], other, Tag(2)).expect("free");
        block.waitall_local([sent, last], Timeout::Never).expect("both are over");
        assert!(committed(block));
        assert_eq!(field.into_vec().expect("all is over"), [7; 16]);
    });
}

#[test]
fn what_failed_gives_the_array_back_with_the_verdict_and_not_with_the_block() {
    for seed in 0..10 {
        let report = Simulation::new(2).seed(seed).run_world(|world| {
            let mut array = Array::new([2, 2], vec![0_u8; 4]).expect("four elements");
            let other = Rank::new(1 - world.rank().number());
            let mut block = world.start(Level::Global).expect("in use");
            // Nobody sends.
            block.irecv_section(&array, [0..2, 0..1], other, Tag(1)).expect("free");
            let late = Timeout::After(std::time::Duration::from_millis(1));
            let ended = block.finish(late).wait_local(Timeout::Never);
            let Ok(Outcome::Faulty(finished)) = ended else { panic!("nobody sends") };
            assert!(array.elements_mut().is_ok(), "while the block is still held");
            drop(finished);
            world.finalize();
        });
        report.expect_orderly();
    }
}
