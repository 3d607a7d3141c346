//! What a block costs as long as nothing fails, beside plain MPI with the same requests,
//! in turns in one run.
//!
//! `cargo fampi bench block --ranks 4 --csv FILE` builds and launches this program, once per
//! number of ranks. The ranks form a ring, and half of the requests receive a message from its
//! neighbours, half send one to them. `plain` starts them, calls `MPI_Waitall` without statuses,
//! then `MPI_Iallreduce` of one integer and `MPI_Test`s. `block` starts a global block, posts
//! them, finishes, waits for the verdict and takes all buffers out, which are the next block's;
//! `all` does so with one call for all that are received, and one for all that are sent. Rank 0
//! prints a row per number of requests and length of their messages: the medians over all batches
//! of the time per block, and the ratios to plain MPI.
//!
//! **Fair?** Both use the same memory again and again, allocate nothing and do not read what came.
//! Plain MPI writes an array of handles, of memory that stays in its place; a block is given each
//! vector and asked for it again, as a program must do for it, and this is part of its time. So is
//! that it keeps the status of each request, which plain MPI does not ask for. Messages of 8 bytes
//! show what a request itself costs; those of 2 KiB are faces of 16 × 16 numbers.
//!
//! Arguments: how many batches to measure, then, if not all, the numbers of requests; `bytes=4` for
//! messages of that length only.

use std::time::Instant;

use fampi::{
    Error, Finished, Level, Outcome, Rank, Request, Tag, Timeout, TryBlock, World,
    mpi::{Baseline, MpiPlatform},
};
use fampi_kit::median::median;

/// Numbers of requests in a block.
const REQUESTS: [usize; 4] = [4, 40, 400, 2000];
/// Bytes of a message.
const BYTES: [usize; 2] = [8, 2048];
/// Batches of each way, unless the first argument says otherwise.
const BATCHES: usize = 300;
/// Requests in a batch, about: enough to make the clock's own cost vanish.
const BATCH_REQUESTS: usize = 4000;

/// A message.
type Buffer = Vec<u32>;

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let batches = words.next().unwrap_or(BATCHES);
    let asked: Vec<usize> = words.collect();
    let numbers = if asked.is_empty() { REQUESTS.to_vec() } else { asked };
    let length = std::env::args().find_map(|word| word.strip_prefix("bytes=")?.parse().ok());
    let lengths = length.map_or(BYTES.to_vec(), |bytes| vec![bytes]);
    let mut platform = MpiPlatform::new()?;
    let mut baseline = platform.baseline()?;
    let world = World::enter(Box::new(platform))?;
    if world.rank().number() == 0 {
        println!("ranks,bytes,requests,plain_us,block_us,ratio,all_us,all_ratio");
    }
    for bytes in lengths {
        for requests in &numbers {
            let load = Load { requests: *requests, bytes, batches };
            let [plain, block, all] = measure(&world, &mut baseline, load)?;
            if world.rank().number() == 0 {
                let (ranks, ratio, all_ratio) = (world.size(), block / plain, all / plain);
                println!(
                    "{ranks},{bytes},{requests},{plain:.3},{block:.3},{ratio:.3},{all:.3},\
                     {all_ratio:.3}"
                );
            }
        }
    }
    world.finalize();
    Ok(())
}

/// What is measured, and how often.
#[derive(Clone, Copy)]
struct Load {
    requests: usize,
    bytes: usize,
    batches: usize,
}

/// The medians of plain MPI, of blocks with a call for each message, and with one for all, in
/// microseconds.
fn measure(world: &World, baseline: &mut Baseline, load: Load) -> Result<[f64; 3], Error> {
    let Load { requests, bytes, batches } = load;
    let repeats = BATCH_REQUESTS.div_ceil(requests);
    let mut exchange = Exchange::new(world, requests, bytes);
    let mut times = [(); 3].map(|()| Vec::with_capacity(batches));
    for batch in 0..batches + batches / 10 {
        for turn in 0..times.len() {
            // No way always comes after one other, whose memory is in the caches.
            let way = (batch + turn) % times.len();
            // All ranks start together.
            baseline.allreduce()?;
            let began = Instant::now();
            for _ in 0..repeats {
                match way {
                    0 => baseline.neighbours(requests, bytes)?,
                    1 => exchange.block()?,
                    _ => exchange.block_of_all()?,
                }
            }
            let each = began.elapsed().as_secs_f64() / repeats as f64;
            if batch >= batches / 10 {
                times[way].push(each * 1e6);
            }
        }
    }
    Ok(times.each_ref().map(|times| median(times)))
}

/// The messages of a block.
struct Exchange<'a> {
    world: &'a World,
    ring: [Rank; 2],
    buffers: Vec<Buffer>,
    requests: Vec<Request<u32>>,
    /// The messages once more, to be posted at once.
    received: Vec<(Buffer, Rank, Tag)>,
    sent: Vec<(Buffer, Rank, Tag)>,
}

impl<'a> Exchange<'a> {
    fn new(world: &'a World, requests: usize, bytes: usize) -> Self {
        let (me, size) = (world.rank().number(), world.size());
        let ring = [(me + size - 1) % size, (me + 1) % size].map(Rank::new);
        let buffer = || vec![0; bytes / size_of::<u32>()];
        let message = |at| (buffer(), ring[at % 2], Tag(0));
        Self {
            world,
            ring,
            buffers: (0..requests).map(|_| buffer()).collect(),
            requests: Vec::with_capacity(requests),
            received: (0..requests / 2).map(message).collect(),
            sent: (requests / 2..requests).map(message).collect(),
        }
    }

    /// Start, requests, finish, wait, take.
    fn block(&mut self) -> Result<(), Error> {
        let half = self.buffers.len() / 2;
        let mut block = self.world.start(Level::Global)?;
        for (at, buffer) in self.buffers.drain(..).enumerate() {
            let neighbour = self.ring[at % 2];
            self.requests.push(if at < half {
                block.irecv(buffer, neighbour, Tag(0))?
            } else {
                block.isend(buffer, neighbour, Tag(0))?
            });
        }
        let finished = committed(block)?;
        for request in self.requests.drain(..) {
            self.buffers.push(finished.take(request)?);
        }
        Ok(())
    }

    /// A block with one call for all that are received, and one for all that are sent.
    fn block_of_all(&mut self) -> Result<(), Error> {
        let mut block = self.world.start(Level::Global)?;
        let coming = block.irecv_all(&mut self.received)?;
        let going = block.isend_all(&mut self.sent)?;
        let finished = committed(block)?;
        finished.take_all(coming, &mut self.received)?;
        finished.take_all(going, &mut self.sent)
    }
}

fn committed(block: TryBlock) -> Result<Finished, Error> {
    match block.finish(Timeout::Never).wait_local(Timeout::Never)? {
        Outcome::Committed(finished) => Ok(finished),
        Outcome::Faulty(_) | Outcome::TimedOut(_) => Err(Error::CreationFailed),
    }
}
