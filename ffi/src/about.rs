//! What this library is and what it can do here.

use std::{
    ffi::{CStr, c_char, c_int},
    fmt::Write as _,
};

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COUNT},
};

/// The version of the library. Needs no MPI. Returns `FAMPI_ERR_ARG` for null pointers.
///
/// # Safety
///
/// The pointers are null or to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Get_version(
    major: *mut c_int,
    minor: *mut c_int,
    patch: *mut c_int,
) -> c_int {
    if [major, minor, patch].iter().any(|pointer| pointer.is_null()) {
        return FAMPI_ERR_ARG;
    }
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0));
    for pointer in [major, minor, patch] {
        // SAFETY: not null; our caller's promise.
        unsafe { pointer.write(parts.next().unwrap_or(0)) };
    }
    0
}

/// Whether the library has a feature, by its name: `tryblock`, `world` (`FAMPI_World_init` and what
/// goes with it), `shrink`, `rebuild`, `interrupt`, `report`, `fused` (reductions on the commit),
/// `copies` (protect, restore), `checkpoints` (states in files), `progress` (blocks go on inside of
/// MPI's own waits). Needs no MPI.
///
/// Returns `FAMPI_ERR_ARG` for null pointers; an unknown name is a feature that is not there.
///
/// # Safety
///
/// The name is null or ends with a zero, the other pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Has_feature(name: *const c_char, flag: *mut c_int) -> c_int {
    const FEATURES: [&[u8]; 10] = [
        b"tryblock",
        b"world",
        b"shrink",
        b"rebuild",
        b"interrupt",
        b"report",
        b"fused",
        b"copies",
        b"checkpoints",
        b"progress",
    ];
    if name.is_null() {
        return FAMPI_ERR_ARG;
    }
    // SAFETY: not null; our caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let has = FEATURES.contains(&name.to_bytes());
    // SAFETY: our caller's promise.
    unsafe { put(flag, c_int::from(has)) }.err().unwrap_or(0)
}

/// What this MPI and this launch would survive, in sentences. `text` gets as much as fits into
/// `size` characters with the zero at the end, `length` is how many the whole text has. Call it
/// after `MPI_Init`; local.
///
/// Returns `FAMPI_ERR_ARG`, `FAMPI_ERR_COUNT`.
///
/// # Safety
///
/// The text is null, with a size of 0, or has room for `size` characters; `length` is null or to a
/// variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Doctor(text: *mut c_char, size: c_int, length: *mut c_int) -> c_int {
    let Ok(room) = usize::try_from(size) else { return FAMPI_ERR_COUNT };
    if length.is_null() || text.is_null() && room > 0 {
        return FAMPI_ERR_ARG;
    }
    let said = diagnosis();
    if room > 0 {
        let bytes = &said.as_bytes()[..said.len().min(room - 1)];
        // SAFETY: there is room for them and the zero.
        unsafe { text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // SAFETY: as above.
        unsafe { text.wrapping_add(bytes.len()).write(0) };
    }
    // SAFETY: not null; our caller's promise.
    unsafe { length.write(said.len() as c_int) };
    0
}

fn diagnosis() -> String {
    let facts = match fampi_core::mpi::facts() {
        Ok(facts) => facts,
        Err(error) => return format!("MPI does not answer: {error}\n"),
    };
    let library = facts.library.lines().next().unwrap_or_default();
    let mut text = format!("The library is {library}.\n");
    text += match (facts.has_ulfm, facts.ulfm_is_on) {
        (false, _) => "It has no fault tolerance: use Open MPI 5.0 built with ULFM.\n",
        (true, Some(false)) => "Fault tolerance is off: start with `mpirun --with-ft ulfm`.\n",
        (true, _) => "Fault tolerance is on.\n",
    };
    if matches!(facts.open_mpi, Some((5, 0, 10 | 11))) {
        text += "This version crashes healthy ranks in recoveries: use 5.0.9.\n";
    }
    if let Some(why) = facts.node_watcher_is_off {
        let _ = writeln!(text, "Deaths on this node are seen late, or never: {why}.");
    }
    for (name, value) in facts.settings {
        let _ = writeln!(text, "{name} is '{value}'.");
    }
    text
}
