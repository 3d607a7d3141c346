//! What the daemons of a job decide, and nothing of how it is done: no clock, no network, no MPI.
//!
//! ```text
//!  rank ─ request ─▶ daemon ── part of a fence ────────▶ daemons of the others that take part
//!                      │ ───── news, passed on by all ─▶ all daemons: started, ended, lost,
//!                      │                                  published
//!                      ◀────── acknowledged ─────────── each of them that lives
//!  rank ◀─ answer ─────┘
//! ```
//!
//! No daemon is special. News are passed on by each daemon that hears them for the first time,
//! before it acts: what one living daemon knows all of them learn, also when its origin dies while
//! it tells. On each link they stay in order, so those of one origin are learned in their order.
//!
//! **Guarantees.** A request of a rank is answered as long as its node lives: whatever it waits for
//! arrives, or is known to be gone. A process or node that was lost stays so, on all nodes. When a
//! daemon leaves, none of the others starts a process any more, and all come to one exit status.
//!
//! Nodes may join: each of the living tells a new one all that it has ever heard (`daemon/joins`).
//!
//! A job is over for a daemon when all processes that it knows of have ended, and it says so to the
//! others. Once all that live have said so, each may leave, and no console is needed for that.
//!
//! **Assumes** that a link between two living daemons loses nothing and keeps the order, and that
//! its end tells the end of the other one; also that nobody but the host of a daemon that has ended
//! refuses a call to it, as a firewall could.
//!
//! Reference: the daemons that mend their own routing and stamp their messages, of Zhong et al.,
//! *Runtime Level Failure Detection and Propagation in HPC Systems* (2019), §3; here each of up to
//! 64 is linked with each ([`graph`]).

pub mod channel;
pub mod collective;
pub mod daemon;
pub mod directory;
pub mod graph;
pub mod membership;
pub mod message;
pub mod orders;
pub mod patience;
pub mod placement;
pub mod pmi;
pub mod space;

pub use fampi_detector::protocol::Node;
use serde::{Deserialize, Serialize};

use message::Message;
use orders::Place;
use space::Space;

/// A process: its number among those that were started together.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Process {
    /// The namespace: what was started together.
    pub space: String,
    /// Its number there; [`ALL`] stands for all of them.
    pub rank: u32,
}

/// The rank that stands for all processes of a namespace.
pub const ALL: u32 = u32::MAX - 1;

/// A request of a rank that has to be answered.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(pub u64);

/// Someone from outside who brings a node to the job.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Guest(pub u64);

/// Why no node is added.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Refusal {
    /// Not by this node, or not now: only the first of the living adds nodes, and which one that is
    /// may not be known everywhere yet. It can be asked for again.
    NotNow,
    /// All processes have ended, or the job is to end.
    Over,
}

/// Why a request fails.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Failure {
    /// There is no such thing.
    NotFound,
    /// A process that has to take part is gone.
    Lost,
    /// The program could not be started.
    NotStarted,
    /// It cannot be done here.
    NotSupported,
}

/// What a request comes to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Answer {
    /// It is done, or failed.
    Done(Result<(), Failure>),
    /// Bytes: of a fence, or of a process.
    Bytes(Result<Vec<u8>, Failure>),
    /// What was looked for.
    Found(Result<Vec<directory::Entry>, Failure>),
    /// The new namespace.
    Spawned(Result<String, Failure>),
}

/// What a daemon wants done, in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Effect {
    /// Send this; to a node that is lost it need not arrive.
    Send(Node, Message),
    /// Link this node with another one, if it is not; the other one may want that, too.
    Call(Node),
    /// Answer a rank of this node.
    Answer(Ticket, Answer),
    /// Make a namespace known to the ranks of this node, and start its processes that belong here.
    Start(Space),
    /// Ask a process of this node what it has to say, and hand that in with this number.
    Ask(Process, u64),
    /// Tell the ranks of this node, in one event, that these are dead, and how they died.
    Tell(Vec<(Process, space::End)>),
    /// Kill these processes of this node.
    Kill(Vec<Process>),
    /// A node is to join, and calls soon: what is sent to it is kept until then.
    Expect(Node, Place),
    /// Tell a guest the number of its node, and which nodes are lost; or why it cannot join.
    Admit(Guest, Result<(u32, Vec<u32>), Refusal>),
    /// Tell a guest that its node has joined.
    Greet(Guest),
    /// Tell the person who waits for the job.
    Report(Report),
    /// All daemons that live know that all is over: the exit status, and what is to be said of it.
    /// Nothing more happens, and a daemon may leave.
    Conclude(u8, Option<String>),
    /// The others take this node for lost: end its processes, and leave.
    Leave,
}

/// Where effects go.
pub type Effects = Vec<Effect>;

/// What the person who waits for the job is told.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Report {
    /// A node is lost, with so many processes.
    Lost(u32, u32),
    /// A node has joined.
    Came(u32, Place),
    /// All processes have ended: the exit status, and what is to be said of it.
    Over(u8, Option<String>),
    /// After all, more processes have been started.
    Busy,
}
