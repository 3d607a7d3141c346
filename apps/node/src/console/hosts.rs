//! The hosts of a job, and how their daemons are started.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use fampi_detector::protocol::envelope::Secret;

use crate::daemon::{Language, write_secret};

/// A host, and how many processes it takes: `a`, `b:4`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct HostSlots {
    /// Its name.
    pub(super) name: String,
    /// How many processes it takes.
    pub(super) slots: u32,
}

impl FromStr for HostSlots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, slots) = text.split_once(':').unwrap_or((text, "1"));
        let slots = slots.parse().ok().filter(|slots| *slots > 0);
        match slots.filter(|_| !name.is_empty() && !name.starts_with('-')) {
            Some(slots) => Ok(Self { name: name.to_owned(), slots }),
            None => Err("write HOST or HOST:PROCESSES, as in node1:4".to_owned()),
        }
    }
}

/// A step that goes on when a node is lost, with one task on each, which may use all processors
/// that the job has there.
const STEP: [&str; 5] =
    ["--no-kill", "--kill-on-bad-exit=0", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none"];

/// Tells a daemon that it joins a job, which gives it a number.
pub(super) const JOINS: &str = "--joins";

/// What starts daemons.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum By {
    /// The one daemon is a child of ours.
    Child,
    /// This command, with the host and the words of the daemon behind it.
    Agent(Vec<String>),
    /// One step of Slurm, which does not end when a node is lost.
    Slurm,
}

/// How daemons are started.
#[derive(Debug)]
pub(super) struct Starter {
    /// What does it.
    pub(super) by: By,
    /// What is executed, without what differs between daemons.
    pub(super) words: Vec<String>,
}

/// The file that holds the secret; removed in the end.
#[derive(Debug)]
pub(super) struct KeyFile(pub(super) PathBuf);

impl KeyFile {
    /// Writes the secret down where only this user can read it.
    pub(super) fn write(secret: &Secret) -> Result<Self> {
        // Another user cannot guess this name and make the file first.
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .context("the system has no random numbers")?;
        let name = format!("fampi-key-{:016x}", u64::from_le_bytes(random));
        let path = env::temp_dir().join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        file.write_all(write_secret(secret).as_bytes())?;
        Ok(Self(path))
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The address under which this host is seen by another one.
pub(super) fn own_address(host: &str) -> Result<IpAddr> {
    let found = (host, 9).to_socket_addrs().ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
    let Some(there) = found else { bail!("there is no host {host}: its name has no address") };
    // Nothing is sent: the system only chooses the way.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("no socket")?;
    socket.connect(there).with_context(|| format!("there is no way to {host}"))?;
    Ok(socket.local_addr().context("no address")?.ip())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of this command, which starts daemons, or of the usual one.
pub(super) fn agent(command: Option<&str>) -> Vec<String> {
    command.unwrap_or("ssh -o BatchMode=yes").split_whitespace().map(str::to_owned).collect()
}

/// On which processors processes run.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Processors {
    /// Processors that each host has for this job, where that is not all that it has
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// Let the system move processes between processors: without it each has cores of its own where
    /// a host has enough
    #[arg(long)]
    unbound: bool,
}

/// Lets PMIx tell processes of their job by messages. Otherwise it maps files of the folder for
/// temporary files into daemons and processes, which die when that is full.
pub(super) const IN_MESSAGES: (&str, &str) = ("PMIX_MCA_gds", "hash");

/// What a daemon is executed by: this program, with the MPI at this prefix, for processes that
/// speak so, with this library preloaded, and on these processors.
pub(super) fn daemon(
    mpi: &Path,
    language: Language,
    preload: Option<&Path>,
    processors: Processors,
) -> Result<Vec<String>> {
    let program = env::current_exe().context("cannot find this program")?;
    let mpi = mpi.display();
    let mut words = vec![format!("PMIX_PREFIX={mpi}"), format!("OPAL_PREFIX={mpi}")];
    let (name, value) = IN_MESSAGES;
    words.push(format!("{name}={value}"));
    words.extend(preload.map(|preload| format!("LD_PRELOAD={}", preload.display())));
    words.extend([program.display().to_string(), "serve".to_owned(), format!("--mpi={mpi}")]);
    words.push(format!("--language={}", language.word()));
    words.extend(processors.cores.map(|cores| format!("--cores={cores}")));
    words.extend(processors.unbound.then(|| "--unbound".to_owned()));
    words.insert(0, "env".to_owned());
    Ok(words)
}

impl Starter {
    /// Starts a daemon on a host, or one on each of so many, which call the console at this
    /// address. The first word says which node it is.
    pub(super) fn start(
        &self,
        (which, host, nodes): (&str, &str, usize),
        console: SocketAddr,
        key: &Path,
        secret: &Secret,
    ) -> Result<Child> {
        let own =
            [format!("--console={console}"), which.to_owned(), format!("--key={}", key.display())];
        let words = self.words.iter().chain(&own);
        let mut command = match &self.by {
            By::Child => {
                let mut words = words;
                let mut command = Command::new(words.next().context("no daemon")?);
                command.args(words);
                command
            }
            By::Agent(agent) => {
                let (first, rest) = agent.split_first().context("--agent names no command")?;
                let mut command = Command::new(first);
                command.args(rest).arg(host).args(words.map(|word| quoted(word)));
                command
            }
            By::Slurm => {
                let mut command = Command::new("srun");
                let nodes = nodes.to_string();
                // Otherwise as many tasks as the job was submitted with, some on one node.
                command.args(STEP).args(["--nodes", &nodes, "--ntasks", &nodes]).args(words);
                command
            }
        };
        if self.by == By::Slurm || which == JOINS {
            // No signal of the terminal reaches it: the console ends all in order, and a node that
            // joins outlives this command.
            command.process_group(0);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let name = command.get_program().to_owned();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", name.to_string_lossy()))?;
        if let Some(mut input) = child.stdin.take() {
            // Who reads the file does not need it.
            let _ = input.write_all(write_secret(secret).as_bytes());
        }
        Ok(child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_say_how_many_processes_they_take() {
        let host = |name: &str, slots| Ok(HostSlots { name: name.to_owned(), slots });
        assert_eq!("a".parse(), host("a", 1));
        assert_eq!("node1:4".parse(), host("node1", 4));
        for wrong in ["", ":4", "a:0", "a:x", "-o:1"] {
            assert!(wrong.parse::<HostSlots>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("--node=3"), "--node=3");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_host_without_a_name_is_told() {
        let refused = own_address("no-such-host.invalid").expect_err("no host");
        assert!(refused.to_string().contains("there is no host no-such-host.invalid"));
        assert!(own_address("127.0.0.1").expect("this one").is_loopback());
    }
}
