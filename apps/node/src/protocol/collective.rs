//! Meetings of processes: each node that has some of them adds its part, and goes on when it has
//! those of all others.
//!
//! A meeting is known by who takes part and how often these have met: each node counts for itself,
//! as the ranks of all nodes meet in one order. Parts may come before this node takes part itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Answer, Failure, Node, Process, Ticket, space::Spaces};

/// What a meeting is for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Kind {
    /// All say something, and all hear it; the dead are left out.
    Fence,
    /// They belong together from now on; fails if one of them is dead.
    Connect,
    /// They do not any more; fails likewise.
    Disconnect,
}

/// Which meeting.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Key {
    /// What for.
    pub kind: Kind,
    /// Who takes part.
    pub who: Vec<Process>,
    /// How often they had met before.
    pub before: u64,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Meeting {
    /// The request of this node's processes, once they are there.
    here: Option<Ticket>,
    parts: BTreeMap<Node, Vec<u8>>,
}

/// The meetings that are not over yet.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Collectives {
    open: BTreeMap<Key, Meeting>,
    counts: BTreeMap<(Kind, Vec<Process>), u64>,
}

impl Collectives {
    /// The processes of this node take part, with these data; the part for the others.
    pub fn handle_arrival(
        &mut self,
        me: Node,
        kind: Kind,
        who: Vec<Process>,
        data: Vec<u8>,
        ticket: Ticket,
    ) -> Key {
        let count = self.counts.entry((kind, who.clone())).or_default();
        let key = Key { kind, who, before: *count };
        *count += 1;
        let meeting = self.open.entry(key.clone()).or_default();
        meeting.here = Some(ticket);
        meeting.parts.insert(me, data);
        key
    }

    /// Another node adds its part.
    pub fn handle_part(&mut self, from: Node, key: Key, data: Vec<u8>) {
        let count = self.counts.get(&(key.kind, key.who.clone())).copied().unwrap_or(0);
        // One that is over here, as its sender was late, has no use for it.
        if key.before >= count || self.open.contains_key(&key) {
            self.open.entry(key).or_default().parts.insert(from, data);
        }
    }

    /// The next meeting that is over for this node, with its answer.
    pub fn take_over(&mut self, spaces: &Spaces) -> Option<(Key, Ticket, Answer)> {
        let over = |(key, meeting): (&Key, &Meeting)| {
            let ticket = meeting.here?;
            Some((key.clone(), ticket, meeting.answer(key, spaces)?))
        };
        let found = self.open.iter().find_map(over)?;
        self.open.remove(&found.0);
        Some(found)
    }

    /// Meetings that processes of this node wait in.
    pub fn waiting(&self) -> impl Iterator<Item = &Key> {
        self.open.iter().filter(|(_, it)| it.here.is_some()).map(|(key, _)| key)
    }
}

impl Meeting {
    /// The answer, if it is certain.
    fn answer(&self, key: &Key, spaces: &Spaces) -> Option<Answer> {
        let all = || spaces.expand(&key.who);
        let is_dead = |(known, rank): (&super::space::Known, u32)| {
            known.end_of(rank).is_some_and(super::space::End::is_death)
        };
        if key.kind != Kind::Fence && all().any(is_dead) {
            return Some(Answer::Done(Err(Failure::Lost)));
        }
        let living = all().filter(|(known, rank)| known.end_of(*rank).is_none());
        let nodes: BTreeSet<Node> =
            living.filter_map(|(known, rank)| known.space.node_of(rank)).collect();
        if !nodes.iter().all(|node| self.parts.contains_key(node)) {
            return None;
        }
        Some(match key.kind {
            Kind::Fence => Answer::Bytes(Ok(self.parts.values().flatten().copied().collect())),
            Kind::Connect | Kind::Disconnect => Answer::Done(Ok(())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        ALL,
        space::{End, Known, Program, Space},
    };

    fn job(places: &[u32]) -> Spaces {
        let space = Space {
            name: "job".into(),
            places: places.to_vec(),
            spawner: None,
            port: None,
            program: Program::default(),
            others: Vec::new(),
        };
        let mut spaces = Spaces::default();
        spaces.add(Known::new(space, None)).expect("the first");
        spaces
    }

    fn all() -> Vec<Process> {
        vec![Process { space: "job".into(), rank: ALL }]
    }

    #[test]
    fn a_fence_gathers_what_all_nodes_say_whoever_comes_first() {
        let (spaces, mut met) = (job(&[0, 1, 1, 2]), Collectives::default());
        let key = Key { kind: Kind::Fence, who: all(), before: 0 };
        met.handle_part(Node(2), key.clone(), vec![2]);
        assert_eq!(met.handle_arrival(Node(0), Kind::Fence, all(), vec![0], Ticket(5)), key);
        assert_eq!(met.take_over(&spaces), None);
        met.handle_part(Node(1), key.clone(), vec![1]);
        let answer = Answer::Bytes(Ok(vec![0, 1, 2]));
        assert_eq!(met.take_over(&spaces), Some((key.clone(), Ticket(5), answer)));
        let next = met.handle_arrival(Node(0), Kind::Fence, all(), vec![], Ticket(6));
        assert_eq!(next.before, 1);
        met.handle_part(Node(1), key, vec![9]);
        assert_eq!(met.open.len(), 1, "the late part of the first one is of no use");
    }

    #[test]
    fn a_fence_leaves_out_the_dead_and_a_connect_fails_by_them() {
        let (mut spaces, mut met) = (job(&[0, 1]), Collectives::default());
        met.handle_arrival(Node(0), Kind::Fence, all(), vec![7], Ticket(1));
        met.handle_arrival(Node(0), Kind::Connect, all(), vec![], Ticket(2));
        assert_eq!(met.take_over(&spaces), None);
        spaces.get_mut("job").expect("there").note_end(1, End::Lost);
        let mut answers = Vec::new();
        while let Some((_, ticket, answer)) = met.take_over(&spaces) {
            answers.push((ticket, answer));
        }
        assert_eq!(
            answers,
            [
                (Ticket(1), Answer::Bytes(Ok(vec![7]))),
                (Ticket(2), Answer::Done(Err(Failure::Lost))),
            ]
        );
    }
}
