//! The seam to the engine: every call locks the world, pays its time, and may be the last.

use std::{
    panic::resume_unwind,
    path::Path,
    sync::{Arc, MutexGuard},
    thread,
    time::Duration,
};

use super::{
    baton::{FAILED, Marker, Shared},
    world::{
        MAX_TAG, PROGRAMS_CONTEXT, Pid, QUANTUM, Time, World, groups::Parent, note, process::End,
    },
};
use crate::{
    error::Error,
    fault::{Cause, FaultCode},
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        membership::evidence::{Opinion, Tested},
    },
    rank::{Rank, RankSet},
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{
            DataId, Derived, FileId, FileMode, Found, Idle, Incoming, Lane, Made, Operation,
            Outgoing, Place, Platform, Post, PostId, Posted, Progress, Quit, Request, Setup,
            UniverseId, Unneeded,
        },
    },
};

pub(super) type Guard<'a> = MutexGuard<'a, World>;

/// Calls of a process that has ended, while it unwinds; beyond it hangs in some destructor.
const GHOST_CALLS: u64 = 10_000_000;

/// One process's access to the virtual world.
///
/// A process that the world ends (a crash, the end of a stuck simulation) unwinds with a private
/// payload: destructors run, no panic is reported. Calls from these destructors do nothing.
pub struct SimPlatform {
    shared: Arc<Shared>,
    pub(super) me: Pid,
}

impl std::fmt::Debug for SimPlatform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "simulated process {}", self.process())
    }
}

impl SimPlatform {
    pub(super) fn new(shared: Arc<Shared>, me: Pid) -> Self {
        Self { shared, me }
    }

    /// The number of this process: its launch position, or the order of spawns after those.
    pub fn process(&self) -> usize {
        self.me
    }

    /// Lets virtual time pass, as a computation would.
    pub fn compute(&self, time: Duration) {
        if let Some(mut world) = self.enter(false) {
            let done = world.processes[self.me].local + nanoseconds(time);
            world.make_ready(self.me, done);
            self.pause(world);
        }
    }

    /// Lets virtual time pass until this moment, if it has not come yet.
    pub fn compute_until(&self, moment: Duration) {
        let now = self.enter(false).map(|world| world.processes[self.me].local);
        let left = now.map(|now| moment.saturating_sub(Duration::from_nanos(now)));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            self.compute(left);
        }
    }

    /// Adds a line of the program's own to the transcript.
    pub fn note(&self, line: &str) {
        if let Some(mut world) = self.enter(false) {
            let at = world.processes[self.me].local;
            note!(world, at, "p{}: {line}", self.me);
        }
    }

    /// Something of the program's own happens that outlives it.
    pub(super) fn effect(&self) {
        let _ = self.enter(true);
    }

    /// This process crashes here and now.
    pub fn crash(&self) {
        if let Some(mut world) = self.enter(false) {
            let at = world.processes[self.me].local;
            world.die(self.me, at);
            self.unless_ended(world);
        }
    }

    /// The first thing in a life: it may be over already.
    pub(super) fn begin(&self) {
        let _ = self.enter(false);
    }

    /// Begins a call. `None` when the process has ended and unwinds: then nothing may happen.
    fn enter(&self, is_effect: bool) -> Option<Guard<'_>> {
        let mut world = self.lock()?;
        let it = &world.processes[self.me];
        // No other process may run in the middle of an unwinding, on whose thread they all are.
        if it.end.is_some() || thread::panicking() {
            return self.unless_ended(world);
        }
        if it.finalized {
            drop(world);
            panic!("process {} calls its platform after it has finalized", self.me);
        }
        world.charge(self.me, is_effect);
        let it = &world.processes[self.me];
        if it.end.is_some() {
            return self.unless_ended(world);
        }
        if it.local >= world.clock + QUANTUM {
            let local = it.local;
            world.make_ready(self.me, local);
            return self.pause(world);
        }
        Some(world)
    }

    pub(super) fn lock(&self) -> Option<Guard<'_>> {
        let world = self.shared.lock().ok();
        assert!(world.is_some() || thread::panicking(), "{FAILED}");
        world
    }

    /// Lets others run until this process's next event.
    fn pause<'a>(&'a self, world: Guard<'a>) -> Option<Guard<'a>> {
        let world = self.shared.pause(world, self.me);
        self.unless_ended(world)
    }

    /// Unwinds when the process has ended, unless it unwinds already.
    fn unless_ended<'a>(&self, mut world: Guard<'a>) -> Option<Guard<'a>> {
        let unwinds = thread::panicking();
        if world.is_active(self.me) && !unwinds {
            return Some(world);
        }
        world.processes[self.me].ghost_calls += 1;
        let spins = world.processes[self.me].ghost_calls > GHOST_CALLS;
        drop(world);
        assert!(!spins, "process {} waits in a destructor although it has ended", self.me);
        if unwinds {
            return None;
        }
        resume_unwind(Box::new(Marker));
    }

    /// Communicator and rank behind a local number.
    pub(super) fn place<'a>(&self, world: Guard<'a>, data: DataId) -> (Guard<'a>, (usize, usize)) {
        let place = world.processes[self.me].datas.get(data.0 as usize).copied().flatten();
        let Some(place) = place else {
            drop(world);
            panic!("process {} has no data communicator {}", self.me, data.0);
        };
        (world, place)
    }

    fn universe<'a>(&self, world: Guard<'a>, id: UniverseId) -> (Guard<'a>, usize, bool) {
        let Some((universe, in_use)) =
            world.processes[self.me].universes.get(id.0 as usize).copied()
        else {
            drop(world);
            panic!("process {} has no universe {}", self.me, id.0);
        };
        (world, universe, in_use)
    }

    /// Makes progress and looks at an operation.
    pub(super) fn progress_of(&self, post: PostId) -> Progress {
        let Some(world) = self.enter(false) else {
            return Progress::Failed(FaultCode::Interrupted);
        };
        let progress = world.processes[self.me].posts.get(&post.0).map(|post| post.progress);
        drop(world);
        let progress = self.test_handed(post).or(progress);
        progress.unwrap_or_else(|| panic!("process {} has no post {}", self.me, post.0))
    }

    /// Ends the post of an operation that is over; its buffer.
    pub(super) fn take(&self, post: PostId) -> AnyBuffer {
        let Some(mut world) = self.enter(false) else { return AnyBuffer::nothing() };
        let posts = &mut world.processes[self.me].posts;
        let over = posts.get(&post.0).is_some_and(|post| post.progress != Progress::Pending);
        let taken = if over { posts.remove(&post.0) } else { None };
        drop(world);
        let taken = taken.unwrap_or_else(|| panic!("post {} is not there or not over", post.0));
        taken.buffer
    }

    /// Makes a collective call and waits for what it makes.
    fn create(&self, request: Request) -> Result<Made, Error> {
        let world = self.enter(true).ok_or(Error::CreationFailed)?;
        let (mut world, parent) = match request {
            Request::Split { parent, .. } | Request::Shrink { parent, .. } => {
                let (world, (comm, _)) = self.place(world, parent);
                (world, Some(Parent::Comm(comm)))
            }
            Request::Regroup { universe, .. } | Request::Gather { universe, .. } => {
                let (world, global, _) = self.universe(world, universe);
                (world, Some(Parent::Universe(global)))
            }
            Request::Join => (world, None),
        };
        if let Some(wrong) = world.objection(self.me, &request) {
            drop(world);
            panic!("process {} {wrong}", self.me);
        }
        match parent {
            Some(parent) => world.enter_creation(self.me, parent, request),
            None => world.enter_join(self.me),
        }
        self.await_creation(world)
    }

    fn await_creation(&self, mut world: Guard<'_>) -> Result<Made, Error> {
        world.counters.creations += 1;
        let mut world = self.pause(world).ok_or(Error::CreationFailed)?;
        let made = world.processes[self.me].returned.take().expect("woken by a return");
        drop(world);
        // Dying here is dying right after the call, when the others may have succeeded.
        drop(self.enter(true).ok_or(Error::CreationFailed)?);
        made
    }
}

fn nanoseconds(time: Duration) -> Time {
    Time::try_from(time.as_nanos()).unwrap_or(Time::MAX / 4).min(Time::MAX / 4)
}

impl Platform for SimPlatform {
    fn setup(&self) -> Setup {
        let world = self.lock().expect("asked for before anything can fail");
        Setup {
            origin: world.processes[self.me].origin,
            shape: world.settings.exchange,
            patience: world.settings.patience,
            max_tag: MAX_TAG,
            page_bytes: world.settings.page_bytes,
            killed_at: None,
        }
    }

    fn now(&self) -> Duration {
        match self.enter(false) {
            Some(world) => Duration::from_nanos(world.processes[self.me].local),
            // Time flies for a process that has ended, so that no destructor waits for long.
            None => self.lock().map_or(Duration::MAX, |world| {
                Duration::from_millis(world.processes[self.me].ghost_calls)
                    + Duration::from_nanos(world.clock)
            }),
        }
    }

    fn tested(&self) -> Option<Tested> {
        let world = self.enter(false)?;
        let now = Duration::from_nanos(world.processes[self.me].local);
        world.settings.tested(self.me, now)
    }

    fn tested_node(&self, node: u32) -> Opinion {
        let Some(world) = self.enter(false) else { return Opinion::default() };
        let now = Duration::from_nanos(world.processes[self.me].local);
        world.settings.tested_node(self.me, node, now)
    }

    fn cause(&mut self, universe: UniverseId, dead: Rank) -> Option<Cause> {
        let known = |world: Guard<'_>| {
            let causes = world.settings.causes?;
            let (world, global, _) = self.universe(world, universe);
            let dead = world.universes[global].members[dead.index()] as u32;
            let now = Duration::from_nanos(world.processes[self.me].local);
            Some(causes(world.settings.seed, self.me as u32, dead, now))
        };
        self.enter(false).and_then(known).unwrap_or(Some(Cause::Unknown))
    }

    fn send(&mut self, universe: UniverseId, to: Rank, message: Outgoing<'_>) {
        let Some(world) = self.enter(true) else { return };
        let (mut world, global, _) = self.universe(world, universe);
        let size = world.universes[global].members.len();
        if to.index() >= size {
            drop(world);
            panic!("process {} sends to rank {to} of {size} in universe {}", self.me, universe.0);
        }
        world.send_frame(self.me, universe, to, message.frame());
    }

    fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming> {
        self.enter(false)?.take_news(self.me, awaits)
    }

    fn nodes(&self, universe: UniverseId) -> Vec<u32> {
        let Some(world) = self.enter(false) else { return Vec::new() };
        let (world, global, _) = self.universe(world, universe);
        let nodes = &world.settings.nodes;
        let members = world.universes[global].members.iter();
        if nodes.is_empty() {
            return Vec::new();
        }
        members.map(|process| nodes[process % nodes.len()]).collect()
    }

    fn idle(&mut self, until: Option<Duration>, _: Idle) {
        let Some(mut world) = self.enter(false) else { return };
        if world.fall_idle(self.me, until.map(nanoseconds))
            && let Some(mut world) = self.pause(world)
        {
            world.forget_news(self.me);
        }
    }

    fn awaits_context(&mut self, data: DataId, context: u32) -> bool {
        let Some(world) = self.enter(false) else { return false };
        let (world, (comm, rank)) = self.place(world, data);
        world.context_is_coming(comm, rank, context)
    }

    fn post(
        &mut self,
        Lane { data, context }: Lane,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let Some(world) = self.enter(true) else {
            return Err((FaultCode::Interrupted, buffer));
        };
        let (mut world, place) = self.place(world, data);
        let context = context.min(FIRST_SHARED_CONTEXT);
        world.post(self.me, place, context, operation, buffer).map(Posted::Running)
    }

    fn test(&mut self, post: PostId, buffer: &mut Option<AnyBuffer>) -> Progress {
        let progress = self.progress_of(post);
        // A request of the program keeps its buffer.
        if progress != Progress::Pending && !self.is_handed(post) {
            *buffer = Some(self.take(post));
        }
        progress
    }

    fn cancel(&mut self, post: &mut Post, why: Option<FaultCode>) {
        let Post::Kept(post) = *post else { return };
        self.cut_handed(post, why);
        if let Some(mut world) = self.enter(false) {
            world.cancel(self.me, post);
        }
    }

    fn disturbance(&mut self, Lane { data, context }: Lane) -> Option<FaultCode> {
        // What the program has posted runs in a context of its own.
        let context = if self.is_programs(data) { PROGRAMS_CONTEXT } else { context };
        let world = self.enter(false)?;
        let (world, place) = self.place(world, data);
        world.disturbance(self.me, place, context)
    }

    fn probe(
        &mut self,
        Lane { data, context }: Lane,
        (from, tag): (Option<Rank>, Option<u32>),
        take: Option<&mut dyn Buffer>,
    ) -> Result<Option<Found>, FaultCode> {
        // What the program itself has sent is no business of ours.
        if take.is_none() && self.is_programs(data) && context < FIRST_SHARED_CONTEXT {
            return Ok(None);
        }
        let world = self.enter(false).ok_or(FaultCode::Interrupted)?;
        let (mut world, (comm, rank)) = self.place(world, data);
        let port = (comm, rank, context.min(FIRST_SHARED_CONTEXT));
        world.probe(self.me, port, &Operation::Receive { from, tag }, take.is_some())
    }

    fn open_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        like: &mut dyn Buffer,
    ) -> Result<FileId, Error> {
        let mut world = self.enter(true).ok_or(Error::Abandoned)?;
        world.open_file(self.me, &path.to_string_lossy(), mode, like)
    }

    fn sync_file(&mut self, _: FileId) -> Result<(), Error> {
        self.enter(true).map(drop).ok_or(Error::Abandoned)
    }

    fn abandon(&mut self, post: Post, _: Option<AnyBuffer>) {
        let Post::Kept(post) = post else { return };
        // What the program started is the program's to end.
        if !self.is_handed(post)
            && let Some(mut world) = self.enter(false)
        {
            world.abandon(self.me, post);
        }
    }

    fn retire_contexts(&mut self, data: DataId, context: u32, refill: bool) {
        let is_programs = self.is_programs(data);
        if let Some(world) = self.enter(true) {
            let (mut world, place) = self.place(world, data);
            match (is_programs, refill) {
                (false, _) => world.retire(self.me, place, context.min(FIRST_SHARED_CONTEXT)),
                (true, false) => world.revoke_programs(self.me, data, place),
                // All live: nothing is revoked.
                (true, true) => {}
            }
        }
    }

    fn finalize(&mut self, _: bool) {
        if let Some(mut world) = self.enter(true) {
            world.count_leftovers(self.me);
            let it = &mut world.processes[self.me];
            it.finalized = true;
            let local = it.local;
            note!(world, local, "p{} finalizes", self.me);
        }
    }

    fn quit(&mut self, how: Quit) -> ! {
        if how != Quit::Unneeded {
            self.crash();
            resume_unwind(Box::new(Marker));
        }
        if let Some(mut world) = self.lock().and_then(|world| self.unless_ended(world)) {
            world.count_leftovers(self.me);
            let it = &mut world.processes[self.me];
            it.end = Some(End::Exited);
            let local = it.local;
            note!(world, local, "p{} exits", self.me);
        }
        assert!(!thread::panicking(), "exit from a destructor while unwinding");
        resume_unwind(Box::new(Marker));
    }

    fn meet(&mut self, place: Place, _: &RankSet) -> bool {
        // Time flies for a process that has ended.
        let Some(world) = self.enter(false) else { return true };
        let (mut world, parent) = match place {
            Place::Data(data) => {
                let (world, (comm, _)) = self.place(world, data);
                (world, Parent::Comm(comm))
            }
            Place::Universe(universe) => {
                let (world, global, _) = self.universe(world, universe);
                (world, Parent::Universe(global))
            }
        };
        world.meet(self.me, parent)
    }

    fn make(&mut self, request: Request) -> Result<Made, Error> {
        let programs = match request {
            Request::Shrink { parent, .. } => Some(parent),
            Request::Join => return self.create(request).map_err(|_| Error::NotNeeded),
            _ => None,
        };
        let made = self.create(request)?;
        if let (Some(parent), Made::Comm(Derived { data: Some(data), .. })) = (programs, &made)
            && self.is_programs(parent)
        {
            self.give_to_program(*data);
        }
        Ok(made)
    }

    fn discard(&mut self, unneeded: Unneeded) {
        let is_effect = matches!(unneeded, Unneeded::File(_) | Unneeded::Message(_));
        let Some(mut world) = self.enter(is_effect) else { return };
        match unneeded {
            Unneeded::Universe(universe) => {
                let (mut world, ..) = self.universe(world, universe);
                world.processes[self.me].universes[universe.0 as usize].1 = false;
            }
            Unneeded::Data(data) => {
                let (mut world, place) = self.place(world, data);
                world.discard(self.me, place);
            }
            // What is under way goes on, and the file is not named again.
            Unneeded::File(_) => {}
            Unneeded::Message(message) => world.drop_message(self.me, message),
        }
    }
}
