//! The seam between the engine and the worlds below it, and the data of the application that goes
//! through it.
//!
//! | file | what it is |
//! |---|---|
//! | [`platform`] | what the engine needs of a world |
//! | [`operation`] | operations, messages and files, and what becomes of them |
//! | [`archive`] | where states are kept beyond the end of the job |
//! | [`record`] | the requests of a block, their states and buffers |
//! | [`buffer`] | the application's buffers while an operation owns them |
//! | [`collective`] | the operations of all ranks, and the shapes of their buffers |
//! | [`reduction`] | what reductions do with the elements of two ranks |
//! | [`section`], [`lent`] | parts of arrays that several requests use at once |
//! | [`pulse`] | signs of progress, which others look at |
//! | `entry` | what can happen, as an event for subscribers and as one of the trace |
//! | `trace` | the file with what happens, if the process is recorded |

pub mod archive;
pub mod buffer;
pub mod collective;
// Without the real world, nothing is recorded, and no part of a regroup is MPI's.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
pub(crate) mod entry;
pub mod lent;
pub mod operation;
pub mod platform;
pub mod pulse;
pub mod record;
pub mod reduction;
pub mod section;
#[cfg_attr(not(feature = "mpi"), allow(dead_code))]
pub mod trace;
