//! The end of the process: in order, or by a signal, so that MPI's runtime notices.
//!
//! Open MPI reports a death by signal within milliseconds and an `exit` with another status
//! than 0 never. A process that leaves without [`orderly`] therefore kills itself; so does one
//! whose `main` panicked.

use std::{
    fs, io,
    io::Write as _,
    mem,
    mem::MaybeUninit,
    path::PathBuf,
    process,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::mpi::{
    LAST_PROGRESS, MpiPlatform,
    calls::inside,
    calls::{comm, library, request::Request, strided},
    deaths::{observer, watcher},
    operations::data::Posts,
    transport::control::Control,
};

/// How long the end waits for sends of the application that nobody may ever receive.
const LAST_OPERATIONS_WITHIN: Duration = Duration::from_millis(100);
/// How long the end waits for frames that living processes have not fetched yet.
const LAST_FRAMES_WITHIN: Duration = Duration::from_secs(1);

/// Set once this process may exit as it likes.
static ORDERLY: AtomicBool = AtomicBool::new(false);
/// Set in a process that never held a rank: its end says nothing of how the job ended.
static UNUSED: AtomicBool = AtomicBool::new(false);
/// The process that installed the handler; a fork of it may exit as it likes.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes every `exit` before [`orderly`] a death by signal.
pub(in crate::mpi) fn guard() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        OWNER.store(process::id(), Relaxed);
        // SAFETY: `at_exit` is a function of the right type, which ignores its second argument.
        let refused = unsafe { on_exit(at_exit, std::ptr::null_mut()) };
        if refused != 0 {
            tracing::warn!("no exit handler: an early exit of this rank may go unnoticed");
        }
    });
}

/// From now on an exit is an orderly one, and whoever observes this process knows it.
pub(in crate::mpi) fn orderly() {
    ORDERLY.store(true, Relaxed);
    observer::leave();
}

impl Drop for MpiPlatform {
    /// Without an end in order MPI may still write to what is under way: that is leaked.
    fn drop(&mut self) {
        if !self.posts.is_closed() {
            let nothing = Posts::new(Request::null().raw());
            mem::forget(mem::replace(&mut self.posts, nothing));
            mem::forget(mem::replace(&mut self.control, Control::new(self.ulfm)));
            mem::forget(mem::take(&mut self.data));
        }
    }
}

impl MpiPlatform {
    /// Ends this process's part in MPI, in order.
    pub(in crate::mpi) fn end(&mut self) {
        watcher::close();
        let _ = io::stdout().flush();
        flush_streams();
        self.posts.close(LAST_OPERATIONS_WITHIN);
        self.settle_last();
        self.control.close(LAST_PROGRESS, LAST_FRAMES_WITHIN);
        strided::free_all();
        // All is done; what MPI does below in a job that lost processes is no news.
        orderly();
        report_success();
        if self.owns_mpi {
            end_mpi();
        } else if self.guests.are_in_use() {
            // SAFETY: the very end; nothing of ours is on any communicator any more.
            unsafe { comm::free_all() };
            watcher::reopen();
            // The program has called `MPI_Finalize`, in which it still is.
            inside::ending();
        }
    }
}

/// Finalises MPI, of which nothing of ours is in use any more.
fn end_mpi() {
    // SAFETY: the very end; nothing of ours is on any communicator any more.
    unsafe { comm::free_all() };
    watcher::reopen();
    if let Err(refusal) = library::finalize() {
        tracing::warn!(?refusal, "MPI does not end in order");
    }
}

impl MpiPlatform {
    /// Ends this process, which has never held a rank, in order.
    pub(in crate::mpi) fn end_unused(&mut self) -> ! {
        was_unused();
        self.end();
        if !self.owns_mpi {
            // The program that would end its MPI does not go on.
            end_mpi();
        }
        process::exit(0)
    }
}

unsafe extern "C" {
    /// Like `atexit`, but the handler hears the status. glibc has it.
    fn on_exit(
        handler: extern "C" fn(libc::c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> libc::c_int;
}

extern "C" fn at_exit(status: libc::c_int, _: *mut libc::c_void) {
    if OWNER.load(Relaxed) != process::id() {
        return;
    }
    if ORDERLY.load(Relaxed) {
        // The launcher's own status may be that of an earlier death, which hides this one.
        if status & 0xff != 0 && !UNUSED.load(Relaxed) {
            report(&format!("ok {}", status & 0xff));
        }
        return;
    }
    flush_streams();
    die_by_signal("this process exits without `finalize`; it counts as failed");
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

/// Writes out what C code has printed.
pub(in crate::mpi) fn flush_streams() {
    // SAFETY: a null pointer means all of C's output streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Ends the process at once, with one line on standard error.
pub(in crate::mpi) fn die_by_signal(why: &str) -> ! {
    say(why);
    kill_ourselves()
}

/// The same for a process that is nobody yet: it has nothing to lose, and a status to give.
pub(in crate::mpi) fn give_up(why: &str) -> ! {
    say(why);
    // SAFETY: `_exit` runs no handler and does not return.
    unsafe { libc::_exit(1) }
}

/// One line on standard error.
pub(in crate::mpi) fn say(why: &str) {
    // One write, so that lines of several processes do not mix.
    let line = format!("fampi: process {}: {why}\n", process::id());
    let _ = io::stderr().write_all(line.as_bytes());
}

fn kill_ourselves() -> ! {
    // SAFETY: a signal to ourselves touches no memory.
    unsafe { libc::kill(process::id().cast_signed(), libc::SIGKILL) };
    process::abort()
}

/// `MPI_Finalize` does not come back: all is done and said, leave.
pub(in crate::mpi) fn leave_unfinished_finalize() -> ! {
    orderly();
    report_success();
    // SAFETY: `_exit` runs no handler and does not return.
    unsafe { libc::_exit(0) }
}

/// Says `starting` in the file `$FAMPI_STATUS_DIR/<pid>`: MPI is about to start. Launchers need
/// these files, as MPI's own exit status does not tell an orderly end from another.
pub(in crate::mpi) fn report_launch() {
    report("starting");
}

/// Says `running` in that file. A process that dies leaves it at that.
pub(in crate::mpi) fn report_start() {
    report("running");
}

/// From now on this process is one that ends in order and has never held a rank: a spare that
/// nobody needed, a replacement that came too late.
fn was_unused() {
    UNUSED.store(true, Relaxed);
}

/// Says `ok` in that file, or `unused`: whatever happens now, this process is done.
pub(in crate::mpi) fn report_success() {
    report(if UNUSED.load(Relaxed) { "unused" } else { "ok" });
}

fn report(word: &str) {
    let Some(folder) = std::env::var_os("FAMPI_STATUS_DIR").map(PathBuf::from) else { return };
    let own = folder.join(process::id().to_string());
    let unfinished = own.with_extension("new");
    let written = fs::write(&unfinished, word).and_then(|()| fs::rename(&unfinished, &own));
    if let Err(error) = written {
        tracing::warn!(%error, folder = %folder.display(), "cannot write the status file");
    }
}

/// True while a process of our node has this number.
pub(in crate::mpi) fn process_exists(pid: libc::pid_t) -> bool {
    // SAFETY: signal 0 is never delivered, it only asks.
    let refused = unsafe { libc::kill(pid, 0) } != 0;
    !(refused && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH))
}

/// Signals go to the application's threads, never to the calling one.
pub(in crate::mpi) fn block_signals_of_this_thread() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to a set of our own, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled above, and no old one is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}

/// The name of this node.
pub(in crate::mpi) fn node_name() -> String {
    let mut name = [0_u8; 256];
    let (address, length) = (name.as_mut_ptr().cast(), name.len() - 1);
    // SAFETY: the array has room for the length told, and keeps a zero at its end.
    unsafe { libc::gethostname(address, length) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// The process of our own node that spawned us, if one did.
pub(in crate::mpi) fn parent_on_this_node() -> Option<libc::pid_t> {
    let parent = std::env::var(super::spawn::PARENT_VARIABLE).ok()?;
    let (pid, node) = parent.split_once('@')?;
    if node == node_name() { pid.parse().ok() } else { None }
}

/// Nobody waits for this process any more: it goes, in a way that MPI's runtime reports.
pub(in crate::mpi) fn leave_unneeded() -> ! {
    say("the others recover without this replacement; it ends");
    was_unused();
    orderly();
    report_success();
    kill_ourselves()
}
