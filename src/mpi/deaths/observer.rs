//! Lends MPI to the detector's client, and tells MPI of the deaths that the client reads.
//!
//! With `FAMPI_OBSERVER` a process of its own watches each node of the job; what it finds out is
//! read by [`fampi_detector::client`] where the watcher looks. What is new is told to MPI
//! ([`inject_failure`]), as what the watcher sees is; the first one wins. Everything else about
//! observers is on the page of that crate.
//!
//! **Guarantees.** A rank that finds itself dead to all others stops.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    process::Command,
};

use fampi_detector::{
    client::{self, Assembly, Client, Counts, Memory, News, Own, Peer, program},
    protocol::{self, diagnosis::clusters::MOST_WITH_ALL, pulse as read},
};

use crate::{
    error::Error,
    fault::Cause,
    mpi::{
        calls::{
            comm::Comm,
            library::{Checked, Refusal},
        },
        node::{clock, memory::View, process::Process, pulse, signals},
        this_mpi::{
            inject_failure::{self, Name},
            unreported_exit,
        },
    },
    protocol::membership::{
        evidence::{Opinion, Tested},
        levels,
    },
    seam::pulse::{self as written, Pulse},
};

/// The engine writes the words where observers read them.
const _: () = {
    use written::{AT_REST, AT_WORK, BEATS, COMMITS, LEFT, NOT_BEGUN, STATE, THREAD, WORDS};
    assert!(WORDS == read::WORDS && THREAD == read::THREAD);
    assert!(BEATS == read::BEATS && STATE == read::STATE && COMMITS == read::COMMITS);
    assert!(NOT_BEGUN == read::NOT_BEGUN && AT_WORK == read::AT_WORK);
    assert!(AT_REST == read::AT_REST && LEFT == read::LEFT);
};

/// The group knows of how many nodes all are tested by all.
const _: () = assert!(levels::MOST_WITH_ALL == MOST_WITH_ALL);

thread_local! {
    /// What this process has of its observer; the thread that calls MPI alone may tell it anything.
    static CLIENT: Client<View> = const { Client::new() };
}

impl Assembly for Comm {
    type Error = Refusal;

    fn rank(&self) -> protocol::Rank {
        protocol::Rank(self.rank().number())
    }

    fn gather_numbers<const N: usize>(&self, own: [u64; N]) -> Checked<Vec<[u64; N]>> {
        self.gather_numbers(own)
    }

    fn gather_bytes(&self, own: &[u8]) -> Checked<Vec<u8>> {
        self.gather_bytes(own)
    }

    fn least(&self, own: u64) -> Checked<u64> {
        self.least(own)
    }
}

impl Memory for View {
    fn of(descriptor: OwnedFd, words: usize) -> io::Result<Self> {
        Self::of(descriptor, words)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.word(at)
    }
}

/// Looks whether the variables of the detector make sense.
///
/// # Errors
///
/// [`Error::Unsupported`] about the first one that does not.
pub(in crate::mpi) fn check_environment() -> Result<(), Error> {
    client::check_environment().map_err(Error::Unsupported)
}

/// What this process is to the observers, which it tells the others when they meet.
pub(in crate::mpi) fn standing() -> u64 {
    // There is no client any more when its thread has ended.
    CLIENT.try_with(|it| it.standing(|| inject_failure::find().is_some())).unwrap_or_default()
}

/// Starts the observers of a launch, if all processes wish so, and registers with them. Collective.
pub(in crate::mpi) fn start(comm: &Comm, processes: &[Process], standings: &[u64]) -> Checked<()> {
    CLIENT.with(|it| it.meet(comm, &peers(processes), standings, &own()))
}

/// True if observers are to be started: all processes wish so, by their standings.
pub(in crate::mpi) fn are_wished(standings: &[u64]) -> bool {
    client::are_wished(standings)
}

/// Registers what is new in a universe that a rebuild has made. Collective.
pub(in crate::mpi) fn register(
    comm: &Comm,
    processes: &[Process],
    standings: &[u64],
) -> Checked<()> {
    CLIENT.with(|it| it.meet_again(comm, &peers(processes), standings, &own()))
}

fn peers(processes: &[Process]) -> Vec<Peer> {
    processes.iter().map(|it| Peer { node: it.node, name: it.name }).collect()
}

fn own() -> Own<'static> {
    Own {
        pulse: program().and_then(|_| pulse::descriptor()),
        isolate: run_at_once_and_inherit_nothing_else,
        block_signals: signals::block_signals_of_this_thread,
    }
}

/// What MPI has open would stay so when this rank is dead, and hide that. Old systems cannot close
/// it in one call; there it depends on how MPI has opened it.
///
/// Ranks that wait by turning would keep an observer from a processor for seconds, and others would
/// take its node for lost: the kernel runs it at once, before all that is not as urgent
/// (`SCHED_RR`), where this user may ask for that. The observer that it leaves behind is run so,
/// too.
fn run_at_once_and_inherit_nothing_else(command: &mut Command) {
    let prepare = || {
        let (first, last, flag) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // SAFETY: marks descriptors of this process, which is about to be another program.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flag) };
        let parameters = libc::sched_param { sched_priority: 1 };
        // SAFETY: the parameters are read during the call; what is not allowed is not done.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
        Ok(())
    };
    // SAFETY: between `fork` and `exec` it makes two calls of the system, on plain numbers.
    unsafe { command.pre_exec(prepare) };
}

/// To be called where this process has waited for long. True when MPI was told of a death, of which
/// `note` hears before.
pub(in crate::mpi) fn look(note: fn(Name, &'static str, Cause)) -> bool {
    CLIENT.with(|client| {
        client.look(|news| tell(news, note)).unwrap_or_else(|_| {
            unreported_exit::die_by_signal("all other ranks take this process for dead; it stops")
        })
    })
}

fn tell(news: Vec<News>, note: fn(Name, &'static str, Cause)) -> bool {
    let Some(notice) = inject_failure::find() else { return false };
    for News { name, entry, moment } in news {
        let protocol::Process { rank, incarnation } = entry.process;
        let (life, cause, hard) = (incarnation.0, entry.cause, entry.is_hard());
        let ago_ns = clock::monotonic().saturating_sub(moment).as_nanos() as u64;
        tracing::debug!(%rank, life, ?cause, hard, ago_ns, "the observer told of a death");
        note(Name(name), "observer", cause_of(cause));
        notice.tell(Name(name), false);
    }
    true
}

/// What an observer says of a death, in our words.
const fn cause_of(cause: protocol::Cause) -> Cause {
    match cause {
        protocol::Cause::Exit(status) => Cause::Exited(status),
        protocol::Cause::Signal(signal) => Cause::Killed(signal),
        protocol::Cause::Hung => Cause::Hung,
        protocol::Cause::NodeLost => Cause::NodeLost,
        protocol::Cause::Ended | protocol::Cause::Declared | protocol::Cause::Replaced => {
            Cause::Unknown
        }
    }
}

/// True when an observer tells this process of deaths.
pub(in crate::mpi) fn is_on() -> bool {
    CLIENT.try_with(Client::is_on).unwrap_or_default()
}

/// Takes the observer back that was put aside, or puts it aside, so that this process does what one
/// without an observer does. Where it shows its progress, if it has one.
pub(in crate::mpi) fn observe(observed: bool) -> Option<Pulse> {
    CLIENT.with(|it| it.observe(observed));
    if observed && program().is_some() { pulse::pulse() } else { None }
}

/// What the observer has counted of this process, if it tests anybody.
pub(in crate::mpi) fn tested() -> Option<Tested> {
    let Counts { opinion, zeta, node, stalls } = CLIENT.with(Client::counts)?;
    let opinion = Opinion { fails: opinion.fails, streak: opinion.streak };
    Some(Tested { opinion, zeta, node, stalls })
}

/// What the observer has counted of the one of another node.
pub(in crate::mpi) fn tested_node(node: u32) -> Opinion {
    let opinion = CLIENT.with(|it| it.opinion_of(node)).unwrap_or_default();
    Opinion { fails: opinion.fails, streak: opinion.streak }
}

/// From now on the end of other processes is no news, and this one need not make progress.
pub(in crate::mpi) fn close() {
    pulse::leave();
    let _ = CLIENT.try_with(Client::close);
}

/// All is done: our own end is no news, either.
pub(in crate::mpi) fn leave() {
    let _ = CLIENT.try_with(Client::leave);
}
