//! Files in memory: what is written is read, and what becomes of a write in a block that is not
//! committed.

use std::time::Duration;

use fampi::{
    Codes, Error, FaultCode, File, FileMode, Finished, Level, Outcome, Placement, Rank, Tag,
    Timeout, TryBlock, World,
    sim::{self, Crash, Ending, Report, Simulation},
};

const SEEDS: u64 = 20;

fn wait(block: TryBlock, timeout: Timeout) -> Finished {
    match block.finish(timeout).wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        _ => panic!("it is waited for without a limit"),
    }
}

fn start(world: &World) -> TryBlock {
    world.start(Level::Global).expect("in use")
}

/// Reads this many elements from the beginning, in a block of its own.
fn read(world: &World, file: &File<u64>, room: usize) -> Vec<u64> {
    let mut block = start(world);
    let request = block.iread_at(file, 0, vec![u64::MAX; room]);
    let finished = wait(block, Timeout::Never);
    let status = finished.status(request).expect("files need nobody");
    assert!(status.source.is_none() && !status.cancelled);
    let mut found = finished.take(request).expect("complete");
    found.truncate(status.elements);
    found
}

/// Makes sure that nobody hangs or panics.
#[track_caller]
fn check<R>(report: &Report<R>) {
    for process in &report.processes {
        let well = matches!(process.ending, Ending::Finished(_) | Ending::Crashed);
        assert!(well, "{report}");
    }
}

#[test]
fn all_ranks_write_to_one_file_and_read_what_the_others_wrote() {
    for seed in 0..SEEDS {
        let report = Simulation::new(4).seed(seed).run_world(|world| {
            let me = u64::from(world.rank().number());
            let file = world.open_file("all", FileMode::ReadWrite).expect("made");
            let mut block = start(&world);
            let written = block.iwrite_at(&file, 3 * me, vec![me; 3]);
            let nothing = block.iwrite_at::<u64>(&file, 100, Vec::new());
            assert_eq!(block.wait_local(written, Timeout::Never).expect("written").elements, 3);
            assert_eq!(block.cancel(nothing), Ok(false));
            let finished = wait(block, Timeout::Never);
            assert!(finished.is_committed());
            assert_eq!(finished.take(written), Ok(vec![me; 3]));
            file.sync().expect("open");
            drop(finished);
            let found = read(&world, &file, 20);
            // Beyond the end there is nothing, which is no error.
            let mut block = start(&world);
            let beyond = block.iread_at(&file, 12, vec![5; 2]);
            let finished = wait(block, Timeout::Never);
            assert_eq!(finished.status(beyond).expect("no fault").elements, 0);
            assert_eq!(finished.take(beyond), Ok(vec![5; 2]));
            drop((finished, file));
            world.finalize();
            found
        });
        let expected: Vec<u64> = (0..4).flat_map(|rank| [rank; 3]).collect();
        assert!(report.expect_orderly().iter().all(|found| *found == expected));
    }
}

#[test]
fn errors_of_files_have_their_class_and_are_faults_of_the_request() {
    let report = Simulation::new(2).run_world(|world| {
        let missing = world.open_file::<u64>("missing", FileMode::Read).err();
        let class = |class| Error::Mpi { call: "MPI_File_open", class };
        assert_eq!(missing, Some(class(42)));
        assert_eq!(world.open_file::<u64>("", FileMode::Write).err(), Some(class(23)));
        let write = world.open_file::<u64>("there", FileMode::Write).expect("made");
        let read = world.open_file::<u64>("there", FileMode::Read).expect("there");
        for (class, at) in [(20, 0), (45, 0), (41, u64::MAX)] {
            let mut block = start(&world);
            let request = match class {
                20 => block.iread_at(&write, at, vec![0; 2]),
                45 => block.iwrite_at(&read, at, vec![0; 2]),
                _ => block.iwrite_at(&write, at, vec![0; 2]),
            };
            let code = FaultCode::Mpi(class);
            assert_eq!(block.fault(request), Some(code));
            let finished = wait(block, Timeout::Never);
            assert_eq!(finished.failed_requests(Codes::Of(&[code])), [request.index()]);
            assert_eq!(finished.failed_group(Codes::Of(&[code]), &world).len(), 2);
            assert_eq!(finished.take(request), Ok(vec![0; 2]));
        }
        drop((write, read));
        assert!(wait(start(&world), Timeout::Never).is_committed());
        world.finalize();
    });
    report.expect_orderly();
}

#[test]
fn a_file_needs_nobody_so_that_it_is_written_on_a_broken_communicator() {
    for seed in 0..SEEDS {
        let report = Simulation::new(4).seed(seed).run_world(|world| {
            let me = u64::from(world.rank().number());
            let file = world.open_file("log", FileMode::ReadWrite).expect("made");
            if world.rank() == Rank::new(1) {
                sim::crash();
            }
            for round in 0..6_u64 {
                let mut block = start(&world);
                let request = block.iwrite_at(&file, 4 * round + me, vec![round + 1]);
                let finished = wait(block, Timeout::Never);
                // Only the first block after the death is faulty, and its write may be interrupted.
                assert_eq!(finished.is_committed(), round > 0, "{finished:?}");
                assert!(finished.is_committed() <= finished.status(request).is_some());
                if round == 0 {
                    let dead = finished.failed_group(Codes::PROCESS_FAILURES, &world);
                    assert_eq!(dead.as_slice(), [Rank::new(1)]);
                }
            }
            let found = read(&world, &file, 100);
            drop(file);
            world.finalize();
            found
        });
        check(&report);
        for found in report.results() {
            assert_eq!(found.len(), 24);
            let own =
                |round: usize| [0, 2, 3].iter().all(|me| found[4 * round + me] == round as u64 + 1);
            assert!((1..6).all(own), "{found:?}");
        }
    }
}

/// Rank 1 dies anywhere in a write; it is in whole, in part or not there; the replacement opens
/// the file for itself.
#[test]
fn a_writer_that_dies_leaves_a_part_and_its_replacement_writes_it_again() {
    let mut parts = 0;
    for effect in 3..40 {
        let crash = Crash::before_effect(1, effect);
        let report = Simulation::new(3).seed(effect).crash(crash).run_world(|mut world| {
            let mut torn = false;
            loop {
                let me = u64::from(world.rank().number());
                let file = world.open_file("state", FileMode::ReadWrite).expect("made");
                let mut block = start(&world);
                let before = block.iread_at(&file, 8, vec![0; 8]);
                if block.wait_local(before, Timeout::Never).is_ok() {
                    let before = block.take(before).expect("complete");
                    let written = before.iter().take_while(|it| **it == 1).count();
                    assert!(before[written..].iter().all(|it| *it != 1), "{before:?}");
                    torn |= (1..8).contains(&written);
                }
                block.iwrite_at(&file, 8 * me, vec![me; 8]);
                let committed = wait(block, Timeout::Never).is_committed();
                if committed {
                    let found = read(&world, &file, 30);
                    assert_eq!(found, [[0; 8], [1; 8], [2; 8]].concat());
                    drop(file);
                    world.finalize();
                    return torn;
                }
                drop(file);
                world = world.rebuild(Placement::SameRanks).expect("spawned");
            }
        });
        check(&report);
        parts += usize::from(report.results().any(|torn| *torn));
    }
    assert!(parts > 0, "no death was in the middle of a write");
}

#[test]
fn an_access_that_is_late_is_a_fault_and_the_next_block_works() {
    let mut late = 0;
    for seed in 0..SEEDS {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let file = world
                .open_file(format!("late {}", world.rank()), FileMode::ReadWrite)
                .expect("made");
            let mut block = start(&world);
            let request = block.iwrite_at(&file, 0, vec![7_u64; 5]);
            let finished = wait(block, Timeout::After(Duration::from_nanos(1)));
            let is_late = finished.fault(request) == Some(FaultCode::TimedOut);
            if is_late {
                assert!(!finished.is_committed());
                // The buffer comes back once the write is over, be that as late as it may.
                let taken = finished.take(request);
                assert!(taken == Ok(vec![7; 5]) || taken == Err(Error::Quarantined));
            }
            drop(finished);
            // What is late is not later than this.
            let mut block = start(&world);
            block.iwrite_at(&file, 0, vec![8_u64; 5]);
            assert!(wait(block, Timeout::Never).is_committed());
            assert_eq!(read(&world, &file, 9), [8; 5]);
            drop(file);
            world.finalize();
            is_late
        });
        late += report.expect_orderly().into_iter().filter(|is_late| *is_late).count();
    }
    assert!(late > 0, "nothing was late");
}

#[test]
fn an_access_in_a_block_that_somebody_left_is_over_and_the_next_block_works() {
    let mut interrupted = 0;
    for seed in 0..SEEDS {
        let report = Simulation::new(3).seed(seed).run_world(|world| {
            let file = world.open_file("left", FileMode::ReadWrite).expect("made");
            let mut block = start(&world);
            let mut code = None;
            if world.rank() == Rank::new(2) {
                let pending = block.leave(&Error::Raised(4));
                assert!(matches!(pending.wait_local(Timeout::Never), Ok(Outcome::Faulty(_))));
            } else {
                if world.rank() == Rank::new(1) {
                    // It hears of it here, and the others later, or not before the end.
                    let never = block.irecv(vec![0_u8], Rank::new(2), Tag(1)).expect("posted");
                    assert!(block.wait_local(never, Timeout::Never).is_err());
                }
                let request = block.iwrite_at(&file, 0, vec![7_u64; 5]);
                let finished = wait(block, Timeout::Never);
                assert!(!finished.is_committed());
                code = finished.fault(request);
                assert!(code.is_none_or(|code| code == FaultCode::Interrupted));
            }
            let mut block = start(&world);
            block.iwrite_at(&file, 0, vec![8_u64; 5]);
            assert!(wait(block, Timeout::Never).is_committed());
            drop(file);
            world.finalize();
            code
        });
        interrupted += report.expect_orderly().iter().flatten().count();
    }
    assert!(interrupted > 0, "nobody was interrupted");
}
