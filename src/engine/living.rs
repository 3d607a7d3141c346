//! Collectives over the living: requests of a block, made of messages in rounds.
//!
//! ```text
//! context       0, 1, …              │ shared, from the first report of a death on
//! collectives   MPI's own            │ refused; of blocks that run through: messages among the
//!                                    │ ranks that no report has named dead (`protocol::rounds`)
//! ```
//!
//! A communicator of the living for MPI's own collectives would take a call of all living ranks
//! that no further death may disturb, an agreement that it has gone well, and both once more after
//! every abort, since a collective that was given up meets the next one. Messages need none of it:
//! their tags name the context, so that nothing of an aborted attempt meets a later one; a death,
//! an interruption and a rank that has left end them as they end every message; and who takes part
//! is known without a question, since all ranks that start a block in one context have read the
//! same reports. Open MPI makes its nonblocking collectives of messages, too, and those here take
//! no more rounds than those.
//!
//! A collective fails as a whole if a rank of its view dies, wherever that stands in the rounds:
//! the block is faulty then, and nobody waits for a rank that has stopped because of it. What has
//! begun goes on in every turn of the engine, whatever this rank waits for.
//!
//! **Assumes** that all ranks start the collectives of a context in the same order, as MPI does.
//! Their numbers are in the tags. When the numbers begin anew, a collective waits for the one
//! before that had its number; messages with one tag come in their order.

use alloc::{boxed::Box, rc::Rc, vec, vec::Vec};
use core::{ops::Range, time::Duration};

use super::{
    BlockKey, CommKey, Engine, Need,
    neighbours::{Exchange, Role},
    window::FIRST_WINDOW_TAG,
};
use crate::{
    fault::FaultCode,
    ids::CommId,
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        rounds::{self, Act, Move, Pattern, Plan},
    },
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{Operation, Progress},
        reduction::Reduction,
    },
};

/// So many collectives have tags of their own.
const NUMBERS: u32 = 64;
/// Their first tag, above those of copies.
pub(crate) const FIRST_COLLECTIVE_TAG: u32 = FIRST_WINDOW_TAG - NUMBERS;

/// Longer buffers, in bytes, go by a tree where shorter ones go by recursive doubling.
const LONG: usize = 4096;

/// The ranks that take part in the collectives of a communicator, as they were asked for last.
pub(super) struct View {
    comm: CommId,
    left_out: usize,
    ranks: Rc<[Rank]>,
}

/// What a collective still has to do, beside its messages under way.
pub(super) struct Course {
    collective: Collective,
    /// What combines the elements, if they are combined.
    pub(super) reduction: Option<Reduction>,
    /// Who takes part, and this rank's place among them.
    view: Rc<[Rank]>,
    me: usize,
    tag: u32,
    /// The moves, if the whole buffer goes in rounds, and how many of them have started.
    plan: Plan,
    started: usize,
    /// Parts of the buffer go directly from each rank to each, and have not started.
    direct: bool,
    /// What the rounds work on instead of the application's buffer, which stays as it is.
    pub(super) work: Option<AnyBuffer>,
    /// When this rank has asked for the first time how far those are whom the present round needs.
    pub(super) asked: Option<Duration>,
}

impl Course {
    fn new(
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
            Collective::Broadcast { .. } => Some(Pattern::FromRoot(root)),
            Collective::Reduce { .. } => Some(Pattern::ToRoot(root)),
            Collective::Allreduce { .. } | Collective::ReduceScatter { .. } => {
                Some(if bytes > LONG { Pattern::ToAllByTree } else { Pattern::ToAll })
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
            asked: None,
        })
    }

    /// True when this rank combines what it gives with what others give, on their way to the root.
    fn passes_on(&self) -> bool {
        let combines = self.plan.iter().any(|it| it.act != Act::Send);
        self.collective.root().is_some_and(|root| root != self.view[self.me])
            && self.reduction.is_some()
            && combines
    }

    /// The moves of the next round; none after the last.
    fn next_round(&mut self) -> Plan {
        let rest = &self.plan[self.started..];
        let length = rest.iter().position(|it| it.ends_round).map_or(0, |at| at + 1);
        self.started += length;
        self.asked = None;
        rest[..length].iter().copied().collect()
    }

    /// The ranks of the communicator with which parts are exchanged: from whom, and to whom.
    fn partners(&self) -> [Vec<Rank>; 2] {
        let own = self.view[self.me];
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

impl Engine {
    /// Posts a collective as the next request of a block.
    pub(crate) fn post_collective(
        &mut self,
        key: BlockKey,
        collective: Collective,
        buffer: AnyBuffer,
    ) -> usize {
        let block = self.block(key);
        if !block.run_through || block.context < FIRST_SHARED_CONTEXT {
            return self.post(key, Need::All, &Operation::Collective(collective), buffer);
        }
        let (comm, context) = (block.comm, block.context);
        let need = Need::Living(self.contents(key).exchanges.len() as u32);
        self.note_synchronising(key, &collective, buffer.elements());
        let refusal = match self.process.doom(key, need) {
            None if self.comm(comm).data.is_none() => Some(FaultCode::Abandoned),
            doom => doom,
        };
        if let Some(code) = refusal {
            return self.add_failed(key, Need::All, (code, buffer));
        }
        let state = self.process.comm_mut(comm);
        let number = state.count_collective(context);
        let me = state.me;
        let view = self.view(comm);
        let bytes = buffer.elements() * buffer.element_bytes();
        let root = collective.root();
        let mut exchange = Exchange::new(buffer, 2);
        let tag = FIRST_COLLECTIVE_TAG + number % NUMBERS;
        match Course::new(collective, (view, me), tag, bytes) {
            Some(course) => exchange.course = Some(Box::new(course)),
            None => exchange.blame(root.unwrap_or(me), FaultCode::ProcessFailed),
        }
        exchange.prepare(self.contents(key).size as usize);
        let index = self.add_exchange(key, exchange, Need::Living);
        self.collectives.push((key, index));
        self.defer_commands(|engine| engine.test_request(key, index));
        index
    }

    /// The ranks that no report has named dead.
    fn view(&mut self, comm: CommKey) -> Rc<[Rank]> {
        let state = self.comm(comm);
        let (comm, left_out) = (state.wire, state.commit.reported_dead().len());
        let is_known = |it: &&View| (it.comm, it.left_out) == (comm, left_out);
        if let Some(known) = self.view.as_ref().filter(is_known) {
            return known.ranks.clone();
        }
        let ranks: Rc<[Rank]> = state.view().collect();
        self.view = Some(View { comm, left_out, ranks: ranks.clone() });
        ranks
    }

    /// Notes whether a block has an operation now that needs something of every rank.
    pub(super) fn note_synchronising(
        &mut self,
        key: BlockKey,
        collective: &Collective,
        elements: usize,
    ) {
        let size = self.comm(self.block(key).comm).size();
        self.contents_mut(key).has_synchronised |= collective.needs_every_rank(size, elements);
    }

    /// Goes on with all collectives that are made of messages: others may wait for this rank's
    /// part, whatever this rank waits for.
    pub(super) fn advance_collectives(&mut self) {
        self.defer_commands(|engine| {
            let mut at = 0;
            while let Some(&(key, index)) = engine.collectives.get(at) {
                let goes_on = engine.process.current(key).is_some()
                    && engine.test_request(key, index) == Progress::Pending;
                if goes_on {
                    at += 1;
                } else {
                    engine.collectives.remove(at);
                }
            }
        });
    }

    /// Starts the next round of an operation, all of whose messages are over. Nothing when there
    /// is none; false when it has to wait for an older collective with the same tag.
    pub(super) fn start_round(&mut self, key: BlockKey, at: usize) -> Option<bool> {
        let course = self.contents(key).exchanges[at].course.as_ref()?;
        if course.started == 0 && self.is_tag_taken(key, (at, course.tag)) {
            return Some(false);
        }
        // It is not in its place while its messages start, of which nothing is told meanwhile.
        let nothing = Exchange::new(AnyBuffer::nothing(), 0);
        let mut exchange = core::mem::replace(&mut self.contents_mut(key).exchanges[at], nothing);
        let started = self.start_round_of(key, &mut exchange);
        if !started {
            exchange.conclude(self.contents(key).size as usize);
        }
        self.contents_mut(key).exchanges[at] = exchange;
        started.then_some(true)
    }

    /// The same for an exchange that is not in its place; false when there is no further round.
    fn start_round_of(&mut self, key: BlockKey, exchange: &mut Exchange) -> bool {
        let Some(course) = &mut exchange.course else { return false };
        let tag = course.tag;
        if core::mem::take(&mut course.direct) {
            let [from, to] = course.partners();
            for (peers, receives) in [(from, true), (to, false)] {
                for peer in peers {
                    let part = exchange.part(peer, self.contents(key).size as usize, receives);
                    self.add_part(key, exchange, (peer, tag), &part, receives);
                }
            }
            return true;
        }
        let (round, view) = (course.next_round(), course.view.clone());
        exchange.begin_round();
        let whole = 0..exchange.buffer.as_ref().map_or(0, AnyBuffer::elements);
        for Move { peer, act, .. } in &round {
            let role = match act {
                Act::Send => Role::Sent,
                Act::Take => Role::Received(whole.clone()),
                Act::CombineBefore => Role::Combined { before: true },
                Act::CombineAfter => Role::Combined { before: false },
            };
            self.add_elements(key, exchange, (view[*peer], tag), role, &whole);
        }
        !round.is_empty()
    }

    /// True when an older collective on the same communicator has the tag of this one.
    fn is_tag_taken(&self, key: BlockKey, (at, tag): (usize, u32)) -> bool {
        let comm = self.block(key).comm;
        let known = |(key, index): &&(BlockKey, usize)| {
            self.process.current(*key).is_some()
                && self.contents(*key).records.get(*index).is_some_and(|it| !it.is_over())
        };
        let mut under_way = self.collectives.iter().filter(known).filter_map(|(key, index)| {
            let Need::Living(at) = self.contents(*key).records[*index].need else { return None };
            Some((*key, at as usize))
        });
        let older = under_way.by_ref().take_while(|it| *it != (key, at));
        let mut same = older.filter(|(key, at)| {
            let course = self.contents(*key).exchanges[*at].course.as_ref();
            self.block(*key).comm == comm && course.is_some_and(|it| it.tag == tag)
        });
        same.next().is_some()
    }
}

impl Exchange {
    /// A rank that passes on what it has combined keeps its buffer as it is.
    fn prepare(&mut self, size: usize) {
        let Some(course) = &mut self.course else { return };
        if let (true, Some(buffer)) = (course.passes_on(), &self.buffer) {
            course.work = Some(buffer.copy(0, buffer.elements()));
        }
        if let (Collective::Exchange { .. }, Some(buffer)) = (&course.collective, &mut self.buffer)
        {
            let me = course.view[course.me].index();
            let elements = buffer.elements();
            let from = course.collective.given(me, me, size, elements);
            let to = course.collective.taken(me, me, size, elements);
            let own = buffer.copy(from.start, from.len());
            buffer.fill(to.start, &*own);
        }
    }

    /// Which elements come from another rank, or go there.
    fn part(&self, peer: Rank, size: usize, receives: bool) -> Range<usize> {
        let elements = self.buffer.as_ref().map_or(0, AnyBuffer::elements);
        let Some(course) = &self.course else { return 0..0 };
        let (peer, me) = (peer.index(), course.view[course.me].index());
        if receives {
            course.collective.taken(peer, me, size, elements)
        } else {
            course.collective.given(peer, me, size, elements)
        }
    }

    /// All rounds are over.
    fn conclude(&mut self, size: usize) {
        let (Some(course), Some(buffer)) = (&self.course, &mut self.buffer) else { return };
        if let Collective::ReduceScatter { parts, .. } = &course.collective {
            let own = parts.range(course.view[course.me].index(), size, buffer.elements());
            let part = buffer.copy(own.start, own.len());
            buffer.fill(0, &*part);
        }
    }
}
