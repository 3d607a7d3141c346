//! A small message to a process that dies before it is connected ends the job of its sender.
//!
//! **Symptom** `*** An error occurred in Send error after request freed`, and all processes end. A
//! small send by TCP is complete as soon as its bytes are copied, while the connection is still
//! being made: each first message between an old and a new process is one. When the new process is
//! dead, the copy fails after its request is freed, and MPI ends the job, as the standard wants for
//! an error of a freed request (MPI 4.1, §3.7.3). Here a send whose request is freed is lost, as
//! any other to a dead process: MPI's own call of its fatal handler goes to a function
//! that knows this text, and passes on all others.
//!
//! **Versions** each Open MPI 5: the source of 5.0.9 was read.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `mca_pml_ob1_match_completion_free` does not end the process when fault
//! tolerance is on.
//!
//! **Test** `a_storm_of_deaths_and_of_deaths_of_new_processes_is_weathered_and_ends`
//! (`ffi/tests/c`), now and then.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem,
    sync::OnceLock,
};

use super::redirect;
use crate::mpi::calls::ulfm;

const HANDLER: &CStr = c"ompi_mpi_errors_are_fatal_comm_handler";
/// What MPI says of such a send.
const LOST: &CStr = c"Send error after request freed";

/// Where MPI itself calls it, a text follows.
type Handler = unsafe extern "C" fn(*mut *mut c_void, *mut c_int, ...);

static FATAL: OnceLock<Handler> = OnceLock::new();

/// Makes sends that fail late harmless.
pub(super) fn mend() -> Option<()> {
    let handler = ulfm::symbol(HANDLER)?;
    // SAFETY: in this major version the function of this name has this type.
    let handler = unsafe { mem::transmute::<*mut c_void, Handler>(handler) };
    FATAL.get_or_init(|| handler);
    let ours: unsafe extern "C" fn(_, _, _) = end_unless_lost;
    // SAFETY: where Open MPI 5 runs, a function with one more argument takes a call that has it
    // after the dots. No thread but this one calls MPI for more than its version.
    unsafe { redirect(HANDLER, ours as *const c_void) }
}

unsafe extern "C" fn end_unless_lost(
    comm: *mut *mut c_void,
    code: *mut c_int,
    text: *const c_char,
) {
    // SAFETY: a text of the library that ends with a zero, where there is one.
    if !text.is_null() && unsafe { CStr::from_ptr(text) } == LOST {
        return;
    }
    if let Some(fatal) = FATAL.get() {
        // SAFETY: the arguments of our caller, who meant this function.
        unsafe { fatal(comm, code, text) };
    }
}
