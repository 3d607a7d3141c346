//! Calls of one library to another one that come to a function of ours instead.

use std::{
    ffi::{CStr, OsStr, c_void},
    mem::{self, MaybeUninit},
    os::unix::ffi::OsStrExt as _,
};

use plthook::ObjectFile;

use super::ulfm;

/// Has the calls of a function from within the library that has the symbol `owned` come to `ours`,
/// until the process ends. `None` when there is no such call, or it cannot be done.
///
/// # Safety
///
/// `ours` takes the arguments of that function, and no other thread calls MPI now.
pub(in crate::mpi) unsafe fn redirect(
    owned: &CStr,
    name: &CStr,
    ours: *const c_void,
) -> Option<()> {
    let file = file_of(ulfm::symbol(owned)?)?;
    let library = ObjectFile::open_file(OsStr::from_bytes(file.to_bytes())).ok()?;
    // SAFETY: our caller's promise.
    let replaced = unsafe { library.replace(name.to_str().ok()?, ours) };
    let replaced = replaced.inspect_err(|error| tracing::debug!(?name, %error, "not redirected"));
    // Dropped, it would be undone.
    replaced.ok().map(mem::forget)
}

/// The file from which an address was loaded.
fn file_of(address: *mut c_void) -> Option<&'static CStr> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the result is a variable of ours.
    let known = unsafe { libc::dladdr(address, found.as_mut_ptr()) } != 0;
    // SAFETY: filled, says the call.
    let name = known.then(|| unsafe { found.assume_init() }.dli_fname)?;
    // SAFETY: the name of a library that is never unloaded ends with a zero.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}
