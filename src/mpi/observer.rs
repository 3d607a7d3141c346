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
//! new     a registered rank ─ charter ─▶ all; new ones register ─▶ observers announce them
//! always  every rank ─ beats ─▶ observer: a rank without any is hung, if the user sets a limit
//! leaving every rank ─ leave ─▶ observer: its end is no death
//! ```
//!
//! All ranks of the job have observers or none has: one that is missing would make its node one
//! that is lost to the others. Without them the run goes on with the watcher and MPI's own reports.
//!
//! With `FAMPI_HUNG_SECONDS` a rank that makes no progress for so long is dead to all others, and
//! killed ([`detector::pulse`] says what progress is). The limit of the first rank is that of all.
//!
//! **Guarantees.** What a rank that left in order had sent is not cut off: its end is not told.
//! A rank that finds itself dead to all others stops.
//!
//! **Assumes** in a job of several nodes that an observer lives as long as its node: its death is
//! the loss of the node, to the others. A replacement on a node that the launch had not has no
//! observer, and communicators of a host program are not registered: deaths are seen there as
//! without observers.
//!
//! Reference: `papers/rdaemon.txt` §4.2.

mod charter;
mod pulse;
mod register;
mod settings;
mod start;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use charter::Charter;
pub(super) use pulse::rest;
pub(super) use settings::check as check_environment;
use settings::program;

use super::{
    calls::Checked,
    comm::Comm,
    exit,
    memory::View,
    notice::{self, Name},
    process::{self, Acquaintance, Process},
    trace, watcher,
};
use crate::{
    engine::pulse::Pulse,
    protocol::detector::{
        self, Cause, Incarnation, Node,
        board::{ENTRIES_AT, ENTRY_WORDS, Entry, HEAD_WORDS, Head},
        registration::LEAVE,
    },
};

/// Looks between two questions whether the observer is still there.
const LOOKS: u32 = 4096;

/// What a process is to the observers: nothing, one that wants to register, or one that has and
/// has heard of as many incarnations as is added.
const NOBODY: u64 = 0;
const WISHES: u64 = 1;
const MEMBER: u64 = 2;

/// A rank that is registered.
#[derive(Debug)]
struct Member {
    me: detector::Process,
    connection: UnixStream,
    board: View,
    room: u32,
    charter: Charter,
    read: u32,
    /// Seen at the last look, to be told at the next one, each with its moment.
    seen: Vec<(Entry, Duration)>,
    looks: u32,
    is_closed: bool,
}

thread_local! {
    /// It belongs to the thread that calls MPI, which alone may tell it anything.
    static OURS: RefCell<Option<Member>> = const { RefCell::new(None) };
    /// The same while this process does without its observer.
    static ASIDE: RefCell<Option<Member>> = const { RefCell::new(None) };
    /// This process has registered, or never will.
    static SETTLED: Cell<bool> = const { Cell::new(false) };
}

/// What this process is to the observers, which it tells the others when they meet.
pub(super) fn standing() -> u64 {
    let mut standing = NOBODY;
    with(|member| standing = MEMBER + u64::from(member.charter.newest));
    let wishes = !SETTLED.get() && program().is_some() && notice::find().is_some();
    if standing == NOBODY && wishes { WISHES } else { standing }
}

/// Every process tells the others who it is; in a launch in which all wish so, they then start the
/// observers and register. Collective.
pub(super) fn meet(comm: &Comm) -> Checked<Acquaintance> {
    let acquaintance = process::meet(comm)?;
    SETTLED.set(true);
    let all_wish = acquaintance.standings.iter().all(|standing| *standing == WISHES);
    match program() {
        Some(program) if all_wish => join(comm, &acquaintance.processes, &program)?,
        Some(_) => warn_without("not all ranks ask for them, or could tell MPI what they say"),
        None => {}
    }
    Ok(acquaintance)
}

fn join(comm: &Comm, processes: &[Process], program: &Path) -> Checked<()> {
    let started = start::observers(comm, processes, program)?;
    // The same on all ranks, up to here.
    let me = detector::Process { rank: comm.rank(), incarnation: Incarnation(0) };
    let registered = started.and_then(|(charter, node)| Member::register(charter, node, me));
    let all = comm.least(u64::from(registered.is_ok()))? == 1;
    match registered {
        Ok(member) if all => OURS.set(Some(member)),
        Ok(_) => warn_without("another rank has none"),
        Err(why) => warn_without(&why),
    }
    Ok(())
}

/// The same in a universe that a rebuild makes: what is new in it registers. Collective.
pub(super) fn meet_again(comm: &Comm) -> Checked<Acquaintance> {
    let acquaintance = process::meet(comm)?;
    let admitted = admit(comm, &acquaintance);
    SETTLED.set(true);
    admitted.map(|()| acquaintance)
}

/// The first registered rank tells all others who the new ones are, and these what they need.
fn admit(comm: &Comm, Acquaintance { processes, standings, .. }: &Acquaintance) -> Checked<()> {
    let me = comm.rank().index();
    let new: Vec<usize> = (0..standings.len()).filter(|at| standings[*at] == WISHES).collect();
    let first = standings.iter().position(|standing| *standing >= MEMBER);
    if let Some(first) = first.filter(|_| !new.is_empty()) {
        let heard_of = standings.iter().max().map_or(0, |most| most - MEMBER);
        let newest = u32::try_from(heard_of + 1).unwrap_or(u32::MAX);
        let mut bytes = Vec::new();
        with(|member| {
            // Before a new one can have it.
            member.charter.newest = newest;
            if first == me {
                member.charter.admit(processes, &new);
                bytes = member.charter.to_bytes();
            }
        });
        let bytes = comm.gather_bytes(&bytes)?;
        match Charter::from_bytes(&bytes, newest) {
            Some(charter) if new.contains(&me) => enter(charter, &processes[me]),
            Some(charter) => with(|member| member.learn(&charter)),
            // The observer of that rank has ended in the middle of it.
            None => {}
        }
    }
    with(|member| member.charter.see(processes));
    Ok(())
}

/// A new process registers, if its node has an observer.
fn enter(charter: Charter, own: &Process) {
    let place = charter.process(own.name).zip(charter.node(own.node));
    let member = match place {
        Some((me, node)) => Member::register(charter, node, me),
        None => Err("there is none on the node of this new process".into()),
    };
    match member {
        Ok(member) => OURS.set(Some(member)),
        Err(why) => warn_without(&why),
    }
}

fn warn_without(why: &str) {
    tracing::warn!(why, "no observers: deaths are seen by the watcher and by MPI");
}

impl Member {
    fn register(charter: Charter, node: Node, me: detector::Process) -> Result<Self, String> {
        let socket = start::socket(charter.job, node)?;
        let registered = register::register(&socket, &charter.secret, me)?;
        let register::Registered { me, connection, board, room } = registered;
        let (read, seen, looks, is_closed) = (0, Vec::new(), 0, false);
        Ok(Self { me, connection, board, room, charter, read, seen, looks, is_closed })
    }

    /// Others have entered; what was on the board before we knew them is read again.
    fn learn(&mut self, charter: &Charter) {
        self.charter.learn(charter);
        self.read = 0;
    }

    /// What the observer has counted, for those who listen.
    fn sum_up(&self) {
        let head = Head::from_words(&std::array::from_fn(|at| self.board.word(at)));
        let Some(Head { entries, packets, clients, unsent, ghosts, .. }) = head else { return };
        let entry = |place: u32| Entry::from_words(self.words_of(place), place);
        let lost =
            (0..entries.min(self.room)).filter_map(entry).filter(|(entry, _)| entry.is_hard());
        let lost: BTreeSet<detector::Host> = lost.map(|(entry, _)| entry.host).collect();
        tracing::info!(
            target: "fampi::metrics", rank = self.me.rank.number(), entries,
            lost_nodes = lost.len(), refused_packets = packets.total(),
            refused_connections = clients.total(), unsent_packets = unsent, ghosts,
            "observer of this node"
        );
    }

    fn words_of(&self, place: u32) -> [u64; ENTRY_WORDS] {
        let at = HEAD_WORDS + place as usize * ENTRY_WORDS;
        std::array::from_fn(|word| self.board.word(at + word))
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
        for (entry, moment) in &told {
            let detector::Process { rank, incarnation } = entry.process;
            if let Some(name) = self.charter.name(entry.process) {
                let (life, cause, hard) = (incarnation.0, entry.cause, entry.is_hard());
                let ago_ns = trace::monotonic().saturating_sub(*moment).as_nanos() as u64;
                tracing::debug!(%rank, life, ?cause, hard, ago_ns, "the observer told of a death");
                watcher::note(Name(name), "observer");
                notice.tell(Name(name), false);
            }
        }
        true
    }

    #[cold]
    fn read_up_to(&mut self, entries: u32) {
        while self.read < entries {
            // Not there yet, for us.
            let entry = Entry::from_words(self.words_of(self.read), self.read);
            let Some((entry, moment)) = entry else { return };
            self.read += 1;
            if entry.process == self.me {
                exit::die_by_signal("all other ranks take this process for dead; it stops");
            }
            // Who left in order has sent what it had to.
            if entry.cause != Cause::Exit(0) {
                self.seen.push((entry, moment));
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
    OURS.with(|member| {
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

/// Takes the observer back that was put aside, or puts it aside, so that this process does what one
/// without an observer does. Where it shows its progress, if it has one.
pub(super) fn observe(observed: bool) -> Option<Pulse> {
    let (from, to) = if observed { (&ASIDE, &OURS) } else { (&OURS, &ASIDE) };
    if let Some(member) = from.take() {
        to.set(Some(member));
    }
    if observed { pulse::pulse() } else { None }
}

/// From now on the end of other processes is no news, and this one need not make progress.
pub(super) fn close() {
    pulse::leave();
    with(|member| {
        if !std::mem::replace(&mut member.is_closed, true) {
            member.sum_up();
        }
    });
}

/// All is done: our own end is no news, either.
pub(super) fn leave() {
    // One that is gone needs no word.
    with(|member| drop(member.connection.write_all(&[LEAVE])));
}

fn with(action: impl FnOnce(&mut Member)) {
    // There is none any more when its thread has ended.
    let _ = OURS.try_with(|member| {
        if let Ok(mut place) = member.try_borrow_mut()
            && let Some(member) = place.as_mut()
        {
            action(member);
        }
    });
}
