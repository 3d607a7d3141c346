//! The launch line: which flags and environment this MPI needs to survive the death of a rank.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use clap::ValueEnum;

use crate::installation::{Facts, Family, Installation};
use crate::refusal::{Misuse, whole};

/// More processes than this for each core of one machine are taken for a slip of the finger.
const MOST_PER_CORE: usize = 128;

/// Open MPI's launcher counts each rank twice that leaves with a status other than 0, and otherwise
/// ends the job when half of it has left so.
const IGNORE_STATUSES: [&str; 3] = ["--prtemca", "state_base_error_non_zero_exit", "0"];

/// A number of ranks, as it is written on the command line.
pub(crate) fn ranks(text: &str) -> Result<u32, Misuse> {
    whole(1..=u32::MAX, "a number of ranks, 1 or more")(text)
}

/// A number of processes that may be 0.
pub(crate) fn processes(text: &str) -> Result<u32, Misuse> {
    whole(0..=u32::MAX, "a number of processes, 0 or more")(text)
}

/// Refuses a launch that would bring this machine down.
pub(crate) fn check_room(processes: u32) -> Result<(), Misuse> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let most = MOST_PER_CORE * cores;
    if processes as usize <= most {
        return Ok(());
    }
    let machine = format!("this machine of {cores} core{}", if cores == 1 { "" } else { "s" });
    Err(Misuse(format!("{processes} processes are too many for {machine}: launch up to {most}")))
}

/// Who starts the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Open MPI's, which ends the job when a node is lost
    Mpirun,
    /// Ours, under which a job survives the loss of any node
    Node,
}

/// How to start programs on several ranks.
#[derive(Debug)]
pub(crate) struct Launcher<'a> {
    mpi: &'a Installation,
    /// The launcher of our own, if it is to be used.
    own: Option<PathBuf>,
    /// For the launcher itself, after ours: a host file, an output folder.
    extra: &'a [String],
    /// Many ranks leave with a status other than 0.
    are_failing: bool,
}

impl<'a> Launcher<'a> {
    pub(crate) fn new(mpi: &'a Installation) -> Self {
        Self::with(mpi, &[])
    }

    pub(crate) fn with(mpi: &'a Installation, extra: &'a [String]) -> Self {
        Self { mpi, own: None, extra, are_failing: false }
    }

    /// By the launcher of our own, if it was built.
    pub(crate) fn by(self, own: Option<PathBuf>) -> Self {
        Self { own, ..self }
    }

    /// For a job in which many ranks leave with a status other than 0.
    pub(crate) fn of_failing(self) -> Self {
        Self { are_failing: true, ..self }
    }

    /// `program` on `processes` ranks, not started yet; its arguments are to be added.
    pub(crate) fn command(&self, processes: u32, program: impl AsRef<OsStr>) -> Command {
        if let Some(own) = &self.own {
            let mut command = self.by_own(own, processes);
            command.arg("--").arg(program);
            return command;
        }
        let mut command = self.plain(processes, &flags(&self.mpi.facts));
        command.args(IGNORE_STATUSES.iter().filter(|_| self.are_failing));
        command.args(self.extra).arg(program);
        command
    }

    /// A launch without the flags of fault tolerance, as a person might start it.
    pub(crate) fn plain_command(&self, processes: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.plain(processes, &[]);
        command.args(self.extra).arg(program);
        command
    }

    /// Our own launcher; the program is to be added.
    fn by_own(&self, own: &PathBuf, processes: u32) -> Command {
        let mut command = Command::new(own);
        let prefix = std::path::absolute(&self.mpi.prefix).unwrap_or(self.mpi.prefix.clone());
        command.arg("launch").arg("--mpi").arg(prefix);
        command.args(["-n", &processes.to_string()]);
        if let Some(mender) = self.mpi.mender() {
            command.arg("--preload").arg(mender);
        }
        command.args(self.extra).env("UCX_MEM_EVENTS", "n");
        if self.mpi.facts.family == Family::Mpich {
            command.args(["--language", "pmi"]);
            return command;
        }
        command.env("OMPI_MCA_mpi_ft_enable", "1");
        for (name, value) in parameters(&self.mpi.facts) {
            command.env(format!("OMPI_MCA_{name}"), value);
        }
        command
    }

    fn plain(&self, processes: u32, flags: &[String]) -> Command {
        let mut command = Command::new(self.mpi.mpirun());
        command.args(flags).args(["--oversubscribe", "-n", &processes.to_string()]);
        // Without it every start of a process pays 0.2 s for hooks that nothing here uses.
        command.env("UCX_MEM_EVENTS", "n");
        if let Some(mender) = self.mpi.mender() {
            // It loses new processes after deaths, and crashes; see `ffi/prterun`.
            let others = env::var("LD_PRELOAD").unwrap_or_default();
            command.env("LD_PRELOAD", format!("{} {others}", mender.display()).trim_end());
            if env::var_os(DAEMONS).is_none()
                && let Some(daemon) = mended_daemon(&mender)
            {
                command.env(DAEMONS, daemon);
            }
        }
        if rustix::process::geteuid().is_root() {
            // Containers; Open MPI wants to hear it twice.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command
    }
}

/// What Open MPI's launcher starts on other nodes is in this variable.
pub(crate) const DAEMONS: &str = "PRTE_MCA_prte_launch_agent";

/// The daemon that Open MPI's launcher starts on other nodes, with what mends it. The launcher
/// splits these words at spaces.
pub(crate) fn mended_daemon(mender: &Path) -> Option<String> {
    let path = mender.to_str().filter(|path| !path.contains(char::is_whitespace))?;
    Some(format!("env LD_PRELOAD={path} prted"))
}

/// The parameters of Open MPI with which ranks survive each other.
fn parameters(facts: &Facts) -> [(&'static str, &'static str); 5] {
    let collectives = if facts.cuda_collectives { "^han,cuda" } else { "^han" };
    [
        // After a failure the synchronous finalize hangs in every fifth run.
        ("async_mpi_finalize", "1"),
        // The only transports that report a dead peer; the others cost a second at each spawn.
        ("pml", "ob1"),
        ("btl", "self,sm,tcp"),
        // These collectives crash on a communicator of several nodes that has lost a rank.
        ("coll", collectives),
        // With the default tree all survivors were seen to wait for ever when a process died in
        // the agreement inside a shrink. This one is a string, although its description says star.
        ("coll_ftagree_era_topology", "2"),
    ]
}

/// The flags that make the launched ranks survive each other.
pub(crate) fn flags(facts: &Facts) -> Vec<String> {
    let mut flags = vec!["--with-ft".to_owned(), "ulfm".to_owned()];
    for (name, value) in parameters(facts) {
        flags.extend(["--mca".to_owned(), name.to_owned(), value.to_owned()]);
    }
    flags
}

/// Where PBS and SGE list hosts, in a file.
const LISTED: [&str; 2] = ["PBS_NODEFILE", "PE_HOSTFILE"];
/// What LSF says in each job.
const OF_LSF: &str = "LSB_JOBID";

/// True when PBS, SGE or LSF has given us hosts, of which our own launcher does not know.
pub(crate) fn is_allocated_to_mpirun() -> bool {
    LISTED.iter().chain([&OF_LSF]).any(|name| env::var_os(name).is_some())
}

/// How many machines a batch system has given us.
pub(crate) fn machines() -> usize {
    let number = |name| env::var(name).ok().and_then(|text: String| text.parse().ok());
    let listed = |name: &str| {
        let text = fs::read_to_string(env::var_os(name)?).ok()?;
        Some(
            text.lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect::<BTreeSet<_>>()
                .len(),
        )
    };
    let told = number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES"));
    told.or_else(|| LISTED.iter().find_map(|name| listed(name))).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::Version;

    fn mpi(cuda_collectives: bool) -> Installation {
        let facts = Facts {
            family: Family::OpenMpi,
            version: Version(5, 0, 9),
            fault_tolerance: true,
            cuda_collectives,
        };
        Installation { prefix: "mpi".into(), facts }
    }

    fn words(command: &Command) -> String {
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        words.join(" ")
    }

    #[test]
    fn the_launch_line_turns_fault_tolerance_on() {
        let mpi = mpi(false);
        let mut command = Launcher::new(&mpi).command(6, "program");
        command.arg("nx=30");
        assert_eq!(command.get_program(), "mpi/bin/mpirun");
        assert_eq!(
            words(&command),
            "--with-ft ulfm --mca async_mpi_finalize 1 --mca pml ob1 --mca btl self,sm,tcp \
             --mca coll ^han --mca coll_ftagree_era_topology 2 --oversubscribe -n 6 program nx=30"
        );
        assert!(command.get_envs().any(|(name, _)| name == "UCX_MEM_EVENTS"));
    }

    #[test]
    fn daemons_on_other_nodes_are_mended_unless_the_path_would_be_split() {
        let daemon = mended_daemon(Path::new("/a/mender.so"));
        assert_eq!(daemon.as_deref(), Some("env LD_PRELOAD=/a/mender.so prted"));
        assert_eq!(mended_daemon(Path::new("/a b/mender.so")), None);
    }

    #[test]
    fn the_launcher_of_our_own_gets_the_same_parameters() {
        let mpi = mpi(false);
        let launcher = Launcher::new(&mpi).by(Some("fampi-node".into()));
        let command = launcher.command(6, "program");
        assert_eq!(command.get_program(), "fampi-node");
        let line = words(&command);
        assert!(line.starts_with("launch --mpi ") && line.ends_with(" -n 6 -- program"), "{line}");
        let variables: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .collect();
        for expected in [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_mpi_ft_enable", "1")] {
            assert!(variables.contains(&expected), "{variables:?}");
        }
    }

    #[test]
    fn mpich_is_started_by_the_launcher_of_our_own() {
        let mut mpi = mpi(false);
        mpi.facts.family = Family::Mpich;
        let command = Launcher::new(&mpi).by(Some("fampi-node".into())).command(2, "program");
        assert!(words(&command).ends_with(" -n 2 --language pmi -- program"));
        let mut variables = command.get_envs().map(|(name, _)| name);
        assert!(!variables.any(|name| name.to_string_lossy().starts_with("OMPI_")));
    }

    #[test]
    fn extra_flags_come_before_the_program_and_cuda_collectives_are_left_out() {
        let (mpi, extra) = (mpi(true), ["--hostfile".to_owned(), "hosts".to_owned()]);
        let line = words(&Launcher::with(&mpi, &extra).command(2, "program"));
        assert!(line.contains("--mca coll ^han,cuda "));
        assert!(line.ends_with("--oversubscribe -n 2 --hostfile hosts program"));
        assert!(!words(&Launcher::new(&mpi).plain_command(2, "program")).contains("ulfm"));
    }
}
