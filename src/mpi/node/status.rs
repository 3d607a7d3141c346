//! What this process tells those who started it: a word in a file, and lines on standard error.
//!
//! Launchers need the files, as MPI's own exit status does not tell an orderly end from another.

use std::{
    fs::{self, File},
    io,
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Set in a process that never held a rank: its end says nothing of how the job ended.
static UNUSED: AtomicBool = AtomicBool::new(false);

/// Writes out what C code has printed.
pub(in crate::mpi) fn flush_streams() {
    // SAFETY: a null pointer means all of C's output streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// One line on standard error.
pub(in crate::mpi) fn say(why: &str) {
    // One write, so that lines of several processes do not mix.
    let line = format!("fampi: process {}: {why}\n", process::id());
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Says `starting` in the file `$FAMPI_STATUS_DIR/<pid>`: MPI is about to start.
pub(in crate::mpi) fn report_launch() {
    report("starting");
}

/// Says `running` in that file. A process that dies leaves it at that.
pub(in crate::mpi) fn report_start() {
    report("running");
}

/// From now on this process is one that ends in order and has never held a rank: a spare that
/// was not needed, a replacement that came too late.
pub(in crate::mpi) fn was_unused() {
    UNUSED.store(true, Relaxed);
}

/// Says `ok` in that file, or `unused`: whatever happens now, this process is done.
pub(in crate::mpi) fn report_success() {
    report(if UNUSED.load(Relaxed) { "unused" } else { "ok" });
}

/// Writes a word, in the place of the one before: that takes no room on a disk that is full now.
fn report(word: &str) {
    static OWN: Mutex<Option<File>> = Mutex::new(None);
    let Some(folder) = std::env::var_os("FAMPI_STATUS_DIR").map(PathBuf::from) else { return };
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let word = format!("{word:<width$}\n", width = "starting".len());
    let written = match &*own {
        Some(file) => file.write_all_at(word.as_bytes(), 0),
        None => begin(&folder, &word).map(|file| *own = Some(file)),
    };
    if let Err(error) = written {
        tracing::warn!(%error, folder = %folder.display(), "cannot write the status file");
    }
}

/// The file, which is there with its first word or not at all.
fn begin(folder: &Path, word: &str) -> io::Result<File> {
    let own = folder.join(process::id().to_string());
    let unfinished = own.with_extension("new");
    let mut file = File::create(&unfinished)?;
    file.write_all(word.as_bytes())?;
    fs::rename(&unfinished, &own)?;
    Ok(file)
}

/// Says in that file that this process ends in order, with this status, which is not 0. The
/// launcher's own status may be that of an earlier death, which hides this one.
pub(in crate::mpi) fn report_status(status: i32) {
    if !UNUSED.load(Relaxed) {
        report(&format!("ok {status}"));
    }
}
