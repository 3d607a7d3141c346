//! The schedule of a collective over the living on one rank: its rounds, and who takes part.

use alloc::{rc::Rc, vec, vec::Vec};

use crate::{
    protocol::rounds::{self, Act, Pattern, Plan},
    rank::Rank,
    seam::{buffer::AnyBuffer, collective::Collective, reduction::Reduction},
};

/// Longer buffers, in bytes, go by a tree where shorter ones go by recursive doubling.
const LONG: usize = 4096;
/// Longer buffers, in bytes, of which prefixes are combined go from each rank to the next.
const SHORT: usize = 512;
/// Up to so many ranks, a root sends to each of the others itself, as MPI does.
const FEW: usize = 4;

/// What a collective still has to do, beside its messages under way.
pub(super) struct Schedule {
    pub(super) collective: Collective,
    /// What combines the elements, if they are combined.
    pub(super) reduction: Option<Reduction>,
    /// Who takes part, and this rank's place among them.
    pub(super) view: Rc<[Rank]>,
    me: usize,
    pub(super) tag: u32,
    /// The moves, if the whole buffer goes in rounds, and how many of them have started.
    plan: Plan,
    pub(super) started: usize,
    /// Parts of the buffer go directly from each rank to each, and have not started.
    pub(super) direct: bool,
    /// What the rounds work on instead of the application's buffer, which stays as it is.
    pub(super) work: Option<AnyBuffer>,
}

impl Schedule {
    pub(super) fn new(
        collective: Collective,
        (view, me): (Rc<[Rank]>, Rank),
        tag: u32,
        bytes: usize,
    ) -> Option<Self> {
        let place = |rank: Rank| view.binary_search(&rank).ok();
        let me = place(me)?;
        let root = match collective.root() {
            Some(root) => place(root)?,
            None => me,
        };
        let pattern = match collective {
            Collective::Barrier => Some(Pattern::Barrier),
            Collective::Broadcast { .. } if view.len() <= FEW => {
                Some(Pattern::FromRootAtOnce(root))
            }
            Collective::Broadcast { .. } => Some(Pattern::FromRoot(root)),
            Collective::Reduce { .. } => Some(Pattern::ToRoot(root)),
            Collective::Allreduce { .. } | Collective::ReduceScatter { .. } => {
                Some(if bytes > LONG { Pattern::ToAllByTree } else { Pattern::ToAll })
            }
            Collective::Scan { exclusive, .. } if bytes > SHORT => {
                Some(Pattern::PrefixInTurn { exclusive })
            }
            Collective::Scan { exclusive, .. } => Some(Pattern::Prefix { exclusive }),
            _ => None,
        };
        let plan = pattern.map(|pattern| rounds::plan(pattern, me, view.len()));
        Some(Self {
            reduction: collective.reduction().copied(),
            collective,
            me,
            tag,
            direct: plan.is_none(),
            plan: plan.unwrap_or_default(),
            view,
            started: 0,
            work: None,
        })
    }

    /// This rank, in the communicator.
    pub(super) fn rank(&self) -> Rank {
        self.view[self.me]
    }

    /// True when this rank combines what it gives with what others give, on their way to the root.
    pub(super) fn passes_on(&self) -> bool {
        let combines = self.plan.iter().any(|it| it.act != Act::Send);
        self.collective.root().is_some_and(|root| root != self.rank())
            && self.reduction.is_some()
            && combines
    }

    /// The moves of the next round; none after the last.
    pub(super) fn next_round(&mut self) -> Plan {
        let rest = &self.plan[self.started..];
        let length = rest.iter().position(|it| it.ends_round).map_or(0, |at| at + 1);
        self.started += length;
        rest[..length].iter().copied().collect()
    }

    /// The ranks of the communicator with which parts are exchanged: from whom, and to whom.
    pub(super) fn partners(&self) -> [Vec<Rank>; 2] {
        let own = self.rank();
        let (after, before) = (&self.view[self.me + 1..], &self.view[..self.me]);
        let others = || after.iter().chain(before).copied().collect::<Vec<_>>();
        let is_root = self.collective.root() == Some(own);
        match self.collective {
            Collective::Gather { .. } if is_root => [others(), Vec::new()],
            Collective::Gather { root, .. } => [Vec::new(), vec![root]],
            Collective::Scatter { .. } if is_root => [Vec::new(), others()],
            Collective::Scatter { root, .. } => [vec![root], Vec::new()],
            _ => [others(), others()],
        }
    }
}
