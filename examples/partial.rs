//! Partial acceptance: a block is faulty, but what arrived in it is good, and is not sent again.
//!
//! Run it: `cargo fampi run -n 4 -- partial`

use fampi::Timeout;
use fampi::{Codes, Error, FaultCode, Finished, Level, Outcome, Pending, Rank, Request, Tag};

const NOT_CONVERGED: FaultCode = FaultCode::Application(3);
const ROOT: Rank = Rank::new(0);

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let me = world.rank();
    // The root's results, by rank; all ranks know which are missing, from the reports.
    let mut results: Vec<Option<u32>> = vec![None; world.size() as usize];
    let mut missing: Vec<Rank> = (1..world.size()).map(Rank::new).collect();
    let mut attempt = 1;
    while !missing.is_empty() {
        let mut block = world.start(Level::Global)?;
        let mut receives: Vec<(Rank, Request<u32>)> = Vec::new();
        if me == ROOT {
            for rank in &missing {
                receives.push((*rank, block.irecv(vec![0], *rank, Tag(1))?));
            }
        } else if missing.contains(&me) {
            block.isend(vec![me.number() * 10 + attempt], ROOT, Tag(1))?;
            // Rank 2 needs three attempts. It says so, and nobody is interrupted.
            if me == Rank::new(2) && attempt < 3 {
                block.raise_error(3);
            }
        }
        let finished = wait(block.finish(Timeout::seconds(10.0)))?;
        // The same on all ranks.
        let guilty = finished.failed_group(Codes::Of(&[NOT_CONVERGED]), &world);
        // Of other faults, a death or a message that was late, it does not follow what has come.
        let is_known = finished.report().faults().iter().all(|fault| fault.code == NOT_CONVERGED);
        assert!(is_known, "see `timeout` and `shrink` for this: {finished:?}");
        // The messages of all others count, although the block does not.
        for (rank, receive) in receives {
            if !guilty.contains(rank) {
                results[rank.index()] = Some(finished.take(receive)?[0]);
            }
        }
        missing.retain(|rank| guilty.contains(*rank));
        attempt += 1;
    }
    if me == ROOT {
        println!("rank 0: {:?}", results.into_iter().flatten().collect::<Vec<_>>());
    }
    world.finalize();
    Ok(())
}

fn wait(mut pending: Pending) -> Result<Finished, Error> {
    loop {
        pending = match pending.wait_local(Timeout::Never)? {
            Outcome::Committed(finished) | Outcome::Faulty(finished) => return Ok(finished),
            Outcome::TimedOut(pending) => pending,
        };
    }
}
