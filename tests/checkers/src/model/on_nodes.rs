//! Ranks on nodes as a transition system: observers that fail and pass each other and the ranks of
//! their nodes in every order, censuses, deaths and replacements between any two of them.
//!
//! Commits are as all other models prove them: a census brings the same to all who live. What tests
//! have found is written down a second time, simply, and the properties look at that.

use fampi::{
    protocol::membership::{
        Membership, Terms,
        evidence::{Opinion, Tested, Tests},
        levels::Levels,
        member::{Census, Member, ROW_WORDS, Slow},
        removal::Rule,
    },
    rank::Rank,
};
use stateright::{Model, Property};

use crate::bugs::{Bug, plant};

/// Ranks on nodes, and what may happen to them.
#[derive(Clone, Debug)]
pub struct OnNodes {
    /// The node of each rank.
    pub places: Vec<usize>,
    pub terms: Terms,
    pub slow: Slow,
    /// At most so many tests of nodes fail, and so many are passed.
    pub fails: u32,
    pub passes: u32,
    /// At most so many tests of ranks fail, or are passed.
    pub own: u32,
    /// At most so many ranks die, and so many are replaced.
    pub deaths: u32,
    pub replacements: u32,
    /// A planted bug.
    pub bug: Option<Bug>,
}

/// What one observer has found of another, in plain numbers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Truth {
    /// A test failed while both were in the group, and has not been forgotten.
    accuses: bool,
    /// Tests passed in a row since the target was benched, or since they last did not suffice.
    passed: u32,
}

/// How the group changed last.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Step {
    before: Levels,
    truths: Vec<Vec<Truth>>,
    accused: Vec<bool>,
    alive: Vec<bool>,
    begun: Vec<bool>,
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    members: Vec<Member>,
    /// Who has accepted a census.
    knows: Vec<bool>,
    alive: Vec<bool>,
    of_nodes: Vec<Vec<Opinion>>,
    of_ranks: Vec<Opinion>,
    truths: Vec<Vec<Truth>>,
    /// Somebody died or began, and no census has heard of it.
    unheard: bool,
    counts: [u32; 5],
    last: Option<Step>,
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Turn {
    Fail(usize, usize),
    Pass(usize, usize),
    FailRank(usize),
    PassRank(usize),
    Die(usize),
    Replace(usize),
    Census,
}

/// What a rank can ask its observer.
struct Board {
    tested: Tested,
    of_nodes: Vec<Opinion>,
}

impl Tests for Board {
    fn tested(&self) -> Option<Tested> {
        Some(self.tested)
    }

    fn of_node(&self, node: u32) -> Opinion {
        self.of_nodes[node as usize]
    }
}

fn add(opinion: &mut Opinion, passed: bool) {
    if passed {
        opinion.streak += 1;
    } else {
        *opinion = Opinion { fails: opinion.fails + 1, streak: 0 };
    }
}

/// True if a rank of this node works, in this group.
fn works_on(setup: &OnNodes, group: &Membership, node: usize) -> bool {
    let mut on = (0..setup.places.len()).filter(|rank| setup.places[*rank] == node);
    on.any(|rank| group.is_member(rank.into()))
}

impl State {
    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.alive.len()).filter(|rank| self.alive[*rank])
    }

    /// Who lives and knows the group.
    fn knowing(&self) -> impl Iterator<Item = usize> {
        self.living().filter(|rank| self.knows[*rank])
    }

    /// The group as all know it who do; before the first census, as it begins.
    fn levels(&self) -> &Levels {
        let first = self.knowing().next().or_else(|| self.living().next());
        self.members[first.expect("somebody lives")].levels()
    }

    fn board(&self, setup: &OnNodes, rank: usize) -> Board {
        let node = setup.places[rank];
        let tested = Tested {
            node: (node as u32, setup.nodes() as u32),
            ..Tested::of(self.of_ranks[rank], setup.terms.zeta)
        };
        Board { tested, of_nodes: self.of_nodes[node].clone() }
    }

    fn news(&self, setup: &OnNodes) -> u32 {
        let word = |rank: usize| self.members[rank].clone().news(&self.board(setup, rank));
        self.living().fold(0, |all, rank| all | word(rank))
    }

    fn test_node(&mut self, setup: &OnNodes, (tester, target): (usize, usize), passed: bool) {
        let levels = self.levels();
        let in_group = levels.nodes().is_member(target.into());
        let speaks = self.knowing().any(|rank| setup.places[rank] == tester);
        let is_heard = speaks && works_on(setup, levels.view(), tester);
        let opinion = &mut self.of_nodes[tester][target];
        add(opinion, passed);
        let truth = &mut self.truths[tester][target];
        if passed {
            truth.passed += u32::from(!in_group);
            truth.accuses &= opinion.streak < setup.terms.zeta;
        } else {
            *truth = Truth { accuses: in_group && is_heard, passed: 0 };
        }
    }

    /// All living ranks tell each other, and go on to the group that they make of it.
    fn census(&mut self, setup: &OnNodes) {
        let size = self.alive.len();
        let before = self.levels().clone();
        let boards: Vec<Board> = (0..size).map(|rank| self.board(setup, rank)).collect();
        let mut rows = vec![u64::MAX; size * ROW_WORDS];
        let living: Vec<usize> = self.living().collect();
        for rank in living.iter().copied() {
            let (member, knows) = (&mut self.members[rank], self.knows[rank]);
            let all = Census::words(member, knows, &boards[rank], (rank, size));
            let own = rank * ROW_WORDS..(rank + 1) * ROW_WORDS;
            rows[own.clone()].copy_from_slice(&all[own]);
        }
        let mut census = Census::of_words(&rows);
        let more = census.more();
        let mut lists = vec![0; size * more];
        for rank in living.iter().copied() {
            let all = census.more_words(&self.members[rank], (rank, size));
            let own = rank * more..(rank + 1) * more;
            lists[own.clone()].copy_from_slice(&all[own]);
        }
        census.add(lists);
        let told = census.speaker().map(|rank| census.group_words(&self.members[rank]));
        for rank in living {
            let member = &mut self.members[rank];
            if let Some(words) = told.as_ref().filter(|_| !self.knows[rank]) {
                let _ = Census::teach(member, words);
            }
            let levels = census.next(member);
            member.accept(levels);
        }
        self.last = Some(Step {
            before,
            truths: self.truths.clone(),
            accused: self.of_ranks.iter().map(|it| it.fails > 0).collect(),
            alive: self.alive.clone(),
            begun: self.living().fold(vec![false; size], |mut all, rank| {
                all[rank] = !self.knows[rank];
                all
            }),
        });
        self.knows.clone_from(&self.alive);
        self.unheard = false;
        self.settle(setup);
    }

    /// What tests of nodes have found counts no more, where somebody has changed sides.
    fn settle(&mut self, setup: &OnNodes) {
        let Some(Step { before, .. }) = &self.last else { return };
        let after = self.levels().clone();
        let size = setup.nodes();
        for (tester, target) in (0..size).flat_map(|it| (0..size).map(move |other| (it, other))) {
            let counter = |levels: &Levels| levels.nodes().counter(target.into());
            let changed = counter(before) != counter(&after);
            let heard = |levels: &Levels| works_on(setup, levels.view(), tester);
            let truth = &mut self.truths[tester][target];
            let refused = truth.passed >= setup.terms.zeta;
            if changed || refused || !heard(before) || !heard(&after) {
                truth.passed = 0;
            }
            truth.accuses &= !changed && heard(before) && heard(&after);
        }
    }

    /// Whether something is true of the last change of the group, if this state comes of one.
    fn changes_so(&self, holds: impl Fn(&Step, &Levels) -> bool) -> bool {
        self.last.as_ref().is_none_or(|step| holds(step, self.levels()))
    }
}

impl Step {
    /// True if some rank stayed in on both levels: nobody was taken back for want of others.
    fn has_members(&self, setup: &OnNodes, after: &Levels) -> bool {
        let (before, ranks) = (self.before.ranks(), after.ranks());
        self.before.view().members().any(|rank| {
            let on_same = !self.changed(after, setup.places[rank.index()]);
            on_same && before.counter(rank) == ranks.counter(rank)
        })
    }

    fn changed(&self, after: &Levels, node: usize) -> bool {
        self.before.nodes().counter(node.into()) != after.nodes().counter(node.into())
    }

    /// No counter falls, and an epoch is one group's, on each level.
    fn rises(&self, after: &Levels) -> bool {
        let rises = |before: &Membership, after: &Membership, size: usize| {
            let mut all = (0..size).map(Rank::from);
            all.all(|it| after.counter(it) >= before.counter(it))
                && (before == after) == (before.epoch() == after.epoch())
        };
        let (ranks, nodes) = (self.alive.len(), self.truths.len());
        rises(self.before.view(), after.view(), ranks)
            && rises(self.before.ranks(), after.ranks(), ranks)
            && rises(self.before.nodes(), after.nodes(), nodes)
    }

    /// Another node accuses it; or it accuses one, by the rule that takes either for the slow one.
    fn has_reason_to_go(&self, node: Rank, terms: Terms) -> bool {
        let node = node.index();
        let between = |it: usize| {
            let accuses = terms.rule == Rule::Fewest && self.truths[node][it].accuses;
            accuses || self.truths[it][node].accuses
        };
        (0..self.truths.len()).any(between)
    }

    /// Whether more than half of the nodes that stayed, and have a rank that may work, saw this one
    /// well, one of them for long.
    fn saw_well(&self, setup: &OnNodes, after: &Levels, node: Rank) -> bool {
        let votes = |it: &usize| {
            let mut on = (0..self.alive.len()).filter(|rank| setup.places[*rank] == *it);
            let stayed = self.before.nodes().is_member((*it).into()) && !self.changed(after, *it);
            stayed && on.any(|rank| self.alive[rank] && after.ranks().is_member(rank.into()))
        };
        let electors = (0..self.truths.len()).filter(votes);
        let passed: Vec<u32> = electors.map(|it| self.truths[it][node.index()].passed).collect();
        let zeta = setup.terms.zeta;
        let yes = passed.iter().filter(|passed| **passed * 2 > zeta).count();
        passed.iter().any(|passed| *passed >= zeta) && yes * 2 > passed.len()
    }
}

impl OnNodes {
    /// Ranks on these nodes, by the paper's rule, in which one good test is enough.
    pub fn places(places: &[usize]) -> Self {
        Self {
            places: places.to_vec(),
            terms: Terms { rule: Rule::Any, zeta: 1 },
            slow: Slow::Return,
            fails: 0,
            passes: 0,
            own: 0,
            deaths: 0,
            replacements: 0,
            bug: None,
        }
    }

    fn nodes(&self) -> usize {
        self.places.iter().max().map_or(0, |most| most + 1)
    }

    fn member(&self, state: &State, rank: usize) -> Member {
        let board = state.board(self, rank);
        Member::new(rank.into(), self.places.len() as u32, self.slow, &board).by(self.terms.rule)
    }
}

impl Model for OnNodes {
    type State = State;
    type Action = Turn;

    fn init_states(&self) -> Vec<State> {
        let (ranks, nodes) = (self.places.len(), self.nodes());
        let mut state = State {
            members: Vec::new(),
            knows: vec![false; ranks],
            alive: vec![true; ranks],
            of_nodes: vec![vec![Opinion::default(); nodes]; nodes],
            of_ranks: vec![Opinion::default(); ranks],
            truths: vec![vec![Truth::default(); nodes]; nodes],
            unheard: false,
            counts: [0; 5],
            last: None,
        };
        state.members = (0..ranks).map(|rank| self.member(&state, rank)).collect();
        // All know where the others are.
        state.census(self);
        state.last = None;
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Turn>) {
        plant(self.bug);
        let [fails, passes, own, deaths, replaced] = state.counts;
        for (tester, target) in
            (0..self.nodes()).flat_map(|it| (0..self.nodes()).map(move |to| (it, to)))
        {
            if tester != target {
                actions.extend((fails < self.fails).then_some(Turn::Fail(tester, target)));
                actions.extend((passes < self.passes).then_some(Turn::Pass(tester, target)));
            }
        }
        for rank in state.living() {
            actions.extend((own < self.own).then_some(Turn::FailRank(rank)));
            let was_bad = state.of_ranks[rank].fails > 0;
            actions.extend((own < self.own && was_bad).then_some(Turn::PassRank(rank)));
            let may_die = deaths < self.deaths && state.knowing().any(|other| other != rank);
            actions.extend(may_die.then_some(Turn::Die(rank)));
        }
        let dead = (0..self.places.len()).filter(|rank| !state.alive[*rank]);
        actions.extend(dead.filter(|_| replaced < self.replacements).map(Turn::Replace));
        let is_due = state.unheard || state.news(self) != 0;
        actions.extend(is_due.then_some(Turn::Census));
    }

    fn next_state(&self, last: &State, turn: Turn) -> Option<State> {
        plant(self.bug);
        let mut state = last.clone();
        state.last = None;
        match turn {
            Turn::Fail(tester, target) => state.test_node(self, (tester, target), false),
            Turn::Pass(tester, target) => state.test_node(self, (tester, target), true),
            Turn::FailRank(rank) => add(&mut state.of_ranks[rank], false),
            Turn::PassRank(rank) => add(&mut state.of_ranks[rank], true),
            Turn::Die(rank) => {
                (state.alive[rank], state.knows[rank], state.unheard) = (false, false, true);
                let node = self.places[rank];
                if !state.knowing().any(|other| self.places[other] == node) {
                    // Nobody is left who has seen it.
                    state.truths[node].iter_mut().for_each(|truth| truth.accuses = false);
                }
            }
            Turn::Replace(rank) => {
                state.members[rank] = self.member(&state, rank);
                (state.alive[rank], state.unheard) = (true, true);
            }
            Turn::Census => state.census(self),
        }
        let count = match turn {
            Turn::Fail(..) => Some(0),
            Turn::Pass(..) => Some(1),
            Turn::FailRank(_) | Turn::PassRank(_) => Some(2),
            Turn::Die(_) => Some(3),
            Turn::Replace(_) => Some(4),
            Turn::Census => None,
        };
        if let Some(count) = count {
            state.counts[count] += 1;
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("V1 one group", |_, state: &State| {
                state.knowing().all(|rank| state.members[rank].levels() == state.levels())
            }),
            Property::always("V2 a reason to go", |setup: &Self, state: &State| {
                state.changes_so(|step, after| {
                    let before = step.before.nodes();
                    let mut nodes = before.members().filter(|node| after.nodes().is_benched(*node));
                    let mut ranks = step.before.ranks().members();
                    nodes.all(|node| step.has_reason_to_go(node, setup.terms))
                        && ranks.all(|rank| {
                            let new = step.begun[rank.index()] && setup.slow == Slow::Probation;
                            !after.ranks().is_benched(rank) || new || step.accused[rank.index()]
                        })
                })
            }),
            Property::always("V3 no accusation inside", |setup: &Self, state: &State| {
                let leaves = matches!(setup.terms.rule, Rule::Quorum(_));
                leaves
                    || state.changes_so(|step, after| {
                        let stayed = |node: &usize| {
                            let heard = |it: &Levels| works_on(setup, it.view(), *node);
                            !step.changed(after, *node) && heard(&step.before) && heard(after)
                        };
                        let nodes = || (0..setup.nodes()).filter(stayed);
                        let accused = |it: usize| nodes().any(|by| step.truths[by][it].accuses);
                        !step.has_members(setup, after) || !nodes().any(accused)
                    })
            }),
            Property::always("V4 somebody works", |_, state: &State| {
                state.changes_so(|step, after| {
                    after.view().members().any(|rank| step.alive[rank.index()])
                })
            }),
            Property::always("V5 seen well", |setup: &Self, state: &State| {
                state.changes_so(|step, after| {
                    let benched = step.before.nodes().benched();
                    let mut back = benched.filter(|node| after.nodes().is_member(*node));
                    !step.has_members(setup, after)
                        || back.all(|node| step.saw_well(setup, after, node))
                })
            }),
            Property::always("V6 counters rise", |_, state: &State| state.changes_so(Step::rises)),
            Property::always("who works is in on both levels", |setup: &Self, state: &State| {
                state.changes_so(|step, after| {
                    (0..step.alive.len()).all(|rank| {
                        let on_member = after.nodes().is_member(setup.places[rank].into());
                        let both = on_member && after.ranks().is_member(rank.into());
                        after.view().is_member(rank.into()) == (both && step.alive[rank])
                    })
                })
            }),
            Property::sometimes("a node is benched", |setup: &Self, state: &State| {
                setup.fails == 0 || state.levels().nodes().benched().next().is_some()
            }),
            Property::sometimes("a node comes back", |setup: &Self, state: &State| {
                let nodes = state.levels().nodes();
                let back = |node| nodes.counter(node) == 2;
                setup.passes == 0 || setup.fails == 0 || nodes.members().any(back)
            }),
        ]
    }
}
