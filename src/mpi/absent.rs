//! What users can name of the real world, for pages that are made where there is no MPI, as those
//! on docs.rs are. Only rustdoc reads this file, which does not look into the bodies of functions:
//! the modules that bodies name are empty, and rsmpi is the few names that signatures need.

mod facts;
mod holdings;

pub use self::{
    facts::{Facts, facts},
    holdings::Holdings,
};

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

/// The names of the crate `mpi` that stand in signatures.
pub(crate) mod rsmpi {
    pub(crate) mod datatype {
        pub struct DatatypeRef<'a>(&'a ());
    }

    pub(crate) mod ffi {
        #[allow(non_camel_case_types)]
        pub struct MPI_Comm;
    }

    pub(crate) mod raw {
        pub trait AsRaw {
            type Raw;
        }
    }

    pub(crate) mod topology {
        pub trait Communicator {}
        pub struct SimpleCommunicator;
    }

    pub(crate) mod traits {
        pub trait Equivalence {
            type Out;
        }

        impl<T> Equivalence for T {
            type Out = super::datatype::DatatypeRef<'static>;
        }
    }
}
