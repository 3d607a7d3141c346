//! MPI frees a request with the call that tells of its end, and no call tells of its errors before.
//!
//! **Symptom** A program gives a request to a block and keeps copies of the handle, for which it
//! waits, or which it frees, when the block is over. `MPI_Test` by the block would free the
//! request, MPI would give the handle out again, and the copies would be those of another
//! operation. `MPI_Request_get_status` frees nothing; but it tells of no error, nor does it look
//! whether the peer of the request has died.
//!
//! So a request that is kept is asked by `MPI_Request_get_status`, by the library's own look for
//! failures (`ompi_request_is_failed_fn`), and by the error in it, which every completing call
//! would read there. A message that is over says so in its request, where the status is that the
//! call would copy: then MPI is not called. Every call that frees a request does so by a function
//! whose address is in the request; a kept one has another there, which gives the caller its
//! `MPI_REQUEST_NULL` and leaves the request as it is, so that it can be waited for by the next
//! copy. Which function is there says, too, whether the program has freed it.
//!
//! **Versions** each Open MPI 5. A request of this process is examined first, in each of its
//! states: where it does not look and work as expected no request is kept, and programs that own
//! their MPI are told so.
//!
//! **Upstream** not reported: no defect of Open MPI, but a gap of the standard.
//!
//! **Delete when** MPI has a call that completes a request without freeing it, error included.
//!
//! **Test** `copies_of_handles_live_until_they_are_freed` (`ffi/tests/c`).

use std::{
    cell::Cell,
    ffi::{CStr, c_int, c_void},
    ptr,
    sync::{
        OnceLock,
        atomic::{
            AtomicPtr, AtomicUsize,
            Ordering::{Acquire, Relaxed},
        },
    },
};

use mpi::ffi::{self, MPI_Request, MPI_Status};

use super::{is_loaded, matched_wildcards};
pub(in crate::mpi) use crate::mpi::calls::kept::Free;
use crate::{
    error::Error,
    fault::class::OTHER,
    mpi::calls::{
        kept::Probe,
        library::{self, Checked, PROC_FAILED, PROC_FAILED_PENDING, check},
        request::{Done, Request},
        ulfm,
    },
};

type IsFailed = unsafe extern "C" fn(MPI_Request) -> bool;

/// Where [`Part`] begins in a request.
const PART: usize = 64;
/// What stands for the waiting threads in a request that is over.
const COMPLETED: usize = 1;
/// States of a request.
const INACTIVE: c_int = 1;
const ACTIVE: c_int = 2;
/// Looks whether an operation can still end.
const IS_FAILED: &CStr = c"ompi_request_is_failed_fn";

/// What every request has in common, from its status on (`ompi/request/request.h`). MPI writes to
/// it in its calls, so it is never borrowed across one.
#[repr(C)]
struct Part {
    status: Cell<MPI_Status>,
    complete: Cell<*mut c_void>,
    state: Cell<c_int>,
    persistent: Cell<u8>,
    _fortran: c_int,
    _start: *mut c_void,
    free: Cell<Free>,
}

/// How far a kept request is.
pub(in crate::mpi) enum Seen {
    Pending,
    /// A receive from any source, of which one has died.
    Wildcard,
    /// It is over, with this status and error class.
    Over(Done, i32),
}

/// How requests are kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Keeping {
    /// Where the part of a request begins that [`Part`] tells of.
    at: usize,
    is_failed: IsFailed,
    /// The functions that free a receive and a send. What has another may be of the kind that MPI
    /// asks for its status when it is over.
    messages: [Free; 2],
    /// What marks a request as freed, and what it has then. A function may have several addresses:
    /// these are compared.
    shared: Free,
    freed: Free,
}

impl Keeping {
    /// How requests are kept with this library.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] with a library whose requests are others than expected.
    #[inline]
    pub(in crate::mpi) fn find() -> Result<&'static Self, Error> {
        static FOUND: OnceLock<Option<Keeping>> = OnceLock::new();
        match FOUND.get() {
            Some(Some(found)) => Ok(found),
            _ => Self::find_first(&FOUND),
        }
    }

    #[cold]
    fn find_first(found: &'static OnceLock<Option<Self>>) -> Result<&'static Self, Error> {
        let found = found.get_or_init(|| Self::examine().ok().flatten());
        found.as_ref().ok_or_else(|| {
            let version = library::library_version().unwrap_or_default();
            Error::Unsupported(format!(
                "requests of this MPI cannot be kept, use Open MPI 5.0.9: {version}"
            ))
        })
    }

    /// Looks whether requests are as expected, by one of this process to itself.
    fn examine() -> Checked<Option<Self>> {
        let Some(is_failed) = ulfm::symbol(IS_FAILED).filter(|_| is_loaded()) else {
            return Ok(None);
        };
        // SAFETY: in this major version the function of this name has this type.
        let is_failed = unsafe { std::mem::transmute::<*mut c_void, IsFailed>(is_failed) };
        let (messages, shared, freed): ([Free; 2], Free, Free) =
            ([note_free; 2], mark_freed, free_again);
        let mut keeping = Self { at: PART, is_failed, messages, shared, freed };
        let mut probe = Probe::new()?;
        let raw = probe.raw();
        let mut fits = keeping.is_persistent_and(raw, INACTIVE);
        let send = Probe::new_send()?;
        fits &= keeping.is_persistent_and(send.raw(), INACTIVE);
        keeping.messages = [raw, send.raw()].map(|raw| keeping.part(raw).free.get());
        send.drop_inactive();
        probe.start()?;
        fits &= keeping.is_persistent_and(raw, ACTIVE) && !keeping.is_complete(raw);
        let status = probe.complete()?;
        fits &= keeping.is_persistent_and(raw, ACTIVE) && keeping.has(raw, &status);
        fits &= keeping.is_complete(raw);
        if fits {
            // SAFETY: live, and as expected.
            let free = unsafe { keeping.keep(raw, note_free) };
            // SAFETY: kept.
            let freed = unsafe { probe.free_copy() };
            fits = freed && FREED.swap(0, Relaxed) == raw.0.addr();
            // SAFETY: live, as our function has been called in place of that of MPI.
            unsafe { keeping.give_back(raw, free) };
        }
        probe.end()?;
        Ok(fits.then_some(keeping))
    }

    /// The part of a request.
    #[inline]
    fn part<'a>(self, request: MPI_Request) -> &'a Part {
        let part = request.0.cast::<c_void>().wrapping_byte_add(self.at).cast::<Part>();
        // SAFETY: a request of this major version, live as our callers know, has this part.
        unsafe { &*part }
    }

    /// True when a persistent request is where it should be, and in this state.
    fn is_persistent_and(self, request: MPI_Request, state: c_int) -> bool {
        let part = self.part(request);
        part.state.get() == state && part.persistent.get() == 1
    }

    /// True when the request says that it is over.
    #[inline]
    fn is_complete(self, request: MPI_Request) -> bool {
        let complete = &self.part(request).complete;
        // SAFETY: MPI writes it in its calls, after the rest of the request.
        let complete = unsafe { AtomicPtr::from_ptr(complete.as_ptr()) };
        complete.load(Acquire).addr() == COMPLETED
    }

    /// True for a function that frees messages.
    #[inline]
    pub(in crate::mpi) fn frees_messages(self, free: Free) -> bool {
        self.messages.iter().any(|known| ptr::fn_addr_eq(*known, free))
    }

    /// What frees a request.
    ///
    /// # Safety
    ///
    /// The request is live.
    #[inline]
    pub(in crate::mpi) unsafe fn free_of(self, request: MPI_Request) -> Free {
        self.part(request).free.get()
    }

    /// True when the status is where it should be.
    fn has(self, request: MPI_Request, status: &MPI_Status) -> bool {
        let found = self.part(request).status.get();
        found.MPI_SOURCE == status.MPI_SOURCE
            && found.MPI_TAG == status.MPI_TAG
            && (found._cancelled, status._cancelled) == (1, 1)
            && found._ucount == status._ucount
            && found.MPI_ERROR == 0
    }

    /// Frees nothing.
    pub(in crate::mpi) const NO_FREE: Free = note_free;

    /// Keeps a request that a block has: what frees it marks it as freed, and no more. Gives what
    /// would have freed it.
    ///
    /// # Safety
    ///
    /// The request is live, and not one that MPI gives for many operations.
    #[inline]
    pub(in crate::mpi) unsafe fn keep_shared(self, request: MPI_Request) -> Free {
        self.part(request).free.replace(self.shared)
    }

    /// True for a request that was marked so, and was freed.
    ///
    /// # Safety
    ///
    /// The request is kept.
    #[inline]
    pub(in crate::mpi) unsafe fn was_freed(self, request: MPI_Request) -> bool {
        ptr::fn_addr_eq(self.part(request).free.get(), self.freed)
    }

    /// True for a function that a kept request has, which calls this one when no block has it.
    #[inline]
    pub(in crate::mpi) fn is_of_kept(self, free: Free, instead: Free) -> bool {
        let known = [self.shared, self.freed, instead];
        known.iter().any(|known| ptr::fn_addr_eq(*known, free))
    }

    /// Keeps a request: what frees it calls this function instead. Gives the one it had.
    ///
    /// # Safety
    ///
    /// The request is live, and not one that MPI gives for many operations.
    #[inline]
    pub(in crate::mpi) unsafe fn keep(self, request: MPI_Request, instead: Free) -> Free {
        self.part(request).free.replace(instead)
    }

    /// Ends that: MPI frees the request again as it did.
    ///
    /// # Safety
    ///
    /// The request is kept, and this is the function that it had.
    #[inline]
    pub(in crate::mpi) unsafe fn give_back(self, request: MPI_Request, free: Free) {
        self.part(request).free.set(free);
    }

    /// True for a message that says that it is over, without an error. No call is made.
    ///
    /// # Safety
    ///
    /// The request is kept, and this is the function that it had.
    #[inline]
    pub(in crate::mpi) unsafe fn is_whole(self, request: MPI_Request, free: Free) -> bool {
        let part = self.part(request);
        self.is_complete(request)
            && part.state.get() == ACTIVE
            && part.persistent.get() == 0
            && self.error(request) == 0
            && self.frees_messages(free)
    }

    /// The status of a message that is over.
    ///
    /// # Safety
    ///
    /// The request is kept, and [`Self::is_whole`].
    pub(in crate::mpi) unsafe fn status(self, request: MPI_Request) -> MPI_Status {
        self.part(request).status.get()
    }

    /// Looks at a request, which makes progress. It stays.
    ///
    /// # Safety
    ///
    /// The request is kept.
    pub(in crate::mpi) unsafe fn look(self, request: &Request) -> Checked<Seen> {
        if let Some(done) = request.status()? {
            return Ok(self.over(request.raw(), done));
        }
        // SAFETY: kept, so it is live, and for one operation.
        unsafe { matched_wildcards::protect(request.raw()) };
        // SAFETY: the function of this name takes a live request.
        if !unsafe { (self.is_failed)(request.raw()) } {
            return Ok(Seen::Pending);
        }
        if let Some(done) = request.status()? {
            return Ok(self.over(request.raw(), done));
        }
        let is_open = class_of(self.error(request.raw())) == PROC_FAILED_PENDING;
        Ok(if is_open { Seen::Wildcard } else { Seen::Pending })
    }

    /// What is complete. A receive from any source that was cancelled after a death has an error
    /// that says *pending* still, with which no call of MPI would let go of it.
    fn over(self, request: MPI_Request, done: Done) -> Seen {
        let class = match class_of(self.error(request)) {
            PROC_FAILED_PENDING => {
                let status = &self.part(request).status;
                status.set(MPI_Status { MPI_ERROR: PROC_FAILED, ..status.get() });
                PROC_FAILED
            }
            class => class,
        };
        Seen::Over(done, class)
    }

    /// Gives the status of a request that is over another tag.
    ///
    /// # Safety
    ///
    /// The request is kept.
    pub(in crate::mpi) unsafe fn set_tag(self, request: MPI_Request, tag: c_int) {
        let status = &self.part(request).status;
        status.set(MPI_Status { MPI_TAG: tag, ..status.get() });
    }

    /// The error in a request that is kept.
    fn error(self, request: MPI_Request) -> c_int {
        self.part(request).status.get().MPI_ERROR
    }

    /// True for a request that can be started again.
    ///
    /// # Safety
    ///
    /// The request is live.
    pub(in crate::mpi) unsafe fn is_persistent(self, request: MPI_Request) -> bool {
        self.part(request).persistent.get() != 0
    }

    /// True for a request that was started, and was not waited for since.
    ///
    /// # Safety
    ///
    /// The request is live.
    pub(in crate::mpi) unsafe fn is_active(self, request: MPI_Request) -> bool {
        self.part(request).state.get() != INACTIVE
    }
}

/// The class of an error that stands in a request. Negative numbers are MPI's own affair.
fn class_of(error: c_int) -> i32 {
    match error {
        0 => 0,
        1.. => check("MPI_Test", error).err().map_or(0, |refusal| refusal.class),
        _ => OTHER,
    }
}

/// What was freed last while a request was examined.
static FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn note_free(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of the caller.
    let freed = unsafe { ptr::replace(slot, null()) };
    FREED.store(freed.0.addr(), Relaxed);
    0
}

/// What frees a request that a block has: it says so in the request, where that block looks when
/// it is over.
unsafe extern "C" fn mark_freed(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of the caller.
    let freed = unsafe { ptr::replace(slot, null()) };
    if let Ok(keeping) = Keeping::find() {
        keeping.part(freed).free.set(keeping.freed);
    }
    0
}

/// What frees it again, by another copy of its handle.
unsafe extern "C" fn free_again(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of the caller.
    unsafe { slot.write(null()) };
    0
}

fn null() -> MPI_Request {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}
