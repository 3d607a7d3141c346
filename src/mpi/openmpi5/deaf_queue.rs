//! A process hears nothing more by shared memory once a peer died between two stores to its queue.
//!
//! **Symptom** All survivors wait for ever, mostly in a shrink: what they send to one of them does
//! not arrive. Each process of a node has a queue in its own memory that the others share. Who
//! sends puts a message at its end by one store (`sm_fifo_write`), and links it to what was there,
//! or makes it the first, by the next. When a peer is killed between them, and the queue was empty,
//! it has an end and no beginning for ever; when it was not, its owner spins in search of what
//! comes next. Here the owner finds its own queue like that, look after look, when a process is
//! dead, and counts as failed itself, so that the others go on without it.
//! An owner that spins before it has heard of the death is ended by the watchdog's limit, as every
//! rank that MPI holds.
//!
//! **Versions** each Open MPI 5: the source of 5.0.9 was read, and the memory of a job that hung.
//!
//! **Upstream** not reported.
//!
//! **Delete when** the shared memory of Open MPI survives a death between two stores.
//!
//! **Test** `a_process_that_hears_nothing_more_counts_as_failed` (`ffi/tests/c`).
//!
//! **Assumes** that no living peer needs a second and more for those two stores.

use std::{
    ffi::c_void,
    fs,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use super::is_loaded;
use crate::mpi::calls::ulfm;

/// Where the description of the transport has the address of this process's own memory.
const OWN_MEMORY: usize = 320;
/// In the place of a message where there is none.
const NOTHING: i64 = -2;

/// The beginning of a process's memory.
#[repr(C)]
struct Queue {
    first: AtomicI64,
    last: AtomicI64,
}

/// The queue of this process, while MPI has it.
static OWN: Mutex<Option<&'static Queue>> = Mutex::new(None);

/// Looks for the queue, once MPI is initialised.
pub(super) fn find() {
    let component = is_loaded().then(|| ulfm::symbol(c"mca_btl_sm_component")).flatten();
    let Some(component) = component else { return };
    // SAFETY: the object is larger in this major version.
    let address = unsafe { component.byte_add(OWN_MEMORY) }.cast::<*mut c_void>();
    // SAFETY: any eight bytes are a pointer.
    let memory = unsafe { address.read_unaligned() };
    if is_shared(memory) {
        // SAFETY: memory that processes of this node share begins with the queue of its owner, and
        // stays until MPI ends, before which it is forgotten.
        let queue = unsafe { memory.cast::<Queue>().as_ref() };
        *OWN.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
}

/// To be called before MPI gives its memory back.
pub(super) fn forget() {
    *OWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// True when messages are in the queue and none is the first, as for a moment with each message.
/// Any thread may ask.
pub(in crate::mpi) fn is_headless() -> bool {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.is_some_and(|queue| {
        queue.first.load(Relaxed) == NOTHING && queue.last.load(Relaxed) != NOTHING
    })
}

/// True for the beginning of what MPI shares with other processes of this node.
fn is_shared(memory: *const c_void) -> bool {
    let begins = format!("{:x}-", memory.addr());
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found = maps.lines().filter(|line| line.starts_with(&begins));
    found.any(|line| line.contains("sm_segment"))
}
