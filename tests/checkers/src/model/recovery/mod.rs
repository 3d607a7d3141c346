//! Shrink and rebuild as a transition system: commits, collective calls, replacements, and a death
//! in every step.
//!
//! The handshakes, rosters and commits are the engine's. A process that is in a call takes no
//! message. A call returns when all whom its callers do not know dead have entered it, in success;
//! or in failure, as soon as one of these is dead. When one has died after it entered, each caller
//! gets one or the other. The first success makes the new universe, and its new processes are born.
//!
//! A repair is how programs that own their MPI rebuild: see `link`.

mod link;
mod play;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fampi::{
    protocol::{
        commit::Commit,
        handshake::{Goal, Handshake},
        message::Message,
        roster::Roster,
    },
    rank::{Rank, RankSet},
};
use stateright::{Model, Property};

use self::{link::Link, play::play};
use crate::{
    bugs::{Bug, plant},
    properties::places,
};

/// Attempts that a recovery gets, more than deaths that it may meet.
const LIMIT: u32 = 5;

/// What is recovered, and what may happen meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Number of ranks, of which the last has died when the recovery begins.
    pub ranks: u32,
    /// Number of parked spares.
    pub spares: u32,
    /// At most so many more die.
    pub crashes: usize,
    pub goal: Goal,
    /// A survivor that cannot take part in a repair, and says so.
    pub refuser: Option<usize>,
    /// A planted bug.
    pub bug: Option<Bug>,
}

/// How it ended for a process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
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
    /// The root of a repair has not heard of the replacement yet.
    listens: bool,
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
pub struct State {
    processes: Vec<Arc<Process>>,
    alive: Vec<bool>,
    universes: Vec<Arc<Universe>>,
    /// Who has entered a call, by universe and number of votes before it, and what it has made.
    calls: BTreeMap<(usize, u64), (RankSet, Option<usize>)>,
    link: Link,
    links: BTreeMap<(usize, usize), Vec<Letter>>,
    panicked: bool,
}

/// One turn of a process, or its death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Turn {
    Take(usize),
    Notice(usize),
    Return(bool),
    /// The replacement of a repair comes, and the root hears of it.
    Come,
    Hear,
    Die,
}

impl Recovery {
    /// A rebuild of this many ranks without spares.
    pub fn rebuild(ranks: u32) -> Self {
        Self { ranks, spares: 0, crashes: 0, goal: Goal::Rebuild, refuser: None, bug: None }
    }

    /// A repair of this many ranks.
    pub fn repair(ranks: u32) -> Self {
        Self { goal: Goal::Repair, ..Self::rebuild(ranks) }
    }

    fn turns(state: &State, me: usize) -> Vec<Turn> {
        let process = &state.processes[me];
        if process.outcome == Some(Outcome::Gone) {
            return Vec::new();
        }
        if let Some(turns) = link::turns(state, process) {
            return turns;
        }
        let hears = process.listens && link::can_hear(state, process);
        let mut turns = Vec::from_iter(hears.then_some(Turn::Hear));
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
            let is_spawned = self.goal == Goal::Rebuild && it >= launched;
            process.outcome.is_some() || (is_spawned && !taken_over(process.universe))
        })
    }

    /// The living that did not go, with how it ended and who holds which rank.
    fn ends(state: &State) -> impl Iterator<Item = places::End<'_>> {
        let living = (0..state.processes.len()).filter(|it| state.alive[*it]);
        living.filter_map(|it| {
            let process = &state.processes[it];
            let ended = process.outcome.filter(|outcome| *outcome != Outcome::Gone)?;
            let universe = state.universes.get(process.universe).unwrap_or(&state.universes[0]);
            Some(places::End {
                process: it,
                complete: ended == Outcome::Complete,
                roster: &process.roster,
                members: &universe.members,
            })
        })
    }
}

impl Model for Recovery {
    type State = State;
    type Action = (usize, Turn);

    fn init_states(&self) -> Vec<State> {
        plant(self.bug);
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
            listens: false,
        };
        let mut state = State {
            processes: (0..size).map(|_| Arc::new(process.clone())).collect(),
            alive: vec![true; size as usize],
            universes: vec![Arc::new(Universe { members, roster })],
            calls: BTreeMap::new(),
            link: Link::default(),
            links: BTreeMap::new(),
            panicked: false,
        };
        let died = self.ranks as usize - 1;
        state.alive[died] = false;
        if self.goal == Goal::Repair {
            link::begin(&mut state, died);
        }
        for me in (0..size as usize).filter(|me| *me != died) {
            play(self, &mut state, me, |it| {
                it.enter(0);
                if self.goal == Goal::Repair {
                    it.vote(true);
                } else {
                    it.obey(&orders);
                }
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
        plant(self.bug);
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
                setup.goal == Goal::Shrink
                    || places::old_ranks_are_kept(Self::ends(state), setup.ranks, dead)
            }),
            Property::sometimes("recovered", |setup: &Self, state: &State| {
                let complete = Self::ends(state).any(|end| end.complete);
                Self::at_rest(state) && (complete || setup.refuser.is_some())
            }),
            Property::always("no panic", |_, state: &State| !state.panicked),
        ]
    }
}
