//! Several nodes to measure on: hosts that a person names, or name spaces of this machine.
//!
//! A name space has a network, an address and a host name of its own, so that messages between two
//! of them go by TCP, as between machines. What runs in it runs on the node's share of the
//! processors, as on machines: ranks of two nodes share one only if there are more nodes than
//! processors. Making name spaces takes root and the tool `ip`.
//!
//! ```text
//! fampi-4711-0 ─ eth0 10.77.0.1 ─┐
//! fampi-4711-1 ─ eth0 10.77.0.2 ─┼─ bridge in the name space fampi-4711-s
//! ```
//!
//! The launcher runs in the first, and starts its daemons in the others by this tool, which it
//! calls as it would call `ssh`.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::guard::Guard;
use crate::refusal::Misuse;
use crate::spaces::{NAMES, folder, ip, remove_space};

/// How the launcher calls this tool to start a daemon; the number of nodes and the processors of
/// the job follow in this word, as the launcher passes one: `4@0,1`. The launcher may be on a node,
/// and then has the processors of that one alone.
const AGENT: &str = "__agent=";
/// The network between name spaces; it is not seen outside of them.
const NETWORK: [u8; 3] = [10, 77, 0];
/// What says how many addresses the kernel keeps.
const NEIGHBOURS: &str = "net.ipv4.neigh.default.gc_thresh3";
/// Runs a command under a host name of its own.
const UNDER_A_NAME: &str = "hostname \"$0\" && exec \"$@\"";

/// Where ranks are to be started.
#[derive(Debug)]
pub(crate) enum Nodes {
    /// These, by `ssh`.
    Hosts(Vec<String>),
    Spaces(Spaces),
}

/// Name spaces of this machine; removed, with all that runs in them, when this is dropped.
#[derive(Debug)]
pub(crate) struct Spaces {
    names: Vec<String>,
    switch: String,
    /// Removes them when this process dies.
    guard: Option<Guard>,
}

impl Nodes {
    /// So many nodes: the first of these hosts, or as many name spaces.
    pub(crate) fn new(number: u32, hosts: &[String]) -> Result<Self> {
        if hosts.is_empty() {
            return Ok(Self::Spaces(Spaces::make(number)?));
        }
        let Some(hosts) = hosts.get(..number as usize) else {
            let few = hosts.len();
            bail!(Misuse(format!("{number} nodes are more than the {few} of --hosts: name more")));
        };
        Ok(Self::Hosts(hosts.to_vec()))
    }

    /// Arguments of the launcher that put `ranks` on the nodes; filled one after the other, or in
    /// turns.
    pub(crate) fn arguments(&self, ranks: u32, in_turns: bool) -> Result<Vec<String>> {
        let names = self.names();
        let each = ranks.div_ceil(names.len() as u32);
        let hosts: Vec<String> = names.iter().map(|name| format!("{name}:{each}")).collect();
        let way = if in_turns { "node" } else { "slot" };
        let mut words: Vec<String> =
            ["--bind-to", "none", "--map-by", way, "--host", &hosts.join(",")]
                .map(str::to_owned)
                .into();
        if matches!(self, Self::Spaces(_)) {
            let agent = agent(names.len())?;
            words.extend(
                ["--prtemca", "plm_ssh_agent", &agent, "--prtemca", "prte_if_include", "eth0"]
                    .map(str::to_owned),
            );
            words.extend(["--mca", "btl_tcp_if_include", "eth0"].map(str::to_owned));
        }
        Ok(words)
    }

    /// Arguments of the launcher of our own that fill the nodes one after the other.
    pub(crate) fn own_arguments(&self, ranks: u32) -> Result<Vec<String>> {
        let names = self.names();
        let number = names.len() as u32;
        let hosts = names.iter().zip(0..).filter_map(|(name, at)| {
            let slots = ranks / number + u32::from(at < ranks % number);
            (slots > 0).then(|| format!("{name}:{slots}"))
        });
        let mut words = vec!["--hosts".to_owned(), hosts.collect::<Vec<_>>().join(",")];
        if let Self::Spaces(spaces) = self {
            words.push("--agent".to_owned());
            words.push(agent(names.len())?);
            words.push("--reach".to_owned());
            words.push(format!("ip netns exec {}", spaces.switch));
        }
        Ok(words)
    }

    /// The name spaces that were made.
    pub(crate) fn spaces(&self) -> Vec<String> {
        match self {
            Self::Hosts(_) => Vec::new(),
            Self::Spaces(spaces) => spaces.names.iter().chain([&spaces.switch]).cloned().collect(),
        }
    }

    /// The names of the nodes.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Hosts(names) | Self::Spaces(Spaces { names, .. }) => names,
        }
    }

    /// The command, started where all nodes can be reached: it outlives each of them.
    pub(crate) fn beside(&self, command: Command) -> Command {
        let Self::Spaces(spaces) = self else { return command };
        let mut beside = spaces.inside(&spaces.switch, &command);
        beside.env("OMPI_MCA_btl_tcp_if_include", "eth0");
        beside
    }

    /// The command, started on the first of the nodes if that is not here.
    pub(crate) fn first(&self, command: Command) -> Command {
        let Self::Spaces(spaces) = self else { return command };
        spaces.inside(&spaces.names[0], &command)
    }

    /// The address of a node that is a name space.
    pub(crate) fn address(node: u32) -> Ipv4Addr {
        let [a, b, c] = NETWORK;
        Ipv4Addr::new(a, b, c, node as u8 + 1)
    }
}

impl Spaces {
    /// The command in one of these name spaces.
    fn inside(&self, name: &str, command: &Command) -> Command {
        // What is on no node is there for all of them, and may use all processors.
        let nodes = if *name == self.switch { 1 } else { self.names.len() };
        let mut on = inside(name, nodes, &allowed());
        on.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on.env(name, value),
                None => on.env_remove(name),
            };
        }
        on
    }

    fn make(number: u32) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            let advice = "run it as root, or name --hosts if it takes them";
            bail!(Misuse(format!("name spaces for several nodes take root: {advice}")));
        }
        if let Some(most) = most_neighbours().filter(|most| number * (number - 1) > *most) {
            say!(
                "fampi: {number} name spaces may need more than the {most} entries that the \
                 kernel's table of addresses has for all of them: if connections time out, raise \
                 it by `sysctl {NEIGHBOURS}={}`",
                4 * number * number
            );
        }
        let own = |what: &str| format!("fampi-{}-{what}", process::id());
        let (names, switch) = ((0..number).map(|node| own(&node.to_string())), own("s"));
        let names: Vec<_> = names.collect();
        let all: Vec<_> = names.iter().chain([&switch]).cloned().collect();
        let guard = Some(Guard::of_spaces(&all)?);
        // From here on a failure removes what there is.
        let spaces = Self { names, switch, guard };
        let switch = &spaces.switch;
        ip(&["netns", "add", switch])?;
        ip(&["-n", switch, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", switch, "link", "set", "bridge", "up"])?;
        ip(&["-n", switch, "link", "set", "lo", "up"])?;
        let last = format!("{}/24", Nodes::address(253));
        ip(&["-n", switch, "addr", "add", &last, "dev", "bridge"])?;
        let named = || spaces.names.iter().zip(0..);
        let lines = named().map(|(name, node)| format!("{} {name}", Nodes::address(node)));
        let hosts = format!("127.0.0.1 localhost\n{}\n", lines.collect::<Vec<_>>().join("\n"));
        for (name, node) in named() {
            let (port, address) =
                (format!("port{}", node + 1), format!("{}/24", Nodes::address(node)));
            ip(&["netns", "add", name])?;
            ip(&[
                "link", "add", &port, "netns", switch, "type", "veth", "peer", "name", "eth0",
                "netns", name,
            ])?;
            ip(&["-n", switch, "link", "set", &port, "master", "bridge", "up"])?;
            ip(&["-n", name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", "eth0", "up"])?;
        }
        for name in spaces.names.iter().chain([switch]) {
            let folder = folder(name);
            fs::create_dir_all(&folder)
                .and_then(|()| fs::write(folder.join("hosts"), &hosts))
                .with_context(|| format!("cannot write below {NAMES}"))?;
        }
        Ok(spaces)
    }
}

/// How many addresses of neighbours the kernel keeps, for all name spaces of the machine.
fn most_neighbours() -> Option<u32> {
    let file = Path::new("/proc/sys").join(NEIGHBOURS.replace('.', "/"));
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            remove_space(name);
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// This tool as the agent of a launcher, for so many nodes.
fn agent(nodes: usize) -> Result<String> {
    let tool = env::current_exe().context("cannot find this tool")?;
    let processors: Vec<String> = allowed().iter().map(ToString::to_string).collect();
    Ok(format!("{} {AGENT}{nodes}@{}", tool.display(), processors.join(",")))
}

/// The number of nodes and the processors in the word of an agent.
fn asked(word: &str) -> Option<(usize, Vec<usize>)> {
    let (nodes, processors) = word.strip_prefix(AGENT)?.split_once('@')?;
    let processors = processors.split(',').filter_map(|number| number.parse().ok()).collect();
    Some((nodes.parse().ok()?, processors))
}

/// A program in one of so many name spaces; it keeps the number of the process that is started.
pub(crate) fn program_inside(name: &str, nodes: usize, program: &Path) -> Command {
    let mut command = inside(name, nodes, &allowed());
    command.arg(program);
    command
}

/// A command in one of so many name spaces, under its name and on its share of these processors;
/// what is to run is to be added.
fn inside(name: &str, nodes: usize, processors: &[usize]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]);
    let node = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let processors: Vec<String> =
        share(processors, node, nodes).iter().map(ToString::to_string).collect();
    if !processors.is_empty() {
        command.args(["taskset", "--cpu-list", &processors.join(",")]);
    }
    command.args(["unshare", "--uts", "sh", "-c", UNDER_A_NAME, name]);
    command
}

/// The processors of the job, in numbers.
fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or(Vec::new(), |set| {
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|at| set.is_set(*at)).collect()
    })
}

/// The processors of one of so many nodes: an equal part of all of them, or one that it shares with
/// other nodes.
fn share(all: &[usize], node: usize, nodes: usize) -> &[usize] {
    let each = all.len() / nodes.max(1);
    let (first, number) =
        if each == 0 { (node % all.len().max(1), 1) } else { (node * each, each) };
    all.get(first..first + number).unwrap_or_default()
}

/// Starts a daemon in a name space, if this process was called for that: `__agent=NODES@PROCESSORS
/// HOST COMMAND…`. It returns at once, as `ssh` does when the daemon goes on by itself.
pub(crate) fn start_daemon_if_asked() -> Option<Result<()>> {
    let mut words = env::args().skip(1);
    let (nodes, processors) = asked(&words.next()?)?;
    let mut words = words.skip_while(|word| word.starts_with('-'));
    let host = words.next()?;
    let mut command = inside(&host, nodes, &processors);
    // The words are those of a shell, as for `ssh`.
    command.args(["sh", "-c", &words.collect::<Vec<_>>().join(" ")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    Some(command.spawn().map(drop).context("cannot start a daemon in a name space"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_put_on_the_nodes_one_after_the_other_or_in_turns() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let nodes = Nodes::new(2, &hosts).expect("two of three");
        let words = nodes.arguments(5, false).expect("hosts").join(" ");
        assert_eq!(words, "--bind-to none --map-by slot --host a:3,b:3");
        assert!(nodes.arguments(4, true).expect("hosts").join(" ").contains("--map-by node"));
        let words = nodes.own_arguments(5).expect("hosts").join(" ");
        assert_eq!(words, "--hosts a:3,b:2");
        let refused = Nodes::new(4, &hosts).expect_err("too few");
        assert_eq!(refused.to_string(), "4 nodes are more than the 3 of --hosts: name more");
    }

    #[test]
    fn each_node_has_processors_of_its_own_as_long_as_there_are_enough() {
        let shares = |all: &[usize], nodes| -> Vec<Vec<usize>> {
            (0..nodes).map(|node| share(all, node, nodes).to_vec()).collect()
        };
        assert_eq!(shares(&[0, 1, 4, 5, 6], 2), [[0, 1], [4, 5]]);
        assert_eq!(shares(&[0, 1], 2), [[0], [1]]);
        assert_eq!(shares(&[3, 7], 3), [[3], [7], [3]]);
        assert_eq!(shares(&[], 1), [Vec::<usize>::new()], "unknown");
    }

    #[test]
    fn an_agent_is_told_the_processors_of_the_job_and_not_those_of_its_launcher() {
        let words = agent(4).expect("this test has a path");
        let (_, word) = words.rsplit_once(' ').expect("two words");
        assert_eq!(asked(word), Some((4, allowed())));
        assert_eq!(asked("__agent=3@2,5"), Some((3, vec![2, 5])));
        assert_eq!((asked("run"), asked("__agent=3")), (None, None));
    }

    #[test]
    fn name_spaces_have_names_and_addresses_and_are_gone_afterwards() {
        if !rustix::process::geteuid().is_root() {
            return say!("skipped: name spaces take root");
        }
        let spaces = match Spaces::make(2) {
            Ok(spaces) => spaces,
            Err(error) => return say!("skipped: {error:#}"),
        };
        let name = spaces.names[1].clone();
        let inside = |name, nodes| inside(name, nodes, &allowed());
        let said = inside(&name, 2).args(["hostname"]).output().expect("ip");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), name);
        let shown = inside(&name, 2).args(["ip", "addr", "show", "eth0"]).output().expect("ip");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("10.77.0.2/24"));
        let processors = inside(&name, 2).args(["nproc"]).output().expect("coreutils");
        let number = (allowed().len() / 2).max(1).to_string();
        assert_eq!(String::from_utf8_lossy(&processors.stdout).trim(), number);
        drop(spaces);
        assert!(!folder(&name).exists());
        assert!(!inside(&name, 2).arg("true").output().expect("ip").status.success());
    }
}
