//! Timeouts: a message does not come in time, all ranks learn of it, and try again.
//!
//! The timeout of `finish` bounds the requests: what is late is a fault, on all ranks. The
//! timeout of a wait bounds only that wait, and says nothing about the verdict.
//!
//! Run it: `cargo fampi run -n 4 -- timeout`

use fampi::{Codes, Error, FaultCode, Level, Outcome, Rank, Tag, Timeout};

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let (me, size) = (world.rank().number(), world.size());
    let (left, right) = (Rank::new((me + size - 1) % size), Rank::new((me + 1) % size));
    for attempt in 1.. {
        let mut block = world.start(Level::Global)?;
        let message = block.irecv(vec![0_u32], left, Tag(1))?;
        let forgets = attempt == 1 && me == 0;
        if !forgets {
            block.isend(vec![me], right, Tag(1))?;
        }
        // More time for each attempt; a fault that needs no time does not wait for it.
        let mut pending = block.finish(Timeout::seconds(0.3 * f64::from(attempt * attempt)));
        let mut looks = 1;
        let finished = loop {
            pending = match pending.wait_local(Timeout::seconds(0.05))? {
                Outcome::Committed(finished) | Outcome::Faulty(finished) => break finished,
                // Unknown, neither committed nor faulty: there is time for other things here.
                Outcome::TimedOut(pending) => pending,
            };
            looks += 1;
        };
        if finished.is_committed() {
            let from = finished.take(message)?[0];
            println!("rank {me}: the message of rank {from} came in the end");
            break;
        }
        assert!(world.known_failed().is_empty(), "a rank died: see `shrink`");
        let late = finished.failed_group(Codes::Of(&[FaultCode::TimedOut]), &world);
        println!("rank {me}: attempt {attempt}: rank {late} waited in vain ({looks} looks)");
    }
    world.finalize();
    Ok(())
}
