//! The group of recommended processes as a transition system: tests that fail and pass in every
//! order, censuses and deaths between any two of them.
//!
//! Commits are as all other models prove them: every living rank gets the same reports and the same
//! deaths. Each gets the reports in another order here, since no order is promised. What tests have
//! found is written down a second time, simply, and the properties look at that.

use fampi::{
    protocol::membership::{
        Membership, Report, Terms,
        evidence::{Evidence, Opinion},
        removal::Rule,
    },
    rank::{Rank, RankSet},
};
use stateright::{Model, Property};

use crate::bugs::{Bug, plant};

/// A group, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    pub ranks: u32,
    pub terms: Terms,
    /// At most so many tests fail, so many are passed, and so many ranks die.
    pub fails: u32,
    pub passes: u32,
    pub deaths: u32,
    /// A planted bug.
    pub bug: Option<Bug>,
}

/// What one tester has found of one target, in plain numbers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Truth {
    /// A test failed while both were members, and has not been forgotten.
    accuses: bool,
    /// Tests passed in a row since the target was benched, or since they last did not suffice.
    passed: u32,
}

/// How the group changed last.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Step {
    before: Membership,
    truths: Vec<Vec<Truth>>,
    census: bool,
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    groups: Vec<Membership>,
    evidence: Vec<Evidence>,
    seen: Vec<Vec<Opinion>>,
    truths: Vec<Vec<Truth>>,
    alive: Vec<bool>,
    fails: u32,
    passes: u32,
    last: Option<Step>,
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Turn {
    Fail(usize, usize),
    Pass(usize, usize),
    Die(usize),
    /// A block ends in a report of the deaths.
    Report,
    /// A commit says that something is new, and the census after it finds the deaths, too.
    Census,
}

impl State {
    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.alive.len()).filter(|rank| self.alive[*rank])
    }

    fn group(&self) -> &Membership {
        let first = self.living().next().expect("somebody lives");
        &self.groups[first]
    }

    fn deaths(&self) -> RankSet {
        (0..self.alive.len()).filter(|rank| !self.alive[*rank]).map(Rank::from).collect()
    }

    /// Whether something is true of the last change of the group, if this state comes of one.
    fn changes_so(&self, holds: impl Fn(&Step, &Membership) -> bool) -> bool {
        self.last.as_ref().is_none_or(|step| holds(step, self.group()))
    }

    fn news(&self, terms: Terms) -> u32 {
        let word =
            |rank: usize| self.evidence[rank].news(&self.groups[rank], terms, &self.seen[rank]);
        self.living().fold(0, |all, rank| all | word(rank))
    }

    fn test(&mut self, (tester, target): (usize, usize), passed: bool, zeta: u32) {
        let group = &self.groups[tester];
        let is_member = |rank: usize| group.is_member(rank.into());
        let (both, benched) = (is_member(tester) && is_member(target), !is_member(target));
        let seen = &mut self.seen[tester][target];
        let truth = &mut self.truths[tester][target];
        if passed {
            seen.streak += 1;
            truth.passed += u32::from(benched);
            truth.accuses &= seen.streak < zeta;
        } else {
            *seen = Opinion { fails: seen.fails + 1, streak: 0 };
            *truth = Truth { accuses: both, passed: 0 };
        }
    }

    /// All living ranks go on to the group that they make of this, each in an order of its own.
    fn change(&mut self, terms: Terms, census: bool) {
        let reports: Vec<Vec<Report>> = self
            .living()
            .map(|rank| {
                let group = &self.groups[rank];
                self.evidence[rank].reports(group, terms, &self.seen[rank]).collect()
            })
            .collect();
        let (deaths, before) = (self.deaths(), self.group().clone());
        let living: Vec<usize> = self.living().collect();
        for (place, rank) in living.into_iter().enumerate() {
            let mut ordered = reports.clone();
            ordered.rotate_left(place);
            let old = self.groups[rank].clone();
            let group = if census {
                old.next(terms, &ordered.concat(), &deaths, |_, _| true)
            } else {
                old.without(&deaths)
            };
            let (evidence, seen) = (&mut self.evidence[rank], &self.seen[rank]);
            if census {
                evidence.handle_census((&old, &group), terms, seen);
            } else {
                evidence.handle_view((&old, &group), seen);
            }
            self.groups[rank] = group;
        }
        self.last = Some(Step { before, truths: self.truths.clone(), census });
        self.settle(terms, census);
    }

    /// What tests have found counts no more, where somebody has changed sides.
    fn settle(&mut self, terms: Terms, census: bool) {
        let Some(Step { before, .. }) = &self.last else { return };
        let after = self.group().clone();
        let changed = |rank: usize| before.counter(rank.into()) != after.counter(rank.into());
        let size = self.alive.len();
        for (tester, target) in (0..size).flat_map(|it| (0..size).map(move |other| (it, other))) {
            let truth = &mut self.truths[tester][target];
            let refused = census && truth.passed >= terms.zeta;
            if changed(target) || refused {
                truth.passed = 0;
            }
            truth.accuses &= !changed(target) && !changed(tester);
        }
    }
}

impl Step {
    fn truth(&self, tester: Rank, target: Rank) -> Truth {
        self.truths[tester.index()][target.index()]
    }

    /// Members accuse it; or it accuses members, by the rule that takes either for the slow one.
    fn has_reason_to_go(&self, rank: Rank, rule: Rule) -> bool {
        let mut members = self.before.members();
        let between = |it| {
            let accuses = rule == Rule::Fewest && self.truth(rank, it).accuses;
            accuses || self.truth(it, rank).accuses
        };
        self.census && members.any(between)
    }

    /// Whether more than half of those that stayed members saw this one well, one of them for long.
    fn saw_well(&self, after: &Membership, target: Rank, zeta: u32) -> bool {
        let stayed = |it: &Rank| after.counter(*it) == self.before.counter(*it);
        let electors = self.before.members().filter(stayed);
        let passed: Vec<u32> = electors.map(|it| self.truth(it, target).passed).collect();
        let yes = passed.iter().filter(|passed| **passed * 2 > zeta).count();
        let asked = passed.iter().any(|passed| *passed >= zeta);
        // Where no member is left all who live are members.
        passed.is_empty() || (asked && yes * 2 > passed.len())
    }
}

impl Bench {
    /// A group of so many by the paper's rule, in which one good test is enough.
    pub fn ranks(ranks: u32) -> Self {
        let terms = Terms { rule: Rule::Any, zeta: 1 };
        Self { ranks, terms, fails: 0, passes: 0, deaths: 0, bug: None }
    }
}

impl Model for Bench {
    type State = State;
    type Action = Turn;

    fn init_states(&self) -> Vec<State> {
        let size = self.ranks as usize;
        let seen = vec![Opinion::default(); size];
        let evidence = (0..size).map(|rank| Evidence::start(rank.into(), &seen)).collect();
        vec![State {
            groups: vec![Membership::of_all(self.ranks); size],
            evidence,
            seen: vec![seen; size],
            truths: vec![vec![Truth::default(); size]; size],
            alive: vec![true; size],
            fails: 0,
            passes: 0,
            last: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Turn>) {
        plant(self.bug);
        let dead = state.alive.iter().filter(|alive| !**alive).count();
        for tester in state.living() {
            let others = state.living().filter(|target| *target != tester);
            for target in others {
                actions.extend((state.fails < self.fails).then_some(Turn::Fail(tester, target)));
                actions.extend((state.passes < self.passes).then_some(Turn::Pass(tester, target)));
            }
            let may_die = dead < self.deaths as usize && dead + 1 < state.alive.len();
            actions.extend(may_die.then_some(Turn::Die(tester)));
        }
        let unheard = *state.group() != state.group().without(&state.deaths());
        actions.extend(unheard.then_some(Turn::Report));
        actions.extend((state.news(self.terms) != 0).then_some(Turn::Census));
    }

    fn next_state(&self, last: &State, turn: Turn) -> Option<State> {
        plant(self.bug);
        let mut state = last.clone();
        state.last = None;
        match turn {
            Turn::Fail(tester, target) => {
                state.fails += 1;
                state.test((tester, target), false, self.terms.zeta);
            }
            Turn::Pass(tester, target) => {
                state.passes += 1;
                state.test((tester, target), true, self.terms.zeta);
            }
            Turn::Die(rank) => state.alive[rank] = false,
            Turn::Report => state.change(self.terms, false),
            Turn::Census => state.change(self.terms, true),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("V1 one group", |_, state: &State| {
                state.living().all(|rank| state.groups[rank] == *state.group())
            }),
            Property::always("V2 a reason to go", |setup: &Self, state: &State| {
                state.changes_so(|step, after| {
                    let mut left = step.before.members().filter(|rank| after.is_benched(*rank));
                    left.all(|rank| step.has_reason_to_go(rank, setup.terms.rule))
                })
            }),
            Property::always("V3 no accusation inside", |setup: &Self, state: &State| {
                let leaves = matches!(setup.terms.rule, Rule::Quorum(_));
                leaves
                    || state.changes_so(|step, after| {
                        let stayed = || step.before.members().filter(|it| after.is_member(*it));
                        let accused = |target| stayed().any(|it| step.truth(it, target).accuses);
                        !step.census || !stayed().any(accused)
                    })
            }),
            Property::always("V4 somebody works", |_, state: &State| {
                state.changes_so(|_, after| after.members().any(|it| state.alive[it.index()]))
            }),
            Property::always("V5 seen well", |setup: &Self, state: &State| {
                state.changes_so(|step, after| {
                    let mut back = step.before.benched().filter(|rank| after.is_member(*rank));
                    back.all(|rank| step.saw_well(after, rank, setup.terms.zeta))
                })
            }),
            Property::always("V6 counters rise", |_, state: &State| {
                state.changes_so(|step, after| {
                    let mut all = (0..state.alive.len()).map(Rank::from);
                    let risen = all.all(|it| after.counter(it) >= step.before.counter(it));
                    let same = step.before == *after;
                    let dead = state.deaths();
                    risen
                        && same == (step.before.epoch() == after.epoch())
                        && !dead.iter().any(|it| after.is_member(it))
                })
            }),
            Property::sometimes("somebody is benched", |_, state: &State| {
                state.group().benched().next().is_some()
            }),
            Property::sometimes("somebody comes back", |setup: &Self, state: &State| {
                let back = |rank: Rank| state.group().counter(rank) == 2;
                setup.passes == 0 || state.group().members().any(back)
            }),
        ]
    }
}
