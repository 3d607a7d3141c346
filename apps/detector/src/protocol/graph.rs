//! The binomial graph, over which news travel.
//!
//! The neighbours of a node are those at distance ±2^k. Among these edges is a binomial tree whose
//! root is the node where the news began; along it they reach everybody soonest, so its edges come
//! first, those to the largest subtrees before the others. The rest of the edges are for when nodes
//! of the tree are dead: fewer deaths than a node has neighbours never cut the graph.
//!
//! Reference: Zhong 2019 §4.6, algorithm 1 and figures 4 and 5.

use smallvec::SmallVec;

use super::Node;

/// A node's neighbours; of 2^24 nodes they fit inline.
pub type Neighbours = SmallVec<[Node; 48]>;

/// The neighbours of `me` among this many nodes, each once, in the order in which to tell them what
/// `origin` has found out. Both are among these nodes.
pub fn neighbours(me: Node, origin: Node, nodes: u32) -> Neighbours {
    let mut found = Neighbours::new();
    let place = (me.0 + nodes - origin.0) % nodes;
    let ahead = |distance: u32| Node((me.0 + distance) % nodes);
    let behind = |distance: u32| Node((me.0 + nodes - distance) % nodes);
    let distances = || (0..31).map(|k| 1_u32 << k).take_while(|distance| *distance < nodes);
    // In the tree the parent of a place is the place without its highest bit.
    found.extend(distances().filter(|it| *it > place && place + it < nodes).map(ahead));
    let rest = distances().flat_map(|distance| [ahead(distance), behind(distance)]);
    for node in rest {
        if node != me && !found.contains(&node) {
            found.push(node);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn twelve_nodes_are_linked_as_in_figure_4() {
        let mut found = neighbours(Node(0), Node(0), 12).to_vec();
        assert_eq!(found[..4], [Node(1), Node(2), Node(4), Node(8)]);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 4, 8, 10, 11].map(Node));
    }

    #[test]
    fn the_first_edges_are_a_tree_that_reaches_everybody_once() {
        for nodes in 1..40_u32 {
            for origin in [0, nodes / 2, nodes - 1].map(Node) {
                let mut depth: Vec<Option<u32>> = vec![None; nodes as usize];
                depth[origin.0 as usize] = Some(0);
                let mut queue = vec![origin];
                while let Some(me) = queue.pop() {
                    let place = (me.0 + nodes - origin.0) % nodes;
                    let children = (0..31).filter(|k| {
                        let distance = 1_u32 << k;
                        distance > place && place + distance < nodes
                    });
                    for child in neighbours(me, origin, nodes).into_iter().take(children.count()) {
                        assert_eq!(depth[child.0 as usize], None, "two parents");
                        depth[child.0 as usize] = depth[me.0 as usize].map(|depth| depth + 1);
                        queue.push(child);
                    }
                }
                let bound = u32::BITS - (nodes - 1).leading_zeros();
                assert!(depth.iter().all(|it| it.is_some_and(|it| it <= bound)), "{depth:?}");
            }
        }
    }

    #[test]
    fn edges_go_both_ways() {
        for nodes in 2..40_u32 {
            for me in (0..nodes).map(Node) {
                for other in neighbours(me, Node(0), nodes) {
                    assert!(neighbours(other, me, nodes).contains(&me), "{me:?} {other:?}");
                }
            }
        }
    }
}
