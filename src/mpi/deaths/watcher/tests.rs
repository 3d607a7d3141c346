//! The watcher without MPI: children that end, or do not.

use std::{
    os::fd::AsRawFd as _,
    process::{Child, Command, Stdio},
    thread,
};

use super::{super::death_mark, *};

const UNIVERSE: UniverseId = UniverseId(0);

/// A child that does nothing for long.
fn child() -> Child {
    let mut command = Command::new("sleep");
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("the command `sleep` of the system")
}

/// What a child would say about itself.
fn process_of(child: &Child) -> Process {
    let pid = u64::from(child.id());
    let started = describe(pid).expect("it was just started");
    Process { node: node().expect("this is Linux"), pid, started, name: 1000 + pid }
}

fn watcher_of(processes: Vec<Process>) -> Watcher {
    let mut watcher = Watcher::new(Process::own(0), Ends::new().ok());
    watcher.add(UNIVERSE, processes, Vec::new());
    watcher
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: a signal to a child of ours that was not reaped.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

/// Whom the watcher tells dead within a while.
fn told(watcher: &mut Watcher, looks: u32) -> Vec<Death> {
    let mut all = Vec::new();
    for _ in 0..looks {
        all.extend(watcher.look());
        thread::sleep(Duration::from_millis(1));
    }
    all
}

fn until_told(watcher: &mut Watcher) -> Vec<Death> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        let all = told(watcher, 1);
        if !all.is_empty() {
            return all;
        }
    }
    Vec::new()
}

#[test]
fn a_child_that_ends_is_told_once_though_nobody_has_reaped_it() {
    let mut child = child();
    let process = process_of(&child);
    let mut watcher = watcher_of(vec![process]);
    assert_eq!(told(&mut watcher, 5), []);
    signal(&child, libc::SIGKILL);
    let death = Death { name: Name(process.name), forward: false };
    assert_eq!(until_told(&mut watcher), [death]);
    assert_eq!(told(&mut watcher, 5), []);
    child.wait().expect("our child");
}

#[test]
fn a_death_is_told_one_look_after_it_was_seen() {
    let mut child = child();
    let mut watcher = watcher_of(vec![process_of(&child)]);
    child.kill().expect("our child");
    child.wait().expect("our child");
    assert_eq!(watcher.look(), []);
    assert!(watcher.is_due(), "the next look does not wait for its time");
    assert_eq!(watcher.look().len(), 1);
}

#[test]
fn a_stopped_child_is_not_dead() {
    let mut child = child();
    let mut watcher = watcher_of(vec![process_of(&child)]);
    signal(&child, libc::SIGSTOP);
    assert_eq!(told(&mut watcher, 50), []);
    signal(&child, libc::SIGCONT);
    assert_eq!(told(&mut watcher, 50), []);
    child.kill().expect("our child");
    child.wait().expect("our child");
    assert_eq!(until_told(&mut watcher).len(), 1);
}

#[test]
fn a_process_with_the_same_number_and_another_start_is_not_watched() {
    let mut child = child();
    let process = process_of(&child);
    let mut watcher = watcher_of(vec![Process { started: process.started + 1, ..process }]);
    assert!(watcher.watched.is_empty());
    child.kill().expect("our child");
    child.wait().expect("our child");
    assert_eq!(told(&mut watcher, 5), []);
}

#[test]
fn a_process_that_has_ended_before_it_is_watched_is_told_once() {
    let mut child = child();
    let process = process_of(&child);
    child.kill().expect("our child");
    child.wait().expect("our child");
    let mut watcher = watcher_of(vec![process]);
    assert!(watcher.watched.is_empty(), "nobody has its number now");
    let death = Death { name: Name(process.name), forward: false };
    assert_eq!(told(&mut watcher, 1), [death]);
    assert_eq!(told(&mut watcher, 5), []);
}

#[test]
fn processes_of_other_nodes_and_this_one_are_not_watched() {
    let mut child = child();
    let process = process_of(&child);
    let other = Process { node: process.node ^ 1, ..process };
    let unknown = Process { node: 0, ..process };
    let watcher = watcher_of(vec![other, unknown, Process::own(0)]);
    assert!(watcher.watched.is_empty());
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn the_first_that_lives_on_a_node_tells_other_nodes() {
    let (mut first, mut second) = (child(), child());
    let (a, b) = (process_of(&first), process_of(&second));
    let own = Process::own(0);
    let far = Process { node: own.node ^ 1, pid: 1, started: 1, name: 1 };
    let mut watcher = watcher_of(vec![a, own, b, far]);
    assert!(!watcher.death(b).forward, "the first of this node lives");
    first.kill().expect("our child");
    first.wait().expect("our child");
    assert_eq!(until_told(&mut watcher), [Death { name: Name(a.name), forward: true }]);
    second.kill().expect("our child");
    second.wait().expect("our child");
    assert_eq!(until_told(&mut watcher), [Death { name: Name(b.name), forward: true }]);
}

#[test]
fn descriptors_are_closed_with_the_last_universe_that_needs_them() {
    let mut child = child();
    let process = process_of(&child);
    let mut watcher = watcher_of(vec![process]);
    watcher.add(UniverseId(1), vec![process], Vec::new());
    assert_eq!(watcher.watched.len(), 1, "one descriptor for both");
    watcher.forget(UNIVERSE);
    assert_eq!(watcher.watched.len(), 1);
    watcher.forget(UniverseId(1));
    assert!(watcher.watched.is_empty());
    child.kill().expect("our child");
    child.wait().expect("our child");
    assert_eq!(told(&mut watcher, 5), []);
}

#[test]
fn no_descriptor_is_inherited() {
    let mut child = child();
    let ends = Ends::new().expect("this is Linux");
    let descriptor = ends.add(child.id() as libc::pid_t).expect("it lives");
    // SAFETY: an open descriptor of ours, asked for its flags.
    let flags = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn the_name_of_a_process_by_its_rank_in_a_universe() {
    let own = Process { name: 7, ..Process::own(0) };
    let nameless = Process { name: 0, ..own };
    let watcher = watcher_of(vec![nameless, own]);
    let dead = [0, 1, 2].map(Rank::new);
    assert_eq!(watcher.names(UNIVERSE, dead.into_iter()), [Name(7)]);
    assert_eq!(watcher.names(UniverseId(5), dead.into_iter()), []);
}

/// A mark that is set, though this process goes on.
fn set_mark() -> DeathMark {
    let (memory, door) = crate::mpi::node::memory::Shared::new(64).expect("Linux");
    let (own, descriptor) = (u64::from(process::id()), door.descriptor());
    thread::spawn(move || {
        let memory = crate::mpi::node::memory::Shared::of(own, descriptor, 64).expect("our own");
        mem::forget(death_mark::Own::make(&memory.into(), 8).expect("a mark"));
    })
    .join()
    .expect("no panic");
    let mark = DeathMark::of(&memory.into(), 8);
    assert!(mark.is_set());
    mark
}

#[test]
fn a_mark_that_a_thread_set_is_no_death_as_long_as_the_process_lives() {
    let mut child = child();
    let process = process_of(&child);
    let mut watcher = Watcher::new(Process::own(0), Ends::new().ok());
    watcher.add(UNIVERSE, vec![process], vec![Some(set_mark())]);
    assert_eq!(told(&mut watcher, 20), []);
    signal(&child, libc::SIGKILL);
    assert_eq!(until_told(&mut watcher).len(), 1);
    child.wait().expect("our child");
}

#[test]
fn on_a_crowded_node_alone_a_rank_that_dies_is_put_behind_the_living() {
    let priority = |child: &Child| {
        // SAFETY: a question about a child that was not reaped.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, child.id()) }
    };
    let processors = crate::mpi::node::process::processors();
    // A processor alone is crowded by two.
    for others in [0, processors].into_iter().skip(usize::from(processors < 2)) {
        let mut children: Vec<Child> = (0..=others).map(|_| child()).collect();
        let priorities = |children: &[Child]| children.iter().map(priority).collect::<Vec<i32>>();
        let processes = children.iter().map(process_of).collect();
        let mut watcher = Watcher::new(Process::own(0), Ends::new().ok());
        watcher.add(UNIVERSE, processes, vec![Some(set_mark())]);
        let usual = priorities(&children);
        watcher.look();
        let living = priorities(&children);
        signal(&children[0], libc::SIGKILL);
        let began = Instant::now();
        while watcher.ended.is_empty() && began.elapsed() < Duration::from_secs(10) {
            watcher.look();
        }
        let after = priorities(&children);
        for child in &mut children {
            child.kill().expect("our child");
            child.wait().expect("our child");
        }
        assert_eq!(living, usual);
        assert_eq!(after[1..], usual[1..], "only the dead go behind");
        let behind = if others == 0 { usual[0] } else { (usual[0] + 1).clamp(16, 19) };
        assert_eq!(after[0], behind, "with {others} others");
    }
}
