//! Communicators derived from a communicator: split, duplicate, shrink.

use alloc::vec::Vec;

use super::MAX_ATTEMPTS;
use crate::{
    engine::{BlockKey, CommKey, Engine, platform::Derived},
    error::Error,
    protocol::{
        handshake::{Goal, Handshake, Order},
        roster::Child,
    },
};

/// A communicator in the making.
pub(crate) struct Creation {
    parent: CommKey,
    kind: Kind,
    handshake: Handshake,
    /// The commit whose verdict the next step waits for.
    awaits: Option<BlockKey>,
    made: Option<Derived>,
}

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `MPI_Comm_split`; a duplicate is one colour with the ranks as keys.
    Split { color: Option<u32>, key: u32 },
    /// The living ranks (`MPI_Comm_ishrink`, paper §3.3).
    Shrink,
}

impl Creation {
    /// Starts to make a communicator; all living ranks of the parent do so, in the same order.
    pub(crate) fn start(engine: &mut Engine, parent: CommKey, kind: Kind) -> Result<Self, Error> {
        if engine.job.creating {
            return Err(Error::CreationPending);
        }
        engine.job.creating = true;
        let goal = match kind {
            Kind::Split { .. } => Goal::Split,
            Kind::Shrink => Goal::Shrink,
        };
        let mut orders = Vec::new();
        let handshake = Handshake::start(goal, MAX_ATTEMPTS, &mut orders);
        let mut creation = Self { parent, kind, handshake, awaits: None, made: None };
        creation.obey(engine, orders);
        Ok(creation)
    }

    /// The block whose verdict the next step waits for.
    pub(crate) fn awaits(&self) -> BlockKey {
        self.awaits.expect("every step but the last ends with a vote")
    }

    /// Goes on if possible. The result, when there is one, is the same kind on every living rank;
    /// `None` in it for ranks without a colour.
    pub(crate) fn step(&mut self, engine: &mut Engine) -> Option<Result<Option<CommKey>, Error>> {
        loop {
            let committed = engine.end_step(self.awaits())?;
            let mut orders = Vec::new();
            self.handshake.handle_verdict(committed, 0, &mut orders);
            if let Some(result) = self.obey(engine, orders) {
                return Some(result);
            }
        }
    }

    /// Does what the handshake asks for, and what it asks for then.
    fn obey(
        &mut self,
        engine: &mut Engine,
        mut orders: Vec<Order>,
    ) -> Option<Result<Option<CommKey>, Error>> {
        let mut at = 0;
        while let Some(order) = orders.get(at).copied() {
            at += 1;
            match order {
                Order::Vote(yes) => self.awaits = Some(engine.start_step(self.parent, yes)),
                Order::Call | Order::CallFor(_) => {
                    self.made = self.make(engine);
                    self.handshake.handle_return(self.made.is_some(), &mut orders);
                }
                Order::Discard => discard(engine, self.made.take()),
                Order::Adopt | Order::Complete => {
                    let made = self.made.take().expect("complete where the call worked");
                    return Some(Ok(self.register(engine, made)));
                }
                Order::Fail => {
                    return Some(Err(match self.kind {
                        Kind::Split { .. } => Error::CreationFailed,
                        Kind::Shrink => Error::RecoveryExhausted { attempts: MAX_ATTEMPTS },
                    }));
                }
            }
        }
        None
    }

    fn make(&self, engine: &mut Engine) -> Option<Derived> {
        let comm = engine.comm(self.parent);
        let (data, dead) = (comm.data?, comm.commit.agreed_dead().clone());
        match self.kind {
            Kind::Split { color, key } => {
                let healthy = dead.is_empty();
                healthy.then(|| engine.platform.split(data, color, key).ok()).flatten()
            }
            Kind::Shrink => {
                let data = engine.platform.shrink(data, &dead).ok()?;
                Some(Derived { data: Some(data), table: Vec::new() })
            }
        }
    }

    fn register(&self, engine: &mut Engine, made: Derived) -> Option<CommKey> {
        match self.kind {
            Kind::Split { .. } => engine.register_child(self.parent, made),
            Kind::Shrink => {
                let comm = engine.comm_mut(self.parent);
                let id = comm.id.derived(comm.derived);
                comm.derived += 1;
                let dead = comm.commit.agreed_dead();
                let living = |rank: &u32| !dead.contains((*rank).into());
                let ranks: Vec<u32> = (0..comm.size()).filter(living).collect();
                let me = ranks.iter().position(|rank| *rank == comm.me.number())?;
                let members = ranks.iter().map(|rank| comm.members[*rank as usize]).collect();
                let universe = comm.universe;
                Some(engine.register(id, universe, members, me.into(), made.data))
            }
        }
    }
}

fn discard(engine: &mut Engine, made: Option<Derived>) {
    if let Some(data) = made.and_then(|made| made.data) {
        engine.platform.discard_data(data);
    }
}

impl Engine {
    /// Registers what a split has made, and remembers how, so that a rebuild can repeat it.
    pub(super) fn register_child(&mut self, parent: CommKey, made: Derived) -> Option<CommKey> {
        let comm = self.comm_mut(parent);
        let id = comm.id.derived(comm.derived);
        comm.derived += 1;
        let lineage = comm.lineage;
        let key = made.data.map(|data| {
            let comm = self.comm(parent);
            let mine = made.table[comm.me.index()].0;
            let mut ranks: Vec<usize> =
                (0..made.table.len()).filter(|rank| made.table[*rank].0 == mine).collect();
            ranks.sort_by_key(|rank| made.table[*rank].1);
            let me = ranks.iter().position(|rank| *rank == comm.me.index());
            let members = ranks.iter().map(|rank| comm.members[*rank]).collect();
            let universe = comm.universe;
            let me = me.expect("we are among the ranks of our own colour");
            let key = self.register(id, universe, members, me.into(), Some(data));
            self.comm_mut(key).parent = Some(parent);
            key
        });
        if let Some(parent) = lineage {
            self.job.children.push(key);
            self.job.roster.children.push(Child { parent, table: made.table });
            // Only a communicator of all ranks has children that every survivor knows of.
            let everybody = self.job.roster.members.len();
            if let Some(key) = key
                && self.comm(key).members.len() == everybody
            {
                self.comm_mut(key).lineage = Some(self.job.children.len() as u32);
            }
        }
        key
    }
}
