//! The sorted keys as a file.
//!
//! It is written beside its place, by all ranks, and gets its name when all have done their part:
//! so it is there as a whole or not at all, and may have the name of the input, from which the keys
//! of a rank that dies meanwhile are made again.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fampi::Error;

use crate::exchange::Network;
use crate::keys::{CHUNK, Key};
use crate::sorter::Sorter;

/// Writes the sorted keys to a file, which all ranks do. It may be done again, by others, after a
/// rank was lost. Why this rank could not do its part is the result inside.
///
/// # Errors
/// [`Error`] of the network.
pub fn write<K: Key>(
    net: &mut impl Network,
    path: &Path,
    sorter: &Sorter<K>,
) -> Result<io::Result<()>, Error> {
    let (path, half) = places(path);
    let written = write_own(&half, sorter);
    let failures: u64 = net.gather(&[u64::from(written.is_err())])?.iter().sum();
    let is_first = net.members().first() == Some(&sorter.me);
    let moved = match failures {
        0 if is_first && half != path => fs::rename(&half, &path),
        _ => Ok(()),
    };
    if half != path && (failures > 0 || moved.is_err()) {
        let _ = fs::remove_file(half);
    }
    Ok(written.and(moved))
}

/// The file that a name leads to, and where it is written. What is there and no file, as a device,
/// is written itself.
fn places(path: &Path) -> (PathBuf, PathBuf) {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&path).is_ok_and(|about| !about.is_file());
    if is_special {
        return (path.clone(), path);
    }
    let mut half: OsString = path.clone().into_os_string();
    half.push(".part");
    (path, half.into())
}

/// Writes this rank's keys to their places.
fn write_own<K: Key>(path: &Path, sorter: &Sorter<K>) -> io::Result<()> {
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
