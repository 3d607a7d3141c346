//! A word of one process to those of its communicator, before they make a call together: directly,
//! or by a tree. A death on the way is an error of whoever waits.

use std::{ops::Range, thread, time::Duration};

use crate::{
    mpi::{
        calls::{
            comm::Comm,
            inside,
            library::{Checked, PROC_FAILED, Refusal},
            ulfm,
        },
        deaths::watcher,
        this_mpi,
        transport::wire::Wire,
    },
    native::Request,
    rank::Rank,
};

const TAG: u32 = 3;
/// What is heard where the word cannot be read: class `MPI_ERR_SPAWN`.
const SPAWN: i32 = 50;
/// Busy tests before a waiting process leaves its core to those that start.
const BUSY_TESTS: u32 = 200;
/// Between two tests then.
const PAUSE: Duration = Duration::from_micros(50);

/// The root's word to others.
pub(super) fn tell(comm: &Comm, others: Range<u32>, word: i32) -> Checked<()> {
    for other in others.map(Rank::new) {
        let mut wire = Wire::new(4);
        wire.write(&word.to_le_bytes());
        // SAFETY: the memory is kept until the wait is over; an error ends a request, too.
        let sent = unsafe {
            Request::send(comm, &wire.exposure(4), other, TAG, false, &inside::ordinary())
        };
        sent.and_then(wait)?;
    }
    Ok(())
}

/// The word of the first process goes by a binomial tree: what this one has heard, or that it has
/// heard nothing, is told to those below it.
pub(super) fn pass_on(comm: &Comm, heard: Checked<i32>) -> Checked<i32> {
    let word = heard.unwrap_or(PROC_FAILED);
    let below = below(comm.rank().number(), comm.size());
    // One that is dead keeps the word from no other.
    let told = below.map(|child| tell(comm, child..child + 1, word));
    let told = told.fold(Ok(()), Checked::and);
    heard.and_then(|word| told.map(|()| word))
}

/// Who tells a process that is not the first.
pub(super) fn parent_of(rank: u32) -> u32 {
    rank & (rank - 1)
}

/// Whom a process tells.
fn below(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let steps = (0..u32::BITS - 1).map(|bit| 1 << bit);
    let of_this = steps.take_while(move |step| rank == 0 || *step < rank & rank.wrapping_neg());
    of_this.map(move |step| rank.saturating_add(step)).filter(move |child| *child < size)
}

/// The word of a process, or its death.
pub(super) fn hear(comm: &Comm, from: u32) -> Checked<i32> {
    let (wire, from) = (Wire::new(4), Rank::new(from));
    let inside = inside::ordinary();
    // SAFETY: the memory is kept until the request is over; an error ends it, too.
    let posted =
        unsafe { Request::receive(comm, &wire.exposure(4), Some(from), Some(TAG), &inside) };
    drop(inside);
    let mut request = posted?;
    let (mut tests, mut is_cancelled) = (0_u32, false);
    loop {
        if let Some(done) = request.test()? {
            let lost = Refusal { call: "MPI_Recv", class: PROC_FAILED };
            let word = || wire.read(4, |bytes| bytes.try_into().map_or(SPAWN, i32::from_le_bytes));
            return if done.is_cancelled() { Err(lost) } else { Ok(word()) };
        }
        tests += 1;
        if tests > BUSY_TESTS {
            watcher::look();
            if !this_mpi::ends_waits_for_the_dead() && !is_cancelled && is_dead(comm, from) {
                is_cancelled = true;
                request.cancel();
            }
            thread::sleep(PAUSE);
        }
    }
}

fn is_dead(comm: &Comm, process: Rank) -> bool {
    let mut is_among_them = false;
    let told = |rank| is_among_them |= rank == process;
    let known = ulfm::find().map(|ulfm| comm.failed(ulfm, 0, told));
    if let Some(Err(refusal)) = known {
        tracing::debug!(?refusal, "who is dead is not known");
    }
    is_among_them
}

/// Waits without using a core for long: those that start need it.
fn wait(mut request: Request) -> Checked<()> {
    let mut tests = 0_u32;
    while request.test()?.is_none() {
        tests += 1;
        if tests > BUSY_TESTS {
            watcher::look();
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{below, parent_of};

    #[test]
    fn each_process_is_told_once_and_by_the_one_that_it_listens_to() {
        for size in 1..40 {
            let all = (0..size).flat_map(|rank| below(rank, size).map(move |child| (child, rank)));
            let mut all: Vec<(u32, u32)> = all.collect();
            all.sort_unstable();
            let expected: Vec<(u32, u32)> = (1..size).map(|rank| (rank, parent_of(rank))).collect();
            assert_eq!(all, expected);
        }
    }
}
