//! What command lines and input files mean, and which are refused.

use harness::words::Protect;

use super::*;
use crate::kill_plan;
use harness::kill_plan::Mode;

fn run(line: &str) -> Options {
    match Options::parse(line.split_whitespace()) {
        Ok(Request::Run(options)) => *options,
        other => panic!("'{line}' gives {other:?}"),
    }
}

fn complaint(line: &str) -> String {
    Options::parse(line.split_whitespace()).expect_err(line).to_string()
}

#[test]
fn nothing_gives_the_defaults_of_the_reference() {
    let options = run("");
    assert_eq!(options, Options::default());
    assert_eq!(options.elements, [10; 3]);
    assert_eq!(options.limits, Limits { max_iterations: 200, tolerance: f64::EPSILON });
}

#[test]
fn missing_extents_are_those_of_the_axis_before() {
    assert_eq!(run("nx=30").elements, [30; 3]);
    assert_eq!(run("nx=64 ny=32").elements, [64, 32, 32]);
    assert_eq!(run("nz=7").elements, [10, 10, 7]);
    assert_eq!(run("nz=16 ny=32 nx=64").elements, [64, 32, 16]);
}

#[test]
fn every_way_to_write_an_option_means_the_same() {
    for line in ["nx=20 verify_solution=1", "nx 20 verify_solution 1", "nx:20 verify_solution:1"] {
        assert_eq!(run(line), run("--nx 20 --verify-solution=1"));
    }
    assert_eq!(run("-nx 20"), run("nx=20"));
}

#[test]
fn a_kill_keeps_the_colons_of_its_value() {
    for line in ["--kill 2@dot:40:segv", "--kill=2@dot:40:segv", "kill:2@dot:40:segv"] {
        let options = run(line);
        assert_eq!(options.faults.kills.due(2, kill_plan::DOT, 40), Some(Mode::Segv));
    }
    assert_eq!(run("--kill 1@dot:4 --kill 2@dot:4").faults.kills.kills().len(), 2);
}

#[test]
fn the_resilience_options_are_read() {
    let options =
        run("--fault-tolerance off --recovery merge --protect-every 5 --source 0 --iterations 7 \
         --tolerance 1e-8 --yaml none --progress mv_overlap_comm_comp=1 load_imbalance=12.5");
    assert_eq!(options.faults.tolerance, FaultTolerance::Off);
    assert_eq!(options.faults.recovery, Recovery::Merge);
    assert_eq!(options.faults.protect, Protect::Every(5));
    assert!(options.faults.fused && !run("--fused=off").faults.fused);
    assert!(!options.source && options.overlap);
    assert_eq!(options.limits, Limits { max_iterations: 7, tolerance: 1e-8 });
    assert_eq!(options.yaml, YamlTarget::Nowhere);
    assert_eq!(options.progress, Progress::Always);
    let problem = options.problem(4).unwrap();
    assert_eq!((problem.ranks, problem.source.to_bits()), (4, 0));
    assert!((problem.load_imbalance_percent - 12.5).abs() < f64::EPSILON);
    assert_eq!(run("--progress=never").progress, Progress::Never);
    assert_eq!(run("yaml=out.yaml").yaml, YamlTarget::File("out.yaml".into()));
}

#[test]
fn leftovers_of_the_reference_are_ignored() {
    assert_eq!(run("numthreads=4 skip_gpu 1"), Options::default());
}

#[test]
fn help_and_version_win() {
    assert_eq!(Options::parse(["nx=3", "--help"]), Ok(Request::Help));
    assert_eq!(Options::parse(["--version"]), Ok(Request::Version));
    let named = |name: &&str| HELP.contains(name) || HELP.contains(&name.replace('_', "-"));
    assert!(KNOWN.iter().chain(&NAMES).all(named));
}

#[test]
fn bad_input_gives_one_clear_sentence() {
    for (line, sentence) in [
        ("nx=0", "the option 'nx' cannot be '0', it needs a whole number from 1 to 100000"),
        ("nx=-3", "the option 'nx' cannot be '-3', it needs a whole number from 1 to 100000"),
        ("nx", "the option 'nx' needs a value"),
        (
            "nx=99999999999",
            "the option 'nx' cannot be '99999999999', it needs a whole number from 1 to 100000",
        ),
        ("--mx 3", "there is no option '--mx'; --help lists them"),
        (
            "tolerance=nan",
            "the option 'tolerance' cannot be 'nan', it needs a number, zero or more",
        ),
        ("--recovery pray", "the option 'recovery' cannot be 'pray', it needs rebuild or merge"),
        ("source=2", "the option 'source' cannot be '2', it needs 1 or 0"),
    ] {
        assert_eq!(complaint(line), sentence);
    }
    assert!(complaint("--kill 3").starts_with("a kill is written RANK@PHASE:K[:MODE]"));
    assert!(complaint("input_file=/nowhere/at/all").contains("cannot be read"));
}

#[test]
fn a_kill_of_a_rank_that_does_not_exist_is_refused() {
    let options = run("--kill 4@dot:1");
    let sentence = options.problem(4).unwrap_err().to_string();
    assert!(sentence.contains("4@dot:1:kill names a rank that does not exist"), "{sentence}");
    assert!(options.problem(5).is_ok());
}

#[test]
fn a_problem_that_no_machine_can_hold_is_refused() {
    let refused = run("nx=100000").problem(4).unwrap_err();
    assert!(matches!(refused, OptionsError::Word(WordError::TooLarge { .. })), "{refused}");
    assert!(run("nx=48").problem(4).is_ok());
}

#[test]
fn an_input_file_stands_for_its_words() {
    let path = std::env::temp_dir().join(format!("minife-options-{}.txt", std::process::id()));
    std::fs::write(&path, "nx=12\nny 8\n").unwrap();
    let words = [format!("input_file={}", path.display()), "ny=9".to_owned()];
    let request = Options::parse(words).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(request, Request::Run(Box::new(run("nx=12 ny=9"))));
}
