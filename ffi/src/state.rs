//! All that this process knows: communicators, requests, blocks. One thread owns it.
//!
//! Every function of the interface goes through [`enter`]: no panic leaves it, no other thread
//! comes in, and what the program has freed since the last call is taken off the tables first.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

use fampi_core::{
    Rank,
    engine::platform::PostId,
    guest::{Guest, GuestComm},
    mpi::MpiPlatform,
};
use mpi::ffi;

pub(crate) use crate::handles::{Block, Entry, Kind};
use crate::{
    callbacks::{attribute, comm_is_freed, mark, mpi_ends, mpi_is_waiting},
    codes::{
        FAMPI_ERR_COMM, FAMPI_ERR_CREATION, FAMPI_ERR_INTERNAL, FAMPI_ERR_REQUEST, FAMPI_ERR_STATE,
        FAMPI_ERR_THREAD, FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, of_error,
    },
    fused::Number,
    handles::Handles,
    list::{self, List},
    message::Message,
    owned::Owned,
    recover::links_two_groups,
    request::{empty_status, null, repeats},
    spawn,
    users::{self, Users},
    wait::Awaited,
};

/// What a function of the interface comes to: success, or the code to return.
pub(crate) type Result<T> = std::result::Result<T, c_int>;

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
    /// The program has started collectives through us.
    pub(crate) collectives: bool,
    /// To make lists of.
    pub(crate) lists: Lists,
    /// The types of numbers that reductions had.
    pub(crate) numbers: Vec<(ffi::MPI_Datatype, Number)>,
    attribute: c_int,
}

/// What belongs to the thread that calls us.
pub(crate) struct Here {
    /// What every call returns: after a panic, or when MPI is being finalised. 0 until then.
    closed: Cell<c_int>,
    pub(crate) state: RefCell<Option<State>>,
    /// Something was freed since somebody looked, or all is over: to be seen to before a call.
    pub(crate) news: Cell<bool>,
    /// Places of requests that MPI has freed since somebody looked.
    pub(crate) freed: RefCell<Vec<u32>>,
    /// The program's requests that it has freed since somebody looked.
    pub(crate) freed_by_program: RefCell<Vec<ffi::MPI_Request>>,
    /// Communicators that the program has freed since somebody looked.
    pub(crate) freed_comms: RefCell<Vec<ffi::MPI_Comm>>,
}

/// Not dropped at the end: that would be late for MPI.
pub(crate) static HERE: Owned<Here> = Owned::new(Here {
    closed: Cell::new(0),
    state: RefCell::new(None),
    news: Cell::new(false),
    freed: RefCell::new(Vec::new()),
    freed_by_program: RefCell::new(Vec::new()),
    freed_comms: RefCell::new(Vec::new()),
});

/// Runs the body of a function; its result becomes the return code.
///
/// The body goes on by reference: moved through the functions below, what it holds would be copied
/// in larger pieces than it was written in, for which a processor waits.
// A block without requests costs little more than its calls: a few more count.
#[allow(clippy::inline_always)]
#[inline(always)]
pub(crate) fn enter(mut body: impl FnMut(&mut Option<State>) -> Result<()>) -> c_int {
    let body = &mut body;
    let Some(here) = HERE.get() else { return FAMPI_ERR_THREAD };
    let guarded = catch_unwind(AssertUnwindSafe(|| enter_here(here, body)));
    guarded.map_or_else(|panic| close(here, &panic), |done| done.err().unwrap_or(0))
}

/// A panic was caught: nothing goes on after it.
#[cold]
fn close(here: &Here, _: &Box<dyn Any + Send>) -> c_int {
    here.close(FAMPI_ERR_INTERNAL);
    FAMPI_ERR_INTERNAL
}

#[inline]
fn enter_here(here: &Here, body: &mut impl FnMut(&mut Option<State>) -> Result<()>) -> Result<()> {
    let mut state = here.state.try_borrow_mut().map_err(|_| here.refusal())?;
    if here.news.get() {
        here.see_to_news(&mut state)?;
    }
    body(&mut state)
}

impl Here {
    /// From now on every call returns this code.
    pub(crate) fn close(&self, code: c_int) {
        self.closed.set(code);
        self.news.set(true);
    }

    /// For a call that comes while another one is going on.
    #[cold]
    fn refusal(&self) -> c_int {
        if self.closed.get() == 0 { FAMPI_ERR_INTERNAL } else { self.closed.get() }
    }

    #[cold]
    fn see_to_news(&self, state: &mut Option<State>) -> Result<()> {
        if self.closed.get() != 0 {
            return Err(self.closed.get());
        }
        if let Some(state) = state.as_mut() {
            self.news.set(false);
            state.clear(self);
        }
        Ok(())
    }
}

/// The same for functions that need a first block, or a first communicator, before.
#[inline]
pub(crate) fn enter_started(mut body: impl FnMut(&mut State) -> Result<()>) -> c_int {
    enter(|state| body(state.as_mut().ok_or(FAMPI_ERR_REQUEST)?))
}

impl State {
    fn new() -> Result<Self> {
        spawn::keep();
        let platform = MpiPlatform::guest().map_err(|error| {
            eprintln!("fampi: {error}");
            of_error(&error)
        })?;
        let is_called_back = platform.call_back(mpi_is_waiting);
        let finished = platform.finished_request();
        // SAFETY: reading a constant that MPI's library defines.
        mark(unsafe { ffi::RSMPI_COMM_SELF }, attribute(mpi_ends)?)?;
        Ok(Self {
            guest: Guest::new(Box::new(platform)),
            comms: Vec::new(),
            refused: Vec::new(),
            handles: Handles::default(),
            users: Users::default(),
            finished,
            collectives: false,
            lists: Lists::default(),
            is_called_back,
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
    pub(crate) fn clear(&mut self, here: &Here) {
        while let Some(raw) = here.freed_comms.borrow_mut().pop() {
            self.refused.retain(|refused| *refused != raw);
            if let Some(at) = self.comms.iter().position(|known| known.raw == raw) {
                let comm = self.comms.swap_remove(at).comm;
                self.guest.abandon(comm);
                if let Some(data) = self.guest.data(comm) {
                    self.guest.with_mpi(|mpi| mpi.forget_comm(data));
                }
            }
        }
        while let Some(place) = here.freed.borrow_mut().pop() {
            self.let_go(place);
            self.handles.give_back(place);
        }
        let mut freed = here.freed_by_program.take();
        if !freed.is_empty() {
            self.guest.with_mpi(|mpi| freed.iter().for_each(|raw| mpi.free_request(*raw)));
            freed.clear();
        }
        here.freed_by_program.replace(freed);
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
    pub(crate) fn free(&mut self, slot: &mut ffi::MPI_Request) -> bool {
        if self.collectives {
            self.end_collectives_of(*slot);
        }
        let Self { guest, handles, .. } = self;
        let entry = handles.entry(*slot).filter(|entry| entry.handle.is_to_be_announced());
        let Some(Entry { kind, handle, held }) = entry else { return false };
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
        true
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
        if raw == *finished { Ok(()) } else { users.adopt_message(guest, raw, comm, peer) }
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
        // SAFETY: live, as MPI has just answered for it; `comm_is_freed` tells of its end.
        let adopted = self.guest.with_mpi(|mpi| unsafe { mpi.adopt_comm(raw) });
        if adopted.is_err() {
            mark(raw, self.attribute)?;
            self.refused.push(raw);
        }
        let adopted = adopted.map_err(|error| of_error(&error))?;
        let comm = self.guest.adopt(adopted.id, adopted.universe, adopted.place, adopted.data);
        self.know(raw, comm)?;
        Ok(comm)
    }

    /// From now on this communicator of the program is that one of ours.
    pub(crate) fn know(&mut self, raw: ffi::MPI_Comm, comm: GuestComm) -> Result<()> {
        mark(raw, self.attribute)?;
        self.comms.push(Known { raw, comm });
        Ok(())
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

    /// The operation behind a request of the program's own, which MPI keeps from now on; nothing
    /// for one that was over when it started, which is one request for all of these.
    pub(crate) fn operation(&mut self, raw: ffi::MPI_Request) -> Result<Option<PostId>> {
        let Self { guest, handles, finished, .. } = self;
        if raw == *finished {
            return Ok(None);
        }
        if handles.is_freed(raw) {
            return Err(FAMPI_ERR_REQUEST);
        }
        guest.with_mpi(|mpi| users::adopt(mpi, raw, users::kind_of(mpi, raw))).map(Some)
    }

    /// True for a request of the program's own that is no other one's, too.
    pub(crate) fn may_be_named(&mut self, raw: ffi::MPI_Request) -> bool {
        let is_known = self.user(raw).is_some();
        raw != null() && raw != self.finished && (is_known || !self.handles.was_freed(raw))
    }

    /// Records that a request of the program's own has failed.
    pub(crate) fn raise_in(&mut self, raw: ffi::MPI_Request, code: c_int) -> Result<()> {
        let post = self.operation(raw)?.ok_or(FAMPI_ERR_REQUEST)?;
        let raised = self.guest.with_mpi(|mpi| mpi.raise_in_request(post, code));
        if raised { Ok(()) } else { Err(FAMPI_ERR_STATE) }
    }

    /// The operation behind a request of the program's own that MPI keeps for us.
    fn user(&mut self, raw: ffi::MPI_Request) -> Option<PostId> {
        self.guest.with_mpi(|mpi| mpi.find_request(raw))
    }

    /// The message of ours behind a request, if it is one.
    pub(crate) fn message(&mut self, raw: ffi::MPI_Request) -> Option<Message> {
        let Self { guest, users, .. } = self;
        guest.with_mpi(|mpi| mpi.find_request(raw).and_then(|post| users.message(mpi, post)))
    }

    /// True for a request that we made, or that MPI keeps for us.
    pub(crate) fn knows(&mut self, raw: ffi::MPI_Request) -> bool {
        self.entry(raw).is_some() || self.user(raw).is_some()
    }

    /// Status and code of a request that is over, as far as is known; null is over.
    pub(crate) fn outcome(&mut self, raw: ffi::MPI_Request) -> Option<(ffi::MPI_Status, c_int)> {
        if raw == null() || raw == self.finished {
            return Some((empty_status(), 0));
        }
        if let Some(entry) = self.entry(raw) {
            return entry.handle.outcome();
        }
        let post = self.user(raw)?;
        users::outcome(&mut self.guest, post)
    }

    /// The program frees a request that MPI has to free: one that is not over does so later.
    #[inline(never)]
    pub(crate) fn leave(&mut self, raw: ffi::MPI_Request) {
        let Some(entry) = self.handles.entry(raw) else { return };
        entry.held = entry.handle.is_complete();
        if let Kind::Block(block) = &entry.kind
            && !block.finished
        {
            self.guest.leave_block(block.name);
            self.settle();
        }
    }

    /// Frees a request that is over; one that can be started again stays.
    #[inline(never)]
    pub(crate) fn release(&mut self, slot: &mut ffi::MPI_Request) {
        if self.entry(*slot).is_none()
            && let Some(post) = self.user(*slot)
            && users::is_persistent(&mut self.guest, post)
        {
            return;
        }
        if !self.free(slot) {
            // SAFETY: complete; the program has given it to us to be freed.
            unsafe { ffi::MPI_Request_free(slot) };
        }
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

    /// The same after a wait for a block, which is mostly the only request.
    #[inline]
    pub(crate) fn settle_others(&mut self) {
        if self.handles.unheard() > 1 || !self.is_called_back {
            self.settle();
        }
    }
}

/// The code of a block, once it is decided, whose result the program gets if it has it still.
#[inline]
pub(crate) fn code_of(guest: &Guest, block: &mut Block, held: bool) -> Option<c_int> {
    let committed = guest.verdict(block.name)?;
    if block.result.is_some() && held {
        write_result(guest, block);
    }
    Some(if committed { 0 } else { FAMPI_ERR_TRYBLOCK_FOUND_ERRORS })
}

#[inline(never)]
fn write_result(guest: &Guest, block: &mut Block) {
    if let Some(target) = block.result.take() {
        target.write(guest.fused(block.name));
    }
}

/// The list of a block that was freed.
#[inline(never)]
fn forget_parts(guest: &mut Guest, block: &mut Block) {
    guest.with_mpi(|mpi| list::forget(mpi, &block.parts));
    block.parts.clear();
}

/// Completes a request whose end is known.
fn settle_entry(guest: &mut Guest, entry: &mut Entry) {
    let code = match &mut entry.kind {
        Kind::Block(block) => code_of(guest, block, entry.held),
        Kind::Making(making) => {
            entry.handle.tell(empty_status());
            making.outcome()
        }
        Kind::Collective(running) => {
            entry.handle.tell(empty_status());
            running.outcome(guest)
        }
        Kind::Nothing => None,
    };
    if let Some(code) = code {
        entry.handle.complete(code);
    }
}
