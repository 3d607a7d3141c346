//! Observers of nodes without ranks, and what they show of each other: on this machine, or one in
//! each of some name spaces.

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fampi_detector::protocol::{
    Host, Incarnation, Node, Timing,
    board::{self, ENTRY_WORDS, Entry, HEAD_WORDS, Head},
    envelope::Secret,
    plan::{Place, Plan},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::nodes::{self, Nodes};

/// Where observers in name spaces take packets.
const PORT: u16 = 4711;
/// The memory that an observer shows to its ranks, as the system names it.
const BOARD: &str = "fampi-board";

/// The observers; ended when this is dropped.
pub(super) struct Ring {
    /// By node.
    observers: Vec<Child>,
    /// Their plans and sockets.
    folder: TempDir,
}

/// What an observer shows the ranks of its node.
pub(super) struct Board {
    memory: File,
    /// Words of opinions before the entries.
    opinions: u32,
}

impl Ring {
    /// So many on this machine, whose ring has the order of their numbers.
    pub(super) fn here(program: &Path, timing: Timing, number: u32) -> Result<Self> {
        let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets = (0..number).map(bind).collect::<Result<Vec<_>, _>>();
        let sockets = sockets.context("no addresses for observers")?;
        let addresses: Vec<SocketAddr> =
            sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>()?;
        let mut sockets = sockets.into_iter();
        Self::start(timing, &addresses, |_| {
            let mut command = Command::new(program);
            command.stdin(sockets.next().map_or_else(Stdio::null, |it| OwnedFd::from(it).into()));
            command
        })
    }

    /// One in each of these name spaces, which have the addresses of nodes from the first on.
    pub(super) fn across(program: &Path, timing: Timing, spaces: &[String]) -> Result<Self> {
        let address = |node| SocketAddr::new(IpAddr::V4(Nodes::address(node)), PORT);
        let addresses: Vec<SocketAddr> = (0..spaces.len() as u32).map(address).collect();
        Self::start(timing, &addresses, |node| {
            let name = &spaces[node as usize];
            let mut command = nodes::program_inside(name, spaces.len(), program);
            command.stdin(Stdio::null());
            command
        })
    }

    fn start(
        timing: Timing,
        addresses: &[SocketAddr],
        mut command: impl FnMut(u32) -> Command,
    ) -> Result<Self> {
        let ours_alone = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(ours_alone).tempdir();
        let folder = folder.context("cannot make a temporary folder")?;
        let secret = Secret::new(std::array::from_fn(|_| fastrand::u8(..)));
        let mut ring = Self { observers: Vec::new(), folder };
        for node in 0..addresses.len() as u32 {
            let folder = ring.folder.path();
            let path = folder.join(format!("{node}.plan"));
            let registry = folder.join(format!("{node}.sock"));
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(plan(&secret, &registry, node, timing, addresses).to_text().as_bytes())?;
            let mut command = command(node);
            command.arg("--foreground").arg("--plan").arg(path);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
            ring.observers.push(child.context("cannot start an observer")?);
        }
        for observer in &mut ring.observers {
            let mut line = String::new();
            let output = observer.stdout.take().context("an observer has an output")?;
            BufReader::new(output).read_line(&mut line)?;
            if line != "ready\n" {
                bail!("an observer has not started: see above");
            }
        }
        Ok(ring)
    }

    /// The numbers of their processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.observers.iter().map(Child::id)
    }

    /// Stops one for good, as a node that says nothing any more.
    pub(super) fn silence(&self, node: u32) -> Result<()> {
        let process = Pid::from_child(&self.observers[node as usize]);
        kill_process(process, Signal::STOP).context("cannot stop an observer")
    }

    /// What the observer of a node shows; it can be read when that has ended, too.
    pub(super) fn board(&self, node: u32) -> Result<Board> {
        let descriptors = format!("/proc/{}/fd", self.observers[node as usize].id());
        let paths = fs::read_dir(descriptors)?.flatten().map(|entry| entry.path());
        let is_board =
            |path: &_| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(BOARD));
        let path = paths.into_iter().find(is_board).context("an observer shows nothing")?;
        // A rank for each node, and the nodes.
        let opinions = 2 * self.observers.len() as u32;
        Ok(Board { memory: File::open(path)?, opinions })
    }

    /// What was measured beside a ring that had ended would be nothing.
    pub(super) fn check(&mut self) -> Result<()> {
        for observer in &mut self.observers {
            if observer.try_wait().context("cannot ask an observer")?.is_some() {
                bail!("an observer of the ring has ended: see above");
            }
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for observer in &mut self.observers {
            let _ = observer.kill();
            let _ = observer.wait();
        }
    }
}

impl Board {
    /// The nodes that are lost, each with the moment at which the observer wrote so, by the clock
    /// that all processes of the machine share.
    pub(super) fn lost(&self) -> Result<Vec<(u32, Duration)>> {
        let head = Head::from_words(&self.words::<HEAD_WORDS>(0)?).context("not a board")?;
        let mut lost = Vec::new();
        for place in 0..head.entries {
            let words = self.words::<ENTRY_WORDS>(board::entry_at(self.opinions, place))?;
            let (entry, moment) = Entry::from_words(words, place).context("not an entry")?;
            if entry.is_hard() {
                lost.push((entry.process.rank.0, moment));
            }
        }
        Ok(lost)
    }

    fn words<const N: usize>(&self, at: usize) -> Result<[u64; N]> {
        let mut words = [0; N];
        for (word, place) in words.iter_mut().zip(at..) {
            let mut bytes = [0; 8];
            self.memory.read_exact_at(&mut bytes, 8 * place as u64)?;
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(words)
    }
}

/// The plan of one of these observers. Each node has one rank, of its own number.
fn plan(
    secret: &Secret,
    registry: &Path,
    node: u32,
    timing: Timing,
    addresses: &[SocketAddr],
) -> Plan {
    let place =
        |(at, address): (u32, &SocketAddr)| Place { address: *address, name: format!("ring{at}") };
    Plan {
        secret: secret.clone(),
        socket: registry.display().to_string(),
        me: Host { node: Node(node), incarnation: Incarnation(0) },
        timing,
        nodes: (0..).zip(addresses).map(place).collect(),
        nodes_of: (0..addresses.len() as u32).map(Node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_text(addresses: &[SocketAddr]) -> String {
        let timing = Timing {
            start: Duration::from_secs(9),
            ..Timing::of_jobs_with(Duration::from_millis(10))
        };
        plan(&Secret::new([7; 32]), Path::new("ring/1.sock"), 1, timing, addresses).to_text()
    }

    #[test]
    fn observers_can_read_the_plan() {
        let text = plan_text(&[4711, 4712].map(|port| SocketAddr::from(([1; 4], port))));
        let read = Plan::parse(&text).map(|plan| plan.to_text());
        assert_eq!(read, Ok(text));
    }

    #[test]
    fn the_plan_has_a_line_for_each_of_the_nodes_and_their_period() {
        let addresses = [4711, 4712].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let text = plan_text(&addresses);
        let lines: Vec<&str> = text.lines().collect();
        let times = ["period 10000", "timeout 1000000", "start 9000000"];
        assert_eq!((lines[3], &lines[4..7]), ("me 1 0", &times[..]));
        assert_eq!(
            lines[9..],
            [
                "diagnosis 0 0 0",
                "node 127.0.0.1:4711 ring0",
                "node 127.0.0.1:4712 ring1",
                "ranks 0 1"
            ]
        );
    }
}
