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

const MOST: u32 = 1000;

/// Does the job so many times, at least once.
pub fn found(work: u16) -> Sum {
    (0..work.max(1)).fold(Sum::default(), |_, _| job())
}

fn job() -> Sum {
    // What comes out is known; that it is worked out is the point.
    let numbers = core::hint::black_box(2)..=MOST;
    let primes = numbers.filter(|it| (2..*it).take_while(|d| d * d <= *it).all(|d| it % d != 0));
    primes.fold(Sum::default(), |all, it| Sum { count: all.count + 1, sum: all.sum + it })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_168_primes_below_1000() {
        assert_eq!((found(0), found(3)), (RIGHT, RIGHT));
    }
}
