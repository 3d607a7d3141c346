//! Looks at many messages of a block at once.
//!
//! An `MPI_Test` costs as much as the bookkeeping of several messages, a memory barrier among it.
//! When the first of a block's pending messages is over, those after it mostly are, too, and one
//! `MPI_Testall` tells of a whole run of them. When it does not, the runs become shorter, down to
//! single tests.
//!
//! **Guarantees.** What MPI may still use is never taken for over, and each failed message has its
//! own error class. By the standard `MPI_Testall` changes nothing unless all are over, and then
//! says of each how it ended (MPI 4.1 §3.7.5). Nothing else over a list is used, and only messages
//! that this MPI [tells the truth about](crate::mpi::this_mpi::may_be_listed) are in a list.

use mpi::ffi;

use super::{
    Flights,
    run::{LONGEST, Run},
};
use crate::{
    mpi::calls::{library::Refusal, request::Done},
    native::{Flight, Kind, Request},
    seam::{
        platform::{Progress, Settled},
        record::Record,
    },
};

/// Runs are not worth while below.
const SHORTEST: usize = 4;

/// The message of a request that is pending.
#[inline]
fn pending(record: &Record) -> Option<&Flight> {
    if record.is_over() { None } else { record.flight() }
}

impl Flights {
    /// Ends the messages that are over, up to the first that is not complete, or no message.
    pub(in crate::mpi) fn settle(&mut self, records: &mut [Record]) -> Settled {
        let (mut complete, mut failed, mut longest) = (0, false, LONGEST);
        while let Some(record) = records.get_mut(complete) {
            if record.is_complete() {
                complete += 1;
                continue;
            }
            if pending(record).is_none() {
                break;
            }
            self.look(record);
            if !record.is_complete() {
                failed |= record.is_over();
                break;
            }
            complete += 1;
            loop {
                let run = self.settle_run(&mut records[complete..], longest);
                complete += run.complete;
                failed |= run.failed;
                if run.complete == 0 {
                    break;
                }
            }
            // Runs that are too long become shorter at once, and longer with each success.
            longest = if longest >= SHORTEST { longest / 4 } else { (longest * 2).max(1) };
        }
        Settled { complete, failed }
    }

    /// The same for a run at the beginning of these: all of it is complete, or none as far as is
    /// told here.
    #[inline(never)]
    fn settle_run(&mut self, records: &mut [Record], longest: usize) -> Settled {
        let Run { requests, done } = &mut self.run;
        let count = collect(records, &mut requests[..longest]);
        if count < SHORTEST {
            return Settled { complete: 0, failed: false };
        }
        done[..count].iter_mut().for_each(Done::clear);
        // SAFETY: all are pending in these records, which are told below of what is over.
        match unsafe { Request::test_all(&mut requests[..count], &mut done[..count]) } {
            Ok(true) => self.end_run(count, records),
            Ok(false) => Settled { complete: 0, failed: false },
            Err(refusal) => {
                self.end_failed(count, records, refusal);
                Settled { complete: 0, failed: true }
            }
        }
    }

    /// All of a run are over.
    #[inline(never)]
    fn end_run(&mut self, count: usize, records: &mut [Record]) -> Settled {
        let all = records.len();
        let (mut lane, mut failed) = (0, false);
        let mut records = records.iter_mut();
        for done in &self.run.done[..count] {
            let listed = records.find(|record| !record.is_complete()).expect("listed before");
            let (flight, buffer) = listed.flight_mut().expect("listed as a message");
            lane = flight.lane;
            let (elements, bytes) = buffer.size();
            // Each of the usual cases by itself: what is put together first is in memory.
            if flight.kind == Kind::Send {
                listed.end_at_once(elements);
            } else if done.is_of(elements * bytes) {
                listed.end(Progress::Complete(done.told(elements)));
            } else {
                let state = flight.moved(done, buffer);
                failed |= !matches!(state, Progress::Complete(_));
                listed.end(state);
            }
        }
        let complete = if failed { 0 } else { all - records.len() };
        self.end(lane, count);
        Settled { complete, failed }
    }

    /// Some of a run have failed, and some may not be over.
    #[cold]
    fn end_failed(&mut self, count: usize, records: &mut [Record], refusal: Refusal) {
        tracing::debug!(target: "fampi::fault", ?refusal, count, "of a run, some have failed");
        let (mut lane, mut over) = (0, 0);
        let mut records = records.iter_mut();
        let Run { requests, done } = &self.run;
        for (raw, done) in requests[..count].iter().zip(done) {
            let listed = records.find(|record| !record.is_complete()).expect("listed before");
            if *raw != Request::null().raw() {
                continue;
            }
            let (flight, buffer) = listed.flight_mut().expect("listed as a message");
            (lane, over) = (flight.lane, over + 1);
            let state = match done.result() {
                None => Progress::Failed(refusal.fault()),
                Some(Ok(())) => flight.moved(done, buffer),
                Some(Err(refusal)) => Progress::Failed(refusal.fault()),
            };
            listed.end(state);
        }
        self.end(lane, over);
    }
}

/// Lists the pending messages at the beginning of these, as long as they may be in a list; how many
/// there are.
fn collect(records: &[Record], requests: &mut [ffi::MPI_Request]) -> usize {
    let mut records = records.iter().filter(|record| !record.is_complete());
    for (count, request) in requests.iter_mut().enumerate() {
        let flight = records.next().and_then(pending).filter(|it| it.is_listed());
        let Some(flight) = flight else { return count };
        *request = flight.request.raw();
    }
    requests.len()
}
