//! Nodes that join the job while it runs.
//!
//! ```text
//! guest ── add ──────▶ first        that with the lowest number: it alone adds nodes
//! guest ◀─ admitted ── first        all have heard of it: its number, and who is lost
//! new   ── calls ────▶ all          and waits until it is linked with each
//! new   ◀─ news ────── each         all that this one has ever heard, in that order
//! new   ── serves ───▶ all          it has heard that of each
//! first ── came ─────▶ all, guest   now it counts, and processes may be started there
//! ```
//!
//! **Guarantees.** The new node learns whatever one of the living knows, as each tells it all. No
//! number is given twice. Of any two living nodes, one knows at most one node more that counts than
//! the other, so that no two parts of a network that is cut go on (`membership`). For both, the
//! first goes on to the next step only when all living ones have heard of the one before. It begins
//! with a step that changes nothing: when all have heard of that, it knows whatever they had heard
//! of a first one that was lost, and they all know what it knew.
//!
//! A node that was admitted and does not come, as its guest or itself dies, is lost. One that loses
//! another before it counts gives up: that may have been the only one to tell it of something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{
    Effect, Effects, Guest, Node, Refusal, Report,
    message::{Fact, Message},
    orders::Place,
};
use super::Daemon;

/// A step that all living nodes have to hear of before the next one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Round {
    number: u64,
    missing: BTreeSet<Node>,
    /// Steps that were known when it was told, itself included.
    known: u64,
    /// Who gets the answer, if it adds a node.
    admits: Option<(Guest, Node)>,
}

/// Nodes that join.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Joins {
    /// This node itself has joined, and has not heard all yet.
    is_new: bool,
    wanted: VecDeque<(Guest, Place)>,
    /// Who has asked for which node.
    guests: BTreeMap<Guest, Node>,
    places: BTreeMap<Node, Place>,
    /// They have heard all.
    serving: BTreeSet<Node>,
    /// Nodes added and counted in, as far as this node has heard.
    steps: u64,
    /// As many were known to all living nodes, at least, after a round of this one.
    sure: Option<u64>,
    round: Option<Round>,
}

impl Joins {
    pub(super) fn note_serving(&mut self, node: Node) {
        self.serving.insert(node);
    }

    /// A node has heard what this one told under this number.
    pub(super) fn hear(&mut self, who: Node, number: u64) {
        if let Some(round) = self.round.as_mut().filter(|round| round.number == number) {
            round.missing.remove(&who);
        }
    }

    /// True while some may not have heard of a node that was added: nothing ends without it.
    pub(super) fn is_adding(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.admits.is_some())
    }
}

impl Daemon {
    /// The same daemon, of a node that joins: it knows the nodes that were launched, and hears all
    /// else from those that live.
    #[must_use]
    pub fn that_joins(mut self) -> Self {
        self.joins.is_new = true;
        self
    }

    /// True until this node has heard all, if it joins.
    pub(super) const fn is_new(&self) -> bool {
        self.joins.is_new
    }

    /// A guest wants a node to be added.
    pub fn handle_add(&mut self, guest: Guest, place: Place, out: &mut Effects) {
        self.joins.wanted.push_back((guest, place));
        self.settle(out);
    }

    /// A guest is gone: what it has not brought does not come.
    pub fn handle_guest_gone(&mut self, guest: Guest, out: &mut Effects) {
        self.joins.wanted.retain(|(other, _)| *other != guest);
        let node = self.joins.guests.remove(&guest);
        match node.filter(|node| self.members.is_joining(*node)) {
            Some(node) => self.handle_closed(node, out),
            None => self.settle(out),
        }
    }

    /// Acts on a node that was added: it is told all that was heard here.
    pub(super) fn add(&mut self, node: Node, place: Place, out: &mut Effects) {
        if node.0 as usize != self.rooms.len() {
            return;
        }
        self.joins.steps += 1;
        self.rooms.push(place.room());
        self.members.note_added();
        self.open_to(node);
        self.joins.places.insert(node, place.clone());
        // Those before a new node know it already.
        if node.0 > self.members.me().0 {
            out.push(Effect::Expect(node, place));
            for news in self.log.iter() {
                out.push(Effect::Send(node, Message::News(news.clone())));
            }
            let (report, lost) = self.said_to_all.clone();
            out.push(Effect::Send(node, Message::Says(report, lost)));
        }
    }

    /// Acts on a node that has come.
    pub(super) fn count_in(&mut self, node: Node, out: &mut Effects) {
        let known = self.members.note_came(node).then(|| self.joins.places.get(&node).cloned());
        if let Some(place) = known.flatten() {
            self.joins.steps += 1;
            // It may be the way to others from now on.
            self.reckon();
            out.push(Effect::Report(Report::Came(node.0, place)));
            let brings = self.joins.guests.iter().filter(|(_, brought)| **brought == node);
            out.extend(brings.map(|(guest, _)| Effect::Greet(*guest)));
        }
    }

    /// Serves once this node has heard all that the others know, if it has joined; true when it
    /// does.
    pub(super) fn settle_new(&mut self, out: &mut Effects) -> bool {
        let is_known = self.members.is_joining(self.members.me());
        let has_heard = |node: Node| self.others_said.contains_key(&node);
        if self.joins.is_new && is_known && self.members.others().all(has_heard) {
            self.joins.is_new = false;
            for node in self.members.others() {
                out.push(Effect::Send(node, Message::Serves));
            }
        }
        !self.joins.is_new
    }

    /// Goes on with nodes that join, as far as all have heard of the last step.
    pub(super) fn settle_joins(&mut self, out: &mut Effects) {
        self.settle_round(out);
        if let Some(refusal) = self.refusal() {
            let refused = self.joins.wanted.drain(..);
            out.extend(refused.map(|(guest, _)| Effect::Admit(guest, Err(refusal))));
        }
        while self.joins.round.is_none()
            && let Some(step) = self.next_step()
        {
            let is_sure = self.joins.sure == Some(self.joins.steps);
            let admits = match &step {
                Fact::Added(node, _) if is_sure => {
                    self.joins.wanted.pop_front().map(|(guest, _)| (guest, Node(*node)))
                }
                _ => None,
            };
            self.joins.guests.extend(admits);
            self.tell(if is_sure { step } else { Fact::Barrier }, out);
            let (number, missing) = (self.number, self.members.serving_others());
            self.joins.round = Some(Round { number, missing, known: self.joins.steps, admits });
            self.settle_round(out);
        }
    }

    /// Why no node can be added here.
    fn refusal(&self) -> Option<Refusal> {
        if self.members.first() != self.members.me() {
            return Some(Refusal::NotNow);
        }
        (self.ending.is_some() || self.spaces.are_over()).then_some(Refusal::Over)
    }

    /// What this node has to tell next.
    fn next_step(&self) -> Option<Fact> {
        if self.members.first() != self.members.me() {
            return None;
        }
        let mut joining = self.members.joining();
        if let Some(node) = self.members.joining().find(|node| self.joins.serving.contains(node)) {
            return Some(Fact::Came(node.0));
        }
        let (_, place) = self.joins.wanted.front().filter(|_| joining.next().is_none())?;
        Some(Fact::Added(self.rooms.len() as u32, place.clone()))
    }

    /// Ends a round of which all have heard.
    fn settle_round(&mut self, out: &mut Effects) {
        let members = &self.members;
        let is_heard = |round: &mut Round| round.missing.iter().all(|node| members.is_lost(*node));
        let Some(round) = self.joins.round.take_if(is_heard) else { return };
        self.joins.sure = Some(round.known);
        if let Some((guest, node)) = round.admits {
            let lost = self.members.lost().into_iter().collect();
            // It may have been given up meanwhile: then the guest asks again.
            let again = self.members.is_lost(node).then_some(Refusal::NotNow);
            out.push(Effect::Admit(guest, again.map_or(Ok((node.0, lost)), Err)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{message::News, placement::Room};
    use super::*;

    /// The daemon of the first of so many nodes, which are linked in a graph.
    fn daemon(nodes: u32) -> Daemon {
        let room = |at| Room { name: format!("n{at}"), slots: 1 };
        Daemon::new(Node(0), (0..nodes).map(room).collect()).in_graph()
    }

    fn place() -> Place {
        Place { name: "new".into(), slots: 1, address: ([127, 0, 0, 1], 1).into() }
    }

    #[test]
    fn who_joins_hears_all_over_links_of_its_own_and_is_no_way_between_others_before_it_counts() {
        let mut out = Effects::new();
        let mut daemon = daemon(100);
        let news = |number, fact| Message::News(News { origin: 50, number, fact });
        daemon.handle_message(Node(96), news(1, Fact::Barrier), &mut out);
        out.clear();
        let added = news(2, Fact::Added(100, place()));
        daemon.handle_message(Node(96), added.clone(), &mut out);
        let new = Node(100);
        let told = |out: &Effects| -> Vec<Message> {
            let to = |it: &Effect| match it {
                Effect::Send(to, message) if *to == new => Some(message.clone()),
                _ => None,
            };
            out.iter().filter_map(to).collect()
        };
        let expected = out.iter().position(|it| matches!(it, Effect::Expect(..)));
        let first = out.iter().position(|it| matches!(it, Effect::Send(to, _) if *to == new));
        assert!(expected.is_some() && expected < first, "{out:?}");
        let said = &told(&out)[..];
        let all = [news(1, Fact::Barrier), added];
        assert!(said.starts_with(&all) && matches!(said[2..], [Message::Says(..)]), "{said:?}");
        out.clear();
        daemon.handle_message(Node(96), news(3, Fact::Barrier), &mut out);
        assert_eq!(told(&out), [news(3, Fact::Barrier)], "from then on all news");
        out.clear();
        daemon.handle_linked(new, &mut out);
        assert_eq!(out, [], "it knows");
        // All neighbours of this node on the ring are silent: nobody but the new one is left.
        for node in daemon.neighbours() {
            daemon.handle_quiet(node, &mut out);
        }
        daemon.handle_heard(new);
        for counts in [true, false] {
            let mut daemon = daemon.clone();
            if counts {
                daemon.handle_message(new, news(4, Fact::Came(new.0)), &mut out);
            }
            out.clear();
            daemon.handle_moment(&mut out);
            assert_eq!(out.contains(&Effect::Leave), !counts, "{out:?}");
        }
    }

    #[test]
    fn a_node_that_comes_is_heard_of_at_once() {
        let mut out = Effects::new();
        let mut daemon = daemon(3);
        let news = |number, fact| Message::News(News { origin: 2, number, fact });
        daemon.handle_message(Node(2), news(1, Fact::Added(3, place())), &mut out);
        // One node is silent, then another one dead: two of the three that are left are heard of.
        daemon.handle_quiet(Node(1), &mut out);
        daemon.handle_message(Node(2), news(2, Fact::Unheard([1].into())), &mut out);
        daemon.handle_moment(&mut out);
        daemon.handle_message(Node(2), news(3, Fact::Came(3)), &mut out);
        daemon.handle_closed(Node(2), &mut out);
        assert!(!out.contains(&Effect::Leave), "{out:?}");
    }
}
