//! Blocks of a program that owns its MPI: over communicators and requests that it made itself.
//!
//! Of such a request nothing is known but how to test it: not its peer, not its communicator. A
//! death in the block's communicator therefore dooms a global block with such requests: it is
//! interrupted, upon which the platform revokes the communicator, so that MPI ends what is pending
//! there; a local block, whose peers may all be alive, gets a moment to be complete.
//!
//! Messages that the program has started through us have a peer that is known, and run in a lane
//! of ours: a death ends those that need the dead.

use alloc::{vec, vec::Vec};
use core::time::Duration;

use super::{
    BlockKey, CommKey, Engine, Level, Need, Patience, Phase, Waited,
    contents::{Contents, lane_of},
};
use crate::{
    error::Error,
    fault::FaultCode,
    ids::{BlockId, CommId},
    protocol::{agreement::FIRST_SHARED_CONTEXT, fused::Values, planted::planted},
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        entry::Entry,
        platform::{DataId, Idle, Lane, Operation, PostId, Progress, UniverseId},
        record::Record,
    },
    timeout::Timeout,
};

/// How long requests of a local block, of which it is unknown whom they need, may go on after a
/// death in its communicator: MPI does not end all of them.
const LOCAL_GRACE: Duration = Duration::from_secs(1);

impl Engine {
    /// Registers a communicator whose ranks are the processes of a universe of their own.
    pub(crate) fn adopt_comm(
        &mut self,
        id: CommId,
        universe: UniverseId,
        (size, me): (u32, Rank),
        data: DataId,
    ) -> CommKey {
        let everybody = (0..size).map(Rank::new).collect();
        let key = self.register(id, universe, everybody, me, Some(data));
        self.prepare_for_guest(key);
        self.job.world = Some(key);
        let rank = Some((me, me.number()));
        self.tell(&Entry::Placed { process: None, rank, generation: 0, role: "rank" });
        key
    }

    /// Messages of ours on a guest's communicator run in a shared context from the beginning, so
    /// that none is ever to be made; and blocks there are patient at first.
    pub(crate) fn prepare_for_guest(&mut self, key: CommKey) {
        let comm = self.comm_mut(key);
        (comm.context, comm.settled_context) = (FIRST_SHARED_CONTEXT, FIRST_SHARED_CONTEXT);
        (comm.patience, comm.run_through) = (Patience::Patient, true);
        self.blocks.tags.free_locals();
    }

    /// Where messages of ours run on a guest's communicator, and the tag there for one of the
    /// guest's: that of the block that was started last and is not finished, and where there is
    /// none, of the next.
    pub(crate) fn guests_lane(&self, key: CommKey, tag: u32) -> (Lane, u32) {
        let (bits, state) = (self.blocks.tags, self.comm(key));
        let last = self.process.last_open(key).map(|block| self.block(block));
        let (context, scope) = match last {
            Some(block) if !block.level.is_agreed() => {
                (FIRST_SHARED_CONTEXT, bits.scope_of_locals())
            }
            block => {
                let next = (state.context, state.next_block);
                let (context, number) = block.map_or(next, |block| (block.context, block.scope));
                let named = if planted!(ShareTheTags) { FIRST_SHARED_CONTEXT } else { context };
                let number = if planted!(NameNoBlock) { BlockId(0) } else { number };
                (context, bits.scope_of(Level::Global, number, named))
            }
        };
        (Lane { context, ..lane_of(state) }, bits.on_the_wire(tag, scope))
    }

    /// Makes a collective that was posted in this block before one of the list, at the end of it.
    pub(crate) fn list_collective(&mut self, key: BlockKey, index: usize) {
        let at = self.contents_mut(key).move_to_end(index);
        let mut known = self.exchanges.collectives.iter_mut();
        if let Some(known) = known.find(|known| **known == (key, index)) {
            known.1 = at;
        }
    }

    /// Makes a block the next request of another one. It stays its owner's, too.
    pub(crate) fn adopt_block(&mut self, key: BlockKey, inner: BlockKey) {
        self.block_mut(inner).held += 1;
        self.nest(key, inner);
    }

    /// What this rank brings to the reduction on the commit of a block, which is finished next.
    pub(crate) fn fuse(&mut self, key: BlockKey, values: Values) {
        self.block_mut(key).values.set(&values);
        self.contents_mut(key).note_collective();
    }

    /// Ends the attempt at a block whose requests were adopted, perhaps after its end was clear.
    #[inline]
    pub(crate) fn finish_adopted(&mut self, key: BlockKey, timeout: Timeout) {
        let open = self.block(key).phase == Phase::Open;
        self.finish_block(key, timeout);
        if open && self.blocks.draining.contains(&key) {
            self.drain_adopted(key);
        }
    }

    /// Looks at adopted requests for the first time: a death may have doomed them before.
    fn drain_adopted(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (comm, scope, context) = (block.comm, block.scope, block.context);
        let state = self.comm(comm);
        if state.interrupts.contains(scope) || self.process.doomed_around(key) {
            if let Some(data) = self.comm(comm).data {
                self.platform.retire_contexts(data, context + 1, false);
            }
        } else if state.has_unreported_deaths()
            || !block.level.is_agreed() && !state.commit.dead().is_empty()
        {
            self.doubt(key);
        }
        self.drain(key);
    }

    /// Waits until the blocks of the same communicator that were started before this one are
    /// decided. False when this process has not finished one of them, or a failure ended the wait.
    pub(crate) fn settle_before(&mut self, key: BlockKey) -> bool {
        let comm = self.block(key).comm;
        let is_first = |engine: &Self| engine.comm(comm).open.first() == Some(&key);
        let stuck = |engine: &Self| {
            let mut before = engine.comm(comm).open.iter().take_while(|other| **other != key);
            before.any(|other| engine.block(*other).phase == Phase::Open)
        };
        self.wait(Timeout::Never, Idle::Busy, |engine| {
            is_first(engine) || stuck(engine) || engine.process.is_interrupted(key)
        });
        is_first(self)
    }

    /// True when a block that this process has not finished is doomed.
    pub(crate) fn is_interrupted(&self, key: BlockKey) -> bool {
        self.process.is_interrupted(key)
    }

    /// The words of all ranks, in their order, by messages in log n rounds: a guest has no
    /// communicator for each context, on which a collective that one rank missed does no harm.
    ///
    /// ```text
    /// round k  rank r ── the words of r, r−1, … (2ᵏ ranks) ──▶ rank r + 2ᵏ
    /// ```
    pub(crate) fn pass_words(
        &mut self,
        key: BlockKey,
        mine: &[u64],
        tag: u32,
    ) -> Result<Vec<u64>, Error> {
        let (ranks, me) = {
            let comm = self.comm(self.block(key).comm);
            (comm.size() as usize, comm.me.index())
        };
        let (width, mut words) = (mine.len(), mine.to_vec());
        let mut known = 1;
        while known < ranks {
            let many = known.min(ranks - known);
            let (to, from) =
                (Rank::from((me + known) % ranks), Rank::from((me + ranks - known) % ranks));
            let receive = Operation::Receive { from: Some(from), tag: Some(tag) };
            let news = AnyBuffer::of(vec![0_u64; many * width]);
            let news = self.post(key, Need::Peer(from), &receive, news);
            let send = Operation::Send { to, tag, synchronous: false };
            self.post(key, Need::Peer(to), &send, AnyBuffer::of(words[..many * width].to_vec()));
            self.wait_request(key, news, Timeout::Never);
            self.contents(key).succeeded(news)?;
            words.extend(self.contents_mut(key).records.take::<u64>(news).into_iter().flatten());
            known += many;
        }
        // The k-th words are those of the k-th rank before us.
        let of = |rank: usize| (me + ranks - rank) % ranks * width;
        Ok((0..ranks).flat_map(|rank| words[of(rank)..of(rank) + width].to_vec()).collect())
    }

    /// True for a block in which MPI starts no collective, as a process has died, or needs none, as
    /// this one is alone.
    #[inline]
    pub(crate) fn needs_no_collective(&self, key: BlockKey) -> bool {
        let block = self.block(key);
        let state = self.comm(block.comm);
        block.level == Level::WithCollective
            && (state.size() == 1 || !state.commit.dead().is_empty())
    }

    /// A rank of the block's communicator died: do its pending requests have a chance?
    pub(super) fn doubt(&mut self, key: BlockKey) {
        let foreign =
            |record: &Record| record.need == Need::Foreign && record.state == Progress::Pending;
        if !self.contents(key).records.iter().any(foreign) {
            return;
        }
        let block = self.block(key);
        if block.level.is_agreed() {
            return self.interrupt_open(block.comm, block.scope);
        }
        let moment = self.platform.now() + LOCAL_GRACE;
        self.contents_mut(key).bring_deadline(moment);
    }

    /// Waits for requests of this process until `done` holds, or until a block that this process
    /// is in has become doomed.
    ///
    /// Those that are messages of ours, with their communicators, go on after a death as long as
    /// their peers may serve them; `foreign` says that there are others.
    pub(crate) fn wait_inside(
        &mut self,
        timeout: Timeout,
        (messages, foreign): (Vec<(CommKey, Need, PostId)>, bool),
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Waited {
        (self.waiting.messages, self.waiting.foreign) = (messages, foreign);
        let mut doomed = false;
        let over = self.wait(timeout, Idle::Busy, |engine| {
            // What ended because of the doom is over all the same.
            doomed = engine.inside_a_doomed_block(foreign);
            done(engine) || doomed
        });
        self.waiting.messages.clear();
        self.waiting.foreign = false;
        match (over, doomed) {
            (true, true) if done(self) => Waited::Decided,
            (true, false) => Waited::Decided,
            (_, true) => Waited::Doomed,
            (false, false) => Waited::TimedOut,
        }
    }

    /// Waits until `done` holds, which needs all living ranks of some communicator. False when a
    /// block that this process is in has become doomed before: they may not come. In a patient
    /// block a death is no reason, but ranks that have ended their part with faults are.
    pub(crate) fn wait_for_others(&mut self, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut over = false;
        self.waiting.foreign = true;
        self.wait(Timeout::Never, Idle::Busy, |engine| {
            over = over || done(engine);
            over || engine.inside_a_doomed_block(false)
        });
        self.waiting.foreign = false;
        over
    }

    /// True for a message of ours that is waited for, of which it is known what it needs.
    pub(crate) fn is_awaited_message(&self, post: PostId) -> bool {
        self.waiting.messages.iter().any(|(.., awaited)| *awaited == post)
    }

    /// A request failed, outside of any `finish`.
    pub(crate) fn note_foreign_loss(&mut self, progress: Progress) {
        // After a death MPI does not always say that it is why a collective failed, and there is
        // silence on other ranks.
        if let Progress::Failed(code) = progress
            && (code.is_process_failure() || code.is_unspecific() && self.process.is_bereaved())
        {
            self.call(|process, out| process.doom_open_blocks(out));
        }
    }

    /// True when a global block that this process has not finished is interrupted, or lost a
    /// member; the others of the block are told.
    fn inside_a_doomed_block(&mut self, patient_too: bool) -> bool {
        if self.process.has_bereaved_blocks(patient_too) {
            self.call(|process, out| process.doom_bereaved_blocks(patient_too, out));
        }
        self.process.is_in_a_doomed_block()
    }
}

impl Contents {
    /// Makes the requests that the application has started itself the next ones of the block.
    pub(crate) fn begin_list(&mut self) {
        self.first_listed = self.records.len();
    }

    /// Makes a request that the application has started itself the next one of the block.
    #[inline]
    pub(crate) fn adopt_request(&mut self, post: PostId, need: Need) {
        self.records.adopt(need, post);
    }

    /// The first of the requests of the list that the block was finished with.
    pub(crate) fn first_listed(&self) -> usize {
        self.first_listed
    }

    /// The faults of the requests of the list, by their places in it.
    pub(crate) fn faults_of_list(&self) -> impl Iterator<Item = (usize, FaultCode)> + '_ {
        let raised = |index| {
            let index = self.first_listed + index;
            self.raised.iter().find(|(known, _)| *known == index).map(|(_, code)| *code)
        };
        let failed = |state| if let Progress::Failed(code) = state { Some(code) } else { None };
        let listed = self.records.get(self.first_listed..).unwrap_or(&[]).iter().enumerate();
        listed.filter_map(move |(index, record)| {
            Some((index, raised(index).or_else(|| failed(record.state))?))
        })
    }
}
