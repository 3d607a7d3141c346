//! The order of the ring: neighbours should not fail together.
//!
//! Who observes a node must outlive it, and nodes that fail at once should not stand in a row.
//! Names of nodes often say where they stand: of `x1000c2s3b0n1` the cabinet is `x1000`, the
//! chassis `x1000c2`, and so on; each number ends the name of an enclosure, the last one that of
//! the node. The nodes of the largest enclosure take every second place, then those of the next
//! one, around the ring until all have one.
//!
//! **Guarantees** that no two neighbours share a cabinet if no cabinet has more than half of the
//! nodes; within what has more, the same for its chassis, as far as it goes.
//!
//! Reference: Zhong 2019 §5.6.

use alloc::vec::Vec;

use super::Node;

/// A ring of the nodes with these names, the first of which is that of node 0. Every node that is
/// given the same names finds the same ring.
pub fn spread<S: AsRef<str>>(names: &[S]) -> Vec<Node> {
    let named = names.iter().enumerate();
    let nodes = named.map(|(at, name)| (Node(at as u32), parts(name.as_ref()))).collect();
    interleave(nodes, 0)
}

/// The name up to its first point, cut after every number.
fn parts(name: &str) -> Vec<&str> {
    let mut rest = name.split('.').next().unwrap_or_default();
    let mut parts = Vec::new();
    while let Some(digit) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[digit..].find(|c: char| !c.is_ascii_digit());
        let (part, more) = rest.split_at(digits.map_or(rest.len(), |digits| digit + digits));
        parts.push(part);
        rest = more;
    }
    parts
}

/// Spreads nodes that are in the same enclosures down to this depth.
fn interleave(mut nodes: Vec<(Node, Vec<&str>)>, depth: usize) -> Vec<Node> {
    // The last part names the node itself.
    if nodes.iter().all(|(_, parts)| parts.len() <= depth + 1) {
        return nodes.into_iter().map(|(node, _)| node).collect();
    }
    let mut enclosures: Vec<Vec<(Node, Vec<&str>)>> = Vec::new();
    nodes.sort_by(|one, other| one.1.get(depth).cmp(&other.1.get(depth)).then(one.0.cmp(&other.0)));
    for node in nodes {
        match enclosures.last_mut().filter(|last| last[0].1.get(depth) == node.1.get(depth)) {
            Some(last) => last.push(node),
            None => enclosures.push(alloc::vec![node]),
        }
    }
    enclosures.sort_by_key(|enclosure| core::cmp::Reverse(enclosure.len()));
    let alone = enclosures.len() == 1;
    let in_a_row: Vec<Node> =
        enclosures.into_iter().flat_map(|enclosure| interleave(enclosure, depth + 1)).collect();
    if alone {
        return in_a_row;
    }
    let count = in_a_row.len();
    let mut ring = in_a_row.clone();
    let places = (0..count).step_by(2).chain((1..count).step_by(2));
    places.zip(in_a_row).for_each(|(place, node)| ring[place] = node);
    ring
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String, vec};
    use proptest::prelude::*;

    #[test]
    fn names_are_cut_after_every_number() {
        assert_eq!(parts("x1000c2s3b0n1.site.org"), ["x1000", "c2", "s3", "b0", "n1"]);
        assert_eq!(parts("node-17-a"), ["node-17"]);
        assert_eq!(parts("login"), [""; 0]);
    }

    #[test]
    fn names_that_show_nothing_keep_their_order() {
        let names: Vec<String> = (0..9).map(|node| format!("nid{node:05}")).collect();
        assert_eq!(spread(&names), (0..9).map(Node).collect::<Vec<_>>());
        assert_eq!(spread::<&str>(&[]), vec![]);
        assert_eq!(spread(&["a", "a"]), [0, 1].map(Node));
    }

    #[test]
    fn one_cabinet_is_spread_over_its_chassis() {
        let names = ["r1c1n1", "r1c1n2", "r1c2n1", "r1c2n2"];
        assert_eq!(spread(&names), [0, 2, 1, 3].map(Node));
    }

    proptest! {
        #[test]
        fn neighbours_share_no_cabinet_unless_one_has_most_nodes(
            cabinets in prop::collection::vec((0_u32..5, 0_u32..3), 2..40)
        ) {
            let nodes = cabinets.iter().enumerate();
            let name = |(node, (cabinet, chassis)): (usize, &(u32, u32))| {
                format!("r{cabinet}c{chassis}n{node}")
            };
            let names: Vec<String> = nodes.map(name).collect();
            let ring = spread(&names);
            let mut sorted = ring.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq((0..names.len() as u32).map(Node)));
            let cabinet = |node: &Node| cabinets[node.0 as usize].0;
            let size = |it| cabinets.iter().filter(|(of, _)| *of == it).count();
            let largest = (0..5).map(size).max();
            if largest.unwrap_or(0) * 2 <= names.len() {
                let around = ring.iter().zip(ring.iter().cycle().skip(1));
                for (one, other) in around {
                    prop_assert_ne!(cabinet(one), cabinet(other), "{:?}", ring);
                }
            }
        }
    }
}
