//! How daemons reach each other where not all of them are linked ([`graph`]).
//!
//! ```text
//! one ── known ───▶ other     over a new link: the last news heard of each origin
//! one ◀── news ──── other     what one has not heard, and from then on all that other hears
//! one ── parcel ──▶ next ── parcel ──▶ to     a message for one node, under a number
//! one ◀─ receipt ── next ◀─ receipt ── to     so many of them have come
//! ```
//!
//! **Guarantees**, which are those of a link to each: messages between two living nodes all come,
//! once and in order, and behind all news that who sends them had heard.
//!
//! - *In order behind the news*: a daemon passes news on over each link before it acts on them, and
//!   a new link gets what it lacks before anything else. So who hands a parcel on to the next node
//!   has told it all that the sender of the parcel knew.
//! - *All come*: a parcel is lost only on a node that is lost. Its sender keeps it until the
//!   receipt comes; if it hears of a loss before that, it sends it again. The parcel cannot be lost
//!   on that node again: all on its way know of the loss before it comes, as news go ahead of it.
//! - *Once*: parcels are numbered, for each sender and receiver.
//!
//! A parcel waits where no link leads further, until the link to the next living node is there. A
//! parcel to or from a node that has joined takes one step.
//!
//! Silence: a daemon hears only its neighbours, so each tells all others whom of these it does not
//! hear, and all reckon whom they can still reach. For `membership` the rest are quiet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{
    Effect, Effects, Node, Report,
    graph::Graph,
    message::{Fact, Message, Parcel, Receipt},
};
use super::Daemon;

/// Messages for one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Sent {
    last: u64,
    /// Those without a receipt, with their numbers.
    kept: VecDeque<(u64, Message)>,
}

/// Messages from one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Taken {
    last: u64,
    /// Those that came before others that go before them.
    early: BTreeMap<u64, Message>,
}

/// The links of this node, and what goes over them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Routes {
    graph: Graph,
    /// Neighbours that have been told all that was heard here, and are told all that follows; of a
    /// node that joins all others, until it hears which of them are lost.
    open: BTreeSet<Node>,
    /// Those that this node has called, or that have not said yet what they know.
    begun: BTreeSet<Node>,
    sent: BTreeMap<Node, Sent>,
    taken: BTreeMap<Node, Taken>,
    /// Messages that no open link brings nearer to where they go, and where that is.
    waiting: Vec<(Node, Message)>,
    /// Neighbours that this node does not hear.
    unheard: BTreeSet<u32>,
    /// What all have told of theirs.
    all_unheard: BTreeMap<Node, BTreeSet<u32>>,
    /// That, or who is lost, has changed since the quiet were reckoned.
    is_stale: bool,
}

impl Daemon {
    /// The same, of a job whose nodes are linked in a graph, when it is linked with its neighbours
    /// there; or, if it joins, with all that live.
    #[must_use]
    pub fn in_graph(self) -> Self {
        let graph = Graph::new(self.rooms.len() as u32);
        let routes = Routes {
            graph,
            open: graph.neighbours(self.members.me(), |_| true),
            begun: BTreeSet::new(),
            sent: BTreeMap::new(),
            taken: BTreeMap::new(),
            waiting: Vec::new(),
            unheard: BTreeSet::new(),
            all_unheard: BTreeMap::new(),
            is_stale: false,
        };
        Self { routes: Some(routes), ..self }
    }

    /// The nodes that hear news from this one.
    pub(super) fn neighbours(&self) -> Vec<Node> {
        match &self.routes {
            Some(routes) => routes.open.iter().copied().collect(),
            None => self.members.others().collect(),
        }
    }

    /// Sends a message to a node, or sends it on its way there.
    pub(super) fn send(&mut self, to: Node, message: Message, out: &mut Effects) {
        let Some(routes) = &mut self.routes else { return out.push(Effect::Send(to, message)) };
        if self.members.is_lost(to) {
            return;
        }
        let sent = routes.sent.entry(to).or_default();
        sent.last += 1;
        sent.kept.push_back((sent.last, message.clone()));
        let me = self.members.me();
        let parcel = Parcel { from: me.0, to: to.0, number: sent.last, message };
        routes.forward(me, parcel.into(), to, out);
    }

    /// A link to this node is there, which has proved who it is.
    pub fn handle_linked(&mut self, node: Node, out: &mut Effects) {
        let Some(routes) = &mut self.routes else { return };
        routes.unheard.remove(&node.0);
        if routes.graph.has_joined(node) {
            // That node has been told all since it was added.
            return;
        }
        routes.begun.insert(node);
        let own = (self.members.me().0, self.number);
        let known = self.heard.iter().map(|(origin, number)| (*origin, *number));
        out.push(Effect::Send(node, Message::Known(known.chain([own]).collect())));
    }

    /// A node has joined, and is told all from now on.
    pub(super) fn open_to(&mut self, node: Node) {
        let Some(routes) = &mut self.routes else { return };
        routes.graph = routes.graph.with_one_more();
        if node != self.members.me() {
            routes.open.insert(node);
        }
    }

    /// A neighbour says what it knows: it is told all else.
    pub(super) fn handle_known(
        &mut self,
        from: Node,
        known: &BTreeMap<u32, u64>,
        out: &mut Effects,
    ) {
        let Some(routes) = &mut self.routes else { return };
        let is_new = |origin: u32, number| known.get(&origin).is_none_or(|last| number > *last);
        let news = self.log.iter().filter(|news| is_new(news.origin, news.number));
        out.extend(news.map(|news| Effect::Send(from, Message::News(news.clone()))));
        routes.begun.remove(&from);
        routes.open.insert(from);
        for (to, message) in std::mem::take(&mut routes.waiting) {
            routes.forward(self.members.me(), message, to, out);
        }
    }

    /// A parcel has come: it is handed on, or what is in it is taken in its turn.
    pub(super) fn handle_parcel(&mut self, parcel: Parcel, out: &mut Effects) {
        let Some(routes) = &mut self.routes else { return };
        let (me, from, to) = (self.members.me(), Node(parcel.from), Node(parcel.to));
        if self.members.is_lost(to) || self.members.is_lost(from) {
            return;
        }
        if to != me {
            return routes.forward(me, parcel.into(), to, out);
        }
        let taken = routes.taken.entry(from).or_default();
        if parcel.number > taken.last {
            taken.early.insert(parcel.number, parcel.message);
        }
        let mut ready = Vec::new();
        while let Some(message) = taken.early.remove(&(taken.last + 1)) {
            taken.last += 1;
            ready.push(message);
        }
        let receipt = Receipt { to: from.0, from: me.0, number: taken.last };
        routes.forward(me, receipt.into(), from, out);
        for message in ready {
            self.take(from, message, out);
        }
    }

    /// A receipt has come: it is handed on, or so many messages need not be kept any more.
    pub(super) fn handle_receipt(&mut self, receipt: Receipt, out: &mut Effects) {
        let Some(routes) = &mut self.routes else { return };
        let (from, to, number) = (Node(receipt.from), Node(receipt.to), receipt.number);
        if to != self.members.me() {
            if !self.members.is_lost(to) {
                routes.forward(self.members.me(), receipt.into(), to, out);
            }
        } else if let Some(sent) = routes.sent.get_mut(&from) {
            sent.kept.retain(|(kept, _)| *kept > number);
        }
    }

    /// Acts on the loss of a node: calls those that are neighbours in its place, and sends again
    /// what it may have taken along.
    pub(super) fn route_around(&mut self, lost: Node, out: &mut Effects) {
        let (me, members) = (self.members.me(), &self.members);
        let Some(routes) = &mut self.routes else { return };
        routes.open.remove(&lost);
        routes.begun.remove(&lost);
        routes.sent.remove(&lost);
        routes.taken.remove(&lost);
        routes.unheard.remove(&lost.0);
        routes.all_unheard.remove(&lost);
        // The other one may not know yet that they are neighbours, or may have died unnoticed.
        for node in routes.graph.neighbours(me, |node| !members.is_lost(node)) {
            if !routes.open.contains(&node) && routes.begun.insert(node) {
                out.push(Effect::Call(node));
            }
        }
        // The sender of each parcel that waits here keeps it, and sends it again when it hears of
        // this loss.
        routes.waiting.clear();
        let kept = routes.sent.iter().flat_map(|(to, sent)| {
            let parcel = |(number, message): &(u64, Message)| {
                Parcel { from: me.0, to: to.0, number: *number, message: message.clone() }.into()
            };
            sent.kept.iter().map(move |it| (*to, parcel(it)))
        });
        for (to, parcel) in kept.collect::<Vec<(Node, Message)>>() {
            routes.forward(me, parcel, to, out);
        }
        routes.is_stale = true;
    }

    /// A neighbour has left after the end of the job: this node tells nobody of that loss.
    pub(super) fn forget_neighbour(&mut self, node: Node, out: &mut Effects) {
        let Some(routes) = &mut self.routes else { return };
        routes.open.remove(&node);
        if self.members.note_lost(node) {
            out.push(Effect::Report(Report::Lost(node.0, 0)));
        }
    }

    /// This node hears a neighbour again, or does not.
    pub(super) fn hear_neighbour(&mut self, node: Node, is_heard: bool) {
        let Some(routes) = &mut self.routes else { return };
        if is_heard {
            routes.unheard.remove(&node.0);
        } else {
            routes.unheard.insert(node.0);
        }
    }

    /// A moment has passed: all are told whom of its neighbours this node does not hear, if that
    /// has changed, and it stops itself if too few can be reached. Then they are told what it says
    /// of the whole job. Now and then is enough for what changes for many nodes at the same time.
    pub fn handle_moment(&mut self, out: &mut Effects) {
        let me = self.members.me();
        let Some(routes) = self.routes.as_mut().filter(|_| !self.has_left) else { return };
        let unheard = routes.unheard.clone();
        if *routes.all_unheard.entry(me).or_default() != unheard {
            self.tell(Fact::Unheard(unheard), out);
        }
        let is_stale = self.routes.as_mut().is_some_and(|it| std::mem::take(&mut it.is_stale));
        if is_stale {
            self.reckon();
            if !self.members.may_go_on() {
                return self.leave(out);
            }
        }
        self.say_to_all(out);
        self.settle(out);
    }

    /// Acts on what a node says of those it does not hear.
    pub(super) fn note_unheard(&mut self, by: Node, nodes: BTreeSet<u32>) {
        let Some(routes) = &mut self.routes else { return };
        if !self.members.is_lost(by) {
            routes.all_unheard.insert(by, nodes);
            routes.is_stale = true;
        }
    }

    /// Who cannot be reached any more is quiet.
    pub(super) fn reckon(&mut self) {
        let Some(routes) = &self.routes else { return };
        let members = &self.members;
        let is_unheard = |by: Node, node: Node| {
            routes.all_unheard.get(&by).is_some_and(|nodes| nodes.contains(&node.0))
        };
        let is_cut = |one, other| is_unheard(one, other) || is_unheard(other, one);
        let quiet = if routes.all_unheard.values().all(BTreeSet::is_empty) {
            BTreeSet::new()
        } else {
            // Who does not count yet may not be linked with all.
            let me = members.me();
            let lives = |node| !members.is_lost(node) && (node == me || members.has_come(node));
            let reached = routes.graph.reached(me, lives, is_cut);
            members.others().filter(|node| !reached.contains(node)).collect()
        };
        self.members.set_quiet(quiet);
    }
}

impl Routes {
    /// Sends something one step further, or lets it wait here.
    fn forward(&mut self, me: Node, message: Message, to: Node, out: &mut Effects) {
        match self.graph.step(me, to, self.open.iter().copied()) {
            Some(next) => out.push(Effect::Send(next, message)),
            None => self.waiting.push((to, message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{
        Answer, Failure, Process, Ticket,
        collective::{Key, Kind},
        directory::{Entry, EntryId},
        message::News,
        placement::Room,
        space::{Program, Space},
    };
    use super::*;

    /// The daemon of the first of a hundred nodes, each of which has a rank.
    fn daemon(out: &mut Effects) -> Daemon {
        let room = |at| Room { name: format!("n{at}"), slots: 1 };
        let mut daemon = Daemon::new(Node(0), (0..100).map(room).collect()).in_graph();
        let places = (0..100).collect();
        let (name, program) = ("job@1".into(), Program::default());
        daemon.handle_launch(Space { name, places, program, ..Space::default() }, out);
        out.clear();
        daemon
    }

    fn rank(rank: u32) -> Process {
        Process { space: "job@1".into(), rank }
    }

    #[test]
    fn what_comes_in_parcels_is_taken_once_and_in_its_order() {
        let mut out = Effects::new();
        let mut daemon = daemon(&mut out);
        // Two meetings with rank 40: their parts come the wrong way around, and again.
        let who = vec![rank(0), rank(40)];
        let part = |before: u64| {
            let key = Key { kind: Kind::Fence, who: who.clone(), before };
            Message::Part(key, vec![before as u8])
        };
        let take = |daemon: &mut Daemon, number: u64, out: &mut Effects| {
            let parcel = Parcel { from: 40, to: 0, number, message: part(number - 1) };
            daemon.handle_message(Node(96), parcel.into(), out);
        };
        take(&mut daemon, 2, &mut out);
        let taken =
            |daemon: &Daemon| daemon.routes.as_ref().expect("a graph").taken[&Node(40)].last;
        assert_eq!(taken(&daemon), 0);
        take(&mut daemon, 1, &mut out);
        take(&mut daemon, 2, &mut out);
        take(&mut daemon, 1, &mut out);
        assert_eq!(taken(&daemon), 2);
        let receipts = out.iter().filter_map(|effect| match effect {
            Effect::Send(_, Message::Receipt(receipt)) => Some((receipt.to, receipt.number)),
            _ => None,
        });
        assert_eq!(receipts.collect::<Vec<_>>(), [(40, 0), (40, 2), (40, 2), (40, 2)]);
        for (at, said) in [(1, 0), (2, 1)] {
            out.clear();
            daemon.handle_meeting(Kind::Fence, who.clone(), Vec::new(), Ticket(at), &mut out);
            let answer = Effect::Answer(Ticket(at), Answer::Bytes(Ok(vec![said])));
            assert!(out.contains(&answer), "{out:?}");
        }
    }

    #[test]
    fn messages_are_kept_until_there_is_a_receipt_and_go_around_who_is_lost() {
        let mut out = Effects::new();
        let mut daemon = daemon(&mut out);
        daemon.handle_question(rank(40), Ticket(1), &mut out);
        let sent = |out: &Effects| match &out[..] {
            [Effect::Send(over, Message::Parcel(parcel))] => (*over, parcel.number),
            _ => panic!("one parcel: {out:?}"),
        };
        // It has found this one, 64 places ahead.
        assert_eq!(sent(&out), (Node(36), 1));
        out.clear();
        daemon.handle_closed(Node(36), &mut out);
        let parcel = |effect: &Effect| matches!(effect, Effect::Send(_, Message::Parcel(_)));
        let again: Effects = out.iter().filter(|it| parcel(it)).cloned().collect();
        assert_eq!(sent(&again), (Node(32), 1));
        out.clear();
        daemon.handle_message(Node(32), Receipt { to: 0, from: 40, number: 1 }.into(), &mut out);
        daemon.handle_closed(Node(32), &mut out);
        assert!(!out.iter().any(parcel), "{out:?}");
        daemon.handle_closed(Node(40), &mut out);
        let answer = Effect::Answer(Ticket(1), Answer::Bytes(Err(Failure::Lost)));
        assert!(out.contains(&answer), "{out:?}");
    }

    #[test]
    fn neighbours_hear_of_a_loss_before_what_is_sent_again_and_later_of_its_proof() {
        let mut out = Effects::new();
        let mut daemon = daemon(&mut out);
        daemon.handle_question(rank(40), Ticket(1), &mut out);
        let news = |number, is_proved| {
            Message::News(News { origin: 50, number, fact: Fact::Lost(36, is_proved) })
        };
        out.clear();
        daemon.handle_message(Node(96), news(1, false), &mut out);
        let is_news = |it: &Effect| matches!(it, Effect::Send(_, Message::News(_)));
        let is_parcel = |it: &Effect| matches!(it, Effect::Send(_, Message::Parcel(_)));
        let last_news = out.iter().rposition(is_news).expect("passed on");
        assert!(last_news < out.iter().position(is_parcel).expect("sent again"), "{out:?}");
        assert!(!daemon.members().knows_loss(Node(36), true));
        out.clear();
        daemon.handle_message(Node(96), news(2, true), &mut out);
        assert!(daemon.members().knows_loss(Node(36), true) && out.iter().any(is_news), "{out:?}");
        out.clear();
        let again = News { origin: 51, number: 1, fact: Fact::Lost(36, true) };
        daemon.handle_message(Node(96), Message::News(again), &mut out);
        assert!(!out.iter().any(is_news), "all neighbours know: {out:?}");
    }

    #[test]
    fn a_new_neighbour_hears_what_it_lacks_and_also_that_something_was_taken_back() {
        let mut out = Effects::new();
        let mut daemon = daemon(&mut out);
        let id = EntryId(7, 1);
        let (key, value) = ("key".into(), Vec::new());
        let entry = Entry { id, key, publisher: rank(7), value, once: false };
        let facts = [Fact::Published(entry), Fact::Removed(vec![id])];
        let news = facts.map(|fact| News { origin: 7, number: 1, fact });
        let [first, second] = news;
        let second = News { number: 2, ..second };
        for news in [first, second.clone()] {
            daemon.handle_message(Node(96), Message::News(news), &mut out);
        }
        out.clear();
        daemon.handle_linked(Node(50), &mut out);
        daemon.handle_message(Node(50), Message::Known([(7, 1)].into()), &mut out);
        let known = Message::Known([(0, 0), (7, 2)].into());
        let told = [known, Message::News(second)].map(|it| Effect::Send(Node(50), it));
        assert_eq!(out, told);
    }
}
