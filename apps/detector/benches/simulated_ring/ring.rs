//! Many members of a ring, their messages in a `LogGP` network, and the observers of their nodes.
//!
//! ```text
//! tokens      processes ── fampi_kit::loggp ──▶ processes         o, L, g, G; less on one node
//! a death     process ──▶ observer of its node, at once
//! news        observers ── fampi_kit::observers::stations ──▶ observers ──▶ their processes
//! ```
//!
//! The observers are those of this crate, and a process knows what the observer of its node shows.
//! Time is one: whatever is next, in either network, happens next. Observers have processors of
//! their own.
//!
//! A process takes messages from the nearest predecessor that it takes to be alive, and keeps those
//! of others until that is one of them: as receives from a named source do in MPI. What comes from
//! the dead after that is lost.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use fampi_detector::protocol::{Cause, Incarnation, Process, Rank, Timing, layout::Layout};
use fampi_kit::{
    loggp::{Cost, Network},
    observers::{
        ring::Ring as Observer,
        stations::{Conditions, World},
    },
    tokens::{Member, Message, Moment, Plan, Sends, Trip},
};

/// Periods of heartbeats before the first token, after which every node has been heard of.
const WARM_UP: u32 = 4;
const SIGKILL: u8 = 9;
/// After the last token is due, no ring takes so long.
const PATIENCE: Moment = 10_000_000_000;

/// How many there are, where, and what chance is drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) processes: u32,
    pub(crate) nodes: u32,
    pub(crate) seed: u64,
}

/// When a survivor knew of a death, and all others of its node with it.
pub(crate) struct Known {
    pub(crate) dead: u32,
    pub(crate) by: u32,
    pub(crate) at: Moment,
}

pub(crate) struct Ring {
    on_each: u32,
    begins: Duration,
    members: Vec<Member>,
    alive: Vec<bool>,
    /// What has come from others than the predecessor.
    early: Vec<VecDeque<(u32, Message)>>,
    network: Network<Message>,
    observers: World<Observer>,
    /// The next death is the last.
    to_die: Vec<(Moment, u32)>,
    died: Vec<(u32, Moment)>,
    latest: Moment,
    pub(crate) known: Vec<Known>,
    sends: Sends,
}

impl Ring {
    pub(crate) fn new(plan: &Plan, place: Place) -> Self {
        let Place { processes, nodes, seed } = place;
        let on_each = processes / nodes;
        let timing = Timing::OF_JOBS;
        let layout = Arc::new(Layout::regular(nodes, on_each));
        let stations = (0..nodes).map(|node| Observer::new(node, timing, &layout)).collect();
        let conditions = Conditions::default();
        let subjects = nodes + processes;
        let mut to_die: Vec<(Moment, u32)> =
            plan.deaths.iter().map(|(rank, moment)| (*moment, *rank)).collect();
        to_die.sort_unstable_by_key(|death| std::cmp::Reverse(*death));
        Self {
            on_each,
            begins: timing.period * WARM_UP,
            members: (0..processes).map(|me| Member::new(me, processes, plan)).collect(),
            alive: vec![true; processes as usize],
            early: vec![VecDeque::new(); processes as usize],
            network: Network::new(processes, Cost { node: on_each, ..Cost::default() }),
            observers: World::new(stations, subjects, conditions, timing.period, seed),
            to_die,
            died: Vec::new(),
            latest: plan.tokens * plan.pace + PATIENCE,
            known: Vec::new(),
            sends: Sends::new(),
        }
    }

    /// Lets time pass until rank 0 has ended the ring.
    pub(crate) fn run(mut self) -> Result<Self, String> {
        while !self.members[0].is_ended() {
            let message = self.network.time_of_next();
            let death = self.to_die.last().map(|(moment, _)| *moment);
            let due = self.members[0].due();
            let until = [message, death, due].into_iter().flatten().min();
            let until = until.unwrap_or(self.latest).min(self.latest);
            let until_then = self.begins + Duration::from_nanos(until);
            if self.observers.run(until_then, |world| !world.heard.is_empty()) {
                self.spread_news();
            } else if until == self.latest {
                return Err("the ring did not end: there is a search that nobody has".into());
            } else if death == Some(until) {
                self.let_die(until);
            } else if due == Some(until) {
                self.network.pass_time(0, until);
                let now = self.network.time_of(0);
                self.turn(0, |member, sends| member.handle_time(now, sends));
            } else if let Some((to, from, message)) = self.network.take_next() {
                self.deliver(to, from, message);
            }
        }
        Ok(self)
    }

    /// Who died, and when, in order.
    pub(crate) fn deaths(&self) -> &[(u32, Moment)] {
        &self.died
    }

    pub(crate) fn tokens(&self) -> &[(Moment, Option<Trip>)] {
        self.members[0].tokens()
    }

    /// All die whose moment this is.
    fn let_die(&mut self, moment: Moment) {
        while let Some((_, rank)) = self.to_die.pop_if(|(due, _)| *due == moment) {
            self.alive[rank as usize] = false;
            self.died.push((rank, moment));
            let process = Process { rank: Rank(rank), incarnation: Incarnation(0) };
            self.observers.turn(rank / self.on_each, |station, out| {
                let killed = Cause::Signal(SIGKILL);
                station.turn(out, |it, effects| it.handle_exit(process, killed, effects));
            });
        }
        self.spread_news();
    }

    /// What observers have told, their processes know.
    fn spread_news(&mut self) {
        let nodes = self.observers.stations.len() as u32;
        for heard in std::mem::take(&mut self.observers.heard) {
            let Some(dead) = heard.dead.checked_sub(nodes) else { continue };
            let at = heard.at.saturating_sub(self.begins).as_nanos() as Moment;
            let of_node = heard.node * self.on_each..(heard.node + 1) * self.on_each;
            let mut is_first = true;
            for rank in of_node.filter(|rank| *rank != dead) {
                if !self.alive[rank as usize] {
                    continue;
                }
                if std::mem::take(&mut is_first) {
                    self.known.push(Known { dead, by: rank, at });
                }
                self.network.pass_time(rank, at);
                self.turn(rank, |member, sends| member.handle_death(dead, at, sends));
                self.take_what_was_early(rank);
            }
        }
    }

    fn deliver(&mut self, to: u32, from: u32, message: Message) {
        let member = &self.members[to as usize];
        if !self.alive[to as usize] || member.knows(from) {
            return;
        }
        if member.before() != from {
            return self.early[to as usize].push_back((from, message));
        }
        let now = self.network.time_of(to);
        self.turn(to, |member, sends| member.handle_message(message, now, sends));
    }

    /// Takes what the predecessor of now has sent before it was that.
    fn take_what_was_early(&mut self, rank: u32) {
        if !self.early[rank as usize].is_empty() {
            for (from, message) in std::mem::take(&mut self.early[rank as usize]) {
                self.deliver(rank, from, message);
            }
        }
    }

    fn turn(&mut self, rank: u32, turn: impl FnOnce(&mut Member, &mut Sends)) {
        turn(&mut self.members[rank as usize], &mut self.sends);
        for (to, message) in self.sends.drain(..) {
            let bytes = size_of_val(&message.to_words());
            self.network.send(rank, to, bytes, message);
        }
    }
}
