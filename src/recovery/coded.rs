//! States that are kept in codes over groups of ranks: sent as chunks, kept as parities, and made
//! again from what is left of a group.
//!
//! ```text
//! protect    chunks of the own state ──▶ those who encode their stripes
//!            parities of the own stripe ──▶ those who keep them           in the same block
//! restore    states and parities of the living ──▶ each who lacks its own, who decodes
//! ```
//!
//! [`redundancy`](crate::protocol::redundancy) has the arrangement, and the engine's `encode` the
//! messages of the first two.

use alloc::{vec, vec::Vec};

use super::{
    code::{self, Left},
    copies::HOME,
    idle::blank,
    restore::Found,
};
use crate::{
    engine::{
        BlockKey, Code, CommKey, Content, Engine, Held, Kept, PendingCopy,
        contents::{FIRST_COPY, PARITIES},
    },
    error::Error,
    native::Element,
    protocol::{
        keepers::Keepers,
        redundancy::{Part, Redundancy, Stripes},
    },
    rank::Rank,
    seam::buffer::AnyBuffer,
};

/// The group of a rank, and its place there.
struct Group {
    members: Vec<Rank>,
    at: usize,
    stripes: Stripes,
}

impl Group {
    /// The places of the others.
    fn others(&self) -> impl Iterator<Item = usize> {
        let at = self.at;
        (0..self.members.len()).filter(move |place| *place != at)
    }
}

impl Engine {
    /// The group of this rank; nothing where it is alone in it.
    fn group(&self, comm: CommKey, redundancy: Redundancy, keepers: &Keepers) -> Option<Group> {
        let me = self.comm(comm).me;
        let mut groups = self.groups(comm, redundancy, keepers).into_iter();
        let members = groups.find(|members| members.contains(&me))?;
        let at = members.iter().position(|rank| *rank == me)?;
        let (ranks, losses) = (members.len(), redundancy.losses(members.len() as u32) as usize);
        (ranks > 1).then_some(Group { members, at, stripes: Stripes { ranks, losses } })
    }

    /// Sends the chunks of a state to those who encode their stripes, and what follows. If the
    /// lengths of the states of all are known, they are those of the last time.
    pub(super) fn encode(
        &mut self,
        key: BlockKey,
        copy: &mut PendingCopy,
        is_known: bool,
    ) -> Result<(), Error> {
        let number = copy.slot;
        let comm = self.block(key).comm;
        let Some(group) = self.group(comm, copy.known.redundancy, &copy.known.keepers) else {
            return Ok(());
        };
        let Group { at, stripes, ref members } = group;
        let own = copy.own.as_ref().and_then(Content::here);
        let bytes = own.and_then(AnyBuffer::bytes);
        let (_, state) = bytes.ok_or(Error::NotNumbers { slot: number })?;
        if !is_known {
            copy.known.lengths = self.tell_lengths(key, number, &group, state.len() as u64)?;
        }
        let longest = copy.known.lengths.iter().copied().max().unwrap_or(0) as usize;
        let chunk_bytes = stripes.chunk_bytes(longest);
        let elements = stripes.losses * chunk_bytes;
        let encoder = |chunk| members[stripes.stripe(at, Part::Chunk(chunk))];
        let chunk = |chunk| (encoder(chunk), Stripes::chunk(chunk, chunk_bytes, state.len()));
        let others = 1..stripes.losses;
        let code = Code {
            tags: [FIRST_COPY + 2 * number, PARITIES],
            state,
            chunk_bytes,
            chunks: (0..stripes.chunks()).map(chunk).collect(),
            stripe: (0..stripes.chunks())
                .map(|chunk| members[stripes.rank(at, Part::Chunk(chunk))])
                .collect(),
            keepers: others
                .clone()
                .map(|parity| members[stripes.rank(at, Part::Parity(parity))])
                .collect(),
            wards: others.map(|parity| members[stripes.stripe(at, Part::Parity(parity))]).collect(),
            kept: blank(&mut self.job.copies.slot(number).idle, elements),
            encode: code::encode,
        };
        let parities = Held::Request(self.post_code(key, code));
        copy.known.kept_elements = Some(elements);
        copy.kept = Kept::New(Content::whole(parities));
        Ok(())
    }

    /// The bytes of the states of all ranks of a group.
    fn tell_lengths(
        &mut self,
        key: BlockKey,
        number: u32,
        group: &Group,
        mine: u64,
    ) -> Result<Vec<u64>, Error> {
        let mut lengths = vec![mine; group.members.len()];
        let tell = HOME + 2 * number;
        let places: Vec<usize> = group.others().collect();
        let receive = |engine: &mut Self, place: &usize| {
            engine.receive_copy(key, tell, group.members[*place], AnyBuffer::of(vec![0_u64]))
        };
        let requests: Vec<usize> = places.iter().map(|place| receive(self, place)).collect();
        for place in &places {
            self.send_copy(key, tell, group.members[*place], AnyBuffer::of(vec![mine]));
        }
        for (place, request) in places.into_iter().zip(requests) {
            lengths[place] = self.received::<u64>(key, request)?[0];
        }
        Ok(lengths)
    }

    /// Brings a state back that is kept in a group's code: those who have theirs send all that they
    /// have to those who lack it. Where the groups are other ones now, their codes are made anew.
    pub(super) fn decode<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        found: &Found,
    ) -> Result<Vec<T>, Error> {
        let comm = self.block(key).comm;
        let me = self.comm(comm).me;
        let Some(group) = self.group(comm, found.redundancy, &found.before) else {
            return self.own_state(number).ok_or(Error::StateType { slot: number });
        };
        let (state, mut copy) = if found.lacks(me) {
            self.decode_own::<T>(key, number, &group, found)?
        } else {
            self.supply::<T>(key, number, &group, found)?
        };
        let groups = |keepers: &Keepers| keepers.groups(found.redundancy);
        if groups(&found.now) != groups(&found.before) {
            copy.own = Some(Content::whole(Held::Here(Some(AnyBuffer::of(state.clone())))));
            self.encode(key, &mut copy, false)?;
        }
        self.contents_mut(key).copies.push(copy);
        Ok(state)
    }

    /// Sends all that this rank has of a group's code to those who lack it; its own state.
    fn supply<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        group: &Group,
        found: &Found,
    ) -> Result<(Vec<T>, PendingCopy), Error> {
        let state = self.own_state::<T>(number).ok_or(Error::StateType { slot: number })?;
        let copy = self.unchanged(key, number, found, state.len());
        for rank in group.members.iter().filter(|rank| found.lacks(**rank)) {
            let parities = self.job.copies.slot(number).kept.as_ref();
            let parities = parities.map(|kept| kept.copy(0, kept.elements()));
            let lengths = AnyBuffer::of(copy.known.lengths.clone());
            self.send_copy(key, HOME + 2 * number, *rank, lengths);
            self.send_copy(key, 2 * number, *rank, AnyBuffer::of(state.clone()));
            let parities = parities.unwrap_or(AnyBuffer::nothing());
            self.send_copy(key, HOME + 2 * number, *rank, parities);
        }
        Ok((state, copy))
    }

    /// Brings back the state that this rank lacks.
    fn decode_own<T: Element + Default>(
        &mut self,
        key: BlockKey,
        number: u32,
        group: &Group,
        found: &Found,
    ) -> Result<(Vec<T>, PendingCopy), Error> {
        let stripes = group.stripes;
        let living = |place: &usize| !found.lacks(group.members[*place]);
        let living: Vec<usize> = group.others().filter(living).collect();
        let mut lengths = Vec::new();
        for place in &living {
            let blank = AnyBuffer::of(vec![0_u64; stripes.ranks]);
            let told = self.receive_copy(key, HOME + 2 * number, group.members[*place], blank);
            lengths = self.received::<u64>(key, told)?;
        }
        let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
        let chunk_bytes = stripes.chunk_bytes(longest);
        let mut requests = Vec::new();
        for place in &living {
            let rank = group.members[*place];
            let state = AnyBuffer::of(vec![T::default(); found.of(rank).elements]);
            let state = self.receive_copy(key, 2 * number, rank, state);
            let parities = AnyBuffer::of(vec![0_u8; stripes.losses * chunk_bytes]);
            requests.push((state, self.receive_copy(key, HOME + 2 * number, rank, parities)));
        }
        let mut states: Vec<Option<AnyBuffer>> = Vec::new();
        states.resize_with(stripes.ranks, || None);
        let mut parities = vec![None; stripes.ranks];
        for (place, (state, parity)) in living.into_iter().zip(requests) {
            states[place] = Some(AnyBuffer::of(self.received::<T>(key, state)?));
            parities[place] = Some(self.received::<u8>(key, parity)?);
        }
        let bytes = |buffer: &AnyBuffer| buffer.bytes().map(|(_, bytes)| bytes.to_vec());
        let states: Vec<Option<Vec<u8>>> =
            states.iter().map(|state| state.as_ref().and_then(bytes)).collect();
        let left = Left {
            stripes,
            chunk_bytes,
            states: states.iter().map(Option::as_deref).collect(),
            parities: parities.iter().map(Option::as_deref).collect(),
        };
        let (mut state, kept) = left.restore(group.at);
        state.truncate(lengths.get(group.at).copied().unwrap_or(0) as usize);
        let of_other_type = || Error::StateType { slot: number };
        let blank = AnyBuffer::of(Vec::<T>::new());
        let (place, _) = blank.bytes().ok_or_else(of_other_type)?;
        let state = AnyBuffer::of_bytes(place, &state).and_then(AnyBuffer::into_vec::<T>);
        let state = state.ok_or_else(of_other_type)?;
        let mut copy = self.unchanged(key, number, found, state.len());
        copy.known.lengths = lengths;
        let here = |buffer| Content::whole(Held::Here(Some(buffer)));
        copy.own = Some(here(AnyBuffer::of(state.clone())));
        copy.known.kept_elements = Some(kept.len());
        copy.kept = Kept::New(here(AnyBuffer::of(kept)));
        Ok((state, copy))
    }
}
