//! What a request of ours has come to.

use std::ffi::c_int;

use fampi_core::{
    FaultCode,
    guest::{Guest, Part},
};

use crate::{
    codes::{FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, of_agreement},
    handles::{Block, Entry, Kind},
    request::empty_status,
    users,
};

/// The code of a block, once it is decided. The program gets the result if it still has the
/// request.
#[inline]
pub(crate) fn code_of(guest: &mut Guest, block: &mut Block, held: bool) -> Option<c_int> {
    let committed = guest.verdict(block.name)?;
    if !committed {
        blame_the_dead(guest, block);
    }
    if block.flag.is_some() {
        return Some(code_of_agreement(guest, block, held));
    }
    if block.result.is_some() && held {
        write_result(guest, block);
    }
    Some(if committed { 0 } else { FAMPI_ERR_TRYBLOCK_FOUND_ERRORS })
}

/// Waits tell of requests that a death has cut short what the queries of their block tell: whether
/// this rank heard of the death or of the interruption first makes no difference.
#[cold]
fn blame_the_dead(guest: &mut Guest, block: &Block) {
    let failed = guest.failed_requests(block.name).into_iter();
    for (part, code) in failed.filter(|(_, code)| *code == FaultCode::ProcessFailed) {
        if let Some(post) = block.parts.get(part).and_then(Part::post) {
            guest.with_mpi(|mpi| mpi.blame_request(post, code));
        }
    }
}

/// The code of an agreement, whose flag the program gets if it still has the request.
#[cold]
fn code_of_agreement(guest: &Guest, block: &Block, held: bool) -> c_int {
    let agreed = guest.agreed(block.name);
    if let (Ok(agreed), Some(flag), true) = (&agreed, block.flag, held) {
        // SAFETY: the program keeps the variable until the request is complete.
        unsafe { flag.write(agreed.flag) };
    }
    of_agreement(&agreed)
}

#[inline(never)]
fn write_result(guest: &Guest, block: &mut Block) {
    if let Some(target) = block.result.take() {
        target.write(guest.fused(block.name));
    }
}

/// Forgets the requests in the list of a block that was freed.
#[inline(never)]
pub(crate) fn forget_parts(guest: &mut Guest, block: &mut Block) {
    guest.with_mpi(|mpi| users::forget(mpi, &block.parts));
    block.parts.clear();
}

/// Completes a request whose end is known.
pub(crate) fn settle_entry(guest: &mut Guest, entry: &mut Entry) {
    let code = match &mut entry.kind {
        Kind::Block(block) => code_of(guest, block, entry.held),
        Kind::Making(making) => {
            entry.handle.tell(empty_status());
            making.tell_blocks(guest);
            making.outcome()
        }
        Kind::Collective(running) => {
            entry.handle.tell(empty_status());
            running.outcome(guest)
        }
        Kind::Nothing => None,
    };
    if let Some(code) = code {
        entry.handle.complete(code);
    }
}
