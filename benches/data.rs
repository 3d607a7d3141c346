//! What it costs to protect states: by where they are kept, beside a copy in memory, a plain
//! exchange of the same bytes, what Fenix does, and plain files.
//!
//! `cargo fampi bench data --ranks 8 --mib 1,16,64 --csv FILE` builds and launches this program
//! for each number of ranks. All ways alternate in one launch. A time is that of a whole block, to
//! its verdict on rank 0, with buffers that have been used before; for `memcpy` that of copying the
//! state on all ranks at once. The numbers are medians. Before each copy a part of the state's
//! pages changes, spread over all of it: for `protect` all, for `changed-N%` so many.
//!
//! `as-fenix` makes the copies and messages by which Fenix's in-memory redundancy of mode 1 stores
//! a state at a partner (`src/fenix_data_policy_in_memory_raid.cpp` there), without Fenix itself:
//! into the own snapshot, into a buffer to send, to the partner and from there, and out of the
//! buffer received. `file` is a file of each rank below the folder for temporary files, written
//! aside, synced, and renamed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use fampi::{BlockOptions, Error, Rank, Redundancy, Tag, Timeout, Tried, TryBlock, World};
use fampi_kit::median::median;

/// Times of each way, after two that do not count.
const TIMES: usize = 15;
const MIB: usize = 1 << 20;

/// What is done with the state of each rank.
#[derive(Clone, Copy)]
enum Way {
    /// It is copied in memory.
    Memcpy,
    /// It goes to the partner, and that of the partner comes.
    Exchange,
    /// It is kept at the partner as Fenix does so.
    Fenix,
    /// It is written to a file.
    File,
    /// It is protected, when so many percent of its pages have changed.
    Protect(Redundancy, usize),
}

const WAYS: [(&str, &str, Way); 12] = [
    ("memcpy", "plain", Way::Memcpy),
    ("exchange", "plain", Way::Exchange),
    ("file", "plain", Way::File),
    ("partner", "as-fenix", Way::Fenix),
    ("own", "protect", Way::Protect(Redundancy::Own, 100)),
    ("partner", "protect", Way::Protect(Redundancy::Partner, 100)),
    ("partner", "changed-25%", Way::Protect(Redundancy::Partner, 25)),
    ("partner", "changed-10%", Way::Protect(Redundancy::Partner, 10)),
    ("partner", "changed-1%", Way::Protect(Redundancy::Partner, 1)),
    ("partner", "changed-0%", Way::Protect(Redundancy::Partner, 0)),
    ("xor", "protect", Way::Protect(Redundancy::Group { ranks: 4, losses: 1 }, 100)),
    ("reed-solomon", "protect", Way::Protect(Redundancy::Group { ranks: 6, losses: 2 }, 100)),
];

type Failure = Box<dyn std::error::Error>;

/// The numbers of a page.
const PAGE: usize = 4096 / size_of::<f64>();

fn main() -> Result<(), Failure> {
    let mut sizes: Vec<usize> =
        std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.push(1);
    }
    let world = fampi::init()?;
    if world.rank() == Rank::new(0) {
        println!("ranks,mib,level,phase,median_ms,mib_per_s,ratio_to_memcpy,ratio_to_exchange");
    }
    for (size, mib) in (0..).zip(sizes) {
        measure(&world, size, mib)?;
    }
    world.finalize();
    Ok(())
}

/// Prints a row for each way to treat a state of this size, which has its own slots.
fn measure(world: &World, size: u32, mib: usize) -> Result<(), Failure> {
    let mut state = vec![f64::from(world.rank().number()) + 0.5; mib * MIB / size_of::<f64>()];
    let mut room = Room::new(world, &state);
    let mut times = WAYS.map(|_| Vec::new());
    for time in 0..TIMES + 2 {
        for ((_, _, way), times) in WAYS.iter().zip(&mut times) {
            let took = once(world, *way, size, &mut state, &mut room)?;
            if time >= 2 {
                times.push(took);
            }
        }
    }
    room.remove_file()?;
    let medians = times.map(|times| median(&times));
    for ((name, phase, _), took) in WAYS.iter().zip(medians) {
        if world.rank() == Rank::new(0) {
            let [memcpy, exchange] = [medians[0], medians[1]].map(|plain| took / plain);
            let (ms, rate) = (took * 1e3, mib as f64 / took);
            let ranks = world.size();
            println!("{ranks},{mib},{name},{phase},{ms:.3},{rate:.0},{memcpy:.2},{exchange:.2}");
        }
    }
    Ok(())
}

/// Seconds of one way, which all ranks begin together.
fn once(
    world: &World,
    way: Way,
    size: u32,
    state: &mut [f64],
    room: &mut Room,
) -> Result<f64, Failure> {
    if let Way::Protect(redundancy, percent) = way {
        protect(world, size, redundancy, state)?;
        let mut so_far = 0;
        for (page, numbers) in (1..).zip(state.chunks_mut(PAGE)) {
            if page * percent / 100 > so_far {
                numbers[page % PAGE] += 1.0;
            }
            so_far = page * percent / 100;
        }
    }
    block(world, |_| Ok(()))?;
    let began = Instant::now();
    match way {
        Way::Memcpy => room.snapshot.copy_from_slice(state),
        Way::Exchange => room.exchange(world)?,
        Way::Fenix => {
            room.snapshot.copy_from_slice(state);
            room.out.copy_from_slice(&room.snapshot);
            room.exchange(world)?;
            room.kept.copy_from_slice(&room.inside);
        }
        Way::File => room.write_file()?,
        Way::Protect(redundancy, _) => protect(world, size, redundancy, state)?,
    }
    block(world, |_| Ok(()))?;
    Ok(began.elapsed().as_secs_f64())
}

fn protect(world: &World, size: u32, redundancy: Redundancy, state: &[f64]) -> Result<(), Error> {
    let slot = match redundancy {
        Redundancy::Own => 0,
        Redundancy::Partner => 1,
        Redundancy::Group { losses, .. } => 1 + losses,
    };
    block(world, |block| {
        block.set_redundancy(redundancy);
        block.protect(4 * size + slot, state)
    })
}

/// Room for what is done to a state without protecting it.
struct Room {
    /// A copy of the own state.
    snapshot: Vec<f64>,
    /// What goes to the partner.
    out: Vec<f64>,
    /// What comes from there.
    inside: Vec<f64>,
    /// The state of the rank whose partner this one is.
    kept: Vec<f64>,
    /// As many bytes as the state has.
    bytes: Vec<u8>,
    file: PathBuf,
}

impl Room {
    fn new(world: &World, state: &[f64]) -> Self {
        let name = format!("fampi-data-{}-{}", world.rank(), std::process::id());
        let [snapshot, out, inside, kept] = [(); 4].map(|()| state.to_vec());
        let bytes = state.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Self { snapshot, out, inside, kept, bytes, file: std::env::temp_dir().join(name) }
    }

    /// Sends to the partner and receives from the rank whose partner this one is.
    fn exchange(&mut self, world: &World) -> Result<(), Error> {
        let (me, size) = (world.rank().number(), world.size());
        let beside = |by: u32| Rank::new((me + by) % size);
        let (to, from) = (beside(size / 2), beside(size - size / 2));
        let Self { out, inside, .. } = self;
        [*out, *inside] = block(world, |block| {
            let received = block.irecv(std::mem::take(inside), from, Tag(0))?;
            let sent = block.isend(std::mem::take(out), to, Tag(0))?;
            block.wait_local(received, Timeout::Never)?;
            block.wait_local(sent, Timeout::Never)?;
            Ok([block.take(sent)?, block.take(received)?])
        })?;
        Ok(())
    }

    /// Writes a file of the state's size aside, syncs it, and gives it its name.
    fn write_file(&self) -> Result<(), Failure> {
        let aside = self.file.with_extension("part");
        let write = |aside: &Path| {
            let mut file = File::create(aside)?;
            file.write_all(&self.bytes)?;
            file.sync_all()?;
            fs::rename(aside, &self.file)
        };
        write(&aside).map_err(|error| self.refused(&error))
    }

    fn remove_file(&self) -> Result<(), Failure> {
        fs::remove_file(&self.file).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> Failure {
        format!("cannot write {}: {error}; set TMPDIR to another folder", self.file.display())
            .into()
    }
}

/// A block that commits, as nobody dies here.
fn block<R>(
    world: &World,
    content: impl FnOnce(&mut TryBlock) -> Result<R, Error>,
) -> Result<R, Error> {
    match world.try_block(BlockOptions::global(Timeout::Never), content)? {
        Tried::Committed(result, _) => Ok(result),
        Tried::Faulty(_, error) => Err(error.unwrap_or(Error::NotCommitted)),
    }
}
