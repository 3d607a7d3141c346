//! Partner copies: the state of a rank, kept by itself and by its partner, valid with a commit.
//!
//! The partner of rank r is rank r + n/2 (modulo n), so that neighbours, which often share a
//! node, do not keep each other's copies. A copy travels inside a block and becomes valid with
//! its commit, on all ranks or on none; until then the previous one stays. After a rebuild a
//! replacement gets its state from the partner, and a partner that was replaced gets the copies
//! that it has to keep. Ranks are those of the launch: placement does not change partners.
//!
//! **Assumes** that a rank and its partner do not die between the same two commits; otherwise
//! [`Error::StateLost`] names them, on every rank.

use alloc::{boxed::Box, vec, vec::Vec};

use crate::{
    engine::{
        BlockKey, Engine, MAX_USER_TAG, Need, RequestState,
        buffer::{Buffer, Element},
        collective::{Collective, Parts},
        platform::Operation,
    },
    error::Error,
    fault::{FaultCode, FaultReport},
    rank::Rank,
    timeout::Timeout,
};

/// Number of states that can be protected, and of user tags that carry them.
pub const MAX_SLOTS: u32 = 64;
/// Tags of users are below this one.
pub(crate) const FIRST_COPY_TAG: u32 = MAX_USER_TAG + 1 - 2 * MAX_SLOTS;

/// Beside the tag on which a copy goes to its keeper, the one on which it tells its length, or
/// comes home. Two ranks that are each other's partner send both ways at once.
const HOME: u32 = 1;

/// The copies that this process keeps.
#[derive(Default)]
pub(crate) struct Copies {
    slots: Vec<Slot>,
}

/// One protected state: ours, and the one that we keep for another rank.
#[derive(Default)]
struct Slot {
    number: u32,
    /// Number of commits that carried this slot; 0 as long as we have nothing.
    version: u64,
    own: Option<Box<dyn Buffer>>,
    own_elements: usize,
    /// The version of the copy that we keep; 0 as long as we have none.
    kept_version: u64,
    kept: Option<Box<dyn Buffer>>,
    kept_elements: Option<usize>,
    /// Buffers of the generation before, to be used again.
    idle: Vec<Box<dyn Buffer>>,
}

/// What a block will make valid if it commits.
pub(crate) struct PendingCopy {
    slot: u32,
    version: u64,
    own: Own,
    /// The request that receives the copy we keep.
    kept: Option<usize>,
}

/// Where our own new state is until the commit.
enum Own {
    /// In the request that sends it.
    Sent(usize),
    /// In the request that receives it back.
    Received(usize),
    /// Here: we are our own partner.
    Here(Option<Box<dyn Buffer>>),
    /// What we have stays valid.
    Unchanged,
}

impl Copies {
    fn slot(&mut self, number: u32) -> &mut Slot {
        let at = self.slots.iter().position(|slot| slot.number == number);
        let at = at.unwrap_or_else(|| {
            self.slots.push(Slot { number, ..Slot::default() });
            self.slots.len() - 1
        });
        &mut self.slots[at]
    }
}

impl Engine {
    /// Copies a state into the block: to the partner, and from the rank whose partner we are.
    pub(crate) fn protect<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        state: &[T],
    ) -> Result<(), Error> {
        let (partner, ward) = self.partners();
        let slot = self.copies.slot(number);
        let version = slot.version + 1;
        // Lengths count once a commit has made them known on both sides.
        let known = slot.kept_elements.filter(|_| slot.version > 0);
        if slot.version > 0 && slot.own_elements != state.len() {
            return Err(Error::LengthChanged { expected: slot.own_elements, found: state.len() });
        }
        let own = refill(&mut slot.idle, state);
        if partner.is_none() {
            slot.own_elements = state.len();
            let own = Own::Here(Some(Box::new(own)));
            self.block_mut(key).copies.push(PendingCopy { slot: number, version, own, kept: None });
            return Ok(());
        }
        let (Some(partner), Some(ward)) = (partner, ward) else { return Ok(()) };
        let elements = match known {
            Some(elements) => elements,
            None => self.exchange_lengths(key, number, state.len(), partner, ward)?,
        };
        let slot = self.copies.slot(number);
        slot.own_elements = state.len();
        slot.kept_elements = Some(elements);
        let kept = blank::<T>(&mut slot.idle, elements);
        let kept = self.receive_copy(key, 2 * number, ward, Box::new(kept));
        let own = Own::Sent(self.send_copy(key, 2 * number, partner, Box::new(own)));
        let copy = PendingCopy { slot: number, version, own, kept: Some(kept) };
        self.block_mut(key).copies.push(copy);
        Ok(())
    }

    /// Brings a state back after a rebuild: every rank calls it, in the same order. The returned
    /// state is the one of the last commit; it and what partners keep are valid with this block.
    pub(crate) fn restore<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
    ) -> Result<Vec<T>, Error> {
        let (partner, ward) = self.partners();
        let slot = self.copies.slot(number);
        let kept_elements = slot.kept_elements.unwrap_or(0) as u64;
        let mine = [slot.version, slot.own_elements as u64, slot.kept_version, kept_elements];
        let all = self.gather_words(key, &mine)?;
        let of = |rank: Rank| &all[4 * rank.index()..4 * rank.index() + 4];
        let ranks = (all.len() / 4) as u32;
        let version = (0..ranks).map(|rank| of(Rank::new(rank))[0]).max().unwrap_or(0);
        if version == 0 {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        }
        for rank in (0..ranks).map(Rank::new) {
            let keeper = self.partner_of(rank).unwrap_or(rank);
            if of(rank)[0] != version && (keeper == rank || of(keeper)[2] != version) {
                self.raise_about(key, rank, FaultCode::StateLost);
                return Err(Error::StateLost { rank, partner: keeper });
            }
        }
        let me = self.me();
        let (Some(partner), Some(ward)) = (partner, ward) else {
            return self.own_state(number).ok_or(Error::NothingProtected);
        };
        let (lack_own, partner_lacks) = (of(me)[0] != version, of(partner)[2] != version);
        let (ward_lacks, lack_kept) = (of(ward)[0] != version, of(me)[2] != version);
        let (own_elements, kept_elements) =
            (if lack_own { of(partner)[3] } else { of(me)[1] }, of(ward)[1]);
        let mut copy = PendingCopy { slot: number, version, own: Own::Unchanged, kept: None };
        if ward_lacks {
            let buffer =
                self.kept_state::<T>(number).ok_or(Error::StateLost { rank: ward, partner: me })?;
            self.send_copy(key, HOME + 2 * number, ward, Box::new(buffer));
        } else if lack_kept {
            let buffer = vec![T::default(); kept_elements as usize];
            copy.kept = Some(self.receive_copy(key, 2 * number, ward, Box::new(buffer)));
        }
        if lack_own {
            let buffer = vec![T::default(); own_elements as usize];
            let index = self.receive_copy(key, HOME + 2 * number, partner, Box::new(buffer));
            self.wait_request(key, index, Timeout::Never);
            self.succeeded(key, index)?;
            copy.own = Own::Received(index);
        } else if partner_lacks {
            let own = self.own_state::<T>(number).ok_or(Error::NothingProtected)?;
            self.send_copy(key, 2 * number, partner, Box::new(own));
        }
        let slot = self.copies.slot(number);
        slot.own_elements = own_elements as usize;
        if copy.kept.is_some() {
            slot.kept_elements = Some(kept_elements as usize);
        }
        let state = match copy.own {
            Own::Received(index) => {
                let buffer = self.block(key).records[index].buffer.as_ref();
                buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<T>>()).cloned()
            }
            _ => self.own_state(number),
        };
        self.block_mut(key).copies.push(copy);
        state.ok_or(Error::StateType { slot: number })
    }

    /// The block is decided: what it carried is valid, or is forgotten.
    pub(crate) fn settle_copies(&mut self, key: BlockKey, committed: bool) {
        for copy in core::mem::take(&mut self.block_mut(key).copies) {
            let mut take = |index: usize| self.block_mut(key).records[index].buffer.take();
            let kept = copy.kept.and_then(&mut take);
            let own = match copy.own {
                Own::Sent(index) | Own::Received(index) => take(index),
                Own::Here(own) => own,
                Own::Unchanged => None,
            };
            let slot = self.copies.slot(copy.slot);
            if !committed {
                slot.idle.extend(own.into_iter().chain(kept));
                slot.idle.truncate(2);
                continue;
            }
            slot.version = copy.version;
            if let Some(own) = own {
                slot.idle.extend(slot.own.replace(own));
            }
            if let Some(kept) = kept {
                slot.kept_version = copy.version;
                slot.idle.extend(slot.kept.replace(kept));
            } else if copy.kept.is_none() && slot.kept_version != 0 {
                slot.kept_version = copy.version;
            }
            slot.idle.truncate(2);
        }
    }

    /// The error that a report names and that is therefore every living rank's: a state that
    /// cannot be restored.
    pub(crate) fn agreed_error(&self, report: &FaultReport) -> Option<Error> {
        let found = report.faults().iter().find_map(|fault| match fault.code {
            FaultCode::StateLost => Some(Some(fault.rank)),
            FaultCode::NothingProtected => Some(None),
            _ => None,
        })?;
        Some(found.map_or(Error::NothingProtected, |rank| {
            let partner = self.partner_of(rank).unwrap_or(rank);
            Error::StateLost { rank, partner }
        }))
    }

    fn own_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.copies.slot(number).own.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    fn kept_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.copies.slot(number).kept.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    fn me(&self) -> Rank {
        self.comm(self.job.world.expect("only ranks of the world have a state")).me
    }

    /// The rank that keeps our copy and the rank whose copy we keep; `None` when we are alone.
    fn partners(&self) -> (Option<Rank>, Option<Rank>) {
        let ranks = self.job.roster.members.len() as u32;
        let origin = self.job.roster.origins[self.me().index()];
        let ward = (origin + ranks - ranks / 2) % ranks;
        let ward = (ranks > 1).then(|| self.job.roster.standing_for(ward));
        (self.partner_of(self.me()), ward)
    }

    fn partner_of(&self, rank: Rank) -> Option<Rank> {
        let ranks = self.job.roster.members.len() as u32;
        let origin = self.job.roster.origins[rank.index()];
        (ranks > 1).then(|| self.job.roster.standing_for((origin + ranks / 2) % ranks))
    }

    fn send_copy(
        &mut self,
        key: BlockKey,
        offset: u32,
        to: Rank,
        buffer: Box<dyn Buffer>,
    ) -> usize {
        let tag = self.copy_tag(key, offset);
        self.post(key, Need::Peer(to), Operation::Send { to, tag, synchronous: false }, buffer)
    }

    fn receive_copy(
        &mut self,
        key: BlockKey,
        offset: u32,
        from: Rank,
        buffer: Box<dyn Buffer>,
    ) -> usize {
        let tag = Some(self.copy_tag(key, offset));
        let operation = Operation::Receive { from: Some(from), tag };
        self.post(key, Need::Peer(from), operation, buffer)
    }

    fn copy_tag(&self, key: BlockKey, offset: u32) -> u32 {
        self.wire_tag(self.block(key).scope, FIRST_COPY_TAG + offset)
    }

    /// The length of a state is told to the partner when the state is first protected.
    fn exchange_lengths(
        &mut self,
        key: BlockKey,
        number: u32,
        mine: usize,
        partner: Rank,
        ward: Rank,
    ) -> Result<usize, Error> {
        let tag = self.copy_tag(key, HOME + 2 * number);
        let receive = Operation::Receive { from: Some(ward), tag: Some(tag) };
        let theirs = self.post(key, Need::Peer(ward), receive, Box::new(vec![0_u64]));
        let send = Operation::Send { to: partner, tag, synchronous: false };
        self.post(key, Need::Peer(partner), send, Box::new(vec![mine as u64]));
        self.wait_request(key, theirs, Timeout::Never);
        self.succeeded(key, theirs)?;
        let buffer = self.block(key).records[theirs].buffer.as_ref();
        let words = buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<u64>>());
        Ok(words.map_or(0, |words| words[0] as usize))
    }

    fn gather_words(&mut self, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error> {
        let ranks = self.comm(self.block(key).comm).size() as usize;
        let mut all = vec![0; mine.len() * ranks];
        let at = self.me().index() * mine.len();
        all[at..at + mine.len()].copy_from_slice(mine);
        let gather = Operation::Collective(Collective::Allgather { parts: Parts::Even });
        let index = self.post(key, Need::Anybody, gather, Box::new(all));
        self.wait_request(key, index, Timeout::Never);
        self.succeeded(key, index)?;
        let buffer = self.block(key).records[index].buffer.as_ref();
        let words = buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<u64>>());
        words.cloned().ok_or(Error::NoSuchRequest)
    }

    fn succeeded(&self, key: BlockKey, index: usize) -> Result<(), Error> {
        match self.block(key).records[index].state {
            RequestState::Complete(_) => Ok(()),
            RequestState::Failed(code) => Err(Error::Request(code)),
            RequestState::Pending => Err(Error::WaitTimedOut),
        }
    }
}

/// A buffer with this content, made from an idle one if there is one.
fn refill<T: Element>(idle: &mut Vec<Box<dyn Buffer>>, content: &[T]) -> Vec<T> {
    let mut buffer = reuse(idle, content.len());
    buffer.clear();
    buffer.extend_from_slice(content);
    buffer
}

/// A buffer of this length, made from an idle one if there is one.
fn blank<T: Element + Default>(idle: &mut Vec<Box<dyn Buffer>>, elements: usize) -> Vec<T> {
    let mut buffer = reuse(idle, elements);
    buffer.resize(elements, T::default());
    buffer
}

fn reuse<T: Element>(idle: &mut Vec<Box<dyn Buffer>>, elements: usize) -> Vec<T> {
    let fits =
        |buffer: &dyn Buffer| buffer.as_any().is::<Vec<T>>() && buffer.elements() == elements;
    let found = idle.iter().position(|buffer| fits(buffer.as_ref()));
    let found = found.map(|at| idle.swap_remove(at));
    let vector = found.and_then(|buffer| buffer.into_any().downcast::<Vec<T>>().ok());
    vector.map(|vector| *vector).unwrap_or_default()
}
