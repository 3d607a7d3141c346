//! The rank's side of the observers: starts the one of its node, and reads what it shows.
//!
//! With `FAMPI_OBSERVER`, the path of the program `fampi-observer`, on all ranks, the first rank of
//! each node starts an observer when the job starts, and every rank registers with that of its
//! node. From then on the death of a process of any node, and the loss of a node, is on a board in
//! shared memory, at which the library looks now and then: one load, when there is nothing new.
//!
//! ```text
//! launch  names, addresses and a secret ─ allgather ─▶ plan ─▶ fampi-observer (one per node)
//!         every rank ─ register ─▶ observer ─ board ─▶ every rank
//! later   board ─ one look later ─▶ the library tells MPI
//! new     a registered rank ─ charter ─▶ all; new ones register ─▶ observers announce them
//! tests   observer ─ question ─▶ every rank ─ answer ─▶ observer, if the user asks for them
//! always  every rank ─ beats ─▶ observer: a rank without any is hung, if the user sets a limit
//! leaving every rank ─ leave ─▶ observer: its end is no death
//! ```
//!
//! All ranks of the job have observers or none has: one that is missing would make its node one
//! that is lost to the others. Without them the run goes on, and a warning says so.
//!
//! With `FAMPI_HUNG_SECONDS` a rank that makes no progress for so long is dead to all others, and
//! killed ([`protocol::pulse`](crate::protocol::pulse) says what progress is). The limit of the
//! first rank is that of all.
//!
//! This module knows no MPI and has no unsafe code: the library lends it its collective calls
//! ([`Assembly`]), its mapped memory ([`Memory`]) and what else belongs to it ([`Own`]).
//!
//! **Guarantees.** What a rank that left in order had sent is not cut off: its end is not told.
//! A rank that finds itself dead to all others is told so.
//!
//! **Assumes** in a job of several nodes that an observer lives as long as its node: its death is
//! the loss of the node, to the others. A replacement on a node that the launch had not has no
//! observer, nor has one in a program that owns its MPI: deaths are seen there as without
//! observers.
//!
//! Reference: Zhong 2019 §4.2.

mod answers;
mod charter;
mod member;
mod register;
mod settings;
mod start;

use std::{
    cell::{Cell, RefCell},
    io::{self, Write as _},
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    process::Command,
};

pub use answers::answer;
use charter::Charter;
use member::Member;
pub use member::{Counts, News, Outcast};
pub use settings::{check as check_environment, program};

use crate::protocol::{Incarnation, Process, Rank, diagnosis::Opinion, registration::LEAVE};

/// What a process is to the observers: nothing, one that wants to register, or one that has and
/// has heard of as many incarnations as is added.
const NOBODY: u64 = 0;
const WISHES: u64 = 1;
const MEMBER: u64 = 2;

/// True if all processes wish to start observers, by their standings.
pub fn are_wished(standings: &[u64]) -> bool {
    standings.iter().all(|standing| *standing == WISHES)
}

/// Collective calls over the processes that meet, each of which all of them make in one order.
pub trait Assembly {
    /// Why a call failed.
    type Error;

    /// The rank of this process among those that meet.
    fn rank(&self) -> Rank;

    /// The numbers of all, by rank.
    fn gather_numbers<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>, Self::Error>;

    /// The bytes of all in one piece, in the order of the ranks.
    fn gather_bytes(&self, own: &[u8]) -> Result<Vec<u8>, Self::Error>;

    /// The least number of all.
    fn least(&self, own: u64) -> Result<u64, Self::Error>;
}

/// Words that another process writes and this one may only read.
pub trait Memory: Sized {
    /// The memory behind a descriptor that was handed to us, if it has so many words for ever.
    fn of(descriptor: OwnedFd, words: usize) -> io::Result<Self>;

    /// A word as it is now.
    fn word(&self, at: usize) -> u64;
}

/// A process, as all that meet know it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// A number that the processes of one node share, and those of no other; 0 if unknown.
    pub node: u64,
    /// How MPI names it; 0 when that is not known.
    pub name: u64,
}

/// What the library adds for this process.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The memory by which the observer sees this process make progress, if there is any.
    pub pulse: Option<BorrowedFd<'a>>,
    /// Makes a program that is about to be started inherit nothing but its standard streams.
    pub isolate: fn(&mut Command),
    /// Keeps signals that the program handles from the calling thread.
    pub block_signals: fn(),
}

/// What a process has of the observer of its node. It belongs to the thread that calls MPI.
#[derive(Debug)]
pub struct Client<M> {
    /// The registration, as long as this process and its observer have it.
    member: RefCell<Option<Member<M>>>,
    /// The registration while this process does without its observer.
    aside: RefCell<Option<Member<M>>>,
    /// True when this process has registered, or never will.
    settled: Cell<bool>,
}

impl<M: Memory> Client<M> {
    /// A process that has not met any other yet.
    pub const fn new() -> Self {
        Self { member: RefCell::new(None), aside: RefCell::new(None), settled: Cell::new(false) }
    }

    /// What this process is to the observers, which it tells the others when they meet. It only
    /// wants to register if the library `can_tell` MPI what observers say.
    pub fn standing(&self, can_tell: impl FnOnce() -> bool) -> u64 {
        let mut standing = NOBODY;
        self.with(|member| standing = MEMBER + u64::from(member.charter.newest));
        let wishes = !self.settled.get() && program().is_some() && can_tell();
        if standing == NOBODY && wishes { WISHES } else { standing }
    }

    /// The processes of a launch have met, and these are their standings: if all wish so, they
    /// start the observers and register. Collective.
    ///
    /// # Errors
    ///
    /// Those of the collective calls.
    pub fn meet<A: Assembly>(
        &self,
        assembly: &A,
        peers: &[Peer],
        standings: &[u64],
        own: &Own<'_>,
    ) -> Result<(), A::Error> {
        self.settled.set(true);
        match program() {
            Some(program) if are_wished(standings) => self.join(assembly, peers, &program, own)?,
            Some(_) => warn_without("not all ranks ask for them, or could tell MPI what they say"),
            None => {}
        }
        Ok(())
    }

    fn join<A: Assembly>(
        &self,
        assembly: &A,
        peers: &[Peer],
        program: &Path,
        own: &Own<'_>,
    ) -> Result<(), A::Error> {
        let started = start::observers(assembly, peers, program, own.isolate)?;
        // At the launch the observers number processes as the assembly does.
        let me = Process { rank: assembly.rank(), incarnation: Incarnation(0) };
        let registered =
            started.and_then(|(charter, node)| Member::register(charter, node, me, own));
        let all = assembly.least(u64::from(registered.is_ok()))? == 1;
        match registered {
            Ok(member) if all => drop(self.member.replace(Some(member))),
            Ok(_) => warn_without("another rank has none"),
            Err(why) => warn_without(&why),
        }
        Ok(())
    }

    /// The processes of a universe that a rebuild makes have met, and these are their standings:
    /// those of them that are new register. Collective.
    ///
    /// # Errors
    ///
    /// Those of the collective calls.
    pub fn meet_again<A: Assembly>(
        &self,
        assembly: &A,
        peers: &[Peer],
        standings: &[u64],
        own: &Own<'_>,
    ) -> Result<(), A::Error> {
        let admitted = self.admit(assembly, peers, standings, own);
        self.settled.set(true);
        admitted
    }

    /// The first registered rank tells all others who the new ones are, and these what they need.
    fn admit<A: Assembly>(
        &self,
        assembly: &A,
        peers: &[Peer],
        standings: &[u64],
        own: &Own<'_>,
    ) -> Result<(), A::Error> {
        let me = assembly.rank().index();
        let new: Vec<usize> = (0..standings.len()).filter(|at| standings[*at] == WISHES).collect();
        let first = standings.iter().position(|standing| *standing >= MEMBER);
        if let Some(first) = first.filter(|_| !new.is_empty()) {
            let heard_of = standings.iter().max().map_or(0, |most| most - MEMBER);
            let newest = u32::try_from(heard_of + 1).unwrap_or(u32::MAX);
            let mut bytes = Vec::new();
            self.with(|member| {
                // Before a new one can have it.
                member.charter.newest = newest;
                if first == me {
                    member.charter.admit(peers, &new);
                    bytes = member.charter.to_bytes();
                }
            });
            let bytes = assembly.gather_bytes(&bytes)?;
            match Charter::from_bytes(&bytes, newest) {
                Some(charter) if new.contains(&me) => self.enter(charter, peers[me], own),
                Some(charter) => self.with(|member| member.learn(&charter)),
                // The observer of that rank has ended in the middle of it.
                None => {}
            }
        }
        self.with(|member| member.charter.see(peers));
        Ok(())
    }

    /// A new process registers, if its node has an observer.
    fn enter(&self, charter: Charter, peer: Peer, own: &Own<'_>) {
        let place = charter.process(peer.name).zip(charter.node(peer.node));
        let member = match place {
            Some((me, node)) => Member::register(charter, node, me, own),
            None => Err("there is none on the node of this new process".into()),
        };
        match member {
            Ok(member) => drop(self.member.replace(Some(member))),
            Err(why) => warn_without(&why),
        }
    }

    /// Looks at the board, and has the library tell MPI what was new at the look before. To be
    /// called where this process has waited for long. True when `tell` has told MPI of a death.
    ///
    /// # Errors
    ///
    /// [`Outcast`] when this process has to stop.
    pub fn look(&self, tell: impl FnOnce(Vec<News>) -> bool) -> Result<bool, Outcast> {
        // MPI may call back while it is told.
        let Ok(mut place) = self.member.try_borrow_mut() else { return Ok(false) };
        let Some(member) = place.as_mut().filter(|member| !member.is_closed) else {
            return Ok(false);
        };
        let news = member.look()?;
        let told = !news.is_empty() && tell(news);
        if member.is_alone() {
            tracing::warn!("the observer of this node has ended: the run goes on without it");
            *place = None;
        }
        Ok(told)
    }

    /// Takes the observer back that was put aside, or puts it aside, so that this process does what
    /// one without an observer does.
    pub fn observe(&self, observed: bool) {
        let (from, to) =
            if observed { (&self.aside, &self.member) } else { (&self.member, &self.aside) };
        if let Some(member) = from.take() {
            to.replace(Some(member));
        }
    }

    /// What the observer has counted, if it tests anybody.
    pub fn counts(&self) -> Option<Counts> {
        self.member.try_borrow().ok()?.as_ref()?.counts()
    }

    /// What the observer has counted of the one of another node, by its number.
    pub fn opinion_of(&self, node: u32) -> Option<Opinion> {
        Some(self.member.try_borrow().ok()?.as_ref()?.opinion_of(node))
    }

    /// True when an observer tells this process of deaths.
    pub fn is_on(&self) -> bool {
        self.member.try_borrow().is_ok_and(|member| member.is_some())
    }

    /// From now on the end of other processes is no news.
    pub fn close(&self) {
        self.with(|member| {
            if !std::mem::replace(&mut member.is_closed, true) {
                member.sum_up();
            }
        });
    }

    /// All is done: our own end is no news, either.
    pub fn leave(&self) {
        // One that is gone needs no word.
        self.with(|member| drop(member.connection.write_all(&[LEAVE])));
    }

    fn with(&self, action: impl FnOnce(&mut Member<M>)) {
        if let Ok(mut place) = self.member.try_borrow_mut()
            && let Some(member) = place.as_mut()
        {
            action(member);
        }
    }
}

impl<M: Memory> Default for Client<M> {
    fn default() -> Self {
        Self::new()
    }
}

fn warn_without(why: &str) {
    tracing::warn!(why, "no observers: deaths are seen by the watcher and by MPI");
}
