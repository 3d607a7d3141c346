//! Collectives of fampi's own with a root.

use std::ffi::{c_int, c_void};

use fampi_core::engine::collective::Collective;
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};

use crate::{
    collective::{Counts, Rows, alone, combining, gathering_at, root_of, scattering_from, start},
    layout::Operands,
};

/// `MPI_Ibcast` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Ibcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Ibcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe { ffi::MPI_Ibcast(buffer, count, datatype, root, comm, request) };
    start(comm, request, of_mpi, |place| {
        let root = root_of(place, root)?;
        let gives = root.index() == place.me;
        let collective = Collective::Broadcast { root };
        // SAFETY: our caller's promise.
        unsafe { alone((buffer, count, datatype), gives, collective) }
    })
}

/// `MPI_Ireduce` over the living, as `FAMPI_Iallreduce`. Combined in the order of ranks, whatever
/// the root.
///
/// # Safety
///
/// As `MPI_Ireduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Ireduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi =
        || unsafe { ffi::MPI_Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request) };
    start(comm, request, of_mpi, |place| {
        let root = root_of(place, root)?;
        let collective = Collective::Reduce { root, reduction: Operands::REDUCTION };
        let takes = root.index() == place.me;
        // SAFETY: our caller's promise.
        unsafe { combining((sendbuf, recvbuf), (count, datatype), (op, takes), collective) }
    })
}

/// `MPI_Igather` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Igather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Igather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Igather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Even(recvcount);
        let rows = Rows { address: recvbuf, datatype: recvtype, counts };
        // SAFETY: our caller's promise.
        unsafe { gathering_at((place, root), (sendbuf, sendcount, sendtype), rows) }
    })
}

/// `MPI_Igatherv` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Igatherv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Igatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Igatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
            request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Each(recvcounts, displs);
        let rows = Rows { address: recvbuf, datatype: recvtype, counts };
        // SAFETY: our caller's promise.
        unsafe { gathering_at((place, root), (sendbuf, sendcount, sendtype), rows) }
    })
}

/// `MPI_Iscatter` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Iscatter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iscatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Iscatter(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Even(sendcount);
        let rows = Rows { address: sendbuf.cast_mut(), datatype: sendtype, counts };
        // SAFETY: our caller's promise.
        unsafe { scattering_from((place, root), rows, (recvbuf, recvcount, recvtype)) }
    })
}

/// `MPI_Iscatterv` over the living, as `FAMPI_Iallreduce`.
///
/// # Safety
///
/// As `MPI_Iscatterv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Iscatterv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: our caller's promise.
    let of_mpi = || unsafe {
        ffi::MPI_Iscatterv(
            sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
            request,
        )
    };
    start(comm, request, of_mpi, |place| {
        let counts = Counts::Each(sendcounts, displs);
        let rows = Rows { address: sendbuf.cast_mut(), datatype: sendtype, counts };
        // SAFETY: our caller's promise.
        unsafe { scattering_from((place, root), rows, (recvbuf, recvcount, recvtype)) }
    })
}
