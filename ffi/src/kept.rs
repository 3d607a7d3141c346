//! Types and operations of the program that collectives under way need. The program may free them
//! meanwhile, as MPI allows.
//!
//! MPI keeps a type as long as there is a copy of it. MPI has no copies of operations, so this
//! library defines `MPI_Op_free`, and frees an operation after the last collective that needs it.
//!
//! **Assumes** that the program finds the function here before that of MPI's library.
//!
//! Reference: MPI 4.1 §5.1.9 and §6.9.5, `MPI_Type_free` and `MPI_Op_free`.

use std::{
    ffi::c_int,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mpi::ffi::{self, MPI_Datatype, MPI_Op};

use crate::{
    beneath,
    codes::{Result, done},
};

/// Something of the program that stays as long as this is somewhere.
pub(crate) type Keeper = Arc<dyn Send + Sync>;

/// A copy of a type, which is never used.
struct Copy(MPI_Datatype);

/// An operation.
struct Operation {
    raw: MPI_Op,
    /// The program has freed it.
    is_freed: AtomicBool,
}

// SAFETY: handles of MPI are the same in all threads.
unsafe impl Send for Copy {}
// SAFETY: as above.
unsafe impl Sync for Copy {}
// SAFETY: as above.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Sync for Operation {}

/// Operations that collectives may need.
static OPERATIONS: Mutex<Vec<Weak<Operation>>> = Mutex::new(Vec::new());

/// Keeps a type that is not MPI's own.
pub(crate) fn keep_type(raw: MPI_Datatype) -> Result<Keeper> {
    let mut copy = raw;
    // SAFETY: the type has been asked for its size before; the result is ours.
    done(unsafe { ffi::MPI_Type_dup(raw, &raw mut copy) })?;
    Ok(Arc::new(Copy(copy)))
}

/// Keeps an operation, unless it is MPI's own; an error if it is none for elements of this type.
pub(crate) fn keep_operation(raw: MPI_Op, datatype: MPI_Datatype) -> Result<Option<Keeper>> {
    if beneath::is_predefined(raw) {
        let (from, mut to) = (0_u64, 0_u64);
        // SAFETY: nothing is combined; MPI says whether it could.
        let code = unsafe {
            ffi::MPI_Reduce_local((&raw const from).cast(), (&raw mut to).cast(), 0, datatype, raw)
        };
        return done(code).map(|()| None);
    }
    let mut all = OPERATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().filter_map(Weak::upgrade).find(|it| it.raw == raw);
    if let Some(known) = known {
        return Ok(Some(known));
    }
    let kept = Arc::new(Operation { raw, is_freed: AtomicBool::new(false) });
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&kept));
    Ok(Some(kept))
}

/// The end of an operation: true if collectives still need it.
fn is_kept(raw: MPI_Op) -> bool {
    let mut all = OPERATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |(at, it): (usize, &Weak<Operation>)| Some((at, it.upgrade()?));
    let mut known = all.iter().enumerate().filter_map(known);
    let Some((at, kept)) = known.find(|(_, kept)| kept.raw == raw) else { return false };
    drop(known);
    all.swap_remove(at);
    // It may be the last that holds it: then it is freed with the end of this function.
    kept.is_freed.store(true, Relaxed);
    true
}

/// `MPI_Op_free`.
///
/// # Safety
///
/// As MPI's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_free(op: *mut MPI_Op) -> c_int {
    // SAFETY: null, or a variable of the program.
    if let Some(op) = unsafe { op.as_mut() }
        && is_kept(*op)
    {
        *op = beneath::no_operation();
        return 0;
    }
    // SAFETY: our caller's promise.
    unsafe { ffi::PMPI_Op_free(op) }
}

/// MPI frees nothing any more.
fn is_over() -> bool {
    let mut is_over = 1;
    // SAFETY: the result is ours.
    let code = unsafe { ffi::MPI_Finalized(&raw mut is_over) };
    code != 0 || is_over != 0
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !is_over() {
            // SAFETY: our own copy.
            unsafe { ffi::MPI_Type_free(&raw mut self.0) };
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_freed.load(Relaxed) && !is_over() {
            // SAFETY: the program has no handle of it any more.
            unsafe { ffi::PMPI_Op_free(&raw mut self.raw) };
        }
    }
}
