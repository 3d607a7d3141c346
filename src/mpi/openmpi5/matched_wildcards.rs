//! A receive from any source is taken for one whose sender is dead when its communicator is
//! revoked, or it is cancelled, while its message is under way.
//!
//! **Symptom** MPI says that the receive is over, with an error or as cancelled, and later writes
//! the message to its buffer, which has been freed or used again: `corrupted double-linked list`,
//! or wrong data. Asked to cancel a receive that has its message, the library looks whether the
//! process that was named as its source is alive. For any source there is none, which counts as
//! dead.
//!
//! Each receive from any source of which it is known has a function of ours in the place of the one
//! that cancels it. It names the sender of the message as the source as long as that call takes:
//! so the message comes to its end if the sender is alive, and else the receive is over, as for a
//! receive that has named its source. The functions of a request stay when MPI uses it again: what
//! names its source goes straight on to the library's function.
//!
//! Such a receive has another defect, which the table of operations knows: if it was cancelled
//! when its last look had found a death (class 76), it is over, and no call that tells so lets go
//! of it.
//!
//! **Versions** seen in Open MPI 5.0.9; the source is the same since 5.0.0.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `mca_pml_ob1_recv_request_cancel` asks for the sender of a matched message.
//!
//! **Test** `deaths_end_the_large_operations_of_all`, which looks at buffers that came back.

use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

use mpi::ffi::{self, MPI_Request};

use super::request_origin::{Cancel, Place};

/// The library's own function.
static CANCEL: OnceLock<Cancel> = OnceLock::new();

/// Has a receive be cancelled only when its message is not under way, if it is one from any source.
///
/// # Safety
///
/// It is a live request, and one that MPI gives for this operation only.
#[inline]
pub(in crate::mpi) unsafe fn protect(raw: MPI_Request) {
    // SAFETY: our caller's promise.
    let place = unsafe { Place::of(raw) };
    if place.is_some_and(|it| it.is_message() && it.peer().get() == any_source()) {
        protect_wildcard(raw);
    }
}

#[cold]
fn protect_wildcard(raw: MPI_Request) {
    // SAFETY: live, says our caller.
    let Some(place) = (unsafe { Place::of(raw) }) else { return };
    let cancel = place.cancel();
    let own = *CANCEL.get_or_init(|| cancel.get());
    if std::ptr::fn_addr_eq(own, cancel.get()) {
        cancel.set(cancel_by_sender);
    }
}

/// What cancels a receive: MPI calls it in its own calls only.
unsafe extern "C" fn cancel_by_sender(request: *mut c_void, complete: c_int) -> c_int {
    let cancel = *CANCEL.get().expect("known since it was replaced");
    // SAFETY: MPI asks a live request.
    let place = unsafe { Place::at(request) };
    let (peer, status) = (place.peer(), place.status());
    let is_matched = status.MPI_TAG != any_tag();
    if peer.get() != any_source() || !is_matched {
        // SAFETY: the arguments of our caller, who meant this function.
        return unsafe { cancel(request, complete) };
    }
    peer.set(status.MPI_SOURCE);
    // SAFETY: as above.
    let result = unsafe { cancel(request, complete) };
    peer.set(any_source());
    result
}

fn any_source() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_ANY_SOURCE }
}

fn any_tag() -> c_int {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_ANY_TAG }
}
