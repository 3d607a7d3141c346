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
    cell::Cell,
    ffi::{c_int, c_void},
    mem,
    sync::OnceLock,
};

use mpi::ffi::{MPI_Comm, MPI_Request, MPI_Status};

use super::is_loaded;
use crate::mpi::calls::{
    comm::Comm,
    kept::{Origin, Probe, TAG},
    library::Checked,
};

/// Kinds of requests (`ompi_request_type_t`).
const MESSAGE: c_int = 0;
const COLLECTIVE: c_int = 4;

/// What cancels a request, which may be over then.
pub(super) type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The beginning of a request (`ompi_request_t`, `ompi/request/request.h`). MPI writes to it in its
/// calls, so it is never borrowed across one.
#[repr(C)]
struct Request {
    _item: [u64; 7],
    kind: Cell<c_int>,
    status: Cell<MPI_Status>,
    /// How far it is, and what starts and frees it.
    _state: [u64; 5],
    cancel: Cell<Cancel>,
    _complete: [u64; 2],
    /// What it was started on.
    object: Cell<*mut c_void>,
}

/// Where its peer and its tag stand in a message (`mca_pml_base_request_t`).
const ENVELOPE: usize = 488;

#[repr(C)]
struct Envelope {
    peer: Cell<c_int>,
    tag: Cell<c_int>,
}

/// A live request.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    request: &'a Request,
    envelope: *const Envelope,
}

impl<'a> Place<'a> {
    /// A request of this process; nothing if requests are not as expected.
    ///
    /// # Safety
    ///
    /// It is live, and one that MPI gives for this operation only.
    #[inline]
    pub(super) unsafe fn of(raw: MPI_Request) -> Option<Self> {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        let known = *KNOWN.get_or_init(|| is_loaded() && examine().unwrap_or(false));
        // SAFETY: our caller's promise.
        known.then(|| unsafe { Self::at(raw.0.cast()) })
    }

    /// The request at this address.
    ///
    /// # Safety
    ///
    /// It is live, and requests are as expected.
    #[inline]
    pub(super) unsafe fn at(place: *mut c_void) -> Self {
        let envelope = place.wrapping_byte_add(ENVELOPE).cast::<Envelope>();
        // SAFETY: each request of this major version begins so.
        Self { request: unsafe { &*place.cast::<Request>() }, envelope }
    }

    /// True for a send or a receive.
    #[inline]
    pub(super) fn is_message(self) -> bool {
        self.request.kind.get() == MESSAGE
    }

    /// The status, as far as it is known.
    pub(super) fn status(self) -> MPI_Status {
        self.request.status.get()
    }

    /// What cancels it.
    pub(super) fn cancel(self) -> &'a Cell<Cancel> {
        &self.request.cancel
    }

    /// The other process of a message.
    #[inline]
    pub(super) fn peer(self) -> &'a Cell<c_int> {
        // SAFETY: a message is longer than other requests, and has it there.
        unsafe { &(*self.envelope).peer }
    }

    /// Where it came from, and its tag if it is a message.
    fn origin(self) -> (Origin, c_int) {
        let object = self.request.object.get();
        // SAFETY: a handle is a pointer to the object; it is used for what has a communicator.
        let comm = unsafe { mem::transmute_copy::<*mut c_void, MPI_Comm>(&object) };
        match self.request.kind.get() {
            _ if object.is_null() => (Origin::Other, 0),
            MESSAGE => {
                // SAFETY: as for the peer.
                let tag = unsafe { (*self.envelope).tag.get() };
                (Origin::Message(comm, self.peer().get()), tag)
            }
            COLLECTIVE => (Origin::Collective(comm), 0),
            _ => (Origin::Other, 0),
        }
    }
}

/// Where a request came from.
///
/// # Safety
///
/// It is live, and one that MPI gives for this operation only.
pub(in crate::mpi) unsafe fn origin(raw: MPI_Request) -> Origin {
    // SAFETY: our caller's promise.
    unsafe { Place::of(raw) }.map_or(Origin::Other, |place| place.origin().0)
}

/// Looks whether messages of this process to itself are as expected.
fn examine() -> Checked<bool> {
    let alone = Comm::alone()?.raw();
    let expected = (Origin::Message(alone, 0), TAG);
    let (receive, send) = (Probe::new()?, Probe::new_send()?);
    // SAFETY: both are live.
    let found = [receive.raw(), send.raw()].map(|raw| unsafe { Place::at(raw.0.cast()) }.origin());
    receive.drop_inactive();
    send.drop_inactive();
    Ok(found == [expected, expected])
}
