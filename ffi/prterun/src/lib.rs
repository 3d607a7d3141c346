//! `libfampi_prterun.so`: preloaded into the launcher of Open MPI 5, it mends two defects of it,
//! by which new processes hang after deaths, and the launcher crashes.
//!
//! **New processes are not heard.** When a process has died, the server of `OpenPMIx` 5 may hear
//! of it from the launcher before the socket to the dead shows its end. It then closes the socket
//! while both events on it are still registered, and deletes them later. libevent believes
//! meanwhile that the *number* is watched: a new process whose connection gets the same number is
//! never heard (it stays in `MPI_Init`, and those who launched it in `MPI_Comm_spawn`), and the
//! late deletion ends the watch over a connection that is not the one meant. Now and then the
//! event fires for what is freed, and the launcher waits for a lock in memory that is none.
//! `OpenPMIx` deletes before it closes since September 2026 (pull request 4279), which is in no
//! Open MPI 5 yet.
//!
//! ```text
//!  event_add(persistent, fd)   remembered
//!  event_del, event_free       forgotten
//!  close(fd)                   what is remembered of fd is deleted first
//! ```
//!
//! **Memory is overwritten.** When old and new processes connect, and one of them has died, no
//! context identifier comes with the answer. The launcher (`connect_release` in PRRTE 3.0) then
//! makes an array of one `pmix_info_t`, and at the end destructs the second. What lies there is
//! freed or overwritten, and now and then the launcher crashes, or one of its daemons.
//!
//! ```text
//!  PMIx_Info_create(n)         makes one element more, which is empty: to destruct it does nothing
//! ```
//!
//! **Guarantees.** Only in processes that are called like a launcher anything is done at all; in
//! all others, and in what a launcher forks and has not executed yet, each call is passed on. The
//! launcher's processes do not inherit the preloading.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_int, c_short, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, mem, process};

/// An event of libevent, of which only the address matters here.
type Event = *mut c_void;

/// `EV_READ`, `EV_WRITE` and `EV_PERSIST` of libevent: those without the last delete themselves.
const ON_DESCRIPTOR: c_short = 0x02 | 0x04;
const PERSISTENT: c_short = 0x10;
/// `event_del` and its kind.
type Delete = unsafe extern "C" fn(Event) -> c_int;
const LAUNCHERS: [&[u8]; 5] = [b"mpirun", b"mpiexec", b"prterun", b"prted", b"fampi-node"];

const FILE: &[u8] = b"libfampi_prterun.so";

/// The registered events of this process, by address, and their descriptors.
static REGISTERED: Mutex<BTreeMap<usize, c_int>> = Mutex::new(BTreeMap::new());
/// The number of the process in which something is to be done; 0 in all that are no launcher.
static LAUNCHER: AtomicU32 = AtomicU32::new(0);

static EVENT_ADD: Next = Next::of(c"event_add");
static EVENT_DEL: Next = Next::of(c"event_del");
static EVENT_DEL_NOBLOCK: Next = Next::of(c"event_del_noblock");
static EVENT_FREE: Next = Next::of(c"event_free");
static EVENT_GET_FD: Next = Next::of(c"event_get_fd");
static EVENT_GET_EVENTS: Next = Next::of(c"event_get_events");
static INFO_CREATE: Next = Next::of(c"PMIx_Info_create");

/// A function of another library behind the one here, looked for once.
struct Next {
    name: &'static CStr,
    found: AtomicUsize,
}

impl Next {
    const fn of(name: &'static CStr) -> Self {
        Self { name, found: AtomicUsize::new(0) }
    }

    /// Its address, as a function of type `F`.
    ///
    /// # Safety
    ///
    /// `F` is its type.
    unsafe fn get<F: Copy>(&self) -> F {
        const { assert!(mem::size_of::<F>() == mem::size_of::<usize>(), "a function pointer") };
        let mut found = self.found.load(Ordering::Relaxed);
        if found == 0 {
            // SAFETY: the name is a C string; looking a name up changes nothing.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
            if found == 0 {
                // It was called, so it was linked: its library was taken away.
                process::abort();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: of the same size, and the caller vouches for the type.
        unsafe { mem::transmute_copy(&found) }
    }
}

/// When this library is loaded, before the program begins.
extern "C" fn begin() {
    let name = fs::read("/proc/self/comm").unwrap_or_default();
    let name = name.trim_ascii();
    if !LAUNCHERS.contains(&name) {
        return;
    }
    LAUNCHER.store(process::id(), Ordering::Relaxed);
    // `mpirun` becomes `prterun`, which is to be mended; what that starts is not.
    if !name.starts_with(b"mpi")
        && let Some(preloaded) = env::var_os("LD_PRELOAD")
    {
        let others = preloaded.as_bytes().split(|byte| b": ".contains(byte));
        let others: Vec<_> = others.filter(|path| !path.ends_with(FILE)).collect();
        let others = others.join(&b':');
        if others.is_empty() {
            // SAFETY: nothing else runs before the program has begun.
            unsafe { env::remove_var("LD_PRELOAD") };
        } else {
            // SAFETY: likewise.
            unsafe { env::set_var("LD_PRELOAD", OsStr::from_bytes(&others)) };
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// What is registered; `None` in all processes that are no launcher, or a fork of one.
fn registered() -> Option<MutexGuard<'static, BTreeMap<usize, c_int>>> {
    let launcher = LAUNCHER.load(Ordering::Relaxed);
    let is_it = launcher != 0 && launcher == process::id();
    is_it.then(|| REGISTERED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// `event_add` of libevent.
///
/// # Safety
///
/// As libevent's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn event_add(event: Event, timeout: *const c_void) -> c_int {
    type Fd = unsafe extern "C" fn(Event) -> c_int;
    type Events = unsafe extern "C" fn(Event) -> c_short;
    type Add = unsafe extern "C" fn(Event, *const c_void) -> c_int;
    if let Some(mut registered) = registered() {
        // SAFETY: its type in libevent 2.1.
        let events_of = unsafe { EVENT_GET_EVENTS.get::<Events>() };
        // SAFETY: likewise.
        let fd_of = unsafe { EVENT_GET_FD.get::<Fd>() };
        // SAFETY: one that is added has been assigned.
        let events = unsafe { events_of(event) };
        // SAFETY: likewise.
        let fd = unsafe { fd_of(event) };
        if events & PERSISTENT != 0 && events & ON_DESCRIPTOR != 0 && fd >= 0 {
            registered.insert(event as usize, fd);
        }
    }
    // SAFETY: its type in libevent 2.1.
    let add = unsafe { EVENT_ADD.get::<Add>() };
    // SAFETY: as it was called.
    unsafe { add(event, timeout) }
}

/// `event_del` of libevent.
///
/// # Safety
///
/// As libevent's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn event_del(event: Event) -> c_int {
    forget(event);
    // SAFETY: its type in libevent 2.1.
    let delete = unsafe { EVENT_DEL.get::<Delete>() };
    // SAFETY: as it was called.
    unsafe { delete(event) }
}

/// `event_free` of libevent.
///
/// # Safety
///
/// As libevent's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn event_free(event: Event) {
    forget(event);
    // SAFETY: its type in libevent 2.1.
    let free = unsafe { EVENT_FREE.get::<unsafe extern "C" fn(Event)>() };
    // SAFETY: as it was called.
    unsafe { free(event) }
}

fn forget(event: Event) {
    if let Some(mut registered) = registered() {
        registered.remove(&(event as usize));
    }
}

/// `close` of POSIX, which first deletes what is registered on the descriptor.
///
/// # Safety
///
/// As that of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let mut stale = Vec::new();
    if let Some(mut registered) = registered() {
        registered.retain(|event, on| {
            let is_stale = *on == fd;
            if is_stale {
                stale.push(*event);
            }
            !is_stale
        });
    }
    for event in stale {
        // SAFETY: its type in libevent 2.1.
        let delete = unsafe { EVENT_DEL_NOBLOCK.get::<Delete>() };
        // SAFETY: it was added and neither deleted nor freed since; a callback that runs in another
        // thread is not waited for.
        unsafe { delete(event as Event) };
    }
    // SAFETY: as it was called.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// `PMIx_Info_create` of `OpenPMIx`, with one element more than was asked for.
///
/// # Safety
///
/// As that of `OpenPMIx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_create(elements: usize) -> *mut c_void {
    let more = usize::from(elements > 0 && registered().is_some());
    // SAFETY: its type in OpenPMIx 5.
    let create = unsafe { INFO_CREATE.get::<unsafe extern "C" fn(usize) -> *mut c_void>() };
    // SAFETY: any number will do; PMIx_Info_free destructs as many as it is told, and frees all.
    unsafe { create(elements + more) }
}
