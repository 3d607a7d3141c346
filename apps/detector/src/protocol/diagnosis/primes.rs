//! The job of a test: the primes between 1 and 1000, how many there are and what they sum up to.

/// What comes out of it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Sum {
    /// How many.
    pub count: u16,
    /// Their sum.
    pub sum: u32,
}

/// The right answer.
pub const RIGHT: Sum = Sum { count: 168, sum: 76_127 };

const MOST: usize = 1000;

/// Does the job so many times, at least once.
pub fn found(work: u16) -> Sum {
    (0..work.max(1)).fold(Sum::default(), |_, _| job())
}

/// By the sieve of Eratosthenes, which takes one or two microseconds: more would tell no more, as
/// no threshold is below two milliseconds, and ranks pay for it in every interval.
fn job() -> Sum {
    let mut crossed_out = [false; MOST + 1];
    let mut all = Sum::default();
    // What comes out is known; that it is worked out is the point.
    for number in core::hint::black_box(2)..=MOST {
        if !crossed_out[number] {
            all = Sum { count: all.count + 1, sum: all.sum + number as u32 };
            (number * number..=MOST).step_by(number).for_each(|it| crossed_out[it] = true);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_168_primes_below_1000() {
        assert_eq!((found(0), found(3)), (RIGHT, RIGHT));
    }
}
