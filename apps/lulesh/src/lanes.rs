//! One element, or two neighbours in x at once: the kernels are written once, for both.
//!
//! Each lane goes through the operations of the scalar kernel in the same order, so that an
//! element has the same bits whichever way it was computed.

use std::ops::{Add, Div, Mul, Neg, Sub};

use wide::{CmpLe, CmpLt, f64x2};

/// Numbers of neighbouring elements that go through the same operations.
pub trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// How many elements.
    const COUNT: usize;

    /// One number in all lanes.
    fn all(value: f64) -> Self;

    /// Consecutive numbers.
    fn load(from: &[f64], at: usize) -> Self;

    /// Writes consecutive numbers.
    fn store(self, to: &mut [f64], at: usize);

    /// The square root.
    #[must_use]
    fn sqrt(self) -> Self;

    /// The cube root.
    #[must_use]
    fn cbrt(self) -> Self;

    /// The larger one, `other` if this is not a number.
    #[must_use]
    fn larger(self, other: Self) -> Self;

    /// `then` where this is less than the bound.
    #[must_use]
    fn if_below(self, bound: Self, then: Self, otherwise: Self) -> Self;

    /// `then` where this is not greater than the bound.
    #[must_use]
    fn if_at_most(self, bound: Self, then: Self, otherwise: Self) -> Self;

    /// The absolute value.
    #[must_use]
    fn abs(self) -> Self;

    /// Whether all are greater than zero; what is not a number is not.
    fn are_positive(self) -> bool;
}

impl Lanes for f64 {
    const COUNT: usize = 1;

    #[inline(always)]
    fn all(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn load(from: &[f64], at: usize) -> Self {
        from[at]
    }

    #[inline(always)]
    fn store(self, to: &mut [f64], at: usize) {
        to[at] = self;
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn cbrt(self) -> Self {
        self.cbrt()
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    #[inline(always)]
    fn if_below(self, bound: Self, then: Self, otherwise: Self) -> Self {
        if self < bound { then } else { otherwise }
    }

    #[inline(always)]
    fn if_at_most(self, bound: Self, then: Self, otherwise: Self) -> Self {
        if self <= bound { then } else { otherwise }
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn are_positive(self) -> bool {
        self > 0.0
    }
}

impl Lanes for f64x2 {
    const COUNT: usize = 2;

    #[inline(always)]
    fn all(value: f64) -> Self {
        Self::splat(value)
    }

    #[inline(always)]
    fn load(from: &[f64], at: usize) -> Self {
        let pair = &from[at..at + 2];
        Self::new([pair[0], pair[1]])
    }

    #[inline(always)]
    fn store(self, to: &mut [f64], at: usize) {
        to[at..at + 2].copy_from_slice(&self.to_array());
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn cbrt(self) -> Self {
        Self::new(self.to_array().map(f64::cbrt))
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.fast_max(other)
    }

    #[inline(always)]
    fn if_below(self, bound: Self, then: Self, otherwise: Self) -> Self {
        self.cmp_lt(bound).blend(then, otherwise)
    }

    #[inline(always)]
    fn if_at_most(self, bound: Self, then: Self, otherwise: Self) -> Self {
        self.cmp_le(bound).blend(then, otherwise)
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn are_positive(self) -> bool {
        Self::ZERO.cmp_lt(self).all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [[f64; 2]; 5] =
        [[1.0, 2.0], [-3.0, 0.5], [0.0, -0.0], [1e-40, 1e300], [f64::NAN, 7.25]];

    #[test]
    fn both_lanes_have_the_bits_of_one_element_alone() {
        for one in SAMPLES {
            for other in SAMPLES {
                let pair = |f: &dyn Fn(f64, f64) -> f64| [f(one[0], other[0]), f(one[1], other[1])];
                let (a, b) = (f64x2::new(one), f64x2::new(other));
                for (lanes, scalars) in [
                    (a.larger(b), pair(&|a, b| Lanes::larger(a, b))),
                    (a.if_below(b, a, b + a), pair(&|a, b| a.if_below(b, a, b + a))),
                    (a.if_at_most(b, a, b - a), pair(&|a, b| a.if_at_most(b, a, b - a))),
                    (Lanes::cbrt(a), pair(&|a, _| Lanes::cbrt(a))),
                    (Lanes::sqrt(Lanes::abs(a)) / b, pair(&|a, b| a.abs().sqrt() / b)),
                ] {
                    for (lane, scalar) in lanes.to_array().into_iter().zip(scalars) {
                        let same = lane.to_bits() == scalar.to_bits();
                        assert!(same || lane.is_nan() && scalar.is_nan(), "{one:?} {other:?}");
                    }
                }
                let positive = one.iter().all(|value| *value > 0.0);
                assert_eq!(a.are_positive(), positive);
            }
        }
    }
}
