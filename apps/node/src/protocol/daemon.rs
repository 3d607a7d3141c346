//! The daemon of a node: what its ranks ask and other daemons tell goes in, what is to be done
//! comes out.

mod joins;
mod news;
mod publications;
mod questions;
mod routes;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Answer, Effect, Effects, Failure, Node, Process, Report, Ticket,
    collective::{Collectives, Kind},
    directory::Directory,
    membership::{Membership, Partition},
    message::{Fact, Message},
    placement::{self, Room},
    space::{self, End, Exit, Known, Program, Space, Spaces},
};

/// What a process of another node is asked for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asked {
    /// By a rank of this node.
    Here(Ticket, Process),
    /// By a daemon, under its number, for a process of this node.
    There(Node, u64, Process),
    /// By this daemon, which tells it to all, for a process of this node.
    ForAll(Process),
}

/// What a process wants to be started.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Wish {
    /// How many processes.
    pub processes: u32,
    /// The nodes to choose from, by their names; all if there are none.
    pub hosts: Vec<String>,
    /// Where they meet who starts them.
    pub port: Option<String>,
    /// What each of them executes.
    pub program: Program,
    /// More, which are started together with these, and whose ranks follow.
    pub others: Vec<Wish>,
}

/// The daemon of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Daemon {
    rooms: Vec<Room>,
    members: Membership,
    spaces: Spaces,
    collectives: Collectives,
    directory: Directory,
    pending: BTreeMap<u64, news::Pending>,
    log: news::Log,
    /// If not all nodes are linked with each other.
    routes: Option<routes::Routes>,
    joins: joins::Joins,
    asked: BTreeMap<u64, Asked>,
    /// What processes have to say, as far as all were told.
    said_by: BTreeMap<Process, Vec<u8>>,
    held: Vec<questions::Held>,
    /// Of news and of questions: the last number given.
    number: u64,
    /// How many namespaces were spawned from this node.
    spawned: u32,
    /// The last news heard of each origin.
    heard: BTreeMap<u32, u64>,
    /// The job ends with this status, for this reason.
    ending: Option<(u8, String)>,
    /// What the person was told last.
    said: Report,
    /// What this node, and others, have said last of the whole job, and which nodes they knew to be
    /// lost.
    said_to_all: (Report, BTreeSet<u32>),
    others_said: BTreeMap<Node, (Report, BTreeSet<u32>)>,
    /// All living nodes have said that it is over, and with which status.
    is_concluded: bool,
    /// All others take this node for lost.
    has_left: bool,
    /// In which the processes of a namespace start MPI together.
    fences: u32,
}

/// Those of Open MPI.
const FENCES_OF_THE_START: u32 = 2;

impl Daemon {
    /// The daemon of this node.
    pub fn new(me: Node, rooms: Vec<Room>) -> Self {
        let members = Membership::new(me, rooms.len() as u32);
        Self {
            rooms,
            members,
            spaces: Spaces::default(),
            collectives: Collectives::default(),
            directory: Directory::default(),
            pending: BTreeMap::new(),
            log: news::Log::default(),
            routes: None,
            joins: joins::Joins::default(),
            asked: BTreeMap::new(),
            said_by: BTreeMap::new(),
            held: Vec::new(),
            number: 0,
            spawned: 0,
            heard: BTreeMap::new(),
            ending: None,
            said: Report::Busy,
            said_to_all: (Report::Busy, BTreeSet::new()),
            others_said: BTreeMap::new(),
            is_concluded: false,
            has_left: false,
            fences: FENCES_OF_THE_START,
        }
    }

    /// The same, which goes on in such parts of a network that is cut.
    #[must_use]
    pub fn under(self, partition: Partition) -> Self {
        Self { members: self.members.under(partition), ..self }
    }

    /// The same, where processes meet so often while they start MPI together.
    #[must_use]
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }

    /// What is known of the nodes.
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// What is known of namespaces.
    pub const fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The first namespace of the job, of which all daemons are told.
    pub fn handle_launch(&mut self, space: Space, out: &mut Effects) {
        self.admit(space, None, out);
        self.settle(out);
    }

    /// The processes of this node of a namespace have been started, or it could not be.
    pub fn handle_started(&mut self, name: &str, is_started: bool, out: &mut Effects) {
        let Some(known) = self.spaces.get(name) else { return };
        if let Some((origin, number)) = known.came {
            self.hear(self.members.me(), origin, number, is_started, out);
        }
        self.settle(out);
    }

    /// A process of this node has found its server.
    pub fn handle_connected(&mut self, process: &Process, out: &mut Effects) {
        if let Some(known) = self.spaces.get_mut(&process.space) {
            known.note_connected(process.rank);
        }
        self.settle(out);
    }

    /// A process of this node is done with MPI.
    pub fn handle_finalized(&mut self, process: &Process) {
        if let Some(known) = self.spaces.get_mut(&process.space) {
            known.note_finalized(process.rank);
        }
    }

    /// The processes of a namespace go to meet who started them: from now on its life is their own.
    pub fn handle_joined(&mut self, name: &str, out: &mut Effects) {
        self.join(name, out);
        self.settle(out);
    }

    fn join(&mut self, name: &str, out: &mut Effects) {
        if self.spaces.get(name).is_some_and(|known| !known.joined) {
            self.tell(Fact::Joined(name.to_owned()), out);
        }
    }

    /// A process of this node has ended.
    pub fn handle_exit(&mut self, process: &Process, exit: Exit, out: &mut Effects) {
        let Some(known) = self.spaces.get(&process.space) else { return };
        let end = known.judge(process.rank, exit);
        if known.end_of(process.rank).is_none() {
            self.tell(Fact::Ended(process.clone(), end), out);
        }
        self.settle(out);
    }

    /// A process of this node wants the job to end. One that was spawned and has not met its
    /// spawner yet belongs to no other: it ends with those that were started with it.
    pub fn handle_abort(&mut self, process: &Process, status: i32, why: &str, out: &mut Effects) {
        let joined = self.spaces.get(&process.space).is_none_or(|known| known.joined);
        if joined {
            let status = u8::try_from(status & 0xff).ok().filter(|it| *it != 0).unwrap_or(1);
            let why = why.trim();
            let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
            let sentence = format!("rank {} has aborted the job{reason}", process.rank);
            self.tell(Fact::Ending(status, sentence), out);
        } else {
            self.tell(Fact::Dropped(process.space.clone()), out);
        }
        self.settle(out);
    }

    /// The person wants the job to end.
    pub fn handle_end(&mut self, status: u8, why: &str, out: &mut Effects) {
        self.tell(Fact::Ending(status, why.to_owned()), out);
        self.settle(out);
    }

    /// The processes of this node that take part in a meeting are there.
    pub fn handle_meeting(
        &mut self,
        kind: Kind,
        who: Vec<Process>,
        data: Vec<u8>,
        ticket: Ticket,
        out: &mut Effects,
    ) {
        if kind == Kind::Connect {
            self.introduce(who, ticket, out);
        } else {
            self.arrive(kind, who, data, ticket, out);
        }
        self.settle(out);
    }

    fn arrive(
        &mut self,
        kind: Kind,
        who: Vec<Process>,
        data: Vec<u8>,
        ticket: Ticket,
        out: &mut Effects,
    ) {
        let me = self.members.me();
        let part = data.clone();
        let key = self.collectives.handle_arrival(me, kind, who, data, ticket);
        let places = self.spaces.expand(&key.who);
        let nodes = places.filter_map(|(known, rank)| known.space.node_of(rank));
        let nodes: BTreeSet<Node> = nodes.collect();
        let others: Vec<Node> = self.members.others().filter(|it| nodes.contains(it)).collect();
        for node in others {
            self.send(node, Message::Part(key.clone(), part.clone()), out);
        }
    }

    /// A process of this node starts others.
    pub fn handle_spawn(
        &mut self,
        spawner: Process,
        wish: Wish,
        ticket: Ticket,
        out: &mut Effects,
    ) {
        let Wish { processes, hosts, port, program, others } = wish;
        let (mut wanted, mut later) = (vec![(processes, &hosts[..])], Vec::new());
        let mut first = processes;
        for Wish { processes, hosts, program, .. } in &others {
            later.push((first, program.clone()));
            wanted.push((*processes, hosts));
            first += processes;
        }
        let places = placement::of_spawn(&wanted, &self.rooms, &self.members, &self.spaces);
        let name = self.new_name();
        let (Some(places), Some(name), None) = (places, name, &self.ending) else {
            out.push(Effect::Answer(ticket, Answer::Spawned(Err(Failure::NotStarted))));
            return self.settle(out);
        };
        let (spawner, others) = (Some(spawner), later);
        let space = Space { name: name.clone(), places, spawner, port, program, others };
        self.tell(Fact::Spawned(space), out);
        self.answer_when_heard(ticket, Some(name));
        self.settle(out);
    }

    /// A name for what is spawned next.
    fn new_name(&mut self) -> Option<String> {
        let job = self.spaces.iter().next()?.space.job().to_owned();
        let number =
            space::number_of_spawn(self.members.me(), self.members.launched(), self.spawned)?;
        self.spawned += 1;
        Some(format!("{job}@{number}"))
    }

    /// The link to a node has ended: its daemon is dead.
    pub fn handle_closed(&mut self, node: Node, out: &mut Effects) {
        self.lose(node, true, out);
    }

    /// A node has not been heard of for a while; it may be us who cannot hear.
    pub fn handle_quiet(&mut self, node: Node, out: &mut Effects) {
        if self.routes.is_some() {
            return self.hear_neighbour(node, false);
        }
        self.members.note_quiet(node);
        if !self.members.may_go_on() {
            self.leave(out);
        }
    }

    /// A node was heard of again.
    pub fn handle_heard(&mut self, node: Node) {
        if self.routes.is_some() {
            self.hear_neighbour(node, true);
        } else {
            self.members.note_heard(node);
        }
    }

    /// A node has been silent for so long that it has stopped itself, if it lives.
    pub fn handle_silence(&mut self, node: Node, out: &mut Effects) {
        self.lose(node, false, out);
    }

    fn lose(&mut self, node: Node, is_proved: bool, out: &mut Effects) {
        if !self.members.has_come(self.members.me()) {
            return self.leave(out);
        }
        if self.is_concluded && self.routes.is_some() {
            return self.forget_neighbour(node, out);
        }
        if !self.members.is_lost(node) && !self.has_left {
            self.tell(Fact::Lost(node.0, is_proved), out);
        }
        self.settle(out);
    }

    /// A message of another daemon. What a lost node still says counts for nothing; news of it that
    /// others pass on do.
    pub fn handle_message(&mut self, from: Node, message: Message, out: &mut Effects) {
        if self.members.is_lost(from) || self.has_left {
            return;
        }
        match message {
            Message::Beat(_) => {}
            Message::News(news) => self.handle_news(from, news, out),
            Message::Known(known) => self.handle_known(from, &known, out),
            Message::Parcel(parcel) => self.handle_parcel(*parcel, out),
            Message::Receipt(receipt) => self.handle_receipt(receipt, out),
            message => self.take(from, message, out),
        }
        self.settle(out);
    }

    /// Takes what a daemon has sent to this one alone.
    fn take(&mut self, from: Node, message: Message, out: &mut Effects) {
        match message {
            Message::Heard(number, followed) => {
                self.hear(from, self.members.me(), number, followed, out);
            }
            Message::Part(key, data) => self.collectives.handle_part(from, key, data),
            Message::Ask(theirs, of) => self.handle_ask(from, theirs, of, out),
            Message::Say(number, data) => {
                if let Some(Asked::Here(ticket, _)) = self.asked.remove(&number) {
                    out.push(Effect::Answer(ticket, Answer::Bytes(data)));
                }
            }
            Message::Says(report, lost) => _ = self.others_said.insert(from, (report, lost)),
            Message::Serves => self.joins.note_serving(from),
            // These go over links, and are not sent from one node to another.
            Message::Beat(_)
            | Message::News(_)
            | Message::Known(_)
            | Message::Parcel(_)
            | Message::Receipt(_) => {}
        }
    }

    /// Acts on what happened.
    fn follow(&mut self, fact: Fact, origin: Node, number: u64, out: &mut Effects) {
        let me = self.members.me();
        let is_awaited = fact.is_awaited();
        match fact {
            // Heard when its processes have been started.
            Fact::Spawned(space) => return self.admit(space, Some((origin, number)), out),
            Fact::Dropped(name) => self.drop_space(&name, out),
            Fact::Ended(process, end) => self.end(&[(process, end)], out),
            Fact::Lost(node, is_proved) => {
                let node = Node(node);
                if is_proved {
                    self.members.note_dead(node);
                } else {
                    self.members.note_quiet(node);
                }
                if node == me {
                    return self.leave(out);
                }
                if self.members.note_lost(node) {
                    let lost = self.spaces.living_on(node);
                    out.push(Effect::Report(Report::Lost(node.0, lost.len() as u32)));
                    let ends: Vec<_> = lost.into_iter().map(|it| (it, End::Lost)).collect();
                    self.end(&ends, out);
                    self.route_around(node, out);
                }
                if !self.members.may_go_on() {
                    return self.leave(out);
                }
            }
            Fact::Published(entry) => self.directory.add(entry),
            Fact::Removed(ids) => self.directory.remove(&ids),
            Fact::Added(number, place) => self.add(Node(number), place, out),
            Fact::Came(number) => self.count_in(Node(number), out),
            Fact::Unheard(nodes) => self.note_unheard(origin, nodes),
            Fact::Barrier => {}
            Fact::Joined(name) => {
                if let Some(known) = self.spaces.get_mut(&name) {
                    known.joined = true;
                }
            }
            Fact::Said(process, data) => {
                self.said_by.insert(process, data);
            }
            Fact::Ending(status, why) => {
                let is_first = self.ending.is_none();
                // Several daemons may say so: all come to the same.
                self.ending = self.ending.take().max(Some((status, why)));
                if is_first {
                    out.push(Effect::Kill(self.spaces.living_on(me)));
                }
            }
        }
        if origin != me && is_awaited {
            self.hear(me, origin, number, true, out);
        }
    }

    /// Takes a namespace in: its processes that belong here are to be started.
    fn admit(&mut self, space: Space, came: Option<(Node, u64)>, out: &mut Effects) {
        let spawner = space.spawner.clone();
        let name = space.name.clone();
        let Some(known) = self.spaces.add(Known::new(space.clone(), came)) else { return };
        let lost: Vec<(Process, End)> = known
            .living()
            .filter(|(_, node)| self.members.is_lost(*node))
            .map(|(rank, _)| (known.space.process(rank), End::Lost))
            .collect();
        out.push(Effect::Start(space));
        self.end(&lost, out);
        // Who started it died before this was heard of.
        if self.ending.is_some() || spawner.is_some_and(|it| self.spaces.end_of(&it).is_some()) {
            self.drop_space(&name, out);
        }
    }

    /// These processes have ended: those that died are told to the ranks, in one event.
    fn end(&mut self, ends: &[(Process, End)], out: &mut Effects) {
        let mut dead = Vec::new();
        for (process, end) in ends {
            let Some(known) = self.spaces.get_mut(&process.space) else { continue };
            if known.note_end(process.rank, *end) && end.is_death() {
                dead.push((process.clone(), *end));
            }
        }
        if dead.is_empty() {
            return;
        }
        let orphans = |known: &&Known| {
            let is_dead = |it: &Process| dead.iter().any(|(dead, _)| dead == it);
            !known.joined && known.space.spawner.as_ref().is_some_and(is_dead)
        };
        let orphans: Vec<String> =
            self.spaces.iter().filter(orphans).map(|known| known.space.name.clone()).collect();
        out.push(Effect::Tell(dead));
        for name in &orphans {
            self.drop_space(name, out);
        }
    }

    /// Ends what is left of a namespace on this node.
    fn drop_space(&self, name: &str, out: &mut Effects) {
        let Some(known) = self.spaces.get(name) else { return };
        let here = known.living().filter(|(_, node)| *node == self.members.me());
        let here: Vec<Process> = here.map(|(rank, _)| known.space.process(rank)).collect();
        if !here.is_empty() {
            out.push(Effect::Kill(here));
        }
    }

    fn leave(&mut self, out: &mut Effects) {
        if !self.has_left {
            self.has_left = true;
            out.push(Effect::Leave);
        }
    }
}
