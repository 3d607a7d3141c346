//! Bugs on demand: a checker is trusted only after it has caught one.
//!
//! What this crate asks for by name, its tests plant. Without the feature `planted`, which
//! `tests/checkers` alone switches on, `planted!` is the constant `false` and nothing of this is left.

/// True when the bug of this name is planted.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($bug:ident) => {
        fampi_planted::is_planted(stringify!($bug))
    };
}

/// True when the bug of this name is planted, which it never is without the feature.
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

pub(crate) use planted;
