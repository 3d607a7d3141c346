//! The file into which this process writes what happens to it.
//!
//! `FAMPI_TRACE_DIR` names a folder, in which each process has a file `<node>-<pid>.trace`. Its
//! first line says when the platform's clock began, on the two clocks of this node: the monotonic
//! one, which all processes of a node share, and the wall clock, which brings several nodes
//! together as well as their clocks agree.

use std::{
    fs::File,
    io::Write,
    mem::MaybeUninit,
    path::PathBuf,
    process,
    time::{Duration, SystemTime},
};

use super::exit;

const VARIABLE: &str = "FAMPI_TRACE_DIR";

/// Opens the file, if there is to be one; `elapsed` is what the platform's clock says now. Without
/// the file the process goes on: it may be the replacement that a recovery waits for.
pub(super) fn open(elapsed: Duration) -> Option<Box<dyn Write>> {
    let folder = std::env::var_os(VARIABLE).map(PathBuf::from)?;
    let node = exit::node_name().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path = folder.join(format!("{node}-{}.trace", process::id()));
    let opened = File::options().create(true).append(true).open(&path);
    let opened = opened.and_then(|mut file| {
        file.write_all(first_line(&node, elapsed).as_bytes())?;
        Ok(file)
    });
    match opened {
        Ok(file) => Some(Box::new(file)),
        Err(error) => {
            let path = path.display();
            let advice = "set it to a folder that every rank can write to";
            let what =
                format!("fampi: no trace by {VARIABLE}, as {path} fails ({error}): {advice}\n");
            // In one piece, as the launcher mixes what the ranks say.
            eprint!("{what}");
            None
        }
    }
}

fn first_line(node: &str, elapsed: Duration) -> String {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (wall, monotonic) = (wall.as_nanos(), monotonic().as_nanos());
    let (pid, elapsed) = (process::id(), elapsed.as_nanos());
    format!(
        "{{\"at\":{elapsed},\"is\":\"process\",\"node\":\"{node}\",\"pid\":{pid},\
         \"monotonic\":{monotonic},\"wall\":{wall}}}\n"
    )
}

/// What the clock of this node says that nobody sets.
pub(super) fn monotonic() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a value of our own, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: all bytes are initialised, by the call or as zeros, and any are a valid value.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
