//! The C interface of fampi: blocks over communicators and requests that belong to the program.
//!
//! ```text
//! codes    numbers and their sentences      arguments timeouts, lists, results
//! owned    what one thread uses             loaded    what happens before the program begins
//! freed    what was freed since             origin    groups, and where requests came from
//! kept     types and operations that are needed although they are freed
//! request  generalized requests of MPI      users     the program's own requests
//! layout   parts in the program's memory    running   collectives that are under way
//! numbers  numbers of reductions            making    communicators in the making
//! handles  the table of all these requests  state     communicators, the boundary
//! named    what a handle stands for         list      what a block is finished with
//! block    start, finish, raise             fused     reductions on the commit
//! wait     the local waits                  standard  MPI's own calls
//! message  messages in lanes of our own     copies    protect, restore, inherit
//! query    what a decided block says        about     version, features, diagnosis
//! checkpoints  states in files, which outlive the job
//! recover  ishrink, irebuild, join          rebuild   the steps of the last two
//! spawn    new processes, and their start   collective  collectives over the living
//! rooted, alike  those with a root, others  calls     what the next two call
//! membership  who of the living is fast enough for work
//! ulfm     agreements, deaths that are acknowledged, revoked communicators
//! pool     who holds which rank of a world  world     a world that survives
//! ```
//!
//! `include/fampi.h` is generated from the functions here, with their documentation.
//!
//! **Guarantees.** Nothing is written when a call fails. No panic crosses the boundary. No call
//! of MPI is made by another thread than the program's.
//!
//! **Assumes** that handles which the program passes are null, live, or were fampi's; MPI itself
//! cannot tell more.
//!
//! Reference: Hassani et al. 2015, appendix A.

// The names and the order of arguments are those of the papers.
#![allow(non_snake_case, non_camel_case_types)]

pub mod about;
pub mod alike;
mod arguments;
mod beneath;
pub mod block;
mod calls;
pub mod checkpoints;
pub mod codes;
pub mod collective;
pub mod copies;
mod freed;
pub mod fused;
pub mod handles;
#[cfg(mpich)]
pub mod in_front;
mod in_vain;
pub mod kept;
mod layout;
mod list;
mod loaded;
mod making;
pub mod membership;
pub mod message;
mod named;
mod numbers;
mod origin;
mod outcome;
mod owned;
mod pool;
pub mod query;
mod rebuild;
pub mod recover;
pub mod request;
pub mod rooted;
mod running;
pub mod spawn;
pub mod standard;
pub mod state;
pub mod ulfm;
pub mod users;
pub mod wait;
pub mod world;
