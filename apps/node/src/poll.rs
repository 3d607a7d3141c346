//! Waiting for several descriptors at once, each of which has a number.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Events of one turn.
const EVENTS: usize = 64;

/// Descriptors that are waited for.
#[derive(Debug)]
pub(crate) struct Poll(OwnedFd);

/// What one waits for: that there is something to read, or room to write as well.
const fn flags(also_writable: bool) -> epoll::EventFlags {
    if also_writable {
        epoll::EventFlags::IN.union(epoll::EventFlags::OUT)
    } else {
        epoll::EventFlags::IN
    }
}

/// Readable when something can be done for one of them.
impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Poll {
    /// None yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC).context("no descriptor is left")?))
    }

    /// Waits for this one, too.
    pub(crate) fn add(&self, what: impl AsFd, number: u64) -> Result<()> {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.0, what, data, flags(false)).context("cannot wait for a descriptor")
    }

    /// Waits until this one can be written, too, or no longer so.
    pub(crate) fn set_writable(&self, what: impl AsFd, number: u64, writable: bool) -> Result<()> {
        let data = epoll::EventData::new_u64(number);
        epoll::modify(&self.0, what, data, flags(writable)).context("cannot wait for a descriptor")
    }

    /// Does not wait for this one any more; to be called before it is closed.
    pub(crate) fn remove(&self, what: impl AsFd) {
        // One that is not there any more is what is wanted.
        let _ = epoll::delete(&self.0, what);
    }

    /// The numbers of those for which something can be done.
    pub(crate) fn wait(&self, limit: Duration) -> Result<Vec<u64>> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let limit = Timespec::try_from(limit).ok();
        match epoll::wait(&self.0, spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        Ok(events.iter().map(|event| event.data.u64()).collect())
    }
}
