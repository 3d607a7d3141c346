//! The slow path of a commit: gather from the tree's living ranks, decide at the root, relay. A
//! rank that gives a communicator up enters it, and votes *no* on whatever it has not voted on.

use alloc::boxed::Box;

use super::{Block, Commit, Decided, Fast, Route, window::Gathering};
use crate::{
    fault::{Fault, FaultCode},
    ids::{Ballot, BlockId},
    protocol::{
        Effects,
        agreement::{Contribution, Decision, Tally, Vote},
        message::{Message, Slow},
        planted::planted,
        tree,
    },
    rank::{Rank, RankSet},
};

impl Commit {
    /// Promises never to decide this block by the fast path, and asks the others.
    pub(super) fn enter_slow_path(&mut self, id: BlockId, out: &mut impl Effects) {
        self.gathering(id);
        self.advance(id, out);
    }

    /// A rank asks for the decision, and may bring the contribution of its subtree.
    pub(super) fn handle_ask(
        &mut self,
        from: Rank,
        slow: &Slow,
        contribution: Option<Contribution>,
        out: &mut impl Effects,
    ) {
        self.learn(&slow.dead, out);
        if !self.locate(slow.block) {
            return;
        }
        let (id, ballot) = (slow.block, self.ballot());
        let block = self.blocks.at(id);
        if let Some(decided) = &block.decided
            && decided.ballot() >= slow.ballot
            && let Some(decision) = block.decision()
        {
            if planted!(DecideAndLeave) {
                return;
            }
            let header = Slow { block: id, ballot: decided.ballot(), dead: self.dead.clone() };
            out.send(from, Message::Decide(header, decision));
            return;
        }
        let gathering = self.gathering(id);
        gathering.raise(ballot);
        if let Some(contribution) = contribution
            && slow.ballot == ballot
            && !gathering.contributed(from)
        {
            gathering.contributions.push((from, contribution));
        }
        // Who does not know yet that its root is dead is our child or our parent, and hears it
        // from what we send under the new ballot.
        self.advance(id, out);
    }

    /// The decision of a root, from our parent or from a rank that we asked.
    pub(super) fn handle_decide(
        &mut self,
        slow: &Slow,
        decision: Decision,
        out: &mut impl Effects,
    ) {
        self.learn(&slow.dead, out);
        if !self.locate(slow.block) {
            return;
        }
        if slow.ballot < self.ballot() && !planted!(TakeAnyBallot) {
            return;
        }
        let block = self.blocks.at(slow.block);
        let known = block.decided.as_ref().is_some_and(|decided| decided.ballot() >= slow.ballot);
        if !known {
            self.settle(slow.block, decision, slow.ballot, out);
        }
    }

    /// Does whatever the slow path of this block allows now. Calling it again does no harm.
    pub(super) fn advance(&mut self, id: BlockId, out: &mut impl Effects) {
        let ballot = self.ballot();
        let retired = self.abandon_vote();
        let parent = self.parent();
        let children = self.children();
        let header = self.header(id);
        let block = self.blocks.at_mut(id);
        if block.decided.as_ref().is_some_and(|decided| decided.ballot() >= ballot) {
            return;
        }
        if block.vote.is_none() && !planted!(LeaveInSilence) {
            block.vote = retired;
        }
        let Some(gathering) = &mut block.slow else { return };
        gathering.raise(ballot);
        if block.decided.is_none() {
            for child in &children {
                if !gathering.contributed(*child) && gathering.asked.insert(*child) {
                    out.send(*child, Message::Ask(header.clone()));
                }
            }
        }
        let contribution = self.combine(id, &children);
        let open = self.account.is_open();
        let gathering = self.gathering(id);
        match (contribution, parent) {
            (Some(Contribution::Decided(decision)), None) => {
                self.settle(id, decision, ballot, out);
            }
            (Some(Contribution::Undecided(tally)), None) => {
                self.settle(id, tally.decide(self.comm), ballot, out);
            }
            (Some(contribution), Some(parent)) => {
                let sent = gathering.sent_to.is_some() && planted!(ContributeOnce);
                if gathering.sent_to != Some(parent) && !sent {
                    gathering.sent_to = Some(parent);
                    out.send(parent, Message::Contribute(header, contribution));
                }
            }
            // Who is about to hear of a cause contributes then, or asks.
            (None, Some(_)) if open => {}
            (None, Some(parent)) => {
                if gathering.asked.insert(parent) {
                    out.send(parent, Message::Ask(header));
                }
            }
            (None, None) => {}
        }
    }

    /// What our subtree contributes, as soon as it is complete or a rank of it has decided.
    fn combine(&self, id: BlockId, children: &[Rank]) -> Option<Contribution> {
        let block = self.blocks.at(id);
        if let Some(decision) = block.decision()
            && !planted!(DenyTheDecision)
        {
            return Some(Contribution::Decided(decision));
        }
        let Block { vote, slow, .. } = block;
        let gathering = slow.as_ref()?;
        let decided = |(_, contribution): &&(Rank, Contribution)| {
            matches!(contribution, Contribution::Decided(_))
        };
        if let Some((_, contribution)) = gathering.contributions.iter().find(decided) {
            return Some(contribution.clone());
        }
        let vote = vote.as_ref().filter(|_| !self.account.is_open())?;
        let skipped = usize::from(planted!(SkipAChild));
        let children = &children[..children.len().saturating_sub(skipped)];
        if !children.iter().all(|child| gathering.contributed(*child)) {
            return None;
        }
        let values = block.own_values();
        let shape = values.map_or(0, |values| values.shape());
        let mut tally = Tally {
            faults: vote.faults.clone(),
            dead: self.dead.clone(),
            agreed: self.known_to(id).clone(),
            causes: self.account.causes.clone(),
            floor: self.lowest(),
            context_min: vote.context,
            context_max: vote.context,
            plain: !vote.faults.first().is_some_and(|fault| fault.code.is_for_all()),
            shape_min: shape,
            shape_max: shape,
            values: values.map(|values| (self.me, values)).into_iter().collect(),
        };
        for (_, contribution) in &gathering.contributions {
            if let Contribution::Undecided(other) = contribution {
                tally.merge(other);
            }
        }
        Some(Contribution::Undecided(tally))
    }

    /// Takes a decision: relays it first, then delivers it.
    fn settle(
        &mut self,
        id: BlockId,
        mut decision: Decision,
        ballot: Ballot,
        out: &mut impl Effects,
    ) {
        if planted!(OwnCauses) {
            decision.causes = self.account.causes.clone();
        }
        let header = Slow { block: id, ballot, dead: self.dead.clone() };
        for child in self.children() {
            if !planted!(KeepTheDecision) {
                out.send(child, Message::Decide(header.clone(), decision.clone()));
            }
        }
        for (_, known) in self.steps.iter_mut().filter(|(step, _)| *step == id) {
            known.union_with(&decision.known);
        }
        self.learn_causes(&decision.causes);
        let (floor, dead, known) = (decision.floor, decision.dead.clone(), decision.known.clone());
        let block = self.blocks.at_mut(id);
        block.fast = Fast::Left;
        if block.decided.is_some() {
            debug_assert_eq!(block.decision().as_ref(), Some(&decision), "two decisions on {id:?}");
            block.decided = Some(Decided::Slow(Box::new((decision, ballot))));
            return;
        }
        block.decided = Some(Decided::Slow(Box::new((decision, ballot))));
        if !dead.is_empty() || !known.is_subset(self.view.dead()) {
            self.exclude(id, &dead, &known);
            self.tell_retired(out);
        }
        self.finish_decision(id, floor, out);
        self.learn(&known, out);
    }

    /// The state of the slow path of a block; promises on creation.
    fn gathering(&mut self, id: BlockId) -> &mut Gathering {
        let ballot = self.ballot();
        let block = self.blocks.at_mut(id);
        if !planted!(BreakThePromise) {
            block.fast = Fast::Left;
        }
        block.slow.get_or_insert_with(|| Box::new(Gathering::new(ballot)))
    }

    /// Our ballot: the first place of the tree whose rank we do not know dead is the root.
    fn ballot(&self) -> Ballot {
        Ballot::of_root(tree::root(&self.nodes.places(&self.dead)))
    }

    /// The rank that our contribution goes to; none for the root.
    fn parent(&self) -> Option<Rank> {
        let dead = if planted!(KeepADeadParent) { RankSet::new() } else { self.dead.clone() };
        let parent = tree::parent(self.nodes.place(self.me), &self.nodes.places(&dead));
        parent.map(|parent| self.nodes.rank(parent))
    }

    /// Whose contributions ours needs.
    fn children(&self) -> tree::Children {
        let (me, dead) = (self.nodes.place(self.me), self.nodes.places(&self.dead));
        let children = tree::children(me, self.size, &dead);
        children.into_iter().map(|child| self.nodes.rank(child)).collect()
    }

    fn header(&self, block: BlockId) -> Slow {
        let dead = if planted!(KeepNews) { RankSet::new() } else { self.dead.clone() };
        Slow { block, ballot: self.ballot(), dead }
    }

    /// The rank gives the communicator up: from now on it votes *no* on every block that it has
    /// not voted on, as soon as a rank asks.
    pub fn retire(&mut self, out: &mut impl Effects) {
        self.give_up(FaultCode::Abandoned, out);
    }

    /// The rank leaves the job, after so many blocks of this communicator: as [`Self::retire`],
    /// with a vote that says so.
    pub fn leave(&mut self, blocks: BlockId, out: &mut impl Effects) {
        self.give_up(FaultCode::finalized(blocks), out);
    }

    fn give_up(&mut self, code: FaultCode, out: &mut impl Effects) {
        self.retired = Some(code);
        self.tell_retired(out);
        for id in self.blocks.ids() {
            if self.blocks.get(id).is_some_and(|block| block.vote.is_none()) {
                self.enter_slow_path(id, out);
            }
        }
    }

    /// Makes sure that a rank which gave up is asked about every block: who waits for it in the
    /// fast path may say nothing to it before, and what it says may stay unread as long as this
    /// rank awaits another one.
    pub(super) fn tell_retired(&self, out: &mut impl Effects) {
        if self.retired.is_some() && !planted!(SlipAway) {
            let Route { seat, shape, .. } = self.route;
            for partner in seat.partners(shape) {
                out.send(self.view.rank_of(seat, partner), Message::Retired);
            }
        }
    }

    pub(super) fn handle_retired(&mut self, out: &mut impl Effects) {
        self.forsaken = true;
        let exchanging = |block: &Block| matches!(block.fast, Fast::Exchanging { .. });
        for id in self.blocks.ids() {
            if self.blocks.get(id).is_some_and(exchanging) {
                self.enter_slow_path(id, out);
            }
        }
    }

    /// The vote that a rank which gave the communicator up casts on every further block.
    pub(super) fn abandon_vote(&self) -> Option<Vote> {
        let fault = Fault { comm: self.comm, rank: self.me, code: self.retired? };
        Some(Vote { faults: alloc::vec![fault], context: 0 })
    }
}
