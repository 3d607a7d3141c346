//! What the processes of a node print, on its way to a console that may be lost.
//!
//! ```text
//! rank ── prints ──▶ kept in memory ── sent ──▶ console        until the console says that it has
//!                        │                                     printed it
//!                        ▼ the console is gone
//!                     file ◀── what is printed from then on
//!                        │
//!                        └── sent ──▶ next console             then what is printed is kept in
//!                                                              memory again
//! ```
//!
//! **Guarantees.** Each console gets the bytes of a stream in their order. None is lost with a
//! console; those that it had printed and not told of yet come again.
//!
//! **Assumes** that files can be written: what they do not take is lost, which is told once.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use crate::protocol::orders::{Printed, Stream};

/// Bytes of a file that are sent at once.
const CHUNK: usize = 64 << 10;

/// A file that holds what no console has printed.
#[derive(Debug)]
struct Spool {
    path: PathBuf,
    file: File,
    /// Bytes in it.
    written: u64,
    /// Of those, sent to the present console.
    sent: u64,
    /// Of those, printed.
    printed: u64,
}

/// What is kept of a stream: first the file, then what is in memory.
#[derive(Debug, Default)]
struct Kept {
    spool: Option<Spool>,
    /// Sent to the present console.
    memory: Vec<u8>,
}

/// What the processes of a node print.
#[derive(Debug)]
pub(super) struct Output {
    /// Where files are made.
    folder: Option<PathBuf>,
    streams: BTreeMap<Stream, Kept>,
    has_console: bool,
    failure: Option<io::Error>,
}

/// The file of a stream.
fn name_of(stream: &Stream) -> String {
    let number = stream.space.rsplit('@').next().filter(|number| *number != "1");
    let number = number.map_or(String::new(), |number| format!("@{number}"));
    let kind = if stream.is_error { "err" } else { "out" };
    format!("rank-{}{number}.{kind}", stream.rank)
}

impl Spool {
    fn make(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(&path)?;
        Ok(Self { path, file, written: 0, sent: 0, printed: 0 })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let taken = self.file.write(left)?;
            self.written += taken as u64;
            left = &left[taken..];
        }
        Ok(())
    }

    /// What is to be sent next.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK.min((self.written - self.sent) as usize)];
        self.file.read_exact_at(&mut bytes, self.sent)?;
        self.sent += bytes.len() as u64;
        Ok(bytes)
    }
}

impl Kept {
    fn is_sent(&self) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.sent == spool.written)
    }

    fn append(
        &mut self,
        path: impl FnOnce() -> io::Result<PathBuf>,
        bytes: &[u8],
    ) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.spool.is_none() {
            self.spool = Some(Spool::make(path()?)?);
        }
        self.spool.as_mut().map_or(Ok(()), |spool| spool.append(bytes))
    }

    fn note_printed(&mut self, bytes: u64) {
        let mut of_memory = bytes;
        if let Some(spool) = &mut self.spool {
            let of_file = bytes.min(spool.sent - spool.printed);
            spool.printed += of_file;
            of_memory -= of_file;
            if spool.printed == spool.written {
                let _ = fs::remove_file(&spool.path);
                self.spool = None;
            }
        }
        self.memory.drain(..self.memory.len().min(of_memory as usize));
    }
}

impl Output {
    /// Nothing yet, and a console that takes it. Files are made in this folder.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, streams: BTreeMap::new(), has_console: true, failure: None }
    }

    /// A process has printed; what is to be sent to the console now.
    pub(super) fn print(&mut self, printed: Printed) -> Option<Printed> {
        let kept = self.streams.entry(printed.stream.clone()).or_default();
        if self.has_console && kept.is_sent() {
            kept.memory.extend(&printed.bytes);
            return Some(printed);
        }
        let path = || path_of(self.folder.as_ref(), &printed.stream);
        let done = kept.append(path, &printed.bytes);
        self.note(done);
        None
    }

    /// The console has printed so many more bytes.
    pub(super) fn note_printed(&mut self, stream: &Stream, bytes: u64) {
        if let Some(kept) = self.streams.get_mut(stream) {
            kept.note_printed(bytes);
        }
    }

    /// The console is gone.
    pub(super) fn note_lost(&mut self) {
        self.has_console = false;
        let mut results = Vec::new();
        for (stream, kept) in &mut self.streams {
            if let Some(spool) = &mut kept.spool {
                spool.sent = spool.printed;
            }
            let bytes = std::mem::take(&mut kept.memory);
            results.push(kept.append(|| path_of(self.folder.as_ref(), stream), &bytes));
        }
        for done in results {
            self.note(done);
        }
    }

    /// There is a console again.
    pub(super) fn note_console(&mut self) {
        self.has_console = true;
    }

    /// What the files hold that is to be sent to the console next.
    pub(super) fn next(&mut self) -> Option<Printed> {
        let (stream, spool) = self.streams.iter_mut().find_map(|(stream, kept)| {
            let spool = kept.spool.as_mut().filter(|it| it.sent < it.written);
            Some((stream, spool?))
        })?;
        let stream = stream.clone();
        match spool.next() {
            Ok(bytes) => Some(Printed { stream, bytes }),
            Err(error) => {
                // It cannot be read, and will not be.
                (spool.sent, spool.printed) = (spool.written, spool.written);
                self.note(Err(error));
                None
            }
        }
    }

    /// True when the console was sent all that there is.
    pub(super) fn is_sent(&self) -> bool {
        self.streams.values().all(Kept::is_sent)
    }

    /// Bytes in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.streams.values().map(|kept| kept.memory.len()).sum()
    }

    /// Why output was lost; once.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Removes the files.
    pub(super) fn remove(&mut self) {
        for spool in std::mem::take(&mut self.streams).into_values().filter_map(|it| it.spool) {
            let _ = fs::remove_file(spool.path);
        }
    }

    fn note(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
    }
}

fn path_of(folder: Option<&PathBuf>, stream: &Stream) -> io::Result<PathBuf> {
    let folder = folder.ok_or_else(|| io::Error::other("there is no folder"))?;
    Ok(folder.join(name_of(stream)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rank: u32) -> Stream {
        Stream { space: "job@1".into(), rank, is_error: false }
    }

    fn print(output: &mut Output, text: &str) -> Option<String> {
        let printed = Printed { stream: stream(0), bytes: text.into() };
        output.print(printed).map(text_of)
    }

    fn text_of(printed: Printed) -> String {
        String::from_utf8(printed.bytes).expect("text")
    }

    #[test]
    fn each_console_gets_what_the_one_before_has_not_printed_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut output = Output::new(Some(folder.path().to_owned()));
        assert_eq!(print(&mut output, "one "), Some("one ".into()));
        assert_eq!(print(&mut output, "two "), Some("two ".into()));
        output.note_printed(&stream(0), 4);
        output.note_lost();
        assert_eq!(print(&mut output, "three "), None);
        let file = folder.path().join("rank-0.out");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "two three ");
        assert_eq!(output.in_memory(), 0);

        output.note_console();
        assert!(!output.is_sent());
        assert_eq!(print(&mut output, "four "), None, "behind what is in the file");
        assert_eq!(output.next().map(text_of), Some("two three four ".into()));
        assert!(output.is_sent() && output.next().is_none());
        assert_eq!(print(&mut output, "five "), Some("five ".into()));
        output.note_printed(&stream(0), 4);
        // It is lost, too, while it prints.
        output.note_lost();
        output.note_console();
        assert_eq!(output.next().map(text_of), Some("three four five ".into()));
        output.note_printed(&stream(0), 16);
        assert!(!file.exists() && output.is_sent());
        assert_eq!(print(&mut output, "six"), Some("six".into()));
    }

    #[test]
    fn what_no_file_takes_is_lost_and_told_once() {
        let mut output = Output::new(Some("/no/such/folder".into()));
        output.note_lost();
        assert_eq!(print(&mut output, "lost"), None);
        assert!(output.take_failure().is_some() && output.take_failure().is_none());
    }

    #[test]
    fn processes_that_were_started_later_have_files_of_their_own() {
        let of = |space: &str| name_of(&Stream { space: space.into(), rank: 3, is_error: true });
        assert_eq!(of("fampi-1234@1"), "rank-3.err");
        assert_eq!(of("fampi-1234@2"), "rank-3@2.err");
    }
}
