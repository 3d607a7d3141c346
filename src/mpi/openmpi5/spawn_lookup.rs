//! `MPI_Comm_spawn` waits for ever for a new process that has died while it started.
//!
//! **Symptom** MPI opens a port, has the launcher start the processes, and then asks the launcher
//! for what the first of them publishes below the name of the port, at the end of its `MPI_Init`.
//! The launcher keeps that question, and two more of this kind, for ten minutes. Here the three
//! steps are taken one by one, so that the port is known: what is published in the place of a dead
//! process answers all questions with what MPI cannot read. `ompi_dpm_spawn` and the functions of
//! `OpenPMIx` are no part of MPI's interface, but exported: they are looked up at run time.
//!
//! **Versions** each Open MPI 5: the source of 5.0.9 was read.
//!
//! **Upstream** not reported.
//!
//! **Delete when** `MPI_Comm_spawn` returns an error when a new process dies in its `MPI_Init`.
//!
//! **Test** `a_new_process_that_dies_before_it_has_started_is_missed_at_once` (`ffi/tests/c`).
//!
//! **Assumes** that functions of `OpenPMIx` may be called by any thread, as its standard says.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_ushort, c_void},
    mem::transmute,
    sync::OnceLock,
};

use mpi::ffi;

pub(in crate::mpi) use super::dead_address::note_newcomers;
use super::{PARENT_PORT, inject_failure::Name, is_loaded};
use crate::mpi::calls::{
    comm::{Comm, no_info},
    library::{Checked, check},
    ulfm::symbol,
};

/// Which collectives a communicator is to have, and all but those that divide by the length of a
/// message: that is 0 when the leader of a link hears nothing from the other one, and the division
/// ends all processes but the leader.
pub(in crate::mpi) const COLLECTIVES: &str = "ompi_comm_coll_preference";
pub(in crate::mpi) const WITHOUT_DIVISION: &[u8] = b"^tuned";

/// `PMIX_STRING`, and `PMIX_BYTE_OBJECT`.
const TEXT: c_ushort = 3;
const BYTES: c_ushort = 27;
/// What the two sides tell each other once they are connected, and how often at most: they look
/// for a number that both have free, which is found in two rounds when both have not lost many.
const EXCHANGES: [(&str, u32); 2] = [("nextcid", 8), ("activate", 2)];
/// All ranks of a job, without their number: MPI refuses it.
const NOBODY: &CStr = c"gone.*";

/// Returns no names: Open MPI itself ends a call that waits for the dead.
pub(in crate::mpi) fn names_of_started(_: u32) -> Vec<u64> {
    Vec::new()
}

/// Returns no names, as above.
pub(in crate::mpi) fn names_of_starter_and(_: u32) -> Vec<u64> {
    Vec::new()
}

/// Nobody has a name, as above.
pub(in crate::mpi) fn has_died(_: u64) -> bool {
    false
}

/// Returns no names, as above.
pub(in crate::mpi) fn names_of(_: &Comm) -> Vec<u64> {
    Vec::new()
}

type Spawn = unsafe extern "C" fn(
    c_int,
    *const *const c_char,
    *const *mut *mut c_char,
    *const c_int,
    *const ffi::MPI_Info,
    *const c_char,
) -> c_int;
type Create = unsafe extern "C" fn(usize) -> *mut c_void;
type Load = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, c_ushort) -> c_int;
type Publish = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void, usize);
type Job = unsafe extern "C" fn(*mut u32, *const c_char) -> c_int;

/// `pmix_byte_object_t`.
#[repr(C)]
struct Bytes {
    first: *mut u8,
    size: usize,
}

/// The functions of the library that this process runs with.
#[derive(Clone, Copy, Debug)]
struct Functions {
    spawn: Spawn,
    create: Create,
    load: Load,
    publish: Publish,
    free: Free,
    job: Job,
}

impl Functions {
    fn look_up() -> Option<Self> {
        if !is_loaded() {
            return None;
        }
        let spawn = symbol(c"ompi_dpm_spawn")?;
        let create = symbol(c"PMIx_Info_create")?;
        let load = symbol(c"PMIx_Info_load")?;
        let publish = symbol(c"PMIx_Publish")?;
        let free = symbol(c"PMIx_Info_free")?;
        let job = symbol(c"opal_pmix_convert_nspace")?;
        Some(Self {
            // SAFETY: in this major version the function of this name has this type, as all below.
            spawn: unsafe { transmute::<*mut c_void, Spawn>(spawn) },
            // SAFETY: as above.
            create: unsafe { transmute::<*mut c_void, Create>(create) },
            // SAFETY: as above.
            load: unsafe { transmute::<*mut c_void, Load>(load) },
            // SAFETY: as above.
            publish: unsafe { transmute::<*mut c_void, Publish>(publish) },
            // SAFETY: as above.
            free: unsafe { transmute::<*mut c_void, Free>(free) },
            // SAFETY: as above.
            job: unsafe { transmute::<*mut c_void, Job>(job) },
        })
    }
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// A spawn in steps, below the name of a port of its own.
#[derive(Clone, Debug)]
pub(in crate::mpi) struct Spawning {
    functions: Functions,
    port: CString,
}

impl Spawning {
    /// `None` where this MPI does it in one step only.
    pub(in crate::mpi) fn new() -> Option<Self> {
        let functions = (*FUNCTIONS.get_or_init(Functions::look_up))?;
        let mut name = [0_u8; ffi::MPI_MAX_PORT_NAME as usize + 1];
        // SAFETY: the array has room for the longest name, and keeps a zero at its end.
        let code = unsafe { ffi::MPI_Open_port(no_info(), name.as_mut_ptr().cast()) };
        let port = CStr::from_bytes_until_nul(&name).ok()?.to_owned();
        (code == 0).then_some(Self { functions, port })
    }

    /// What the environment of each of the new processes holds, and that of no other.
    pub(in crate::mpi) fn mark(&self) -> Vec<u8> {
        [PARENT_PORT.as_bytes(), b"=", self.port.to_bytes()].concat()
    }

    /// Starts the processes.
    ///
    /// # Safety
    ///
    /// The words end with a null pointer, the information is live.
    pub(in crate::mpi) unsafe fn start(
        &self,
        command: &CStr,
        words: *mut *mut c_char,
        count: c_int,
        information: ffi::MPI_Info,
    ) -> Checked<()> {
        let (command, port) = (command.as_ptr(), self.port.as_ptr());
        let (commands, counts) = (&raw const command, &raw const count);
        let (words, information) = (&raw const words, &raw const information);
        let code = {
            // SAFETY: lists of one; the rest is our caller's promise.
            unsafe { (self.functions.spawn)(1, commands, words, counts, information, port) }
        };
        check("MPI_Comm_spawn", code)
    }

    /// Waits for them.
    pub(in crate::mpi) fn link(&self, alone: ffi::MPI_Comm) -> Checked<ffi::MPI_Comm> {
        let port = self.port.as_ptr();
        // SAFETY: reading a constant that MPI's library defines.
        let mut made = unsafe { ffi::RSMPI_COMM_NULL };
        // SAFETY: the name ends with a zero; the result is a variable of ours.
        let code = unsafe { ffi::MPI_Comm_accept(port, no_info(), 0, alone, &raw mut made) };
        check("MPI_Comm_spawn", code).map(|()| made)
    }

    /// Ends [`Self::link`], or lets it fail when it comes. Any thread may call it.
    pub(in crate::mpi) fn give_up(&self) {
        let nobody = NOBODY.as_ptr().cast();
        let mut code = self.publish("connect", nobody, TEXT);
        // MPI unpacks two numbers of these.
        let mut byte = 0_u8;
        let broken = Bytes { first: &raw mut byte, size: 1 };
        for (tag, rounds) in EXCHANGES {
            for round in 0..rounds {
                let name = format!("{tag}:send:{round}");
                code = code.max(self.publish(&name, (&raw const broken).cast(), BYTES).abs());
            }
        }
        if code != 0 {
            tracing::warn!(code, "MPI may wait on for new processes that are dead");
        }
    }

    /// Publishes a value, which is copied, below a name of this port.
    fn publish(&self, name: &str, data: *const c_void, kind: c_ushort) -> c_int {
        let Functions { create, load, publish, free, .. } = self.functions;
        let key = [self.port.to_bytes(), b":", name.as_bytes()].concat();
        let Ok(key) = CString::new(key) else { return 0 };
        // SAFETY: the call takes a number and gives memory for as many values.
        let value = unsafe { create(1) };
        if value.is_null() {
            return 0;
        }
        // SAFETY: the key ends with a zero; the data are of this kind, as our callers know.
        let loaded = unsafe { load(value, key.as_ptr(), data, kind) };
        // SAFETY: a list of one value.
        let code = if loaded == 0 { unsafe { publish(value, 1) } } else { loaded };
        // SAFETY: made above, and used no more.
        unsafe { free(value, 1) };
        code
    }

    /// How MPI names a process of this job of the launcher. To be called by the thread that calls
    /// MPI.
    pub(in crate::mpi) fn name(&self, job: &CStr, rank: u32) -> Option<Name> {
        let mut number = 0;
        // SAFETY: the text ends with a zero, and is shorter than the longest; the result is ours.
        let code = unsafe { (self.functions.job)(&raw mut number, job.as_ptr()) };
        (code == 0).then_some(Name(u64::from(number) | u64::from(rank) << 32))
    }
}
