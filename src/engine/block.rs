//! An open block: its requests, its faults, and how far it is.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::{
    CommKey, Engine,
    neighbours::Exchange,
    platform::{Lane, MessageId, Post},
    probe::Deferred,
    record::Records,
    service::Service,
};
use crate::{
    fault::{Fault, FaultCode, FaultReport},
    ids::BlockId,
    protocol::fused::Held,
    rank::Rank,
};

/// Who learns of a block's faults (paper §3.1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Level {
    /// This rank only: no message at all (`MPI_TRYBLOCK_LOCAL`).
    ///
    /// A code that is raised in it stays here, too, unless it is handed on. A *request* that fails
    /// in it does not: its message may still come, so the next agreed block of the communicator
    /// that has requests is faulty ([`Interrupted`](crate::FaultCode::Interrupted)), and nothing
    /// that comes late meets what is posted after that. What is to be retried locally goes on a
    /// communicator of its own.
    Local,
    /// All living ranks of the communicator, by an agreement (`MPI_TRYBLOCK_GLOBAL`).
    Global,
    /// All living ranks, in a block whose operations hold up every rank until all have come to them
    /// (`MPI_TRYBLOCK_WITH_COLLECTIVE`).
    ///
    /// Among the operations of the block is at least one that needs something of every rank: the
    /// reduction that it ends with ([`finish_allreduce`](crate::TryBlock::finish_allreduce)), a
    /// barrier, or an `iallreduce`, `iallgather(v)`, `ialltoall` or `ireduce_scatter_block` in
    /// which nobody's part is empty. All ranks post it, or leave the block. A rank that finishes
    /// the block without one leaves it with [`NoCollective`](crate::FaultCode::NoCollective), and
    /// the block is faulty.
    ///
    /// The paper lets such a block commit as soon as all of its own operations are complete here,
    /// as the collective shows that everybody was alive, and agree only when one of them fails:
    /// right *with a certain probability*, since the collective can be complete on some ranks and
    /// not on others. Here it is always right: a block of this level has the verdict and the
    /// report of a [`Self::Global`] one. The commit rides on the reduction that a block ends with:
    /// the two are the same messages, and no more. It cannot ride on one that was posted before
    /// the end, since what fails after it would be known to nobody; beside such a collective it
    /// costs what it costs for [`Self::Global`]. A barrier at the end of a block is never needed:
    /// nobody has a verdict before all have come.
    ///
    /// No collective works on a communicator with a dead rank, so recovery takes [`Self::Global`].
    WithCollective,
}

impl Level {
    /// True when the ranks agree on the verdict.
    #[inline]
    pub const fn is_agreed(self) -> bool {
        !matches!(self, Self::Local)
    }
}

/// The number of a block that nobody agrees on.
pub(super) const NO_BLOCK: BlockId = BlockId(u64::MAX);

/// Names a block in the engine's table, by its slot and how often that was used before; outdated
/// after the block was released. Both in eight bytes, so that handles travel in registers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct BlockKey([u32; 2]);

impl BlockKey {
    #[inline]
    const fn new(slot: usize, generation: u32) -> Self {
        Self([slot as u32, generation])
    }

    #[inline]
    pub(super) const fn slot(self) -> usize {
        self.0[0] as usize
    }

    #[inline]
    const fn generation(self) -> u32 {
        self.0[1]
    }
}

/// A block from its start until its handle is gone and its verdict is known.
pub(crate) struct OpenBlock {
    pub(super) generation: u32,
    /// Position in the order of all starts of this rank.
    pub(super) serial: u64,
    pub(crate) comm: CommKey,
    pub(crate) level: Level,
    /// Its number among the agreed blocks of its communicator; [`NO_BLOCK`] for a local one.
    pub(crate) scope: BlockId,
    /// What the tags of its messages have in common.
    pub(super) tag_scope: u32,
    pub(crate) context: u32,
    /// How many ranks there are.
    pub(super) size: u32,
    /// Where its messages run, if its communicator carries any.
    pub(super) lane: Lane,
    /// The news after which messages could start at once.
    pub(super) open_since: u64,
    pub(crate) records: Records,
    /// The operations among neighbours, and the accesses to windows of others.
    pub(super) exchanges: Vec<Exchange>,
    /// The accesses of others to windows of this rank.
    pub(super) service: Option<Box<Service>>,
    /// All records below are over.
    pub(super) first_pending: usize,
    /// One of these has failed.
    pub(super) has_failed: bool,
    /// One of its operations needs something of every rank.
    pub(super) has_synchronised: bool,
    /// Receives that wait for a probe to match their messages, in the order of their posts.
    pub(super) deferred: Vec<Deferred>,
    /// Messages that a probe has matched and nobody has received.
    pub(super) messages: Vec<MessageId>,
    pub(crate) faults: Vec<Fault>,
    /// What this rank says if it has no fault, which is a fault unless all ranks say it.
    pub(crate) proviso: Option<FaultCode>,
    /// What this rank brings to the fused reduction; its result when the block is committed.
    pub(super) values: Held,
    pub(super) phase: Phase,
    /// Why it is faulty, once it is decided.
    pub(super) report: FaultReport,
    /// The limit of finish, until a wait has looked at the clock: from then on there is a deadline.
    pub(super) limit: Option<Duration>,
    /// When the pending requests become faults.
    pub(super) deadline: Option<Duration>,
    /// Nobody holds the block's handle any more.
    pub(super) detached: bool,
    /// How many handles there are beside the first.
    pub(super) held: u32,
    /// Slots of partner copies that become valid when the block commits.
    pub(crate) copies: Vec<crate::recovery::copies::PendingCopy>,
}

/// How far a block is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Free,
    Open,
    Draining,
    Voted,
    Decided { committed: bool },
}

/// Whom a request needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// This rank.
    Peer(Rank),
    /// Possibly anybody: a receive from any source, or a collective.
    Anybody,
    /// The ranks of this exchange of the block.
    Neighbours(u32),
    /// None but this one: a file.
    Nobody,
    /// The verdict of an inner block.
    Inner(BlockKey),
    /// Somebody else started it and knows.
    Foreign,
}

impl OpenBlock {
    fn new() -> Self {
        Self {
            generation: 0,
            serial: 0,
            comm: CommKey(0),
            level: Level::Local,
            scope: NO_BLOCK,
            tag_scope: 0,
            context: 0,
            size: 0,
            lane: Lane::NOWHERE,
            open_since: 0,
            records: Records::default(),
            exchanges: Vec::new(),
            service: None,
            first_pending: 0,
            has_failed: false,
            has_synchronised: false,
            deferred: Vec::new(),
            messages: Vec::new(),
            faults: Vec::new(),
            proviso: None,
            values: Held::NOTHING,
            phase: Phase::Free,
            report: FaultReport::default(),
            limit: None,
            deadline: None,
            detached: false,
            held: 0,
            copies: Vec::new(),
        }
    }

    /// True when the key is not outdated.
    #[inline]
    pub(super) fn is_named(&self, key: BlockKey) -> bool {
        self.generation == key.generation()
    }

    /// Pending requests are faults at this moment, or earlier if that is due.
    pub(super) fn bring_deadline(&mut self, moment: Duration) {
        self.deadline = Some(self.deadline.map_or(moment, |deadline| deadline.min(moment)));
    }

    /// True when no request can change any more.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        for record in self.records[self.first_pending..].iter().take_while(|it| it.is_over()) {
            self.has_failed |= !record.is_complete();
            self.first_pending += 1;
        }
        self.first_pending == self.records.len()
    }
}

impl Engine {
    /// Starts a block: local, no message.
    #[inline]
    pub(crate) fn start_block(&mut self, comm: CommKey, level: Level) -> BlockKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(OpenBlock::new());
            self.blocks.len() as u32 - 1
        });
        let tag_scope = self.next_tag_scope(level, self.comm(comm));
        let state = &mut self.comms[comm.0];
        let block = &mut self.blocks[slot as usize];
        let key = BlockKey::new(slot as usize, block.generation);
        block.tag_scope = tag_scope;
        self.serial += 1;
        block.serial = self.serial;
        block.comm = comm;
        block.level = level;
        block.context = state.context;
        block.size = state.size();
        block.lane = state.lane();
        block.open_since = 0;
        block.phase = Phase::Open;
        (block.first_pending, block.has_failed) = (0, false);
        block.has_synchronised = false;
        block.proviso = None;
        (block.limit, block.deadline) = (None, None);
        block.detached = false;
        if level.is_agreed() {
            block.scope = state.next_block;
            state.next_block = state.next_block.next();
            state.open.push(key);
            if self.windows.iter().any(|window| window.is_of(comm)) {
                self.serving.push(key);
            }
            if !state.interrupts.is_empty() && state.interrupts.contains(block.scope) {
                // Somebody has left it before we came: nobody waits for that one inside of it.
                state.tainted = Some(block.context);
                self.interrupted.push(key);
                self.news += 1;
            }
        } else {
            block.scope = NO_BLOCK;
        }
        tracing::trace!(target: "fampi::block", block = self.block(key).scope.0, ?level, "started");
        self.tell(|engine| engine.start_entry(key));
        key
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> &OpenBlock {
        let block = &self.blocks[key.slot()];
        assert!(block.is_named(key), "a block is used by its handle only");
        block
    }

    /// The block, if the key is not outdated.
    #[inline]
    pub(super) fn current(&self, key: BlockKey) -> Option<&OpenBlock> {
        Some(&self.blocks[key.slot()]).filter(|block| block.is_named(key))
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, key: BlockKey) -> &mut OpenBlock {
        let block = &mut self.blocks[key.slot()];
        assert!(block.is_named(key), "a block is used by its handle only");
        block
    }

    /// The blocks of a communicator belong to its past.
    pub(super) fn move_blocks(&mut self, from: CommKey, to: CommKey) {
        for block in &mut self.blocks {
            if block.comm == from && block.phase != Phase::Free {
                block.comm = to;
                block.open_since = 0;
            }
        }
    }

    /// All blocks that are in use.
    pub(super) fn used_blocks(&self) -> Vec<BlockKey> {
        let used = self.blocks.iter().enumerate().filter(|(_, block)| block.phase != Phase::Free);
        used.map(|(slot, block)| BlockKey::new(slot, block.generation)).collect()
    }

    /// A handle is gone. With the last one the block is released now, or as soon as it is decided.
    #[inline]
    pub(crate) fn detach(&mut self, key: BlockKey) {
        let block = self.block_mut(key);
        if block.held > 0 {
            block.held -= 1;
        } else if matches!(block.phase, Phase::Decided { .. }) {
            self.release(key);
        } else {
            block.detached = true;
        }
    }

    /// A handle is gone because the thread panics, which may be the end of the process: no call of
    /// MPI is made before somebody uses the engine again.
    #[cold]
    pub(crate) fn orphan(&mut self, key: BlockKey) {
        self.orphans.push(key);
        self.sweep_due = true;
    }

    /// Somebody has caught a panic: what it has left is left in order.
    pub(super) fn adopt_orphans(&mut self) {
        while let Some(key) = self.orphans.last().copied() {
            if self.block(key).phase == Phase::Open {
                self.leave_block(key, FaultCode::LeftBlock);
            }
            self.orphans.pop();
            self.detach(key);
        }
    }

    /// Returns a decided block's place in the table; operations that never ended go to quarantine.
    #[inline]
    pub(super) fn release(&mut self, key: BlockKey) {
        if !self.blocks[key.slot()].messages.is_empty() {
            self.drop_messages(key);
        }
        let block = &mut self.blocks[key.slot()];
        block.records.clear(|post, buffer| {
            if self.left {
                // The platform has ended: what it did not let go of is in use for ever.
                core::mem::forget(buffer);
            } else {
                self.platform.abandon(post, buffer);
            }
        });
        if !block.exchanges.is_empty() {
            for post in block.exchanges.iter_mut().flat_map(Exchange::take_posts) {
                if !self.left {
                    self.platform.abandon(Post::Kept(post), None);
                }
            }
            block.exchanges.clear();
        }
        if !self.interrupted.is_empty() {
            self.interrupted.retain(|interrupted| *interrupted != key);
        }
        block.deferred.clear();
        block.faults.clear();
        block.report = FaultReport::default();
        block.values.clear();
        if !block.copies.is_empty() {
            block.copies.clear();
        }
        block.phase = Phase::Free;
        block.generation = block.generation.wrapping_add(1);
        self.free.push(key.slot() as u32);
    }

    /// The verdict, once the block is decided: whether it is committed.
    #[inline]
    pub(crate) fn verdict(&self, key: BlockKey) -> Option<bool> {
        match self.block(key).phase {
            Phase::Decided { committed } => Some(committed),
            _ => None,
        }
    }

    /// Why a block is faulty, once it is decided.
    pub(crate) fn report(&self, key: BlockKey) -> &FaultReport {
        &self.block(key).report
    }
}
