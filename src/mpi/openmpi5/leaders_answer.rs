//! The leader of a group waits for ever for a dead one when two groups make a communicator.
//!
//! **Symptom** `MPI_Intercomm_create` and `MPI_Intercomm_merge` never return at a leader whose
//! partner dies in them, or they send to a partner that has no connection any more, and the process
//! ends by SIGSEGV. When the leader gives up and revokes the communicator of its group, the others
//! look for a number again and again. That is found by steps with messages as parts of a larger
//! request (`ompi_comm_request_schedule_append`). A receive from a dead process ends when it is
//! waited for or tested, but the larger request only looks whether its parts have ended; and what a
//! step returns takes the place of an error of a part. Here the parts are noted when they are
//! added, and tested while MPI makes progress; and each step is an error once a process is dead or
//! the communicator revoked.
//!
//! **Versions** each Open MPI 5: the code of 5.0.9 was read, that of the library as well.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `ompi_comm_request_progress` calls `ompi_request_is_failed` for its parts.
//!
//! **Test** `a_death_at_each_step_of_the_link_of_old_and_new_processes_holds_up_nobody`
//! (`ffi/tests/c`).
//!
//! **Guarantees.** Only requests that the library is done with, or that belong to an operation
//! under way, are tested: a part that has ended stays noted until its larger request is given back,
//! and its memory is one of MPI's pool of requests, which say themselves that they have ended.

use std::{
    cell::Cell,
    ffi::{CStr, c_int, c_void},
    mem, ptr, slice,
    sync::{Mutex, OnceLock, PoisonError},
};

use mpi::ffi;
use smallvec::SmallVec;

use super::redirect;
use crate::mpi::calls::{
    comm::Comm,
    inside,
    library::{self, PROC_FAILED},
    ulfm::{self, Ulfm},
};

const APPEND: &CStr = c"ompi_comm_request_schedule_append_w_flags";
const GIVE_BACK: &CStr = c"ompi_comm_request_return";

type Step = unsafe extern "C" fn(*mut c_void) -> c_int;
type Append =
    unsafe extern "C" fn(*mut c_void, Option<Step>, *mut *mut c_void, c_int, u32) -> c_int;
type GiveBack = unsafe extern "C" fn(*mut c_void);
type IsFailed = unsafe extern "C" fn(*mut c_void) -> bool;
type IsActive = unsafe extern "C" fn(ffi::MPI_Comm, c_int, bool) -> bool;
type Register = unsafe extern "C" fn(extern "C" fn() -> c_int) -> c_int;

/// The functions of the library that this process runs with.
#[derive(Clone, Copy, Debug)]
struct Functions {
    append: Append,
    give_back: GiveBack,
    is_failed: IsFailed,
    is_active: IsActive,
    register: Register,
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// The library refuses more of them.
const MOST_PARTS: usize = 2;
/// More larger requests than are usually under way: none costs memory in the middle of a block.
const ROOM: usize = 64;

/// What is done when the parts of a larger request have ended, and those parts.
#[derive(Clone, Copy, Debug)]
struct Noted {
    larger: *mut c_void,
    step: Option<Step>,
    parts: [*mut c_void; MOST_PARTS],
}

/// A link of two groups in the making.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Linking {
    /// What the number is looked for over: one of this group, or of both.
    pub(in crate::mpi) comm: Comm,
    /// The other leader, where this process leads its group.
    pub(in crate::mpi) leader: Option<Leader>,
}

/// A process, as a communicator names it.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Leader {
    pub(in crate::mpi) comm: Comm,
    pub(in crate::mpi) rank: u32,
    /// It belongs to the other group of a communicator of two groups.
    pub(in crate::mpi) is_remote: bool,
}

// SAFETY: its pointers are names for the library, whose functions any thread may call that it lets
// call MPI.
unsafe impl Send for Noted {}

/// What is under way; nothing before MPI has first called us. A thread that makes progress takes
/// the steps of all threads.
static NOTED: Mutex<Option<Vec<Noted>>> = Mutex::new(None);

thread_local! {
    static LINKING: Cell<Option<Linking>> = const { Cell::new(None) };
}

impl Linking {
    /// True when it can only fail.
    fn is_in_vain(&self) -> bool {
        let is_dead = self.leader.is_some_and(|Leader { comm, rank, is_remote }| {
            // SAFETY: a live communicator that has this rank.
            !unsafe { (functions().is_active)(comm.raw(), rank.cast_signed(), is_remote) }
        });
        // The other leader may have given up, and revoked what it is known by.
        let comms = [Some(self.comm), self.leader.map(|leader| leader.comm)];
        let is_disturbed = |ulfm: &'static Ulfm| {
            let disturbance = |comm: Comm| inside::nested(|| comm.disturbance(ulfm));
            comms.into_iter().flatten().find_map(disturbance).is_some()
        };
        is_dead || ulfm::find().is_some_and(is_disturbed)
    }
}

impl Functions {
    fn look_up() -> Option<Self> {
        let append = ulfm::symbol(APPEND)?;
        let give_back = ulfm::symbol(GIVE_BACK)?;
        let is_failed = ulfm::symbol(c"ompi_request_is_failed_fn")?;
        let is_active = ulfm::symbol(c"ompi_comm_is_proc_active")?;
        let register = ulfm::symbol(c"opal_progress_register_lp")?;
        Some(Self {
            // SAFETY: in this major version the function of this name has this type, as all below.
            append: unsafe { mem::transmute::<*mut c_void, Append>(append) },
            // SAFETY: as above.
            give_back: unsafe { mem::transmute::<*mut c_void, GiveBack>(give_back) },
            // SAFETY: as above.
            is_failed: unsafe { mem::transmute::<*mut c_void, IsFailed>(is_failed) },
            // SAFETY: as above.
            is_active: unsafe { mem::transmute::<*mut c_void, IsActive>(is_active) },
            // SAFETY: as above.
            register: unsafe { mem::transmute::<*mut c_void, Register>(register) },
        })
    }
}

/// Makes the exchange of leaders end when one of them dies.
pub(super) fn mend() -> Option<()> {
    FUNCTIONS.get_or_init(Functions::look_up).as_ref()?;
    let (append, give_back): (Append, GiveBack) = (noted_append, noted_give_back);
    // SAFETY: the types of both functions. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(GIVE_BACK, give_back as *const c_void) }?;
    // SAFETY: as above.
    unsafe { redirect(APPEND, append as *const c_void) }
}

/// Makes a call of MPI that links two groups.
pub(in crate::mpi) fn while_linking<T>(linking: Linking, call: impl FnOnce() -> T) -> T {
    LINKING.set(Some(linking));
    let made = call();
    LINKING.set(None);
    made
}

fn functions() -> &'static Functions {
    FUNCTIONS.get().and_then(Option::as_ref).expect("looked up before MPI calls us")
}

/// Acts on what is noted, unless MPI is not to call [`on_progress`].
fn with_noted<T>(action: impl FnOnce(&mut Vec<Noted>) -> T) -> Option<T> {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.is_none() {
        // SAFETY: MPI runs, as it calls us; the function lives for ever.
        let refused = unsafe { (functions().register)(on_progress) } != 0;
        *noted = (!refused).then(|| Vec::with_capacity(ROOM));
    }
    noted.as_mut().map(action)
}

unsafe extern "C" fn noted_append(
    larger: *mut c_void,
    mut step: Option<Step>,
    parts: *mut *mut c_void,
    count: c_int,
    flags: u32,
) -> c_int {
    if let Ok(count @ 1..=MOST_PARTS) = usize::try_from(count) {
        let mut new = Noted { larger, step, parts: [ptr::null_mut(); MOST_PARTS] };
        // SAFETY: so many parts, says the library.
        new.parts[..count].copy_from_slice(unsafe { slice::from_raw_parts(parts, count) });
        if with_noted(|noted| noted.push(new)).is_some() {
            step = Some(step_unless_dead);
        }
    }
    // SAFETY: the arguments of our caller, who meant this function; the step takes the request.
    unsafe { (functions().append)(larger, step, parts, count, flags) }
}

unsafe extern "C" fn noted_give_back(larger: *mut c_void) {
    with_noted(|noted| noted.retain(|it| !ptr::eq(it.larger, larger)));
    // SAFETY: the argument of our caller, who meant this function.
    unsafe { (functions().give_back)(larger) };
}

/// The next step of a larger request. The steps of one are taken in the order of their noting.
unsafe extern "C" fn step_unless_dead(larger: *mut c_void) -> c_int {
    let first = with_noted(|noted| {
        let at = noted.iter().position(|it| ptr::eq(it.larger, larger))?;
        noted.remove(at).step
    });
    match first.flatten() {
        Some(_) if LINKING.get().is_some_and(|linking| linking.is_in_vain()) => PROC_FAILED,
        // SAFETY: the step of this request, which the library would take now.
        Some(step) => unsafe { step(larger) },
        None => 0,
    }
}

/// MPI makes progress.
extern "C" fn on_progress() -> c_int {
    // Others may note while the library is asked.
    let parts: SmallVec<[*mut c_void; MOST_PARTS * 8]> =
        with_noted(|noted| noted.iter().flat_map(|it| it.parts).collect()).unwrap_or_default();
    if !parts.is_empty() && library::finalized() == Ok(false) {
        for part in parts.into_iter().filter(|part| !part.is_null()) {
            // SAFETY: a request of MPI's pool, see above; a failed one is ended by this.
            unsafe { (functions().is_failed)(part) };
        }
    }
    0
}
