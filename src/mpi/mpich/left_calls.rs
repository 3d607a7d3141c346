//! A call that makes a communicator waits for the dead for ever.
//!
//! **Symptom** `MPI_Comm_dup`, `_split`, `_create_group`, `MPI_Intercomm_create` and `_merge` look
//! for a number that is free on all processes, by messages that they wait for inside. When a
//! process dies meanwhile the others never return, and nothing can end what they wait for; so it is
//! in `MPI_Comm_spawn` with new processes, and in `MPI_Wait` for a collective. Such a call runs on
//! a stack of its own. While it waits MPI makes progress, and the library below it
//! is asked for news: there we look for deaths, and when one of those who take part is dead the
//! call is left where it stands, for ever, with its stack, as MPI may still write to it. The caller
//! goes on with an error.
//!
//! What MPI sets apart for the first try of such a call one that was left keeps, so later calls of
//! this process need a second try. One that is left in a second try keeps the rest: then this
//! process can take part in no communicator any more, and those who ask it to wait until the
//! watchdog ends them. It takes two deaths inside of such calls of one process, and nothing tells
//! us in which try a call was.
//!
//! Where threads may call MPI at once (`MPI_THREAD_MULTIPLE`) it has locks, and nothing is left.
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
//! **Guarantees.** A call is left in one place only, where the library of MPI calls
//! `ucp_worker_progress`: without threads it holds no lock there, and other calls may begin. The
//! stack is never entered again.

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, c_uint, c_void},
    mem, ptr,
    sync::OnceLock,
};

use libc::ucontext_t;
use mpi::ffi;

use super::{OF_THE_LIBRARY, list_of_the_dead as dead};
use crate::mpi::calls::{
    library,
    partners::{self, Partners},
    redirect::redirect,
    ulfm,
};

const PROGRESS: &CStr = c"ucp_worker_progress";
/// Bytes of a stack, of which only what is used is real, and of what guards it.
const STACK: usize = 4 << 20;
const GUARD: usize = 64 << 10;

type Progress = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// The function of UCX, once MPI's calls of it come to us.
static ORIGINAL: OnceLock<Progress> = OnceLock::new();

/// Whose death ends a call.
#[derive(Debug)]
enum Awaited {
    /// These, by their names.
    Named(Vec<u64>),
    /// Anybody: so many were dead when it began.
    Anybody(usize),
    /// New processes: this one had started so many jobs when it began.
    Newcomers(usize),
}

impl Awaited {
    fn of(partners: Partners) -> Self {
        match partners {
            Partners::Named(names) if names.is_empty() => Self::anybody(),
            Partners::Named(names) => Self::Named(names),
            Partners::New => Self::Newcomers(dead::jobs_started()),
            Partners::Of(comm) => {
                let names = names_of(comm);
                // New processes have no names until all have met.
                if names.len() < size_of(comm) { Self::anybody() } else { Self::Named(names) }
            }
        }
    }

    /// Who was dead before takes no part.
    fn anybody() -> Self {
        Self::Anybody(dead::known())
    }

    fn have_died(&self) -> bool {
        match self {
            Self::Named(names) => dead::has_one_of(names),
            Self::Anybody(before) => dead::number() > *before,
            Self::Newcomers(before) => dead::has_some_of_jobs_started_after(*before),
        }
    }
}

thread_local! {
    /// For the call that is under way on its own stack.
    static AWAITED: RefCell<Option<Awaited>> = const { RefCell::new(None) };
    /// The stack on which this thread is; null for its own.
    static STACK_IN_USE: Cell<*mut Stack> = const { Cell::new(ptr::null_mut()) };
    /// What is done first on the stack that is entered next.
    static FIRST_CALL: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A stack, and where the thread was before it entered it.
struct Stack {
    memory: *mut c_void,
    inside: ucontext_t,
    outside: ucontext_t,
    is_left: bool,
}

impl Stack {
    /// `None` when there is no memory.
    fn new() -> Option<Box<Self>> {
        let (rights, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, wherever it may be.
        let memory = unsafe { libc::mmap(ptr::null_mut(), STACK, rights, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the lowest bytes of what was mapped, which hold nothing yet.
        unsafe { libc::mprotect(memory, GUARD, libc::PROT_NONE) };
        // SAFETY: numbers and pointers, of which zeros are valid values.
        let [inside, outside] = [(); 2].map(|()| unsafe { mem::zeroed() });
        // A context refers to itself, so it is filled where it stays.
        let mut made = Box::new(Self { memory, inside, outside, is_left: false });
        // SAFETY: a variable of ours.
        if unsafe { libc::getcontext(&raw mut made.inside) } != 0 {
            // SAFETY: mapped above, and not used.
            unsafe { libc::munmap(memory, STACK) };
            return None;
        }
        made.inside.uc_stack.ss_sp = memory;
        made.inside.uc_stack.ss_size = STACK;
        made.inside.uc_link = &raw mut made.outside;
        // SAFETY: the context was filled above, and has a stack; the function takes no argument.
        unsafe { libc::makecontext(&raw mut made.inside, begin, 0) };
        Some(made)
    }

    /// Where the thread was before, and where it is there.
    ///
    /// # Safety
    ///
    /// The stack lives.
    unsafe fn contexts(stack: *mut Self) -> (*mut ucontext_t, *mut ucontext_t) {
        // SAFETY: our caller's promise.
        let outside = unsafe { &raw mut (*stack).outside };
        // SAFETY: as above.
        (outside, unsafe { &raw mut (*stack).inside })
    }

    /// Does this there; false when it was left for ever in the middle.
    fn run(self: Box<Self>, call: Box<dyn FnOnce()>) -> bool {
        FIRST_CALL.set(Some(call));
        let stack = Box::into_raw(self);
        let outer = STACK_IN_USE.replace(stack);
        // SAFETY: it lives until it is dropped below, and this thread alone uses it.
        let (outside, inside) = unsafe { Self::contexts(stack) };
        // SAFETY: both contexts live as long as the stack.
        unsafe { libc::swapcontext(outside, inside) };
        STACK_IN_USE.set(outer);
        // SAFETY: made above.
        let is_left = unsafe { (*stack).is_left };
        if !is_left {
            // SAFETY: it is at its end, and nothing refers to it any more.
            let over = unsafe { Box::from_raw(stack) };
            // SAFETY: what `new` has mapped.
            unsafe { libc::munmap(over.memory, STACK) };
        }
        !is_left
    }
}

/// The first function on each stack.
extern "C" fn begin() {
    if let Some(call) = FIRST_CALL.take() {
        call();
    }
}

/// How many processes a communicator has.
fn size_of(comm: ffi::MPI_Comm) -> usize {
    let mut size = 0;
    // SAFETY: a live communicator, says whoever called us; the result is a variable of ours.
    let _ = unsafe { ffi::MPI_Comm_size(comm, &raw mut size) };
    size as usize
}

/// The names of all processes of a communicator.
pub(super) fn names_of(comm: ffi::MPI_Comm) -> Vec<u64> {
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
    unsafe { redirect(OF_THE_LIBRARY, PROGRESS, ours as *const c_void) }?;
    partners::provide(run);
    Some(())
}

/// MPI waits, and asks the library below it for news.
unsafe extern "C" fn progress_or_leave(worker: *mut c_void) -> c_uint {
    if !STACK_IN_USE.get().is_null() {
        dead::look();
        if AWAITED.with_borrow(|awaited| awaited.as_ref().is_some_and(Awaited::have_died)) {
            leave();
        }
    }
    // SAFETY: set before the first call of this function; the argument of our caller.
    unsafe { ORIGINAL.get().expect("set before MPI calls us")(worker) }
}

/// Leaves the call that is under way, for ever.
fn leave() {
    let stack = STACK_IN_USE.get();
    // SAFETY: the stack on which this thread is, which lives for ever from now on.
    unsafe { (*stack).is_left = true };
    // SAFETY: as above.
    let (outside, inside) = unsafe { Stack::contexts(stack) };
    // SAFETY: as above; the thread has entered it from there.
    unsafe { libc::swapcontext(inside, outside) };
    unreachable!("a stack that was left is never entered again");
}

/// Makes a call of MPI; false when one of those who take part has died and it was left.
fn run(partners: Partners, call: Box<dyn FnOnce()>) -> bool {
    run_while_living(Awaited::of(partners), call)
}

fn run_while_living(awaited: Awaited, call: Box<dyn FnOnce()>) -> bool {
    let stack = if library::threads_may_call_at_once() { None } else { Stack::new() };
    let Some(stack) = stack else {
        call();
        return true;
    };
    let outer = AWAITED.replace(Some(awaited));
    let is_over = stack.run(call);
    AWAITED.set(outer);
    if !is_over {
        tracing::debug!("a call of MPI was left: it waits for the dead");
    }
    is_over
}

/// What a call of MPI gives; `None` when one of those who are called so has died and it was left.
pub(super) fn while_living<T: 'static>(
    names: Vec<u64>,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    partners::result_of(call, |call| run_while_living(Awaited::Named(names), call))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_call_is_left_in_the_middle_and_the_next_one_ends() {
        let seen = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let there = Rc::clone(&seen);
            let stack = Stack::new().expect("memory");
            let is_over = stack.run(Box::new(move || {
                there.set(there.get() + 1);
                leave();
                there.set(100);
            }));
            assert!(!is_over && STACK_IN_USE.get().is_null());
            let there = Rc::clone(&seen);
            let stack = Stack::new().expect("memory");
            assert!(stack.run(Box::new(move || there.set(10 * there.get()))));
            assert_eq!(seen.replace(0), 10);
        }
    }

    #[test]
    fn one_call_inside_of_another_can_be_left_and_the_outer_one_ends() {
        let is_over = Stack::new().expect("memory").run(Box::new(|| {
            let outer = STACK_IN_USE.get();
            assert!(!Stack::new().expect("memory").run(Box::new(leave)));
            assert_eq!(STACK_IN_USE.get(), outer);
        }));
        assert!(is_over);
    }
}
