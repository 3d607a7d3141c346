//! Messages of blocks: they start, and are ended, in the records that have their buffers.
//!
//! Such a message costs little beside MPI: its request of MPI is in its record and nowhere else, so
//! it takes no place here, and only their number is known. Most small sends are over before their
//! start returns, as MPI has copied the message, and no test ever looks at them.
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

use std::mem::{self, Discriminant};

use mpi::ffi;

use super::{
    contexts::{DataComm, lane_of},
    table::Table,
};
use crate::{
    fault::FaultCode,
    mpi::{
        calls::{
            comm::Comm,
            inside::{self, Inside},
            library::{BUFFER, Refusal},
            request::{Done, empty_status},
        },
        this_mpi,
    },
    native::{Exposure, Flight, Kind, Number, Request},
    seam::{
        buffer::AnyBuffer,
        platform::{DataId, Envelope, Lane, Post, Progress, Settled, Status, Way},
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

/// What no lane of a block is like.
const CLOSED: Lane = Lane { data: DataId(u32::MAX), context: u32::MAX };

impl Flight {
    /// Asks MPI to end a receive.
    pub(in crate::mpi) fn cancel(&mut self) {
        self.kind.cancel(&mut self.request);
    }

    /// True for what may be in a list with others.
    #[inline]
    fn is_listed(&self) -> bool {
        // A message of a block has one named peer.
        this_mpi::may_be_listed(true, self.kind == Kind::Cancelled)
    }

    /// What it has moved, now that it is over.
    fn moved(&self, done: &Done, buffer: &mut AnyBuffer) -> Progress {
        let all = buffer.elements();
        if self.kind == Kind::Send {
            return Progress::Complete(Status { elements: all, ..Status::default() });
        }
        self.kind.moved(done, all, buffer.expose().map(|it| it.element))
    }
}

/// What the start of a message has come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Launched {
    UnderWay,
    /// MPI has all of it, and no request for it.
    Over,
    Refused,
}

/// Where messages start.
struct Current {
    lane: Lane,
    comm: Comm,
    /// Its place in the count of messages.
    at: u32,
    /// How many messages have started that are not counted there yet.
    begun: usize,
}

/// All messages of blocks that are under way.
pub(in crate::mpi) struct Flights {
    /// What is over when it starts has this request.
    finished: ffi::MPI_Request,
    /// Where the last message started; nowhere after contexts were retired.
    current: Current,
    known: Known,
    /// How many messages are under way on each context.
    flying: Vec<(Lane, usize)>,
    run: Run,
}

/// The numbers of the last message that was a vector of some.
struct Known {
    kind: Discriminant<AnyBuffer>,
    number: Number,
}

impl Known {
    /// Anything.
    fn new() -> Self {
        Self { kind: mem::discriminant(&AnyBuffer::nothing()), number: Number::of::<u8>() }
    }

    /// What MPI sees of a buffer that is a vector of numbers.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn exposure(&mut self, buffer: &mut AnyBuffer) -> Option<Exposure> {
        if self.kind != mem::discriminant(buffer) {
            self.meet(buffer)?;
        }
        let (address, elements) = buffer.memory()?;
        self.number.exposure(address, elements)
    }

    #[cold]
    fn meet(&mut self, buffer: &AnyBuffer) -> Option<()> {
        *self = Self { kind: mem::discriminant(buffer), number: buffer.number()? };
        Some(())
    }
}

impl Flights {
    /// None yet.
    pub(in crate::mpi) fn new(finished: ffi::MPI_Request, nobody: Comm) -> Self {
        let current = Current { lane: CLOSED, comm: nobody, at: 0, begun: 0 };
        Self { finished, current, known: Known::new(), flying: Vec::new(), run: Run::default() }
    }

    /// Messages start on this context from now on; false when it is not there.
    #[inline]
    fn enter(&mut self, data: &[Option<DataComm>], lane: Lane) -> bool {
        self.current.lane == lane || self.open(data, lane)
    }

    #[cold]
    fn open(&mut self, data: &[Option<DataComm>], lane: Lane) -> bool {
        let Some(comm) = lane_of(data, lane).copied() else { return false };
        self.count_begun();
        let known = self.flying.iter().position(|it| it.0 == lane);
        let place = known.or_else(|| self.flying.iter().position(|it| it.1 == 0));
        let at = place.unwrap_or_else(|| {
            self.flying.push((lane, 0));
            self.flying.len() - 1
        });
        self.flying[at].0 = lane;
        self.current = Current { lane, comm, at: at as u32, begun: 0 };
        true
    }

    /// Contexts have been retired: whether one is still there has to be found out again.
    pub(in crate::mpi) fn close_lanes(&mut self) {
        self.count_begun();
        self.current.lane = CLOSED;
    }

    fn count_begun(&mut self) {
        let begun = mem::take(&mut self.current.begun);
        if begun > 0 {
            self.flying[self.current.at as usize].1 += begun;
        }
    }

    /// Starts messages as requests of a block; false when some cannot start.
    ///
    /// That a send was over when it started is noted after the last of them. Stores are done in
    /// their order, and MPI's into the queue of a process on another core take long: each of ours
    /// between them would wait for those before, and delay those behind it.
    pub(in crate::mpi) fn start(
        &mut self,
        (data, lane): (&[Option<DataComm>], Lane),
        way: Way,
        envelopes: &[Envelope],
        records: &mut [Record],
    ) -> bool {
        let is_there = self.enter(data, lane);
        let inside = inside::ordinary();
        let (mut refused, mut over) = (false, false);
        for (envelope, record) in envelopes.iter().zip(&mut *records) {
            if !is_there {
                refused = !record.refuse(FaultCode::Interrupted);
                continue;
            }
            match self.launch(way, *envelope, record, &inside) {
                Launched::UnderWay => (),
                Launched::Over => over = true,
                Launched::Refused => refused = true,
            }
        }
        if over {
            let launched = records.iter_mut().filter(|it| !it.is_over() && !it.is_under_way());
            launched.for_each(Record::end_whole);
        }
        !refused
    }

    /// Starts a message as a request of a block, which hears that it is under way, or why it cannot
    /// be; not that it is over.
    // The hot path of messages, called in few places. What is not usual is done elsewhere from its
    // beginning to its end: what both put into one variable would be in memory.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn launch(
        &mut self,
        way: Way,
        envelope: Envelope,
        record: &mut Record,
        inside: &Inside,
    ) -> Launched {
        let seen = record.loaded().and_then(|buffer| self.known.exposure(buffer));
        match seen {
            Some(seen) => self.launch_seen(way, envelope, &seen, record, inside),
            None => self.launch_other(way, envelope, record, inside),
        }
    }

    /// Starts a message whose buffer is no vector of numbers.
    #[inline(never)]
    fn launch_other(
        &mut self,
        way: Way,
        envelope: Envelope,
        record: &mut Record,
        inside: &Inside,
    ) -> Launched {
        let exposure = match record.loaded().map(|buffer| buffer.expose()) {
            Some(Ok(seen)) if seen.writable || way != Way::Receive => Ok(seen),
            Some(Err(code)) => Err(code),
            _ => Err(FaultCode::Mpi(BUFFER)),
        };
        match exposure {
            Ok(seen) => self.launch_seen(way, envelope, &seen, record, inside),
            Err(code) => {
                record.refuse(code);
                Launched::Refused
            }
        }
    }

    /// Starts a message whose buffer, that of the record, is described as MPI sees it.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn launch_seen(
        &mut self,
        way: Way,
        Envelope { peer, tag }: Envelope,
        seen: &Exposure,
        record: &mut Record,
        inside: &Inside,
    ) -> Launched {
        let comm = &self.current.comm;
        let started = match way {
            // SAFETY: the record keeps the buffer until it hears that the request is over.
            Way::Send { synchronous } => unsafe {
                Request::send(comm, seen, peer, tag, synchronous, inside)
            },
            // SAFETY: as above.
            Way::Receive => unsafe { Request::receive(comm, seen, Some(peer), Some(tag), inside) },
        };
        match started {
            Ok(request) if way != Way::Receive && request.raw() == self.finished => Launched::Over,
            Ok(request) => {
                self.current.begun += 1;
                let kind = if way == Way::Receive { Kind::Receive } else { Kind::Send };
                record.begin(Post::Message(Flight { request, kind, lane: self.current.at }));
                Launched::UnderWay
            }
            Err(refusal) => {
                record.refuse(refusal.fault());
                Launched::Refused
            }
        }
    }

    /// So many messages like this one are over.
    fn end(&mut self, lane: u32, count: usize) {
        self.count_begun();
        self.flying[lane as usize].1 -= count;
    }

    /// Looks at a message, and ends it in its record when it is over.
    #[inline]
    pub(in crate::mpi) fn look(&mut self, record: &mut Record) {
        let Some((flight, buffer)) = record.flight_mut() else { return };
        let mut done = Done::new(empty_status());
        let wanted = (flight.kind != Kind::Send).then_some(&mut done);
        let state = match flight.request.test_with(wanted) {
            Ok(false) => return,
            Ok(true) => flight.moved(&done, buffer),
            Err(_) if !flight.request.is_over() => return,
            Err(refusal) => Progress::Failed(refusal.fault()),
        };
        let lane = flight.lane;
        self.end(lane, 1);
        record.end_as(state);
    }

    /// Gives up a message with its buffer, which is kept from now on as long as MPI wants it.
    pub(in crate::mpi) fn abandon(
        &mut self,
        flight: Flight,
        buffer: Option<AnyBuffer>,
        table: &mut Table,
    ) {
        self.end(flight.lane, 1);
        let (lane, _) = self.flying[flight.lane as usize];
        table.add_stray((flight.request, flight.kind), lane, buffer);
    }

    /// The request of what is over when it starts.
    pub(super) fn finished(&self) -> ffi::MPI_Request {
        self.finished
    }

    /// True when messages of this context, or of one before it, are under way.
    pub(in crate::mpi) fn needs(&mut self, data: DataId, context: u32) -> bool {
        self.count_begun();
        self.flying.iter().any(|(lane, count)| *count > 0 && lane.is_below(data, context + 1))
    }

    /// How many are under way.
    pub(in crate::mpi) fn count(&self) -> usize {
        self.flying.iter().map(|(_, count)| count).sum::<usize>() + self.current.begun
    }

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

    /// Ends a run at the beginning of these, if it is over: all of it is complete, or none as far
    /// as is told here.
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

/// Messages in a run.
const LONGEST: usize = 32;

/// A run of messages, used again and again.
struct Run {
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
