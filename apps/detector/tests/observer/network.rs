//! Nodes on this machine: network namespaces with an address each, plugged into one switch, which
//! is a namespace, too. Cables can be pulled. What is sent stays inside.
//!
//! Names hold the number of this process, so that two runs do not meet. All is removed in the end,
//! also when a test fails.

use std::{
    ffi::OsStr,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The port of every observer.
const PORT: u16 = 4711;
const PREFIX: &str = "fampi-test";
/// Measurements of one network would disturb those of another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Nodes that are there as long as this is.
pub(crate) struct Network {
    nodes: u32,
    _alone: MutexGuard<'static, ()>,
}

impl Network {
    /// So many nodes; `None`, and the reason printed, where there cannot be any.
    pub(crate) fn of(nodes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make network namespaces");
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        remove_leftovers();
        // From here on whatever was made is removed.
        let network = Self { nodes, _alone: alone };
        if let Err(why) = try_ip(&["netns", "add", &switch()]) {
            println!("skipped: no network namespaces here: {why}");
            return None;
        }
        ip(&["-n", &switch(), "link", "add", "br0", "type", "bridge"]);
        ip(&["-n", &switch(), "link", "set", "br0", "up"]);
        (0..nodes).for_each(plug_in);
        Some(network)
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// What a node is called.
    pub(crate) fn name(node: u32) -> String {
        format!("{PREFIX}-{}-{node}", std::process::id())
    }

    /// Where the observer of a node takes packets.
    pub(crate) fn address(node: u32) -> SocketAddr {
        (ip_of(node), PORT).into()
    }

    /// A program on a node; it keeps the number of the process that is started.
    pub(crate) fn command(node: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &Self::name(node)]).arg(program);
        command
    }

    /// Pulls the cable of a node.
    pub(crate) fn cut(node: u32) {
        ip(&["-n", &switch(), "link", "set", &cable(node), "down"]);
    }

    /// Plugs it in again.
    pub(crate) fn join(node: u32) {
        ip(&["-n", &switch(), "link", "set", &cable(node), "up"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in (0..self.nodes).map(Self::name).chain([switch()]) {
            let _ = try_ip(&["netns", "del", &name]);
        }
    }
}

fn switch() -> String {
    format!("{PREFIX}-{}-switch", std::process::id())
}

/// The name of a cable at the switch.
fn cable(node: u32) -> String {
    format!("v{node}")
}

fn ip_of(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 77, 0, 10).to_bits() + node)
}

fn plug_in(node: u32) {
    let (switch, name, cable) = (switch(), Network::name(node), cable(node));
    ip(&["netns", "add", &name]);
    let peer = ["type", "veth", "peer", "name", "eth0", "netns", &name];
    ip(&[&["-n", &switch, "link", "add", &cable], &peer[..]].concat());
    ip(&["-n", &switch, "link", "set", &cable, "master", "br0", "up"]);
    ip(&["-n", &name, "addr", "add", &format!("{}/24", ip_of(node)), "dev", "eth0"]);
    ip(&["-n", &name, "link", "set", "lo", "up"]);
    ip(&["-n", &name, "link", "set", "eth0", "up"]);
}

/// What a run that was killed has left: the process in the name is gone.
fn remove_leftovers() {
    let Ok(listed) = fs::read_dir("/run/netns") else { return };
    for name in listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
            let _ = try_ip(&["netns", "del", &name]);
        }
    }
}

#[track_caller]
fn ip(words: &[&str]) {
    try_ip(words).expect("the first namespace could be made");
}

fn try_ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}
