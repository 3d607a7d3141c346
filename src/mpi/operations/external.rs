//! A program that owns its MPI: its communicators and its requests, as the engine sees them.
//!
//! ```text
//! users' communicator ── MPI_Comm_dup ──▶ frames   control channel of a universe
//!                     ── MPI_Comm_dup ──▶ source   shrunken communicators are made from it
//! ```
//!
//! Operations are the user's: they run on the user's communicator and write to the user's memory.
//! All that is done to them is `MPI_Test`; when their block is doomed, their communicator is
//! revoked, which ends them. One that does not end even so, as it runs on another communicator,
//! is over for its block, while MPI still has it.

use std::{
    mem,
    time::{Duration, Instant},
};

use mpi::ffi;

use super::{contexts::DataComm, data::Posts, in_flight::Flights};
use crate::{
    engine::platform::{DataId, Origin, PostId, Progress, Status, UniverseId},
    error::Error,
    fault::FaultCode,
    ids::CommId,
    mpi::{
        MpiPlatform,
        calls::{
            comm::Comm,
            library,
            library::{Checked, PROC_FAILED_PENDING, Refusal},
            request::{Done, Request, empty_status},
            ulfm::{self, Ulfm},
        },
        deaths::{observer, watcher},
        lifecycle::{exit, groups, watchdog},
        node::{environment, status},
        openmpi5::{inject_failure, unreported_exit},
        transport::{
            acquaintance::{self, Acquaintance},
            control::Control,
        },
    },
    rank::{Rank, RankSet},
};

/// Numbers of the users' operations have this bit, those of our own have not.
const GUEST: u32 = 1 << 31;
/// Operations of a revoked communicator are over within 0.5 ms.
const DRAIN_WITHIN: Duration = Duration::from_millis(2);

/// A communicator of the user that was taken into use.
#[derive(Clone, Copy, Debug)]
pub struct Adopted {
    /// Its processes, in the order of its ranks.
    pub universe: UniverseId,
    /// Where its operations run.
    pub data: DataId,
    /// Our rank, and how many there are.
    pub place: (u32, Rank),
    /// The same name on all ranks.
    pub id: CommId,
}

/// What became of an operation of the user.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What MPI says, with the error class in it.
    pub status: ffi::MPI_Status,
    /// Why it failed, if it did.
    pub fault: Option<FaultCode>,
    /// A persistent request that is inactive now; MPI has forgotten all others.
    pub persistent: Option<ffi::MPI_Request>,
}

struct Operation {
    request: Request,
    ended: Option<Ended>,
    /// How many ask for it: the handle that stands for it, blocks.
    uses: u32,
    /// The communicator of its block.
    block: Option<DataId>,
    /// Its block was doomed while it was pending.
    given_up: Option<FaultCode>,
    /// What it has failed with, for its block, when MPI was asked to end it.
    cut: Option<FaultCode>,
}

/// All that is the user's.
#[derive(Default)]
pub(in crate::mpi) struct Guests {
    comms: Vec<(DataId, UniverseId, Comm)>,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    invited: bool,
}

/// True for operations of the user.
#[inline]
pub(in crate::mpi) fn is_guest(post: PostId) -> bool {
    post.0 & GUEST != 0
}

impl Operation {
    fn look(&mut self) -> Progress {
        if self.ended.is_none() {
            let mut done = Done::new(empty_status());
            let tested = self.request.test_with(Some(&mut done));
            let class = match tested {
                Ok(false) => 0,
                Ok(true) => {
                    // What was cancelled is complete for MPI, with nothing in its buffer.
                    let fault = self.cut.filter(|_| done.is_cancelled());
                    self.end(done.into_raw(), fault);
                    0
                }
                Err(refusal) => refusal.class,
            };
            if class == PROC_FAILED_PENDING {
                // A wildcard whose sender may be the dead: the block is doomed.
                self.cut = Some(FaultCode::ProcessFailed);
                self.request.cancel();
                self.given_up = Some(FaultCode::ProcessFailed);
            } else if class != 0 {
                let mut status = done.into_raw();
                status.MPI_ERROR = class;
                let fault = FaultCode::from_mpi_class(class);
                self.end(status, Some(fault));
            }
        }
        match &self.ended {
            Some(Ended { fault: Some(code), .. }) => Progress::Failed(*code),
            Some(_) => Progress::Complete(Status::default()),
            None => self.given_up.map_or(Progress::Pending, Progress::Failed),
        }
    }

    /// It failed for this reason, if MPI has given none.
    fn explain(&mut self, cause: FaultCode) {
        if let Some(Ended { status, fault: Some(fault), .. }) = &mut self.ended
            && fault.is_unspecific()
        {
            *fault = cause;
            status.MPI_ERROR = cause.to_mpi_class();
        }
    }

    fn end(&mut self, status: ffi::MPI_Status, fault: Option<FaultCode>) {
        let persistent = (!self.request.is_over()).then(|| self.request.raw());
        self.ended = Some(Ended { status, fault, persistent });
    }
}

impl Guests {
    fn operation(&mut self, post: PostId) -> Option<&mut Operation> {
        self.operations.get_mut((post.0 & !GUEST) as usize)?.as_mut()
    }

    pub(in crate::mpi) fn test(&mut self, post: PostId, ulfm: &Ulfm) -> Progress {
        let gone = Progress::Failed(FaultCode::Interrupted);
        match self.operation(post).map_or(gone, Operation::look) {
            Progress::Failed(code) if code.is_unspecific() => {
                Progress::Failed(self.explain(post, ulfm).unwrap_or(code))
            }
            progress => progress,
        }
    }

    /// Finds out why an operation failed whose error class does not say it. One that is in no block
    /// yet may run on any communicator.
    #[cold]
    fn explain(&mut self, post: PostId, ulfm: &Ulfm) -> Option<FaultCode> {
        let block = self.operation(post)?.block;
        let mut comms = self.comms.iter().filter(|it| block.is_none_or(|block| block == it.0));
        let cause = comms.find_map(|(.., comm)| comm.disturbance(ulfm))?;
        self.operation(post)?.explain(cause);
        Some(cause)
    }

    fn add(&mut self, request: Request) -> PostId {
        let (block, given_up, cut) = (None, None, None);
        let made = Operation { request, ended: None, uses: 1, block, given_up, cut };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() as u32 - 1
        });
        self.operations[slot as usize] = Some(made);
        PostId(slot | GUEST)
    }

    /// Asks MPI to end an operation. One that has failed for its block was interrupted for whoever
    /// waits for it: a deadline that has passed would be taken for that of the wait.
    pub(in crate::mpi) fn cancel(&mut self, post: PostId, failed: bool) {
        if let Some(operation) = self.operation(post).filter(|it| it.ended.is_none()) {
            operation.cut = operation.cut.or(failed.then_some(FaultCode::Interrupted));
            operation.request.cancel();
        }
    }

    /// Operations that nobody asks for are tested to their end, as MPI wants it.
    pub(in crate::mpi) fn sweep(&mut self) {
        for slot in 0..self.operations.len() {
            if let Some(operation) = self.operations[slot].as_mut().filter(|it| it.uses == 0)
                && operation.look() != Progress::Pending
            {
                self.operations[slot] = None;
                self.free.push(slot as u32);
            }
        }
    }

    /// True when a program that owns its MPI has come in.
    pub(in crate::mpi) fn are_in_use(&self) -> bool {
        self.invited
    }

    /// The user's communicator, if this is one.
    pub(in crate::mpi) fn users(&self, data: DataId) -> Option<(UniverseId, Comm)> {
        let found = self.comms.iter().find(|(known, ..)| *known == data)?;
        Some((found.1, found.2))
    }

    fn of_blocks_on(&mut self, data: DataId) -> impl Iterator<Item = &mut Operation> {
        self.operations.iter_mut().flatten().filter(move |it| it.block == Some(data))
    }

    /// A doomed block, or one with a dead member: what is pending on the user's communicator ends
    /// now. False when it is none of the user's.
    pub(in crate::mpi) fn retire(
        &mut self,
        data: DataId,
        everybody_lives: bool,
        ulfm: &Ulfm,
    ) -> bool {
        let Some((_, users)) = self.users(data) else { return false };
        if everybody_lives {
            return true;
        }
        users.revoke(ulfm);
        let began = Instant::now();
        while began.elapsed() < DRAIN_WITHIN {
            if self.of_blocks_on(data).all(|operation| operation.look() != Progress::Pending) {
                break;
            }
        }
        for operation in self.of_blocks_on(data) {
            operation.explain(FaultCode::Interrupted);
            operation.given_up.get_or_insert(FaultCode::Interrupted);
        }
        true
    }
}

impl MpiPlatform {
    /// A platform for a program that has initialised MPI and will finalise it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says in a sentence why this MPI, or this launch, will not do.
    pub fn guest() -> Result<Self, Error> {
        if !library::initialized()? {
            return Err(Error::Unsupported("call MPI_Init before fampi".into()));
        }
        if library::finalized()? {
            return Err(Error::Unsupported("MPI was finalised before fampi started".into()));
        }
        environment::check()?;
        observer::check_environment()?;
        let ulfm = ulfm::require()?;
        watchdog::start();
        unreported_exit::guard();
        exit::ignore_broken_pipes();
        status::report_start();
        let world = Comm::world()?;
        watchdog::set_rank(world.rank().number());
        watcher::add_launch();
        let alone = Comm::alone()?;
        let finished = Request::finished()?;
        Ok(Self {
            ulfm,
            started: Instant::now(),
            origin: Origin::Launched { rank: Rank::new(0), size: 1, spares: 0, spawns: false },
            max_tag: library::greatest_tag(world.raw())?,
            control: Control::new(ulfm),
            posts: Posts::new(finished),
            flights: Flights::new(finished, alone),
            guests: Guests { invited: true, ..Guests::default() },
            data: Vec::new(),
            unneeded: Vec::new(),
            spawned: None,
            owns_mpi: false,
        })
    }

    /// Takes a communicator of the user into use.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it, on all living ranks or on none: the
    /// user's communicator is revoked then. A rank that has left this call may die without that.
    ///
    /// # MPI
    ///
    /// Collective and blocking: two duplicates, two small exchanges, two agreements. Errors of the
    /// communicator return from now on.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator, and stays so until [`Self::forget_comm`].
    pub unsafe fn adopt_comm(&mut self, raw: ffi::MPI_Comm) -> Result<Adopted, Error> {
        // SAFETY: live, says our caller.
        let users = unsafe { Comm::from_raw(raw) }?;
        let ulfm = self.ulfm;
        let universe = self.control.next();
        let met = meet(&users, universe, ulfm);
        let (frames, source, Acquaintance { mailbox, .. }, id) = met.map_err(|refusal| {
            watcher::forget(universe);
            groups::failed(refusal, &[users], ulfm)
        })?;
        self.control.add(frames, source, mailbox);
        let data = self.add_data(DataComm::bare(source));
        self.guests.comms.push((data, universe, users));
        Ok(Adopted { universe, data, place: (users.size(), users.rank()), id: CommId(id) })
    }

    /// The user's communicator.
    pub fn users_comm(&self, data: DataId) -> Option<ffi::MPI_Comm> {
        self.guests.users(data).map(|(_, comm)| comm.raw())
    }

    /// The user has freed the communicator, or is about to.
    pub fn forget_comm(&mut self, data: DataId) {
        self.guests.comms.retain(|(known, ..)| *known != data);
    }

    /// Takes a request that the user started.
    ///
    /// # Safety
    ///
    /// The request is live, and nobody else tests or frees it any more.
    pub unsafe fn adopt_request(&mut self, raw: ffi::MPI_Request) -> PostId {
        // SAFETY: live and ours to test, says our caller.
        self.guests.add(unsafe { Request::from_raw(raw) })
    }

    /// The request belongs to a block on this communicator, and ends with it.
    pub fn assign(&mut self, post: PostId, data: Option<DataId>) {
        if let Some(operation) = self.guests.operation(post) {
            (operation.block, operation.given_up) = (data, None);
        }
    }

    /// The request that MPI gives for whatever was over before its start returned, as often as it
    /// likes; null if there is none.
    pub fn finished_request(&self) -> ffi::MPI_Request {
        self.posts.finished()
    }

    /// What became of a request, as far as is known without another look.
    pub fn ended(&mut self, post: PostId) -> Option<Ended> {
        self.guests.operation(post)?.ended
    }

    /// One more asks for this request.
    pub fn share_request(&mut self, post: PostId) {
        if let Some(operation) = self.guests.operation(post) {
            operation.uses += 1;
        }
    }

    /// One of those who asked for this request does no more. After the last, MPI completes it in
    /// its own time.
    pub fn forget_request(&mut self, post: PostId) {
        if let Some(operation) = self.guests.operation(post) {
            operation.uses = operation.uses.saturating_sub(1);
            if operation.uses == 0 && operation.ended.is_some() {
                self.guests.operations[(post.0 & !GUEST) as usize] = None;
                self.guests.free.push(post.0 & !GUEST);
            }
        }
    }

    /// Makes MPI call this function while it waits inside its own calls, where that is possible.
    pub fn call_back(&self, function: extern "C" fn() -> std::ffi::c_int) -> bool {
        let notice = inject_failure::find();
        notice.inspect(|notice| notice.call_back(function)).is_some()
    }

    /// A shrunken communicator for the user, who frees it.
    pub(in crate::mpi) fn make_shrunken_guest(
        &mut self,
        parent: DataId,
        dead: &RankSet,
    ) -> Option<Result<DataId, Error>> {
        let (universe, _) = self.guests.users(parent)?;
        Some(self.shrink_guest(parent, universe, dead))
    }

    fn shrink_guest(
        &mut self,
        parent: DataId,
        universe: UniverseId,
        dead: &RankSet,
    ) -> Result<DataId, Error> {
        let data = self.data[parent.0 as usize].as_ref().ok_or(Error::CreationFailed)?;
        let (old, ulfm) = (data.source(), self.ulfm);
        let all = self.control.source(universe).ok_or(Error::CreationFailed)?;
        if let Ok(places) = all.positions_of(&old) {
            let place = |rank: Rank| places.get(rank.index()).copied().flatten();
            watcher::tell(universe, dead.iter().filter_map(place));
        }
        let source = self.shrink_exactly(&old, dead)?;
        let users =
            source.duplicate().map_err(|refusal| groups::failed(refusal, &[source], ulfm))?;
        let data = self.add_data(DataComm::bare(source));
        self.guests.comms.push((data, universe, users.given_away()));
        Ok(data)
    }
}

/// Two duplicates, who is who, and a name that the first of them invents: on all living ranks, or
/// on none of them. What was made on some only is revoked, so that nobody waits in it.
fn meet(
    users: &Comm,
    universe: UniverseId,
    ulfm: &Ulfm,
) -> Checked<(Comm, Comm, Acquaintance, u64)> {
    let made = users.duplicate().and_then(|frames| Ok((frames, users.duplicate()?)));
    let (frames, source) = all_or_nobody(users, ulfm, made)?;
    let (met, name) = all_or_nobody(&source, ulfm, tell_of_oneself(&source, universe))?;
    Ok((frames, source, met, name))
}

/// What every process tells the others, and the name.
fn tell_of_oneself(source: &Comm, universe: UniverseId) -> Checked<(Acquaintance, u64)> {
    let mut met = acquaintance::meet(source)?;
    // The rest takes all of them, too.
    watcher::add(universe, mem::take(&mut met.processes), mem::take(&mut met.wills));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    let mut name = (now ^ u64::from(std::process::id()) << 40).to_le_bytes();
    source.spread(&mut name, 0)?;
    Ok((met, u64::from_le_bytes(name)))
}

/// What was made with the others on this communicator, if all living ranks have it. They wait for
/// each other here, and whoever lacks it first frees those who wait for this rank there.
fn all_or_nobody<T>(comm: &Comm, ulfm: &Ulfm, made: Checked<T>) -> Checked<T> {
    if comm.size() == 1 {
        // Open MPI 5 takes an agreement on `MPI_COMM_SELF` for one on the world, which hangs then.
        return made;
    }
    if made.is_err() {
        comm.revoke(ulfm);
    }
    let all = comm.unanimous_in_time(ulfm, made.is_ok());
    made.and_then(|made| {
        let elsewhere = Refusal { call: "MPIX_Comm_agree", class: library::PROC_FAILED };
        if all { Ok(made) } else { Err(elsewhere) }
    })
}
