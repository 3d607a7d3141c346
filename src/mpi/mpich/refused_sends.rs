//! A message to a process that has died ends its sender, too.
//!
//! **Symptom** SIGSEGV of a living process, in some runs in which ranks die amid collectives with
//! replacements. UCX refuses a send to a process that it knows to be dead, and MPICH, before it
//! looks at that error, writes to the request that it has not got. Here such a send is complete,
//! and lost, as a small one is that went a moment sooner; that its receiver is dead the block hears
//! from the list of the dead.
//!
//! **Versions** MPICH 5.0.2 with UCX, the default.
//!
//! **Upstream** not reported: by the standard the end of a process is undefined.
//!
//! **Delete when** MPICH asks UCX for `UCP_ERR_HANDLING_MODE_PEER`.
//!
//! **Test** `a_death_in_any_operation_is_reported_and_repaired` (`tests/mpi`, with `--mpi mpich`).

use std::{
    ffi::{CStr, c_void},
    mem, ptr,
    sync::OnceLock,
};

use super::OF_THE_LIBRARY;
use crate::mpi::calls::{redirect::redirect, ulfm};

/// What UCX says when the other one is gone (`UCS_ERR_CONNECTION_RESET`, as between processes of a
/// node, and `UCS_ERR_ENDPOINT_TIMEOUT`), in the place of a pointer.
const GONE: [isize; 2] = [-25, -80];

/// To where, what, how much of it, with which tag, and how.
type Send =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, u64, *const c_void) -> *mut c_void;

/// Both mends, of which each is done when it can be; `None` when one cannot.
pub(super) fn mend() -> Option<()> {
    [PLAIN.mend(), SYNCHRONOUS.mend()].into_iter().collect()
}

/// A function of UCX that sends, and where it is once MPI's calls of it come to us.
struct Sending {
    name: &'static CStr,
    ours: Send,
    original: OnceLock<Send>,
}

static PLAIN: Sending = Sending::new(c"ucp_tag_send_nbx", send::<false>);
static SYNCHRONOUS: Sending = Sending::new(c"ucp_tag_send_sync_nbx", send::<true>);

impl Sending {
    const fn new(name: &'static CStr, ours: Send) -> Self {
        Self { name, ours, original: OnceLock::new() }
    }

    fn mend(&self) -> Option<()> {
        let original = ulfm::symbol(self.name)?;
        // SAFETY: the function of this name has this type, by the header of UCX.
        let original = unsafe { mem::transmute::<*mut c_void, Send>(original) };
        self.original.get_or_init(|| original);
        // SAFETY: the type of that function. No thread but this one calls MPI for more than its
        // version.
        unsafe { redirect(OF_THE_LIBRARY, self.name, self.ours as *const c_void) }
    }

    /// What UCX says to a send: null, its request, or an error. Null when the other one is gone:
    /// all other errors are for MPI, as a message to a living process must not be lost.
    fn say(&self, send: impl FnOnce(Send) -> *mut c_void) -> *mut c_void {
        let said = send(*self.original.get().expect("set before MPI calls us"));
        if !GONE.contains(&(said.addr() as isize)) {
            return said;
        }
        tracing::debug!("a send to the dead is lost");
        ptr::null_mut()
    }
}

/// Stands in the place of the one, or of the other.
unsafe extern "C" fn send<const SYNCHRONOUSLY: bool>(
    to: *mut c_void,
    from: *const c_void,
    count: usize,
    tag: u64,
    how: *const c_void,
) -> *mut c_void {
    let sending = if SYNCHRONOUSLY { &SYNCHRONOUS } else { &PLAIN };
    // SAFETY: the arguments of our caller.
    sending.say(|original| unsafe { original(to, from, count, tag, how) })
}
