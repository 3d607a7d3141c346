//! Daemons on a simulated network lose nodes and processes at random moments, also while they tell
//! of something: no request of a living rank stays without an answer, all living daemons know the
//! same in the end, also of those whom their ranks have met, and each tells its ranks of each death
//! once. In some jobs not all daemons are linked. Nodes join at any moment, also while others are
//! lost, and some never come. A daemon leaves when it may, without a console: none of the others
//! starts anything after that, and all leave with one status.
//!
//! `FAMPI_SEEDS` says how many runs; a run that fails prints its seed, which repeats it when it is
//! `FAMPI_SEED`.

mod joins;
mod links;
mod many;
mod spawns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fampi::sim::Draw;
use fampi_kit::seeds::{each_seed, number};
use fampi_node::protocol::{
    ALL, Answer, Effect, Effects, Node, Process, Report, Ticket,
    collective::Kind,
    daemon::{Daemon, Wish},
    directory::Lookup,
    message::Message,
    orders::Place,
    placement::Room,
    space::{Exit, Program, Space},
};

use joins::{Newcomers, place};
use links::Cabling;

const SEEDS: u64 = 3_000;
/// Steps of the program of all ranks.
const STEPS: u32 = 8;

/// What the seed decides.
struct Dice(Draw);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.below(sides as u64) as usize
    }
}

/// What travels from one node to another.
#[derive(Clone, Debug)]
enum Travelling {
    Message(Box<Message>),
    Closed,
}

/// A node with its daemon, and its ranks as one program.
#[derive(Debug)]
struct Station {
    daemon: Daemon,
    lives: bool,
    /// Those that it has to be linked with before it hears any, if it joins.
    unlinked: Option<BTreeSet<usize>>,
    /// The nodes that it has heard are to join.
    expects: BTreeMap<Node, Place>,
    /// The step that its ranks of the launch are in.
    step: u32,
    /// What they wait for.
    waiting: BTreeMap<Ticket, &'static str>,
    answered: BTreeSet<Ticket>,
    tickets: u64,
    /// Processes that run here.
    running: BTreeSet<Process>,
    told: BTreeSet<Process>,
    over: Option<u8>,
    /// It has left, as all was over, with this status.
    left: Option<u8>,
    /// Spawned namespaces that processes of this node are to meet, and those that they have met.
    meets: BTreeMap<Ticket, String>,
    met: BTreeSet<String>,
    /// The same where all of them are here, of which the daemon hears by what they look up.
    looks: BTreeMap<Ticket, String>,
    joined: BTreeSet<String>,
    /// Spawns that a process of this node has asked for, and their ports.
    ports: BTreeMap<Ticket, (String, Process)>,
}

struct World {
    dice: Dice,
    stations: Vec<Station>,
    cables: BTreeMap<(usize, usize), VecDeque<Travelling>>,
    /// If not all are linked with each other.
    cabling: Option<Cabling>,
    /// What daemons want done.
    wanted: VecDeque<(usize, Effect)>,
    is_performing: bool,
    losses: usize,
    kills: usize,
    from_start: bool,
    newcomers: Newcomers,
    rooms: Vec<Room>,
    launch: Space,
    /// Names of namespaces by the numbers at their ends.
    numbers: BTreeMap<u16, String>,
}

/// A station of a node, before it does anything.
fn station(at: usize, rooms: Vec<Room>) -> Station {
    Station {
        daemon: Daemon::new(Node(at as u32), rooms),
        lives: true,
        unlinked: None,
        expects: BTreeMap::new(),
        step: 0,
        waiting: BTreeMap::new(),
        answered: BTreeSet::new(),
        tickets: 0,
        running: BTreeSet::new(),
        told: BTreeSet::new(),
        over: None,
        left: None,
        meets: BTreeMap::new(),
        met: BTreeSet::new(),
        looks: BTreeMap::new(),
        joined: BTreeSet::new(),
        ports: BTreeMap::new(),
    }
}

fn everybody(space: &str) -> Process {
    Process { space: space.to_owned(), rank: ALL }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(Draw(seed));
        let is_graph = dice.roll(8) == 0;
        let nodes = match is_graph.then(|| dice.roll(40)) {
            None => 2 + dice.roll(4),
            Some(0) => 12 + dice.roll(30),
            Some(_) => 2 + dice.roll(9),
        };
        let per_node = 1 + dice.roll(2);
        let rooms: Vec<Room> = (0..nodes).map(|at| place(at).room()).collect();
        let places = (0..nodes * per_node).map(|rank| (rank / per_node) as u32).collect();
        let space = Space {
            name: "job@1".into(),
            places,
            spawner: None,
            port: None,
            program: Program::default(),
            others: Vec::new(),
        };
        let losses = dice.roll(nodes);
        let kills = dice.roll(3);
        let from_start = dice.roll(4) == 0;
        let mut stations: Vec<Station> = (0..nodes).map(|at| station(at, rooms.clone())).collect();
        let newcomers = Newcomers::of(dice.roll(4), dice.roll(2));
        let cabling = is_graph.then(|| Cabling::new(nodes));
        for station in stations.iter_mut().filter(|_| is_graph) {
            station.daemon = station.daemon.clone().in_graph();
        }
        let cables = BTreeMap::new();
        let (wanted, is_performing) = (VecDeque::new(), false);
        let mut world = Self {
            dice,
            stations,
            cables,
            cabling,
            wanted,
            is_performing,
            losses,
            kills,
            from_start,
            newcomers,
            rooms,
            launch: space.clone(),
            numbers: BTreeMap::new(),
        };
        for at in 0..nodes {
            world.drive(at, |daemon, out| daemon.handle_launch(space.clone(), out));
            let here: Vec<Process> = world.stations[at].running.iter().cloned().collect();
            for process in here {
                world.drive(at, |daemon, out| daemon.handle_connected(&process, out));
            }
        }
        world
    }

    /// One turn of a daemon, and what it wants done, in the order in which it was wanted.
    fn drive(&mut self, at: usize, turn: impl FnOnce(&mut Daemon, &mut Effects)) {
        let mut out = Effects::new();
        turn(&mut self.stations[at].daemon, &mut out);
        self.wanted.extend(out.into_iter().map(|effect| (at, effect)));
        if std::mem::replace(&mut self.is_performing, true) {
            return;
        }
        while let Some((at, effect)) = self.wanted.pop_front() {
            self.perform(at, effect);
        }
        self.is_performing = false;
    }

    fn perform(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::Call(to) => self.call(at, to.0 as usize),
            Effect::Send(to, message) => {
                self.check_cable(at, to.0 as usize);
                let cable = self.cables.entry((at, to.0 as usize)).or_default();
                cable.push_back(Travelling::Message(Box::new(message)));
            }
            Effect::Answer(ticket, answer) => self.answer(at, ticket, answer),
            Effect::Start(space) => self.start(at, &space),
            Effect::Ask(process, number) => {
                if self.stations[at].running.contains(&process) {
                    self.drive(at, |it, out| it.handle_data(number, Ok(vec![1]), out));
                }
            }
            Effect::Tell(dead) => {
                for (process, _) in dead {
                    assert!(self.stations[at].told.insert(process.clone()), "{process:?} twice");
                }
            }
            Effect::Kill(processes) => {
                let station = &self.stations[at];
                let ends_all = station.running.iter().all(|it| processes.contains(it));
                let lives_on = |it: &Process| station.joined.contains(&it.space);
                assert!(ends_all || !processes.iter().any(lives_on), "{processes:?}");
                for process in processes {
                    self.kill(at, &process, 15);
                }
            }
            Effect::Report(Report::Over(status, _)) => self.stations[at].over = Some(status),
            Effect::Report(Report::Busy) => self.stations[at].over = None,
            Effect::Report(Report::Lost(..) | Report::Came(..)) | Effect::Greet(_) => {}
            Effect::Expect(node, place) => {
                self.stations[at].expects.insert(node, place);
                self.newcomers.expected.insert((at, node.0 as usize));
            }
            Effect::Admit(guest, admitted) => self.admit(guest, admitted),
            Effect::Conclude(status, _) => {
                assert_eq!(self.stations[at].over, Some(status));
                self.stations[at].left = Some(status);
                self.lose(at);
            }
            Effect::Leave => self.lose(at),
        }
    }

    fn kill(&mut self, at: usize, process: &Process, signal: u8) {
        if self.stations[at].running.remove(process) {
            self.drive(at, |it, out| it.handle_exit(process, Exit::Signal(signal), out));
        }
    }

    fn ticket(&mut self, at: usize, what: &'static str) -> Ticket {
        let station = &mut self.stations[at];
        station.tickets += 1;
        let ticket = Ticket(station.tickets);
        station.waiting.insert(ticket, what);
        ticket
    }

    fn answer(&mut self, at: usize, ticket: Ticket, answer: Answer) {
        let station = &mut self.stations[at];
        assert!(station.answered.insert(ticket), "answered twice");
        station.waiting.remove(&ticket);
        let port = station.ports.remove(&ticket);
        let met = station.meets.remove(&ticket);
        station.met.extend(met.filter(|_| answer == Answer::Done(Ok(()))));
        let looked = station.looks.remove(&ticket);
        station.joined.extend(looked.filter(|_| matches!(answer, Answer::Found(Ok(_)))));
        if let (Some((port, spawner)), Answer::Spawned(Ok(space))) = (port, answer) {
            // A dead process asks for nothing more.
            if !station.running.contains(&spawner) {
                return;
            }
            let ticket = self.ticket(at, "lookup");
            let keys = vec![format!("{port}:accept")];
            self.drive(at, |it, out| {
                it.handle_lookup(Lookup { ticket, keys, waits: true, meets: None }, out);
            });
            let known = self.stations[at].daemon.spaces().get(&space).expect("spawned here");
            if known.space.places.iter().all(|place| *place as usize == at) {
                self.connect_here(at, &spawner, &port, space);
            } else {
                self.connect(at, spawner, &space);
            }
        }
    }

    /// The first living rank of the launch on this node.
    fn first_here(&self, at: usize) -> Option<Process> {
        self.stations[at].running.iter().find(|it| it.space == "job@1").cloned()
    }

    /// The ranks of a node go on to their next step.
    fn step(&mut self, at: usize) {
        let step = self.stations[at].step;
        self.stations[at].step += 1;
        let Some(first) = self.first_here(at) else { return };
        match step {
            0..=3 | 6 => {
                let kind = if step == 3 { Kind::Disconnect } else { Kind::Fence };
                let ticket = self.ticket(at, "meeting");
                let data = vec![at as u8];
                self.drive(at, |it, out| {
                    it.handle_meeting(kind, vec![everybody("job@1")], data, ticket, out);
                });
            }
            4 if at.is_multiple_of(2) => {
                let ticket = self.ticket(at, "spawn");
                let port = format!("port{at}");
                self.stations[at].ports.insert(ticket, (port.clone(), first.clone()));
                let processes = 1 + self.dice.roll(3) as u32;
                let wish = Wish { processes, port: Some(port), ..Wish::default() };
                self.drive(at, |it, out| it.handle_spawn(first, wish, ticket, out));
            }
            _ => {
                let ranks = self.stations[at].daemon.spaces().get("job@1").expect("launched");
                let rank = self.dice.roll(ranks.space.places.len()) as u32;
                let of = Process { space: "job@1".into(), rank };
                let ticket = self.ticket(at, "question");
                self.drive(at, |it, out| it.handle_question(of, ticket, out));
            }
        }
    }

    /// A node is gone: of what it has sent a part still arrives.
    fn lose(&mut self, at: usize) {
        if !std::mem::replace(&mut self.stations[at].lives, false) {
            return;
        }
        self.stations[at].running.clear();
        for to in (0..self.stations.len())
            .filter(|to| *to != at && self.are_linked(at, *to))
            .collect::<Vec<usize>>()
        {
            let cable = self.cables.entry((at, to)).or_default();
            let left = self.dice.roll(cable.len() + 1);
            cable.truncate(left);
            cable.push_back(Travelling::Closed);
        }
    }

    fn may_lose(&self) -> bool {
        self.from_start || self.stations.iter().all(|it| it.step > 2 && it.waiting.is_empty())
    }

    /// True for a node that is linked with those that it has to be linked with.
    fn hears(&self, at: usize) -> bool {
        self.stations.get(at).is_some_and(|it| it.unlinked.is_none())
    }

    /// One thing happens; false when nothing can any more.
    fn turn(&mut self) -> bool {
        // Once all have started MPI together, any moment is one.
        self.from_start |= self.may_lose();
        if self.from_start && self.dice.roll(12) == 0 {
            self.harm();
        }
        self.play_guests();
        let is_full = |((_, to), it): &(&(usize, usize), &VecDeque<Travelling>)| {
            !it.is_empty() && self.hears(*to)
        };
        let full: Vec<(usize, usize)> =
            self.cables.iter().filter(is_full).map(|(ends, _)| *ends).collect();
        let ready = |it: &Station| {
            it.lives && (it.unlinked.is_some() || it.waiting.is_empty() && it.step < STEPS)
        };
        let ready: Vec<usize> =
            (0..self.stations.len()).filter(|at| ready(&self.stations[*at])).collect();
        let calls = self.cabling.as_ref().map_or(0, Cabling::calls);
        let choices = full.len() + ready.len() + calls;
        if choices == 0 {
            return self.pass_moment() || self.give_up();
        }
        let choice = self.dice.roll(choices);
        if let Some((from, to)) = full.get(choice).copied() {
            let cable = self.cables.get_mut(&(from, to)).expect("there");
            let next = cable.pop_front();
            if cable.is_empty() {
                self.cables.remove(&(from, to));
            }
            let node = Node(from as u32);
            if self.stations[to].lives {
                match next.expect("not empty") {
                    Travelling::Message(message) => {
                        self.drive(to, |it, out| it.handle_message(node, *message, out));
                    }
                    Travelling::Closed => self.drive(to, |it, out| it.handle_closed(node, out)),
                }
            }
        } else if choice >= full.len() + ready.len() {
            self.connect_call(choice - full.len() - ready.len());
        } else {
            let at = ready[choice - full.len()];
            if self.stations[at].unlinked.is_some() { self.link(at) } else { self.step(at) }
        }
        true
    }

    fn harm(&mut self) {
        let at = self.dice.roll(self.stations.len());
        let living = self.stations.iter().filter(|it| it.lives).count();
        if !self.stations[at].lives {
            return;
        }
        if self.losses > 0 && living > 1 && self.dice.roll(2) == 0 {
            self.losses -= 1;
            self.lose(at);
        } else if self.kills > 0 && !self.stations[at].running.is_empty() {
            self.kills -= 1;
            let which = self.dice.roll(self.stations[at].running.len());
            let process = self.stations[at].running.iter().nth(which).expect("there").clone();
            self.kill(at, &process, 9);
        }
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Station)> {
        self.stations.iter().enumerate().filter(|(_, it)| it.lives)
    }

    /// How each process has ended, as a daemon knows it.
    fn ends(station: &Station) -> BTreeMap<String, Vec<bool>> {
        let spaces = station.daemon.spaces().iter();
        let ends = |known: &fampi_node::protocol::space::Known| {
            (0..known.space.places.len() as u32).map(|rank| known.end_of(rank).is_some()).collect()
        };
        spaces.map(|known| (known.space.name.clone(), ends(known))).collect()
    }

    fn check(&self) -> Result<(), String> {
        for (at, station) in self.living() {
            // A node without ranks has no process that waits.
            if !station.waiting.is_empty() && !station.running.is_empty() {
                return Err(format!("node {at} waits for {:?}", station.waiting));
            }
            let (first, known) = (self.living().next().expect("one lives").1, Self::ends(station));
            if let Some(node) = station.daemon.members().joining().next() {
                return Err(format!("node {at} waits for node {}", node.0));
            }
            if known != Self::ends(first) {
                return Err(format!("node {at} knows {known:?}, others {:?}", Self::ends(first)));
            }
            for name in &station.met {
                Self::check_met(at, station, name)?;
            }
        }
        Ok(())
    }

    /// All that still run are killed: the job is over, and all daemons say so.
    fn finish(&mut self) -> Result<(), String> {
        for at in 0..self.stations.len() {
            let running: Vec<Process> = self.stations[at].running.iter().cloned().collect();
            for process in running {
                self.kill(at, &process, 9);
            }
        }
        (self.losses, self.kills) = (0, 0);
        while self.turn() {}
        if let Some((at, station)) = self.living().next() {
            return Err(format!("node {at} does not leave: over {:?}", station.over));
        }
        let left: Vec<u8> = self.stations.iter().filter_map(|it| it.left).collect();
        if left.is_empty() || left.iter().any(|status| *status != left[0]) {
            return Err(format!("they leave with {left:?}"));
        }
        Ok(())
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    let mut turns = 0;
    while world.turn() {
        world.check_counts()?;
        world.check_places()?;
        turns += 1;
        if turns > 200_000 {
            return Err("it does not come to rest".to_owned());
        }
    }
    world.check()?;
    world.check_links()?;
    world.finish()
}

#[test]
fn whatever_is_lost_each_request_is_answered_and_all_daemons_agree() {
    if let Some(seed) = number("FAMPI_SEED") {
        return run(seed).expect("in order");
    }
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS);
    if let Err((seed, why)) = each_seed(0, seeds, run) {
        panic!(
            "FAMPI_SEED={seed} cargo test --release --package fampi-node --test simulation: {why}"
        );
    }
}
