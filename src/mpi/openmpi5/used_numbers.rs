//! A message of a communicator that failed or was freed reaches a later one with its number.
//!
//! **Symptom** `PML OB1 received a message from a rank outside the valid range of the
//! communicator`, and the job ends; or a later communicator gets a message that is none of its own.
//! MPI gives a number free as soon as a creation fails in a process, or a communicator is freed
//! there. Others may have made it, and sent a message on it, which MPI keeps until there is a
//! communicator with this number: perhaps one of this process alone, which has no such rank. So,
//! once fault tolerance is on, a number stays taken here after its use, by the mark that MPI itself
//! puts on numbers that are under discussion, which no message or news of a death reaches. Of the
//! many numbers that there are the one that has rested longest is used again.
//!
//! Those of communicators whose making failed, which are freed by [`for_ever`], are never used
//! again, as nothing bounds when the last message to them comes.
//!
//! **Versions** each Open MPI 5 from 5.0.4 on, where the mark is: the code of 5.0.9 was read, that
//! of the library as well. Where there are fewer numbers, the transports are not those that survive
//! a death.
//!
//! **Upstream** not reported.
//!
//! **Delete when** MPI does not keep messages for communicators that it does not know.
//!
//! **Test** `a_message_of_a_freed_communicator_reaches_no_later_one` (`ffi/tests/c`), and, now and
//! then, `a_second_node_is_lost_while_the_first_loss_is_mended` (`apps/fampi/tests/node`);
//! `attempts_that_fail_leave_no_communicators` for [`for_ever`].

use std::{
    collections::VecDeque,
    ffi::{CStr, c_int, c_void},
    mem, ptr,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{OF_THE_LIBRARY, redirect, version};
use crate::mpi::calls::{library, ulfm};

const SET: &CStr = c"opal_pointer_array_set_item";
/// What MPI puts in the place of a communicator that it may make.
const TAKEN: *mut c_void = ptr::without_provenance_mut(1);
/// The first version that has this mark.
const SINCE: (u32, u32, u32) = (5, 0, 4);
/// A number rests until so many others do: there are 65,535.
const RESTING: usize = 1 << 14;

type Set = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;

/// The function of the library, and the address of its communicators by their numbers.
static LIBRARY: OnceLock<(Set, usize)> = OnceLock::new();
/// All calls of that function come to us.
static IS_REDIRECTED: AtomicBool = AtomicBool::new(false);
/// Numbers rest after their use.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// What is given free now stays taken.
static IS_FOR_EVER: AtomicBool = AtomicBool::new(false);
/// The numbers that rest, the oldest first.
static RESTED: Mutex<VecDeque<c_int>> = Mutex::new(VecDeque::new());

/// Lets numbers rest, from [`begin`] on.
pub(super) fn mend() -> Option<()> {
    library::library_version().ok().and_then(|it| version(&it)).filter(|it| *it >= SINCE)?;
    let (set, communicators) = (ulfm::symbol(SET)?, ulfm::symbol(OF_THE_LIBRARY)?);
    // SAFETY: in this major version the function of this name has this type.
    let set = unsafe { mem::transmute::<*mut c_void, Set>(set) };
    LIBRARY.get_or_init(|| (set, communicators.addr()));
    let ours: Set = set_item;
    // SAFETY: the type of that function. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(SET, ours as *const c_void) }?;
    IS_REDIRECTED.store(true, Relaxed);
    Some(())
}

/// MPI is initialised.
pub(super) fn begin() {
    IS_ON.store(ulfm::is_on() == Some(true), Relaxed);
}

/// Frees communicators whose numbers are never used again. Nothing is freed where a number could
/// be.
pub(in crate::mpi) fn for_ever(free: impl FnOnce()) {
    if IS_REDIRECTED.load(Relaxed) {
        IS_FOR_EVER.store(true, Relaxed);
        free();
        IS_FOR_EVER.store(false, Relaxed);
    }
}

/// What to do when a number is given free or taken; the number that has rested long enough.
fn note(rested: &mut VecDeque<c_int>, number: c_int, is_free: bool) -> Option<c_int> {
    let at = rested.iter().rposition(|it| *it == number);
    match (is_free, at) {
        (true, None) => rested.push_back(number),
        (false, Some(at)) => drop(rested.remove(at)),
        _ => {}
    }
    if rested.len() > RESTING { rested.pop_front() } else { None }
}

unsafe extern "C" fn set_item(table: *mut c_void, number: c_int, item: *mut c_void) -> c_int {
    let (set, communicators) = *LIBRARY.get().expect("known before the library calls us");
    let (is_free, is_for_ever) = (item.is_null(), IS_FOR_EVER.load(Relaxed));
    if table.addr() != communicators || !IS_ON.load(Relaxed) && !is_for_ever {
        // SAFETY: the arguments of our caller, who meant this function.
        return unsafe { set(table, number, item) };
    }
    if is_free && is_for_ever {
        // SAFETY: as below.
        return unsafe { set(table, number, TAKEN) };
    }
    let mut rested = RESTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(oldest) = note(&mut rested, number, is_free) {
        // SAFETY: this table; what stands there is our mark.
        unsafe { set(table, oldest, ptr::null_mut()) };
    }
    // SAFETY: as above; the mark is one that MPI itself puts there.
    unsafe { set(table, number, if is_free { TAKEN } else { item }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_once_and_until_many_others_do() {
        let mut rested = VecDeque::new();
        assert_eq!(note(&mut rested, 7, true), None);
        assert_eq!(note(&mut rested, 7, true), None);
        assert_eq!(rested.len(), 1, "it is given free twice");
        assert_eq!(note(&mut rested, 8, true), None);
        assert_eq!(note(&mut rested, 7, false), None);
        assert_eq!(rested, [8], "one that is taken does not rest");
        for number in 100..100 + RESTING as c_int - 1 {
            assert_eq!(note(&mut rested, number, true), None);
        }
        assert_eq!(note(&mut rested, 9, true), Some(8));
        assert_eq!(rested.len(), RESTING);
    }
}
