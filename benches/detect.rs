//! From a death to the news of it, and to its agreed report, on the last survivor to learn of it.
//!
//! `cargo fampi bench detect --ranks 8 --trials 200 --csv FILE` builds and launches this program,
//! several times for each way to die, with observers, with the node watcher alone, and without
//! both. One trial: all ranks commit a few blocks and start one more; all but one finish it and
//! wait, the last one waits for two milliseconds, writes the time (`CLOCK_MONOTONIC`, which all
//! processes of a machine share) to a file, and dies. Then the world is rebuilt by a spawn, and
//! another rank dies, until there were enough deaths for this launch. Rank 0 prints a row for each:
//! the way, and the milliseconds from the death to three moments, each on the last survivor:
//!
//! | moment | taken |
//! |---|---|
//! | the board shows the death | by the observer, which writes it beside the news; `inf` if never |
//! | the survivor knows | by the library, which says so ([`tracing`]), however it learned |
//! | the verdict is there | by the survivor |
//!
//! So no other program runs for the measurement. The board of a node is one memory, so what it
//! shows it shows to all survivors of the node at once; that one of them knows later is a matter of
//! whether it has a processor.
//!
//! What limits it: the kernel gives back the memory of the dead process, 1.3 ms for one that uses
//! MPI, in the last of its threads, which does not let go of its processor meanwhile. The observer
//! is told before that, by the end of another thread, 0.1 ms after the death. On a crowded node
//! the ranks that share a processor with the dead come to know last, with 8 ranks on two processors
//! the others within 0.3 ms: these put the work of the dead behind theirs
//! (`mpi/deaths/renice_dead.rs`), after which the last knows at 1.2 ms instead of 2.6. Then MPI's
//! launcher hears of the death, and takes a processor for 0.8 ms.
//!
//! `panic` is without a backtrace, which takes 70 ms, and so is SIGSEGV, where MPI's takes 1 ms or
//! more. The first death of a launch takes the MPI 30 to 40 ms.
//!
//! Arguments: the way to die, number of trials, file for the time of death.

use std::{
    fmt,
    fs::{self, File},
    io::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use fampi::{
    BlockOptions, Codes, Error, Finished, Level, Outcome, Placement, Rank, ReduceOp, Timeout,
    Tried, World,
};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::{consts::SIGSEGV, low_level};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const SIGKILL: i32 = 9;
/// Commits between a rebuild and the next death.
const CALM: u32 = 50;
/// What takes longer is never reported.
const LIMIT: Timeout = Timeout::After(Duration::from_secs(3));

/// When the library first said that this rank knows of a death; 0 before.
static KNOWN: AtomicU64 = AtomicU64::new(0);
/// When the last of the deaths that this rank has read of was on the board; 0 before.
static SHOWN: AtomicU64 = AtomicU64::new(0);
/// For how long a death has been on the board, in what the library says about it.
const AGO: &str = "ago_ns";

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, trials, file] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("detect: to be started by `cargo fampi bench detect`");
        return Ok(());
    };
    let trials: u32 = trials.parse().unwrap_or(1);
    // It fails if there is one already.
    let _ = tracing::subscriber::set_global_default(Listener);
    let mut world = fampi::init()?;
    if world.size() < 3 {
        eprintln!("detect: start 3 ranks or more");
        world.finalize();
        return Ok(());
    }
    if world.is_replacement() {
        latest(&world, vec![0; 3])?;
    }
    while world.generation() < trials {
        world = trial(&world, way, file)?;
    }
    world.finalize();
    Ok(())
}

/// One death of a rank other than 0, and the world that is complete again.
fn trial(world: &World, way: &str, file: &str) -> Result<World, Error> {
    for _ in 0..CALM {
        if block(world)?.is_none_or(|finished| !finished.is_committed()) {
            return world.rebuild(Placement::SameRanks);
        }
    }
    KNOWN.store(0, Relaxed);
    let victim = Rank::new(1 + world.generation() % (world.size() - 1));
    if world.rank() == victim {
        thread::sleep(Duration::from_millis(2));
        let opened = File::create(file);
        let moment = now();
        let _ = opened.and_then(|mut file| file.write_all(moment.to_string().as_bytes()));
        die(way);
    }
    let Some(finished) = block(world)? else {
        if world.rank() == Rank::new(0) {
            println!("{way},inf,inf,inf");
        }
        std::process::exit(0);
    };
    let agreed = now();
    let known = Some(KNOWN.load(Relaxed)).filter(|known| *known != 0).unwrap_or(agreed);
    let dead = finished.failed_group(Codes::PROCESS_FAILURES, world);
    let world = world.rebuild(Placement::SameRanks)?;
    // By now each survivor has looked at the board.
    let latest = latest(&world, vec![SHOWN.load(Relaxed), known, agreed])?;
    let death = fs::read_to_string(file).ok().and_then(|text| text.parse::<u64>().ok());
    if let (Some(latest), Some(death)) = (latest, death)
        && world.rank() == Rank::new(0)
        && dead.iter().eq([victim])
    {
        let since = latest.iter().map(|moment| match moment.checked_sub(death) {
            Some(passed) => format!("{:.4}", passed as f64 / 1e6),
            // That of an earlier death, or of none.
            None => "inf".to_owned(),
        });
        println!("{way},{}", since.collect::<Vec<_>>().join(","));
    }
    Ok(world)
}

/// The greatest of each of the times that the ranks bring; a replacement brings none.
fn latest(world: &World, mine: Vec<u64>) -> Result<Option<Vec<u64>>, Error> {
    let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
        let latest = block.iallreduce(mine, ReduceOp::Max)?;
        block.wait_local(latest, Timeout::Never)?;
        block.take(latest)
    })?;
    Ok(match tried {
        Tried::Committed(latest, _) => Some(latest),
        Tried::Faulty(..) => None,
    })
}

/// Start, finish without requests, wait; `None` when there is no verdict within the limit.
fn block(world: &World) -> Result<Option<Finished>, Error> {
    Ok(match world.start(Level::Global)?.finish(Timeout::Never).wait_local(LIMIT)? {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => Some(finished),
        Outcome::TimedOut(_) => None,
    })
}

/// Hears what the library says about deaths, and takes the time.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        let has = |field| about.fields().field(field).is_some();
        about.is_event() && (has(AGO) || about.target() == "fampi::fault" && has("dead"))
    }

    fn event(&self, event: &Event<'_>) {
        let now = now();
        if event.metadata().fields().field(AGO).is_some() {
            event.record(&mut Shown(now));
        } else {
            let _ = KNOWN.compare_exchange(0, now, Relaxed, Relaxed);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Takes the moment of a death on the board out of what is said now.
struct Shown(u64);

impl Visit for Shown {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == AGO {
            SHOWN.fetch_max(self.0.saturating_sub(value), Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Nanoseconds of a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn die(way: &str) -> ! {
    let signal = match way {
        "exit(1)" => std::process::exit(1),
        "_exit(1)" => low_level::exit(1),
        "panic" => panic!("this rank was to die"),
        "SIGSEGV" => SIGSEGV,
        _ => SIGKILL,
    };
    // Without what MPI says about its stack first.
    let _ = low_level::emulate_default_handler(signal);
    unreachable!("this process is dead");
}
