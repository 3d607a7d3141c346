//! A program that owns its MPI, as programs in C do: its communicators, also with replacements for
//! the dead, and requests that it starts itself and hands over.
//!
//! As on real ranks, all that is done to such a request is to test it. When its block is doomed the
//! block's communicator is revoked, which ends what is pending there; a request on another
//! communicator is over for its block then, while the world still has it. What it came to is told
//! as often as a caller asks, until all who use it have let go.

use super::{
    SimPlatform,
    world::{
        PROGRAMS_CONTEXT, Pid, World,
        data::{Handed, Post},
    },
};
use crate::{
    error::Error,
    fault::FaultCode,
    native::Element,
    rank::{Rank, RankSet},
    seam::{
        buffer::AnyBuffer,
        platform::{
            DataId, Lane, Made, Operation, Platform as _, PostId, Posted, Progress, Request,
            Status, UniverseId,
        },
    },
};

impl Post {
    /// What a request of the program has come to, for the program and for blocks; nothing for an
    /// operation of the library.
    fn handed_progress(&self) -> Option<Progress> {
        let handed = self.handed.as_ref()?;
        Some(match self.progress {
            Progress::Pending => handed.given_up.map_or(Progress::Pending, Progress::Failed),
            Progress::Complete(Status { cancelled: true, .. }) => {
                handed.cut.map_or(self.progress, Progress::Failed)
            }
            ended => ended,
        })
    }
}

impl SimPlatform {
    /// A communicator of the program, with all that were launched, and its use by the library:
    /// its processes as a universe of their own, and where its operations run.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it.
    pub fn adopt_comm(&mut self) -> Result<(UniverseId, DataId), Error> {
        let (old, dead) = (UniverseId(0), RankSet::new());
        let request = Request::Regroup { universe: old, dead, spawn: 0, brought: Vec::new() };
        let (universe, ..) = self.make(request)?.universe();
        if let Some(mut world) = self.lock() {
            let number = world.universe_of(self.me, universe);
            world.seated.insert(number);
        }
        Ok((universe, self.merge_link(universe)?))
    }

    /// Starts new processes and links them to the living of a communicator that the program has
    /// adopted: a universe in which they have the ranks of the dead. All living ranks call it, and
    /// new processes [`Self::enter_link`]. What all bring, each gets.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it.
    pub fn link_new(
        &mut self,
        universe: UniverseId,
        dead: RankSet,
        brought: &[u8],
    ) -> Result<UniverseId, Error> {
        let (spawn, brought) = (dead.iter().count() as u32, brought.to_vec());
        let made = self.make(Request::Regroup { universe, dead, spawn, brought })?;
        Ok(made.universe().0)
    }

    /// The part of a new process in this: the universe, its rank there, and what all have brought.
    ///
    /// # Errors
    ///
    /// As for that.
    pub fn enter_link(&mut self) -> Result<(UniverseId, Rank, Vec<u8>), Error> {
        self.make(Request::Join).map(Made::universe)
    }

    /// From now on [`Self::merge_link`] fails in this universe, also where a process waits.
    pub fn cut_link(&mut self, universe: UniverseId) {
        if let Some(mut world) = self.lock() {
            let number = world.universe_of(self.me, universe);
            world.cut(number);
        }
    }

    /// Makes a communicator of all processes of a universe, which is the program's. All of them
    /// call it.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when one of them is dead, or the link was cut.
    pub fn merge_link(&mut self, universe: UniverseId) -> Result<DataId, Error> {
        let size = self.lock().map_or(0, |world| world.size_of(self.me, universe));
        let members: Vec<Rank> = (0..size).map(Rank::from).collect();
        let made = self.make(Request::Gather { universe, members })?.comm();
        let data = made.data.ok_or(Error::CreationFailed)?;
        self.give_to_program(data);
        Ok(data)
    }

    /// From now on this communicator is the program's.
    pub(super) fn give_to_program(&self, data: DataId) {
        if let Some(world) = self.lock() {
            let (mut world, (comm, _)) = self.place(world, data);
            world.processes[self.me].programs.insert(comm);
        }
    }

    /// True when this communicator is the program's.
    pub(super) fn is_programs(&self, data: DataId) -> bool {
        self.lock().is_some_and(|world| {
            let (world, (comm, _)) = self.place(world, data);
            world.processes[self.me].programs.contains(&comm)
        })
    }

    /// The processes of a communicator, in the order of its ranks.
    pub fn processes_of(&self, data: DataId) -> Vec<usize> {
        self.lock().map_or_else(Vec::new, |world| {
            let (world, (comm, _)) = self.place(world, data);
            world.comms[comm].members.clone()
        })
    }

    /// Starts a request of the program, as `MPI_Isend` and the like do; nothing when its
    /// communicator was revoked.
    pub fn start_request<T: Element>(
        &mut self,
        data: DataId,
        operation: &Operation,
        buffer: Vec<T>,
    ) -> Option<PostId> {
        self.start_in(Lane { data, context: PROGRAMS_CONTEXT }, operation, buffer)
    }

    /// Starts a message of the program in a lane of the library.
    pub fn start_in<T: Element>(
        &mut self,
        lane: Lane,
        operation: &Operation,
        buffer: Vec<T>,
    ) -> Option<PostId> {
        let Ok(Posted::Running(post)) = self.post(lane, operation, AnyBuffer::of(buffer)) else {
            return None;
        };
        self.with_post(post, |post| post.handed = Some(Handed { uses: 1, ..Handed::default() }));
        Some(post)
    }

    fn with_post<R>(&self, post: PostId, use_it: impl FnOnce(&mut Post) -> R) -> Option<R> {
        let mut world = self.lock()?;
        world.processes[self.me].posts.get_mut(&post.0).map(use_it)
    }

    /// The request goes to a block on this communicator, which uses it from now on.
    pub fn assign_request(&mut self, post: PostId, data: DataId) {
        self.with_post(post, |post| {
            if let Some(handed) = &mut post.handed {
                handed.uses += 1;
                (handed.block, handed.given_up) = (Some(data), None);
            }
        });
    }

    /// One of those who use a request does no more. After the last it is gone.
    pub fn forget_request(&mut self, post: PostId) {
        let unused = self.with_post(post, |post| {
            post.handed.as_mut().is_some_and(|handed| {
                handed.uses -= 1;
                handed.uses == 0
            })
        });
        if unused == Some(true)
            && let Some(mut world) = self.lock()
        {
            world.abandon(self.me, post);
        }
    }

    /// The content of a request that is complete, with success.
    pub fn content_of<T: Element + Clone>(&self, post: PostId) -> Option<Vec<T>> {
        let content = self.with_post(post, |post| {
            let complete = matches!(post.progress, Progress::Complete(it) if !it.cancelled);
            let buffer = &*post.buffer;
            complete.then(|| AnyBuffer::take(&mut Some(buffer.copy(0, buffer.elements()))))
        });
        content??
    }

    /// What a request of the program has come to; nothing for an operation of the library.
    pub(super) fn test_handed(&self, id: PostId) -> Option<Progress> {
        let hopeless = self.with_post(id, |post| {
            let Operation::Receive { from: None, .. } = post.operation else { return None };
            let pending = post.handed_progress() == Some(Progress::Pending);
            pending.then_some(post.comm)
        })?;
        if let Some(comm) = hopeless
            && let Some(mut world) = self.lock()
            && world.knows_of_a_death(self.me, comm)
        {
            // A wildcard whose sender may be the dead: the block is doomed.
            let failed = Some(FaultCode::ProcessFailed);
            let posts = &mut world.processes[self.me].posts;
            if let Some(handed) = posts.get_mut(&id.0).and_then(|post| post.handed.as_mut()) {
                (handed.given_up, handed.cut) = (failed, failed);
            }
            world.cancel(self.me, id);
        }
        self.with_post(id, |post| post.handed_progress())?
    }

    /// True for a request of the program.
    pub(super) fn is_handed(&self, post: PostId) -> bool {
        self.with_post(post, |post| post.handed.is_some()) == Some(true)
    }

    /// A request of the program is asked to end. If it has failed for its block, it was interrupted
    /// for others that ask.
    pub(super) fn cut_handed(&self, post: PostId, why: Option<FaultCode>) {
        self.with_post(post, |post| {
            if let (Some(handed), Some(why)) = (post.handed.as_mut(), why) {
                handed.cut.get_or_insert(FaultCode::Interrupted);
                if why == FaultCode::Interrupted {
                    handed.given_up.get_or_insert(why);
                }
            }
        });
    }
}

impl World {
    fn universe_of(&self, me: Pid, universe: UniverseId) -> usize {
        self.processes[me].universes[universe.0 as usize].0
    }

    fn size_of(&self, me: Pid, universe: UniverseId) -> usize {
        self.universes[self.universe_of(me, universe)].members.len()
    }

    /// A block on this communicator of the program is doomed, or has a dead member: it is revoked,
    /// and requests of its blocks that are pending on others are over for these.
    pub(super) fn revoke_programs(&mut self, me: Pid, data: DataId, place: (usize, usize)) {
        self.retire(me, place, PROGRAMS_CONTEXT + 1);
        for post in self.processes[me].posts.values_mut() {
            if let Some(handed) = post.handed.as_mut().filter(|it| it.block == Some(data))
                && post.progress == Progress::Pending
            {
                handed.given_up.get_or_insert(FaultCode::Interrupted);
            }
        }
    }
}
