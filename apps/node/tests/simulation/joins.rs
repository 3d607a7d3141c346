//! Nodes that join, and the guests who bring them.

use std::collections::{BTreeMap, BTreeSet};

use fampi_node::protocol::{Guest, Node, Refusal, orders::Place};

use super::{STEPS, Station, Travelling, World, station};

/// What is to come of nodes that join.
#[derive(Default)]
pub(super) struct Newcomers {
    /// Nodes that are still to be added, and guests that may still go.
    joins: usize,
    departures: usize,
    /// How many guests there were, and who has gone.
    guests: u64,
    gone: BTreeSet<Guest>,
    /// Guests who have asked a node that is lost, or is not the first.
    waiting: Vec<Guest>,
    /// Nodes that were lost before the last turn.
    dead: usize,
    /// Who expects whom to call.
    pub(super) expected: BTreeSet<(usize, usize)>,
}

impl Newcomers {
    pub(super) fn of(joins: usize, departures: usize) -> Self {
        Self { joins, departures, ..Self::default() }
    }
}

pub(super) fn place(at: usize) -> Place {
    let address = ([127, 0, 0, 1], 1 + at as u16).into();
    Place { name: format!("n{at}"), slots: 2, address }
}

impl World {
    /// Guests come and go.
    pub(super) fn play_guests(&mut self) {
        // The moment after a loss is the one at which numbers could be given twice.
        let dead = self.stations.iter().filter(|it| !it.lives).count();
        let is_after_loss = std::mem::replace(&mut self.newcomers.dead, dead) < dead;
        let pause = if is_after_loss { 2 } else { 15 };
        if self.newcomers.joins > 0 && self.dice.roll(pause) == 0 {
            self.newcomers.joins -= 1;
            self.newcomers.guests += 1;
            let (to, guest) = (self.dice.roll(self.stations.len()), Guest(self.newcomers.guests));
            self.bring(to, guest);
        }
        if self.dice.roll(3) == 0
            && let Some(guest) = self.newcomers.waiting.pop()
        {
            let to = self.dice.roll(self.stations.len());
            self.bring(to, guest);
        }
        if self.newcomers.departures > 0 && self.newcomers.guests > 0 && self.dice.roll(15) == 0 {
            self.newcomers.departures -= 1;
            let guest = Guest(1 + self.dice.roll(self.newcomers.guests as usize) as u64);
            self.newcomers.gone.insert(guest);
            for at in 0..self.stations.len() {
                if self.stations[at].lives && self.stations[at].unlinked.is_none() {
                    self.drive(at, |it, out| it.handle_guest_gone(guest, out));
                }
            }
        }
    }

    /// A guest asks a node to add another one.
    pub(super) fn bring(&mut self, to: usize, guest: Guest) {
        let place = Place { name: format!("of guest {}", guest.0), ..place(0) };
        if self.stations[to].lives {
            self.drive(to, |it, out| it.handle_add(guest, place, out));
        } else {
            self.newcomers.waiting.push(guest);
        }
    }

    /// A guest is answered: its node is to be linked with all that live, or it asks again.
    pub(super) fn admit(&mut self, guest: Guest, admitted: Result<(u32, Vec<u32>), Refusal>) {
        match admitted {
            _ if self.newcomers.gone.contains(&guest) => {}
            Ok((node, lost)) => {
                self.fill(node as usize);
                assert_eq!(self.stations.len(), node as usize, "a number is given twice");
                let lost: BTreeSet<usize> = lost.into_iter().map(|it| it as usize).collect();
                let mut new = station(node as usize, self.rooms.clone());
                new.daemon = new.daemon.that_joins();
                if self.cabling.is_some() {
                    new.daemon = new.daemon.in_graph();
                }
                new.step = STEPS;
                new.unlinked = Some((0..node as usize).filter(|at| !lost.contains(at)).collect());
                self.stations.push(new);
            }
            Err(Refusal::NotNow) => self.newcomers.waiting.push(guest),
            Err(Refusal::Over) => {}
        }
    }

    /// Nodes that were added and never brought are lost.
    fn fill(&mut self, nodes: usize) {
        for at in self.stations.len()..nodes {
            self.stations.push(station(at, Vec::new()));
            self.stations[at].lives = false;
        }
    }

    /// A node that joins is linked with one more, or gives up as that is lost; with all of them it
    /// begins.
    pub(super) fn link(&mut self, at: usize) {
        let unlinked = self.stations[at].unlinked.as_ref().expect("it joins");
        let which = self.dice.roll(unlinked.len());
        let to = *unlinked.iter().nth(which).expect("there");
        if !self.stations[to].lives {
            return self.lose(at);
        }
        let unlinked = self.stations[at].unlinked.as_mut().expect("it joins");
        unlinked.remove(&to);
        if unlinked.is_empty() {
            self.stations[at].unlinked = None;
            let launch = self.launch.clone();
            self.drive(at, |it, out| it.handle_launch(launch, out));
        }
    }

    /// One station that expects a node which will not come sees the end of its link; false if no
    /// station expects such a node.
    pub(super) fn give_up(&mut self) -> bool {
        self.newcomers.expected.retain(|(at, _)| self.stations[*at].lives);
        let lost = |(_, node): &(usize, usize)| self.stations.get(*node).is_none_or(|it| !it.lives);
        let Some((at, node)) = self.newcomers.expected.iter().copied().find(lost) else {
            return false;
        };
        self.newcomers.expected.remove(&(at, node));
        self.fill(node + 1);
        self.cables.entry((node, at)).or_default().push_back(Travelling::Closed);
        true
    }

    /// All that live mean the same node by a number.
    pub(super) fn check_places(&self) -> Result<(), String> {
        let mut places: BTreeMap<Node, &Place> = BTreeMap::new();
        for (at, station) in self.living() {
            for (node, place) in &station.expects {
                if *places.entry(*node).or_insert(place) != place {
                    return Err(format!("node {} is another one for node {at}", node.0));
                }
            }
        }
        Ok(())
    }

    /// Any two that live agree on who counts up to one node, but for those that know nothing yet.
    pub(super) fn check_counts(&self) -> Result<(), String> {
        let knows = |at: usize, it: &Station| it.daemon.members().has_come(Node(at as u32));
        let counts = self.living().filter(|(at, it)| knows(*at, it));
        let counts: BTreeSet<u32> = counts.map(|(_, it)| it.daemon.members().counted()).collect();
        let (least, most) = (counts.first().unwrap_or(&0), counts.last().unwrap_or(&0));
        if most - least > 1 { Err(format!("counts of {counts:?}")) } else { Ok(()) }
    }
}
