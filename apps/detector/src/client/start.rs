//! The first rank of each node starts the observer, by a plan that all have made together.
//!
//! The secret is drawn by rank 0 and goes to the others through MPI, which they trust with more
//! than that; to the observers in files that only their user can read, in a folder of the same
//! kind. It is on no command line and in no environment.

use std::{
    env, fs,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::rand::GetRandomFlags;

use super::{
    Assembly, Peer,
    charter::{Charter, secret_of},
    settings,
};
use crate::protocol::{
    Host, Incarnation, Node, Rank,
    plan::{Place, Plan},
};

/// How long an observer may take to be ready.
const LIMIT: Duration = Duration::from_secs(10);
/// What others may do with a file.
const OTHERS: u32 = 0o077;
/// The longest path that a socket may have, in bytes.
const MAX_SOCKET_PATH: usize = 100;

/// What a process brings: an address, and of rank 0 what names the job, its secret, and the timing
/// that the user asks for.
type Row = [u64; 6 + settings::WORDS];

/// Starts the observers, if that can be done on all nodes: what all know now, and the number of our
/// node; or why there are none. Collective.
pub(super) fn observers<A: Assembly>(
    assembly: &A,
    peers: &[Peer],
    program: &Path,
    isolate: fn(&mut Command),
) -> Result<Result<(Charter, Node), String>, A::Error> {
    let me = assembly.rank();
    // The first rank of each node, by node.
    let mut firsts: Vec<usize> = Vec::new();
    for (rank, peer) in peers.iter().enumerate() {
        if !firsts.iter().any(|first| peers[*first].node == peer.node) {
            firsts.push(rank);
        }
    }
    let node_of = |peer: &Peer| {
        let node = firsts.iter().position(|first| peers[*first].node == peer.node);
        Node(node.unwrap_or(0) as u32)
    };
    let link = firsts.contains(&me.index()).then(|| Link::bind(firsts.len() == 1));
    let (link, no_link) = match link.transpose() {
        Ok(link) => (link, None),
        Err(error) => (None, Some(format!("no address for an observer: {error}"))),
    };
    let rows = assembly.gather_numbers(row(me, link.as_ref()))?;
    let names = assembly.gather_bytes(name_line().as_bytes())?;
    let nodes_of = peers.iter().map(node_of).collect();
    let host = Host { node: node_of(&peers[me.index()]), incarnation: Incarnation(0) };
    let plan = plan(&rows, &names, &firsts, nodes_of, host);
    let known = peers.iter().all(|peer| peer.node != 0);
    let Some(plan) = plan.filter(|_| known) else {
        return Ok(Err(no_link.unwrap_or_else(|| "not all nodes are known".into())));
    };
    let [_, job, a, b, c, d, ..] = rows[0];
    let secret = [a, b, c, d];
    let started = plan.and_then(|plan| match link {
        Some(link) => start(program, isolate, &plan, job, link),
        None => Ok(()),
    });
    if assembly.least(u64::from(started.is_ok()))? == 0 {
        let other = "the observer of another node could not be started";
        return Ok(Err(started.err().unwrap_or_else(|| other.into())));
    }
    let nodes = firsts.iter().map(|first| peers[*first].node).collect();
    Ok(started.map(|()| (Charter::of_launch(job, secret, nodes, peers), host.node)))
}

/// A socket for the packets of an observer, and where others reach it.
struct Link {
    socket: UdpSocket,
    address: Ipv4Addr,
}

impl Link {
    fn bind(is_alone: bool) -> io::Result<Self> {
        let address = if is_alone { Ipv4Addr::LOCALHOST } else { address_of_node()? };
        let socket = UdpSocket::bind((address, 0))?;
        Ok(Self { socket, address })
    }
}

/// The name of this node.
fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The address under which the name of this node is known, which others can reach.
fn address_of_node() -> io::Result<Ipv4Addr> {
    let mut addresses = (node_name().as_str(), 0).to_socket_addrs()?;
    let v4 = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) if !address.is_loopback() => Some(address),
        _ => None,
    };
    let why = "the name of this node has no address of IPv4 that others can reach";
    addresses.find_map(v4).ok_or_else(|| io::Error::other(why))
}

fn row(me: Rank, link: Option<&Link>) -> Row {
    let port = |link: &Link| link.socket.local_addr().map_or(0, |address| address.port());
    let address =
        link.map_or(0, |link| u64::from(u32::from(link.address)) << 16 | u64::from(port(link)));
    if me != Rank(0) {
        let mut row = [0; _];
        row[0] = address;
        return row;
    }
    // Zeros are no secret: then there are no observers.
    let [job, a, b, c, d] = random().unwrap_or_default();
    let mut row = [0; _];
    let (own, timing) = row.split_at_mut(6);
    own.copy_from_slice(&[address, job, a, b, c, d]);
    timing.copy_from_slice(&settings::timing_to_words());
    row
}

/// Numbers that nobody can guess.
pub(super) fn random<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0_u64; N];
    for word in &mut words {
        let mut bytes = [0; size_of::<u64>()];
        // So few bytes come in one piece, or not at all.
        rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}

/// The name of this node on a line, as a word.
fn name_line() -> String {
    let name = node_name().replace(char::is_whitespace, "-");
    format!("{}\n", if name.is_empty() { "node" } else { &name })
}

/// The plan, the same on all ranks but for whom it is; `None` on all of them when something is
/// missing, and why the socket of ours cannot be.
fn plan(
    rows: &[Row],
    names: &[u8],
    firsts: &[usize],
    nodes_of: Vec<Node>,
    me: Host,
) -> Option<Result<Plan, String>> {
    let names = str::from_utf8(names).ok()?;
    let names: Vec<&str> = names.lines().collect();
    let [_, job, a, b, c, d, timing @ ..] = *rows.first()?;
    let secret = [a, b, c, d];
    if secret == [0; 4] {
        return None;
    }
    let place = |first: &usize| {
        let (word, name) = (rows[*first][0], *names.get(*first)?);
        let ip = Ipv4Addr::from((word >> 16) as u32);
        let address = SocketAddr::from((ip, word as u16));
        (word != 0).then(|| Place { address, name: name.into() })
    };
    let nodes = firsts.iter().map(place).collect::<Option<Vec<Place>>>()?;
    let secret = secret_of(secret);
    let socket = socket(job, me.node);
    let timing = settings::timing_of_words(timing);
    Some(socket.map(|socket| Plan { secret, socket, me, timing, nodes, nodes_of }))
}

/// The path where the processes of this node register.
pub(super) fn socket(job: u64, node: Node) -> Result<String, String> {
    let socket = folder()?.join(format!("{job:016x}-{}.sock", node.0)).display().to_string();
    let is_long = socket.len() > MAX_SOCKET_PATH;
    let advice = "set XDG_RUNTIME_DIR to a folder with a shorter name";
    if is_long { Err(format!("the path {socket} is too long: {advice}")) } else { Ok(socket) }
}

/// A folder of this user's own, which nobody else can look into.
fn folder() -> Result<PathBuf, String> {
    let user = rustix::process::geteuid().as_raw();
    let above = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_dir());
    let folder = above.unwrap_or_else(env::temp_dir).join(format!("fampi-{user}"));
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    let made = made.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    });
    let metadata = made.and_then(|()| fs::symlink_metadata(&folder));
    let is_ours = |it: &fs::Metadata| it.is_dir() && it.uid() == user && it.mode() & OTHERS == 0;
    let advice = "make it yours alone, with mode 0700";
    match metadata {
        Ok(metadata) if is_ours(&metadata) => Ok(folder),
        Ok(_) => Err(format!("others may use the folder {}: {advice}", folder.display())),
        Err(error) => Err(format!("no folder {}: {error}", folder.display())),
    }
}

/// Starts the observer, and returns when ranks can register.
fn start(
    program: &Path,
    isolate: fn(&mut Command),
    plan: &Plan,
    job: u64,
    link: Link,
) -> Result<(), String> {
    let path = Path::new(&plan.socket).with_file_name(format!("{job:016x}-{}", plan.me.node.0));
    let mut file = fs::File::options();
    let file = file.write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(plan.to_text().as_bytes()));
    let started = written.and_then(|()| {
        let mut command = Command::new(program);
        command.arg("--plan").arg(&path).stdin(OwnedFd::from(link.socket));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        isolate(&mut command);
        command.spawn().and_then(wait)
    });
    // The observer has done so, unless something went wrong.
    let _ = fs::remove_file(&path);
    started.map_err(|error| format!("{} is no observer: {error}", program.display()))
}

/// Waits for a short process; what it complains about is an error.
fn wait(mut child: Child) -> io::Result<()> {
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(1));
    };
    if status.success() {
        return Ok(());
    }
    let complaint = child.stderr.take().map(io::read_to_string).transpose()?;
    let complaint = complaint.unwrap_or_default();
    let complaint = complaint.trim_end().trim_start_matches("fampi-observer: ");
    Err(io::Error::other(if complaint.is_empty() { status.to_string() } else { complaint.into() }))
}
