//! What the processes of a node write into folders of the console, where its host is another one.
//!
//! ```text
//! process ── writes ──▶ folder of the daemon ── what is new ──▶ console ──▶ its own folder
//! ```
//!
//! Variables of the job name the folders. Where a host has the one of the console, processes write
//! into that. On others the daemon has a folder for them, tells them of it by the same variable,
//! and sends what is new ten times a second, and once more before it says that all is over: so
//! little is lost with a node.
//!
//! **Assumes** that files which grow are written at their end. Any other is sent as a whole when it
//! has changed.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::protocol::orders::{Piece, Plan};

/// How long after a look at all files the next one is.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes of a file that are sent at once.
const CHUNK: u64 = 64 << 10;

/// What was sent of a file: its number, by which one that replaces it is told, its bytes, and when
/// it was changed before.
type Sent = (u64, u64, (i64, i64));

/// A folder into which processes write.
#[derive(Debug)]
struct Folder {
    variable: String,
    path: PathBuf,
    /// By the names of the files; nothing for the folder of the console itself.
    sent: Option<BTreeMap<String, Sent>>,
}

/// All folders of which the console wants to have what is written.
#[derive(Debug, Default)]
pub(super) struct Collected {
    folders: Vec<Folder>,
    /// When files are looked at again.
    next: Option<Instant>,
}

impl Collected {
    /// Makes folders below this one for those that this host does not have.
    pub(super) fn begin(plan: &Plan, below: &Path) -> Result<Self> {
        let named = |variable: &String| {
            let (_, value) = plan.environment.iter().find(|(name, _)| name == variable)?;
            Some((variable.clone(), PathBuf::from(value)))
        };
        let mut folders = Vec::new();
        for (variable, path) in plan.collected.iter().filter_map(named) {
            if path.is_dir() {
                folders.push(Folder { variable, path, sent: None });
                continue;
            }
            let path = below.join(format!("collected-{variable}"));
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
            folders.push(Folder { variable, path, sent: Some(BTreeMap::new()) });
        }
        Ok(Self { folders, next: None })
    }

    /// Tells a process that is to be started where to write.
    pub(super) fn tell(&self, command: &mut Command) {
        command.envs(self.folders.iter().map(|folder| (&folder.variable, &folder.path)));
    }

    /// Something that was not sent yet. If not `all` is wanted, files are looked at now and then.
    pub(super) fn next(&mut self, all: bool) -> Option<Piece> {
        let now = Instant::now();
        if !all && self.next.is_some_and(|next| now < next) {
            return None;
        }
        let piece = self.folders.iter_mut().find_map(Folder::next);
        self.next = piece.is_none().then_some(now + PERIOD);
        piece
    }

    /// Another console has nothing of what was sent.
    pub(super) fn begin_again(&mut self) {
        self.folders.iter_mut().filter_map(|it| it.sent.as_mut()).for_each(BTreeMap::clear);
    }
}

impl Folder {
    /// Something that was not sent yet.
    fn next(&mut self) -> Option<Piece> {
        let sent = self.sent.as_mut()?;
        for entry in fs::read_dir(&self.path).ok()?.flatten() {
            let (Ok(name), Ok(known)) = (entry.file_name().into_string(), entry.metadata()) else {
                continue;
            };
            if !known.is_file() || sent.get(&name) == Some(&state(&known)) {
                continue;
            }
            // It may have been replaced since, or be gone.
            let Ok(file) = File::open(entry.path()) else { continue };
            let Ok(known) = file.metadata() else { continue };
            let (number, length, changed) = state(&known);
            let before = sent.get(&name).filter(|(it, bytes, _)| *it == number && *bytes < length);
            let offset = before.map_or(0, |(_, bytes, _)| *bytes);
            let mut bytes = vec![0; CHUNK.min(length - offset) as usize];
            if file.read_exact_at(&mut bytes, offset).is_err() {
                continue;
            }
            sent.insert(name.clone(), (number, offset + bytes.len() as u64, changed));
            return Some(Piece { variable: self.variable.clone(), name, offset, bytes });
        }
        None
    }
}

/// What is sent of a file when all is.
fn state(file: &Metadata) -> Sent {
    (file.ino(), file.len(), (file.mtime(), file.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is new, as name, offset and bytes.
    fn all(collected: &mut Collected) -> Vec<(String, u64, String)> {
        let pieces = std::iter::from_fn(|| collected.next(true));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let mut all: Vec<_> = pieces.map(|it| (it.name, it.offset, text(it.bytes))).collect();
        all.sort();
        all
    }

    fn collected(path: &Path) -> Collected {
        let (variable, sent) = ("FOLDER".to_owned(), Some(BTreeMap::new()));
        Collected { folders: vec![Folder { variable, path: path.to_owned(), sent }], next: None }
    }

    #[test]
    fn what_is_new_of_a_file_is_sent_once_and_a_file_that_replaces_it_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        let piece = |offset, text: &str| vec![("a".to_owned(), offset, text.to_owned())];
        let mut collected = collected(folder.path());
        assert_eq!(all(&mut collected), []);
        fs::write(&file, "").expect("written");
        assert_eq!(all(&mut collected), piece(0, ""), "also an empty one");
        fs::write(&file, "one").expect("written");
        assert_eq!(all(&mut collected), piece(0, "one"));
        fs::write(&file, "one two").expect("written");
        assert_eq!(all(&mut collected), piece(3, " two"));
        assert_eq!(all(&mut collected), []);
        let written =
            File::options().write(true).open(&file).expect("there").write_at(b"two one", 0);
        assert_eq!(written.expect("written"), 7);
        assert_eq!(all(&mut collected), piece(0, "two one"), "in the same place");
        fs::write(folder.path().join("b"), "three").expect("written");
        fs::rename(folder.path().join("b"), &file).expect("renamed");
        assert_eq!(all(&mut collected), piece(0, "three"));
        collected.begin_again();
        assert_eq!(all(&mut collected), piece(0, "three"));
    }

    #[test]
    fn long_files_go_in_pieces_and_are_looked_at_now_and_then() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a"), vec![7; CHUNK as usize + 1]).expect("written");
        let mut collected = collected(folder.path());
        let lengths = [collected.next(false), collected.next(false)].map(|it| {
            let piece = it.expect("a piece");
            (piece.offset, piece.bytes.len())
        });
        assert_eq!(lengths, [(0, CHUNK as usize), (CHUNK, 1)]);
        assert_eq!(collected.next(false), None);
        fs::write(folder.path().join("b"), "new").expect("written");
        assert_eq!(collected.next(false), None, "not yet");
        assert!(collected.next(true).is_some());
    }
}
