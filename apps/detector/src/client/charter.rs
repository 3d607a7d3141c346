//! What registered ranks know of the observers and of each other, and what new ones are told.
//!
//! To the observers a process that was spawned takes the rank of a dead one of the launch, with an
//! incarnation that no process had: one more than any rank has heard of. All ranks hear of it
//! before the new process does, so what a failed attempt at a recovery has given is never given
//! again.
//!
//! ```text
//! charter = job · secret, 4 · number of nodes · node … · (rank · incarnation · MPI's name) …
//! ```
//!
//! all in words of 64 bits. Decoding is total: what is no charter is `None`.
//!
//! **Assumes** that these bytes travel through MPI, which is trusted with more than the secret.
//!
//! Reference: the epochs of Bland 2012 §III.A.

use std::collections::{BTreeMap, BTreeSet};

use super::Peer;
use crate::protocol::{Incarnation, Node, Process, Rank, envelope::Secret};

const WORD: usize = size_of::<u64>();
const SECRET_WORDS: usize = 4;
/// Words of a holder of a rank.
const HOLDER_WORDS: usize = 3;

/// The newest process that holds a rank, as far as is known here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Holder {
    incarnation: Incarnation,
    /// How MPI names it.
    name: u64,
}

/// What all registered ranks know.
#[derive(Clone, Debug)]
pub(super) struct Charter {
    /// A part of the names of the sockets.
    pub(super) job: u64,
    pub(super) secret: Secret,
    /// What the processes of a node say of it, by node.
    nodes: Vec<u64>,
    holders: BTreeMap<Rank, Holder>,
    /// The greatest incarnation that we have heard of.
    pub(super) newest: u32,
    /// MPI's names of those who were there when the last universe was made.
    present: BTreeSet<u64>,
}

impl Charter {
    /// That of a launch of these processes, by rank.
    pub(super) fn of_launch(
        job: u64,
        secret: [u64; SECRET_WORDS],
        nodes: Vec<u64>,
        peers: &[Peer],
    ) -> Self {
        let holder = |peer: &Peer| Holder { incarnation: Incarnation(0), name: peer.name };
        let holders = (0..).map(Rank).zip(peers.iter().map(holder)).collect();
        let present = peers.iter().map(|peer| peer.name).collect();
        Self { job, secret: secret_of(secret), nodes, holders, newest: 0, present }
    }

    /// How many opinions are on a board: of each rank of the launch and each node.
    pub(super) fn opinions(&self) -> u32 {
        (self.holders.len() + self.nodes.len()) as u32
    }

    /// How many nodes have observers.
    pub(super) fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Gives each of the new ones among the processes of a universe a rank whose holder is gone,
    /// those first who were there before.
    pub(super) fn admit(&mut self, peers: &[Peer], new: &[usize]) {
        let present: BTreeSet<u64> = peers.iter().map(|peer| peer.name).collect();
        let gone = self.holders.iter().filter(|(_, holder)| !present.contains(&holder.name));
        let mut vacant: Vec<(bool, Rank)> =
            gone.map(|(rank, holder)| (!self.present.contains(&holder.name), *rank)).collect();
        vacant.sort_unstable();
        let incarnation = Incarnation(self.newest);
        for ((_, rank), at) in vacant.into_iter().zip(new) {
            self.holders.insert(rank, Holder { incarnation, name: peers[*at].name });
        }
    }

    /// Takes over who holds which rank now.
    pub(super) fn learn(&mut self, other: &Self) {
        for (rank, holder) in &other.holders {
            let known = self.holders.entry(*rank).or_insert(*holder);
            if known.incarnation < holder.incarnation {
                *known = *holder;
            }
        }
    }

    /// Remembers who is there.
    pub(super) fn see(&mut self, peers: &[Peer]) {
        self.present = peers.iter().map(|peer| peer.name).collect();
    }

    /// How MPI names a process, if it is the newest of its rank.
    pub(super) fn name(&self, process: Process) -> Option<u64> {
        let holder = self.holders.get(&process.rank)?;
        (holder.incarnation == process.incarnation && holder.name != 0).then_some(holder.name)
    }

    /// Who has this name, to the observers.
    pub(super) fn process(&self, name: u64) -> Option<Process> {
        let (rank, holder) = self.holders.iter().find(|(_, holder)| holder.name == name)?;
        Some(Process { rank: *rank, incarnation: holder.incarnation })
    }

    /// The number of a node of which its processes say this.
    pub(super) fn node(&self, said: u64) -> Option<Node> {
        self.nodes.iter().position(|node| *node == said).map(|at| Node(at as u32))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut words = vec![self.job];
        let (secret, _) = self.secret.reveal().as_chunks::<WORD>();
        words.extend(secret.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        words.push(self.nodes.len() as u64);
        words.extend(&self.nodes);
        for (rank, Holder { incarnation, name }) in &self.holders {
            words.extend([rank.0.into(), incarnation.0.into(), *name]);
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The charter in these bytes, in which this is the greatest incarnation.
    pub(super) fn from_bytes(bytes: &[u8], newest: u32) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<WORD>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[job, a, b, c, d, count], words) = words.split_first_chunk()?;
        let (nodes, words) = words.split_at_checked(usize::try_from(count).ok()?)?;
        let (rows, more) = words.as_chunks::<HOLDER_WORDS>();
        if !rest.is_empty() || !more.is_empty() {
            return None;
        }
        let holder = |[rank, incarnation, name]: [u64; HOLDER_WORDS]| {
            let incarnation = Incarnation(incarnation.try_into().ok()?);
            Some((Rank(rank.try_into().ok()?), Holder { incarnation, name }))
        };
        let holders = rows.iter().map(|row| holder(*row)).collect::<Option<_>>()?;
        let (nodes, secret) = (nodes.to_vec(), secret_of([a, b, c, d]));
        Some(Self { job, secret, nodes, holders, newest, present: BTreeSet::new() })
    }
}

/// The secret in these words.
pub(super) fn secret_of(words: [u64; SECRET_WORDS]) -> Secret {
    let mut bytes = [0; SECRET_WORDS * WORD];
    for (to, word) in bytes.chunks_exact_mut(WORD).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Secret::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn processes(names: &[u64]) -> Vec<Peer> {
        names.iter().map(|name| Peer { node: 7 + name % 2, name: *name }).collect()
    }

    fn launch() -> Charter {
        Charter::of_launch(5, [1, 2, 3, 4], vec![7, 8], &processes(&[10, 11, 12, 13]))
    }

    fn of(rank: u32, incarnation: u32) -> Process {
        Process { rank: Rank(rank), incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn a_new_process_takes_the_rank_of_the_one_that_died_last_and_a_new_incarnation() {
        let mut charter = launch();
        // Rank 1 dies and a spare, rank 3, stands in for it; then ranks 2 and 0 die.
        charter.see(&processes(&[10, 12, 13]));
        let there = processes(&[13, 20, 21]);
        charter.newest = 1;
        charter.admit(&there, &[1, 2]);
        charter.see(&there);
        assert_eq!((charter.process(20), charter.process(21)), (Some(of(0, 1)), Some(of(2, 1))));
        assert_eq!((charter.name(of(0, 1)), charter.name(of(0, 0))), (Some(20), None));
        // This attempt fails, the next one begins with other processes.
        charter.newest = 2;
        charter.admit(&processes(&[13, 30, 31]), &[1, 2]);
        assert_eq!((charter.process(30), charter.process(31)), (Some(of(0, 2)), Some(of(2, 2))));
        assert_eq!(charter.process(20), None, "it is replaced, as all will hear");
    }

    #[test]
    fn who_was_told_knows_what_all_know() {
        let mut one = launch();
        let mut other = launch();
        one.newest = 3;
        one.admit(&processes(&[10, 11, 12, 40]), &[3]);
        let told = Charter::from_bytes(&one.to_bytes(), 3).expect("it was written so");
        assert_eq!(told.to_bytes(), one.to_bytes());
        assert_eq!((told.process(40), told.node(8)), (Some(of(3, 3)), Some(Node(1))));
        assert_eq!(told.node(9), None);
        other.learn(&told);
        assert_eq!(other.to_bytes(), one.to_bytes());
        other.learn(&launch());
        assert_eq!(other.to_bytes(), one.to_bytes(), "the past changes nothing");
    }

    #[test]
    fn what_is_no_charter_is_none() {
        let bytes = launch().to_bytes();
        // Words of whole holders may be missing at the end.
        let whole = |length: usize| (length / WORD).checked_sub(8).is_some_and(|it| it % 3 == 0);
        for length in (0..bytes.len()).filter(|length| length % WORD > 0 || !whole(*length)) {
            assert!(Charter::from_bytes(&bytes[..length], 0).is_none(), "{length}");
        }
        let mut endless = bytes.clone();
        endless[5 * WORD..6 * WORD].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Charter::from_bytes(&endless, 0).is_none());
    }

    proptest! {
        #[test]
        fn bytes_from_outside_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Charter::from_bytes(&bytes, 1);
        }
    }
}
