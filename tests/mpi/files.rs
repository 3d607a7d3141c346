//! Programs about files on real ranks: contents, errors, deaths.

use std::{path::PathBuf, time::Duration};

use fampi::{
    Codes, Error, FaultCode, File, FileMode, Finished, Level, Placement, Rank, Tag, Timeout, World,
};

use crate::{
    all_say, program,
    programs::{Ended, die, say, wait},
};

/// A file of this launch, whose folder the test removes.
fn path(name: &str) -> PathBuf {
    let folder = std::env::var_os("FOLDER").expect("told");
    PathBuf::from(folder).join(name)
}

/// All ranks write to one file, and each reads what all have written.
pub(crate) fn all(world: World) -> Ended {
    let (me, size) = (world.rank().index(), world.size() as usize);
    let file = world.open_file::<u64>(path("all"), FileMode::ReadWrite)?;
    for elements in [1, 1000, 300_000] {
        let value = |rank: usize, at: usize| (rank * 1_000_000 + at + elements) as u64;
        let content = |rank: usize| (0..elements).map(move |at| value(rank, at));
        let mut block = world.start(Level::Global)?;
        let written = block.iwrite_at(&file, (me * elements) as u64, content(me).collect());
        let nothing = block.iwrite_at::<u64>(&file, 1 << 40, Vec::new());
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "{finished:?}");
        let moved = [written, nothing].map(|it| finished.status(it).map(|it| it.elements));
        assert_eq!(moved, [Some(elements), Some(0)]);
        drop(finished);
        file.sync()?;
        let mut block = world.start(Level::Global)?;
        let room = vec![u64::MAX; size * elements + 7];
        let read = block.iread_at(&file, 0, room);
        let beyond = block.iread_at(&file, 1 << 40, vec![5_u64; 2]);
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "{finished:?}");
        let status = finished.status(read).expect("complete");
        assert_eq!(
            (status.elements, status.source, status.cancelled),
            (size * elements, None, false)
        );
        let found = finished.take(read)?;
        assert!((0..size).flat_map(content).chain([u64::MAX; 7]).eq(found), "{elements} elements");
        assert_eq!(finished.status(beyond).map(|it| it.elements), Some(0));
        assert_eq!(finished.take(beyond)?, [5; 2]);
    }
    drop(file);
    errors(&world)?;
    say(world, "all files are right")
}

/// The launch has chosen an implementation that crashes.
pub(crate) fn refused(world: World) -> Ended {
    match world.open_file::<u64>(path("never"), FileMode::Write) {
        Err(Error::Unsupported(text)) => say(world, &text),
        other => panic!("{other:?}"),
    }
}

fn fault(world: &World, file: &File<u64>, writes: bool) -> Result<Option<FaultCode>, Error> {
    let mut block = world.start(Level::Global)?;
    let buffer = vec![3_u64; 4];
    let request =
        if writes { block.iwrite_at(file, 0, buffer) } else { block.iread_at(file, 0, buffer) };
    let finished = wait(block.finish(Timeout::Never))?;
    assert_eq!(finished.is_committed(), finished.fault(request).is_none());
    assert_eq!(finished.take(request)?, [3; 4]);
    Ok(finished.fault(request))
}

/// Each error has its class, and nobody dies of it.
fn errors(world: &World) -> Ended {
    let class = |opened: Result<File<u64>, Error>| match opened {
        Err(Error::Mpi { call: "MPI_File_open", class }) => class,
        other => panic!("{other:?}"),
    };
    assert_eq!(class(world.open_file(path("missing"), FileMode::Read)), 42);
    assert_eq!(class(world.open_file(path("no folder/none"), FileMode::Write)), 42);
    assert_eq!(class(world.open_file("a\0b", FileMode::Write)), 23);
    let own = path(&format!("own {}", world.rank()));
    let write = world.open_file(&own, FileMode::Write)?;
    assert_eq!(fault(world, &write, true)?, None);
    let read = world.open_file(&own, FileMode::Read)?;
    assert_eq!(fault(world, &read, false)?, None);
    assert_eq!(fault(world, &read, true)?, Some(FaultCode::Mpi(45)));
    assert_eq!(fault(world, &write, false)?, Some(FaultCode::Mpi(20)));
    let full = world.open_file("/dev/full", FileMode::Write)?;
    assert!(matches!(fault(world, &full, true)?, Some(FaultCode::Mpi(35 | 41))));
    Ok(())
}

/// In each generation a rank dies before or after its write; the others' files stay open.
pub(crate) fn with_deaths(mut world: World) -> Ended {
    let size = world.size();
    let me = world.rank();
    let file = world.open_file::<u64>(path("state"), FileMode::ReadWrite)?;
    loop {
        let generation = world.generation();
        let bad = Rank::new(generation % size);
        let place = |rank: Rank| 1000 * u64::from(rank.number());
        let mut block = world.start(Level::Global)?;
        if generation == 4 {
            block.iwrite_at(&file, place(me), vec![u64::from(me.number()); 1000]);
            let finished = wait(block.finish(Timeout::Never))?;
            assert!(finished.is_committed(), "{finished:?}");
            break;
        }
        if me == bad && generation < 2 {
            die();
        }
        let written = block.iwrite_at(&file, place(me), vec![99; 1000]);
        if me == bad {
            die();
        }
        let finished = wait(block.finish(Timeout::Never))?;
        check(&world, &finished, bad);
        assert!(finished.fault(written).is_none_or(|code| code == FaultCode::Interrupted));
        drop(finished);
        // Nobody needs the dead to write.
        let mut block = world.start(Level::Global)?;
        block.iwrite_at(&file, place(me), vec![98; 1000]);
        let finished = wait(block.finish(Timeout::Never))?;
        assert!(finished.is_committed(), "{finished:?}");
        drop(finished);
        world = world.rebuild(Placement::SameRanks)?;
    }
    with_deserter(&world, &file)?;
    let mut block = world.start(Level::Global)?;
    let read = block.iread_at(&file, 0, vec![0; 1000 * size as usize]);
    let finished = wait(block.finish(Timeout::Never))?;
    let found = finished.take(read)?;
    let expected = |(at, found): (usize, &u64)| *found == (at / 1000) as u64;
    assert!(finished.is_committed() && found.iter().enumerate().all(expected));
    drop((finished, file));
    say(world, "all files survived")
}

fn check(world: &World, finished: &Finished, bad: Rank) {
    let dead = finished.failed_group(Codes::PROCESS_FAILURES, world);
    assert!(!finished.is_committed() && dead.as_slice() == [bad], "{finished:?}");
}

/// A rank leaves, or is late: an access is over or never started, and the next block works.
fn with_deserter(world: &World, file: &File<u64>) -> Ended {
    for leaves in [true, false] {
        let limit = if leaves { Timeout::Never } else { Timeout::After(Duration::from_millis(20)) };
        let mut block = world.start(Level::Global)?;
        let pending = if world.rank() == Rank::new(1) {
            if leaves { block.leave(&Error::Raised(5)) } else { block.finish(limit) }
        } else {
            // It comes from the rank that leaves, or never.
            let never = block.irecv(vec![0_u8], Rank::new(1), Tag(1))?;
            if leaves {
                assert!(block.wait_local(never, Timeout::Never).is_err());
                // MPI may have ended the receive before this rank heard of the interruption.
                let late = block.iread_at(file, 0, vec![0; 10]);
                let code = block.fault(late);
                assert!(code.is_none_or(|code| code == FaultCode::Interrupted), "{code:?}");
            } else {
                let read = block.iread_at(file, 0, vec![0; 10]);
                assert_eq!(block.wait_local(read, Timeout::Never)?.elements, 10);
            }
            block.finish(limit)
        };
        assert!(!wait(pending)?.is_committed());
    }
    Ok(())
}

/// Runs a program with a folder for its files, which no other test has.
#[track_caller]
fn all_say_with_files(name: &str, ranks: u32, what: &str) {
    let own = format!("fampi-{}-{}-{ranks}", name.replace(' ', "-"), std::process::id());
    let folder = std::env::temp_dir().join(own);
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let launch = program(name, ranks).variable("FOLDER", &folder.display());
    all_say(&launch, ranks, what);
    std::fs::remove_dir_all(&folder).expect("it was made above");
}

#[test]
fn files_are_read_and_written_and_their_errors_kill_nobody() {
    for ranks in [1, 4] {
        all_say_with_files("files", ranks, "all files are right");
    }
}

#[test]
fn files_of_an_implementation_that_crashes_are_refused() {
    let launch = program("refused files", 2).variable("OMPI_MCA_io", &"ompio");
    let what = "files need Open MPI's ROMIO, as the other implementation crashes when a write \
                fails; launch without `--mca io` and OMPI_MCA_io, not with 'ompio'";
    all_say(&launch.variable("FOLDER", &"nowhere"), 2, what);
}

#[test]
fn no_death_holds_up_a_file() {
    all_say_with_files("files with deaths", 4, "all files survived");
}
