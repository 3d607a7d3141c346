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

use super::{idle::blank, outgoing::outgoing};

use crate::{
    engine::{
        BlockKey, CommKey, Content, Engine, Held, Kept, Known, Need, PendingCopy,
        contents::{self, Contents},
    },
    error::Error,
    fault::{Fault, FaultCode, FaultReport},
    native::Element,
    protocol::{pages::Pages, planted::planted, redundancy::Redundancy},
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, same_bits},
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
        // Others may take the step for one that is followed by others, and wait for a copy; it does
        // not count, and the state may have been taken out already.
        let is_last = self.block(key).proviso == Some(FaultCode::NotAllDone);
        let (last, is_valid, version) = self.last_copy(key, number);
        // Lengths count once a copy has made them known on all sides.
        let again = (last.over, last.redundancy) == (Some(comm), redundancy);
        let is_known = again && length == Length::Fixed;
        let own_elements = if again && is_last { last.own_elements } else { state.len() };
        if is_known && last.own_elements != own_elements {
            return Err(Error::LengthChanged { expected: last.own_elements, found: own_elements });
        }
        let keepers = if last.over == Some(comm) { last.keepers } else { self.keepers(comm) };
        let by_pages = is_known && redundancy == Redundancy::Partner;
        let pages = if by_pages { self.pages::<T>(own_elements) } else { None };
        let slot = self.job.copies.slot(number);
        let own = outgoing(slot, state, own_elements, pages.map(|pages| (pages, is_valid)));
        let (kept_elements, lengths) =
            if is_known { (last.kept_elements, last.lengths) } else { (None, Vec::new()) };
        let known = Known {
            version,
            over: Some(comm),
            // Known with the verdict.
            whole: false,
            keepers,
            redundancy,
            own_elements,
            kept_elements,
            lengths,
        };
        let (own, kept) = (Some(own), Kept::Nothing);
        let mut copy = PendingCopy { slot: number, known, is_restored: false, own, kept };
        match redundancy {
            Redundancy::Own => {}
            Redundancy::Partner => self.copy_to_partner::<T>(key, &mut copy)?,
            Redundancy::Group { .. } => self.encode(key, &mut copy, is_known)?,
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
    ) -> Result<(), Error> {
        let (number, comm) = (copy.slot, self.block(key).comm);
        let (me, keepers) = (self.comm(comm).me, &copy.known.keepers);
        let (partner, ward) = (self.partner(me, comm, keepers), self.ward(me, comm, keepers));
        let (Some(partner), Some(ward)) = (partner, ward) else { return Ok(()) };
        let (kept, mine) = (copy.known.kept_elements, copy.known.own_elements);
        let elements = match kept {
            Some(elements) => elements,
            None => self.exchange_lengths(key, number, mine, partner, ward)?,
        };
        let pages = kept.and_then(|elements| self.pages::<T>(elements));
        let idle = &mut self.job.copies.slot(number).idle;
        let header = pages.map(|pages| (pages, blank::<u64>(idle, pages.words())));
        let buffer = AnyBuffer::of(blank::<T>(idle, elements));
        let header = header.map(|(pages, header)| {
            let header = self.receive_copy(key, HOME + 2 * number, ward, AnyBuffer::of(header));
            (pages, Held::Request(header))
        });
        let buffer = Held::Request(self.receive_copy(key, 2 * number, ward, buffer));
        copy.known.kept_elements = Some(elements);
        copy.kept = Kept::New(Content { buffer, header });
        copy.own = copy.own.take().map(|Content { buffer, header }| Content {
            header: header
                .map(|(pages, it)| (pages, self.send_held(key, HOME + 2 * number, partner, it))),
            buffer: self.send_held(key, 2 * number, partner, buffer),
        });
        Ok(())
    }

    /// Sends what is here.
    fn send_held(&mut self, key: BlockKey, offset: u32, to: Rank, held: Held) -> Held {
        match held {
            Held::Here(Some(buffer)) => Held::Request(self.send_copy(key, offset, to, buffer)),
            other => other,
        }
    }

    /// The pages by which a state of this length goes to a partner, if it has the length that it
    /// had.
    fn pages<T: Element>(&self, elements: usize) -> Option<Pages> {
        same_bits::<T>(&[], &[])?;
        Pages::of(elements, size_of::<T>(), self.job.page_bytes)
    }

    /// What is known of the copy of a state that was protected last on a communicator, or anywhere
    /// if none was; true if that one is valid; the version of the next one.
    ///
    /// The first on a communicator has the number of its block, which all ranks know: replacements
    /// may begin anew beside survivors that have had copies.
    fn last_copy(&mut self, key: BlockKey, number: u32) -> (Known, bool, u64) {
        let (comm, first) = (self.block(key).comm, self.block(key).scope.0 + 1);
        let valid = &self.job.copies.slot(number).known;
        let valid_version = if valid.over == Some(comm) { valid.version } else { 0 };
        let carried = self.blocks.carried(Some(comm), number);
        let newest = carried.max_by_key(|copy| copy.known.version);
        let Some(newest) = newest.filter(|copy| copy.known.version > valid_version) else {
            let next = if valid_version > 0 { valid_version + 1 } else { first };
            return (valid.clone(), true, next);
        };
        // What is protected after a restore may have another length than it had.
        let over = newest.known.over.filter(|_| !newest.is_restored);
        let known = Known { over, ..newest.known.clone() };
        (known, planted!(ChangeThePending), newest.known.version + 1)
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
        let Some(over) = self.job.copies.slot(number).known.over else { return Ok(None) };
        let comm = self.block(key).comm;
        if self.job.copies.slot(number).known.redundancy != Redundancy::Partner {
            let lost = self.gone(over, comm).next();
            return lost.map_or(Ok(None), |rank| Err(Error::StateLost { rank, partner: None }));
        }
        let keepers = self.job.copies.slot(number).known.keepers.clone();
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
        let mut slots =
            self.job.copies.slots.iter().filter(|slot| slot.known.over.is_some()).peekable();
        if slots.peek().is_none() {
            return Some(Error::NothingProtected);
        }
        slots.find_map(|slot| {
            let over = slot.known.over?;
            self.gone(over, comm).find_map(|rank| {
                if slot.known.redundancy != Redundancy::Partner {
                    return Some(Error::StateLost { rank, partner: None });
                }
                let partner = self.partner(rank, over, &slot.known.keepers).unwrap_or(rank);
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
