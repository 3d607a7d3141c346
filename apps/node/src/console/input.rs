//! What the console reads for the first process of the job, which gets it as its standard input.
//!
//! ```text
//! standard input ── thread ──▶ socket ── at most WINDOW ahead ──▶ daemon ──▶ process
//!                                              ▲                    │
//!                                              └────── taken ───────┘
//! ```
//!
//! While the process does not read, the daemon takes nothing more from the console. Then the
//! console stops reading its standard input, and the program that writes there has to wait.

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;

use anyhow::{Context as _, Result};

use crate::poll::Poll;

/// Bytes that are under way at most.
const WINDOW: u64 = 1 << 20;
/// Bytes that are sent at once.
const CHUNK: usize = 64 << 10;

/// The standard input of the console, on its way.
#[derive(Debug)]
pub(super) struct Input {
    /// What the thread has read; nothing more comes when this is gone.
    read: Option<UnixStream>,
    number: u64,
    is_waited_for: bool,
    /// Bytes that were sent, and that the process has not taken.
    ahead: u64,
}

impl Input {
    /// Begins to read; there is something to take when this number comes.
    pub(super) fn start(poll: &Poll, number: u64) -> Result<Self> {
        let (read, mut write) = UnixStream::pair().context("no descriptor is left")?;
        read.set_nonblocking(true).context("a socket that waits")?;
        poll.add(&read, number)?;
        // It stays in its read when the console ends, and goes with it. What cannot be read has
        // ended.
        let copy = move || io::copy(&mut io::stdin().lock(), &mut write);
        thread::Builder::new().name("input".into()).spawn(copy).context("no thread is left")?;
        Ok(Self { read: Some(read), number, is_waited_for: true, ahead: 0 })
    }

    /// The process has taken so many bytes.
    pub(super) fn note_taken(&mut self, poll: &Poll, bytes: u64) -> Result<()> {
        self.ahead = self.ahead.saturating_sub(bytes);
        match &self.read {
            Some(read) if !self.is_waited_for && self.ahead < WINDOW => {
                self.is_waited_for = true;
                poll.add(read, self.number)
            }
            _ => Ok(()),
        }
    }

    /// What is to be sent next; no bytes, once, for the end.
    pub(super) fn next(&mut self, poll: &Poll) -> Option<Vec<u8>> {
        let read = self.read.as_mut()?;
        if self.ahead >= WINDOW {
            poll.remove(&*read);
            self.is_waited_for = false;
            return None;
        }
        let mut bytes = vec![0; CHUNK];
        let length = match read.read(&mut bytes) {
            Ok(length) => length,
            Err(error)
                if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) =>
            {
                return None;
            }
            Err(_) => 0,
        };
        if length == 0 {
            poll.remove(&*read);
            self.read = None;
        }
        bytes.truncate(length);
        self.ahead += length as u64;
        Some(bytes)
    }
}
