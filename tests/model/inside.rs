//! What happens inside a block, as a transition system: requests, interruption, an inner block.
//!
//! Each rank has a receive from its left neighbour, sends to its right, and votes when its receive
//! is over. The first ranks have an inner block on a communicator of their own, and vote on the
//! outer one when they know its verdict, or when the outer one is interrupted. A rank whose
//! receive fails because a rank died, or that leaves the block early, floods the interruption.
//! The machines are the engine's; what this file adds is what the engine does between them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fampi::{
    fault::{Fault, FaultCode},
    ids::{BlockId, CommId},
    protocol::{
        Effect, Event,
        agreement::{Decision, Vote},
        commit::Commit,
        interrupt::Interrupts,
        message::Message,
        planted::{self, Bug},
    },
    rank::Rank,
};
use stateright::{Model, Property};

use crate::{
    properties::{ALWAYS, AT_REST, Verdict},
    record::{Record, known_to},
};

const OUTER: CommId = CommId(1);
const INNER: CommId = CommId(2);
const BLOCK: BlockId = BlockId(0);

/// What a group of ranks does in one block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inside {
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// At most so many ranks die.
    pub(crate) crashes: usize,
    /// Everybody receives from the left and sends to the right.
    pub(crate) ring: bool,
    /// So many of the first ranks have an inner block.
    pub(crate) inner: u32,
    /// The rank that votes *no* on the inner block.
    pub(crate) naysayer: Option<u32>,
    /// The rank that leaves the block at once.
    pub(crate) leaver: Option<u32>,
    /// A planted bug.
    pub(crate) bug: Option<Bug>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Request {
    Pending,
    Done,
    Failed,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Member {
    outer: Commit,
    interrupts: Interrupts,
    inner: Option<Commit>,
    request: Request,
    sent: bool,
    voted_inside: bool,
    inner_decision: Option<Decision>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Wire {
    Data,
    Outer(Message),
    Inner(Message),
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct State {
    members: Vec<Arc<Member>>,
    records: Vec<Record>,
    links: Vec<Vec<Arc<Wire>>>,
    panicked: bool,
}

/// One turn of one rank, or its death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Turn {
    Send,
    VoteInside,
    Vote,
    Leave,
    Take(Rank),
    Notice(Rank),
    Die,
}

impl Inside {
    /// This many ranks in one block that does nothing.
    pub(crate) fn ranks(ranks: u32) -> Self {
        Self { ranks, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.ranks).map(Rank::new)
    }

    fn link(&self, from: Rank, to: Rank) -> usize {
        from.index() * self.ranks as usize + to.index()
    }

    fn right(&self, rank: Rank) -> Rank {
        Rank::new((rank.number() + 1) % self.ranks)
    }

    fn turns(&self, state: &State, rank: Rank) -> Vec<Turn> {
        let (member, record) = (&state.members[rank.index()], &state.records[rank.index()]);
        let mut turns = Vec::new();
        let leaves = self.leaver == Some(rank.number());
        let voted = record.blocks[0].vote.is_some();
        if leaves && !voted {
            turns.push(Turn::Leave);
        }
        if !leaves && !voted {
            let interrupted = member.interrupts.contains(BLOCK);
            if self.ring && !member.sent && member.request != Request::Failed {
                turns.push(Turn::Send);
            }
            if member.inner.is_some() && !member.voted_inside {
                turns.push(Turn::VoteInside);
            }
            let inside = match member.inner {
                Some(_) => member.voted_inside && (member.inner_decision.is_some() || interrupted),
                None => true,
            };
            let over = match member.request {
                Request::Pending => false,
                Request::Done => member.sent || !self.ring,
                Request::Failed => true,
            };
            turns.extend((inside && over).then_some(Turn::Vote));
        }
        for other in self.all().filter(|other| *other != rank) {
            if !state.links[self.link(other, rank)].is_empty() {
                turns.push(Turn::Take(other));
            }
            if !state.records[other.index()].alive && !member.outer.dead().contains(other) {
                turns.push(Turn::Notice(other));
            }
        }
        turns
    }

    fn take(&self, state: &mut State, rank: Rank, turn: Turn) {
        let mut turns =
            Play { setup: self, rank, member: Member::clone(&state.members[rank.index()]), state };
        turns.take(turn);
        let member = turns.member;
        state.members[rank.index()] = Arc::new(member);
    }

    fn kill(&self, state: &mut State, rank: Rank) {
        state.records[rank.index()].alive = false;
        state.members[rank.index()] = Arc::new(self.member(rank));
        for other in self.all() {
            state.links[self.link(other, rank)].clear();
        }
    }

    fn member(&self, rank: Rank) -> Member {
        let inside = rank.number() < self.inner;
        Member {
            outer: Commit::new(OUTER, rank, self.ranks),
            interrupts: Interrupts::new(rank, self.ranks),
            inner: inside.then(|| Commit::new(INNER, rank, self.inner)),
            request: if self.ring { Request::Pending } else { Request::Done },
            sent: false,
            voted_inside: false,
            inner_decision: None,
        }
    }

    fn at_rest(&self, state: &State) -> bool {
        let mut living = self.all().filter(|rank| state.records[rank.index()].alive);
        living.all(|rank| self.turns(state, rank).is_empty())
    }
}

/// The first thing that is wrong with a state.
fn wrong(state: &State, name: &str) -> Verdict {
    let mut all = ALWAYS.into_iter().chain([AT_REST]);
    let (_, holds) = all.find(|(property, _)| *property == name).expect("of the list");
    holds(&state.records, 0)
}

/// One turn under way.
struct Play<'a> {
    setup: &'a Inside,
    rank: Rank,
    member: Member,
    state: &'a mut State,
}

impl Play<'_> {
    fn take(&mut self, turn: Turn) {
        let mut out: Vec<Effect> = Vec::new();
        match turn {
            Turn::Send => {
                self.member.sent = true;
                self.send(self.setup.right(self.rank), Wire::Data);
            }
            Turn::VoteInside => {
                self.member.voted_inside = true;
                let no = self.setup.naysayer == Some(self.rank.number())
                    || self.member.interrupts.contains(BLOCK);
                let vote = self.vote(INNER, no.then_some(FaultCode::Application(7)));
                self.inside(|inner, out| inner.handle_vote(BLOCK, vote, out));
            }
            Turn::Vote => {
                let faulty = self.member.inner_decision.as_ref().is_some_and(|it| !it.committed);
                let code = match self.member.request {
                    _ if faulty => Some(FaultCode::InnerBlock),
                    Request::Failed => Some(FaultCode::Interrupted),
                    _ if self.member.interrupts.contains(BLOCK) => Some(FaultCode::Interrupted),
                    _ => None,
                };
                self.vote_outside(code);
            }
            Turn::Leave => {
                self.member.request = Request::Failed;
                self.interrupt();
                self.vote_outside(Some(FaultCode::LeftBlock));
            }
            Turn::Take(from) => self.receive(from),
            Turn::Notice(dead) => {
                self.member.outer.handle_failure(dead, &mut out);
                self.outside(out);
            }
            Turn::Die => {}
        }
    }

    fn vote(&self, comm: CommId, code: Option<FaultCode>) -> Vote {
        let mut vote = Vote::yes(0);
        vote.faults.extend(code.map(|code| Fault { comm, rank: self.rank, code }));
        vote
    }

    fn vote_outside(&mut self, code: Option<FaultCode>) {
        let vote = self.vote(OUTER, code);
        let entry = &mut self.state.records[self.rank.index()].blocks[0];
        entry.vote = Some(vote.clone());
        entry.known = known_to(&self.member.outer, false);
        let mut out: Vec<Effect> = Vec::new();
        self.member.outer.handle_vote(BLOCK, vote, &mut out);
        self.outside(out);
    }

    fn receive(&mut self, from: Rank) {
        let wire = self.state.links[self.setup.link(from, self.rank)].remove(0);
        match Arc::unwrap_or_clone(wire) {
            Wire::Data if self.member.request == Request::Pending => {
                self.member.request = Request::Done;
            }
            Wire::Data => {}
            Wire::Outer(Message::Interrupt(_)) => self.interrupt(),
            Wire::Outer(message) => {
                let mut out: Vec<Effect> = Vec::new();
                self.member.outer.handle_message(from, message, &mut out);
                self.outside(out);
            }
            Wire::Inner(message) => self.inside(|it, out| it.handle_message(from, message, out)),
        }
        self.forget_dead();
    }

    /// The block is interrupted here: the flood goes on, pending requests are over.
    fn interrupt(&mut self) {
        let mut out: Vec<Effect> = Vec::new();
        self.member.interrupts.handle_interrupt(BLOCK, self.member.outer.dead(), &mut out);
        self.outside(out);
    }

    fn inside(&mut self, turn: impl FnOnce(&mut Commit, &mut Vec<Effect>)) {
        let Some(inner) = &mut self.member.inner else { return };
        let mut out = Vec::new();
        turn(inner, &mut out);
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(to, Wire::Inner(message)),
                Effect::Emit(Event::Decided(block)) => {
                    let inner = self.member.inner.as_ref().expect("it has just decided");
                    self.member.inner_decision = inner.decision(block);
                }
                Effect::Emit(_) => {}
            }
        }
    }

    fn outside(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(to, Wire::Outer(message)),
                Effect::Emit(Event::Decided(block)) => {
                    let decision = self.member.outer.decision(block).expect("just decided");
                    if !decision.committed && self.member.inner_decision.is_none() {
                        // What was derived from the communicator starts afresh.
                        self.inside(Commit::retire);
                    }
                    self.state.records[self.rank.index()].blocks[0].decision = Some(decision);
                }
                Effect::Emit(Event::Interrupted(_)) => {
                    if self.member.request == Request::Pending {
                        self.member.request = Request::Failed;
                    }
                }
                Effect::Emit(Event::Learned(dead)) => self.learn(dead),
            }
        }
    }

    /// A death concerns every communicator, and who waits for the dead.
    fn learn(&mut self, dead: Rank) {
        if dead.number() < self.setup.inner {
            self.inside(|inner, out| inner.handle_failure(dead, out));
        }
        let mut out: Vec<Effect> = Vec::new();
        self.member.interrupts.handle_failure(dead, self.member.outer.dead(), &mut out);
        self.outside(out);
        self.forget_dead();
        if self.setup.right(dead) == self.rank && self.member.request == Request::Pending {
            self.member.request = Request::Failed;
            self.interrupt();
        }
    }

    fn send(&mut self, to: Rank, wire: Wire) {
        if self.state.records[to.index()].alive {
            self.state.links[self.setup.link(self.rank, to)].push(Arc::new(wire));
        }
    }

    /// Nothing more is taken from the dead.
    fn forget_dead(&mut self) {
        for dead in self.member.outer.dead().iter() {
            self.state.links[self.setup.link(dead, self.rank)].clear();
        }
    }
}

/// Stateright names properties by plain functions, so each gets one.
macro_rules! always {
    ($($name:literal),*) => {
        vec![$(Property::always($name, |_: &Inside, state: &State| {
            wrong(state, $name).is_ok()
        })),*]
    };
}

impl Model for Inside {
    type State = State;
    type Action = (Rank, Turn);

    fn init_states(&self) -> Vec<State> {
        vec![State {
            members: self.all().map(|rank| Arc::new(self.member(rank))).collect(),
            records: vec![Record::new(1); self.ranks as usize],
            links: vec![Vec::new(); (self.ranks * self.ranks) as usize],
            panicked: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        if state.panicked {
            return;
        }
        let dead = state.records.iter().filter(|record| !record.alive).count();
        let may_die = dead < self.crashes && dead + 1 < self.ranks as usize;
        for rank in self.all().filter(|rank| state.records[rank.index()].alive) {
            actions.extend(self.turns(state, rank).into_iter().map(|turn| (rank, turn)));
            actions.extend(may_die.then_some((rank, Turn::Die)));
        }
    }

    fn next_state(&self, last: &State, (rank, turn): Self::Action) -> Option<State> {
        planted::plant(self.bug);
        let mut state = last.clone();
        let step = catch_unwind(AssertUnwindSafe(|| match turn {
            Turn::Die => self.kill(&mut state, rank),
            turn => self.take(&mut state, rank, turn),
        }));
        state.panicked = step.is_err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = always!["agreement", "commitment", "participation"];
        properties.push(Property::always("termination", |setup: &Inside, state: &State| {
            !setup.at_rest(state) || wrong(state, AT_REST.0).is_ok()
        }));
        properties.push(Property::always("escalation", |_, state: &State| {
            crate::properties::escalation::an_inner_fault_is_an_outer_fault(
                &state.records,
                |rank| {
                    let member = &state.members[rank];
                    (member.request == Request::Done, member.inner_decision.as_ref())
                },
            )
        }));
        properties.push(Property::always("no panic", |_, state: &State| !state.panicked));
        properties
    }
}
