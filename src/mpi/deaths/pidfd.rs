//! Descriptors of processes, and the set of them that is asked who has ended.
//!
//! A `pidfd` (Linux 5.3) refers to one process for ever: the number of a process may be used
//! again, its descriptor is not. It becomes readable when all threads of the process have ended,
//! reaped or not; a stopped process has not.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// How many ends are told at a time.
const MOST: usize = 16;

/// A set of processes that may end. Closed on `exec`, like the descriptors in it.
#[derive(Debug)]
pub(in crate::mpi) struct Ends(OwnedFd);

impl Ends {
    pub(in crate::mpi) fn new() -> io::Result<Self> {
        // SAFETY: the call takes a flag and gives a new descriptor.
        let set = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self(set))
    }

    /// Adds a process; it leaves the set when its descriptor is dropped.
    pub(in crate::mpi) fn add(&self, pid: libc::pid_t) -> io::Result<OwnedFd> {
        let process = open(pid)?;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: pid as u64 };
        let (set, process_fd) = (self.0.as_raw_fd(), process.as_raw_fd());
        let code = {
            // SAFETY: both descriptors are open; the event is a variable of ours.
            unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, process_fd, &raw mut event) }
        };
        if code == 0 { Ok(process) } else { Err(io::Error::last_os_error()) }
    }

    /// Processes of the set that have ended, without waiting.
    pub(in crate::mpi) fn look(&self, mut ended: impl FnMut(libc::pid_t)) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let (set, room) = (self.0.as_raw_fd(), MOST as c_int);
        // SAFETY: the set is open; the array has room for as many events as told.
        let number = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), room, 0) };
        let number = usize::try_from(number).unwrap_or(0);
        events.iter().take(number).for_each(|event| ended(event.u64 as libc::pid_t));
    }
}

/// Kills the process that has this number, if it is the one that is meant.
pub(in crate::mpi) fn kill(pid: u64, is_meant: impl FnOnce() -> bool) {
    let Ok(process) = open(pid as libc::pid_t) else { return };
    // It keeps the number as long as it lives, and the descriptor is of no other one.
    if is_meant() {
        let none = std::ptr::null::<libc::siginfo_t>();
        let (call, fd) = (libc::SYS_pidfd_send_signal, process.as_raw_fd());
        // SAFETY: the descriptor is open; no information goes with the signal.
        unsafe { libc::syscall(call, fd, libc::SIGKILL, none, 0) };
    }
}

/// A descriptor of the process that has this number now.
fn open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers and gives a new descriptor.
    let code = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    owned(code as c_int)
}

fn owned(descriptor: c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, known here only.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
