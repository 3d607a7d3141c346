//! A child that ends with the process that started it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the kernel kill the child when the thread that starts it ends: a launcher has to start all
/// of its children from its first thread.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        // SAFETY: it only sets an attribute of this process.
        let set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it takes nothing and cannot fail.
        let now = unsafe { libc::getppid() };
        // Gone before we asked: the kernel would never tell.
        if now.cast_unsigned() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}
