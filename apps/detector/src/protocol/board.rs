//! The board: what an observer shows the processes of its own node, in words of shared memory.
//!
//! ```text
//! board = head, 24 words · opinions, a word each · entries, 5 words each, every one written once,
//!         in this order
//! head  = magic · entries · no room · registered · packets refused (6) · clients refused (6)
//!       · unsent · ghosts · fenced · failed tests · stalls
//!       · ζ · 0 (2)
//! opinion = fails, streak: first of the ranks of the launch, then of the nodes
//! entry = rank, incarnation · node, incarnation · cause, value · moment · check
//! ```
//!
//! Whether there is anything new is one word, the number of entries. An entry is believed when its
//! check fits what it says and where it stands: half of one, however that came to be, is none. So a
//! reader needs no promise about the order in which words become visible to it.
//!
//! An opinion is a word, which is written whole. Ranks of other nodes are not tested here, but the
//! observers of these are.
//!
//! The moment is that at which the observer wrote the entry, by the monotonic clock of the node: a
//! process sees by it for how long the news have been there.
//!
//! A death is soft or hard by its cause: hard is [`Cause::NodeLost`]. A process that finds its own
//! death here is dead to all others, and has to stop.
//!
//! Reference: the shared memory between a node's observer and its processes, Zhong 2019
//! §4.2.

use core::time::Duration;

use super::{
    Cause, Host, Incarnation, Node, Process, Rank,
    codec::{cause_bytes, cause_of},
    diagnosis::Opinion,
    envelope::Refusals,
    mix,
    registration::Rejections,
};

/// Words before the entries.
pub const HEAD_WORDS: usize = 24;
/// Words of an entry.
pub const ENTRY_WORDS: usize = 5;
/// The place of the number of entries in the head.
pub const ENTRIES_AT: usize = 1;
/// The place of the intervals in the head in which the observer was kept from testing.
pub const STALLS_AT: usize = 20;
/// The place of ζ in the head.
pub const ZETA_AT: usize = 21;
/// "fampi", and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"fampi\0\0\x03");

/// The words of a board with room for so many opinions and entries.
pub const fn words(opinions: u32, room: u32) -> usize {
    entry_at(opinions, room)
}

/// The word of the opinion of a rank of the launch, or, behind these, of a node.
pub const fn opinion_at(target: u32) -> usize {
    HEAD_WORDS + target as usize
}

/// The word at which an entry begins, behind so many opinions.
pub const fn entry_at(opinions: u32, place: u32) -> usize {
    opinion_at(opinions) + place as usize * ENTRY_WORDS
}

/// An opinion in a word.
pub const fn opinion_to_word(opinion: Opinion) -> u64 {
    pair(opinion.fails, opinion.streak)
}

/// The opinion in a word.
pub const fn opinion_of_word(word: u64) -> Opinion {
    let (fails, streak) = halves(word);
    Opinion { fails, streak }
}

/// One death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Entry {
    /// Who is dead.
    pub process: Process,
    /// Where it was, as far as that is known; else the observer that says so.
    pub host: Host,
    /// Why.
    pub cause: Cause,
}

impl Entry {
    /// True when the whole node is lost.
    pub fn is_hard(&self) -> bool {
        self.cause == Cause::NodeLost
    }

    /// The words of this entry at this place, the first of which is 0, written at this moment of
    /// the node's monotonic clock.
    pub fn to_words(&self, place: u32, moment: Duration) -> [u64; ENTRY_WORDS] {
        let [cause, value] = cause_bytes(self.cause);
        let words = [
            pair(self.process.rank.0, self.process.incarnation.0),
            pair(self.host.node.0, self.host.incarnation.0),
            u64::from(u16::from_le_bytes([cause, value])),
            u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX),
        ];
        let [who, place_of, why, when] = words;
        [who, place_of, why, when, check(words, place)]
    }

    /// The entry in the words at this place, and its moment, if they are one.
    pub fn from_words(words: [u64; ENTRY_WORDS], place: u32) -> Option<(Self, Duration)> {
        let [who, place_of, why, when, told] = words;
        if check([who, place_of, why, when], place) != told {
            return None;
        }
        let cause = cause_of(u16::try_from(why).ok()?.to_le_bytes())?;
        let ((rank, life), (node, node_life)) = (halves(who), halves(place_of));
        let process = Process { rank: Rank(rank), incarnation: Incarnation(life) };
        let host = Host { node: Node(node), incarnation: Incarnation(node_life) };
        Some((Self { process, host, cause }, Duration::from_nanos(when)))
    }
}

/// What stands before the entries: how many there are, and what was refused.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Head {
    /// Entries on the board.
    pub entries: u32,
    /// Deaths for which there was no room.
    pub no_room: u64,
    /// Living processes that the observer watches.
    pub registered: u64,
    /// Packets that were dropped.
    pub packets: Refusals,
    /// Connections that were ended.
    pub clients: Rejections,
    /// Packets that the system did not take; as good as lost on their way.
    pub unsent: u64,
    /// Packets of those who are dead to all.
    pub ghosts: u64,
    /// This node is dead to all others.
    pub fenced: bool,
    /// Tests that ranks of this node and other observers have failed.
    pub failed_tests: u64,
    /// Intervals in which the observer itself was kept from testing.
    pub stalls: u64,
    /// ζ: a process that passes so many tests in a row counts as well again; 0 if this observer
    /// tests no process.
    pub zeta: u32,
}

impl Head {
    /// The words of this head.
    pub fn to_words(&self) -> [u64; HEAD_WORDS] {
        let mut words = [0; HEAD_WORDS];
        words[0] = MAGIC;
        words[ENTRIES_AT] = u64::from(self.entries);
        words[2] = self.no_room;
        words[3] = self.registered;
        words[4..10].copy_from_slice(&self.packets.0);
        words[10..16].copy_from_slice(&self.clients.0);
        words[16] = self.unsent;
        words[17] = self.ghosts;
        words[18] = u64::from(self.fenced);
        words[19] = self.failed_tests;
        words[STALLS_AT] = self.stalls;
        words[ZETA_AT] = u64::from(self.zeta);
        words
    }

    /// The head in these words, if they are one of this version.
    pub fn from_words(words: &[u64; HEAD_WORDS]) -> Option<Self> {
        let six = |from: usize| core::array::from_fn(|at| words[from + at]);
        (words[0] == MAGIC).then(|| Self {
            entries: words[ENTRIES_AT] as u32,
            no_room: words[2],
            registered: words[3],
            packets: Refusals(six(4)),
            clients: Rejections(six(10)),
            unsent: words[16],
            ghosts: words[17],
            fenced: words[18] != 0,
            failed_tests: words[19],
            stalls: words[STALLS_AT],
            zeta: words[ZETA_AT] as u32,
        })
    }
}

fn check(words: [u64; ENTRY_WORDS - 1], place: u32) -> u64 {
    words.into_iter().fold(mix(u64::from(place) + 1), |digest, word| mix(digest ^ word))
}

/// Two numbers in a word.
pub(super) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The two numbers of a word.
pub(super) const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn cause() -> impl Strategy<Value = Cause> {
        prop_oneof![
            Just(Cause::Ended),
            any::<u8>().prop_map(Cause::Exit),
            any::<u8>().prop_map(Cause::Signal),
            Just(Cause::Hung),
            Just(Cause::Declared),
            Just(Cause::NodeLost),
            Just(Cause::Replaced),
        ]
    }

    proptest! {
        #[test]
        fn an_entry_is_read_as_written_at_its_place_alone(
            (rank, life, node, node_life) in any::<(u32, u32, u32, u32)>(),
            cause in cause(),
            place in 0_u32..1 << 30,
            moment in any::<u64>().prop_map(Duration::from_nanos),
        ) {
            let process = Process { rank: Rank(rank), incarnation: Incarnation(life) };
            let host = Host { node: Node(node), incarnation: Incarnation(node_life) };
            let entry = Entry { process, host, cause };
            let words = entry.to_words(place, moment);
            prop_assert_eq!(Entry::from_words(words, place), Some((entry, moment)));
            prop_assert_eq!(Entry::from_words(words, place + 1), None);
            prop_assert_eq!(entry.is_hard(), cause == Cause::NodeLost);
        }

        #[test]
        fn half_an_entry_is_none(
            rank in 1_u32.., at in 0_usize..ENTRY_WORDS, missing in 0_usize..8
        ) {
            let process = Process { rank: Rank(rank), incarnation: Incarnation(3) };
            let host = Host { node: Node(2), incarnation: Incarnation(1) };
            let entry = Entry { process, host, cause: Cause::Signal(9) };
            let told = Duration::from_nanos(0x0102_0304_0506_0708);
            let words = entry.to_words(5, told);
            let mut torn = words;
            let mut bytes = torn[at].to_le_bytes();
            bytes[missing] = 0;
            torn[at] = u64::from_le_bytes(bytes);
            let is_whole = torn == words;
            prop_assert_eq!(Entry::from_words(torn, 5), is_whole.then_some((entry, told)));
        }
    }

    #[test]
    fn empty_memory_holds_nothing() {
        assert!((0..1000).all(|place| Entry::from_words([0; ENTRY_WORDS], place).is_none()));
        assert_eq!(Head::from_words(&[0; HEAD_WORDS]), None);
    }

    #[test]
    fn opinions_stand_between_the_head_and_the_entries() {
        let opinion = Opinion { fails: 3, streak: u32::MAX };
        assert_eq!(opinion_of_word(opinion_to_word(opinion)), opinion);
        assert_eq!(opinion_of_word(0), Opinion::default());
        assert_eq!((opinion_at(0), opinion_at(9), entry_at(10, 0)), (24, 33, 34));
        assert_eq!((entry_at(10, 2), words(10, 2), words(0, 0)), (44, 44, 24));
    }

    #[test]
    fn a_head_is_read_as_written() {
        let head = Head {
            entries: 1,
            no_room: 2,
            registered: 3,
            packets: Refusals([4, 5, 6, 7, 8, 9]),
            clients: Rejections([10, 11, 12, 13, 14, 15]),
            unsent: 16,
            ghosts: 17,
            fenced: true,
            failed_tests: 19,
            stalls: 20,
            zeta: 21,
        };
        let words = head.to_words();
        assert_eq!(Head::from_words(&words), Some(head));
        assert_eq!(words[1..18], (1..18).collect::<Vec<u64>>());
        assert_eq!(words[18..], [1, 19, 20, 21, 0, 0]);
    }
}
