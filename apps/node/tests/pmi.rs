//! Ranks that speak PMI-1 meet in barriers, on daemons of a simulated network, while ranks and
//! nodes are lost at random moments: no living rank waits for ever, and after a barrier each finds
//! what every rank had said that was in it and lives.
//!
//! `FAMPI_SEEDS` says how many runs; a run that fails prints its seed, which repeats it when it is
//! `FAMPI_SEED`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fampi::sim::Draw;
use fampi_kit::seeds::{each_seed, number};
use fampi_node::protocol::{
    Effect, Effects, Node, Process,
    daemon::Daemon,
    message::Message,
    placement::Room,
    pmi::{
        FENCES_OF_THE_START, Front, Replies,
        request::{Reply, Request},
    },
    space::{Exit, Program, Space},
};

const SEEDS: u64 = 5_000;
/// Barriers of each rank.
const ROUNDS: u32 = 4;

fn rank(number: u32) -> Process {
    Process { space: "job@1".into(), rank: number }
}

/// What one rank does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Init,
    /// In this round.
    Put(u32),
    Barrier(u32),
    /// It waits in this round.
    Waiting(u32),
    /// This round is over: what all have said in it is looked for.
    Look(u32),
    Finalize,
    Done,
}

struct Station {
    daemon: Daemon,
    front: Front,
    lives: bool,
}

struct World {
    dice: Draw,
    places: Vec<u32>,
    stations: Vec<Station>,
    ranks: BTreeMap<u32, Next>,
    /// Those that were killed, or whose node was lost.
    dead: BTreeSet<u32>,
    cables: BTreeMap<(usize, usize), VecDeque<Option<Message>>>,
    harms: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Draw(seed);
        let nodes = 1 + dice.below(3) as u32;
        let places: Vec<u32> = (0..nodes + dice.below(4) as u32).map(|it| it % nodes).collect();
        let rooms: Vec<Room> =
            (0..nodes).map(|at| Room { name: format!("n{at}"), slots: 2 }).collect();
        let station = |at: u32| Station {
            daemon: Daemon::new(Node(at), rooms.clone()).with_fences(FENCES_OF_THE_START),
            front: Front::new(Node(at)),
            lives: true,
        };
        let stations = (0..nodes).map(station).collect();
        let ranks = (0..places.len() as u32).map(|rank| (rank, Next::Init)).collect();
        let harms = dice.below(3);
        let (dead, cables) = (BTreeSet::new(), BTreeMap::new());
        let mut world = Self { dice, places, stations, ranks, dead, cables, harms };
        let places = world.places.clone();
        for at in 0..nodes as usize {
            let (name, program) = ("job@1".into(), Program::default());
            let places = places.clone();
            let space = Space { name, places, program, ..Space::default() };
            world.stations[at].front.admit(&space);
            world.drive(at, |it, out, _| it.daemon.handle_launch(space, out));
        }
        world
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice.below(sides as u64) as usize
    }

    /// One turn of a node, and all that follows from it there.
    fn drive(&mut self, at: usize, turn: impl FnOnce(&mut Station, &mut Effects, &mut Replies)) {
        let (mut out, mut replies) = (Effects::new(), Replies::new());
        turn(&mut self.stations[at], &mut out, &mut replies);
        for effect in out {
            match effect {
                Effect::Send(to, message) => {
                    self.cables.entry((at, to.0 as usize)).or_default().push_back(Some(message));
                }
                Effect::Answer(ticket, answer) => {
                    self.stations[at].front.handle_answer(ticket, answer, &mut replies);
                }
                Effect::Kill(processes) => {
                    for process in processes {
                        self.kill(process.rank);
                    }
                }
                _ => {}
            }
        }
        for (process, reply) in replies {
            let next = self.ranks.get_mut(&process.rank).expect("a rank");
            if let (Reply::Barrier, Next::Waiting(round)) = (reply, *next) {
                *next = Next::Look(round);
            }
        }
    }

    fn is_alive(&self, rank: u32) -> bool {
        let is_here = self.stations[self.places[rank as usize] as usize].lives;
        is_here && !self.dead.contains(&rank)
    }

    fn kill(&mut self, number: u32) {
        if self.is_alive(number) {
            self.dead.insert(number);
            self.end(number, Exit::Signal(9));
        }
    }

    fn end(&mut self, number: u32, exit: Exit) {
        self.drive(self.places[number as usize] as usize, |it, out, _| {
            it.front.handle_end(&rank(number), &mut it.daemon, out);
            it.daemon.handle_exit(&rank(number), exit, out);
        });
    }

    fn lose(&mut self, at: usize) {
        self.stations[at].lives = false;
        let here = (0..).zip(&self.places).filter(|(_, place)| **place as usize == at);
        self.dead.extend(here.map(|(rank, _)| rank).collect::<Vec<u32>>());
        for to in (0..self.stations.len()).filter(|to| *to != at) {
            let left = self.cables.get(&(at, to)).map_or(0, VecDeque::len);
            let left = self.roll(left + 1);
            let cable = self.cables.entry((at, to)).or_default();
            cable.truncate(left);
            cable.push_back(None);
        }
    }

    fn ask(&mut self, number: u32, request: Request) -> Replies {
        let mut heard = Replies::new();
        self.drive(self.places[number as usize] as usize, |it, out, replies| {
            it.front.handle_request(&rank(number), request, &mut it.daemon, out, replies);
            heard.clone_from(replies);
        });
        heard
    }

    /// A rank goes on.
    fn step(&mut self, number: u32) -> Result<(), String> {
        let next = self.ranks[&number];
        let after = match next {
            Next::Init => Next::Put(0),
            Next::Put(round) => Next::Barrier(round),
            Next::Barrier(round) => Next::Waiting(round),
            Next::Look(round) if round + 1 < ROUNDS => Next::Put(round + 1),
            Next::Look(_) => Next::Finalize,
            Next::Finalize | Next::Waiting(_) | Next::Done => Next::Done,
        };
        self.ranks.insert(number, after);
        match next {
            Next::Init => _ = self.ask(number, Request::Init),
            Next::Put(round) => {
                let (key, value) = (format!("{number}-{round}"), format!("by {number}"));
                self.ask(number, Request::Put(key, value));
            }
            Next::Barrier(_) => _ = self.ask(number, Request::Barrier),
            Next::Look(round) => {
                let living = (0..self.places.len() as u32).filter(|it| self.is_alive(*it));
                for other in living.collect::<Vec<u32>>() {
                    let get = Request::Get("job@1".into(), format!("{other}-{round}"));
                    let found = Reply::Get(Some(format!("by {other}")));
                    if self.ask(number, get) != [(rank(number), found)] {
                        return Err(format!("{number} does not find {other} in round {round}"));
                    }
                }
            }
            Next::Finalize => _ = self.ask(number, Request::Finalize),
            Next::Done => self.end(number, Exit::Status(0)),
            Next::Waiting(_) => {}
        }
        Ok(())
    }

    /// One thing happens; false when nothing can any more.
    fn turn(&mut self) -> Result<bool, String> {
        let has_begun = self.ranks.values().all(|it| !matches!(it, Next::Init | Next::Put(0)));
        if self.harms > 0 && has_begun && self.roll(20) == 0 {
            self.harms -= 1;
            let (at, number) = (self.roll(self.stations.len()), self.roll(self.places.len()));
            let living = self.stations.iter().filter(|it| it.lives).count();
            if living > 1 && self.stations[at].lives && self.roll(2) == 0 {
                self.lose(at);
            } else {
                self.kill(number as u32);
            }
        }
        let full = self.cables.iter().filter(|(_, it)| !it.is_empty());
        let full: Vec<(usize, usize)> = full.map(|(ends, _)| *ends).collect();
        let may = |it: Next| !matches!(it, Next::Waiting(_) | Next::Done);
        let ready = self.ranks.iter().filter(|(rank, next)| self.is_alive(**rank) && may(**next));
        let ready: Vec<u32> = ready.map(|(rank, _)| *rank).collect();
        if full.is_empty() && ready.is_empty() {
            return Ok(false);
        }
        let choice = self.roll(full.len() + ready.len());
        let Some((from, to)) = full.get(choice).copied() else {
            self.step(ready[choice - full.len()])?;
            return Ok(true);
        };
        let next = self.cables.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let from = Node(from as u32);
        if self.stations[to].lives {
            self.drive(to, |it, out, _| match next.expect("not empty") {
                Some(message) => it.daemon.handle_message(from, message, out),
                None => it.daemon.handle_closed(from, out),
            });
        }
        Ok(true)
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    while world.turn()? {}
    let left =
        world.ranks.iter().find(|(rank, next)| world.is_alive(**rank) && **next != Next::Done);
    left.map_or(Ok(()), |(rank, next)| Err(format!("{rank} is left: {next:?}")))
}

#[test]
fn whoever_is_lost_no_one_waits_and_all_find_what_the_living_have_said() {
    if let Some(seed) = number("FAMPI_SEED") {
        return run(seed).expect("in order");
    }
    let seeds = number("FAMPI_SEEDS").unwrap_or(SEEDS);
    if let Err((seed, why)) = each_seed(0, seeds, run) {
        panic!("FAMPI_SEED={seed} cargo test --release --package fampi-node --test pmi: {why}");
    }
}
