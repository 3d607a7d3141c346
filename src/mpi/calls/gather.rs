//! Short collectives of all processes of a communicator, in which any of them may die.
//!
//! MPI's non-blocking ones, waited for at once: a blocking one that a death cuts short frees the
//! sends that it has started, and an error of such a request may end the job, says the standard
//! (MPI 4.1, §3.7.3).

use std::{
    ffi::{c_int, c_void},
    mem,
};

use mpi::ffi;

use super::{
    comm::Comm,
    inside,
    library::{COUNT, Checked, PROC_FAILED, Refusal, check},
    partners::{Partners, unless_dead},
    request::Types,
};
use crate::native::Request;

/// Waits for a collective under way, with the memory that MPI reads and writes: where it was cut
/// short, MPI may still do so, and the memory is kept for ever.
///
/// # Safety
///
/// A live request, or none if the code says that nothing was started.
unsafe fn wait<T>(
    (call, comm): (&'static str, ffi::MPI_Comm),
    code: c_int,
    mut request: Request,
    memory: T,
) -> Checked<T> {
    let waited = check(call, code).and_then(|()| {
        let ended = unless_dead(Partners::Of(comm), move || {
            // SAFETY: live, says our caller; no status is wanted.
            unsafe { ffi::MPI_Wait(request.slot(), ffi::RSMPI_STATUS_IGNORE) }
        });
        check(call, ended.ok_or(Refusal { call, class: PROC_FAILED })?)
    });
    match waited {
        Ok(()) => Ok(memory),
        Err(refusal) => {
            mem::forget(memory);
            Err(refusal)
        }
    }
}

impl Comm {
    /// `MPI_Allgather` of a few numbers from each process.
    pub(in crate::mpi) fn gather_numbers<const N: usize>(
        &self,
        mine: [u64; N],
    ) -> Checked<Vec<[u64; N]>> {
        let _inside = inside::creation();
        let (mine, mut all) = (Box::new(mine), vec![[0; N]; self.size() as usize]);
        let (own, target) = (mine.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast::<c_void>());
        let (count, kind, comm) = (N as c_int, Types::u64(), self.raw());
        let mut request = Request::null();
        let slot = request.slot();
        let code = {
            // SAFETY: `all` has room for `count` numbers of each process; our handle is live.
            unsafe { ffi::MPI_Iallgather(own, count, kind, target, count, kind, comm, slot) }
        };
        // SAFETY: started above, with this memory.
        unsafe { wait(("MPI_Iallgather", comm), code, request, (mine, all)) }.map(|(_, all)| all)
    }

    /// `MPI_Allgatherv` of some bytes from each process: all of them, in the order of processes.
    pub(in crate::mpi) fn gather_bytes(&self, mine: &[u8]) -> Checked<Vec<u8>> {
        let lengths = self.gather_numbers([mine.len() as u64])?;
        let total: u64 = lengths.iter().map(|[length]| *length).sum();
        if c_int::try_from(total).is_err() {
            return Err(Refusal { call: "MPI_Iallgatherv", class: COUNT });
        }
        let counts: Vec<c_int> = lengths.iter().map(|[length]| *length as c_int).collect();
        let before = |at: usize| counts[..at].iter().sum();
        let places: Vec<c_int> = (0..counts.len()).map(before).collect();
        let (mine, mut all) = (mine.to_vec(), vec![0; total as usize]);
        let _inside = inside::creation();
        let (own, count, kind) = (mine.as_ptr().cast(), mine.len() as c_int, Types::bytes());
        let (to, amounts, offsets) = (all.as_mut_ptr().cast(), counts.as_ptr(), places.as_ptr());
        let (mut request, comm) = (Request::null(), self.raw());
        let slot = request.slot();
        let code = {
            // SAFETY: counts and places are as many as processes, and what they say fits.
            unsafe {
                ffi::MPI_Iallgatherv(own, count, kind, to, amounts, offsets, kind, comm, slot)
            }
        };
        let memory = (mine, counts, places, all);
        // SAFETY: started above, with this memory.
        unsafe { wait(("MPI_Iallgatherv", comm), code, request, memory) }.map(|(.., all)| all)
    }

    /// `MPI_Allreduce` with the minimum.
    pub(in crate::mpi) fn least(&self, mine: u64) -> Checked<u64> {
        let _inside = inside::creation();
        let mut numbers = Box::new([mine, u64::MAX]);
        let [own, least] = &mut *numbers;
        let (own, target) = ((&raw const *own).cast(), (&raw mut *least).cast());
        // SAFETY: reading a constant that MPI's library defines.
        let minimum = unsafe { ffi::RSMPI_MIN };
        let (mut request, comm) = (Request::null(), self.raw());
        let slot = request.slot();
        let code = {
            // SAFETY: both buffers are one number; our handle is live.
            unsafe { ffi::MPI_Iallreduce(own, target, 1, Types::u64(), minimum, comm, slot) }
        };
        // SAFETY: started above, with this memory.
        unsafe { wait(("MPI_Iallreduce", comm), code, request, numbers) }.map(|numbers| numbers[1])
    }

    /// `MPI_Bcast` of bytes whose number all ranks know.
    pub(in crate::mpi) fn spread(&self, bytes: &mut [u8], root: u32) -> Checked<()> {
        let _inside = inside::creation();
        let mut copy = bytes.to_vec();
        let (address, count, root) =
            (copy.as_mut_ptr().cast(), bytes.len() as c_int, root.cast_signed());
        let (mut request, comm) = (Request::null(), self.raw());
        let slot = request.slot();
        let code = {
            // SAFETY: the copy has `count` bytes; our handle is live.
            unsafe { ffi::MPI_Ibcast(address, count, Types::bytes(), root, comm, slot) }
        };
        // SAFETY: started above, with this memory.
        let copy = unsafe { wait(("MPI_Ibcast", comm), code, request, copy) }?;
        bytes.copy_from_slice(&copy);
        Ok(())
    }
}
