//! The only place that communicates while keys are sorted: halves of lists between two ranks, and
//! a few words from each rank to all.
//!
//! The sort is written once, against [`Network`]. [`InBlock`] runs it inside a block that commits;
//! [`Plain`] is the same on bare MPI, for measuring what blocks cost.

use std::ops::Range;

use fampi::{Error, Rank, Tag, Timeout, TryBlock};
use mpi::request::WaitGuard;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use crate::keys::Key;
use crate::list::List;

/// Half a list that is given away for another half.
#[derive(Debug)]
pub struct Trade<'a, K> {
    /// The part that it is about.
    pub part: u32,
    /// The part on the other side.
    pub partner: u32,
    /// The member that owns the part on the other side.
    pub owner: u32,
    /// The list.
    pub list: &'a List<K>,
    /// What of the list is given away.
    pub given: Range<usize>,
    /// Where the other half is received.
    pub into: List<K>,
    /// The place there that it is received at.
    pub at: usize,
    /// How many keys were received.
    pub received: usize,
}

/// What the sort needs of the other ranks.
pub trait Network {
    /// The members, by rank: the rank of the launch that each rank stands for.
    fn members(&self) -> &[u32];

    /// The words of all ranks, by rank; each has as many.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn gather(&mut self, words: &[u64]) -> Result<Vec<u64>, Error>;

    /// Makes trades; `under_way` is called while they are.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn trade<K: Key>(
        &mut self,
        trades: &mut [Trade<'_, K>],
        under_way: &mut dyn FnMut(),
    ) -> Result<(), Error>;
}

/// The rank of a member.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn rank_of(members: &[u32], member: u32) -> usize {
    members.iter().position(|it| *it == member).expect("owners are members")
}

/// Communication inside a block: a failure ends the block, not the program.
pub struct InBlock<'a> {
    block: &'a mut TryBlock,
    rank: usize,
    members: &'a [u32],
}

impl<'a> InBlock<'a> {
    /// Communication in this block, of the member `me` of these.
    pub fn new(block: &'a mut TryBlock, me: u32, members: &'a [u32]) -> Self {
        Self { block, rank: rank_of(members, me), members }
    }

    fn rank_of(&self, member: u32) -> Rank {
        Rank::new(rank_of(self.members, member) as u32)
    }
}

impl Network for InBlock<'_> {
    fn members(&self) -> &[u32] {
        self.members
    }

    fn gather(&mut self, words: &[u64]) -> Result<Vec<u64>, Error> {
        gather(self.block, self.rank, self.members.len(), words)
    }

    fn trade<K: Key>(
        &mut self,
        trades: &mut [Trade<'_, K>],
        under_way: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let mut receives = Vec::with_capacity(trades.len());
        for Trade { part, owner, into, at, .. } in &*trades {
            let (from, section) = (self.rank_of(*owner), [*at..into.room()]);
            receives.push(self.block.irecv_section(into.buffer(), section, from, Tag(*part))?);
        }
        for Trade { partner, owner, list, given, .. } in &*trades {
            let (to, section) = (self.rank_of(*owner), [given.clone()]);
            self.block.isend_section(list.buffer(), section, to, Tag(*partner))?;
        }
        under_way();
        for (trade, receive) in trades.iter_mut().zip(receives) {
            trade.received = self.block.wait_local(receive, Timeout::Never)?.elements;
        }
        Ok(())
    }
}

/// The words of all ranks of a block, by rank.
///
/// # Errors
/// [`Error`] when the block is lost.
pub fn gather(
    block: &mut TryBlock,
    rank: usize,
    ranks: usize,
    words: &[u64],
) -> Result<Vec<u64>, Error> {
    let mut all = vec![0; words.len() * ranks];
    all[words.len() * rank..][..words.len()].copy_from_slice(words);
    let all = block.iallgather(all)?;
    block.wait_local(all, Timeout::Never)?;
    block.take(all)
}

/// The plain program: bare MPI, which dies with its first rank.
pub struct Plain {
    world: SimpleCommunicator,
    members: Vec<u32>,
}

impl Plain {
    /// On this communicator.
    #[must_use]
    pub fn new(world: SimpleCommunicator) -> Self {
        let members = (0..world.size() as u32).collect();
        Self { world, members }
    }

    /// The communicator.
    #[must_use]
    pub const fn world(&self) -> &SimpleCommunicator {
        &self.world
    }
}

impl Network for Plain {
    fn members(&self) -> &[u32] {
        &self.members
    }

    fn gather(&mut self, words: &[u64]) -> Result<Vec<u64>, Error> {
        let mut all = vec![0; words.len() * self.members.len()];
        self.world.all_gather_into(words, &mut all[..]);
        Ok(all)
    }

    fn trade<K: Key>(
        &mut self,
        trades: &mut [Trade<'_, K>],
        under_way: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let lists = trades.iter().map(|trade| trade.list.read()).collect::<Result<Vec<_>, _>>()?;
        mpi::request::scope(|scope| -> Result<(), Error> {
            let mut receives = Vec::with_capacity(trades.len());
            let mut counts = Vec::with_capacity(trades.len());
            let mut sends = Vec::with_capacity(trades.len());
            for (trade, list) in trades.iter_mut().zip(&lists) {
                let Trade { part, partner, owner, given, into, at, received, .. } = trade;
                let (room, peer) = (into.room(), self.world.process_at_rank(*owner as i32));
                let section = &mut into.first(room)?[*at..];
                let tag = *part as i32;
                receives.push(peer.immediate_receive_into_with_tag(scope, section, tag));
                counts.push(received);
                let (section, tag) = (&list[given.clone()], *partner as i32);
                let send = peer.immediate_send_with_tag(scope, section, tag);
                sends.push(WaitGuard::from(send));
            }
            under_way();
            for (receive, received) in receives.into_iter().zip(counts) {
                let status = receive.wait();
                *received = status.count(K::equivalent_datatype()) as usize;
            }
            Ok(())
        })
    }
}
