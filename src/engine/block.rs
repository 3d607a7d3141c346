//! The life of blocks: they start, their requests drain, the rank votes, the decision comes.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::{
    BlockKey, CommKey, Engine, Level, Need, Phase, Progress, Saving, Slot, Span,
    contents::{Contents, lane_of},
    exchange::Exchange,
    metrics,
};
use crate::{
    fault::{Fault, FaultCode, FaultReport},
    protocol::{fused::Values, planted::planted, process::Block},
    seam::{entry::Entry, record::Record},
    timeout::Timeout,
};

/// Whether copies are here that are to be changed.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Bases {
    Here,
    /// They will be, if another block is committed.
    Awaited,
    Lost,
}

/// How long a rank whose collective failed waits to learn who died before it votes.
const WHO_DIED: Duration = Duration::from_secs(1);

impl Engine {
    /// Starts a block: local, no message.
    #[inline]
    pub(crate) fn start_block(&mut self, comm: CommKey, level: Level) -> BlockKey {
        let state = self.process.comm(comm);
        let scope = self.blocks.tags.scope_of(level, state.next_block, state.context);
        let (size, lane) = (state.size(), lane_of(state));
        let key = self.process.start_block(comm, level);
        self.blocks.start(key, scope, size, lane);
        if level.is_agreed() && !self.windows.known.is_empty() {
            self.windows.serve(key, comm);
        }
        self.tell_often(|engine| metrics::started(&engine.process, key));
        key
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> &Block {
        self.process.block(key)
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, key: BlockKey) -> &mut Block {
        self.process.block_mut(key)
    }

    #[inline]
    pub(crate) fn contents(&self, key: BlockKey) -> &Contents {
        debug_assert!(self.process.current(key).is_some(), "a block is used by its handle only");
        self.blocks.at(key)
    }

    #[inline]
    pub(crate) fn contents_mut(&mut self, key: BlockKey) -> &mut Contents {
        debug_assert!(self.process.current(key).is_some(), "a block is used by its handle only");
        self.blocks.at_mut(key)
    }

    /// A handle is gone. With the last one the block is released now, or as soon as it is decided.
    #[inline]
    pub(crate) fn detach(&mut self, key: BlockKey) {
        if self.process.detach(key) {
            self.release(key);
        }
    }

    /// Leaves in order what a caught panic has left.
    pub(super) fn adopt_orphans(&mut self) {
        while let Some(key) = self.process.last_orphan() {
            if self.block(key).phase == Phase::Open {
                self.leave_block(key, FaultCode::LeftBlock);
            }
            self.process.forget_orphan();
            self.detach(key);
        }
    }

    /// Returns a decided block's place in the table; operations that never ended go to quarantine.
    #[inline]
    pub(super) fn release(&mut self, key: BlockKey) {
        if !self.blocks.at(key).messages.is_empty() {
            self.drop_messages(key);
        }
        let left = self.process.has_left();
        let contents = self.blocks.at_mut(key);
        let complete = !contents.has_failed && contents.first_pending == contents.records.len();
        contents.records.clear(complete, |post, buffer| {
            if left {
                // The platform has ended: what it did not let go of is in use for ever.
                core::mem::forget(buffer);
            } else {
                self.platform.abandon(post, buffer);
            }
        });
        if !contents.exchanges.is_empty() {
            if !left {
                self.abandon_messages(key);
            }
            self.blocks.at_mut(key).exchanges.clear();
        }
        let contents = self.blocks.at_mut(key);
        contents.riders.clear();
        contents.riding = None;
        contents.deferred.clear();
        contents.heard.clear();
        contents.used.clear();
        contents.raised.clear();
        if !contents.copies.is_empty() {
            contents.copies.clear();
        }
        contents.saving = None;
        if !contents.made.is_empty() {
            self.drop_made(key);
        }
        self.process.release(key);
    }

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
    /// said it would. In a block that is doomed already no rank waits.
    #[inline]
    fn lacks_collective(&self, key: BlockKey) -> bool {
        let block = self.block(key);
        block.level == Level::WithCollective
            && !self.contents(key).has_synchronised
            && block.phase == Phase::Open
            && !self.comm(block.comm).interrupts.contains(block.scope)
    }

    #[inline]
    pub(super) fn drain_and_vote(&mut self, key: BlockKey, timeout: Timeout) {
        if !self.contents(key).messages.is_empty() {
            self.drop_messages(key);
        }
        if !self.contents(key).riders.is_empty() && self.block(key).phase == Phase::Open {
            self.attach_rider(key);
        }
        let contents = self.contents_mut(key);
        let (drained, carries) = (contents.is_drained(), !contents.copies.is_empty());
        let block = self.block_mut(key);
        match block.phase {
            Phase::Open if drained && block.faults.is_empty() && !carries => {
                block.phase = Phase::Draining;
                self.vote(key);
            }
            Phase::Open | Phase::Draining => {
                if block.phase == Phase::Open {
                    block.phase = Phase::Draining;
                    self.blocks.draining.push(key);
                    self.call(|process, out| process.posted(key, out));
                }
                let contents = self.contents_mut(key);
                // The moment of zero is zero: what is left is the limit.
                (contents.limit, contents.deadline) = (timeout.deadline(Duration::ZERO), None);
                contents.first_wait = None;
                self.drain(key);
            }
            _ => {}
        }
    }

    /// Ends the attempt at a global block with values for a reduction over all ranks, which holds
    /// up every rank until all have come to it.
    pub(crate) fn finish_fused(&mut self, key: BlockKey, values: &Values, timeout: Timeout) {
        self.block_mut(key).values.set(values);
        self.contents_mut(key).has_synchronised = true;
        self.finish_block(key, timeout);
    }

    /// The result of the fused reduction of a committed block.
    pub(crate) fn fused(&self, key: BlockKey) -> Option<&Values> {
        self.process.fused(key)
    }

    /// Leaves a block early: pending requests are given up, the vote is *no*, and the others are
    /// told not to wait for this rank.
    #[inline]
    pub(crate) fn leave_block(&mut self, key: BlockKey, code: FaultCode) {
        self.call(|process, out| process.leave_block(key, code, out));
    }

    /// Records a fault of this rank in a block.
    pub(crate) fn raise(&mut self, key: BlockKey, code: FaultCode) {
        self.process.raise(key, code);
    }

    /// Records a fault of this rank in a request of a block that is open; the first counts. The
    /// operation goes on, as others may need it.
    pub(crate) fn raise_in(&mut self, key: BlockKey, index: usize, code: FaultCode) {
        let raised = &mut self.contents_mut(key).raised;
        if raised.iter().all(|(known, _)| *known != index) {
            raised.push((index, code));
            self.raise(key, code);
        }
    }

    /// Tests the requests of a finished block up to one that is pending; votes when all are over.
    pub(super) fn drain(&mut self, key: BlockKey) {
        self.defer_commands(|engine| {
            if engine.block(key).phase == Phase::Draining
                && engine.test_in_order(key)
                && engine.knows_who_died(key)
                && engine.bases(key) != Bases::Awaited
            {
                engine.vote(key);
            }
        });
    }

    /// Tests requests up to one that is pending. True when there is none.
    fn test_in_order(&mut self, key: BlockKey) -> bool {
        loop {
            let Self { platform, blocks, .. } = self;
            let contents = blocks.at_mut(key);
            let settled = platform.settle(&mut contents.records[contents.first_pending..]);
            contents.first_pending += settled.complete;
            let first = contents.first_pending;
            if settled.failed {
                contents.has_failed = true;
                self.after_failures(key, first);
                continue;
            }
            let Some(record) = contents.records.get(first) else { return true };
            if record.is_over() {
                contents.has_failed = true;
                contents.first_pending += 1;
            } else if record.is_under_way() || self.test_request(key, first) == Progress::Pending {
                return false;
            }
        }
    }

    /// Pending requests of a finished block become faults in a wait that goes on beyond the limit
    /// of finish, or beyond another deadline that the block has.
    ///
    /// A wait with the same limit ends first, however often the application waits, and however long
    /// it does something else between; so does one that only looks.
    pub(super) fn check_deadline(&mut self, key: BlockKey, now: Duration, span: Span) {
        if self.block(key).phase != Phase::Draining {
            return;
        }
        let contents = self.contents_mut(key);
        contents.first_wait.get_or_insert(now);
        let late = contents.late_in(span);
        let due = contents.deadline.filter(|moment| span.goes_beyond(*moment));
        if !late.into_iter().chain(due).any(|moment| now >= moment) {
            return;
        }
        if contents.is_drained() {
            self.vote(key);
        } else {
            self.fail_pending(key, FaultCode::TimedOut, |_, _| true);
            self.drain(key);
        }
    }

    /// A failed collective does not say who died. The detector will, in a moment; a report that
    /// names nobody would help nobody.
    fn knows_who_died(&mut self, key: BlockKey) -> bool {
        let contents = self.contents(key);
        if !contents.has_failed {
            return true;
        }
        let process_failure = |state| match state {
            Progress::Failed(code) => code.is_process_failure(),
            _ => false,
        };
        let blamed = contents.records.iter().any(|record| process_failure(record.state));
        if !blamed || !self.comm(self.block(key).comm).commit.dead().is_empty() {
            return true;
        }
        let moment = self.platform.now() + WHO_DIED;
        self.contents_mut(key).bring_deadline(moment);
        false
    }

    /// All requests are over: a local block has its verdict, a global one votes.
    #[inline]
    fn vote(&mut self, key: BlockKey) {
        self.blocks.end_draining(key);
        match self.bases(key) {
            Bases::Here => {}
            Bases::Awaited => self.raise(key, FaultCode::TimedOut),
            Bases::Lost => self.raise(key, FaultCode::Interrupted),
        }
        let faults = self.collect_faults(key);
        if self.block(key).level.is_agreed() {
            self.tell_often(|engine| Entry::Voted { block: engine.block(key).serial });
        }
        if let Some(committed) = self.call(|process, out| process.vote(key, faults, out)) {
            self.conclude(key, committed);
        }
    }

    /// Whether what this block has brought can change the copies that are kept here. The sender may
    /// have known a block to be committed before this rank does, and die before it says so: then
    /// that block is aborted, and this one must be, too.
    #[inline]
    fn bases(&self, key: BlockKey) -> Bases {
        let Contents { copies, records, .. } = self.contents(key);
        let mut all = Bases::Here;
        for copy in copies {
            let Some(base) = copy.base(records) else { continue };
            let is_here = |slot: &Slot| {
                slot.number == copy.slot && (slot.kept_version == base || slot.has_newer(copy))
            };
            if !self.job.copies.slots.iter().any(is_here) {
                let mut others = self.blocks.carried(copy.known.over, copy.slot);
                let is_awaited =
                    base < copy.known.version && others.any(|other| other.known.version == base);
                all = if is_awaited && all != Bases::Lost { Bases::Awaited } else { Bases::Lost };
            }
        }
        all
    }

    /// The faults that follow from the requests, if there are any requests.
    #[inline]
    fn collect_faults(&mut self, key: BlockKey) -> Option<Vec<Fault>> {
        let contents = self.contents(key);
        if contents.records.is_empty() {
            return None;
        }
        let failed = if contents.has_failed { &contents.records[..] } else { &[] };
        debug_assert!(contents.has_failed || contents.records.iter().all(Record::is_complete));
        let blame = |record: &Record| {
            let Progress::Failed(code) = record.state else { return None };
            let peer = match record.need {
                Need::Peer(peer) => Some(peer),
                Need::Neighbours(at) | Need::Coded(at) => {
                    let dead = self.comm(self.block(key).comm).commit.dead();
                    contents.exchanges[at as usize].peers().find(|peer| dead.contains(*peer))
                }
                Need::Living(at) => contents.exchanges[at as usize].blamed(),
                _ => None,
            };
            self.process.blame(key, code, peer)
        };
        Some(failed.iter().filter_map(blame).collect())
    }

    /// Tells the requests that were cut short and needed a dead rank as what they are: whether this
    /// rank heard of the death or of the interruption first makes no difference, nor whether MPI
    /// said why they failed.
    #[cold]
    pub(super) fn blame_the_dead(&mut self, key: BlockKey) {
        let Self { process, blocks, .. } = self;
        let contents = blocks.at_mut(key);
        for record in contents.records.iter_mut() {
            let Progress::Failed(code) = record.state else { continue };
            if code == FaultCode::Interrupted || code.is_unspecific() {
                let exchange = match record.need {
                    Need::Neighbours(at) | Need::Coded(at) => {
                        Some(&contents.exchanges[at as usize])
                    }
                    _ => None,
                };
                let peers = exchange.into_iter().flat_map(Exchange::peers);
                let cause = process.cause_of(key, record.need, peers);
                if code == FaultCode::Interrupted || cause.is_process_failure() {
                    record.state = Progress::Failed(cause);
                }
            }
        }
    }

    /// The verdict, once the block is decided: whether it is committed.
    #[inline]
    pub(crate) fn verdict(&self, key: BlockKey) -> Option<bool> {
        self.process.verdict(key)
    }

    /// Why a block is faulty, once it is decided.
    pub(crate) fn report(&self, key: BlockKey) -> &FaultReport {
        &self.block(key).report
    }

    /// Follows the verdict on a block: its copies, its windows, its buffers.
    pub(super) fn conclude(&mut self, key: BlockKey, committed: bool) {
        self.blocks.end_draining(key);
        if !self.windows.serving.is_empty() {
            self.windows.serving.retain(|served| *served != key);
        }
        if !self.contents_mut(key).is_drained() {
            // The others have decided it without this rank's vote, as its communicator is over.
            self.fail_pending(key, FaultCode::Interrupted, |_, _| true);
        }
        if self.contents(key).riding.is_some() {
            self.detach_rider(key, committed);
        }
        let contents = self.contents(key);
        let is_served = contents.service.is_some();
        let carries = !contents.copies.is_empty();
        let saves = contents.saving.is_some();
        if saves && let Some(saving) = self.contents_mut(key).saving.take().filter(|_| committed) {
            self.know(key, *saving);
        }
        if carries {
            self.settle_copies(key, committed || planted!(KeepAbortedCopies));
        }
        if is_served {
            self.end_service(key, committed || planted!(KeepAbortedPuts));
        }
        self.tell_often(|engine| Entry::Ended { block: engine.block(key).serial, committed });
        if let Some(pulse) = self.metrics.pulse.filter(|_| committed) {
            pulse.commit();
        }
        if !committed {
            self.metrics.faulty += 1;
            self.blame_the_dead(key);
            if !self.process.has_left() {
                self.abandon_messages(key);
                self.reclaim_buffers(key);
            }
        }
        if self.process.conclude(key, committed) {
            self.release(key);
        }
    }

    /// From the commit of this block on, this process knows this of checkpoints, and no state is
    /// lost.
    pub(crate) fn will_know(&mut self, key: BlockKey, saving: Saving) {
        self.contents_mut(key).saving = Some(Box::new(saving));
    }

    /// The block is committed in which the ranks have told each other this.
    #[cold]
    fn know(&mut self, key: BlockKey, saving: Saving) {
        self.job.lost = None;
        if saving.begins {
            let comm = self.block(key).comm;
            self.job.copies.slots.retain(|slot| slot.known.over == Some(comm));
        }
        // The program may have chosen another folder meanwhile.
        if saving.place == self.job.saving.place {
            self.job.saving = Saving { begins: false, ..saving };
        }
    }

    /// The block is decided: what it carried of copies is valid, or is forgotten.
    fn settle_copies(&mut self, key: BlockKey, committed: bool) {
        let pending = core::mem::take(&mut self.contents_mut(key).copies);
        // All have begun with states of their own again.
        let ranks = self.comm(self.block(key).comm).size();
        let is_of_all = [0, ranks].contains(&self.job.brings_back);
        if committed && is_of_all && pending.iter().any(|copy| !copy.is_restored) {
            self.job.lost = None;
        }
        let mut records = core::mem::take(&mut self.contents_mut(key).records);
        // A program that owns its MPI rebuilds each of its communicators.
        let whole =
            self.job.roster.origins.is_empty() || self.comm(self.block(key).comm).is_world();
        self.job.copies.settle(pending, &mut records, whole, committed);
        self.contents_mut(key).records = records;
    }
}
