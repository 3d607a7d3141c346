//! Checkpoints: the states of all ranks after a step, in an archive that outlives the job.
//!
//! Each rank saves the state that the last commit has made valid, so what a checkpoint holds was
//! agreed upon before it is written, and a set of files is one state of the whole job as soon as
//! each rank's file is there. A set is named by the launch of the job and the step: launches are
//! counted, so that a job that was started again from a set and dies, too, leaves newer ones. Only
//! when a further commit has shown that a set is complete are those before it removed.
//!
//! ```text
//!   FORMAT, launch, steps, ranks, rank, states ( number, version, type, bytes, content )*, CRC-32
//! ```
//!
//! Numbers are little-endian, contents are as this kind of machine has them.
//!
//! **Guarantees.** What is cut short, was changed, or belongs to another version, rank, size or
//! step is no checkpoint; a state comes back in whole from one set.

use alloc::{format, string::String, vec::Vec};

use crate::{
    engine::{Copies, Known, Slot},
    seam::buffer::AnyBuffer,
};

/// What a file begins with; another form will have another number.
const FORMAT: &[u8] = b"fampi checkpoint 1\n";

/// Which set a file belongs to: a newer one is greater.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Set {
    /// Which start of the job has saved it, from 1.
    pub(crate) launch: u64,
    /// One more than the steps that lead to it.
    pub(crate) protected: u64,
}

/// Whose part of a set a file is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) set: Set,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

impl Part {
    /// The name of its file.
    pub(crate) fn name(self) -> String {
        let Self { set: Set { launch, protected }, rank, ranks } = self;
        format!("fampi-{launch:06}-{:010}-{rank}-of-{ranks}.ckpt", protected.saturating_sub(1))
    }

    /// The part whose file has this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let words: Vec<&str> = name.strip_suffix(".ckpt")?.split('-').collect();
        let &["fampi", launch, steps, rank, "of", ranks] = &*words else { return None };
        let steps: u64 = steps.parse().ok()?;
        let set = Set { launch: launch.parse().ok()?, protected: steps.checked_add(1)? };
        let part = Self { set, rank: rank.parse().ok()?, ranks: ranks.parse().ok()? };
        (part.rank < part.ranks).then_some(part)
    }

    fn words(self) -> [u64; 4] {
        let Self { set: Set { launch, protected }, rank, ranks } = self;
        [launch, protected, rank.into(), ranks.into()]
    }

    /// The content of its file: the states of this process. Nothing if there is none, or one does
    /// not consist of numbers.
    pub(crate) fn encode(self, copies: &Copies) -> Option<Vec<u8>> {
        let mut content = FORMAT.to_vec();
        let put = |content: &mut Vec<u8>, word: u64| content.extend(word.to_le_bytes());
        for word in self.words().into_iter().chain([copies.slots.len() as u64]) {
            put(&mut content, word);
        }
        for slot in &copies.slots {
            let (kind, bytes) = slot.own.as_ref()?.bytes()?;
            let numbers = [slot.number.into(), slot.known.version, kind.into(), bytes.len() as u64];
            for word in numbers {
                put(&mut content, word);
            }
            content.extend(bytes);
        }
        let sum = crc32fast::hash(&content);
        content.extend(sum.to_le_bytes());
        (!copies.slots.is_empty()).then_some(content)
    }

    /// The states in a file that is to be this part; nothing if it is not, or is damaged.
    pub(crate) fn decode(self, content: &[u8]) -> Option<Copies> {
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
            let length = word(&mut rest)? as usize;
            let (bytes, others) = rest.split_at_checked(length)?;
            rest = others;
            let own = AnyBuffer::of_bytes(kind, bytes)?;
            let own_elements = own.elements();
            let known = Known { version, whole: true, own_elements, ..Known::default() };
            copies.slots.push(Slot { number, known, own: Some(own), ..Slot::default() });
        }
        rest.is_empty().then_some(copies)
    }
}

/// Takes a number off the front.
fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const PART: Part = Part { set: Set { launch: 3, protected: 41 }, rank: 2, ranks: 4 };

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

    #[test]
    fn a_name_tells_the_part() {
        assert_eq!(PART.name(), "fampi-000003-0000000040-2-of-4.ckpt");
        assert_eq!(Part::named(&PART.name()), Some(PART));
        for other in [
            "",
            "fampi.ckpt",
            "fampi-1-2-3-of-4.ckpt.part",
            "fampi-1-x-3-of-4.ckpt",
            "fampi-1-2-0-of-0.ckpt",
        ] {
            assert_eq!(Part::named(other), None);
        }
        let newer = Set { launch: 4, protected: 2 };
        assert!(newer > PART.set, "a later launch began from an earlier set");
    }

    #[test]
    fn states_come_back_from_a_file_with_their_types_and_versions() {
        let content = PART.encode(&copies()).unwrap();
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
        let content = PART.encode(&copies()).unwrap();
        assert!(PART.decode(&content).is_some());
        for length in 0..content.len() {
            assert!(PART.decode(&content[..length]).is_none(), "cut after {length} bytes");
        }
        for bit in 0..8 * content.len() {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(PART.decode(&flipped).is_none(), "bit {bit} flipped");
        }
        let set = Set { launch: 4, ..PART.set };
        for other in [Part { set, ..PART }, Part { rank: 1, ..PART }, Part { ranks: 5, ..PART }] {
            assert!(other.decode(&content).is_none());
        }
    }

    #[test]
    fn without_states_of_numbers_there_is_no_checkpoint() {
        assert!(PART.encode(&Copies::default()).is_none());
        let mut copies = copies();
        copies.slot(7).own = None;
        assert!(PART.encode(&copies).is_none());
    }
}
