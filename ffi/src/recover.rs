//! Communicators after a failure: of the survivors, or complete again with replacements.
//!
//! ```text
//! ishrink   ready ─ shrink ─ confirm                      (commits of the old communicator)
//! irebuild  ready ─ merge, who goes where, split ─ confirm ─ welcome  (of the new one)
//! join              merge, who goes where, split ─────────── welcome
//! ```
//!
//! Each step is a commit or one short call of MPI, and is taken while the program waits for the
//! request. A death in any of them ends in one error on all living ranks. The library decides which
//! step comes next; the part of it that needs the program's handles is here.

use std::ffi::c_int;

use fampi_core::{
    guest::{Guest, GuestComm, Repairing, Task},
    mpi::Seat,
};
use mpi::ffi::{MPI_Comm, MPI_Request};

use crate::{
    arguments::{list, put},
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_CREATION, Result, of_error},
    handles::{Entry, Kind},
    making::{Making, Plan, Stage},
    origin::{links_two_groups, place_in},
    query::known_failed,
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
        Stage::ShrinkUnused(comm) => {
            Stage::Over(shrink_unused(state, comm, target).err().unwrap_or(0))
        }
        Stage::Rebuild(mut repairing, mut plan) => {
            let over = rebuild(state, &mut repairing, &mut plan, target);
            over.map_or(Stage::Rebuild(repairing, plan), Stage::Over)
        }
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
/// into use.
fn shrink_unused(state: &mut State, comm: MPI_Comm, target: *mut MPI_Comm) -> Result<()> {
    // SAFETY: live, as the program has promised.
    let made = state.guest.with_mpi(|mpi| unsafe { mpi.shrink_unused(comm) });
    let made = made.map_err(|error| of_error(&error))?;
    state.comm(made)?;
    // SAFETY: the program keeps the variable until the request is complete.
    unsafe { put(target, made) }
}

/// Does what a rebuild asks for, until it has to wait; the return code, once it is over.
fn rebuild(
    state: &mut State,
    repairing: &mut Repairing,
    plan: &mut Plan,
    target: *mut MPI_Comm,
) -> Option<c_int> {
    loop {
        if let Some(expected) = &mut plan.expected {
            let link = plan.link;
            // SAFETY: the link is live, as the program has promised.
            if !state.guest.with_mpi(|mpi| unsafe { mpi.have_come(link, expected) }) {
                return None;
            }
            plan.expected = None;
            repairing.handle_made(make(state, plan));
        }
        match state.guest.next_task(repairing)? {
            Task::Make => {
                // SAFETY: as above.
                let expected =
                    state.guest.with_mpi(|mpi| unsafe { mpi.come(plan.link, &plan.seat) });
                plan.expected = Some(expected);
            }
            Task::Cut => {
                // SAFETY: the link is live, as the program has promised.
                state.guest.with_mpi(|mpi| unsafe { mpi.cut(plan.link) });
            }
            Task::Complete => {
                let Some(made) = plan.made else { return Some(FAMPI_ERR_CREATION) };
                // SAFETY: the program keeps the variable until the request is complete.
                let told = unsafe { put(target, made) };
                return Some(told.err().unwrap_or(0));
            }
            Task::Fail => return Some(FAMPI_ERR_CREATION),
        }
    }
}

/// The short calls of a rebuild.
fn make(state: &mut State, plan: &mut Plan) -> Option<GuestComm> {
    // SAFETY: the link is live, as the program has promised.
    let made = state.guest.with_mpi(|mpi| unsafe { mpi.seat(plan.link, &plan.seat) });
    plan.made = made.ok();
    state.comm(plan.made?).ok()
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
/// can be shrunk, too, after a block on a communicator with all its processes that named the dead;
/// the wait for that one blocks in MPI's own shrink. Progress is made in waits for the request, and
/// for a block whose list has it (`FAMPI_TryBlock_finish`). Communicators are made one at a time,
/// in the same order on all ranks; meanwhile no block is started on `comm`.
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
        let is_known = state.known(comm).is_some();
        if !is_known && known_failed(state, comm)?.is_some_and(|dead| !dead.is_empty()) {
            return add(state, Stage::ShrinkUnused(comm), newcomm, request);
        }
        let comm = state.comm(comm)?;
        let shrinking = state.guest.shrink(comm).map_err(|error| of_error(&error))?;
        add(state, Stage::Shrink(shrinking), newcomm, request)
    })
}

/// Starts to make a communicator like `comm` was, with replacements in exactly the failed ranks.
/// All living ranks call it, after a block on `comm` that named the dead; failed are those that the
/// shrunken communicator leaves out.
///
/// `aux_intercomm` links the survivors to the replacements (`FAMPI_Comm_spawn` over the shrunken
/// communicator). `ranks`, of meaning at rank `root` of `comm`, or at the next living one when
/// that is dead, says who takes which place: its k-th entry is the rank, in the group of
/// `aux_intercomm` that is not ours (`is_local` 0), of the process that takes the k-th failed
/// rank. The replacements call `FAMPI_Comm_irebuild_join`.
///
/// `MPI_Comm_spawn`, and `MPI_Intercomm_merge` where it is used instead of this, are the program's
/// own calls: MPI may not come back from them when a process dies in their middle.
///
/// Waiting returns `FAMPI_ERR_CREATION`, on all living ranks, when a process died meanwhile: shrink
/// and spawn again; and on all others when `root` has given another number than that of the failed
/// ranks, which is `FAMPI_ERR_ARG` of this call there. It returns that also for `is_local` 1;
/// `FAMPI_ERR_COMM`, `FAMPI_ERR_COUNT`.
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
        // SAFETY: our caller's promise.
        let ranks = unsafe { list(N_ranks, ranks) }?;
        if newcomm.is_null() || request.is_null() || is_local != 0 {
            return Err(FAMPI_ERR_ARG);
        }
        check_link(aux_intercomm)?;
        let state = State::started(state)?;
        let failed = state.comm(comm)?;
        let dead = state.guest.left_out(failed);
        let (me, size) = place_in(comm)?;
        let mut taken: Vec<c_int> = ranks.to_vec();
        taken.sort_unstable();
        taken.dedup();
        let fits = taken.len() == dead.len() && taken.first().is_none_or(|first| *first >= 0);
        if !(0..size).contains(&root) {
            return Err(FAMPI_ERR_ARG);
        }
        let is_dead = |rank: c_int| dead.contains((rank as u32).into());
        let root = (root..size).chain(0..root).find(|rank| !is_dead(*rank)).unwrap_or(root);
        if me == root && !fits {
            // The others wait for this rank's word.
            state.guest.refuse_repair(failed);
            return Err(FAMPI_ERR_ARG);
        }
        let seats = (me == root).then(|| {
            ranks.iter().zip(dead.iter()).map(|(new, dead)| (*new as u32, dead.number())).collect()
        });
        let seat = Seat::Survivor { rank: me as u32, seats };
        let plan = Plan::new(aux_intercomm, seat);
        let repairing = state.guest.repair(failed);
        add(state, Stage::Rebuild(repairing, plan), newcomm, request)
    })
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
        check_link(link)?;
        let state = State::started(state)?;
        let living = state.comm(comm)?;
        let (me, size) = place_in(comm)?;
        let seats = (me == 0).then(|| (0..new as u32).map(|at| (at, size as u32 + at)).collect());
        let plan = Plan::new(link, Seat::Survivor { rank: me as u32, seats });
        let repairing = state.guest.repair(living);
        add(state, Stage::Rebuild(repairing, plan), newcomm, request)
    })
}

/// The part of a replacement in `FAMPI_Comm_irebuild`: `aux_intercomm` links it to the survivors
/// (`FAMPI_Comm_get_parent`). A wait for the request keeps to its timeout, however late the
/// survivors come.
///
/// Waiting returns `FAMPI_ERR_CREATION` when the rebuild failed: this process is not needed.
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
        check_link(aux_intercomm)?;
        let state = State::started(state)?;
        let plan = Plan::new(aux_intercomm, Seat::Replacement);
        add(state, Stage::Rebuild(Guest::enter_repair(), plan), newcomm, request)
    })
}

/// MPI knows this handle, and it links two groups.
fn check_link(raw: MPI_Comm) -> Result<()> {
    if links_two_groups(raw)? { Ok(()) } else { Err(FAMPI_ERR_COMM) }
}
