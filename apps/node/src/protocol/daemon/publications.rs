//! What processes publish, take back, and look for.

use super::super::{
    Answer, Effect, Effects, Process, Ticket,
    directory::{Entry, EntryId, Lookup},
    message::Fact,
};
use super::Daemon;

impl Daemon {
    /// A process of this node publishes values under keys.
    pub fn handle_publication(
        &mut self,
        publisher: &Process,
        values: Vec<(String, Vec<u8>)>,
        once: bool,
        ticket: Ticket,
        out: &mut Effects,
    ) {
        if values.is_empty() {
            out.push(Effect::Answer(ticket, Answer::Done(Ok(()))));
            return;
        }
        // All of them have to be heard of, the last one is waited for: news stay in order.
        let me = self.members.me().0;
        for (key, value) in values {
            let id = EntryId(me, self.number + 1);
            let publisher = publisher.clone();
            self.tell(Fact::Published(Entry { id, key, publisher, value, once }), out);
        }
        self.answer_when_heard(ticket, None);
        self.settle(out);
    }

    /// A process takes back what it has published.
    pub fn handle_withdrawal(
        &mut self,
        publisher: &Process,
        keys: &[String],
        ticket: Ticket,
        out: &mut Effects,
    ) {
        let ids = self.directory.of(publisher, keys);
        self.tell(Fact::Removed(ids), out);
        self.answer_when_heard(ticket, None);
        self.settle(out);
    }

    /// A process of this node looks for values.
    pub fn handle_lookup(&mut self, lookup: Lookup, out: &mut Effects) {
        self.directory.wait(lookup);
        self.settle(out);
    }
}
