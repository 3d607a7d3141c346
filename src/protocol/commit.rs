//! Commit: all living ranks reach the same verdict on a block.
//!
//! Intuition: say *yes* to all ranks in log n rounds, and if that works no rank needs to say more.
//! Whoever sees trouble stops saying *yes*, for ever, and asks everybody what they know; as nobody
//! who was asked can slip away by the first way any more, the answers settle the matter.
//!
//! ```text
//! fast   A ↔ B: Yes, in some rounds among groups ([`exchange`]); all combined → committed
//! slow   anybody → parent, children: Ask     (promise: no fast decision from here on)
//!        child → parent: Contribute          (own vote and the whole subtree, or Decided)
//!        root → children → …: Decide         (relayed before it is delivered)
//! ```
//!
//! In a block with a fused reduction each *yes* carries what its sender has combined ([`fused`]);
//! on the slow path the values of all ranks go up to the root, which combines them in the same
//! order. The result is part of the decision.
//!
//! [`exchange`]: super::exchange
//! [`fused`]: super::fused
//!
//! The slow path is entered by a rank that learns of a death, that votes *no*, that meets another
//! view, or that receives any slow-path message for the block.
//!
//! A vote can be for something else than the block itself, such as a farewell: *yes* among votes
//! for the same, which the fast path tells by the number that also names the view, and a fault in
//! the slow path where they are mixed.
//!
//! Steps of a recovery are blocks as well, whose reports no user sees. What a step decides changes
//! the view, so that the next step goes on without the dead; a death counts as reported, and is
//! left out of reports from then on, only when a block of the application has named it.
//!
//! An agreement on a flag (`agreements`) is a block, too, which has its result whoever dies, and
//! tells of the deaths that not all voters had acknowledged.
//!
//! Where ranks share nodes, the fast path combines the votes of a node before they go to others
//! ([`nodes`](super::nodes)), and the tree of the slow path counts the ranks node by node.
//!
//! **Guarantees.** No two living ranks decide differently (a rank that decided and then died does
//! not bind the others); every living rank decides once all living ranks have voted; a decided
//! rank has voted; *committed* implies that every rank voted *yes*, except those that the report of
//! an earlier block named dead, and for a step those that an earlier step did.
//!
//! **Assumes** reliable FIFO links between living ranks and a detector that reports every death
//! in the end and never a living rank.
//!
//! **Why it holds.** A decision carries its ballot, the acting root. A rank that knows the ranks
//! below *r* dead takes no decision of a ballot below *r*; so once it has contributed
//! *undecided* to root *r*, no earlier decision can reach it any more, and if one had reached it
//! before, it contributed *decided*. The root hears every living rank or one that had decided.
//! Two rules keep a late decision of a dead root out, and either would do: messages of the known
//! dead are dropped, and a lower ballot is refused. `tests/checkers` searches small groups
//! exhaustively and pins the number of states.
//!
//! **Differs from the paper** (early returning agreement): the fast path in front; ballots instead
//! of acknowledgements; decisions are forgotten by a floor that rides in every vote.
//!
//! Reference: Hassani et al. 2015, §3.1; ULFM team 2015, "Logarithmic Agreement Routine".

mod agreements;
mod causes;
mod fast;
pub(super) mod fusion;
pub(super) mod routes;
mod slow;
mod window;

use alloc::{boxed::Box, vec::Vec};

use super::{
    Effects, Event,
    agreement::{Decision, Vote},
    exchange::Shape,
    fused::Values,
    message::Message,
    placement::Nodes,
    planted::planted,
    view::View,
};
use crate::{
    fault::FaultCode,
    ids::{BlockId, CommId},
    rank::{Rank, RankSet},
};
use fusion::Fusion;
use routes::{Route, Way};
use window::{Block, Decided, Fast, Window};

/// The commits of all blocks of one communicator, at one rank.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Commit {
    comm: CommId,
    me: Rank,
    size: u32,
    dead: RankSet,
    /// How they have died.
    account: causes::Account,
    /// The dead whom the application knows of, by the report of a block; all of them are out of
    /// the view.
    reported: RankSet,
    /// The steps of recoveries that have not ended, each with the deaths that it knows of.
    steps: Vec<(BlockId, RankSet)>,
    view: View,
    /// The agreements that are not decided, each with the deaths that this rank has acknowledged.
    agreements: Vec<(BlockId, RankSet)>,
    /// How votes go in this view.
    route: Route,
    /// Where the ranks are in the slow path's tree.
    nodes: Nodes,
    blocks: Window,
    undecided: BlockId,
    /// All living ranks have decided the blocks below this one.
    floor: BlockId,
    /// To the others this rank seems not to have decided the blocks from this one on.
    held: BlockId,
    /// The fault with which this rank votes on what it has not voted on, because it has given the
    /// communicator up.
    retired: Option<FaultCode>,
    /// A rank whose vote would come to us unasked gave the communicator up.
    forsaken: bool,
    /// Room for the values of another block, so that a fused commit allocates nothing.
    spare: Option<Box<Fusion>>,
}

impl Commit {
    /// For this rank of a communicator in which no rank has died.
    pub fn new(comm: CommId, me: Rank, size: u32) -> Self {
        let view = View::new(size, Shape::WIDE);
        Self {
            comm,
            me,
            size,
            dead: RankSet::new(),
            account: causes::Account::default(),
            reported: RankSet::new(),
            steps: Vec::new(),
            agreements: Vec::new(),
            route: Route::new(&view, me),
            nodes: Nodes::default(),
            view,
            blocks: Window::default(),
            undecided: BlockId(0),
            floor: BlockId(0),
            held: BlockId(u64::MAX),
            retired: None,
            forsaken: false,
            spare: None,
        }
    }

    /// With exchanges of this shape, which is the same on all ranks. Before the first vote.
    #[must_use]
    pub fn with_shape(mut self, shape: Shape) -> Self {
        self.view = View::new(self.size, shape);
        self.route = Route::new(&self.view, self.me);
        self
    }

    /// Among ranks on these nodes, the same on all ranks. Before the first vote, and after
    /// [`Self::with_shape`].
    #[must_use]
    pub fn on_nodes(mut self, nodes: &Nodes) -> Self {
        self.view = self.view.on_nodes(nodes);
        self.route = Route::new(&self.view, self.me);
        self.nodes = nodes.clone();
        self
    }

    /// As [`Self::handle_vote`], with values for a fused reduction; they count if the vote is
    /// *yes*, or is one in an agreement.
    #[inline]
    pub fn handle_fused_vote(
        &mut self,
        id: BlockId,
        vote: Vote,
        values: &Values,
        out: &mut impl Effects,
    ) {
        self.blocks.reach(id);
        let counts =
            vote.is_yes() || self.acknowledged_in(id).is_some() && vote.purpose().is_some();
        if counts && self.retired.is_none() {
            self.route.fuse(&self.view);
            self.fusion(id).vote(values);
        }
        self.handle_vote(id, vote, out);
    }

    /// The block is a step of a recovery, whose report no user sees, on all ranks that vote on it.
    /// Right before the vote.
    pub fn begin_step(&mut self, id: BlockId) {
        self.steps.push((id, self.view.dead().clone()));
    }

    /// Ends a step that is decided: gives the deaths that it knows of, the same on all ranks,
    /// whichever other blocks they have decided.
    ///
    /// # Panics
    ///
    /// When it is no step, or has ended.
    pub fn end_step(&mut self, id: BlockId) -> RankSet {
        let at = self.steps.iter().position(|(step, _)| *step == id);
        let (_, known) = self.steps.swap_remove(at.expect("a step ends once"));
        if planted!(LearnTooLate) { self.view.dead().clone() } else { known }
    }

    /// This rank ends its attempt at a block with this vote. Once per block and rank.
    ///
    /// # Panics
    ///
    /// When this rank voted on the block before.
    #[inline]
    pub fn handle_vote(&mut self, id: BlockId, vote: Vote, out: &mut impl Effects) {
        let due = self.floor;
        self.cast(id, vote, out);
        // The others have our message by now, and wait for no bookkeeping of ours.
        self.forget_below(due);
    }

    #[inline]
    fn cast(&mut self, id: BlockId, vote: Vote, out: &mut impl Effects) {
        self.blocks.reach(id);
        if self.retired.is_some() {
            // It votes no, whatever it was going to vote, and now it wants to know the verdict.
            self.enter_slow_path(id, out);
            return;
        }
        let slow = self.forsaken || self.has_news_for(id);
        let mine = self.view.fingerprint(vote.context);
        let block = self.blocks.at_mut(id);
        let mut exchange = self.route.blank.clone();
        let mut slow = slow;
        if let Some(fusion) = block.fusion.as_deref_mut() {
            match self.route.way_of(fusion.own.get()) {
                Way::Plain => {}
                Way::Parts(brought) => fusion.begin_parts(&brought.own),
                Way::Gathered => slow = true,
            }
        }
        let mine = mine ^ block.fusion.as_ref().map_or(0, |fusion| fusion.fingerprint());
        assert!(block.vote.is_none(), "rank votes once on block {id:?}");
        let purpose = vote.purpose();
        let (mine, yes) = (mine ^ purpose.unwrap_or(0), purpose.is_some());
        block.vote = Some(vote);
        let early = match block.fast {
            Fast::Open { steps: 0, .. } => Some((0, BlockId(u64::MAX))),
            Fast::Open { steps, view, floor } if view == mine => Some((steps, floor)),
            _ => None,
        };
        match early {
            Some((steps, floor)) if yes && !slow && block.slow.is_none() => {
                exchange.arrive_early(steps);
                block.fast = Fast::Exchanging { exchange, view: mine, floor };
                self.exchange(id, out);
            }
            _ => self.enter_slow_path(id, out),
        }
    }

    /// A message from another rank of the communicator.
    #[inline]
    pub fn handle_message(&mut self, from: Rank, message: Message, out: &mut impl Effects) {
        if let Message::Yes(yes) = message {
            return self.handle_yes(from, yes, out);
        }
        if let Message::Fused(fused) = message {
            return self.handle_fused(from, fused.yes, &fused.values, out);
        }
        self.forget();
        if !self.listens_to(from) {
            return;
        }
        match message {
            Message::Ask(slow) => self.handle_ask(from, &slow, None, out),
            Message::Contribute(slow, what) => self.handle_ask(from, &slow, Some(what), out),
            Message::Decide(slow, decision) => self.handle_decide(&slow, decision, out),
            Message::Retired => self.handle_retired(out),
            Message::Yes(_)
            | Message::Fused(_)
            | Message::Interrupt(_)
            | Message::HowFar(_)
            | Message::Reached(..)
            | Message::Wanted(_)
            | Message::Ahead(_) => {}
        }
    }

    /// True unless the rank is known to be dead, or the communicator does not have it.
    #[inline]
    fn listens_to(&self, from: Rank) -> bool {
        let is_deaf = self.dead.contains(from) && !planted!(HearTheDead);
        (!is_deaf || planted!(TakeAnyBallot)) && from.number() < self.size && from != self.me
    }

    /// A rank of the communicator died.
    pub fn handle_failure(&mut self, dead: Rank, out: &mut impl Effects) {
        let mut deaths = RankSet::new();
        deaths.insert(dead);
        self.learn(&deaths, out);
    }

    /// The decision on a block, until all living ranks have decided it, and at least until the
    /// next turn.
    #[inline]
    pub fn decision(&self, id: BlockId) -> Option<Decision> {
        self.blocks.get(id)?.decision()
    }

    /// Whether a block is committed, as long as there is its decision.
    #[inline]
    pub fn is_committed(&self, id: BlockId) -> Option<bool> {
        match self.blocks.get(id)?.decided.as_ref()? {
            Decided::Fast { .. } => Some(true),
            Decided::Slow(agreed) => Some(agreed.0.committed),
        }
    }

    /// The result of the fused reduction of a block, as long as there is its decision; nothing
    /// unless it is committed.
    #[inline]
    pub fn values(&self, id: BlockId) -> Option<&Values> {
        self.blocks.get(id)?.values()
    }

    /// The rank whose message the fast path of a block waits for.
    #[inline]
    pub fn awaits(&self, id: BlockId) -> Option<Rank> {
        match self.blocks.get(id).map(|block| &block.fast) {
            Some(Fast::Exchanging { exchange, .. }) => {
                let seat = self.route.seat;
                exchange.awaits(seat).map(|peer| self.view.rank_of(seat, peer))
            }
            _ => None,
        }
    }

    /// The ranks among which blocks are decided that are finished now.
    pub fn live(&self) -> &View {
        &self.view
    }

    /// All deaths known here, agreed or not.
    pub fn dead(&self) -> &RankSet {
        &self.dead
    }

    /// The deaths that decisions of this communicator have named, those of steps included.
    pub fn agreed_dead(&self) -> &RankSet {
        self.view.dead()
    }

    /// The deaths that reports of this communicator have named: decisions of blocks, not of steps.
    pub fn reported_dead(&self) -> &RankSet {
        &self.reported
    }

    /// The deaths that the decision of a block, of a step or of an agreement does not name again.
    #[inline]
    fn known_to(&self, id: BlockId) -> &RankSet {
        match self.acknowledged_in(id) {
            Some(acknowledged) => acknowledged,
            None if self.is_step(id) => self.view.dead(),
            None => &self.reported,
        }
    }

    #[inline]
    pub(super) fn is_step(&self, id: BlockId) -> bool {
        self.steps.iter().any(|(step, _)| *step == id)
    }

    /// The lowest block that some living rank may still ask about.
    pub fn base(&self) -> BlockId {
        self.blocks.base()
    }

    /// True when this rank has decided a block, which it may have forgotten since.
    pub fn has_decided(&self, id: BlockId) -> bool {
        id < self.base() || self.is_committed(id).is_some()
    }

    /// All living ranks have decided the blocks below this one, and hold none of them.
    pub fn floor(&self) -> BlockId {
        self.floor
    }

    /// Keeps the floor of all ranks from rising above this block, of which this rank has not said
    /// that it has decided it, as long as something that ended with it is in use here. The greatest
    /// number lets go.
    pub fn hold(&mut self, from: BlockId) {
        self.held = from;
    }

    /// The lowest block that matters to this rank, as it says in its votes.
    #[inline]
    fn lowest(&self) -> BlockId {
        self.undecided.min(self.held)
    }

    /// Number of blocks kept for late askers.
    pub fn retained(&self) -> usize {
        self.blocks.len()
    }

    /// Bookkeeping after a first decision: the floor rises, the engine hears of it.
    #[inline]
    fn finish_decision(&mut self, id: BlockId, floor: BlockId, out: &mut impl Effects) {
        while self.blocks.get(self.undecided).is_some_and(|block| block.decided.is_some()) {
            self.undecided = self.undecided.next();
        }
        self.end_agreement(id);
        let floor = if planted!(ForgetEarly) { id } else { floor };
        self.floor = floor.max(self.floor);
        out.emit(Event::Decided(id));
    }

    /// Forgets blocks that no living rank can ask about. This happens at the start of a turn, not
    /// when the floor rises, because one turn can decide two blocks and the engine asks for their
    /// decisions after it.
    #[inline]
    fn forget(&mut self) {
        self.forget_below(self.floor);
    }

    #[inline]
    fn forget_below(&mut self, floor: BlockId) {
        while self.blocks.base() < floor
            && let Some(block) = self.blocks.lowest()
            && block.decided.is_some()
        {
            if let Some(mut fusion) = block.fusion.take() {
                fusion.clear();
                self.spare = Some(fusion);
            }
            self.blocks.forget_lowest();
        }
    }

    /// The values of a block.
    #[inline]
    fn fusion(&mut self, id: BlockId) -> &mut Fusion {
        let spare = &mut self.spare;
        let block = self.blocks.at_mut(id);
        block.fusion.get_or_insert_with(|| spare.take().unwrap_or_default())
    }

    /// Goes on without ranks that are dead by the decision on this block, which has named these
    /// anew.
    fn exclude(&mut self, id: BlockId, dead: &RankSet, known: &RankSet) {
        let is_report = !self.is_step(id) && self.acknowledged_in(id).is_none();
        if is_report || planted!(HushTheDeath) {
            self.reported.union_with(dead);
        }
        if !known.is_subset(self.view.dead()) {
            self.view.exclude(known);
            self.route = Route::new(&self.view, self.me);
        }
    }

    /// Notes deaths and lets every block react to them.
    fn learn(&mut self, deaths: &RankSet, out: &mut impl Effects) {
        let news: Vec<Rank> =
            deaths.iter().filter(|r| r.number() < self.size && *r != self.me).collect();
        let mut any = false;
        for rank in news {
            if self.dead.insert(rank) {
                any = true;
                self.account.await_cause(rank);
                out.emit(Event::Learned(rank));
            }
        }
        if !any {
            return;
        }
        for id in self.blocks.ids() {
            let Some(block) = self.blocks.get(id) else { continue };
            if block.slow.is_some() {
                self.advance(id, out);
            } else if matches!(block.fast, Fast::Exchanging { .. }) && !planted!(WaitForTheDead) {
                self.enter_slow_path(id, out);
            }
        }
    }

    /// Makes room for a block that others speak of; false when it is forgotten.
    ///
    /// However far ahead of this rank's own blocks it is: another rank may have any number of
    /// blocks open, and ends them in any order. What it says of them it says once.
    #[inline]
    fn locate(&mut self, id: BlockId) -> bool {
        let kept = id >= self.blocks.base();
        if kept {
            self.blocks.reach(id);
        }
        kept
    }
}

#[cfg(test)]
mod tests;
