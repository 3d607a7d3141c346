//! Stand-ins for where there is no MPI: the world knows the type of every buffer, has all messages,
//! and calls users' functions itself.

/// What a type must be for MPI: anything.
#[cfg(not(docsrs))]
pub trait MpiElement {}
#[cfg(not(docsrs))]
impl<T> MpiElement for T {}

/// What the platform must be able to do with a buffer without knowing its element type.
pub trait Expose {}
impl<B: ?Sized> Expose for B {}

/// A message under way.
#[derive(Debug)]
pub struct Flight;

/// A user's reduction as MPI would call it.
#[derive(Clone, Copy, Debug)]
pub struct Foreign;

impl Foreign {
    /// Not called.
    pub fn of<O>() -> Self {
        Self
    }
}

/// The names of the crate `mpi` that stand in signatures, for pages that are made without it.
#[cfg(docsrs)]
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
            type Out = crate::native::absent::rsmpi::datatype::DatatypeRef<'static>;
        }
    }
}
