//! Ranks that live and are too slow for work, as programs in C see them.

use fampi_kit::launch::Launch;

use crate::{
    build::{Link, program},
    expect,
};

/// Tests are 20 ms apart. Who is benched stays so until 10 are passed in a row, or 200, in which
/// time others lose a rank and recover. An answer is late when it takes twenty times as long
/// as usual: so the observer suspects only the rank that is stopped, even while other tests take
/// the processors.
#[test]
fn a_slow_rank_is_benched_on_all_ranks_and_comes_back_whoever_dies_meanwhile() {
    let tests = std::env::current_exe().expect("this test has a path");
    let observer = tests.parent().and_then(|folder| folder.parent());
    let observer = observer.expect("tests are in a folder of their own").join("fampi-observer");
    let advice = "this test needs `cargo build --package fampi-detector` before it";
    assert!(observer.is_file(), "{advice}");
    let slow = program(&["tests/programs/slow.c"], Link::Shared, &[]);
    for (how, living, zeta) in [("calm", 4, 10), ("shrunken", 3, 200), ("replaced", 4, 200)] {
        let launch = Launch::new(&slow, 4).words([how]).spares(u32::from(how == "replaced"));
        let launch = launch.variable("FAMPI_OBSERVER", &observer.display());
        let schedule = format!("20ms:20:{zeta}");
        expect(&launch.variable("FAMPI_DIAGNOSIS", &schedule), living, ": passed");
    }
}
