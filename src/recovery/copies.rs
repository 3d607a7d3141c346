//! Partner copies: the state of a rank, kept by itself and by its partner, valid with a commit.
//!
//! The partner of rank r is rank r + n/2 (modulo n), so that neighbours, which often share a
//! node, do not keep each other's copies. A copy travels inside a block and becomes valid with
//! its commit, on all ranks or on none; until then the previous one stays. After a rebuild a
//! replacement gets its state from the partner, and a partner that was replaced gets the copies
//! that it has to keep. Ranks are those of the launch: placement does not change partners.
//!
//! A guest's communicators are worlds of their own: a rebuilt one has as many ranks as the one on
//! which a state was protected, and survivors keep theirs.
//!
//! After a shrink nobody takes the place of the dead: whoever keeps the copy of a dead rank can
//! inherit it, and the partners are new ones, counted among the survivors.
//!
//! **Assumes** that a rank and its partner do not die between the same two commits; otherwise
//! [`Error::StateLost`] names them, on every rank.

use alloc::{vec, vec::Vec};

use crate::{
    engine::{BlockKey, CommKey, Engine, Need, Own, PendingCopy, Slot, contents},
    error::Error,
    fault::{Fault, FaultCode, FaultReport},
    native::Element,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        collective::{Collective, Parts},
        platform::Operation,
    },
    timeout::Timeout,
};

/// Beside the tag on which a copy goes to its keeper, the one on which it tells its length, or
/// comes home. Two ranks that are each other's partner send both ways at once.
const HOME: u32 = 1;

pub use crate::engine::contents::MAX_SLOTS;

/// Whether a state may have another length each time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    Fixed,
    Any,
}

impl Engine {
    /// Copies a state into the block: to the partner, and from the rank whose partner we are. A
    /// state whose length changes is told with its length each time.
    pub(crate) fn protect<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        state: &[T],
        length: Length,
    ) -> Result<(), Error> {
        let comm = self.block(key).comm;
        let (partner, ward) = self.partners(comm);
        let commits = self.block(key).scope.0;
        // Others may take the step for one that is followed by others, and wait for a copy; it does
        // not count, and the state may have been taken out already.
        let is_last = self.block(key).proviso == Some(FaultCode::NotAllDone);
        let partnership = self.partnership();
        let slot = self.job.copies.slot(number);
        let version = partnership.next_version(slot.version, commits);
        // Lengths count once a commit has made them known on both sides.
        let again = slot.over == Some(comm);
        let is_fixed = length == Length::Fixed;
        let known = slot.kept_elements.filter(|_| again && is_fixed);
        let mut own = refill(&mut slot.idle, state);
        if again && is_last {
            own.resize(slot.own_elements, T::default());
        }
        let own_elements = own.len();
        if again && is_fixed && slot.own_elements != own_elements {
            return Err(Error::LengthChanged { expected: slot.own_elements, found: own_elements });
        }
        let mut copy = PendingCopy {
            slot: number,
            version,
            own: Own::Unchanged,
            own_elements,
            kept: None,
            kept_elements: None,
        };
        if let (Some(partner), Some(ward)) = (partner, ward) {
            let elements = match known {
                Some(elements) => elements,
                None => self.exchange_lengths(key, number, own_elements, partner, ward)?,
            };
            let kept = blank::<T>(&mut self.job.copies.slot(number).idle, elements);
            copy.kept_elements = Some(elements);
            copy.kept = Some(self.receive_copy(key, 2 * number, ward, AnyBuffer::of(kept)));
            copy.own = Own::Sent(self.send_copy(key, 2 * number, partner, AnyBuffer::of(own)));
        } else {
            copy.own = Own::Here(Some(AnyBuffer::of(own)));
        }
        if !is_last {
            self.contents_mut(key).copies.push(copy);
        }
        Ok(())
    }

    /// Brings a state back after a rebuild: every rank calls it, in the same order. The returned
    /// state is the one of the last commit; it and what partners keep are valid with this block.
    pub(crate) fn restore<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
    ) -> Result<Vec<T>, Error> {
        let comm = self.block(key).comm;
        let over = self.job.copies.slot(number).over;
        if !self.partnership().has_replacements(self, comm, over) {
            return self.own_state_here(key, number);
        }
        let (version, all) = self.versions(key, number)?;
        let of = |rank: Rank| &all[4 * rank.index()..4 * rank.index() + 4];
        let (partner, ward) = self.partners(comm);
        let me = self.comm(comm).me;
        let (Some(partner), Some(ward)) = (partner, ward) else {
            return self.own_state(number).ok_or(Error::StateType { slot: number });
        };
        let (lack_own, partner_lacks) = (of(me)[0] != version, of(partner)[2] != version);
        let (ward_lacks, lack_kept) = (of(ward)[0] != version, of(me)[2] != version);
        let (own_elements, kept_elements) =
            (if lack_own { of(partner)[3] } else { of(me)[1] }, of(ward)[1]);
        let mut copy = PendingCopy {
            slot: number,
            version,
            own: Own::Unchanged,
            own_elements: own_elements as usize,
            kept: None,
            kept_elements: None,
        };
        if ward_lacks {
            let buffer =
                self.kept_state::<T>(number).ok_or(Error::StateLost { rank: ward, partner: me })?;
            self.send_copy(key, HOME + 2 * number, ward, AnyBuffer::of(buffer));
        } else if lack_kept {
            let buffer = vec![T::default(); kept_elements as usize];
            copy.kept = Some(self.receive_copy(key, 2 * number, ward, AnyBuffer::of(buffer)));
            copy.kept_elements = Some(kept_elements as usize);
        }
        if lack_own {
            let buffer = vec![T::default(); own_elements as usize];
            let index = self.receive_copy(key, HOME + 2 * number, partner, AnyBuffer::of(buffer));
            self.wait_request(key, index, Timeout::Never);
            self.contents(key).succeeded(index)?;
            copy.own = Own::Received(index);
        } else if partner_lacks {
            let own = self.own_state::<T>(number);
            let own = own.ok_or(Error::StateType { slot: number })?;
            self.send_copy(key, 2 * number, partner, AnyBuffer::of(own));
        }
        let state = match copy.own {
            Own::Received(index) => {
                let buffer = self.contents(key).records[index].buffer();
                buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<T>>()).cloned()
            }
            _ => self.own_state(number),
        };
        self.contents_mut(key).copies.push(copy);
        state.ok_or(Error::StateType { slot: number })
    }

    /// The version that all ranks can have again, and what each has of it: the version of its own
    /// state and its length, the same of the copy that it keeps.
    fn versions(&mut self, key: BlockKey, number: u32) -> Result<(u64, Vec<u64>), Error> {
        let comm = self.block(key).comm;
        let &mut Slot { whole, over, .. } = self.job.copies.slot(number);
        let is_like = whole && self.partnership().is_like(self, comm, over);
        let slot = self.job.copies.slot(number);
        let kept_elements = slot.kept_elements.unwrap_or(0) as u64;
        let own_elements = slot.own_elements as u64;
        // Survivors that inherited and have other partners now cannot serve the whole world.
        let [version, kept_version] =
            [slot.version, slot.kept_version].map(|version| if is_like { version } else { 0 });
        let mine = [version, own_elements, kept_version, kept_elements];
        let all = self.partnership().tell(self, key, &mine)?;
        let of = |rank: Rank| &all[4 * rank.index()..4 * rank.index() + 4];
        let ranks = (all.len() / 4) as u32;
        let version = (0..ranks).map(|rank| of(Rank::new(rank))[0]).max().unwrap_or(0);
        if version == 0 {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        }
        for rank in (0..ranks).map(Rank::new) {
            let keeper = self.partner_over(rank, comm).unwrap_or(rank);
            if of(rank)[0] != version && (keeper == rank || of(keeper)[2] != version) {
                self.process.raise_about(key, rank, FaultCode::StateLost);
                return Err(Error::StateLost { rank, partner: keeper });
            }
        }
        Ok((version, all))
    }

    /// The error that a report names and that is therefore every living rank's: a state that
    /// cannot be restored.
    pub(crate) fn agreed_error(&self, report: &FaultReport) -> Option<Error> {
        report.faults().iter().find_map(|&Fault { rank, code, .. }| match code {
            FaultCode::StateLost => {
                let partner = self.partner_of(rank).unwrap_or(rank);
                Some(Error::StateLost { rank, partner })
            }
            FaultCode::NothingProtected => Some(Error::NothingProtected),
            FaultCode::NotAllDone => Some(Error::NotAllDone { rank }),
            FaultCode::Finalized(blocks) => Some(Error::Left { rank, blocks }),
            _ => None,
        })
    }

    /// The state of the last commit, where every rank has its own: after a shrink.
    fn own_state_here<T: Element>(&mut self, key: BlockKey, number: u32) -> Result<Vec<T>, Error> {
        if self.job.copies.slot(number).version == 0 {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        }
        self.own_state(number).ok_or(Error::StateType { slot: number })
    }

    /// The copy that we keep of a rank which is no member of the block's communicator any more.
    pub(crate) fn inherit<T: Element>(
        &mut self,
        key: BlockKey,
        number: u32,
    ) -> Result<Option<(Rank, Vec<T>)>, Error> {
        let Some(over) = self.job.copies.slot(number).over else { return Ok(None) };
        let comm = self.block(key).comm;
        let ward = self.partners(over).1.filter(|ward| self.has_gone(*ward, over, comm));
        let Some(ward) = ward else { return Ok(None) };
        let state = self.kept_state(number).ok_or(Error::StateType { slot: number })?;
        Ok(Some((ward, state)))
    }

    /// Why the states of ranks that are not in `comm` any more cannot all be inherited: nobody has
    /// copies, or a rank is gone with its partner. All ranks of `comm` find one answer.
    pub(crate) fn lost_to(&self, comm: CommKey) -> Option<Error> {
        let Some(over) = self.job.copies.slots.iter().find_map(|slot| slot.over) else {
            return Some(Error::NothingProtected);
        };
        let gone = |rank: Rank| self.has_gone(rank, over, comm);
        let ranks = (0..self.comm(over).size()).map(Rank::new);
        ranks.filter(|rank| gone(*rank)).find_map(|rank| {
            let partner = self.partner_over(rank, over).unwrap_or(rank);
            gone(partner).then_some(Error::StateLost { rank, partner })
        })
    }

    /// True when a rank of one communicator is not in another one, derived from it by shrinking.
    fn has_gone(&self, rank: Rank, from: CommKey, to: CommKey) -> bool {
        let (from, to) = (self.comm(from), self.comm(to));
        from.universe == to.universe && to.rank_of(from.members[rank.index()]).is_none()
    }

    fn own_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.job.copies.slot(number).own.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    fn kept_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.job.copies.slot(number).kept.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    /// The rank that keeps the copy of a rank of the world.
    fn partner_of(&self, rank: Rank) -> Option<Rank> {
        self.partner_over(rank, self.job.world?)
    }

    fn send_copy(&mut self, key: BlockKey, offset: u32, to: Rank, buffer: AnyBuffer) -> usize {
        let tag = self.copy_tag(key, offset);
        self.post(key, Need::Peer(to), &Operation::Send { to, tag, synchronous: false }, buffer)
    }

    fn receive_copy(&mut self, key: BlockKey, offset: u32, from: Rank, buffer: AnyBuffer) -> usize {
        let tag = Some(self.copy_tag(key, offset));
        let operation = Operation::Receive { from: Some(from), tag };
        self.post(key, Need::Peer(from), &operation, buffer)
    }

    fn copy_tag(&self, key: BlockKey, offset: u32) -> u32 {
        self.blocks.wire_tag(key, contents::FIRST_COPY + offset)
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
        let theirs = self.post(key, Need::Peer(ward), &receive, AnyBuffer::of(vec![0_u64]));
        let send = Operation::Send { to: partner, tag, synchronous: false };
        self.post(key, Need::Peer(partner), &send, AnyBuffer::of(vec![mine as u64]));
        self.wait_request(key, theirs, Timeout::Never);
        self.contents(key).succeeded(theirs)?;
        let buffer = self.contents(key).records[theirs].buffer();
        let words = buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<u64>>());
        Ok(words.map_or(0, |words| words[0] as usize))
    }

    pub(super) fn gather_words(&mut self, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error> {
        let ranks = self.comm(self.block(key).comm).size() as usize;
        let mut all = vec![0; mine.len() * ranks];
        let at = self.comm(self.block(key).comm).me.index() * mine.len();
        all[at..at + mine.len()].copy_from_slice(mine);
        let gather = Operation::Collective(Collective::Allgather { parts: Parts::Even });
        let index = self.post(key, Need::All, &gather, AnyBuffer::of(all));
        self.wait_request(key, index, Timeout::Never);
        self.contents(key).succeeded(index)?;
        let buffer = self.contents(key).records[index].buffer();
        let words = buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<u64>>());
        words.cloned().ok_or(Error::NoSuchRequest)
    }
}

/// A buffer with this content, made from an idle one if there is one.
fn refill<T: Element>(idle: &mut Vec<AnyBuffer>, content: &[T]) -> Vec<T> {
    let mut buffer = reuse(idle, content.len());
    buffer.clear();
    buffer.extend_from_slice(content);
    buffer
}

/// A buffer of this length, made from an idle one if there is one.
fn blank<T: Element + Default>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    let mut buffer = reuse(idle, elements);
    buffer.resize(elements, T::default());
    buffer
}

fn reuse<T: Element>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    let fits =
        |buffer: &dyn Buffer| buffer.as_any().is::<Vec<T>>() && buffer.elements() == elements;
    let found = idle.iter().position(|buffer| fits(&**buffer));
    let found = found.map(|at| idle.swap_remove(at));
    found.and_then(AnyBuffer::into_vec).unwrap_or_default()
}
