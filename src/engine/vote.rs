//! How blocks end: requests drain, the rank votes, the decision comes.

use core::time::Duration;

use super::{
    BlockKey, CommKey, Engine, Entry, Level, Need, Phase, Progress, progress::is_operation,
    record::Record,
};
use crate::{
    fault::{Fault, FaultCode, FaultReport},
    ids::BlockId,
    protocol::{
        agreement::{Decision, FIRST_SHARED_CONTEXT, Vote},
        fused::{Held, Values},
        planted::{Bug, planted},
    },
    rank::Rank,
    timeout::Timeout,
};

/// How long a rank whose collective failed waits to learn who died before it votes.
const WHO_DIED: Duration = Duration::from_secs(1);

impl Engine {
    /// Ends the attempt at a block: it votes as soon as its requests are over. Repeated, while
    /// requests are pending, it only moves the deadline.
    #[inline]
    pub(crate) fn finish_block(&mut self, key: BlockKey, timeout: Timeout) {
        if self.lacks_collective(key) {
            return self.leave_block(key, FaultCode::NoCollective);
        }
        self.drain_and_vote(key, timeout);
    }

    /// True when others may wait in an operation that this rank will not take part in, although it
    /// said it would. In a block that is doomed already nobody waits.
    #[inline]
    fn lacks_collective(&self, key: BlockKey) -> bool {
        let block = self.block(key);
        block.level == Level::WithCollective
            && !block.has_synchronised
            && block.phase == Phase::Open
            && !self.comm(block.comm).interrupts.contains(block.scope)
    }

    #[inline]
    fn drain_and_vote(&mut self, key: BlockKey, timeout: Timeout) {
        if !self.block(key).messages.is_empty() {
            self.drop_messages(key);
        }
        let block = self.block_mut(key);
        let drained = block.is_drained();
        match block.phase {
            Phase::Open if drained && block.faults.is_empty() => {
                block.phase = Phase::Draining;
                self.conclude(key);
            }
            Phase::Open | Phase::Draining => {
                if block.phase == Phase::Open {
                    block.phase = Phase::Draining;
                    self.draining.push(key);
                }
                let block = self.block_mut(key);
                // The moment of zero is zero: what is left is the limit.
                (block.limit, block.deadline) = (timeout.deadline(Duration::ZERO), None);
                self.drain(key);
            }
            _ => {}
        }
    }

    /// Ends the attempt at a global block with values for a reduction over all ranks, which holds
    /// up every rank until all have come to it.
    pub(crate) fn finish_fused(&mut self, key: BlockKey, values: &Values, timeout: Timeout) {
        let block = self.block_mut(key);
        block.values.set(values);
        block.has_synchronised = true;
        self.finish_block(key, timeout);
    }

    /// The result of the fused reduction of a committed block.
    pub(crate) fn fused(&self, key: BlockKey) -> Option<&Values> {
        let block = self.block(key);
        let committed = block.phase == Phase::Decided { committed: true };
        block.values.get().filter(|_| committed)
    }

    /// Leaves a block early: pending requests are given up, the vote is *no*, and the others are
    /// told not to wait for us.
    #[inline]
    pub(crate) fn leave_block(&mut self, key: BlockKey, code: FaultCode) {
        if matches!(self.block(key).phase, Phase::Open | Phase::Draining) {
            self.leave_early(key, code);
        }
    }

    #[cold]
    fn leave_early(&mut self, key: BlockKey, code: FaultCode) {
        let block = self.block(key);
        let (comm, scope, level) = (block.comm, block.scope, block.level);
        self.raise(key, code);
        self.fail_pending(key, FaultCode::Interrupted, is_operation);
        let mut inner = alloc::vec::Vec::new();
        for record in self.block_mut(key).records.iter_mut() {
            if let (Progress::Pending, Need::Inner(block)) = (record.state, record.need) {
                record.state = Progress::Failed(FaultCode::InnerBlock);
                inner.push(block);
            }
        }
        for block in inner {
            self.detach(block);
        }
        if level.is_agreed() {
            self.interrupt_open(comm, scope);
        }
        self.drain_and_vote(key, Timeout::Poll);
    }

    /// Records a fault of this rank in a block.
    pub(crate) fn raise(&mut self, key: BlockKey, code: FaultCode) {
        let me = self.comm(self.block(key).comm).me;
        self.raise_about(key, me, code);
    }

    /// Records a fault in a block that concerns another rank.
    pub(crate) fn raise_about(&mut self, key: BlockKey, rank: Rank, code: FaultCode) {
        let block = self.block(key);
        let (comm, context, is_agreed) = (block.comm, block.context, block.level.is_agreed());
        let state = self.comm_mut(comm);
        if is_agreed {
            state.tainted = Some(context);
        }
        let fault = Fault { comm: state.id, rank, code };
        self.block_mut(key).faults.push(fault);
    }

    /// Records that a block inside of this one was faulty, and nobody handled it.
    pub(crate) fn raise_inner(&mut self, key: BlockKey, inner: BlockKey) {
        let comm = self.comm(self.block(inner).comm).id;
        let outer = self.block(key);
        let (own, level, context) = (outer.comm, outer.level, outer.context);
        let rank = self.comm(own).me;
        if level.is_agreed() {
            self.comm_mut(own).tainted = Some(context);
        }
        self.block_mut(key).faults.push(Fault { comm, rank, code: FaultCode::InnerBlock });
    }

    /// Tests the requests of a finished block up to one that is pending; votes when all are over.
    pub(super) fn drain(&mut self, key: BlockKey) {
        loop {
            let Self { platform, blocks, .. } = self;
            let block = &mut blocks[key.slot()];
            // What a failed request tells of may be the end of this block, too.
            if !block.is_named(key) || !matches!(block.phase, Phase::Draining) {
                return;
            }
            let settled = platform.settle(&mut block.records[block.first_pending..]);
            block.first_pending += settled.complete;
            let first = block.first_pending;
            if settled.failed {
                block.has_failed = true;
                self.after_failures(key, first);
                continue;
            }
            let Some(record) = block.records.get(first) else { break };
            if record.is_over() {
                block.has_failed = true;
                block.first_pending += 1;
            } else if record.is_under_way() || self.test_request(key, first) == Progress::Pending {
                return;
            }
        }
        if self.knows_who_died(key) {
            self.conclude(key);
        }
    }

    /// Pending requests of a finished block whose deadline has come become faults, in a wait that
    /// goes on beyond the deadline.
    ///
    /// The limit of finish counts from the first look at the clock in a wait, so a wait with the
    /// same limit ends first, however long this process took from one call to the other.
    pub(super) fn check_deadline(&mut self, key: BlockKey, now: Duration, end: Option<Duration>) {
        let block = self.block_mut(key);
        if let Some(moment) = block.limit.take().and_then(|limit| now.checked_add(limit)) {
            block.bring_deadline(moment);
        }
        let is_due = |deadline| now >= deadline && end.is_none_or(|end| deadline < end);
        if block.phase != Phase::Draining || !block.deadline.is_some_and(is_due) {
            return;
        }
        if block.is_drained() {
            self.conclude(key);
        } else {
            self.fail_pending(key, FaultCode::TimedOut, |_, _| true);
            self.drain(key);
        }
    }

    /// A failed collective does not say who died. The detector will, in a moment; a report that
    /// names nobody would help nobody.
    fn knows_who_died(&mut self, key: BlockKey) -> bool {
        let block = self.block(key);
        if !block.has_failed {
            return true;
        }
        let process_failure = |state| match state {
            Progress::Failed(code) => code.is_process_failure(),
            _ => false,
        };
        let blamed = block.records.iter().any(|record| process_failure(record.state));
        if !blamed || !self.comm(block.comm).commit.dead().is_empty() {
            return true;
        }
        let moment = self.platform.now() + WHO_DIED;
        self.block_mut(key).bring_deadline(moment);
        false
    }

    /// All requests are over: a local block has its verdict, a global one votes.
    #[inline]
    fn conclude(&mut self, key: BlockKey) {
        if !self.draining.is_empty() {
            self.draining.retain(|draining| *draining != key);
        }
        self.collect_faults(key);
        let block = &mut self.blocks[key.slot()];
        let mut faults = core::mem::take(&mut block.faults);
        if block.level.is_agreed() {
            if let (true, Some(code)) = (faults.is_empty(), block.proviso) {
                let state = &self.comms[block.comm.0];
                faults.push(Fault { comm: state.id, rank: state.me, code });
            }
            block.phase = Phase::Voted;
            self.voted.push(key);
            let block = self.block(key);
            let (comm, id, context) = (block.comm, block.scope, block.context);
            let vote = Vote { faults, context };
            self.tell(|engine| Entry::Voted { block: engine.block(key).serial });
            if let Some(values) = self.block(key).values.get() {
                let mut copy = Held::NOTHING;
                let values = copy.set(values);
                self.drive(comm, |commit, out| commit.handle_fused_vote(id, vote, values, out));
            } else {
                self.drive(comm, |commit, out| commit.handle_vote(id, vote, out));
            }
        } else {
            let committed = faults.is_empty();
            if !committed {
                block.report = FaultReport::new(faults);
            }
            self.conclude_with(key, committed);
        }
    }

    /// The faults that follow from the requests, beside those that were raised.
    #[inline]
    fn collect_faults(&mut self, key: BlockKey) {
        let block = self.block(key);
        if block.records.is_empty() {
            return;
        }
        let state = self.comm(block.comm);
        let (comm, me) = (state.id, state.me);
        let tainted = state.tainted == Some(block.context) && !planted(Bug::CommitInTheTainted);
        let mut faults = alloc::vec::Vec::new();
        let failed = if block.has_failed { &block.records[..] } else { &[] };
        debug_assert!(block.has_failed || block.records.iter().all(Record::is_complete));
        for record in failed {
            let Progress::Failed(code) = record.state else { continue };
            let rank = match (code.is_process_failure(), record.need) {
                (true, Need::Peer(peer)) => peer,
                (true, Need::Neighbours(at)) => {
                    let mut peers = block.exchanges[at as usize].peers();
                    peers.find(|peer| state.commit.dead().contains(*peer)).unwrap_or(me)
                }
                _ => me,
            };
            match code {
                FaultCode::InnerBlock => {}
                // Who died is in the report by the detector; this rank was only held up.
                _ if code.is_process_failure() && rank == me => {
                    faults.push(Fault { comm, rank, code: FaultCode::Interrupted });
                }
                code => faults.push(Fault { comm, rank, code }),
            }
        }
        let block = self.block_mut(key);
        block.faults.append(&mut faults);
        if tainted && block.faults.is_empty() && block.level.is_agreed() {
            block.faults.push(Fault { comm, rank: me, code: FaultCode::Interrupted });
        }
        block.faults.sort_unstable();
        block.faults.dedup();
    }

    /// The decision on a block of this communicator has come.
    #[inline]
    pub(super) fn handle_decided(&mut self, comm: CommKey, id: BlockId) {
        let state = &mut self.comms[comm.0];
        let committed = state.commit.is_committed(id).expect("it was decided in this turn");
        let faulty = if committed { None } else { state.commit.decision(id) };
        state.interrupts.forget_below(state.commit.base());
        let report = faulty.as_ref().map(|decision| self.note_faulty(comm, id, decision));
        let blocks = &self.blocks;
        let state = &mut self.comms[comm.0];
        let open = &mut state.open;
        let at = open.iter().position(|key| blocks[key.slot()].scope == id);
        if let Some(at) = at {
            // Nearly always there is one.
            let key = if at + 1 == open.len() { open.pop() } else { Some(open.remove(at)) };
            let key = key.expect("it is at this place");
            if state.over.is_some() {
                self.end_of_the_past(comm);
            }
            self.voted.retain(|voted| *voted != key);
            if !self.serving.is_empty() {
                self.serving.retain(|served| *served != key);
            }
            let values = &mut self.blocks[key.slot()].values;
            if values.get().is_some() {
                match self.comms[comm.0].commit.values(id) {
                    Some(reduced) => {
                        values.set(reduced);
                    }
                    None => values.clear(),
                }
            }
            if let Some(report) = report {
                self.block_mut(key).report = report;
            }
            self.conclude_with(key, committed);
        }
        if let Some(decision) = faulty {
            self.renew_children(comm, id);
            self.interrupt_hurried(comm, id, decision.next_context);
            let state = &self.comms[comm.0];
            if state.retired && state.over.is_none() && state.data.is_some() {
                // The others' next block, which this process will never start.
                self.interrupt(comm, state.next_block.max(id.next()));
            }
        }
        if self.comms[comm.0].context >= FIRST_SHARED_CONTEXT {
            let present = self.comms[comm.0].present.unwrap_or(comm);
            self.discard_stale_messages(present);
        }
    }

    /// Blocks that we started after an aborted one, and before we knew its verdict, are in its
    /// context. A rank that knew the verdict first has started them in the next one, where nobody
    /// hears it, so it would wait for ever.
    #[cold]
    fn interrupt_hurried(&mut self, comm: CommKey, aborted: BlockId, next_context: u32) {
        let open: alloc::vec::Vec<BlockId> = {
            let blocks = self.comm(comm).open.iter().map(|key| self.block(*key));
            let hurried = blocks.filter(|it| it.scope > aborted && it.context < next_context);
            hurried.map(|block| block.scope).collect()
        };
        for block in open {
            self.interrupt(comm, block);
        }
    }

    /// The block is faulty: its report, and what follows for the communicator.
    #[cold]
    fn note_faulty(&mut self, comm: CommKey, id: BlockId, decision: &Decision) -> FaultReport {
        let state = &mut self.comms[comm.0];
        let report = decision.report(state.id);
        tracing::info!(
            target: "fampi::commit", rank = %state.me, block = id.0, dead = %decision.dead,
            report = %report, "report agreed"
        );
        self.tell(|engine| Entry::Agreed { comm: engine.comm_name(comm), report: report.clone() });
        let state = &mut self.comms[comm.0];
        if decision.next_context > state.context && !planted(Bug::KeepTheContext) {
            state.context = decision.next_context;
            if let Some(data) = state.data {
                let refill = decision.dead.is_empty() && state.commit.dead().is_empty();
                self.platform.retire_contexts(data, decision.next_context, refill);
            }
        }
        report
    }

    /// Tells the requests that were cut short and needed a dead rank as what they are: whether this
    /// rank heard of the death or of the interruption first makes no difference.
    ///
    /// Whom a request needs that is open to anybody, or was started by somebody else, nobody knows:
    /// it may have needed any rank of whose death the report tells.
    #[cold]
    fn blame_the_dead(&mut self, key: BlockKey) {
        let block = &mut self.blocks[key.slot()];
        let state = &self.comms[block.comm.0];
        let dead = |peer| state.commit.agreed_dead().contains(peer);
        let died = |fault: &Fault| fault.comm == state.id && fault.code.is_process_failure();
        let news = block.report.faults().iter().any(died);
        for record in block.records.iter_mut() {
            let needed = match record.need {
                Need::Peer(peer) => dead(peer),
                Need::Neighbours(at) => block.exchanges[at as usize].peers().any(dead),
                Need::Anybody | Need::Foreign => news,
                Need::Nobody | Need::Inner(_) => false,
            };
            if needed && record.state == Progress::Failed(FaultCode::Interrupted) {
                record.state = Progress::Failed(FaultCode::ProcessFailed);
            }
        }
    }

    #[inline]
    fn conclude_with(&mut self, key: BlockKey, committed: bool) {
        if !self.draining.is_empty() {
            self.draining.retain(|draining| *draining != key);
        }
        if !self.block_mut(key).is_drained() {
            // The others have decided it without this rank's vote, as its communicator is over.
            self.fail_pending(key, FaultCode::Interrupted, |_, _| true);
        }
        let block = self.block_mut(key);
        let is_served = block.service.is_some();
        if !block.copies.is_empty() {
            self.settle_copies(key, committed || planted(Bug::KeepAbortedCopies));
        }
        if is_served {
            self.end_service(key, committed || planted(Bug::KeepAbortedPuts));
        }
        self.tell(|engine| Entry::Ended { block: engine.block(key).serial, committed });
        if let Some(pulse) = self.pulse.filter(|_| committed) {
            pulse.commit();
        }
        if !committed {
            self.tally.faulty += 1;
            self.blame_the_dead(key);
            if !self.left {
                self.reclaim_buffers(key);
            }
        }
        let block = self.block_mut(key);
        block.phase = Phase::Decided { committed };
        if block.detached {
            self.release(key);
        }
    }
}
