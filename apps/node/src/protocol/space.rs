//! Namespaces: processes that were started together, where they are, and how they ended.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{ALL, Node, Process};

/// What is started: a program on some processes.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Space {
    /// Its name, which no other one of the job has.
    pub name: String,
    /// The node of each rank.
    pub places: Vec<u32>,
    /// Who started it, if a process did.
    pub spawner: Option<Process>,
    /// The port at which its processes meet who started them: what is published under it is of use
    /// only as long as both sides live.
    pub port: Option<String>,
    /// What to start.
    pub program: Program,
    /// What to start from these ranks on, in ascending order, instead.
    pub others: Vec<(u32, Program)>,
}

/// The number at the end of the name of a namespace that a node starts, after so many others; each
/// has another one, and the launch has 1. Open MPI knows a namespace by it, and takes 15 bits: half
/// of the numbers are for the nodes that were launched, 64 are for each that has joined.
pub fn number_of_spawn(node: Node, launched: u32, before: u32) -> Option<u32> {
    const HALF: u32 = 1 << 14;
    const OF_JOINED: u32 = 64;
    let (number, end) = match node.0.checked_sub(launched) {
        None => (before.checked_mul(launched)?.checked_add(2 + node.0)?, HALF),
        Some(joined) => {
            let start = HALF.checked_add(joined.checked_mul(OF_JOINED)?)?;
            (start.checked_add(before)?, (start + OF_JOINED).min(2 * HALF))
        }
    };
    (number < end).then_some(number)
}

/// A program, as it is started.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Program {
    /// The file, and its arguments.
    pub words: Vec<String>,
    /// Variables beside those of the job: name and value.
    pub environment: Vec<(String, String)>,
    /// Where to start it.
    pub folder: String,
    /// What its processes find under these keys from the beginning, where they speak PMI-1.
    pub said: Vec<(String, String)>,
}

impl Space {
    /// The name of the job that it belongs to.
    pub fn job(&self) -> &str {
        self.name.split('@').next().unwrap_or_default()
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> Option<Node> {
        self.places.get(rank as usize).copied().map(Node)
    }

    /// The ranks of a node.
    pub fn ranks_on(&self, node: Node) -> impl Iterator<Item = u32> + Clone + '_ {
        let ranks = (0..).zip(&self.places);
        ranks.filter(move |(_, place)| **place == node.0).map(|(rank, _)| rank)
    }

    /// The programs, with the first rank and the number of ranks that execute each.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u32, &Program)> {
        let size = self.places.len() as u32;
        let ends = self.others.iter().map(|(first, _)| *first).chain([size]);
        let first = [(0, &self.program)].into_iter();
        let all = first.chain(self.others.iter().map(|(first, program)| (*first, program)));
        all.zip(ends).map(|((first, program), end)| (first, end.saturating_sub(first), program))
    }

    /// The number of the program that a rank executes, and that.
    pub fn program_of(&self, rank: u32) -> (usize, &Program) {
        let number = self.others.iter().take_while(|(first, _)| *first <= rank).count();
        let other = number.checked_sub(1).and_then(|at| self.others.get(at));
        (number, other.map_or(&self.program, |(_, program)| program))
    }

    /// One of its processes.
    pub fn process(&self, rank: u32) -> Process {
        Process { space: self.name.clone(), rank }
    }
}

/// How a process came to its end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum End {
    /// In order, with this status.
    Finished(u8),
    /// With this status, without having been done.
    Exited(u8),
    /// By this signal.
    Killed(u8),
    /// It was never started.
    NotStarted,
    /// With its node.
    Lost,
}

impl End {
    /// True if others have to be told.
    pub const fn is_death(self) -> bool {
        !matches!(self, Self::Finished(_))
    }

    /// The exit status that says as much in a shell.
    pub const fn status(self) -> u8 {
        match self {
            Self::Finished(status) | Self::Exited(status) => status,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
            Self::NotStarted => 127,
            Self::Lost => 1,
        }
    }
}

/// How a process of this node ended, as its parent is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Exit {
    /// By itself.
    Status(u8),
    /// By this signal.
    Signal(u8),
    /// Its program could not be executed.
    NotStarted,
}

/// What is known of a namespace.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Known {
    /// What was started.
    pub space: Space,
    /// The number of the news by which it came, and their origin, if it was spawned.
    pub came: Option<(Node, u64)>,
    /// How processes ended.
    ends: BTreeMap<u32, End>,
    /// Processes of this node that have found their server.
    connected: BTreeSet<u32>,
    /// Processes of this node that are done with MPI.
    finalized: BTreeSet<u32>,
    /// Fences of all its processes that were completed here.
    pub fences: u32,
    /// It has met the processes that started it, or had to meet none.
    pub joined: bool,
}

impl Known {
    /// A namespace that was just started.
    pub fn new(space: Space, came: Option<(Node, u64)>) -> Self {
        let joined = space.spawner.is_none();
        Self {
            space,
            came,
            ends: BTreeMap::new(),
            connected: BTreeSet::new(),
            finalized: BTreeSet::new(),
            fences: 0,
            joined,
        }
    }

    /// How this process ended, if it did.
    pub fn end_of(&self, rank: u32) -> Option<End> {
        self.ends.get(&rank).copied()
    }

    /// A process has ended; false if that is known, or there is no such process. How it ended
    /// before its node was lost may be heard of late, and is what counts.
    pub fn note_end(&mut self, rank: u32, end: End) -> bool {
        if rank as usize >= self.space.places.len() {
            return false;
        }
        match self.ends.get(&rank) {
            None | Some(End::Lost) => self.ends.insert(rank, end).is_none(),
            Some(_) => false,
        }
    }

    /// A process of this node has found its server.
    pub fn note_connected(&mut self, rank: u32) {
        self.connected.insert(rank);
    }

    /// A process of this node is done with MPI.
    pub fn note_finalized(&mut self, rank: u32) {
        self.finalized.insert(rank);
    }

    /// What the end of a process of this node means: one that never found its server uses no MPI,
    /// and its status is its own affair.
    pub fn judge(&self, rank: u32, exit: Exit) -> End {
        match exit {
            Exit::Signal(signal) => End::Killed(signal),
            Exit::NotStarted => End::NotStarted,
            Exit::Status(status) => {
                let is_done = self.finalized.contains(&rank) || !self.connected.contains(&rank);
                if is_done { End::Finished(status) } else { End::Exited(status) }
            }
        }
    }

    /// True when processes of this node have found their server.
    pub fn uses_mpi(&self) -> bool {
        !self.connected.is_empty()
    }

    /// True when this process of this node never found its server, and others did: they wait for it
    /// while they start MPI, where its daemon cannot see it.
    pub fn is_missed(&self, rank: u32, me: Node) -> bool {
        let is_here = self.space.node_of(rank) == Some(me);
        is_here && self.uses_mpi() && !self.connected.contains(&rank)
    }

    /// True when its processes have started MPI together, in so many fences. Those of one node meet
    /// there without us: then it is true when all of them have found their server.
    pub fn has_started(&self, fences: u32) -> bool {
        self.fences >= fences || self.connected.len() == self.space.places.len()
    }

    /// Its processes that have not ended, and their nodes.
    pub fn living(&self) -> impl Iterator<Item = (u32, Node)> + '_ {
        let all = (0..).zip(self.space.places.iter().copied().map(Node));
        all.filter(|(rank, _)| !self.ends.contains_key(rank))
    }

    /// Those that have ended, and how.
    pub fn ends(&self) -> impl Iterator<Item = (u32, End)> + '_ {
        self.ends.iter().map(|(rank, end)| (*rank, *end))
    }

    /// True when a process of it is dead, or has ended before it met those who started it.
    pub fn has_lost(&self) -> bool {
        self.ends.values().any(|end| end.is_death() || !self.joined)
    }
}

/// All namespaces of a job, in the order in which this node heard of them.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Spaces(Vec<Known>);

impl Spaces {
    /// One more; nothing if there is one of that name.
    pub fn add(&mut self, known: Known) -> Option<&mut Known> {
        if self.get(&known.space.name).is_some() {
            return None;
        }
        self.0.push(known);
        self.0.last_mut()
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Known> {
        self.0.iter().find(|known| known.space.name == name)
    }

    /// The one of this name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Known> {
        self.0.iter_mut().find(|known| known.space.name == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Known> {
        self.0.iter()
    }

    /// How a process ended, if it did.
    pub fn end_of(&self, process: &Process) -> Option<End> {
        self.get(&process.space)?.end_of(process.rank)
    }

    /// All of a list of processes, of which some may stand for whole namespaces.
    pub fn expand<'a>(&'a self, who: &'a [Process]) -> impl Iterator<Item = (&'a Known, u32)> {
        who.iter().filter_map(|it| Some((self.get(&it.space)?, it.rank))).flat_map(
            |(known, rank)| {
                let size = known.space.places.len() as u32;
                let ranks = if rank == ALL { 0..size } else { rank..(rank + 1).min(size) };
                ranks.map(move |rank| (known, rank))
            },
        )
    }

    /// How many living processes a node has.
    pub fn load_of(&self, node: Node) -> u32 {
        let living = self.0.iter().flat_map(Known::living);
        living.filter(|(_, place)| *place == node).count() as u32
    }

    /// The processes of a node that have not ended.
    pub fn living_on(&self, node: Node) -> Vec<Process> {
        let of = |known: &Known| {
            let here = known.living().filter(|(_, place)| *place == node);
            here.map(|(rank, _)| known.space.process(rank)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// True when no process is left.
    pub fn are_over(&self) -> bool {
        self.0.iter().all(|known| known.living().next().is_none())
    }

    /// The exit status of a job that ended by itself: the highest of those that ended in order; if
    /// none did, of those that ended by themselves, as those do who leave the end of MPI out where
    /// it would wait for the dead; or that of the first death.
    pub fn status(&self) -> u8 {
        let ends = || self.0.iter().flat_map(Known::ends).map(|(_, end)| end);
        let finished = ends().filter(|end| !end.is_death()).map(End::status).max();
        let exited = || ends().filter(|end| matches!(end, End::Exited(_))).map(End::status).max();
        finished.or_else(exited).or_else(|| ends().next().map(End::status)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawns_of_all_nodes_have_different_numbers_of_15_bits() {
        let mut numbers = BTreeSet::new();
        for node in 0..600 {
            let of_node = (0..).map_while(|before| number_of_spawn(Node(node), 3, before));
            let before = numbers.len();
            let given: Vec<u32> = of_node.collect();
            numbers.extend(&given);
            assert_eq!(numbers.len(), before + given.len(), "node {node}");
        }
        assert_eq!((numbers.first(), numbers.last()), (Some(&2), Some(&0x7fff)));
    }

    #[test]
    fn one_that_ends_in_order_before_it_has_met_its_spawner_is_lost() {
        let spawner = Some(Process { space: "job".into(), rank: 0 });
        let (name, program) = ("job.1".into(), Program::default());
        let (places, port) = (vec![0, 1], Some("7".into()));
        let space = Space { name, places, spawner, port, program, ..Space::default() };
        let mut known = Known::new(space, None);
        assert!(!known.has_lost());
        let end = known.judge(1, Exit::Status(0));
        assert!(known.note_end(1, end) && !end.is_death());
        assert!(known.has_lost());
        known.joined = true;
        assert!(!known.has_lost(), "it has left in order");
    }

    #[test]
    fn the_status_is_that_of_those_who_were_not_killed_whichever_was() {
        let of = |ends: &[End]| {
            let places = vec![0; ends.len()];
            let (name, program) = ("job".into(), Program::default());
            let space = Space { name, places, program, ..Space::default() };
            let mut known = Known::new(space, None);
            for (rank, end) in (0..).zip(ends) {
                known.note_end(rank, *end);
            }
            let mut spaces = Spaces::default();
            spaces.add(known).expect("the first");
            spaces.status()
        };
        assert_eq!(of(&[End::Killed(9), End::Exited(0), End::Exited(0)]), 0);
        assert_eq!(of(&[End::Exited(0), End::Exited(3), End::Killed(9)]), 3);
        assert_eq!(of(&[End::Exited(3), End::Finished(0)]), 0, "one has ended in order");
        assert_eq!(of(&[End::Killed(9), End::Lost]), 137);
    }

    #[test]
    fn ranks_of_several_programs_follow_each_other() {
        let program = |word: &str| Program { words: vec![word.into()], ..Program::default() };
        let others = vec![(2, program("b")), (3, program("c"))];
        let space = Space { places: vec![0; 6], program: program("a"), others, ..Space::default() };
        let parts = space.parts().map(|(first, size, program)| (first, size, &*program.words[0]));
        assert_eq!(parts.collect::<Vec<_>>(), [(0, 2, "a"), (2, 1, "b"), (3, 3, "c")]);
        let of = |rank| (space.program_of(rank).0, &*space.program_of(rank).1.words[0]);
        assert_eq!([1, 2, 3, 5].map(of), [(0, "a"), (1, "b"), (2, "c"), (2, "c")]);
    }
}
