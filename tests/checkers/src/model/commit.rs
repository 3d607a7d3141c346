//! A group of ranks as a transition system: every order of every event.
//!
//! A state holds the real machines, the FIFO links between them and the record of each rank. An
//! action is one turn of one rank, or its death. The news of a death reaches each survivor at any
//! later time, before or after what the dead rank had sent; from that moment on its machine takes
//! nothing more from the dead rank, so what is left on that link is dropped with the news.
//!
//! A crash cuts a turn's effects anywhere. Without [`Setup::cuts`] ranks die only between turns.
//! That loses nothing: a message that a cut turn did not send is, to its receiver, a message
//! which the news overtakes. The small setups check both and so that argument too.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fampi::{
    fault::{Cause, FaultCode},
    ids::BlockId,
    protocol::{Effect, agreement::Vote, exchange::Shape},
    rank::Rank,
};
use stateright::{Model, Property};

use crate::{
    bugs::{Bug, plant},
    group::{self, Group, cause_of, fault},
    properties::{ALWAYS, AT_REST, Verdict},
    record::values_of,
};

/// What a group of ranks is going to do, and what may happen to it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)]
pub struct Setup {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// At most so many ranks die.
    pub crashes: usize,
    /// The rank that votes *no* on the first block.
    pub naysayer: Option<u32>,
    /// The rank that gives the communicator up instead of voting.
    pub leaver: Option<u32>,
    /// The ranks that say farewell instead of voting on the blocks, a bit for each.
    pub farewells: u32,
    /// Each rank votes on a block only after it decided the one before; otherwise all blocks are
    /// outstanding at once and votes come in any order.
    pub in_sequence: bool,
    /// All votes bring values for a fused reduction.
    pub fused: bool,
    /// The rank that brings values for another one.
    pub misfit: Option<u32>,
    /// The block that is a step of a recovery.
    pub step: Option<u64>,
    /// The block that is an agreement, and a bit for each rank that acknowledges what it knows.
    pub agreement: Option<(u64, u32)>,
    /// Ranks wait to be told how others have died: those with an even number hear the truth at any
    /// later time, the others that it is not known.
    pub causes: bool,
    /// A death can fall between two messages of one turn.
    pub cuts: bool,
    /// How wide the groups of the exchange are.
    pub shape: Shape,
    /// The nodes of the ranks, one for each; nothing when they are unknown.
    pub nodes: &'static [u32],
    /// A planted bug.
    pub bug: Option<Bug>,
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    group: Group,
    /// An invariant inside a machine is broken.
    panicked: bool,
}

/// One turn of one rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Turn {
    /// It votes on a block.
    Vote(BlockId),
    /// It gives the communicator up.
    Retire,
    /// It takes the next message of the link from this rank.
    Take(Rank),
    /// Its detector tells it that this rank is dead.
    Notice(Rank),
    /// It is told how this rank has died.
    Explain(Rank),
}

/// One step of the system.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A whole turn.
    Turn(Rank, Turn),
    /// A turn of which only the first so many messages leave before the rank dies.
    Cut(Rank, Turn, usize),
    /// A death between turns.
    Crash(Rank),
}

impl Setup {
    /// This many ranks, one block, all yes, nobody dies, groups of two.
    pub fn ranks(ranks: u32) -> Self {
        Self {
            ranks,
            blocks: 1,
            crashes: 0,
            naysayer: None,
            leaver: None,
            farewells: 0,
            in_sequence: false,
            fused: false,
            misfit: None,
            step: None,
            agreement: None,
            causes: false,
            cuts: false,
            shape: Shape::DOUBLING,
            nodes: &[],
            bug: None,
        }
    }

    fn vote(&self, state: &State, rank: Rank, block: BlockId) -> Vote {
        let context =
            if self.in_sequence { state.group.records[rank.index()].context() } else { 0 };
        let mut vote = Vote::yes(context);
        if block == BlockId(0) && self.naysayer == Some(rank.number()) {
            vote.faults.push(fault(rank, FaultCode::Application(7)));
        }
        if self.farewells >> rank.number() & 1 == 1 {
            vote.faults = vec![fault(rank, FaultCode::Finalized(0))];
        }
        if self.is_agreement(block) && vote.is_yes() {
            vote.faults = vec![fault(rank, FaultCode::NotAgreed)];
        }
        vote
    }

    fn is_agreement(&self, block: BlockId) -> bool {
        self.agreement.is_some_and(|(agreement, _)| agreement == block.0)
    }

    /// The turns that a living rank can take now.
    fn turns(&self, state: &State, rank: Rank) -> Vec<Turn> {
        let (group, record) = (&state.group, &state.group.records[rank.index()]);
        let mut turns = Vec::new();
        if self.leaver == Some(rank.number()) {
            turns.extend((!record.retired).then_some(Turn::Retire));
        } else {
            let open = record.blocks.iter().enumerate().filter(|(block, entry)| {
                entry.vote.is_none() && (!self.in_sequence || record.undecided() >= *block)
            });
            turns.extend(open.map(|(block, _)| Turn::Vote(BlockId(block as u64))));
        }
        for other in group.ranks().filter(|other| *other != rank) {
            if !group.on_the_way(other, rank).is_empty() {
                turns.push(Turn::Take(other));
            }
            if !group.is_alive(other) && !group.machine(rank).dead().contains(other) {
                turns.push(Turn::Notice(other));
            }
            turns.extend(group.machine(rank).awaits_cause(other).then_some(Turn::Explain(other)));
        }
        turns
    }

    /// Takes a turn of which at most `sends` messages leave; the number that would leave.
    fn take(&self, state: &mut State, rank: Rank, turn: Turn, sends: usize) -> usize {
        let mut out: Vec<Effect> = Vec::new();
        let input = match turn {
            Turn::Vote(block) => {
                let vote = self.vote(state, rank, block);
                let group = &mut state.group;
                let entry = &mut group.records[rank.index()].blocks[block.0 as usize];
                entry.is_step = self.step == Some(block.0);
                if let Some((_, acks)) = self.agreement.filter(|_| self.is_agreement(block)) {
                    entry.acknowledges = Some(acks >> rank.number() & 1 == 1);
                }
                let misfit = self.misfit == Some(rank.number());
                let fused = self.fused || entry.acknowledges.is_some();
                group::Turn::Vote(block, vote, fused.then(|| values_of(rank, misfit)))
            }
            Turn::Retire => group::Turn::Retire,
            Turn::Take(from) => group::Turn::Take(from),
            Turn::Notice(dead) => group::Turn::Notice(dead),
            Turn::Explain(dead) => {
                let knows = rank.number().is_multiple_of(2);
                group::Turn::Explain(dead, if knows { cause_of(dead) } else { Cause::Unknown })
            }
        };
        let group = &mut state.group;
        group.act(rank, input, &mut out);
        let mut sent = 0;
        for effect in out {
            let is_sent = matches!(effect, Effect::Send(..));
            sent += usize::from(is_sent);
            if !is_sent || sent <= sends {
                group.carry_out(rank, effect).expect("each block is announced once");
            }
        }
        group.end_turn(rank);
        if !matches!(self.bug, Some(Bug::HearTheDead | Bug::TakeAnyBallot)) {
            group.drop_ghosts(rank);
        }
        sent
    }

    /// The first thing that is wrong with a state.
    fn wrong(&self, state: &State, name: &str) -> Verdict {
        let (_, holds) = ALWAYS
            .into_iter()
            .chain([AT_REST])
            .find(|(property, _)| *property == name)
            .expect("a property of the list");
        (0..self.blocks as usize).try_for_each(|block| holds(&state.group.records, block))
    }

    fn at_rest(&self, state: &State) -> bool {
        state.group.living().all(|rank| self.turns(state, rank).is_empty())
    }
}

/// Stateright names properties by plain functions, so each gets one.
macro_rules! always {
    ($($name:literal),*) => {
        vec![$(Property::always($name, |setup: &Setup, state: &State| {
            setup.wrong(state, $name).is_ok()
        })),*]
    };
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let group = Group::new(self.ranks, self.shape, self.blocks as usize).on_nodes(self.nodes);
        let group = if self.causes { group.with_causes() } else { group };
        vec![State { group, panicked: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.panicked {
            return;
        }
        let dead = self.ranks as usize - state.group.living().count();
        let may_die = dead < self.crashes && dead + 1 < self.ranks as usize;
        for rank in state.group.living() {
            let turns = self.turns(state, rank);
            if may_die && self.cuts {
                plant(self.bug);
                for turn in &turns {
                    let sends = catch_unwind(AssertUnwindSafe(|| {
                        self.take(&mut state.clone(), rank, *turn, 0)
                    }));
                    let cuts = 1..sends.unwrap_or(0);
                    actions.extend(cuts.map(|sends| Action::Cut(rank, *turn, sends)));
                }
            }
            actions.extend(turns.into_iter().map(|turn| Action::Turn(rank, turn)));
            if may_die {
                actions.push(Action::Crash(rank));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        plant(self.bug);
        let mut state = last.clone();
        let step = catch_unwind(AssertUnwindSafe(|| match action {
            Action::Turn(rank, turn) => {
                self.take(&mut state, rank, turn, usize::MAX);
            }
            Action::Cut(rank, turn, sends) => {
                self.take(&mut state, rank, turn, sends);
                state.group.kill(rank);
            }
            Action::Crash(rank) => state.group.kill(rank),
        }));
        state.panicked = step.is_err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties =
            always!["agreement", "commitment", "fusion", "participation", "report", "retention"];
        properties.push(Property::always("termination", |setup: &Setup, state: &State| {
            !setup.at_rest(state) || setup.wrong(state, AT_REST.0).is_ok()
        }));
        properties.push(Property::always("no panic", |_, state: &State| !state.panicked));
        properties
    }
}
