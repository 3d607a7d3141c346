//! Replacements by `MPI_Comm_spawn`: the lowest survivor spawns alone, then all link up. A program
//! that owns its MPI gets the link, which is in use ([`links`](super::links)).
//!
//! ```text
//! root        spawn ─ merge ─┐ bridge
//! replacements        merge ─┘ ─ link ─ merge ─ control, roster
//! survivors   (the word of the root, by a tree) ─ link ─ merge ─ control, roster
//! ```
//!
//! A new process uses what was made only when the root says that all others have it. Otherwise its
//! message could reach a process that has failed in the making: MPI keeps it for the number of that
//! communicator, and gives it to the next one with this number.
//!
//! When a new process dies in its `MPI_Init`, the root sees it ([`newcomers`]) and starts others
//! at once. A later death leads to an error here and to another attempt.
//!
//! **Assumes** that the root does not die in the middle of `MPI_Comm_spawn`: the launcher of Open
//! MPI 5.0.9 can crash then, and the job with it. Spares have no such moment.

use std::{
    ffi::{CString, OsString, c_char, c_int},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    time::Instant,
};

use mpi::ffi;

use super::{
    groups, newcomers,
    origin::{PARENT_VARIABLE, Starter, starter},
    two_groups::{self, Part},
    watchdog,
    words::{Word, hear, parent_of, pass_on, tell},
};
use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::{self, Comm},
            inside,
            library::{Checked, PROC_FAILED, Refusal, check},
            partners::{Partners, unless_dead},
            ulfm::Ulfm,
        },
        deaths::watcher,
        node::{environment, process::node_name},
        operations::platform::MpiPlatform,
        this_mpi::{
            self,
            spawn_lookup::{self, Spawning},
        },
    },
    rank::Rank,
    seam::{
        entry::{self, Call, Entry},
        platform::{DataId, Made, Origin},
    },
};

/// Class `MPI_ERR_SPAWN`.
const SPAWN: i32 = 50;
/// Class `MPI_ERR_ARG`.
const ARG: i32 = 13;
/// How often processes are started in the place of those that die at once.
const STARTS: u32 = 3;

impl MpiPlatform {
    /// `living` and `count` new processes, in this order.
    pub(in crate::mpi) fn spawn_into(
        &mut self,
        old: &Comm,
        living: &Comm,
        count: u32,
    ) -> Result<Comm, Error> {
        let again = || spawn(&Program::this(count)?);
        self.merge_with_new((old, living), count, again).map(|(_, merged)| merged)
    }

    /// The link of [`Self::link_to_new`], and all who are linked by it.
    fn merge_with_new(
        &self,
        (old, living): (&Comm, &Comm),
        count: u32,
        start: impl FnOnce() -> Checked<Comm>,
    ) -> Result<(Comm, Comm), Error> {
        let mut common = vec![*living];
        let linked = self.link_to_new((old, living), count, start, &mut common)?;
        let Linked { link, bridge, names } = linked;
        let part = Part::old(&names);
        let merged = release(bridge).and_then(|()| two_groups::merge(&link, part));
        if merged.is_err() {
            // Others may be inside the call, and wait for this rank.
            link.revoke(self.ulfm);
        }
        let merged = confirm(old, self.ulfm, merged);
        let merged = merged.map_err(|refusal| groups::failed(refusal, &common, self.ulfm))?;
        know(&merged, &names);
        if let Err(refusal) = release(bridge) {
            tracing::debug!(?refusal, "a new process died: whoever needs it will see");
        }
        Ok((link, merged))
    }

    /// A link from `living` to new processes, which its first one has started by `start`. What
    /// links some of them besides is added to `common`, to be revoked when it was in vain.
    fn link_to_new(
        &self,
        (old, living): (&Comm, &Comm),
        count: u32,
        start: impl FnOnce() -> Checked<Comm>,
        common: &mut Vec<Comm>,
    ) -> Result<Linked, Error> {
        let ulfm = self.ulfm;
        let own = match linkable(living) {
            Ok(own) => own,
            Err(refusal) => {
                // Others may have theirs, and wait for a word, and then for what all say.
                living.revoke(ulfm);
                let refused = confirm(old, ulfm, Err(refusal));
                debug_assert!(refused.is_err(), "what this rank does not have was confirmed");
                return Err(groups::failed(refusal, common, ulfm));
            }
        };
        common.push(own);
        let root = living.rank() == Rank::new(0);
        let (bridge, word) = if root {
            let began = Instant::now();
            let met = start().and_then(|started| {
                common.push(started);
                meet(&started, &own, count)
            });
            entry::tell(&Entry::Called { work: Call::Spawn(count), began });
            let (bridge, word) = match met {
                Ok((bridge, all)) => (Some(bridge), all),
                Err(refusal) => (None, Word { class: refusal.class, ..Word::default() }),
            };
            (bridge, pass_on(living, Ok(word)))
        } else {
            (None, pass_on(living, hear(living, parent_of(living.rank().number()), None)))
        };
        // What failed long ago may have locked it since.
        this_mpi::before_creation();
        let mut names = Vec::new();
        let linked = word.and_then(|word| {
            if word.class != 0 {
                return Err(Refusal { call: "MPI_Comm_spawn", class: word.class });
            }
            names = word.names;
            let other = bridge.as_ref().map(|bridge| (bridge, 1));
            two_groups::link(&own, 0, other, Part::old(&names))
        });
        common.extend(bridge);
        if linked.is_err_and(|it| it.call != "MPI_Comm_spawn" || it.is_failure()) {
            // Others may be inside the call, and wait for this rank.
            own.revoke(ulfm);
            living.revoke(ulfm);
        }
        let linked = confirm(old, ulfm, linked);
        common.extend(linked.as_ref().ok());
        let linked = linked.map(|link| Linked { link, bridge, names });
        linked.map_err(|refusal| {
            let error = groups::failed(refusal, common, ulfm);
            if refusal.call != "MPI_Comm_spawn" || refusal.is_failure() {
                return error;
            }
            if refusal.class == ARG {
                return refusal.into();
            }
            Error::Unsupported(format!(
                "the launcher refused to start {count} replacements (MPI error class {}); \
                 give it more slots, or start the job with spares",
                refusal.class
            ))
        })
    }

    /// The part of a new process.
    pub(in crate::mpi) fn join_universe(&mut self) -> Result<Made, Error> {
        let (parent, siblings) = self.spawned.ok_or(Error::NotNeeded)?;
        let mut common = vec![parent, siblings];
        let joined = match merge_with_old(&parent, &siblings, &mut common) {
            Ok((_, source)) => self.settle_universe(source, &[], &common),
            Err(refusal) => Err(groups::failed(refusal, &common, self.ulfm)),
        };
        watchdog::set_parent(None);
        joined.map_err(|_| Error::NotNeeded)
    }
}

/// For a program that owns its MPI.
impl MpiPlatform {
    /// Starts processes and links them to the ranks of a communicator in use, whose rank 0 starts
    /// them by its command; the others wait for its word.
    ///
    /// # Errors
    ///
    /// On all living ranks: [`Error::CreationFailed`] when a process died in it, and
    /// [`Error::Unsupported`] when the launcher refuses, an argument error when rank 0 has no
    /// command. The communicator serves no other spawn then.
    ///
    /// # MPI
    ///
    /// Collective and blocking.
    ///
    /// # Safety
    ///
    /// The information is null or a live object.
    pub unsafe fn spawn_for(
        &mut self,
        data: DataId,
        command: Option<Command>,
    ) -> Result<ffi::MPI_Comm, Error> {
        let living = self.data[data.0 as usize].as_ref().ok_or(Error::CreationFailed)?.source();
        self.settle();
        let count = command.as_ref().map_or(0, |command| command.count);
        let start = || {
            let none = Refusal { call: "MPI_Comm_spawn", class: ARG };
            let Command { program: file, arguments, count, information } = command.ok_or(none)?;
            // SAFETY: our caller's promise.
            let information = unsafe { Information::from_program(information) }?;
            spawn(&Program { file, arguments, count, information })
        };
        let made = self.attempt(|it| it.merge_with_new((&living, &living), count, start));
        let ((link, merged), _) = made?;
        let link = link.given_away();
        self.use_link(link, merged);
        Ok(link.raw())
    }

    /// The link to those who have started this process by [`Self::spawn_for`]; `None` when it was
    /// started in another way.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`]: this process is not needed.
    ///
    /// # MPI
    ///
    /// Collective over the processes that were started together, and blocking.
    pub fn link_to_parents(&mut self) -> Result<Option<ffi::MPI_Comm>, Error> {
        let parent = if starter() == Starter::Fampi { Comm::parent()? } else { None };
        let Some(parent) = parent else { return Ok(None) };
        let siblings = Comm::world()?;
        let mut common = vec![parent];
        let made = merge_with_old(&parent, &siblings, &mut common);
        watchdog::set_parent(None);
        let made = made.map_err(|refusal| groups::failed(refusal, &common, self.ulfm));
        let (link, merged) = made?;
        let link = link.given_away();
        self.use_link(link, merged);
        Ok(Some(link.raw()))
    }
}

/// Old and new processes, linked.
#[derive(Clone, Debug)]
struct Linked {
    link: Comm,
    /// The root and the new processes, in this order; at the root alone.
    bridge: Option<Comm>,
    /// All of them, old and new ([`Word::names`]).
    names: Vec<u64>,
}

/// What joins the root to the processes that it has started, and the word that they have heard.
fn meet(started: &Comm, own: &Comm, count: u32) -> Checked<(Comm, Word)> {
    let new = spawn_lookup::names_of_started(count);
    let bridge = two_groups::merge(started, Part::old(&new))?;
    let old = spawn_lookup::names_of(own);
    let is_known = !old.is_empty() && !new.is_empty();
    let names = if is_known { [old, new].concat() } else { Vec::new() };
    let all = Word { class: 0, names };
    tell(started, 0..count, &all).map(|()| (bridge, all))
}

/// A duplicate that can be linked to another group.
pub(super) fn linkable(comm: &Comm) -> Checked<Comm> {
    comm.duplicate_with(Information::for_links()?.0)
}

/// The part of new processes in a link, and all who are linked by it: the one who started them,
/// and all of them.
fn merge_with_old(parent: &Comm, siblings: &Comm, common: &mut Vec<Comm>) -> Checked<(Comm, Comm)> {
    // The death of anybody else is no reason to go: who has started this process waits for it.
    let met = spawn_lookup::names_of_starter_and(siblings.size());
    let bridge = two_groups::merge(parent, Part::new(&met))?;
    common.push(bridge);
    let starter = met.last().copied();
    let all = hear(parent, 0, starter)?.names;
    let link = two_groups::link(siblings, 0, Some((&bridge, 0)), Part::new(&all))?;
    common.push(link);
    hear(&bridge, 0, starter)?;
    let merged = two_groups::merge(&link, Part::new(&all))?;
    common.push(merged);
    hear(&bridge, 0, starter)?;
    know(&merged, &all);
    Ok((link, merged))
}

/// Notes who the old and the new processes of a merged link are, in this order, if they have names.
fn know(merged: &Comm, names: &[u64]) {
    if names.len() == merged.size() as usize {
        this_mpi::know(merged, names);
    }
}

/// The root says that all others have what was made last.
fn release(bridge: Option<Comm>) -> Checked<()> {
    bridge.map_or(Ok(()), |bridge| tell(&bridge, 1..bridge.size(), &Word::default()))
}

/// The result, if all living processes have one.
fn confirm(old: &Comm, ulfm: &Ulfm, made: Checked<Comm>) -> Checked<Comm> {
    old.acknowledge_failures(ulfm);
    let all = old.unanimous(ulfm, made.is_ok());
    match made {
        Ok(comm) if !all => {
            comm.revoke(ulfm);
            Err(Refusal { call: "MPIX_Comm_agree", class: PROC_FAILED })
        }
        made => made,
    }
}

/// What a program has started.
#[derive(Clone, Debug)]
pub struct Command {
    /// The file.
    pub program: CString,
    /// Its words.
    pub arguments: Vec<CString>,
    /// How many processes.
    pub count: u32,
    /// Hints for the launcher, or `MPI_INFO_NULL`.
    pub information: ffi::MPI_Info,
}

/// What is to be started.
struct Program {
    file: CString,
    arguments: Vec<CString>,
    count: u32,
    information: Information,
}

impl Program {
    /// This very program, with its arguments, in its folder.
    fn this(count: u32) -> Checked<Self> {
        let refused = Refusal { call: "MPI_Comm_spawn", class: SPAWN };
        let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| refused);
        let file = std::env::current_exe().map_err(|_| refused)?;
        let file = CString::new(file.as_os_str().as_bytes()).map_err(|_| refused)?;
        let arguments = std::env::args_os().skip(1).map(text).collect::<Result<_, _>>()?;
        Ok(Self { file, arguments, count, information: Information::for_replacements()? })
    }
}

/// Arguments for MPI, with a null pointer at the end. They live as long as the texts.
fn words(arguments: &[CString]) -> Vec<*mut c_char> {
    let words = arguments.iter().map(|argument| argument.as_ptr().cast_mut());
    words.chain([comm::nothing()]).collect()
}

/// `MPI_Comm_spawn`, by this process alone. It is done again when a new process dies in it.
fn spawn(started: &Program) -> Checked<Comm> {
    // On `MPI_COMM_SELF` itself MPI agrees about failures with all processes of the world.
    let alone = Comm::alone()?.duplicate()?;
    let made = (0..STARTS).find_map(|_| spawn_once(started, &alone).transpose());
    // SAFETY: of this process alone; what was made of it has a duplicate of its own.
    unsafe { alone.free() };
    made.unwrap_or(Err(Refusal { call: "MPI_Comm_spawn", class: PROC_FAILED }))
}

/// Nothing when a new process has died in it.
fn spawn_once(started: &Program, alone: &Comm) -> Checked<Option<Comm>> {
    let Some(spawning) = Spawning::new() else { return spawn_at_once(started) };
    let mut pointers = words(&started.arguments);
    let _inside = inside::spawning();
    let start = || {
        let (count, info) = (started.count.cast_signed(), started.information.0);
        let words = pointers.as_mut_ptr();
        // SAFETY: the list ends with null; all live here.
        unsafe { spawning.start(&started.file, words, count, info) }
    };
    let link = || spawning.link(alone.raw());
    let (made, living) = newcomers::watched(&spawning, start, link);
    // SAFETY: the call succeeded and gave a link that lives until it is given up, or `free_all`.
    let made = made.and_then(|made| unsafe { Comm::from_raw(made) }).map(Comm::remembered);
    let Some(living) = living else {
        tracing::debug!(?made, "a new process died while it started");
        return Ok(None);
    };
    spawn_lookup::note_newcomers(&living);
    watcher::add_newcomers(living);
    made.map(Some)
}

/// The same in one step.
fn spawn_at_once(started: &Program) -> Checked<Option<Comm>> {
    let Program { file, arguments, count, information } = started;
    let (file, arguments) = (file.clone(), arguments.clone());
    let (number, info, alone) = (count.cast_signed(), information.0, Comm::alone()?.raw());
    // SAFETY: reading a constant that MPI's library defines.
    let none = unsafe { ffi::RSMPI_COMM_NULL };
    let inside = inside::spawning();
    // All of it stays where the call is left.
    let ended = unless_dead(Partners::New, move || {
        let (mut pointers, mut made) = (words(&arguments), none);
        let mut codes: Vec<c_int> = vec![0; number as usize];
        let (command, list, errors) = (file.as_ptr(), pointers.as_mut_ptr(), codes.as_mut_ptr());
        let to = &raw mut made;
        let code = {
            // SAFETY: texts end with a zero, the list with null; one code per process; all live.
            unsafe { ffi::MPI_Comm_spawn(command, list, number, info, 0, alone, to, errors) }
        };
        (code, made)
    });
    drop(inside);
    let Some((code, made)) = ended else {
        tracing::debug!("a new process died while it started");
        return Ok(None);
    };
    check("MPI_Comm_spawn", code)?;
    // SAFETY: the call succeeded and gave a link that lives until `free_all`.
    let made = unsafe { Comm::from_raw(made) }?;
    Ok(Some(made.remembered()))
}

/// Hints for the launcher; freed with the scope.
struct Information(ffi::MPI_Info);

impl Information {
    fn for_replacements() -> Checked<Self> {
        let mut made = Self(comm::no_info());
        // SAFETY: the result is a variable of ours.
        check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut made.0) })?;
        if let Ok(folder) = std::env::current_dir() {
            made.set("wdir", folder.as_os_str().as_bytes())?;
        }
        made.set_all_of_replacements()?;
        Ok(made)
    }

    /// Those for a communicator that is to be linked to another one ([`spawn_lookup`]).
    fn for_links() -> Checked<Self> {
        let mut made = Self(comm::no_info());
        // SAFETY: the result is a variable of ours.
        check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut made.0) })?;
        made.set(spawn_lookup::COLLECTIVES, spawn_lookup::WITHOUT_DIVISION)?;
        Ok(made)
    }

    /// Those of a program, and what a replacement needs.
    ///
    /// # Safety
    ///
    /// The handle is null or a live object.
    unsafe fn from_program(theirs: ffi::MPI_Info) -> Checked<Self> {
        if theirs == comm::no_info() {
            return Self::for_replacements();
        }
        let mut made = Self(comm::no_info());
        // SAFETY: not null, so live, says our caller; the result is a variable of ours.
        check("MPI_Info_dup", unsafe { ffi::MPI_Info_dup(theirs, &raw mut made.0) })?;
        made.set_all_of_replacements()?;
        Ok(made)
    }

    /// What a new process needs to know, and that it is not to end the job when it cannot start.
    fn set_all_of_replacements(&mut self) -> Checked<()> {
        self.set("PMIX_ENVAR", environment().as_bytes())?;
        self.set("mpi_initial_errhandler", b"mpi_errors_return")
    }

    fn set(&self, key: &str, value: &[u8]) -> Checked<()> {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else { return Ok(()) };
        // SAFETY: both texts end with a zero; the object is ours.
        check("MPI_Info_set", unsafe { ffi::MPI_Info_set(self.0, key.as_ptr(), value.as_ptr()) })
    }
}

impl Drop for Information {
    fn drop(&mut self) {
        // SAFETY: ours alone, and used no more; a refusal only leaks it.
        let _ = unsafe { ffi::MPI_Info_free(&raw mut self.0) };
    }
}

/// What new processes need to know beyond the launcher's own environment, which they get from
/// it: a short text, since MPI limits the values of an info object to 255 characters.
fn environment() -> String {
    format!("{PARENT_VARIABLE}={}@{}", std::process::id(), node_name())
}

/// What this process of a launch is; the last processes of the communicator are spares.
pub(in crate::mpi) fn launched(comm: &Comm, spawns: bool) -> Result<Origin, Error> {
    let (rank, size, spares) = (comm.rank(), comm.size(), environment::spares()?);
    Ok(Origin::Launched { rank, size, spares, spawns })
}
