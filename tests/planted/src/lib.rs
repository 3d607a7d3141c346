//! Bugs on demand: a checker is trusted only after it has caught one.
//!
//! One bug at a time can be planted in what the calling thread runs. The code that has the bug asks
//! for it by name; which names there are is said by the tests that plant them. What users build
//! does not depend on this crate: see `src/protocol/planted.rs`.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Plants a bug in this thread, or takes it out again.
pub fn plant(bug: Option<&'static str>) {
    PLANTED.set(bug);
}

/// True when the bug of this name is planted.
#[inline]
pub fn is_planted(bug: &str) -> bool {
    PLANTED.get().is_some_and(|planted| planted == bug)
}

/// Declares bugs, the list of all of them, and how one is planted.
#[macro_export]
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A way to get it wrong.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// Every bug, with its name in the code that has it.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name))),*];
        }

        /// Plants a bug in the machines of this thread, or takes it out again.
        pub fn plant(bug: Option<Bug>) {
            $crate::plant(bug.map(|bug| Bug::ALL[bug as usize].1));
        }
    };
}
