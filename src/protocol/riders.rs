//! Riders: small collectives that ride on the commit of their block, unless a rank waits for one
//! ahead of it.
//!
//! A barrier, or a reduction of a few numbers, needs no messages of its own when it is the last of
//! a block: the votes bring all ranks together, and carry what each rank gives
//! ([`fused`](super::fused)). If a rank waits for the result inside of the block, the ranks
//! exchange what they give at once, by messages like those of the fast path
//! ([`exchange`](super::exchange)), without a vote:
//!
//! ```text
//! 0 waits    0 ── ahead ──▶ 1, 2      a rank that has posted it answers, wherever it is in the
//!            1, 2 ── ahead ──▶ all    block; one that has not does so when it posts it
//! ```
//!
//! **Guarantees.** A rank that waits has the result once all ranks of the view have posted the
//! rider, if none of them dies. It has the bits that it has on the commit. No message is sent for a
//! rider that no rank waits for. What a rank votes depends on none of this.
//!
//! **Assumes** that all ranks post the riders of a block in one order, and that a block whose ranks
//! have different views is interrupted.
//!
//! Reference: Hassani et al. 2015, §3.1, the block with a synchronising collective.

use alloc::vec::Vec;

use super::{
    Effects,
    commit::fusion::Fusion,
    commit::routes::Way,
    exchange::{self, Exchange},
    fused::Values,
    message::{Ahead, Message, RiderId},
    nodes,
    planted::planted,
    view::View,
};
use crate::{ids::BlockId, rank::Rank};

/// The ranks that exchange, and this one.
#[derive(Clone, Copy, Debug)]
pub struct Among<'a> {
    /// The view of the communicator.
    pub view: &'a View,
    /// This rank.
    pub me: Rank,
}

/// The ranks have brought values of different shapes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mismatched;

/// The riders of the undecided blocks of one communicator, at one rank.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Riders(Vec<Rider>);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Rider {
    id: RiderId,
    /// The fingerprint of the view; of the first message that came, until it is posted here.
    view: u64,
    /// The data context of its block.
    context: u32,
    /// The header of the values; of the first message that came, until it is posted here.
    header: Option<u32>,
    /// A message had another header.
    mismatched: bool,
    /// Some rank waits for it.
    wanted: bool,
    /// The steps whose messages have come before the exchange began.
    early: u64,
    fusion: Fusion,
    stage: Stage,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Stage {
    Unposted,
    Posted,
    Exchanging(Exchange),
    Over,
}

impl Rider {
    fn new(id: RiderId, view: u64) -> Self {
        Self {
            id,
            view,
            context: 0,
            header: None,
            mismatched: false,
            wanted: false,
            early: 0,
            fusion: Fusion::default(),
            stage: Stage::Unposted,
        }
    }

    fn note_header(&mut self, values: Option<&Values>) {
        let header = values.map_or(0, Values::header);
        self.mismatched |= *self.header.get_or_insert(header) != header;
    }

    /// Begins the exchange, if this rank has posted the rider and a rank waits for it, and goes on
    /// with it. In another view than that of the post nothing comes of it.
    fn advance(&mut self, Among { view, me }: Among<'_>, out: &mut impl Effects) {
        let Self { id, context, early, fusion, stage, .. } = self;
        if !self.wanted || self.mismatched || view.fingerprint(*context) != self.view {
            return;
        }
        if matches!(stage, Stage::Posted) {
            let mut exchange = Exchange::new(view.position_of(me), view.live(), view.shape());
            exchange.arrive_early(*early);
            if let Some(position) = exchange.folds_in()
                && !planted!(LetTheFoldedSleep)
            {
                // It is asked, as its message comes first.
                out.send(view.rank_at(position), Message::Wanted(*id));
            }
            *stage = Stage::Exchanging(exchange);
        }
        let Stage::Exchanging(exchange) = stage else { return };
        let is_over = exchange.advance(|act| match act {
            exchange::Move::Send(peer, step) => {
                let values = fusion.combined.clone();
                let ahead = Ahead { rider: *id, step, view: self.view, values };
                out.send(view.rank_at(peer), Message::Ahead(ahead));
            }
            act => fusion.combine(nodes::Move::Among(act), Way::Plain),
        });
        if is_over {
            *stage = Stage::Over;
        }
    }
}

impl Riders {
    /// This rank posts a rider in a block of this data context, with what it gives; nothing for a
    /// barrier.
    pub fn post(
        &mut self,
        (id, context): (RiderId, u32),
        values: Option<&Values>,
        among: Among<'_>,
        out: &mut impl Effects,
    ) {
        let view = among.view.fingerprint(context);
        let rider = self.find_or_add(id, view);
        if rider.view != view {
            // What came is of a block that is interrupted.
            *rider = Rider { wanted: rider.wanted, ..Rider::new(id, view) };
        }
        rider.context = context;
        rider.note_header(values);
        if let Some(values) = values {
            rider.fusion.vote(values);
        }
        rider.stage = Stage::Posted;
        rider.advance(among, out);
    }

    /// This rank, which has posted the rider, waits for it.
    pub fn want(&mut self, id: RiderId, among: Among<'_>, out: &mut impl Effects) {
        if let Some(rider) = self.find(id)
            && !rider.wanted
        {
            rider.wanted = true;
            rider.advance(among, out);
        }
    }

    /// Another rank waits for a rider, or knows of a rank that does.
    pub fn handle_wanted(&mut self, id: RiderId, among: Among<'_>, out: &mut impl Effects) {
        let rider = self.find_or_add(id, 0);
        rider.wanted = true;
        rider.advance(among, out);
    }

    /// Another rank has sent what it has combined.
    pub fn handle_ahead(
        &mut self,
        from: Rank,
        ahead: &Ahead,
        among: Among<'_>,
        out: &mut impl Effects,
    ) {
        let rider = self.find_or_add(ahead.rider, ahead.view);
        rider.wanted |= !planted!(WaitInVain);
        if matches!(rider.stage, Stage::Unposted) && rider.header.is_none() {
            rider.view = ahead.view;
        }
        if rider.view != ahead.view {
            return;
        }
        let values = ahead.values.get();
        rider.note_header(values);
        let is_due = match &mut rider.stage {
            Stage::Exchanging(exchange) => {
                exchange.arrive(among.view.position_of(from), ahead.step)
            }
            Stage::Unposted | Stage::Posted => {
                rider.early |= 1 << (ahead.step & 63);
                true
            }
            Stage::Over => false,
        };
        if let (true, Some(values)) = (is_due, values) {
            rider.fusion.arrive(ahead.step, values, false);
        }
        rider.advance(among, out);
    }

    /// What all ranks have given together, and nothing for a barrier, once it is known ahead of
    /// the commit.
    pub fn outcome(&self, id: RiderId) -> Option<Result<Option<&Values>, Mismatched>> {
        let rider = self.0.iter().find(|rider| rider.id == id)?;
        if rider.mismatched {
            return Some(Err(Mismatched));
        }
        matches!(rider.stage, Stage::Over).then(|| Ok(rider.fusion.combined.get()))
    }

    /// What this rank gives; nothing for a barrier.
    pub fn own(&self, id: RiderId) -> Option<&Values> {
        self.0.iter().find(|rider| rider.id == id)?.fusion.own.get()
    }

    /// True when some rank waits for a rider that this one has posted.
    pub fn is_wanted(&self, id: RiderId) -> bool {
        self.0.iter().any(|rider| rider.id == id && rider.wanted)
    }

    /// Forgets the riders of a block that is decided, and of all before this one.
    #[inline]
    pub fn forget(&mut self, decided: BlockId, below: BlockId) {
        if !self.0.is_empty() {
            self.0.retain(|rider| rider.id.block != decided && rider.id.block >= below);
        }
    }

    fn find(&mut self, id: RiderId) -> Option<&mut Rider> {
        self.0.iter_mut().find(|rider| rider.id == id)
    }

    fn find_or_add(&mut self, id: RiderId, view: u64) -> &mut Rider {
        let at = self.0.iter().position(|rider| rider.id == id);
        let at = at.unwrap_or_else(|| {
            self.0.push(Rider::new(id, view));
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::VecDeque, format, vec};

    use super::*;
    use crate::protocol::{
        Effect,
        exchange::Shape,
        fused::{ReduceOp, combined},
    };

    const ID: RiderId = RiderId { block: BlockId(4), number: 1 };

    /// A group of ranks, some of which wait.
    struct Group {
        view: View,
        ranks: Vec<Riders>,
        wires: VecDeque<(Rank, Rank, Message)>,
        sent: usize,
    }

    /// Numbers whose sum shows in which order it was made.
    fn brings(rank: usize) -> Values {
        let number = [1e16, 1.0, -1e16, 3.0, 0.1][rank % 5] * (rank + 1) as f64;
        Values::new(ReduceOp::Sum, &[number, rank as f64]).expect("sums")
    }

    impl Group {
        fn new(size: u32, shape: Shape, dead: &[u32]) -> Self {
            let mut view = View::new(size, shape);
            view.exclude(&dead.iter().copied().map(Rank::new).collect());
            let ranks = vec![Riders::default(); size as usize];
            Self { view, ranks, wires: VecDeque::new(), sent: 0 }
        }

        fn living(&self) -> Vec<usize> {
            (0..self.view.live()).map(|position| self.view.rank_at(position).index()).collect()
        }

        fn at(&mut self, rank: usize, turn: impl FnOnce(&mut Riders, Among<'_>, &mut Vec<Effect>)) {
            let (me, mut out) = (Rank::from(rank), Vec::new());
            turn(&mut self.ranks[rank], Among { view: &self.view, me }, &mut out);
            for effect in out {
                let Effect::Send(to, message) = effect else { panic!("{effect:?}") };
                self.sent += 1;
                self.wires.push_back((me, to, message));
            }
        }

        fn post(&mut self, rank: usize, values: Option<Values>) {
            self.at(rank, |riders, among, out| {
                riders.post((ID, 0), values.as_ref(), among, out);
            });
        }

        fn want(&mut self, rank: usize) {
            self.at(rank, |riders, among, out| riders.want(ID, among, out));
        }

        /// Delivers all that is under way, and what follows from it.
        fn deliver(&mut self) {
            while let Some((from, to, message)) = self.wires.pop_front() {
                self.at(to.index(), |riders, among, out| match &message {
                    Message::Ahead(ahead) => riders.handle_ahead(from, ahead, among, out),
                    Message::Wanted(id) => riders.handle_wanted(*id, among, out),
                    other => panic!("{other:?}"),
                });
            }
        }
    }

    const SHAPES: [Shape; 3] = [Shape::DOUBLING, Shape::WIDE, Shape::new(8, 4)];

    #[test]
    fn all_have_the_bits_of_the_commit_whoever_waits_and_whoever_is_late() {
        for (shape, size) in SHAPES.into_iter().flat_map(|it| (1..20).map(move |n| (it, n))) {
            let dead: &[u32] = if size > 3 { &[1] } else { &[] };
            let living = Group::new(size, shape, dead).living();
            let values: Vec<Values> = living.iter().map(|rank| brings(*rank)).collect();
            let expected = combined(values).expect("somebody");
            for (waits, late) in
                living.iter().flat_map(|one| living.iter().map(move |it| (*one, *it)))
            {
                let mut group = Group::new(size, shape, dead);
                for rank in living.iter().copied().filter(|rank| *rank != late) {
                    group.post(rank, Some(brings(rank)));
                }
                assert_eq!(group.sent, 0, "no rank waits");
                if waits != late {
                    group.want(waits);
                    group.deliver();
                    let early = group.ranks[waits].outcome(ID);
                    assert_eq!(early, None, "{late} has given nothing");
                }
                group.post(late, Some(brings(late)));
                group.want(waits);
                group.deliver();
                for rank in &living {
                    let found = group.ranks[*rank].outcome(ID);
                    let told =
                        format!("{shape:?}, {rank} of {size}, {waits} waits, {late} is late");
                    assert_eq!(found, Some(Ok(Some(&expected))), "{told}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_sent_for_what_no_rank_waits_for() {
        let mut group = Group::new(9, Shape::WIDE, &[]);
        (0..9).for_each(|rank| group.post(rank, None));
        assert_eq!((group.sent, group.ranks[3].outcome(ID)), (0, None));
        group.want(8);
        group.deliver();
        assert_eq!(group.ranks[8].outcome(ID), Some(Ok(None)), "a barrier");
        // As a commit, and the one that folds in is told that it is waited for.
        assert_eq!(group.sent, 8 * 7 + 2 + 1);
    }

    #[test]
    fn ranks_that_bring_something_else_are_found_out() {
        let other = Values::new(ReduceOp::Max, &[1_u8]).expect("defined");
        for odd in [None, Some(other)] {
            let mut group = Group::new(3, Shape::WIDE, &[]);
            group.post(0, Some(brings(0)));
            group.want(0);
            group.deliver();
            group.post(1, odd);
            group.post(2, Some(brings(2)));
            group.want(2);
            group.deliver();
            assert!(group.ranks.iter().any(|it| it.outcome(ID) == Some(Err(Mismatched))));
        }
    }

    #[test]
    fn what_comes_from_another_view_counts_for_nothing() {
        let mut group = Group::new(2, Shape::WIDE, &[]);
        group.post(0, Some(brings(0)));
        group.want(0);
        group.view = View::new(3, Shape::WIDE);
        group.deliver();
        group.post(1, Some(brings(1)));
        assert_eq!(group.ranks[1].outcome(ID), None);
        group.ranks[1].forget(ID.block, BlockId(0));
        assert_eq!(group.ranks[1], Riders::default());
    }
}
