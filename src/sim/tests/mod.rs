//! Tiny programs against the seam itself.

mod creation;
mod deaths;
mod operations;
mod world;

use std::time::Duration;

use super::{Crash, Ending, Report, SimPlatform, Simulation};
use crate::{
    error::Error,
    ids::{BlockId, CommId},
    native::Element,
    protocol::{
        codec::{self, Frame},
        message::{Message, Yes},
    },
    rank::{Rank, RankSet},
    seam::{
        buffer::AnyBuffer,
        collective::{Collective, Parts},
        platform::{
            DataId, Derived, Idle, Incoming, Lane, Made, Operation, Origin, Outgoing, Place,
            Platform, Post, PostId, Posted, Progress, Quit, Request, UniverseId, Unneeded,
        },
    },
};

const LAUNCH: UniverseId = UniverseId(0);

/// A universe, our rank there, and what was brought.
type Joined = (UniverseId, Rank, Vec<u8>);

fn rank(number: u32) -> Rank {
    Rank::new(number)
}

fn set(ranks: &[u32]) -> RankSet {
    ranks.iter().map(|number| rank(*number)).collect()
}

/// A frame that is not fast, with a number in it.
fn plain(number: u64) -> Frame {
    codec::encode(CommId(0), &Message::Interrupt(BlockId(number)))
}

fn fast(number: u64) -> Frame {
    let yes = Yes { block: BlockId(number), step: 0, view: 0, floor: BlockId(0) };
    codec::encode(CommId(0), &Message::Yes(yes))
}

fn number(frame: &[u8]) -> u64 {
    match codec::decode(frame) {
        Some((_, Message::Interrupt(block) | Message::Yes(Yes { block, .. }))) => block.0,
        _ => unreachable!("only these are sent"),
    }
}

/// Each call by itself.
impl SimPlatform {
    fn send(&mut self, universe: UniverseId, to: Rank, frame: &[u8]) {
        Platform::send(self, universe, to, Outgoing::Frame(frame));
    }

    fn split(&mut self, parent: DataId, color: Option<u32>, key: u32) -> Result<Derived, Error> {
        self.make(Request::Split { parent, color, key }).map(Made::comm)
    }

    fn regroup(&mut self, dead: &[u32], spawn: u32, brought: &[u8]) -> Result<Joined, Error> {
        let (dead, brought) = (set(dead), brought.to_vec());
        let request = Request::Regroup { universe: LAUNCH, dead, spawn, brought };
        self.make(request).map(Made::universe)
    }

    fn gather(&mut self, universe: UniverseId, members: &[Rank]) -> Result<Option<DataId>, Error> {
        let members = members.to_vec();
        self.make(Request::Gather { universe, members }).map(|made| made.comm().data)
    }
}

fn my_rank(platform: &SimPlatform) -> u32 {
    match platform.setup().origin {
        Origin::Launched { rank, .. } => rank.number(),
        Origin::Spawned => unreachable!("nobody spawns here"),
    }
}

/// A communicator of the whole launch.
fn gather_all(platform: &mut SimPlatform, size: u32) -> DataId {
    let members: Vec<Rank> = (0..size).map(rank).collect();
    platform.gather(LAUNCH, &members).expect("nobody dies").expect("everybody is a member")
}

fn next_news(platform: &mut SimPlatform, awaits: Option<u32>) -> Incoming {
    let awaits = awaits.map(|from| (LAUNCH, rank(from)));
    loop {
        if let Some(news) = platform.poll(awaits) {
            return news;
        }
        platform.idle(None, Idle::Busy);
    }
}

/// The number in the next frame, or `None` when a death comes first.
fn next_number(platform: &mut SimPlatform, awaits: Option<u32>) -> Option<u64> {
    match next_news(platform, awaits) {
        Incoming::Frame(_, _, frame) => Some(number(&frame)),
        Incoming::Yes(..) | Incoming::Fused(..) => unreachable!("the simulator decodes nothing"),
        Incoming::Failure(..) => None,
    }
}

fn wait(platform: &mut SimPlatform, post: PostId) -> Progress {
    loop {
        match platform.progress_of(post) {
            Progress::Pending => platform.idle(None, Idle::Busy),
            over => return over,
        }
    }
}

/// Waits with a limit; pending afterwards means that the limit came first.
fn wait_until(platform: &mut SimPlatform, post: PostId, limit: Duration) -> Progress {
    while platform.now() < limit && platform.progress_of(post) == Progress::Pending {
        platform.idle(Some(limit), Idle::Busy);
    }
    platform.progress_of(post)
}

fn lane(data: DataId, context: u32) -> Lane {
    Lane { data, context }
}

// What a test posts is made for it.
#[allow(clippy::needless_pass_by_value)]
fn post<T: crate::native::Element>(
    platform: &mut SimPlatform,
    data: DataId,
    operation: Operation,
    buffer: Vec<T>,
) -> PostId {
    started(platform.post(lane(data, 0), &operation, AnyBuffer::of(buffer))).expect("starts")
}

/// The post of what is under way, as all is that starts in the simulated world.
fn started<E>(posted: Result<Posted, E>) -> Option<PostId> {
    match posted.ok()? {
        Posted::Running(post) => Some(post),
        Posted::Complete(..) => None,
    }
}

fn barrier() -> Operation {
    Operation::Collective(Collective::Barrier)
}

fn allgather() -> Operation {
    Operation::Collective(Collective::Allgather { parts: Parts::Even })
}

fn send(to: u32, tag: u32) -> Operation {
    Operation::Send { to: rank(to), tag, synchronous: false }
}

fn receive(from: u32, tag: u32) -> Operation {
    Operation::Receive { from: Some(rank(from)), tag: Some(tag) }
}

fn content<T: Element>(buffer: AnyBuffer) -> Vec<T> {
    buffer.into_vec().expect("of this type")
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
