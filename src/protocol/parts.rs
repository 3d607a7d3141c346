//! The parts of a fused reduction that are not combined yet, where nodes are combined first.
//!
//! Whatever a node has together goes on together, but the numbers are combined in the one order of
//! [`combined`](super::fused::combined), which knows ranks and no nodes: the result has the same
//! bits wherever the ranks are placed. So two parts are combined only where they are siblings in
//! its tree, and what has no sibling yet travels beside the others:
//!
//! ```text
//! tree of 4          1         nodes {0, 1} and {2, 3}: one part each, 2 and 3
//!                2       3     nodes {0, 2} and {1, 3}: two parts each, 4 and 6, 5 and 7
//! positions     4 5     6 7
//! ```
//!
//! Which parts a message brings follows from the placement; they are not named in it.

use alloc::{collections::VecDeque, vec::Vec};

use smallvec::SmallVec;

use super::{
    exchange::{self, Exchange, Shape},
    fused::{MAX_VALUES, Values},
    nodes::Seat,
    view::View,
};

/// A place in the tree: 1 is the whole, 2a and 2a + 1 are below a. Below the leaf of a position
/// that another folds into are the two of them.
type Part = u32;

/// Parts, ascending; no two of them are siblings.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Parts(SmallVec<[Part; MAX_VALUES]>);

/// The part that a position of so many brings.
const fn leaf(position: u32, size: u32) -> Part {
    let core = 1 << size.ilog2();
    if position >= core {
        2 * position + 1
    } else if position + core < size {
        2 * (core + position)
    } else {
        core + position
    }
}

impl Parts {
    /// Adds parts, of which none is there.
    fn add(&mut self, others: &Self) {
        for other in &others.0 {
            let mut part = *other;
            while let Ok(at) = self.0.binary_search(&(part ^ 1)) {
                self.0.remove(at);
                part /= 2;
            }
            if let Err(at) = self.0.binary_search(&part) {
                self.0.insert(at, part);
            }
        }
    }
}

/// Combines the values of some parts with those of others, none of which is among them.
pub fn join<'a>(
    parts: &mut Parts,
    values: &mut Values,
    others: impl Iterator<Item = (&'a Parts, Values)>,
) {
    let mut all: SmallVec<[(Part, Values); 2 * MAX_VALUES]> =
        parts.0.iter().copied().zip(values.parts()).collect();
    for (places, brought) in others {
        for (part, value) in places.0.iter().zip(brought.parts()) {
            let (mut part, mut value) = (*part, value);
            while let Ok(at) = all.binary_search_by_key(&(part ^ 1), |(part, _)| *part) {
                let (_, sibling) = all.remove(at);
                value.combine(&sibling);
                part /= 2;
            }
            let at = all.partition_point(|(other, _)| *other < part);
            all.insert(at, (part, value));
        }
    }
    parts.0 = all.iter().map(|(part, _)| *part).collect();
    let joined: SmallVec<[Values; MAX_VALUES]> = all.into_iter().map(|(_, value)| value).collect();
    *values = Values::of_parts(&joined);
}

/// What each message of an exchange brings to one rank.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Brought {
    /// What the rank brings itself.
    pub own: Parts,
    /// By step.
    steps: Vec<(u8, Parts)>,
    /// The most parts that any rank of the view has at one time.
    pub most: usize,
}

impl Brought {
    /// Of the exchanges in a view, in this shape, at the rank at this seat; nothing where some
    /// message of theirs would have more parts than fit.
    pub fn of(view: &View, seat: Seat, shape: Shape) -> Option<Self> {
        let mut brought = Self { most: 1, ..Self::default() };
        let mut heads = Vec::new();
        for node in 0..seat.nodes {
            heads.push(brought.gather(view, seat, node)?);
        }
        brought.exchange(shape, seat, heads)?;
        Some(brought)
    }

    /// Parts of the message of a step.
    #[inline]
    pub fn by(&self, step: u8) -> Option<&Parts> {
        self.steps.iter().find(|(known, _)| *known == step).map(|(_, parts)| parts)
    }

    /// Notes that a rank has such parts, and sends them to the rank by this step.
    fn note(&mut self, parts: &Parts, step: Option<u8>) -> Option<()> {
        self.most = self.most.max(parts.0.len());
        if let Some(step) = step {
            self.steps.push((step, parts.clone()));
        }
        (self.most <= MAX_VALUES).then_some(())
    }

    /// What the head of a node has gathered.
    fn gather(&mut self, view: &View, seat: Seat, node: u32) -> Option<Parts> {
        let members = view.members(node);
        let part = |rank| Parts(SmallVec::from_slice(&[leaf(view.position_of(rank), view.live())]));
        let mut all: Vec<Parts> = members.iter().map(|rank| part(*rank)).collect();
        if node == seat.node {
            self.own = all[seat.member as usize].clone();
        }
        let at = |member| Seat { node, nodes: seat.nodes, member, members: members.len() as u32 };
        for member in (1..members.len()).rev() {
            let parts = core::mem::take(&mut all[member]);
            let Some((parent, step)) = at(member as u32).parent() else { continue };
            let here = node == seat.node && parent == seat.member;
            self.note(&parts, here.then_some(step))?;
            all[parent as usize].add(&parts);
        }
        let all = all.into_iter().next()?;
        self.note(&all, None)?;
        Some(all)
    }

    /// What the heads bring each other.
    fn exchange(&mut self, shape: Shape, seat: Seat, mut known: Vec<Parts>) -> Option<()> {
        let machine = |node| Exchange::new(node, seat.nodes, shape);
        let mut machines: Vec<Exchange> = (0..seat.nodes).map(machine).collect();
        let mut came: Vec<Vec<(u8, Parts)>> = alloc::vec![Vec::new(); known.len()];
        let mut links = VecDeque::new();
        let mut run = |at: usize, machine: &mut Exchange, came: &mut Vec<(u8, Parts)>| {
            let mut sent = Vec::new();
            machine.advance(|act| {
                let steps: SmallVec<[u8; 8]> = match act {
                    exchange::Move::Send(to, step) => {
                        sent.push((at as u32, to, step, known[at].clone()));
                        return;
                    }
                    exchange::Move::FoldIn => SmallVec::from_slice(&[0]),
                    exchange::Move::Combine(group) => group.steps().flatten().collect(),
                    exchange::Move::Told(_) => return,
                };
                for (_, parts) in came.iter().filter(|(step, _)| steps.contains(step)) {
                    known[at].add(parts);
                }
            });
            sent
        };
        for (at, machine) in machines.iter_mut().enumerate() {
            links.extend(run(at, machine, &mut came[at]));
        }
        while let Some((from, to, step, parts)) = links.pop_front() {
            let here = seat.member == 0 && to == seat.node;
            self.note(&parts, here.then_some(step))?;
            let at = to as usize;
            came[at].push((step, parts));
            machines[at].arrive(from, step);
            links.extend(run(at, &mut machines[at], &mut came[at]));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{protocol::placement::Nodes, rank::Rank};

    fn brought(size: u32, nodes: &[u32], rank: u32) -> Option<Brought> {
        let view = View::new(size, Shape::WIDE).on_nodes(&Nodes::new(nodes));
        Brought::of(&view, view.seat(Rank::new(rank)), Shape::BETWEEN_NODES)
    }

    #[test]
    fn neighbours_in_the_order_of_ranks_are_one_part_and_others_are_several() {
        let by_node = brought(8, &[0, 0, 0, 0, 1, 1, 1, 1], 0).expect("few");
        assert_eq!(by_node.most, 1);
        assert_eq!(by_node.by(1), Some(&Parts(SmallVec::from_slice(&[3]))), "the other half");
        let by_slot = brought(8, &[0, 1, 0, 1, 0, 1, 0, 1], 0).expect("few");
        assert_eq!(by_slot.most, 4);
        assert_eq!(by_slot.by(1), Some(&Parts(SmallVec::from_slice(&[9, 11, 13, 15]))));
        let nodes: Vec<u32> = (0..64).map(|rank| rank % 2).collect();
        assert_eq!(brought(64, &nodes, 5), None, "32 parts");
    }

    #[test]
    fn those_who_fold_are_below_the_leaf_of_another() {
        assert_eq!([0, 1, 2].map(|position| leaf(position, 3)), [4, 3, 5]);
        let mut parts = Parts(SmallVec::from_slice(&[4]));
        parts.add(&Parts(SmallVec::from_slice(&[3])));
        assert_eq!(parts.0[..], [3, 4]);
        parts.add(&Parts(SmallVec::from_slice(&[5])));
        assert_eq!(parts.0[..], [1], "all of it");
    }
}
