//! New processes: started so that a death in the middle of it holds nobody up.
//!
//! `MPI_Comm_spawn` over several ranks waits for ever when one of them dies, and what it has
//! started waits in `MPI_Init`. Here one rank calls it alone, while the others wait in a way that
//! ends; each process watches its own start, from the moment at which this library is loaded.

use std::ffi::{CStr, c_char, c_int};

use fampi_core::{Error, mpi::Command};
use mpi::ffi::{self, MPI_Comm, MPI_Info};

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_INTERNAL, FAMPI_ERR_STATE, Result, of_error},
    origin::place_in,
    state::{State, enter, say},
};

/// Starts processes, and links them to the ranks of `comm`, a shrunken communicator, for
/// `FAMPI_Comm_irebuild` or `MPI_Intercomm_merge`. All its ranks call it. Rank 0 gives what to
/// start, in the working folder that it has: `command`, its words `argv` with a null pointer at the
/// end (`MPI_ARGV_NULL` for none), how many, and hints (`MPI_INFO_NULL` for none). The new
/// processes call `FAMPI_Comm_get_parent`.
///
/// It does what `MPI_Comm_spawn` does, which may never return when a process dies in its middle.
/// Blocking: a rank whose MPI does not return from it ends itself, and so does a new process that
/// does not come out of `MPI_Init`, or whose starter has died; each says so on standard error.
///
/// Returns, on all living ranks, `FAMPI_ERR_CREATION` when a process died meanwhile: shrink and
/// spawn again; `FAMPI_ERR_UNSUPPORTED` when the launcher refused; `MPI_ERR_ARG` when rank 0 gave a
/// null pointer or a number below 1. Otherwise `FAMPI_ERR_ARG` for no `intercomm`,
/// `FAMPI_ERR_COMM`.
///
/// # Safety
///
/// The pointers are null or as said; at the ranks other than 0 what to start is not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    count: c_int,
    info: MPI_Info,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
) -> c_int {
    enter(|state| {
        if intercomm.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        let (me, _) = place_in(comm)?;
        let comm = state.comm(comm)?;
        let data = state.guest.data(comm).ok_or(FAMPI_ERR_INTERNAL)?;
        // SAFETY: our caller's promise for rank 0.
        let wanted = if me == 0 { unsafe { wanted(command, argv, count, info) } } else { None };
        // SAFETY: our caller's promise.
        let made = state.guest.with_mpi(|mpi| unsafe { mpi.spawn_for(data, wanted) });
        let made = made.map_err(|error| {
            if let Error::Unsupported(why) = &error {
                say(why);
            }
            of_error(&error)
        })?;
        state.watch_link(made)?;
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(intercomm, made) }
    })
}

/// What is to be started, if it makes sense.
///
/// # Safety
///
/// The pointers are null or as said in [`FAMPI_Comm_spawn`].
unsafe fn wanted(
    command: *const c_char,
    argv: *mut *mut c_char,
    count: c_int,
    information: MPI_Info,
) -> Option<Command> {
    let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
    // SAFETY: a text, as our caller promises, unless it is null.
    let program = (!command.is_null()).then(|| unsafe { CStr::from_ptr(command) })?.to_owned();
    // SAFETY: our caller's promise.
    let arguments = unsafe { texts(argv) }.map(CStr::to_owned).collect();
    Some(Command { program, arguments, count, information })
}

/// The link to the ranks that have started this process by `FAMPI_Comm_spawn`. All processes that
/// were started together call it, before anything else of fampi, and once; it blocks. In others it
/// is `MPI_Comm_get_parent`.
///
/// Returns `FAMPI_ERR_CREATION` when the start was in vain: this process is not needed.
/// `FAMPI_ERR_STATE` where the link was given before, also to `FAMPI_World_init`. `FAMPI_ERR_ARG`
/// for a null pointer.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    enter(|state| {
        if parent.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let link = own_link(State::started(state)?)?.map_or_else(parent_of_mpi, Ok)?;
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(parent, link) }
    })
}

/// The link of a process that was started by [`FAMPI_Comm_spawn`].
fn own_link(state: &mut State) -> Result<Option<MPI_Comm>> {
    if state.own_link.is_some() {
        // Those at its other end come once.
        return Err(FAMPI_ERR_STATE);
    }
    let link = state.guest.with_mpi(fampi_core::mpi::MpiPlatform::link_to_parents);
    let link = link.map_err(|error| of_error(&error))?;
    if let Some(link) = link {
        state.own_link = Some(link);
        state.watch_link(link)?;
    }
    Ok(link)
}

/// The link of a process that was started by [`FAMPI_Comm_spawn`], asked for in a call of its own.
pub(crate) fn link_to_parents() -> Result<Option<MPI_Comm>> {
    let mut link = None;
    let code = enter(|state| {
        link = own_link(State::started(state)?)?;
        Ok(())
    });
    if code == 0 { Ok(link) } else { Err(code) }
}

fn parent_of_mpi() -> Result<MPI_Comm> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut parent = unsafe { ffi::RSMPI_COMM_NULL };
    // SAFETY: the result is a variable of ours.
    let code = unsafe { ffi::MPI_Comm_get_parent(&raw mut parent) };
    if code == 0 { Ok(parent) } else { Err(code) }
}

/// The texts of a list that ends with a null pointer; none for a list that is null.
///
/// # Safety
///
/// The list is null, or as said.
pub(crate) unsafe fn texts<'a>(list: *mut *mut c_char) -> impl Iterator<Item = &'a CStr> {
    let text = move |at| {
        if list.is_null() {
            return None;
        }
        // SAFETY: all before this one were texts, so the list goes on.
        let place = unsafe { list.add(at) };
        // SAFETY: the list goes on up to its null pointer.
        let text = unsafe { *place };
        // SAFETY: not null, so a text.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    };
    (0..).map_while(text)
}
