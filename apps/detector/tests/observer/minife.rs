//! `MiniFE` across nodes that share the processors of this machine, each with two ranks and the
//! observer that the library has started there, with a heartbeat every 10 ms.
//!
//! A node that is reported lost takes its ranks with it, so a false report shows in what the
//! program says and in who ends in order; and the observers are asked what they know while it runs.
//! One launch goes as any test; for ten minutes of them, one after another,
//!
//! ```text
//! cargo build --release --package minife
//! FAMPI_QUIET_SECONDS=600 cargo test --release --package fampi-detector --test observer -- \
//!     --nocapture under_minife
//! ```

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use fampi_kit::launch::{Launch, Run, SURVIVING, launcher};
use tempfile::TempDir;

use crate::{cables::quiet_seconds, network::Network};

const OBSERVER: &str = env!("CARGO_BIN_EXE_fampi-observer");
const NODES: u32 = 4;
const RANKS: u32 = 2 * NODES;
/// Between two looks at what the observers know.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// Runs a command on a node, which is known by its name there and on all others.
const ON: &str = r#"#!/bin/sh
node=$1; shift
exec ip netns exec "$node" unshare --uts sh -c \
    'hostname "$0" && mount --bind @HOSTS@ /etc/hosts && exec "$@"' "$node" "$@"
"#;
/// What the launcher calls for `ssh`: it returns at once, as that does when a daemon detaches.
const AGENT: &str = r#"#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
node=$1; shift
setsid @ON@ "$node" sh -c "$*" < /dev/null > /dev/null 2>&1 &
"#;

/// Nodes that a launcher can reach.
struct Cluster {
    folder: TempDir,
    // The last to go: on its network there is nobody left then.
    _network: Network,
}

impl Cluster {
    /// `None`, and the reason printed, where there cannot be one.
    fn start() -> Option<Self> {
        let network = Network::of(NODES)?;
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = (0..NODES).map(|node| (Network::address(node).ip(), Network::name(node)));
        let hosts = nodes.map(|(address, name)| format!("{address} {name}\n"));
        let hosts = format!("127.0.0.1 localhost\n{}", hosts.collect::<String>());
        fs::write(folder.path().join("hosts"), hosts).expect("our folder");
        let cluster = Self { folder, _network: network };
        for (name, text) in [("on", ON), ("agent", AGENT)] {
            let [hosts, on] = ["hosts", "on"].map(|name| cluster.path(name));
            let path = cluster.path(name);
            fs::write(&path, text.replace("@HOSTS@", &hosts).replace("@ON@", &on))
                .expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("our file");
        }
        let tried = Command::new(cluster.path("on")).args([&Network::name(0), "true"]).output();
        let tried = tried.expect("a shell");
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr).into_owned();
            println!("skipped: nodes cannot have names here: {}", why.trim_end());
            return None;
        }
        Some(cluster)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// `MiniFE` with so many iterations on all nodes.
    fn launch(&self, minife: &Path, iterations: u32) -> Launch {
        let agent = format!("--prtemca plm_ssh_agent {}", self.path("agent"));
        let network = "--prtemca prte_if_include eth0 --mca btl_tcp_if_include eth0";
        let names: Vec<String> = (0..NODES).map(|it| format!("{}:2", Network::name(it))).collect();
        let places = format!("--host {} --oversubscribe --bind-to none", names.join(","));
        let flags = [&agent, network, SURVIVING, &places, "-n", &RANKS.to_string()].join(" ");
        let words = [Network::name(0), launcher().display().to_string()];
        let launch = Launch::new(self.path("on"), RANKS).without_launcher().limit(600);
        let launch = launch.words(words).words(flags.split(' '));
        let launch = launch.words([minife.display().to_string(), "yaml=none".into()]);
        let launch = launch.words(["nx=24", "tolerance=0", &format!("iterations={iterations}")]);
        launch.variable("FAMPI_OBSERVER", &OBSERVER).variable("FAMPI_HEARTBEAT_MILLISECONDS", &10)
    }
}

/// What observers have shown.
#[derive(Default)]
struct Seen {
    /// Looks at each of them, with the heartbeats that were asked for.
    looks: u32,
    /// The most observers that were there at once.
    at_once: usize,
    /// Heartbeats of the launch that were asked for, by who asks and who is asked.
    asked: BTreeMap<(String, String), u64>,
    lost: Vec<String>,
}

impl Seen {
    /// Runs a launch, and asks all observers of our nodes now and then.
    fn watch(&mut self, launch: &Launch) -> Run {
        let (over, is_over) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let launched = scope.spawn(move || {
                let run = launch.run();
                drop(over);
                run
            });
            while is_over.recv_timeout(LOOK_PERIOD) == Err(RecvTimeoutError::Timeout) {
                self.look();
            }
            launched.join().expect("no panic")
        })
    }

    /// Asks them once.
    fn look(&mut self) {
        let output = Command::new(OBSERVER).args(["top", "--once"]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let tables = text.split("observer ").filter_map(|table| table.split_once(" on "));
        let mut observers = 0;
        for (_, table) in tables {
            let own = (0..NODES).map(Network::name).find(|it| table.starts_with(&format!("{it}:")));
            let Some(own) = own else { continue };
            observers += 1;
            assert!(table.contains("heartbeats every 10ms"), "{table}");
            if table.contains("lost with its node") || table.contains("lost to all") {
                self.lost.push(table.to_owned());
            }
            for line in table.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [_, _, name, state, .., asked] = words[..] else { continue };
                if (0..NODES).any(|node| name == Network::name(node)) {
                    let asked = asked.parse().expect("a number");
                    self.asked.insert((own.clone(), name.to_owned()), asked);
                    if state == "lost" {
                        self.lost.push(table.to_owned());
                    }
                }
            }
        }
        self.looks += 1;
        self.at_once = self.at_once.max(observers);
    }
}

/// Built by `cargo test` of the whole workspace, and else by itself.
fn program() -> Option<PathBuf> {
    let minife = Path::new(OBSERVER).with_file_name("minife");
    if !minife.is_file() {
        println!("skipped: needs `cargo build --release --package minife` before it");
    }
    minife.is_file().then_some(minife)
}

#[test]
fn a_heartbeat_of_10_ms_under_minife_makes_no_false_report() {
    let Some((minife, cluster)) = program().zip(Cluster::start()) else { return };
    let long = quiet_seconds();
    let (began, mut first) = (Instant::now(), None);
    let (mut iterations, mut launches, mut asked) = (0, 0, 0);
    while launches == 0 || began.elapsed() < long.unwrap_or_default() {
        let mut seen = Seen::default();
        let each = 1000;
        let run = seen.watch(&cluster.launch(&minife, each));
        run.expect_orderly(RANKS as usize);
        assert_eq!(run.processes, RANKS as usize, "nobody was replaced: {run}");
        assert!(seen.lost.is_empty(), "false reports: {:#?}\n{run}", seen.lost);
        assert_eq!(seen.at_once, NODES as usize, "observers in {} looks: {run}", seen.looks);
        let digits = first.get_or_insert_with(|| run.output.clone());
        assert_eq!(&run.output, digits, "{run}");
        assert!(run.output.contains("digest"), "{run}");
        (iterations, launches) = (iterations + each, launches + 1);
        asked += seen.asked.values().sum::<u64>();
        println!("{:?}: {launches} launches, {iterations} iterations", began.elapsed());
    }
    println!("no node was lost in {:?}; {asked} heartbeats were asked for", began.elapsed());
}
