//! How states come back after a rebuild: every rank tells what it has, the former partners send
//! replacements their states, and each new partner gets the copy that it keeps from now on.
//! Replacements do not know who the partners were; the first survivor tells them on which nodes the
//! ranks were, from which that follows.
//!
//! ```text
//! versions          all ranks tell what they have
//! keepers_before    the first survivor ──▶ replacements: on which nodes the ranks were
//! restore           a copy ──▶ its rank       a state ──▶ its partner, if that has it not
//! ```

use alloc::{rc::Rc, vec, vec::Vec};

use super::copies::HOME;
use crate::{
    engine::{BlockKey, CommKey, Content, Engine, Held, Kept, Known, Need, PendingCopy},
    error::Error,
    fault::FaultCode,
    native::Element,
    protocol::{keepers::Keepers, planted::planted, redundancy::Redundancy},
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        collective::{Collective, Parts},
        platform::Operation,
    },
};

/// What the ranks have of a state.
pub(super) struct Found {
    /// The version that all can have again.
    pub(super) version: u64,
    pub(super) redundancy: Redundancy,
    /// Who keeps what of it, and who is to keep it now.
    pub(super) before: Rc<Keepers>,
    pub(super) now: Rc<Keepers>,
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
    /// A number for the nodes of the ranks when its version was protected
    /// ([`Keepers::fingerprint`]).
    nodes: u64,
}

/// Whose state is gone.
struct Lost {
    rank: Rank,
    /// Who kept it, if it was a partner.
    partner: Option<Rank>,
}

/// In the place of a version: this process has a state that it has protected as another rank.
const MOVED: u64 = u64::MAX;

impl Found {
    /// What the ranks have told; nothing if no rank has anything, or one has another rank by now.
    fn of_words(words: &[u64], now: Rc<Keepers>) -> Option<Self> {
        let (words, _) = words.as_chunks::<6>();
        if words.iter().any(|words| words[0] == MOVED) {
            return None;
        }
        let newest = words.iter().max_by_key(|words| words[0])?;
        let (version, redundancy) = (newest[0], Redundancy::of_word(newest[4]));
        let has = |&[version, elements, kept_version, kept_elements, _, nodes]: &[u64; 6]| Has {
            version,
            elements: elements as usize,
            kept_version,
            kept_elements: kept_elements as usize,
            nodes,
        };
        let ranks = words.iter().map(has).collect();
        let before = now.clone();
        (version > 0).then_some(Self { version, redundancy, before, now, ranks })
    }

    pub(super) fn of(&self, rank: Rank) -> &Has {
        &self.ranks[rank.index()]
    }

    /// True for a rank that has no state of this version, or not its part of the group's code.
    pub(super) fn lacks(&self, rank: Rank) -> bool {
        let Has { version, kept_version, .. } = *self.of(rank);
        match self.redundancy {
            // Who has one has the last: that others number it otherwise is of no importance.
            Redundancy::Own => version == 0,
            Redundancy::Partner => version != self.version,
            Redundancy::Group { .. } => [version, kept_version] != [self.version; 2],
        }
    }
}

impl Engine {
    /// What a restore leaves as it is, but for its version.
    pub(super) fn unchanged(
        &mut self,
        key: BlockKey,
        slot: u32,
        found: &Found,
        own_elements: usize,
    ) -> PendingCopy {
        let over = Some(self.block(key).comm);
        let Found { version, redundancy, .. } = *found;
        let (keepers, before) = (found.now.clone(), self.job.copies.slot(slot).known.clone());
        let known = Known { version, over, keepers, redundancy, own_elements, ..before };
        PendingCopy { slot, known, is_restored: true, own: None, kept: Kept::Unchanged }
    }

    /// Brings a state back after a rebuild: every rank calls it, in the same order. The returned
    /// state is the one of the last commit; it and what partners keep are valid with this block.
    pub(crate) fn restore<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
    ) -> Result<Vec<T>, Error> {
        let comm = self.block(key).comm;
        let over = self.job.copies.slot(number).known.over;
        if !self.partnership().has_replacements(self, comm, over) {
            return self.own_state_here(key, number);
        }
        let found = self.versions(key, number)?;
        match found.redundancy {
            Redundancy::Own => self.restore_own(key, number, &found),
            Redundancy::Partner => self.restore_from_partner(key, number, &found),
            Redundancy::Group { .. } => self.decode(key, number, &found),
        }
    }

    /// True when this process has a state in memory that [`Self::restore`] would bring to the ranks
    /// of this block.
    pub(crate) fn has_states(&self, key: BlockKey) -> bool {
        let (comm, partnership) = (self.block(key).comm, self.partnership());
        self.job.copies.slots.iter().any(|slot| {
            let Known { version, over, whole, .. } = slot.known;
            let is_here = !partnership.has_replacements(self, comm, over);
            let is_like = || whole && partnership.is_like(self, comm, over);
            version > 0 && over.is_some() && (is_here || is_like())
        })
    }

    /// What each rank has itself.
    fn restore_own<T: Element>(
        &mut self,
        key: BlockKey,
        number: u32,
        found: &Found,
    ) -> Result<Vec<T>, Error> {
        let state: Vec<T> = self.own_state(number).ok_or(Error::StateType { slot: number })?;
        let copy = self.unchanged(key, number, found, state.len());
        self.contents_mut(key).copies.push(copy);
        Ok(state)
    }

    fn restore_from_partner<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        found: &Found,
    ) -> Result<Vec<T>, Error> {
        let comm = self.block(key).comm;
        let me = self.comm(comm).me;
        let partner = |rank, keepers| self.partner(rank, comm, keepers).unwrap_or(rank);
        let ward = |rank, keepers| self.ward(rank, comm, keepers).unwrap_or(rank);
        let (before, now) = (&*found.before, &*found.now);
        let (old_partner, old_ward) = (partner(me, before), ward(me, before));
        let (new_partner, new_ward) = (partner(me, now), ward(me, now));
        if old_partner == me {
            return self.restore_own(key, number, found);
        }
        let is_to_be_sent = |rank: Rank| {
            let kept = found.of(partner(rank, before)).kept_version;
            partner(rank, now) != partner(rank, before) || kept != found.version
        };
        let elements = |rank: Rank| {
            let keeper = || found.of(partner(rank, before)).kept_elements;
            if found.lacks(rank) { keeper() } else { found.of(rank).elements }
        };
        let (sends, receives) = (is_to_be_sent(me), is_to_be_sent(new_ward));
        let (own_elements, kept_elements) = (elements(me), elements(new_ward));
        let mut copy = self.unchanged(key, number, found, own_elements);
        if found.lacks(old_ward) {
            let buffer = self
                .kept_state::<T>(number)
                .ok_or(Error::StateLost { rank: old_ward, partner: Some(me) })?;
            self.send_copy(key, HOME + 2 * number, old_ward, AnyBuffer::of(buffer));
        }
        if receives {
            let buffer = AnyBuffer::of(vec![T::default(); kept_elements]);
            let kept = self.receive_copy(key, 2 * number, new_ward, buffer);
            copy.kept = Kept::New(Content::whole(Held::Request(kept)));
            copy.known.kept_elements = Some(kept_elements);
        }
        let state = if found.lacks(me) {
            let buffer = AnyBuffer::of(vec![T::default(); own_elements]);
            let index = self.receive_copy(key, HOME + 2 * number, old_partner, buffer);
            copy.own = Some(Content::whole(Held::Request(index)));
            self.received(key, index)?
        } else {
            self.own_state::<T>(number).ok_or(Error::StateType { slot: number })?
        };
        if sends {
            self.send_copy(key, 2 * number, new_partner, AnyBuffer::of(state.clone()));
        }
        self.contents_mut(key).copies.push(copy);
        Ok(state)
    }

    /// The version that all ranks can have again, and what each has of the state.
    fn versions(&mut self, key: BlockKey, number: u32) -> Result<Found, Error> {
        let comm = self.block(key).comm;
        let Known { whole, over, .. } = self.job.copies.slot(number).known;
        let is_like = whole && self.partnership().is_like(self, comm, over);
        let slot = self.job.copies.slot(number);
        // Survivors that inherited and have other partners now cannot serve the whole world.
        let [mut version, kept_version] = [slot.known.version, slot.kept_version]
            .map(|version| if is_like { version } else { 0 });
        // Who keeps what of whom is known by ranks, which are those of others now.
        if whole && !is_like && over.is_some() && slot.known.version > 0 {
            version = MOVED;
        }
        let mine = [
            version,
            slot.known.own_elements as u64,
            kept_version,
            slot.known.kept_elements.unwrap_or(0) as u64,
            slot.known.redundancy.to_word(),
            slot.known.keepers.fingerprint(),
        ];
        let words = self.partnership().tell(self, key, &mine)?;
        let Some(mut found) = Found::of_words(&words, self.keepers(comm)) else {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        };
        if !planted!(AskThePresentKeepers) {
            found.before = self.keepers_before(key, number, &found)?;
        }
        let Some(Lost { rank, partner }) = self.lost(comm, &found) else { return Ok(found) };
        if let Some(partner) = partner {
            self.job.copies.lost = Some((rank, partner));
            // The report will not name the partner: only once all know it may it say the rest.
            self.partnership().tell(self, key, &[0])?;
        }
        let code = if partner.is_some() { FaultCode::StateLost } else { FaultCode::TooManyLost };
        self.process.raise_about(key, rank, code);
        Err(Error::StateLost { rank, partner })
    }

    /// Who keeps what of the version that was found: who has it knows that, and the first of these
    /// tells the others on which nodes the ranks were.
    fn keepers_before(
        &mut self,
        key: BlockKey,
        number: u32,
        found: &Found,
    ) -> Result<Rc<Keepers>, Error> {
        let comm = self.block(key).comm;
        let (size, me) = (self.comm(comm).size(), self.comm(comm).me);
        let ranks = || (0..size).map(Rank::new);
        let has_it = |rank: &Rank| found.of(*rank).version == found.version;
        let Some(first) = ranks().find(has_it) else { return Ok(found.now.clone()) };
        let nodes = found.of(first).nodes;
        if nodes == found.now.fingerprint() {
            return Ok(found.now.clone());
        }
        if nodes == 0 {
            return Ok(Rc::new(Keepers::new(size, &[])));
        }
        let tag = HOME + 2 * number;
        if !has_it(&me) {
            let blank = AnyBuffer::of(vec![0_u32; size as usize]);
            let told = self.receive_copy(key, tag, first, blank);
            return Ok(Rc::new(Keepers::new(size, &self.received::<u32>(key, told)?)));
        }
        let keepers = self.job.copies.slot(number).known.keepers.clone();
        if me == first {
            for rank in ranks().filter(|rank| !has_it(rank)) {
                self.send_copy(key, tag, rank, AnyBuffer::of(keepers.nodes().to_vec()));
            }
        }
        Ok(keepers)
    }

    /// Whose state is gone from what was found: the first such rank.
    fn lost(&self, comm: CommKey, found: &Found) -> Option<Lost> {
        if found.redundancy == Redundancy::Partner {
            let mut ranks = (0..found.ranks.len() as u32).map(Rank::new);
            return ranks.find_map(|rank| {
                let keeper = self.partner(rank, comm, &found.before).unwrap_or(rank);
                let is_kept = keeper != rank && found.of(keeper).kept_version == found.version;
                let lost = Lost { rank, partner: Some(keeper) };
                (found.lacks(rank) && !is_kept).then_some(lost)
            });
        }
        let groups = self.groups(comm, found.redundancy, &found.before);
        groups.iter().find_map(|group| {
            let lacking: Vec<Rank> = group.iter().copied().filter(|it| found.lacks(*it)).collect();
            let losses = found.redundancy.losses(group.len() as u32) as usize;
            let lost = Lost { rank: *lacking.first()?, partner: None };
            (lacking.len() > losses).then_some(lost)
        })
    }

    /// The state of the last commit, where every rank has its own: after a shrink.
    fn own_state_here<T: Element>(&mut self, key: BlockKey, number: u32) -> Result<Vec<T>, Error> {
        if self.job.copies.slot(number).known.version == 0 {
            self.raise(key, FaultCode::NothingProtected);
            return Err(Error::NothingProtected);
        }
        self.own_state(number).ok_or(Error::StateType { slot: number })
    }

    pub(super) fn gather_words(&mut self, key: BlockKey, mine: &[u64]) -> Result<Vec<u64>, Error> {
        let ranks = self.comm(self.block(key).comm).size() as usize;
        let mut all = vec![0; mine.len() * ranks];
        let at = self.comm(self.block(key).comm).me.index() * mine.len();
        all[at..at + mine.len()].copy_from_slice(mine);
        let gather = Operation::Collective(Collective::Allgather { parts: Parts::Even });
        let index = self.post(key, Need::All, &gather, AnyBuffer::of(all));
        self.received(key, index)
    }
}
