//! What processes print, line by line, in the order of each.
//!
//! A thread of its own writes, which may have to wait for who reads it: the console goes on, and
//! can still end the job.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::protocol::orders::{Printed, Stream};

/// A line that goes on for so long is printed before its end.
const LONGEST: usize = 64 << 10;

static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Bytes of a stream that have been printed, and the node that it comes from.
pub(super) type Done = (usize, Stream, u64);

/// Prints what processes print.
#[derive(Debug)]
pub(super) struct Printer {
    work: Sender<(usize, Printed)>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

/// Lines that are not complete yet.
#[derive(Debug, Default)]
struct Lines(BTreeMap<Stream, Vec<u8>>);

impl Printer {
    /// Starts the thread.
    pub(super) fn start() -> Self {
        let (work, to_do) = mpsc::channel::<(usize, Printed)>();
        let (say, done) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut lines = Lines::default();
            for (node, printed) in to_do {
                let stream = printed.stream.clone();
                let complete = lines.take(printed);
                note(write(stream.is_error, &complete));
                if !complete.is_empty() {
                    // In the end nobody wants to know.
                    let _ = say.send((node, stream, complete.len() as u64));
                }
            }
            for (stream, rest) in lines.0 {
                note(write(stream.is_error, &rest));
            }
        });
        Self { work, done, thread }
    }

    /// Prints what can be printed of what has come from a node.
    pub(super) fn print(&self, node: usize, printed: Printed) {
        // The thread ends after this.
        let _ = self.work.send((node, printed));
    }

    /// What has been printed since the last call.
    pub(super) fn take_done(&self) -> Vec<Done> {
        self.done.try_iter().collect()
    }

    /// Prints what is left, if that takes no longer than this.
    pub(super) fn finish(self, limit: Option<Duration>) {
        drop(self.work);
        let begun = Instant::now();
        while limit.is_some_and(|limit| begun.elapsed() < limit) && !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        if limit.is_none() || self.thread.is_finished() {
            let _ = self.thread.join();
        }
    }
}

impl Lines {
    /// Takes what a process has printed; what can be printed of it, complete lines.
    fn take(&mut self, printed: Printed) -> Vec<u8> {
        let begun = self.0.entry(printed.stream).or_default();
        begun.extend(printed.bytes);
        let end = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if begun.len() - end > LONGEST { begun.len() } else { end };
        begun.drain(..end).collect()
    }
}

/// True if something could not be printed, though there is a reader.
pub(super) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Says once that something could not be printed. If the reader of the output has gone, which is
/// no failure, it says nothing.
fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !HAS_FAILED.swap(true, Ordering::Relaxed)
    {
        say!("fampi-node: what processes print cannot be written, and is lost: {error}");
    }
}

/// Writes to standard output, or error.
pub(super) fn write(is_error: bool, bytes: &[u8]) -> io::Result<()> {
    if is_error {
        return io::stderr().lock().write_all(bytes);
    }
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rank: u32, text: &str) -> Printed {
        let stream = Stream { space: "job".into(), rank, is_error: false };
        Printed { stream, bytes: text.into() }
    }

    #[test]
    fn lines_of_ranks_are_not_mixed() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(printed(0, "one")), b"");
        assert_eq!(lines.take(printed(1, "other\n")), b"other\n");
        assert_eq!(lines.take(printed(0, " line\nand")), b"one line\n");
        assert_eq!(lines.take(printed(0, &"x".repeat(LONGEST))).len(), LONGEST + 3);
    }
}
