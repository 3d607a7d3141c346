//! Bugs on demand: a checker is trusted only after it has caught one.
//!
//! Without the feature `planted`, which only the crate's own tests switch on, [`planted`] is the
//! constant `false` and nothing of this is left in the machines. With it, one bug at a time can
//! be planted in the machines of the calling thread.

/// Declares the bugs and the list of all of them.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A way to get it wrong.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// Every bug that can be planted.
            #[cfg(feature = "planted")]
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

bugs! {
    /// An observer whose neighbour in the ring is lost observes nobody.
    LeaveTheRingOpen,
    /// News of a death are not passed on.
    KeepTheNews,
    /// Nobody minds that another observer knows more, or less.
    CompareNothing,
    /// The processes of a lost node are not reported with it.
    ForgetTheHosted,
    /// A node whose observer was replaced, or that was lost, is heard.
    HearTheDeadNode,
    /// Who is declared dead and lives is not told.
    SpareTheFenced,
    /// Two nodes that hold each other for dead both go.
    FallTogether,
    /// What is said of an older incarnation is believed.
    TakeOldIncarnations,
    /// A node that was lost comes back as it was.
    RaiseTheDead,
    /// A packet that was recorded and sent again is taken.
    TakeReplays,
    /// A packet is taken whoever has written it.
    TrustAnybody,
    /// A packet for another node, or for an older life of this one, is taken.
    TakeWhatIsForOthers,
}

#[cfg(feature = "planted")]
mod switch {
    extern crate std;
    use core::cell::Cell;

    use super::Bug;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the machines of this thread, or takes it out again.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// True when this bug is planted.
    #[inline]
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use switch::{plant, planted};

/// True when this bug is planted, which it never is without the feature.
#[cfg(not(feature = "planted"))]
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
