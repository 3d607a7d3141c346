//! The sorted keys as a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::keys::{CHUNK, Key};
use crate::sorter::Sorter;

/// Writes this rank's sorted keys to their places in a file, which all ranks do. It may be done
/// again, by others, after a rank was lost.
///
/// # Errors
/// [`io::Error`].
pub fn write<K: Key>(path: &Path, sorter: &Sorter<K>) -> io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.set_len(sorter.keys.count * K::BYTES as u64)?;
    let mut bytes = Vec::with_capacity(CHUNK * K::BYTES);
    let mut first = 0;
    for (part, row) in (0..).zip(&sorter.table) {
        let owned = sorter.owners.of(part) == sorter.me;
        if let Some(list) = sorter.lists.get(&part).filter(|_| owned) {
            let keys = &list.read().map_err(io::Error::other)?[..list.len()];
            for (at, some) in (first..).step_by(CHUNK).zip(keys.chunks(CHUNK)) {
                bytes.clear();
                K::encode(some, &mut bytes);
                file.write_all_at(&bytes, at * K::BYTES as u64)?;
            }
        }
        first += row.length;
    }
    Ok(())
}
