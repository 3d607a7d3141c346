//! What MPI knows things by, as far as layers that call no MPI have to name it: types of elements,
//! memory, requests, users' functions. Without the feature `mpi` there are stand-ins.
//!
//! Like `mpi`, which stands on it, it has `unsafe` in it: the promises of those who implement a
//! trait, and the function that MPI calls for a user's reduction.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(any(feature = "mpi", docsrs))]
mod element;
#[cfg(feature = "mpi")]
mod expose;
#[cfg(feature = "mpi")]
mod flight;
#[cfg(feature = "mpi")]
mod function;
mod user;

#[cfg(feature = "mpi")]
pub(crate) use ::mpi as rsmpi;
#[cfg(all(docsrs, not(feature = "mpi")))]
pub(crate) use absent::rsmpi;
#[cfg(not(feature = "mpi"))]
pub use absent::{Expose, Flight, Foreign};
#[cfg(any(feature = "mpi", docsrs))]
pub use element::MpiElement;
#[cfg(feature = "mpi")]
pub(crate) use flight::{Kind, Request};
pub use user::{Element, UserOp};
#[cfg(feature = "mpi")]
pub use {
    expose::{Expose, Exposure, Number},
    flight::Flight,
    function::Foreign,
};
