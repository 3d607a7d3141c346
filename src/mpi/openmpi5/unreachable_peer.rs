//! A process that is told of a revocation, and that MPI cannot reach, crashes the one who tells it.
//!
//! **Symptom** SIGSEGV in `ompi_comm_rbcast_send_msg`, in `MPIX_Comm_revoke` or when a failure is
//! passed on. The function has MPI connect a process that it has not met yet, and does not look
//! whether that was possible: it is not when the process has died with its node before anybody had
//! its address. Here MPI is asked for the connection first, and what cannot be reached is told
//! nothing, as is a process that is known to be dead.
//!
//! **Versions** each Open MPI 5: the code of the library 5.0.9 was read.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `ompi_comm_rbcast_send_msg` looks whether there is an endpoint.
//!
//! **Test** `a_second_node_is_lost_while_the_first_loss_is_mended` (`apps/fampi/tests/node`), now
//! and then: a launcher that keeps the addresses of the dead leaves it little time.

use std::{
    ffi::{CStr, c_int, c_void},
    mem,
    sync::OnceLock,
};

use super::redirect;
use crate::mpi::calls::ulfm;

const TELL: &CStr = c"ompi_comm_rbcast_send_msg";
const CONNECTIONS: &CStr = c"mca_bml";
/// Whoever has this answer goes on with the next process.
const UNREACHABLE: c_int = -12;

type Tell = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;
type Connect = unsafe extern "C" fn(*mut c_void) -> c_int;

/// How the variable of the library begins.
#[repr(C)]
struct Connections {
    component: *const c_void,
    connect: Option<Connect>,
}

static FUNCTIONS: OnceLock<(Tell, usize)> = OnceLock::new();

/// Makes those who cannot be reached harmless.
pub(super) fn mend() -> Option<()> {
    let (tell, connections) = (ulfm::symbol(TELL)?, ulfm::symbol(CONNECTIONS)?);
    // SAFETY: in this major version the function of this name has this type.
    let tell = unsafe { mem::transmute::<*mut c_void, Tell>(tell) };
    FUNCTIONS.get_or_init(|| (tell, connections.expose_provenance()));
    let ours: Tell = tell_if_reached;
    // SAFETY: the type of that function. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(TELL, ours as *const c_void) }
}

unsafe extern "C" fn tell_if_reached(
    process: *mut c_void,
    message: *mut c_void,
    bytes: usize,
) -> c_int {
    let (tell, connections) = *FUNCTIONS.get().expect("looked up before the library calls us");
    let connections = std::ptr::with_exposed_provenance::<Connections>(connections);
    // SAFETY: in this major version the variable begins so, and it lives for ever.
    let connect = unsafe { (*connections).connect };
    // SAFETY: the process of our caller; one that is connected stays as it is.
    let is_reached = connect.is_none_or(|connect| unsafe { connect(process) } == 0);
    if !is_reached {
        return UNREACHABLE;
    }
    // SAFETY: the arguments of our caller, who meant this function.
    unsafe { tell(process, message, bytes) }
}
