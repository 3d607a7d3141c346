//! Thousands of daemons, of which some are lost at once, side by side or anywhere, while they meet,
//! publish and ask, and others join; and networks that are cut.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fampi_kit::seeds::number;
use fampi_node::protocol::{
    ALL, Answer, Effect, Effects, Guest, Node, Process, Ticket,
    collective::Kind,
    daemon::Daemon,
    graph::Graph,
    message::Message,
    space::{Program, Space},
};

use super::{Dice, Draw, joins::place};

/// Daemons that have ranks.
const RANKS: usize = 48;

/// What is under way over a link.
enum Under {
    Message(Box<Message>),
    Closed,
    /// Who calls, and is not linked yet.
    Call,
}

struct Many {
    dice: Dice,
    graph: Graph,
    /// How many were launched, and what.
    launched: usize,
    space: Space,
    daemons: Vec<Daemon>,
    lives: Vec<bool>,
    links: Vec<BTreeSet<usize>>,
    cables: BTreeMap<(usize, usize), VecDeque<Under>>,
    /// Links with something under way, in the order of a draw.
    full: Vec<(usize, usize)>,
    /// Who waits for what.
    waiting: BTreeMap<(usize, Ticket), &'static str>,
    /// Those that have stopped themselves.
    left: BTreeSet<usize>,
    messages: u64,
    most_links: usize,
    /// What is under way to a node that is to join and has not begun, and from whom.
    early: Vec<(usize, Under)>,
    /// The nodes of one part of the network, if it is cut.
    cut: Option<BTreeSet<usize>>,
    /// Calls from one part to the other.
    unanswered: Vec<(usize, usize)>,
}

impl Many {
    fn new(nodes: usize, seed: u64) -> Self {
        let graph = Graph::new(nodes as u32);
        let rooms: Vec<_> = (0..nodes).map(|at| place(at).room()).collect();
        // Ranks stand all around the ring.
        let places = (0..RANKS).map(|rank| (rank * nodes / RANKS) as u32).collect();
        let (name, program) = ("job@1".into(), Program::default());
        let space = Space { name, places, program, ..Space::default() };
        let links = (0..nodes).map(|at| {
            let neighbours = graph.neighbours(Node(at as u32), |_| true);
            neighbours.into_iter().map(|node| node.0 as usize).collect()
        });
        let mut many = Self {
            dice: Dice(Draw(seed)),
            graph,
            launched: nodes,
            space: space.clone(),
            daemons: Vec::new(),
            lives: vec![true; nodes],
            links: links.collect(),
            cables: BTreeMap::new(),
            full: Vec::new(),
            waiting: BTreeMap::new(),
            left: BTreeSet::new(),
            messages: 0,
            most_links: 0,
            early: Vec::new(),
            cut: None,
            unanswered: Vec::new(),
        };
        for at in 0..nodes {
            many.daemons.push(Daemon::new(Node(at as u32), rooms.clone()).in_graph());
            many.drive(at, |it, out| it.handle_launch(space.clone(), out));
        }
        many
    }

    /// The same after some have joined.
    fn with(nodes: usize, joined: usize, seed: u64) -> Self {
        let mut many = Self::new(nodes, seed);
        while many.turn() {}
        for _ in 0..joined {
            many.join();
            while many.turn() {}
        }
        many
    }

    fn drive(&mut self, at: usize, turn: impl FnOnce(&mut Daemon, &mut Effects)) {
        let mut out = Effects::new();
        turn(&mut self.daemons[at], &mut out);
        self.perform(at, out.into());
    }

    fn perform(&mut self, at: usize, mut effects: VecDeque<Effect>) {
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Send(to, message) => {
                    let to = to.0 as usize;
                    if !self.links[at].contains(&to) {
                        // A node that joins has not heard yet which others are lost.
                        assert!(at >= self.launched && !self.lives[to], "{at} and {to}: no link");
                        continue;
                    }
                    self.messages += 1;
                    self.put(at, to, Under::Message(Box::new(message)));
                }
                Effect::Call(to) if self.is_cut(at, to.0 as usize) => {
                    self.unanswered.push((at, to.0 as usize));
                }
                Effect::Call(to) => self.put(at, to.0 as usize, Under::Call),
                Effect::Answer(ticket, answer) => {
                    let answered = self.waiting.remove(&(at, ticket));
                    assert!(answered.is_some(), "{at} is answered twice");
                    assert!(!matches!(answer, Answer::Done(Err(_))), "{answered:?} {answer:?}");
                }
                Effect::Ask(_, number) => {
                    let mut more = Effects::new();
                    self.daemons[at].handle_data(number, Ok(vec![7]), &mut more);
                    effects.extend(more);
                }
                Effect::Expect(node, _) => _ = self.links[at].insert(node.0 as usize),
                Effect::Admit(_, admitted) => {
                    let (node, lost) = admitted.expect("asked the first one");
                    self.begin(node as usize, &lost);
                }
                Effect::Leave => _ = self.left.insert(at),
                _ => {}
            }
        }
    }

    /// A node that was let in is linked with all that live, and begins.
    fn begin(&mut self, node: usize, lost: &[u32]) {
        assert_eq!(node, self.daemons.len(), "the next number");
        let rooms = (0..self.launched).map(|at| place(at).room()).collect();
        let daemon = Daemon::new(Node(node as u32), rooms).that_joins().in_graph();
        self.daemons.push(daemon);
        self.lives.push(true);
        self.links.push((0..node).filter(|at| !lost.contains(&(*at as u32))).collect());
        let space = self.space.clone();
        self.drive(node, |it, out| it.handle_launch(space, out));
        for (from, what) in std::mem::take(&mut self.early) {
            self.put(from, node, what);
        }
    }

    /// One more node joins.
    fn join(&mut self) {
        let first = (0..self.lives.len()).find(|at| self.lives[*at]).expect("one lives");
        let (guest, place) = (Guest(self.lives.len() as u64), place(self.lives.len()));
        self.drive(first, |it, out| it.handle_add(guest, place, out));
    }

    /// True for a link between the parts of a network that is cut.
    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cut.as_ref().is_some_and(|part| part.contains(&one) != part.contains(&other))
    }

    fn put(&mut self, from: usize, to: usize, what: Under) {
        if self.is_cut(from, to) {
            return;
        }
        if to == self.daemons.len() {
            return self.early.push((from, what));
        }
        let cable = self.cables.entry((from, to)).or_default();
        if cable.is_empty() {
            self.full.push((from, to));
        }
        cable.push_back(what);
    }

    /// Takes one thing that is under way; false when nothing is.
    fn turn(&mut self) -> bool {
        if self.full.is_empty() {
            return false;
        }
        let which = self.dice.roll(self.full.len());
        let (from, to) = self.full[which];
        let cable = self.cables.get_mut(&(from, to)).expect("full");
        let next = cable.pop_front().expect("full");
        if cable.is_empty() {
            self.cables.remove(&(from, to));
            self.full.swap_remove(which);
        }
        let node = Node(from as u32);
        match next {
            _ if !self.lives[to] && !matches!(next, Under::Call) => {}
            Under::Message(message) => {
                self.drive(to, |it, out| it.handle_message(node, *message, out));
            }
            Under::Closed => self.drive(to, |it, out| it.handle_closed(node, out)),
            Under::Call if !self.lives[from] || self.links[from].contains(&to) => {}
            Under::Call if !self.lives[to] => self.put(to, from, Under::Closed),
            Under::Call => {
                self.links[from].insert(to);
                self.links[to].insert(from);
                self.drive(from, |it, out| it.handle_linked(Node(to as u32), out));
                self.drive(to, |it, out| it.handle_linked(node, out));
            }
        }
        true
    }

    /// These nodes are lost, at any moment of what they were sending.
    fn lose(&mut self, nodes: &[usize]) {
        for at in nodes.iter().copied() {
            if self.lives.get(at) != Some(&true) {
                continue;
            }
            self.lives[at] = false;
            self.waiting.retain(|(node, _), _| *node != at);
            for to in self.links[at].clone() {
                if let Some(cable) = self.cables.get_mut(&(at, to)) {
                    let left = 1 + self.dice.roll(cable.len());
                    cable.truncate(left);
                }
                self.put(at, to, Under::Closed);
            }
        }
    }

    fn wait(&mut self, at: usize, what: &'static str, number: u64) -> Ticket {
        self.waiting.insert((at, Ticket(number)), what);
        Ticket(number)
    }

    /// All ranks meet, some publish and some ask.
    fn work(&mut self, round: u64) {
        let nodes = self.launched;
        for rank in 0..RANKS {
            let at = rank * nodes / RANKS;
            if !self.lives[at] {
                continue;
            }
            let ticket = self.wait(at, "fence", 3 * round);
            let everybody = vec![Process { space: "job@1".into(), rank: ALL }];
            self.drive(at, |it, out| {
                it.handle_meeting(Kind::Fence, everybody, vec![rank as u8], ticket, out);
            });
            let process = |rank: usize| Process { space: "job@1".into(), rank: rank as u32 };
            if self.dice.roll(RANKS / 2) == 0 {
                let ticket = self.wait(at, "publication", 3 * round + 1);
                let values = vec![(format!("{rank}:{round}"), vec![1])];
                self.drive(at, |it, out| {
                    it.handle_publication(&process(rank), values, false, ticket, out);
                });
            }
            let of = process(self.dice.roll(RANKS));
            let ticket = self.wait(at, "question", 3 * round + 2);
            self.drive(at, |it, out| it.handle_question(of, ticket, out));
        }
    }

    /// At rest all that live are linked with their neighbours and know who is lost.
    fn check(&mut self) {
        assert!(self.waiting.is_empty(), "{:?}", self.waiting);
        assert!(self.left.is_empty(), "{:?}", self.left);
        let living = |many: &Self| (0..many.lives.len()).filter(|at| many.lives[*at]).collect();
        let living: Vec<usize> = living(self);
        let lost: BTreeSet<u32> =
            (0..self.lives.len()).filter(|at| !self.lives[*at]).map(|at| at as u32).collect();
        for at in &living {
            assert_eq!(self.daemons[*at].members().lost(), lost, "as {at} knows");
            let lives = |node: Node| self.lives[node.0 as usize];
            for to in self.graph.neighbours(Node(*at as u32), lives) {
                assert!(self.links[*at].contains(&(to.0 as usize)), "{at} and {}", to.0);
            }
            let links = self.links[*at].iter().filter(|to| self.lives[**to]).count();
            self.most_links = self.most_links.max(links);
        }
    }
}

/// So many daemons lose some in each of so many rounds, after which another one may join.
fn run(nodes: usize, rounds: u64, joins: bool, seed: u64) {
    let mut many = Many::new(nodes, seed);
    for round in 0..rounds {
        many.work(round);
        let some = many.dice.roll(3 * RANKS * 10);
        for _ in 0..some {
            many.turn();
        }
        // Some side by side; then others, perhaps on the ways around those.
        let first = many.dice.roll(nodes);
        let beside: Vec<usize> = (0..many.dice.roll(6)).map(|ahead| first + ahead).collect();
        many.lose(&beside);
        for _ in 0..many.dice.roll(200 * nodes.ilog2() as usize) {
            many.turn();
        }
        let all = many.lives.len();
        let anywhere: Vec<usize> = (0..many.dice.roll(3)).map(|_| many.dice.roll(all)).collect();
        many.lose(&anywhere);
        while many.turn() {}
        many.check();
        if joins {
            many.join();
            while many.turn() {}
            let last = Node(many.lives.len() as u32 - 1);
            assert!(
                many.daemons
                    .iter()
                    .zip(&many.lives)
                    .all(|(daemon, lives)| { !lives || daemon.members().has_come(last) })
            );
        }
    }
    let lost = many.lives.iter().filter(|lives| !**lives).count();
    println!(
        "{nodes} daemons, {lost} lost: {} messages for each, at most {} links",
        many.messages / nodes as u64,
        many.most_links
    );
}

/// The network is cut between the first nodes, so many, and the others; of nodes that have joined
/// these are with the first. For both ends of each link that is cut the other one falls silent, in
/// any order, while all others are told.
fn cut(launched: usize, first: usize, joined: &[bool], seed: u64) {
    let (mut many, nodes) = (Many::with(launched, joined.len(), seed), launched + joined.len());
    let is_with_first = |at: usize| {
        if at < launched { at < first } else { joined[at - launched] }
    };
    many.cut = Some((0..nodes).filter(|at| is_with_first(*at)).collect());
    let ends = (0..nodes).flat_map(|at| many.links[at].iter().map(move |to| (at, *to)));
    let mut ends: Vec<(usize, usize)> =
        ends.filter(|(one, other)| many.is_cut(*one, *other)).collect();
    let mut silent = ends.clone();
    // Of two parts that are nearly as large as each other both stop when some of them have died.
    let mut losses = if (2 * first).abs_diff(launched) > 12 { 4 } else { 0 };
    while !ends.is_empty() {
        let (at, to) = ends.swap_remove(many.dice.roll(ends.len()));
        many.drive(at, |it, out| it.handle_quiet(Node(to as u32), out));
        let moment = many.dice.roll(nodes);
        many.drive(moment, Daemon::handle_moment);
        while many.dice.roll(40) > 0 && many.turn() {}
        if losses > 0 && many.dice.roll(10) == 0 {
            // In any part, some of whose nodes then call others of the other part.
            losses -= 1;
            let lost = many.dice.roll(nodes);
            many.lose(&[lost]);
        }
        if ends.is_empty() {
            while many.turn() {}
            silent.extend(&many.unanswered);
            ends.append(&mut many.unanswered);
        }
    }
    let is_smaller = |at: usize| (2 * first < launched) == is_with_first(at);
    let pause = |many: &mut Many| {
        for at in 0..nodes {
            if many.lives[at] && !many.left.contains(&at) {
                many.drive(at, Daemon::handle_moment);
            }
        }
        while many.turn() {}
    };
    let check = |many: &Many| {
        let stopped = (0..nodes).filter(|at| many.lives[*at] && is_smaller(*at));
        assert_eq!(many.left, stopped.collect(), "{first} of {nodes}");
    };
    pause(&mut many);
    pause(&mut many);
    check(&many);
    // Those who go on find more and more of the others silent.
    while !silent.is_empty() {
        for (at, to) in silent {
            if is_smaller(at) || !many.lives[at] {
                continue;
            }
            many.drive(at, |it, out| it.handle_quiet(Node(to as u32), out));
            many.drive(at, |it, out| it.handle_silence(Node(to as u32), out));
        }
        pause(&mut many);
        silent = std::mem::take(&mut many.unanswered);
    }
    check(&many);
    let gone: BTreeSet<u32> =
        (0..nodes).filter(|at| is_smaller(*at) || !many.lives[*at]).map(|at| at as u32).collect();
    for at in (0..nodes).filter(|at| !is_smaller(*at) && many.lives[*at]) {
        assert_eq!(many.daemons[at].members().lost(), gone, "{first} of {nodes}, as {at} knows");
    }
}

#[test]
fn the_smaller_part_of_a_cut_network_stops_itself_and_no_other_daemon_does() {
    for (seed, (nodes, first)) in (0..).zip([(65, 5), (65, 32), (66, 33), (70, 60), (200, 90)]) {
        cut(nodes, first, &[], seed);
    }
    // None of these turns the scale.
    for (seed, first) in (5..).zip([5, 20, 30, 36, 60]) {
        cut(66, first, &[true, false, true], seed);
    }
}

#[test]
fn daemons_of_a_graph_lose_many_and_answer_all() {
    let seeds = number("FAMPI_SEED").map_or(0..5, |seed| seed..seed + 1);
    for seed in seeds {
        println!("FAMPI_SEED={seed}");
        run(65 + 20 * seed as usize, 6, seed > 0, seed);
    }
}

#[test]
#[ignore = "it takes half a minute and 1.3 GB"]
fn four_thousand_daemons_lose_many_and_answer_all() {
    run(4096, 3, false, number("FAMPI_SEED").unwrap_or(1));
}
