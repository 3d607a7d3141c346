//! The C interface of fampi: blocks over communicators and requests that belong to the program.
//!
//! ```text
//! codes    numbers and their sentences      block     start, finish, raise; timeouts
//! request  generalized requests of MPI      wait      the local waits
//! state    communicators, the boundary      handles   the table of these requests
//! users    the program's own requests       callbacks what MPI calls us for
//! standard MPI's own calls                  owned     what one thread uses
//! recover  ishrink, irebuild, join          query     what a decided block says
//! spawn    new processes, and their start   copies    protect, restore, inherit
//! fused    reductions on the commit         about     version, features, diagnosis
//! world    a world that survives            pool      who holds which rank of it
//! calls    what these two call
//! list     what a block is finished with      message   messages in lanes of fampi's own
//! layout   parts in the program's memory      collective collectives over the living
//! rooted   those with a root                  alike     the others
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
pub mod block;
pub mod callbacks;
mod calls;
pub mod codes;
pub mod collective;
pub mod copies;
pub mod fused;
pub mod handles;
mod layout;
mod list;
pub mod message;
mod origin;
mod owned;
mod pool;
pub mod query;
pub mod recover;
pub mod request;
pub mod rooted;
pub mod spawn;
pub mod standard;
pub mod state;
pub mod users;
pub mod wait;
pub mod world;
