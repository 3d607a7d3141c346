//! The observer of one node of a job: a process that sees others die, and tells about it.
//!
//! It drives the machines of [`crate::protocol`], and knows no MPI. It sleeps until
//! something happens or the next timer is due, so it costs no core.
//!
//! ```text
//! processes of the node ── register ──▶ door ─▶ wards (pidfds) ── exit ─────▶ ┐
//! other observers ◀──────── packets ───────────▶ link ──── message ────────▶ │ machine
//!                                                clock ─── timer ──────────▶ ┘  │
//! processes of the node ◀── shared memory ────── board ◀────── events ──────────┘
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | [`service`] | the loop: what happened goes to the machine, what it wants is done |
//! | [`door`] | the socket where processes register, and those who have not done so yet |
//! | [`wards`] | processes that are watched, how they ended, and who is hung |
//! | [`pulse`] | what a process shows of its progress |
//! | [`diagnosis`] | tests of who is slow, if the plan asks for them |
//! | [`link`] | packets from and to other observers |
//! | [`board`] | the memory that the processes of the node read |
//! | [`view`], [`top`] | the memory that a person is shown, and the tables made of it |
//! | [`place`] | the folder of the socket, and the file of the plan, are ours alone |
//! | [`detach`] | the process that is left behind |
//!
//! **Bounds.** Processes that are registered, that are about to, and for how long; bytes of each
//! message; packets that are taken before timers get their turn; entries of the board. What is
//! beyond is dropped and counted, on the board.
//!
//! **Ends** when no process has been registered for a while: then the job has left, or never came.

pub mod board;
pub mod detach;
pub mod diagnosis;
pub mod door;
pub mod link;
pub mod place;
pub mod pulse;
pub mod service;
pub mod top;
pub mod view;
pub mod wards;

pub use service::Service;

/// The name of the program that is an observer.
pub const PROGRAM: &str = "fampi-observer";
