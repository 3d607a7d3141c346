//! Requests of a block: posted, tested, ended.

use core::time::Duration;

use super::{BlockKey, CommKey, Engine, Need, contents::Contents};
use crate::{
    error::Error,
    fault::FaultCode,
    protocol::{agreement::FIRST_SHARED_CONTEXT, planted::planted},
    seam::{
        buffer::AnyBuffer,
        platform::{Idle, Lane, Operation, Posted, Progress, Status},
    },
    timeout::Timeout,
};

/// How long an attempt waits for its context. If it takes longer the attempt fails.
const CONTEXT_WITHIN: Duration = Duration::from_secs(1);

/// How long an operation that failed without a reason waits for the news that explain it.
const CAUSE_WITHIN: Duration = Duration::from_secs(1);

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
            self.note_synchronising(key, collective, buffer.elements());
        }
        if let Operation::Receive { from, tag } = *operation
            && self.defers(key, from, tag)
        {
            return self.defer(key, need, (from, tag), buffer);
        }
        match self.start(key, need, operation, buffer) {
            Ok(posted) => self.contents_mut(key).records.add_posted(need, posted),
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
        let records = &mut self.contents_mut(key).records;
        let index = records.len();
        let record = records.add(need);
        record.give(buffer);
        record.refuse(code);
        self.after_failure(key, index);
        index
    }

    /// Why an operation with this need has no chance in this block, if it has none.
    pub(super) fn doom(&self, key: BlockKey, need: Need) -> Option<FaultCode> {
        let is_message = matches!(need, Need::Peer(_) | Need::Anybody);
        let is_unclear = is_message && self.shares_tags(key);
        self.process.doom(key, need).or(is_unclear.then_some(FaultCode::TooManyOpen))
    }

    /// True when an older block that is not decided here has the tags of this one, as so many
    /// blocks are open: a message could be received in the wrong one. Once this rank has decided a
    /// block, no rank receives in it any more.
    pub(super) fn shares_tags(&self, key: BlockKey) -> bool {
        if planted!(WrapTheTags) {
            return false;
        }
        let block = self.block(key);
        let mut open = self.comm(block.comm).open.iter().map(|open| self.block(*open));
        let oldest = open.find(|open| open.context == block.context);
        let span = oldest.map_or(0, |oldest| block.scope.0.saturating_sub(oldest.scope.0));
        block.level.is_agreed() && span >= self.blocks.tags.blocks(block.context)
    }

    /// Refuses messages of a block that shares its tags with another one.
    pub(crate) fn require_own_tags(&self, key: BlockKey) -> Result<(), Error> {
        if self.shares_tags(key) { Err(Error::TooManyOpen) } else { Ok(()) }
    }

    /// Starts an operation in a block whose context is settled, if it has a chance.
    pub(super) fn start(
        &mut self,
        key: BlockKey,
        need: Need,
        operation: &Operation,
        buffer: AnyBuffer,
    ) -> Result<Posted, (FaultCode, AnyBuffer)> {
        let doomed = self.doom(key, need);
        let block = self.block(key);
        match (doomed, self.comm(block.comm).data) {
            (None, Some(data)) => {
                let lane = Lane { data, context: block.context };
                let aside = self.take_aside(lane, operation);
                self.platform.post(lane, aside.as_ref().unwrap_or(operation), buffer)
            }
            (code, _) => Err((code.unwrap_or(FaultCode::Abandoned), buffer)),
        }
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
        let own = self.block(key).comm;
        let inside = self.contents(inner).used.clone();
        for comm in inside.into_iter().chain([self.block(inner).comm]) {
            let used = &mut self.contents_mut(key).used;
            if comm != own && !used.contains(&comm) {
                used.push(comm);
            }
        }
        self.contents_mut(key).records.add(Need::Inner(inner));
    }

    /// Looks at one request; what is over is remembered.
    #[inline]
    pub(crate) fn test_request(&mut self, key: BlockKey, index: usize) -> Progress {
        let record = &self.contents(key).records[index];
        if record.is_over() {
            return record.state;
        }
        match record.need {
            Need::Inner(inner) => return self.test_inner(key, index, inner),
            Need::Neighbours(at) | Need::Living(at) | Need::Coded(at) => {
                return self.test_exchange(key, index, at as usize);
            }
            Need::Rider(number) => return self.test_rider(key, index, number),
            Need::Making => return record.state,
            _ => {}
        }
        if !self.contents(key).deferred.is_empty() {
            self.match_deferred(key);
        }
        let Self { platform, blocks, .. } = self;
        let record = &mut blocks.at_mut(key).records[index];
        platform.look(record);
        match record.state {
            Progress::Failed(_) => self.fail(key, index),
            state => state,
        }
    }

    /// Looks at all requests of a block.
    pub(super) fn test_requests(&mut self, key: BlockKey) {
        self.defer_commands(|engine| {
            for index in engine.contents(key).first_pending..engine.contents(key).records.len() {
                engine.test_request(key, index);
            }
        });
    }

    fn test_inner(&mut self, key: BlockKey, index: usize, inner: BlockKey) -> Progress {
        let state = match self.process.inner_result(key, inner) {
            None => return Progress::Pending,
            Some(Ok(())) => Progress::Complete(Status::default()),
            Some(Err(code)) => Progress::Failed(code),
        };
        self.contents_mut(key).records[index].state = state;
        self.detach(inner);
        state
    }

    /// A request is over. If it failed, the process hears of it.
    pub(super) fn after_failure(&mut self, key: BlockKey, index: usize) {
        if matches!(self.contents(key).records[index].state, Progress::Failed(_)) {
            self.fail(key, index);
        }
    }

    /// As [`Self::after_failure`], for all requests from this one on.
    #[cold]
    pub(super) fn after_failures(&mut self, key: BlockKey, first: usize) {
        self.defer_commands(|engine| {
            (first..engine.contents(key).records.len())
                .for_each(|at| engine.after_failure(key, at));
        });
    }

    /// A request has failed: the process decides what follows, which may be the end of the block.
    /// Its final state.
    #[cold]
    fn fail(&mut self, key: BlockKey, index: usize) -> Progress {
        let record = &self.contents(key).records[index];
        let (need, state) = (record.need, record.state);
        let Progress::Failed(code) = state else { return state };
        let code = self.explained(key, code);
        self.contents_mut(key).records[index].state = Progress::Failed(code);
        self.call(|process, out| process.request_failed(key, need, code, out));
        Progress::Failed(code)
    }

    /// The code of a request that failed with this one: what only follows from a death, or from an
    /// interruption of ours, is told as that and not as an error of the request.
    pub(super) fn explained(&mut self, key: BlockKey, code: FaultCode) -> FaultCode {
        let unclear = code.is_unspecific() && !planted!(BelieveTheClass);
        if unclear { self.await_cause(key).unwrap_or(code) } else { code }
    }

    /// Why operations of a block fail; waits a moment for the news of it, as an operation may end
    /// because another rank has ended its part upon news that are still on their way to this one.
    #[cold]
    fn await_cause(&mut self, key: BlockKey) -> Option<FaultCode> {
        let end = self.platform.now() + CAUSE_WITHIN;
        self.defer_commands(|engine| {
            loop {
                let lane = Some(engine.contents(key).lane).filter(|lane| *lane != Lane::NOWHERE);
                let mut of_platform = |lane| engine.platform.disturbance(lane);
                let cause = engine.process.disturbance(key).or_else(|| of_platform(lane?));
                if cause.is_some() {
                    return cause;
                }
                match engine.platform.poll(None) {
                    Some(incoming) => engine.handle_incoming(incoming),
                    None if engine.platform.now() >= end => return None,
                    None => engine.platform.idle(Some(end), Idle::Busy),
                }
            }
        })
    }

    /// Ends a pending request without waiting for MPI, which has its buffer until it lets go.
    pub(super) fn fail_request(&mut self, key: BlockKey, index: usize, code: FaultCode) {
        let contents = self.contents_mut(key);
        let deferred = contents.forget_deferred(index);
        let record = &mut contents.records[index];
        record.state = Progress::Failed(code);
        if deferred {
            record.refuse(code);
        }
        if let Need::Inner(inner) = record.need {
            return self.detach(inner);
        }
        self.ask_to_end(key, index, Some(code));
        self.end_exchange(key, index);
        self.end_rider(key, index);
        self.after_failure(key, index);
    }

    /// Asks the platform to end a receive, which has failed with this code, or successfully.
    pub(super) fn ask_to_end(&mut self, key: BlockKey, index: usize, why: Option<FaultCode>) {
        let Self { platform, blocks, .. } = self;
        if let Some(post) = blocks.at_mut(key).records[index].post_mut() {
            platform.cancel(post, why);
        }
    }

    /// Ends all pending requests of a block that are chosen.
    pub(super) fn fail_pending(
        &mut self,
        key: BlockKey,
        code: FaultCode,
        chosen: impl Fn(&Contents, Need) -> bool,
    ) {
        self.defer_commands(|engine| {
            // From the last to the first: what comes late must not meet a later receive because the
            // one that it was for has been cancelled.
            for index in (0..engine.contents(key).records.len()).rev() {
                // MPI may have more to tell than we know: it has the first word.
                let pending = engine.test_request(key, index) == Progress::Pending;
                let contents = engine.contents(key);
                if pending && chosen(contents, contents.records[index].need) {
                    engine.fail_request(key, index, code);
                }
            }
        });
    }

    /// Ends a receive that has no message yet, successfully and with nothing in its buffer; false
    /// when the request is over or cannot be cancelled.
    pub(crate) fn cancel_request(&mut self, key: BlockKey, index: usize) -> bool {
        if self.test_request(key, index) != Progress::Pending {
            return false;
        }
        let contents = self.contents_mut(key);
        if contents.forget_deferred(index) {
            let status = Status { cancelled: true, ..Status::default() };
            contents.records[index].end(Progress::Complete(status));
        }
        self.ask_to_end(key, index, None);
        let state = self.test_request(key, index);
        matches!(state, Progress::Complete(status) if status.cancelled)
    }

    /// Brings the buffer of a request that is over to its record.
    ///
    /// # Errors
    ///
    /// As for [`crate::TryBlock::take`].
    #[cold]
    pub(crate) fn fetch_buffer(&mut self, key: BlockKey, index: usize) -> Result<(), Error> {
        let state = self.test_request(key, index);
        let record = &self.contents(key).records[index];
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
        for index in 0..self.contents(key).records.len() {
            let contents = self.contents(key);
            let failed = matches!(contents.records[index].state, Progress::Failed(_));
            if failed && index < contents.first_listed {
                self.reclaim_buffer(key, index);
            }
        }
    }

    /// The buffer of a request that failed while MPI still had it, once MPI has let go of it.
    fn reclaim_buffer(&mut self, key: BlockKey, index: usize) -> bool {
        if self.process.has_left() {
            return false;
        }
        let Self { platform, blocks, .. } = self;
        let record = &mut blocks.at_mut(key).records[index];
        let was_under_way = record.is_under_way();
        platform.look(record);
        was_under_way && !record.is_under_way()
    }

    /// This process ends: what becomes of its messages is told to no caller.
    pub(crate) fn give_up_requests(&mut self) {
        for key in self.process.used_blocks() {
            let Self { platform, blocks, .. } = self;
            blocks.at_mut(key).records.give_up(|post, buffer| platform.abandon(post, buffer));
        }
    }
}
