//! Protected states: each kept by its rank and by others, valid with a commit.
//!
//! Where it is kept beside its rank, [`Redundancy`] says: at a partner, of which this file tells;
//! in a code over a group of ranks (`coded.rs`); or nowhere.
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
//! **Assumes** that a rank and its partner do not die between the same two commits, nor more ranks
//! of a group than its code survives; otherwise [`Error::StateLost`] names whose state is gone, on
//! every rank.

use alloc::{vec, vec::Vec};

use crate::{
    engine::{
        BlockKey, CommKey, Engine, Kept, Need, Own, PendingCopy, Slot,
        contents::{self, Contents},
    },
    error::Error,
    fault::{Fault, FaultCode, FaultReport},
    native::Element,
    protocol::redundancy::Redundancy,
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
pub(super) const HOME: u32 = 1;

pub use crate::engine::contents::MAX_SLOTS;

/// Whether a state may have another length each time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    Fixed,
    Any,
}

/// What the ranks have of a state.
pub(super) struct Found {
    /// The version that all can have again.
    pub(super) version: u64,
    pub(super) redundancy: Redundancy,
    ranks: Vec<Has>,
}

/// What a rank has of a state.
pub(super) struct Has {
    version: u64,
    /// The elements of its own.
    pub(super) elements: usize,
    /// The version of what it keeps for others, and its elements.
    kept_version: u64,
    kept_elements: usize,
}

/// Whose state is gone.
struct Lost {
    rank: Rank,
    /// Who kept it, if it was a partner.
    partner: Option<Rank>,
}

impl Found {
    /// What the ranks have told; nothing if no rank has anything.
    fn of_words(words: &[u64]) -> Option<Self> {
        let (words, _) = words.as_chunks::<5>();
        let newest = words.iter().max_by_key(|words| words[0])?;
        let (version, redundancy) = (newest[0], Redundancy::of_word(newest[4]));
        let has = |&[version, elements, kept_version, kept_elements, _]: &[u64; 5]| Has {
            version,
            elements: elements as usize,
            kept_version,
            kept_elements: kept_elements as usize,
        };
        let ranks = words.iter().map(has).collect();
        (version > 0).then_some(Self { version, redundancy, ranks })
    }

    pub(super) fn of(&self, rank: Rank) -> &Has {
        &self.ranks[rank.index()]
    }

    /// True for a rank that has no state of this version, or not its part of the group's code.
    pub(super) fn lacks(&self, rank: Rank) -> bool {
        let Has { version, kept_version, .. } = *self.of(rank);
        let is_coded = matches!(self.redundancy, Redundancy::Group { .. });
        version != self.version || is_coded && kept_version != self.version
    }

    /// What a restore leaves as it is, but for its version.
    pub(super) fn unchanged(&self, slot: u32, own_elements: usize) -> PendingCopy {
        PendingCopy {
            slot,
            version: self.version,
            redundancy: self.redundancy,
            own: Own::Unchanged,
            own_elements,
            kept: Kept::Unchanged,
            kept_elements: None,
            lengths: Vec::new(),
        }
    }
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
        let (Some(partner), Some(ward)) = self.partners(self.block(key).comm) else {
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
        let found = self.versions(key, number)?;
        match found.redundancy {
            Redundancy::Own => self.own_state(number).ok_or(Error::StateType { slot: number }),
            Redundancy::Partner => self.restore_from_partner(key, number, &found),
            Redundancy::Group { .. } => self.decode(key, number, &found),
        }
    }

    fn restore_from_partner<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        found: &Found,
    ) -> Result<Vec<T>, Error> {
        let comm = self.block(key).comm;
        let (partner, ward) = self.partners(comm);
        let me = self.comm(comm).me;
        let (Some(partner), Some(ward)) = (partner, ward) else {
            return self.own_state(number).ok_or(Error::StateType { slot: number });
        };
        let (lack_own, partner_lacks) = (found.lacks(me), found.of(partner).kept_version);
        let version = found.version;
        let (partner_lacks, lack_kept) =
            (partner_lacks != version, found.of(me).kept_version != version);
        let ward_lacks = found.lacks(ward);
        let own_elements =
            if lack_own { found.of(partner).kept_elements } else { found.of(me).elements };
        let kept_elements = found.of(ward).elements;
        let mut copy = found.unchanged(number, own_elements);
        if ward_lacks {
            let buffer = self
                .kept_state::<T>(number)
                .ok_or(Error::StateLost { rank: ward, partner: Some(me) })?;
            self.send_copy(key, HOME + 2 * number, ward, AnyBuffer::of(buffer));
        } else if lack_kept {
            let buffer = AnyBuffer::of(vec![T::default(); kept_elements]);
            copy.kept = Kept::Received(self.receive_copy(key, 2 * number, ward, buffer));
            copy.kept_elements = Some(kept_elements);
        }
        if lack_own {
            let buffer = AnyBuffer::of(vec![T::default(); own_elements]);
            let index = self.receive_copy(key, HOME + 2 * number, partner, buffer);
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

    /// The version that all ranks can have again, and what each has of the state.
    fn versions(&mut self, key: BlockKey, number: u32) -> Result<Found, Error> {
        let comm = self.block(key).comm;
        let &mut Slot { whole, over, .. } = self.job.copies.slot(number);
        let is_like = whole && self.partnership().is_like(self, comm, over);
        let slot = self.job.copies.slot(number);
        // Survivors that inherited and have other partners now cannot serve the whole world.
        let [version, kept_version] =
            [slot.version, slot.kept_version].map(|version| if is_like { version } else { 0 });
        let mine = [
            version,
            slot.own_elements as u64,
            kept_version,
            slot.kept_elements.unwrap_or(0) as u64,
            slot.redundancy.to_word(),
        ];
        let words = self.partnership().tell(self, key, &mine)?;
        let Some(found) = Found::of_words(&words) else {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        };
        let Some(Lost { rank, partner }) = self.lost(comm, &found) else { return Ok(found) };
        let code = if partner.is_some() { FaultCode::StateLost } else { FaultCode::TooManyLost };
        self.process.raise_about(key, rank, code);
        Err(Error::StateLost { rank, partner })
    }

    /// Whose state is gone from what was found: the first such rank.
    fn lost(&self, comm: CommKey, found: &Found) -> Option<Lost> {
        if found.redundancy == Redundancy::Partner {
            let mut ranks = (0..found.ranks.len() as u32).map(Rank::new);
            return ranks.find_map(|rank| {
                let keeper = self.partner_over(rank, comm).unwrap_or(rank);
                let is_kept = keeper != rank && found.of(keeper).kept_version == found.version;
                let lost = Lost { rank, partner: Some(keeper) };
                (found.lacks(rank) && !is_kept).then_some(lost)
            });
        }
        let (groups, _) = self.groups(comm, found.redundancy, Rank::new(0));
        groups.iter().find_map(|group| {
            let lacking: Vec<Rank> = group.iter().copied().filter(|it| found.lacks(*it)).collect();
            let losses = found.redundancy.losses(group.len() as u32) as usize;
            let lost = Lost { rank: *lacking.first()?, partner: None };
            (lacking.len() > losses).then_some(lost)
        })
    }

    /// The error that a report names and that is therefore every living rank's: a state that
    /// cannot be restored.
    pub(crate) fn agreed_error(&self, report: &FaultReport) -> Option<Error> {
        report.faults().iter().find_map(|&Fault { rank, code, .. }| match code {
            FaultCode::StateLost => {
                let partner = Some(self.partner_of(rank).unwrap_or(rank));
                Some(Error::StateLost { rank, partner })
            }
            FaultCode::TooManyLost => Some(Error::StateLost { rank, partner: None }),
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
        let ward = self.partners(over).1.filter(|ward| self.has_gone(*ward, over, comm));
        let Some(ward) = ward else { return Ok(None) };
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
                let partner = self.partner_over(rank, over).unwrap_or(rank);
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

    fn kept_state<T: Element>(&mut self, number: u32) -> Option<Vec<T>> {
        self.job.copies.slot(number).kept.as_ref()?.as_any().downcast_ref::<Vec<T>>().cloned()
    }

    /// The rank that keeps the copy of a rank of the world.
    fn partner_of(&self, rank: Rank) -> Option<Rank> {
        self.partner_over(rank, self.job.world?)
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
