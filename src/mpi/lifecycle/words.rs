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
        this_mpi::{self, spawn_lookup},
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
/// Names that go in one message: it is so short that MPI takes it over at once, also when the one
/// that it is for has died. A send that waits for that one would never end.
const AT_ONCE: usize = 64;
/// Busy tests before a waiting process leaves its core to those that start.
const BUSY_TESTS: u32 = 200;
/// Between two tests then.
const PAUSE: Duration = Duration::from_micros(50);

/// What the root tells the others before all of them make a call together.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    /// The class of the root's error, after which no process makes the call; 0 when all is well.
    pub(super) class: i32,
    /// The processes that make the call ([`Partners::Named`]); empty where they have no names.
    ///
    /// [`Partners::Named`]: crate::mpi::calls::partners::Partners::Named
    pub(super) names: Vec<u64>,
}

impl Word {
    fn failed() -> Self {
        Self { class: PROC_FAILED, names: Vec::new() }
    }

    /// The messages that carry it, in their order.
    fn encode(&self) -> Vec<Vec<u8>> {
        let front = [self.class, self.names.len() as i32].map(i32::to_le_bytes).concat();
        let bytes = |names: &[u64]| names.iter().flat_map(|name| name.to_le_bytes()).collect();
        [front].into_iter().chain(self.names.chunks(AT_ONCE).map(bytes)).collect()
    }

    /// Reads what [`encode`](Self::encode) has written from messages of so many bytes each.
    fn decode(mut receive: impl FnMut(usize) -> Checked<Vec<u8>>) -> Checked<Self> {
        let front = receive(FRONT)?;
        let number = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| front[at + byte]));
        let (class, count) = (number(0), number(NUMBER).max(0) as usize);
        let mut names = Vec::with_capacity(count);
        while names.len() < count {
            let bytes = receive(AT_ONCE.min(count - names.len()) * NAME)?;
            names.extend(bytes.as_chunks::<NAME>().0.iter().copied().map(u64::from_le_bytes));
        }
        Ok(Self { class, names })
    }
}

/// The root's word to others.
pub(super) fn tell(comm: &Comm, others: Range<u32>, word: &Word) -> Checked<()> {
    let parts = word.encode();
    for other in others.map(Rank::new) {
        for part in &parts {
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

/// The word of a process, or its death. A process that is new may know only its name.
pub(super) fn hear(comm: &Comm, from: u32, name: Option<u64>) -> Checked<Word> {
    let from = Source { comm: *comm, rank: Rank::new(from), name };
    Word::decode(|bytes| Ok(from.receive(bytes)?.read(bytes, <[u8]>::to_vec)))
}

/// Whose word is waited for.
struct Source {
    comm: Comm,
    rank: Rank,
    /// What it is called in MPI's list of the dead, which may know no communicator with it.
    name: Option<u64>,
}

impl Source {
    /// So many bytes of it, or its death.
    fn receive(&self, bytes: usize) -> Checked<Wire> {
        let (comm, from, wire) = (&self.comm, self.rank, Wire::new(bytes));
        let inside = inside::ordinary();
        // SAFETY: the memory is kept until the request is over; an error ends it, too.
        let posted = unsafe {
            Request::receive(comm, &wire.exposure(bytes), Some(from), Some(TAG), &inside)
        };
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
                if !this_mpi::ends_waits_for_the_dead() && !is_cancelled && self.is_dead() {
                    is_cancelled = true;
                    request.cancel();
                }
                thread::sleep(PAUSE);
            }
        }
    }

    fn is_dead(&self) -> bool {
        let mut is_among_them = self.name.is_some_and(spawn_lookup::has_died);
        let told = |rank| is_among_them |= rank == self.rank;
        let known = ulfm::find().map(|ulfm| self.comm.failed(ulfm, 0, told));
        if let Some(Err(refusal)) = known {
            tracing::debug!(?refusal, "who is dead is not known");
        }
        is_among_them
    }
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
    use super::{AT_ONCE, Word, below, parent_of};

    #[test]
    fn a_word_is_heard_as_it_was_told_in_short_messages_however_many_are_named() {
        for count in [0, 1, AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE] {
            let word = Word { class: -7, names: (0..count as u64).map(|it| it << 33).collect() };
            let mut messages = word.encode().into_iter();
            let heard = Word::decode(|bytes| {
                let message = messages.next().expect("told");
                assert_eq!(message.len(), bytes);
                assert!(bytes <= 512);
                Ok(message)
            });
            let heard = heard.expect("whole");
            assert_eq!((heard.class, &heard.names), (-7, &word.names));
            assert_eq!(messages.next(), None);
        }
    }

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
