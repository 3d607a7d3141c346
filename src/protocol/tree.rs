//! A binomial tree over the ranks that mends itself when ranks die.
//!
//! Without deaths the parent of a rank is the rank with its lowest set bit cleared. A rank whose
//! parent died hangs below its nearest living ancestor; one whose ancestors all died hangs below
//! the *root*, the lowest living rank. Parents are always lower, so there is no cycle, and two
//! ranks that know of the same deaths see the same tree.
//!
//! Reference: ULFM team 2015, "Logarithmic Agreement Routine".

use smallvec::SmallVec;

use crate::rank::{Rank, RankSet};

/// Neighbours in the tree; rarely more than log₂ n.
pub type Children = SmallVec<[Rank; 8]>;

/// The lowest rank not in `dead`: it combines and decides.
pub fn root(dead: &RankSet) -> Rank {
    let mut lowest = 0;
    for rank in dead.iter() {
        if rank.number() != lowest {
            break;
        }
        lowest += 1;
    }
    Rank::new(lowest)
}

/// The living parent of `rank`; `None` for the root.
pub fn parent(rank: Rank, dead: &RankSet) -> Option<Rank> {
    let mut number = rank.number();
    while number != 0 {
        number &= number - 1;
        if !dead.contains(Rank::new(number)) {
            return Some(Rank::new(number));
        }
    }
    Some(root(dead)).filter(|root| *root != rank)
}

/// The living children of `rank` in a communicator of `size` ranks, nearest first.
pub fn children(rank: Rank, size: u32, dead: &RankSet) -> Children {
    let mut children = Children::new();
    expand(rank.number(), size, dead, &mut children);
    if rank.number() != 0 && root(dead) == rank {
        expand(0, size, dead, &mut children);
        children.retain(|child| *child != rank);
    }
    children
}

/// Collects the nearest living descendants of `number`.
fn expand(number: u32, size: u32, dead: &RankSet, into: &mut Children) {
    let mut bit = 1;
    while (number == 0 || bit < (number & number.wrapping_neg())) && number + bit < size {
        let child = Rank::new(number + bit);
        if dead.contains(child) {
            expand(child.number(), size, dead, into);
        } else {
            into.push(child);
        }
        bit <<= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_for_every_set_of_deaths() {
        for size in 1..=9_u32 {
            for mask in 0..(1_u32 << size) - 1 {
                let dead: RankSet =
                    (0..size).filter(|r| mask >> r & 1 == 1).map(Rank::new).collect();
                let root = root(&dead);
                let mut reached = RankSet::new();
                for rank in (0..size).map(Rank::new).filter(|rank| !dead.contains(*rank)) {
                    for child in children(rank, size, &dead) {
                        assert_eq!(parent(child, &dead), Some(rank), "{size} {dead}");
                        assert!(reached.insert(child), "two parents");
                    }
                    assert_eq!(parent(rank, &dead).is_none(), rank == root);
                }
                assert_eq!(reached.len() + 1 + dead.len(), size as usize, "{size} {dead}");
            }
        }
    }
}
