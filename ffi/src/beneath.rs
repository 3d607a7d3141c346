//! MPI's own calls that end or free requests, without those of this library that stand before them
//! on MPICH (`in_front`); and what has another name in each MPI.

use std::ffi::c_int;

#[cfg(not(mpich))]
use mpi::ffi::{self, MPI_Op};

/// The combiner of a type that MPI itself has.
#[cfg(not(mpich))]
pub(crate) const COMBINER_NAMED: c_int = mpi::ffi::MPI_COMBINER_NAMED as c_int;
#[cfg(mpich)]
pub(crate) const COMBINER_NAMED: c_int = mpi::ffi::MPIR_Combiner_enum_MPI_COMBINER_NAMED as c_int;

/// True for an operation of MPI's own, and for none.
#[cfg(not(mpich))]
pub(crate) fn is_predefined(op: MPI_Op) -> bool {
    /// `MPI_NO_OP`, the last that Open MPI makes for itself, has this number in Fortran.
    const LAST: c_int = 14;
    // SAFETY: a handle of the program, whose promise it is.
    unsafe { ffi::MPI_Op_c2f(op) <= LAST }
}

/// `MPI_OP_NULL`.
#[cfg(not(mpich))]
pub(crate) fn no_operation() -> MPI_Op {
    // SAFETY: the number that it has in Fortran.
    unsafe { ffi::MPI_Op_f2c(0) }
}

#[cfg(not(mpich))]
pub(crate) use mpi::ffi::{
    MPI_Request_free as free, MPI_Request_get_status as get_status, MPI_Test as test,
    MPI_Wait as wait, MPI_Waitall as wait_all,
};

#[cfg(mpich)]
pub(crate) use self::mpich::*;

#[cfg(mpich)]
mod mpich {
    use std::{
        ffi::{c_int, c_void},
        mem::MaybeUninit,
        ptr,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    use fampi_core::mpi::{free_kept, stand_before, while_waiting};
    use mpi::ffi::{self, MPI_Op, MPI_Request};
    pub(crate) use mpi::ffi::{
        PMPI_Request_get_status as get_status, PMPI_Test as test, PMPI_Wait as wait,
        PMPI_Waitall as wait_all,
    };

    /// `MPIX_STREAM_NULL`, a macro that the bindings do not carry.
    const NO_STREAM: ffi::MPIX_Stream = 0x3c00_0000;
    /// MPI is ending: it waits for all that goes on while it waits.
    static IS_ENDING: AtomicBool = AtomicBool::new(false);

    /// `MPI_OP_NULL`.
    const NO_OPERATION: c_int = 0x1800_0000;

    /// True for an operation of MPI's own, and for none.
    pub(crate) const fn is_predefined(op: MPI_Op) -> bool {
        // The highest two bits say whose an object is.
        op.0 == NO_OPERATION || op.0.cast_unsigned() >> 30 == 1
    }

    pub(crate) const fn no_operation() -> MPI_Op {
        MPI_Op(NO_OPERATION)
    }

    /// Frees a request of the program, also one that a block still needs.
    ///
    /// # Safety
    ///
    /// As `MPI_Request_free`.
    pub(crate) unsafe fn free(slot: *mut MPI_Request) -> c_int {
        // SAFETY: our caller's promise.
        if unsafe { free_kept(slot) } {
            return 0;
        }
        // SAFETY: our caller's promise.
        unsafe { ffi::PMPI_Request_free(slot) }
    }

    /// Says whether the functions of this library are those that the program finds.
    pub(crate) fn announce() {
        // SAFETY: the name ends with a zero; the default handle searches what is loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Wait".as_ptr()) };
        let found = library_of(found);
        stand_before(found.is_some() && found == library_of(announce as *mut c_void));
    }

    /// Where the library, or the program, begins in memory that has this function.
    fn library_of(function: *mut c_void) -> Option<usize> {
        let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the result is a variable of ours; any address may be asked for.
        let is_known = unsafe { libc::dladdr(function, about.as_mut_ptr()) } != 0;
        // SAFETY: zero is a value of all its fields.
        is_known.then(|| unsafe { about.assume_init() }.dli_fbase.addr())
    }

    /// Has MPI call us while it waits in one of its calls, unless threads of the program call it at
    /// once: we would ask it inside of its locks.
    pub(crate) fn have_calls() {
        let mut level = 0;
        // SAFETY: MPI is initialised; the result is a variable of ours.
        let code = unsafe { ffi::MPI_Query_thread(&raw mut level) };
        if code == 0 && level < ffi::MPI_THREAD_MULTIPLE as c_int {
            // SAFETY: the function has this type, lives for ever, and needs no state.
            unsafe { ffi::MPIX_Async_start(Some(called), ptr::null_mut(), NO_STREAM) };
        }
    }

    /// That is over, before MPI ends.
    pub(crate) fn end_calls() {
        IS_ENDING.store(true, Relaxed);
    }

    unsafe extern "C" fn called(_: ffi::MPIX_Async_thing) -> c_int {
        if IS_ENDING.load(Relaxed) {
            return ffi::MPIX_ASYNC_DONE as c_int;
        }
        while_waiting();
        ffi::MPIX_ASYNC_NOPROGRESS as c_int
    }
}
