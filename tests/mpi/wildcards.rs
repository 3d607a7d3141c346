//! A receive from any source whose sender dies while its message, of megabytes, is on its way.

use std::{thread, time::Duration};

use fampi::{Codes, Comm, Level, Rank, Source, Tag, Timeout, World};

use crate::{
    interruption::{Counts, LENGTH, Round, undisturbed},
    program,
    programs::{Ended, die, say, wait},
    said,
};

/// Senders that die, one after the other.
const SENDERS: u32 = 4;

/// The sender of a large message dies while it is on its way to a receive from any source.
pub(crate) fn from_the_dead(world: World) -> Ended {
    let mut counts = Counts::keeping();
    let mut rest: Option<Comm> = None;
    for round in 0..SENDERS {
        let comm = rest.as_ref().unwrap_or(&world);
        let (me, sender) = (comm.rank(), Rank::new(comm.size() - 1));
        let mut block = comm.start(Level::Global)?;
        if me == sender {
            block.isend(vec![7_u64; LENGTH], Rank::new(0), Tag(1))?;
            die();
        }
        if me == Rank::new(0) {
            // The message is there before its receive, or after it.
            thread::sleep(Duration::from_millis(20 * u64::from(round % 2)));
            let received = block.irecv(vec![0; LENGTH], Source::Any, Tag(1))?;
            if block.wait_local(received, Timeout::Never).is_ok() {
                assert!(block.take(received)?.iter().all(|it| *it == 7));
            } else {
                counts.keep(block.take(received).ok());
            }
        }
        let finished = wait(block.finish(Timeout::Never))?;
        assert_eq!(finished.failed_group(Codes::PROCESS_FAILURES, comm).as_slice(), [sender]);
        let living = comm.shrink()?;
        undisturbed(&living, Round::new(round, false), &mut counts)?;
        rest = Some(living);
    }
    drop(rest);
    say(world, "all interrupted")
}

#[test]
fn a_receive_from_any_source_ends_with_its_sender() {
    let ranks = SENDERS + 2;
    let run = program("wildcards", ranks).run();
    let done = said(&run).iter().filter(|line| line.ends_with(": all interrupted")).count();
    assert_eq!(done, 2, "{run}");
}
