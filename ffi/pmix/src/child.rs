//! How a daemon and what it starts are run: a daemon at once, its children not longer than itself.

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

/// Has the kernel run this thread at once whenever it has something to do, before all that is not
/// as urgent (`SCHED_RR`), if this user may ask for that. What it starts is not as urgent.
///
/// # Errors
///
/// This user may not, and the thread runs as before.
pub fn run_at_once() -> io::Result<()> {
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are read during the call.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// How the kernel schedules who is shown so: 0 as usual, 2 at once.
    fn policy(stat: &str) -> u32 {
        let behind_the_name = stat.rsplit(')').next().expect("a name");
        behind_the_name.split_whitespace().nth(38).expect("41 words").parse().expect("a number")
    }

    #[test]
    fn a_thread_runs_at_once_and_what_it_starts_as_usual() {
        let thread = std::thread::spawn(|| {
            if let Err(error) = run_at_once() {
                return eprintln!("skipped: this takes root, or a limit of real time: {error}");
            }
            let own = fs::read_to_string("/proc/thread-self/stat").expect("Linux");
            let child = Command::new("cat").arg("/proc/self/stat").output().expect("coreutils");
            assert_eq!([policy(&own), policy(&String::from_utf8_lossy(&child.stdout))], [2, 0]);
        });
        thread.join().expect("no panic");
    }
}
