//! The fault-tolerant calls of MPI, looked up at run time: one build serves libraries with and
//! without them.
//!
//! Reference: Bland et al. 2013; Open MPI names them `MPIX_Comm_…`.

use std::{
    ffi::{CStr, c_int, c_void},
    sync::OnceLock,
};

use mpi::ffi::{MPI_Comm, MPI_Group, MPI_Request};

use super::library;
use crate::error::Error;

type OnComm = unsafe extern "C" fn(MPI_Comm) -> c_int;
type ToFlag = unsafe extern "C" fn(MPI_Comm, *mut c_int) -> c_int;
type ToComm = unsafe extern "C" fn(MPI_Comm, *mut MPI_Comm) -> c_int;
type ToGroup = unsafe extern "C" fn(MPI_Comm, *mut MPI_Group) -> c_int;
type Started = unsafe extern "C" fn(MPI_Comm, *mut c_int, *mut MPI_Request) -> c_int;

/// The functions of the library that this process runs with.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Ulfm {
    pub(in crate::mpi) revoke: OnComm,
    pub(in crate::mpi) failure_ack: OnComm,
    pub(in crate::mpi) agree: ToFlag,
    pub(in crate::mpi) iagree: Started,
    pub(in crate::mpi) shrink: ToComm,
    pub(in crate::mpi) get_failed: ToGroup,
    pub(in crate::mpi) is_revoked: ToFlag,
    /// Takes a communicator that is about to be freed, and whose number may be another one's then.
    pub(in crate::mpi) forget: fn(MPI_Comm),
}

impl Ulfm {
    fn look_up() -> Option<Self> {
        let revoke = symbol(c"MPIX_Comm_revoke")?;
        let failure_ack = symbol(c"MPIX_Comm_failure_ack")?;
        let agree = symbol(c"MPIX_Comm_agree")?;
        let iagree = symbol(c"MPIX_Comm_iagree")?;
        let shrink = symbol(c"MPIX_Comm_shrink")?;
        let get_failed = symbol(c"MPIX_Comm_get_failed")?;
        let is_revoked = symbol(c"MPIX_Comm_is_revoked")?;
        Some(Self {
            // SAFETY: the function of this name has this type (`mpi-ext.h`), as all below.
            revoke: unsafe { std::mem::transmute::<*mut c_void, OnComm>(revoke) },
            // SAFETY: as above.
            failure_ack: unsafe { std::mem::transmute::<*mut c_void, OnComm>(failure_ack) },
            // SAFETY: as above.
            agree: unsafe { std::mem::transmute::<*mut c_void, ToFlag>(agree) },
            // SAFETY: as above.
            iagree: unsafe { std::mem::transmute::<*mut c_void, Started>(iagree) },
            // SAFETY: as above.
            shrink: unsafe { std::mem::transmute::<*mut c_void, ToComm>(shrink) },
            // SAFETY: as above.
            get_failed: unsafe { std::mem::transmute::<*mut c_void, ToGroup>(get_failed) },
            // SAFETY: as above.
            is_revoked: unsafe { std::mem::transmute::<*mut c_void, ToFlag>(is_revoked) },
            forget: |_| (),
        })
    }
}

/// The address of a symbol of the libraries that are loaded.
pub(in crate::mpi) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero; the default handle searches what is loaded.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

static ULFM: OnceLock<Option<Ulfm>> = OnceLock::new();

/// These stand for the functions, before anybody asks for them.
#[cfg(mpich)]
pub(in crate::mpi) fn provide(functions: Ulfm) {
    ULFM.get_or_init(|| Some(functions));
}

/// The functions, where the library has them.
pub(in crate::mpi) fn find() -> Option<&'static Ulfm> {
    ULFM.get_or_init(Ulfm::look_up).as_ref()
}

/// True when the launcher switched them on; `None` when the library does not say. Works once
/// MPI is initialised.
pub(in crate::mpi) fn is_on() -> Option<bool> {
    let value = library::control_variable(c"mpi_ft_enable")?;
    Some(value.iter().take(8).any(|byte| *byte != 0))
}

/// The functions, or a sentence that says what to change.
pub(in crate::mpi) fn require() -> Result<&'static Ulfm, Error> {
    let Some(found) = find() else {
        return Err(Error::Unsupported(
            "this MPI has no fault tolerance (no MPIX_Comm_revoke, _shrink, _agree); \
             use Open MPI 5.0 built with ULFM"
                .into(),
        ));
    };
    if is_on() == Some(false) {
        return Err(Error::Unsupported(
            "fault tolerance is off; start the program with `mpirun --with-ft ulfm`, \
             or with `fampi run`"
                .into(),
        ));
    }
    Ok(found)
}
