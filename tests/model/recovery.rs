//! Shrink and rebuild as a transition system: commits, collective calls, replacements, and a death
//! in every step.
//!
//! The handshakes, rosters and commits are the engine's. A process that is in a call takes no
//! message. A call returns when all whom its callers do not know dead have entered it, in success;
//! or in failure, as soon as one of these is dead. When one has died after it entered, each caller
//! gets one or the other. The first success makes the new universe, and its new processes are born.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fampi::{
    fault::{Fault, FaultCode},
    ids::{BlockId, CommId},
    protocol::{
        Effect, Event,
        agreement::Vote,
        commit::Commit,
        exchange::Shape,
        handshake::{Goal, Handshake, Order},
        message::Message,
        planted::{self, Bug},
        roster::{Placement, Roster},
    },
    rank::{Rank, RankSet},
};
use stateright::{Model, Property};

use crate::properties::places;

/// Attempts that a recovery gets, more than deaths that it may meet.
const LIMIT: u32 = 5;

/// What is recovered, and what may happen meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// Number of ranks, of which the last has died when the recovery begins.
    pub(crate) ranks: u32,
    /// Number of parked spares.
    pub(crate) spares: u32,
    /// At most so many more die.
    pub(crate) crashes: usize,
    pub(crate) goal: Goal,
    /// A planted bug.
    pub(crate) bug: Option<Bug>,
}

/// How it ended for a process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Outcome {
    Complete,
    Failed,
    /// A process that is not needed went.
    Gone,
}

/// One process in one universe.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Membership {
    commit: Commit,
    next_block: u64,
    context: u32,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Process {
    handshake: Handshake,
    memberships: BTreeMap<usize, Membership>,
    /// Its newest universe.
    universe: usize,
    roster: Roster,
    /// It is in the call that it made after so many votes in its universe, and that makes a
    /// universe or not.
    calls: Option<(u64, bool)>,
    next: Option<usize>,
    outcome: Option<Outcome>,
}

/// A message, and the universe that it belongs to.
type Letter = (usize, Arc<Message>);

/// Processes with a control channel.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Universe {
    members: Vec<usize>,
    roster: Roster,
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct State {
    processes: Vec<Arc<Process>>,
    alive: Vec<bool>,
    universes: Vec<Arc<Universe>>,
    /// Who has entered a call, by universe and number of votes before it, and what it has made.
    calls: BTreeMap<(usize, u64), (RankSet, Option<usize>)>,
    links: BTreeMap<(usize, usize), Vec<Letter>>,
    panicked: bool,
}

/// One turn of a process, or its death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Turn {
    Take(usize),
    Notice(usize),
    Return(bool),
    Die,
}

impl Recovery {
    /// A rebuild of this many ranks without spares.
    pub(crate) fn rebuild(ranks: u32) -> Self {
        Self { ranks, spares: 0, crashes: 0, goal: Goal::Rebuild, bug: None }
    }

    fn turns(state: &State, me: usize) -> Vec<Turn> {
        let process = &state.processes[me];
        if process.outcome == Some(Outcome::Gone) {
            return Vec::new();
        }
        let mut turns = Vec::new();
        if let Some((number, _)) = process.calls {
            let (entered, _) = &state.calls[&(process.universe, number)];
            let expected = || Self::expected(state, process);
            if expected().all(|(place, _)| entered.contains(place)) {
                turns.push(Turn::Return(true));
            }
            if expected().any(|(_, member)| !state.alive[member]) {
                turns.push(Turn::Return(false));
            }
            return turns;
        }
        for other in (0..state.processes.len()).filter(|other| *other != me) {
            if state.links.get(&(other, me)).is_some_and(|link| !link.is_empty()) {
                turns.push(Turn::Take(other));
            }
            let unknown = |(universe, it): (&usize, &Membership)| {
                let place = state.universes[*universe].members.iter().position(|m| *m == other);
                place.is_some_and(|place| !it.commit.dead().contains(place.into()))
            };
            if !state.alive[other] && process.memberships.iter().any(unknown) {
                turns.push(Turn::Notice(other));
            }
        }
        turns
    }

    /// The members of a caller's universe that it does not know dead, by the last report.
    fn expected<'a>(
        state: &'a State,
        process: &'a Process,
    ) -> impl Iterator<Item = (Rank, usize)> + 'a {
        let dead = process.memberships[&process.universe].commit.agreed_dead();
        let members = state.universes[process.universe].members.iter().copied().enumerate();
        members.map(|(at, it)| (Rank::from(at), it)).filter(|(place, _)| !dead.contains(*place))
    }

    fn at_rest(state: &State) -> bool {
        let mut living = (0..state.processes.len()).filter(|it| state.alive[*it]);
        living.all(|it| Self::turns(state, it).is_empty())
    }

    /// Nobody waits for ever, but for a replacement that nobody living has taken over: its own
    /// clock ends it.
    fn all_ended(&self, state: &State) -> bool {
        let launched = (self.ranks + self.spares) as usize;
        let taken_over = |universe: usize| {
            let mut members = state.universes[universe].members.iter();
            members.any(|it| {
                state.alive[*it] && *it < launched && state.processes[*it].universe == universe
            })
        };
        let mut living = (0..state.processes.len()).filter(|it| state.alive[*it]);
        living.all(|it| {
            let process = &state.processes[it];
            process.outcome.is_some() || (it >= launched && !taken_over(process.universe))
        })
    }

    /// The living that did not go, with how it ended and who holds which rank.
    fn ends(state: &State) -> impl Iterator<Item = places::End<'_>> {
        let living = (0..state.processes.len()).filter(|it| state.alive[*it]);
        living.filter_map(|it| {
            let process = &state.processes[it];
            let ended = process.outcome.filter(|outcome| *outcome != Outcome::Gone)?;
            Some(places::End {
                process: it,
                complete: ended == Outcome::Complete,
                roster: &process.roster,
                members: &state.universes[process.universe].members,
            })
        })
    }
}

/// One turn under way.
struct Play<'a> {
    setup: &'a Recovery,
    state: &'a mut State,
    me: usize,
    process: Process,
}

/// Lets a process do something in a state.
fn play(setup: &Recovery, state: &mut State, me: usize, turn: impl FnOnce(&mut Play<'_>)) {
    let process = Process::clone(&state.processes[me]);
    let mut play = Play { setup, state, me, process };
    turn(&mut play);
    let process = play.process;
    state.processes[me] = Arc::new(process);
}

impl Play<'_> {
    fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Take(from) => self.receive(from),
            Turn::Notice(dead) => {
                self.state.links.remove(&(dead, self.me));
                for universe in self.process.memberships.keys().copied().collect::<Vec<_>>() {
                    let members = &self.state.universes[universe].members;
                    if let Some(place) = members.iter().position(|member| *member == dead) {
                        self.drive(universe, |it, out| it.handle_failure(place.into(), out));
                    }
                }
            }
            Turn::Return(worked) => self.come_back(worked),
            Turn::Die => {}
        }
    }

    fn receive(&mut self, from: usize) {
        let link = self.state.links.get_mut(&(from, self.me)).expect("something is on it");
        let (universe, message) = link.remove(0);
        if link.is_empty() {
            self.state.links.remove(&(from, self.me));
        }
        let place = self.place(universe, from);
        if let Message::Interrupt(_) = &*message {
            if universe == self.process.universe && self.process.outcome.is_none() {
                self.process.outcome = Some(Outcome::Gone);
            }
            return;
        }
        let message = Arc::unwrap_or_clone(message);
        self.drive(universe, |it, out| it.handle_message(place, message, out));
    }

    fn place(&self, universe: usize, process: usize) -> Rank {
        let members = &self.state.universes[universe].members;
        members.iter().position(|member| *member == process).expect("a member").into()
    }

    /// A turn of the commit of a universe, with all that follows.
    fn drive(&mut self, universe: usize, turn: impl FnOnce(&mut Commit, &mut Vec<Effect>)) {
        let Some(membership) = self.process.memberships.get_mut(&universe) else { return };
        let mut out = Vec::new();
        turn(&mut membership.commit, &mut out);
        let mut verdict = None;
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(universe, to, message),
                Effect::Emit(Event::Decided(block)) => {
                    let it = self.process.memberships.get_mut(&universe).expect("as before");
                    let decision = it.commit.decision(block).expect("just decided");
                    it.context = it.context.max(decision.next_context);
                    let newest = universe == self.process.universe;
                    if newest && block.0 + 1 == it.next_block && self.process.outcome.is_none() {
                        verdict = Some(decision.committed);
                    }
                }
                Effect::Emit(_) => {}
            }
        }
        let Some(committed) = verdict else { return };
        let dead = self.process.memberships[&universe].commit.agreed_dead();
        let members = &self.process.roster.members;
        let orphaned =
            !self.process.handshake.is_welcome() && self.process.roster.is_orphaned(dead);
        let nobody = members.iter().all(|it| dead.contains(*it));
        if self.setup.goal == Goal::Rebuild && (nobody || orphaned) {
            self.process.outcome = Some(Outcome::Gone);
            return;
        }
        let mut orders = Vec::new();
        self.process.handshake.handle_verdict(committed, 1, &mut orders);
        self.obey(&orders);
    }

    fn send(&mut self, universe: usize, to: Rank, message: Message) {
        let to = self.state.universes[universe].members[to.index()];
        if self.state.alive[to] {
            let link = self.state.links.entry((self.me, to)).or_default();
            link.push((universe, Arc::new(message)));
        }
    }

    fn obey(&mut self, orders: &[Order]) {
        for order in orders {
            match order {
                Order::Vote(yes) => self.vote(*yes),
                Order::Call | Order::CallFor(_) => {
                    let universe = self.process.universe;
                    let place = self.place(universe, self.me);
                    let number = self.process.memberships[&universe].next_block;
                    let universal = self.setup.goal == Goal::Rebuild && *order == Order::Call;
                    self.process.calls = Some((number, universal));
                    let call = self.state.calls.entry((universe, number)).or_default();
                    call.0.insert(place);
                }
                Order::Adopt => {
                    let next = self.process.next.take().expect("the call worked");
                    let old = std::mem::replace(&mut self.process.universe, next);
                    self.process.roster = self.state.universes[next].roster.clone();
                    self.drive(old, Commit::retire);
                }
                Order::Discard => {
                    let Some(next) = self.process.next.take() else { continue };
                    self.process.memberships.remove(&next);
                    for to in 0..self.state.universes[next].members.len() {
                        if self.state.universes[next].members[to] != self.me {
                            self.send(next, to.into(), Message::Interrupt(BlockId(0)));
                        }
                    }
                }
                Order::Complete => self.process.outcome = Some(Outcome::Complete),
                Order::Fail => self.process.outcome = Some(Outcome::Failed),
            }
        }
    }

    fn enter(&mut self, universe: usize) {
        let size = self.state.universes[universe].members.len() as u32;
        // The recovery asks for verdicts; the way to them is searched elsewhere.
        let commit = Commit::new(CommId(universe as u64), self.place(universe, self.me), size)
            .with_shape(Shape::DOUBLING);
        let membership = Membership { commit, next_block: 0, context: 0 };
        self.process.memberships.insert(universe, membership);
    }

    fn vote(&mut self, yes: bool) {
        let universe = self.process.universe;
        let rank = self.place(universe, self.me);
        let it = self.process.memberships.get_mut(&universe).expect("its newest");
        let mut vote = Vote::yes(it.context);
        if !yes {
            let (comm, code) = (CommId(universe as u64), FaultCode::Interrupted);
            vote.faults.push(Fault { comm, rank, code });
        }
        let block = BlockId(it.next_block);
        it.next_block += 1;
        self.drive(universe, |it, out| it.handle_vote(block, vote, out));
    }

    /// A call returns.
    fn come_back(&mut self, worked: bool) {
        let (number, universal) = self.process.calls.take().expect("it is in a call");
        if worked && universal {
            let next = self.made((self.process.universe, number));
            self.process.next = Some(next);
            self.enter(next);
        }
        let mut orders = Vec::new();
        self.process.handshake.handle_return(worked, &mut orders);
        self.obey(&orders);
    }

    /// The universe that a call makes; its new processes are born with it.
    fn made(&mut self, key: (usize, u64)) -> usize {
        if let Some(made) = self.state.calls[&key].1 {
            return made;
        }
        let old = &self.state.universes[key.0];
        let dead = self.process.memberships[&key.0].commit.agreed_dead();
        let size = old.members.len() as u32;
        let attempt = self.process.handshake.attempts();
        let (roster, spawn) =
            self.process.roster.rebuilt(size, dead, Placement::SameRanks, attempt);
        let mut members: Vec<usize> =
            Recovery::expected(self.state, &self.process).map(|(_, member)| member).collect();
        let made = self.state.universes.len();
        let newborn = self.state.processes.len();
        members.extend(newborn..newborn + spawn as usize);
        self.state.universes.push(Arc::new(Universe { members, roster: roster.clone() }));
        self.state.calls.get_mut(&key).expect("it was entered").1 = Some(made);
        let mut orders = Vec::new();
        let handshake = Handshake::join(roster.attempts, LIMIT, &mut orders);
        for _ in 0..spawn {
            self.state.processes.push(Arc::new(Process {
                handshake: handshake.clone(),
                memberships: BTreeMap::new(),
                universe: made,
                roster: roster.clone(),
                calls: None,
                next: None,
                outcome: None,
            }));
            self.state.alive.push(true);
        }
        for me in newborn..newborn + spawn as usize {
            play(self.setup, self.state, me, |it| {
                it.enter(made);
                it.obey(&orders);
            });
        }
        made
    }
}

impl Model for Recovery {
    type State = State;
    type Action = (usize, Turn);

    fn init_states(&self) -> Vec<State> {
        planted::plant(self.bug);
        let size = self.ranks + self.spares;
        let roster = Roster::launch(size, self.spares);
        let members = (0..size as usize).collect();
        let mut orders = Vec::new();
        let handshake = Handshake::start(self.goal, LIMIT, &mut orders);
        let process = Process {
            handshake,
            memberships: BTreeMap::new(),
            universe: 0,
            roster: roster.clone(),
            calls: None,
            next: None,
            outcome: None,
        };
        let mut state = State {
            processes: (0..size).map(|_| Arc::new(process.clone())).collect(),
            alive: vec![true; size as usize],
            universes: vec![Arc::new(Universe { members, roster })],
            calls: BTreeMap::new(),
            links: BTreeMap::new(),
            panicked: false,
        };
        state.alive[self.ranks as usize - 1] = false;
        for me in (0..size as usize).filter(|me| *me != self.ranks as usize - 1) {
            play(self, &mut state, me, |it| {
                it.enter(0);
                it.obey(&orders);
            });
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        if state.panicked {
            return;
        }
        let dead = state.alive.iter().filter(|alive| !**alive).count();
        let may_die = dead < 1 + self.crashes && dead + 1 < state.alive.len();
        for me in (0..state.processes.len()).filter(|me| state.alive[*me]) {
            actions.extend(Self::turns(state, me).into_iter().map(|turn| (me, turn)));
            let out = state.processes[me].outcome == Some(Outcome::Gone);
            actions.extend((may_die && !out).then_some((me, Turn::Die)));
        }
    }

    fn next_state(&self, last: &State, (me, turn): Self::Action) -> Option<State> {
        planted::plant(self.bug);
        let mut state = last.clone();
        let step = catch_unwind(AssertUnwindSafe(|| {
            if turn == Turn::Die {
                state.alive[me] = false;
                state.links.retain(|(_, to), _| *to != me);
            } else {
                play(self, &mut state, me, |play| play.take(turn));
            }
        }));
        state.panicked = step.is_err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("termination", |setup: &Self, state: &State| {
                !Self::at_rest(state) || setup.all_ended(state)
            }),
            Property::always("one end", |_, state: &State| {
                places::all_end_alike(Self::ends(state))
            }),
            Property::always("places", |setup: &Self, state: &State| {
                let dead = |process: usize| !state.alive[process];
                setup.goal != Goal::Rebuild
                    || places::old_ranks_are_kept(Self::ends(state), setup.ranks, dead)
            }),
            Property::sometimes("recovered", |_, state: &State| {
                Self::at_rest(state) && Self::ends(state).any(|end| end.complete)
            }),
            Property::always("no panic", |_, state: &State| !state.panicked),
        ]
    }
}
