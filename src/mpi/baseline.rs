//! The operations of MPI that a commit is compared with, on one number, for benchmarks.

use std::{ffi::c_void, ptr};

use mpi::ffi;

use super::{
    calls::{
        collectives::Layout,
        comm::Comm,
        inside,
        library::{Checked, check},
        request::Types,
        ulfm::Ulfm,
    },
    operations::platform::MpiPlatform,
    this_mpi,
    transport::wire::Wire,
};
use crate::{
    error::Error,
    native::{Expose as _, Exposure, Request},
    protocol::codec::YES_BYTES,
    rank::Rank,
    seam::{
        collective::Collective,
        platform::UniverseId,
        reduction::{ReduceOp, ReduceWith},
    },
};

/// A communicator of its own with the operations to be measured. Collective, all of them.
#[derive(Debug)]
pub struct Baseline {
    comm: Comm,
    ulfm: &'static Ulfm,
    /// The number; reached by MPI through its address only while an operation runs.
    number: Vec<i32>,
    outgoing: Wire,
    incoming: Wire,
    messages: Messages,
    /// What the operations of any size send, and where they receive.
    memory: [Wire; 2],
}

/// What [`Baseline::neighbours`] uses again and again.
#[derive(Debug, Default)]
struct Messages {
    memory: Vec<Wire>,
    requests: Vec<ffi::MPI_Request>,
}

impl MpiPlatform {
    /// A duplicate of the first universe for measurements.
    pub fn baseline(&mut self) -> Result<Baseline, Error> {
        let source = self.control.source(UniverseId(0)).ok_or(Error::CreationFailed)?;
        let (comm, ulfm) = (source.duplicate()?, self.ulfm);
        let [outgoing, incoming] = [(); 2].map(|()| Wire::new(YES_BYTES));
        let (messages, memory) = (Messages::default(), [(); 2].map(|()| Wire::new(0)));
        Ok(Baseline { comm, ulfm, number: vec![1], outgoing, incoming, messages, memory })
    }
}

impl Baseline {
    /// `MPI_Allreduce` with the minimum.
    pub fn allreduce(&mut self) -> Result<(), Error> {
        self.comm.least(1)?;
        Ok(())
    }

    /// `MPI_Iallreduce` in place, then `MPI_Test` until it is complete.
    pub fn iallreduce(&mut self) -> Result<(), Error> {
        let exposure = self.exposed()?;
        let reduction = ReduceWith::<i32>::reduction(ReduceOp::Min)?;
        let (least, layout) = (Collective::Allreduce { reduction }, Layout::default());
        // SAFETY: the number is ours and untouched until `finish` returns.
        let started = unsafe { Request::collective(&self.comm, exposure, &least, &layout) };
        Ok(finish(started?)?)
    }

    /// The bare messages of a commit's fast path: as many bytes to and from the same partners, by
    /// `MPI_Isend`, `MPI_Irecv` and `MPI_Test`. Nothing unless the ranks are a power of two.
    pub fn exchange(&mut self) -> Result<(), Error> {
        let (me, size) = (self.comm.rank().number(), self.comm.size());
        let rounds = if size.is_power_of_two() { size.ilog2() } else { 0 };
        let [outgoing, incoming] = [&self.outgoing, &self.incoming];
        for round in 0..rounds {
            let partner = Rank::new(me ^ 1 << round);
            let exposure = outgoing.exposure(YES_BYTES);
            // SAFETY: the memory is ours and untouched until `finish` returns.
            let sent = unsafe {
                Request::send(&self.comm, &exposure, partner, 0, false, &inside::ordinary())
            }?;
            let exposure = incoming.exposure(YES_BYTES);
            // SAFETY: as above.
            let got = unsafe {
                Request::receive(&self.comm, &exposure, Some(partner), Some(0), &inside::ordinary())
            }?;
            finish(got)?;
            finish(sent)?;
        }
        Ok(())
    }

    /// So many requests with both neighbours on a ring, half of them `MPI_Irecv`, half `MPI_Isend`
    /// of so many bytes, then `MPI_Waitall`, then [`Self::iallreduce`].
    pub fn neighbours(&mut self, requests: usize, bytes: usize) -> Result<(), Error> {
        let (me, size) = (self.comm.rank().number(), self.comm.size());
        let ring = [(me + size - 1) % size, (me + 1) % size].map(u32::cast_signed);
        let Messages { memory, requests: started } = &mut self.messages;
        memory.retain(|wire| wire.capacity() == bytes);
        memory.resize_with(requests.max(memory.len()), || Wire::new(bytes));
        started.clear();
        for (at, memory) in memory[..requests].iter().enumerate() {
            let Exposure { address, count, datatype, .. } = memory.exposure(bytes);
            let (neighbour, raw) = (ring[at % 2], self.comm.raw());
            let mut request = Request::null();
            let code = if at < requests / 2 {
                // SAFETY: the memory is ours and untouched until all requests are over.
                unsafe {
                    ffi::MPI_Irecv(address, count, datatype, neighbour, 0, raw, request.slot())
                }
            } else {
                // SAFETY: as above.
                unsafe {
                    ffi::MPI_Isend(address, count, datatype, neighbour, 0, raw, request.slot())
                }
            };
            check("MPI_Isend", code)?;
            started.push(request.into_raw());
        }
        check("MPI_Waitall", {
            // SAFETY: all of them are active requests of ours; no status is asked for.
            unsafe { ffi::MPI_Waitall(requests as i32, started.as_mut_ptr(), ptr::null_mut()) }
        })?;
        self.iallreduce()
    }

    /// So many bytes to the other one of a pair and back, by `MPI_Send` and `MPI_Recv`: ranks 0 and
    /// 1 are a pair, 2 and 3, and so on. A rank that is left over does nothing.
    pub fn ping_pong(&mut self, bytes: usize) -> Result<(), Error> {
        let (me, size) = (self.comm.rank().number(), self.comm.size());
        let partner = me ^ 1;
        if partner >= size {
            return Ok(());
        }
        let (out, into) = self.addresses(bytes);
        let (raw, other) = (self.comm.raw(), partner.cast_signed());
        let (count, kind) = (bytes as i32, Types::bytes());
        let send = || {
            // SAFETY: the memory has so many bytes, and nobody else touches it meanwhile.
            check("MPI_Send", unsafe { ffi::MPI_Send(out, count, kind, other, 0, raw) })
        };
        let receive = || {
            // SAFETY: reading a constant that MPI's library defines.
            let status = unsafe { ffi::RSMPI_STATUS_IGNORE };
            // SAFETY: as above.
            check("MPI_Recv", unsafe { ffi::MPI_Recv(into, count, kind, other, 0, raw, status) })
        };
        if me < partner {
            send()?;
            receive()?;
        } else {
            receive()?;
            send()?;
        }
        Ok(())
    }

    /// `MPI_Bcast` of so many bytes from a rank, which all name.
    pub fn broadcast(&mut self, bytes: usize, root: u32) -> Result<(), Error> {
        let (out, _) = self.addresses(bytes);
        let (count, kind) = (bytes as i32, Types::bytes());
        let root = root.cast_signed();
        // SAFETY: the memory has so many bytes, and nobody else touches it meanwhile.
        let code = unsafe { ffi::MPI_Bcast(out.cast_mut(), count, kind, root, self.comm.raw()) };
        Ok(check("MPI_Bcast", code)?)
    }

    /// `MPI_Allreduce` with the bits of so many bytes that are set anywhere.
    pub fn union(&mut self, bytes: usize) -> Result<(), Error> {
        let (out, into) = self.addresses(bytes);
        let (count, kind) = (bytes as i32, Types::bytes());
        // SAFETY: reading a constant that MPI's library defines.
        let or = unsafe { ffi::RSMPI_BOR };
        // SAFETY: both memories have so many bytes, and nobody else touches them meanwhile.
        let code = unsafe { ffi::MPI_Allreduce(out, into, count, kind, or, self.comm.raw()) };
        Ok(check("MPI_Allreduce", code)?)
    }

    /// Where so many bytes are, to be sent and to be received.
    fn addresses(&mut self, bytes: usize) -> (*const c_void, *mut c_void) {
        for memory in self.memory.iter_mut().filter(|memory| memory.capacity() < bytes) {
            *memory = Wire::new(bytes);
        }
        let [out, into] = self.memory.each_ref().map(|memory| memory.exposure(bytes).address);
        (out.cast_const(), into)
    }

    /// `MPIX_Comm_agree`.
    pub fn agree(&mut self) -> Result<(), Error> {
        self.comm.unanimous(self.ulfm, true);
        Ok(())
    }

    /// `MPIX_Comm_iagree`, then `MPI_Test` until it is complete.
    pub fn iagree(&mut self) -> Result<(), Error> {
        let flag = self.exposed()?.address.cast();
        // SAFETY: the number is ours and untouched until `finish` returns.
        let started = unsafe { self.comm.start_agreement(self.ulfm, flag) };
        Ok(finish(started?)?)
    }

    fn exposed(&mut self) -> Result<Exposure, Error> {
        self.number.expose().map_err(Error::Request)
    }
}

fn finish(mut request: Request) -> Checked<()> {
    while request.test()?.is_none() {
        this_mpi::when_idle();
    }
    Ok(())
}
