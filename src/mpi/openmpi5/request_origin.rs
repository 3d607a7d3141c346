//! MPI does not tell where a request of the program came from.
//!
//! **Symptom** A program gives a request to a block, of which it cannot be asked what it is: a
//! message, a collective, or something else; on which communicator; with which peer. So it would
//! not be known whether a death has anything to do with it, nor whether a block has the collective
//! that it promises.
//!
//! Every request says in its first part of which kind it is, and which object it was started on; a
//! message says, further on, its peer and its tag. The library's own look for failures reads them
//! there.
//!
//! **Versions** each Open MPI 5. Two requests of this process are examined first: where they are
//! not as expected nothing is known of any request.
//!
//! **Upstream** not reported: no defect of Open MPI, but a gap of the standard.
//!
//! **Delete when** MPI has a call that tells of a request what it was started with.
//!
//! **Test** `no_strangers_death_ends_a_receive_of_a_local_block` (`ffi/tests/c`).

use std::{
    ffi::{c_int, c_void},
    mem, ptr,
    sync::OnceLock,
};

use mpi::ffi::{MPI_Comm, MPI_Request};

use super::is_loaded;
use crate::mpi::calls::{
    comm::Comm,
    kept::{Origin, Probe, TAG},
    library::Checked,
};

/// Kinds of requests (`ompi_request_type_t`).
const MESSAGE: c_int = 0;
const COLLECTIVE: c_int = 4;

/// The beginning of a request (`ompi_request_t`, `ompi/request/request.h`).
#[repr(C)]
struct Request {
    _item: [u64; 7],
    kind: c_int,
    /// The status, how far it is, and functions.
    _state: [u64; 11],
    /// What it was started on.
    object: *mut c_void,
}

/// Where its peer and its tag stand in a message (`mca_pml_base_request_t`).
const ENVELOPE: usize = 488;

#[repr(C)]
struct Envelope {
    peer: c_int,
    tag: c_int,
}

/// Where a request came from.
///
/// # Safety
///
/// It is live, and one that MPI gives for this operation only.
pub(in crate::mpi) unsafe fn origin(raw: MPI_Request) -> Origin {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = *KNOWN.get_or_init(|| is_loaded() && examine().unwrap_or(false));
    if !known {
        return Origin::Other;
    }
    // SAFETY: our caller's promise; requests are as expected.
    unsafe { read(raw) }.0
}

/// Where a request came from, and its tag if it is a message.
///
/// # Safety
///
/// It is live.
unsafe fn read(raw: MPI_Request) -> (Origin, c_int) {
    let place = raw.0.cast::<c_void>();
    // SAFETY: each request of this major version begins so; MPI may write to it later.
    let request = unsafe { ptr::read_volatile(place.cast::<Request>()) };
    // SAFETY: a handle is a pointer to the object; it is used for what has a communicator.
    let comm = unsafe { mem::transmute_copy::<*mut c_void, MPI_Comm>(&request.object) };
    match request.kind {
        _ if request.object.is_null() => (Origin::Other, 0),
        MESSAGE => {
            let envelope = place.wrapping_byte_add(ENVELOPE).cast::<Envelope>();
            // SAFETY: one of this kind is longer than others.
            let Envelope { peer, tag } = unsafe { ptr::read_volatile(envelope) };
            (Origin::Message(comm, peer), tag)
        }
        COLLECTIVE => (Origin::Collective(comm), 0),
        _ => (Origin::Other, 0),
    }
}

/// Looks whether messages of this process to itself are as expected.
fn examine() -> Checked<bool> {
    let alone = Comm::alone()?.raw();
    let expected = (Origin::Message(alone, 0), TAG);
    let (receive, send) = (Probe::new()?, Probe::new_send()?);
    // SAFETY: both are live.
    let found = [receive.raw(), send.raw()].map(|raw| unsafe { read(raw) });
    receive.drop_inactive();
    send.drop_inactive();
    Ok(found == [expected, expected])
}
