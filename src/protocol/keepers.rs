//! Who keeps what for whom: the partner of each place, and the groups that share a code, so that
//! the loss of a node takes as few states as can be with what was kept of them.
//!
//! Where places share one node, or their nodes are unknown, the partner of a place is half of the
//! places further on, and a group has places that are equally far apart. Otherwise:
//!
//! - Who would have a partner on its own node exchanges partners with the next place behind it
//!   where that brings both to another node. Only where more than half of the places share a node
//!   some of them have to keep each other's copies.
//! - Groups are dealt out node by node, so that each has as few places of a node as can be.

use alloc::vec::Vec;

use super::{placement, redundancy::Redundancy};

/// Who keeps what among so many places: a function of their nodes alone.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Keepers {
    size: u32,
    /// The node of each place, numbered in the order of their first places; empty where there is
    /// one node, as are the other two.
    nodes: Vec<u32>,
    /// The partner of each place.
    partners: Vec<u32>,
    /// Whose partner each place is.
    wards: Vec<u32>,
}

impl Keepers {
    /// Among so many places, on nodes that have numbers of any kind; where those are unknown there
    /// are none.
    pub fn new(size: u32, nodes: &[u32]) -> Self {
        let nodes = placement::numbered(nodes);
        if nodes.iter().all(|node| *node == 0) || nodes.len() != size as usize {
            return Self { size, ..Self::default() };
        }
        let partners = partners(&nodes);
        let mut wards = alloc::vec![0; nodes.len()];
        for (ward, partner) in (0..).zip(&partners) {
            wards[*partner as usize] = ward;
        }
        Self { size, nodes, partners, wards }
    }

    /// The node of each place; nothing where they share one, or it is unknown.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// A number for these nodes; 0 where there are none.
    pub fn fingerprint(&self) -> u64 {
        if self.nodes.is_empty() { 0 } else { placement::fingerprint(&self.nodes) }
    }

    /// The place that keeps the copy of this one; nothing for one that is alone.
    pub fn partner(&self, place: u32) -> Option<u32> {
        let known = self.partners.get(place as usize).copied();
        (self.size > 1).then(|| known.unwrap_or((place + self.size / 2) % self.size))
    }

    /// The place whose copy this one keeps; nothing for one that is alone.
    pub fn ward(&self, place: u32) -> Option<u32> {
        let known = self.wards.get(place as usize).copied();
        let behind = self.size - self.size / 2;
        (self.size > 1).then(|| known.unwrap_or((place + behind) % self.size))
    }

    /// The groups that share a code.
    pub fn groups(&self, redundancy: Redundancy) -> Vec<Vec<u32>> {
        let mut order: Vec<u32> = (0..self.size).collect();
        order.sort_by_key(|place| self.nodes.get(*place as usize));
        let groups = redundancy.groups(self.size) as usize;
        let members = |group: usize| order.iter().copied().skip(group).step_by(groups).collect();
        (0..groups).map(members).collect()
    }
}

fn partners(nodes: &[u32]) -> Vec<u32> {
    let size = nodes.len();
    let mut partners: Vec<u32> =
        (0..size).map(|place| ((place + size / 2) % size) as u32).collect();
    for place in 0..size {
        let share = |place: usize, partner: u32| nodes[place] == nodes[partner as usize];
        if !share(place, partners[place]) {
            continue;
        }
        let mut others = (1..size).map(|behind| (place + behind) % size);
        let fits =
            |other: &usize| !share(place, partners[*other]) && !share(*other, partners[place]);
        // If none fits, all that are elsewhere have their partners on this node, and all that share
        // a node with theirs are on this one: the others cannot do better, either.
        let Some(other) = others.find(fits) else { break };
        partners.swap(place, other);
    }
    partners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::mix;

    /// Nodes of so many places: in blocks, round and round, one large, at random.
    fn placements(size: u32) -> impl Iterator<Item = Vec<u32>> {
        let of = move |node: &dyn Fn(u32) -> u32| (0..size).map(node).collect::<Vec<u32>>();
        let by_rule = [
            of(&|place| place / 2),
            of(&|place| place % 2),
            of(&|place| place % 3),
            of(&|place| place.saturating_sub(size / 2)),
            of(&|place| u32::from(place == 0)),
            of(&|_| 7),
            Vec::new(),
        ];
        let by_chance = (0..200_u64).map(move |seed| {
            let most = 1 + mix(seed) % 6;
            of(&|place| (mix(mix(seed) ^ u64::from(place)) % most) as u32)
        });
        by_rule.into_iter().chain(by_chance)
    }

    fn largest(nodes: &[u32]) -> usize {
        let count = |node: &u32| nodes.iter().filter(|other| *other == node).count();
        nodes.iter().map(count).max().unwrap_or_default()
    }

    #[test]
    fn each_place_keeps_one_copy_and_as_few_as_can_be_on_the_node_they_are_of() {
        for size in 2..20 {
            for nodes in placements(size) {
                let keepers = Keepers::new(size, &nodes);
                let node = |place: u32| nodes.get(place as usize);
                let mut sharing = 0;
                for place in 0..size {
                    let partner = keepers.partner(place).expect("not alone");
                    assert_eq!(keepers.ward(partner), Some(place), "{nodes:?}");
                    assert_ne!(partner, place, "{nodes:?}");
                    sharing += usize::from(node(place) == node(partner));
                }
                // Of a node with more than half of the places only so many can go elsewhere.
                let fewest = (2 * largest(&nodes)).saturating_sub(size as usize);
                let unknown = nodes.is_empty() || largest(&nodes) == size as usize;
                assert!(unknown || sharing == fewest, "{sharing} of {nodes:?}");
            }
        }
    }

    #[test]
    fn a_group_has_as_few_places_of_a_node_as_can_be() {
        for size in 2..20 {
            for nodes in placements(size).filter(|nodes| !nodes.is_empty()) {
                let keepers = Keepers::new(size, &nodes);
                for ranks in 2..6 {
                    let groups = keepers.groups(Redundancy::Group { ranks, losses: 1 });
                    let most = largest(&nodes).div_ceil(groups.len());
                    for group in &groups {
                        let nodes: Vec<u32> = group.iter().map(|it| nodes[*it as usize]).collect();
                        assert!(largest(&nodes) <= most, "{nodes:?} of {groups:?}");
                    }
                    let mut all: Vec<u32> = groups.concat();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..size));
                }
            }
        }
    }

    #[test]
    fn only_who_shares_a_node_counts() {
        let [one, other] = [[4, 4, 9, 9, 4], [1, 1, 0, 0, 1]].map(|it| Keepers::new(5, &it));
        assert_eq!((one.fingerprint(), &one), (other.fingerprint(), &other));
        let flat = Keepers::new(5, &[3; 5]);
        assert_eq!((flat.fingerprint(), &flat), (0, &Keepers::new(5, &[])));
        assert_eq!(
            flat.groups(Redundancy::Group { ranks: 2, losses: 1 }),
            [[0, 2, 4].to_vec(), [1, 3].to_vec()]
        );
        assert_eq!((Keepers::new(1, &[0]).partner(0), Keepers::default().ward(0)), (None, None));
    }
}
