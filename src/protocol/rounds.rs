//! Collective operations as rounds of messages among a group of ranks.
//!
//! Ranks are named by their positions in the group, from 0 on, so that who is not in it is nowhere.
//! What moves is one buffer of each rank, as a whole:
//!
//! ```text
//! from a root, to a root    a tree: the group is halved; who has one half deals with the first of
//!                           the other (or with the root), and both halves go on alike
//! to all                    recursive doubling; of more than a power of two, the first ranks are
//!                           paired before and after
//! prefixes                  round k: what the last 2ᵏ ranks have goes 2ᵏ ranks further; of long
//!                           buffers from each rank to the next
//! barrier                   the same around a ring
//! ```
//!
//! All but the tree's rounds at its root take the logarithm of the group's size. Whatever is
//! combined is combined in the order of positions, and grouped in a way that the size alone
//! decides: the same numbers give the same bits on all ranks and in every run, and operations need
//! not commute. A rank whose rounds are over has nothing more to do for others.
//!
//! **Assumes** that messages from one rank to another come in their order.
//!
//! Reference: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication
//! Operations in MPICH", §4.

use smallvec::SmallVec;

/// What moves where.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Pattern {
    /// Nothing moves; no rank is done before all have begun.
    Barrier,
    /// The buffer of the rank at this position goes to all.
    FromRoot(usize),
    /// The same, in one round: for few ranks, of which none waits for two messages.
    FromRootAtOnce(usize),
    /// All buffers are combined at this position.
    ToRoot(usize),
    /// All buffers are combined, for all.
    ToAll,
    /// All buffers are combined by the tree, to a root and from there: in twice the rounds, with a
    /// message less per rank and round, for buffers that take longer than a round.
    ToAllByTree,
    /// The buffers of the ranks up to each one are combined.
    Prefix {
        /// Without its own.
        exclusive: bool,
    },
    /// The same from each rank to the next: every rank sends and combines once, where what takes
    /// the time is the buffer and not the round.
    PrefixInTurn {
        /// Without its own.
        exclusive: bool,
    },
}

/// What a rank does with another one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Act {
    /// Sends its buffer, as it is before the round.
    Send,
    /// Receives, in place of what it has.
    Take,
    /// Receives, and combines what has come with what it has: the other's stands before its own.
    CombineBefore,
    /// Receives, and combines what it has with what has come: its own stands before the other's.
    CombineAfter,
}

/// One message of a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Move {
    /// The position of the other rank.
    pub peer: usize,
    /// What this rank does.
    pub act: Act,
    /// It is the last of its round: the next one begins when all of this round are over.
    pub ends_round: bool,
}

/// What one rank does, round by round. There is one receive in a round at most.
pub type Plan = SmallVec<[Move; 8]>;

/// What the rank at position `me` of `count` does.
pub fn plan(pattern: Pattern, me: usize, count: usize) -> Plan {
    let mut plan = Plan::new();
    match pattern {
        Pattern::Barrier => {
            for step in powers(count) {
                let before = ((me + count - step) % count, Act::Take);
                add(&mut plan, &[before, ((me + step) % count, Act::Send)]);
            }
        }
        Pattern::FromRoot(root) => from_root(&mut plan, root, me, count),
        Pattern::FromRootAtOnce(root) if me == root => {
            let others = (0..count).filter(|other| *other != root);
            add(&mut plan, &others.map(|other| (other, Act::Send)).collect::<SmallVec<[_; 8]>>());
        }
        Pattern::FromRootAtOnce(root) => add(&mut plan, &[(root, Act::Take)]),
        Pattern::ToRoot(root) => to_root(&mut plan, root, me, count),
        Pattern::ToAll => double(&mut plan, me, count),
        Pattern::ToAllByTree => {
            to_root(&mut plan, 0, me, count);
            from_root(&mut plan, 0, me, count);
        }
        Pattern::PrefixInTurn { exclusive } => in_turn(&mut plan, exclusive, me, count),
        Pattern::Prefix { exclusive } => {
            let mut pass = |step: usize, act| {
                let before = me.checked_sub(step).map(|from| (from, act));
                let after = Some(me + step).filter(|to| *to < count).map(|to| (to, Act::Send));
                let both: SmallVec<[_; 2]> = before.into_iter().chain(after).collect();
                add(&mut plan, &both);
            };
            powers(count).for_each(|step| pass(step, Act::CombineBefore));
            if exclusive {
                pass(1, Act::Take);
            }
        }
    }
    plan
}

/// From each position to the next; what is passed on has the own buffer in it.
fn in_turn(plan: &mut Plan, exclusive: bool, me: usize, count: usize) {
    if let Some(before) = me.checked_sub(1) {
        add(plan, &[(before, Act::CombineBefore)]);
    }
    if me + 1 < count {
        add(plan, &[(me + 1, Act::Send)]);
    }
    if exclusive {
        let before = me.checked_sub(1).map(|from| (from, Act::Take));
        let after = Some(me + 1).filter(|to| *to < count).map(|to| (to, Act::Send));
        let both: SmallVec<[_; 2]> = before.into_iter().chain(after).collect();
        add(plan, &both);
    }
}

/// Appends a round, if anything is done in it.
fn add(plan: &mut Plan, round: &[(usize, Act)]) {
    let last = round.len().saturating_sub(1);
    plan.extend(round.iter().enumerate().map(|(at, (peer, act))| Move {
        peer: *peer,
        act: *act,
        ends_round: at == last,
    }));
}

/// 1, 2, 4, … below this number.
fn powers(count: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(1_usize), |step| step.checked_mul(2))
        .take_while(move |step| *step < count)
}

/// How what comes from another rank is combined with what this one has.
fn beside(peer: usize, me: usize) -> Act {
    if peer < me { Act::CombineBefore } else { Act::CombineAfter }
}

/// The place of a rank in the tree: its parent, and its children, those with most ranks below them
/// first. Below a rank is a range of positions, which with its own is one without a gap.
fn tree(root: usize, me: usize, count: usize) -> (Option<usize>, SmallVec<[usize; 8]>) {
    let (mut parent, mut children) = (None, SmallVec::new());
    let (mut range, mut owner) = (0..count, root);
    while range.len() > 1 {
        let middle = range.start + range.len() / 2;
        let (low, high) = (range.start..middle, middle..range.end);
        let (own, other) = if owner < middle { (low, high) } else { (high, low) };
        let first = other.start;
        if own.contains(&me) {
            if owner == me {
                children.push(first);
            }
            range = own;
        } else {
            if first == me {
                parent = Some(owner);
            }
            (range, owner) = (other, first);
        }
    }
    (parent, children)
}

/// From a root to all.
fn from_root(plan: &mut Plan, root: usize, me: usize, count: usize) {
    let (parent, children) = tree(root, me, count);
    if let Some(parent) = parent {
        add(plan, &[(parent, Act::Take)]);
    }
    let sent: SmallVec<[_; 8]> = children.iter().map(|child| (*child, Act::Send)).collect();
    add(plan, &sent);
}

/// From all to a root.
fn to_root(plan: &mut Plan, root: usize, me: usize, count: usize) {
    let (parent, children) = tree(root, me, count);
    for child in children.into_iter().rev() {
        add(plan, &[(child, beside(child, me))]);
    }
    if let Some(parent) = parent {
        add(plan, &[(parent, Act::Send)]);
    }
}

/// Recursive doubling.
fn double(plan: &mut Plan, me: usize, count: usize) {
    // So many pairs are one rank each in what follows, which is the second of them.
    let whole = if count == 0 { 0 } else { 1 << count.ilog2() };
    let pairs = count - whole;
    let is_paired = me < 2 * pairs;
    if is_paired && me.is_multiple_of(2) {
        add(plan, &[(me + 1, Act::Send)]);
        add(plan, &[(me + 1, Act::Take)]);
        return;
    }
    if is_paired {
        add(plan, &[(me - 1, Act::CombineBefore)]);
    }
    let place = if is_paired { me / 2 } else { me - pairs };
    for step in powers(whole) {
        let partner = place ^ step;
        let partner = if partner < pairs { 2 * partner + 1 } else { partner + pairs };
        add(plan, &[(partner, beside(partner, me)), (partner, Act::Send)]);
    }
    if is_paired {
        add(plan, &[(me - 1, Act::Send)]);
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::VecDeque, format, string::String, vec, vec::Vec};

    use super::*;

    /// The buffers afterwards of a group whose ranks take their turns in some order. What is
    /// combined stands in brackets, so that the grouping is seen.
    fn run(pattern: Pattern, count: usize, order: impl Fn(usize) -> usize) -> Vec<String> {
        let plans: Vec<Plan> = (0..count).map(|me| plan(pattern, me, count)).collect();
        let mut held: Vec<String> = (0..count).map(|me| format!("{me}.")).collect();
        let mut wires = vec![VecDeque::new(); count * count];
        // For each rank the beginning of its round, and whether that has been sent.
        let mut state = vec![(0, false); count];
        for turn in 0..200 * count * count {
            let me = order(turn) % count;
            let (at, has_sent) = state[me];
            let Some(rest) = plans[me].get(at..).filter(|rest| !rest.is_empty()) else { continue };
            let length = rest.iter().position(|it| it.ends_round).expect("a round ends") + 1;
            let round = &rest[..length];
            if !has_sent {
                let sent = round.iter().filter(|it| it.act == Act::Send);
                sent.for_each(|it| wires[me * count + it.peer].push_back(held[me].clone()));
                state[me].1 = true;
            }
            let received = round.iter().find(|it| it.act != Act::Send);
            if let Some(Move { peer, act, .. }) = received {
                let Some(come) = wires[peer * count + me].pop_front() else { continue };
                let own = &held[me];
                held[me] = match act {
                    Act::CombineBefore => format!("({come}{own})"),
                    Act::CombineAfter => format!("({own}{come})"),
                    _ => come,
                };
            }
            state[me] = (at + length, false);
        }
        let done = state.iter().zip(&plans).all(|((at, _), plan)| *at == plan.len());
        assert!(done, "{pattern:?} of {count} hangs");
        assert!(wires.iter().all(VecDeque::is_empty), "{pattern:?} of {count} leaves messages");
        held
    }

    fn flat(text: &str) -> String {
        text.chars().filter(|it| !matches!(it, '(' | ')')).collect()
    }

    fn all_of(count: usize) -> String {
        (0..count).map(|me| format!("{me}.")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn every_buffer_is_combined_once_and_in_order() {
        for count in 1..40 {
            for order in [|turn| turn, |turn: usize| turn * 7919 / 3] {
                for pattern in [Pattern::ToAll, Pattern::ToAllByTree] {
                    let all = run(pattern, count, order);
                    assert_eq!(flat(&all[0]), all_of(count));
                    assert!(all.iter().all(|it| *it == all[0]), "the grouping is one for all");
                }
                let mut grouped = None;
                for root in [0, count / 3, count - 1] {
                    let there = run(Pattern::ToRoot(root), count, order)[root].clone();
                    assert_eq!(flat(&there), all_of(count));
                    assert_eq!(*grouped.get_or_insert(there.clone()), there, "at any root");
                }
                let both = [
                    [false, true].map(|exclusive| Pattern::Prefix { exclusive }),
                    [false, true].map(|exclusive| Pattern::PrefixInTurn { exclusive }),
                ];
                for [inclusive, exclusive] in both {
                    let prefixes = run(inclusive, count, order);
                    let before = run(exclusive, count, order);
                    for me in 0..count {
                        assert_eq!(flat(&prefixes[me]), all_of(me + 1));
                        assert_eq!(flat(&before[me]), all_of(me.max(1)), "the first keeps its own");
                    }
                }
            }
        }
    }

    #[test]
    fn what_a_root_has_comes_to_all() {
        for count in 1..40 {
            for root in [0, count / 2, count - 1] {
                for pattern in [Pattern::FromRoot(root), Pattern::FromRootAtOnce(root)] {
                    let all = run(pattern, count, |turn| usize::MAX - turn);
                    assert!(all.iter().all(|it| *it == format!("{root}.")), "{count} from {root}");
                }
            }
        }
    }

    #[test]
    fn a_barrier_is_over_for_nobody_before_all_have_begun() {
        for count in 1..40 {
            run(Pattern::Barrier, count, |turn| turn);
            // Who a rank has heard of when it is done, directly or through others.
            let mut heard: Vec<Vec<bool>> =
                (0..count).map(|me| (0..count).map(|of| of == me).collect()).collect();
            for round in 0..powers(count).count() {
                let before = heard.clone();
                for (me, heard) in heard.iter_mut().enumerate() {
                    let from = plan(Pattern::Barrier, me, count)[2 * round].peer;
                    heard.iter_mut().zip(&before[from]).for_each(|(own, of)| *own |= of);
                }
            }
            assert!(heard.iter().flatten().all(|it| *it), "{count}");
        }
    }

    #[test]
    fn rounds_are_as_many_as_the_logarithm() {
        let rounds =
            |pattern, me, count| plan(pattern, me, count).iter().filter(|it| it.ends_round).count();
        for count in 2_usize..70 {
            let log = count.next_power_of_two().ilog2() as usize;
            for me in 0..count {
                assert_eq!(rounds(Pattern::Barrier, me, count), log);
                assert!(rounds(Pattern::ToAll, me, count) <= log + 1);
                assert!(rounds(Pattern::Prefix { exclusive: false }, me, count) <= log);
                assert!(rounds(Pattern::ToRoot(0), me, count) <= log + 1);
                assert!(rounds(Pattern::FromRoot(0), me, count) <= 2);
            }
        }
        assert!(plan(Pattern::ToAll, 0, 1).is_empty());
    }
}
