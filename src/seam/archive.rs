//! A place for contents that outlive the job: a folder, or the disk of a simulation.

use alloc::{string::String, vec::Vec};
use core::ops::Range;
use std::io;

/// Whose states share a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Files {
    /// Each rank has a file of its own.
    #[default]
    OfEachRank,
    /// Ranks of one node that follow each other write one file together, so that there are fewer.
    /// Where nodes are unknown, as [`Self::OfEachRank`].
    OfEachNode,
    /// All ranks write one file together. All nodes see the folder.
    OfTheJob,
}

/// A place for named contents. Several processes may share it, and write one content together:
/// each puts pieces of it under a name aside, and one of them gives it its name when all have. So
/// whenever a process or its machine dies, a content is there as a whole or not at all.
pub trait Archive {
    /// Puts pieces of a content there, each at its offset. The content has so many bytes with the
    /// pieces of others. The pieces have come to stay when this returns.
    ///
    /// # Errors
    ///
    /// Some of them may not be there.
    fn put(&mut self, name: &str, bytes: u64, pieces: &[(u64, &[u8])]) -> io::Result<()>;

    /// Gives a content another name, which has come to stay when this returns; one that had that
    /// name before is gone.
    ///
    /// # Errors
    ///
    /// The content may have either name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// The names of all contents, in any order; other things may be among them.
    ///
    /// # Errors
    ///
    /// The place cannot be read.
    fn names(&mut self) -> io::Result<Vec<String>>;

    /// The bytes of a content in this range, as far as there are any.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not there.
    fn load(&mut self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// Removes a content, if it is there: another process may have removed it.
    ///
    /// # Errors
    ///
    /// It is there and cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Where it is, for people.
    fn place(&self) -> String;
}
