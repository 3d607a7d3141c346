//! One run: what is drawn from a seed, what happens, and what must be true in the end.
//!
//! All packets are sealed and opened. The stranger knows every packet that was ever sent; he sends
//! them again, to whom they were for and to others, changes them, and writes his own with a secret
//! that he made up. Nothing of it may make a difference.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use fampi_detector::protocol::{
    Cause, Host, Incarnation, Node, Process, Rank, Timer, Timing,
    codec::Frame,
    envelope::{Envelopes, Secret},
    graph::neighbours,
    layout::Layout,
    message::{Fact, Message},
    observer::Observer,
};
use fampi_kit::observers::{
    ring::{Letter, Ring, RingOut},
    stations::{Conditions, Out, Station, World},
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

const PROCESSES: u32 = 2;
/// More packets than any run needs.
const MOST: u64 = 20_000;
const SECRET: Secret = Secret::new([7; 32]);

/// Every packet ever sent, with its sender and receiver.
type Tape = Rc<RefCell<Vec<(u32, u32, Frame)>>>;

type SealedOut = Out<Frame, (Timer, u64)>;

/// An observer behind its envelopes.
struct Sealed {
    ring: Ring,
    me: Host,
    envelopes: Envelopes,
    tape: Tape,
    /// How often its node was told of each death.
    told: BTreeMap<u32, u32>,
}

impl Sealed {
    fn new(node: u32, timing: Timing, layout: &Arc<Layout>, tape: &Tape) -> Self {
        let me = host(node);
        let ring = Ring::new(node, timing, layout);
        let envelopes = Envelopes::new(me, &SECRET);
        Self { ring, me, envelopes, tape: tape.clone(), told: BTreeMap::new() }
    }

    fn seal(&mut self, inner: RingOut, out: &mut SealedOut) {
        out.timers.extend(inner.timers);
        for dead in inner.dead {
            *self.told.entry(dead).or_default() += 1;
            out.dead.push(dead);
        }
        for (to, letter) in inner.sends {
            let packet = self.envelopes.seal(letter.to, &letter.message);
            self.tape.borrow_mut().push((self.me.node.0, to, packet.clone()));
            out.sends.push((to, packet));
        }
    }

    fn turn(&mut self, out: &mut SealedOut, turn: impl FnOnce(&mut Ring, &mut RingOut)) {
        let mut inner = Out { sends: Vec::new(), timers: Vec::new(), dead: Vec::new() };
        turn(&mut self.ring, &mut inner);
        self.seal(inner, out);
    }
}

impl Station for Sealed {
    type Wire = Frame;
    type Timer = (Timer, u64);

    fn begin(&mut self, out: &mut SealedOut) {
        self.turn(out, Ring::begin);
    }

    fn receive(&mut self, sender: u32, packet: Frame, out: &mut SealedOut) {
        let Ok((from, message)) = self.envelopes.open(&packet) else { return };
        let letter = Letter { from, to: self.me, message };
        self.turn(out, |ring, inner| ring.receive(sender, letter, inner));
    }

    fn expire(&mut self, timer: (Timer, u64), out: &mut SealedOut) {
        self.turn(out, |ring, inner| ring.expire(timer, inner));
    }
}

/// What happens when, in parts of a period.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Kill(u32, f64),
    Exit(u32, f64),
    /// A process of this node takes the rank of one that was to end long before.
    Join(u32, u32, f64),
}

impl Plan {
    fn at(&self) -> f64 {
        let (Self::Kill(_, at) | Self::Exit(_, at) | Self::Join(_, _, at)) = self;
        *at
    }
}

/// A run.
#[derive(Debug)]
pub(crate) struct Storm {
    nodes: u32,
    period: Duration,
    conditions: Conditions,
    plans: Vec<Plan>,
    stranger: bool,
    seed: u64,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) deaths: u32,
    pub(crate) refused: u64,
}

fn host(node: u32) -> Host {
    Host { node: Node(node), incarnation: Incarnation(0) }
}

fn process(rank: u32, incarnation: u32) -> Process {
    Process { rank: Rank(rank), incarnation: Incarnation(incarnation) }
}

impl Storm {
    /// The run of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed);
        let nodes = random.random_range(2..=24);
        let loss = if random.random_bool(0.3) { 0.005 } else { 0.0 };
        let most = match random.random_range(0..8) {
            0..=4 => 1,
            5..=6 => 4,
            _ => nodes,
        };
        let mut plans = Vec::new();
        let mut killed = Vec::new();
        let (first, in_a_row) = (random.random_range(0..nodes), random.random_bool(0.5));
        let at_once = random.random_bool(0.5).then_some(random.random_range(4.0..6.0));
        for count in 0..random.random_range(0..=most).min(nodes - 1) {
            let node =
                if in_a_row { (first + count) % nodes } else { random.random_range(0..nodes) };
            if !killed.contains(&node) {
                killed.push(node);
                let at = at_once.unwrap_or_else(|| random.random_range(4.0..12.0));
                plans.push(Plan::Kill(node, at));
            }
        }
        for _ in 0..random.random_range(0..3) {
            let (rank, at) = (random.random_range(0..nodes * PROCESSES), 3.5);
            let other = random.random_range(0..nodes);
            let twice = plans.iter().any(|it| matches!(it, Plan::Exit(old, _) if *old == rank));
            if !twice {
                plans.push(Plan::Exit(rank, at));
                plans.extend(random.random_bool(0.5).then_some(Plan::Join(rank, other, 20.0)));
            }
        }
        plans.sort_by(|one, other| one.at().total_cmp(&other.at()));
        let period = Duration::from_millis(if random.random_bool(0.5) { 10 } else { 50 });
        let conditions = Conditions { loss, ..Conditions::default() };
        Self { nodes, period, conditions, plans, stranger: random.random_bool(0.5), seed }
    }

    /// Lets it happen.
    pub(crate) fn run(&self) -> Result<Story, String> {
        let timing = Timing::with_period(self.period);
        let layout = Arc::new(Layout::regular(self.nodes, PROCESSES));
        let tape = Tape::default();
        let stations = (0..self.nodes).map(|it| Sealed::new(it, timing, &layout, &tape)).collect();
        let subjects = self.nodes * (1 + PROCESSES);
        let mut world = World::new(stations, subjects, self.conditions, self.period, self.seed);
        let mut random = SmallRng::seed_from_u64(!self.seed);
        // Long enough for a ring that mends itself over all of its nodes.
        let end = 20.0 + 2.0 * (f64::from(self.nodes.ilog2()) + 6.0);
        let mut plans = self.plans.iter().peekable();
        let mut tick = 0.0;
        while tick < end {
            while let Some(plan) = plans.next_if(|plan| plan.at() <= tick) {
                carry_out(&mut world, *plan);
            }
            if self.stranger && tick > 2.0 {
                self.interfere(&mut world, &tape.borrow(), &mut random);
            }
            tick += 0.25;
            if world.run(self.period.mul_f64(tick), |world| world.messages > MOST) {
                return Err("the observers talk for ever".into());
            }
        }
        self.judge(&world)
    }

    /// The stranger sends a few packets.
    fn interfere(
        &self,
        world: &mut World<Sealed>,
        tape: &[(u32, u32, Frame)],
        random: &mut SmallRng,
    ) {
        let mut forger = Envelopes::new(host(0), &Secret::new([8; 32]));
        for _ in 0..8 {
            let (from, to, packet) = &tape[random.random_range(0..tape.len())];
            let anybody = random.random_range(0..self.nodes);
            world.inject(*from, *to, packet.clone());
            world.inject(*from, anybody, packet.clone());
            let mut changed = packet.clone();
            let at = random.random_range(0..changed.len());
            changed[at] ^= 1 << random.random_range(0..8_u32);
            world.inject(*from, *to, changed);
            let lie = Fact::Lost(host(anybody));
            let news = Message::News { origin: Node(*from), facts: vec![lie] };
            world.inject(*from, *to, forger.seal(host(*to), &news));
        }
        // Heartbeats of the dead would keep them alive.
        let alive = world.alive.clone();
        for dead in (0..self.nodes).filter(|node| !alive[*node as usize]) {
            let recorded: Vec<_> = tape.iter().filter(|(from, ..)| *from == dead).collect();
            for _ in 0..4 {
                let (from, to, packet) = recorded[random.random_range(0..recorded.len())];
                world.inject(*from, *to, packet.clone());
                let next = (1..self.nodes).map(|distance| (dead + distance) % self.nodes);
                if let Some(next) = next.into_iter().find(|node| alive[*node as usize]) {
                    world.inject(*from, next, packet.clone());
                }
            }
        }
    }

    fn judge(&self, world: &World<Sealed>) -> Result<Story, String> {
        let mut story = Story::default();
        let living = (0..self.nodes).filter(|node| world.alive[*node as usize]);
        for node in living.clone() {
            let station = &world.stations[node as usize];
            let observer = station.ring.observer().ok_or("an observer never began")?;
            if observer.is_fenced() {
                return Err(format!("node {node} lives and was fenced"));
            }
            for other in 0..self.nodes {
                let alive = observer.registry().is_alive(Node(other));
                if alive != world.alive[other as usize] {
                    return Err(format!("node {node} holds node {other} for alive: {alive}"));
                }
                let told = station.told.get(&other).copied().unwrap_or_default();
                if told != u32::from(!alive) {
                    return Err(format!("node {node} was told {told} times of node {other}"));
                }
            }
            self.judge_processes(world, node)?;
            story.refused += station.envelopes.refusals().total();
        }
        if !self.stranger && story.refused > 0 {
            return Err("packets of friends were refused".into());
        }
        for plan in &self.plans {
            story.deaths += u32::from(!matches!(plan, Plan::Join(..)));
        }
        self.judge_speed(world)?;
        Ok(story)
    }

    fn judge_processes(&self, world: &World<Sealed>, node: u32) -> Result<(), String> {
        let registry = world.stations[node as usize].ring.observer().map(Observer::registry);
        let registry = registry.ok_or("an observer never began")?;
        for rank in 0..self.nodes * PROCESSES {
            let ended =
                self.plans.iter().any(|it| matches!(it, Plan::Exit(old, _) if *old == rank));
            let dead = ended || !world.alive[(rank / PROCESSES) as usize];
            if registry.cause(process(rank, 0)).is_some() != dead {
                return Err(format!("node {node} is wrong about the first process of rank {rank}"));
            }
            for plan in &self.plans {
                let Plan::Join(joined, place, _) = plan else { continue };
                let alive = world.alive[*place as usize];
                let known = registry.holder(Rank(rank)) == Some(process(rank, 1));
                if *joined == rank && alive && !known {
                    return Err(format!("node {node} does not know the new process of {rank}"));
                }
            }
        }
        Ok(())
    }

    /// Without loss, and while few enough died, the flood needs no help of the ring.
    fn judge_speed(&self, world: &World<Sealed>) -> Result<(), String> {
        let dead = world.alive.iter().filter(|alive| !**alive).count();
        let degree = neighbours(Node(0), Node(0), self.nodes).len();
        if self.conditions.loss > 0.0 || dead >= degree {
            return Ok(());
        }
        for (subject, told) in world.told.iter().enumerate().filter(|(_, told)| told.by > 1) {
            let took = told.last.saturating_sub(told.first);
            if took > self.period / 4 {
                return Err(format!("news of {subject} took {took:?} to reach everybody"));
            }
        }
        Ok(())
    }
}

fn carry_out(world: &mut World<Sealed>, plan: Plan) {
    match plan {
        Plan::Kill(node, _) => world.kill(node, world.now),
        Plan::Exit(rank, _) => world.turn(rank / PROCESSES, |station, out| {
            station.turn(out, |ring, inner| {
                let cause = Cause::Signal(9);
                ring.turn(inner, |it, effects| it.handle_exit(process(rank, 0), cause, effects));
            });
        }),
        Plan::Join(rank, node, _) if world.alive[node as usize] => {
            world.turn(node, |station, out| {
                station.turn(out, |ring, inner| {
                    let new = process(rank, 1);
                    ring.turn(inner, |it, effects| it.handle_registration(new, effects));
                });
            });
        }
        Plan::Join(..) => {}
    }
}
