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

use mpi::ffi;

use super::{Kind, Post, Posts, fault};
use crate::{
    engine::{
        platform::{PostId, Progress, Status},
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
    /// Where each stands among the records, and among the slots.
    places: [(u32, PostId); LONGEST],
    requests: [ffi::MPI_Request; LONGEST],
    done: [Done; LONGEST],
}

impl Default for Run {
    fn default() -> Self {
        let nothing = Request::null().raw();
        let done = Done::new(empty_status());
        Self {
            places: [(0, PostId(0)); LONGEST],
            requests: [nothing; LONGEST],
            done: [done; LONGEST],
        }
    }
}

impl Post {
    /// True for what may be in a list with others.
    #[inline]
    fn is_listed(&self) -> bool {
        self.kind == Kind::ReceiveFrom && !self.cancelling && self.is_pending()
    }
}

impl Posts {
    /// Ends the requests that are over, up to the first that is pending, not here, or has failed.
    pub(in crate::mpi) fn settle(&mut self, records: &mut [Record], ulfm: &Ulfm) -> usize {
        let mut longest = LONGEST;
        let mut at = 0;
        while let Some(record) = records.get_mut(at) {
            if record.is_over() {
                at += 1;
                continue;
            }
            let Some(post) = record.post().filter(|it| (it.0 as usize) < self.slots.len()) else {
                break;
            };
            let state = self.test(post, ulfm);
            if state == Progress::Pending {
                break;
            }
            record.end(state, self.take(post));
            if matches!(state, Progress::Failed(_)) {
                break;
            }
            at += 1;
            while longest >= SHORTEST {
                let over = self.settle_run(&mut records[at..], longest);
                at += over;
                if over == 0 {
                    longest /= 4;
                    break;
                }
            }
        }
        at
    }

    /// The same for a run at the beginning of these; none unless all of it is over, successfully.
    fn settle_run(&mut self, records: &mut [Record], longest: usize) -> usize {
        let count = self.collect(records, longest);
        if count < SHORTEST {
            return 0;
        }
        let Run { requests, done, .. } = &mut self.run;
        done[..count].iter_mut().for_each(Done::clear);
        // SAFETY: all are pending in slots of ours, which are told below of what is over.
        match unsafe { Request::test_all(&mut requests[..count], &mut done[..count]) } {
            Ok(true) => self.end_run(count, records),
            Ok(false) => 0,
            Err(refusal) => {
                self.note_failures(count, refusal);
                0
            }
        }
    }

    /// Lists the pending requests at the beginning of these, as long as they may be in a list.
    fn collect(&mut self, records: &[Record], longest: usize) -> usize {
        let mut count = 0;
        for (place, record) in records.iter().enumerate() {
            if record.is_over() {
                continue;
            }
            let Some(id) = record.post() else { break };
            let Some(post) = self.slots.get(id.0 as usize).filter(|it| it.is_listed()) else {
                break;
            };
            self.run.places[count] = (place as u32, id);
            self.run.requests[count] = post.request.raw();
            count += 1;
            if count == longest {
                break;
            }
        }
        count
    }

    /// All of a run are over. One that has not got as much as it has room for is left to a look of
    /// its own.
    fn end_run(&mut self, count: usize, records: &mut [Record]) -> usize {
        let (mut over, mut all_full) = (0, true);
        for (&(place, post), done) in self.run.places[..count].iter().zip(&self.run.done) {
            let slot = &mut self.slots[post.0 as usize];
            slot.request = Request::null();
            let filled = if done.is_of(slot.bytes) { slot.buffer.take() } else { None };
            if let Some(buffer) = filled {
                let (source, tag) = (done.source(), done.tag());
                let elements = slot.elements as usize;
                let status = Status { source, tag, elements, cancelled: false };
                records[place as usize].end(Progress::Complete(status), buffer);
                self.free.push(post.0);
                if all_full {
                    over = place as usize + 1;
                }
            } else {
                let progress = slot.moved(done);
                self.early.push((post, progress));
                all_full = false;
            }
        }
        over
    }

    /// Some of a run have failed; those that are over wait for a look of their own.
    #[cold]
    fn note_failures(&mut self, count: usize, refusal: Refusal) {
        tracing::debug!(target: "fampi::fault", ?refusal, count, "of a run, some have failed");
        let Run { places, requests, done } = &self.run;
        for ((&(_, post), raw), done) in places[..count].iter().zip(requests).zip(done) {
            if *raw != Request::null().raw() {
                continue;
            }
            let slot = &mut self.slots[post.0 as usize];
            slot.request = Request::null();
            let progress = match done.result() {
                None => Progress::Failed(fault(refusal)),
                Some(Ok(())) => slot.moved(done),
                Some(Err(refusal)) => Progress::Failed(fault(refusal)),
            };
            self.early.push((post, progress));
        }
    }
}
