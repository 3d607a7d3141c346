//! The end of the process: in order, or by a signal, so that MPI's runtime notices.
//!
//! A process that leaves without [`orderly`] kills itself ([`unreported_exit`] says why).

use std::{
    io,
    io::Write as _,
    process,
    time::{Duration, Instant},
};

use crate::mpi::{
    calls::{comm, inside, library, strided},
    deaths::{observer, watcher},
    node::status,
    operations::{
        contexts::DataComm,
        files::Files,
        platform::{Finalizer, MpiPlatform},
    },
    this_mpi::{self, unreported_exit},
};

/// How long `finalize` makes progress in any case.
const LAST_PROGRESS: Duration = Duration::from_millis(20);
/// How long the end waits for sends of the application that nobody may ever receive.
const LAST_OPERATIONS_WITHIN: Duration = Duration::from_millis(100);
/// How long the end waits for frames that living processes have not fetched yet.
const LAST_FRAMES_WITHIN: Duration = Duration::from_secs(1);

/// From now on an exit is an orderly one, and whoever observes this process knows it.
pub(in crate::mpi) fn orderly() {
    unreported_exit::orderly();
    observer::leave();
}

impl MpiPlatform {
    /// Duplicates under way get a moment to be complete.
    fn settle_last(&mut self) {
        let began = Instant::now();
        let making = |data: &mut Option<DataComm>| data.as_ref().is_some_and(DataComm::is_making);
        while self.data.iter_mut().any(making) && began.elapsed() < LAST_PROGRESS {
            self.do_chores();
        }
        self.data.iter_mut().flatten().for_each(DataComm::give_up);
    }

    /// Ends this process's part in MPI, in order.
    pub(in crate::mpi) fn end(&mut self) {
        watcher::close();
        let _ = io::stdout().flush();
        status::flush_streams();
        self.table.close(LAST_OPERATIONS_WITHIN);
        self.files = Files::default();
        self.settle_last();
        self.control.close(LAST_PROGRESS, LAST_FRAMES_WITHIN);
        strided::free_all();
        // All is done; what MPI does below in a job that lost processes is no news.
        orderly();
        status::report_success();
        if self.finalizer == Finalizer::Library {
            end_mpi();
        } else if self.finalizer == Finalizer::Host {
            free_communicators();
            this_mpi::before_finalize();
            watcher::reopen();
            // The program has called `MPI_Finalize`, in which it still is.
            inside::ending();
        }
    }
}

/// Gives MPI back what it has made for us, where that does no harm; it is the very end.
fn free_communicators() {
    if this_mpi::may_free_at_the_end() {
        // SAFETY: nothing of ours is on any communicator any more.
        unsafe { comm::free_all() };
    }
}

/// Finalises MPI, of which nothing of ours is in use any more.
fn end_mpi() {
    free_communicators();
    this_mpi::before_finalize();
    watcher::reopen();
    if let Err(refusal) = library::finalize() {
        tracing::warn!(?refusal, "MPI does not end in order");
    }
}

impl MpiPlatform {
    /// Ends this process, which has never held a rank, in order.
    pub(in crate::mpi) fn end_unused(&mut self) -> ! {
        status::was_unused();
        self.end();
        if self.finalizer != Finalizer::Library {
            // The program that would end its MPI does not go on.
            end_mpi();
        }
        process::exit(0)
    }
}

/// A connection to a dead process is an error of a call, and no signal that ends this one: Rust's
/// runtime sees to that, C's does not. A handler of the program's own stays.
pub(in crate::mpi) fn ignore_broken_pipes() {
    // SAFETY: the call takes numbers; ignoring a signal runs no code of ours.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if before != libc::SIG_DFL && before != libc::SIG_ERR {
        // SAFETY: what was there before is put back.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }
}

/// Ends a process that has no rank yet, with one line on standard error: status 1, no handlers.
pub(in crate::mpi) fn give_up(why: &str) -> ! {
    status::say(why);
    // SAFETY: `_exit` runs no handler and does not return.
    unsafe { libc::_exit(1) }
}

/// `MPI_Finalize` does not come back: all is done and said, leave.
pub(in crate::mpi) fn leave_unfinished_finalize() -> ! {
    orderly();
    status::report_success();
    // SAFETY: `_exit` runs no handler and does not return.
    unsafe { libc::_exit(0) }
}

/// Ends a process that a plan kills. It tells no other rank.
pub(in crate::mpi) fn killed_by_plan() -> ! {
    unreported_exit::kill_ourselves()
}

/// Nobody waits for this process any more: it goes, in a way that MPI's runtime reports.
pub(in crate::mpi) fn leave_unneeded() -> ! {
    status::say("the others recover without this replacement; it ends");
    status::was_unused();
    orderly();
    status::report_success();
    unreported_exit::kill_ourselves()
}
