//! Operations of the application that are under way, and the communicators they run on.
//!
//! ```text
//! in_flight        messages of blocks, in the records that have their buffers
//! data             all other operations, and buffers that MPI still holds
//! external         requests of a program that owns its MPI; users_requests shares them with it
//! contexts         the communicators of operations, some made in advance
//! platform         all of it in one value
//! ```

pub(super) mod contexts;
pub(super) mod data;
pub(super) mod external;
pub(super) mod in_flight;
pub(super) mod platform;
pub(super) mod users_requests;
