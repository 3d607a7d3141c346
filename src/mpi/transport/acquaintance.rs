//! What every process tells the others about itself when a universe is made.

use super::mailbox::{Address, Inbox, Mailbox};
use crate::mpi::{
    calls::{comm::Comm, library::Checked},
    deaths::{death_mark::DeathMark, observer},
    node::process::{Process, machine, processors},
    this_mpi::{self, inject_failure},
};

/// The processes of a universe, by rank.
#[derive(Debug)]
pub(in crate::mpi) struct Acquaintance {
    pub(in crate::mpi) processes: Vec<Process>,
    pub(in crate::mpi) mailbox: Option<Mailbox>,
    /// Of those who are on our node, by rank.
    pub(in crate::mpi) marks: Vec<Option<DeathMark>>,
    /// What each is to the observers ([`observer::standing`]).
    pub(in crate::mpi) standings: Vec<u64>,
}

impl Acquaintance {
    /// The nodes of the processes, in numbers: of a process whose node is unknown, one of its own.
    pub(in crate::mpi) fn nodes(&self) -> Vec<u32> {
        let mut known: Vec<u64> = Vec::new();
        let number = |process: &Process| {
            let same = |node: &u64| *node == process.node && process.node != 0;
            known.iter().position(same).unwrap_or_else(|| {
                known.push(process.node);
                known.len() - 1
            }) as u32
        };
        self.processes.iter().map(number).collect()
    }
}

/// Every process of a communicator tells the others who it is. Collective.
pub(in crate::mpi) fn meet(comm: &Comm) -> Checked<Acquaintance> {
    meet_with(comm, observer::standing())
}

fn meet_with(comm: &Comm, standing: u64) -> Checked<Acquaintance> {
    let Process { node, pid, started, name } = Process::own(inject_failure::own_name());
    let inbox = Inbox::new(comm.size() as usize);
    let Address { descriptor, token } = inbox.as_ref().map(Inbox::address).unwrap_or_default();
    let own = [node, pid, started, name, descriptor, token, machine(), standing];
    let rows = comm.gather_numbers(own)?;
    let standings = rows.iter().map(|[.., standing]| *standing).collect();
    let here = rows.iter().filter(|[.., machine, _]| *machine == own[6]).count();
    let crowded = own[6] != 0 && here > processors();
    if crowded {
        this_mpi::yield_when_idle();
    }
    let told = |[node, pid, started, name, descriptor, token, ..]: [u64; 8]| {
        (Process { node, pid, started, name }, Address { descriptor, token })
    };
    let told: Vec<(Process, Address)> = rows.into_iter().map(told).collect();
    let mut mailbox = inbox.map(|inbox| Mailbox::new(inbox, &told, comm.rank(), crowded));
    // A descriptor for each universe would run out one day.
    comm.least(0)?;
    mailbox.iter_mut().for_each(Mailbox::close_door);
    let marks = mailbox.as_ref().map(Mailbox::marks).unwrap_or_default();
    let processes: Vec<Process> = told.into_iter().map(|(process, _)| process).collect();
    let names: Vec<u64> = processes.iter().map(|process| process.name).collect();
    this_mpi::know(comm, &names);
    Ok(Acquaintance { processes, mailbox, marks, standings })
}

/// Like [`meet`], then starts the observers and registers with them, in a launch in which all wish
/// so. Collective.
pub(in crate::mpi) fn meet_observed(comm: &Comm) -> Checked<Acquaintance> {
    let met = meet(comm)?;
    observer::start(comm, &met.processes, &met.standings)?;
    Ok(met)
}

/// Like [`meet`] in a program that owns its MPI: the observers are started by the first
/// communicator whose processes all say that it has all of their launch. Collective.
pub(in crate::mpi) fn meet_as_guests(comm: &Comm, is_launch: bool) -> Checked<Acquaintance> {
    let met = meet_with(comm, if is_launch { observer::standing() } else { 0 })?;
    if observer::are_wished(&met.standings) {
        observer::start(comm, &met.processes, &met.standings)?;
    }
    Ok(met)
}

/// Like [`meet`] in a universe that a rebuild makes, then registers what is new in it with the
/// observers. Collective.
pub(in crate::mpi) fn meet_again(comm: &Comm) -> Checked<Acquaintance> {
    let met = meet(comm)?;
    observer::register(comm, &met.processes, &met.standings)?;
    Ok(met)
}
