//! Communicators that are made inside of blocks while a rank dies.

use std::{thread, time::Duration};

use fampi::{Formed, Rank, Timeout, World};
use fampi_kit::programs::forming::{Place, What, form};
use signal_hook::low_level;

use crate::{
    program,
    programs::{Ended, say},
    said,
};

const SIGKILL: i32 = 9;
/// The rank that dies, of four.
const BAD: Rank = Rank::new(1);
const CASES: [(What, Place); 4] = [
    (What::Shrink, Place::Block),
    (What::Shrink, Place::Nested),
    (What::Shrink, Place::Beside),
    (What::Split, Place::Block),
];

/// What a launched copy does: the case and the moment of the death, in microseconds, are in the
/// environment.
pub(crate) fn with_a_death(world: World) -> Ended {
    let number = |name| std::env::var(name).expect("told").parse::<u64>().expect("a number");
    let case = CASES[number("CASE") as usize];
    let moment = Duration::from_micros(number("MOMENT"));
    let beside = world.idup()?.wait_local(Timeout::Never)?;
    let beside = Formed::into_comm(beside).expect("all are in it");
    if world.rank() == BAD {
        thread::spawn(move || {
            thread::sleep(moment);
            low_level::raise(SIGKILL).expect("a signal");
        });
    }
    let rounds = form(&world, &beside, case);
    let ends: Vec<_> = rounds.iter().map(|(committed, _, size)| (*committed, *size)).collect();
    if world.rank() == BAD {
        thread::sleep(Duration::from_secs(5));
    }
    drop(beside);
    say(world, &format!("{ends:?}"))
}

#[test]
fn a_communicator_made_in_a_block_ends_alike_for_all_whenever_a_rank_dies() {
    let mut ends = Vec::new();
    for (case, moment) in (0..CASES.len())
        .flat_map(|case| [0, 100, 300, 700, 1_500, 50_000].map(|moment| (case, moment)))
    {
        let launch = program("forming", 4).variable("CASE", &case).variable("MOMENT", &moment);
        let run = launch.limit(60).run();
        let words = said(&run);
        assert_eq!(words.len(), 3, "{case}, {moment}: {run}");
        let what: Vec<_> = words.iter().filter_map(|line| line.split_once(": ")).collect();
        assert!(what.iter().all(|(_, it)| *it == what[0].1), "{case}, {moment}: {run}");
        ends.push(what[0].1.to_owned());
    }
    assert!(ends.iter().any(|end| end.contains("(false, Some(3))")), "{ends:?}");
    assert!(ends.iter().any(|end| end.contains("(false, None)")), "{ends:?}");
}
