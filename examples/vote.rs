//! A vote by `?`: one rank cannot go on, and the others hear of it instead of waiting for ever.
//!
//! Run it: `cargo fampi run -n 4 -- vote`

use fampi::{BlockOptions, Error, Rank, ReduceOp, Timeout, Tried};

/// What this application means by the code is its own affair; any `i32` will do.
const NO_READING: i32 = 17;

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let me = world.rank();
    let mut attempt = 1;
    loop {
        let options = BlockOptions::global(Timeout::seconds(5.0));
        let tried = world.try_block(options, |block| {
            // One rank leaves here. In plain MPI the others would hang in the reduction; in a
            // block the error is this rank's vote, and their waits end.
            let reading = read_sensor(me, attempt)?;
            let sum = block.iallreduce(vec![reading], ReduceOp::Sum)?;
            block.wait_local(sum, Timeout::Never)?;
            Ok(block.take(sum)?[0])
        })?;
        match tried {
            Tried::Committed(sum, _) => {
                println!("rank {me}: attempt {attempt} committed, the sum is {sum}");
                break;
            }
            // The report is the same on all ranks. What the closure returned here is not: branch
            // on the report, and print the rest.
            Tried::Faulty(finished, error) => {
                let here = error.map_or("finished".into(), |error| error.to_string());
                println!("rank {me}: attempt {attempt} is faulty: {finished:?} (here: {here})");
                assert!(world.known_failed().is_empty(), "a rank died: see `shrink`");
                attempt += 1;
            }
        }
    }
    world.finalize();
    Ok(())
}

/// The sensor of rank 2 needs a second look.
fn read_sensor(rank: Rank, attempt: u32) -> Result<f64, Error> {
    if rank == Rank::new(2) && attempt == 1 {
        return Err(Error::Raised(NO_READING));
    }
    Ok(1.5)
}
