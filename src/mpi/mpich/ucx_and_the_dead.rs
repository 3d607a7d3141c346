//! A message to or from a process that dies ends the other one, too.
//!
//! **Symptom** SIGABRT or SIGSEGV of a living process, in half of all runs in which ranks die
//! amid collectives with replacements. MPICH has UCX make its connections without news of errors,
//! and then
//!
//! - UCX calls `abort` (`cma_ep.c: process_vm_readv … returned -1`) when it cannot read a large
//!   message in the memory of its sender, who is dead. Here large messages come as small ones do:
//!   in pieces, which the sender writes.
//! - UCX refuses a send to a process that it knows to be dead, and MPICH, before it looks at that
//!   error, writes to the request that it has not got. Here such a send is complete, and lost, as a
//!   small one is that went a moment sooner; that its receiver is dead the block hears from the
//!   list of the dead.
//!
//! **Versions** MPICH 5.0.2 with UCX, the default.
//!
//! **Upstream** not reported: by the standard the end of a process is undefined.
//!
//! **Delete when** MPICH asks UCX for `UCP_ERR_HANDLING_MODE_PEER`.
//!
//! **Test** `a_death_in_any_operation_is_reported_and_repaired` (`tests/mpi`, with `--mpi mpich`).

use std::{
    env,
    ffi::{CStr, c_char, c_int, c_void},
    mem, ptr,
    sync::OnceLock,
};

use super::OF_THE_LIBRARY;
use crate::mpi::calls::{redirect::redirect, ulfm};

const READ: &CStr = c"ucp_config_read";
const MODIFY: &CStr = c"ucp_config_modify";
/// How large messages are sent: in UCX's words, which a variable of this name says, too.
const LARGE: (&CStr, &str) = (c"RNDV_SCHEME", "UCX_RNDV_SCHEME");
const IN_PIECES: &CStr = c"am";
/// Pointers from here on are errors, negated.
const ERRORS: usize = -100_isize as usize;

type Read = unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut c_void) -> c_int;
type Modify = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
/// To where, what, how much of it, with which tag, and how.
type Send =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, u64, *const c_void) -> *mut c_void;

static ORIGINAL_READ: OnceLock<(Read, Modify)> = OnceLock::new();

/// All mends, of which each is done when it can be; `None` when one cannot.
pub(super) fn mend() -> Option<()> {
    [read_in_pieces(), PLAIN.mend(), SYNCHRONOUS.mend()].into_iter().collect()
}

fn read_in_pieces() -> Option<()> {
    let (read, modify) = (ulfm::symbol(READ)?, ulfm::symbol(MODIFY)?);
    // SAFETY: the functions of these names have these types, by the header of UCX.
    let read = unsafe { mem::transmute::<*mut c_void, Read>(read) };
    // SAFETY: as above.
    let modify = unsafe { mem::transmute::<*mut c_void, Modify>(modify) };
    ORIGINAL_READ.get_or_init(|| (read, modify));
    let ours: Read = read_and_modify;
    // SAFETY: the type of that function. No thread but this one calls MPI for more than its
    // version.
    unsafe { redirect(OF_THE_LIBRARY, READ, ours as *const c_void) }
}

unsafe extern "C" fn read_and_modify(
    prefix: *const c_char,
    file: *const c_char,
    config: *mut *mut c_void,
) -> c_int {
    let (read, modify) = ORIGINAL_READ.get().expect("set before MPI calls us");
    // SAFETY: the arguments of our caller.
    let status = unsafe { read(prefix, file, config) };
    if status == 0 && env::var_os(LARGE.1).is_none() {
        // SAFETY: filled by a call that has gone well; texts that end with a zero.
        let status = unsafe { modify(*config, LARGE.0.as_ptr(), IN_PIECES.as_ptr()) };
        tracing::debug!(status, "large messages in pieces");
    }
    status
}

/// A function of UCX that sends, and where it is once MPI's calls of it come to us.
struct Sending {
    name: &'static CStr,
    ours: Send,
    original: OnceLock<Send>,
}

static PLAIN: Sending = Sending::new(c"ucp_tag_send_nbx", send);
static SYNCHRONOUS: Sending = Sending::new(c"ucp_tag_send_sync_nbx", send_synchronously);

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

    /// What UCX says to a send: null, its request, or an error; for which we say null.
    fn say(&self, send: impl FnOnce(Send) -> *mut c_void) -> *mut c_void {
        let said = send(*self.original.get().expect("set before MPI calls us"));
        if said.addr() < ERRORS {
            return said;
        }
        tracing::debug!(status = said.addr() as isize, "a send to the dead is lost");
        ptr::null_mut()
    }
}

unsafe extern "C" fn send(
    to: *mut c_void,
    from: *const c_void,
    count: usize,
    tag: u64,
    how: *const c_void,
) -> *mut c_void {
    // SAFETY: the arguments of our caller.
    PLAIN.say(|original| unsafe { original(to, from, count, tag, how) })
}

unsafe extern "C" fn send_synchronously(
    to: *mut c_void,
    from: *const c_void,
    count: usize,
    tag: u64,
    how: *const c_void,
) -> *mut c_void {
    // SAFETY: the arguments of our caller.
    SYNCHRONOUS.say(|original| unsafe { original(to, from, count, tag, how) })
}
