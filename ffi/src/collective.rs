//! Collectives of fampi's own, over the living ranks of a communicator of the program.
//!
//! They are made of messages in contexts of fampi's own, which go on in every call of fampi and
//! while MPI waits. What an aborted block has left behind meets no later one; a rank that a report
//! has named dead is left out; any other death, and a rank that leaves the block, ends them.

use std::ffi::{c_int, c_void};

use fampi_core::{
    Rank,
    engine::{
        buffer::AnyBuffer,
        collective::{Collective, Parts},
    },
    guest::GuestBlock,
};
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};

use crate::{
    arguments::{is_in_place, put},
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_INTERNAL, Result, done},
    fused::number,
    handles::Kind,
    layout::{Operands, Piece, Type},
    running::{Out, Running},
    state::{State, enter},
};

impl State {
    /// The program frees the block behind this request.
    #[cold]
    pub(crate) fn end_collectives_of(&mut self, raw: ffi::MPI_Request) {
        if let Some(place) = self.handles.entry(raw).map(|entry| entry.handle.place()) {
            self.end_collectives(place);
        }
    }

    /// Before the block at this place is released: its collectives, all of which are over with it,
    /// are told what they came to.
    pub(crate) fn end_collectives(&mut self, place: u32) {
        if self.collectives
            && let Kind::Block(block) = &self.handles.at(place).kind
        {
            let name = block.name;
            if self.guest.verdict(name).is_none() {
                self.guest.leave_block(name);
            }
            self.settle();
        }
    }
}

/// Who calls, and where.
pub(crate) struct Place {
    block: GuestBlock,
    pub(crate) me: usize,
    /// For each rank whether it takes part.
    living: Vec<bool>,
}

/// An operation that is about to start.
pub(crate) struct Start {
    collective: Collective,
    buffer: AnyBuffer,
    out: Out,
}

impl Start {
    /// What moves nothing.
    pub(crate) fn barrier() -> Self {
        let (collective, buffer) = (Collective::Barrier, AnyBuffer::nothing());
        Self { collective, buffer, out: Out::Pieces(Vec::new()) }
    }
}

impl Place {
    /// The first rank that takes part.
    pub(crate) fn first(&self) -> usize {
        self.living.iter().position(|living| *living).unwrap_or(self.me)
    }
}

/// Starts a collective in the block that was started last on the communicator; by a call of MPI if
/// there is none.
pub(crate) fn start(
    comm: MPI_Comm,
    request: *mut MPI_Request,
    of_mpi: impl Fn() -> c_int,
    ours: impl Fn(&Place) -> Result<Start>,
) -> c_int {
    enter(|state| {
        if request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let Some((state, place)) = state.as_mut().and_then(|state| place(state, comm)) else {
            return done(of_mpi());
        };
        let Start { collective, mut buffer, out } = ours(&place)?;
        if state.guest.needs_collective(place.block)
            && let Some(operands) = buffer.as_any_mut().downcast_mut::<Operands>()
            && let Ok(number) = number(state, operands.datatype())
        {
            operands.fuse(number);
        }
        state.handles.announce();
        let number = state.guest.collective(place.block, collective, buffer);
        let number = number.map_err(|_| FAMPI_ERR_ARG)?;
        let running = Box::new(Running { block: place.block, number, out, raised: None });
        state.collectives = true;
        let made = state.handles.add(Kind::Collective(running))?;
        state.settle();
        // SAFETY: our caller's promise, that of the function of the interface.
        unsafe { put(request, made) }
    })
}

fn place(state: &mut State, comm: MPI_Comm) -> Option<(&mut State, Place)> {
    let known = state.known(comm)?;
    let block = state.guest.last_open(known)?;
    let (me, size) = state.guest.place(known);
    let dead = state.guest.known_failed(known);
    let living = (0..size).map(|rank| !dead.contains(Rank::new(rank))).collect();
    Some((state, Place { block, me: me.index(), living }))
}

/// The rank of this number.
pub(crate) fn root_of(place: &Place, root: c_int) -> Result<Rank> {
    let known = usize::try_from(root).ok().filter(|root| *root < place.living.len());
    known.map(Rank::from).ok_or(ffi::MPI_ERR_ROOT.cast_signed())
}

/// The parts of a buffer, one for each rank.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) address: *mut c_void,
    pub(crate) datatype: MPI_Datatype,
    pub(crate) counts: Counts,
}

/// How many elements they have, and where they stand.
#[derive(Clone, Copy)]
pub(crate) enum Counts {
    /// This many each, one after the other.
    Even(c_int),
    /// Counts and displacements, an array of each.
    Each(*const c_int, *const c_int),
}

impl Rows {
    /// The part of each rank.
    ///
    /// # Safety
    ///
    /// The arrays are null or have a number for each.
    unsafe fn pieces(self, ranks: usize) -> Result<Vec<Piece>> {
        let kind = Type::of(self.datatype)?;
        let piece = |rank: usize| {
            let (count, place) = match self.counts {
                Counts::Even(count) => (count, rank as isize * count as isize),
                Counts::Each(counts, places) if !counts.is_null() && !places.is_null() => {
                    // SAFETY: not null, and the rest is our caller's promise.
                    let count = unsafe { counts.wrapping_add(rank).read() };
                    // SAFETY: as above.
                    (count, unsafe { places.wrapping_add(rank).read() } as isize)
                }
                Counts::Each(..) => return Err(FAMPI_ERR_ARG),
            };
            kind.at(kind.beyond(self.address, place), count)
        };
        (0..ranks).map(piece).collect()
    }
}

/// Numbers of bytes of parts.
fn lengths(pieces: &[Piece]) -> Parts {
    Parts::Counts(pieces.iter().map(|piece| piece.bytes).collect())
}

/// Pieces with the places where they stand in a buffer of ours, one after the other from there on.
fn placed(pieces: &[Piece], from: usize) -> impl Iterator<Item = (usize, Piece)> + '_ {
    pieces.iter().scan(from, |place, piece| {
        let at = *place;
        *place += piece.bytes;
        Some((at, piece.clone()))
    })
}

/// Those of the ranks that take part.
fn of_living(
    place: &Place,
    placed: impl Iterator<Item = (usize, Piece)>,
    but: Option<usize>,
) -> Vec<(usize, Piece)> {
    let counts = |rank: usize| place.living[rank] && Some(rank) != but;
    placed.enumerate().filter(|(rank, _)| counts(*rank)).map(|(_, it)| it).collect()
}

fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.bytes).sum()
}

/// A buffer of this length with these pieces in it.
///
/// # Safety
///
/// The program's memory has them.
pub(crate) unsafe fn packed(
    length: usize,
    pieces: impl IntoIterator<Item = (usize, Piece)>,
) -> Result<AnyBuffer> {
    let mut bytes = vec![0_u8; length];
    for (at, piece) in pieces {
        let room = bytes.get_mut(at..at + piece.bytes).ok_or(ffi::MPI_ERR_COUNT.cast_signed())?;
        // SAFETY: our caller's promise.
        unsafe { piece.pack(room) }?;
    }
    Ok(AnyBuffer::of(bytes))
}

/// A reduction of a buffer as a whole, which is given back if `takes` says so.
///
/// # Safety
///
/// The program's buffers have so many elements.
pub(crate) unsafe fn combining(
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype): (c_int, MPI_Datatype),
    (op, takes): (MPI_Op, bool),
    collective: Collective,
) -> Result<Start> {
    let mut operands = Operands::of(&Type::of(datatype)?, count, op)?;
    let from = if is_in_place(sendbuf) { recvbuf.cast_const() } else { sendbuf };
    let is_nowhere = from.is_null() || takes && recvbuf.is_null();
    if is_nowhere && !operands.bytes().is_empty() {
        return Err(FAMPI_ERR_ARG);
    }
    // SAFETY: our caller's promise.
    unsafe { operands.load(from) };
    let bytes = if takes { operands.bytes().len() } else { 0 };
    Ok(Start { collective, buffer: AnyBuffer::of(operands), out: Out::Combined(recvbuf, bytes) })
}

/// Gathers at a root, or at all.
///
/// # Safety
///
/// As for the functions of the interface.
pub(crate) unsafe fn gathering(
    place: &Place,
    own: (*const c_void, c_int, MPI_Datatype),
    rows: Rows,
    collective: impl Fn(Parts) -> Collective,
) -> Result<Start> {
    // SAFETY: our caller's promise.
    let pieces = unsafe { rows.pieces(place.living.len()) }?;
    let in_place = is_in_place(own.0);
    let (at, mine) = placed(&pieces, 0).nth(place.me).ok_or(FAMPI_ERR_INTERNAL)?;
    let given = if in_place { mine } else { Type::of(own.2)?.at(own.0.cast_mut(), own.1)? };
    let but = in_place.then_some(place.me);
    // SAFETY: our caller's promise.
    let buffer = unsafe { packed(total(&pieces), [(at, given)]) }?;
    let out = Out::Pieces(of_living(place, placed(&pieces, 0), but));
    Ok(Start { collective: collective(lengths(&pieces)), buffer, out })
}

/// What a rank gives to a root, or gets from it.
///
/// # Safety
///
/// As for the functions of the interface.
pub(crate) unsafe fn alone(
    elements: (*mut c_void, c_int, MPI_Datatype),
    gives: bool,
    collective: Collective,
) -> Result<Start> {
    let piece = Type::of(elements.2)?.at(elements.0, elements.1)?;
    // SAFETY: our caller's promise.
    let buffer = unsafe { packed(piece.bytes, gives.then(|| (0, piece.clone()))) }?;
    let out = Out::Pieces(if gives { Vec::new() } else { vec![(0, piece)] });
    Ok(Start { collective, buffer, out })
}

/// Gathers at this root.
///
/// # Safety
///
/// As for the functions of the interface.
pub(crate) unsafe fn gathering_at(
    (place, root): (&Place, c_int),
    own: (*const c_void, c_int, MPI_Datatype),
    rows: Rows,
) -> Result<Start> {
    let root = root_of(place, root)?;
    if root.index() == place.me {
        // SAFETY: our caller's promise.
        return unsafe { gathering(place, own, rows, |parts| Collective::Gather { root, parts }) };
    }
    let collective = Collective::Gather { root, parts: Parts::Even };
    // SAFETY: our caller's promise.
    unsafe { alone((own.0.cast_mut(), own.1, own.2), true, collective) }
}

/// Scatters from this root.
///
/// # Safety
///
/// As for the functions of the interface.
pub(crate) unsafe fn scattering_from(
    (place, root): (&Place, c_int),
    rows: Rows,
    own: (*mut c_void, c_int, MPI_Datatype),
) -> Result<Start> {
    let root = root_of(place, root)?;
    if root.index() != place.me {
        let collective = Collective::Scatter { root, parts: Parts::Even };
        // SAFETY: our caller's promise.
        return unsafe { alone(own, false, collective) };
    }
    // SAFETY: our caller's promise.
    let pieces = unsafe { rows.pieces(place.living.len()) }?;
    let (at, _) = placed(&pieces, 0).nth(place.me).ok_or(FAMPI_ERR_INTERNAL)?;
    // SAFETY: our caller's promise.
    let buffer = unsafe { packed(total(&pieces), placed(&pieces, 0)) }?;
    let out = if is_in_place(own.0) {
        Vec::new()
    } else {
        vec![(at, Type::of(own.2)?.at(own.0, own.1)?)]
    };
    let collective = Collective::Scatter { root, parts: lengths(&pieces) };
    Ok(Start { collective, buffer, out: Out::Pieces(out) })
}

/// Exchanges parts among all.
///
/// # Safety
///
/// As for the functions of the interface.
pub(crate) unsafe fn exchanging(place: &Place, sent: Rows, received: Rows) -> Result<Start> {
    let sent = if is_in_place(sent.address) { received } else { sent };
    // SAFETY: our caller's promise.
    let sent = unsafe { sent.pieces(place.living.len()) }?;
    // SAFETY: as above.
    let received = unsafe { received.pieces(place.living.len()) }?;
    let (first, all) = (total(&sent), total(&sent) + total(&received));
    // SAFETY: as above.
    let buffer = unsafe { packed(all, placed(&sent, 0)) }?;
    let out = Out::Pieces(of_living(place, placed(&received, first), None));
    let collective = Collective::Exchange { sent: lengths(&sent), received: lengths(&received) };
    Ok(Start { collective, buffer, out })
}
