//! Communicators that are made inside of blocks, while ranks die, until one of them holds.

use fampi::{
    Codes, Color, Comm, FaultCode, FaultReport, Finished, Formed, Level, Outcome, Pending,
    ReduceOp, Timeout,
};

/// What is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// A communicator of the living, which meets deaths by itself.
    Shrink,
    /// A part that fails when a process dies, and is not made again then.
    Split,
}

/// Where it is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In a block of the communicator that it is made from.
    Block,
    /// In one inside of another.
    Nested,
    /// In one of another communicator with the same ranks.
    Beside,
}

/// What a block with a communicator in the making came to: its verdict, its report, and how many
/// ranks the new one has, if it was made.
pub type Round = (bool, FaultReport, Option<u32>);

/// Makes a communicator in block after block until one commits, and uses it: the same on all living
/// ranks. `beside` has the ranks of `comm`.
pub fn form(comm: &Comm, beside: &Comm, (what, place): (What, Place)) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    while rounds.len() < 8 {
        let (round, made) = round(comm, beside, (what, place));
        let committed = round.0;
        rounds.push(round);
        if let (true, Some(made)) = (committed, made) {
            let used = works(&made);
            // The parts of a split have ends of their own.
            rounds.extend(Some(used).filter(|_| what == What::Shrink));
            return rounds;
        }
        if what == What::Split && !comm.known_failed().is_empty() {
            return rounds;
        }
    }
    panic!("so many ranks do not die: {rounds:?}");
}

fn round(comm: &Comm, beside: &Comm, (what, place): (What, Place)) -> (Round, Option<Comm>) {
    let around = if place == Place::Beside { beside } else { comm };
    let mut outer = (place == Place::Nested).then(|| start(comm));
    let mut block = start(around);
    let forming = match what {
        What::Shrink => comm.ishrink(),
        What::Split => comm.isplit(Color::Of(comm.rank().number() % 2), 0),
    };
    let request = block.form(forming.expect("one at a time"));
    let pending = block.finish(Timeout::Never);
    let finished = end(pending);
    let committed = finished.is_committed();
    let mut formed = finished.formed(request, comm);
    assert!(finished.formed(request, comm).is_err(), "it is given once");
    while let Ok(Formed::TimedOut(forming)) = formed {
        formed = forming.wait_local(Timeout::Never);
    }
    let failed = Codes::Of(&[FaultCode::CreationFailed]);
    if formed.is_err() {
        assert!(!committed, "its failure is a fault of the block");
        // What was derived from a communicator begins anew when a block of that one is faulty.
        if place != Place::Beside {
            let group = finished.failed_group(failed, around);
            assert!(!group.is_empty(), "{:?}", finished.report());
            assert_eq!(finished.failed_requests(failed), [0]);
        }
    }
    if let Some(mut outer) = outer.take() {
        outer.escalate(&finished);
        let outer = end(outer.finish(Timeout::Never));
        assert!(committed || !outer.is_committed(), "an inner fault is an outer one");
    }
    let made = formed.ok().and_then(Formed::into_comm);
    ((committed, finished.report(), made.as_ref().map(Comm::size)), made)
}

/// A block on what was made, whose members may die still.
fn works(made: &Comm) -> Round {
    let mut block = start(made);
    let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("numbers");
    let finished = end(block.finish(Timeout::Never));
    let sum = finished.take(sum).ok().filter(|_| finished.is_committed());
    assert!(sum.is_none_or(|sum| sum == [made.size()]), "all members take part");
    (finished.is_committed(), finished.report(), None)
}

fn start(comm: &Comm) -> fampi::TryBlock {
    comm.start(Level::Global).expect("in use")
}

fn end(pending: Pending) -> Finished {
    match pending.wait_local(Timeout::Never) {
        Ok(Outcome::Committed(finished) | Outcome::Faulty(finished)) => finished,
        Ok(Outcome::TimedOut(_)) => panic!("it never times out"),
        Err(error) => panic!("nothing is around it: {error}"),
    }
}
