//! The examples whose ranks kill themselves on purpose say so, and end without what reads like a
//! bug.

use std::{fs, path::Path};

use fampi_kit::traces::trace_in;

use crate::example;

/// The number behind this option in the line of an example that says how to run it.
fn number(line: &str, option: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| *word != option);
    words.nth(1).and_then(|number| number.parse().ok())
}

#[test]
fn examples_that_kill_themselves_say_so_and_leave_no_stack_trace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut run_so_far = 0;
    for file in fs::read_dir(folder).expect("the examples").flatten() {
        let text = fs::read_to_string(file.path()).expect("a source");
        if !["kill -KILL", "abort(", "exit("].iter().any(|way| text.contains(way)) {
            continue;
        }
        let path = file.path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("plain letters");
        let how = text.lines().find(|line| line.contains("Run it:")).expect(name);
        let ranks = number(how, "-n").expect(name);
        let run = example(name, ranks).spares(number(how, "--spares").unwrap_or(0)).run();
        assert_eq!(run.status, 0, "{run}");
        assert!(run.errors.contains("kills itself, on purpose"), "{run}");
        assert_eq!(trace_in(&run.errors).or(trace_in(&run.output)), None, "{run}");
        run_so_far += 1;
    }
    assert!(run_so_far >= 9, "{run_so_far} examples kill themselves");
}
