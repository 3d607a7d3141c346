//! A communicator of survivors and replacements in the making, step by step.
//!
//! ```text
//! survivors     report ─ link ─ seats ─ ready ─ merge or split ─ confirm ─ welcome
//! replacements           link ─ seats ───────── merge or split ─────────── welcome
//!
//! report   where only a larger communicator has named the dead: a block of this one, too
//! link     taken into use by all of its processes, where it is not yet
//! seats    the root asks the replacements, and begins when they have come
//! ```
//!
//! *Ready* and *confirm* are commits of the old communicator, *welcome* of the new one. A survivor
//! that cannot go on before *ready* votes no there.

use std::ffi::c_int;

use fampi_core::{
    guest::{Guest, GuestComm, Repairing, Task},
    mpi::Seat,
};
use mpi::ffi::MPI_Comm;

use crate::{
    arguments::put,
    codes::{FAMPI_ERR_CREATION, Result, of_error},
    making::{Phase, Plan, Stage, Survivor},
    state::State,
};

/// Takes a link into use, with all of its processes.
pub(crate) fn use_link(state: &mut State, link: MPI_Comm) -> Result<()> {
    // SAFETY: the link is live, as the program has promised.
    let come = state.guest.with_mpi(|mpi| unsafe { mpi.come(link) });
    let Some(mut gathering) = come.map_err(|error| of_error(&error))? else { return Ok(()) };
    state.repeat(|state| {
        // SAFETY: as above.
        let gathered =
            state.guest.with_mpi(|mpi| unsafe { mpi.gather(link, &mut gathering, None) });
        gathered.map_err(|error| of_error(&error))
    })?;
    state.watch_link(link)
}

/// The first stage of a rebuild.
pub(crate) fn begin(state: &mut State, plan: Box<Plan>) -> Stage {
    if let Some(Survivor { comm, .. }) = plan.survivor
        && needs_report(state, &plan)
    {
        let reporting = state.guest.name_dead(comm);
        return Stage::Rebuild(Phase::Report(reporting), plan);
    }
    come(state, plan)
}

/// A survivor takes no part in a rebuild, for which the others wait.
pub(crate) fn refuse(state: &mut State, plan: &Plan) {
    let Some(Survivor { comm, .. }) = plan.survivor else { return };
    if needs_report(state, plan) {
        state.guest.name_dead_unheard(comm);
    }
    state.guest.refuse_repair(comm);
    // SAFETY: the link is live, as the program has promised.
    state.guest.with_mpi(|mpi| unsafe { mpi.cut(plan.link) });
}

/// True when not all ranks that are to be filled were named dead by blocks of their communicator.
fn needs_report(state: &State, plan: &Plan) -> bool {
    let Some(survivor) = &plan.survivor else { return false };
    let left_out = state.guest.left_out(survivor.comm);
    dead_of(state, survivor).any(|rank| !left_out.contains(rank.into()))
}

/// The ranks to be filled that the communicator has had.
fn dead_of(state: &State, survivor: &Survivor) -> impl Iterator<Item = u32> {
    let (_, size) = state.guest.place(survivor.comm);
    survivor.vacant.iter().copied().filter(move |rank| *rank < size)
}

/// The stage after a step, or the same if that has to wait.
pub(crate) fn step(
    state: &mut State,
    phase: Phase,
    mut plan: Box<Plan>,
    target: *mut MPI_Comm,
) -> Stage {
    match phase {
        Phase::Report(reporting) => {
            if state.guest.is_reported(&reporting) {
                come(state, plan)
            } else {
                Stage::Rebuild(Phase::Report(reporting), plan)
            }
        }
        Phase::Link(mut gathering) => {
            let link = plan.link;
            let survivors = plan.survivor.as_ref().and_then(|survivor| {
                Some((state.guest.data(survivor.comm)?, dead_of(state, survivor).count()))
            });
            // SAFETY: the link is live, as the program has promised.
            let gathered =
                state.guest.with_mpi(|mpi| unsafe { mpi.gather(link, &mut gathering, survivors) });
            match gathered {
                Ok(true) if state.watch_link(link).is_ok() => sit_down(state, plan),
                Ok(false) => Stage::Rebuild(Phase::Link(gathering), plan),
                _ => give_up(state, plan),
            }
        }
        Phase::Seats => {
            let Some(seating) = &mut plan.seating else { return give_up(state, plan) };
            match state.guest.with_mpi(|mpi| mpi.are_seated(seating)) {
                Ok(true) => {
                    let survivor = plan.survivor.as_ref();
                    let repairing = survivor.map(|survivor| state.guest.repair(survivor.comm));
                    let repairing = repairing.unwrap_or_else(Guest::enter_repair);
                    Stage::Rebuild(Phase::Make(repairing), plan)
                }
                Ok(false) => Stage::Rebuild(Phase::Seats, plan),
                Err(_) => give_up(state, plan),
            }
        }
        Phase::Make(mut repairing) => match make(state, &mut repairing, &mut plan, target) {
            Some(code) => end(state, plan, code),
            None => Stage::Rebuild(Phase::Make(repairing), plan),
        },
    }
}

/// This process has come to the link.
fn come(state: &mut State, plan: Box<Plan>) -> Stage {
    // SAFETY: the link is live, as the program has promised.
    match state.guest.with_mpi(|mpi| unsafe { mpi.come(plan.link) }) {
        Ok(Some(gathering)) => Stage::Rebuild(Phase::Link(gathering), plan),
        Ok(None) => sit_down(state, plan),
        Err(_) => give_up(state, plan),
    }
}

/// The link is in use: the root asks the replacements, which wait for that.
fn sit_down(state: &mut State, mut plan: Box<Plan>) -> Stage {
    let seat = match &mut plan.survivor {
        None => Some(Seat::Replacement),
        Some(survivor) => seat_of(state, survivor),
    };
    let link = plan.link;
    let begun = seat.map(|seat| state.guest.with_mpi(|mpi| mpi.begin_seat(link, seat)));
    match begun {
        Some(Ok(seating)) => {
            plan.seating = Some(seating);
            Stage::Rebuild(Phase::Seats, plan)
        }
        _ => give_up(state, plan),
    }
}

/// What a survivor brings; nothing when more ranks are dead than are to be filled.
fn seat_of(state: &State, survivor: &mut Survivor) -> Option<Seat> {
    let Survivor { comm, rank, root, size, vacant, replacements } = survivor;
    let vacant = vacant.iter().map(|rank| (*rank).into()).collect();
    let left_out = state.guest.left_out(*comm);
    let data = state.guest.data(*comm)?;
    let (size, rank, root, replacements) = (*size, *rank, *root, replacements.take());
    let fits = left_out.is_subset(&vacant);
    fits.then_some(Seat::Survivor { data, size, rank, root, vacant, replacements })
}

/// Nothing comes of it, before all have agreed to begin: a survivor says so when they do.
fn give_up(state: &mut State, plan: Box<Plan>) -> Stage {
    // SAFETY: the link is live, as the program has promised.
    state.guest.with_mpi(|mpi| unsafe { mpi.cut(plan.link) });
    let Some(Survivor { comm, .. }) = plan.survivor else {
        return end(state, plan, FAMPI_ERR_CREATION);
    };
    let declining = state.guest.decline_repair(comm);
    Stage::Rebuild(Phase::Make(declining), plan)
}

fn end(state: &mut State, plan: Box<Plan>, code: c_int) -> Stage {
    if let Some(seating) = plan.seating {
        state.guest.with_mpi(|mpi| mpi.end_seat(seating, code == 0));
    }
    Stage::Over(code)
}

/// Does what a rebuild asks for that all are ready for, until it has to wait; the return code, once
/// it is over.
fn make(
    state: &mut State,
    repairing: &mut Repairing,
    plan: &mut Plan,
    target: *mut MPI_Comm,
) -> Option<c_int> {
    loop {
        match state.guest.next_task(repairing)? {
            Task::Make => repairing.handle_made(call(state, plan)),
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
fn call(state: &mut State, plan: &mut Plan) -> Option<GuestComm> {
    let seating = plan.seating.as_mut()?;
    plan.made = state.guest.with_mpi(|mpi| mpi.seat(seating)).ok();
    state.adopt(plan.made?).ok()
}
