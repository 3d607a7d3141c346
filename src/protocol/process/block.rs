//! A block, from its start until its handle is gone and its verdict is known.
//!
//! ```text
//!  Free ── start ──▶ Open ── drain ──▶ Draining ── vote ──▶ Voted ── decision ──▶ Decided ──▶ Free
//!                      └──────────────── a local block ends without a vote ────────┘
//! ```

use alloc::vec::Vec;

use super::Process;
use crate::{
    fault::{Fault, FaultCode, FaultReport},
    ids::{BlockId, BlockKey, CommKey},
    protocol::fused::Held,
    rank::{Rank, RankSet},
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
    /// which no rank's part is empty. All ranks post it, or leave the block. A rank that finishes
    /// the block without one leaves it with [`NoCollective`](crate::FaultCode::NoCollective), and
    /// the block is faulty.
    ///
    /// The paper lets such a block commit as soon as all of its own operations are complete here,
    /// as the collective shows that every rank was alive, and agree only when one of them fails:
    /// right *with a certain probability*, since the collective can be complete on some ranks and
    /// not on others. Here it is always right, as the collective brings the votes: a block of this
    /// level has the verdict and the report of a [`Self::Global`] one, and where the collective is
    /// small its messages and those of the commit are the same, and no more.
    ///
    /// That holds for the reduction that a block ends with, and for the last barrier or
    /// `iallreduce` of up to eight numbers by a [`ReduceOp`](crate::ReduceOp) that is posted in it,
    /// whatever else is posted after it. Such a one is complete when the block is committed, with
    /// the bits that `finish_allreduce` gives, and never in a faulty block. It moves nothing before
    /// the end of the block: to compute while it is under way takes a [`Self::Global`] block. If a
    /// rank waits for it inside of the block, or asks for it by a test, the ranks exchange it ahead
    /// of the commit, by as many messages as a commit has, and that rank has the same bits; so it
    /// is with those that are posted before the last. The others need not wait because one does.
    /// Beside any other collective a commit costs what it costs for [`Self::Global`]. A barrier at
    /// the end of a block is never needed: no rank has a verdict before all have come.
    ///
    /// On a communicator with a dead rank a collective works only if it runs over the living
    /// ([`set_run_through`](crate::Comm::set_run_through)); otherwise recovery takes
    /// [`Self::Global`].
    WithCollective,
}

impl Level {
    /// True when the ranks agree on the verdict.
    #[inline]
    pub const fn is_agreed(self) -> bool {
        !matches!(self, Self::Local)
    }
}

/// What a death does to the requests of a block that did not need the dead.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Patience {
    /// They are ended, on all ranks, so that recovery begins at once.
    #[default]
    Prompt,
    /// They go on, until they are complete or their peer has ended its part of the block. All ranks
    /// recover when the last request is over.
    Patient,
}

/// The number of a block that no ranks agree on.
pub const NO_BLOCK: BlockId = BlockId(u64::MAX);

/// How far a block is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Phase {
    /// The place of a block that is not in use.
    Free,
    /// Operations may be posted.
    Open,
    /// The block is finished, and requests of it are pending.
    Draining,
    /// This rank has voted.
    Voted,
    /// The verdict is known.
    Decided {
        /// All ranks voted *yes*.
        committed: bool,
    },
}

/// Whom a request needs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Need {
    /// This rank.
    Peer(Rank),
    /// Possibly any rank: a receive from any source.
    Anybody,
    /// All ranks: a collective.
    All,
    /// The ranks of the exchange of this number in the block.
    Neighbours(u32),
    /// All ranks that no report has named dead: the exchange of this number is a collective among
    /// them.
    Living(u32),
    /// The ranks of the exchange of this number in the block, and others on whom these wait: it is
    /// the part of this rank in the code of its group.
    Coded(u32),
    /// All ranks of the view: a small collective of this number in the block, which rides on its
    /// commit unless a rank waits for it before.
    Rider(u32),
    /// No other rank: a file.
    Nobody,
    /// The verdict of an inner block.
    Inner(BlockKey),
    /// Commits of a communicator that is being made, which meet deaths by themselves.
    Making,
    /// The application started the operation itself, and knows.
    Foreign,
}

impl Need {
    /// True for a collective: all ranks start theirs in the same order.
    pub const fn is_of_all(self) -> bool {
        matches!(self, Self::All | Self::Living(_))
    }
}

/// A block.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Block {
    pub(super) generation: u32,
    /// Its position in the order of all starts of this process.
    pub serial: u64,
    /// Its communicator.
    pub comm: CommKey,
    /// Who learns of its faults.
    pub level: Level,
    /// Its number among the agreed blocks of its communicator; [`NO_BLOCK`] for a local one.
    pub scope: BlockId,
    /// The data context of its operations.
    pub context: u32,
    /// What a death does to its requests.
    pub patience: Patience,
    /// Its collectives leave out the ranks that reports have named dead.
    pub run_through: bool,
    /// Faults that this rank found, until it votes.
    pub faults: Vec<Fault>,
    /// What this rank reports if it has no other fault, which is a fault unless all ranks do.
    pub proviso: Option<FaultCode>,
    /// An agreement: the deaths that this rank has acknowledged.
    pub agreement: Option<RankSet>,
    /// What this rank brings to the fused reduction; the result when the block is committed.
    pub values: Held,
    /// How far it is.
    pub phase: Phase,
    /// This rank has voted *no*.
    pub objects: bool,
    /// Why it is faulty, once it is decided.
    pub report: FaultReport,
    /// True when the application has no handle any more.
    pub detached: bool,
    /// How many handles there are beside the first.
    pub held: u32,
}

impl Block {
    fn new() -> Self {
        Self {
            generation: 0,
            serial: 0,
            comm: CommKey::new(0),
            level: Level::Local,
            scope: NO_BLOCK,
            context: 0,
            patience: Patience::Prompt,
            run_through: false,
            faults: Vec::new(),
            proviso: None,
            agreement: None,
            values: Held::NOTHING,
            phase: Phase::Free,
            objects: false,
            report: FaultReport::default(),
            detached: false,
            held: 0,
        }
    }

    /// True when requests of it may be pending.
    #[inline]
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Draining)
    }
}

impl Process {
    /// Starts a block on a communicator. Nothing is sent.
    #[inline]
    pub fn start_block(&mut self, comm: CommKey, level: Level) -> BlockKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Block::new());
            self.blocks.len() as u32 - 1
        });
        let state = &mut self.comms[comm.index()];
        let block = &mut self.blocks[slot as usize];
        let key = BlockKey::new(slot as usize, block.generation);
        self.serial += 1;
        block.serial = self.serial;
        (block.comm, block.level, block.context) = (comm, level, state.context);
        (block.phase, block.proviso, block.detached) = (Phase::Open, None, false);
        (block.patience, block.objects) = (state.patience, false);
        block.run_through = state.run_through;
        if !level.is_agreed() {
            block.scope = NO_BLOCK;
            return key;
        }
        block.scope = state.next_block;
        state.next_block = state.next_block.next();
        state.open.push(key);
        if !state.interrupts.is_empty() && state.interrupts.contains(block.scope) {
            // A rank has left it before this one came: no rank waits inside of it.
            state.taint(block.context, block.scope);
            self.interrupted.push(key);
        }
        key
    }

    /// A block that is in use.
    ///
    /// # Panics
    ///
    /// When the key is outdated.
    #[inline]
    pub fn block(&self, key: BlockKey) -> &Block {
        let block = &self.blocks[key.slot()];
        assert!(block.generation == key.generation(), "a block is used by its handle only");
        block
    }

    /// A block that is in use, to be changed.
    ///
    /// # Panics
    ///
    /// When the key is outdated.
    #[inline]
    pub fn block_mut(&mut self, key: BlockKey) -> &mut Block {
        let block = &mut self.blocks[key.slot()];
        assert!(block.generation == key.generation(), "a block is used by its handle only");
        block
    }

    /// The block, unless the key is outdated.
    #[inline]
    pub fn current(&self, key: BlockKey) -> Option<&Block> {
        Some(&self.blocks[key.slot()]).filter(|block| block.generation == key.generation())
    }

    /// True when a block that was started before this one, and that this rank is still in, has
    /// been interrupted.
    #[inline]
    pub fn doomed_around(&self, key: BlockKey) -> bool {
        self.interrupted.iter().any(|outer| {
            let current = self.current(*outer).filter(|_| !self.orphans.contains(outer));
            let serial = self.block(key).serial;
            current.is_some_and(|outer| outer.phase == Phase::Open && outer.serial < serial)
        })
    }

    /// True when no block that is in use was interrupted.
    #[inline]
    pub fn is_undisturbed(&self) -> bool {
        self.interrupted.is_empty()
    }

    /// All blocks that are in use.
    pub fn used_blocks(&self) -> Vec<BlockKey> {
        let used = self.blocks.iter().enumerate().filter(|(_, block)| block.phase != Phase::Free);
        used.map(|(slot, block)| BlockKey::new(slot, block.generation)).collect()
    }

    /// How many blocks have no verdict yet.
    pub fn undecided(&self) -> usize {
        let open = |block: &&Block| !matches!(block.phase, Phase::Free | Phase::Decided { .. });
        self.blocks.iter().filter(open).count()
    }

    /// The verdict, once the block is decided: whether it is committed.
    #[inline]
    pub fn verdict(&self, key: BlockKey) -> Option<bool> {
        match self.block(key).phase {
            Phase::Decided { committed } => Some(committed),
            _ => None,
        }
    }

    /// A handle is gone. True when it was the last one and the block is decided, so that the driver
    /// calls [`Self::release`]; otherwise [`Self::conclude`] says so.
    #[inline]
    #[must_use]
    pub fn detach(&mut self, key: BlockKey) -> bool {
        let block = self.block_mut(key);
        if block.held > 0 {
            block.held -= 1;
            return false;
        }
        block.detached = true;
        matches!(block.phase, Phase::Decided { .. })
    }

    /// The driver has followed the verdict. True when no handle is left, so that it
    /// calls [`Self::release`].
    #[inline]
    #[must_use]
    pub fn conclude(&mut self, key: BlockKey, committed: bool) -> bool {
        let block = self.block_mut(key);
        block.phase = Phase::Decided { committed };
        block.detached
    }

    /// Returns a decided block's place in the table.
    #[inline]
    pub fn release(&mut self, key: BlockKey) {
        if !self.interrupted.is_empty() {
            self.interrupted.retain(|interrupted| *interrupted != key);
        }
        let block = &mut self.blocks[key.slot()];
        block.faults.clear();
        block.report = FaultReport::default();
        block.values.clear();
        block.agreement = None;
        block.phase = Phase::Free;
        block.generation = block.generation.wrapping_add(1);
        self.free.push(key.slot() as u32);
    }

    /// A handle is gone because the thread panics, which may be the end of the process.
    #[cold]
    pub fn orphan(&mut self, key: BlockKey) {
        self.orphans.push(key);
        self.sweep_due = true;
    }

    /// The last block that a caught panic has left and that is still to be left in order.
    pub fn last_orphan(&self) -> Option<BlockKey> {
        self.orphans.last().copied()
    }

    /// The last orphan was left.
    pub fn forget_orphan(&mut self) {
        self.orphans.pop();
    }

    /// Makes an inner block's verdict that is known, or that this rank does not wait for any more,
    /// the state of a request of an outer block: `None` while it is pending.
    pub fn inner_result(
        &mut self,
        outer: BlockKey,
        inner: BlockKey,
    ) -> Option<Result<(), FaultCode>> {
        if let Some(committed) = self.verdict(inner) {
            if !committed {
                self.raise_inner(outer, inner);
            }
            return Some(if committed { Ok(()) } else { Err(FaultCode::InnerBlock) });
        }
        let block = self.block(outer);
        // A rank may have left the outer block without ever starting the inner one.
        let doomed = self.comm(block.comm).interrupts.contains(block.scope)
            || self.interrupted.contains(&outer);
        doomed.then_some(Err(FaultCode::Interrupted))
    }

    /// This process ends: what handles that are left ask for is refused from now on.
    pub fn close(&mut self) {
        self.left = true;
        for comm in &mut self.comms {
            (comm.data, comm.retired) = (None, true);
        }
    }
}
