//! The control channel: frames in order per pair, and the news of deaths.
//!
//! ```text
//!  p0 ──fast──▶ p1    in order among themselves
//!  p0 ──other─▶ p1    in order among themselves; the two kinds overtake each other
//!  p2 dies            each survivor is told after a delay of its own, once per universe
//! ```
//!
//! What a process sent before its death still arrives; what is sent to a dead process is lost.

use super::{
    Pid, World,
    event::{Event, News},
    note,
};
use crate::{
    protocol::codec::{self, Frame},
    rank::Rank,
    seam::platform::{Incoming, UniverseId},
};

impl World {
    /// Sends a frame in a universe that the process knows.
    pub(in crate::sim) fn send_frame(
        &mut self,
        me: Pid,
        universe: UniverseId,
        to: Rank,
        frame: Frame,
    ) {
        let (universe, in_use) = self.processes[me].universes[universe.0 as usize];
        if !in_use {
            return;
        }
        let latency = self.latency();
        let sent = self.processes[me].local;
        let fast = codec::is_fast(&frame);
        let group = &mut self.universes[universe];
        let from = group.rank_of(me);
        let target = group.members[to.index()];
        let last = group.links.entry((from, to.index(), fast)).or_insert(0);
        *last = (sent + latency).max(*last + 1);
        let arrival = *last;
        self.counters.count_frame(fast);
        note!(self, sent, "p{me} → p{target} u{universe} {} B, {}", frame.len(), words(&frame));
        let news = News { universe, from, frame: Some(frame) };
        self.schedule(arrival, Event::Frame { to: target, news });
    }

    /// The next news that the process can see while it awaits this fast frame.
    pub(in crate::sim) fn take_news(
        &mut self,
        me: Pid,
        awaits: Option<(UniverseId, Rank)>,
    ) -> Option<Incoming> {
        let it = &mut self.processes[me];
        let mut at = 0;
        while let Some(news) = it.inbox.get(at) {
            let known = it.universes.iter().position(|(universe, _)| *universe == news.universe);
            let Some(local) = known else {
                at += 1;
                continue;
            };
            if !it.universes[local].1 {
                it.inbox.remove(at);
                continue;
            }
            let place = (UniverseId(local as u32), Rank::from(news.from));
            let held = it.holds_fast && awaits != Some(place);
            if held && news.frame.as_deref().is_some_and(codec::is_fast) {
                at += 1;
                continue;
            }
            let news = it.inbox.remove(at).expect("just seen");
            it.undrained = true;
            return Some(match news.frame {
                Some(frame) => Incoming::Frame(place.0, place.1, frame),
                None => Incoming::Failure(place.0, place.1),
            });
        }
        it.undrained = false;
        None
    }

    /// The detector of `observer` reports a death.
    pub(in crate::sim) fn detect(&mut self, observer: Pid, dead: Pid) {
        if !self.processes[observer].knows.insert(dead) {
            return;
        }
        note!(self, self.clock, "p{observer} learns that p{dead} is dead");
        for at in 0..self.processes[observer].universes.len() {
            let (universe, in_use) = self.processes[observer].universes[at];
            if in_use {
                self.tell_death(observer, universe, dead);
            }
        }
        self.fail_operations(observer, dead);
        self.fail_creation(observer);
        self.wake(observer);
    }

    /// Puts the death into the inbox if it concerns this universe.
    pub(in crate::sim) fn tell_death(&mut self, observer: Pid, universe: usize, dead: Pid) {
        if let Some(from) = self.universes[universe].members.iter().position(|who| *who == dead) {
            self.processes[observer].inbox.push_back(News { universe, from, frame: None });
        }
    }
}

/// A frame in words.
fn words(frame: &[u8]) -> String {
    codec::decode(frame).map_or_else(
        || "not a message of the protocol".to_owned(),
        |(comm, message)| format!("comm {:04x}: {message:?}", comm.0 & 0xffff),
    )
}
