//! MPI frees a request with the call that tells of its end, and gives its number out again.
//!
//! **Symptom** A program gives a request to a block and keeps copies of the handle, for which it
//! waits, or which it frees, when the block is over. `MPI_Test` by the block frees the request, and
//! the next operation has the same number: the copies would be those of another operation.
//! `MPI_Request_get_status` frees nothing, but tells of no error. And a handle is a number here:
//! no function in the request could be replaced, as Open MPI's room does.
//!
//! So a request that is kept is tested, and when it is over its number is taken again at once, by a
//! request that stands for it until the program has freed it. Until then the calls of the program
//! that end or free requests ask here first: the binding for C has functions of their names, which
//! stand before MPI's ([`stand_before`]).
//!
//! **Versions** each MPICH 5. A request of this process is examined first: where its number is not
//! given out again at once no request is kept, and programs that own their MPI are told so.
//!
//! **Upstream** not reported: no defect of MPICH, but a gap of the standard.
//!
//! **Delete when** MPI has a call that completes a request without freeing it, error included.
//!
//! **Test** `copies_of_handles_live_until_they_are_freed` (`ffi/tests/c`, with `--mpi mpich`).

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{c_int, c_void},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mpi::ffi::{self, MPI_Request, MPI_Status};

pub(in crate::mpi) use crate::mpi::calls::kept::Free;
use crate::{
    error::Error,
    fault::class::INTERN,
    mpi::calls::{
        inside,
        kept::Probe,
        library::{self, Checked, Refusal, check},
        request::{Done, Request, Types, empty_status},
    },
};

/// So many numbers are asked for, at most, until the one comes that was free last.
const TRIES: usize = 16;
/// The upper two bits of the numbers of requests that MPI gives for many operations.
const SHARED: u32 = 1;

/// How far a kept request is.
pub(in crate::mpi) enum Seen {
    Pending,
    /// A receive from any source, of which one has died.
    #[allow(dead_code, reason = "this MPI hears of no death")]
    Wildcard,
    /// It is over, with this status and error class.
    Over(Done, i32),
}

/// A request that is kept.
#[derive(Default)]
struct Held {
    /// What is called when it is freed, unless a block has it.
    instead: Option<Free>,
    was_freed: bool,
    /// What it came to.
    over: Option<(MPI_Status, i32)>,
    /// It can be started again.
    is_persistent: bool,
    /// It was started again, or has failed.
    is_active: bool,
}

thread_local! {
    static KEPT: RefCell<HashMap<c_int, Held>> = RefCell::default();
}

/// Functions of the binding stand before those of MPI that end or free requests.
static IS_BEFORE: AtomicBool = AtomicBool::new(false);

/// How requests are kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Keeping(());

/// What frees a request that is kept, and what is told of one that is not.
static MARKS: [Free; 2] = [let_go, NOTHING];
const NOTHING: Free = nothing;

impl Keeping {
    /// How requests are kept with this library.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where the program has MPI's own functions, or with a library whose
    /// numbers are given out in another order.
    pub(in crate::mpi) fn find() -> Result<&'static Self, Error> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        if !IS_BEFORE.load(Relaxed) {
            let why = "on MPICH, fampi has to come before MPI: link with -lfampi, and by mpicc, \
                       which puts MPI behind it";
            return Err(Error::Unsupported(why.to_owned()));
        }
        if *FOUND.get_or_init(|| examine().unwrap_or(false)) {
            return Ok(&Self(()));
        }
        let version = library::library_version().unwrap_or_default();
        let version = version.lines().next().unwrap_or_default();
        Err(Error::Unsupported(format!(
            "requests of this MPI cannot be kept, use MPICH 5: {version}"
        )))
    }

    /// Frees nothing.
    pub(in crate::mpi) const NO_FREE: Free = NOTHING;

    /// Whether a request is a message is not known.
    pub(in crate::mpi) fn frees_messages(self, _: Free) -> bool {
        false
    }

    /// What frees a request.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn free_of(self, request: MPI_Request) -> Free {
        let is_kept = KEPT.with_borrow(|kept| kept.contains_key(&request.0));
        MARKS[usize::from(!is_kept)]
    }

    /// True for what frees a request that is kept.
    pub(in crate::mpi) fn is_of_kept(self, free: Free, _: Free) -> bool {
        ptr::fn_addr_eq(free, MARKS[0])
    }

    /// Keeps a request that a block has: what frees it marks it as freed, and no more. Gives what
    /// frees it in the end.
    ///
    /// # Safety
    ///
    /// The request is live, and not one that MPI gives for many operations.
    pub(in crate::mpi) unsafe fn keep_shared(self, request: MPI_Request) -> Free {
        change(request, |held| (held.instead, held.was_freed) = (None, false));
        MARKS[0]
    }

    /// True for a request that was marked so, and was freed.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn was_freed(self, request: MPI_Request) -> bool {
        KEPT.with_borrow(|kept| kept.get(&request.0).is_some_and(|held| held.was_freed))
    }

    /// Keeps a request: what frees it calls this function instead. Gives what frees it in the end.
    ///
    /// # Safety
    ///
    /// The request is live, and not one that MPI gives for many operations.
    pub(in crate::mpi) unsafe fn keep(self, request: MPI_Request, instead: Free) -> Free {
        change(request, |held| (held.instead, held.was_freed) = (Some(instead), false));
        MARKS[0]
    }

    /// Ends that: it is the program's alone.
    ///
    /// # Safety
    ///
    /// The request is kept.
    pub(in crate::mpi) unsafe fn give_back(self, request: MPI_Request, _: Free) {
        change(request, |held| held.instead = Some(let_go));
    }

    /// Nothing is known without a call.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn is_whole(self, _: MPI_Request, _: Free) -> bool {
        false
    }

    /// What is said of a message that is over: nothing, as none is known to be so without a call.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn status(self, _: MPI_Request) -> MPI_Status {
        empty_status()
    }

    /// Looks at a request, which makes progress. It stays.
    ///
    /// # Safety
    ///
    /// The request is kept.
    pub(in crate::mpi) unsafe fn look(self, request: &Request) -> Checked<Seen> {
        let raw = request.raw();
        let over = KEPT.with_borrow(|kept| kept.get(&raw.0).and_then(|held| held.over));
        if let Some((status, class)) = over {
            return Ok(Seen::Over(Done::new(status), class));
        }
        let _inside = inside::ordinary();
        let (mut copy, mut flag, mut status) = (raw, 0, empty_status());
        // SAFETY: live, as it is kept; the results are variables of ours.
        let code = unsafe { ffi::PMPI_Test(&raw mut copy, &raw mut flag, &raw mut status) };
        if code == 0 && flag == 0 {
            return Ok(Seen::Pending);
        }
        let class = check("MPI_Test", code).err().map_or(0, |refusal| refusal.class);
        let is_persistent = copy == raw;
        if !is_persistent && !stand_for(raw) {
            return Err(Refusal { call: "MPI_Grequest_start", class: INTERN });
        }
        change(raw, |held| {
            held.over = Some((status, class));
            (held.is_persistent, held.is_active) = (is_persistent, class != 0);
        });
        Ok(Seen::Over(Done::new(status), class))
    }

    /// Does nothing: nothing here reads a tag out of a request.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn set_tag(self, _: MPI_Request, _: c_int) {}

    /// True for a request that can be started again, once it is over.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn is_persistent(self, request: MPI_Request) -> bool {
        KEPT.with_borrow(|kept| kept.get(&request.0).is_some_and(|held| held.is_persistent))
    }

    /// True for a request that was started since it was over, or that has failed.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in crate::mpi) unsafe fn is_active(self, request: MPI_Request) -> bool {
        KEPT.with_borrow(|kept| kept.get(&request.0).is_some_and(|held| held.is_active))
    }
}

/// Notes something about a request, which is kept from now on.
fn change(request: MPI_Request, note: impl FnOnce(&mut Held)) {
    KEPT.with_borrow_mut(|kept| note(kept.entry(request.0).or_default()));
}

/// Whether the number of a request that was freed is given out again at once, by a receive of this
/// process from itself.
fn examine() -> Checked<bool> {
    let mut probe = Probe::new()?;
    probe.start()?;
    probe.complete()?;
    let raw = probe.raw();
    probe.end()?;
    let is_held = stand_for(raw);
    if is_held {
        free_plainly(raw);
    }
    Ok(is_held && !is_shared(raw, raw))
}

/// Takes the number that was free last, by a request that is over; false when another one comes.
fn stand_for(wanted: MPI_Request) -> bool {
    let mut others = Vec::new();
    let found = (0..TRIES).any(|_| match complete_request() {
        Some(made) if made == wanted => true,
        made => {
            others.extend(made);
            false
        }
    });
    others.into_iter().for_each(free_plainly);
    found
}

/// A request that is over.
fn complete_request() -> Option<MPI_Request> {
    let (query, free, cancel) = (Some(tell_nothing as _), Some(nothing_to_free as _), None);
    // SAFETY: reading a constant that MPI's library defines.
    let mut made = unsafe { ffi::RSMPI_REQUEST_NULL };
    let cancel = cancel.or(Some(nothing_to_cancel as _));
    // SAFETY: the functions have the types that MPI wants, and need no state.
    let code =
        unsafe { ffi::PMPI_Grequest_start(query, free, cancel, ptr::null_mut(), &raw mut made) };
    if code != 0 {
        return None;
    }
    // SAFETY: made above, and not complete.
    let code = unsafe { ffi::PMPI_Grequest_complete(made) };
    (code == 0).then_some(made)
}

unsafe extern "C" fn tell_nothing(_: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: a status of MPI's.
    let _ = unsafe { ffi::MPI_Status_set_elements(status, Types::bytes(), 0) };
    // SAFETY: as above.
    unsafe { ffi::MPI_Status_set_cancelled(status, 0) }
}

unsafe extern "C" fn nothing_to_free(_: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn nothing_to_cancel(_: *mut c_void, _: c_int) -> c_int {
    0
}

fn free_plainly(mut request: MPI_Request) {
    // SAFETY: live, and used no more.
    let _ = unsafe { ffi::PMPI_Request_free(&raw mut request) };
}

unsafe extern "C" fn nothing(_: *mut MPI_Request) -> c_int {
    0
}

/// Frees a request that was kept, which is over or goes on alone.
unsafe extern "C" fn let_go(slot: *mut MPI_Request) -> c_int {
    // SAFETY: our caller's variable.
    let raw = unsafe { *slot };
    KEPT.with_borrow_mut(|kept| kept.remove(&raw.0));
    // SAFETY: live; our caller's variable.
    unsafe { ffi::PMPI_Request_free(slot) }
}

/// Functions of the binding stand before MPI's, if this is one of its own, found by MPI's name.
pub fn stand_before(is_before: bool) {
    IS_BEFORE.store(is_before, Relaxed);
}

/// Frees a request if it is kept: the variable becomes null, and whoever keeps it hears of that.
///
/// # Safety
///
/// The pointer is to a request.
pub unsafe fn free_kept(slot: *mut MPI_Request) -> bool {
    // SAFETY: our caller's promise.
    let raw = unsafe { *slot };
    let instead = KEPT.with_borrow_mut(|kept| {
        let held = kept.get_mut(&raw.0)?;
        held.was_freed |= held.instead.is_none();
        Some(held.instead)
    });
    match instead {
        None => return false,
        // SAFETY: a function for this variable.
        Some(Some(instead)) => _ = unsafe { instead(slot) },
        // SAFETY: our caller's promise, and reading a constant that MPI's library defines.
        Some(None) => unsafe { *slot = ffi::RSMPI_REQUEST_NULL },
    }
    true
}

/// The program has started a persistent request again, which is kept or not.
pub fn note_started(request: MPI_Request) {
    KEPT.with_borrow_mut(|kept| {
        if let Some(held) = kept.get_mut(&request.0) {
            (held.over, held.is_active) = (None, true);
        }
    });
}

/// True for a request that MPI gives for many operations: for whatever was over when it started.
pub(in crate::mpi) fn is_shared(request: MPI_Request, _: MPI_Request) -> bool {
    request.0.cast_unsigned() >> 30 == SHARED
}
