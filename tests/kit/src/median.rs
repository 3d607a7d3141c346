//! The median of measurements.

/// The value in the middle of some values, which are not none and can be compared: the upper one
/// of two.
///
/// # Panics
/// If there is no value, or one that is not a number.
pub fn median<T: Copy + PartialOrd>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|one, other| one.partial_cmp(other).expect("numbers"));
    sorted[sorted.len() / 2]
}
