//! What is known of every node and process: where it is, which incarnation, and whether it is dead.
//!
//! What is known only grows. It is a map from names to the newest incarnation and whether that is
//! dead, and merging two of them takes the greater of each entry, in any order and as often as one
//! likes: all who have heard the same facts know the same. The digest tells in one word whether two
//! know the same.
//!
//! A process dies with its node: it is on one life of a node, and dead when that life is over. So
//! the loss of a node is one fact, whoever is there.
//!
//! What is as it was at the launch takes no memory.
//!
//! Reference: `Reported` and `Hosted` of Zhong 2019 §4.3 and algorithm 1; the epochs of
//! Bland 2012 §III.A.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::{
    Cause, Host, Incarnation, Node, Process, Rank,
    layout::Layout,
    message::{Company, Fact},
    mix,
};
use crate::planted::planted;

/// What is known of a node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Life {
    incarnation: Incarnation,
    lost: bool,
}

/// What is known of a rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Holder {
    incarnation: Incarnation,
    /// Where it is; not known of one that was dead before we heard of it.
    host: Option<Host>,
    dead: Option<Cause>,
}

/// What one observer knows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Registry {
    layout: Arc<Layout>,
    nodes: BTreeMap<Node, Life>,
    processes: BTreeMap<Rank, Holder>,
    digest: u64,
}

impl Registry {
    /// All are alive, as launched.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, nodes: BTreeMap::new(), processes: BTreeMap::new(), digest: 0 }
    }

    /// Who was launched where.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A word that is the same for all who know the same, and else differs, but for odds of 2^−64.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The newest life of a node.
    pub fn host(&self, node: Node) -> Host {
        let incarnation = self.nodes.get(&node).map(|life| life.incarnation);
        Host { node, incarnation: incarnation.unwrap_or_default() }
    }

    /// True when this life of a node is over.
    pub fn is_lost(&self, host: Host) -> bool {
        let life = self.nodes.get(&host.node).copied().unwrap_or_default();
        host.incarnation < life.incarnation || (host.incarnation == life.incarnation && life.lost)
    }

    /// True when the newest life of a node is not over.
    pub fn is_alive(&self, node: Node) -> bool {
        !self.is_lost(self.host(node))
    }

    /// The nodes that live.
    pub fn company(&self) -> Company {
        let lost = self.nodes.values().filter(|life| life.lost).count() as u32;
        let mut all = (0..self.layout.nodes()).map(Node);
        let first = all.find(|node| self.is_alive(*node)).unwrap_or(Node(0));
        Company { nodes: self.layout.nodes() - lost, first }
    }

    /// Who holds a rank, dead or alive; `None` for a rank that nobody has heard of.
    pub fn holder(&self, rank: Rank) -> Option<Process> {
        self.record(rank).map(|holder| Process { rank, incarnation: holder.incarnation })
    }

    /// Where the process is, if it is the newest that holds its rank.
    pub fn host_of(&self, process: Process) -> Option<Host> {
        self.record(process.rank).filter(|it| it.incarnation == process.incarnation)?.host
    }

    /// Why a process is dead, if it is.
    pub fn cause(&self, process: Process) -> Option<Cause> {
        let holder = self.record(process.rank)?;
        if process.incarnation < holder.incarnation {
            return Some(Cause::Replaced);
        }
        if process.incarnation > holder.incarnation {
            return None;
        }
        let lost = holder.host.is_some_and(|host| self.is_lost(host));
        holder.dead.or_else(|| lost.then_some(Cause::NodeLost))
    }

    /// The living processes of one life of a node, by rank.
    pub fn hosted(&self, host: Host) -> Vec<Process> {
        if planted!(ForgetTheHosted) {
            return Vec::new();
        }
        let launched = self.layout.ranks_on(host.node).iter().copied();
        let launched = launched.filter(|rank| !self.processes.contains_key(rank));
        let mut ranks: Vec<Rank> = launched.chain(self.processes.keys().copied()).collect();
        ranks.sort_unstable();
        let holders = ranks.into_iter().filter_map(|rank| self.holder(rank));
        let here = |it: &Process| self.host_of(*it) == Some(host) && self.cause(*it).is_none();
        holders.filter(here).collect()
    }

    /// Takes a fact; true when it was not known.
    pub fn learn(&mut self, fact: Fact) -> bool {
        match fact {
            Fact::Died(process, cause) => self.learn_holder(process, None, Some(cause)),
            Fact::Joined(process, host) => {
                self.layout.contains(host.node) && self.learn_holder(process, Some(host), None)
            }
            Fact::Lost(host) => self.learn_life(host, true),
            Fact::Returned(host) => self.learn_life(host, false),
        }
    }

    /// All that differs from the launch.
    pub fn facts(&self) -> Vec<Fact> {
        let nodes = self.nodes.iter().map(|(&node, life)| {
            let host = Host { node, incarnation: life.incarnation };
            if life.lost { Fact::Lost(host) } else { Fact::Returned(host) }
        });
        let processes = self.processes.iter().map(|(&rank, holder)| {
            let process = Process { rank, incarnation: holder.incarnation };
            match (holder.dead, holder.host) {
                (None, Some(host)) => Fact::Joined(process, host),
                (cause, _) => Fact::Died(process, cause.unwrap_or(Cause::Ended)),
            }
        });
        nodes.chain(processes).collect()
    }

    fn record(&self, rank: Rank) -> Option<Holder> {
        self.processes.get(&rank).copied().or_else(|| {
            let host = Host { node: self.layout.node_of(rank)?, incarnation: Incarnation(0) };
            Some(Holder { incarnation: Incarnation(0), host: Some(host), dead: None })
        })
    }

    fn learn_life(&mut self, host: Host, lost: bool) -> bool {
        if !self.layout.contains(host.node) {
            return false;
        }
        let new = Life { incarnation: host.incarnation, lost };
        let old = self.nodes.get(&host.node).copied().unwrap_or_default();
        let raised = planted!(RaiseTheDead) && old.lost;
        let is_newer = new.incarnation > old.incarnation
            || (new.incarnation == old.incarnation && lost && !old.lost)
            || (new.incarnation == old.incarnation && raised);
        if is_newer || (planted!(TakeOldIncarnations) && new != old) {
            self.nodes.insert(host.node, new);
            self.digest ^= node_word(host.node, old) ^ node_word(host.node, new);
            return true;
        }
        false
    }

    fn learn_holder(&mut self, process: Process, host: Option<Host>, dead: Option<Cause>) -> bool {
        let Process { rank, incarnation } = process;
        let old = self.record(rank);
        let new = match old {
            Some(old) if incarnation < old.incarnation && !planted!(TakeOldIncarnations) => {
                return false;
            }
            Some(old) if incarnation == old.incarnation => {
                if old.dead.is_some() || dead.is_none() {
                    return false;
                }
                Holder { dead, ..old }
            }
            _ => Holder { incarnation, host, dead },
        };
        // What was as launched had no part in the digest.
        let before = self.processes.insert(rank, new).map_or(0, |old| rank_word(rank, old));
        self.digest ^= before ^ rank_word(rank, new);
        true
    }
}

/// The part of a node in the digest; none while it is as launched.
fn node_word(node: Node, life: Life) -> u64 {
    if life == Life::default() {
        return 0;
    }
    let name = mix(u64::from(node.0) << 1);
    mix(name ^ (u64::from(life.incarnation.0) << 1 | u64::from(life.lost)))
}

/// The part of a rank in the digest. Causes are for those who read them: the first one told stays.
fn rank_word(rank: Rank, holder: Holder) -> u64 {
    let name = mix(u64::from(rank.0) << 1 | 1);
    mix(name ^ (u64::from(holder.incarnation.0) << 1 | u64::from(holder.dead.is_some())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn host(node: u32, incarnation: u32) -> Host {
        Host { node: Node(node), incarnation: Incarnation(incarnation) }
    }

    fn process(rank: u32, incarnation: u32) -> Process {
        Process { rank: Rank(rank), incarnation: Incarnation(incarnation) }
    }

    fn registry() -> Registry {
        Registry::new(Arc::new(Layout::regular(3, 2)))
    }

    #[test]
    fn a_node_takes_its_processes_with_it_also_those_that_came_later() {
        let mut it = registry();
        assert!(it.learn(Fact::Died(process(0, 0), Cause::Signal(9))));
        assert!(it.learn(Fact::Joined(process(0, 1), host(1, 0))));
        assert_eq!(it.hosted(host(1, 0)), [process(0, 1), process(2, 0), process(3, 0)]);
        assert!(it.learn(Fact::Lost(host(1, 0))));
        assert_eq!(it.hosted(host(1, 0)), []);
        for (rank, cause) in [(0, Cause::NodeLost), (2, Cause::NodeLost)] {
            assert_eq!(it.cause(it.holder(Rank(rank)).expect("known")), Some(cause));
        }
        assert_eq!(it.cause(process(0, 0)), Some(Cause::Replaced));
        assert!(it.learn(Fact::Joined(process(4, 1), host(1, 0))));
        assert_eq!(it.cause(process(4, 1)), Some(Cause::NodeLost), "it came to a dead node");
    }

    #[test]
    fn the_past_changes_nothing() {
        let mut it = registry();
        assert!(it.learn(Fact::Joined(process(1, 2), host(2, 0))));
        assert!(it.learn(Fact::Returned(host(0, 1))));
        let before = it.clone();
        let past = [
            Fact::Died(process(1, 1), Cause::Ended),
            Fact::Joined(process(1, 2), host(0, 1)),
            Fact::Lost(host(0, 0)),
            Fact::Returned(host(0, 1)),
            Fact::Lost(host(7, 0)),
            Fact::Joined(process(1, 9), host(3, 0)),
        ];
        for fact in past {
            assert!(!it.learn(fact), "{fact:?}");
        }
        assert_eq!(it, before);
    }

    fn fact() -> impl Strategy<Value = Fact> {
        let process = (0_u32..7, 0_u32..3).prop_map(|(rank, life)| process(rank, life));
        // An incarnation of a rank is in one place, as whoever starts it sees to.
        let joined = process.clone().prop_map(|it| {
            let node = (it.rank.0 + it.incarnation.0) % 3;
            let launched = it.incarnation.0 == 0;
            Fact::Joined(it, host(if launched { it.rank.0 / 2 % 3 } else { node }, 0))
        });
        let host = (0_u32..3, 0_u32..3).prop_map(|(node, life)| host(node, life));
        prop_oneof![
            process.prop_map(|it| Fact::Died(it, Cause::Ended)),
            joined,
            host.clone().prop_map(Fact::Lost),
            host.prop_map(Fact::Returned),
        ]
    }

    proptest! {
        #[test]
        fn who_heard_the_same_knows_the_same(
            facts in prop::collection::vec(fact(), 0..20), order in any::<u64>()
        ) {
            let (mut one, mut other) = (registry(), registry());
            let mut shuffled = facts.clone();
            shuffled.sort_by_key(|fact| {
                let mut probe = registry();
                probe.learn(*fact);
                mix(probe.digest() ^ order)
            });
            let mut changes = 0;
            for fact in &facts {
                let before = one.digest();
                let new = one.learn(*fact);
                prop_assert_eq!(new, one.digest() != before);
                changes += usize::from(new);
            }
            prop_assert!(changes <= facts.len());
            for fact in shuffled {
                other.learn(fact);
            }
            prop_assert_eq!(one.digest(), other.digest());
            let mut third = registry();
            for fact in one.facts() {
                third.learn(fact);
            }
            prop_assert_eq!(third.digest(), one.digest());
            let dead = |it: &Registry| -> Vec<bool> {
                (0..7).map(|rank| it.cause(process(rank, 0)).is_some()).collect()
            };
            prop_assert_eq!(dead(&one), dead(&other));
            prop_assert_eq!(vec![one.facts().len()], vec![other.facts().len()]);
        }
    }
}
