//! A probe for any message finds one of an agreement.
//!
//! **Symptom** What stands for ULFM here is made of messages on the communicators of the program
//! (`ulfm_of_messages`), and a probe with any tag may find one of an agreement that this process
//! has not begun. Such a message is not for the program: it is set aside until the agreement asks
//! for it.
//!
//! **Versions** each MPICH 5.0.
//!
//! **Upstream** known: ULFM's functions are not implemented in its device `ch4`.
//!
//! **Delete when** they work.
//!
//! **Test** `a_death_that_a_recovery_finds_inside_of_a_block…` (`ffi/tests/c`, with `--mpi
//! mpich`).

use std::{cell::RefCell, ffi::c_int};

use mpi::ffi::MPI_Comm;

use crate::{
    mpi::calls::{comm::Comm, library::Checked, matched::Matched, request::next_message},
    rank::Rank,
};

/// Of the messages of agreements, which nothing else on a communicator has.
pub(super) const TAG: c_int = (1 << 23) - 1;

/// A message for an agreement that this process has not begun.
struct Early {
    comm: MPI_Comm,
    from: c_int,
    words: Vec<u64>,
}

thread_local! {
    /// In the order in which they came.
    static EARLY: RefCell<Vec<Early>> = const { RefCell::new(Vec::new()) };
}

/// The source and the tag of the message that a probe of the program is to find. With any tag that
/// is the first one that belongs to no agreement: this function sets those of agreements aside, and
/// gives `None` when no other message has come.
pub(in crate::mpi) fn first_of_program(
    comm: &Comm,
    (from, tag): (Option<Rank>, Option<u32>),
) -> Checked<Option<(Option<Rank>, Option<u32>)>> {
    if tag.is_some() {
        return Ok(Some((from, tag)));
    }
    while let Some(seen) = Matched::next_envelope(comm, (from, None))? {
        if seen.tag != TAG.cast_unsigned() {
            return Ok(Some((seen.source, Some(seen.tag))));
        }
        set_aside(comm)?;
    }
    Ok(None)
}

fn set_aside(comm: &Comm) -> Checked<()> {
    while let Some((from, bytes)) = next_message(comm, TAG.cast_unsigned())? {
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let from = from.number().cast_signed();
        EARLY.with_borrow_mut(|early| early.push(Early { comm: comm.raw(), from, words }));
    }
    Ok(())
}

/// What a process has said on a communicator, if it was set aside.
pub(super) fn take_early(comm: MPI_Comm, from: c_int) -> Option<Vec<u64>> {
    EARLY.with_borrow_mut(|early| {
        let at = early.iter().position(|it| it.comm == comm && it.from == from)?;
        Some(early.remove(at).words)
    })
}

/// The communicator is about to be freed.
pub(super) fn forget(comm: MPI_Comm) {
    EARLY.with_borrow_mut(|early| early.retain(|it| it.comm != comm));
}
