//! Protected states: that of a rank survives it, and comes back with the digits it had.
//!
//! ```text
//! protect    state of a rank ──▶ a partner, or a code      valid with the block's commit
//! restore    the last one, after a rebuild, on all ranks   from the own memory, or others'
//! inherit    that of a dead rank, after a shrink           at its partner
//! ```

use std::{
    ffi::{c_int, c_void},
    slice,
};

use fampi_core::{MAX_SLOTS, Redundancy, guest::GuestBlock, mpi::InNumbers as _};
use mpi::ffi::{self, MPI_Aint, MPI_Datatype, MPI_Request};

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COUNT, FAMPI_ERR_REQUEST, FAMPI_ERR_STATE, Result, of_error},
    state::{State, enter_started},
};

/// The block, which is global and not finished.
pub(crate) fn open_block(state: &mut State, tb_request: MPI_Request) -> Result<GuestBlock> {
    let found = state.block(tb_request)?;
    let (block, finished) = (found.name, found.finished);
    if !state.guest.is_agreed(block) {
        return Err(FAMPI_ERR_REQUEST);
    }
    if finished { Err(FAMPI_ERR_STATE) } else { Ok(block) }
}

pub(crate) fn slot(number: c_int) -> Result<u32> {
    u32::try_from(number).ok().filter(|slot| *slot < MAX_SLOTS).ok_or(FAMPI_ERR_ARG)
}

/// The bytes of an element of a type that has no gaps.
fn element_bytes(datatype: MPI_Datatype) -> Result<usize> {
    // SAFETY: reading a constant that MPI's library defines.
    if datatype.0.number() == 0 || datatype == unsafe { ffi::RSMPI_DATATYPE_NULL } {
        return Err(FAMPI_ERR_ARG);
    }
    let (mut size, mut lowest, mut extent): (c_int, MPI_Aint, MPI_Aint) = (0, 0, 0);
    // SAFETY: the result is ours; that the handle is one of MPI's is the program's promise.
    let sized = unsafe { ffi::MPI_Type_size(datatype, &raw mut size) };
    // SAFETY: as above.
    let extended = unsafe { ffi::MPI_Type_get_extent(datatype, &raw mut lowest, &raw mut extent) };
    let bytes = usize::try_from(size).ok().filter(|bytes| *bytes > 0);
    let dense = |bytes: &usize| lowest == 0 && extent == *bytes as MPI_Aint;
    let known = sized == 0 && extended == 0;
    bytes.filter(dense).filter(|_| known).ok_or(FAMPI_ERR_ARG)
}

/// So many elements of a type, in bytes.
fn bytes(count: c_int, datatype: MPI_Datatype) -> Result<(usize, usize)> {
    let count = usize::try_from(count).map_err(|_| FAMPI_ERR_COUNT)?;
    let each = element_bytes(datatype)?;
    Ok((count.checked_mul(each).ok_or(FAMPI_ERR_COUNT)?, each))
}

/// States that are protected are kept by their rank alone: a rank that dies takes its state along.
pub const FAMPI_REDUNDANCY_OWN: c_int = 0;
/// States that are protected are kept at a partner: half of the ranks further on, or, where that
/// one is on the same node, one on another node, unless one node has more than half of the ranks.
pub const FAMPI_REDUNDANCY_PARTNER: c_int = 1;
/// States that are protected are kept in a code over groups of ranks.
pub const FAMPI_REDUNDANCY_GROUP: c_int = 2;

/// Says where states are kept that are protected from now on in a global block that is not
/// finished; without this call at a partner. All ranks say the same. With `FAMPI_REDUNDANCY_GROUP`
/// a group has at least `ranks` ranks, 2 or more, and survives the loss of `losses` of them, 1 or
/// more and fewer than `ranks`: by an exclusive or if it is 1, and by a code of Reed and Solomon
/// otherwise. Both numbers are ignored with the others. Local.
///
/// Returns `FAMPI_ERR_REQUEST` and `FAMPI_ERR_STATE` as `FAMPI_Protect`; `FAMPI_ERR_ARG`.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Set_redundancy(
    tb_request: MPI_Request,
    redundancy: c_int,
    ranks: c_int,
    losses: c_int,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        let redundancy = match redundancy {
            FAMPI_REDUNDANCY_OWN => Redundancy::Own,
            FAMPI_REDUNDANCY_PARTNER => Redundancy::Partner,
            FAMPI_REDUNDANCY_GROUP if losses >= 1 && losses < ranks => {
                Redundancy::Group { ranks: ranks.cast_unsigned(), losses: losses.cast_unsigned() }
            }
            _ => return Err(FAMPI_ERR_ARG),
        };
        known.guest.set_redundancy(block, redundancy);
        Ok(())
    })
}

/// Protects the state of this rank, in a global block that is not finished: it goes to where the
/// block keeps states (`FAMPI_Set_redundancy`), by default to a partner on another node, where
/// there is one, and is valid with the block's commit, on all ranks or on none; until then the
/// previous one is. All ranks call it, in the same order. The state is taken at once, so that its
/// memory may change.
///
/// `slot`, from 0 to 63, says which of several states it is; each may be of any length, which
/// stays the same on one communicator. Of a large one, 64 KiB or more, a partner gets only what
/// has changed, unless more than a quarter seems to have. The type has no gaps. The call waits
/// until the blocks that were started before on this communicator are decided, and, the first time
/// on a communicator, for the lengths of others.
///
/// Returns `FAMPI_ERR_REQUEST` for anything but a global block, `FAMPI_ERR_STATE` for a finished
/// one, or when an earlier one is not; `FAMPI_ERR_COUNT` for a negative number, or for another
/// length than before, after which this rank has left the block; `FAMPI_ERR_ARG`; the code of the
/// fault when the block is doomed: finish it.
///
/// # Safety
///
/// The state is null or has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Protect(
    tb_request: MPI_Request,
    slot: c_int,
    state: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        let slot = self::slot(slot)?;
        let (length, _) = bytes(count, datatype)?;
        if state.is_null() && length > 0 {
            return Err(FAMPI_ERR_ARG);
        }
        let state = if length == 0 {
            &[]
        } else {
            // SAFETY: not null; our caller's promise.
            unsafe { slice::from_raw_parts(state.cast::<u8>(), length) }
        };
        known.guest.protect(block, slot, state).map_err(|error| of_error(&error))
    })
}

/// Where a state goes.
pub(crate) struct Room {
    state: *mut c_void,
    length: usize,
    each: usize,
    count: *mut c_int,
}

impl Room {
    pub(crate) fn new(
        state: *mut c_void,
        max_count: c_int,
        datatype: MPI_Datatype,
        count: *mut c_int,
    ) -> Result<Self> {
        let (length, each) = bytes(max_count, datatype)?;
        if count.is_null() || state.is_null() && length > 0 {
            return Err(FAMPI_ERR_ARG);
        }
        Ok(Self { state, length, each, count })
    }

    /// Writes as much as there is room for, and how many elements there are.
    ///
    /// # Safety
    ///
    /// There is room for so many bytes, and for a number.
    pub(crate) unsafe fn fill(&self, bytes: &[u8]) -> Result<()> {
        if !bytes.len().is_multiple_of(self.each) {
            return Err(FAMPI_ERR_ARG);
        }
        let fits = &bytes[..bytes.len().min(self.length)];
        if !fits.is_empty() {
            let to = self.state.cast::<u8>();
            // SAFETY: our caller's promise; what is restored is in memory of ours.
            unsafe { to.copy_from_nonoverlapping(fits.as_ptr(), fits.len()) };
        }
        // SAFETY: our caller's promise.
        unsafe { put(self.count, (bytes.len() / self.each) as c_int) }
    }
}

/// Brings the state back that the last commit protected, in a global block that is not finished.
/// After a rebuild (`FAMPI_Comm_irebuild`) all ranks call it, in the same order, and go on from
/// what they get: survivors from their own memory, replacements from their partner's. On the
/// communicator on which the state was protected, or one shrunken from it, it is this rank's own,
/// without a message. It counts, and copies are complete again, with the block's commit.
///
/// At most `max_count` elements are written; `count` says how many there are. Called again in the
/// same block it gives the same: first with no room, to learn how much is needed.
///
/// Returns `FAMPI_ERR_NOTHING_PROTECTED` and `FAMPI_ERR_STATE_LOST`, and the block is faulty with
/// them: start from the beginning, or from a file. Not every rank may get the same, as one may die
/// meanwhile: finish the block whatever comes, and branch on its report, which is the same on all
/// ranks (`FAMPI_Get_failed_group` with these codes). `FAMPI_ERR_ARG` for a type that does not
/// divide what was protected; else as `FAMPI_Protect`. A program with `FAMPI_Restart` calls it
/// first, in the same block. Survivors of a rebuild have their ranks; after a merge that has
/// changed one of them nothing counts as protected.
///
/// # Safety
///
/// The state is null or has room for `max_count` elements, `count` is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Restore(
    tb_request: MPI_Request,
    slot: c_int,
    state: *mut c_void,
    max_count: c_int,
    datatype: MPI_Datatype,
    count: *mut c_int,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        let slot = self::slot(slot)?;
        let room = Room::new(state, max_count, datatype, count)?;
        let restored = &known.block(tb_request)?.restored;
        if !restored.iter().any(|(other, _)| *other == slot) {
            let bytes = known.guest.restore(block, slot).map_err(|error| of_error(&error))?;
            known.block(tb_request)?.restored.push((slot, bytes));
        }
        let restored = &known.block(tb_request)?.restored;
        let found = restored.iter().find(|(other, _)| *other == slot);
        let (_, bytes) = found.ok_or(FAMPI_ERR_STATE)?;
        // SAFETY: our caller's promise.
        unsafe { room.fill(bytes) }
    })
}

/// The state of a rank that died before a shrink, on the rank that keeps its copy, in a block of
/// the shrunken communicator. Local. `rank` becomes the dead one's, as on the communicator on
/// which the state was protected, or `MPI_PROC_NULL` when there is none here. It is there until
/// this rank protects a state on the new communicator.
///
/// At most `max_count` elements are written; `count` says how many there are.
///
/// Returns as `FAMPI_Restore`.
///
/// # Safety
///
/// As for `FAMPI_Restore`; `rank` is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Inherit(
    tb_request: MPI_Request,
    slot: c_int,
    state: *mut c_void,
    max_count: c_int,
    datatype: MPI_Datatype,
    count: *mut c_int,
    rank: *mut c_int,
) -> c_int {
    enter_started(|known| {
        let block = open_block(known, tb_request)?;
        let slot = self::slot(slot)?;
        let room = Room::new(state, max_count, datatype, count)?;
        if rank.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let found = known.guest.inherit(block, slot).map_err(|error| of_error(&error))?;
        // SAFETY: reading a constant that MPI's library defines.
        let nobody = unsafe { ffi::RSMPI_PROC_NULL };
        let (whose, bytes) =
            found.map_or((nobody, Vec::new()), |(whose, bytes)| (whose.number() as c_int, bytes));
        // SAFETY: our caller's promise.
        unsafe { room.fill(&bytes) }?;
        // SAFETY: our caller's promise.
        unsafe { put(rank, whose) }
    })
}
