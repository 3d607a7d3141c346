//! Collectives of fampi's own in which all ranks do alike.

use std::ffi::{c_int, c_void};

use fampi_core::engine::collective::Collective;
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};

use crate::{
    collective::{Counts, Rows, Start, combining, exchanging, gathering, start},
    layout::Operands,
};

/// `MPI_Ibarrier` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Ibarrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Ibarrier(comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe { ffi::MPI_Ibarrier(comm, request) };
    start(comm, request, of_mpi, |_| Ok(Start::barrier()))
}

/// `MPI_Iallreduce` over the living ranks of a communicator, in a context of fampi's own.
///
/// All ranks start such operations on a communicator in the same order, in the block that was
/// started last there and is not finished: give the request to its finish. Ranks that a report has
/// named dead (`FAMPI_Comm_known_failed`) are left out: nothing of theirs is combined, and parts
/// of a buffer that would come from them are not written. If the root is one of them, or another
/// rank dies, the request fails with `FAMPI_ERR_PROC_FAILED_SOFT`, and its block is faulty; the
/// next block goes on without the dead. A rank that leaves the block, or gives the operation up,
/// ends it for all. After a faulty block nothing of it meets a later operation. What was cut short
/// has written nothing.
///
/// The buffers are read at once, and written when the request is complete. Elements are combined
/// in the order of ranks, grouped in a way that the number of living ranks and the length decide.
/// Types of reductions are MPI's own, or have no gaps. The request is one of fampi's, for every
/// call of MPI and of fampi, and goes on in calls of both. As with MPI types and operations may be
/// freed while it is pending; an operation not where the program finds MPI's own `MPI_Op_free`
/// before that of this library, as in Fortran and in Python, or when MPI is linked before fampi.
///
/// In a block with `FAMPI_TRYBLOCK_WITH_COLLECTIVE` the last of these that has one to eight
/// numbers, of the types and operations of `FAMPI_TryBlock_finish_allreduce`, rides on the commit,
/// as does a barrier: without a message of its own, complete when the block is decided, and failed
/// in a faulty block, which writes nothing. A rank that waits for it in the block, or tests it, has
/// it before, by the messages of one more exchange, whether others wait for it or not; it may take
/// some calls of `MPI_Test`, and a millisecond in `MPI_Wait`, before that begins. Its bits are
/// those of `FAMPI_TryBlock_finish_allreduce`.
///
/// Outside of blocks, and on a communicator that is not in use, this is `MPI_Iallreduce` itself.
///
/// Returns as `MPI_Iallreduce`: `MPI_ERR_OP` for an operation of MPI's that the type does not have;
/// `FAMPI_ERR_ARG` for a null pointer, a type with gaps, or counts that do not fit each other.
///
/// # Safety
///
/// As `MPI_Iallreduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iallreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi =
        || unsafe { ffi::MPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request) };
    start(comm, request, of_mpi, |_| {
        let collective = Collective::Allreduce { reduction: Operands::REDUCTION };
        // SAFETY: our caller's promise.
        unsafe { combining((sendbuf, recvbuf), (count, datatype), (op, true), collective) }
    })
}

/// `MPI_Iscan` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Iscan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe { ffi::MPI_Iscan(sendbuf, recvbuf, count, datatype, op, comm, request) };
    start(comm, request, of_mpi, |_| {
        let collective = Collective::Scan { exclusive: false, reduction: Operands::REDUCTION };
        // SAFETY: our caller's promise.
        unsafe { combining((sendbuf, recvbuf), (count, datatype), (op, true), collective) }
    })
}

/// `MPI_Iexscan` over the living, as `FAMPI_Iallreduce`. The first living rank's
/// buffer is not written.
///
/// # Safety
///
/// As `MPI_Iexscan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iexscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi =
        || unsafe { ffi::MPI_Iexscan(sendbuf, recvbuf, count, datatype, op, comm, request) };
    start(comm, request, of_mpi, |place| {
        let collective = Collective::Scan { exclusive: true, reduction: Operands::REDUCTION };
        let takes = place.me != place.first();
        // SAFETY: our caller's promise.
        unsafe { combining((sendbuf, recvbuf), (count, datatype), (op, takes), collective) }
    })
}

/// `MPI_Iallgather` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Iallgather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iallgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Iallgather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Even(recvcount);
        let rows = Rows { address: recvbuf, datatype: recvtype, counts };
        let own = (sendbuf, sendcount, sendtype);
        // SAFETY: our caller's promise.
        unsafe { gathering(place, own, rows, |parts| Collective::Allgather { parts }) }
    })
}

/// `MPI_Iallgatherv` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Iallgatherv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iallgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Iallgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Each(recvcounts, displs);
        let rows = Rows { address: recvbuf, datatype: recvtype, counts };
        let own = (sendbuf, sendcount, sendtype);
        // SAFETY: our caller's promise.
        unsafe { gathering(place, own, rows, |parts| Collective::Allgather { parts }) }
    })
}

/// `MPI_Ialltoall` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Ialltoall`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Ialltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Ialltoall(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = [Counts::Even(sendcount), Counts::Even(recvcount)];
        let sent = Rows { address: sendbuf.cast_mut(), datatype: sendtype, counts: counts[0] };
        let received = Rows { address: recvbuf, datatype: recvtype, counts: counts[1] };
        // SAFETY: our caller's promise.
        unsafe { exchanging(place, sent, received) }
    })
}

/// `MPI_Ialltoallv` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Ialltoallv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Ialltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Ialltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
            request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = [Counts::Each(sendcounts, sdispls), Counts::Each(recvcounts, rdispls)];
        let sent = Rows { address: sendbuf.cast_mut(), datatype: sendtype, counts: counts[0] };
        let received = Rows { address: recvbuf, datatype: recvtype, counts: counts[1] };
        // SAFETY: our caller's promise.
        unsafe { exchanging(place, sent, received) }
    })
}
