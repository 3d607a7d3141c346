//! Who observes whom in the ring of the living, and how long in silence.
//!
//! Each node observes the nearest living one before it, which sends it heartbeats. When that one is
//! lost, the next two before it that are not known dead are asked at once, then four: the nearest
//! that answers is observed from then on, and those between it and us are lost. A ring with any
//! number of deaths at once is whole again after about as many timeouts as that number has binary
//! digits. Heartbeats go to the nearest living node by what we know; who asks for one gets one, and
//! by its digest we both find out if we do not know the same.
//!
//! ```text
//! heartbeat ─── δ ─── missing ─ request ─ request ─ request ─ η: lost, observe the next
//! ```
//!
//! Reference: Zhong 2019 §4.5 and figure 3.

use alloc::vec::Vec;

use super::{Effect, Effects, Host, Node, Timer, Timing, message::Message, registry::Registry};
use crate::planted::planted;

/// A node whose heartbeats we want.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Observed {
    host: Host,
    /// We have heard from it since we asked.
    heard: bool,
}

/// One node's place in the ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ring {
    me: Node,
    timing: Timing,
    /// Nearest first; only the last one may have been heard from. More than one while the ring
    /// mends itself, none for the last node of all.
    observed: Vec<Observed>,
    /// Requests since the last heartbeat.
    requests: u8,
    /// Who gets our heartbeats.
    successor: Option<Node>,
}

impl Ring {
    /// Takes the place of this node.
    pub fn start(me: Node, timing: Timing, registry: &Registry, out: &mut Effects) -> Self {
        let mut ring = Self { me, timing, observed: Vec::new(), requests: 0, successor: None };
        let before = ring.living_before(registry).next();
        ring.observed.extend(before.map(|host| Observed { host, heard: false }));
        ring.find_successor(registry);
        // Alone from the start, there is nobody to tell or to hear.
        if before.is_some() {
            out.push(Effect::Arm(Timer::Heartbeat, timing.period));
            out.push(Effect::Arm(Timer::Silence, timing.start));
        }
        ring
    }

    /// The nodes whose heartbeats are waited for, nearest first.
    pub fn observed(&self) -> impl Iterator<Item = Node> + '_ {
        self.observed.iter().map(|observed| observed.host.node)
    }

    /// Who gets our heartbeats.
    pub fn successor(&self) -> Option<Node> {
        self.successor
    }

    /// Those observed who have been silent since they were asked, nearest first: lost, if nothing
    /// comes from them before the timeout.
    pub fn silent(&self) -> impl Iterator<Item = Host> + '_ {
        self.observed.iter().filter(|observed| !observed.heard).map(|observed| observed.host)
    }

    /// Our heartbeat is due.
    pub fn handle_due(&self, registry: &Registry, out: &mut Effects) {
        out.push(Effect::Arm(Timer::Heartbeat, self.timing.period));
        // The last of all may be the one that the others have lost; then it is told so.
        let next = || registry.layout().successors(self.me).next();
        if let Some(successor) = self.successor.or_else(next) {
            let heartbeat = Message::Heartbeat(registry.digest());
            out.push(Effect::Send(registry.host(successor), heartbeat));
        }
    }

    /// This node wants to hear from us.
    pub fn handle_request(&self, from: Host, registry: &Registry, out: &mut Effects) {
        out.push(Effect::Send(from, Message::Heartbeat(registry.digest())));
    }

    /// A sign of life.
    pub fn handle_heartbeat(&mut self, from: Host, out: &mut Effects) {
        let Some(at) = self.observed.iter().position(|it| it.host == from) else { return };
        // Those farther away are observed by somebody nearer to them.
        self.observed.truncate(at + 1);
        self.observed[at].heard = true;
        if at == 0 {
            self.requests = 0;
            // A heartbeat is news of the past until the next one: silence counts from here.
            out.push(Effect::Arm(Timer::Silence, self.timing.patience()));
        }
    }

    /// Nothing came for a while. Asks, and in the end gives those who are lost, which the registry
    /// is to learn before [`mend`](Self::mend).
    pub fn handle_silence(&mut self, out: &mut Effects) -> Vec<Host> {
        if let [only] = &mut self.observed[..] {
            only.heard = false;
        }
        if self.requests == self.timing.requests {
            return self.silent().collect();
        }
        self.requests += 1;
        out.extend(self.silent().map(|host| Effect::Send(host, Message::Request)));
        out.push(Effect::Arm(Timer::Silence, self.timing.interval()));
        Vec::new()
    }

    /// The registry knows more than before: observes the nearest living node, whoever that is.
    pub fn mend(&mut self, registry: &Registry, out: &mut Effects) {
        self.find_successor(registry);
        let asked = self.observed.len();
        let all_silent = self.observed.iter().all(|it| !it.heard);
        self.observed.retain(|it| !registry.is_lost(it.host));
        let nearest = self.living_before(registry).next();
        let first = self.observed.first().copied();
        if first.map(|it| it.host) == nearest {
            match first {
                // The last of the silent ones between us is known to be lost.
                Some(it) if it.heard && self.observed.len() < asked => {
                    self.requests = 0;
                    out.push(Effect::Arm(Timer::Silence, self.timing.patience()));
                }
                Some(_) => {}
                None => out.push(Effect::Disarm(Timer::Silence)),
            }
            return;
        }
        if planted!(LeaveTheRingOpen) {
            return;
        }
        // One that was silent may stand in a row of the dead.
        let width = if first.is_none() && all_silent { 2 * asked.max(1) } else { 1 };
        let next = self.living_before(registry).take(width);
        self.observed = next.map(|host| Observed { host, heard: false }).collect();
        self.requests = 0;
        out.extend(self.silent().map(|host| Effect::Send(host, Message::Request)));
        out.push(Effect::Arm(Timer::Silence, self.timing.patience()));
    }

    fn living_before<'a>(&self, registry: &'a Registry) -> impl Iterator<Item = Host> + use<'a> {
        let before = registry.layout().predecessors(self.me);
        before.filter(|node| registry.is_alive(*node)).map(|node| registry.host(node))
    }

    fn find_successor(&mut self, registry: &Registry) {
        let mut after = registry.layout().successors(self.me);
        self.successor = after.find(|node| registry.is_alive(*node));
    }
}
