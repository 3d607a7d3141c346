//! What the console, which waits for the job, and the daemons say to each other.
//!
//! ```text
//! daemon ── here ──────▶ console     it runs, and others can reach it at this port
//! daemon ◀── plan ────── console     the nodes, and what is to be started
//! daemon ── ready ─────▶ console     it is linked with the others
//! daemon ◀── go ──────── console
//! daemon ── output, files, reports ▶ console
//! daemon ◀── printed ──── console    so much of the output is not lost with the console
//! daemon ◀── input ────── console    for the first process
//! daemon ── taken ─────▶ console     so much of it
//! daemon ◀── end, leave ─ console
//! ```
//!
//! A guest, who brings a node to a job that runs, calls the first living daemon, and is called by
//! the new one:
//!
//! ```text
//! new    ── here ─────────▶ guest
//! first  ◀── add ────────── guest    the name, size and address of the node
//! first  ── admitted ─────▶ guest    its number, the plan, and who is lost
//! new    ◀── join ───────── guest    the same
//! first  ── came ─────────▶ guest    it serves
//! ```
//!
//! When a console is gone another one may call the daemons. It knows the job from its record, and
//! from then on hears what the first one would: the output that nobody has printed, the losses so
//! far, and whether all is over.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{
    Node, Refusal, Report, graph::Graph, membership::Partition, placement::Room, space::Space,
};

/// The most bytes of an order or a word: what a rank has printed is shorter.
pub const MAX_BYTES: usize = 16 << 20;

/// What a daemon says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Word {
    /// It runs, on a machine of this name, and listens at this port.
    Here(String, u16),
    /// It is linked with all others.
    Ready,
    /// A process has printed this.
    Output(Printed),
    /// The first process has taken so many more bytes of its input.
    Taken(u64),
    /// Processes have written this into a folder of which the console is to have all.
    Collected(Piece),
    /// What happened.
    Report(Report),
    /// It cannot go on, for this reason.
    Failed(String),
    /// Another console waits for the job already.
    Refused,
    /// A person should know this.
    Remark(String),
    /// A node may join.
    Admitted(Box<Invitation>),
    /// It may not.
    NotAdmitted(Refusal),
    /// It has joined.
    Came,
}

/// What a process prints to.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Stream {
    /// Its namespace.
    pub space: String,
    /// Its rank there.
    pub rank: u32,
    /// It is standard error, not output.
    pub is_error: bool,
}

/// What a process has printed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Printed {
    /// Where.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A part of a file that a process has written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Piece {
    /// The variable that names its folder.
    pub variable: String,
    /// The name of the file in it.
    pub name: String,
    /// Where the bytes belong. What begins at 0 takes the place of what was sent before.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What the console says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Order {
    /// The nodes, and what is to be started.
    Plan(Box<Plan>),
    /// Start it.
    Go,
    /// So many more bytes of this have been printed.
    Printed(Stream, u64),
    /// The console has read this, which is for the first process; without bytes nothing follows.
    Input(Vec<u8>),
    /// End it, with this status.
    End(u8),
    /// Let this node join.
    Add(Place),
    /// Join as this node.
    Join(Box<Invitation>),
    /// All is over.
    Leave,
}

/// What a node has to know that joins.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Invitation {
    /// Its number.
    pub number: u32,
    /// The nodes that are lost.
    pub lost: Vec<u32>,
    /// The job, itself among the nodes.
    pub plan: Plan,
}

/// The nodes of a job, in their order, and what is to be started.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// The nodes: those that were launched, and those that have joined, or were to.
    pub nodes: Vec<Place>,
    /// How many were launched.
    pub launched: u32,
    /// Which of their parts go on when the network is cut.
    pub partition: Partition,
    /// What to start.
    pub space: Space,
    /// Up to so many launched nodes are all linked with each other.
    pub mesh: u32,
    /// Milliseconds between signs of life.
    pub beat_milliseconds: u32,
    /// Milliseconds after which the job is ended, if there is such a limit.
    pub limit_milliseconds: Option<u64>,
    /// What has to be put before a command that is to reach the nodes.
    pub reach: Vec<String>,
    /// The command that starts a daemon on a host, and the words of a daemon behind it.
    pub agent: Vec<String>,
    /// See there.
    pub daemon: Vec<String>,
    /// Variables that Open MPI needs, for all processes of the job.
    pub environment: Vec<(String, String)>,
    /// Those of them that name a folder of which the console is to have what processes write.
    pub collected: Vec<String>,
}

impl Plan {
    /// Of these nodes, which are all that live, those that one is linked with at the start.
    pub fn neighbours(&self, me: Node, nodes: BTreeSet<Node>) -> BTreeSet<Node> {
        if self.is_mesh() {
            return nodes.into_iter().filter(|node| *node != me).collect();
        }
        Graph::new(self.launched).neighbours(me, |node| nodes.contains(&node))
    }

    /// True when all nodes are linked with each other.
    pub const fn is_mesh(&self) -> bool {
        self.launched <= self.mesh
    }
}

/// A node.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Place {
    /// Its host name.
    pub name: String,
    /// How many processes it is meant for.
    pub slots: u32,
    /// Where its daemon listens.
    pub address: SocketAddr,
}

impl Place {
    /// What placement needs to know of it.
    pub fn room(&self) -> Room {
        Room { name: self.name.clone(), slots: self.slots }
    }
}
