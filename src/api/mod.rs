//! What users see. Nothing here depends on the world underneath.

mod array;
mod block;
mod channel;
mod checkpoints;
mod collectives;
mod comm;
mod duplicate;
mod file;
mod fused;
mod grid;
mod group;
#[doc(hidden)]
pub mod guest;
mod many;
mod neighbours;
mod outcome;
mod probe;
mod queries;
mod recommended;
mod request;
mod run;
mod saved;
mod shown;
mod simulated;
mod state;
mod step;
pub mod ulfm;
mod wait;
mod window;
mod world;

pub use array::Array;
pub use block::{BlockOptions, TryBlock};
pub use channel::Channel;
pub use checkpoints::Checkpoints;
pub use collectives::Exchange;
pub use comm::{Color, Comm, Formed, Forming};
pub use file::{File, Number};
pub use fused::{Reduced, Reducing};
pub use grid::{Grid, Shift};
pub use group::{Comparison, Group};
pub use many::Requests;
pub use neighbours::{Edges, Neighbours};
pub use outcome::{Finished, Outcome, Pending, Tried};
pub use probe::Message;
pub use recommended::{Counted, Recommended};
pub use request::{Request, RequestId, Source, Status, Tag, TagSelector};
pub use run::Ended;
pub use saved::Saved;
#[cfg(feature = "serde")]
pub use state::Serde;
pub use state::{Growing, State};
pub use step::{Flow, Step};
pub use wait::Over;
pub use window::Window;
pub use world::{Rebuilding, Rebuilt, World};
