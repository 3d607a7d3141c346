//! MPICH keeps no list of the dead.
//!
//! **Symptom** No process is told that another one has died, and none can tell MPI. So the list is
//! here: whoever sees a death puts a name into it, and for each communicator it gives the ranks of
//! the dead, by MPI's own comparison of groups. A name is what the launcher of our own calls the
//! process; without it, its number and the moment of its start, mixed; each universe that is made
//! says which ranks have which.
//!
//! **Versions** each MPICH: the source of 5.0 was read.
//!
//! **Upstream** not reported: by the standard the end of a process is undefined.
//!
//! **Delete when** MPICH has `MPIX_Comm_get_failed` that works.
//!
//! **Test** `whoever_is_killed_on_mpich_no_digit_changes` (`apps/fampi/tests/node`, asked for).
//!
//! **Assumes** the caller is the thread that calls MPI.

use std::{cell::RefCell, ffi::c_int, mem, process, sync::OnceLock};

use mpi::ffi;

use super::launch_census;
use crate::mpi::{
    calls::{comm::Comm, library::check},
    node::{
        causes::{self, Told},
        process::{describe, node_name},
    },
};

/// A process as it is called here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Name(pub(in crate::mpi) u64);

impl Name {
    /// The name of a process of a job that our launcher has started: no other one has it.
    fn of((job, rank): (u32, u32)) -> Self {
        Self(u64::from(rank) << 32 | u64::from(LAUNCHED | job))
    }

    /// True for the name of a rank of this job.
    fn is_of(name: u64, job: u32) -> bool {
        name as u32 == LAUNCHED | job
    }

    /// The names of so many ranks of the job in which this one has that rank, if they are known
    /// before they are said.
    pub(in crate::mpi) fn of_ranks(
        self,
        rank: u32,
        size: usize,
    ) -> Option<impl Iterator<Item = Self>> {
        let (job, me) = launch_census::place()?;
        (rank == me).then(|| (0..size as u32).map(move |rank| Self::of((job, rank))))
    }
}

/// Of so many looks one asks the launcher.
const LOOKS: u32 = 64;

/// In the lower half of names that our launcher has given, with the number of the job.
const LAUNCHED: u32 = 1 << 31;

type Callback = extern "C" fn() -> c_int;

/// The way to tell of a death.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Notice {
    me: Name,
}

/// Who is who in a communicator.
struct Company {
    group: ffi::MPI_Group,
    names: Vec<u64>,
}

#[derive(Default)]
struct List {
    companies: Vec<Company>,
    dead: Vec<u64>,
    /// Those of whose death the launcher has told last, and how many bytes of its file were read.
    heard: Vec<u64>,
    read: usize,
    /// The jobs that this process has started, in their order, and who has started its own.
    started: Vec<u32>,
    starter: Option<u64>,
    looks: u32,
    revoked: Vec<ffi::MPI_Comm>,
    /// How often the living of each communicator were to have one of their own.
    attempts: Vec<(ffi::MPI_Comm, c_int)>,
}

thread_local! {
    static LIST: RefCell<List> = RefCell::default();
    /// What looks for deaths, and what else goes on while MPI waits.
    static CALLED: RefCell<Vec<Callback>> = const { RefCell::new(Vec::new()) };
}

/// The way to tell of a death.
pub(in crate::mpi) fn find() -> Option<&'static Notice> {
    static NOTICE: OnceLock<Notice> = OnceLock::new();
    let me = || launch_census::place().map_or_else(|| Name(mixed()), Name::of);
    Some(NOTICE.get_or_init(|| Notice { me: me() }))
}

/// How this process is called.
pub(in crate::mpi) fn own_name() -> u64 {
    find().map_or(0, |notice| notice.me().0)
}

/// Where this process is, its number, and when it started, in one number that is not 0.
fn mixed() -> u64 {
    let pid = u64::from(process::id());
    let node = node_name().bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let parts = [pid, describe(pid).unwrap_or(0)];
    let mix =
        |hash: u64, part: u64| (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    parts.into_iter().fold(node, mix) | 1
}

impl Notice {
    /// The name of this process.
    pub(in crate::mpi) fn me(&self) -> Name {
        self.me
    }

    /// This process is dead from now on. All others hear of it in their own ways.
    pub(in crate::mpi) fn tell(&self, dead: Name, _: bool) {
        LIST.with_borrow_mut(|list| {
            if !list.dead.contains(&dead.0) {
                list.dead.push(dead.0);
            }
        });
    }

    /// Has this function be called in calls of ours that may last.
    pub(in crate::mpi) fn call_back(&self, function: Callback) {
        CALLED.with_borrow_mut(|called| called.push(function));
    }
}

/// Looks for deaths, in a call that lasts.
pub(super) fn look() {
    hear_launcher();
    // None of them is called while the list is in use.
    let mut at = 0;
    while let Some(function) = CALLED.with_borrow(|called| called.get(at).copied()) {
        function();
        at += 1;
    }
}

/// Takes the deaths of which the launcher of our own tells, those of new processes and of other
/// nodes among them: one look after they were heard of, as what the dead have sent comes first.
fn hear_launcher() {
    LIST.with_borrow_mut(|list| {
        list.looks = list.looks.wrapping_add(1);
        if list.looks.is_multiple_of(LOOKS) {
            list.take_heard();
            list.hear();
        }
    });
}

impl Company {
    /// Those of these names that are in a group, each with its rank there.
    fn members(&self, group: ffi::MPI_Group, wanted: impl Fn(u64) -> bool) -> Vec<(u64, c_int)> {
        let named = (0..).zip(&self.names).filter(|(_, name)| wanted(**name));
        let (ranks, names): (Vec<c_int>, Vec<u64>) = named.unzip();
        let (count, mut there) = (ranks.len() as c_int, vec![-1; ranks.len()]);
        let (from, to) = (ranks.as_ptr(), there.as_mut_ptr());
        // SAFETY: both lists have `count` entries; both groups live.
        let code = unsafe { ffi::MPI_Group_translate_ranks(self.group, count, from, group, to) };
        let found = names.into_iter().zip(there).filter(|(_, rank)| code == 0 && *rank >= 0);
        found.collect()
    }
}

impl List {
    /// The processes of a group that are called so, each with its rank there; some of them twice.
    fn members(
        &self,
        group: ffi::MPI_Group,
        wanted: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u64, c_int)> {
        self.companies.iter().flat_map(move |company| company.members(group, &wanted))
    }

    fn hear(&mut self) {
        let own = own_name();
        for told in causes::told_since(&mut self.read) {
            match told {
                Told::Death(place) => self.heard.push(Name::of(place).0),
                Told::Start { by, job } if Name::of(by).0 == own => self.started.push(job),
                Told::Start { by, job } if Name::is_of(own, job) => {
                    self.starter = Some(Name::of(by).0);
                }
                Told::Start { .. } => {}
            }
        }
        self.heard.retain(|name| *name != own);
    }

    fn take_heard(&mut self) {
        for name in mem::take(&mut self.heard) {
            if !self.dead.contains(&name) {
                self.dead.push(name);
            }
        }
    }
}

/// Who all processes of a communicator are.
pub(super) fn know(comm: &Comm, names: &[u64]) {
    // SAFETY: reading a constant that MPI's library defines.
    let mut group = unsafe { ffi::RSMPI_GROUP_NULL };
    // SAFETY: the communicator is live; the result is a variable of ours.
    let code = unsafe { ffi::MPI_Comm_group(comm.raw(), &raw mut group) };
    if check("MPI_Comm_group", code).is_ok() {
        let names = names.to_vec();
        LIST.with_borrow_mut(|list| list.companies.push(Company { group, names }));
    }
}

/// The ranks of the launch have names that need not be said.
pub(super) fn know_launch() {
    let Ok(world) = Comm::world() else { return };
    let size = world.size() as usize;
    let names = find().and_then(|own| own.me().of_ranks(world.rank().number(), size));
    if let Some(names) = names {
        know(&world, &names.map(|Name(name)| name).collect::<Vec<_>>());
    }
}

/// The ranks of a group that are dead, in ascending order.
pub(super) fn dead_of(group: ffi::MPI_Group) -> Vec<c_int> {
    LIST.with_borrow(|list| {
        if list.dead.is_empty() {
            return Vec::new();
        }
        let dead = list.members(group, |name| list.dead.contains(&name));
        let mut all: Vec<c_int> = dead.map(|(_, rank)| rank).collect();
        all.sort_unstable();
        all.dedup();
        all
    })
}

/// The processes of a group in the order of their ranks, as far as it is known how they are called.
pub(super) fn names_of(group: ffi::MPI_Group) -> Vec<u64> {
    LIST.with_borrow(|list| {
        let mut all: Vec<(u64, c_int)> = list.members(group, |_| true).collect();
        all.sort_unstable_by_key(|(_, rank)| *rank);
        all.dedup_by_key(|(_, rank)| *rank);
        all.into_iter().map(|(name, _)| name).collect()
    })
}

/// True when one of these is dead. May be called while MPI makes progress.
pub(super) fn has_one_of(names: &[u64]) -> bool {
    LIST.with_borrow(|list| list.dead.iter().any(|dead| names.contains(dead)))
}

/// How many jobs this process has started, as the launcher has told by now.
pub(super) fn jobs_started() -> usize {
    LIST.with_borrow_mut(|list| {
        list.hear();
        list.started.len()
    })
}

/// True when a process of a job is dead that this one has started since there were so many. May be
/// called while MPI makes progress.
pub(super) fn has_some_of_jobs_started_after(before: usize) -> bool {
    LIST.with_borrow(|list| {
        let jobs = list.started.get(before..).unwrap_or_default();
        list.dead.iter().any(|dead| jobs.iter().any(|job| Name::is_of(*dead, *job)))
    })
}

/// Returns the names of the `count` ranks of the job that this process has started last: the
/// launcher writes a start down before it answers. Empty under another launcher than ours.
pub(in crate::mpi) fn names_of_started(count: u32) -> Vec<u64> {
    LIST.with_borrow_mut(|list| {
        list.hear();
        let ranks = |job: &u32| (0..count).map(|rank| Name::of((*job, rank)).0).collect();
        list.started.last().map_or_else(Vec::new, ranks)
    })
}

/// Returns the names of the `count` ranks of this process's job, and last that of the process that
/// has started the job. Empty under another launcher than ours.
pub(in crate::mpi) fn names_of_starter_and(count: u32) -> Vec<u64> {
    LIST.with_borrow_mut(|list| {
        list.hear();
        let Some((job, _)) = launch_census::place() else { return Vec::new() };
        let ranks = (0..count).map(|rank| Name::of((job, rank)).0);
        list.starter.map_or_else(Vec::new, |starter| ranks.chain([starter]).collect())
    })
}

/// True when this process is dead, as the launcher has told, too. To be asked again and again.
pub(in crate::mpi) fn has_died(name: u64) -> bool {
    hear_launcher();
    has_one_of(&[name])
}

/// How many are dead. May be called while MPI makes progress.
pub(super) fn number() -> usize {
    LIST.with_borrow(|list| list.dead.len())
}

/// The same with those of whom the launcher has told just now.
pub(super) fn known() -> usize {
    LIST.with_borrow_mut(|list| {
        list.hear();
        let new = list.heard.iter().filter(|name| !list.dead.contains(name));
        list.dead.len() + new.count()
    })
}

/// True when somebody is dead.
pub(super) fn has_some() -> bool {
    LIST.with_borrow(|list| !list.dead.is_empty())
}

/// Operations on this communicator are not wanted any more.
pub(super) fn revoke(comm: ffi::MPI_Comm) {
    LIST.with_borrow_mut(|list| {
        if !list.revoked.contains(&comm) {
            list.revoked.push(comm);
        }
    });
}

/// The communicator is about to be freed, and its number given to another one.
pub(super) fn forget(comm: ffi::MPI_Comm) {
    LIST.with_borrow_mut(|list| {
        list.revoked.retain(|it| *it != comm);
        list.attempts.retain(|(it, _)| *it != comm);
    });
}

/// How often this was asked for a communicator before.
pub(super) fn next_attempt(comm: ffi::MPI_Comm) -> c_int {
    LIST.with_borrow_mut(|list| {
        if let Some((_, attempts)) = list.attempts.iter_mut().find(|(it, _)| *it == comm) {
            *attempts += 1;
            return *attempts;
        }
        list.attempts.push((comm, 0));
        0
    })
}

/// True for one of these.
pub(super) fn is_revoked(comm: ffi::MPI_Comm) -> bool {
    LIST.with_borrow(|list| list.revoked.contains(&comm))
}

/// MPI ends: what it has given is given back.
pub(super) fn close() {
    for mut company in LIST.take().companies {
        // SAFETY: ours alone, and used no more.
        let _ = unsafe { ffi::MPI_Group_free(&raw mut company.group) };
    }
}
