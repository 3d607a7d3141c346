//! Operations of the application that are under way, and the communicators they run on.
//!
//! ```text
//! table            operations of ours and of the user, as long as MPI or the engine wants them
//! in_flight        messages of blocks, in the records that have their buffers
//! probe            messages that are looked for before they are received
//! users            requests and communicators of a program that owns its MPI; users_table finds
//!                  them, users_requests shares them with the program
//! ulfm             what MPI says, and is told, of the program's communicators
//! files            what accesses to files name
//! contexts         the communicators of operations, some made in advance
//! attempts         communicators of attempts that failed, which are freed
//! platform         all of it in one value; starts all other operations
//! ```

pub(super) mod attempts;
pub(super) mod contexts;
pub(super) mod files;
pub(super) mod in_flight;
pub(super) mod platform;
pub(super) mod probe;
pub(super) mod table;
pub(super) mod ulfm;
pub(super) mod users;
pub(super) mod users_requests;
pub(super) mod users_table;
