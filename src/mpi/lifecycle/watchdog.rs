//! Turns a rank that MPI holds for ever into a dead rank, which the others survive.
//!
//! A rank that makes a communicator can wait for a message that no other rank sends, and a rank can
//! become deaf: it receives nothing more after a peer has died (`this_mpi::may_be_deaf`). No call
//! of ours may last: each one that progresses or blocks says so in one atomic word, and a small
//! thread, which calls no MPI, looks at that word four times a second. The thread ends the process
//! by SIGKILL when one call has been under way for longer than the limit, or when the process has
//! been deaf for a second.
//!
//! **Guarantees.** Time in which the whole process was stopped (SIGSTOP, a debugger) or the
//! machine did not run us does not count. Limits are staggered by rank, since one death is
//! often enough to free the others.
//!
//! A program that owns its MPI starts and ends it outside of our calls. Its start is watched from
//! the moment at which the library is loaded ([`before_mpi`]), its end when MPI says that it begins
//! ([`inside::ending`]): MPI itself tells when they are over, by calls that any thread may make.
//!
//! A rank that hangs outside of MPI, or is stopped, is seen by its observer, to
//! which one that is inside a call that may last is at rest.
//!
//! `FAMPI_STUCK_SECONDS` sets the limit of an ordinary call, 0 switches the watchdog off.

use std::{
    sync::{
        Once, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    exit,
    origin::{self, Starter},
};
use crate::mpi::{
    calls::{
        inside::{
            self, BEFORE, ENDING, FINALIZE, JOINING, KINDS, MEETING, ORDINARY, OUTSIDE, STARTING,
        },
        library,
    },
    deaths,
    node::{environment, process, signals, status},
    this_mpi::{
        self, Start,
        launch_census::{self, Siblings},
        unreported_exit,
    },
};

const TICK: Duration = Duration::from_millis(250);
/// After this time in `MPI_Finalize` the process leaves without it.
const FINALIZE_LIMIT: Duration = Duration::from_secs(3);
/// So long may a peer take for its next store to our memory.
const DEAF_LIMIT: Duration = Duration::from_secs(1);
const STAGGER: Duration = Duration::from_secs(2);

/// Decides how long we wait beyond the limit.
static RANK: AtomicU32 = AtomicU32::new(0);
/// The process that spawned us, while we cannot do without it.
static PARENT: RwLock<Option<Parent>> = RwLock::new(None);

/// A process on our own node.
#[derive(Clone, Copy, Debug)]
struct Parent(libc::pid_t);

/// Watches the start of MPI by a program that owns it; to be called when the program is loaded. A
/// process that no launcher of Open MPI has started is left alone.
pub fn before_mpi() {
    if launch_census::expected().is_some() {
        inside::before();
        set_parent(origin::parent_on_this_node());
        start();
    }
}

/// Tells the watchdog which rank we are.
pub(in crate::mpi) fn set_rank(rank: u32) {
    RANK.store(rank, Relaxed);
}

/// From now on, or no longer, the death of this process of our node is ours too.
pub(in crate::mpi) fn set_parent(parent: Option<libc::pid_t>) {
    *PARENT.write().unwrap_or_else(PoisonError::into_inner) = parent.map(Parent);
}

/// Starts the thread, once per process.
pub(in crate::mpi) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        this_mpi::when_loaded();
        let limit = environment::stuck_limit();
        let thread = thread::Builder::new().name("fampi-watchdog".into()).stack_size(128 << 10);
        // Here, as MPI changes the environment while it starts, which C allows no other thread to
        // read meanwhile.
        let launch = Launch { siblings: Siblings::new(), by: origin::starter() };
        if let Err(error) = thread.spawn(move || watch(limit, launch)) {
            tracing::warn!(%error, "no watchdog: a call that MPI never ends will hang this rank");
        }
    });
}

/// How this process was started, and with whom.
#[derive(Debug)]
struct Launch {
    siblings: Siblings,
    by: Starter,
}

impl Launch {
    /// How long `MPI_Init` may last. Ends the process when it will never be over.
    fn limit(&mut self, limit: Duration, awake: Duration) -> Duration {
        match self.by {
            Starter::Fampi => limit * 3 / 5,
            Starter::Program => limit * 2,
            Starter::Launcher => {
                if let Some((dead, of)) = self.siblings.dead(awake) {
                    let here = "processes of this node died while MPI started: start the job again";
                    exit::give_up(&format!("{dead} of {of} {here}"));
                }
                limit * 60
            }
        }
    }
}

fn watch(limit: Duration, mut launch: Launch) {
    signals::block_signals_of_this_thread();
    let (mut call, mut stuck, mut last) = (0, Duration::ZERO, Instant::now());
    let mut deaf = Duration::ZERO;
    loop {
        thread::sleep(TICK);
        let now = Instant::now();
        let awake = now.duration_since(last).min(2 * TICK);
        last = now;
        if parent_died() {
            unreported_exit::die_by_signal(
                "the process that spawned this one died before it joined",
            );
        }
        let is_deaf = deaths::are_known() && this_mpi::may_be_deaf();
        deaf = if is_deaf { deaf + awake } else { Duration::ZERO };
        if !limit.is_zero() && deaf > DEAF_LIMIT {
            unreported_exit::die_by_signal(
                "a process died while it sent to this one, which hears nothing more; this rank \
                 counts as failed",
            );
        }
        let current = inside::current();
        let counts = current == call && !is_at_leisure(current);
        stuck = if counts { stuck + awake } else { Duration::ZERO };
        call = current;
        let limit = match call & KINDS {
            FINALIZE if stuck > FINALIZE_LIMIT => exit::leave_unfinished_finalize(),
            ENDING if !limit.is_zero() && stuck > 2 * limit => {
                status::say("MPI_Finalize does not return after a death; this process leaves");
                exit::leave_unfinished_finalize()
            }
            OUTSIDE | FINALIZE | ENDING => continue,
            ORDINARY => limit,
            MEETING => limit * 2 / 5,
            JOINING => limit / 5,
            STARTING | BEFORE => launch.limit(limit, awake),
            _ => 2 * limit,
        };
        if !limit.is_zero() && stuck > limit + STAGGER * (RANK.load(Relaxed) % 8) {
            unreported_exit::die_by_signal(
                "a call of MPI did not return; this rank counts as failed",
            );
        }
    }
}

/// True while nothing that this process waits for is late: a program that owns its MPI has not
/// begun to start it, or has started it, or waits in its end for ranks that all live.
fn is_at_leisure(call: u64) -> bool {
    match call & KINDS {
        BEFORE => match this_mpi::init_state() {
            Start::UnderWay => false,
            Start::NotYet => true,
            Start::Over => {
                inside::end_before(call);
                true
            }
        },
        ENDING => !deaths::are_known() || library::finalized() == Ok(true),
        _ => false,
    }
}

fn parent_died() -> bool {
    let parent = *PARENT.read().unwrap_or_else(PoisonError::into_inner);
    parent.is_some_and(|Parent(pid)| !process::exists(pid))
}
