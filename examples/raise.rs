//! Raise: a rank finds that its data are wrong, and makes that the verdict of all, with a code.
//!
//! Unlike `?` (see `vote`), it stays in the block: nobody is interrupted, all messages arrive.
//!
//! Run it: `cargo fampi run -n 4 -- raise`

use fampi::{BlockOptions, Codes, Error, FaultCode, Rank, ReduceOp, Timeout, Tried};

/// What this application means by the code is its own affair; any `i32` will do.
const BAD_CHECKSUM: i32 = 41;

fn main() -> Result<(), Error> {
    let world = fampi::init()?;
    let me = world.rank();
    let mut data = vec![1.0_f64; 100];
    if me == Rank::new(2) {
        data[17] = f64::from_bits(data[17].to_bits() ^ 1 << 62); // a bit flips in silence
    }
    loop {
        let tried = world.try_block(BlockOptions::global(Timeout::seconds(10.0)), |block| {
            if data.iter().sum::<f64>() != 100.0 {
                block.raise_error(BAD_CHECKSUM);
            }
            let sum = block.iallreduce(vec![data[17]], ReduceOp::Sum)?;
            block.wait_local(sum, Timeout::Never)?;
            Ok(block.take(sum)?[0])
        })?;
        match tried {
            Tried::Committed(sum, _) => {
                println!("rank {me}: the sum is {sum}");
                break;
            }
            Tried::Faulty(finished, _) => {
                let codes = Codes::Of(&[FaultCode::Application(BAD_CHECKSUM)]);
                let guilty = finished.failed_group(codes, &world);
                assert!(world.known_failed().is_empty(), "a rank died: see `shrink`");
                println!("rank {me}: the data of rank {guilty} are bad");
                if guilty.contains(me) {
                    data.fill(1.0); // from a file, in real life
                }
            }
        }
    }
    world.finalize();
    Ok(())
}
