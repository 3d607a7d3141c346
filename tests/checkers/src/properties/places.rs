//! "… a set of new functions that rebuilds a communicator without processes losing their pre-fault
//! ranks" (Hassani et al. 2015, §3.3); and a recovery ends alike for all.

use fampi::{protocol::roster::Roster, rank::Rank};

/// How a recovery ended for a living process.
pub(crate) struct End<'a> {
    pub(crate) process: usize,
    pub(crate) complete: bool,
    pub(crate) roster: &'a Roster,
    /// The processes of its newest universe, by place.
    pub(crate) members: &'a [usize],
}

/// All living that have an end have the same, in the same universe, with the same roster.
pub(crate) fn all_end_alike<'a>(mut ends: impl Iterator<Item = End<'a>>) -> bool {
    let Some(first) = ends.next() else { return true };
    ends.all(|end| {
        end.complete == first.complete
            && (!end.complete || (end.roster, end.members) == (first.roster, first.members))
    })
}

/// Every rank of the launch is held by its process, unless that is dead, and no process holds two
/// ranks. Processes are numbered as the ranks of the launch, then by birth.
pub(crate) fn old_ranks_are_kept<'a>(
    mut ends: impl Iterator<Item = End<'a>>,
    ranks: u32,
    is_dead: impl Fn(usize) -> bool,
) -> bool {
    ends.all(|end| {
        let holder = |place: &Rank| end.members.get(place.index()).copied();
        let Some(holders) = end.roster.members.iter().map(holder).collect::<Option<Vec<usize>>>()
        else {
            return false;
        };
        let once = (1..holders.len()).all(|at| !holders[..at].contains(&holders[at]));
        let kept = holders.iter().enumerate().all(|(rank, it)| *it == rank || is_dead(rank));
        let mine = end.process >= ranks as usize || holders.get(end.process) == Some(&end.process);
        !end.complete || (holders.len() == ranks as usize && once && kept && mine)
    })
}
