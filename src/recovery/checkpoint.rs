//! Checkpoints: the states of all ranks after a step, in an archive that outlives the job.
//!
//! Each rank saves the state that the last commit has made valid, so what a checkpoint holds was
//! agreed upon before it is written, and a set of files is one state of the whole job as soon as
//! each rank's part is there. A set is named by the launch of the job and the step: launches are
//! counted, so that a job that was started again from a set and dies, too, leaves newer ones; so
//! are the times that a job goes back to a set without ending. Only when all ranks have said
//! that their parts are saved are the sets before it removed.
//!
//! ```text
//!   part   FORMAT, launch, steps, ranks, rank,
//!          states ( number, version, type, bytes, stored, width, content )*, CRC-32
//!   file   part                                              of one rank
//!          ( offset, length )*, parts in any order           of several ranks, in their order
//! ```
//!
//! Numbers are little-endian, contents are as this kind of machine has them. A content with a width
//! other than 0 is an LZ4 frame of its bytes, of which the first of each `width` bytes come first,
//! then the second ones, and so on: signs and exponents of numbers that are alike repeat
//! themselves.
//!
//! **Guarantees.** What is cut short, was changed, or belongs to another version, rank, size or
//! step is no checkpoint; a state comes back in whole from one set.

use alloc::{borrow::Cow, format, string::String, vec, vec::Vec};
use core::ops::Range;
use std::io::{self, Read as _, Write as _};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use crate::{
    engine::{Copies, Known, Slot},
    seam::{archive::Archive, buffer::AnyBuffer},
};

/// What a part begins with; another form will have another number.
const FORMAT: &[u8] = b"fampi checkpoint 3\n";

/// How the name of a file ends that is there, and of one that is being written.
const ENDING: &str = ".ckpt";
const UNFINISHED: &str = ".part";

/// The bytes of an offset and a length.
const ENTRY: u64 = 16;

/// Which set a file belongs to: a newer one is greater.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Set {
    /// Which start of the job has saved it, from 1.
    pub(crate) launch: u64,
    /// One more than the steps that lead to it.
    pub(crate) protected: u64,
}

/// A file: the parts of ranks that follow each other. Files are in the order of their sets.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct File {
    pub(crate) set: Set,
    /// Of how many ranks the set is.
    pub(crate) ranks: u32,
    /// The ranks whose parts it holds.
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Whose part of a set a content is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) set: Set,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

impl File {
    /// Its name.
    pub(crate) fn name(self) -> String {
        let Self { set: Set { launch, protected }, ranks, first, last } = self;
        let steps = protected.saturating_sub(1);
        let parts = if first == last { format!("{first}") } else { format!("{first}-to-{last}") };
        format!("fampi-{launch:06}-{steps:010}-{parts}-of-{ranks}{ENDING}")
    }

    /// Its name while it is written: another one in each attempt, since who was taken for dead in
    /// an earlier one may still write.
    pub(crate) fn name_aside(self, attempt: &str) -> String {
        format!("{}.{attempt}{UNFINISHED}", self.name())
    }

    /// The file that has this name, and whether it is still aside.
    pub(crate) fn named(name: &str) -> Option<(Self, bool)> {
        let (name, is_aside) = match name.strip_suffix(UNFINISHED) {
            Some(aside) => (aside.rsplit_once('.')?.0, true),
            None => (name, false),
        };
        let words: Vec<&str> = name.strip_suffix(ENDING)?.split('-').collect();
        let (launch, steps, first, last, ranks) = match *words {
            ["fampi", launch, steps, rank, "of", ranks] => (launch, steps, rank, rank, ranks),
            ["fampi", launch, steps, first, "to", last, "of", ranks] => {
                (launch, steps, first, last, ranks)
            }
            _ => return None,
        };
        let steps: u64 = steps.parse().ok()?;
        let set = Set { launch: launch.parse().ok()?, protected: steps.checked_add(1)? };
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let file = Self { set, ranks: ranks.parse().ok()?, first, last };
        (first <= last && last < file.ranks).then_some((file, is_aside))
    }

    /// True if it holds this part.
    pub(crate) fn holds(self, part: Part) -> bool {
        let Self { set, ranks, first, last } = self;
        (set, ranks) == (part.set, part.ranks) && (first..=last).contains(&part.rank)
    }

    /// Writes the content of a rank's part aside. `lengths` are those of the contents of all ranks.
    pub(crate) fn put(
        self,
        archive: &mut dyn Archive,
        aside: &str,
        rank: u32,
        content: &[u8],
        lengths: &[u64],
    ) -> io::Result<()> {
        let lengths_until = |rank: u32| &lengths[self.first as usize..rank as usize];
        let offset = |rank: u32| self.index() + lengths_until(rank).iter().sum::<u64>();
        let (begin, bytes) = (offset(rank), offset(self.last + 1));
        let entry = [begin, content.len() as u64].map(u64::to_le_bytes).concat();
        let all = [(ENTRY * u64::from(rank - self.first), &entry[..]), (begin, content)];
        let pieces = if self.index() == 0 { &all[1..] } else { &all[..] };
        archive.put(aside, bytes, pieces)
    }

    /// Looks whether a rank sees its part, of this length, under the name that another one gave.
    pub(crate) fn look(self, archive: &mut dyn Archive, rank: u32, length: u64) -> io::Result<()> {
        let not_seen = || {
            io::Error::other(
                "ranks of several nodes write one file, and not all of them see it: name a folder \
                 that all nodes share, or let ranks of a node share files",
            )
        };
        let has_its_length = |place: Range<u64>| place.end - place.start == length;
        let is_seen = self.index() == 0 || self.place(archive, rank).is_ok_and(has_its_length);
        if is_seen { Ok(()) } else { Err(not_seen()) }
    }

    /// Where the part of a rank is said to lie.
    fn place(self, archive: &mut dyn Archive, rank: u32) -> io::Result<Range<u64>> {
        if self.index() == 0 {
            return Ok(0..u64::MAX);
        }
        let at = ENTRY * u64::from(rank - self.first);
        let entry = archive.load(&self.name(), at..at + ENTRY)?;
        let mut rest = &entry[..];
        let found = word(&mut rest).zip(word(&mut rest));
        let (begin, length) = found.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(begin..begin.saturating_add(length))
    }

    /// The states of a rank's part, if it is there and undamaged.
    pub(crate) fn load(self, archive: &mut dyn Archive, part: Part) -> Option<Copies> {
        let place = self.place(archive, part.rank).ok()?;
        part.decode(&archive.load(&self.name(), place).ok()?)
    }

    /// The bytes before the parts.
    fn index(self) -> u64 {
        if self.first == self.last { 0 } else { ENTRY * u64::from(self.last - self.first + 1) }
    }
}

impl Part {
    fn words(self) -> [u64; 4] {
        let Self { set: Set { launch, protected }, rank, ranks } = self;
        [launch, protected, rank.into(), ranks.into()]
    }

    /// Its content: these states of this process. There is at least one, and each consists of
    /// numbers.
    pub(crate) fn encode(self, slots: &[&Slot], compressed: bool) -> io::Result<Vec<u8>> {
        if slots.is_empty() {
            return Err(io::Error::other("nothing is protected"));
        }
        let mut content = FORMAT.to_vec();
        let put = |content: &mut Vec<u8>, word: u64| content.extend(word.to_le_bytes());
        for word in self.words().into_iter().chain([slots.len() as u64]) {
            put(&mut content, word);
        }
        for slot in slots {
            let numbers = slot.own.as_ref().and_then(AnyBuffer::bytes);
            let not_numbers = || io::Error::other("its states are not all numbers");
            let (kind, bytes) = numbers.ok_or_else(not_numbers)?;
            let elements = slot.own.as_ref().map_or(0, AnyBuffer::elements);
            let (width, stored) =
                if compressed { compress(bytes, elements) } else { (0, Cow::Borrowed(bytes)) };
            let sizes = [bytes.len() as u64, stored.len() as u64, width as u64];
            let numbers = [slot.number.into(), slot.known.version, kind.into()];
            for word in numbers.into_iter().chain(sizes) {
                put(&mut content, word);
            }
            content.extend(&*stored);
        }
        let sum = crc32fast::hash(&content);
        content.extend(sum.to_le_bytes());
        Ok(content)
    }

    /// The states in a content that is to be of this part; nothing if it is not, or is damaged.
    fn decode(self, content: &[u8]) -> Option<Copies> {
        let (content, sum) = content.split_last_chunk()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = content.strip_prefix(FORMAT)?;
        for expected in self.words() {
            (word(&mut rest)? == expected).then_some(())?;
        }
        let mut copies = Copies::default();
        for _ in 0..word(&mut rest)? {
            let number = u32::try_from(word(&mut rest)?).ok()?;
            let (version, kind) = (word(&mut rest)?, u8::try_from(word(&mut rest)?).ok()?);
            let (bytes, stored, width) =
                (word(&mut rest)?, word(&mut rest)?, word(&mut rest)? as usize);
            let (content, others) = rest.split_at_checked(stored as usize)?;
            rest = others;
            let content = match width {
                0 => Cow::Borrowed(Some(content).filter(|_| stored == bytes)?),
                width => Cow::Owned(decompress(content, bytes, width)?),
            };
            let own = AnyBuffer::of_bytes(kind, &content)?;
            let own_elements = own.elements();
            let known = Known { version, whole: true, own_elements, ..Known::default() };
            copies.slots.push(Slot { number, known, own: Some(own), ..Slot::default() });
        }
        rest.is_empty().then_some(copies)
    }
}

/// The same bytes, of so many elements, in fewer, if that is possible, and the width by which they
/// were put in order; 0 if it is not possible.
fn compress(bytes: &[u8], elements: usize) -> (usize, Cow<'_, [u8]>) {
    /// What bytes of unknown meaning may be.
    const USUAL: usize = size_of::<f64>();
    let widths = match bytes.len().checked_div(elements) {
        Some(1) if bytes.len().is_multiple_of(USUAL) => &[1, USUAL][..],
        Some(width) => &[width],
        None => &[],
    };
    let frames = widths.iter().filter_map(|&width| {
        let mut frame = FrameEncoder::new(Vec::new());
        // A vector takes all that is written to it.
        frame.write_all(&by_place(bytes, width)).ok()?;
        Some((width, frame.finish().ok()?))
    });
    let best = frames.min_by_key(|(_, frame)| frame.len());
    let best = best.filter(|(_, frame)| frame.len() < bytes.len());
    best.map_or((0, Cow::Borrowed(bytes)), |(width, frame)| (width, Cow::Owned(frame)))
}

/// So many bytes that were compressed; nothing if there are more or fewer.
fn decompress(frame: &[u8], bytes: u64, width: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    FrameDecoder::new(frame).take(bytes.saturating_add(1)).read_to_end(&mut content).ok()?;
    let is_whole = content.len() as u64 == bytes && content.len().is_multiple_of(width);
    // In as many columns as there are elements they come back to their places.
    is_whole.then(|| by_place(&content, content.len() / width))
}

/// The first of each `width` bytes, then the second ones, and so on.
fn by_place(bytes: &[u8], width: usize) -> Vec<u8> {
    let rows = bytes.len().checked_div(width).unwrap_or(0);
    let mut ordered = vec![0; bytes.len()];
    for (row, all) in bytes.chunks_exact(width.max(1)).enumerate() {
        for (place, byte) in all.iter().enumerate() {
            ordered[place * rows + row] = *byte;
        }
    }
    ordered
}

/// Takes a number off the front.
fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(u64::from_le_bytes(*word))
}

/// The ranks that follow each other around a rank and are on its node; it alone where nodes are
/// unknown.
pub(crate) fn neighbours(rank: u32, nodes: &[u32]) -> Range<u32> {
    let node = nodes.get(rank as usize);
    let same = |other: &u32| nodes.get(*other as usize) == node;
    let first = (0..rank).rev().take_while(same).last().filter(|_| node.is_some());
    let last = (rank..nodes.len() as u32).take_while(same).last();
    let (first, last) = (first.unwrap_or(rank), last.unwrap_or(rank));
    first..last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Set = Set { launch: 3, protected: 41 };
    const PART: Part = Part { set: SET, rank: 2, ranks: 4 };

    fn copies() -> Copies {
        let mut copies = Copies::default();
        *copies.slot(0) = Slot {
            known: Known { version: 9, own_elements: 2, ..Known::default() },
            own: Some(AnyBuffer::of(vec![1.5_f64, -0.0])),
            ..Slot::default()
        };
        copies.slot(7).own = Some(AnyBuffer::of(vec![-1_i16, 2, 3]));
        copies
    }

    fn encode(copies: &Copies, compressed: bool) -> io::Result<Vec<u8>> {
        PART.encode(&copies.slots.iter().collect::<Vec<_>>(), compressed)
    }

    #[test]
    fn a_name_tells_the_set_and_the_parts() {
        let one = File { set: SET, ranks: 4, first: 2, last: 2 };
        let three = File { last: 3, first: 1, ..one };
        assert_eq!(one.name(), "fampi-000003-0000000040-2-of-4.ckpt");
        assert_eq!(three.name(), "fampi-000003-0000000040-1-to-3-of-4.ckpt");
        for file in [one, three] {
            assert_eq!(File::named(&file.name()), Some((file, false)));
            assert_eq!(File::named(&file.name_aside("2-70")), Some((file, true)));
        }
        assert!(one.holds(PART) && three.holds(PART));
        assert!(!three.holds(Part { rank: 0, ..PART }) && !three.holds(Part { ranks: 5, ..PART }));
        for other in [
            "",
            "fampi.ckpt",
            "fampi-1-2-3-of-4.ckpt.part",
            "fampi-1-x-3-of-4.ckpt",
            "fampi-1-2-0-of-0.ckpt",
            "fampi-1-2-3-to-2-of-4.ckpt",
            "fampi-1-2-3-to-4-of-4.ckpt",
        ] {
            assert_eq!(File::named(other), None, "{other}");
        }
        let newer = Set { launch: 4, protected: 2 };
        assert!(newer > SET, "a later launch began from an earlier set");
    }

    #[test]
    fn ranks_that_follow_each_other_on_a_node_share_a_file() {
        let nodes = [5, 5, 7, 5, 7, 7];
        let found: Vec<_> = (0..6).map(|rank| neighbours(rank, &nodes)).collect();
        assert_eq!(found, [0..2, 0..2, 2..3, 3..4, 4..6, 4..6]);
        assert_eq!(neighbours(3, &[]), 3..4);
    }

    #[test]
    fn states_come_back_from_a_file_with_their_types_and_versions() {
        for compressed in [false, true] {
            let content = encode(&copies(), compressed).unwrap();
            let mut found = PART.decode(&content).unwrap();
            assert_eq!(found.slots.len(), 2);
            let slot = found.slot(0);
            let Known { version, own_elements, whole, .. } = slot.known;
            assert_eq!((version, own_elements, whole), (9, 2, true));
            let own: Vec<f64> = slot.own.take().and_then(AnyBuffer::into_vec).unwrap();
            assert_eq!(own.map_bits(), vec![1.5_f64, -0.0].map_bits());
            let own: Vec<i16> = found.slot(7).own.take().and_then(AnyBuffer::into_vec).unwrap();
            assert_eq!(own, [-1, 2, 3]);
        }
    }

    #[test]
    fn numbers_that_are_alike_take_less_room_whatever_they_are_taken_for() {
        let numbers: Vec<f64> = (0..1 << 14).map(|at| f64::from(at).sqrt()).collect();
        let bytes = AnyBuffer::of(numbers.clone()).bytes().map(|(_, bytes)| bytes.to_vec());
        let odd: Vec<u8> = (0..=254).collect();
        for own in [AnyBuffer::of(numbers), AnyBuffer::of(bytes.unwrap()), AnyBuffer::of(odd)] {
            let mut copies = Copies::default();
            let before = own.bytes().map(|(_, bytes)| bytes.to_vec()).unwrap();
            copies.slot(0).own = Some(own);
            let content = encode(&copies, true).unwrap();
            let least = if before.len() > 255 { before.len() / 10 * 9 } else { 400 };
            assert!(content.len() < least, "{} of {}", content.len(), before.len());
            let found = PART.decode(&content).unwrap();
            assert_eq!(found.slots[0].own.as_ref().unwrap().bytes().unwrap().1, before);
        }
        let bytes: Vec<u8> = (0..24).collect();
        for width in [1, 2, 3, 4, 8, 24] {
            assert_eq!(by_place(&by_place(&bytes, width), 24 / width), bytes, "{width}");
        }
        assert_eq!(by_place(b"abcabc", 3), b"aabbcc");
    }

    #[test]
    fn what_repeats_itself_takes_less_room_and_what_does_not_no_more() {
        let mut copies = Copies::default();
        copies.slot(0).own = Some(AnyBuffer::of(vec![7_u64; 1 << 16]));
        let mut random = 1_u64;
        let numbers = (0..1 << 16).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random ^ random >> 31
        });
        copies.slot(1).own = Some(AnyBuffer::of(numbers.collect::<Vec<u64>>()));
        let content = encode(&copies, true).unwrap();
        assert!((1 << 19..(1 << 19) + (1 << 14)).contains(&content.len()), "{}", content.len());
        let found = PART.decode(&content).unwrap();
        let same = |number: usize| {
            let bytes =
                |copies: &Copies| Some(copies.slots[number].own.as_ref()?.bytes()?.1.to_vec());
            bytes(&found) == bytes(&copies)
        };
        assert!([0, 1].iter().all(|number| same(*number)));
    }

    trait Bits {
        fn map_bits(&self) -> Vec<u64>;
    }

    impl Bits for Vec<f64> {
        fn map_bits(&self) -> Vec<u64> {
            self.iter().map(|number| number.to_bits()).collect()
        }
    }

    #[test]
    fn what_is_damaged_or_of_another_part_is_no_checkpoint() {
        let mut copies = copies();
        copies.slot(8).own = Some(AnyBuffer::of(vec![3_u32; 100]));
        for content in [false, true].map(|compressed| encode(&copies, compressed).unwrap()) {
            assert!(PART.decode(&content).is_some());
            for length in 0..content.len() {
                assert!(PART.decode(&content[..length]).is_none(), "cut after {length} bytes");
            }
            for bit in 0..8 * content.len() {
                let mut flipped = content.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(PART.decode(&flipped).is_none(), "bit {bit} flipped");
            }
        }
        let content = encode(&copies, false).unwrap();
        let set = Set { launch: 4, ..PART.set };
        for other in [Part { set, ..PART }, Part { rank: 1, ..PART }, Part { ranks: 5, ..PART }] {
            assert!(other.decode(&content).is_none());
        }
    }

    #[test]
    fn without_states_of_numbers_there_is_no_checkpoint() {
        assert!(encode(&Copies::default(), false).is_err());
        let mut copies = copies();
        copies.slot(7).own = None;
        assert!(encode(&copies, true).is_err());
    }
}
