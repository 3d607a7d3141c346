//! Who tests whom.
//!
//! The clusters of the paper, as a place sees the others: c(i, s) has 2^(s−1) places, and all of
//! them in a row are i ⊕ 1, i ⊕ 2, i ⊕ 3 and so on, as its table 2 has them.
//!
//! Reference: Camargo and Duarte 2018 §4.1; Duarte 2014.

/// The rule by which members test others.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Assignment {
    /// Every member tests all others, as in the paper.
    #[default]
    All,
    /// A member tests those in one of whose clusters it is the first member.
    VCube,
    /// A member tests the places before it, up to the next member and with it.
    Ring,
}

/// Up to so many nodes all test all others.
pub const MOST_WITH_ALL: u32 = 64;

/// The places of c(i, s), for s of 1 and more, in their order.
pub fn cluster(i: u32, s: u32) -> impl Iterator<Item = u32> {
    let width = 1 << (s - 1);
    (width..2 * width).map(move |it| i ^ it)
}

/// How many clusters each of so many places has.
pub fn dimensions(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

impl Assignment {
    /// The rule of the observers of so many nodes.
    pub fn among(nodes: u32) -> Self {
        if nodes <= MOST_WITH_ALL { Self::All } else { Self::VCube }
    }

    /// True when one place tests another, both below `size`.
    pub fn tests(
        self,
        (tester, target): (u32, u32),
        size: u32,
        is_member: impl Fn(u32) -> bool,
    ) -> bool {
        tester != target
            && is_member(tester)
            && match self {
                Self::All => true,
                Self::VCube => {
                    let s = (tester ^ target).ilog2() + 1;
                    let first = cluster(target, s).find(|it| *it < size && is_member(*it));
                    first == Some(tester)
                }
                Self::Ring => {
                    let mut after = (1..size).map(|it| (target + it) % size);
                    after.find(|it| is_member(*it)) == Some(tester)
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_clusters_are_those_of_the_papers_table_2() {
        let table = [
            ["1", "23", "4567"],
            ["0", "32", "5476"],
            ["3", "01", "6745"],
            ["2", "10", "7654"],
            ["5", "67", "0123"],
            ["4", "76", "1032"],
            ["7", "45", "2301"],
            ["6", "54", "3210"],
        ];
        for (i, row) in table.into_iter().enumerate() {
            for (s, places) in row.into_iter().enumerate() {
                let places: Vec<u32> = places.chars().filter_map(|it| it.to_digit(10)).collect();
                assert_eq!(cluster(i as u32, s as u32 + 1).collect::<Vec<_>>(), places);
            }
        }
        assert_eq!([1, 2, 3, 8, 9].map(dimensions), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn everybody_is_tested_while_another_member_lives_and_by_no_more_than_there_may_be() {
        for size in 2..=9_u32 {
            for mask in 1_u32..1 << size {
                let is_member = |it: u32| mask >> it & 1 == 1;
                for assignment in [Assignment::All, Assignment::VCube, Assignment::Ring] {
                    for target in 0..size {
                        let tests = |it: &u32| assignment.tests((*it, target), size, is_member);
                        let testers: Vec<u32> = (0..size).filter(tests).collect();
                        let others = (0..size).filter(|it| *it != target && is_member(*it));
                        let others = others.count();
                        let most = match assignment {
                            Assignment::All => others,
                            Assignment::VCube => others.min(dimensions(size) as usize),
                            Assignment::Ring => others.min(1),
                        };
                        assert!(testers.iter().all(|it| is_member(*it)));
                        assert!(testers.len() <= most && testers.is_empty() == (others == 0));
                        assert!(assignment != Assignment::All || testers.len() == others);
                    }
                }
            }
        }
    }
}
