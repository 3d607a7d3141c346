//! Communicators that start afresh, and those that are over.
//!
//! When a block is aborted, the communicators that were derived from its own begin a new age: ranks
//! may have left that block before or after they started inner blocks on them, so they do not agree
//! any more on which block comes next. Open blocks of the old age get *no* votes from all who have
//! not voted; new ones are counted from 0 again, under another name on the wire, in another data
//! context. A rebuild ends all communicators of a universe in the same way.
//!
//! An age has the name of the abort that began it, whatever this rank had decided before. An abort
//! that a later one has overtaken here, or one of a communicator that began a new age itself, began
//! an age elsewhere: this rank votes *no* in that age, too.
//!
//! What is over stays until nobody can ask about it. An age ends at all ranks with the decision of
//! one block; as long as this rank waits for blocks of it, it says in its votes that it has not
//! decided that block ([`Commit::hold`]). So the ranks' common floor above that block says that
//! nobody waits for anything in that age. For a universe it is the first block of the next one.
//!
//! [`Commit::hold`]: crate::protocol::commit::Commit::hold

use alloc::vec::Vec;

use super::{CommKey, CommState, Engine, Phase, UniverseId};
use crate::{
    ids::{BlockId, CommId},
    protocol::{
        agreement::context_after,
        planted::{Bug, planted},
    },
    rank::Rank,
};

/// How many names of what is over are known for late frames.
const FORGOTTEN: usize = 256;

/// How much a process remembers of communicators. In a program that goes on and on, through any
/// number of aborted blocks and rebuilds, none of it grows for ever.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Remembered {
    /// Communicators, and past ages of them that others may ask about.
    pub communicators: usize,
    /// Universes: those of the newest world, of worlds before it that the application still has
    /// handles of, and of such that others may ask about.
    pub universes: usize,
    /// Universes that are looked at for messages and deaths.
    pub listening: usize,
}

impl Engine {
    /// Puts a state into the table.
    pub(super) fn add_comm(&mut self, state: CommState) -> CommKey {
        if let Some(key) = self.vacant.pop() {
            self.comms[key.0] = state;
            return key;
        }
        self.comms.push(state);
        CommKey(self.comms.len() - 1)
    }

    /// A block of `ancestor` was aborted: communicators derived from it start afresh.
    pub(super) fn renew_children(&mut self, ancestor: CommKey, block: BlockId) {
        let state = self.comm(ancestor);
        let (present, name) = (state.present.unwrap_or(ancestor), state.wire);
        let is_past = state.present.is_some();
        let dead = state.commit.agreed_dead().iter().map(|rank| state.members[rank.index()]);
        let dead: Vec<Rank> = dead.collect();
        for key in (0..self.comms.len()).map(CommKey) {
            let comm = self.comm(key);
            if comm.over.is_some() || !self.is_below(key, present) {
                continue;
            }
            let overtaken = |(by, later): (CommKey, BlockId)| by == present && later > block;
            if is_past {
                let over = self.comm(ancestor).over;
                self.add_past(key, name.age(comm.id, block), over);
            } else if comm.epoch.is_some_and(overtaken) {
                if planted(Bug::ForgetTheOvertaken) {
                    continue;
                }
                self.add_past(key, name.age(comm.id, block), comm.epoch);
            } else {
                self.renew(key, (present, block), name, &dead);
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

    /// Begins a new age of a communicator. `dead` are the processes whose deaths its ancestor has
    /// reported.
    fn renew(&mut self, key: CommKey, by: (CommKey, BlockId), name: CommId, dead: &[Rank]) {
        let old = &self.comms[key.0];
        let (universe, me, data, retired) = (old.universe, old.me, old.data, old.retired);
        let shape = self.platform.shape();
        let mut fresh = CommState::new(old.id, universe, old.members.clone(), me, data, shape);
        fresh.wire = if planted(Bug::KeepTheName) { old.wire } else { name.age(old.id, by.1) };
        (fresh.parent, fresh.lineage) = (old.parent, old.lineage.clone());
        let bereaved = old.members.iter().any(|member| dead.contains(member));
        (fresh.derived, fresh.context) = (old.derived, context_after(old.context, bereaved));
        (fresh.settled_context, fresh.handles) = (old.settled_context, old.handles);
        fresh.epoch = Some(by);
        let context = fresh.context;
        let mut old = core::mem::replace(&mut self.comms[key.0], fresh);
        old.retired = true;
        (old.parent, old.lineage, old.handles) = (None, None, 0);
        (old.present, old.over) = (Some(key), Some(by));
        let past = self.add_comm(old);
        self.move_blocks(key, past);
        // What ended with one of its blocks has ended with this one, too, for everybody.
        for state in &mut self.comms {
            if state.over.is_some_and(|(owner, _)| owner == key) {
                state.over = Some(by);
            }
        }
        self.hold_for(by.0);
        self.drive(past, |commit, out| commit.retire(out));
        // Whoever tells of a death may have passed its place in the table.
        self.meet(past);
        if let Some(data) = data {
            let members = &self.comms[key.0].members;
            let known = self.universes.iter().find(|known| known.id == universe);
            let died = |process: &Rank| known.is_some_and(|known| known.dead.contains(*process));
            let refill = !retired && !bereaved && !members.iter().any(died);
            self.platform.retire_contexts(data, context, refill);
        }
        self.meet(key);
        if retired {
            // Others may go on with it, and want this rank's *no* in every age.
            self.give_up(key);
        }
    }

    /// An age of a communicator that this rank was never in.
    fn add_past(&mut self, key: CommKey, wire: CommId, over: Option<(CommKey, BlockId)>) {
        let comm = self.comm(key);
        let (id, universe, members, me) = (comm.id, comm.universe, comm.members.clone(), comm.me);
        let shape = self.platform.shape();
        let mut state = CommState::new(id, universe, members, me, None, shape);
        (state.wire, state.retired) = (wire, true);
        (state.present, state.over) = (Some(key), over);
        let past = self.add_comm(state);
        self.drive(past, |commit, out| commit.retire(out));
        self.meet(past);
    }

    /// A universe has another one in its place, whose communicator this is.
    pub(crate) fn leave_behind(&mut self, universe: UniverseId, next: CommKey) {
        let left: Vec<bool> = self.comms.iter().map(|state| state.universe == universe).collect();
        for (state, left_now) in self.comms.iter_mut().zip(&left) {
            let before = state.over.is_some_and(|(owner, _)| left[owner.0]);
            if *left_now || before {
                state.parent = None;
                state.over = Some((next, BlockId(0)));
            }
        }
        self.hold_for(next);
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
        let ended = |state: &CommState| {
            let (by, block) = state.over.filter(|_| !state.open.is_empty())?;
            (by == owner).then_some(block)
        };
        let first = self.comms.iter().filter_map(ended).min();
        self.comms[owner.0].commit.hold(first.unwrap_or(BlockId(u64::MAX)));
    }

    /// A handle of the application is gone.
    pub(crate) fn release_comm(&mut self, key: CommKey) {
        let state = self.comm_mut(key);
        state.handles -= 1;
        if state.handles == 0 && state.over.is_some() {
            self.sweep_comms();
        }
    }

    /// True when nobody, here or elsewhere, waits for a block of it.
    fn is_silent(&self, state: &CommState) -> bool {
        let passed = |(owner, block)| self.comm(owner).commit.floor() > block;
        state.open.is_empty() && state.over.is_some_and(passed)
    }

    /// Frees what is over and asked for by nobody. Not to be called in the turn of a machine.
    pub(crate) fn sweep_comms(&mut self) {
        self.sweep_due = false;
        if self.left {
            return;
        }
        for at in 0..self.universes.len() {
            let id = self.universes[at].id;
            let mut all = self.comms.iter().filter(|state| state.universe == id);
            if !self.universes[at].silent && all.all(|state| self.is_silent(state)) {
                self.universes[at].silent = true;
                self.early.retain(|(universe, ..)| *universe != id);
                self.platform.discard_universe(id);
            }
        }
        for key in (0..self.comms.len()).map(CommKey) {
            let state = self.comm(key);
            let used = |block: &super::OpenBlock| block.comm == key && block.phase != Phase::Free;
            let kept = state.handles > 0 || self.copies.need(key);
            if self.is_silent(state) && !kept && !self.blocks.iter().any(used) {
                self.forget_comm(key);
            }
        }
        let comms = &self.comms;
        self.universes.retain(|universe| comms.iter().any(|state| state.universe == universe.id));
    }

    fn forget_comm(&mut self, key: CommKey) {
        let (nobody, shape) = (UniverseId(u32::MAX), self.platform.shape());
        let mut vacant = CommState::new(CommId(0), nobody, Vec::new(), Rank::new(0), None, shape);
        vacant.retired = true;
        let state = core::mem::replace(&mut self.comms[key.0], vacant);
        self.vacant.push(key);
        self.forgotten.truncate(FORGOTTEN - 1);
        self.forgotten.push_front((state.universe, state.wire));
        // The past of a communicator has its data in common with the present.
        if let Some(data) = state.data.filter(|_| state.present.is_none()) {
            self.platform.discard_data(data);
        }
    }

    /// What is kept now.
    pub(crate) fn remembered(&self) -> Remembered {
        Remembered {
            communicators: self.comms.len() - self.vacant.len(),
            universes: self.universes.len(),
            listening: self.universes.iter().filter(|universe| !universe.silent).count(),
        }
    }
}

impl CommId {
    /// The name of the age of `child` that an abort of this name's communicator has begun.
    fn age(self, child: Self, block: BlockId) -> Self {
        child.after_abort(self, block)
    }
}
