//! A world that survives: algorithm 1 of the paper as three functions.
//!
//! ```text
//! FAMPI_World_init      a world; on a replacement the one that it takes part in from now on
//!   blocks on it …      faulty, the same on all living ranks
//! FAMPI_World_recover   the next one, where a process has died
//! FAMPI_World_free      the end of it, and of the spares
//! ```
//!
//! One process has one of them. A [`Pool`] knows who holds which rank.
//!
//! Reference: Hassani et al. 2015, algorithm 1.

use std::{
    cell::RefCell,
    env,
    ffi::{CString, c_char, c_int},
    mem::replace,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
};

use mpi::ffi::MPI_Comm;

use crate::{
    arguments::put,
    calls,
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_CREATION, FAMPI_ERR_INTERNAL, FAMPI_ERR_STATE,
        FAMPI_ERR_THREAD, FAMPI_RECOVERY_MERGE, FAMPI_RECOVERY_REBUILD, FAMPI_RECOVERY_SHRINK,
        Result,
    },
    origin::{free_comm, no_comm, place_in},
    owned::Owned,
    pool::{self, Entry, Pool},
    spawn::{link_to_parents, texts},
    state,
};

/// The world of this process.
struct World {
    comm: MPI_Comm,
    recovery: c_int,
    pool: Pool,
}

static WORLD: Owned<RefCell<Option<World>>> = Owned::new(RefCell::new(None));

/// This process has entered a world, or has tried to.
static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Runs the body of a function; its result becomes the return code.
fn with_world(body: impl FnOnce(&mut Option<World>) -> Result<()>) -> c_int {
    let Some(world) = WORLD.get() else { return FAMPI_ERR_THREAD };
    let guarded = catch_unwind(AssertUnwindSafe(|| {
        let mut world = world.try_borrow_mut().map_err(|_| FAMPI_ERR_INTERNAL)?;
        body(&mut world)
    }));
    guarded.map_or_else(
        |_| {
            state::close(FAMPI_ERR_INTERNAL);
            FAMPI_ERR_INTERNAL
        },
        |done| done.err().unwrap_or(0),
    )
}

/// Enters a world that survives the death of processes. All processes that were launched call it,
/// once, after `MPI_Init`, and so do those that replace others; it blocks.
///
/// `recovery` says what `FAMPI_World_recover` does with failed ranks. `argv`, which ends with a
/// null pointer, is what a new process runs, the program first: that of `main` starts the same
/// program. It is read in this call alone. Where it is null no process is started. Both are the
/// same on all ranks.
///
/// Of the processes of the launch the last `FAMPI_SPARES` (an environment variable, which
/// `fampi run --spares` sets) are parked: they come out of this call when they are needed; one that
/// is not needed ends in it, with `MPI_Finalize` and status 0.
///
/// `world` becomes a duplicate of `MPI_COMM_WORLD` without the spares, or, on a replacement, the
/// world that has been recovered, with `is_replacement` 1: it has the rank of a dead one and none
/// of its data. Who takes the place of a process that died before there was a world is like all
/// others. It is in use (`FAMPI_Init`) and stays the library's: `FAMPI_World_free` frees it.
///
/// Returns, on all living ranks, `FAMPI_ERR_CREATION` when a process died before the world was
/// there, and no process could be put in its place: at the beginning, where `MPI_COMM_WORLD` is
/// taken into use and duplicated, none can. `FAMPI_ERR_ARG` for null pointers, an unknown recovery
/// or as many spares as processes, `FAMPI_ERR_STATE` for a second call, whatever came of the first,
/// else as `FAMPI_Init`.
///
/// # Safety
///
/// `argv` is null or a list of texts with a null pointer at its end; the other pointers are null or
/// to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_World_init(
    recovery: c_int,
    argv: *mut *mut c_char,
    world: *mut MPI_Comm,
    is_replacement: *mut c_int,
) -> c_int {
    with_world(|kept| {
        if world.is_null() || is_replacement.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let known = [FAMPI_RECOVERY_REBUILD, FAMPI_RECOVERY_SHRINK, FAMPI_RECOVERY_MERGE];
        if !known.contains(&recovery) {
            return Err(FAMPI_ERR_ARG);
        }
        // SAFETY: our caller's promise.
        let words = unsafe { texts(argv) }.map(CString::from).collect();
        let (pool, comm, is_new) = entered(recovery, words)?;
        *kept = Some(World { comm, recovery, pool });
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(world, comm) }?;
        // SAFETY: as above.
        unsafe { put(is_replacement, c_int::from(is_new)) }
    })
}

/// The pool, the world, and whether this process is new in it. A process that is not needed ends.
fn entered(recovery: c_int, words: Vec<CString>) -> Result<(Pool, MPI_Comm, bool)> {
    let closes_ranks = recovery == FAMPI_RECOVERY_MERGE;
    let link = match link_to_parents() {
        Err(FAMPI_ERR_CREATION) => leave(None),
        link => link?,
    };
    if HAS_ENTERED.swap(true, Ordering::Relaxed) {
        return Err(FAMPI_ERR_STATE);
    }
    if let Some(link) = link {
        let Ok(comm) = calls::join(link) else { leave(None) };
        free_comm(link);
        let mut pool = Pool::joined(comm, closes_ranks, words)?;
        return match pool.recover(Entry::New) {
            Ok(Some(world)) => {
                let is_new = replace(&mut pool.has_had_world, true);
                Ok((pool, world, is_new))
            }
            Ok(None) => enter_late(pool),
            Err(_) => leave(Some(pool)),
        };
    }
    let comm = pool::of_all()?;
    let (_, size) = place_in(comm)?;
    let wanted = env::var("FAMPI_SPARES").ok().and_then(|spares| spares.trim().parse().ok());
    let spares = wanted.unwrap_or(0).max(0);
    if spares >= size {
        free_comm(comm);
        return Err(FAMPI_ERR_ARG);
    }
    let mut pool = Pool::of_launch(comm, spares, closes_ranks, words)?;
    match pool.recover(Entry::Whole) {
        Ok(Some(world)) => {
            pool.has_had_world = true;
            Ok((pool, world, false))
        }
        Ok(None) => enter_late(pool),
        Err(code) => {
            pool.free();
            Err(code)
        }
    }
}

/// A process that has no rank yet.
fn enter_late(mut pool: Pool) -> Result<(Pool, MPI_Comm, bool)> {
    pool.has_had_world = true;
    match pool.park() {
        Some(world) => Ok((pool, world, true)),
        None => leave(Some(pool)),
    }
}

/// Ends a process that nobody needs.
fn leave(pool: Option<Pool>) -> ! {
    if let Some(pool) = pool {
        pool.free();
    }
    calls::finalize();
    exit(0)
}

/// Replaces the world after a faulty block on it, where a process has died. All living ranks call
/// it after the same block, as the verdict and the report are the same on all of them; it blocks.
///
/// Where no block on the world has named a dead rank nothing happens, and the world is the same: it
/// can be called after every faulty block. Otherwise `world` becomes the next one, and the old one
/// is freed: whatever was pending on it is over (`FAMPI_TryBlock_finish`). Rank and size may have
/// changed, and what was derived from the old one is to be derived again. Replacements come out of
/// `FAMPI_World_init` meanwhile; then all ranks need the data of the dead (`FAMPI_Restore`).
///
/// With `FAMPI_RECOVERY_REBUILD` and `FAMPI_RECOVERY_MERGE` spares are used first; for those that
/// are lacking new processes are started. A death in the middle of it is one more attempt, of five.
///
/// Returns, on all living ranks, `FAMPI_ERR_CREATION` when it cannot be done: too many deaths in
/// it, or too few spares where no process is to be started; `FAMPI_ERR_UNSUPPORTED` when the
/// launcher refused to start any. The world is as it was then, with its dead. `FAMPI_ERR_PENDING`
/// while the program has fampi make a communicator, `FAMPI_ERR_COMM` for another one than that of
/// `FAMPI_World_init`, `FAMPI_ERR_STATE` before it, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_World_recover(world: *mut MPI_Comm) -> c_int {
    with_world(|kept| {
        // SAFETY: our caller's promise.
        let kept = unsafe { the_world(kept, world) }?.ok_or(FAMPI_ERR_STATE)?;
        if !calls::has_lost_ranks(kept.comm)? {
            return Ok(());
        }
        // Before the spares are woken up, who would wait for the ranks.
        calls::nothing_in_the_making()?;
        let next = if kept.recovery == FAMPI_RECOVERY_SHRINK {
            calls::shrink(kept.comm)?
        } else {
            kept.pool.wake()?;
            // Whoever holds a rank keeps one.
            kept.pool.recover(Entry::Shrink)?.ok_or(FAMPI_ERR_INTERNAL)?
        };
        free_comm(replace(&mut kept.comm, next));
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(world, next) }
    })
}

/// Frees the world, before `MPI_Finalize`, and lets the spares go. All living ranks call it after
/// their last block, in which nobody has died, or which they do not recover from. Where there are
/// spares it waits for all. `world` becomes `MPI_COMM_NULL`.
///
/// Returns `FAMPI_ERR_COMM`, `FAMPI_ERR_STATE`, `FAMPI_ERR_ARG` as `FAMPI_World_recover`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_World_free(world: *mut MPI_Comm) -> c_int {
    with_world(|kept| {
        // SAFETY: our caller's promise.
        unsafe { the_world(kept, world) }?.ok_or(FAMPI_ERR_STATE)?;
        let Some(World { comm, pool, .. }) = kept.take() else { return Err(FAMPI_ERR_STATE) };
        free_comm(comm);
        let dismissed = pool.dismiss();
        pool.free();
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(world, no_comm()) }?;
        dismissed
    })
}

/// The world, if it is the one that the program means.
///
/// # Safety
///
/// The pointer is null or to a variable.
unsafe fn the_world(
    kept: &mut Option<World>,
    meant: *const MPI_Comm,
) -> Result<Option<&mut World>> {
    if meant.is_null() {
        return Err(FAMPI_ERR_ARG);
    }
    // SAFETY: asked for null above, and the rest is our caller's promise.
    let meant = unsafe { meant.read() };
    match kept {
        Some(world) if world.comm != meant => Err(FAMPI_ERR_COMM),
        world => Ok(world.as_mut()),
    }
}
