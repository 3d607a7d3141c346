//! How blocks end: the rank votes, the decision comes, and an abort has consequences.

use alloc::vec::Vec;

use super::{Block, BlockKey, CommKey, Command, Need, Next, Outlet, Patience, Phase, Process};
use crate::{
    fault::{Fault, FaultCode, FaultReport},
    ids::BlockId,
    protocol::{
        agreement::{Decision, FIRST_SHARED_CONTEXT, Vote},
        fused::{Held, Values},
        message::Stage,
        planted::planted,
    },
    rank::Rank,
};

impl Process {
    /// Records a fault of this rank in a block.
    pub fn raise(&mut self, key: BlockKey, code: FaultCode) {
        let me = self.comm(self.block(key).comm).me;
        self.raise_about(key, me, code);
    }

    /// Records a fault in a block that concerns another rank.
    pub fn raise_about(&mut self, key: BlockKey, rank: Rank, code: FaultCode) {
        self.taint(key);
        let comm = self.comm(self.block(key).comm).id;
        self.block_mut(key).faults.push(Fault { comm, rank, code });
    }

    /// A block has a fault: if it is agreed on, no block commits in its data context any more.
    pub fn taint(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (comm, context, scope) = (block.comm, block.context, block.scope);
        if block.level.is_agreed() {
            self.comm_mut(comm).taint(context, scope);
        }
    }

    /// Records that a block inside of this one was faulty, and that the fault was not handled; with
    /// what the inner report says, for those who were not in that block, but for codes that are an
    /// error of that block's ranks.
    pub fn raise_inner(&mut self, key: BlockKey, inner: BlockKey) {
        let comm = self.comm(self.block(inner).comm).id;
        let is_error = |code: FaultCode| {
            code.is_for_all()
                || matches!(
                    code,
                    FaultCode::StateLost | FaultCode::TooManyLost | FaultCode::NothingProtected
                )
        };
        let told = self.block(inner).report.faults().iter();
        let told: Vec<Fault> = told.filter(|fault| !is_error(fault.code)).copied().collect();
        self.taint(key);
        let rank = self.comm(self.block(key).comm).me;
        let faults = &mut self.block_mut(key).faults;
        faults.push(Fault { comm, rank, code: FaultCode::InnerBlock });
        faults.extend(told);
    }

    /// What a request of a block that failed with this code, and needed this rank, says in the
    /// vote.
    pub fn blame(&self, key: BlockKey, code: FaultCode, peer: Option<Rank>) -> Option<Fault> {
        let state = self.comm(self.block(key).comm);
        let (comm, me) = (state.id, state.me);
        let rank = peer.filter(|_| code.is_process_failure()).unwrap_or(me);
        match code {
            FaultCode::InnerBlock => None,
            // Who died is in the report by the detector, if it was in none before; this rank was
            // only held up.
            _ if code.is_process_failure() && rank == me => {
                let known = state.commit.dead().iter().next();
                Some(match known.filter(|_| !state.has_unreported_deaths()) {
                    Some(rank) => Fault { comm, rank, code },
                    None => Fault { comm, rank, code: FaultCode::Interrupted },
                })
            }
            code => Some(Fault { comm, rank, code }),
        }
    }

    /// The application has finished the block while requests of it are pending.
    #[inline]
    pub fn finish(&mut self, key: BlockKey) {
        self.block_mut(key).phase = Phase::Draining;
    }

    /// Requests of the block, if it has any, had these faults; none is pending any more. A global
    /// block votes; a local one has its verdict, which is returned.
    #[inline]
    pub fn vote(
        &mut self,
        key: BlockKey,
        requests: Option<Vec<Fault>>,
        out: &mut impl Outlet,
    ) -> Option<bool> {
        if let Some(faults) = requests {
            self.add_faults(key, faults);
        }
        self.refuse_in_revoked(key);
        let block = &mut self.blocks[key.slot()];
        let mut faults = core::mem::take(&mut block.faults);
        if !block.level.is_agreed() {
            let committed = faults.is_empty();
            if !committed {
                block.report = FaultReport::new(faults);
            }
            return Some(committed);
        }
        block.phase = Phase::Voted;
        self.voted.push(key);
        block.objects = !faults.is_empty();
        let stage = if block.objects { Stage::Failed } else { Stage::Over };
        self.tell_askers(key, stage, out);
        let block = &self.blocks[key.slot()];
        let (comm, id) = (block.comm, block.scope);
        let state = &self.comms[comm.index()];
        if let (true, Some(code)) = (faults.is_empty(), block.proviso) {
            faults.push(Fault { comm: state.id, rank: state.me, code });
        }
        let vote = Vote { faults, context: block.context };
        if state.retired && state.commit.has_decided(id) {
            // The machine has voted for this rank, and the decision came before the block.
            let committed = state.commit.is_committed(id) == Some(true);
            let report = state.commit.decision(id).map(|decision| decision.report(state.id));
            self.end_open(comm, id, (committed, report), out);
            return None;
        }
        if let Some(acknowledged) = &self.blocks[key.slot()].agreement {
            self.comms[comm.index()].commit.begin_agreement(id, acknowledged.clone());
        }
        if let Some(values) = self.blocks[key.slot()].values.get() {
            let mut copy = Held::NOTHING;
            let values = copy.set(values);
            self.drive(comm, out, |commit, out| commit.handle_fused_vote(id, vote, values, out));
        } else {
            self.drive(comm, out, |commit, out| commit.handle_vote(id, vote, out));
        }
        self.follow_up(out);
        None
    }

    /// The faults that follow from the requests, beside those that were raised.
    #[inline]
    fn add_faults(&mut self, key: BlockKey, mut faults: Vec<Fault>) {
        let block = &mut self.blocks[key.slot()];
        let state = &self.comms[block.comm.index()];
        let tainted = state.is_tainted(block.context) && !planted!(CommitInTheTainted);
        if faults.is_empty() && block.faults.is_empty() && !tainted {
            return;
        }
        block.faults.append(&mut faults);
        let lost = state.lost_collective(block.context);
        if tainted && block.level.is_agreed() && (block.faults.is_empty() || lost.is_some()) {
            let code = lost.unwrap_or(FaultCode::Interrupted);
            block.faults.push(Fault { comm: state.id, rank: state.me, code });
        }
        block.faults.sort_unstable();
        block.faults.dedup();
    }

    /// The result of the fused reduction of a committed block.
    pub fn fused(&self, key: BlockKey) -> Option<&Values> {
        let block = self.block(key);
        let committed = block.phase == Phase::Decided { committed: true };
        block.values.get().filter(|_| committed)
    }

    /// The machine of a communicator has just decided a block.
    #[inline]
    pub(super) fn take_decision(&mut self, comm: CommKey, id: BlockId, out: &mut impl Outlet) {
        let state = &mut self.comms[comm.index()];
        let committed = state.commit.is_committed(id).expect("it was decided in this turn");
        let faulty = if committed { None } else { state.commit.decision(id) };
        state.interrupts.forget_below(state.commit.base());
        state.stages.forget_below(state.commit.base());
        state.riders.forget(id, state.commit.base());
        let aborts = !self.is_agreement(comm, id);
        let report = faulty.as_ref().map(|decision| {
            if aborts {
                self.take_abort(comm, id, decision, out)
            } else {
                decision.report(self.comm(comm).id)
            }
        });
        self.end_open(comm, id, (committed, report), out);
        if let Some(decision) = faulty.filter(|_| aborts) {
            self.pending.push_back((comm, Next::Aborted(id, decision.next_context)));
        }
        let state = self.comm(comm);
        if state.context > FIRST_SHARED_CONTEXT {
            out.command(Command::DiscardStaleMessages(state.present.unwrap_or(comm)));
        }
    }

    /// Ends the block of this number, if this rank has started it, with a verdict and the report.
    #[inline]
    fn end_open(
        &mut self,
        comm: CommKey,
        id: BlockId,
        (committed, report): (bool, Option<FaultReport>),
        out: &mut impl Outlet,
    ) {
        let (blocks, state) = (&self.blocks, &mut self.comms[comm.index()]);
        let open = &mut state.open;
        let Some(at) = open.iter().position(|key| blocks[key.slot()].scope == id) else { return };
        // Nearly always there is one.
        let key = if at + 1 == open.len() { open.pop() } else { Some(open.remove(at)) };
        let key = key.expect("it is at this place");
        if state.over.is_some() {
            self.end_of_the_past(comm);
        }
        self.voted.retain(|voted| *voted != key);
        let values = &mut self.blocks[key.slot()].values;
        if values.get().is_some() {
            match self.comms[comm.index()].commit.values(id) {
                Some(reduced) => {
                    values.set(reduced);
                }
                None => values.clear(),
            }
        }
        if let Some(report) = report {
            self.block_mut(key).report = report;
        }
        out.command(Command::Conclude(key, committed));
    }

    /// The block is faulty: its report, and the data context of the blocks after it.
    #[cold]
    fn take_abort(
        &mut self,
        comm: CommKey,
        id: BlockId,
        decision: &Decision,
        out: &mut impl Outlet,
    ) -> FaultReport {
        let state = self.comm_mut(comm);
        let report = decision.report(state.id);
        if decision.next_context > state.context && !planted!(KeepTheContext) {
            let was_shared = state.context >= FIRST_SHARED_CONTEXT;
            state.context = decision.next_context;
            // In a shared context there is nothing to end, but what a prompt block has elsewhere.
            let ends = !was_shared || state.patience == Patience::Prompt;
            if let Some(data) = state.data.filter(|_| ends) {
                let refill = decision.dead.is_empty() && state.commit.dead().is_empty();
                out.command(Command::RetireContexts(data, decision.next_context, refill));
            }
        }
        out.command(Command::Aborted(comm, id, report.clone()));
        report
    }

    /// What an abort means for other blocks and communicators, once it was taken.
    #[cold]
    pub(super) fn start_afresh(
        &mut self,
        comm: CommKey,
        id: BlockId,
        next_context: u32,
        out: &mut impl Outlet,
    ) {
        self.renew_children(comm, id, out);
        self.interrupt_hurried(comm, id, next_context, out);
        let state = self.comm(comm);
        if state.retired && state.over.is_none() && state.data.is_some() {
            // The others' next block, which this process will never start.
            let next = state.next_block.max(id.next());
            self.flood(comm, next, out);
        }
    }

    /// Blocks that this rank started after an aborted one, and before it knew the verdict, are in
    /// the context of that one. A rank that knew the verdict first has started them in the next
    /// context, where nothing of this rank is heard, so it would wait for ever. An agreement waits
    /// for nothing there.
    fn interrupt_hurried(
        &mut self,
        comm: CommKey,
        aborted: BlockId,
        next_context: u32,
        out: &mut impl Outlet,
    ) {
        let blocks = self.comm(comm).open.iter().map(|key| self.block(*key));
        let waits = |it: &&Block| it.agreement.is_none() && it.context < next_context;
        let hurried = blocks.filter(|it| it.scope > aborted).filter(waits);
        let hurried: Vec<BlockId> = hurried.map(|block| block.scope).collect();
        for block in hurried {
            self.flood(comm, block, out);
        }
    }

    /// The code of a request of a decided block that was cut short, if it needed a dead rank:
    /// whether this rank heard of the death or of the interruption first makes no difference.
    /// `peers` are the ranks that a request of its own kind of need has.
    ///
    /// Whom a request needs that is open to any rank, or was started by the application, is
    /// unknown: it may have needed any rank of whose death the report tells.
    pub fn cause_of(
        &self,
        key: BlockKey,
        need: Need,
        peers: impl Iterator<Item = Rank>,
    ) -> FaultCode {
        let block = self.block(key);
        let state = self.comm(block.comm);
        let dead = |peer: Rank| state.commit.agreed_dead().contains(peer);
        let died = |fault: &Fault| fault.comm == state.id && fault.code.is_process_failure();
        let needed = match need {
            Need::Peer(peer) => dead(peer),
            Need::Neighbours(_) | Need::Coded(_) => { peers }.any(dead),
            Need::Anybody | Need::All | Need::Living(_) | Need::Rider(_) | Need::Foreign => {
                block.report.faults().iter().any(died)
            }
            Need::Nobody | Need::Inner(_) | Need::Making => false,
        };
        if needed { FaultCode::ProcessFailed } else { FaultCode::Interrupted }
    }
}
