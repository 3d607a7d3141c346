//! The real world: Open MPI with ULFM behind the trait [`Platform`].
//!
//! The only module with `unsafe`. Its floor, `calls`, `comm`, `request`, `collectives`, `reduce`,
//! `strided`, `files`, `ulfm`, has one checked function per call of MPI; what stands on it is
//! ordinary code.
//!
//! ```text
//! control   frames and deaths, per universe          watchdog  no call of MPI lasts for ever
//! flight    messages of blocks                 exit      every end is seen by the others
//! data      all other operations, and buffers  contexts  the communicators they run on
//! interop   from and to rsmpi                    environment  what the user has set
//! groups, spawn   communicators made with others      facts    which MPI this is
//! guest     a program that owns its MPI               holdings  what is in use
//! baseline  MPI's own operations, to compare with    mend  against a mistake of Open MPI 5
//! process   who is on our own node                mailbox, memory  fast frames among those
//! watcher, pidfd, will, observer, notice  deaths, seen at once and told to MPI
//! trace     the file for what happens here        siblings  a launch that has lost somebody
//! ```
//!
//! **Assumes** one thread that calls MPI, and the launch line of `fampi run`: fault tolerance on,
//! `pml ob1` over shared memory and TCP, asynchronous finalize.

mod baseline;
mod calls;
mod collectives;
mod comm;
mod contexts;
mod control;
mod data;
mod element;
mod entry;
mod environment;
mod exit;
mod expose;
mod facts;
mod files;
mod flight;
mod groups;
mod guest;
mod holdings;
mod interop;
mod mailbox;
mod matched;
#[cfg_attr(not(target_os = "linux"), path = "memory/absent.rs")]
mod memory;
mod mend;
mod notice;
#[cfg_attr(not(target_os = "linux"), path = "observer/absent.rs")]
mod observer;
#[cfg_attr(not(target_os = "linux"), path = "pidfd/absent.rs")]
mod pidfd;
mod precedence;
mod process;
mod reduce;
mod request;
mod seats;
mod siblings;
mod spawn;
mod strided;
mod trace;
mod ulfm;
mod watchdog;
mod watcher;
#[cfg_attr(not(target_os = "linux"), path = "will/absent.rs")]
mod will;
mod wire;

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use comm::Comm;
use contexts::{DataComm, lane_of};
use control::Control;
use data::Posts;
use flight::Flights;
use guest::Guests;
use ulfm::Ulfm;

pub use self::{
    baseline::Baseline,
    comm::communicators,
    element::MpiElement,
    expose::{Expose, Exposure, Number},
    facts::{Facts, facts},
    flight::Flight,
    guest::{Adopted, Ended},
    holdings::Holdings,
    reduce::UserFunction,
    seats::Seat,
    spawn::Command,
    trace::record,
    watchdog::before_mpi,
};
use crate::{
    engine::{
        buffer::{AnyBuffer, Buffer},
        platform::{
            DataId, Derived, Envelope, FileId, FileMode, Idle, Incoming, Lane, MessageId,
            Operation, Origin, Platform, Post, PostId, Posted, Progress, Settled, Status,
            UniverseId, Way,
        },
        pulse::Pulse,
        record::{self, Record},
    },
    error::Error,
    fault::FaultCode,
    ids::CommId,
    protocol::{agreement::FIRST_SHARED_CONTEXT, fused::Values, message::Yes},
    rank::{Rank, RankSet},
};

/// How long `finalize` makes progress in any case.
const LAST_PROGRESS: Duration = Duration::from_millis(20);
/// How long a parked spare sleeps between two looks.
const NAP: Duration = Duration::from_micros(800);

/// MPI as the engine sees it.
pub struct MpiPlatform {
    ulfm: &'static Ulfm,
    started: Instant,
    origin: Origin,
    max_tag: u32,
    control: Control,
    posts: Posts,
    guests: Guests,
    flights: Flights,
    data: Vec<Option<DataComm>>,
    /// Old contexts to be freed when nothing is pending on them.
    unneeded: Vec<(DataId, u32, Comm)>,
    /// The link to the root, and the processes spawned with us.
    spawned: Option<(Comm, Comm)>,
    /// We initialised MPI, so we end it.
    owns_mpi: bool,
}

impl MpiPlatform {
    /// What is pending in the background, now and then.
    #[cold]
    fn do_chores(&mut self) {
        if self.control.is_waiting() {
            self.watch();
        }
        self.posts.sweep();
        self.guests.sweep();
        for at in 0..self.data.len() {
            let Some(data) = self.data[at].as_mut().filter(|data| data.is_making()) else {
                continue;
            };
            let unneeded = data.advance(self.ulfm);
            self.note_unneeded(DataId(at as u32), unneeded);
        }
        self.free_unneeded();
        if self.spawned.is_some() && self.control.newest_is_revoked() {
            exit::leave_unneeded();
        }
    }

    /// Nothing has happened for a while: has somebody died whom MPI has not told of?
    #[cold]
    fn watch(&mut self) {
        if watcher::look() {
            self.control.look_for_deaths();
        }
    }
}

impl Platform for MpiPlatform {
    fn origin(&self) -> Origin {
        self.origin
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn record(&self) {
        trace::record();
    }

    fn observe(&mut self, observed: bool) -> Option<Pulse> {
        observer::observe(observed)
    }

    fn who_told(&self, universe: UniverseId, process: Rank) -> Option<&'static str> {
        watcher::who_told(universe, process)
    }

    #[inline]
    fn send(&mut self, universe: UniverseId, to: Rank, frame: &[u8]) {
        self.control.send(universe, to, frame);
    }

    #[inline]
    fn send_yes(&mut self, universe: UniverseId, to: Rank, comm: CommId, yes: &Yes) {
        self.control.send_yes(universe, to, comm, yes);
    }

    #[inline]
    fn send_fused(
        &mut self,
        universe: UniverseId,
        to: Rank,
        comm: CommId,
        yes: &Yes,
        values: &Values,
    ) {
        self.control.send_fused(universe, to, comm, yes, values);
    }

    #[inline]
    fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming> {
        if self.control.did_chores() {
            self.do_chores();
        }
        self.control.poll(awaits)
    }

    fn values(&self) -> Option<&Values> {
        self.control.values()
    }

    #[inline]
    fn idle(&mut self, until: Option<Duration>, how: Idle) {
        self.watch();
        if how == Idle::Parked {
            let left = until.map_or(NAP, |until| until.saturating_sub(self.now()));
            thread::sleep(left.min(NAP));
        }
    }

    fn max_tag(&self) -> u32 {
        self.max_tag
    }

    fn awaits_context(&mut self, data: DataId, context: u32) -> bool {
        let ulfm = self.ulfm;
        let Some(place) = self.data.get_mut(data.0 as usize).and_then(Option::as_mut) else {
            return false;
        };
        let (comes, unneeded) = place.await_context(context, ulfm);
        self.note_unneeded(data, unneeded);
        comes
    }

    fn post(
        &mut self,
        lane: Lane,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        if let Operation::File(access) = operation {
            return self.posts.post_file(*access, buffer);
        }
        match lane_of(&self.data, lane) {
            Some(comm) => self.posts.post((lane, comm), operation, buffer),
            None => Err((FaultCode::Interrupted, buffer)),
        }
    }

    fn start(&mut self, lane: Lane, way: Way, envelope: Envelope, record: &mut Record) -> bool {
        if !self.flights.enter(&self.data, lane) {
            return record.refuse(FaultCode::Interrupted);
        }
        self.flights.start(way, envelope, record)
    }

    fn start_all(
        &mut self,
        lane: Lane,
        way: Way,
        envelopes: &[Envelope],
        records: &mut [Record],
    ) -> bool {
        self.flights.start_all((&self.data, lane), way, envelopes, records)
    }

    #[inline]
    fn test(&mut self, post: PostId) -> Progress {
        if guest::is_guest(post) {
            return self.guests.test(post, self.ulfm);
        }
        self.posts.test(post, self.ulfm)
    }

    fn look(&mut self, record: &mut Record) {
        if record.flight().is_some() {
            return self.flights.look(record);
        }
        record::look(self, record);
    }

    fn settle(&mut self, records: &mut [Record]) -> Settled {
        self.settle_all(records)
    }

    fn cancel(&mut self, post: &mut Post, failed: bool) {
        match post {
            Post::Message(flight) => flight.cancel(),
            Post::Kept(id) if guest::is_guest(*id) => self.guests.cancel(*id, failed),
            Post::Kept(id) => self.posts.cancel(*id),
        }
    }

    fn disturbance(&mut self, lane: Lane) -> Option<FaultCode> {
        if let Some((_, users)) = self.guests.users(lane.data) {
            return users.disturbance(self.ulfm);
        }
        let over = Some(FaultCode::Interrupted);
        lane_of(&self.data, lane).map_or(over, |comm| comm.disturbance(self.ulfm))
    }

    fn probe(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
        like: &mut dyn Buffer,
    ) -> Result<Option<(MessageId, Status)>, FaultCode> {
        let comm = lane_of(&self.data, lane).ok_or(FaultCode::Interrupted)?;
        self.posts.probe(comm, envelope, like, self.ulfm)
    }

    fn drop_message(&mut self, message: MessageId) {
        self.posts.drop_message(message);
    }

    fn peek(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
    ) -> Result<Option<(Rank, u32)>, FaultCode> {
        let comm = lane_of(&self.data, lane).ok_or(FaultCode::Interrupted)?;
        let is_bare = self.data[lane.data.0 as usize].as_ref().is_some_and(DataComm::is_bare);
        if is_bare { Ok(None) } else { Posts::peek(comm, envelope, self.ulfm) }
    }

    fn open_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        self.posts.open_file(path, mode, like)
    }

    fn sync_file(&mut self, file: FileId) -> Result<(), Error> {
        self.posts.sync_file(file)
    }

    fn close_file(&mut self, file: FileId) {
        self.posts.close_file(file);
    }

    #[inline]
    fn take(&mut self, post: PostId) -> Option<AnyBuffer> {
        if guest::is_guest(post) { None } else { self.posts.take(post) }
    }

    fn abandon(&mut self, post: Post, buffer: Option<AnyBuffer>) {
        match post {
            Post::Message(flight) => self.flights.abandon(flight, buffer, &mut self.posts),
            // What the user started is the user's to end.
            Post::Kept(id) if guest::is_guest(id) => {}
            Post::Kept(id) => self.posts.abandon(id),
        }
    }

    fn retire_contexts(&mut self, data: DataId, context: u32, refill: bool) {
        let guests = self.guests.retire(data, refill, self.ulfm);
        if guests && (refill || !self.needs(data, context - 1)) {
            return;
        }
        let Some(place) = self.data.get_mut(data.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        self.flights.close_lanes();
        let unneeded = place.retire(context, refill, self.ulfm);
        // What is pending in a shared context ends without a revocation, if it ends.
        self.posts.drain(data, context.min(FIRST_SHARED_CONTEXT), self.ulfm);
        self.note_unneeded(data, unneeded);
    }

    fn split(&mut self, parent: DataId, color: Option<u32>, key: u32) -> Result<Derived, Error> {
        let _rest = observer::rest();
        self.make_split(parent, color, key)
    }

    fn shrink(&mut self, parent: DataId, dead: &RankSet) -> Result<DataId, Error> {
        let _rest = observer::rest();
        let of_user = self.make_shrunken_guest(parent, dead);
        of_user.unwrap_or_else(|| self.make_shrunken(parent, dead))
    }

    fn regroup(
        &mut self,
        universe: UniverseId,
        dead: &RankSet,
        spawn: u32,
        brought: &[u8],
    ) -> Result<(UniverseId, Vec<u8>), Error> {
        let _rest = observer::rest();
        self.make_universe(universe, dead, spawn, brought)
    }

    fn join(&mut self) -> Result<(UniverseId, Rank, Vec<u8>), Error> {
        self.join_universe()
    }

    fn gather(&mut self, universe: UniverseId, members: &[Rank]) -> Result<Option<DataId>, Error> {
        let _rest = observer::rest();
        self.make_gathered(universe, members)
    }

    fn discard_data(&mut self, data: DataId) {
        self.flights.close_lanes();
        self.posts.discard(data);
        // The communicators stay allocated: others may still send to them, and MPI would deliver
        // such a message to a later communicator that has the same number.
        if let Some(mut place) = self.data.get_mut(data.0 as usize).and_then(Option::take) {
            place.abandon(self.ulfm);
        }
    }

    fn discard_universe(&mut self, universe: UniverseId) {
        watcher::forget(universe);
        self.control.discard(universe);
    }

    fn finalize(&mut self) {
        self.end();
    }

    fn exit(&mut self) -> ! {
        self.end_unused()
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn abort(&mut self) -> ! {
        exit::leave_unneeded()
    }
}
