//! Transition systems whose states are all visited: every order of every event.

pub mod benched;
pub mod commit;
pub mod inside;
pub mod on_nodes;
pub mod recovery;
