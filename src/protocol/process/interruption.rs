//! Which operations have a chance, and how a block that has none is cut short for all its ranks.

use super::{
    Block, BlockKey, Chosen, CommKey, Command, Communicator, NO_BLOCK, Need, Outlet, Patience,
    Phase, Process, Source,
};
use crate::{
    fault::FaultCode,
    ids::BlockId,
    protocol::{agreement::FIRST_SHARED_CONTEXT, planted::planted},
};

impl Process {
    /// Why an operation with this need has no chance in this block, if it has none.
    pub fn doom(&self, key: BlockKey, need: Need) -> Option<FaultCode> {
        let block = self.block(key);
        let state = self.comm(block.comm);
        let is_lost = need.is_of_all() && state.lost_collective(block.context).is_some();
        if is_lost || need == Need::All && self.is_beside_a_fault(key) {
            return Some(FaultCode::Interrupted);
        }
        if state.is_quiet() && self.interrupted.is_empty() {
            return None;
        }
        // In a shared context nothing but this keeps messages of an older attempt from starting.
        let outdated = block.context >= FIRST_SHARED_CONTEXT && block.context < state.context;
        if outdated || state.interrupts.contains(block.scope) || self.doomed_around(key) {
            return Some(FaultCode::Interrupted);
        }
        let hopeless = match need {
            Need::Peer(peer) => state.commit.dead().contains(peer),
            Need::All => !state.commit.dead().is_empty(),
            // It may be the dead who was to send; once all know that, it is the user's risk.
            Need::Anybody | Need::Living(_) | Need::Rider(_) => state.has_unreported_deaths(),
            // Asked for each of their messages.
            Need::Neighbours(_)
            | Need::Coded(_)
            | Need::Nobody
            | Need::Inner(_)
            | Need::Making
            | Need::Foreign => false,
        };
        hopeless.then_some(FaultCode::ProcessFailed)
    }

    /// True for an agreed block in whose data context this rank has a fault in another block.
    ///
    /// A message names its block, and a collective does not: one of this block could meet one of
    /// that other, in which other ranks may still be.
    fn is_beside_a_fault(&self, key: BlockKey) -> bool {
        let (block, state) = (self.block(key), self.comm(self.block(key).comm));
        let beside = |(context, faulty): (u32, BlockId)| {
            context == block.context && faulty != block.scope && faulty != NO_BLOCK
        };
        let is_beside = block.level.is_agreed() && state.tainted.is_some_and(beside);
        is_beside && !planted!(StartInTheTainted)
    }

    /// Why operations of a block that are under way fail, if this process knows.
    pub fn disturbance(&self, key: BlockKey) -> Option<FaultCode> {
        let block = self.block(key);
        let state = self.comm(block.comm);
        if state.interrupts.contains(block.scope) || self.doomed_around(key) {
            return Some(FaultCode::Interrupted);
        }
        (!state.commit.dead().is_empty()).then_some(FaultCode::ProcessFailed)
    }

    /// True when a block that this process has not finished is doomed.
    pub fn is_interrupted(&self, key: BlockKey) -> bool {
        self.interrupted.contains(&key)
    }

    /// True when this rank is in a block that is interrupted.
    pub fn is_in_a_doomed_block(&self) -> bool {
        let open = |key: &BlockKey| self.current(*key).is_some_and(|it| it.phase == Phase::Open);
        self.interrupted.iter().any(open)
    }

    /// A request of a block failed with this code: what it needed cannot be had, and if a process
    /// is to blame, all ranks of the block should hear of it.
    ///
    /// An operation that is interrupted, while its block is not, was posted inside of a doomed one
    /// that not all of its ranks are in, or in a context that some of them have left: they would
    /// wait for it in vain.
    pub fn request_failed(
        &mut self,
        key: BlockKey,
        need: Need,
        code: FaultCode,
        out: &mut impl Outlet,
    ) {
        let block = self.block(key);
        let (comm, scope, context) = (block.comm, block.scope, block.context);
        let is_agreed = block.level.is_agreed();
        let elsewhere = code == FaultCode::Interrupted && is_agreed;
        // A message of a local block matches no other block; a collective matches the next one.
        if is_agreed || need.is_of_all() {
            self.comm_mut(comm).taint(context, scope);
        }
        // Who died is in the report by the detector.
        if need.is_of_all() && !is_agreed && !code.is_process_failure() {
            self.comm_mut(comm).lost = Some((context, code));
        }
        if let (true, Need::Peer(peer)) = (code.is_process_failure(), need) {
            let state = self.comm(comm);
            let address = (state.universe, state.members[peer.index()]);
            self.note_death(address, Source::Request, out);
        }
        // What was given up in a patient block is the affair of those who ask how far this rank is,
        // which is not possible for requests whose peers are unknown.
        // A collective over the living, or a code, that one rank gives up ends nowhere; of a death
        // all hear.
        let ends_nowhere = match need {
            Need::Living(_) | Need::Coded(_) => true,
            Need::Rider(_) => code != FaultCode::TimedOut,
            _ => false,
        };
        let is_broken = ends_nowhere && is_agreed && !code.is_process_failure();
        let spreads = code.is_process_failure() || elsewhere || is_broken;
        let died = code.is_process_failure() && self.is_patient(key);
        let asked_about = need != Need::Foreign && !is_broken && (died || self.must_ask(key));
        if spreads && !asked_about {
            self.flood_if_open(comm, scope, out);
        }
        self.follow_up(out);
    }

    /// Leaves a block early because of this code: pending requests are given up, the vote is *no*,
    /// and the others are told not to wait for this rank.
    pub fn leave_block(&mut self, key: BlockKey, code: FaultCode, out: &mut impl Outlet) {
        if self.block(key).is_running() {
            self.walk_out(key, code, out);
            self.follow_up(out);
        }
    }

    pub(super) fn walk_out(&mut self, key: BlockKey, code: FaultCode, out: &mut impl Outlet) {
        self.raise(key, code);
        out.command(Command::FailRequests(key, FaultCode::Interrupted, Chosen::Operations));
        out.command(Command::FailRequests(key, FaultCode::InnerBlock, Chosen::All));
        let block = self.block(key);
        let (comm, scope) = (block.comm, block.scope);
        if block.level.is_agreed() && !self.must_ask(key) {
            self.flood_if_open(comm, scope, out);
        }
        out.command(Command::Finish(key));
    }

    /// A process died that an operation of the application needed, of which it is not known to
    /// which block it belongs: all blocks that this rank is in are doomed.
    pub fn doom_open_blocks(&mut self, out: &mut impl Outlet) {
        self.doom_blocks(|_, _| true, out);
    }

    /// True when blocks that this rank is in lost a member without being interrupted.
    /// Patient ones count only for a wait for which no rank can be asked (the flag).
    pub fn has_bereaved_blocks(&self, patient_too: bool) -> bool {
        self.comms.iter().any(|comm| {
            let is_new = |key: &&BlockKey| {
                let block = self.block(**key);
                let counts = patient_too || block.patience == Patience::Prompt;
                counts && block.phase == Phase::Open && !comm.interrupts.contains(block.scope)
            };
            comm.has_unreported_deaths() && comm.open.iter().find(is_new).is_some()
        })
    }

    /// The blocks of [`Self::has_bereaved_blocks`] are doomed.
    pub fn doom_bereaved_blocks(&mut self, patient_too: bool, out: &mut impl Outlet) {
        let counts = |block: &Block| patient_too || block.patience == Patience::Prompt;
        self.doom_blocks(|comm, block| comm.has_unreported_deaths() && counts(block), out);
    }

    fn doom_blocks(
        &mut self,
        chosen: impl Fn(&Communicator, &Block) -> bool,
        out: &mut impl Outlet,
    ) {
        for comm in self.comms() {
            for key in self.comm(comm).open.clone() {
                let block = self.block(key);
                let scope = block.scope;
                if block.phase == Phase::Open && chosen(self.comm(comm), block) {
                    self.flood(comm, scope, out);
                }
            }
        }
        self.follow_up(out);
    }

    /// Tells all ranks that a block is doomed.
    pub fn interrupt(&mut self, comm: CommKey, block: BlockId, out: &mut impl Outlet) {
        self.flood(comm, block, out);
        self.follow_up(out);
    }

    /// Tells all ranks that a block is doomed, if it is open here.
    pub fn interrupt_open(&mut self, comm: CommKey, block: BlockId, out: &mut impl Outlet) {
        self.flood_if_open(comm, block, out);
        self.follow_up(out);
    }

    fn flood_if_open(&mut self, comm: CommKey, block: BlockId, out: &mut impl Outlet) {
        if self.comm(comm).open.iter().any(|key| self.block(*key).scope == block) {
            self.flood(comm, block, out);
        }
    }

    /// A block is doomed: no rank waits inside it any more.
    pub(super) fn cut_short(&mut self, key: CommKey, id: BlockId, out: &mut impl Outlet) {
        let comm = self.comm(key);
        let Some(data) = comm.data else {
            // A universe carries no operations; an interruption of it ends the job. In an epoch of
            // a communicator that this rank was never in, no rank waits here.
            if comm.present.is_none() {
                out.command(Command::Dismissed);
            }
            return;
        };
        let open = comm.open.iter().copied().find(|block| self.block(*block).scope == id);
        let Some(block) = open.filter(|_| !planted!(WaitInTheInterrupted)) else { return };
        if !self.block(block).is_running() {
            return;
        }
        let context = self.block(block).context;
        self.comm_mut(key).taint(context, id);
        self.interrupted.push(block);
        out.command(Command::Interrupted(block));
        // Whether any rank died is only known with the decision.
        out.command(Command::RetireContexts(data, context + 1, false));
        // Most are over by that. A message that its receiver has begun to fetch is not: MPI lets go
        // of it when the receiver, who may compute for long, has all of it.
        out.command(Command::FailRequests(block, FaultCode::Interrupted, Chosen::Operations));
        // What was started since a panic that was caught is not inside of what that has left.
        if self.block(block).phase == Phase::Open && !self.orphans.contains(&block) {
            self.cut_inside(block, out);
        }
    }

    /// This rank is inside a doomed block: so are the blocks that it started since.
    pub(super) fn cut_inside(&mut self, outer: BlockKey, out: &mut impl Outlet) {
        let serial = self.block(outer).serial;
        for key in self.used_blocks() {
            let block = self.block(key);
            if block.serial > serial && block.is_running() {
                let (comm, scope, level) = (block.comm, block.scope, block.level);
                let code = FaultCode::Interrupted;
                out.command(Command::FailRequests(key, code, Chosen::Operations));
                if level.is_agreed() {
                    self.flood_if_open(comm, scope, out);
                }
            }
        }
    }
}
