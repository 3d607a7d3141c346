//! What a job with another number of ranks has saved.

use std::fmt;

use crate::{
    error::Error,
    native::Element,
    recovery::filing::{Filing, Reader},
};

/// What a job with another number of ranks has saved: the states of all its ranks, for
/// [`State::resize`](crate::State::resize).
pub struct Saved<'a> {
    filing: &'a mut Filing,
    reader: Reader,
}

impl<'a> Saved<'a> {
    pub(super) fn new(filing: &'a mut Filing, reader: Reader) -> Self {
        Self { filing, reader }
    }

    /// The number of ranks that have saved it.
    pub fn saved_ranks(&self) -> u32 {
        self.reader.ranks
    }

    /// The number of ranks that there are now.
    pub fn ranks(&self) -> u32 {
        self.reader.now.1
    }

    /// Which of these this rank is.
    pub fn rank(&self) -> u32 {
        self.reader.now.0
    }

    /// The state with this number of one of the ranks that have saved it. A file is read again
    /// when another rank was asked for in between.
    ///
    /// # Errors
    ///
    /// [`Error::NoCheckpoint`] when its file cannot be read any more, [`Error::NothingProtected`]
    /// when it has no such state, [`Error::StateType`] when that has other elements.
    ///
    /// # Panics
    ///
    /// When there was no such rank.
    pub fn state<T: Element>(&mut self, rank: u32, number: u32) -> Result<Vec<T>, Error> {
        assert!(rank < self.saved_ranks(), "{} ranks have saved their states", self.saved_ranks());
        self.reader.state(self.filing, rank, number).cloned()
    }
}

impl fmt::Debug for Saved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what {} ranks have saved, for {}", self.saved_ranks(), self.reader.now.1)
    }
}
