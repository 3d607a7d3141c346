//! A call that makes a communicator waits for the dead for ever.
//!
//! **Symptom** `MPI_Comm_dup`, `_split`, `_create_group`, `MPI_Intercomm_create` and `_merge` look
//! for a number that is free on all processes, by messages that they wait for inside. When a
//! process dies meanwhile the others never return, and nothing can end what they wait for. So such
//! a call runs on a stack of its own. While it waits MPI makes progress, and the library below it
//! is asked for news: there we look for deaths, and when one of those who take part is dead the
//! call is left where it stands, for ever, with its stack, as MPI may still write to it. The caller
//! goes on with an error. What was left holds a number at most: MPI sets some apart for a first
//! try, which a call that was left may keep, and takes others in a second one.
//!
//! **Versions** each MPICH 5.0 whose messages go by UCX, the default: the source was read.
//!
//! **Upstream** not reported: by the standard the end of a process is undefined.
//!
//! **Delete when** these calls return an error then.
//!
//! **Test** `a_communicator_made_in_a_block_ends_alike_for_all_whenever_a_rank_dies` (`tests/mpi`,
//! with `--mpi mpich`).
//!
//! **Guarantees.** A call is left in one place only, the call of `ucp_worker_progress` in the
//! library of MPI, at which MPI is as between two calls of a program with one thread: it holds no
//! lock, and other calls may begin. The stack is never entered again.

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, c_uint, c_void},
    mem,
    rc::Rc,
    sync::OnceLock,
};

use generator::Gn;
use mpi::ffi;

use super::list_of_the_dead as dead;
use crate::mpi::calls::{comm::Partners, redirect::redirect, ulfm};

/// The function of MPI that no tool puts its own in the place of.
const OF_THE_LIBRARY: &CStr = c"PMPI_Comm_dup";
const PROGRESS: &CStr = c"ucp_worker_progress";
/// In machine words: four megabytes, of which only what is used is real.
const STACK_WORDS: usize = 0x8_0000;

type Progress = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// The function of UCX, once MPI's calls of it come to us.
static ORIGINAL: OnceLock<Progress> = OnceLock::new();

/// Who may not die while a call is under way.
#[derive(Debug)]
pub(super) enum Mortals {
    /// These, by their names.
    Named(Vec<u64>),
    /// Anybody: so many were dead when it began.
    Anybody(usize),
    /// New processes, of whom nothing is known: so many were dead when it began.
    Strangers(usize),
}

impl Mortals {
    fn of(partners: Partners) -> Self {
        // Whoever was dead before takes no part.
        dead::catch_up();
        match partners {
            Partners::Unknown => Self::Anybody(dead::number()),
            Partners::New => Self::Strangers(dead::strangers()),
            Partners::Of(comm) => Self::Named(names_of(comm)),
        }
    }

    fn have_died(&self) -> bool {
        match self {
            Self::Named(names) => dead::has_one_of(names),
            Self::Anybody(before) => dead::number() > *before,
            Self::Strangers(before) => dead::strangers() > *before,
        }
    }
}

thread_local! {
    /// For the call that is under way on its own stack.
    static MORTALS: RefCell<Option<Mortals>> = const { RefCell::new(None) };
    /// One of them has died, and the call is to be left.
    static IS_IN_VAIN: Cell<bool> = const { Cell::new(false) };
}

/// The names of all processes of a communicator, or of a link between two groups.
fn names_of(comm: ffi::MPI_Comm) -> Vec<u64> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
    // SAFETY: a live communicator, says whoever called us; the result is a variable of ours.
    if unsafe { ffi::MPI_Comm_group(comm, &raw mut group) } != 0 {
        return Vec::new();
    }
    let names = dead::names_of(group);
    // SAFETY: made above, and used no more.
    let _ = unsafe { ffi::MPI_Group_free(&raw mut group) };
    names
}

/// Has MPI's calls for progress come to us.
pub(super) fn mend() -> Option<()> {
    let original = ulfm::symbol(PROGRESS)?;
    // SAFETY: the function of this name has this type, by the header of UCX.
    let original = unsafe { mem::transmute::<*mut c_void, Progress>(original) };
    ORIGINAL.get_or_init(|| original);
    let ours: Progress = progress_or_leave;
    // SAFETY: the type of that function. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(OF_THE_LIBRARY, PROGRESS, ours as *const c_void) }
}

/// MPI waits, and asks the library below it for news.
unsafe extern "C" fn progress_or_leave(worker: *mut c_void) -> c_uint {
    if generator::is_generator() && MORTALS.with_borrow(Option::is_some) {
        dead::look();
        if MORTALS.with_borrow(|mortals| mortals.as_ref().is_some_and(Mortals::have_died)) {
            leave();
        }
    }
    // SAFETY: set before the first call of this function; the argument of our caller.
    unsafe { ORIGINAL.get().expect("set before MPI calls us")(worker) }
}

/// Leaves the call that is under way, for ever.
#[expect(deprecated, reason = "a scope cannot be handed through MPI")]
fn leave() {
    IS_IN_VAIN.set(true);
    generator::yield_with(());
}

/// What one thread alone does.
struct Here<F>(F);

// SAFETY: the stack with it is entered by the thread that has made it, and left by that thread.
unsafe impl<F> Send for Here<F> {}

impl<F: FnOnce()> Here<F> {
    fn live(self) {
        (self.0)();
    }
}

/// Makes a call of MPI; `None` when one of those who take part has died and it was left.
pub(in crate::mpi) fn unless_dead<T: 'static>(
    partners: Partners,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    while_living(Mortals::of(partners), call)
}

/// The same for those who are called so.
pub(super) fn while_living<T: 'static>(
    mortals: Mortals,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    let result = Rc::new(Cell::new(None));
    let there = Rc::clone(&result);
    let life = Here(move || there.set(Some(call())));
    let mut stack = Gn::<()>::new_opt(STACK_WORDS, move || life.live());
    let outer = MORTALS.replace(Some(mortals));
    stack.resume();
    MORTALS.set(outer);
    if IS_IN_VAIN.take() {
        tracing::debug!("a call of MPI was left: it waits for the dead");
        // MPI may still write to what it has there.
        mem::forget(stack);
    }
    result.take()
}
