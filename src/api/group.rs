//! Groups: ordered sets of processes, without a context.
//!
//! All here is local. A process has one number for its life, which no other process ever gets, so
//! groups of different communicators, also from before and after a rebuild, can be compared: what
//! the old world has and the new one has not are the dead.
//!
//! Reference: MPI 4.1 §7.3.

use super::{Color, Comm, Forming};
use crate::{error::Error, rank::Rank};

/// An ordered set of processes (MPI 4.1 §7.2.1): a rank in it is a place in its order.
///
/// ```
/// use fampi::{Group, Rank, sim::Simulation};
///
/// let report = Simulation::new(4).run_world(|world| {
///     let all = world.group();
///     let even = all.incl(&[Rank::new(0), Rank::new(2)]).unwrap();
///     let others = all.difference(&even);
///     let there = others.translate(&[Rank::new(0), Rank::new(1)], &all).unwrap();
///     world.finalize();
///     there
/// });
/// let odd = vec![Some(Rank::new(1)), Some(Rank::new(3))];
/// assert_eq!(report.expect_orderly(), vec![odd; 4]);
/// ```
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Group {
    /// The job's numbers of the processes, each once.
    processes: Vec<u32>,
}

/// How two groups are related (§7.3.1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Comparison {
    /// The same processes in the same order (`MPI_IDENT`).
    Identical,
    /// The same processes in another order (`MPI_SIMILAR`).
    Similar,
    /// Others (`MPI_UNEQUAL`).
    Unequal,
}

impl Group {
    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.processes.len() as u32
    }

    /// True when it has no members (`MPI_GROUP_EMPTY`).
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// These ranks of the group, in this order (`MPI_Group_incl`, §7.3.2).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::RankTwice`].
    pub fn incl(&self, ranks: &[Rank]) -> Result<Self, Error> {
        let mut included = Self::default();
        for rank in ranks {
            let process = self.process(*rank)?;
            if included.processes.contains(&process) {
                return Err(Error::RankTwice { rank: *rank });
            }
            included.processes.push(process);
        }
        Ok(included)
    }

    /// The group without these ranks (`MPI_Group_excl`, §7.3.2).
    ///
    /// # Errors
    ///
    /// As [`Self::incl`].
    pub fn excl(&self, ranks: &[Rank]) -> Result<Self, Error> {
        Ok(self.difference(&self.incl(ranks)?))
    }

    /// This group, and behind it those that are only in the other (`MPI_Group_union`, §7.3.2).
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut processes = self.processes.clone();
        processes.extend(other.difference(self).processes);
        Self { processes }
    }

    /// Those that are in both, in the order of this group (`MPI_Group_intersection`, §7.3.2).
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(|process| other.processes.contains(&process))
    }

    /// Those that are not in the other, in the order of this group (`MPI_Group_difference`,
    /// §7.3.2).
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(|process| !other.processes.contains(&process))
    }

    /// The ranks in another group of these ranks of this one, `None` for those that are not in it
    /// (`MPI_Group_translate_ranks`, §7.3.1).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`].
    pub fn translate(&self, ranks: &[Rank], other: &Self) -> Result<Vec<Option<Rank>>, Error> {
        ranks.iter().map(|rank| Ok(other.rank_of(self.process(*rank)?))).collect()
    }

    /// How this group and the other are related (`MPI_Group_compare`, §7.3.1).
    pub fn compare(&self, other: &Self) -> Comparison {
        if self == other {
            Comparison::Identical
        } else if self.size() == other.size() && self.difference(other).is_empty() {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    fn filtered(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let processes = self.processes.iter().copied().filter(|process| wanted(*process));
        Self { processes: processes.collect() }
    }

    fn process(&self, rank: Rank) -> Result<u32, Error> {
        let missing = Error::NoSuchRank { rank, size: self.size() };
        self.processes.get(rank.index()).copied().ok_or(missing)
    }

    fn rank_of(&self, process: u32) -> Option<Rank> {
        self.processes.iter().position(|known| *known == process).map(Rank::from)
    }
}

/// # Groups
impl Comm {
    /// All processes of the communicator, living and dead, in the order of its ranks
    /// (`MPI_Comm_group`, MPI 4.1 §7.3.2).
    pub fn group(&self) -> Group {
        Group { processes: self.engine().borrow().processes(self.key()) }
    }

    /// This process's rank in a group (`MPI_Group_rank`, §7.3.1).
    pub fn rank_in(&self, group: &Group) -> Option<Rank> {
        let mine = self.group().process(self.rank()).ok()?;
        group.rank_of(mine)
    }

    /// Starts to make a communicator of a group (`MPI_Comm_create`, §7.4.2, without blocking): a
    /// split whose colour is the group. All ranks call it; a rank that is not in the group that it
    /// gives gets no communicator, and groups that share no rank can be made at once.
    ///
    /// There is nothing like `MPI_Comm_create_group`, which the members call alone: making a
    /// communicator is agreed upon by all ranks of the one that it is derived from.
    ///
    /// # Errors
    ///
    /// [`Error::NotInCommunicator`] when the group has others than this communicator's processes;
    /// as [`Comm::isplit`].
    pub fn icreate(&self, group: &Group) -> Result<Forming, Error> {
        let all = self.group();
        if !group.difference(&all).is_empty() {
            return Err(Error::NotInCommunicator);
        }
        let Some(me) = self.rank_in(group) else { return self.isplit(Color::None, 0) };
        let first = all.rank_of(group.processes[0]).map_or(0, Rank::number);
        self.isplit(Color::Of(first), me.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(processes: &[u32]) -> Group {
        Group { processes: processes.to_vec() }
    }

    fn ranks(numbers: &[u32]) -> Vec<Rank> {
        numbers.iter().copied().map(Rank::new).collect()
    }

    #[test]
    fn sets_keep_the_order_of_the_first_group() {
        let (one, other) = (group(&[5, 1, 9, 3]), group(&[3, 8, 5]));
        assert_eq!(one.union(&other), group(&[5, 1, 9, 3, 8]));
        assert_eq!(one.intersection(&other), group(&[5, 3]));
        assert_eq!(one.difference(&other), group(&[1, 9]));
        assert_eq!(one.incl(&ranks(&[3, 0])), Ok(group(&[3, 5])));
        assert_eq!(one.excl(&ranks(&[3, 0])), Ok(group(&[1, 9])));
        assert_eq!(one.difference(&one), Group::default());
    }

    #[test]
    fn ranks_are_translated_and_groups_compared() {
        let (one, other) = (group(&[5, 1, 9]), group(&[9, 5, 1]));
        let there = one.translate(&ranks(&[2, 0, 0]), &other);
        assert_eq!(there, Ok(vec![Some(Rank::new(0)), Some(Rank::new(1)), Some(Rank::new(1))]));
        assert_eq!(one.translate(&ranks(&[1]), &group(&[5])), Ok(vec![None]));
        assert_eq!(one.compare(&one.clone()), Comparison::Identical);
        assert_eq!(one.compare(&other), Comparison::Similar);
        assert_eq!(one.compare(&group(&[5, 1])), Comparison::Unequal);
        assert_eq!(group(&[5, 1]).compare(&one), Comparison::Unequal);
        assert_eq!(one.compare(&group(&[5, 1, 8])), Comparison::Unequal);
    }

    #[test]
    fn ranks_that_are_not_there_or_there_twice_are_errors() {
        let one = group(&[5, 1]);
        let missing = Err(Error::NoSuchRank { rank: Rank::new(2), size: 2 });
        assert_eq!(one.incl(&ranks(&[0, 2])), missing);
        assert_eq!(one.excl(&ranks(&[2])), missing);
        assert_eq!(one.incl(&ranks(&[1, 1])), Err(Error::RankTwice { rank: Rank::new(1) }));
        assert!(one.translate(&ranks(&[2]), &one).is_err());
    }
}
