//! World, rows and columns of a grid, of all ranks or of a shrunken communicator, are whole again,
//! whichever of them is rebuilt and whoever else dies meanwhile.

use std::{
    env, fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

use fampi::{Placement, World};
use fampi_kit::programs::rebuilt::{Moment, Plan, alone, run};

use crate::{
    program,
    programs::{Ended, end, say},
    said,
};

const ROUNDS: u64 = 4;

/// Ranks of the grid, who dies in a good block, who at a step of the recovery, and how. No two of
/// them keep each other's states.
struct Deaths(u32, &'static str, &'static str, &'static str);

const SURVIVORS: [Deaths; 4] = [
    Deaths(8, "6", "4 1", "SIGSEGV"),
    Deaths(9, "4", "3 1", "SIGKILL"),
    Deaths(4, "3", "0", "SIGKILL"),
    Deaths(4, "0 3", "", "_exit(1)"),
];
const NEW: [Deaths; 3] = [
    Deaths(4, "3", "3", "SIGKILL"),
    Deaths(8, "6 1", "1", "SIGSEGV"),
    Deaths(9, "4 2", "4 2", "SIGKILL"),
];
/// Steps of a recovery; the last one is the first of a new process.
const STEPS: [&str; 6] = ["rebuild", "meanwhile", "rebuilt", "lines", "block", "new"];

fn told(name: &str) -> String {
    env::var(name).expect("told")
}

/// True once for each rank, in whichever process, that is named by this variable.
fn is_next(variable: &str, place: u32) -> bool {
    let is_named = told(variable).split(' ').any(|named| named == place.to_string());
    is_named && fs::File::create_new(format!("{variable}-{place}")).is_ok()
}

/// What a launched copy does.
pub(crate) fn with_deaths(world: World) -> Ended {
    let (step, way) = (told("STEP"), told("WAY"));
    let (size, is_new) = (world.size(), world.is_replacement());
    let shrunken = told("SHRUNKEN") == "true";
    let (mut recovers, mut entered) = (is_new, false);
    let at = |moment: Moment, place: u32| {
        recovers |= moment == Moment::Rebuild;
        let name = match moment {
            Moment::Shrink if place + 1 == size => end(&way),
            Moment::Block(1) if is_next("DEAD", place) => end(&way),
            Moment::Lines if is_new && !entered => "new",
            Moment::Lines => "lines",
            Moment::Block(_) => "block",
            Moment::Rebuild if step == "meanwhile" => "meanwhile",
            Moment::Rebuild => "rebuild",
            Moment::Rebuilt => "rebuilt",
            Moment::Shrink => "shrink",
        };
        entered = true;
        if recovers && name == step && is_next("MORE", place) {
            let way = way.clone();
            if step == "meanwhile" {
                let moment = Duration::from_micros(u64::from(std::process::id()) * 7 % 30_000);
                thread::spawn(move || {
                    thread::sleep(moment);
                    end(&way)
                });
            } else {
                end(&way);
            }
        }
    };
    let plan = Plan { rounds: ROUNDS, shrunken, placement: Placement::SameRanks };
    let (world, [size, place, value]) = run(world, plan, at)?;
    let right = alone(size as u32, ROUNDS)?[place as usize] == value;
    say(world, &format!("place {place} of {size}, right: {right}"))
}

#[track_caller]
fn expect_whole(deaths: &Deaths, step: &str, shrunken: bool) {
    static LAUNCHES: AtomicU32 = AtomicU32::new(0);
    let &Deaths(size, dead, more, way) = deaths;
    let name = format!("rebuilt-{size}-{}", LAUNCHES.fetch_add(1, Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let launch = program("rebuilt", size + u32::from(shrunken)).inside(&folder).limit(60);
    let launch = launch.variable("STEP", &step).variable("WAY", &way);
    let launch = launch.variable("DEAD", &dead).variable("MORE", &more);
    let launch = launch.variable("SHRUNKEN", &shrunken).ignoring_statuses();
    let run = launch.run();
    let lines = said(&run);
    let expected = (0..size).map(|at| format!("rank {at}: place {at} of {size}, right: true"));
    assert_eq!(lines, expected.collect::<Vec<_>>(), "{step}, shrunken: {shrunken}: {run}");
}

/// The deaths that go with a step.
fn deaths_at(step: &str) -> &'static [Deaths] {
    if step == "new" { &NEW } else { &SURVIVORS }
}

#[test]
fn world_rows_and_columns_are_whole_again_whichever_is_rebuilt_whoever_dies_at_a_step() {
    for (at, step) in STEPS.into_iter().enumerate() {
        let deaths = deaths_at(step);
        expect_whole(&deaths[at % deaths.len()], step, at % 2 == 1);
    }
}

#[test]
#[ignore = "as the one before, each step for each grid: 60 s"]
fn each_grid_is_whole_again_whichever_communicator_is_rebuilt() {
    for step in STEPS {
        for deaths in deaths_at(step) {
            for shrunken in [false, true] {
                expect_whole(deaths, step, shrunken);
            }
        }
    }
}
