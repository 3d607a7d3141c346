//! The view: what an observer shows a person of all that it knows, in words of memory of its own.
//!
//! ```text
//! view = head, 8 words · nodes, 9 words each · ranks of the launch, 4 words each
//! head = magic · nodes, ranks · node, incarnation · period · timeout · watched · refused
//!      · fenced, ζ
//! node = incarnation, lost · asked · heard · name (4) · asked since heard · opinion
//! rank = incarnation, node · state · page, still · opinion
//! ```
//!
//! No process of the job looks at it: what these have to know is on the [board](super::board). A
//! record is written when it changes, and whoever looks in that moment sees half of it, once.
//! Moments are those of the machine's monotonic clock. A page is the observer's descriptor of the
//! memory in which a rank shows its [pulse](super::pulse), plus 1: whoever looks finds it there.

use alloc::string::String;
use core::time::Duration;

use super::{
    Cause, Host, Incarnation, Node,
    board::{halves, opinion_of_word, opinion_to_word, pair},
    codec::{cause_bytes, cause_of},
    diagnosis::Opinion,
};

/// Words of the head.
pub const HEAD_WORDS: usize = 8;
/// Words of a node.
pub const NODE_WORDS: usize = 9;
/// Words of a rank.
pub const RANK_WORDS: usize = 4;
/// Bytes of the name of a node, of which the rest is not shown.
pub const NAME_BYTES: usize = 32;
/// "fampi", a letter, and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"fampi\0v\x03");

const ALIVE: u64 = 0;
const WATCHED: u64 = 1;
const DEAD: u64 = 2;

/// The word at which a node begins.
pub const fn node_at(node: Node) -> usize {
    HEAD_WORDS + NODE_WORDS * node.0 as usize
}

/// The word at which a rank of the launch begins, behind so many nodes.
pub const fn rank_at(nodes: u32, rank: u32) -> usize {
    node_at(Node(nodes)) + RANK_WORDS * rank as usize
}

/// What stands before the nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Head {
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks of the launch.
    pub ranks: u32,
    /// Whose view this is.
    pub me: Host,
    /// δ, between two heartbeats.
    pub period: Duration,
    /// η, of silence.
    pub timeout: Duration,
    /// Living processes that are watched here.
    pub watched: u64,
    /// Packets and connections that were refused.
    pub refused: u64,
    /// This node is dead to all others.
    pub fenced: bool,
    /// ζ: a process that passes so many tests in a row counts as well again; 0 if this observer
    /// tests no process.
    pub zeta: u32,
}

/// One node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeView {
    /// Which of its observers was heard of last.
    pub incarnation: Incarnation,
    /// That one is lost.
    pub lost: bool,
    /// How often it was asked for a sign of life.
    pub asked: u64,
    /// So many times since something came from it: it is suspected.
    pub asked_in_vain: u64,
    /// When something came from it last; nothing comes from most nodes of a large job.
    pub heard: Option<Duration>,
    /// Its name, at most [`NAME_BYTES`].
    pub name: String,
    /// What tests of its observer have come to.
    pub opinion: Opinion,
}

/// How a rank of the launch is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Nothing else is known.
    Alive,
    /// Alive, and watched here: the process with this number.
    Watched(u32),
    /// Dead.
    Dead(Cause),
}

/// Who holds a rank of the launch.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RankView {
    /// Which process of those that held it.
    pub incarnation: Incarnation,
    /// Where.
    pub node: Node,
    /// How it is.
    pub state: State,
    /// The observer's descriptor of the memory that shows its progress.
    pub page: Option<u32>,
    /// Looks in a row without progress, of [`LOOKS`](super::pulse::LOOKS): it is suspected.
    pub still: u32,
    /// What tests have come to, of one that is watched here.
    pub opinion: Opinion,
}

impl Head {
    /// Words of the whole view.
    pub const fn words(&self) -> usize {
        rank_at(self.nodes, self.ranks)
    }

    /// The words of this head.
    pub fn to_words(&self) -> [u64; HEAD_WORDS] {
        [
            MAGIC,
            pair(self.nodes, self.ranks),
            pair(self.me.node.0, self.me.incarnation.0),
            self.period.as_micros() as u64,
            self.timeout.as_micros() as u64,
            self.watched,
            self.refused,
            pair(u32::from(self.fenced), self.zeta),
        ]
    }

    /// The head in these words, if they are one of this version.
    pub fn from_words(words: [u64; HEAD_WORDS]) -> Option<Self> {
        let [magic, counts, me, period, timeout, watched, refused, last] = words;
        let ((nodes, ranks), (node, life)) = (halves(counts), halves(me));
        let (fenced, zeta) = halves(last);
        (magic == MAGIC).then(|| Self {
            nodes,
            ranks,
            me: Host { node: Node(node), incarnation: Incarnation(life) },
            period: Duration::from_micros(period),
            timeout: Duration::from_micros(timeout),
            watched,
            refused,
            fenced: fenced != 0,
            zeta,
        })
    }
}

impl NodeView {
    /// The words of this node.
    pub fn to_words(&self) -> [u64; NODE_WORDS] {
        let mut name = [0; NAME_BYTES];
        // A letter is shown whole or not at all.
        let shown = (0..=NAME_BYTES).rev().find(|end| self.name.get(..*end).is_some());
        let shown = &self.name.as_bytes()[..shown.unwrap_or(0)];
        name[..shown.len()].copy_from_slice(shown);
        let heard = self.heard.map_or(0, |heard| heard.as_nanos() as u64);
        let mut words = [0; NODE_WORDS];
        words[..3].copy_from_slice(&[
            pair(self.incarnation.0, u32::from(self.lost)),
            self.asked,
            heard,
        ]);
        for (word, bytes) in words[3..].iter_mut().zip(name.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words[NODE_WORDS - 2] = self.asked_in_vain;
        words[NODE_WORDS - 1] = opinion_to_word(self.opinion);
        words
    }

    /// The node in these words.
    pub fn from_words(words: [u64; NODE_WORDS]) -> Self {
        let [life, asked, heard, name @ .., asked_in_vain, opinion] = words;
        let (incarnation, lost) = halves(life);
        let heard = (heard != 0).then(|| Duration::from_nanos(heard));
        let bytes: [[u8; 8]; NAME_BYTES / 8] = name.map(u64::to_le_bytes);
        let name = String::from_utf8_lossy(bytes.as_flattened());
        let name = name.trim_end_matches('\0').into();
        let (incarnation, lost) = (Incarnation(incarnation), lost != 0);
        let opinion = opinion_of_word(opinion);
        Self { incarnation, lost, asked, asked_in_vain, heard, name, opinion }
    }
}

impl RankView {
    /// The words of this rank.
    pub fn to_words(&self) -> [u64; RANK_WORDS] {
        let state = match self.state {
            State::Alive => ALIVE,
            State::Watched(process) => WATCHED | u64::from(process) << 32,
            State::Dead(cause) => DEAD | u64::from(u16::from_le_bytes(cause_bytes(cause))) << 32,
        };
        let page = self.page.map_or(0, |page| page + 1);
        let progress = pair(page, self.still);
        [pair(self.incarnation.0, self.node.0), state, progress, opinion_to_word(self.opinion)]
    }

    /// The rank in these words, if they are one.
    pub fn from_words([life, state, progress, opinion]: [u64; RANK_WORDS]) -> Option<Self> {
        let ((incarnation, node), (kind, value)) = (halves(life), halves(state));
        let (page, still) = halves(progress);
        let state = match u64::from(kind) {
            ALIVE => State::Alive,
            WATCHED => State::Watched(value),
            DEAD => State::Dead(cause_of(u16::try_from(value).ok()?.to_le_bytes())?),
            _ => return None,
        };
        let (incarnation, node) = (Incarnation(incarnation), Node(node));
        let (page, opinion) = (page.checked_sub(1), opinion_of_word(opinion));
        Some(Self { incarnation, node, state, page, still, opinion })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_read_as_written() {
        let head = Head {
            nodes: 3,
            ranks: 70_000,
            me: Host { node: Node(2), incarnation: Incarnation(1) },
            period: Duration::from_millis(10),
            timeout: Duration::from_secs(1),
            watched: 5,
            refused: 6,
            fenced: true,
            zeta: 5,
        };
        assert_eq!(Head::from_words(head.to_words()), Some(head));
        assert_eq!(head.words(), 8 + 3 * 9 + 4 * 70_000);
        assert_eq!(Head::from_words([0; HEAD_WORDS]), None);
    }

    #[test]
    fn a_rank_is_read_as_written() {
        let states = [
            State::Alive,
            State::Watched(u32::MAX),
            State::Dead(Cause::Signal(255)),
            State::Dead(Cause::Replaced),
        ];
        for state in states {
            for (page, still) in [(None, 0), (Some(0), 3), (Some(4711), 8)] {
                let (incarnation, node) = (Incarnation(7), Node(1 << 20));
                let opinion = Opinion { fails: still, streak: 7 };
                let rank = RankView { incarnation, node, state, page, still, opinion };
                assert_eq!(RankView::from_words(rank.to_words()), Some(rank));
            }
        }
        assert_eq!(RankView::from_words([0, 3, 0, 0]), None);
        assert_eq!(RankView::from_words([0, DEAD, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn a_node_is_read_as_written_but_for_the_end_of_a_long_name(
            (life, lost, asked, vain, heard) in any::<(u32, bool, u64, u64, u32)>(),
            name in "[a-zö-]{0,40}",
        ) {
            let heard = (heard != 0).then(|| Duration::from_nanos(heard.into()));
            let (incarnation, asked_in_vain) = (Incarnation(life), vain);
            let opinion = Opinion { fails: life, streak: 3 };
            let node = NodeView { incarnation, lost, asked, asked_in_vain, heard, name, opinion };
            let read = NodeView::from_words(node.to_words());
            prop_assert!(node.name.starts_with(&read.name));
            prop_assert!(read.name == node.name || read.name.len() > NAME_BYTES - 2);
            prop_assert_eq!(NodeView { name: node.name.clone(), ..read }, node);
        }

        #[test]
        fn words_from_outside_never_panic(words in any::<[u64; NODE_WORDS]>()) {
            let _ = NodeView::from_words(words);
            let _ = words.first_chunk().copied().and_then(Head::from_words);
            let _ = words.first_chunk().copied().and_then(RankView::from_words);
        }
    }
}
