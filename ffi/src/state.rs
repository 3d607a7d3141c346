//! All that this process knows: communicators, requests, blocks. One thread owns it.
//!
//! Every function of the interface goes through [`enter`]: no panic leaves it, no other thread
//! comes in, and what the program has freed since the last call is taken off the tables first.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
    fmt::Display,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use fampi_core::{
    Rank, Timeout, checkpoints_by_environment,
    guest::{Guest, GuestComm},
    mpi::MpiPlatform,
};
use mpi::ffi;

#[cfg(mpich)]
use crate::beneath;
use crate::{
    codes::{
        FAMPI_ERR_COMM, FAMPI_ERR_CREATION, FAMPI_ERR_INTERNAL, FAMPI_ERR_PENDING,
        FAMPI_ERR_REQUEST, FAMPI_ERR_THREAD, FAMPI_ERR_UNSUPPORTED, Result, of_error,
    },
    freed::{FREED, Freed, attribute, comm_is_freed, mark},
    handles::{Awaited, Block, Entry, Handles, Kind, List},
    in_vain::Wait,
    loaded,
    numbers::Number,
    origin::links_two_groups,
    outcome::{forget_parts, settle_entry},
    owned::Owned,
    request::{null, repeats},
    users::Users,
};

/// A communicator in use.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) raw: ffi::MPI_Comm,
    pub(crate) comm: GuestComm,
}

/// Lists that are empty between calls, and keep their memory.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) list: List,
    pub(crate) awaited: Vec<Awaited>,
    keys: Vec<usize>,
}

pub(crate) struct State {
    pub(crate) guest: Guest,
    pub(crate) comms: Vec<Known>,
    /// Communicators of the program in whose taking into use a process has died.
    refused: Vec<ffi::MPI_Comm>,
    pub(crate) handles: Handles,
    pub(crate) users: Users,
    /// What MPI gives for all that was over when it started, if it has one request for that.
    pub(crate) finished: ffi::MPI_Request,
    /// MPI tells us when it waits.
    is_called_back: bool,
    /// How often it has while this process waited for nothing of ours.
    calls: u32,
    /// What goes on with a communicator in the making, once there is one.
    pub(crate) advance_making: Option<fn(&mut State, ffi::MPI_Request)>,
    /// The program uses the calls of ULFM: we go on whenever MPI waits.
    pub(crate) serves: bool,
    /// The link to those who have started this process, once the program has asked for it.
    pub(crate) own_link: Option<ffi::MPI_Comm>,
    /// The program has started collectives through us.
    pub(crate) collectives: bool,
    /// To make lists of.
    pub(crate) lists: Lists,
    /// The types of numbers that reductions had.
    pub(crate) numbers: Vec<(ffi::MPI_Datatype, Number)>,
    attribute: c_int,
}

/// What belongs to the thread that calls us.
struct Here {
    /// What every call returns: after a panic, or when MPI is being finalised. 0 until then.
    closed: Cell<c_int>,
    state: RefCell<Option<State>>,
}

/// Not dropped at the end: that would be late for MPI.
static HERE: Owned<Here> = Owned::new(Here { closed: Cell::new(0), state: RefCell::new(None) });

/// Runs the body of a function; its result becomes the return code.
///
/// The body goes on by reference: moved through the functions below, what it holds would be copied
/// in larger pieces than it was written in, for which a processor waits.
// A block without requests costs little more than its calls: a few more count.
#[allow(clippy::inline_always)]
#[inline(always)]
pub(crate) fn enter(mut body: impl FnMut(&mut Option<State>) -> Result<()>) -> c_int {
    let body = &mut body;
    let (Some(here), Some(freed)) = (HERE.get(), FREED.get()) else { return FAMPI_ERR_THREAD };
    let guarded = catch_unwind(AssertUnwindSafe(|| enter_here(here, freed, body)));
    guarded.map_or_else(|panic| fail(&panic), |done| done.err().unwrap_or(0))
}

/// True when a call of this thread can come in, and there is a state to come to.
#[cfg(mpich)]
pub(crate) fn can_enter() -> bool {
    let Some(here) = HERE.peek() else { return false };
    here.closed.get() == 0 && here.state.try_borrow().is_ok_and(|state| state.is_some())
}

/// A panic was caught: nothing goes on after it.
#[cold]
fn fail(_: &Box<dyn Any + Send>) -> c_int {
    close(FAMPI_ERR_INTERNAL);
    FAMPI_ERR_INTERNAL
}

/// From now on every call returns this code.
pub(crate) fn close(code: c_int) {
    if let (Some(here), Some(freed)) = (HERE.get(), FREED.get()) {
        here.closed.set(code);
        freed.news.set(true);
    }
}

#[inline]
fn enter_here(
    here: &Here,
    freed: &Freed,
    body: &mut impl FnMut(&mut Option<State>) -> Result<()>,
) -> Result<()> {
    let mut state = here.state.try_borrow_mut().map_err(|_| here.refusal())?;
    if freed.news.get() {
        here.see_to_news(freed, &mut state)?;
    }
    body(&mut state)
}

impl Here {
    /// For a call that comes while another one is going on.
    #[cold]
    fn refusal(&self) -> c_int {
        if self.closed.get() == 0 { FAMPI_ERR_INTERNAL } else { self.closed.get() }
    }

    #[cold]
    fn see_to_news(&self, freed: &Freed, state: &mut Option<State>) -> Result<()> {
        if self.closed.get() != 0 {
            return Err(self.closed.get());
        }
        if let Some(state) = state.as_mut() {
            freed.news.set(false);
            state.clear(freed);
        }
        Ok(())
    }
}

/// Says why something cannot be, in one line on standard error.
pub(crate) fn say(why: &impl Display) {
    // One write, so that lines of several processes do not mix.
    let line = format!("fampi: {why}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Runs the body of a function that needs a first block, or a first communicator, before.
#[inline]
pub(crate) fn enter_started(mut body: impl FnMut(&mut State) -> Result<()>) -> c_int {
    enter(|state| body(state.as_mut().ok_or(FAMPI_ERR_REQUEST)?))
}

impl State {
    fn new() -> Result<Self> {
        loaded::keep();
        #[cfg(mpich)]
        beneath::announce();
        let platform = MpiPlatform::guest().map_err(|error| {
            say(&error);
            of_error(&error)
        })?;
        let is_called_back = platform.call_back(mpi_is_waiting);
        #[cfg(mpich)]
        beneath::have_calls();
        let finished = platform.finished_request();
        // SAFETY: reading a constant that MPI's library defines.
        mark(unsafe { ffi::RSMPI_COMM_SELF }, attribute(mpi_ends)?)?;
        let mut guest = Guest::new(Box::new(platform));
        guest.set_checkpoints(checkpoints_by_environment().map_err(|error| of_error(&error))?);
        Ok(Self {
            guest,
            comms: Vec::new(),
            refused: Vec::new(),
            handles: Handles::default(),
            users: Users::default(),
            finished,
            advance_making: None,
            serves: false,
            own_link: None,
            collectives: false,
            lists: Lists::default(),
            is_called_back,
            calls: 0,
            numbers: Vec::new(),
            attribute: attribute(comm_is_freed)?,
        })
    }

    /// The state, which the first call makes.
    #[inline]
    pub(crate) fn started(state: &mut Option<Self>) -> Result<&mut Self> {
        if state.is_none() {
            Self::start(state)?;
        }
        state.as_mut().ok_or(FAMPI_ERR_INTERNAL)
    }

    #[cold]
    fn start(state: &mut Option<Self>) -> Result<()> {
        *state = Some(Self::new()?);
        Ok(())
    }

    /// Takes off the tables what the program has freed.
    #[cold]
    fn clear(&mut self, freed: &Freed) {
        while let Some(raw) = freed.comms.borrow_mut().pop() {
            self.refused.retain(|refused| *refused != raw);
            self.guest.with_mpi(|mpi| mpi.forget_link(raw));
            if let Some(at) = self.comms.iter().position(|known| known.raw == raw) {
                let comm = self.comms.swap_remove(at).comm;
                self.guest.abandon(comm);
                if let Some(data) = self.guest.data(comm) {
                    self.guest.with_mpi(|mpi| mpi.forget_comm(data));
                }
            }
        }
        while let Some(place) = freed.requests.borrow_mut().pop() {
            self.let_go(place);
            self.handles.give_back(place);
        }
        let mut requests = freed.by_program.take();
        if !requests.is_empty() {
            self.guest.with_mpi(|mpi| requests.iter().for_each(|raw| mpi.free_request(*raw)));
            requests.clear();
        }
        freed.by_program.replace(requests);
    }

    /// The program has freed the request of ours at this place.
    fn let_go(&mut self, place: u32) {
        self.end_collectives(place);
        let Self { guest, handles, .. } = self;
        if let Kind::Block(block) = &mut handles.at(place).kind {
            guest.release(block.name);
            forget_parts(guest, block);
        }
    }

    /// Frees a request of ours without MPI, which does not know that it is over; false when it
    /// does, or when it is not over.
    // As `enter`.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(crate) fn free(&mut self, slot: &mut ffi::MPI_Request) -> Result<bool> {
        if self.collectives {
            self.end_collectives_of(*slot);
        }
        let Self { guest, handles, .. } = self;
        let Some(Entry { kind, handle, held }) = handles.entry(*slot) else { return Ok(false) };
        if matches!(kind, Kind::Making(_)) && !handle.is_complete() {
            return Err(FAMPI_ERR_PENDING);
        }
        if !handle.is_to_be_announced() {
            return Ok(false);
        }
        let place = handle.place();
        if let Kind::Block(block) = kind {
            *held = false;
            guest.release(block.name);
            if !block.parts.is_empty() {
                forget_parts(guest, block);
            }
            handles.keep(place);
        } else {
            self.let_go(place);
            self.handles.give_back_unheard(place);
        }
        *slot = null();
        Ok(true)
    }

    /// The communicator in use, if it is.
    #[inline]
    pub(crate) fn known(&self, raw: ffi::MPI_Comm) -> Option<GuestComm> {
        self.comms.iter().find(|known| known.raw == raw).map(|known| known.comm)
    }

    /// Takes note of a message of ours that MPI has just started, unless it is over already.
    pub(crate) fn know_message(
        &mut self,
        raw: ffi::MPI_Request,
        comm: GuestComm,
        peer: Option<Rank>,
    ) -> Result<()> {
        let Self { guest, users, finished, .. } = self;
        if MpiPlatform::is_shared(raw, *finished) {
            return Ok(());
        }
        users.adopt_message(guest, raw, comm, peer)
    }

    /// The communicator in use, which it is taken into if it is not.
    #[inline]
    pub(crate) fn comm(&mut self, raw: ffi::MPI_Comm) -> Result<GuestComm> {
        match self.known(raw) {
            Some(comm) => Ok(comm),
            None => self.take_into_use(raw),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_into_use(&mut self, raw: ffi::MPI_Comm) -> Result<GuestComm> {
        if links_two_groups(raw)? {
            return Err(FAMPI_ERR_COMM);
        }
        if self.refused.contains(&raw) {
            // As on all living ranks, which do not come together for it again.
            return Err(FAMPI_ERR_CREATION);
        }
        if !self.come_together(raw)? {
            // SAFETY: live, as MPI has just answered for it.
            let left = self.guest.with_mpi(|mpi| unsafe { mpi.leave_meeting(raw) });
            self.refuse(raw)?;
            left.map_err(|error| of_error(&error))?;
            return Err(FAMPI_ERR_CREATION);
        }
        self.adopt(raw)
    }

    /// Waits until all living ranks have come to take a communicator into use; false when some may
    /// not come, as a block of this rank is doomed, or one of them has died.
    fn come_together(&mut self, raw: ffi::MPI_Comm) -> Result<bool> {
        let (mut come, mut wait) = (Ok(false), Wait::default());
        self.guest.wait_with_mpi(|mpi| {
            // SAFETY: live, as MPI has just answered for it.
            come = unsafe { mpi.have_all_come(raw) };
            // SAFETY: as above.
            let has_died = || !unsafe { mpi.failed_by_mpi(raw) }.is_empty();
            come != Ok(false) || wait.may_be_in_vain(has_died)
        });
        come.map_err(|error| of_error(&error))
    }

    /// From now on this communicator of the program is one that nobody can take into use.
    fn refuse(&mut self, raw: ffi::MPI_Comm) -> Result<()> {
        mark(raw, self.attribute)?;
        self.refused.push(raw);
        Ok(())
    }

    /// Takes a communicator into use for which all living ranks have come.
    pub(crate) fn adopt(&mut self, raw: ffi::MPI_Comm) -> Result<GuestComm> {
        // SAFETY: live, as MPI has just answered for it; `comm_is_freed` tells of its end.
        let adopted = self.guest.with_mpi(|mpi| unsafe { mpi.adopt_comm(raw) });
        if adopted.is_err() {
            self.refuse(raw)?;
        }
        let adopted = adopted.map_err(|error| of_error(&error))?;
        let comm = self.guest.adopt(adopted.id, adopted.universe, adopted.place, adopted.data);
        self.know(raw, comm)?;
        Ok(comm)
    }

    /// Takes a step again and again, as long as it says that others are to come, and makes progress
    /// between.
    pub(crate) fn repeat(&mut self, mut step: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        const PAUSE: Duration = Duration::from_micros(200);
        let mut steps = Guest::in_steps(Timeout::Never);
        while !step(self)? {
            self.guest.step_of_wait(&mut steps, PAUSE);
        }
        Ok(())
    }

    /// An error as long as a communicator is being made: another one would meet it in MPI.
    pub(crate) fn nothing_in_the_making(&self) -> Result<()> {
        if self.handles.makings().is_empty() { Ok(()) } else { Err(FAMPI_ERR_PENDING) }
    }

    /// From now on this communicator of the program is that one of ours.
    pub(crate) fn know(&mut self, raw: ffi::MPI_Comm, comm: GuestComm) -> Result<()> {
        mark(raw, self.attribute)?;
        self.comms.push(Known { raw, comm });
        Ok(())
    }

    /// A link is in use from now on, until the program frees it.
    pub(crate) fn watch_link(&self, link: ffi::MPI_Comm) -> Result<()> {
        mark(link, self.attribute)
    }

    /// The entry of a request of ours that the program has not freed.
    #[inline]
    pub(crate) fn entry(&mut self, raw: ffi::MPI_Request) -> Option<&mut Entry> {
        self.handles.entry(raw)
    }

    /// The block behind a request.
    #[inline]
    pub(crate) fn block(&mut self, raw: ffi::MPI_Request) -> Result<&mut Block> {
        match self.entry(raw) {
            Some(Entry { kind: Kind::Block(block), .. }) => Ok(block),
            _ => Err(FAMPI_ERR_REQUEST),
        }
    }

    /// Refuses a list with a request that is in it twice, of which only one could be taken over.
    pub(crate) fn check_once(&mut self, requests: &[ffi::MPI_Request]) -> Result<()> {
        let Self { lists, finished, .. } = self;
        let twice = requests.len() > 1 && repeats(requests, *finished, &mut lists.keys);
        if twice { Err(FAMPI_ERR_REQUEST) } else { Ok(()) }
    }

    /// Completes the requests of ours whose end is known. MPI is to hear of it when it waits; at
    /// once if it does not call us.
    pub(crate) fn settle(&mut self) {
        let Self { guest, handles, is_called_back, .. } = self;
        handles.for_pending(|entry| settle_entry(guest, entry));
        if !*is_called_back {
            handles.announce();
        }
    }

    /// True now and then: a process that waits for nothing of ours knows how blocks have ended, and
    /// is asked by those who do not.
    fn serves_now(&mut self) -> bool {
        const EVERY: u32 = 256;
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(EVERY)
    }

    /// Completes the other requests after a wait for a block, which is mostly the only one.
    #[inline]
    pub(crate) fn settle_others(&mut self) {
        if self.handles.unheard() > 1 || !self.is_called_back {
            self.settle();
        }
    }
}

/// `MPI_Finalize` deletes the attributes of `MPI_COMM_SELF` first: the moment to leave.
unsafe extern "C" fn mpi_ends(_: ffi::MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    let (Some(here), Some(freed)) = (HERE.get(), FREED.get()) else { return 0 };
    let left = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(mut state) = here.state.try_borrow_mut()
            && let Some(mut state) = state.take()
        {
            state.clear(freed);
            state.handles.close();
            state.guest.with_mpi(MpiPlatform::close_requests);
            state.guest.leave();
            std::mem::forget(state); // It may not touch MPI any more.
        }
    }));
    close(FAMPI_ERR_UNSUPPORTED);
    c_int::from(left.is_err())
}

/// MPI waits inside a call of its own: our blocks go on meanwhile.
extern "C" fn mpi_is_waiting() -> c_int {
    let Some(here) = HERE.get() else { return 0 };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(mut state) = here.state.try_borrow_mut()
            && let Some(state) = state.as_mut()
            && (state.handles.unheard() > 0 || state.serves || state.serves_now())
        {
            if let Some(advance) = state.advance_making {
                state.handles.makings().into_iter().for_each(|making| advance(state, making));
            }
            state.guest.progress_in_mpi();
            state.settle();
            state.handles.announce();
        }
    }));
    0
}
