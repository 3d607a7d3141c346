//! Machines that we do not have, one for each row of the table.

use super::*;
use crate::installation::{Family, Version};

const ALL: [&str; 7] = ["start", "detection", "revoke", "agreement", "shrink", "spawn", "finalize"];

fn run(stages: &[&str], end: End) -> Findings {
    let lines = stages.iter().flat_map(|it| [format!("begin {it}"), format!("done {it} 1.5")]);
    Findings::of(lines.collect(), end, "")
}

fn transports(messaging: &str, bytes: &[&str]) -> Transports {
    let bytes = bytes.iter().map(|it| (*it).to_owned()).collect();
    Transports { messaging: messaging.to_owned(), bytes }
}

/// A machine on which all is well.
fn well() -> Observed {
    let facts = Facts {
        family: Family::OpenMpi,
        version: Version(5, 0, 9),
        fault_tolerance: true,
        cuda_collectives: false,
    };
    Observed {
        facts,
        by_signal: run(&ALL, End::Exited(0)),
        by_exit: run(&ALL, End::Exited(0)),
        plain: run(&ALL, End::Exited(0)),
        transports: [(); 2].map(|()| Some(transports("ob1", &["self", "sm", "tcp"]))),
        parameters: BTreeMap::new(),
        no_watcher: None,
        machines: 1,
        other_compiler: None,
        other_launcher: None,
    }
}

fn with(name: &str, value: &str) -> Observed {
    let mut observed = well();
    let place = (value.to_owned(), "a file of the user".to_owned());
    observed.parameters.insert(name.to_owned(), place);
    observed
}

fn changed(change: impl FnOnce(&mut Observed)) -> Observed {
    let mut observed = well();
    change(&mut observed);
    observed
}

/// What the row of this name says about a machine.
#[track_caller]
fn says(about: &str, observed: &Observed) -> Option<(Weight, String)> {
    let check = CHECKS.iter().find(|check| check.about == about).expect("a row of the table");
    check.finding(observed).map(|finding| (finding.weight, finding.text))
}

/// The row of this name finds something on this machine, with these words, and nothing else that
/// is wrong is found on it.
#[track_caller]
fn finds(about: &str, weight: Weight, observed: &Observed, words: &[&str]) {
    let (found, text) = says(about, observed).unwrap_or_else(|| panic!("{about}: nothing found"));
    assert_eq!(found, weight, "{text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    let bad = |it: &&Finding| matches!(it.weight, Weight::Unfit | Weight::Care) && it.text != text;
    let others: Vec<Finding> = examine(observed).iter().filter(bad).cloned().collect();
    assert_eq!(others, [], "beside: {text}");
}

#[test]
fn a_machine_on_which_all_is_well_is_fit() {
    let found = examine(&well());
    assert!(found.iter().all(|it| matches!(it.weight, Weight::Survived | Weight::NotSurvived)));
    assert_eq!(found.iter().filter(|it| it.weight == Weight::Survived).count(), 2);
}

#[test]
fn every_row_has_a_name_of_its_own_and_every_finding_is_a_sentence() {
    for (at, check) in CHECKS.iter().enumerate() {
        assert!(CHECKS[..at].iter().all(|other| other.about != check.about), "{}", check.about);
    }
    for finding in examine(&well()) {
        assert!(finding.text.ends_with('.') && !finding.text.contains("  "), "{}", finding.text);
    }
}

#[test]
fn libraries_that_cannot_do_it_are_named() {
    let old = changed(|it| it.facts.version = Version(4, 1, 6));
    let about = "the version is too old, or without ULFM";
    finds(about, Weight::Unfit, &old, &["4.1.6", "setup --force"]);
    let without = changed(|it| it.facts.fault_tolerance = false);
    finds(about, Weight::Unfit, &without, &["ULFM", "setup --force"]);
    for patch in [10, 11] {
        let crashing = changed(|it| it.facts.version = Version(5, 0, patch));
        finds("versions that crash survivors", Weight::Unfit, &crashing, &["setup --force"]);
    }
}

#[test]
fn stages_that_fail_or_hang_are_named() {
    let hung = changed(|it| {
        it.by_signal = run(&ALL[..6], End::TimedOut);
        it.by_signal.add_line("begin finalize");
    });
    let about = "what the ranks cannot do after a death";
    finds(about, Weight::Unfit, &hung, &["end in order", "hung"]);
    let silent = changed(|it| {
        it.by_signal = run(&ALL[..1], End::Exited(0));
        it.by_signal.add_line("done detection no");
        it.by_signal.add_line("done shrink no");
    });
    finds(about, Weight::Unfit, &silent, &["notice the death, nor go on without the dead"]);
    let failed = changed(|it| it.by_signal = run(&ALL, End::Exited(3)));
    finds("a launcher that fails after all", Weight::Unfit, &failed, &["status 3"]);
}

#[test]
fn transports_that_report_nobody_are_named() {
    let about = "a messaging layer that reports nobody";
    let ucx = changed(|it| it.transports[0] = Some(transports("ucx", &[])));
    finds(about, Weight::Unfit, &ucx, &["`ucx`", "unset"]);
    let none = changed(|it| it.transports[0] = None);
    finds(about, Weight::Unfit, &none, &["no program starts"]);
    let uct =
        changed(|it| it.transports[0] = Some(transports("ob1", &["self", "sm", "tcp", "uct"])));
    finds("byte transports that do not survive", Weight::Unfit, &uct, &["uct", "self,sm,tcp"]);
}

#[test]
fn settings_outside_of_the_launch_line_are_named() {
    let place = "a file of the user";
    for name in ["mpi_ft_enable", "prte_enable_ft"] {
        finds("fault tolerance switched off", Weight::Care, &with(name, "0"), &[name, place]);
        assert_eq!(says("fault tolerance switched off", &with(name, "1")), None);
    }
    for name in ["mpi_ft_detector", "mpi_ft_detector_thread"] {
        finds("MPI's own heartbeat", Weight::Unfit, &with(name, "true"), &[name, place]);
        assert_eq!(says("MPI's own heartbeat", &with(name, "false")), None);
    }
    let off = with("async_mpi_finalize", "0");
    finds("a finalize that hangs", Weight::Care, &off, &["every fifth", "remove"]);
    assert_eq!(says("a finalize that hangs", &with("async_mpi_finalize", "1")), None);
    let about = "the transports that a setting selects";
    finds(about, Weight::Care, &with("pml", "ucx"), &["write ob1"]);
    finds(about, Weight::Care, &with("btl", "self,ofi"), &["self,sm,tcp"]);
    finds(about, Weight::Care, &with("btl", "^tcp"), &["self,sm,tcp"]);
    for (name, value) in [("pml", "ob1"), ("btl", "tcp,self")] {
        assert_eq!(says(about, &with(name, value)), None);
    }
}

#[test]
fn collectives_that_crash_are_named_where_they_may_be_chosen() {
    let about = "collectives that crash";
    finds(about, Weight::Care, &with("coll", "^sm"), &["`han`", "^han"]);
    finds(about, Weight::Care, &with("coll", "basic,han"), &["`han`"]);
    for value in ["^han", "^sm,han", "basic,libnbc"] {
        assert_eq!(says(about, &with("coll", value)), None, "{value}");
    }
    let mut cuda = with("coll", "^han");
    cuda.facts.cuda_collectives = true;
    finds(about, Weight::Care, &cuda, &["`cuda`", "^han,cuda"]);
}

#[test]
fn slow_spawns_several_machines_and_noise_are_named() {
    let slow = changed(|it| {
        it.by_signal = run(&ALL[..5], End::Exited(0));
        it.by_signal.add_line("done spawn 1060.2");
    });
    finds("a slow spawn", Weight::Care, &slow, &["1060 ms", "UCX_MEM_EVENTS", "--spares"]);
    let machines = changed(|it| it.machines = 3);
    finds("several machines", Weight::Care, &machines, &["3 machines", "signal", "--observer"]);
    let noisy = changed(|it| {
        it.by_signal = Findings::of(Vec::new(), End::Exited(0), &"error 75\n".repeat(300));
    });
    finds("noise on standard error", Weight::Care, &noisy, &["300 lines", "file"]);
}

#[test]
fn tools_of_another_mpi_are_named() {
    let compiler = changed(|it| it.other_compiler = Some("/opt/mpich/bin/mpicc".to_owned()));
    finds("another compiler wrapper", Weight::Care, &compiler, &["/opt/mpich/bin/mpicc", "unset"]);
    let about = "another launcher";
    let mpich = changed(|it| it.other_launcher = Some("HYDRA of MPICH 5.0".to_owned()));
    finds(about, Weight::Care, &mpich, &["ends all ranks", "cargo fampi run"]);
    let other = changed(|it| it.other_launcher = Some("Open MPI 4.1.6".to_owned()));
    finds(about, Weight::Care, &other, &["4.1.6", "cargo fampi run"]);
}

#[test]
fn deaths_are_survived_or_not_as_they_were_tried() {
    let untold = changed(|it| it.by_exit = run(&ALL[..1], End::TimedOut));
    let (weight, text) = says("an exit that is seen", &untold).expect("by the ranks");
    assert!(weight == Weight::Survived && text.contains("watch each other"), "{text}");
    let unwatched = changed(|it| {
        it.by_exit = run(&ALL[..1], End::TimedOut);
        it.no_watcher = Some("this system gives no descriptors of processes");
    });
    let (weight, text) = says("an exit that is not seen", &unwatched).expect("by nobody");
    assert!(weight == Weight::NotSurvived && text.contains("no descriptors"), "{text}");
    assert_eq!(says("an exit that is seen", &unwatched), None);
    assert_eq!(says("an exit that is not seen", &well()), None);
    assert_eq!(says("death by a signal", &well()).map(|(it, _)| it), Some(Weight::Survived));
    let dead = changed(|it| it.by_signal = run(&ALL[..2], End::TimedOut));
    assert_eq!(says("death by a signal", &dead), None);
    let plain = changed(|it| {
        it.plain = run(&ALL[..1], End::Exited(137));
        it.transports[1] = Some(transports("ucx", &[]));
    });
    let (weight, text) = says("a plain mpirun", &plain).expect("it did not go on");
    assert!(weight == Weight::NotSurvived && text.contains("selects `ucx`"), "{text}");
    assert_eq!(says("a plain mpirun", &well()), None);
}

#[test]
fn what_no_machine_survives_is_always_said() {
    let rows = [
        ("half of the ranks leave", "state_base_error_non_zero_exit"),
        ("the loss of a node", "`cargo fampi run` a job outlives it"),
        ("a process that does not answer", "time limit"),
        ("threads", "one thread"),
        ("windows, files and topologies", "yourself"),
    ];
    for (about, word) in rows {
        let (weight, text) = says(about, &well()).expect("always");
        assert!(weight == Weight::NotSurvived && text.contains(word), "{text}");
    }
}
