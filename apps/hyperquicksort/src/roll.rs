//! What ranks that begin, or begin again after one was lost, have to know of each other: which
//! members there are, how far all have come, and who has which list of the last commit.

use fampi::{Error, Rank, Timeout, TryBlock};

use crate::exchange::gather;

/// A set of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts(Vec<u64>);

impl Parts {
    /// These parts, of so many.
    #[must_use]
    pub fn of(all: u32, parts: impl Iterator<Item = u32>) -> Self {
        let mut words = vec![0; words(all)];
        parts.for_each(|part| words[part as usize / 64] |= 1 << (part % 64));
        Self(words)
    }

    /// True if a part is among them.
    #[must_use]
    pub fn contains(&self, part: u32) -> bool {
        self.0.get(part as usize / 64).is_some_and(|word| word >> (part % 64) & 1 == 1)
    }
}

const fn words(parts: u32) -> usize {
    parts.div_ceil(64) as usize
}

/// Where one rank stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The rank of the launch that it stands for.
    pub member: u32,
    /// The last membership that it knows, 0 for a rank that begins.
    pub epoch: u64,
    /// How many steps are done.
    pub done: u64,
    /// How many steps it has begun.
    pub begun: u64,
    /// The parts whose list it has.
    pub lists: Parts,
    /// The parts of whose list it has a copy.
    pub copies: Parts,
}

/// Where all ranks stand, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll(Vec<Standing>);

/// Who can give a list to its new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The owner has it.
    Own,
    /// This rank has the list, or else a copy. It is the owner itself if that has a copy only.
    Rank(usize),
    /// It is lost with the ranks that had it.
    Lost,
}

impl Roll {
    /// Tells all ranks where this one stands, and learns it of them.
    ///
    /// # Errors
    /// [`Error`] of the block.
    pub fn call(
        block: &mut TryBlock,
        (rank, ranks): (usize, usize),
        parts: u32,
        own: &Standing,
    ) -> Result<Self, Error> {
        let Standing { member, epoch, done, begun, lists, copies } = own;
        let head = [u64::from(*member), *epoch, *done, *begun];
        let own = [&head[..], &lists.0, &copies.0].concat();
        let all = gather(block, rank, ranks, &own)?;
        let standing = |words: &[u64]| {
            let (head, sets) = words.split_at(head.len());
            let (lists, copies) = sets.split_at(self::words(parts));
            Standing {
                member: head[0] as u32,
                epoch: head[1],
                done: head[2],
                begun: head[3],
                lists: Parts(lists.to_vec()),
                copies: Parts(copies.to_vec()),
            }
        };
        Ok(Self(all.chunks(own.len()).map(standing).collect()))
    }

    /// The members, by rank.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        self.0.iter().map(|standing| standing.member).collect()
    }

    /// How many steps are done, which all ranks know that do not begin.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.iter().map(|standing| standing.done).max().unwrap_or_default()
    }

    /// True if a rank has begun a step that is not done.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.0.iter().any(|standing| standing.begun > self.done())
    }

    /// The membership that comes now.
    #[must_use]
    pub fn next_epoch(&self) -> u64 {
        1 + self.0.iter().map(|standing| standing.epoch).max().unwrap_or_default()
    }

    /// The ranks that do not begin.
    pub fn survivors(&self) -> impl Iterator<Item = usize> {
        let standings = self.0.iter().enumerate();
        standings.filter(|(_, standing)| standing.epoch > 0).map(|(rank, _)| rank)
    }

    /// Who can give a list to its owner.
    #[must_use]
    pub fn source(&self, part: u32, owner: usize) -> Source {
        if self.0[owner].lists.contains(part) {
            return Source::Own;
        }
        let has_list = |it: &Standing| it.lists.contains(part);
        let has_copy = |it: &Standing| it.copies.contains(part);
        let first = self.0.iter().position(has_list).or_else(|| self.0.iter().position(has_copy));
        first.map_or(Source::Lost, Source::Rank)
    }
}

/// Gives words of one rank to all; the other ranks' own are overwritten.
///
/// # Errors
/// [`Error`] of the block.
pub fn broadcast(block: &mut TryBlock, root: usize, own: Vec<u64>) -> Result<Vec<u64>, Error> {
    let words = block.ibcast(own, Rank::new(root as u32))?;
    block.wait_local(words, Timeout::Never)?;
    block.take(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(epoch: u64, lists: &[u32], copies: &[u32]) -> Standing {
        let [lists, copies] = [lists, copies].map(|it| Parts::of(128, it.iter().copied()));
        Standing { epoch, done: 3 * epoch, begun: 3 * epoch, lists, copies, ..Standing::default() }
    }

    #[test]
    fn a_list_comes_from_its_owner_or_the_first_rank_that_has_it_or_a_copy() {
        let roll = Roll(vec![
            standing(1, &[0], &[1, 2]),
            standing(1, &[1, 100], &[]),
            standing(1, &[], &[2]),
        ]);
        assert_eq!(roll.source(0, 0), Source::Own);
        assert_eq!(roll.source(1, 0), Source::Rank(1));
        assert_eq!(roll.source(2, 1), Source::Rank(0));
        assert_eq!(roll.source(100, 2), Source::Rank(1));
        assert_eq!(roll.source(101, 2), Source::Lost);
    }

    #[test]
    fn ranks_that_begin_learn_from_the_others_how_far_all_have_come() {
        let mut roll = Roll(vec![standing(0, &[], &[]), standing(2, &[], &[])]);
        assert_eq!((roll.done(), roll.next_epoch(), roll.is_behind()), (6, 3, false));
        assert_eq!(roll.survivors().collect::<Vec<_>>(), [1]);
        roll.0[1].begun = 7;
        assert!(roll.is_behind());
    }
}
