//! Observers as a transition system: packets that are lost, deaths, mistakes, new lives.
//!
//! Time is not in it. A silence ends in a verdict only about those who are dead in truth, or, so
//! often as a setup allows, about anybody. A heartbeat is sent where its receiver has something to
//! say about it, and when nothing else is on its way: a period is long against what a packet takes.
//! On each node runs one process, whose rank is the number of the
//! node.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use fampi_detector::protocol::{
    Cause, Effect, Event, Host, Incarnation, Node, Process, Rank, Timer, Timing, layout::Layout,
    message::Message, observer::Observer,
};
use stateright::{Model, Property};

use crate::bugs::{Bug, plant};

const TIMING: Timing = Timing {
    period: Duration::from_millis(100),
    timeout: Duration::from_millis(200),
    start: Duration::from_secs(1),
    requests: 1,
    grace: Duration::from_millis(100),
    hung: None,
    diagnosis: None,
};

/// How many observers there are, and how often something may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detector {
    pub(crate) nodes: u32,
    /// Nodes that die.
    pub(crate) crashes: usize,
    /// Processes that end while their node lives on.
    pub(crate) exits: usize,
    /// Of those, how many are replaced by a process of the next node.
    pub(crate) joins: usize,
    /// Dead nodes that get a new observer.
    pub(crate) returns: usize,
    /// Packets that are lost.
    pub(crate) losses: usize,
    /// Verdicts about the living.
    pub(crate) mistakes: usize,
    /// A planted bug.
    pub(crate) bug: Option<Bug>,
}

/// One life of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Life {
    observer: Observer,
    alive: bool,
    /// How often its node was told of the end of each process, and of each life of a node.
    processes: BTreeMap<Process, u8>,
    hosts: BTreeMap<Host, u8>,
}

/// A process and its node; true when it has ended before its node did.
type Resident = (Process, Host, bool);

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct State {
    lives: BTreeMap<Host, Arc<Life>>,
    residents: Vec<Resident>,
    links: BTreeMap<(Host, Host), Vec<Arc<Message>>>,
    /// What is left of the setup.
    losses: usize,
    mistakes: usize,
    crashes: usize,
    exits: usize,
    joins: usize,
    returns: usize,
    /// Something that the dead said was believed.
    ghost_heard: bool,
    panicked: bool,
}

/// One step of the system.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Action {
    Take(Host, Host),
    Lose(Host, Host),
    Heartbeat(Host),
    Silence(Host),
    Mistake(Host),
    Crash(Host),
    Exit(Process),
    /// A process of this node takes a dead one's rank.
    Join(Process, Host),
    Return(Node),
}

impl Detector {
    /// So many nodes to which nothing happens.
    pub(crate) fn nodes(nodes: u32) -> Self {
        let (crashes, exits, joins, returns) = (0, 0, 0, 0);
        Self { nodes, crashes, exits, joins, returns, losses: 0, mistakes: 0, bug: None }
    }

    fn layout(&self) -> Arc<Layout> {
        Arc::new(Layout::regular(self.nodes, 1))
    }
}

impl State {
    fn birth(&mut self, host: Host, layout: Arc<Layout>) {
        let mut out = Vec::new();
        let observer = Observer::start(host, TIMING, layout, &mut out);
        let (processes, hosts) = (BTreeMap::new(), BTreeMap::new());
        self.lives.insert(host, Arc::new(Life { observer, alive: true, processes, hosts }));
        self.carry_out(host, out);
    }

    fn turn(&mut self, host: Host, turn: impl FnOnce(&mut Observer, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        let life = self.lives.get_mut(&host).expect("it lives");
        turn(&mut Arc::make_mut(life).observer, &mut out);
        self.carry_out(host, out);
    }

    fn carry_out(&mut self, from: Host, out: Vec<Effect>) {
        for effect in out {
            match effect {
                // Nobody takes what is sent to the dead.
                Effect::Send(to, _) if !self.is_alive(to) => {}
                Effect::Send(to, message) => {
                    self.links.entry((from, to)).or_default().push(Arc::new(message));
                }
                Effect::Emit(Event::Died(process, _)) => {
                    *self.life(from).processes.entry(process).or_default() += 1;
                }
                Effect::Emit(Event::Lost(host, processes)) => {
                    let life = self.life(from);
                    *life.hosts.entry(host).or_default() += 1;
                    for process in processes {
                        *life.processes.entry(process).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }

    fn life(&mut self, host: Host) -> &mut Life {
        self.lives.get_mut(&host).map(Arc::make_mut).expect("it lives")
    }

    fn is_alive(&self, host: Host) -> bool {
        self.lives.get(&host).is_some_and(|life| life.alive)
    }

    /// Those who live and have not been told that they are dead.
    fn living(&self) -> impl Iterator<Item = &Life> {
        self.lives.values().map(|life| &**life).filter(|it| it.alive && !it.observer.is_fenced())
    }

    /// The receiver of a heartbeat that is worth sending.
    fn heartbeat(&self, life: &Life) -> Option<Host> {
        let mut out = Vec::new();
        life.observer.clone().handle_timer(Timer::Heartbeat, &mut out);
        let to = out.iter().find_map(|effect| match effect {
            Effect::Send(to, _) => Some(*to),
            _ => None,
        })?;
        let receiver = &self.lives.get(&to).filter(|receiver| receiver.alive)?.observer;
        let heartbeat = Message::Heartbeat(life.observer.registry().digest());
        let mut answer = Vec::new();
        receiver.clone().handle_message(life.observer.me(), heartbeat, &mut answer);
        let says = |effect: &Effect| matches!(effect, Effect::Send(..) | Effect::Emit(_));
        answer.iter().any(says).then_some(to)
    }

    /// What the next silence of an observer comes to: those it declares lost, or nobody yet.
    fn verdict(observer: &Observer) -> Vec<Host> {
        let mut out = Vec::new();
        observer.clone().handle_timer(Timer::Silence, &mut out);
        let fences = out.into_iter().filter_map(|effect| match effect {
            Effect::Send(to, Message::Fence(None)) => Some(to),
            _ => None,
        });
        fences.collect()
    }

    /// True for an observer that sends heartbeats.
    fn beats(&self, host: Host) -> bool {
        self.living().any(|life| life.observer.me() == host)
    }

    /// True when a silence of this observer may be one: somebody it observes sends nothing.
    fn is_silent(&self, observer: &Observer) -> bool {
        let observed = observer.ring().observed();
        observed.map(|node| observer.registry().host(node)).any(|host| !self.beats(host))
    }

    /// True for a process that has ended, alone or with its node.
    fn has_ended(&self, (_, host, ended): &Resident) -> bool {
        *ended || !self.beats(*host)
    }

    fn local_actions(&self, life: &Life, actions: &mut Vec<Action>) {
        let me = life.observer.me();
        if self.crashes > 0 {
            actions.push(Action::Crash(me));
        }
        if life.observer.is_fenced() {
            return;
        }
        if self.heartbeat(life).is_some() {
            actions.push(Action::Heartbeat(me));
        }
        let verdict = Self::verdict(&life.observer);
        let about_the_living = verdict.iter().any(|host| self.beats(*host));
        if about_the_living {
            actions.extend((self.mistakes > 0).then_some(Action::Mistake(me)));
        } else if self.is_silent(&life.observer) || (verdict.is_empty() && self.mistakes > 0) {
            let observes = life.observer.ring().observed().next().is_some();
            actions.extend(observes.then_some(Action::Silence(me)));
        }
        for (process, host, ended) in &self.residents {
            if self.exits > 0 && *host == me && !ended {
                actions.push(Action::Exit(*process));
            }
            let next = process.rank.0 + 1 == me.node.0 || me.node.0 == 0;
            let known = life.observer.registry().cause(*process).is_some();
            let held = life.observer.registry().holder(process.rank) != Some(*process);
            if self.joins > 0 && *ended && next && *host != me && known && !held {
                actions.push(Action::Join(*process, me));
            }
        }
    }

    fn step(&mut self, action: Action, layout: Arc<Layout>) {
        match action {
            Action::Take(from, to) => {
                let message = Arc::unwrap_or_clone(self.pop(from, to));
                let registry = self.lives[&to].observer.registry().clone();
                self.turn(to, |it, out| it.handle_message(from, message, out));
                let changed = self.lives[&to].observer.registry() != &registry;
                self.ghost_heard |= changed && registry.is_lost(from);
            }
            Action::Lose(from, to) => {
                self.losses -= 1;
                self.pop(from, to);
            }
            Action::Heartbeat(me) => {
                self.turn(me, |it, out| it.handle_timer(Timer::Heartbeat, out));
            }
            Action::Silence(me) => self.turn(me, |it, out| it.handle_timer(Timer::Silence, out)),
            Action::Mistake(me) => {
                self.mistakes -= 1;
                self.turn(me, |it, out| it.handle_timer(Timer::Silence, out));
            }
            Action::Crash(me) => {
                self.crashes -= 1;
                Arc::make_mut(self.lives.get_mut(&me).expect("it lives")).alive = false;
                self.links.retain(|(_, to), _| *to != me);
            }
            Action::Exit(process) => {
                self.exits -= 1;
                let resident = self.residents.iter_mut().find(|it| it.0 == process);
                let resident = resident.expect("it runs");
                resident.2 = true;
                let host = resident.1;
                let cause = Cause::Signal(9);
                self.turn(host, |it, out| it.handle_exit(process, cause, out));
            }
            Action::Join(Process { rank, incarnation }, host) => {
                self.joins -= 1;
                let process = Process { rank, incarnation: Incarnation(incarnation.0 + 1) };
                self.residents.push((process, host, false));
                self.turn(host, |it, out| it.handle_registration(process, out));
            }
            Action::Return(node) => {
                self.returns -= 1;
                self.birth(Host { node, incarnation: Incarnation(1) }, layout);
            }
        }
    }

    fn pop(&mut self, from: Host, to: Host) -> Arc<Message> {
        let link = self.links.get_mut(&(from, to)).expect("something is on it");
        let message = link.remove(0);
        if link.is_empty() {
            self.links.remove(&(from, to));
        }
        message
    }

    /// Every living observer knows who lives, and its node was told of every end once.
    fn all_know(&self) -> bool {
        let lives = |node: Node| self.living().any(|life| life.observer.me().node == node);
        self.living().all(|life| {
            let registry = life.observer.registry();
            let nodes = (0..registry.layout().nodes()).map(Node);
            let of_nodes = nodes.into_iter().all(|node| registry.is_alive(node) == lives(node));
            let of_processes = self.residents.iter().all(|resident| {
                let ended = self.has_ended(resident);
                // Its node died before anybody else had heard of it.
                let unheard = registry.holder(resident.0.rank) < Some(resident.0);
                if unheard && ended {
                    return true;
                }
                let told = life.processes.get(&resident.0).copied().unwrap_or_default();
                registry.cause(resident.0).is_some() == ended && told == u8::from(ended)
            });
            of_nodes && of_processes
        })
    }

    fn all_know_the_same(&self) -> bool {
        let mut digests = self.living().map(|life| life.observer.registry().digest());
        let first = digests.next();
        digests.all(|digest| Some(digest) == first)
    }

    /// Everybody observes the nearest living node before it, which sends it heartbeats.
    fn the_ring_is_whole(&self) -> bool {
        let lives = |node: &Node| self.living().any(|life| life.observer.me().node == *node);
        self.living().all(|life| {
            let (layout, ring) = (life.observer.registry().layout(), life.observer.ring());
            let me = life.observer.me().node;
            ring.observed().next() == layout.predecessors(me).find(&lives)
                && ring.successor() == layout.successors(me).find(&lives)
        })
    }
}

impl Model for Detector {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        plant(self.bug);
        let first = |node| Host { node: Node(node), incarnation: Incarnation(0) };
        let resident = |node| {
            let process = Process { rank: Rank(node), incarnation: Incarnation(0) };
            (process, first(node), false)
        };
        let mut state = State {
            lives: BTreeMap::new(),
            residents: (0..self.nodes).map(resident).collect(),
            links: BTreeMap::new(),
            losses: self.losses,
            mistakes: self.mistakes,
            crashes: self.crashes,
            exits: self.exits,
            joins: self.joins,
            returns: self.returns,
            ghost_heard: false,
            panicked: false,
        };
        let layout = self.layout();
        (0..self.nodes).for_each(|node| state.birth(first(node), layout.clone()));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.panicked {
            return;
        }
        for (from, to) in state.links.keys().copied() {
            actions.push(Action::Take(from, to));
            actions.extend((state.losses > 0).then_some(Action::Lose(from, to)));
        }
        let more_than_one = state.living().count() > 1;
        for life in state.lives.values().filter(|life| life.alive) {
            state.local_actions(life, actions);
        }
        let quiet = state.links.is_empty();
        actions.retain(|action| quiet || !matches!(action, Action::Heartbeat(_)));
        actions.retain(|action| more_than_one || !matches!(action, Action::Crash(_)));
        let newest = |node: Node| state.lives.range(..=Host { node, incarnation: NEWEST }).last();
        for node in (0..self.nodes).map(Node).filter(|_| state.returns > 0) {
            if newest(node).is_some_and(|(host, life)| !life.alive && host.node == node) {
                actions.push(Action::Return(node));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        plant(self.bug);
        let mut state = last.clone();
        let step = catch_unwind(AssertUnwindSafe(|| state.step(action, self.layout())));
        state.panicked = step.is_err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn at_rest(setup: &Detector, state: &State) -> bool {
            let mut actions = Vec::new();
            setup.actions(state, &mut actions);
            // What may still go wrong is no reason to wait.
            actions.iter().all(|action| {
                !matches!(action, Action::Take(..) | Action::Heartbeat(_) | Action::Silence(_))
            }) && !state.panicked
        }
        vec![
            Property::always("accuracy", |setup: &Self, state: &State| {
                let truly = |host: &Host| !state.is_alive(*host);
                setup.mistakes > 0 || state.living().all(|life| life.hosts.keys().all(truly))
            }),
            Property::always("once", |_, state: &State| {
                let mut lives = state.lives.values();
                lives.all(|life| {
                    life.processes.values().chain(life.hosts.values()).all(|it| *it == 1)
                })
            }),
            Property::always("ghosts", |_, state: &State| !state.ghost_heard),
            Property::always("completeness", |setup: &Self, state: &State| {
                !at_rest(setup, state) || state.all_know()
            }),
            Property::always("somebody", |setup: &Self, state: &State| {
                // Those who hold each other for dead do not end together.
                setup.crashes > 0 || !at_rest(setup, state) || state.living().next().is_some()
            }),
            Property::always("agreement", |setup: &Self, state: &State| {
                !at_rest(setup, state) || state.all_know_the_same()
            }),
            Property::always("ring", |setup: &Self, state: &State| {
                !at_rest(setup, state) || state.the_ring_is_whole()
            }),
            Property::always("no panic", |_, state: &State| !state.panicked),
        ]
    }
}

/// Greater than any incarnation in a model.
const NEWEST: Incarnation = Incarnation(u32::MAX);
