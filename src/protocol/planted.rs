//! Bugs on demand: a checker is trusted only after it has caught one.
//!
//! The tests plant the bugs that this crate asks for by name. The package of `tests/checkers` alone
//! switches on the feature `planted`; without it, `planted!` is the constant `false`, and no bug is
//! left in the program.

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
