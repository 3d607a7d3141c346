//! Requests of a block: posted, tested, ended.

use core::time::Duration;

use super::{
    BlockKey, CommKey, Engine, Need, Phase, Source,
    block::OpenBlock,
    buffer::AnyBuffer,
    platform::{Idle, Lane, Operation, Posted, Progress, Status},
};
use crate::{
    error::Error,
    fault::FaultCode,
    ids::BlockId,
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        planted::{Bug, planted},
    },
    rank::Rank,
    timeout::Timeout,
};

/// How long an attempt waits for its context. If it takes longer the attempt fails.
const CONTEXT_WITHIN: Duration = Duration::from_secs(1);

impl Engine {
    /// Posts an operation as the next request of a block; what cannot start is a failed request.
    pub(crate) fn post(
        &mut self,
        key: BlockKey,
        need: Need,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> usize {
        if need != Need::Nobody {
            self.settle_block(key);
        }
        if let Operation::Collective(collective) = operation {
            let size = self.comm(self.block(key).comm).size();
            let needs_all = collective.needs_every_rank(size, buffer.elements());
            self.block_mut(key).has_synchronised |= needs_all;
        }
        if let Operation::Receive { from, tag } = *operation
            && self.defers(key, from, tag)
        {
            return self.defer(key, need, (from, tag), buffer);
        }
        match self.start(key, need, operation, buffer) {
            Ok(posted) => self.block_mut(key).records.add_posted(need, posted),
            Err(refused) => self.add_failed(key, need, refused),
        }
    }

    /// The next request of a block could not start.
    #[cold]
    pub(super) fn add_failed(
        &mut self,
        key: BlockKey,
        need: Need,
        (code, buffer): (FaultCode, AnyBuffer),
    ) -> usize {
        let records = &mut self.block_mut(key).records;
        let index = records.len();
        let record = records.add(need);
        record.give(buffer);
        record.refuse(code);
        self.after_failure(key, index);
        index
    }

    /// Starts an operation in a block whose context is settled, if it has a chance.
    pub(super) fn start(
        &mut self,
        key: BlockKey,
        need: Need,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let doomed = self.doom(key, need, matches!(operation, Operation::Collective(_)));
        let block = self.block(key);
        match (doomed, self.comm(block.comm).data) {
            (None, Some(data)) => {
                self.platform.post(Lane { data, context: block.context }, operation, buffer)
            }
            (code, _) => Err((code.unwrap_or(FaultCode::Abandoned), buffer)),
        }
    }

    /// Why an operation with this need has no chance in this block, if it has none.
    pub(super) fn doom(&self, key: BlockKey, need: Need, of_all: bool) -> Option<FaultCode> {
        let block = self.block(key);
        let state = self.comm(block.comm);
        if state.is_quiet() && self.interrupted.is_empty() {
            return None;
        }
        // In a shared context nothing but this keeps messages of an older attempt from starting.
        let outdated = block.context >= FIRST_SHARED_CONTEXT && block.context < state.context;
        if outdated || state.interrupts.contains(block.scope) || self.doomed_around(key) {
            return Some(FaultCode::Interrupted);
        }
        let (dead, told) = (state.commit.dead(), state.commit.reported_dead());
        let hopeless = match need {
            Need::Peer(peer) => dead.contains(peer),
            Need::Anybody if of_all => !dead.is_empty(),
            // It may be the dead who was to send; once all know that, it is the user's risk.
            Need::Anybody => dead.len() > told.len(),
            // Asked for each of their messages.
            Need::Neighbours(_) | Need::Nobody | Need::Inner(_) | Need::Foreign => false,
        };
        hopeless.then_some(FaultCode::ProcessFailed)
    }

    /// Waits for the context of a block if it is being made.
    #[inline]
    pub(super) fn settle_block(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (comm, context) = (block.comm, block.context);
        if context > self.comm(comm).settled_context {
            self.settle_context(comm, context);
        }
    }

    /// Waits for a context that is being made. Aborts may follow each other faster than contexts
    /// are made; without the wait each attempt would fail for want of the next context.
    #[cold]
    fn settle_context(&mut self, comm: CommKey, context: u32) {
        self.wait(Timeout::After(CONTEXT_WITHIN), Idle::Busy, |engine| {
            !engine.awaits_context(comm, context)
        });
        self.comm_mut(comm).settled_context = context;
    }

    /// True while a context is being made. After a death none is.
    pub(super) fn awaits_context(&mut self, comm: CommKey, context: u32) -> bool {
        let state = self.comm(comm);
        let coming = context < FIRST_SHARED_CONTEXT && state.commit.dead().is_empty();
        let data = state.data.filter(|_| coming);
        data.is_some_and(|data| self.platform.awaits_context(data, context))
    }

    /// Adds an inner block as the next request.
    pub(crate) fn nest(&mut self, key: BlockKey, inner: BlockKey) {
        self.block_mut(key).records.add(Need::Inner(inner));
    }

    /// Looks at one request; what is over is remembered.
    #[inline]
    pub(crate) fn test_request(&mut self, key: BlockKey, index: usize) -> Progress {
        let record = &self.block(key).records[index];
        if record.is_over() {
            return record.state;
        }
        match record.need {
            Need::Inner(inner) => return self.test_inner(key, index, inner),
            Need::Neighbours(at) => self.test_neighbours(key, index, at as usize),
            _ => {
                if !self.block(key).deferred.is_empty() {
                    self.match_deferred(key);
                }
                let Self { platform, blocks, .. } = self;
                platform.look(&mut blocks[key.slot()].records[index]);
                self.after_failure(key, index);
            }
        }
        // What it tells of may have been the end of the block.
        let ended = Progress::Failed(FaultCode::Interrupted);
        self.current(key).map_or(ended, |block| block.records[index].state)
    }

    /// Looks at all requests of a block.
    pub(super) fn test_requests(&mut self, key: BlockKey) {
        for index in self.block(key).first_pending..self.block(key).records.len() {
            if self.current(key).is_some() {
                self.test_request(key, index);
            }
        }
    }

    fn test_inner(&mut self, key: BlockKey, index: usize, inner: BlockKey) -> Progress {
        let Some(committed) = self.verdict(inner) else {
            let block = self.block(key);
            if !self.comm(block.comm).interrupts.contains(block.scope) {
                return Progress::Pending;
            }
            // Somebody may have left this block without ever starting the inner one.
            let state = Progress::Failed(FaultCode::Interrupted);
            self.block_mut(key).records[index].state = state;
            self.detach(inner);
            return state;
        };
        let state = if committed {
            Progress::Complete(Status::default())
        } else {
            Progress::Failed(FaultCode::InnerBlock)
        };
        if !committed {
            self.raise_inner(key, inner);
        }
        self.block_mut(key).records[index].state = state;
        self.detach(inner);
        state
    }

    /// A request is over. If it failed, and a process is to blame, everybody in the block should
    /// hear of it.
    pub(super) fn after_failure(&mut self, key: BlockKey, index: usize) {
        let record = &self.block(key).records[index];
        if let Progress::Failed(code) = record.state {
            let (need, code) = (record.need, self.explained(key, code));
            self.block_mut(key).records[index].state = Progress::Failed(code);
            self.note_loss(key, need, code);
        }
    }

    /// The code of a request that failed with this one: what only follows from a death, or from an
    /// interruption of ours, is told as that and not as an error of the request.
    pub(super) fn explained(&mut self, key: BlockKey, code: FaultCode) -> FaultCode {
        let unclear = code.is_unspecific() && !planted(Bug::BelieveTheClass);
        let unclear = unclear && self.block(key).lane != Lane::NOWHERE;
        let cause = unclear.then(|| self.platform.disturbance(self.block(key).lane));
        cause.flatten().unwrap_or(code)
    }

    /// The same for all that are over from this one on.
    #[cold]
    pub(super) fn after_failures(&mut self, key: BlockKey, first: usize) {
        let mut index = first;
        while let Some(block) = self.current(key)
            && index < block.records.len()
        {
            self.after_failure(key, index);
            index += 1;
        }
    }

    /// What this block needs cannot be had.
    ///
    /// An operation that is interrupted, while its block is not, was posted inside of a doomed one
    /// that not all of its ranks are in, or in a context that some of them have left: they would
    /// wait for it in vain.
    pub(super) fn note_loss(&mut self, key: BlockKey, need: Need, code: FaultCode) {
        let block = self.block(key);
        let (comm, scope, context) = (block.comm, block.scope, block.context);
        let elsewhere = code == FaultCode::Interrupted && block.level.is_agreed();
        self.comm_mut(comm).tainted = Some(context);
        if let (true, Need::Peer(peer)) = (code.is_process_failure(), need) {
            let state = self.comm(comm);
            let (universe, address) = (state.universe, state.members[peer.index()]);
            self.note_failure(universe, address, Source::Request);
        }
        if code.is_process_failure() || elsewhere {
            self.interrupt_open(comm, scope);
        }
    }

    /// Interrupts a global block if it is open here.
    pub(super) fn interrupt_open(&mut self, comm: CommKey, scope: BlockId) {
        let state = self.comm(comm);
        let open = state.open.iter().any(|key| self.block(*key).scope == scope);
        if open {
            self.interrupt(comm, scope);
        }
    }

    /// Ends a pending request without waiting for MPI, which has its buffer until it lets go.
    pub(super) fn fail_request(&mut self, key: BlockKey, index: usize, code: FaultCode) {
        let block = self.block_mut(key);
        let deferred = block.forget_deferred(index);
        let record = &mut block.records[index];
        record.state = Progress::Failed(code);
        if deferred {
            record.refuse(code);
        }
        if let Need::Inner(inner) = record.need {
            return self.detach(inner);
        }
        self.ask_to_end(key, index, true);
        self.end_exchange(key, index);
        self.after_failure(key, index);
    }

    /// Asks the platform to end a receive, which has failed, or successfully.
    fn ask_to_end(&mut self, key: BlockKey, index: usize, failed: bool) {
        let Self { platform, blocks, .. } = self;
        if let Some(post) = blocks[key.slot()].records[index].post_mut() {
            platform.cancel(post, failed);
        }
    }

    /// Ends all pending requests that this one does not let live.
    pub(super) fn fail_pending(
        &mut self,
        key: BlockKey,
        code: FaultCode,
        doomed: impl Fn(&OpenBlock, Need) -> bool,
    ) {
        // From the last to the first: what comes late must not meet a later receive because the
        // one that it was for has been cancelled.
        for index in (0..self.block(key).records.len()).rev() {
            // MPI may have more to tell than we know: it has the first word. What one tells of may
            // be the end of the block.
            if self.current(key).is_none() {
                return;
            }
            let pending = self.test_request(key, index) == Progress::Pending;
            let Some(block) = self.current(key) else { return };
            if pending && doomed(block, block.records[index].need) {
                self.fail_request(key, index, code);
            }
        }
    }

    /// A member died: what cannot complete without it fails now, whatever MPI says later.
    pub(super) fn fail_dependents(&mut self, comm: CommKey, dead: Rank) {
        for key in self.used_blocks() {
            // One block's end can be another's.
            let Some(block) = self.current(key) else { continue };
            if block.comm == comm && matches!(block.phase, Phase::Open | Phase::Draining) {
                let needs = |block: &OpenBlock, need| match need {
                    Need::Peer(peer) => peer == dead,
                    Need::Anybody => true,
                    Need::Neighbours(at) => block.exchanges[at as usize].needs(dead),
                    Need::Nobody | Need::Inner(_) | Need::Foreign => false,
                };
                self.fail_pending(key, FaultCode::ProcessFailed, needs);
                self.doubt(key);
            }
        }
    }

    /// Ends a receive that has no message yet, successfully and with nothing in its buffer; false
    /// when the request is over or cannot be cancelled.
    pub(crate) fn cancel_request(&mut self, key: BlockKey, index: usize) -> bool {
        if self.test_request(key, index) != Progress::Pending {
            return false;
        }
        let block = self.block_mut(key);
        if block.forget_deferred(index) {
            let status = Status { cancelled: true, ..Status::default() };
            block.records[index].end(Progress::Complete(status));
        }
        self.ask_to_end(key, index, false);
        let state = self.test_request(key, index);
        matches!(state, Progress::Complete(status) if status.cancelled)
    }

    /// An error unless the request is complete.
    pub(crate) fn succeeded(&self, key: BlockKey, index: usize) -> Result<(), Error> {
        match self.block(key).records[index].state {
            Progress::Complete(_) => Ok(()),
            Progress::Failed(code) => Err(Error::Request(code)),
            Progress::Pending => Err(Error::WaitTimedOut),
        }
    }

    /// Brings the buffer of a request that is over to its record.
    ///
    /// # Errors
    ///
    /// As for [`crate::TryBlock::take`].
    #[cold]
    pub(crate) fn fetch_buffer(&mut self, key: BlockKey, index: usize) -> Result<(), Error> {
        let state = self.test_request(key, index);
        let record = &self.block(key).records[index];
        match (state, record.is_under_way()) {
            _ if record.buffer().is_some() => Ok(()),
            (Progress::Pending, _) => Err(Error::NotComplete),
            (Progress::Failed(_), true) if self.reclaim_buffer(key, index) => Ok(()),
            (Progress::Failed(_), true) => Err(Error::Quarantined),
            _ => Err(Error::NoSuchRequest),
        }
    }

    /// The block is faulty, and what it left behind has been ended: requests that failed while MPI
    /// had their buffers have them back, or give back what they were lent, if MPI has let go.
    #[cold]
    pub(super) fn reclaim_buffers(&mut self, key: BlockKey) {
        for index in 0..self.block(key).records.len() {
            let record = &self.block(key).records[index];
            if matches!(record.state, Progress::Failed(_)) && record.need != Need::Foreign {
                self.reclaim_buffer(key, index);
            }
        }
    }

    /// The buffer of a request that failed while MPI still had it, once MPI has let go of it.
    fn reclaim_buffer(&mut self, key: BlockKey, index: usize) -> bool {
        if self.left {
            return false;
        }
        let Self { platform, blocks, .. } = self;
        let record = &mut blocks[key.slot()].records[index];
        let was_under_way = record.is_under_way();
        platform.look(record);
        was_under_way && !record.is_under_way()
    }

    /// This process ends: nobody hears what becomes of its messages.
    pub(crate) fn give_up_requests(&mut self) {
        for key in self.used_blocks() {
            let Self { platform, blocks, .. } = self;
            blocks[key.slot()].records.give_up(|post, buffer| platform.abandon(post, buffer));
        }
    }
}
