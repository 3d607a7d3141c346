//! Looks at many requests of a block at once.
//!
//! An `MPI_Test` costs as much as the bookkeeping of several requests, a memory barrier among it.
//! When the first of a block's pending requests is over, those after it mostly are, too, and one
//! `MPI_Testall` tells of a whole run of them. When it does not, the runs become shorter, down to
//! single tests.
//!
//! **Guarantees.** What MPI may still use is never taken for over, and each failed request has its
//! own error class. By the standard `MPI_Testall` changes nothing unless all are over, and then
//! says of each how it ended (MPI 4.1 §3.7.5). Nothing else over a list is used, and nothing but
//! messages with one named peer is in a list, since Open MPI 5.0.9 frees *all* requests of a list
//! that are marked as failed when it returns an error:
//!
//! - `MPI_Testsome` and `MPI_Testany` return one for some, while others are marked, say by a
//!   revocation, and MPI still fetches into their buffers;
//! - a receive from anybody makes every call over its list return class 76 without being over;
//! - collectives consist of requests of their own, and those of files are generalized ones.

use std::ops::Range;

use mpi::ffi;

use super::{Kind, Post, Posts, fault};
use crate::{
    engine::{
        platform::{Progress, Settled},
        record::Record,
    },
    mpi::{
        calls::Refusal,
        request::{Done, Request, empty_status},
        ulfm::Ulfm,
    },
};

/// Requests in a run.
const LONGEST: usize = 32;
/// Runs are not worth while below.
const SHORTEST: usize = 4;

/// A run of requests, used again and again.
pub(super) struct Run {
    requests: [ffi::MPI_Request; LONGEST],
    done: [Done; LONGEST],
}

impl Default for Run {
    fn default() -> Self {
        let nothing = Request::null().raw();
        let done = Done::new(empty_status());
        Self { requests: [nothing; LONGEST], done: [done; LONGEST] }
    }
}

impl Post {
    /// True for what may be in a list with others: messages of blocks that nothing has happened to.
    #[inline]
    fn is_listed(&self) -> bool {
        let is_message = matches!(self.kind, Kind::ReceiveFrom | Kind::Send);
        is_message && !self.cancelling && !self.is_held && !self.request.is_over()
    }
}

impl Posts {
    /// Ends the requests that are over, up to the first that is not complete, or not here.
    pub(in crate::mpi) fn settle(&mut self, records: &mut [Record], ulfm: &Ulfm) -> Settled {
        let (mut complete, mut longest) = (0, LONGEST);
        let failed = loop {
            let Some(record) = records.get_mut(complete) else { break false };
            if record.is_complete() {
                complete += 1;
                continue;
            }
            let here = record.running().filter(|post| (post.0 as usize) < self.slots.len());
            let Some(post) = here else { break false };
            let state = self.test(post, ulfm);
            if state == Progress::Pending {
                break false;
            }
            record.end_with(state, self.take(post));
            if matches!(state, Progress::Failed(_)) {
                break true;
            }
            complete += 1;
            complete += self.settle_runs(&mut records[complete..], longest);
            // Runs that are too long become shorter at once, and longer with each success.
            longest = if longest >= SHORTEST { longest / 4 } else { (longest * 2).max(1) };
        };
        Settled { complete, failed }
    }

    /// The same for runs at the beginning of these.
    fn settle_runs(&mut self, records: &mut [Record], longest: usize) -> usize {
        let mut complete = 0;
        loop {
            let over = self.settle_run(&mut records[complete..], longest);
            if over == 0 {
                return complete;
            }
            complete += over;
        }
    }

    /// The same for a run at the beginning of these; none unless all of it is over, successfully.
    #[inline(never)]
    fn settle_run(&mut self, records: &mut [Record], longest: usize) -> usize {
        let Self { slots, run: Run { requests, done }, free, .. } = self;
        let count = collect(slots, records, &mut requests[..longest]);
        if count < SHORTEST {
            return 0;
        }
        done[..count].iter_mut().for_each(Done::clear);
        // SAFETY: all are pending in slots of ours, which are told below of what is over.
        match unsafe { Request::test_all(&mut requests[..count], &mut done[..count]) } {
            Ok(true) => {
                let (over, ended) = end_run(slots, free, &done[..count], records);
                if ended < count {
                    self.note_rest(ended..count, records);
                }
                over
            }
            Ok(false) => 0,
            Err(refusal) => {
                self.note_failures(count, records, refusal);
                0
            }
        }
    }

    /// The rest of a run, all of which are over, waits for looks of their own.
    #[cold]
    fn note_rest(&mut self, rest: Range<usize>, records: &[Record]) {
        let listed = records.iter().filter_map(Record::running);
        for (id, done) in listed.zip(&self.run.done[rest]) {
            let slot = &mut self.slots[id.0 as usize];
            slot.request = Request::null();
            self.early.push((id, slot.moved(done)));
        }
    }

    /// Some of a run have failed; those that are over wait for a look of their own.
    #[cold]
    fn note_failures(&mut self, count: usize, records: &[Record], refusal: Refusal) {
        tracing::debug!(target: "fampi::fault", ?refusal, count, "of a run, some have failed");
        let Run { requests, done } = &self.run;
        let listed = records.iter().filter_map(Record::running);
        for ((id, raw), done) in listed.zip(&requests[..count]).zip(&done[..count]) {
            if *raw != Request::null().raw() {
                continue;
            }
            let slot = &mut self.slots[id.0 as usize];
            slot.request = Request::null();
            let progress = match done.result() {
                None => Progress::Failed(fault(refusal)),
                Some(Ok(())) => slot.moved(done),
                Some(Err(refusal)) => Progress::Failed(fault(refusal)),
            };
            self.early.push((id, progress));
        }
    }
}

/// Lists the pending requests at the beginning of these, as long as they may be in a list; how many
/// there are.
fn collect(slots: &[Post], records: &[Record], requests: &mut [ffi::MPI_Request]) -> usize {
    let mut records = records.iter().filter(|record| !record.is_complete());
    for (count, request) in requests.iter_mut().enumerate() {
        let post = records.next().and_then(Record::running);
        let listed = post.and_then(|post| slots.get(post.0 as usize)).filter(|it| it.is_listed());
        let Some(post) = listed else { return count };
        *request = post.request.raw();
    }
    requests.len()
}

/// All of a run are over: ends them up to the first that has not got as much as it has room for.
/// How many records there are before that one, and how many of the run.
#[inline(never)]
fn end_run(
    slots: &mut [Post],
    free: &mut u32,
    done: &[Done],
    records: &mut [Record],
) -> (usize, usize) {
    let all = records.len();
    let mut records = records.iter_mut();
    for (ended, done) in done.iter().enumerate() {
        let before = all - records.len();
        let listed = records.find_map(|record| record.running().map(|id| (id, record)));
        let Some((id, record)) = listed else { return (before, ended) };
        let slot = &mut slots[id.0 as usize];
        let Some(status) = slot.moved_all(done) else { return (before, ended) };
        (slot.kind, slot.next) = (Kind::Free, *free);
        *free = id.0;
        record.end(Progress::Complete(status));
    }
    (all - records.len(), done.len())
}
