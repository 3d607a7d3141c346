//! Communicators that start afresh, and those that are over.
//!
//! When a block is aborted, the communicators that were derived from its own begin a new *epoch*:
//! ranks may have left that block before or after they started inner blocks on them, so they do not
//! agree any more on which block comes next. Open blocks of the old epoch get *no* votes from all
//! who have not voted; new ones are counted from 0 again, under another name on the wire, in
//! another data context. A rebuild ends all communicators of a universe in the same way.
//!
//! An epoch is named by the abort that began it, whatever this rank had decided before. If this
//! rank never was in the epoch that an abort began, because a later abort reached it first or
//! because the aborted block is one of a past epoch, it votes *no* in that epoch, too.
//!
//! What is over stays until no rank can ask about it. An epoch ends at all ranks with the decision
//! of one block; as long as this rank waits for blocks of the epoch, it says in its votes that it
//! has not decided that block ([`Commit::hold`]). So the ranks' common floor above that block says
//! that no rank waits for anything in that epoch. For a universe it is the first block of the next
//! one.
//!
//! [`Commit::hold`]: crate::protocol::commit::Commit::hold

use alloc::vec::Vec;

use super::{CommKey, Command, Communicator, Outlet, Phase, Process};
use crate::{
    fault::FaultCode,
    ids::{BlockId, CommId, UniverseId},
    protocol::{agreement::context_after, interrupt::REVOCATION, planted::planted},
    rank::Rank,
};

/// How many names of communicators that are over are known for late messages.
const FORGOTTEN: usize = 256;

/// How much a process remembers of communicators. In a program that goes on and on, through any
/// number of aborted blocks and rebuilds, none of it grows for ever.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Remembered {
    /// Communicators, and past epochs of them that others may ask about.
    pub communicators: usize,
    /// Universes: those of the newest world, of worlds before it that the application still has
    /// handles of, and of such that others may ask about.
    pub universes: usize,
    /// Universes that are looked at for messages and deaths.
    pub listening: usize,
}

impl Process {
    /// Puts a communicator into the table.
    pub(super) fn add_comm(&mut self, state: Communicator) -> CommKey {
        if let Some(key) = self.vacant.pop() {
            self.comms[key.index()] = state;
            return key;
        }
        self.comms.push(state);
        CommKey::new(self.comms.len() - 1)
    }

    /// A block of `ancestor` was aborted: communicators derived from it start afresh.
    pub(super) fn renew_children(
        &mut self,
        ancestor: CommKey,
        block: BlockId,
        out: &mut impl Outlet,
    ) {
        let state = self.comm(ancestor);
        let (present, name) = (state.present.unwrap_or(ancestor), state.wire);
        let is_past = state.present.is_some();
        let dead = state.commit.agreed_dead().iter().map(|rank| state.members[rank.index()]);
        let dead: Vec<Rank> = dead.collect();
        for key in self.comms() {
            let comm = self.comm(key);
            if comm.over.is_some() || !self.is_below(key, present) {
                continue;
            }
            let overtaken = |(by, later): (CommKey, BlockId)| by == present && later > block;
            if is_past {
                let over = self.comm(ancestor).over;
                self.add_past(key, comm.id.after_abort(name, block), over, out);
            } else if comm.epoch.is_some_and(overtaken) {
                if planted!(ForgetTheOvertaken) {
                    continue;
                }
                self.add_past(key, comm.id.after_abort(name, block), comm.epoch, out);
            } else {
                self.renew(key, (present, block), name, &dead, out);
            }
        }
        self.sweep_due = true;
    }

    fn is_below(&self, key: CommKey, ancestor: CommKey) -> bool {
        let mut above = self.comm(key).parent;
        while let Some(parent) = above.filter(|parent| *parent != ancestor) {
            above = self.comm(parent).parent;
        }
        above.is_some()
    }

    /// Begins a new epoch of a communicator. `dead` are the processes whose deaths its ancestor has
    /// reported.
    fn renew(
        &mut self,
        key: CommKey,
        by: (CommKey, BlockId),
        name: CommId,
        dead: &[Rank],
        out: &mut impl Outlet,
    ) {
        let old = self.comm(key);
        let (universe, me, data, retired) = (old.universe, old.me, old.data, old.retired);
        let members = (old.members.clone(), me);
        let mut fresh = self.fresh(old.id, universe, members, data);
        fresh.wire = if planted!(KeepTheName) { old.wire } else { old.id.after_abort(name, by.1) };
        (fresh.parent, fresh.lineage) = (old.parent, old.lineage.clone());
        let bereaved = old.members.iter().any(|member| dead.contains(member));
        (fresh.derived, fresh.context) = (old.derived, context_after(old.context, bereaved));
        (fresh.settled_context, fresh.handles) = (old.settled_context, old.handles);
        (fresh.patience, fresh.run_through) = (old.patience, old.run_through);
        let (acknowledged, revoked) = (old.acknowledged.clone(), old.interrupts.is_revoked());
        fresh.acknowledged = acknowledged;
        fresh.epoch = Some(by);
        let context = fresh.context;
        let mut old = core::mem::replace(self.comm_mut(key), fresh);
        old.retired = true;
        (old.parent, old.lineage, old.handles) = (None, None, 0);
        (old.present, old.over) = (Some(key), Some(by));
        let past = self.add_comm(old);
        for block in self.blocks.iter_mut().filter(|it| it.comm == key && it.phase != Phase::Free) {
            block.comm = past;
        }
        for (of, _) in self.pending.iter_mut().filter(|(of, _)| *of == key) {
            *of = past;
        }
        // What ended with one of its blocks has ended with this one, too, for all ranks.
        for state in &mut self.comms {
            if state.over.is_some_and(|(owner, _)| owner == key) {
                state.over = Some(by);
            }
        }
        self.hold_for(by.0);
        if revoked {
            self.flood(key, REVOCATION, out);
        }
        self.drive(past, out, |commit, out| commit.retire(out));
        self.dismiss_askers(past, out);
        if let Some(data) = data {
            let members = &self.comm(key).members;
            let known = self.universes.iter().find(|known| known.id == universe);
            let died = |process: &Rank| known.is_some_and(|known| known.dead.contains(*process));
            let refill = !retired && !bereaved && !members.iter().any(died);
            out.command(Command::RetireContexts(data, context, refill));
        }
        self.meet(key, out);
        if retired {
            // Others may go on with it, and want this rank's *no* in every epoch.
            self.resign(key, out);
        }
    }

    /// Adds an epoch of a communicator that this rank was never in.
    fn add_past(
        &mut self,
        key: CommKey,
        wire: CommId,
        over: Option<(CommKey, BlockId)>,
        out: &mut impl Outlet,
    ) {
        let comm = self.comm(key);
        let members = (comm.members.clone(), comm.me);
        let mut state = self.fresh(comm.id, comm.universe, members, None);
        (state.wire, state.retired) = (wire, true);
        (state.present, state.over) = (Some(key), over);
        let past = self.add_comm(state);
        self.drive(past, out, |commit, out| commit.retire(out));
        self.meet(past, out);
    }

    /// Gives a communicator up: from now on this process votes *no* on blocks that it never
    /// started.
    pub fn retire(&mut self, key: CommKey, out: &mut impl Outlet) {
        self.stop_voting(key, out);
        self.follow_up(out);
    }

    fn stop_voting(&mut self, key: CommKey, out: &mut impl Outlet) {
        if self.comm(key).retired || self.left {
            return;
        }
        self.comm_mut(key).retired = true;
        self.drive(key, out, |commit, out| commit.retire(out));
        self.dismiss_askers(key, out);
        // The vote on what is finished is *no* by now, whatever its requests come to; and who is
        // waited for without knowing it has to speak first.
        for block in self.comm(key).open.clone() {
            let is_draining = self.block(block).phase == Phase::Draining;
            if is_draining && !planted!(DrainTheGivenUp) {
                self.walk_out(block, FaultCode::Abandoned, out);
            }
        }
    }

    /// Gives a communicator up that others may go on with: a rank that waits inside of a block that
    /// this process will never start waits no longer.
    pub fn give_up(&mut self, key: CommKey, out: &mut impl Outlet) {
        self.resign(key, out);
        self.follow_up(out);
    }

    fn resign(&mut self, key: CommKey, out: &mut impl Outlet) {
        if !self.left {
            self.stop_voting(key, out);
            self.flood(key, self.comm(key).next_block, out);
        }
    }

    /// Gives a communicator up as this process leaves the job; as [`Self::give_up`].
    pub fn leave_comm(&mut self, key: CommKey, out: &mut impl Outlet) {
        if !self.comm(key).retired {
            let blocks = self.comm(key).next_block;
            self.comm_mut(key).retired = true;
            self.drive(key, out, |commit, out| commit.leave(blocks, out));
            self.dismiss_askers(key, out);
            if self.comm(key).data.is_some() {
                self.flood(key, blocks, out);
            }
            self.follow_up(out);
        }
    }

    /// A universe has another one in its place, whose communicator this is.
    pub fn leave_behind(&mut self, universe: UniverseId, next: CommKey) {
        let left: Vec<bool> = self.comms.iter().map(|state| state.universe == universe).collect();
        for (state, left_now) in self.comms.iter_mut().zip(&left) {
            let before = state.over.is_some_and(|(owner, _)| left[owner.index()]);
            if *left_now || before {
                state.parent = None;
                state.over = Some((next, BlockId(0)));
            }
        }
        self.hold_for(next);
    }

    /// True while communicators of a universe are known.
    pub fn knows(&self, universe: UniverseId) -> bool {
        self.universes.iter().any(|known| known.id == universe)
    }

    /// Forgets what is known of a universe that was never adopted.
    pub fn forget_universe(&mut self, universe: UniverseId) {
        self.early_deaths.retain(|(of, _)| *of != universe);
    }

    /// A block of what is over was decided.
    pub(super) fn end_of_the_past(&mut self, past: CommKey) {
        if let Some((owner, _)) = self.comm(past).over {
            self.hold_for(owner);
            self.sweep_due = true;
        }
    }

    /// Tells a communicator's machine the first of its blocks with which something ended that is
    /// in use here.
    fn hold_for(&mut self, owner: CommKey) {
        let ended = |state: &Communicator| {
            let (by, block) = state.over.filter(|_| !state.open.is_empty())?;
            (by == owner).then_some(block)
        };
        let first = self.comms.iter().filter_map(ended).min();
        self.comm_mut(owner).commit.hold(first.unwrap_or(BlockId(u64::MAX)));
    }

    /// A handle of the application is gone.
    pub fn release_comm(&mut self, key: CommKey) {
        let state = self.comm_mut(key);
        state.handles -= 1;
        self.sweep_due |= state.handles == 0 && state.over.is_some();
    }

    /// True when no rank waits for a block of it.
    fn is_silent(&self, state: &Communicator) -> bool {
        let passed = |(owner, block)| self.comm(owner).commit.floor() > block;
        state.open.is_empty() && state.over.is_some_and(passed)
    }

    /// Frees what is over and asked for by no rank, unless the driver needs it.
    pub fn sweep(&mut self, needed: impl Fn(CommKey) -> bool, out: &mut impl Outlet) {
        self.sweep_due = false;
        if self.left {
            return;
        }
        for at in 0..self.universes.len() {
            let id = self.universes[at].id;
            let mut all = self.comms.iter().filter(|state| state.universe == id);
            if !self.universes[at].silent && all.all(|state| self.is_silent(state)) {
                self.universes[at].silent = true;
                self.early.retain(|((universe, _), ..)| *universe != id);
                out.command(Command::DiscardUniverse(id));
            }
        }
        for key in self.comms() {
            let state = self.comm(key);
            let is_used = self.blocks.iter().any(|it| it.comm == key && it.phase != Phase::Free);
            if self.is_silent(state) && state.handles == 0 && !needed(key) && !is_used {
                self.forget_comm(key, out);
            }
        }
        let comms = &self.comms;
        self.universes.retain(|universe| comms.iter().any(|state| state.universe == universe.id));
    }

    fn forget_comm(&mut self, key: CommKey, out: &mut impl Outlet) {
        let nobody = (UniverseId(u32::MAX), (Vec::new(), Rank::new(0)));
        let mut vacant = Communicator::new(CommId(0), nobody.0, nobody.1, None, self.shape);
        vacant.retired = true;
        let state = core::mem::replace(self.comm_mut(key), vacant);
        self.vacant.push(key);
        self.forgotten.truncate(FORGOTTEN - 1);
        self.forgotten.push_front((state.universe, state.wire));
        // The past of a communicator has its data in common with the present.
        if let Some(data) = state.data.filter(|_| state.present.is_none()) {
            out.command(Command::DiscardData(data));
        }
    }

    /// How much is kept now.
    pub fn remembered(&self) -> Remembered {
        Remembered {
            communicators: self.comms.len() - self.vacant.len(),
            universes: self.universes.len(),
            listening: self.universes.iter().filter(|universe| !universe.silent).count(),
        }
    }
}
