//! How far from the median of some measurements the true one may be.

/// Places, among so many sorted numbers, between which the median of what they are drawn from is
/// with 95 % certainty: 0.98 √n to both sides of the middle.
pub(crate) fn around_median(count: usize) -> (usize, usize) {
    let (middle, reach) = (count as f64 / 2.0, 0.98 * (count as f64).sqrt());
    let last = count.saturating_sub(1);
    ((middle - reach).max(0.0) as usize, ((middle + reach) as usize).min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_it_is_the_fifth_of_them_in_the_middle_and_of_one_it_is_that() {
        assert_eq!((around_median(100), around_median(1)), ((40, 59), (0, 0)));
    }
}
