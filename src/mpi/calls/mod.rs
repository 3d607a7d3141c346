//! Checked calls of MPI: one function for each, which turns a return code into a result.
//!
//! Each call that may last says so ([`inside`]), so that the watchdog can tell when one does not
//! return. What stands on this room is ordinary code.

pub(super) mod agreement;
pub(super) mod classes;
pub(super) mod collectives;
pub(super) mod comm;
pub(super) mod expose;
pub(super) mod files;
pub(super) mod gather;
pub(super) mod inside;
pub(super) mod kept;
pub(super) mod layout;
pub(super) mod library;
pub(super) mod matched;
pub(super) mod meeting;
pub(super) mod partners;
pub(super) mod redirect;
pub(super) mod reduce;
pub(super) mod request;
pub(super) mod strided;
pub(super) mod ulfm;
