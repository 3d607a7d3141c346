//! The rank's side of the observers: starts the one of its node, and reads what it shows.
//!
//! With `FAMPI_OBSERVER`, the path of the program `fampi-observer`, on all ranks, the first rank of
//! each node starts an observer when the job starts, and every rank registers with that of its
//! node. From then on the death of a process of any node, and the loss of a node, is on a board in
//! shared memory, which is looked at where the watcher looks: one load, when there is nothing new.
//! What is new is told to MPI ([`notice`]), as what the watcher sees is; the first one wins.
//!
//! ```text
//! launch  names, addresses and a secret ─ allgather ─▶ plan ─▶ fampi-observer (one per node)
//!         every rank ─ register ─▶ observer ─ board ─▶ every rank
//! later   board ─ one look later ─▶ MPI marks it failed
//! leaving every rank ─ leave ─▶ observer: its end is no death
//! ```
//!
//! All ranks of the job have observers or none has: one that is missing would make its node one
//! that is lost to the others. Without them the run goes on with the watcher and MPI's own reports.
//!
//! **Guarantees.** What a rank that left in order had sent is not cut off: its end is not told.
//! A rank that finds itself dead to all others stops.
//!
//! **Assumes** in a job of several nodes that an observer lives as long as its node: its death is
//! the loss of the node, to the others. Replacements and communicators of a host program are not
//! registered; their deaths are seen as without observers.
//!
//! Reference: `papers/rdaemon.txt` §4.2.

mod register;
mod start;

use std::{
    cell::RefCell,
    env,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use super::{
    calls::Checked,
    comm::Comm,
    exit,
    memory::View,
    notice::{self, Name},
    process::{self, Acquaintance, Process},
};
use crate::protocol::detector::{
    self, Cause, Incarnation,
    board::{ENTRIES_AT, ENTRY_WORDS, Entry, HEAD_WORDS},
    registration::LEAVE,
};

const SWITCH: &str = "FAMPI_OBSERVER";
/// Looks between two questions whether the observer is still there.
const LOOKS: u32 = 4096;

/// A rank that is registered.
#[derive(Debug)]
struct Member {
    me: detector::Process,
    connection: UnixStream,
    board: View,
    room: u32,
    /// How MPI names the ranks of the launch.
    names: Vec<u64>,
    read: u32,
    /// Seen at the last look, to be told at the next one.
    seen: Vec<Entry>,
    looks: u32,
    is_closed: bool,
}

thread_local! {
    /// It belongs to the thread that calls MPI, which alone may tell it anything.
    static MEMBER: RefCell<Option<Member>> = const { RefCell::new(None) };
}

/// True when this process wants an observer and could use what it says.
pub(super) fn wish() -> bool {
    program().is_some() && notice::find().is_some()
}

fn program() -> Option<PathBuf> {
    env::var_os(SWITCH).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Every process tells the others who it is; in a launch in which all wish so, they then start the
/// observers and register. Collective.
pub(super) fn meet(comm: &Comm) -> Checked<Acquaintance> {
    let acquaintance = process::meet(comm)?;
    match program() {
        Some(program) if acquaintance.observed => join(comm, &acquaintance.processes, &program)?,
        Some(_) => warn_without("not all ranks ask for them, or could tell MPI what they say"),
        None => {}
    }
    Ok(acquaintance)
}

fn join(comm: &Comm, processes: &[Process], program: &Path) -> Checked<()> {
    let joined = start::observers(comm, processes, program)?;
    // The same on all ranks, up to here.
    let registered = joined.and_then(|(plan, me)| register::register(&plan, me));
    let all = comm.least(u64::from(registered.is_ok()))? == 1;
    match registered {
        Ok(registered) if all => {
            let names = processes.iter().map(|process| process.name).collect();
            MEMBER.set(Some(Member::new(registered, names)));
        }
        Ok(_) => warn_without("another rank has none"),
        Err(why) => warn_without(&why),
    }
    Ok(())
}

fn warn_without(why: &str) {
    tracing::warn!(why, "no observers: deaths are seen by the watcher and by MPI");
}

impl Member {
    fn new(registered: register::Registered, names: Vec<u64>) -> Self {
        let register::Registered { me, connection, board, room } = registered;
        let (read, seen, looks, is_closed) = (0, Vec::new(), 0, false);
        Self { me, connection, board, room, names, read, seen, looks, is_closed }
    }

    /// Takes what is new on the board, and tells MPI what was so at the last look.
    fn look(&mut self) -> bool {
        let told = std::mem::take(&mut self.seen);
        let entries = self.board.word(ENTRIES_AT) as u32;
        if entries != self.read {
            self.read_up_to(entries.min(self.room));
        }
        if told.is_empty() {
            return false;
        }
        let Some(notice) = notice::find() else { return false };
        for entry in &told {
            let name = self.names.get(entry.process.rank.index()).copied().unwrap_or(0);
            if name != 0 && entry.process.incarnation == Incarnation(0) {
                let (rank, cause) = (entry.process.rank.number(), entry.cause);
                let hard = entry.is_hard();
                tracing::debug!(rank, ?cause, hard, "the observer told of a death");
                notice.tell(Name(name), false);
            }
        }
        true
    }

    #[cold]
    fn read_up_to(&mut self, entries: u32) {
        while self.read < entries {
            let at = HEAD_WORDS + self.read as usize * ENTRY_WORDS;
            let words = std::array::from_fn(|word| self.board.word(at + word));
            // Not there yet, for us.
            let Some(entry) = Entry::from_words(words, self.read) else { return };
            self.read += 1;
            if entry.process == self.me {
                exit::die_by_signal("all other ranks take this process for dead; it stops");
            }
            // Who left in order has sent what it had to.
            if entry.cause != Cause::Exit(0) {
                self.seen.push(entry);
            }
        }
    }

    /// True when the observer has ended; asked now and then.
    fn is_alone(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        // An observer says nothing after its welcome.
        self.looks.is_multiple_of(LOOKS) && matches!(self.connection.read(&mut [0]), Ok(0))
    }
}

/// To be called where this process has waited for long. True when MPI was told of a death.
pub(super) fn look() -> bool {
    MEMBER.with(|member| {
        // MPI may call back while it is told.
        let Ok(mut place) = member.try_borrow_mut() else { return false };
        let Some(member) = place.as_mut().filter(|member| !member.is_closed) else { return false };
        let told = member.look();
        if member.is_alone() {
            tracing::warn!("the observer of this node has ended: the run goes on without it");
            *place = None;
        }
        told
    })
}

/// From now on the end of other processes is no news.
pub(super) fn close() {
    with(|member| member.is_closed = true);
}

/// All is done: our own end is no news, either.
pub(super) fn leave() {
    // One that is gone needs no word.
    with(|member| drop(member.connection.write_all(&[LEAVE])));
}

fn with(action: impl FnOnce(&mut Member)) {
    // There is none any more when its thread has ended.
    let _ = MEMBER.try_with(|member| {
        if let Ok(mut place) = member.try_borrow_mut()
            && let Some(member) = place.as_mut()
        {
            action(member);
        }
    });
}
