//! Programs on the interface of the library, for simulated ranks and for real ones, and what must
//! come out of them.

pub mod aftermath;
pub mod bereaved;
pub mod cells;
pub mod changed;
pub mod every;
pub mod forming;
pub mod lattice;
pub mod planes;
pub mod rebuilt;
pub mod through;
