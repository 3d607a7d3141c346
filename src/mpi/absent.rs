//! What users can name of the real world, for pages that are made where there is no MPI, as those
//! on docs.rs are. Only rustdoc reads this file, which does not look into the bodies of functions:
//! the modules that bodies name are empty.

mod facts;

pub use self::facts::{Facts, Holdings, facts};

mod calls {
    pub(super) mod comm {}
    pub(super) mod library {}
    pub(super) mod ulfm {}
}
mod deaths {
    pub(super) mod watcher {}
}
mod this_mpi {}

pub(crate) struct MpiPlatform;
