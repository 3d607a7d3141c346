//! ULFM's functions end the process.
//!
//! **Symptom** `MPIX_Comm_agree`, `_shrink`, `_revoke` and `_failure_ack` are there, and fail an
//! assertion in MPICH (`ch4_comm.c`). So what stands for them here is made of messages of the
//! communicator and of the list of the dead.
//!
//! An agreement floods: in each of as many rounds as there are processes every living process sends
//! what it knows to all others, and waits for each of them until its message comes or it is dead.
//! With as many rounds, in one of them nobody dies, and after that all know the same. A shrink
//! agrees on who lives, and makes a communicator of them (`MPI_Comm_create_group`): who is found to
//! be dead in its first round, by anybody, is left out, as not all would hear of what a later round
//! finds. When one of them dies in that call it is left ([`left_calls`](super::left_calls)), and
//! all who live begin again. A revocation only sets a mark in this process; fampi tells other ranks
//! in messages of its own.
//!
//! **Versions** each MPICH 5.0.
//!
//! **Upstream** known: the functions are not implemented in its device `ch4`.
//!
//! **Delete when** they work.
//!
//! **Test** `whoever_is_killed_on_mpich_no_digit_changes` (`apps/fampi/tests/node`, asked for);
//! deaths inside of shrinks: `half_of_the_ranks_end_at_random_moments…` (`ffi/tests/c`, with
//! `--mpi mpich`).
//!
//! **Assumes** that each process sees each death, sooner or later; and that all processes of a
//! communicator begin its agreements in the same order.
//!
//! Reference: Cachin, Guerraoui, Rodrigues, *Introduction to Reliable and Secure Distributed
//! Programming* (2011), §5.2.

use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    ptr, thread,
};

use mpi::ffi::{self, MPI_Comm, MPI_Group, MPI_Request, MPI_Status};

use super::{
    left_calls::while_living,
    list_of_the_dead as dead,
    set_aside::{self, TAG, take_early},
};
use crate::mpi::calls::{
    comm::null,
    library::PROC_FAILED,
    request::{Types, empty_status},
    ulfm::Ulfm,
};

/// Of the creation of a communicator, and how many below it are for further attempts. MPI keeps
/// them apart from those of messages.
const SHRINK_TAG: c_int = 32_699;
const SHRINK_TAGS: c_int = 16_384;
/// What a process says of its part of a new communicator.
const HAS_IT: c_int = 1;
const NOT_REFUSED: c_int = 2;
/// Steps of an agreement between two looks for deaths.
const STEPS: u32 = 64;
const SUCCESS: c_int = 0;

/// What stands for ULFM.
pub(super) fn functions() -> Ulfm {
    let failure_ack = acknowledge;
    Ulfm { revoke, failure_ack, agree, iagree, shrink, get_failed, is_revoked, forget }
}

unsafe extern "C" fn revoke(comm: MPI_Comm) -> c_int {
    dead::revoke(comm);
    SUCCESS
}

unsafe extern "C" fn is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    // SAFETY: our caller's variable.
    unsafe { *flag = c_int::from(dead::is_revoked(comm)) };
    SUCCESS
}

unsafe extern "C" fn acknowledge(_: MPI_Comm) -> c_int {
    // Nothing has to be said twice: a wildcard does not hear of deaths here.
    SUCCESS
}

/// The group of a communicator.
fn group_of(comm: MPI_Comm) -> Result<MPI_Group, c_int> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
    // SAFETY: a live communicator, says whoever called us; the result is a variable of ours.
    let code = unsafe { ffi::MPI_Comm_group(comm, &raw mut group) };
    if code == SUCCESS { Ok(group) } else { Err(code) }
}

fn free(mut group: MPI_Group) {
    // SAFETY: made by us, and used no more.
    let _ = unsafe { ffi::MPI_Group_free(&raw mut group) };
}

/// The ranks of the dead of a communicator.
fn dead_of(comm: MPI_Comm) -> Result<Vec<c_int>, c_int> {
    if !dead::has_some() {
        return Ok(Vec::new());
    }
    let group = group_of(comm)?;
    let all = dead::dead_of(group);
    free(group);
    Ok(all)
}

unsafe extern "C" fn get_failed(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
    if !dead::has_some() {
        // SAFETY: our caller's variable, and a constant that MPI's library defines.
        unsafe { *failed = ffi::RSMPI_GROUP_EMPTY };
        return SUCCESS;
    }
    let group = match group_of(comm) {
        Ok(group) => group,
        Err(code) => return code,
    };
    let ranks = dead::dead_of(group);
    // SAFETY: as many ranks of the group as are said; the result is our caller's variable.
    let code = unsafe { ffi::MPI_Group_incl(group, ranks.len() as c_int, ranks.as_ptr(), failed) };
    free(group);
    code
}

thread_local! {
    /// What was sent and MPI still has: to the dead, for ever.
    static QUARANTINE: RefCell<Vec<Part>> = const { RefCell::new(Vec::new()) };
}

fn forget(comm: MPI_Comm) {
    dead::forget(comm);
    set_aside::forget(comm);
}

/// A message under way, with its memory.
#[derive(Debug)]
struct Part {
    request: MPI_Request,
    words: Box<[u64]>,
    is_cancelled: bool,
}

impl Part {
    fn of(words: Vec<u64>) -> Self {
        Self { request: nothing(), words: words.into(), is_cancelled: false }
    }

    /// True when MPI has let go of it. With what it was.
    fn test(&mut self) -> Option<MPI_Status> {
        let (mut flag, mut status) = (0, empty_status());
        // SAFETY: a request of ours, whose memory is kept with it.
        let code = unsafe { ffi::MPI_Test(&raw mut self.request, &raw mut flag, &raw mut status) };
        (code != SUCCESS || flag != 0).then_some(status)
    }

    fn cancel(&mut self) {
        if !std::mem::replace(&mut self.is_cancelled, true) {
            // SAFETY: a receive of ours under way.
            let _ = unsafe { ffi::MPI_Cancel(&raw mut self.request) };
        }
    }
}

/// An agreement under way: the conjunction of what all say, word by word.
#[derive(Debug)]
struct Flood {
    comm: MPI_Comm,
    rank: c_int,
    size: c_int,
    words: Vec<u64>,
    /// The words say who lives: who does not in the first round is taken out.
    is_of_living: bool,
    round: c_int,
    has_sent: bool,
    receives: Vec<(c_int, Part)>,
    steps: u32,
    /// Where the first word goes, as a flag, and the request that ends then.
    flag: *mut c_int,
    request: MPI_Request,
    is_over: bool,
}

impl Flood {
    fn new(comm: MPI_Comm, words: Vec<u64>) -> Self {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a live communicator, says whoever called us; the results are ours.
        let _ = unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) };
        // SAFETY: as above.
        let _ = unsafe { ffi::MPI_Comm_size(comm, &raw mut size) };
        Self {
            comm,
            rank,
            size,
            words,
            is_of_living: false,
            round: 0,
            has_sent: false,
            receives: Vec::new(),
            steps: 0,
            flag: ptr::null_mut(),
            request: nothing(),
            is_over: false,
        }
    }

    /// An agreement on who lives.
    fn of_living(comm: MPI_Comm) -> Self {
        let flood = Self::new(comm, Vec::new());
        let words = vec![u64::MAX; (flood.size as usize).div_ceil(WORD)];
        Self { words, is_of_living: true, ..flood }
    }

    /// Goes on; true when it is over.
    fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) {
            dead::look();
        }
        while self.round < self.size {
            let lost = dead_of(self.comm).unwrap_or_default();
            if self.is_of_living && self.round == 0 {
                for rank in &lost {
                    self.words[*rank as usize / WORD] &= !bit(*rank);
                }
            }
            if !std::mem::replace(&mut self.has_sent, true) {
                self.say(&lost);
            }
            self.hear(&lost);
            if !self.receives.is_empty() {
                return false;
            }
            (self.round, self.has_sent) = (self.round + 1, false);
        }
        true
    }

    /// Sends what is known, and waits for the others.
    fn say(&mut self, lost: &[c_int]) {
        let (known, count) = (self.words.clone(), self.words.len() as c_int);
        let me = self.rank;
        for peer in (0..self.size).filter(|peer| *peer != me && !lost.contains(peer)) {
            match take_early(self.comm, peer) {
                Some(words) => self.words.iter_mut().zip(words).for_each(|(own, it)| *own &= it),
                None => self.listen(peer),
            }
            let mut send = Part::of(known.clone());
            let from = send.words.as_ptr().cast();
            let slot = &raw mut send.request;
            // SAFETY: as above.
            let code =
                unsafe { ffi::MPI_Isend(from, count, Types::u64(), peer, TAG, self.comm, slot) };
            if code == SUCCESS {
                QUARANTINE.with_borrow_mut(|all| all.push(send));
            }
        }
    }

    /// Waits for what a process says in this round.
    fn listen(&mut self, peer: c_int) {
        let mut receive = Part::of(vec![u64::MAX; self.words.len()]);
        let (to, count) = (receive.words.as_mut_ptr().cast(), self.words.len() as c_int);
        let slot = &raw mut receive.request;
        // SAFETY: the memory is kept with the request.
        let code = unsafe { ffi::MPI_Irecv(to, count, Types::u64(), peer, TAG, self.comm, slot) };
        if code == SUCCESS {
            self.receives.push((peer, receive));
        }
    }

    /// It is not wanted any more: what MPI may still write to is kept.
    fn give_up(&mut self) {
        for (_, mut part) in self.receives.drain(..) {
            part.cancel();
            QUARANTINE.with_borrow_mut(|all| all.push(part));
        }
    }

    /// Takes what has come, and gives up those who are dead.
    fn hear(&mut self, lost: &[c_int]) {
        let words = &mut self.words;
        self.receives.retain_mut(|(peer, part)| {
            let Some(status) = part.test() else {
                if lost.contains(peer) {
                    part.cancel();
                }
                return true;
            };
            let mut cancelled = 0;
            // SAFETY: the status was filled by a call that is over; the result is ours.
            let _ = unsafe { ffi::MPI_Test_cancelled(&raw const status, &raw mut cancelled) };
            if cancelled == 0 {
                words.iter_mut().zip(&part.words).for_each(|(own, other)| *own &= other);
            }
            false
        });
        QUARANTINE.with_borrow_mut(|all| all.retain_mut(|part| part.test().is_none()));
    }
}

/// No request.
fn nothing() -> MPI_Request {
    // SAFETY: reading a constant that MPI's library defines.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

unsafe extern "C" fn agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    // SAFETY: our caller's variable.
    let own = unsafe { *flag };
    let mut flood = Flood::new(comm, vec![u64::from(own.cast_unsigned())]);
    while !flood.step() {
        thread::yield_now();
    }
    // SAFETY: as above.
    unsafe { *flag = (flood.words[0] as u32).cast_signed() };
    SUCCESS
}

unsafe extern "C" fn iagree(comm: MPI_Comm, flag: *mut c_int, request: *mut MPI_Request) -> c_int {
    // SAFETY: our caller's variable.
    let own = unsafe { *flag };
    let mut flood = Box::new(Flood::new(comm, vec![u64::from(own.cast_unsigned())]));
    flood.flag = flag;
    let state = Box::into_raw(flood);
    let started = {
        // SAFETY: the functions have these types; the state is theirs until it is freed.
        unsafe {
            ffi::MPIX_Grequest_start(
                Some(tell_nothing),
                Some(free_flood),
                Some(cancel_nothing),
                Some(poll_flood),
                Some(wait_for_floods),
                state.cast(),
                request,
            )
        }
    };
    if started != SUCCESS {
        // SAFETY: made above, and nobody has it.
        drop(unsafe { Box::from_raw(state) });
        return started;
    }
    // SAFETY: the request that was made above.
    let made = unsafe { *request };
    // SAFETY: the state that was made above, which no other part uses meanwhile.
    unsafe { (*state).request = made };
    SUCCESS
}

/// MPI tests the request: the agreement goes on.
unsafe extern "C" fn poll_flood(state: *mut c_void, _: *mut MPI_Status) -> c_int {
    // SAFETY: what the request was started with, which this thread alone uses.
    let flood = unsafe { &mut *state.cast::<Flood>() };
    if !flood.is_over && flood.step() {
        flood.is_over = true;
        // SAFETY: the variable lives until the request is over, says who has started it.
        unsafe { *flood.flag = (flood.words[0] as u32).cast_signed() };
        // SAFETY: the request of this agreement, which is under way.
        return unsafe { ffi::MPI_Grequest_complete(flood.request) };
    }
    SUCCESS
}

/// MPI waits for requests: their agreements go on until all are over.
unsafe extern "C" fn wait_for_floods(
    count: c_int,
    states: *mut *mut c_void,
    _: f64,
    status: *mut MPI_Status,
) -> c_int {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: so many states, says MPI.
        let place = unsafe { states.add(at) };
        // SAFETY: as above.
        let state = unsafe { *place };
        // SAFETY: what its request was started with, which this thread alone uses.
        let is_over = || unsafe { (*state.cast::<Flood>()).is_over };
        while !is_over() {
            // SAFETY: as above.
            let code = unsafe { poll_flood(state, status) };
            if code != SUCCESS {
                return code;
            }
            thread::yield_now();
        }
    }
    SUCCESS
}

unsafe extern "C" fn tell_nothing(_: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: a status of MPI's.
    let _ = unsafe { ffi::MPI_Status_set_elements(status, Types::bytes(), 0) };
    // SAFETY: as above.
    unsafe { ffi::MPI_Status_set_cancelled(status, 0) }
}

unsafe extern "C" fn free_flood(state: *mut c_void) -> c_int {
    // SAFETY: what the request was started with, which is over.
    let mut flood = unsafe { Box::from_raw(state.cast::<Flood>()) };
    flood.give_up();
    SUCCESS
}

unsafe extern "C" fn cancel_nothing(_: *mut c_void, _: c_int) -> c_int {
    SUCCESS
}

/// Ranks in a word of what is agreed on.
const WORD: usize = 64;

unsafe extern "C" fn shrink(comm: MPI_Comm, made_here: *mut MPI_Comm) -> c_int {
    let group = match group_of(comm) {
        Ok(group) => group,
        Err(refused) => return refused,
    };
    let code = loop {
        let mut flood = Flood::of_living(comm);
        while !flood.step() {
            thread::yield_now();
        }
        let lives = |rank: &c_int| flood.words[*rank as usize / WORD] & bit(*rank) != 0;
        let ranks: Vec<c_int> = (0..flood.size).filter(lives).collect();
        // What a call that was left still waits for has another tag.
        let tag = SHRINK_TAG - dead::next_attempt(comm) % SHRINK_TAGS;
        let made = create(comm, (group, ranks), tag);
        // Those who have it need the others; and what MPI refuses to one it gives to nobody.
        let says = |holds: bool, what| if holds { what } else { 0 };
        let (code, part) = made.unwrap_or((SUCCESS, null()));
        let mut said = says(made.is_some(), HAS_IT) | says(code == SUCCESS, NOT_REFUSED);
        // SAFETY: a live communicator, says whoever called us; the flag is ours.
        unsafe { agree(comm, &raw mut said) };
        if said & NOT_REFUSED == 0 {
            break if code == SUCCESS { PROC_FAILED } else { code };
        }
        if said & HAS_IT != 0 {
            // SAFETY: our caller's variable.
            unsafe { *made_here = part };
            break SUCCESS;
        }
    };
    free(group);
    code
}

/// The communicator of these ranks of a group, by the call's status; `None` when one of them has
/// died meanwhile.
fn create(
    comm: MPI_Comm,
    (group, ranks): (MPI_Group, Vec<c_int>),
    tag: c_int,
) -> Option<(c_int, MPI_Comm)> {
    // SAFETY: reading a constant that MPI's library defines.
    let mut part = unsafe { ffi::RSMPI_GROUP_NULL };
    let count = ranks.len() as c_int;
    // SAFETY: as many ranks of the group as are said; the result is a variable of ours.
    let code = unsafe { ffi::MPI_Group_incl(group, count, ranks.as_ptr(), &raw mut part) };
    if code != SUCCESS {
        return Some((code, null()));
    }
    let made = while_living(dead::names_of(part), move || {
        let mut made = null();
        // SAFETY: both are live; the result is a variable of this closure.
        let code = unsafe { ffi::MPI_Comm_create_group(comm, part, tag, &raw mut made) };
        (code, made)
    });
    if made.is_some() {
        free(part);
    }
    made
}

const fn bit(rank: c_int) -> u64 {
    1 << (rank as usize % WORD)
}
