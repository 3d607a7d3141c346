//! Reductions as MPI calls them: its own operations, and functions of the user.
//!
//! Each type of a user's operation has one `MPI_Op`, which is made at its first use and lives as
//! long as MPI.

use std::{cell::RefCell, ffi::c_int};

use mpi::ffi;

use super::library::{Checked, Refusal, check};
use crate::{
    fault::class::OP,
    native::Foreign,
    seam::reduction::{ReduceOp, Reduction},
};

thread_local! {
    /// What was made of users' functions, by their address.
    static MADE: RefCell<Vec<(usize, bool, ffi::MPI_Op)>> = const { RefCell::new(Vec::new()) };
}

/// MPI's handle for a reduction.
pub(in crate::mpi) fn operation(reduction: &Reduction) -> Checked<ffi::MPI_Op> {
    match reduction {
        Reduction::Predefined { op, .. } => Ok(predefined(*op)),
        Reduction::User { foreign, .. } => users(*foreign),
        Reduction::OfBuffers { .. } => Err(Refusal { call: "reduction", class: OP }),
    }
}

fn predefined(op: ReduceOp) -> ffi::MPI_Op {
    match op {
        // SAFETY: reading a constant that MPI's library defines.
        ReduceOp::Sum => unsafe { ffi::RSMPI_SUM },
        // SAFETY: as above.
        ReduceOp::Product => unsafe { ffi::RSMPI_PROD },
        // SAFETY: as above.
        ReduceOp::Min => unsafe { ffi::RSMPI_MIN },
        // SAFETY: as above.
        ReduceOp::Max => unsafe { ffi::RSMPI_MAX },
        // SAFETY: as above.
        ReduceOp::And => unsafe { ffi::RSMPI_BAND },
        // SAFETY: as above.
        ReduceOp::Or => unsafe { ffi::RSMPI_BOR },
    }
}

fn users(user: Foreign) -> Checked<ffi::MPI_Op> {
    let address = user.function as usize;
    let known = |made: &(usize, bool, ffi::MPI_Op)| (made.0, made.1) == (address, user.commutes);
    if let Some(made) = MADE.with_borrow(|all| all.iter().copied().find(known)) {
        return Ok(made.2);
    }
    let mut made = predefined(ReduceOp::Sum);
    check("MPI_Op_create", {
        let commutes = c_int::from(user.commutes);
        // SAFETY: the function has the form that MPI calls; the result is a variable of ours.
        unsafe { ffi::MPI_Op_create(Some(user.function), commutes, &raw mut made) }
    })?;
    MADE.with_borrow_mut(|all| all.push((address, user.commutes, made)));
    Ok(made)
}
