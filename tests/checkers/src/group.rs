//! A group of commit machines with FIFO links between them, and the record of what each rank did.
//!
//! A turn is an input of one machine; its effects are carried out after it, all of them or as many
//! as happen before a death. Which turn comes next, and so which frame is delivered when, is the
//! policy of the caller: any (a model), by virtual time (a swarm), by hand (a story).

use std::sync::Arc;

use fampi::{
    fault::{Cause, Fault, FaultCode},
    ids::{BlockId, CommId},
    protocol::{
        Effect, Event,
        agreement::{Decision, Vote},
        commit::Commit,
        exchange::Shape,
        fused::Values,
        message::Message,
        placement::Nodes,
    },
    rank::{Rank, RankSet},
};

use crate::record::{Record, known_to};

const COMM: CommId = CommId(1);

/// What a rank does, or is told.
#[derive(Clone, Debug)]
pub enum Turn {
    /// It votes on a block, with values if the block is fused.
    Vote(BlockId, Vote, Option<Values>),
    /// It gives the communicator up.
    Retire,
    /// It leaves the job, of which this is the first block that it does not vote on.
    Leave(BlockId),
    /// It takes the next message of the link from this rank.
    Take(Rank),
    /// Its detector tells it that this rank is dead.
    Notice(Rank),
    /// It is told how this rank has died, or that this is not to be known.
    Explain(Rank, Cause),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Group {
    machines: Vec<Arc<Commit>>,
    pub(crate) records: Vec<Record>,
    links: Vec<Vec<Arc<Message>>>,
    shape: Shape,
    nodes: Nodes,
    /// Ranks wait until they are told how others have died.
    explains: bool,
}

/// How a rank dies, if it does.
pub fn cause_of(dead: Rank) -> Cause {
    [Cause::Killed(9), Cause::Exited(3), Cause::NodeLost][dead.index() % 3]
}

/// What a rank says of a block.
pub fn fault(rank: Rank, code: FaultCode) -> Fault {
    Fault { comm: COMM, rank, code }
}

impl Group {
    /// So many ranks that have done nothing, and are going to have so many blocks.
    pub fn new(ranks: u32, shape: Shape, blocks: usize) -> Self {
        let size = ranks as usize;
        let (records, links) = (vec![Record::new(blocks); size], vec![Vec::new(); size * size]);
        let machine = |rank| Arc::new(Commit::new(COMM, Rank::new(rank), ranks).with_shape(shape));
        let machines = (0..ranks).map(machine).collect();
        Self { machines, records, links, shape, nodes: Nodes::default(), explains: false }
    }

    /// With ranks on these nodes, one for each, before they have done anything.
    #[must_use]
    pub fn on_nodes(mut self, nodes: &[u32]) -> Self {
        self.nodes = Nodes::new(nodes);
        for rank in self.ranks() {
            self.machines[rank.index()] = Arc::new(self.fresh(rank));
        }
        self
    }

    /// With ranks that wait until they are told how others have died, before they have done
    /// anything.
    #[must_use]
    pub fn with_causes(mut self) -> Self {
        self.explains = true;
        for rank in self.ranks() {
            self.machines[rank.index()] = Arc::new(self.fresh(rank));
        }
        self
    }

    /// A rank that has done nothing.
    fn fresh(&self, rank: Rank) -> Commit {
        let machine = Commit::new(COMM, rank, self.machines.len() as u32);
        let machine = machine.with_shape(self.shape).on_nodes(&self.nodes);
        if self.explains { machine.with_causes() } else { machine }
    }

    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.machines.len() as u32).map(Rank::new)
    }

    pub fn living(&self) -> impl Iterator<Item = Rank> {
        self.ranks().filter(|rank| self.is_alive(*rank))
    }

    /// What a rank has decided on a block, if it has.
    pub fn decision(&self, rank: Rank, block: BlockId) -> Option<&Decision> {
        self.records[rank.index()].blocks.get(block.0 as usize)?.decision.as_ref()
    }

    pub fn is_alive(&self, rank: Rank) -> bool {
        self.records[rank.index()].alive
    }

    pub fn machine(&self, rank: Rank) -> &Commit {
        &self.machines[rank.index()]
    }

    fn link(&self, from: Rank, to: Rank) -> usize {
        from.index() * self.machines.len() + to.index()
    }

    /// What is on its way from one rank to another, the oldest first.
    pub fn on_the_way(&self, from: Rank, to: Rank) -> &[Arc<Message>] {
        &self.links[self.link(from, to)]
    }

    /// The effects of a turn, which nobody has seen yet.
    pub fn act(&mut self, rank: Rank, turn: Turn, out: &mut Vec<Effect>) {
        let size = self.machines.len();
        let machine = Arc::make_mut(&mut self.machines[rank.index()]);
        let record = &mut self.records[rank.index()];
        match turn {
            Turn::Vote(block, vote, values) => {
                let entry = &mut record.blocks[block.0 as usize];
                entry.known = known_to(machine, entry.is_step);
                if entry.is_step {
                    machine.begin_step(block);
                }
                if let Some(acknowledges) = entry.acknowledges {
                    let dead = machine.dead().clone();
                    entry.known = if acknowledges { dead.clone() } else { RankSet::new() };
                    entry.unacknowledged = dead.difference(&entry.known);
                    machine.begin_agreement(block, entry.known.clone());
                }
                entry.vote = Some(vote.clone());
                match values {
                    Some(values) => {
                        let agrees = entry.acknowledges.is_some() && vote.purpose().is_some();
                        entry.values = (vote.is_yes() || agrees).then_some(values);
                        machine.handle_fused_vote(block, vote, &values, out);
                    }
                    None => machine.handle_vote(block, vote, out),
                }
            }
            Turn::Retire => {
                record.retired = true;
                machine.retire(out);
            }
            Turn::Leave(block) => {
                (record.retired, record.leaving) = (true, true);
                machine.leave(block, out);
            }
            Turn::Take(from) => {
                let message = self.links[from.index() * size + rank.index()].remove(0);
                machine.handle_message(from, Arc::unwrap_or_clone(message), out);
            }
            Turn::Notice(dead) => machine.handle_failure(dead, out),
            Turn::Explain(dead, cause) => machine.handle_cause(dead, cause, out),
        }
    }

    /// Lets others see an effect. What is sent to the dead is lost.
    pub fn carry_out(&mut self, rank: Rank, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send(to, message) => {
                if self.is_alive(to) {
                    let link = self.link(rank, to);
                    self.links[link].push(Arc::new(message));
                }
            }
            Effect::Emit(Event::Decided(block)) => {
                let machine = Arc::make_mut(&mut self.machines[rank.index()]);
                let entry = &mut self.records[rank.index()].blocks[block.0 as usize];
                if entry.decision.is_some() {
                    return Err(format!("rank {rank} decides block {} again", block.0));
                }
                entry.decision = machine.decision(block);
                if entry.is_step {
                    entry.known_then = machine.end_step(block);
                }
                if entry.decision.is_none() {
                    return Err(format!("rank {rank} forgot block {} before it told", block.0));
                }
            }
            Effect::Emit(_) => {}
        }
        Ok(())
    }

    /// Notes for which blocks a rank still answers, at the end of its turn.
    pub fn end_turn(&mut self, rank: Rank) {
        self.records[rank.index()].base = self.machines[rank.index()].base();
    }

    /// A rank dies, and with it all that is on its way to it. What its machine knew makes no
    /// difference any more.
    pub fn kill(&mut self, rank: Rank) {
        self.records[rank.index()].alive = false;
        let size = self.machines.len();
        self.machines[rank.index()] = Arc::new(self.fresh(rank));
        self.links.iter_mut().skip(rank.index()).step_by(size).for_each(Vec::clear);
    }

    /// Drops what is on its way from ranks that this one knows to be dead.
    pub fn drop_ghosts(&mut self, rank: Rank) {
        for dead in self.machines[rank.index()].dead().iter() {
            self.links[dead.index() * self.machines.len() + rank.index()].clear();
        }
    }
}
