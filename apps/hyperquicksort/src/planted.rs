//! Bugs on demand: the tests are trusted only after they have caught them. The tests of this
//! package alone switch on the feature `planted`.

/// True when the bug of this name is planted, which it never is without the feature.
#[cfg(feature = "planted")]
pub(crate) fn is_planted(bug: &str) -> bool {
    fampi_planted::is_planted(bug)
}

/// True when the bug of this name is planted, which it never is without the feature.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is_planted(_: &str) -> bool {
    false
}
