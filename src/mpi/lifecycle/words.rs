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
/// The bytes of a number, of what begins a word, and of the name of a process.
const NUMBER: usize = size_of::<i32>();
const FRONT: usize = 2 * NUMBER;
const NAME: usize = size_of::<u64>();
/// Busy tests before a waiting process leaves its core to those that start.
const BUSY_TESTS: u32 = 200;
/// Between two tests then.
const PAUSE: Duration = Duration::from_micros(50);

/// What is said before a call that all make together.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    /// The class of the error for which nobody makes it; 0 when all is well.
    pub(super) class: i32,
    /// Who makes it, called as in the list of the dead ([`Partners::Named`]); nobody is named where
    /// that is not known.
    ///
    /// [`Partners::Named`]: crate::mpi::calls::partners::Partners::Named
    pub(super) names: Vec<u64>,
}

impl Word {
    fn failed() -> Self {
        Self { class: PROC_FAILED, names: Vec::new() }
    }

    /// What begins the word, and the rest of it, which may be nothing.
    fn encode(&self) -> [Vec<u8>; 2] {
        let front = [self.class, self.names.len() as i32].map(i32::to_le_bytes).concat();
        [front, self.names.iter().flat_map(|name| name.to_le_bytes()).collect()]
    }
}

/// The root's word to others.
pub(super) fn tell(comm: &Comm, others: Range<u32>, word: &Word) -> Checked<()> {
    let parts = word.encode();
    for other in others.map(Rank::new) {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let mut wire = Wire::new(part.len());
            wire.write(part);
            let (exposure, inside) = (wire.exposure(part.len()), inside::ordinary());
            // SAFETY: the memory is kept until the wait is over; an error ends a request, too.
            let sent = unsafe { Request::send(comm, &exposure, other, TAG, false, &inside) };
            drop(inside);
            sent.and_then(wait)?;
        }
    }
    Ok(())
}

/// The word of the first process goes by a binomial tree: what this one has heard, or that it has
/// heard nothing, is told to those below it.
pub(super) fn pass_on(comm: &Comm, heard: Checked<Word>) -> Checked<Word> {
    let word = heard.clone().unwrap_or_else(|_| Word::failed());
    let below = below(comm.rank().number(), comm.size());
    // One that is dead keeps the word from no other.
    let told = below.map(|child| tell(comm, child..child + 1, &word));
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
pub(super) fn hear(comm: &Comm, from: u32) -> Checked<Word> {
    let numbers = |bytes: &[u8]| {
        let number = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        (number(0), number(NUMBER) as usize)
    };
    let (class, count) = receive(comm, from, FRONT)?.read(FRONT, numbers);
    let mut names = Vec::new();
    if count > 0 {
        let read = |bytes: &[u8]| {
            let names = bytes.as_chunks::<NAME>().0.iter();
            names.copied().map(u64::from_le_bytes).collect()
        };
        names = receive(comm, from, count * NAME)?.read(count * NAME, read);
    }
    Ok(Word { class, names })
}

/// So many bytes of a process, or its death.
fn receive(comm: &Comm, from: u32, bytes: usize) -> Checked<Wire> {
    let (wire, from) = (Wire::new(bytes), Rank::new(from));
    let inside = inside::ordinary();
    // SAFETY: the memory is kept until the request is over; an error ends it, too.
    let posted =
        unsafe { Request::receive(comm, &wire.exposure(bytes), Some(from), Some(TAG), &inside) };
    drop(inside);
    let mut request = posted?;
    let (mut tests, mut is_cancelled) = (0_u32, false);
    loop {
        if let Some(done) = request.test()? {
            let lost = Refusal { call: "MPI_Recv", class: PROC_FAILED };
            return if done.is_cancelled() { Err(lost) } else { Ok(wire) };
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
