//! What one rank knows of the group and of itself: what it tells the others in a census, and the
//! group that it makes of what all have told.
//!
//! The observer of each node tests its ranks, so each rank brings what was counted of itself
//! ([`Rule::Own`]). Observers test each other, too: for that of a node speaks its lowest living
//! rank, of those that have accepted a census if some have. Members are numbered by their ranks at
//! the start, which they keep when communicators shrink, nodes by their numbers among those that
//! have observers ([`levels`](super::levels)).
//!
//! **Guarantees** that ranks which have accepted the same censuses hold the same group.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use super::{
    Finding, Membership, Report, Terms,
    evidence::{ACCUSATION, Evidence, Opinion, Tested, Tests},
    levels::{Brought, Levels},
    removal::Rule,
};
use crate::{
    protocol::planted::planted,
    rank::{Rank, RankSet},
};

/// What becomes of living ranks that fail tests; the same on all ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Slow {
    /// They keep their work: only the dead leave the group.
    Stay,
    /// They are benched for good.
    Leave,
    /// They are benched until they have passed ζ tests in a row.
    Return,
    /// So are they, and so is at first who takes the place of a dead one, if it is tested.
    Probation,
}

/// What one tester has to report.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Voice {
    tester: Rank,
    evidence: Evidence,
    /// What was counted of each target at the last look.
    seen: Vec<Opinion>,
}

/// The group as one rank knows it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member {
    me: Rank,
    slow: Slow,
    /// Of nodes.
    terms: Terms,
    levels: Levels,
    /// What was counted of this rank, among opinions of all, of which no other is known here.
    own: Voice,
    /// What the observer of this node has counted of others.
    others: Option<Voice>,
    /// What this rank has to say of nodes in a census, if it speaks for its own.
    of_nodes: Vec<u64>,
}

impl Voice {
    /// What was before is held against nobody.
    fn start(tester: Rank, seen: Vec<Opinion>) -> Self {
        Self { tester, evidence: Evidence::start(tester, &seen), seen }
    }
}

impl Member {
    /// One of so many ranks, which are all members; what was counted before counts for nothing.
    pub fn new(me: Rank, ranks: u32, slow: Slow, tests: &impl Tests) -> Self {
        let own = Voice::start(me, vec![Opinion::default(); ranks as usize]);
        let (terms, levels, of_nodes) = (Terms::default(), Levels::of_all(ranks), Vec::new());
        let mut member = Self { me, slow, terms, levels, own, others: None, of_nodes };
        member.look(tests);
        member.own = Voice::start(me, member.own.seen);
        member
    }

    /// With this rule for nodes that accuse each other, the same on all ranks.
    #[must_use]
    pub fn by(mut self, rule: Rule) -> Self {
        self.terms.rule = rule;
        self
    }

    /// The number of this member.
    pub fn number(&self) -> Rank {
        self.me
    }

    /// The group as all ranks know it.
    pub fn view(&self) -> &Membership {
        self.levels.view()
    }

    /// What the group is made of.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Looks at what was counted, if anybody is tested and that matters.
    fn look(&mut self, tests: &impl Tests) -> Option<Tested> {
        let tested = tests.tested().filter(|_| self.slow != Slow::Stay)?;
        self.terms.zeta = tested.zeta;
        if let Some(own) = self.own.seen.get_mut(self.me.index()) {
            *own = tested.opinion;
        }
        let (node, nodes) = tested.node;
        self.levels.meet(self.me, tested.node);
        let seen = |node| tests.of_node(node);
        match &mut self.others {
            Some(voice)
                if voice.tester == Rank::new(node) && voice.seen.len() == nodes as usize =>
            {
                (0..nodes).zip(&mut voice.seen).for_each(|(node, place)| *place = seen(node));
            }
            others => *others = Some(Voice::start(Rank::new(node), (0..nodes).map(seen).collect())),
        }
        Some(tested)
    }

    /// The opinions of the observer of this node on others, if they count.
    fn heard(&self) -> Option<&Voice> {
        let others = self.others.as_ref();
        others.filter(|it| self.levels.hears(it.tester.number()) || planted!(HearTheIdle))
    }

    /// The word that rides on a commit: 0 while nothing is new.
    pub fn news(&mut self, tests: &impl Tests) -> u32 {
        if self.look(tests).is_none() {
            return 0;
        }
        let own = self.own.evidence.news(self.levels.ranks(), self.own_terms(), &self.own.seen);
        let of_nodes = self.heard().map_or(0, |others| {
            others.evidence.news(self.levels.nodes(), self.terms, &others.seen)
        });
        let word = own | of_nodes;
        if self.slow == Slow::Leave { word & ACCUSATION } else { word }
    }

    /// A finding as a number, if it matters.
    fn told(&self, finding: Finding) -> u64 {
        match finding {
            Finding::Accused => ACCUSED,
            Finding::Passed(_) if self.slow == Slow::Leave => NOTHING,
            Finding::Passed(streak) => PASSED + u64::from(streak),
        }
    }

    /// What this rank tells all others at first.
    fn tell(&mut self, knows: bool, tests: &impl Tests) -> Row {
        let mut row = Row { member: self.me.number(), knows, ..Row::default() };
        row.nodes = self.levels.nodes().size();
        self.of_nodes.clear();
        let Some(tested) = self.look(tests) else { return row };
        let Voice { evidence, seen, .. } = &self.own;
        let mut reports = evidence.reports(self.levels.ranks(), self.own_terms(), seen);
        row.finding = reports.next().map_or(NOTHING, |report| self.told(report.finding));
        let others = self.heard().into_iter().flat_map(|others| {
            others.evidence.reports(self.levels.nodes(), self.terms, &others.seen)
        });
        let word =
            |it: Report| (self.told(it.finding), u64::from(it.target.number()) << TARGET_BIT);
        let words = others.map(word).filter(|(finding, _)| *finding != NOTHING);
        self.of_nodes = words.map(|(finding, target)| finding | target).collect();
        row.zeta = tested.zeta;
        row.node = Some(tested.node.0);
        row.nodes = self.levels.nodes().size();
        row.reports = self.of_nodes.len();
        row
    }

    /// The block in which all told each other counts: this is the group now.
    pub fn accept(&mut self, levels: Levels) {
        let terms = self.own_terms();
        let Voice { evidence, seen, .. } = &mut self.own;
        evidence.handle_census((self.levels.ranks(), levels.ranks()), terms, seen);
        if let Some(Voice { tester, evidence, seen }) = &mut self.others {
            let (node, nodes) = (tester.number(), (self.levels.nodes(), levels.nodes()));
            if self.levels.hears(node) && levels.hears(node) {
                evidence.handle_census(nodes, self.terms, seen);
            } else if !planted!(AccuseAgain) {
                // It saw the others in a bad moment of its own.
                *evidence = Evidence::start(*tester, seen);
            }
        }
        self.levels = levels;
    }

    /// Each rank is tested by its own observer alone, which is trusted.
    fn own_terms(&self) -> Terms {
        Terms { rule: Rule::Own, ..self.terms }
    }
}

/// Words of a row of a census.
pub const ROW_WORDS: usize = 7;

const NOTHING: u64 = 0;
const ACCUSED: u64 = 1;
/// Added to a number of tests passed in a row.
const PASSED: u64 = 2;
/// Above a finding is the number of the node of which it is.
const TARGET_BIT: u32 = 34;

/// The first word of a row that no rank has told.
const NOBODY: u64 = u64::MAX;

/// What one rank tells all others at first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Row {
    member: u32,
    /// It has accepted a census before.
    knows: bool,
    /// What its observer has found of it.
    finding: u64,
    /// ζ, or 0 if nobody tests it.
    zeta: u32,
    /// Its node, if that has an observer.
    node: Option<u32>,
    /// How many nodes it knows.
    nodes: u32,
    /// How many reports on nodes it has.
    reports: usize,
}

impl Row {
    fn words(self) -> [u64; ROW_WORDS] {
        let node = self.node.map_or(0, |node| u64::from(node) + 1);
        let Self { member, knows, finding, zeta, nodes, reports, .. } = self;
        [member.into(), knows.into(), finding, zeta.into(), node, nodes.into(), reports as u64]
    }

    fn of_words(words: &[u64; ROW_WORDS]) -> Option<Self> {
        let [member, knows, finding, zeta, node, nodes, reports] = *words;
        let node = node.checked_sub(1).map(|node| node as u32);
        let (zeta, nodes, reports) = (zeta as u32, nodes as u32, reports as usize);
        let (member, knows) = (member as u32, knows == 1);
        let row = Self { member, knows, finding, zeta, node, nodes, reports };
        (words[0] != NOBODY).then_some(row)
    }

    fn rank(&self) -> Rank {
        Rank::new(self.member)
    }
}

/// What all living ranks of a communicator have told each other, by rank: their numbers, whether
/// they have accepted a census before, and what was counted of them; and what those say of nodes
/// who speak for one, if any does.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Census {
    rows: Vec<Option<Row>>,
    of_nodes: Vec<u64>,
}

impl Census {
    /// The words of so many ranks before anybody has told anything but this one: a member that has
    /// accepted a census before, or has not.
    pub fn words(
        member: &mut Member,
        knows: bool,
        tests: &impl Tests,
        (rank, ranks): (usize, usize),
    ) -> Vec<u64> {
        let mut rows = vec![[NOBODY; ROW_WORDS]; ranks];
        rows[rank] = member.tell(knows, tests).words();
        rows.concat()
    }

    /// The rows in these words.
    pub fn of_words(words: &[u64]) -> Self {
        let rows = words.as_chunks().0.iter().map(Row::of_words).collect();
        Self { rows, of_nodes: Vec::new() }
    }

    /// What each rank has told.
    fn told(&self) -> impl Iterator<Item = (usize, Row)> + '_ {
        self.rows.iter().enumerate().filter_map(|(rank, row)| Some((rank, (*row)?)))
    }

    /// What those have told who speak for their nodes. Who begins among others who do not has
    /// judged by a group that it did not know.
    fn speakers(&self) -> impl Iterator<Item = (usize, Row)> + '_ {
        let all_begin = self.told().all(|(_, row)| !row.knows);
        self.told().filter(move |(rank, row)| {
            let of_node = self.told().filter(|(_, it)| it.node == row.node);
            let first = of_node.max_by_key(|(rank, it)| (it.knows, Reverse(*rank)));
            let is_first = first.is_some_and(|(first, _)| first == *rank);
            row.node.is_some() && is_first && (row.knows || all_begin)
        })
    }

    /// So many words of each rank have to follow, the same on all ranks: what is said of nodes.
    pub fn more(&self) -> usize {
        self.speakers().map(|(_, row)| row.reports).max().unwrap_or(0)
    }

    /// These words of all ranks, before anybody has told any but this one.
    pub fn more_words(&self, member: &Member, (rank, ranks): (usize, usize)) -> Vec<u64> {
        let more = self.more();
        let mut words = vec![NOTHING; more * ranks];
        let own = words[rank * more..].iter_mut();
        own.zip(&member.of_nodes).for_each(|(place, word)| *place = *word);
        words
    }

    /// All ranks have told these words.
    pub fn add(&mut self, words: Vec<u64>) {
        self.of_nodes = words;
    }

    /// The rank that tells the group to those who begin, if some begin among others who do not.
    pub fn speaker(&self) -> Option<usize> {
        let speaker = self.told().find(|(_, row)| row.knows);
        let begins = self.told().any(|(_, row)| !row.knows);
        speaker.filter(|_| begins).map(|(rank, _)| rank)
    }

    fn nodes(&self) -> u32 {
        self.told().map(|(_, row)| row.nodes).max().unwrap_or(0)
    }

    /// The words by which that rank tells them; of others, as many.
    pub fn group_words(&self, member: &Member) -> Vec<u64> {
        member.levels.grown_to(self.nodes()).to_words()
    }

    /// A member that begins learns the group from these words. False if they are none.
    pub fn teach(member: &mut Member, words: &[u64]) -> bool {
        let ranks = member.own.seen.len();
        let levels = Levels::of_words(words, ranks);
        let known = levels.is_some();
        if !planted!(TellNoNewcomer) {
            member.levels = levels.unwrap_or_else(|| Levels::of_all(ranks as u32));
        }
        known
    }

    /// The group after it, which this member knew before as all others did.
    pub fn next(&self, member: &mut Member) -> Levels {
        let zeta = self.told().map(|(_, row)| row.zeta).max();
        member.terms.zeta = zeta.filter(|zeta| *zeta > 0).unwrap_or(member.terms.zeta);
        let some_begin = self.speaker().is_some();
        let new = || self.told().filter(|(_, row)| some_begin && !row.knows);
        let proves = |row: &Row| member.slow == Slow::Probation && row.zeta > 0;
        let of_rank = |(_, row): (usize, Row)| {
            let finding = finding_of(row.finding)?;
            Some(Report { tester: row.rank(), target: row.rank(), finding })
        };
        let brought = Brought {
            living: self.told().map(|(_, row)| (row.rank(), row.node)).collect(),
            nodes: self.nodes(),
            replaced: new().map(|(_, row)| row.rank()).collect(),
            proving: new().filter(|(_, row)| proves(row)).map(|(_, row)| row.rank()).collect(),
            of_ranks: self.told().filter_map(of_rank).collect(),
            of_nodes: self.reports(),
        };
        member.levels.next(member.terms, &brought)
    }

    /// What is said of nodes.
    fn reports(&self) -> Vec<Report> {
        let more = self.more();
        let of_speaker = |(rank, row): (usize, Row)| {
            let words = self.of_nodes.get(rank * more..).unwrap_or_default();
            words.iter().take(row.reports).filter_map(move |word| {
                let target = Rank::new((word >> TARGET_BIT) as u32);
                let finding = finding_of(word & ((1 << TARGET_BIT) - 1))?;
                Some(Report { tester: Rank::new(row.node?), target, finding })
            })
        };
        self.speakers().flat_map(of_speaker).collect()
    }

    /// The ranks of the communicator whose members are benched in this group.
    pub fn benched(&self, view: &Membership) -> RankSet {
        let benched = self.told().filter(|(_, row)| view.is_benched(row.rank()));
        benched.map(|(rank, _)| Rank::from(rank)).collect()
    }
}

fn finding_of(number: u64) -> Option<Finding> {
    match number {
        NOTHING => None,
        ACCUSED => Some(Finding::Accused),
        passed => Some(Finding::Passed((passed - PASSED) as u32)),
    }
}

#[cfg(test)]
mod tests;
