//! The real world: Open MPI with ULFM, or MPICH, behind the trait [`Platform`].
//!
//! With `native`, the only module with `unsafe`. Its rooms each name only those below them, as
//! a test checks; no files of them import each other in a circle.
//!
//! ```text
//! mod          what the engine sees; beside it `facts`, `baseline`
//! lifecycle    start, spawn, communicators made with others, exit, watchdog
//! operations   what is under way, and the communicators it runs on; the platform itself
//! transport    frames between processes: by MPI, by memory that those of a node share
//! deaths       seen by the watcher, or told by an observer; then told to MPI
//! this_mpi     which MPI it is: its peculiarities, by what they are asked for
//! openmpi5     those of Open MPI 5, a file for each defect
//! mpich        those of MPICH 5, where the crate is built for that
//! calls        one checked function for each call of MPI
//! node         what this process finds on its node, without MPI
//! ```
//!
//! **Assumes** one thread that calls MPI, and the launch line of `fampi run`: fault tolerance on,
//! `pml ob1` over shared memory and TCP, asynchronous finalize.

mod baseline;
mod calls;
mod deaths;
mod facts;
mod lifecycle;
#[cfg(mpich)]
#[allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    reason = "the functions of Open MPI's room, which need more"
)]
mod mpich;
mod node;
#[cfg(not(mpich))]
mod openmpi5;
#[cfg_attr(mpich, allow(clippy::trivially_copy_pass_by_ref, reason = "no request is kept"))]
mod operations;
mod this_mpi;
mod transport;

use std::{path::Path, thread, time::Duration};

use deaths::{observer, watcher};
use lifecycle::exit;
use node::pulse;
use operations::contexts::lane_of;

#[cfg(mpich)]
pub use self::mpich::{
    kept_requests::{free_kept, note_started, stand_before},
    while_waiting,
};
pub use self::{
    baseline::Baseline,
    calls::{
        classes::{in_this_mpi, of_this_mpi},
        comm::communicators,
        kept::Origin,
        layout::InNumbers,
    },
    facts::{Facts, Holdings, facts},
    lifecycle::{
        adopt::Adopted,
        links::Gathering,
        rebuild_ranks::{Replacements, Seat, Seating},
        spawn::Command,
        watchdog::before_mpi,
    },
    node::environment::{checkpoints, leave_the_plan_to_the_program},
    node::trace::record,
    operations::{platform::MpiPlatform, users::Ended, users_requests::Kept, users_table::Spread},
};
use crate::{
    error::Error,
    fault::{Cause, FaultCode},
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        fused::Values,
        membership::evidence::{Opinion, Tested},
    },
    rank::{Rank, RankSet},
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{
            self, DataId, Envelope, FileId, FileMode, Found, Idle, Incoming, Lane, Made, Operation,
            Outgoing, Place, Platform, Post, PostId, Posted, Progress, Quit, Request, Settled,
            Setup, UniverseId, Unneeded, Way,
        },
        pulse::Pulse,
        record::Record,
    },
};

/// How long a parked spare sleeps between two looks.
const NAP: Duration = Duration::from_micros(800);

impl MpiPlatform {
    /// What is held now. Makes no progress.
    pub(crate) fn holdings(&self) -> Holdings {
        let (operations, quarantined) = self.table.held();
        let operations = operations + self.flights.count();
        Holdings { communicators: calls::comm::live(), operations, quarantined }
    }

    /// Ends the requests that are over, messages and others.
    fn settle_all(&mut self, records: &mut [Record]) -> Settled {
        let mut settled = self.flights.settle(records);
        loop {
            let others = self.settle_others(&mut records[settled.complete..]);
            settled.complete += others.complete;
            settled.failed |= others.failed;
            if others.complete == 0 || others.failed {
                return settled;
            }
            let rest = self.flights.settle(&mut records[settled.complete..]);
            settled.complete += rest.complete;
            settled.failed |= rest.failed;
        }
    }

    /// Ends requests that are over and no messages with a peer, up to the next that is one.
    fn settle_others(&mut self, records: &mut [Record]) -> Settled {
        let mut complete = 0;
        while let Some(record) = records.get_mut(complete)
            && let (false, Some(id)) = (record.is_over(), record.id())
        {
            if self.table.is_whole(id) {
                // Written in its place: copied after it was put together it would be waited for.
                record.end_at_once(0);
                complete += 1;
                continue;
            }
            platform::look(self, record);
            if !record.is_complete() {
                return Settled { complete, failed: record.is_over() };
            }
            complete += 1;
        }
        Settled { complete, failed: false }
    }
}

impl Platform for MpiPlatform {
    fn setup(&self) -> Setup {
        self.setup
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn observe(&mut self, observed: bool) -> Option<Pulse> {
        observer::observe(observed)
    }

    fn tested(&self) -> Option<Tested> {
        observer::tested()
    }

    fn tested_node(&self, node: u32) -> Opinion {
        observer::tested_node(node)
    }

    fn nodes(&self, universe: UniverseId) -> Vec<u32> {
        self.control.nodes(universe)
    }

    fn who_told(&self, universe: UniverseId, process: Rank) -> Option<&'static str> {
        watcher::who_told(universe, process)
    }

    fn cause(&mut self, universe: UniverseId, dead: Rank) -> Option<Cause> {
        watcher::cause(universe, dead)
    }

    #[inline]
    fn send(&mut self, universe: UniverseId, to: Rank, message: Outgoing<'_>) {
        self.control.send(universe, to, message);
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
        this_mpi::when_idle();
        if how == Idle::Parked {
            let left = until.map_or(NAP, |until| until.saturating_sub(self.now()));
            thread::sleep(left.min(NAP));
        }
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
        self.start_operation(lane, operation, buffer)
    }

    fn start(
        &mut self,
        lane: Lane,
        way: Way,
        envelopes: &[Envelope],
        records: &mut [Record],
    ) -> bool {
        self.flights.start((&self.data, lane), way, envelopes, records)
    }

    #[inline]
    fn test(&mut self, post: PostId, buffer: &mut Option<AnyBuffer>) -> Progress {
        match self.table.test(post, buffer, self.ulfm) {
            Progress::Failed(code) if code.is_unspecific() => {
                Progress::Failed(self.explain(post).unwrap_or(code))
            }
            progress => progress,
        }
    }

    fn look(&mut self, record: &mut Record) {
        if record.flight().is_some() {
            return self.flights.look(record);
        }
        platform::look(self, record);
    }

    fn settle(&mut self, records: &mut [Record]) -> Settled {
        self.settle_all(records)
    }

    fn cancel(&mut self, post: &mut Post, why: Option<FaultCode>) {
        match post {
            Post::Message(flight) => flight.cancel(),
            Post::Kept(id) => self.table.cancel(*id, why),
        }
    }

    fn disturbance(&mut self, lane: Lane) -> Option<FaultCode> {
        if let Some((_, users)) = self.users.get(lane.data) {
            return users.disturbance(self.ulfm);
        }
        let over = Some(FaultCode::Interrupted);
        lane_of(&self.data, lane).map_or(over, |comm| comm.disturbance(self.ulfm))
    }

    fn probe(
        &mut self,
        lane: Lane,
        envelope: (Option<Rank>, Option<u32>),
        take: Option<&mut dyn Buffer>,
    ) -> Result<Option<Found>, FaultCode> {
        let comm = lane_of(&self.data, lane).ok_or(FaultCode::Interrupted)?;
        self.messages.find(comm, envelope, take, self.ulfm)
    }

    fn open_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        self.files.open(path, mode, like)
    }

    fn sync_file(&mut self, file: FileId) -> Result<(), Error> {
        self.files.sync(file)
    }

    fn abandon(&mut self, post: Post, buffer: Option<AnyBuffer>) {
        match post {
            Post::Message(flight) => self.flights.abandon(flight, buffer, &mut self.table),
            Post::Kept(id) => self.table.abandon(id),
        }
    }

    fn retire_contexts(&mut self, data: DataId, context: u32, refill: bool) {
        if let Some((_, users)) = self.users.get(data) {
            if refill {
                return;
            }
            users.revoke(self.ulfm);
            // Messages of ours run elsewhere, and in a shared context.
            return self.table.drain_users(data);
        }
        let Some(place) = self.data.get_mut(data.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        self.flights.close_lanes();
        let unneeded = place.retire(context, refill, self.ulfm);
        // What is pending in a shared context ends without a revocation, if it ends.
        self.table.drain(data, context.min(FIRST_SHARED_CONTEXT), self.ulfm);
        self.note_unneeded(data, unneeded);
    }

    fn meet(&mut self, place: Place, dead: &RankSet) -> bool {
        self.meet_at(place, dead)
    }

    fn make(&mut self, request: Request) -> Result<Made, Error> {
        let _rest = (request != Request::Join).then(pulse::rest);
        match request {
            Request::Split { parent, color, key } => {
                self.make_split(parent, color, key).map(Made::Comm)
            }
            Request::Shrink { parent, dead } => self.make_shrunken(parent, &dead).map(Made::Comm),
            Request::Regroup { universe, dead, spawn, brought } => {
                self.make_universe(universe, &dead, spawn, &brought)
            }
            Request::Join => self.join_universe(),
            Request::Gather { universe, members } => {
                self.make_gathered(universe, &members).map(Made::Comm)
            }
        }
    }

    fn discard(&mut self, unneeded: Unneeded) {
        match unneeded {
            Unneeded::Universe(universe) => {
                watcher::forget(universe);
                self.attempts.discard(universe);
                self.control.discard(universe);
            }
            Unneeded::Data(data) => {
                self.flights.close_lanes();
                self.table.discard(data);
                // The communicators stay allocated: others may still send to them, and MPI would
                // deliver such a message to a later communicator that has the same number.
                if let Some(mut place) = self.data.get_mut(data.0 as usize).and_then(Option::take) {
                    place.abandon(self.ulfm);
                }
            }
            Unneeded::File(file) => self.files.close(file),
            Unneeded::Message(message) => self.messages.discard(message, &mut self.table),
        }
    }

    fn finalize(&mut self, has_losses: bool) {
        if has_losses {
            deaths::note();
        }
        self.end();
    }

    fn quit(&mut self, how: Quit) -> ! {
        match how {
            Quit::Unneeded => self.end_unused(),
            Quit::Visibly => exit::leave_unneeded(),
            Quit::Killed => exit::killed_by_plan(),
        }
    }
}
