//! Fused reductions: a few numbers that ride on the votes of a block, and their combination.
//!
//! Intuition: the exchange of the fast path already brings something of every rank to every rank;
//! numbers that come along are reduced for nothing.
//!
//! ```text
//! values of positions   a b c d e        (core 4, e folds in)
//! combined              ((a∘e)∘b)∘(c∘d)
//! ```
//!
//! **Guarantees.** Whichever rank combines, and on whatever path, the result has the same bits:
//! each operation commutes bit for bit (of floats: there is one NaN, and −0 is less than +0), and
//! the grouping is the one tree of [`combined`], which the exchange of [`super::exchange`] follows.
//!
//! **Assumes** processors that agree on IEEE 754 arithmetic.

use core::hash::{Hash, Hasher};

use super::planted::planted;
use crate::ids::mix;

/// The most numbers in one fused reduction.
pub const MAX_VALUES: usize = 8;

/// Gives variants their numbers on the wire.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name {
            $($(#[$what])* $variant,)*
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),*];

            /// The variant with this number.
            #[inline]
            pub(crate) fn numbered(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    };
}

numbered! {
    /// The predefined reductions (MPI 4.1 §6.9.2). `And` and `Or` work on the bits of integers.
    ReduceOp {
        /// `MPI_SUM`
        Sum,
        /// `MPI_PROD`
        Product,
        /// `MPI_MIN`
        Min,
        /// `MPI_MAX`
        Max,
        /// `MPI_BAND`
        And,
        /// `MPI_BOR`
        Or,
    }
}

numbered! {
    /// The type of the numbers of a fused reduction.
    Kind {
        /// `i8`
        I8,
        /// `i16`
        I16,
        /// `i32`
        I32,
        /// `i64`
        I64,
        /// `u8`
        U8,
        /// `u16`
        U16,
        /// `u32`
        U32,
        /// `u64`
        U64,
        /// `f32`
        F32,
        /// `f64`
        F64,
    }
}

/// A number that can ride on a commit.
pub trait Fusible: Copy + 'static {
    /// Its type.
    const KIND: Kind;
    /// Its bits, in a word.
    fn to_word(self) -> u64;
    /// The number with these bits.
    fn from_word(word: u64) -> Self;
    /// True when the operation is defined for this type (bit operations are not, for floats).
    fn fuses(op: ReduceOp) -> bool;
    /// One step of the reduction; commutes bit for bit. Of two floats one of which is no number,
    /// `Min` and `Max` give the other.
    #[must_use]
    fn fuse(self, other: Self, op: ReduceOp) -> Self;
}

macro_rules! integers {
    ($($number:ty = $kind:ident)*) => {$(
        impl Fusible for $number {
            const KIND: Kind = Kind::$kind;

            #[inline]
            #[allow(clippy::cast_lossless, clippy::cast_sign_loss, clippy::unnecessary_cast)]
            fn to_word(self) -> u64 {
                self as u64
            }

            #[inline]
            #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)]
            fn from_word(word: u64) -> Self {
                word as Self
            }

            fn fuses(_: ReduceOp) -> bool {
                true
            }

            #[inline]
            fn fuse(self, other: Self, op: ReduceOp) -> Self {
                match op {
                    ReduceOp::Sum => self.wrapping_add(other),
                    ReduceOp::Product => self.wrapping_mul(other),
                    ReduceOp::Min => self.min(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::And => self & other,
                    ReduceOp::Or => self | other,
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ty = $kind:ident of $bits:ty)*) => {$(
        impl Fusible for $number {
            const KIND: Kind = Kind::$kind;

            #[inline]
            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }

            #[inline]
            #[allow(clippy::unnecessary_cast)]
            fn from_word(word: u64) -> Self {
                Self::from_bits(word as $bits)
            }

            fn fuses(op: ReduceOp) -> bool {
                !matches!(op, ReduceOp::And | ReduceOp::Or)
            }

            #[inline]
            fn fuse(self, other: Self, op: ReduceOp) -> Self {
                let less = self.total_cmp(&other).is_lt();
                let result = match op {
                    ReduceOp::Sum => self + other,
                    ReduceOp::Product => self * other,
                    _ if self.is_nan() => other,
                    _ if other.is_nan() => self,
                    ReduceOp::Min if less => self,
                    ReduceOp::Max if !less => self,
                    _ => other,
                };
                if result.is_nan() { Self::NAN } else { result }
            }
        }
    )*};
}

integers!(i8 = I8 i16 = I16 i32 = I32 i64 = I64 u8 = U8 u16 = U16 u32 = U32 u64 = U64);
floats!(f32 = F32 of u32 f64 = F64 of u64);

/// What a rank, or several, bring to a fused reduction: one part, or some that are not combined
/// yet (see [`super::parts`]).
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// See [`Self::header`]; a whole word, since what was written in parts is slow to be copied.
    header: u64,
    words: [u64; MAX_VALUES],
}

/// Where in a header there is how many parts are more than one.
const MORE_PARTS: u32 = 24;

impl Values {
    /// Numbers to be reduced by this operation; nothing when it is not defined for them, or when
    /// there are none or more than [`MAX_VALUES`].
    #[inline]
    pub fn new<T: Fusible>(op: ReduceOp, numbers: &[T]) -> Option<Self> {
        if !T::fuses(op) || !(1..=MAX_VALUES).contains(&numbers.len()) {
            return None;
        }
        let mut words = [0; MAX_VALUES];
        words.iter_mut().zip(numbers).for_each(|(word, number)| *word = number.to_word());
        let header = u32::from_le_bytes([numbers.len() as u8, T::KIND as u8, op as u8, 0]);
        Some(Self { header: u64::from(header), words })
    }

    /// The values with this header and these words, if it is one.
    #[inline]
    pub fn from_words(header: u32, words: [u64; MAX_VALUES]) -> Option<Self> {
        words_of(header).map(|_| Self { header: u64::from(header), words })
    }

    /// Several parts, each of the shape of the first, in their order.
    ///
    /// # Panics
    ///
    /// When they do not fit, or there is none.
    pub(super) fn of_parts(parts: &[Self]) -> Self {
        let (shape, count) = (parts[0].shape(), parts[0].count());
        let mut words = [0; MAX_VALUES];
        for (place, part) in words.chunks_exact_mut(count).zip(parts) {
            place.copy_from_slice(&part.words[..count]);
        }
        assert!(parts.len() * count <= MAX_VALUES, "the parts fit");
        Self { header: u64::from(shape) | (parts.len() as u64 - 1) << MORE_PARTS, words }
    }

    /// The parts, in their order.
    pub(super) fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        self.words().chunks_exact(self.count()).map(|part| {
            let mut words = [0; MAX_VALUES];
            words[..part.len()].copy_from_slice(part);
            Self { header: u64::from(self.shape()), words }
        })
    }

    /// What must be the same on all ranks, below 2²⁴: operation, type, how many. Never 0.
    #[inline]
    pub const fn shape(&self) -> u32 {
        self.header as u32 & ((1 << MORE_PARTS) - 1)
    }

    /// What tells how many words there are: the shape, and the number of parts.
    #[inline]
    pub const fn header(&self) -> u32 {
        self.header as u32
    }

    /// True when the bits of the result depend on the order in which values are combined.
    #[inline]
    pub(super) fn is_ordered(&self) -> bool {
        read_shape(self.header()).is_some_and(|(_, kind, op)| {
            matches!(kind, Kind::F32 | Kind::F64) && matches!(op, ReduceOp::Sum | ReduceOp::Product)
        })
    }

    /// How many numbers a part has.
    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.header as usize & 0xff
    }

    /// The bits of the numbers of all parts, a word for each.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.count() * (1 + (self.header >> MORE_PARTS) as usize)]
    }

    /// The numbers.
    pub fn numbers<T: Fusible, const N: usize>(&self) -> Option<[T; N]> {
        let [count, kind, ..] = self.shape().to_le_bytes();
        let fits = kind == T::KIND as u8 && usize::from(count) == N;
        fits.then(|| core::array::from_fn(|at| T::from_word(self.words[at])))
    }

    /// The difference that values of this shape make to the fingerprint of a view, so that votes
    /// with different shapes, or without values, are never combined.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        if planted!(MixShapes) { 0 } else { mix(1 << 63 | u64::from(self.shape())) }
    }

    /// Reduces with values of the same shape.
    #[inline]
    pub fn combine(&mut self, other: &Self) {
        debug_assert_eq!(self.shape(), other.shape(), "the view names the shape");
        let Some((_, kind, op)) = read_shape(self.header()) else { return };
        match kind {
            Kind::I8 => self.fuse::<i8>(other, op),
            Kind::I16 => self.fuse::<i16>(other, op),
            Kind::I32 => self.fuse::<i32>(other, op),
            Kind::I64 => self.fuse::<i64>(other, op),
            Kind::U8 => self.fuse::<u8>(other, op),
            Kind::U16 => self.fuse::<u16>(other, op),
            Kind::U32 => self.fuse::<u32>(other, op),
            Kind::U64 => self.fuse::<u64>(other, op),
            Kind::F32 => self.fuse::<f32>(other, op),
            Kind::F64 => self.fuse::<f64>(other, op),
        }
    }

    #[inline]
    fn fuse<T: Fusible>(&mut self, other: &Self, op: ReduceOp) {
        let count = self.count();
        for (mine, theirs) in self.words[..count].iter_mut().zip(&other.words) {
            *mine = T::from_word(*mine).fuse(T::from_word(*theirs), op).to_word();
        }
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header && self.words() == other.words()
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.header, self.words()).hash(state);
    }
}

/// A place for values, or nothing. A single number goes there by its word: what was written in
/// words just before holds up the processor when it is copied as a whole.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Held(Values);

impl Held {
    /// Nothing.
    pub const NOTHING: Self = Self(Values { header: 0, words: [0; MAX_VALUES] });

    /// Holds these values, and shows them.
    #[inline]
    pub fn set(&mut self, values: &Values) -> &Values {
        if let [word] = values.words() {
            self.0.words[0] = *word;
            self.0.header = values.header;
        } else {
            self.0 = *values;
        }
        &self.0
    }

    /// Holds values with this header, whose words `fill` writes; nothing if it is none.
    #[inline]
    pub fn fill(&mut self, header: u32, fill: impl FnOnce(&mut [u64])) {
        self.clear();
        if let Some(count) = words_of(header) {
            fill(&mut self.0.words[..count]);
            self.0.header = u64::from(header);
        }
    }

    /// Holds nothing.
    #[inline]
    pub fn clear(&mut self) {
        self.0.header = 0;
    }

    /// The values.
    #[inline]
    pub const fn get(&self) -> Option<&Values> {
        if self.0.header == 0 { None } else { Some(&self.0) }
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut Values> {
        (self.0.header != 0).then_some(&mut self.0)
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// How many words values with this header have, if it is one.
#[inline]
pub(super) fn words_of(header: u32) -> Option<usize> {
    let (count, kind, op) = read_shape(header)?;
    let bits = matches!(op, ReduceOp::And | ReduceOp::Or);
    let defined = !(bits && matches!(kind, Kind::F32 | Kind::F64));
    let words = count * (1 + (header >> MORE_PARTS) as usize);
    (defined && (1..=MAX_VALUES).contains(&words)).then_some(words)
}

/// What a header says of each part: how many numbers, of which type, and the operation.
#[inline]
fn read_shape(header: u32) -> Option<(usize, Kind, ReduceOp)> {
    let [count, kind, op, _] = header.to_le_bytes();
    Some((usize::from(count), Kind::numbered(kind)?, ReduceOp::numbered(op)?))
}

/// Combines all values, given in the order of the positions of a view, in the order in which the
/// fast path does it; they are used up. Nothing if there are none.
pub fn combined(mut all: impl AsMut<[Values]>) -> Option<Values> {
    let all = all.as_mut();
    let mut width = 1 << all.len().checked_ilog2()?;
    let (core, extra) = all.split_at_mut(width);
    core.iter_mut().zip(extra).for_each(|(one, extra)| one.combine(extra));
    while width > 1 {
        width /= 2;
        for at in 0..width {
            let (mut both, right) = (core[2 * at], core[2 * at + 1]);
            both.combine(&right);
            core[at] = both;
        }
    }
    Some(core[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn values<T: Fusible>(op: ReduceOp, numbers: &[T]) -> Values {
        Values::new(op, numbers).expect("defined")
    }

    #[test]
    fn each_operation_does_what_it_says() {
        let reduce = |op| {
            let all = [[3_i32, -5], [4, 6], [7, 1]].map(|numbers| values(op, &numbers));
            combined(all).and_then(|all| all.numbers::<i32, 2>()).expect("two numbers")
        };
        assert_eq!(reduce(ReduceOp::Sum), [14, 2]);
        assert_eq!(reduce(ReduceOp::Product), [84, -30]);
        assert_eq!(reduce(ReduceOp::Min), [3, -5]);
        assert_eq!(reduce(ReduceOp::Max), [7, 6]);
        assert_eq!(reduce(ReduceOp::And), [0, -5 & 6 & 1]);
        assert_eq!(reduce(ReduceOp::Or), [3 | 4 | 7, -5 | 6 | 1]);
    }

    #[test]
    fn the_grouping_is_a_tree_with_the_last_ones_folded_in_first() {
        let [a, b, c, d, e] = [1e16, 1.0, -1e16, 3.0, 1.0];
        let all = [a, b, c, d, e].map(|number| values(ReduceOp::Sum, &[number]));
        let sum = combined(all).and_then(|sum| sum.numbers::<f64, 1>());
        assert_eq!(sum, Some([((a + e) + b) + (c + d)]));
        assert_eq!(combined([]), None);
    }

    #[test]
    fn what_is_not_defined_is_refused() {
        assert_eq!(Values::new(ReduceOp::And, &[1.0_f64]), None);
        assert_eq!(Values::new::<u8>(ReduceOp::Sum, &[]), None);
        assert_eq!(Values::new(ReduceOp::Sum, &[0_u8; 9]), None);
        let three = values(ReduceOp::Max, &[1_u8, 2, 3]);
        assert_eq!(three.numbers::<u8, 2>(), None);
        assert_eq!(three.numbers::<i8, 3>(), None);
    }

    #[test]
    fn shapes_survive_the_wire_and_differ() {
        let mut seen = Vec::new();
        for shape in 0..1 << 20 {
            if let Some(values) = Values::from_words(shape, [0; MAX_VALUES]) {
                assert_eq!(values.shape(), shape);
                seen.push(values.fingerprint());
            }
        }
        let total = seen.len();
        assert_eq!(total, (8 * 6 + 2 * 4) * MAX_VALUES);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), total);
    }

    proptest! {
        #[test]
        fn floats_commute_bit_for_bit(one in any::<u64>(), other in any::<u64>(), op in 0_u8..4) {
            let op = ReduceOp::numbered(op).expect("four of them");
            let [nan, infinity] = [f64::NAN, f64::INFINITY].map(f64::to_bits);
            for special in [one, 0, 1 << 63, nan, u64::MAX, infinity] {
                let [a, b] = [special, other].map(f64::from_bits);
                prop_assert_eq!(a.fuse(b, op).to_bits(), b.fuse(a, op).to_bits());
                let [a, b] = [special as u32, other as u32].map(f32::from_bits);
                prop_assert_eq!(a.fuse(b, op).to_bits(), b.fuse(a, op).to_bits());
            }
        }
    }
}
