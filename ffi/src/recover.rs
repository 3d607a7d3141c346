//! Communicators after a failure: of the survivors, or complete again ([`rebuild`]).
//!
//! ```text
//! ishrink   ready ─ shrink ─ confirm     (commits of the old communicator)
//! ```
//!
//! Each step is a commit or one short call of MPI, and is taken while the program waits for the
//! request. A death in any of them ends in one error on all living ranks. The library decides which
//! step comes next; the part of it that needs the program's handles is here.

use std::ffi::c_int;

use fampi_core::{guest::GuestComm, mpi::Replacements};
use mpi::ffi::{MPI_Comm, MPI_Request};

use crate::{
    arguments::{list, put},
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_CREATION, Result, of_error},
    handles::{Entry, Kind},
    making::{Making, Plan, Stage, Survivor},
    origin::{free_comm, groups_of, links_two_groups, place_in},
    query::{known_failed, left_out},
    rebuild,
    state::{State, enter},
};

/// Goes on with a communicator in the making as far as possible.
pub(crate) fn advance(state: &mut State, raw: MPI_Request) {
    let Some(Entry { kind: Kind::Making(making), .. }) = state.entry(raw) else { return };
    let target = making.target;
    let stage = std::mem::replace(&mut making.stage, Stage::Over(FAMPI_ERR_CREATION));
    let stage = step(state, stage, target);
    if let Some(Entry { kind: Kind::Making(making), .. }) = state.entry(raw) {
        making.stage = stage;
    }
}

/// The stage after a step, or the one before it if that has to wait.
fn step(state: &mut State, stage: Stage, target: *mut MPI_Comm) -> Stage {
    match stage {
        Stage::Shrink(mut shrinking) => match state.guest.step(&mut shrinking) {
            None => Stage::Shrink(shrinking),
            Some(Err(error)) => Stage::Over(of_error(&error)),
            Some(Ok(comm)) => Stage::Over(shrunk(state, comm, target)),
        },
        // SAFETY: the program keeps both until the request is complete.
        Stage::ShrinkUnused(comm, more) => match unsafe { shrink_unused(state, comm, target) } {
            Ok(false) => Stage::ShrinkUnused(comm, more),
            Err(FAMPI_ERR_CREATION) if more > 0 => Stage::ShrinkUnused(comm, more - 1),
            ended => Stage::Over(ended.err().unwrap_or(0)),
        },
        Stage::Rebuild(phase, plan) => rebuild::step(state, phase, plan, target),
        over @ Stage::Over(_) => over,
    }
}

fn shrunk(state: &mut State, comm: GuestComm, target: *mut MPI_Comm) -> c_int {
    let data = state.guest.data(comm);
    let raw = data.and_then(|data| state.guest.with_mpi(|mpi| mpi.users_comm(data)));
    let Some(raw) = raw else { return FAMPI_ERR_CREATION };
    // SAFETY: the program keeps the variable until the request is complete.
    let told = state.know(raw, comm).and_then(|()| unsafe { put(target, raw) });
    told.err().unwrap_or(0)
}

/// The survivors of a communicator that was never in use take what MPI's own shrink makes of it
/// into use; false as long as not all of them have come.
///
/// # Safety
///
/// The communicator is live, the pointer null or to a variable.
pub(crate) unsafe fn shrink_unused(
    state: &mut State,
    comm: MPI_Comm,
    target: *mut MPI_Comm,
) -> Result<bool> {
    // SAFETY: live, as the program has promised.
    let come = state.guest.with_mpi(|mpi| unsafe { mpi.have_all_come(comm) });
    if !come.map_err(|error| of_error(&error))? {
        return Ok(false);
    }
    // SAFETY: as above.
    let made = state.guest.with_mpi(|mpi| unsafe { mpi.shrink_unused(comm) });
    let made = made.map_err(|error| of_error(&error))?;
    if let Err(code) = state.adopt(made) {
        free_comm(made);
        return Err(code);
    }
    // SAFETY: our caller's promise.
    unsafe { put(target, made) }.map(|()| true)
}

fn add(
    state: &mut State,
    stage: Stage,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    state.advance_making = Some(advance);
    let made = state.handles.add(Kind::Making(Box::new(Making::new(stage, newcomm))))?;
    // SAFETY: our callers' promise, asked for null before.
    unsafe { put(request, made) }
}

/// Starts to make a communicator of the living ranks, in the same order. All of them call it; a
/// block on `comm` that named the dead comes before. One that is not in use when a rank of it dies
/// can be shrunk, too, after a block on a communicator with all its processes that named the dead.
/// Progress is made in waits for the request, and for a block whose list has it
/// (`FAMPI_TryBlock_finish`). Communicators are made one at a time, in the same order on all ranks;
/// meanwhile no block is started on `comm`.
///
/// `newcomm` is written when the request is complete; the program frees it. Its errors return,
/// and it is in use already (`FAMPI_Init`). `comm` stays, revoked, until the program frees it. A
/// death that this call is the first to meet is in the reports of the blocks that are open on
/// `comm`, or in that of the next.
///
/// Waiting returns `FAMPI_ERR_CREATION`, on all living ranks, when further deaths disturbed it too
/// often. This call returns `FAMPI_ERR_PENDING` while another one is being made by fampi,
/// `FAMPI_ERR_COMM`, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointers are null, or to variables that live until the request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_ishrink(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    enter(|state| {
        if newcomm.is_null() || request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = State::started(state)?;
        state.nothing_in_the_making()?;
        let is_known = state.known(comm).is_some();
        if links_two_groups(comm)? {
            return Err(FAMPI_ERR_COMM);
        }
        if !is_known && known_failed(state, comm)?.is_some_and(|dead| !dead.is_empty()) {
            // Each further attempt is the end of another rank.
            let (_, size) = place_in(comm)?;
            return add(state, Stage::ShrinkUnused(comm, size), newcomm, request);
        }
        let comm = state.comm(comm)?;
        let shrinking = state.guest.shrink(comm).map_err(|error| of_error(&error))?;
        add(state, Stage::Shrink(shrinking), newcomm, request)
    })
}

/// Starts to make a communicator like `comm` was, with replacements in exactly the failed ranks.
/// All living ranks call it, after a block that named the dead, on `comm` or on a communicator in
/// use that has all of its ranks; `comm` was in use before they died (`FAMPI_Init`). Failed are
/// those that the shrunken communicator leaves out.
///
/// `aux_intercomm` links survivors and replacements (`FAMPI_Comm_spawn` over the shrunken
/// communicator). `ranks`, of meaning at rank `root` of `comm`, or at the next living one when
/// that is dead, says who takes which place: its k-th entry is the process that takes the k-th
/// failed rank, by its rank in the group of `aux_intercomm` that is not ours (`is_local` 0) or in
/// ours (`is_local` 1). The replacements call `FAMPI_Comm_irebuild_join`.
///
/// Several communicators can be rebuilt over one link, one after the other, such as the world, the
/// rows and the columns of a grid. Then all survivors call it in the same order, each for the
/// communicators that it has, also for those that have lost nobody (`N_ranks` 0): a replacement's
/// k-th join is for the k-th. Who gets an error for one of them goes on with the next, too: others
/// wait there. One of which nobody is left cannot be rebuilt: `MPI_Comm_split` of the new world
/// makes it. Free the old ones, and the link, when all have all, as a block on the new world says.
///
/// A link is in use like a communicator (`FAMPI_Init`), by a call of both of its groups; otherwise
/// the first rebuild over it takes it into use, to which all of its processes have to come.
/// That of `FAMPI_Comm_spawn` is in use.
///
/// Waiting returns `FAMPI_ERR_CREATION`, on all living ranks, when a process of the link died
/// meanwhile, which ends all rebuilds over it: shrink and spawn again; and on all others when
/// `root` has given another number than that of the failed ranks, or a rank that the link does not
/// have, or a rank a null pointer, which is `FAMPI_ERR_ARG` of this call there. This call returns
/// `FAMPI_ERR_CREATION` for a `comm` that was not in use, which ends all rebuilds over the link,
/// and `FAMPI_ERR_PENDING` while another communicator is being made. Otherwise `FAMPI_ERR_COMM`,
/// `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointers are null, or to variables that live until the request is complete; the array has
/// `N_ranks` numbers.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn FAMPI_Comm_irebuild(
    comm: MPI_Comm,
    root: c_int,
    aux_intercomm: MPI_Comm,
    N_ranks: c_int,
    ranks: *mut c_int,
    is_local: c_int,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    enter(|state| {
        let groups = groups_of(aux_intercomm)?;
        let state = State::started(state)?;
        state.nothing_in_the_making()?;
        let failed = state.comm(comm).inspect_err(|_| {
            // Others count on this rebuild before the next one.
            // SAFETY: a live link, as MPI has just said.
            state.guest.with_mpi(|mpi| unsafe { mpi.cut(aux_intercomm) });
        })?;
        let (me, size) = place_in(comm)?;
        if !(0..size).contains(&root) {
            return Err(FAMPI_ERR_ARG);
        }
        let vacant = left_out(state, comm)?.unwrap_or_default();
        let vacant: Vec<u32> = vacant.into_iter().map(c_int::cast_unsigned).collect();
        let is_dead = |rank: c_int| vacant.contains(&rank.cast_unsigned());
        let root = (root..size).chain(0..root).find(|rank| !is_dead(*rank)).unwrap_or(root);
        let (rank, size, is_root) = (me.cast_unsigned(), size.cast_unsigned(), me == root);
        // SAFETY: our caller's promise for the root.
        let given = if is_root { unsafe { list(N_ranks, ranks) } } else { Ok(&mut [][..]) };
        let most = groups[usize::from(is_local == 0)];
        let fits =
            |ranks: &&mut [c_int]| fills(ranks, vacant.len(), most) && (0..=1).contains(&is_local);
        let given = given.and_then(|ranks| {
            let is_right = (!is_root || fits(&ranks)) && !newcomm.is_null() && !request.is_null();
            if is_right { Ok(ranks) } else { Err(FAMPI_ERR_ARG) }
        });
        let ranks = given.iter().flat_map(|ranks| ranks.iter()).map(|rank| rank.cast_unsigned());
        let ranks = ranks.collect();
        let replacements = is_root.then_some(Replacements { are_local: is_local == 1, ranks });
        let root = root.cast_unsigned();
        let survivor = Survivor { comm: failed, rank, root, size, vacant, replacements };
        let plan = Plan::new(aux_intercomm, Some(survivor));
        if let Err(code) = given {
            rebuild::refuse(state, &plan);
            return Err(code);
        }
        let stage = rebuild::begin(state, plan);
        add(state, stage, newcomm, request)
    })
}

/// True when these are as many processes as places are vacant, each once, of so many.
fn fills(ranks: &[c_int], vacant: usize, most: c_int) -> bool {
    let mut taken = ranks.to_vec();
    taken.sort_unstable();
    taken.dedup();
    taken.len() == vacant && taken.iter().all(|it| (0..most).contains(it))
}

/// Starts to make a communicator of the ranks of one, and of so many that are linked to them, which
/// come behind them and call [`FAMPI_Comm_irebuild_join`]. As [`FAMPI_Comm_irebuild`] otherwise.
///
/// # Safety
///
/// The pointers are to variables that live until the request is complete.
pub(crate) unsafe fn igrow(
    comm: MPI_Comm,
    link: MPI_Comm,
    new: c_int,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    enter(|state| {
        groups_of(link)?;
        let state = State::started(state)?;
        let living = state.comm(comm)?;
        let (me, old) = place_in(comm)?;
        let (rank, old, new) = (me.cast_unsigned(), old.cast_unsigned(), new.cast_unsigned());
        let ranks = (0..new).collect();
        let replacements = (rank == 0).then_some(Replacements { are_local: false, ranks });
        let (size, vacant) = (old + new, (old..old + new).collect());
        let survivor = Survivor { comm: living, rank, root: 0, size, vacant, replacements };
        let stage = rebuild::begin(state, Plan::new(link, Some(survivor)));
        add(state, stage, newcomm, request)
    })
}

/// The part of a replacement in `FAMPI_Comm_irebuild`: `aux_intercomm` links it to the survivors
/// (`FAMPI_Comm_get_parent`). A process that is to have ranks of several communicators calls it for
/// one after the other. A wait for the request keeps to its timeout, however late the survivors
/// come.
///
/// Waiting returns `FAMPI_ERR_CREATION` when the rebuild failed: this process is not needed, unless
/// it has joined another communicator over this link, which lives on and recovers. This call
/// returns `FAMPI_ERR_PENDING` while another one is being made.
///
/// # Safety
///
/// The pointers are null, or to variables that live until the request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_irebuild_join(
    aux_intercomm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    enter(|state| {
        if newcomm.is_null() || request.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        groups_of(aux_intercomm)?;
        let state = State::started(state)?;
        state.nothing_in_the_making()?;
        let stage = rebuild::begin(state, Plan::new(aux_intercomm, None));
        add(state, stage, newcomm, request)
    })
}
