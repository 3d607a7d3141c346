//! All processes of a world and of its spares, and which rank each of them holds.
//!
//! ```text
//! spares   a block of the pool, finished at once ─────────── decided ─ recover, or leave
//! ranks    blocks of the world …  a death ─ the same block ────┘
//!
//! recover  shrink the pool ─ who takes which rank ─┬──────────────────────────┬─ split ─ enter
//!          too few spares:                         └ spawn ─ grow ─ tell all ─┘
//! new      join the pool ──────────────────────────────────────── told ─ split ─ enter
//! ```
//!
//! Each step ends in one verdict on all living processes of the pool; after a death in any of them
//! all begin again, a few times.

use std::{
    ffi::{CString, c_int},
    mem::{forget, replace},
    thread::sleep,
    time::Duration,
};

use mpi::ffi::{MPI_Comm, MPI_Request};

use crate::{
    calls,
    codes::{
        FAMPI_ERR_CREATION, FAMPI_ERR_INTERNAL, FAMPI_ERR_TIMEOUT, FAMPI_TIMEOUT_NEVER,
        FAMPI_TIMEOUT_POLL, Result,
    },
    origin::{free_comm, no_comm, place_in},
};

/// How often a recovery begins again.
const ATTEMPTS: c_int = 5;
/// How long a process without a rank sleeps between two looks.
const NAP: Duration = Duration::from_millis(1);

/// In the place of a rank: a process that waits for one, and one of which nobody has said anything.
/// The greatest of what several say is what they know.
const PARKED: c_int = -1;
const UNKNOWN: c_int = -2;

/// Codes of faults on the pool, where no application raises any.
const DISMISSED: c_int = 1001;
const NOT_DONE: c_int = 1002;
const NEEDED: c_int = 1003;

/// Where a recovery begins.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Entry {
    /// A process has died.
    Shrink,
    /// This process is new, and knows nothing yet.
    New,
    /// All ranks are held, and nobody has a communicator of them.
    Whole,
}

pub(crate) struct Pool {
    comm: MPI_Comm,
    /// The rank that each process of the pool holds in the world, if it holds one.
    places: Vec<c_int>,
    /// How many ranks the world has.
    ranks: c_int,
    /// Survivors move together before places are filled.
    closes_ranks: bool,
    /// What a new process runs; nothing where none is to be started.
    words: Vec<CString>,
    attempt: c_int,
    /// There was a world of these ranks before, whose data who is new in it lacks.
    pub(crate) has_had_world: bool,
}

impl Pool {
    /// That of a launch, of whose processes the last ones are parked.
    pub(crate) fn of_launch(
        comm: MPI_Comm,
        spares: c_int,
        closes_ranks: bool,
        words: Vec<CString>,
    ) -> Result<Self> {
        let (_, size) = place_in(comm)?;
        let ranks = size - spares;
        let places = (0..size).map(|at| if at < ranks { at } else { PARKED }).collect();
        let has_had_world = false;
        Ok(Self { comm, places, ranks, closes_ranks, words, attempt: 0, has_had_world })
    }

    /// That which a new process has joined.
    pub(crate) fn joined(comm: MPI_Comm, closes_ranks: bool, words: Vec<CString>) -> Result<Self> {
        let (_, size) = place_in(comm)?;
        let places = vec![UNKNOWN; size as usize];
        let has_had_world = false;
        Ok(Self { comm, places, ranks: 0, closes_ranks, words, attempt: 0, has_had_world })
    }

    pub(crate) fn has_spares(&self) -> bool {
        self.places.contains(&PARKED)
    }

    /// A communicator of all ranks, on those that hold one, and in use; nothing on the others.
    ///
    /// All processes of the pool get it, or one and the same error.
    pub(crate) fn recover(&mut self, entry: Entry) -> Result<Option<MPI_Comm>> {
        let mut entry = entry;
        self.attempt = 0;
        while self.attempt < ATTEMPTS {
            match self.once(entry) {
                Err(FAMPI_ERR_CREATION) => {}
                over => return over,
            }
            self.attempt += 1;
            entry = Entry::Shrink;
        }
        Err(FAMPI_ERR_CREATION)
    }

    fn once(&mut self, entry: Entry) -> Result<Option<MPI_Comm>> {
        if entry == Entry::Shrink {
            self.shrink()?;
            // In a first attempt all know the same; later there may be new ones.
            if self.attempt > 0 {
                self.tell()?;
            }
            let lacking = self.lacking()?;
            if lacking > 0 {
                self.grow(lacking)?;
            }
        }
        if self.places.contains(&UNKNOWN) {
            self.tell()?;
        }
        self.fill();
        self.make()
    }

    /// Leaves out the dead.
    fn shrink(&mut self) -> Result<()> {
        let living = calls::shrink(self.comm)?;
        let lives = calls::ranks_that_are_in(self.comm, living, self.places.len() as c_int)?;
        let mut lives = lives.into_iter();
        self.places.retain(|_| lives.next().unwrap_or(false));
        free_comm(replace(&mut self.comm, living));
        Ok(())
    }

    /// How many processes there are too few.
    fn lacking(&mut self) -> Result<c_int> {
        let lacking = self.ranks - self.places.len() as c_int;
        if lacking > 0 && self.words.is_empty() {
            // No attempt helps.
            self.attempt = ATTEMPTS;
            return Err(FAMPI_ERR_CREATION);
        }
        Ok(lacking.max(0))
    }

    /// Starts processes, which are behind all others.
    fn grow(&mut self, count: c_int) -> Result<()> {
        let link = calls::spawn(self.comm, &self.words, count)?;
        let grown = calls::grow(self.comm, link, count);
        free_comm(link);
        free_comm(replace(&mut self.comm, grown?));
        self.places.extend((0..count).map(|_| UNKNOWN));
        Ok(())
    }

    /// New processes learn what the others know, which then is the same everywhere.
    fn tell(&mut self) -> Result<()> {
        let known = [self.attempt, self.ranks, self.has_had_world.into()];
        let mine: Vec<c_int> = known.into_iter().chain(self.places.iter().copied()).collect();
        let mut all = vec![UNKNOWN; mine.len()];
        let told = together(self.comm, || calls::greatest(self.comm, &mine, &mut all).map(Some));
        if told.is_err() {
            // A request that was cut short may write to them still.
            forget((mine, all));
            return told;
        }
        self.attempt = all[0];
        self.ranks = all[1];
        self.has_had_world = all[2] == 1;
        // Nobody has said anything of those who are new.
        let places = all[3..].iter().map(|place| (*place).max(PARKED));
        self.places = places.collect();
        Ok(())
    }

    /// Processes without a rank take those that nobody holds, both in their order.
    fn fill(&mut self) {
        if self.closes_ranks {
            let mut held: Vec<c_int> = self.places.clone();
            held.retain(|place| *place != PARKED);
            held.sort_unstable();
            for place in self.places.iter_mut().filter(|place| **place != PARKED) {
                *place = held.binary_search(place).map_or(PARKED, |at| at as c_int);
            }
        }
        let vacant: Vec<c_int> = (0..self.ranks).filter(|it| !self.places.contains(it)).collect();
        let parked = self.places.iter_mut().filter(|place| **place == PARKED);
        for (place, rank) in parked.zip(vacant) {
            *place = rank;
        }
    }

    /// The communicator of those that hold ranks.
    fn make(&mut self) -> Result<Option<MPI_Comm>> {
        let (me, _) = place_in(self.comm)?;
        let place = Some(self.places[me as usize]).filter(|place| *place != PARKED);
        let mut world = None;
        let mut made = together(self.comm, || {
            world = calls::split(self.comm, place)?;
            Ok(None)
        });
        if made.is_ok() {
            made = together(self.comm, || world.map_or(Ok(()), calls::enter).map(|()| None));
        }
        if made.is_err()
            && let Some(world) = world
        {
            free_comm(world);
        }
        made.map(|()| world)
    }

    /// Tells the spares that a process has died.
    pub(crate) fn wake(&self) -> Result<()> {
        self.call_spares(NEEDED)
    }

    /// Lets the spares go.
    pub(crate) fn dismiss(&self) -> Result<()> {
        self.call_spares(DISMISSED)
    }

    fn call_spares(&self, code: c_int) -> Result<()> {
        if !self.has_spares() {
            return Ok(());
        }
        let mut block = calls::start_block(self.comm)?;
        let raised = calls::raise(block, code).and_then(|()| calls::finish(block, &mut []));
        if raised.is_ok() {
            // Faulty, as it has to be.
            let _ = calls::wait(&mut block, FAMPI_TIMEOUT_NEVER);
        }
        calls::free_request(&mut block);
        raised
    }

    /// Waits until this process has a rank; nothing when it is not needed any more.
    pub(crate) fn park(&mut self) -> Option<MPI_Comm> {
        while self.is_needed().unwrap_or(false) {
            match self.recover(Entry::Shrink) {
                Ok(None) => {}
                Ok(Some(world)) => return Some(world),
                Err(_) => return None,
            }
        }
        None
    }

    /// Waits in a block of the pool for the ranks, without a processor.
    fn is_needed(&self) -> Result<bool> {
        let mut block = calls::start_block(self.comm)?;
        calls::finish(block, &mut [])?;
        let mut over = calls::wait(&mut block, FAMPI_TIMEOUT_POLL);
        while over == Err(FAMPI_ERR_TIMEOUT) {
            sleep(NAP);
            over = calls::wait(&mut block, FAMPI_TIMEOUT_POLL);
        }
        let is_needed = over.is_err() && !calls::has_fault(block, DISMISSED, self.comm)?;
        calls::free_request(&mut block);
        Ok(is_needed)
    }

    /// The end of it.
    pub(crate) fn free(self) {
        free_comm(self.comm);
    }
}

/// A communicator of all processes of the launch, in use; on all of them, or on none.
pub(crate) fn of_all() -> Result<MPI_Comm> {
    calls::enter(calls::all())?;
    let mut comm = no_comm();
    let made = together(calls::all(), || {
        comm = calls::duplicate(calls::all())?;
        Ok(None)
    });
    if let Err(code) = made.and_then(|()| calls::enter(comm)) {
        free_comm(comm);
        return Err(code);
    }
    Ok(comm)
}

/// A step that all processes of a communicator take, in a block; its request, if it has one, is
/// over then. The verdict is the same on all of them.
fn together(comm: MPI_Comm, step: impl FnOnce() -> Result<Option<MPI_Request>>) -> Result<()> {
    let mut block = calls::start_block(comm)?;
    let done = step();
    if done.is_err() {
        calls::raise(block, NOT_DONE)?;
        // Others may wait for this process in the same call of MPI.
        calls::interrupt(block)?;
    }
    let mut requests = [done.ok().flatten().unwrap_or_else(crate::request::null)];
    calls::finish(block, &mut requests)?;
    let over = calls::wait(&mut block, FAMPI_TIMEOUT_NEVER);
    calls::free_request(&mut requests[0]);
    calls::free_request(&mut block);
    over.map_err(|code| if code == FAMPI_ERR_INTERNAL { code } else { FAMPI_ERR_CREATION })
}
