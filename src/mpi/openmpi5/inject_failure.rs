//! MPI is never told of some deaths, and nothing of the interface can tell it.
//!
//! **Symptom** An end by `_exit(1)` is never reported, and one by a signal after up to 50 ms. Open
//! MPI marks a process as failed in one function (`ompi_errhandler_proc_failed_internal`), whether
//! its runtime, a broken connection or another rank brought the news. It is no part of the
//! interface, but exported: looked up at run time, and used only when the names of processes that
//! are found beside it make sense. From then on such a death is one like any other: requests end,
//! shrink and agree go on without the dead process.
//!
//! **Versions** each Open MPI 5: the source of 5.0.9 was read.
//!
//! **Upstream** not reported: Bland 2013 leaves open where reports come from.
//!
//! **Delete when** MPI has a call that marks a process as failed.
//!
//! **Test** `an_end_that_mpi_never_reports_is_a_death`.
//!
//! **Assumes** the caller is the thread that calls MPI, and that the process is dead indeed.

use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

use super::is_loaded;
use crate::mpi::calls::ulfm;

/// `PMIX_ERR_PROC_TERM_WO_SYNC`: a process ended without a word.
const ENDED_WITHOUT_A_WORD: c_int = -200;

/// A process as Open MPI names it everywhere: job and rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Name(pub(in crate::mpi) u64);

impl Name {
    /// The names of so many ranks of the job in which this one has that rank: the job is in the
    /// lower half, the rank in the upper one.
    pub(in crate::mpi) fn of_ranks(
        self,
        rank: u32,
        size: usize,
    ) -> Option<impl Iterator<Item = Self>> {
        let job = self.0 & u64::from(u32::MAX);
        (self.0 >> 32 == u64::from(rank))
            .then(|| (0..size as u64).map(move |it| Self(job | it << 32)))
    }
}

type Find = unsafe extern "C" fn(*const u64) -> *mut c_void;
type ForName = unsafe extern "C" fn(u64) -> *mut c_void;
type Failed = unsafe extern "C" fn(*mut c_void, c_int, bool) -> c_int;
type Callback = extern "C" fn() -> c_int;
type Register = unsafe extern "C" fn(Callback) -> c_int;

/// The functions of the library that this process runs with.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Notice {
    me: Name,
    for_name: ForName,
    failed: Failed,
    register: Register,
}

static NOTICE: OnceLock<Option<Notice>> = OnceLock::new();

/// The way to tell MPI, where there is one. Works once MPI is initialised.
pub(in crate::mpi) fn find() -> Option<&'static Notice> {
    NOTICE.get_or_init(Notice::look_up).as_ref()
}

/// How MPI names this process; 0 when that is not known.
pub(in crate::mpi) fn own_name() -> u64 {
    find().map_or(0, |notice| notice.me().0)
}

impl Notice {
    fn look_up() -> Option<Self> {
        if !is_loaded() || ulfm::is_on() != Some(true) {
            return None;
        }
        let information = ulfm::symbol(c"opal_process_info")?.cast::<u64>();
        let local = ulfm::symbol(c"ompi_proc_local_proc")?.cast::<*mut c_void>();
        let find = ulfm::symbol(c"ompi_proc_find")?;
        let for_name = ulfm::symbol(c"ompi_proc_for_name")?;
        let failed = ulfm::symbol(c"ompi_errhandler_proc_failed_internal")?;
        let register = ulfm::symbol(c"opal_progress_register_lp")?;
        // SAFETY: in this major version the function of this name has this type, as all below.
        let find = unsafe { std::mem::transmute::<*mut c_void, Find>(find) };
        // SAFETY: the object begins with the name of this process, eight bytes.
        let me = unsafe { information.read_unaligned() };
        // SAFETY: the variable is a pointer to the record of this process.
        let own = unsafe { *local };
        // SAFETY: the name is a variable of ours; an unknown one gives null.
        if own.is_null() || unsafe { find(&raw const me) } != own {
            return None;
        }
        Some(Self {
            me: Name(me),
            // SAFETY: as above.
            for_name: unsafe { std::mem::transmute::<*mut c_void, ForName>(for_name) },
            // SAFETY: as above.
            failed: unsafe { std::mem::transmute::<*mut c_void, Failed>(failed) },
            // SAFETY: as above.
            register: unsafe { std::mem::transmute::<*mut c_void, Register>(register) },
        })
    }

    /// The name of this process.
    pub(in crate::mpi) fn me(&self) -> Name {
        self.me
    }

    /// This process is dead: MPI treats it as failed from now on, and tells all others if it is
    /// to `forward` the news. What MPI knows already it ignores.
    pub(in crate::mpi) fn tell(&self, dead: Name, forward: bool) {
        // SAFETY: the name was given by the process itself; MPI makes a record if it has none.
        let process = unsafe { (self.for_name)(dead.0) };
        if process.is_null() {
            tracing::debug!(name = dead.0, "MPI does not know this process");
            return;
        }
        // SAFETY: the record lives as long as MPI; we are the thread that calls MPI.
        let code = unsafe { (self.failed)(process, ENDED_WITHOUT_A_WORD, forward) };
        if code != 0 {
            tracing::warn!(code, "MPI did not take the news of a death");
        }
    }

    /// MPI calls this function now and then while it makes progress, on the thread that calls it.
    pub(in crate::mpi) fn call_back(&self, function: Callback) {
        // SAFETY: the function lives for ever.
        let code = unsafe { (self.register)(function) };
        if code != 0 {
            tracing::warn!(code, "MPI will not call back: a death inside its calls may be missed");
        }
    }
}
