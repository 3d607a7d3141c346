//! The group on two levels, which make one: ranks, and the nodes that they are on.
//!
//! The observer of a node tests the ranks of its node, and is trusted with them ([`Rule::Own`]).
//! Observers test each other, too, and may disagree; so who goes of the nodes is a rule, and a
//! return is a ballot. Whoever works is a member on both levels: a benched node takes all its ranks
//! along.
//!
//! ```text
//! rank level    rank ◀─ observer of its node                 one tester, no rule
//! node level    node ◀─ observers of the other nodes         a rule; ζ/2 of the nodes that vote
//! the group     ranks that are members, on nodes that are
//! ```
//!
//! A node speaks, as a tester, while one of its ranks works. One that has lost all its ranks is as
//! good as dead, until a new process is placed on it.
//!
//! **Guarantees** of each level what [`Membership`] does; where no living rank is a member on both,
//! all who live are.

use alloc::vec::Vec;

use super::{Membership, Report, Terms, removal::Rule};
use crate::{
    protocol::planted::planted,
    rank::{Rank, RankSet},
};

/// Among so many nodes the observer of each tests all others; among more nodes each is tested by
/// some, which are those that have something to say of it.
pub const MOST_WITH_ALL: u32 = 64;

/// The group of ranks, and what it is made of.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Levels {
    /// Who works.
    view: Membership,
    /// The ranks, by what their own observers say.
    ranks: Membership,
    /// The nodes, by what the observers of others say.
    nodes: Membership,
    /// The node of each rank, if it has an observer.
    places: Vec<Option<u32>>,
}

/// All that a census has brought, the same on all ranks.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// The living ranks of the launch, and the node of each if it has an observer.
    pub living: Vec<(Rank, Option<u32>)>,
    /// How many nodes have observers.
    pub nodes: u32,
    /// Ranks that have new processes, and those of them that are on probation.
    pub replaced: RankSet,
    pub proving: RankSet,
    /// What observers say of the ranks of their nodes: testers are the ranks themselves.
    pub of_ranks: Vec<Report>,
    /// What they say of other nodes.
    pub of_nodes: Vec<Report>,
}

impl Levels {
    /// So many ranks, which are all members; of their nodes nothing is known.
    pub fn of_all(ranks: u32) -> Self {
        let all = Membership::of_all(ranks);
        let places = (0..ranks).map(|_| None).collect();
        Self { view: all.clone(), ranks: all, nodes: Membership::of_all(0), places }
    }

    /// Who works, on both levels.
    pub fn view(&self) -> &Membership {
        &self.view
    }

    /// The ranks, whatever becomes of their nodes.
    pub fn ranks(&self) -> &Membership {
        &self.ranks
    }

    /// The nodes, by their numbers among those that have observers.
    pub fn nodes(&self) -> &Membership {
        &self.nodes
    }

    /// The node of a rank, if it has an observer.
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.places.get(rank.index()).copied().flatten()
    }

    /// True if the observer of this node is heard as a tester of others: some rank of it works.
    pub fn hears(&self, node: u32) -> bool {
        self.view.members().any(|rank| self.node_of(rank) == Some(node))
    }

    /// The levels after a census, by this rule for nodes.
    #[must_use]
    pub fn next(&self, terms: Terms, brought: &Brought) -> Self {
        let mut next = self.clone();
        for (rank, place) in &brought.living {
            next.places[rank.index()] = *place;
        }
        let living: RankSet = brought.living.iter().map(|(rank, _)| *rank).collect();
        let all: RankSet = (0..self.places.len()).map(Rank::from).collect();
        let (dead, proves) = (all.difference(&living), |it| brought.proving.contains(it));
        let ranks = self.ranks.with_replaced(&brought.replaced, proves);
        let own = Terms { rule: Rule::Own, ..terms };
        next.ranks = ranks.next(own, &brought.of_ranks, &dead, |tester, target| tester == target);
        next.nodes = next.nodes_after(terms, brought, &living);
        if !living.iter().any(|rank| next.works(rank)) {
            (next.ranks, next.nodes) = (next.ranks.with_all_back(), next.nodes.with_all_back());
        }
        let view = self.view.with_replaced(&brought.replaced, proves);
        next.view = view.settled(&dead, |rank| next.works(rank));
        next
    }

    fn nodes_after(&self, terms: Terms, brought: &Brought, living: &RankSet) -> Membership {
        let before = self.nodes.grown_to(brought.nodes);
        let on = |node: Rank| living.iter().filter(move |it| self.is_on(*it, node));
        let all = || (0..before.size()).map(Rank::new);
        let empty: RankSet = all().filter(|node| on(*node).next().is_none()).collect();
        let filled = all().filter(|node| before.is_dead(*node) && !empty.contains(*node)).collect();
        let all_test = before.size() <= MOST_WITH_ALL;
        let tests = |tester, target| {
            let of_both = |it: &Report| (it.tester, it.target) == (tester, target);
            all_test || brought.of_nodes.iter().any(of_both)
        };
        let works = |node| planted!(HearTheIdle) || on(node).any(|it| self.ranks.is_member(it));
        let votes = |tester, target| works(tester) && tests(tester, target);
        let before = before.with_replaced(&filled, |_| false);
        let before = if planted!(TakeItsWord) { before.with_all_back() } else { before };
        before.next(terms, &brought.of_nodes, &empty, votes)
    }

    fn is_on(&self, rank: Rank, node: Rank) -> bool {
        self.node_of(rank) == Some(node.number())
    }

    /// Whether a rank is a member on both levels.
    fn works(&self, rank: Rank) -> bool {
        let node = self.node_of(rank).map(Rank::new);
        let with_node = node.is_none_or(|node| self.nodes.is_member(node));
        self.ranks.is_member(rank) && (with_node || planted!(LeaveTheRanksIn))
    }

    /// All of it as words, for who knows nothing: the nodes come last.
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = self.view.to_words();
        words.extend(self.ranks.to_words());
        words.extend(self.places.iter().map(|place| place.map_or(0, |node| u64::from(node) + 1)));
        words.extend(self.nodes.to_words());
        words
    }

    /// With so many nodes at least.
    #[must_use]
    pub fn grown_to(&self, nodes: u32) -> Self {
        Self { nodes: self.nodes.grown_to(nodes), ..self.clone() }
    }

    /// This rank is on that node, of so many: what it knows itself before the first census.
    pub fn meet(&mut self, me: Rank, (node, nodes): (u32, u32)) {
        if self.nodes.size() < nodes {
            self.nodes = self.nodes.grown_to(nodes);
        }
        if let Some(place) = self.places.get_mut(me.index()) {
            place.get_or_insert(node);
        }
    }

    /// The levels of so many ranks in these words, if they are some.
    pub fn of_words(words: &[u64], ranks: usize) -> Option<Self> {
        let (view, words) = words.split_at_checked(ranks + 1)?;
        let (own, words) = words.split_at_checked(ranks + 1)?;
        let (places, nodes) = words.split_at_checked(ranks)?;
        let place = |word: &u64| word.checked_sub(1).map(|node| node as u32);
        Some(Self {
            view: Membership::of_words(view)?,
            ranks: Membership::of_words(own)?,
            nodes: Membership::of_words(nodes)?,
            places: places.iter().map(place).collect(),
        })
    }
}
