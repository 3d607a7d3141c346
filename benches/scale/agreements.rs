//! The agreements that are compared.
//!
//! Of the deaths no rank knows at the beginning. A rank learns of one when it needs the dead rank:
//! because it has sent to it, or because the first message of the exchange would come from it. News
//! of deaths travel on with the machines' own messages.

use fampi::{
    CommId, Rank,
    ids::BlockId,
    protocol::{
        Effect, Event,
        agreement::Vote,
        codec,
        commit::Commit,
        exchange::{Exchange, Shape},
        message::{Message, Yes},
        placement::Nodes,
    },
};

use fampi_kit::loggp::{Cost, Network, Outcome};

const COMM: CommId = CommId(1);
const BLOCK: BlockId = BlockId(0);

/// What travels in a commit; most of it is small.
enum Wire {
    Yes(Yes),
    Other(Box<Message>),
    Death,
}

/// One block on all these ranks, which vote *yes* and know on which nodes they are.
pub(crate) fn placed(ranks: u32, shape: Shape, cost: Cost) -> Outcome {
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / cost.node).collect();
    agree((ranks, 0), (shape, &Nodes::new(&nodes)), cost)
}

/// One block on all these ranks, which do not know on which nodes they are, and of which so many
/// are dead when the others vote *yes*.
pub(crate) fn commit(ranks: u32, deaths: u32, shape: Shape, cost: Cost) -> Outcome {
    agree((ranks, deaths), (shape, &Nodes::default()), cost)
}

fn agree((ranks, deaths): (u32, u32), (shape, nodes): (Shape, &Nodes), cost: Cost) -> Outcome {
    let mut network = Network::new(ranks, cost);
    let machine =
        |rank| Commit::new(COMM, Rank::new(rank), ranks).with_shape(shape).on_nodes(nodes);
    let mut machines: Vec<Commit> = (0..ranks).map(machine).collect();
    let dead = dead_ranks(ranks, deaths);
    let mut out = Vec::new();
    let mut undecided = ranks - deaths;
    for rank in (0..ranks).filter(|rank| !dead[*rank as usize]) {
        // The one message that a rank waits for without having sent any before.
        let extra = rank + (1 << ranks.ilog2());
        let waits = extra < ranks && Exchange::partners(extra, ranks, shape).eq([rank]);
        if waits && dead[extra as usize] {
            network.detect(rank, extra, Wire::Death);
        }
        machines[rank as usize].handle_vote(BLOCK, Vote::yes(0), &mut out);
        carry_out(rank, &mut out, &dead, &mut network, &mut undecided);
    }
    while let Some((rank, from, wire)) = network.take_next() {
        let machine = &mut machines[rank as usize];
        match wire {
            Wire::Yes(yes) => machine.handle_yes(Rank::new(from), yes, &mut out),
            Wire::Other(message) => machine.handle_message(Rank::new(from), *message, &mut out),
            Wire::Death => machine.handle_failure(Rank::new(from), &mut out),
        }
        carry_out(rank, &mut out, &dead, &mut network, &mut undecided);
    }
    assert_eq!(undecided, 0, "ranks wait for ever");
    network.outcome
}

/// So many ranks, spread evenly by a fixed rule over all of them.
fn dead_ranks(ranks: u32, deaths: u32) -> Vec<bool> {
    let mut dead = vec![false; ranks as usize];
    let mut at = 1_u64;
    for _ in 0..deaths {
        // The golden ratio spreads numbers evenly, and hits all kinds of places in a tree.
        at = (at + u64::from(ranks) * 618_034 / 1_000_000) % u64::from(ranks);
        while dead[at as usize] {
            at = (at + 1) % u64::from(ranks);
        }
        dead[at as usize] = true;
    }
    dead
}

fn carry_out(
    rank: u32,
    out: &mut Vec<Effect>,
    dead: &[bool],
    network: &mut Network<Wire>,
    undecided: &mut u32,
) {
    for effect in out.drain(..) {
        match effect {
            Effect::Send(to, message) => {
                let (bytes, wire) = match message {
                    Message::Yes(yes) => (codec::encode_yes(COMM, &yes).len(), Wire::Yes(yes)),
                    other => (codec::encode(COMM, &other).len(), Wire::Other(Box::new(other))),
                };
                if dead[to.index()] {
                    network.detect(rank, to.number(), Wire::Death);
                } else {
                    network.send(rank, to.number(), bytes, wire);
                }
            }
            Effect::Emit(Event::Decided(_)) => {
                *undecided -= 1;
                network.decided(rank);
            }
            Effect::Emit(_) => {}
        }
    }
}

/// An agreement as others do it, without deaths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A reduction up a binomial tree, then a broadcast down.
    Tree,
    /// All ranks tell rank 0, which tells all.
    Star,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree => "reduce-broadcast",
            Self::Star => "star",
        }
    }

    fn parent(self, rank: u32) -> Option<u32> {
        match self {
            _ if rank == 0 => None,
            Self::Tree => Some(rank & (rank - 1)),
            Self::Star => Some(0),
        }
    }

    fn children(self, rank: u32, ranks: u32) -> Vec<u32> {
        match self {
            Self::Star if rank == 0 => (1..ranks).collect(),
            Self::Star => Vec::new(),
            Self::Tree => {
                let below =
                    if rank == 0 { ranks.next_power_of_two() } else { rank & rank.wrapping_neg() };
                let bits = (0..below.ilog2()).rev().map(|bit| rank + (1 << bit));
                bits.filter(|child| *child < ranks).collect()
            }
        }
    }
}

/// One such agreement; its messages are as long as the commit's.
pub(crate) fn usual(kind: Kind, ranks: u32, cost: Cost) -> Outcome {
    let yes = Yes { block: BLOCK, step: 0, view: 0, floor: BLOCK };
    let bytes = codec::encode_yes(COMM, &yes).len();
    let mut network = Network::new(ranks, cost);
    let mut missing: Vec<u32> =
        (0..ranks).map(|rank| kind.children(rank, ranks).len() as u32).collect();
    for rank in (1..ranks).filter(|rank| missing[*rank as usize] == 0).collect::<Vec<_>>() {
        network.send(rank, kind.parent(rank).expect("not the root"), bytes, false);
    }
    while let Some((rank, _, decided)) = network.take_next() {
        let waits = &mut missing[rank as usize];
        let complete = if decided {
            true
        } else {
            *waits -= 1;
            *waits == 0 && rank == 0
        };
        if complete {
            network.decided(rank);
            for child in kind.children(rank, ranks) {
                network.send(rank, child, bytes, true);
            }
        } else if *waits == 0 {
            network.send(rank, kind.parent(rank).expect("not the root"), bytes, false);
        }
    }
    network.outcome
}
