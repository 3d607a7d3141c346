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
//! Those of communicators whose making failed, which are freed by [`free_for_ever`], are never used
//! again, as nothing bounds when the last message to them comes. Nor does their number lead to them
//! any more: a call on one that failed can leave a request behind, which keeps it for ever, and the
//! next news of a death would end this process, as what a link is made of is freed already
//! (SIGSEGV in `mca_pml_ob1_revoke_comm`).
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
//! `attempts_that_fail_leave_no_communicators` for [`free_for_ever`].

use std::{
    collections::VecDeque,
    ffi::{CStr, c_int, c_void},
    mem, ptr,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{OF_THE_LIBRARY, redirect, version};
use crate::mpi::calls::{comm::Comm, library, ulfm};

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
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { rested: VecDeque::new(), used: Vec::new() });

/// The numbers of this process.
struct Numbers {
    /// Those that rest, the oldest first.
    rested: VecDeque<c_int>,
    /// Those in use, each with the address of its communicator.
    used: Vec<(c_int, usize)>,
}

/// Lets numbers rest, from [`begin`] on.
pub(super) fn mend() -> Option<()> {
    library::library_version().ok().and_then(|it| version(&it)).filter(|it| *it >= SINCE)?;
    let (set, communicators) = (ulfm::symbol(SET)?, ulfm::symbol(OF_THE_LIBRARY)?);
    // SAFETY: in this major version the function of this name has this type.
    let set = unsafe { mem::transmute::<*mut c_void, Set>(set) };
    LIBRARY.get_or_init(|| (set, communicators.expose_provenance()));
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
///
/// # Safety
///
/// That of [`Comm::free`].
pub(in crate::mpi) unsafe fn free_for_ever(comms: Vec<Comm>) {
    if !IS_REDIRECTED.load(Relaxed) {
        return;
    }
    IS_FOR_EVER.store(true, Relaxed);
    for comm in comms {
        let address = comm.raw().0.addr();
        // SAFETY: our caller's promise.
        unsafe { comm.free() };
        let kept = numbers().take(address);
        if let (Some(number), Some((set, communicators))) = (kept, LIBRARY.get()) {
            let table = ptr::with_exposed_provenance_mut(*communicators);
            // SAFETY: the table of the library; the mark is one that MPI itself puts there.
            unsafe { set(table, number, TAKEN) };
        }
    }
    IS_FOR_EVER.store(false, Relaxed);
}

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Numbers {
    /// A number is given free, or taken; gives the number that has rested long enough.
    fn note(&mut self, number: c_int, item: *mut c_void) -> Option<c_int> {
        self.used.retain(|(it, _)| *it != number);
        let at = self.rested.iter().rposition(|it| *it == number);
        match (item.is_null(), at) {
            (true, None) => self.rested.push_back(number),
            (false, Some(at)) => drop(self.rested.remove(at)),
            _ => {}
        }
        if !item.is_null() {
            self.used.push((number, item.addr()));
        }
        if self.rested.len() > RESTING { self.rested.pop_front() } else { None }
    }

    /// The number of a communicator, which is used no more and never again.
    fn take(&mut self, address: usize) -> Option<c_int> {
        let at = self.used.iter().position(|(_, it)| *it == address)?;
        Some(self.used.swap_remove(at).0)
    }
}

unsafe extern "C" fn set_item(table: *mut c_void, number: c_int, item: *mut c_void) -> c_int {
    let (set, communicators) = *LIBRARY.get().expect("known before the library calls us");
    let (is_free, is_for_ever) = (item.is_null(), IS_FOR_EVER.load(Relaxed));
    if table.addr() != communicators || !IS_ON.load(Relaxed) && !is_for_ever {
        // SAFETY: the arguments of our caller, who meant this function.
        return unsafe { set(table, number, item) };
    }
    let mut numbers = numbers();
    if is_free && is_for_ever {
        numbers.used.retain(|(it, _)| *it != number);
        // SAFETY: as below.
        return unsafe { set(table, number, TAKEN) };
    }
    if let Some(oldest) = numbers.note(number, item) {
        // SAFETY: this table; what stands there is our mark.
        unsafe { set(table, oldest, ptr::null_mut()) };
    }
    // SAFETY: as above; the mark is one that MPI itself puts there.
    unsafe { set(table, number, if is_free { TAKEN } else { item }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: usize) -> *mut c_void {
        ptr::without_provenance_mut(address)
    }

    #[test]
    fn a_number_rests_once_and_until_many_others_do() {
        let mut numbers = Numbers { rested: VecDeque::new(), used: Vec::new() };
        let free = ptr::null_mut();
        assert_eq!(numbers.note(7, free), None);
        assert_eq!(numbers.note(7, free), None);
        assert_eq!(numbers.rested.len(), 1, "it is given free twice");
        assert_eq!(numbers.note(8, free), None);
        assert_eq!(numbers.note(7, of(64)), None);
        assert_eq!(numbers.rested, [8], "one that is taken does not rest");
        for number in 100..100 + RESTING as c_int - 1 {
            assert_eq!(numbers.note(number, free), None);
        }
        assert_eq!(numbers.note(9, free), Some(8));
        assert_eq!(numbers.rested.len(), RESTING);
    }

    #[test]
    fn a_communicator_has_a_number_until_that_is_free() {
        let mut numbers = Numbers { rested: VecDeque::new(), used: Vec::new() };
        numbers.note(7, of(64));
        numbers.note(8, of(128));
        assert_eq!(numbers.take(64), Some(7));
        assert_eq!(numbers.take(64), None);
        numbers.note(8, ptr::null_mut());
        assert_eq!(numbers.take(128), None, "freed indeed");
    }
}
