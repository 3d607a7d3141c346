//! The list of requests that a block is finished with.
//!
//! First every request is looked up, then all are taken over: a list with one that is refused
//! changes nothing that the program could see. MPI keeps those that were found.

use fampi_core::{
    engine::platform::PostId,
    guest::{GuestBlock, Part},
    mpi::Kept,
};
use mpi::ffi::MPI_Request;

use crate::{
    codes::{FAMPI_ERR_REQUEST, FAMPI_ERR_STATE},
    handles::Handles,
    request::{key, null},
    state::{Entry, Kind, Result, State},
    users::Users,
};

/// What of a list belongs to its block. It is empty between calls, and keeps its memory.
#[derive(Default)]
pub(crate) struct List {
    pub(crate) parts: Vec<Part>,
    /// For each part its place in the list.
    places: Vec<usize>,
    /// The program's requests among the parts.
    operations: Vec<(PostId, MPI_Request)>,
    /// Collectives of ours, by their places among the parts.
    collectives: Vec<(usize, MPI_Request)>,
    /// Requests of ours, of which none is to be there twice.
    ours: Vec<usize>,
}

impl List {
    /// Finds what the requests stand for; MPI keeps those that are the program's own from now on.
    pub(crate) fn find(
        &mut self,
        state: &mut State,
        block: MPI_Request,
        requests: &[MPI_Request],
    ) -> Result<()> {
        self.parts.clear();
        self.places.clear();
        self.operations.clear();
        self.collectives.clear();
        self.ours.clear();
        let name = state.block(block)?.name;
        let State { guest, handles, users, finished, .. } = state;
        users.begin_list();
        let (null, finished) = (null(), *finished);
        guest.with_mpi(|mpi| {
            for (place, raw) in requests.iter().copied().enumerate() {
                if raw == null || raw == finished {
                    continue;
                }
                let kind = Users::kind_of(mpi, raw);
                if kind == Kept::Unknown {
                    if raw == block {
                        return Err(FAMPI_ERR_REQUEST);
                    }
                    if self.find_ours((handles, name), place, raw)? {
                        continue;
                    }
                }
                let (post, message) = users.adopt_listed(mpi, raw, kind)?;
                self.parts.push(match message {
                    Some(it) if it.block == Some(name) => Part::Message(post, it.peer),
                    _ => Part::Request(post),
                });
                self.places.push(place);
                self.operations.push((post, raw));
            }
            Ok(())
        })?;
        self.ours.sort_unstable();
        let twice = self.ours.windows(2).any(|two| two[0] == two[1]);
        if twice { Err(FAMPI_ERR_REQUEST) } else { Ok(()) }
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
                self.parts.push(Part::Block(inner.name));
                self.places.push(place);
            }
            Some(Entry { kind: Kind::Collective(running), handle, .. }) => {
                if let Some(number) = running.number_in(block) {
                    self.collectives.push((self.parts.len(), raw));
                    self.parts.push(Part::Collective(number));
                    self.places.push(place);
                } else if !handle.is_complete() {
                    return Err(FAMPI_ERR_STATE);
                }
            }
            Some(Entry { kind: Kind::Making(making), .. }) if making.outcome() == Some(0) => {}
            Some(_) => return Err(FAMPI_ERR_STATE),
        }
        self.ours.push(key(raw));
        Ok(true)
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

    /// Makes all that was found parts of the block.
    pub(crate) fn take_over(&mut self, state: &mut State, block: MPI_Request) -> Result<()> {
        let name = state.block(block)?.name;
        let data = state.guest.data_of(name);
        state.guest.with_mpi(|mpi| {
            self.operations.iter().for_each(|(post, _)| mpi.share_request(*post, data));
        });
        let block = state.block(block)?;
        block.finished = true;
        std::mem::swap(&mut block.places, &mut self.places);
        std::mem::swap(&mut block.operations, &mut self.operations);
        Ok(())
    }
}
