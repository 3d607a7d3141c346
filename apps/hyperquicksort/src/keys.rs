//! The keys: their types, and every input as a pure function of the place of a key.
//!
//! A key can be made again anywhere from its place and the seed, or be read again from a file that
//! all ranks can read: a list that is lost has an origin that is not.

use std::fmt::{self, Debug, Display};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use fampi::Element;
use harness::digest::mix;

/// The step of `SplitMix64`.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Into so many slices the staggered input is cut; it must not depend on the number of ranks.
const SLICES: u64 = 8;
/// So many keys are made or read at a time where they are only looked at.
pub const CHUNK: usize = 1 << 12;

/// A type of keys.
pub trait Key: Element + Ord + Default + Display + radsort::Key + mpi::traits::Equivalence {
    /// The bytes of a key in a file.
    const BYTES: usize;
    /// The key that a random word stands for: its highest bits, as a signed number.
    fn of_word(word: u64) -> Self;
    /// The key nearest to this number.
    fn nearest(number: i128) -> Self;
    /// The key as a number.
    fn number(self) -> i64;
    /// The key that [`Self::number`] gave.
    fn of_number(number: i64) -> Self;
    /// The keys that stand, little-endian, in these bytes.
    fn decode(bytes: &[u8], into: &mut [Self]);
    /// The bytes of these keys, little-endian.
    fn encode(keys: &[Self], into: &mut Vec<u8>);
}

macro_rules! keys {
    ($($key:ident)*) => { $(
        impl Key for $key {
            const BYTES: usize = size_of::<Self>();

            fn of_word(word: u64) -> Self {
                ((word as i64) >> (u64::BITS - Self::BITS)) as Self
            }

            fn nearest(number: i128) -> Self {
                number.clamp(Self::MIN.into(), Self::MAX.into()) as Self
            }

            fn number(self) -> i64 {
                self.into()
            }

            fn of_number(number: i64) -> Self {
                number as Self
            }

            fn decode(bytes: &[u8], into: &mut [Self]) {
                let (words, _) = bytes.as_chunks();
                let words = words.iter().map(|word| Self::from_le_bytes(*word));
                into.iter_mut().zip(words).for_each(|(key, word)| *key = word);
            }

            fn encode(keys: &[Self], into: &mut Vec<u8>) {
                into.extend(keys.iter().flat_map(|key| key.to_le_bytes()));
            }
        }
    )* };
}
keys!(i32 i64);

/// The bits of a key in digests and messages.
#[must_use]
pub fn bits(key: impl Key) -> u64 {
    key.number() as u64
}

/// How keys are distributed.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// Evenly over the whole type.
    #[default]
    Uniform,
    /// In ascending order: the place of the key.
    Sorted,
    /// In descending order.
    Reverse,
    /// All equal.
    Equal,
    /// Sixteen different ones.
    Few,
    /// Few are large: below 1/u lies a part of them that grows as u does.
    Zipf,
    /// Evenly within an eighth of the type for each eighth of the places, in a mixed order.
    Staggered,
    /// The contents of a file.
    File(PathBuf, Option<Arc<File>>),
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// The names of the inputs that need no file.
pub const NAMES: [(&str, Input); 7] = [
    ("uniform", Input::Uniform),
    ("sorted", Input::Sorted),
    ("reverse", Input::Reverse),
    ("equal", Input::Equal),
    ("few", Input::Few),
    ("zipf", Input::Zipf),
    ("staggered", Input::Staggered),
];

impl Input {
    /// The input of this name, or the file of this name, which is not opened yet.
    #[must_use]
    pub fn of(word: &str) -> Self {
        let known = NAMES.into_iter().find(|(name, _)| *name == word);
        known.map_or_else(|| Self::File(word.into(), None), |(_, input)| input)
    }
}

impl Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Uniform => "uniform",
            Self::Sorted => "sorted",
            Self::Reverse => "reverse",
            Self::Equal => "equal",
            Self::Few => "few",
            Self::Zipf => "zipf",
            Self::Staggered => "staggered",
            Self::File(path, _) => return write!(f, "{}", path.display()),
        };
        f.write_str(name)
    }
}

/// The keys to be sorted: how many of them, and what each of them is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    /// How many.
    pub count: u64,
    /// Which random numbers.
    pub seed: u64,
    /// How they are distributed.
    pub input: Input,
}

impl Keys {
    /// The places of the keys that part `part` of `parts` begins with.
    #[must_use]
    pub fn places(&self, part: u32, parts: u32) -> Range<u64> {
        let begin =
            |part: u32| (u128::from(part) * u128::from(self.count) / u128::from(parts)) as u64;
        begin(part)..begin(part + 1)
    }

    /// Makes the keys at the places from `first` on.
    ///
    /// # Errors
    /// [`io::Error`] if a file cannot be read.
    pub fn fill<K: Key>(&self, first: u64, keys: &mut [K]) -> io::Result<()> {
        if let Input::File(_, file) = &self.input {
            let file = file.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let mut bytes = vec![0; CHUNK.min(keys.len()) * K::BYTES];
            for (place, keys) in (first..).step_by(CHUNK).zip(keys.chunks_mut(CHUNK)) {
                let bytes = &mut bytes[..keys.len() * K::BYTES];
                file.read_exact_at(bytes, place * K::BYTES as u64)?;
                K::decode(bytes, keys);
            }
            return Ok(());
        }
        // A loop for each input, in which nothing is decided.
        let random = |place: u64| mix(self.seed.wrapping_add((place + 1).wrapping_mul(STEP)));
        let made = (first..).zip(keys);
        match self.input {
            Input::Uniform => made.for_each(|(place, key)| *key = K::of_word(random(place))),
            Input::Sorted => made.for_each(|(place, key)| *key = K::nearest(place.into())),
            Input::Reverse => {
                let last = i128::from(self.count) - 1;
                made.for_each(|(place, key)| *key = K::nearest(last - i128::from(place)));
            }
            Input::Equal => made.for_each(|(_, key)| *key = K::nearest(42)),
            Input::Few => {
                made.for_each(|(place, key)| *key = K::nearest((random(place) >> 60).into()));
            }
            Input::Zipf => made.for_each(|(place, key)| *key = zipf(random(place))),
            Input::Staggered => made.for_each(|(place, key)| {
                *key = self.staggered(place, random(place));
            }),
            Input::File(..) => {}
        }
        Ok(())
    }

    /// Shows the keys at these places, some at a time.
    ///
    /// # Errors
    /// [`io::Error`] if a file cannot be read.
    pub fn scan<K: Key>(&self, places: Range<u64>, mut see: impl FnMut(&[K])) -> io::Result<()> {
        let mut chunk = [K::default(); CHUNK];
        for first in places.clone().step_by(CHUNK) {
            let keys = &mut chunk[..CHUNK.min((places.end - first) as usize)];
            self.fill(first, keys)?;
            see(keys);
        }
        Ok(())
    }

    fn staggered<K: Key>(&self, place: u64, word: u64) -> K {
        // The last slice of places that does not begin behind this one.
        let slice = ((u128::from(place) + 1) * u128::from(SLICES) - 1) / u128::from(self.count);
        let slice = slice as u64;
        let values = if slice < SLICES / 2 { 2 * slice + 1 } else { 2 * slice - SLICES };
        let unsigned = values << (u64::BITS - SLICES.ilog2()) | word >> SLICES.ilog2();
        K::of_word(unsigned ^ 1 << 63)
    }
}

fn zipf<K: Key>(word: u64) -> K {
    let u = ((word >> 11) + 1) as f64 * 2_f64.powi(-53);
    K::nearest((1.0 / u) as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made<K: Key>(input: Input, count: u64, shown: usize) -> Vec<K> {
        let keys = Keys { count, seed: 1, input };
        let mut made = vec![K::default(); shown];
        keys.fill(0, &mut made).unwrap();
        made
    }

    #[test]
    fn the_first_keys_are_those_of_the_specification() {
        let first = [-1_861_603_860, -1_091_859_039, -124_542_226, 1_908_508_304];
        assert_eq!(made::<i32>(Input::Uniform, 4, 4), first);
        let wide = [-7_995_527_694_508_729_151, -4_689_498_862_643_123_097];
        assert_eq!(made::<i64>(Input::Uniform, 2, 2), wide);
        assert_eq!(made::<i32>(Input::Sorted, 3, 3), [0, 1, 2]);
        assert_eq!(made::<i64>(Input::Reverse, 3, 3), [2, 1, 0]);
        assert_eq!(made::<i32>(Input::Equal, 2, 2), [42; 2]);
        assert!(made::<i32>(Input::Few, 999, 999).iter().all(|key| (0..16).contains(key)));
    }

    #[test]
    fn a_key_does_not_depend_on_who_makes_it() {
        for (_, input) in NAMES {
            let whole = made::<i32>(input.clone(), 1000, 1000);
            let keys = Keys { count: 1000, seed: 1, input };
            for part in 0..7 {
                let places = keys.places(part, 7);
                let mut seen = Vec::new();
                keys.scan(places.clone(), |some: &[i32]| seen.extend_from_slice(some)).unwrap();
                assert_eq!(seen, whole[places.start as usize..places.end as usize]);
            }
        }
    }

    #[test]
    fn staggered_slices_come_odd_ones_first_and_are_disjoint() {
        let keys = made::<i64>(Input::Staggered, 80, 80);
        for (slice, keys) in [1_i128, 3, 5, 7, 0, 2, 4, 6].into_iter().zip(keys.chunks(10)) {
            let low = i128::from(i64::MIN) + (slice << 61);
            let inside = |key: &i64| (low..low + (1 << 61)).contains(&i128::from(*key));
            assert!(keys.iter().all(inside));
        }
    }

    #[test]
    fn half_of_the_zipf_keys_are_1_and_none_is_less() {
        let keys = made::<i32>(Input::Zipf, 10_000, 10_000);
        let ones = keys.iter().filter(|key| **key == 1).count();
        assert!(ones.abs_diff(5000) < 300 && keys.iter().all(|key| *key >= 1), "{ones}");
    }

    #[test]
    fn keys_go_through_bytes_unchanged() {
        let (keys, mut bytes) = ([i32::MIN, -1, 0, 7, i32::MAX], Vec::new());
        i32::encode(&keys, &mut bytes);
        let mut back = [0; 5];
        i32::decode(&bytes, &mut back);
        assert_eq!((back, bytes.len()), (keys, 20));
        assert!(keys.iter().all(|key| i32::of_number(key.number()) == *key));
    }
}
