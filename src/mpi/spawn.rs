//! Replacements by `MPI_Comm_spawn`: the lowest survivor spawns alone, then all link up.
//!
//! ```text
//! root        spawn ─ merge ─┐ bridge
//! replacements        merge ─┘ ─ link ─ merge ─ control, roster
//! survivors   (wait for the word of the root) ─ link ─ merge ─ control, roster
//! ```
//!
//! A death before the word of the root, or after the second merge, leads to an error here and to
//! another attempt. In the few milliseconds between, Open MPI's creation of a link can wait for
//! ever; the watchdog then ends a replacement, or the root, which frees the others.
//!
//! **Assumes** that the root does not die in the middle of `MPI_Comm_spawn`: the launcher of Open
//! MPI 5.0.9 can crash then, and the job with it. Spares have no such moment.

use std::{
    ffi::{CString, OsString, c_char, c_int},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    thread,
    time::{Duration, Instant},
};

use mpi::ffi;

use super::{
    MpiPlatform,
    calls::{Checked, Refusal, check},
    comm::{self, Comm},
    environment, exit, groups,
    request::Request,
    ulfm::Ulfm,
    watchdog, watcher,
    wire::Wire,
};
use crate::{
    engine::platform::{Origin, UniverseId},
    error::Error,
    rank::Rank,
};

/// Tells a spawned process who its parent is: `pid@node`.
pub(super) const PARENT_VARIABLE: &str = "FAMPI_PARENT";
const TAG: u32 = 3;
/// The word of the root when all is well.
const GO: i32 = 0;
/// Class `MPI_ERR_SPAWN`.
const SPAWN: i32 = 50;
/// Busy tests before a waiting process leaves its core to those that start.
const BUSY_TESTS: u32 = 200;

impl MpiPlatform {
    /// `living` and `count` new processes, in this order.
    pub(super) fn spawn_into(
        &mut self,
        old: &Comm,
        living: &Comm,
        count: u32,
    ) -> Result<Comm, Error> {
        let ulfm = self.ulfm;
        let root = living.rank() == Rank::new(0);
        let (bridge, word) = if root {
            let began = Instant::now();
            let bridge = spawn_and_merge(count, ulfm);
            let took_us = began.elapsed().as_micros() as u64;
            tracing::info!(target: "fampi::recovery", count, took_us, "processes started");
            let word = bridge.as_ref().err().map_or(GO, |refusal| refusal.class);
            (bridge.ok(), tell(living, word).map(|()| word))
        } else {
            (None, hear(living))
        };
        // What failed long ago may have locked it since.
        Comm::free_numbering();
        let linked = word.and_then(|word| match word {
            GO => living.link(bridge.as_ref(), 1),
            class => Err(Refusal { call: "MPI_Comm_spawn", class }),
        });
        let common: Vec<Comm> = [Some(*living), bridge].into_iter().flatten().collect();
        let merged = match confirm(old, ulfm, linked) {
            Ok(link) => confirm(old, ulfm, link.merge(false)).inspect_err(|_| link.revoke(ulfm)),
            Err(refusal) => Err(refusal),
        };
        merged.map_err(|refusal| {
            let error = groups::failed(refusal, &common, ulfm);
            if refusal.call != "MPI_Comm_spawn" || refusal.is_failure() {
                return error;
            }
            Error::Unsupported(format!(
                "the launcher refused to start {count} replacements (MPI error class {}); \
                 give it more slots, or start the job with spares",
                refusal.class
            ))
        })
    }

    /// The part of a new process.
    pub(super) fn join_universe(&mut self) -> Result<(UniverseId, Rank, Vec<u8>), Error> {
        let (parent, siblings) = self.spawned.ok_or(Error::NotNeeded)?;
        let mut common = vec![parent, siblings];
        let made = parent.merge(true).and_then(|bridge| {
            common.push(bridge);
            let link = siblings.link(Some(&bridge), 0)?;
            common.push(link);
            link.merge(true)
        });
        let joined = match made {
            Ok(source) => {
                common.push(source);
                self.settle_universe(source, &[], &common)
                    .map(|(universe, roster)| (universe, source.rank(), roster))
            }
            Err(refusal) => Err(groups::failed(refusal, &common, self.ulfm)),
        };
        watchdog::set_parent(None);
        joined.map_err(|_| Error::NotNeeded)
    }
}

/// The result, if everybody living has one.
fn confirm(old: &Comm, ulfm: &Ulfm, made: Checked<Comm>) -> Checked<Comm> {
    old.acknowledge_failures(ulfm);
    let all = old.unanimous(ulfm, made.is_ok());
    match made {
        Ok(comm) if !all => {
            comm.revoke(ulfm);
            Err(Refusal { call: "MPIX_Comm_agree", class: super::calls::PROC_FAILED })
        }
        made => made,
    }
}

/// The processes started, with this one before them.
fn spawn_and_merge(count: u32, ulfm: &Ulfm) -> Checked<Comm> {
    let started = spawn(count)?;
    started.merge(false).inspect_err(|_| started.revoke(ulfm))
}

/// `MPI_Comm_spawn` of this very program, with its arguments, in its folder.
fn spawn(count: u32) -> Checked<Comm> {
    let refused = Refusal { call: "MPI_Comm_spawn", class: SPAWN };
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| refused);
    let program = std::env::current_exe().map_err(|_| refused)?;
    let program = CString::new(program.as_os_str().as_bytes()).map_err(|_| refused)?;
    let arguments: Vec<CString> =
        std::env::args_os().skip(1).map(text).collect::<Result<_, _>>()?;
    let mut pointers: Vec<*mut c_char> =
        arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    pointers.push(comm::nothing());
    let information = Information::for_replacements()?;
    let alone = Comm::alone()?;
    // SAFETY: reading a constant that MPI's library defines.
    let mut made = unsafe { ffi::RSMPI_COMM_NULL };
    let mut codes: Vec<c_int> = vec![0; count as usize];
    let (count, info) = (count.cast_signed(), information.0);
    let (command, list) = (program.as_ptr(), pointers.as_mut_ptr());
    let inside = watchdog::spawning();
    let code = {
        // SAFETY: texts end with a zero, the list with null; one code per process; all live here.
        unsafe {
            let (raw, errors) = (alone.raw(), codes.as_mut_ptr());
            ffi::MPI_Comm_spawn(command, list, count, info, 0, raw, &raw mut made, errors)
        }
    };
    drop(inside);
    check("MPI_Comm_spawn", code)?;
    // SAFETY: the call succeeded and gave a link that lives until `free_all`.
    let made = unsafe { Comm::from_raw(made) }?;
    Ok(made.remembered())
}

/// Hints for the launcher; freed with the scope.
struct Information(ffi::MPI_Info);

impl Information {
    fn for_replacements() -> Checked<Self> {
        let mut made = Self(comm::no_info());
        // SAFETY: the result is a variable of ours.
        check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut made.0) })?;
        if let Ok(folder) = std::env::current_dir() {
            made.set("wdir", folder.as_os_str().as_bytes())?;
        }
        made.set("PMIX_ENVAR", environment().as_bytes())?;
        Ok(made)
    }

    fn set(&self, key: &str, value: &[u8]) -> Checked<()> {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else { return Ok(()) };
        // SAFETY: both texts end with a zero; the object is ours.
        check("MPI_Info_set", unsafe { ffi::MPI_Info_set(self.0, key.as_ptr(), value.as_ptr()) })
    }
}

impl Drop for Information {
    fn drop(&mut self) {
        // SAFETY: ours alone, and used no more; a refusal only leaks it.
        let _ = unsafe { ffi::MPI_Info_free(&raw mut self.0) };
    }
}

/// What new processes need to know beyond the launcher's own environment, which they get from
/// it: a short text, since MPI limits the values of an info object to 255 characters.
fn environment() -> String {
    format!("{PARENT_VARIABLE}={}@{}", std::process::id(), exit::node_name())
}

/// The root's word to all others.
fn tell(living: &Comm, word: i32) -> Checked<()> {
    for other in (1..living.size()).map(Rank::new) {
        let mut wire = Wire::new(4);
        wire.write(&word.to_le_bytes());
        // SAFETY: the memory is kept until the wait is over; an error ends a request, too.
        let sent = unsafe {
            Request::send(living, &wire.exposure(4), other, TAG, false, &watchdog::ordinary())
        };
        sent.and_then(wait)?;
    }
    Ok(())
}

/// The root's word, or its death.
fn hear(living: &Comm) -> Checked<i32> {
    let wire = Wire::new(4);
    let from = Some(Rank::new(0));
    // SAFETY: as in `tell`.
    let posted = unsafe {
        Request::receive(living, &wire.exposure(4), from, Some(TAG), &watchdog::ordinary())
    };
    posted.and_then(wait)?;
    Ok(wire.read(4, |bytes| bytes.try_into().map_or(SPAWN, i32::from_le_bytes)))
}

/// Waits without using a core for long: those that start need it.
fn wait(mut request: Request) -> Checked<()> {
    let mut tests = 0_u32;
    while request.test()?.is_none() {
        tests += 1;
        if tests > BUSY_TESTS {
            watcher::look();
            thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(())
}

/// What this process of a launch is; the last processes of the communicator are spares.
pub(super) fn launched(comm: &Comm, spawns: bool) -> Result<Origin, Error> {
    let (rank, size, spares) = (comm.rank(), comm.size(), environment::spares()?);
    Ok(Origin::Launched { rank, size, spares, spawns })
}
