//! What those see of a run with a death who listen to the events of the library.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use fampi::{
    BlockOptions, Error, Flow, Placement, ReduceOp, Timeout, Tried, World,
    membership::{
        evidence::{Opinion, Tested},
        member::Slow,
    },
    policy,
    sim::Simulation,
};
use tracing_subscriber::filter::LevelFilter;

/// The lines of a listener.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is told meanwhile, by line; the target comes first.
fn heard(what: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let writer = lines.clone();
    let format = tracing_subscriber::fmt().with_ansi(false).without_time().with_level(false);
    let listener = format.with_max_level(LevelFilter::INFO).with_writer(move || writer.clone());
    tracing::subscriber::with_default(listener.finish(), what);
    let text = lines.0.lock().expect("nobody panics with it").clone();
    String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
}

/// Five steps count, then one fails because somebody died, and five more count.
fn program(mut world: World) -> Result<u32, Error> {
    let mut committed = 0;
    let forever = BlockOptions::global(Timeout::Never);
    while committed < 10 {
        let step = world.try_block(forever, |block| {
            if world.generation() == 0 && world.rank().number() == 2 && committed == 5 {
                fampi::sim::crash();
            }
            let sum = block.iallreduce(vec![committed], ReduceOp::Max)?;
            block.wait_local(sum, Timeout::Never)?;
            Ok(block.take(sum)?[0])
        })?;
        match step {
            Tried::Committed(most, _) => committed = most + 1,
            Tried::Faulty(..) => world = world.rebuild(Placement::SameRanks)?,
        }
    }
    world.finalize();
    Ok(committed)
}

/// The value of a field on a line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut words = line.split(' ');
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn a_death_and_the_part_of_each_rank_are_told_in_numbers() {
    for spares in [0, 1] {
        let lines = heard(|| {
            let report = Simulation::new(4).spares(spares).seed(11).run_world(program);
            assert_eq!(report.results().filter(|result| **result == Ok(10)).count(), 4);
        });
        let metrics = |what: &str| -> Vec<&String> {
            let ours = |line: &&String| line.contains("fampi::metrics: ") && line.contains(what);
            lines.iter().filter(ours).collect()
        };
        let deaths = metrics("death ");
        assert!(!deaths.is_empty() && deaths.len() <= 4, "once for each who lives: {lines:#?}");
        let sources: Vec<_> = deaths.iter().filter_map(|line| field(line, "source")).collect();
        assert!(sources.iter().all(|it| ["\"mpi\"", "\"request\"", "\"ranks\""].contains(it)));
        assert!(deaths.iter().all(|line| field(line, "process") == Some("2")), "{deaths:?}");
        let left = metrics("left ");
        assert_eq!(left.len(), 4, "{left:?}");
        for line in &left {
            let number = |name| field(line, name).and_then(|it| it.parse::<u32>().ok());
            let [blocks, committed, faulty] =
                ["blocks", "committed", "faulty"].map(|name| number(name).expect("a number"));
            assert_eq!(blocks, committed + faulty, "{line}");
            let is_new = faulty == 0;
            assert!(committed >= if is_new { 4 } else { 10 }, "{line}");
            // That of the death, and those by which a recovery learns of it.
            assert!(faulty <= 3 && number("deaths") <= Some(1), "{line}");
            assert_eq!(number("generation"), Some(1), "{line}");
        }
        let ranks: Vec<_> = left.iter().filter_map(|line| field(line, "rank")).collect();
        assert!(["0", "1", "2", "3"].iter().all(|rank| ranks.contains(rank)), "{left:?}");
        let recovered =
            |line: &&String| line.contains("recovered ") && field(line, "generation") == Some("1");
        let took: Vec<u64> = lines
            .iter()
            .filter(recovered)
            .map(|line| field(line, "took_us").and_then(|it| it.parse().ok()).expect("a number"))
            .collect();
        assert_eq!(took.len(), 4, "{lines:#?}");
        assert!(took.iter().all(|us| *us > 0 && *us < 10_000_000), "{took:?}");
    }
}

/// Rank 1 fails a test after 5 ms and passes all from 20 ms on; its observer is kept from testing
/// for three intervals, of which two come at once.
fn tests(_: u64, rank: u32, now: Duration) -> Tested {
    let (now, fails) = (now.as_millis() as u32, u32::from(rank == 1 && now.as_millis() >= 5));
    let streak = if fails == 0 { now } else { now.saturating_sub(20) };
    let stalls = if rank == 1 { [0, 2, 3][now.min(20) as usize / 10] } else { 0 };
    Tested { stalls, ..Tested::of(Opinion { fails, streak }, 3) }
}

#[test]
fn who_is_benched_and_who_is_back_is_told_by_each_rank_and_stalls_by_those_of_the_node() {
    let lines = heard(|| {
        let report = Simulation::new(3).tests(tests).run_world(|mut world| {
            let mut group = world.recommended(Slow::Return);
            let ended = world.run(&policy::Shrink::default(), &mut vec![0_u64], |step, _| {
                fampi::sim::compute(Duration::from_millis(1));
                let own = group.news(step.comm());
                let ([news], _) = step.commit_allreduce([own], ReduceOp::Or)?;
                if news != 0 {
                    group.renew(step)?;
                }
                Ok(if step.number() < 40 { Flow::Continue } else { Flow::Done })
            })?;
            ended.done()?;
            world.finalize();
            Ok::<(), Error>(())
        });
        drop(report.expect_orderly());
    });
    let ours: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once("fampi::membership: "))
        .map(|it| it.1)
        .collect();
    let told = |line: &str| ours.iter().filter(|it| **it == line).count();
    assert_eq!(told("benched rank=1 epoch=1"), 3, "{ours:?}");
    assert_eq!(told("rejoined rank=1 epoch=2"), 3, "{ours:?}");
    assert_eq!((told("census epoch=1 members=2"), told("census epoch=2 members=3")), (3, 3));
    assert_eq!((told("stalled intervals=2"), told("stalled intervals=1")), (1, 1), "{ours:?}");
    assert_eq!(ours.len(), 14, "{ours:?}");
}

#[test]
fn without_a_fault_each_rank_tells_of_its_part_and_nothing_else() {
    let lines = heard(|| {
        let report = Simulation::new(3).run_world(|world| {
            for _ in 0..7 {
                let block = world.start(fampi::Level::Global)?;
                let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
            }
            world.finalize();
            Ok::<(), Error>(())
        });
        drop(report.expect_orderly());
    });
    let metrics: Vec<&String> = lines.iter().filter(|it| it.contains("fampi::metrics")).collect();
    assert_eq!(metrics.len(), 3, "{metrics:?}");
    let all: Vec<_> =
        metrics.iter().map(|line| field(line, "faulty").zip(field(line, "deaths"))).collect();
    assert_eq!(all, [Some(("0", "0")); 3], "{metrics:?}");
}
