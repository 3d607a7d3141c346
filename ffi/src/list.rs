//! The list of requests that a block is finished with.
//!
//! Every request is looked up and taken over, in one pass; of a list with one that is refused, the
//! block lets go of all again: it changes nothing that the program could see. MPI keeps those that
//! were found.

use fampi_core::{
    guest::{GuestBlock, Part},
    mpi::{Kept, MpiPlatform},
};
use mpi::ffi::MPI_Request;

use crate::{
    codes::{FAMPI_ERR_REQUEST, FAMPI_ERR_STATE, Result},
    handles::{Entry, Handles, Kind, List},
    origin,
    request::{key, null},
    state::State,
    users::{self, forget},
};

impl List {
    /// Finds what the requests stand for, and makes all of it parts of the block; MPI keeps those
    /// that are the program's own from now on.
    pub(crate) fn take_over(
        &mut self,
        state: &mut State,
        block: MPI_Request,
        requests: &[MPI_Request],
    ) -> Result<()> {
        self.parts.clear();
        self.places.clear();
        self.collectives.clear();
        self.makings.clear();
        self.inner_makings.clear();
        self.ours.clear();
        let found = self.find(state, block, requests);
        self.ours.sort_unstable();
        let twice = self.ours.windows(2).any(|two| two[0] == two[1]);
        let found = if twice { found.and(Err(FAMPI_ERR_REQUEST)) } else { found };
        let State { guest, .. } = state;
        found.inspect_err(|_| guest.with_mpi(|mpi| forget(mpi, &self.parts)))?;
        let block = state.block(block)?;
        block.finished = true;
        std::mem::swap(&mut block.places, &mut self.places);
        Ok(())
    }

    fn find(
        &mut self,
        state: &mut State,
        block: MPI_Request,
        requests: &[MPI_Request],
    ) -> Result<()> {
        let name = state.block(block)?.name;
        let State { guest, handles, users, finished, .. } = state;
        let data = guest.data_of(name);
        let (is_local, null, finished) = (!guest.is_agreed(name), null(), *finished);
        guest.with_mpi(|mpi| {
            let own = data.and_then(|data| mpi.users_comm(data)).filter(|_| is_local);
            mpi.begin_list();
            for (place, raw) in requests.iter().copied().enumerate() {
                if raw == null || MpiPlatform::is_shared(raw, finished) {
                    continue;
                }
                let kind = users::kind_of(mpi, raw);
                if kind == Kept::Message {
                    let post = users::adopt_listed(mpi, raw, data)?;
                    let part = own.map(|own| origin::part(mpi, post, raw, own));
                    self.add(place, part.unwrap_or(Part::Request(post)));
                    continue;
                }
                if kind == Kept::Unknown {
                    if raw == block {
                        return Err(FAMPI_ERR_REQUEST);
                    }
                    if self.find_ours((handles, name), place, raw)? {
                        continue;
                    }
                }
                let post = users::adopt(mpi, raw, kind)?;
                if !mpi.note_listed(post) {
                    return Err(FAMPI_ERR_REQUEST);
                }
                mpi.share_request(post, data);
                let message = users.message(mpi, post).filter(|it| it.block == Some(name));
                let part = match (message, own) {
                    (Some(message), _) => Part::Message(post, message.peer),
                    (None, Some(own)) => origin::part(mpi, post, raw, own),
                    (None, None) => Part::Request(post),
                };
                self.add(place, part);
            }
            Ok(())
        })
    }

    /// The next part, which is at this place of the list.
    #[inline]
    fn add(&mut self, place: usize, part: Part) {
        if place != self.parts.len() && self.places.is_empty() {
            self.places.extend(0..self.parts.len());
        }
        if place != self.parts.len() || !self.places.is_empty() {
            self.places.push(place);
        }
        self.parts.push(part);
    }

    /// Finds a request of ours; false if it is not.
    fn find_ours(
        &mut self,
        (handles, block): (&mut Handles, GuestBlock),
        place: usize,
        raw: MPI_Request,
    ) -> Result<bool> {
        match handles.entry(raw) {
            None => {
                let was_ours = handles.is_freed(raw);
                return if was_ours { Err(FAMPI_ERR_REQUEST) } else { Ok(false) };
            }
            Some(Entry { kind: Kind::Block(inner), .. }) if inner.finished => {
                let part = Part::Block(inner.name);
                self.inner_makings.extend_from_slice(&inner.makings);
                self.add(place, part);
            }
            Some(Entry { kind: Kind::Collective(running), .. }) => {
                let other = running.block;
                if let Some(number) = running.number_in(block) {
                    self.collectives.push((self.parts.len(), raw));
                    self.add(place, Part::Collective(number));
                } else if handles.has_open(other) {
                    // Also if it is complete here: it may not be on other ranks.
                    return Err(FAMPI_ERR_STATE);
                }
            }
            Some(Entry { kind: Kind::Making(making), .. }) => match making.outcome() {
                Some(0) => {}
                over => {
                    if over.is_none() {
                        self.makings.push((self.parts.len(), raw));
                    }
                    self.add(place, Part::Making(over.is_some()));
                }
            },
            Some(_) => return Err(FAMPI_ERR_STATE),
        }
        self.ours.push(key(raw));
        Ok(true)
    }

    /// The block has been finished: communicators in the making are told that it waits for them.
    pub(crate) fn place_makings(&mut self, state: &mut State, raw: MPI_Request) -> Result<()> {
        if self.makings.is_empty() && self.inner_makings.is_empty() {
            return Ok(());
        }
        let name = state.block(raw)?.name;
        for (part, making) in &self.makings {
            if let Some(Entry { kind: Kind::Making(making), .. }) = state.entry(*making) {
                making.list_in(name, *part);
            }
        }
        let makings = self.makings.iter().map(|(_, raw)| *raw);
        state.block(raw)?.makings = makings.chain(self.inner_makings.drain(..)).collect();
        Ok(())
    }

    /// The block has been finished: its collectives are where the list has them.
    pub(crate) fn place_collectives(&mut self, state: &mut State, block: GuestBlock) {
        for (part, raw) in self.collectives.drain(..) {
            let number = state.guest.number_of(block, part);
            if let Some(Entry { kind: Kind::Collective(running), .. }) = state.entry(raw) {
                running.place(number);
            }
        }
    }
}
