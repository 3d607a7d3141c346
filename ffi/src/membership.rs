//! Who of the living is fast enough for work, the same on all ranks.
//!
//! ```text
//! start   all ranks of a communicator are members
//! news    a word that rides on commits; 0 on all ranks: nothing to do
//! renew   a census: who fails tests is benched, who passes enough is back, the missing are dead
//! ```
//!
//! Reference: Camargo and Duarte 2018, section 3.

use std::{ffi::c_int, ptr::null_mut};

use fampi_core::{
    Rank, RankSet,
    membership::{
        Membership,
        levels::Levels,
        member::{Census, Member, Slow},
    },
};
use mpi::ffi::{MPI_Comm, MPI_Group, MPI_Request};

use crate::{
    arguments::put,
    calls,
    codes::{
        FAMPI_ERR_ARG, FAMPI_ERR_COMM, FAMPI_ERR_INTERNAL, FAMPI_SLOW_LEAVE, FAMPI_SLOW_PROBATION,
        FAMPI_SLOW_RETURN, FAMPI_SLOW_STAY, FAMPI_TIMEOUT_NEVER, Result, done,
    },
    origin::place_in,
    query::part_of_group,
    state::enter,
};

/// A group of recommended processes, which is the program's until `FAMPI_Membership_free`.
#[allow(non_camel_case_types)]
pub struct FAMPI_Membership {
    member: Member,
    /// This rank has accepted a census.
    knows: bool,
}

/// Begins a group of all ranks of `comm`, which is in use (`FAMPI_Init`): its members, numbered by
/// their ranks there. They keep these numbers when the communicator shrinks. A process that takes
/// the place of a dead one calls it on the communicator in which it has its number as rank. Local.
///
/// Members are tested with `fampi run --diagnosis` (`FAMPI_DIAGNOSIS`); otherwise only the dead
/// leave. `slow`, the same on all ranks, says what becomes of those that fail tests:
/// `FAMPI_SLOW_RETURN`, benched until they have passed enough tests in a row,
/// `FAMPI_SLOW_PROBATION`, the same, and so are new processes at first, `FAMPI_SLOW_LEAVE`, benched
/// for good, `FAMPI_SLOW_STAY`, nothing. The observers of several nodes test each other, too: a
/// benched node takes its ranks along. A benched rank keeps its rank and takes part in all blocks;
/// give it no work.
///
/// Observers begin with the first communicator in use that has all processes of `MPI_COMM_WORLD`.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_start(
    comm: MPI_Comm,
    slow: c_int,
    membership: *mut *mut FAMPI_Membership,
) -> c_int {
    enter(|state| {
        let slow = match slow {
            FAMPI_SLOW_STAY => Slow::Stay,
            FAMPI_SLOW_LEAVE => Slow::Leave,
            FAMPI_SLOW_RETURN => Slow::Return,
            FAMPI_SLOW_PROBATION => Slow::Probation,
            _ => return Err(FAMPI_ERR_ARG),
        };
        if membership.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = state.as_mut().ok_or(FAMPI_ERR_COMM)?;
        let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
        let (me, ranks) = state.guest.place(known);
        let member = Member::new(me, ranks, slow, &state.guest);
        let made = Box::new(FAMPI_Membership { member, knows: false });
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(membership, Box::into_raw(made)) }
    })
}

/// What this rank has to tell the others: 0 while nothing is new. All ranks learn whether anything
/// is by `MPI_BOR` over it with their next commit (`FAMPI_TryBlock_finish_allreduce`), and call
/// `FAMPI_Membership_renew` if the result is not 0. Local.
///
/// Returns `FAMPI_ERR_ARG` for null pointers.
///
/// # Safety
///
/// The pointers are null, or to a group that was not freed and to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_news(
    membership: *mut FAMPI_Membership,
    news: *mut c_int,
) -> c_int {
    enter(|state| {
        // SAFETY: our caller's promise.
        let membership = unsafe { membership.as_mut() }.ok_or(FAMPI_ERR_ARG)?;
        let own = state.as_ref().map_or(0, |state| membership.member.news(&state.guest));
        // SAFETY: our caller's promise.
        unsafe { put(news, own.cast_signed()) }
    })
}

/// Takes a census: all living ranks of `comm` tell each other what was counted of them, and get the
/// same group from it. All of them call it: where one had news, and after each recovery, also in
/// the new processes, which learn the group by it. It blocks, in a block of its own. `comm` is that
/// of the start, one shrunken from it, or one rebuilt; members that are missing there are dead.
///
/// Returns `FAMPI_ERR_TRYBLOCK_FOUND_ERRORS`, on all living ranks, when a process died in it, which
/// `FAMPI_Comm_known_failed` names: the group is as it was. `FAMPI_ERR_ARG` for null, otherwise as
/// `FAMPI_TryBlock_start`.
///
/// # Safety
///
/// The pointer is null or to a group that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_renew(
    membership: *mut FAMPI_Membership,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: our caller's promise.
    let Some(membership) = (unsafe { membership.as_mut() }) else { return FAMPI_ERR_ARG };
    membership.renew(comm).err().unwrap_or(0)
}

impl FAMPI_Membership {
    fn renew(&mut self, comm: MPI_Comm) -> Result<()> {
        let (mut block, mut requests) = (calls::start_block(comm)?, Vec::new());
        let counted = self.census(comm, &mut requests);
        if counted.is_err() {
            // Others may wait for what this rank has not begun.
            calls::interrupt(block)?;
        }
        let finished = calls::finish(block, &mut requests)
            .and_then(|()| calls::wait(&mut block, FAMPI_TIMEOUT_NEVER));
        requests.iter_mut().for_each(calls::free_request);
        calls::free_request(&mut block);
        finished?;
        let (levels, benched) = counted?;
        let noted = enter(|state| {
            let state = state.as_mut().ok_or(FAMPI_ERR_COMM)?;
            let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
            state.guest.accept_census(known, benched.clone(), (self.member.view(), levels.view()));
            Ok(())
        });
        done(noted)?;
        self.member.accept(levels);
        self.knows = true;
        Ok(())
    }

    /// The content of the block, whose requests are added to these: the group that it makes, and
    /// the ranks of the communicator that are benched in it.
    fn census(
        &mut self,
        comm: MPI_Comm,
        requests: &mut Vec<MPI_Request>,
    ) -> Result<(Levels, RankSet)> {
        let (me, ranks) = place_in(comm)?;
        let place = (me.cast_unsigned() as usize, ranks.cast_unsigned() as usize);
        let mut words = Vec::new();
        let begun = enter(|state| {
            let state = state.as_ref().ok_or(FAMPI_ERR_COMM)?;
            words = Census::words(&mut self.member, self.knows, &state.guest, place);
            Ok(())
        });
        done(begun)?;
        gather(comm, &mut words, place, requests)?;
        let mut census = Census::of_words(&words);
        if census.more() > 0 {
            let mut words = census.more_words(&self.member, place);
            gather(comm, &mut words, place, requests)?;
            census.add(words);
        }
        if let Some(speaker) = census.speaker() {
            let mut words = census.group_words(&self.member);
            requests.push(calls::spread(comm, speaker as c_int, &mut words)?);
            requests.last_mut().map_or(Ok(()), |it| calls::wait(it, FAMPI_TIMEOUT_NEVER))?;
            if !self.knows && !Census::teach(&mut self.member, &words) {
                return Err(FAMPI_ERR_INTERNAL);
            }
        }
        let levels = census.next(&mut self.member);
        let benched = census.benched(levels.view());
        Ok((levels, benched))
    }
}

/// Waits for the words of all ranks, of which each has its own at its place.
fn gather(
    comm: MPI_Comm,
    words: &mut [u64],
    (rank, ranks): (usize, usize),
    requests: &mut Vec<MPI_Request>,
) -> Result<()> {
    let each = words.len() / ranks;
    let own = words[rank * each..][..each].to_vec();
    requests.push(calls::gather(comm, &own, words)?);
    requests.last_mut().map_or(Ok(()), |it| calls::wait(it, FAMPI_TIMEOUT_NEVER))
}

/// Whether a member, by its number, gets work: `flag` is 1, or 0 if it is benched, dead or unknown.
/// Local, the same on all ranks that have taken the same censuses.
///
/// Returns `FAMPI_ERR_ARG` for null pointers.
///
/// # Safety
///
/// The pointers are null, or to a group that was not freed and to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_has(
    membership: *const FAMPI_Membership,
    member: c_int,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: our caller's promise.
    let has = unsafe { view(membership) }
        .map(|view| u32::try_from(member).is_ok_and(|member| view.is_member(Rank::new(member))));
    // SAFETY: our caller's promise.
    has.and_then(|has| unsafe { put(flag, c_int::from(has)) }).err().unwrap_or(0)
}

/// The member that works for a part of the whole, by its number: the part's own if it gets work,
/// else the first that does in the order of `part` XOR 1, `part` XOR 2 and so on. Local, the same
/// on all ranks that have taken the same censuses.
///
/// Returns `FAMPI_ERR_ARG` for null pointers and for a part that is not below the next power of two
/// from the number of members on.
///
/// # Safety
///
/// As `FAMPI_Membership_has`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_owner(
    membership: *const FAMPI_Membership,
    part: c_int,
    member: *mut c_int,
) -> c_int {
    // SAFETY: our caller's promise.
    let owner = unsafe { view(membership) }.and_then(|view| {
        let part = u32::try_from(part).map_err(|_| FAMPI_ERR_ARG)?;
        view.owner(part).ok_or(FAMPI_ERR_ARG)
    });
    // SAFETY: our caller's promise.
    owner.and_then(|it| unsafe { put(member, it.number().cast_signed()) }).err().unwrap_or(0)
}

/// How often the group has changed, the same on all ranks that have taken the same censuses. Local.
///
/// Returns `FAMPI_ERR_ARG` for null pointers.
///
/// # Safety
///
/// As `FAMPI_Membership_has`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_epoch(
    membership: *const FAMPI_Membership,
    epoch: *mut c_int,
) -> c_int {
    // SAFETY: our caller's promise.
    let now = unsafe { view(membership) }.map(Membership::epoch);
    // SAFETY: our caller's promise.
    now.and_then(|now| unsafe { put(epoch, now.cast_signed()) }).err().unwrap_or(0)
}

/// # Safety
///
/// The pointer is null or to a group that was not freed.
unsafe fn view<'a>(membership: *const FAMPI_Membership) -> Result<&'a Membership> {
    // SAFETY: our caller's promise.
    let membership = unsafe { membership.as_ref() }.ok_or(FAMPI_ERR_ARG)?;
    Ok(membership.member.view())
}

/// Frees a group; `membership` becomes null. Nothing happens to null.
///
/// # Safety
///
/// The pointer is null, or to null or a group that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Membership_free(membership: *mut *mut FAMPI_Membership) {
    // SAFETY: our caller's promise.
    let Some(place) = (unsafe { membership.as_mut() }) else { return };
    let freed = std::mem::replace(place, null_mut());
    if !freed.is_null() {
        // SAFETY: made by `FAMPI_Membership_start`, and not freed.
        drop(unsafe { Box::from_raw(freed) });
    }
}

/// The living ranks of a communicator that its last census has found too slow for work, as a group
/// that the program frees: what a program that decides how to go on after a faulty block may want
/// to know beside `FAMPI_Comm_known_failed`. Empty before there was a census on it. Local, the same
/// on all living ranks.
///
/// Returns `FAMPI_ERR_COMM` for a communicator that is not in use, `FAMPI_ERR_ARG`.
///
/// # Safety
///
/// The pointer is null or to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FAMPI_Comm_benched(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    enter(|state| {
        if group.is_null() {
            return Err(FAMPI_ERR_ARG);
        }
        let state = state.as_mut().ok_or(FAMPI_ERR_COMM)?;
        let known = state.known(comm).ok_or(FAMPI_ERR_COMM)?;
        let benched = state.guest.benched(known);
        let ranks: Vec<c_int> = benched.iter().map(|rank| rank.number().cast_signed()).collect();
        // SAFETY: asked for null above, and the rest is our caller's promise.
        unsafe { put(group, part_of_group(comm, &ranks)?) }
    })
}
