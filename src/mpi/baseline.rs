//! The operations of MPI that a commit is compared with, on one number, for benchmarks.

use super::{
    MpiPlatform,
    calls::Checked,
    collectives::Layout,
    comm::Comm,
    expose::{Expose as _, Exposure},
    request::Request,
    ulfm::Ulfm,
};
use crate::{
    engine::{
        collective::Collective,
        platform::UniverseId,
        reduction::{ReduceOp, ReduceWith},
    },
    error::Error,
};

/// A communicator of its own with the operations to be measured. Collective, all of them.
#[derive(Debug)]
pub struct Baseline {
    comm: Comm,
    ulfm: &'static Ulfm,
    /// The number; reached by MPI through its address only while an operation runs.
    number: Vec<i32>,
}

impl MpiPlatform {
    /// A duplicate of the first universe for measurements.
    pub fn baseline(&mut self) -> Result<Baseline, Error> {
        let source = self.control.source(UniverseId(0)).ok_or(Error::CreationFailed)?;
        Ok(Baseline { comm: source.duplicate()?, ulfm: self.ulfm, number: vec![1] })
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
    while request.test()?.is_none() {}
    Ok(())
}
