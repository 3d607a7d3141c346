//! Waits keep to their limits while the ranks that they need are stopped.

use fampi_kit::launch::Launch;

use crate::build::{Link, program};

/// On a machine that does other things, too, one of some launches is undisturbed.
const LAUNCHES: usize = 10;

#[test]
fn no_wait_goes_on_beyond_its_limit_by_more_than_a_sleep_does_and_ten_milliseconds() {
    let limits = program(&["tests/programs/limits.c"], Link::Shared, &[]);
    for (what, waits) in [("blocks", 2), ("unused", 2), ("shrink", 2), ("rebuild", 3), ("join", 1)]
    {
        let launch = Launch::new(&limits, 5).words([what]);
        let mut runs = (0..LAUNCHES).map(|_| launch.run());
        let kept = runs.find(|run| {
            assert_eq!(run.output.matches(": passed").count(), 4, "{what}: {run}");
            run.output.matches(": kept: ").count() == waits
        });
        assert!(kept.is_some(), "{what}: {}", launch.run());
    }
}
