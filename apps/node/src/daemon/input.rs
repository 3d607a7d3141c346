//! The standard input of the first process of the job, which the console reads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;

use anyhow::Result;

use crate::poll::Poll;

/// What one process reads, on its way there.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// What it has not been given.
    waiting: VecDeque<u8>,
    /// No more comes.
    is_ended: bool,
    /// Its end is at the process. It is waited for while there is more than it takes.
    pipe: Option<File>,
    is_waited_for: bool,
}

impl Input {
    /// The process has started, and reads from the other end of this pipe.
    pub(super) fn connect(&mut self, pipe: OwnedFd) -> Result<()> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        rustix::fs::fcntl_setfl(&pipe, flags | rustix::fs::OFlags::NONBLOCK)?;
        self.pipe = Some(File::from(pipe));
        Ok(())
    }

    /// The console has read this; without bytes nothing follows.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.is_ended |= bytes.is_empty();
        self.waiting.extend(bytes);
    }

    /// No more comes.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Gives the process what it takes: so many bytes. There is more to do when this number comes.
    pub(super) fn flush(&mut self, poll: &Poll, number: u64) -> Result<u64> {
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        let (mut taken, mut is_closed) = (0, false);
        while !self.waiting.is_empty() {
            match pipe.write(self.waiting.as_slices().0) {
                Ok(written) => {
                    self.waiting.drain(..written);
                    taken += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It reads no more. What is under way stays here, and nothing else is asked for.
                Err(_) => {
                    is_closed = true;
                    break;
                }
            }
        }
        let waits = !self.waiting.is_empty() && !is_closed;
        if waits != self.is_waited_for {
            self.is_waited_for = waits;
            if waits {
                poll.add(&*pipe, number)?;
                poll.set_writable(&*pipe, number, true)?;
            } else {
                poll.remove(&*pipe);
            }
        }
        if is_closed || self.is_ended && !waits {
            self.pipe = None;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{ChildStdout, Command, Stdio};
    use std::time::Duration;

    use super::*;

    const NUMBER: u64 = 7;

    /// A process that prints what it reads.
    fn cat(input: &mut Input) -> ChildStdout {
        let mut command = Command::new("cat");
        let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        input.connect(cat.stdin.take().expect("piped").into()).expect("a pipe");
        let output = cat.stdout.take().expect("piped");
        std::thread::spawn(move || cat.wait());
        output
    }

    #[test]
    fn a_process_gets_all_that_came_before_it_and_after_it_and_then_the_end() {
        let (poll, mut input) = (Poll::new().expect("a poll"), Input::default());
        let all: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let (before, after) = all.split_at(100);
        input.push(before);
        assert_eq!(input.flush(&poll, NUMBER).expect("nobody is there"), 0);
        let mut output = cat(&mut input);
        let read = std::thread::spawn(move || {
            let mut read = Vec::new();
            output.read_to_end(&mut read).map(|_| read)
        });
        input.push(after);
        input.push(&[]);
        let mut taken = 0;
        while input.pipe.is_some() {
            taken += input.flush(&poll, NUMBER).expect("written");
            poll.wait(Duration::from_secs(1)).expect("waited");
        }
        assert_eq!(taken as usize, all.len());
        assert!(read.join().expect("no panic").expect("read") == all);
    }

    #[test]
    fn who_reads_no_more_asks_for_no_more() {
        let (poll, mut input) = (Poll::new().expect("a poll"), Input::default());
        drop(cat(&mut input));
        let mut taken = 0;
        while input.pipe.is_some() {
            input.push(&[1; 4096]);
            taken += input.flush(&poll, NUMBER).expect("written or closed");
            poll.wait(Duration::from_millis(1)).expect("waited");
        }
        input.push(&[1; 4096]);
        assert_eq!(input.flush(&poll, NUMBER).expect("nobody is there"), 0);
        assert!(taken > 0 && poll.wait(Duration::ZERO).expect("waited").is_empty());
    }
}
