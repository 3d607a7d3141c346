//! News: passed on by each daemon that hears them for the first time, before it acts.

use std::collections::BTreeSet;

use super::super::{
    Effect, Effects, Node, Ticket,
    message::{Fact, Message, News},
};
use super::Daemon;

/// A request of this node that is answered when all others have heard of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    /// Who has not.
    pub(super) missing: BTreeSet<Node>,
    /// One of them could not follow.
    pub(super) failed: bool,
    /// The namespace that is being started, if one is.
    pub(super) space: Option<String>,
}

/// All news that were heard or told here, in that order, for those who hear of them later.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Log(Vec<News>);

impl Log {
    /// Notes news for nodes that have heard nothing yet: without what was published and taken back.
    fn note(&mut self, news: &News) {
        let Fact::Removed(ids) = &news.fact else { return self.note_all(news) };
        let mut ids = ids.clone();
        self.0.retain(|known| {
            let Fact::Published(entry) = &known.fact else { return true };
            let at = ids.iter().position(|id| *id == entry.id);
            at.map(|at| ids.swap_remove(at)).is_none()
        });
        if !ids.is_empty() {
            // Taken back before it came.
            self.0.push(News { fact: Fact::Removed(ids), ..*news });
        }
    }

    /// Notes news for nodes that have heard some of them.
    fn note_all(&mut self, news: &News) {
        let is_unheard = |news: &News| matches!(news.fact, Fact::Unheard(_));
        if is_unheard(news) {
            // What it has told of these before counts no more.
            self.0.retain(|known| known.origin != news.origin || !is_unheard(known));
        }
        self.0.push(news.clone());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &News> {
        self.0.iter()
    }
}

impl Daemon {
    /// Passes news on that are new, but to nobody who knows them, and acts.
    pub(super) fn handle_news(&mut self, from: Node, news: News, out: &mut Effects) {
        let last = self.heard.entry(news.origin).or_default();
        if news.number <= *last || Node(news.origin) == self.members.me() {
            return;
        }
        *last = news.number;
        // All neighbours of a lost node tell of it; one of them is passed on by each.
        if let Fact::Lost(node, is_proved) = news.fact
            && self.members.knows_loss(Node(node), is_proved)
        {
            return;
        }
        let knows = |node: &Node| *node == from || node.0 == news.origin;
        for node in self.neighbours().into_iter().filter(|node| !knows(node)) {
            out.push(Effect::Send(node, Message::News(news.clone())));
        }
        self.note(&news);
        self.follow(news.fact, Node(news.origin), news.number, out);
    }

    fn note(&mut self, news: &News) {
        if self.routes.is_some() {
            self.log.note_all(news);
        } else {
            self.log.note(news);
        }
    }

    /// Tells all others, and acts.
    pub(super) fn tell(&mut self, fact: Fact, out: &mut Effects) {
        self.number += 1;
        let news = News { origin: self.members.me().0, number: self.number, fact };
        for node in self.neighbours() {
            out.push(Effect::Send(node, Message::News(news.clone())));
        }
        self.note(&news);
        self.follow(news.fact, self.members.me(), news.number, out);
    }

    /// The ticket is answered when all that live have followed what was told last.
    pub(super) fn answer_when_heard(&mut self, ticket: Ticket, space: Option<String>) {
        let mut missing = self.members.serving_others();
        // What is published is published here at once; what is started takes a moment.
        if space.is_some() {
            missing.insert(self.members.me());
        }
        let pending = Pending { ticket, missing, failed: false, space };
        self.pending.insert(self.number, pending);
    }

    /// A node has followed what this one, or another one, told.
    pub(super) fn hear(
        &mut self,
        who: Node,
        origin: Node,
        number: u64,
        followed: bool,
        out: &mut Effects,
    ) {
        if origin != self.members.me() {
            // Nobody waits for a node that has not come.
            if !self.members.is_lost(origin) && !self.is_new() {
                self.send(origin, Message::Heard(number, followed), out);
            }
        } else if let Some(pending) = self.pending.get_mut(&number) {
            pending.missing.remove(&who);
            pending.failed |= !followed;
        } else {
            self.joins.hear(who, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{
        Process,
        directory::{Entry, EntryId},
    };
    use super::*;

    #[test]
    fn what_was_published_and_taken_back_is_not_told_to_those_who_join() {
        let publisher = Process { space: "job@1".into(), rank: 0 };
        let entry = |number| Entry {
            id: EntryId(0, number),
            key: "key".into(),
            publisher: publisher.clone(),
            value: Vec::new(),
            once: false,
        };
        let news = |number, fact| News { origin: 0, number, fact };
        let mut log = Log::default();
        log.note(&news(1, Fact::Published(entry(1))));
        log.note(&news(2, Fact::Published(entry(2))));
        log.note(&news(3, Fact::Removed(vec![EntryId(0, 1), EntryId(1, 9)])));
        let removed = Fact::Removed(vec![EntryId(1, 9)]);
        assert_eq!(log.0, [news(2, Fact::Published(entry(2))), news(3, removed)]);
    }
}
