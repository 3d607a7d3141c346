//! A place for contents that outlive the job: a folder, or the disk of a simulation.

use alloc::{string::String, vec::Vec};
use std::io;

/// A place for named contents. Each is there as a whole or not at all, whenever the process or its
/// machine dies. Several processes may share a place; each writes under names of its own.
pub trait Archive {
    /// Puts a content there. It has come to stay when this returns.
    ///
    /// # Errors
    ///
    /// The content is not there; one of this name that was there before may be.
    fn save(&mut self, name: &str, content: &[u8]) -> io::Result<()>;

    /// The names of all contents, in any order; other things may be among them.
    ///
    /// # Errors
    ///
    /// The place cannot be read.
    fn names(&mut self) -> io::Result<Vec<String>>;

    /// A content.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not there.
    fn load(&mut self, name: &str) -> io::Result<Vec<u8>>;

    /// Removes a content, if it is there: another process may have removed it.
    ///
    /// # Errors
    ///
    /// It is there and cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Where it is, for people.
    fn place(&self) -> String;
}
