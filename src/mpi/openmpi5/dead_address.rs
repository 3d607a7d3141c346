//! A process waits for ever for the address of one that is dead.
//!
//! **Symptom** A survivor stands still in its first message to a new process that has died since it
//! was linked, and the watchdog ends it. MPI asks the launcher for the address (`PMIx_Get`), which
//! has forgotten the processes of a spawn when all of them have ended, and gives no answer; no
//! progress of MPI is made meanwhile, so that no death is seen either. Here a thread of its own
//! asks for the address of a process of another job, and the question is given up when that process
//! has ended. Where that cannot be seen, it is given up before the watchdog takes this process for
//! dead, for all processes of that job. The peer is unreachable then, which is an error.
//!
//! **Versions** each Open MPI 5: the source of 5.0.9 was read.
//!
//! **Upstream** not reported.
//!
//! **Delete when** the launcher says that a process is gone whose job it has forgotten.
//!
//! **Test** `attempts_that_fail_leave_no_communicators` (`tests/mpi`), now and then.
//!
//! **Assumes** that functions of `OpenPMIx` may be called by any thread, as its standard says.

use std::{
    env,
    ffi::{CStr, CString, c_char, c_int, c_void},
    mem,
    os::unix::ffi::OsStrExt as _,
    ptr,
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{OF_CONNECTIONS, OF_THE_LIBRARY, launch_census};
use crate::mpi::{
    calls::{redirect, ulfm},
    node::{environment, process::Process, signals},
};

const GET: &CStr = c"PMIx_Get";
/// `PMIX_ERR_NOT_FOUND`, with which the peer is unreachable.
const NOT_FOUND: c_int = -46;
/// How much of the watchdog's limit an answer may take: each of its limits is longer.
const PATIENCE: f64 = 0.15;
/// Between two looks whether the process has ended.
const PERIOD: Duration = Duration::from_millis(1);
/// A longer pause between two looks is one in which this process did not run.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// `pmix_nspace_t`.
type Job = [c_char; 256];

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Asked {
    job: Job,
    rank: u32,
}

type Get = unsafe extern "C" fn(
    *const Asked,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut c_void,
) -> c_int;
type Convert = unsafe extern "C" fn(*mut u32, *const c_char) -> c_int;

#[derive(Clone, Copy, Debug)]
struct Functions {
    get: Get,
    convert: Convert,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
/// The processes of this node that were started last.
static NEWCOMERS: Mutex<Vec<Process>> = Mutex::new(Vec::new());
/// Jobs that gave no answer.
static SILENT: Mutex<Vec<Job>> = Mutex::new(Vec::new());

/// Makes questions for addresses end.
pub(super) fn mend() -> Option<()> {
    let (get, convert) = (ulfm::symbol(GET)?, ulfm::symbol(c"opal_pmix_convert_nspace")?);
    FUNCTIONS.get_or_init(|| Functions {
        // SAFETY: in this major version the function of this name has this type.
        get: unsafe { mem::transmute::<*mut c_void, Get>(get) },
        // SAFETY: as above.
        convert: unsafe { mem::transmute::<*mut c_void, Convert>(convert) },
    });
    let ours: Get = get_unless_dead;
    for library in [OF_THE_LIBRARY, OF_CONNECTIONS] {
        // SAFETY: the type of that function. No thread but this one calls MPI for more than its
        // version.
        unsafe { redirect::redirect(library, GET, ours as *const c_void) }?;
    }
    Some(())
}

/// MPI may ask for the addresses of these processes, which were alive a moment ago.
pub(in crate::mpi) fn note_newcomers(processes: &[Process]) {
    *NEWCOMERS.lock().unwrap_or_else(PoisonError::into_inner) = processes.to_vec();
}

impl Asked {
    fn job(&self) -> &CStr {
        // SAFETY: MPI ends the name with a zero, as its type wants it.
        unsafe { CStr::from_ptr(self.job.as_ptr()) }
    }

    /// It is of the job of this process, whose addresses all have exchanged in `MPI_Init`.
    fn is_of_own_job(&self) -> bool {
        env::var_os(launch_census::JOB).is_none_or(|job| job.as_bytes() == self.job().to_bytes())
    }

    fn has_ended(&self) -> bool {
        let mut number = 0;
        let Functions { convert, .. } = functions();
        // SAFETY: the text ends with a zero; the result is a variable of ours.
        if unsafe { convert(&raw mut number, self.job.as_ptr()) } != 0 {
            return false;
        }
        let name = u64::from(number) | u64::from(self.rank) << 32;
        let newcomers = NEWCOMERS.lock().unwrap_or_else(PoisonError::into_inner);
        newcomers.iter().any(|process| process.name == name && process.is_ending())
    }

    fn is_silent(&self) -> bool {
        SILENT.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.job)
    }
}

fn functions() -> Functions {
    *FUNCTIONS.get().expect("looked up before the library calls us")
}

/// What a question has brought: MPI's code, and the address of the value.
type Answer = (c_int, usize);

/// Asks by a thread of its own, which waits on when the question is given up. `None` where there
/// can be none.
fn ask_aside(process: &Asked, key: CString) -> Option<Answer> {
    let Functions { get, .. } = functions();
    let (tell, answer) = mpsc::channel();
    let asked = *process;
    let thread = thread::Builder::new().name("fampi-address".into()).stack_size(128 << 10);
    let ask = move || {
        signals::block_signals_of_this_thread();
        let mut found = ptr::null_mut();
        // SAFETY: a process, a text and a result of this thread; no hints.
        let code = unsafe { get(&raw const asked, key.as_ptr(), ptr::null(), 0, &raw mut found) };
        // Nobody listens any more when it was given up.
        let _ = tell.send((code, found.expose_provenance()));
    };
    thread.spawn(ask).ok()?;
    let limit = environment::stuck_limit().mul_f64(PATIENCE);
    let (mut waited, mut last) = (Duration::ZERO, Instant::now());
    loop {
        if let Ok(answer) = answer.recv_timeout(PERIOD) {
            return Some(answer);
        }
        let passed = last.elapsed().min(LONGEST_PAUSE);
        (waited, last) = (waited + passed, Instant::now());
        let is_late = !limit.is_zero() && waited > limit;
        if is_late {
            SILENT.lock().unwrap_or_else(PoisonError::into_inner).push(process.job);
        }
        if is_late || process.has_ended() {
            tracing::debug!(job = ?process.job(), process.rank, is_late, "its address is given up");
            return Some((NOT_FOUND, 0));
        }
    }
}

unsafe extern "C" fn get_unless_dead(
    asked: *const Asked,
    key: *const c_char,
    hints: *const c_void,
    count: usize,
    found: *mut *mut c_void,
) -> c_int {
    // SAFETY: null, or a process.
    let process = unsafe { asked.as_ref() }.filter(|process| !process.is_of_own_job());
    // Hints say not to wait.
    let may_last = count == 0 && !key.is_null() && !found.is_null();
    let answer = process.filter(|_| may_last).and_then(|process| {
        if process.is_silent() {
            return Some((NOT_FOUND, 0));
        }
        // SAFETY: not null, so a text that ends with a zero.
        ask_aside(process, unsafe { CStr::from_ptr(key) }.to_owned())
    });
    if let Some((code, value)) = answer {
        // SAFETY: not null, so room for a pointer.
        unsafe { *found = ptr::with_exposed_provenance_mut(value) };
        return code;
    }
    // SAFETY: the arguments of our caller, who meant this function.
    unsafe { (functions().get)(asked, key, hints, count, found) }
}
