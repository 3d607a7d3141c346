//! Which process works for which part of the keys.
//!
//! There are 2^d parts and as many identities of processes, of which some are members: the
//! processes of the launch that still work. A part whose own process is a member belongs to it.
//! Any other part belongs to a member near it: clusters `c(i, s)` of the hypercube are searched
//! in turn,
//!
//! ```text
//! c(i, s) = i ⊕ 2^(s-1), c(i ⊕ 2^(s-1), 1), …, c(i ⊕ 2^(s-1), s-1)
//! ```
//!
//! and unfolding this gives i ⊕ 1, i ⊕ 2, i ⊕ 3, …: the k-th process to be asked is i ⊕ k. The
//! rule also makes the partners of each round, as the partner of part i in the round of bit b is
//! the owner of part i ⊕ b.
//!
//! **Differs from the paper** with [`Rule::Balanced`], which passes over members that have their
//! share already. The paper's rule gives the last parts of a half-empty hypercube to few members.
//!
//! Camargo and Duarte 2018, algorithms 3 and 4; the clusters are those of `VCube` (Duarte, Bona
//! and Ruoso 2014).

/// How parts without a process of their own are given to members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// To the nearest member that has less than its share.
    Balanced,
    /// To the nearest member.
    Paper,
}

/// The members and what belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    owners: Vec<u32>,
}

impl Owners {
    /// The owners of `parts` parts, a power of two, among these members, of which there is at
    /// least one. Members without a part of their number own nothing of their own.
    ///
    /// # Panics
    /// If there is no member below `parts`.
    #[must_use]
    pub fn new(rule: Rule, parts: u32, members: &[u32]) -> Self {
        let mut share = vec![None; parts as usize];
        let living = members.iter().filter(|member| **member < parts);
        living.clone().for_each(|member| share[*member as usize] = Some(1));
        let most = match rule {
            Rule::Balanced => parts.div_ceil(living.count() as u32),
            Rule::Paper => parts,
        };
        let owner = |part: u32| {
            if share[part as usize].is_some() {
                return part;
            }
            let mut asked = (1..parts).map(|k| part ^ k);
            let has_room = |member: &u32| share[*member as usize].is_some_and(|load| load < most);
            let owner = asked.find(has_room).expect("the shares of all members hold all parts");
            share[owner as usize] = share[owner as usize].map(|load| load + 1);
            owner
        };
        Self { owners: (0..parts).map(owner).collect() }
    }

    /// Each of so many members owns one part, whether or not that is a power of two.
    #[must_use]
    pub fn of_each(members: u32) -> Self {
        Self { owners: (0..members).collect() }
    }

    /// The member that owns a part.
    #[must_use]
    pub fn of(&self, part: u32) -> u32 {
        self.owners[part as usize]
    }

    /// The parts of a member, in ascending order.
    pub fn parts_of(&self, member: u32) -> impl Iterator<Item = u32> {
        let parts = (0_u32..).zip(&self.owners);
        parts.filter(move |(_, owner)| **owner == member).map(|(part, _)| part)
    }

    /// The most parts of any member.
    #[must_use]
    pub fn most(&self) -> usize {
        let mut loads = vec![0; self.owners.len()];
        self.owners.iter().for_each(|owner| loads[*owner as usize] += 1);
        loads.into_iter().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clusters as they are defined.
    fn cluster(i: u32, s: u32) -> Vec<u32> {
        let first = i ^ (1 << (s - 1));
        let inner = (1..s).flat_map(|t| cluster(first, t));
        std::iter::once(first).chain(inner).collect()
    }

    /// The members of each set of eight processes but the empty one.
    fn sets() -> impl Iterator<Item = Vec<u32>> {
        (1_u32..256).map(|set| (0..8).filter(|member| set >> member & 1 == 1).collect())
    }

    #[test]
    fn the_clusters_of_eight_processes_are_those_of_table_2() {
        let table = [
            "1 2 3 4 5 6 7",
            "0 3 2 5 4 7 6",
            "3 0 1 6 7 4 5",
            "2 1 0 7 6 5 4",
            "5 6 7 0 1 2 3",
            "4 7 6 1 0 3 2",
            "7 4 5 2 3 0 1",
            "6 5 4 3 2 1 0",
        ];
        for (i, row) in (0..8).zip(table) {
            let defined: Vec<_> = (1..=3).flat_map(|s| cluster(i, s)).collect();
            let unfolded: Vec<_> = (1..8).map(|k| i ^ k).collect();
            let words: Vec<_> = defined.iter().map(u32::to_string).collect();
            assert_eq!((words.join(" ").as_str(), &defined), (row, &unfolded));
        }
    }

    #[test]
    fn the_substitutes_are_those_of_the_paper() {
        let owners = |missing: &[u32]| {
            let members: Vec<_> = (0..8).filter(|member| !missing.contains(member)).collect();
            Owners::new(Rule::Paper, 8, &members)
        };
        assert_eq!(owners(&[2]).of(2), 3);
        assert_eq!(owners(&[4]).of(4), 5);
        assert_eq!(owners(&[4, 5]).of(4), 6);
        // 6 exchanges with 2 in the first round, and with 3 when 2 is missing.
        assert_eq!(owners(&[2]).of(6 ^ 4), 3);
    }

    #[test]
    fn the_owner_of_the_other_side_is_the_partner_of_the_paper_wherever_it_has_one() {
        for members in sets() {
            let owners = Owners::new(Rule::Paper, 8, &members);
            for (i, s) in members.iter().flat_map(|i| (1..=3).map(move |s| (*i, s))) {
                let partner = cluster(i, s).into_iter().find(|it| members.contains(it));
                if let Some(partner) = partner {
                    assert_eq!(owners.of(i ^ (1 << (s - 1))), partner, "{members:?} {i} {s}");
                }
            }
        }
    }

    #[test]
    fn every_part_has_a_member_and_balanced_members_have_at_most_their_share() {
        for members in sets() {
            for rule in [Rule::Balanced, Rule::Paper] {
                let owners = Owners::new(rule, 8, &members);
                assert!((0..8).all(|part| members.contains(&owners.of(part))));
                assert!(members.iter().all(|member| owners.of(*member) == *member));
                let parts: usize = members.iter().map(|it| owners.parts_of(*it).count()).sum();
                assert_eq!(parts, 8);
            }
            let most = Owners::new(Rule::Balanced, 8, &members).most();
            assert_eq!(most, 8_usize.div_ceil(members.len()));
        }
    }

    #[test]
    fn parts_beyond_the_processes_are_shared_out_from_the_start() {
        let owners = Owners::new(Rule::Balanced, 64, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert!((0..8).all(|member| owners.parts_of(member).count() == 8));
        assert_eq!(Owners::new(Rule::Balanced, 4, &[0, 1, 2]).of(3), 2);
        assert_eq!(Owners::new(Rule::Balanced, 1, &[0]).of(0), 0);
    }
}
