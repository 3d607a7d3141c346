//! Lists of keys in buffers that messages read from and write to in place.

use std::ops::Range;

use fampi::{Array, Elements, Error};

use crate::keys::Key;

/// A list at the beginning of a buffer that may be longer.
#[derive(Debug)]
pub struct List<K> {
    buffer: Array<K, 1>,
    length: usize,
}

impl<K: Key> List<K> {
    /// The number of its keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// True when it has no keys.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The buffer, of which messages use sections.
    #[must_use]
    pub const fn buffer(&self) -> &Array<K, 1> {
        &self.buffer
    }

    /// The number of keys that the buffer has room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buffer.shape()[0]
    }

    /// The whole buffer, to be read, while messages may send sections of it. The list is in front.
    ///
    /// # Errors
    /// [`Error::ArrayInUse`] while a message is received into it.
    pub fn read(&self) -> Result<Elements<'_, K>, Error> {
        self.buffer.read()
    }

    /// The first keys of the buffer, which are the list from now on.
    ///
    /// # Errors
    /// [`Error::ArrayInUse`] while a message uses the buffer.
    pub fn first(&mut self, length: usize) -> Result<&mut [K], Error> {
        self.length = length;
        Ok(&mut self.buffer.elements_mut()?[..length])
    }

    /// Copies keys of another list to a place of the buffer.
    ///
    /// # Errors
    /// [`Error::ArrayInUse`] while a message uses one of the buffers.
    pub fn copy(&mut self, at: usize, from: &Self, keys: Range<usize>) -> Result<(), Error> {
        let keys = &from.read()?[keys];
        self.buffer.elements_mut()?[at..at + keys.len()].copy_from_slice(keys);
        Ok(())
    }
}

/// Buffers without a list.
#[derive(Debug)]
pub struct Spares<K> {
    buffers: Vec<Array<K, 1>>,
}

impl<K> Default for Spares<K> {
    fn default() -> Self {
        Self { buffers: Vec::new() }
    }
}

impl<K: Key> Spares<K> {
    /// A buffer for at least so many keys, with an empty list. What is in it means nothing.
    ///
    /// # Errors
    /// None; a new buffer always has the length that it says.
    pub fn take(&mut self, room: usize) -> Result<List<K>, Error> {
        // One that a lost message may still use is forgotten; it is freed when MPI lets go of it.
        self.buffers.retain_mut(|buffer| buffer.elements_mut().is_ok());
        let fits = |buffer: &Array<K, 1>| buffer.shape()[0] >= room;
        let buffer = if let Some(at) = self.buffers.iter().position(fits) {
            self.buffers.swap_remove(at)
        } else {
            self.buffers.pop();
            Array::new([room], vec![K::default(); room])?
        };
        Ok(List { buffer, length: 0 })
    }

    /// Takes the buffer of a list that is not needed any more.
    pub fn put(&mut self, list: List<K>) {
        self.buffers.push(list.buffer);
    }
}
