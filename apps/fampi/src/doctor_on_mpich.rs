//! `fampi doctor --mpi mpich`: what MPICH does when a process dies, under our own launcher.
//!
//! MPICH has no fault tolerance that could be switched on, and tells no process of the death of
//! another. fampi needs of it only that the living can go on, and the doctor tries that.

use crate::checks::{Finding, Observed, Weight};
use crate::probe::{Findings, Stage};
use crate::session::End;

/// The stages after a death, with what each is good for.
pub(crate) const STAGES: [(&str, &str); 7] = [
    ("start", "start together"),
    ("detection", "see the death on their node"),
    ("talk", "send messages to each other"),
    ("cancel", "end a receive from the dead (cancel)"),
    ("group", "go on without the dead (create_group)"),
    ("spawn", "start a replacement (spawn)"),
    ("finalize", "end in order (finalize)"),
];

/// What is survived, where the living can do all that.
const SURVIVED: [&str; 3] = [
    "a process that dies by a signal: tried with SIGKILL.",
    "a process that leaves with a status other than 0, without finalize: tried.",
    "the loss of any node, the first included, by `cargo fampi run --mpi mpich` with --hosts or \
     --hostfile: observers see it, and are started by themselves.",
];

/// What is not, whatever the machine.
const NOT_SURVIVED: [&str; 7] = [
    "any death under MPICH's own mpirun, which ends all ranks: start with `cargo fampi run --mpi \
     mpich`.",
    "a death inside MPI's own call that makes a communicator or starts processes: those who wait \
     in it count as failed, too, after the watchdog's limit (FAMPI_STUCK_SECONDS).",
    "on several nodes, a death before the first call of fampi: nobody tells of it, so set a time \
     limit for the job.",
    "the memory of a large send, or of a collective, that a dead rank was to take part in: MPI \
     keeps it until the end of the job.",
    "a program that goes on with MPI's own calls on a communicator that fampi has revoked: they \
     wait, as MPICH knows no revocation; go on with what the recovery has made.",
    "a program linked so that MPI comes before fampi: FAMPI_Init refuses it. Put -lfampi first, \
     or use pkg-config's fampi-mpich.",
    "ULFM's own functions of MPICH, which end the process: fampi_ulfm.h has fampi's.",
];

/// What the stages of both runs, and the machine, mean.
pub(crate) fn examine(observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |about, weight, text: String| findings.push(Finding { about, weight, text });
    if let Some(why) = observed.facts.unfit() {
        add("the version", Weight::Unfit, format!("this MPI {why}."));
    }
    let failed = failures(&observed.by_signal, &STAGES);
    let failed_by_exit = failures(&observed.by_exit, &STAGES[..3]);
    for (meanings, how) in [(&failed, "by a signal"), (&failed_by_exit, "by an exit")] {
        if !meanings.is_empty() {
            let all = meanings.join(", nor ");
            add("a death", Weight::Unfit, format!("after a death {how} the ranks cannot {all}."));
        }
    }
    if failed.is_empty() && failed_by_exit.is_empty() {
        for text in SURVIVED {
            add("a death", Weight::Survived, text.to_owned());
        }
    }
    if let Some(why) = observed.no_watcher {
        let text = format!("a death on this node, as {why}: MPICH tells nobody of it.");
        add("the watcher", Weight::Unfit, text);
    }
    if let Some(path) = &observed.other_compiler {
        let text = format!(
            "MPICC is exported as {path}: what is built with it is for another MPI than the one \
             that `cargo fampi run --mpi mpich` launches."
        );
        add("another compiler wrapper", Weight::Care, text);
    }
    for text in NOT_SURVIVED {
        add("MPICH", Weight::NotSurvived, text.to_owned());
    }
    findings
}

/// The meanings of the stages that did not work.
fn failures(run: &Findings, stages: &[(&str, &'static str)]) -> Vec<&'static str> {
    let works = |stage| matches!(run.stage(stage), Stage::Works(_));
    let mut failed: Vec<&str> =
        stages.iter().filter(|(stage, _)| !works(stage)).map(|(_, meaning)| *meaning).collect();
    if failed.is_empty() && run.end == End::TimedOut {
        failed.push("end");
    }
    failed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::installation::{Facts, Family, Version};

    fn run(without: &str) -> Findings {
        let works = STAGES.iter().filter(|(stage, _)| *stage != without);
        let lines = works.flat_map(|(it, _)| [format!("begin {it}"), format!("done {it} 1.5")]);
        Findings::of(lines.collect(), End::Exited(0), "")
    }

    fn observed(without: &str) -> Observed {
        let (fault_tolerance, cuda_collectives) = (false, false);
        let (family, version) = (Family::Mpich, Version(5, 0, 2));
        Observed {
            facts: Facts { family, version, fault_tolerance, cuda_collectives },
            by_signal: run(without),
            by_exit: run(""),
            plain: run(""),
            transports: [None, None],
            parameters: BTreeMap::new(),
            no_watcher: None,
            machines: 1,
            other_compiler: None,
            other_launcher: None,
        }
    }

    #[test]
    fn where_all_stages_work_deaths_are_survived_and_what_is_not_is_said() {
        let findings = examine(&observed(""));
        let of = |weight| findings.iter().filter(|it| it.weight == weight).count();
        assert_eq!((of(Weight::Survived), of(Weight::NotSurvived)), (3, NOT_SURVIVED.len()));
        assert_eq!(of(Weight::Unfit), 0);
    }

    #[test]
    fn a_stage_that_does_not_work_makes_it_unfit() {
        for (stage, meaning) in STAGES {
            let findings = examine(&observed(stage));
            let unfit: Vec<_> = findings.iter().filter(|it| it.weight == Weight::Unfit).collect();
            assert_eq!(unfit.len(), 1, "{stage}");
            assert!(unfit[0].text.contains(meaning), "{}", unfit[0].text);
            assert!(!findings.iter().any(|it| it.weight == Weight::Survived));
        }
    }

    #[test]
    fn ranks_that_cannot_watch_each_other_hear_of_no_death() {
        let mut blind = observed("");
        blind.no_watcher = Some("FAMPI_NODE_WATCHER=off is set");
        assert!(examine(&blind).iter().any(|it| it.weight == Weight::Unfit));
    }
}
