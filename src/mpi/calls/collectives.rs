//! Collective operations in place: for each form of [`Collective`] one checked call.

use std::{ffi::c_int, ptr};

use mpi::ffi;

use super::{
    comm::Comm,
    inside,
    layout::in_place,
    library::{COUNT, Checked, Refusal, check},
    reduce::operation,
};
use crate::{
    native::{Exposure, Request},
    rank::Rank,
    seam::collective::{Collective, Parts},
};

/// Counts and displacements, which MPI reads until the operation is over.
#[derive(Debug, Default)]
pub(in crate::mpi) struct Layout {
    /// Counts, then displacements; for an exchange once more for what is received.
    numbers: Box<[c_int]>,
}

impl Layout {
    /// The layout of a collective operation; empty when all parts are equal.
    pub(in crate::mpi) fn of(collective: &Collective) -> Checked<Self> {
        let mut numbers = Vec::new();
        match collective {
            Collective::Gather { parts: Parts::Counts(counts), .. }
            | Collective::Scatter { parts: Parts::Counts(counts), .. }
            | Collective::Allgather { parts: Parts::Counts(counts) }
            | Collective::ReduceScatter { parts: Parts::Counts(counts), .. } => {
                add(&mut numbers, counts)?;
            }
            Collective::Exchange {
                sent: Parts::Counts(sent),
                received: Parts::Counts(received),
            } => {
                add(&mut numbers, sent)?;
                add(&mut numbers, received)?;
            }
            _ => {}
        }
        Ok(Self { numbers: numbers.into_boxed_slice() })
    }

    /// The k-th array, with one number per rank; null when there is none.
    fn array(&self, k: usize, comm: &Comm) -> *const c_int {
        self.numbers.get(k * comm.size() as usize..).map_or(ptr::null(), <[c_int]>::as_ptr)
    }
}

/// Appends counts and the displacements that follow from them.
fn add(numbers: &mut Vec<c_int>, counts: &[usize]) -> Checked<()> {
    let too_large = Refusal { call: "counts of a collective operation", class: COUNT };
    let number = |value: usize| c_int::try_from(value).map_err(|_| too_large);
    for count in counts {
        numbers.push(number(*count)?);
    }
    let mut place = 0;
    for count in counts {
        numbers.push(number(place)?);
        place += count;
    }
    Ok(())
}

/// One checked call that starts an operation; its name, and its arguments but the last.
macro_rules! start {
    ($call:ident($($argument:expr),* $(,)?)) => {{
        let mut request = Request::null();
        let slot = request.slot();
        // SAFETY: the communicator is live; the buffer is described by its exposure, has the
        // shape of the operation, as `Collective::check` has made sure, and is left alone by the
        // caller of `Request::collective`, who keeps the layout, too.
        check(stringify!($call), unsafe { ffi::$call($($argument),*, slot) })?;
        Ok(request)
    }};
}

impl Request {
    /// Starts a collective operation.
    ///
    /// # Safety
    ///
    /// The buffer has the shape of the operation and belongs to MPI until the request is over;
    /// the layout is that of the operation and is kept as long.
    pub(in crate::mpi) unsafe fn collective(
        comm: &Comm,
        buffer: Exposure,
        collective: &Collective,
        layout: &Layout,
    ) -> Checked<Self> {
        let _inside = inside::ordinary();
        let buffer = nowhere_if_empty(buffer);
        match collective.root() {
            Some(root) => {
                // SAFETY: our caller's promises are the callee's.
                unsafe { rooted(comm, buffer, collective, layout, root) }
            }
            None => {
                // SAFETY: as above.
                unsafe { among_all(comm, buffer, collective, layout) }
            }
        }
    }
}

/// An empty vector of bytes says that it is at the address 1, which is `MPI_IN_PLACE` to Open MPI.
fn nowhere_if_empty(buffer: Exposure) -> Exposure {
    static NOWHERE: u64 = 0;
    let nowhere = (&raw const NOWHERE).cast_mut().cast();
    Exposure { address: if buffer.count == 0 { nowhere } else { buffer.address }, ..buffer }
}

/// Operations of one rank with all; see [`Request::collective`] for what the caller promises.
unsafe fn rooted(
    comm: &Comm,
    buffer: Exposure,
    collective: &Collective,
    layout: &Layout,
    root: Rank,
) -> Checked<Request> {
    let Exposure { address, count, datatype, .. } = buffer;
    let (raw, part) = (comm.raw(), count / comm.size().cast_signed());
    let (is_root, root) = (root == comm.rank(), root.number().cast_signed());
    let [counts, places] = [0, 1].map(|k| layout.array(k, comm));
    // Where a rank gives from, where it takes to, and how many it has for itself.
    let nothing = ptr::null_mut();
    let (giving, taking) = if is_root { (in_place(), address) } else { (address, nothing) };
    match collective {
        Collective::Broadcast { .. } => start!(MPI_Ibcast(address, count, datatype, root, raw)),
        Collective::Reduce { reduction, .. } => {
            let op = operation(reduction)?;
            start!(MPI_Ireduce(giving, taking, count, datatype, op, root, raw))
        }
        Collective::Gather { parts: Parts::Even, .. } => {
            let kind = datatype;
            start!(MPI_Igather(giving, count, kind, taking, part, kind, root, raw))
        }
        Collective::Gather { .. } => {
            let kind = datatype;
            start!(MPI_Igatherv(giving, count, kind, taking, counts, places, kind, root, raw))
        }
        Collective::Scatter { parts: Parts::Even, .. } => {
            let (from, to) = if is_root { (address, in_place()) } else { (nothing, address) };
            start!(MPI_Iscatter(from, part, datatype, to, count, datatype, root, raw))
        }
        _ => {
            let (from, to) = if is_root { (address, in_place()) } else { (nothing, address) };
            let kind = datatype;
            start!(MPI_Iscatterv(from, counts, places, kind, to, count, kind, root, raw))
        }
    }
}

/// Operations of all ranks alike; see [`Request::collective`] for what the caller promises.
unsafe fn among_all(
    comm: &Comm,
    buffer: Exposure,
    collective: &Collective,
    layout: &Layout,
) -> Checked<Request> {
    let Exposure { address, count, datatype, .. } = buffer;
    let (raw, part, from) = (comm.raw(), count / comm.size().cast_signed(), in_place());
    let array = |k| layout.array(k, comm);
    let (counts, places) = (array(0), array(1));
    let op = collective.reduction().map(operation).transpose()?;
    match (collective, op) {
        (Collective::Allreduce { .. }, Some(op)) => {
            start!(MPI_Iallreduce(from, address, count, datatype, op, raw))
        }
        (Collective::Scan { exclusive: false, .. }, Some(op)) => {
            start!(MPI_Iscan(from, address, count, datatype, op, raw))
        }
        (Collective::Scan { .. }, Some(op)) => {
            start!(MPI_Iexscan(from, address, count, datatype, op, raw))
        }
        (Collective::ReduceScatter { parts: Parts::Even, .. }, Some(op)) => {
            start!(MPI_Ireduce_scatter_block(from, address, part, datatype, op, raw))
        }
        (Collective::ReduceScatter { .. }, Some(op)) => {
            start!(MPI_Ireduce_scatter(from, address, counts, datatype, op, raw))
        }
        (Collective::Allgather { parts: Parts::Even }, _) => {
            start!(MPI_Iallgather(from, part, datatype, address, part, datatype, raw))
        }
        (Collective::Allgather { .. }, _) => {
            let kind = datatype;
            start!(MPI_Iallgatherv(from, part, kind, address, counts, places, kind, raw))
        }
        (Collective::Alltoall, _) => {
            start!(MPI_Ialltoall(from, part, datatype, address, part, datatype, raw))
        }
        (Collective::Exchange { sent, .. }, _) => {
            let sent = sent.total().unwrap_or(0);
            let to = address.wrapping_byte_add(sent * buffer.stride);
            // Open MPI takes two equal addresses for an operation in place, which it is not.
            let from = if sent > 0 { address } else { ptr::null_mut() };
            let (room, kind) = ([array(2), array(3)], datatype);
            start!(MPI_Ialltoallv(from, counts, places, kind, to, room[0], room[1], kind, raw))
        }
        _ => start!(MPI_Ibarrier(raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_an_exchange_has_both_sides() {
        let counted = |counts: &[usize]| Parts::Counts(counts.into());
        let exchange = Collective::Exchange { sent: counted(&[1, 0]), received: counted(&[2, 3]) };
        let layout = Layout::of(&exchange).expect("small numbers");
        assert_eq!(*layout.numbers, [1, 0, 0, 1, 2, 3, 0, 2]);
        let huge = Collective::Allgather { parts: counted(&[usize::MAX / 2, 1]) };
        assert_eq!(Layout::of(&huge).map_err(|refusal| refusal.class).err(), Some(COUNT));
    }
}
