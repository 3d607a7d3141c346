//! MPICH 5: what is peculiar to it, a file for each gap.
//!
//! It has no fault tolerance of its own: nothing is told of a death, an operation with the dead
//! stays pending, and ULFM's functions end the process. So the list of the dead is ours
//! ([`list_of_the_dead`]), and what ULFM does over it is made of messages ([`ulfm_of_messages`]).
//! What the room of Open MPI mends does not occur here: those functions do nothing.

pub(super) mod kept_requests;
pub(super) mod launch_census;
#[cfg_attr(not(all(target_os = "linux", target_env = "gnu")), path = "left_calls/absent.rs")]
pub(super) mod left_calls;
pub(super) mod list_of_the_dead;
pub(super) mod refused_access;
mod refused_sends;
pub(super) mod set_aside;
mod shared_memory;
pub(super) mod spawn_lookup;
pub(super) mod ulfm_of_messages;

use std::{
    ffi::CStr,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use super::calls::{
    comm::Comm,
    kept::Origin,
    library::{self, Checked, PROC_FAILED, Refusal},
    ulfm::{self, Ulfm},
};
use crate::error::Error;

/// The function of MPI that no tool puts its own in the place of.
const OF_THE_LIBRARY: &CStr = c"PMPI_Comm_dup";
/// What the launcher tells a process that another one has started.
const SPAWNED: &str = "PMI_SPAWNED";

/// This node has more ranks than processors.
static IS_CROWDED: AtomicBool = AtomicBool::new(false);

/// The three numbers of a version of Open MPI, of which this is none.
pub(super) fn version(_: &str) -> Option<(u32, u32, u32)> {
    None
}

/// True for a communicator on which ranks can agree, and have to.
pub(super) fn can_agree(comm: &Comm) -> bool {
    comm.size() != 1
}

/// True for a message that may be in a list with others.
#[inline]
pub(super) fn may_be_listed(has_named_peer: bool, is_cancelled: bool) -> bool {
    has_named_peer && !is_cancelled
}

/// A communicator is about to be made.
pub(super) fn before_creation() {}

/// An error, on all processes, when one of them knows that a process of this communicator is dead:
/// MPI itself would wait for it. All of them call it, and then duplicate the communicator.
pub(super) fn may_be_duplicated(comm: &Comm, ulfm: &Ulfm) -> Checked<()> {
    let all_live = comm.failed(ulfm, usize::MAX, |_| {}).is_ok_and(|dead| dead == 0);
    let all_say_so = !can_agree(comm) || comm.unanimous(ulfm, all_live);
    let call = "MPI_Comm_dup";
    if all_say_so { Ok(()) } else { Err(Refusal { call, class: PROC_FAILED }) }
}

/// A process of this MPI hears its peers, also when one of them is dead.
pub(super) fn may_be_deaf() -> bool {
    false
}

/// An agreement has not ended: those of this room ask by themselves.
pub(super) fn ask_again(_: &Comm) {}

/// How far `MPI_Init` is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(dead_code, reason = "this MPI does not tell the second")]
pub(super) enum Start {
    /// It was not called, or this MPI does not tell.
    NotYet,
    /// It was called, and has not returned.
    UnderWay,
    /// It has returned.
    Over,
}

/// How far `MPI_Init` is, where it can be known. Any thread may ask.
pub(super) fn init_state() -> Start {
    if library::initialized() == Ok(true) { Start::Over } else { Start::NotYet }
}

/// A link of two groups in the making.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "MPI is asked nothing about it here")]
pub(super) struct Linking {
    /// What the number is looked for over: one of this group, or of both.
    pub(super) comm: Comm,
    /// The other leader, where this process leads its group.
    pub(super) leader: Option<Leader>,
}

/// A process, as a communicator names it.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "as above")]
pub(super) struct Leader {
    pub(super) comm: Comm,
    pub(super) rank: u32,
    /// It belongs to the other group of a communicator of two groups.
    pub(super) is_remote: bool,
}

/// Makes a call of MPI that links two groups.
pub(super) fn while_linking<T>(_: Linking, call: impl FnOnce() -> T) -> T {
    call()
}

/// A wildcard needs no protection here.
///
/// # Safety
///
/// None is needed.
pub(super) unsafe fn protect_receive(_: mpi::ffi::MPI_Request) {}

/// MPI is initialised: ULFM's functions are ours from now on.
pub(super) fn after_init() {
    shared_memory::forget_names();
    list_of_the_dead::know_launch();
}

/// What has to be done before MPI starts.
pub(super) fn when_loaded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ulfm::provide(ulfm_of_messages::functions());
        let mended = [left_calls::mend(), refused_sends::mend(), refused_access::mend()];
        tracing::debug!(?mended, "calls that can be left, sends, files");
    });
}

/// Not after a death: to free a communicator, MPICH makes progress, and has aborted in that at the
/// end of one job in three (5.0.2, `dtp_ != NULL` in `ipc_p2p.h`: a late message, it seems).
pub(super) fn may_free_at_the_end() -> bool {
    !list_of_the_dead::has_some()
}

/// `MPI_Finalize` comes next.
pub(super) fn before_finalize() {
    list_of_the_dead::close();
}

/// Where a request of the program came from is not known here.
///
/// # Safety
///
/// None is needed.
pub(super) unsafe fn origin(_: mpi::ffi::MPI_Request) -> Origin {
    Origin::Other
}

/// Files are opened by ROMIO, the only way there is.
pub(super) fn prepare_files() -> Result<(), Error> {
    Ok(())
}

/// MPI cannot be told to give the processor away in a test of a request, so we do it.
pub(super) fn yield_when_idle() -> bool {
    IS_CROWDED.store(true, Relaxed);
    true
}

/// True when MPI itself ends what waits for a dead process.
pub(super) const fn ends_waits_for_the_dead() -> bool {
    false
}

/// This process has found nothing to do.
#[inline]
pub(super) fn when_idle() {
    if IS_CROWDED.load(Relaxed) {
        thread::yield_now();
    }
}

/// MPI waits in a call of the program: blocks go on, and deaths are looked for.
pub fn while_waiting() {
    list_of_the_dead::look();
}

/// Communicators of a failed attempt are not freed: a number could be used again.
///
/// # Safety
///
/// None is needed.
pub(super) unsafe fn free_for_ever(_: Vec<Comm>) {}

/// Who all processes of a communicator are, by what they are called here.
pub(super) fn know(comm: &Comm, names: &[u64]) {
    list_of_the_dead::know(comm, names);
}

/// True when a rank has spawned this process, in whatever way.
pub(super) fn was_spawned() -> bool {
    std::env::var_os(SPAWNED).is_some()
}
