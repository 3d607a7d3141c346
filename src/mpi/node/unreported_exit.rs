//! A process that ends by `exit` is never reported dead, and the others wait for it.
//!
//! **Symptom** Open MPI reports a death by signal within milliseconds, and an `exit` with another
//! status than 0 never: its launcher takes it for an end in order. A process that leaves without
//! `finalize` therefore kills itself, and so does one whose `main` panicked. The launcher's own
//! status does not tell either, which is why ranks say in files how they ended (`node/status.rs`).
//!
//! **Versions** each Open MPI 5 with `mpirun --with-ft ulfm`.
//!
//! **Upstream** not reported: Bland 2013 leaves open where reports come from.
//!
//! **Delete when** the launcher reports each process that ends before its `MPI_Finalize`.
//!
//! **Test** `an_exit_without_finalize_is_a_death`.

use std::{
    process,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use crate::mpi::node::{process::mark_exit, status};

/// Set once this process may exit as it likes.
static ORDERLY: AtomicBool = AtomicBool::new(false);
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

/// From now on an exit is an orderly one.
pub(in crate::mpi) fn orderly() {
    ORDERLY.store(true, Relaxed);
}

unsafe extern "C" {
    /// Like `atexit`, but the handler hears the status. glibc has it.
    fn on_exit(
        handler: extern "C" fn(libc::c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> libc::c_int;
}

extern "C" fn at_exit(code: libc::c_int, _: *mut libc::c_void) {
    if OWNER.load(Relaxed) != process::id() {
        return;
    }
    if ORDERLY.load(Relaxed) {
        if code & 0xff != 0 {
            status::report_status(code & 0xff);
        }
        return;
    }
    status::flush_streams();
    mark_exit(code);
    die_by_signal("this process exits without `finalize`; it counts as failed");
}

/// Ends the process at once, with one line on standard error.
pub(in crate::mpi) fn die_by_signal(why: &str) -> ! {
    status::say(why);
    kill_ourselves()
}

/// Ends this process by a signal, which MPI's runtime reports.
pub(in crate::mpi) fn kill_ourselves() -> ! {
    // SAFETY: a signal to ourselves touches no memory.
    unsafe { libc::kill(process::id().cast_signed(), libc::SIGKILL) };
    process::abort()
}
