//! A registered rank: what it has read of the board of its node, and what it makes of it.

use std::{collections::BTreeSet, io::Read as _, os::unix::net::UnixStream, time::Duration};

use super::{Memory, Own, answers, charter::Charter, register, start};
use crate::protocol::{
    Cause, Host, Node, Process,
    board::{
        ENTRIES_AT, ENTRY_WORDS, Entry, Head, STALLS_AT, ZETA_AT, entry_at, opinion_at,
        opinion_of_word,
    },
    diagnosis::Opinion,
};

/// Looks between two questions whether the observer is still there.
const LOOKS: u32 = 4096;

/// A death that MPI is to be told of.
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// How MPI names the dead process.
    pub name: u64,
    /// What the board says of it.
    pub entry: Entry,
    /// When the observer wrote that, by the monotonic clock of the node.
    pub moment: Duration,
}

/// What the observer of a process has counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counts {
    /// Tests of this process.
    pub opinion: Opinion,
    /// ζ: so many tests in a row have to be passed by who was slow.
    pub zeta: u32,
    /// The number of its node among those that have observers, and how many these are.
    pub node: (u32, u32),
    /// Intervals in which the observer itself was kept from testing.
    pub stalls: u64,
}

/// This process is dead to all others, and has to stop.
#[derive(Clone, Copy, Debug)]
pub struct Outcast;

/// A rank that is registered.
#[derive(Debug)]
pub(super) struct Member<M> {
    me: Process,
    node: Node,
    pub(super) connection: UnixStream,
    board: M,
    room: u32,
    pub(super) charter: Charter,
    /// Entries of the board that were read.
    read: u32,
    /// Entries that the last look has read, each with its moment, which the next one tells.
    seen: Vec<(Entry, Duration)>,
    looks: u32,
    pub(super) is_closed: bool,
}

impl<M: Memory> Member<M> {
    pub(super) fn register(
        charter: Charter,
        node: Node,
        me: Process,
        own: &Own<'_>,
    ) -> Result<Self, String> {
        let socket = start::socket(charter.job, node)?;
        let opinions = charter.opinions();
        let registered = register::register(&socket, &charter.secret, me, opinions, own.pulse)?;
        let register::Registered { me, connection, board, room, questions } = registered;
        if let Some(Err(error)) = questions.map(|it| answers::answer(it, own.block_signals)) {
            tracing::warn!(%error, "no thread to answer tests: nobody sees if this rank is slow");
        }
        let (read, seen, looks, is_closed) = (0, Vec::new(), 0, false);
        Ok(Self { me, node, connection, board, room, charter, read, seen, looks, is_closed })
    }

    /// Others have entered; what was on the board before we knew them is read again.
    pub(super) fn learn(&mut self, charter: &Charter) {
        self.charter.learn(charter);
        self.read = 0;
    }

    /// What the observer has counted, for those who listen.
    pub(super) fn sum_up(&self) {
        let head = Head::from_words(&std::array::from_fn(|at| self.board.word(at)));
        let Some(head) = head else { return };
        let Head { entries, packets, clients, unsent, ghosts, failed_tests, stalls, .. } = head;
        let entry = |place: u32| Entry::from_words(self.words_of(place), place);
        let lost =
            (0..entries.min(self.room)).filter_map(entry).filter(|(entry, _)| entry.is_hard());
        let lost: BTreeSet<Host> = lost.map(|(entry, _)| entry.host).collect();
        tracing::info!(
            target: "fampi::metrics", rank = self.me.rank.0, entries,
            lost_nodes = lost.len(), refused_packets = packets.total(),
            refused_connections = clients.total(), unsent_packets = unsent, ghosts,
            failed_tests, stalls, "observer of this node"
        );
    }

    fn words_of(&self, place: u32) -> [u64; ENTRY_WORDS] {
        let at = entry_at(self.charter.opinions(), place);
        std::array::from_fn(|word| self.board.word(at + word))
    }

    /// Takes what is new on the board; what was so at the last look, about those that have a name.
    #[inline]
    pub(super) fn look(&mut self) -> Result<Vec<News>, Outcast> {
        let seen = std::mem::take(&mut self.seen);
        let entries = self.board.word(ENTRIES_AT) as u32;
        if entries != self.read {
            self.read_up_to(entries.min(self.room))?;
        }
        let named = |(entry, moment): (Entry, Duration)| {
            let name = self.charter.name(entry.process)?;
            Some(News { name, entry, moment })
        };
        Ok(seen.into_iter().filter_map(named).collect())
    }

    #[cold]
    fn read_up_to(&mut self, entries: u32) -> Result<(), Outcast> {
        while self.read < entries {
            // Not there yet, for us.
            let entry = Entry::from_words(self.words_of(self.read), self.read);
            let Some((entry, moment)) = entry else { break };
            self.read += 1;
            if entry.process == self.me {
                return Err(Outcast);
            }
            // Who left in order has sent what it had to.
            if entry.cause != Cause::Exit(0) {
                self.seen.push((entry, moment));
            }
        }
        Ok(())
    }

    /// What the observer has counted, if it tests anybody.
    pub(super) fn counts(&self) -> Option<Counts> {
        let zeta = self.board.word(ZETA_AT) as u32;
        let opinion = opinion_of_word(self.board.word(opinion_at(self.me.rank.0)));
        let stalls = self.board.word(STALLS_AT);
        let node = (self.node.0, self.charter.nodes());
        (zeta > 0).then_some(Counts { opinion, zeta, node, stalls })
    }

    /// What it has counted of the observer of another node.
    pub(super) fn opinion_of(&self, node: u32) -> Opinion {
        let at = self.charter.opinions() - self.charter.nodes() + node;
        if node >= self.charter.nodes() {
            return Opinion::default();
        }
        opinion_of_word(self.board.word(opinion_at(at)))
    }

    /// True when the observer has ended; asked now and then.
    pub(super) fn is_alone(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        // An observer says nothing after its welcome.
        self.looks.is_multiple_of(LOOKS) && matches!(self.connection.read(&mut [0]), Ok(0))
    }
}
