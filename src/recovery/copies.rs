//! Protected states: each kept by its rank and by others, valid with a commit.
//!
//! Where it is kept beside its rank, [`Redundancy`] says: at a partner, of which this file tells;
//! in a code over a group of ranks (`coded.rs`); or nowhere.
//!
//! A partner is on another node wherever there is one ([`keepers`](crate::protocol::keepers)). A
//! copy travels inside a block and becomes valid with its commit, on all ranks or on none; until
//! then the previous one stays. Replacements may run on other nodes than the dead did, so a rebuild
//! can change partners: the former partner of a dead rank sends its copy to the replacement, and a
//! new partner gets the copy from its rank, in the same block (`restore.rs`). Ranks are those of
//! the launch.
//!
//! A guest's communicators are worlds of their own: a rebuilt one has as many ranks as the one on
//! which a state was protected, and survivors keep theirs.
//!
//! After a shrink nobody takes the place of the dead: whoever keeps the copy of a dead rank can
//! inherit it, and the partners are new ones, counted among the survivors.
//!
//! **Assumes** that a rank and its partner do not die between the same two commits, nor more ranks
//! of a group than its code survives; otherwise [`Error::StateLost`] names whose state is gone, on
//! every rank.

use alloc::{vec, vec::Vec};

use crate::{
    engine::{
        BlockKey, CommKey, Engine, Kept, Need, Own, PendingCopy,
        contents::{self, Contents},
    },
    error::Error,
    fault::{Fault, FaultCode, FaultReport},
    native::Element,
    protocol::redundancy::Redundancy,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::Operation,
    },
    timeout::Timeout,
};

/// Beside the tag on which a copy goes to its keeper, the one on which it tells its length, or
/// comes home. Two ranks that are each other's partner send both ways at once.
pub(super) const HOME: u32 = 1;

pub use crate::engine::contents::MAX_SLOTS;

/// Whether a state may have another length each time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    Fixed,
    Any,
}

impl Engine {
    /// Copies a state into the block, and to where the block keeps states; a state whose length
    /// changes is told with its length each time.
    pub(crate) fn protect<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        state: &[T],
        length: Length,
    ) -> Result<(), Error> {
        let comm = self.block(key).comm;
        let Contents { redundancy, .. } = *self.contents(key);
        let commits = self.block(key).scope.0;
        // Others may take the step for one that is followed by others, and wait for a copy; it does
        // not count, and the state may have been taken out already.
        let is_last = self.block(key).proviso == Some(FaultCode::NotAllDone);
        let partnership = self.partnership();
        let over = self.job.copies.slot(number).over;
        let keepers = match over {
            Some(over) if over == comm => self.job.copies.slot(number).keepers.clone(),
            _ => self.keepers(comm),
        };
        let slot = self.job.copies.slot(number);
        let version = partnership.next_version(slot.version, commits);
        // Lengths count once a commit has made them known on all sides.
        let again = (slot.over, slot.redundancy) == (Some(comm), redundancy);
        let is_known = again && length == Length::Fixed;
        let mut own = refill(&mut slot.idle, state);
        if again && is_last {
            own.resize(slot.own_elements, T::default());
        }
        let own_elements = own.len();
        if is_known && slot.own_elements != own_elements {
            return Err(Error::LengthChanged { expected: slot.own_elements, found: own_elements });
        }
        let mut copy = PendingCopy {
            slot: number,
            version,
            redundancy,
            keepers,
            own: Own::Unchanged,
            own_elements,
            kept: Kept::Nothing,
            kept_elements: None,
            lengths: Vec::new(),
        };
        let own = AnyBuffer::of(own);
        match redundancy {
            Redundancy::Own => copy.own = Own::Here(Some(own)),
            Redundancy::Partner => self.copy_to_partner::<T>(key, &mut copy, own, is_known)?,
            Redundancy::Group { .. } => self.encode(key, &mut copy, own, is_known)?,
        }
        if !is_last {
            self.contents_mut(key).copies.push(copy);
        }
        Ok(())
    }

    /// Sends a state to the partner, and receives that of the rank whose partner we are. If its
    /// length is known, it is that of the last time.
    fn copy_to_partner<T: Element + Default>(
        &mut self,
        key: BlockKey,
        copy: &mut PendingCopy,
        own: AnyBuffer,
        is_known: bool,
    ) -> Result<(), Error> {
        let number = copy.slot;
        let comm = self.block(key).comm;
        let (me, keepers) = (self.comm(comm).me, &copy.keepers);
        let (partner, ward) = (self.partner(me, comm, keepers), self.ward(me, comm, keepers));
        let (Some(partner), Some(ward)) = (partner, ward) else {
            copy.own = Own::Here(Some(own));
            return Ok(());
        };
        let known = self.job.copies.slot(number).kept_elements.filter(|_| is_known);
        let elements = match known {
            Some(elements) => elements,
            None => self.exchange_lengths(key, number, copy.own_elements, partner, ward)?,
        };
        let kept = blank::<T>(&mut self.job.copies.slot(number).idle, elements);
        copy.kept_elements = Some(elements);
        copy.kept = Kept::Received(self.receive_copy(key, 2 * number, ward, AnyBuffer::of(kept)));
        copy.own = Own::Sent(self.send_copy(key, 2 * number, partner, own));
        Ok(())
    }

    /// The error that a report names and that is therefore every living rank's: a state that
    /// cannot be restored.
    pub(crate) fn agreed_error(&self, report: &FaultReport) -> Option<Error> {
        report.faults().iter().find_map(|&Fault { rank, code, .. }| match code {
            FaultCode::StateLost => {
                let known = self.job.copies.lost.filter(|(lost, _)| *lost == rank);
                let partner = Some(known.map_or(rank, |(_, partner)| partner));
                Some(Error::StateLost { rank, partner })
            }
            FaultCode::TooManyLost => Some(Error::StateLost { rank, partner: None }),
            FaultCode::NothingProtected => Some(Error::NothingProtected),
            FaultCode::NotAllDone => Some(Error::NotAllDone { rank }),
            FaultCode::Finalized(blocks) => Some(Error::Left { rank, blocks }),
            _ => None,
        })
    }

    /// The copy that we keep of a rank which is no member of the block's communicator any more.
    /// What is not kept at partners is lost.
    pub(crate) fn inherit<T: Element>(
        &mut self,
        key: BlockKey,
        number: u32,
    ) -> Result<Option<(Rank, Vec<T>)>, Error> {
        let Some(over) = self.job.copies.slot(number).over else { return Ok(None) };
        let comm = self.block(key).comm;
        if self.job.copies.slot(number).redundancy != Redundancy::Partner {
            let lost = self.gone(over, comm).next();
            return lost.map_or(Ok(None), |rank| Err(Error::StateLost { rank, partner: None }));
        }
        let keepers = self.job.copies.slot(number).keepers.clone();
        let ward = self.ward(self.comm(over).me, over, &keepers);
        let Some(ward) = ward.filter(|ward| self.has_gone(*ward, over, comm)) else {
            return Ok(None);
        };
        let state = self.kept_state(number).ok_or(Error::StateType { slot: number })?;
        Ok(Some((ward, state)))
    }

    /// Why the states of ranks that are not in `comm` any more cannot all be inherited: nobody has
    /// copies, or a rank is gone with its partner. All ranks of `comm` find one answer.
    pub(crate) fn lost_to(&self, comm: CommKey) -> Option<Error> {
        let mut slots = self.job.copies.slots.iter().filter(|slot| slot.over.is_some()).peekable();
        if slots.peek().is_none() {
            return Some(Error::NothingProtected);
        }
        slots.find_map(|slot| {
            let over = slot.over?;
            self.gone(over, comm).find_map(|rank| {
                if slot.redundancy != Redundancy::Partner {
                    return Some(Error::StateLost { rank, partner: None });
                }
                let partner = self.partner(rank, over, &slot.keepers).unwrap_or(rank);
                let is_gone = self.has_gone(partner, over, comm);
                is_gone.then_some(Error::StateLost { rank, partner: Some(partner) })
            })
        })
    }

    /// The ranks of one communicator that are not in another one, derived from it by shrinking.
    fn gone(&self, from: CommKey, to: CommKey) -> impl Iterator<Item = Rank> {
        (0..self.comm(from).size())
            .map(Rank::new)
            .filter(move |rank| self.has_gone(*rank, from, to))
    }

    /// True when a rank of one communicator is not in another one, derived from it by shrinking.
    fn has_gone(&self, rank: Rank, from: CommKey, to: CommKey) -> bool {
        let (from, to) = (self.comm(from), self.comm(to));
        from.universe == to.universe && to.rank_of(from.members[rank.index()]).is_none()
    }

    pub(super) fn own_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.job.copies.slot(number).own.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    pub(super) fn kept_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.job.copies.slot(number).kept.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    pub(super) fn send_copy(
        &mut self,
        key: BlockKey,
        offset: u32,
        to: Rank,
        buffer: AnyBuffer,
    ) -> usize {
        let tag = self.copy_tag(key, offset);
        self.post(key, Need::Peer(to), &Operation::Send { to, tag, synchronous: false }, buffer)
    }

    pub(super) fn receive_copy(
        &mut self,
        key: BlockKey,
        offset: u32,
        from: Rank,
        buffer: AnyBuffer,
    ) -> usize {
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
        Ok(self.received::<u64>(key, theirs)?.first().map_or(0, |words| *words as usize))
    }

    /// Waits for a message of a block; what it has.
    pub(super) fn received<T: Element>(
        &mut self,
        key: BlockKey,
        request: usize,
    ) -> Result<Vec<T>, Error> {
        self.wait_request(key, request, Timeout::Never);
        self.contents(key).succeeded(request)?;
        let buffer = self.contents(key).records[request].buffer();
        let elements = buffer.and_then(|buffer| buffer.as_any().downcast_ref::<Vec<T>>());
        elements.cloned().ok_or(Error::NoSuchRequest)
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
pub(super) fn blank<T: Element + Default>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    let mut buffer = reuse(idle, elements);
    buffer.resize(elements, T::default());
    buffer
}

pub(super) fn reuse<T: Element>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    let fits =
        |buffer: &dyn Buffer| buffer.as_any().is::<Vec<T>>() && buffer.elements() == elements;
    let found = idle.iter().position(|buffer| fits(&**buffer));
    let found = found.map(|at| idle.swap_remove(at));
    found.and_then(AnyBuffer::into_vec).unwrap_or_default()
}
