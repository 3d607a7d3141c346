//! What is known to go wrong when a process dies on an MPI, as a table of checks.
//!
//! Each check looks at what was observed on this machine and says in a sentence what happens and
//! what to change. The table decides and never looks itself, so that tests can feed it the
//! machines that we do not have.

use std::collections::BTreeMap;

use crate::installation::Facts;
use crate::probe::{Findings, Stage, Transports};
use crate::session::End;

/// All that the checks may know.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) facts: Facts,
    /// Four ranks with our flags, of which one dies by a signal, or leaves with another status
    /// than 0; and a death by a signal without our flags.
    pub(crate) by_signal: Findings,
    pub(crate) by_exit: Findings,
    pub(crate) plain: Findings,
    /// With our flags, and without.
    pub(crate) transports: [Option<Transports>; 2],
    /// Parameters of MPI and its launcher that are set outside of the launch line, by their names
    /// without a prefix; each with its value, and with where it is set.
    pub(crate) parameters: BTreeMap<String, (String, String)>,
    /// Why the ranks of fampi would not watch each other on this node.
    pub(crate) no_watcher: Option<&'static str>,
    /// How many machines the batch system or a host file gives to a launch.
    pub(crate) machines: usize,
    /// What else than this MPI's is found first: a compiler wrapper, a launcher.
    pub(crate) other_compiler: Option<String>,
    pub(crate) other_launcher: Option<String>,
}

/// What a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Programs do not survive what they should.
    Unfit,
    /// Something will go wrong under conditions that the sentence names.
    Care,
    Survived,
    NotSurvived,
}

/// One sentence, or a few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) about: &'static str,
    pub(crate) weight: Weight,
    pub(crate) text: String,
}

/// A row of the table.
pub(crate) struct Check {
    about: &'static str,
    look: Look,
}

/// How a row comes to its finding.
enum Look {
    /// By looking at the machine.
    At(fn(&Observed) -> Option<(Weight, String)>),
    /// It is the same on every machine: not survived.
    Nowhere(&'static str),
}

/// The stages after a death, with what each is good for.
pub(crate) const STAGES: [(&str, &str); 7] = [
    ("start", "start together"),
    ("detection", "notice the death"),
    ("revoke", "interrupt each other (revoke)"),
    ("agreement", "agree on what happened"),
    ("shrink", "go on without the dead (shrink)"),
    ("spawn", "start a replacement (spawn)"),
    ("finalize", "end in order (finalize)"),
];

/// A spawn that takes longer than this opens transports that nothing here uses.
const SLOW_SPAWN_MILLISECONDS: f64 = 500.0;

pub(crate) const CHECKS: &[Check] = &[
    Check { about: "the version is too old, or without ULFM", look: Look::At(unfit_installation) },
    Check { about: "versions that crash survivors", look: Look::At(crashing_version) },
    Check { about: "what the ranks cannot do after a death", look: Look::At(failed_stages) },
    Check { about: "a launcher that fails after all", look: Look::At(failed_launcher) },
    Check { about: "a messaging layer that reports nobody", look: Look::At(messaging) },
    Check { about: "byte transports that do not survive", look: Look::At(byte_transports) },
    Check { about: "fault tolerance switched off", look: Look::At(switched_off) },
    Check { about: "MPI's own heartbeat", look: Look::At(heartbeat) },
    Check { about: "a finalize that hangs", look: Look::At(finalize) },
    Check { about: "collectives that crash", look: Look::At(collectives) },
    Check { about: "the transports that a setting selects", look: Look::At(selected) },
    Check { about: "a slow spawn", look: Look::At(slow_spawn) },
    Check { about: "several machines", look: Look::At(several_machines) },
    Check { about: "another compiler wrapper", look: Look::At(other_compiler) },
    Check { about: "another launcher", look: Look::At(other_launcher) },
    Check { about: "death by a signal", look: Look::At(death_by_signal) },
    Check { about: "an exit that is seen", look: Look::At(exit_that_is_seen) },
    Check { about: "an exit that is not seen", look: Look::At(exit_that_is_not_seen) },
    Check { about: "half of the ranks leave", look: Look::Nowhere(HALF_LEAVES) },
    Check { about: "a plain mpirun", look: Look::At(plain_launch) },
    Check { about: "the loss of a node", look: Look::Nowhere(NODE_LOSS) },
    Check { about: "a process that does not answer", look: Look::Nowhere(SILENCE) },
    Check { about: "threads", look: Look::Nowhere(THREADS) },
    Check { about: "windows, files and topologies", look: Look::Nowhere(WINDOWS) },
    Check { about: "noise on standard error", look: Look::At(noise) },
];

/// What the table says about a machine.
pub(crate) fn examine(observed: &Observed) -> Vec<Finding> {
    CHECKS.iter().filter_map(|check| check.finding(observed)).collect()
}

impl Check {
    fn finding(&self, observed: &Observed) -> Option<Finding> {
        let (weight, text) = match self.look {
            Look::At(look) => look(observed)?,
            Look::Nowhere(text) => (Weight::NotSurvived, text.to_owned()),
        };
        Some(Finding { about: self.about, weight, text })
    }
}

impl Observed {
    fn works(findings: &Findings, stage: &str) -> bool {
        matches!(findings.stage(stage), Stage::Works(_))
    }

    fn parameter(&self, name: &str) -> Option<(&str, &str)> {
        self.parameters.get(name).map(|(value, place)| (value.as_str(), place.as_str()))
    }
}

fn is_on(value: &str) -> bool {
    !matches!(value.trim().to_lowercase().as_str(), "0" | "false" | "no" | "off" | "none")
}

/// The last thing that the launcher said, or how the run ended.
fn explain(findings: &Findings) -> String {
    let mut said = findings.errors.lines().map(str::trim);
    let last = said.rfind(|line| !line.is_empty() && !line.starts_with("---"));
    match (findings.end, last) {
        (End::TimedOut, _) => "the run hung and was ended".to_owned(),
        (_, Some(line)) => format!("the launcher said \"{}\"", line.trim_end_matches('.')),
        (end, None) => format!("the run ended with status {}", end.status()),
    }
}

fn unfit_installation(it: &Observed) -> Option<(Weight, String)> {
    let why = it.facts.unfit()?;
    Some((Weight::Unfit, format!("this MPI {why}: run `cargo fampi setup --force`.")))
}

fn crashing_version(it: &Observed) -> Option<(Weight, String)> {
    it.facts.version.crashes_survivors().then(|| {
        let text = format!(
            "Open MPI {} crashes healthy ranks when the notice of a death reaches them while they \
             create a communicator: run `cargo fampi setup --force` for one that does not.",
            it.facts.version
        );
        (Weight::Unfit, text)
    })
}

fn failed_stages(it: &Observed) -> Option<(Weight, String)> {
    let failed = |stage| matches!(it.by_signal.stage(stage), Stage::Fails | Stage::Hangs);
    let stages = STAGES.iter().filter(|(stage, _)| failed(stage));
    let meanings: Vec<&str> = stages.map(|(_, meaning)| *meaning).collect();
    (!meanings.is_empty()).then(|| {
        let (all, why) = (meanings.join(", nor "), explain(&it.by_signal));
        (Weight::Unfit, format!("after a death the ranks cannot {all}: {why}."))
    })
}

fn failed_launcher(it: &Observed) -> Option<(Weight, String)> {
    let done = Observed::works(&it.by_signal, "finalize");
    (done && it.by_signal.end != End::Exited(0)).then(|| {
        let why = explain(&it.by_signal);
        (Weight::Unfit, format!("the ranks survived but the launcher failed: {why}."))
    })
}

fn messaging(it: &Observed) -> Option<(Weight, String)> {
    let Some(Transports { messaging, .. }) = &it.transports[0] else {
        let text = "no program starts, or its transports are unknown: start one with \
                    `cargo fampi run -n 2 -- hello_block` and see what the launcher says.";
        return Some((Weight::Unfit, text.to_owned()));
    };
    (messaging != "ob1").then(|| {
        let text = format!(
            "messages go through `{messaging}`, which does not report a dead peer: unset what \
             selects it (OMPI_MCA_pml, or the parameter files of this MPI)."
        );
        (Weight::Unfit, text)
    })
}

fn byte_transports(it: &Observed) -> Option<(Weight, String)> {
    let bytes = &it.transports[0].as_ref()?.bytes;
    let others: Vec<&str> =
        bytes.iter().map(String::as_str).filter(|it| !SURVIVING.contains(it)).collect();
    (!others.is_empty()).then(|| {
        let text = format!(
            "messages may go over {}, which is not known to survive a death: launch with \
             `--mca btl self,sm,tcp`, as `cargo fampi run` does.",
            others.join(" and ")
        );
        (Weight::Unfit, text)
    })
}

/// Byte transports that go on when a peer is dead.
const SURVIVING: [&str; 3] = ["self", "sm", "tcp"];

fn switched_off(it: &Observed) -> Option<(Weight, String)> {
    let names = ["mpi_ft_enable", "prte_enable_ft"];
    let off = |name: &&str| it.parameter(name).is_some_and(|(value, _)| !is_on(value));
    let name = names.into_iter().find(off)?;
    let (value, place) = it.parameter(name)?;
    let text = format!(
        "{name} is {value} in {place}, which turns fault tolerance off where the launch line does \
         not turn it on: remove it."
    );
    Some((Weight::Care, text))
}

fn heartbeat(it: &Observed) -> Option<(Weight, String)> {
    let names = ["mpi_ft_detector", "mpi_ft_detector_thread"];
    let on = |name: &&str| it.parameter(name).is_some_and(|(value, _)| is_on(value));
    let name = names.into_iter().find(on)?;
    let (_, place) = it.parameter(name)?;
    let text = format!(
        "{name} is on in {place}: MPI's own heartbeat declares living ranks dead when its period \
         is short, sees deaths late when it is long, and hangs in its thread variant: remove it."
    );
    Some((Weight::Unfit, text))
}

fn finalize(it: &Observed) -> Option<(Weight, String)> {
    let (value, place) = it.parameter("async_mpi_finalize")?;
    (!is_on(value)).then(|| {
        let text = format!(
            "async_mpi_finalize is {value} in {place}: after a death every fifth program hangs at \
             its end, unless it is started by `cargo fampi run`: remove it."
        );
        (Weight::Care, text)
    })
}

fn collectives(it: &Observed) -> Option<(Weight, String)> {
    let (value, place) = it.parameter("coll")?;
    let excluded = value.trim_start().starts_with('^');
    let named = |name: &str| value.trim_start_matches('^').split(',').any(|it| it.trim() == name);
    let needed = if it.facts.cuda_collectives { &["han", "cuda"][..] } else { &["han"] };
    let bites = needed.iter().copied().find(|name| named(name) != excluded)?;
    let text = format!(
        "coll is {value} in {place}, with which `{bites}` may be chosen: it crashes on \
         communicators of several machines that lost a rank, unless the program is started by \
         `cargo fampi run`: exclude it (^{}).",
        needed.join(",")
    );
    Some((Weight::Care, text))
}

fn selected(it: &Observed) -> Option<(Weight, String)> {
    let bites = |name: &&str| match it.parameter(name) {
        Some((value, _)) if *name == "pml" => value.trim() != "ob1",
        Some((value, _)) => {
            value.starts_with('^') || value.split(',').any(|it| !SURVIVING.contains(&it.trim()))
        }
        None => false,
    };
    let name = ["pml", "btl"].into_iter().find(bites)?;
    let (value, place) = it.parameter(name)?;
    let wanted = if name == "pml" { "ob1" } else { "self,sm,tcp" };
    let text = format!(
        "{name} is {value} in {place}: only {wanted} reports and survives deaths; programs that \
         are not started by `cargo fampi run` would hang: write {wanted}, or remove it."
    );
    Some((Weight::Care, text))
}

fn slow_spawn(it: &Observed) -> Option<(Weight, String)> {
    let Stage::Works(Some(milliseconds)) = it.by_signal.stage("spawn") else { return None };
    (milliseconds > SLOW_SPAWN_MILLISECONDS).then(|| {
        let text = format!(
            "a replacement takes {milliseconds:.0} ms to start, where 20 to 70 are usual: start \
             with `cargo fampi run`, or with its flags and UCX_MEM_EVENTS=n; or use --spares, \
             which take a place in a few milliseconds."
        );
        (Weight::Care, text)
    })
}

fn several_machines(it: &Observed) -> Option<(Weight, String)> {
    (it.machines > 1).then(|| {
        let text = format!(
            "a launch here has {} machines: under mpirun ranks watch those of their own machine \
             only, so that a death on another one is known after 16 to 50 ms, and never after an \
             exit with another status than 0. The daemons of `cargo fampi run` tell of all of \
             them; so does --observer beside mpirun. Without either, let ranks die by a \
             signal, and set a time limit on every wait.",
            it.machines
        );
        (Weight::Care, text)
    })
}

fn other_compiler(it: &Observed) -> Option<(Weight, String)> {
    let path = it.other_compiler.as_ref()?;
    let text = format!(
        "MPICC is exported as {path}, so programs are built for another MPI than the one that \
         launches them; unset it, or run `cargo fampi setup --mpi PREFIX`."
    );
    Some((Weight::Care, text))
}

fn other_launcher(it: &Observed) -> Option<(Weight, String)> {
    let what = it.other_launcher.as_ref()?;
    let stops = if what.contains("MPICH") || what.contains("HYDRA") {
        "that one ends all ranks when one dies, and its revoke, shrink and agree abort"
    } else {
        "a program of this MPI does not start under it, or starts as many programs of one rank"
    };
    let text = format!(
        "the `mpirun` that is found first is {what}: {stops}; use `cargo fampi run`, or the \
         launcher line above."
    );
    Some((Weight::Care, text))
}

fn death_by_signal(it: &Observed) -> Option<(Weight, String)> {
    let survived =
        ["detection", "shrink"].iter().all(|stage| Observed::works(&it.by_signal, stage));
    let text = "a process that dies by a signal: tried with SIGKILL.";
    survived.then(|| (Weight::Survived, text.to_owned()))
}

fn exit_that_is_seen(it: &Observed) -> Option<(Weight, String)> {
    let text = if Observed::works(&it.by_exit, "detection") {
        format!("{LEAVES}: tried.")
    } else if it.no_watcher.is_none() {
        format!(
            "on one node, {LEAVES}: this MPI tells nobody (tried), but the ranks of fampi watch \
             each other."
        )
    } else {
        return None;
    };
    Some((Weight::Survived, text))
}

fn exit_that_is_not_seen(it: &Observed) -> Option<(Weight, String)> {
    let why = it.no_watcher.filter(|_| !Observed::works(&it.by_exit, "detection"))?;
    let text = format!(
        "{LEAVES} (tried: nobody was told within 3 s), since {why}. Let it die by a signal \
         instead, for example with abort(); a time limit on every wait finds the others."
    );
    Some((Weight::NotSurvived, text))
}

const LEAVES: &str = "a process that leaves with a status other than 0, without finalize";

const HALF_LEAVES: &str = "\
    half of the processes, or one of two, that leave with a status other than 0, under mpirun: it \
    counts each twice and ends the job. Start with `cargo fampi run`, or add `--prtemca \
    state_base_error_non_zero_exit 0`.";

fn plain_launch(it: &Observed) -> Option<(Weight, String)> {
    (!Observed::works(&it.plain, "shrink")).then(|| {
        let messaging = it.transports[1].as_ref().map(|it| it.messaging.as_str());
        let selects = match messaging.filter(|messaging| *messaging != "ob1") {
            Some(other) => format!(", and selects `{other}`, which reports no dead peer"),
            None => String::new(),
        };
        let text = format!(
            "any death under a plain mpirun, as it leaves fault tolerance off{selects} (tried: \
             the job did not go on). Start with `cargo fampi run`, or with the launcher line \
             above."
        );
        (Weight::NotSurvived, text)
    })
}

const NODE_LOSS: &str = "\
    the loss of a whole node under mpirun, which ends the job together with its daemon. Under \
    `cargo fampi run` a job outlives it: ask for a node more than the ranks fill, for their \
    replacements, and Slurm for --no-kill; a firewall has to let the nodes call each other.";

const SILENCE: &str = "\
    a process that lives but does not answer: that is no death. `fampi run --hung SECONDS` makes \
    it one; otherwise only a time limit on every wait shows it.";

const THREADS: &str = "\
    a death while another thread calls MPI: this MPI crashes now and then when two threads are \
    in it during a recovery. Let one thread make all calls.";

const WINDOWS: &str = "\
    a death inside collective windows (RMA), files and topologies: make these again yourself \
    after a recovery.";

fn noise(it: &Observed) -> Option<(Weight, String)> {
    let lines = it.by_signal.errors.lines().count() + it.by_exit.errors.lines().count();
    (lines > 200).then(|| {
        let text = format!(
            "MPI wrote {lines} lines to standard error about two deaths: after a death in a \
             collective it repeats one line for each look; send standard error to a file of \
             limited size."
        );
        (Weight::Care, text)
    })
}

#[cfg(test)]
mod tests;
