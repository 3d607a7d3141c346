//! One node's observer: its place in the ring, what it knows, and what it does about it.
//!
//! Whatever is learned, from the ring, from a message or from the own node, goes the same way: the
//! registry takes it, what was new is passed on to the neighbours, then told to the processes of
//! the node, and the ring mends itself. Sends come before events: a crash in between leaves nobody
//! waiting for what only we knew.
//!
//! **Fencing.** A message of somebody who is declared dead is answered by *fence*, and changes
//! nothing. Of two who hold each other for dead, and so fence each other, the one with the smaller
//! company goes: a node whose cable was out for a while does not take others with it. An observer
//! that learns of its own loss says no more and tells its processes to stop; one that learns of the
//! death of a process that is alive here tells that one. Who does not stop within the grace is
//! to be killed.
//!
//! Reference: Zhong 2019 algorithm 1; Bland 2012 §III.A, §III.D.

use alloc::{sync::Arc, vec::Vec};

use super::{
    Cause, Effect, Effects, Event, Host, Node, Process, Timer, Timing,
    graph::neighbours,
    layout::Layout,
    message::{Fact, MAX_FACTS, Message},
    registry::Registry,
    ring::Ring,
};
use crate::planted::planted;

/// The observer of one life of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Observer {
    me: Host,
    timing: Timing,
    registry: Registry,
    ring: Ring,
    /// Processes of ours that are dead to all, and may not have ended yet.
    fenced: Vec<Process>,
    /// This node has been declared lost.
    lost: bool,
}

impl Observer {
    /// Begins to observe; the layout is that of the launch. One that takes the place of an older
    /// observer of its node tells the others so.
    pub fn start(me: Host, timing: Timing, layout: Arc<Layout>, out: &mut Effects) -> Self {
        let registry = Registry::new(layout);
        let ring = Ring::start(me.node, timing, &registry, out);
        let mut it = Self { me, timing, registry, ring, fenced: Vec::new(), lost: false };
        // For the observer of the launch this is no news.
        it.spread(me.node, &[Fact::Returned(me)], None, out);
        it
    }

    /// Which life of which node this is.
    pub fn me(&self) -> Host {
        self.me
    }

    /// What is known.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The place in the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// True when this node was declared lost.
    pub fn is_fenced(&self) -> bool {
        self.lost
    }

    /// A message that is authentic and meant for this life of this node.
    pub fn handle_message(&mut self, from: Host, message: Message, out: &mut Effects) {
        if self.lost || from.node == self.me.node || !self.registry.layout().contains(from.node) {
            return;
        }
        if self.registry.is_lost(from) && !planted!(HearTheDeadNode) {
            let ours = self.registry.company();
            match message {
                Message::Fence(_) if planted!(FallTogether) => self.fall(out),
                Message::Fence(Some(theirs)) if theirs.is_above(from.node, ours, self.me.node) => {
                    self.fall(out);
                }
                _ if planted!(SpareTheFenced) => {}
                _ => {
                    out.push(Effect::Send(from, Message::Fence(Some(ours))));
                    out.push(Effect::Emit(Event::Ghost(from)));
                }
            }
            return;
        }
        if self.registry.host(from.node) < from {
            self.spread(self.me.node, &[Fact::Returned(from)], None, out);
        }
        match message {
            Message::Heartbeat(digest) => {
                self.ring.handle_heartbeat(from, out);
                if digest != self.registry.digest() && !planted!(CompareNothing) {
                    self.compare(from, true, out);
                }
            }
            Message::Request => self.ring.handle_request(from, &self.registry, out),
            Message::News { origin, facts } => {
                // Only the order of what follows depends on the origin.
                let origin = Node(origin.0 % self.registry.layout().nodes());
                self.spread(origin, &facts, Some(from.node), out);
            }
            Message::Comparison { digest, facts, answer } => {
                self.spread(self.me.node, &facts, Some(from.node), out);
                if answer && digest != self.registry.digest() && !self.lost {
                    self.compare(from, false, out);
                }
            }
            Message::Fence(_) => self.fall(out),
            // Who is slow is no affair of who is dead.
            Message::Question(_) | Message::Answer(_) => {}
        }
    }

    /// A timer has run out, after all that had arrived by then was handed over.
    pub fn handle_timer(&mut self, timer: Timer, out: &mut Effects) {
        match timer {
            Timer::Grace(process) if self.fenced.contains(&process) => {
                out.push(Effect::Emit(Event::Kill(process)));
            }
            Timer::Heartbeat if !self.lost => self.ring.handle_due(&self.registry, out),
            Timer::Silence if !self.lost => {
                let lost = self.ring.handle_silence(out);
                // Whoever is declared lost and lives hears of it from us.
                out.extend(lost.iter().map(|host| Effect::Send(*host, Message::Fence(None))));
                let facts: Vec<Fact> = lost.into_iter().map(Fact::Lost).collect();
                self.spread(self.me.node, &facts, None, out);
            }
            _ => {}
        }
    }

    /// A process of this node has ended.
    pub fn handle_exit(&mut self, process: Process, cause: Cause, out: &mut Effects) {
        if self.fenced.contains(&process) {
            self.fenced.retain(|it| *it != process);
            out.push(Effect::Disarm(Timer::Grace(process)));
            return;
        }
        self.handle_declaration(process, cause, out);
    }

    /// A process is dead to all from now on: one of this node that makes no progress, or one of any
    /// node that the ranks have agreed on.
    pub fn handle_declaration(&mut self, process: Process, cause: Cause, out: &mut Effects) {
        if !self.lost {
            self.spread(self.me.node, &[Fact::Died(process, cause)], None, out);
        }
    }

    /// A process of this node holds its rank from now on: a replacement, or a new rank. Those of
    /// the launch are known already.
    pub fn handle_registration(&mut self, process: Process, out: &mut Effects) {
        let holder = self.registry.holder(process.rank);
        let here = self.registry.host_of(process) == Some(self.me);
        if self.lost || (holder >= Some(process) && !here) || self.registry.cause(process).is_some()
        {
            out.push(Effect::Emit(Event::Refused(process)));
            return;
        }
        self.spread(self.me.node, &[Fact::Joined(process, self.me)], None, out);
    }

    /// Takes facts; passes on, in the tree of this origin, what was new, and tells of it.
    fn spread(&mut self, origin: Node, facts: &[Fact], from: Option<Node>, out: &mut Effects) {
        let (mut new, mut events) = (Vec::new(), Vec::new());
        for fact in facts.iter().copied() {
            if self.is_about_me(fact) {
                self.fall(out);
                return;
            }
            let mut told = Vec::new();
            self.foretell(fact, &mut told);
            if self.registry.learn(fact) {
                new.push(fact);
                events.append(&mut told);
            }
        }
        if new.is_empty() {
            return;
        }
        if from.is_none() || !planted!(KeepTheNews) {
            self.flood(origin, &new, from, out);
        }
        for event in events {
            match event {
                Event::Stop(process) => self.stop([process], out),
                event => out.push(Effect::Emit(event)),
            }
        }
        self.ring.mend(&self.registry, out);
    }

    /// Somebody says that this life of this node is over.
    fn is_about_me(&self, fact: Fact) -> bool {
        match fact {
            Fact::Lost(host) => host.node == self.me.node && host >= self.me,
            Fact::Returned(host) => host.node == self.me.node && host > self.me,
            Fact::Died(..) | Fact::Joined(..) => false,
        }
    }

    /// What a fact will have changed for the living, once it is learned. A process that is dead to
    /// all others and lives here is to stop.
    fn foretell(&self, fact: Fact, told: &mut Vec<Event>) {
        let death = |process: Process, cause: Cause| {
            let here = self.registry.host_of(process) == Some(self.me);
            let stop = (here && cause.may_live()).then_some(Event::Stop(process));
            [Some(Event::Died(process, cause)), stop].into_iter().flatten()
        };
        match fact {
            Fact::Died(process, _) | Fact::Joined(process, _) => {
                let holder = self.registry.holder(process.rank);
                let replaced = holder.filter(|holder| *holder < process);
                if let Some(replaced) = replaced.filter(|it| self.registry.cause(*it).is_none()) {
                    told.extend(death(replaced, Cause::Replaced));
                }
            }
            Fact::Lost(host) | Fact::Returned(host) => {
                // An older life whose loss nobody told of ends here, too.
                let over = self.registry.host(host.node);
                if over < host && !self.registry.is_lost(over) {
                    told.push(Event::Lost(over, self.registry.hosted(over)));
                }
            }
        }
        match fact {
            Fact::Died(process, cause) if self.registry.cause(process).is_none() => {
                told.extend(death(process, cause));
            }
            Fact::Joined(process, host) => {
                told.push(Event::Joined(process, host));
                if self.registry.is_lost(host) {
                    told.push(Event::Died(process, Cause::NodeLost));
                }
            }
            Fact::Lost(host) => told.push(Event::Lost(host, self.registry.hosted(host))),
            Fact::Died(..) | Fact::Returned(_) => {}
        }
    }

    fn stop(&mut self, processes: impl IntoIterator<Item = Process>, out: &mut Effects) {
        for process in processes {
            self.fenced.push(process);
            out.push(Effect::Emit(Event::Stop(process)));
            out.push(Effect::Arm(Timer::Grace(process), self.timing.grace));
        }
    }

    /// This node is lost to all others.
    fn fall(&mut self, out: &mut Effects) {
        if self.lost {
            return;
        }
        self.lost = true;
        out.push(Effect::Disarm(Timer::Heartbeat));
        out.push(Effect::Disarm(Timer::Silence));
        self.stop(self.registry.hosted(self.me), out);
        out.push(Effect::Emit(Event::Fenced));
    }

    /// Sends news to all neighbours who live, but for the one they came from.
    fn flood(&self, origin: Node, facts: &[Fact], from: Option<Node>, out: &mut Effects) {
        let nodes = self.registry.layout().nodes();
        let neighbours = neighbours(self.me.node, origin, nodes).into_iter();
        let wanting = |node: &Node| Some(*node) != from && self.registry.is_alive(*node);
        for node in neighbours.filter(wanting) {
            for facts in facts.chunks(MAX_FACTS) {
                let news = Message::News { origin, facts: facts.to_vec() };
                out.push(Effect::Send(self.registry.host(node), news));
            }
        }
    }

    /// Sends all that we know.
    fn compare(&self, to: Host, answer: bool, out: &mut Effects) {
        let (facts, digest) = (self.registry.facts(), self.registry.digest());
        let parts = facts.chunks(MAX_FACTS).count().max(1);
        for part in 0..parts {
            let facts = facts.chunks(MAX_FACTS).nth(part).unwrap_or_default().to_vec();
            // With the last part the receiver knows what there is to answer.
            let answer = answer && part + 1 == parts;
            out.push(Effect::Send(to, Message::Comparison { digest, facts, answer }));
        }
    }
}

#[cfg(test)]
mod tests;
