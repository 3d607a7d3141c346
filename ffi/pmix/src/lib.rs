//! The PMIx server library that comes with Open MPI, for a launcher of our own.
//!
//! Ranks of Open MPI ask a PMIx server on their node who they are, meet others there, start new
//! processes through it, and hear from it of deaths. Open MPI brings that server as a library
//! without headers; this crate declares what a launcher needs of it, opens it at run time, and
//! turns its calls into values.
//!
//! ```text
//!  rank ── socket ── libpmix, thread of its own
//!                       │ upcall: the request is copied, queued, and the descriptor is signalled
//!                       ▼
//!                    Server::next() ─▶ Request with an Answer, given from the caller's loop
//! ```
//!
//! **Guarantees.** An upcall never calls back, takes no lock of the library, and does not wait.
//! The library is refused with a sentence when its version is not one of those that this was
//! written for.
//!
//! **Assumes** one server per process, and that the memory layout of the PMIx standard, versions
//! 4.2 to 6, is what the library was built with; the sizes are asserted when this is compiled.
//!
//! Reference: PMIx Standard 5.1, chapters on the server interfaces.

#![warn(missing_docs)]

mod child;
mod error;
mod infos;
mod library;
mod raw;
mod requests;
mod server;
mod upcalls;

pub use child::{die_with_parent, run_at_once};
pub use error::Error;
pub use infos::{Info, Value, key};
pub use requests::{
    Answer, Detail, Found, Handle, LookupAnswer, ModexAnswer, Program, Request, SpawnAnswer,
};
pub use server::Server;

/// A process as PMIx names it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Process {
    /// The job, or the part of it that was spawned together.
    pub namespace: String,
    /// Its number there.
    pub rank: u32,
}

/// The rank that stands for all processes of a namespace.
pub const ALL_RANKS: u32 = u32::MAX - 1;

/// Why a request of a rank failed, as the rank is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Failure {
    /// There is no such thing.
    NotFound,
    /// A process or node that had to take part is gone.
    LostConnection,
    /// The program could not be started.
    NotStarted,
    /// This launcher cannot do it.
    NotSupported,
}
