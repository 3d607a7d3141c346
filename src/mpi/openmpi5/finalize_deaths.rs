//! A process that dies while all are in `MPI_Finalize` ends the others with an error.
//!
//! **Symptom** `OPAL ERROR: (null) in file …/ompi_mpi_finalize.c`, and a survivor ends with status
//! 1, though all was done. `MPI_Finalize` shrinks `MPI_COMM_WORLD` and meets the living in a
//! barrier, so that nothing is on its way any more: a death makes that an error, which is fatal, as
//! no error handler of the program is in force. Here a shrink that fails there is made again, and a
//! barrier that fails is over: who is dead sends nothing.
//!
//! **Versions** each Open MPI 5: the code of 5.0.9 was read, that of the library as well.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `ompi_mpi_finalize` does not return what its barrier says.
//!
//! **Test** `a_node_that_is_lost_while_all_end_mpi_changes_nothing` (`apps/fampi/tests/node`).

use std::{
    ffi::{CStr, c_int, c_void},
    mem,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::redirect;
use crate::mpi::calls::ulfm;

const BARRIER: &CStr = c"ompi_coll_base_barrier_intra_doublering";
const SHRINK: &CStr = c"ompi_comm_shrink_internal";
/// More deaths in `MPI_Finalize` are not survived.
const ATTEMPTS: u32 = 8;

type Barrier = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Shrink = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;

static FUNCTIONS: OnceLock<(Barrier, Shrink)> = OnceLock::new();
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Makes deaths harmless from [`begin`] on.
pub(super) fn mend() -> Option<()> {
    let (barrier, shrink) = (ulfm::symbol(BARRIER)?, ulfm::symbol(SHRINK)?);
    // SAFETY: in this major version the function of this name has this type.
    let barrier = unsafe { mem::transmute::<*mut c_void, Barrier>(barrier) };
    // SAFETY: as above.
    let shrink = unsafe { mem::transmute::<*mut c_void, Shrink>(shrink) };
    FUNCTIONS.get_or_init(|| (barrier, shrink));
    let (barrier, shrink): (Barrier, Shrink) = (meet, shrink_again);
    // SAFETY: the types of both functions. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(BARRIER, barrier as *const c_void) }?;
    // SAFETY: as above.
    unsafe { redirect(SHRINK, shrink as *const c_void) }
}

/// The next call of MPI is `MPI_Finalize`, or the program is in it.
pub(super) fn begin() {
    IS_ENDING.store(true, Relaxed);
}

fn functions() -> (Barrier, Shrink) {
    *FUNCTIONS.get().expect("looked up before the library calls us")
}

unsafe extern "C" fn meet(comm: *mut c_void, module: *mut c_void) -> c_int {
    // SAFETY: the arguments of our caller, who meant this function.
    let code = unsafe { functions().0(comm, module) };
    if IS_ENDING.load(Relaxed) { 0 } else { code }
}

unsafe extern "C" fn shrink_again(comm: *mut c_void, made: *mut *mut c_void) -> c_int {
    for _ in 1..ATTEMPTS {
        // SAFETY: the arguments of our caller, who meant this function.
        let code = unsafe { functions().1(comm, made) };
        if code == 0 || !IS_ENDING.load(Relaxed) {
            return code;
        }
    }
    // SAFETY: as above.
    unsafe { functions().1(comm, made) }
}
