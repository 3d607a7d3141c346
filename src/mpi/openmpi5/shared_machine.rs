//! Ranks of several nodes that are one machine spin for the same processors.
//!
//! **Symptom**: where nodes are containers or name spaces of one machine, each believes that it has
//! all processors for itself, so no rank gives its own away while it waits, and a message takes as
//! long as the scheduler lets others spin.
//!
//! **Versions**: all of Open MPI 5 (5.0.9 read).
//!
//! **Upstream**: not reported; the launcher cannot know.
//!
//! **Delete when**: never; where the function is gone, `mpi_yield_when_idle` does it.
//!
//! **Test**: `yielding_can_be_switched_on`.

use crate::mpi::calls::ulfm::symbol;

/// Makes MPI give the processor away whenever it finds nothing to do, as it does by itself where a
/// node has more ranks than processors. True when it does from now on.
pub(in crate::mpi) fn yield_when_idle() -> bool {
    let Some(found) = symbol(c"opal_progress_set_yield_when_idle") else { return false };
    if !super::is_loaded() {
        return false;
    }
    // SAFETY: `bool opal_progress_set_yield_when_idle(bool)`, in this major version.
    let set: extern "C" fn(bool) -> bool = unsafe { std::mem::transmute(found) };
    set(true);
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn yielding_can_be_switched_on() {
        assert!(super::yield_when_idle(), "the library has the function");
    }
}
