//! A disk that outlives simulations: what one job has saved, the next can load. A process may die
//! before a content is saved, in the middle, and before one is removed.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use super::here;
use crate::seam::archive::Archive;

/// True for the name of a content that does not come to the disk.
type Refused = fn(&str) -> bool;

/// The contents of a disk by their names; clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    contents: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    refused: Arc<Mutex<Option<Refused>>>,
}

impl Disk {
    /// The names of all contents.
    pub fn names(&self) -> Vec<String> {
        self.with(|contents| contents.keys().cloned().collect())
    }

    /// Changes a content, as a disk does that is not to be trusted.
    pub fn spoil(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.with(|contents| contents.get_mut(name).map(change));
    }

    /// From now on nothing comes under a name for which this is true, as on a full disk. What is
    /// being written has a name that ends with `.part`.
    pub fn refuse(&self, is_refused: Option<Refused>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = is_refused;
    }

    fn check(&self, name: &str) -> io::Result<()> {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused = refused.is_some_and(|is_refused| is_refused(name));
        if is_refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        act(&mut self.contents.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Archive for Disk {
    fn put(&mut self, name: &str, bytes: u64, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        here::effect();
        self.check(name)?;
        for (offset, piece) in pieces {
            // Half of a piece is there before the rest.
            for half in [0..piece.len() / 2, piece.len() / 2..piece.len()] {
                self.with(|contents| {
                    let content = contents.entry(name.to_owned()).or_default();
                    content.resize(bytes as usize, 0);
                    let at = *offset as usize;
                    content[at + half.start..at + half.end].copy_from_slice(&piece[half]);
                });
                here::effect();
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        here::effect();
        self.check(to)?;
        self.with(|contents| {
            let content = contents.remove(from).ok_or(io::ErrorKind::NotFound)?;
            contents.insert(to.to_owned(), content);
            Ok(())
        })
    }

    fn names(&mut self) -> io::Result<Vec<String>> {
        Ok(Self::names(self))
    }

    fn load(&mut self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let content = self.with(|contents| contents.get(name).cloned());
        let content = content.ok_or(io::ErrorKind::NotFound)?;
        let within = |at: u64| content.len().min(usize::try_from(at).unwrap_or(usize::MAX));
        Ok(content[within(range.start)..within(range.end.max(range.start))].to_vec())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        here::effect();
        self.with(|contents| contents.remove(name));
        Ok(())
    }

    fn place(&self) -> String {
        "the simulated disk".to_owned()
    }
}
