//! Lists in the memory of another rank: of the one that would own them next.
//!
//! The copy of a list goes to the member that owns its part if its owner is lost, so after one
//! death it is where it is needed. It travels in the block of the round that made the list, and
//! counts with its commit.
//!
//! The library protects states, too ([`fampi::TryBlock::protect`]), of a length that does not
//! change, which that of a list does with each round.

use std::collections::BTreeMap;

use fampi::{Error, Finished, Rank, Request, Tag, TryBlock};

use crate::exchange::rank_of;
use crate::keys::Key;
use crate::owners::{Owners, Rule};
use crate::sorter::Sorter;
use crate::table::Row;

/// The copies that this rank keeps, and those on their way.
#[derive(Debug)]
pub struct Copies<K> {
    /// The copies of the last commit, by part.
    kept: BTreeMap<u32, Vec<K>>,
    /// Those that will take their place, from when an exchange begins to its commit.
    coming: Option<Vec<(u32, Request<K>)>>,
    /// Buffers to use.
    idle: Vec<Vec<K>>,
    /// The member that keeps the copy of each part; none where one member owns all.
    keepers: Vec<Option<u32>>,
}

impl<K> Default for Copies<K> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), coming: None, idle: Vec::new(), keepers: Vec::new() }
    }
}

impl<K: Key> Copies<K> {
    /// The copy of the list of a part, if it is here.
    #[must_use]
    pub fn of(&self, part: u32) -> Option<&[K]> {
        self.kept.get(&part).map(Vec::as_slice)
    }

    /// Members have changed: these are the keepers from now on.
    pub fn renew(&mut self, rule: Rule, members: &[u32], owners: &Owners, parts: u32) {
        self.coming = None;
        self.keepers = keepers(rule, members, owners, parts);
    }

    /// Sends copies of the lists to their keepers, and receives those to be kept. The table is
    /// that of the same lists.
    ///
    /// # Errors
    /// [`Error`] of the block.
    pub fn exchange(
        &mut self,
        block: &mut TryBlock,
        members: &[u32],
        sorter: &Sorter<K>,
        table: &[Row<K>],
    ) -> Result<(), Error> {
        let coming = self.coming.insert(Vec::new());
        let parts = sorter.way.parts;
        let rank = |member: u32| Rank::new(rank_of(members, member) as u32);
        for (part, keeper) in (0..).zip(&self.keepers) {
            if *keeper == Some(sorter.me) {
                let length = table[part as usize].length as usize;
                let mut copy = self.idle.pop().unwrap_or_default();
                copy.resize(length, K::default());
                let owner = rank(sorter.owners.of(part));
                let request = block.irecv(copy, owner, Tag(parts + part))?;
                coming.push((part, request));
            }
        }
        for (part, list) in sorter.next_lists() {
            if let Some(keeper) = self.keepers[part as usize] {
                let section = [0..list.len()];
                block.isend_section(list.buffer(), section, rank(keeper), Tag(parts + part))?;
            }
        }
        Ok(())
    }

    /// The block is committed: the copies that came with it count.
    ///
    /// # Errors
    /// None in a block that is committed.
    pub fn accept(&mut self, finished: &Finished) -> Result<(), Error> {
        let Some(coming) = self.coming.take() else { return Ok(()) };
        self.idle.extend(std::mem::take(&mut self.kept).into_values());
        for (part, request) in coming {
            self.kept.insert(part, finished.take(request)?);
        }
        Ok(())
    }
}

/// The member that keeps the copy of each part: its owner if the present one were lost.
fn keepers(rule: Rule, members: &[u32], owners: &Owners, parts: u32) -> Vec<Option<u32>> {
    let mut keepers = vec![None; parts as usize];
    if members.len() > 1 {
        for member in members {
            let others: Vec<u32> = members.iter().copied().filter(|it| it != member).collect();
            let next = Owners::new(rule, parts, &others);
            owners.parts_of(*member).for_each(|it| keepers[it as usize] = Some(next.of(it)));
        }
    }
    keepers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_is_the_owner_after_the_death_of_the_owner() {
        for rule in [Rule::Balanced, Rule::Paper] {
            let members = [0, 1, 3, 5, 6];
            let owners = Owners::new(rule, 8, &members);
            let keepers = keepers(rule, &members, &owners, 8);
            for (part, keeper) in (0..8).zip(keepers) {
                let others: Vec<_> =
                    members.into_iter().filter(|member| *member != owners.of(part)).collect();
                assert_eq!(keeper, Some(Owners::new(rule, 8, &others).of(part)));
            }
        }
        assert_eq!(keepers(Rule::Paper, &[1], &Owners::new(Rule::Paper, 2, &[1]), 2), [None; 2]);
    }
}
