//! Calls that cannot be left in the middle: there are no contexts here.

/// Who may not die while a call is under way.
#[derive(Debug)]
pub(super) enum Mortals {
    /// These, by their names.
    Named(#[allow(dead_code, reason = "nothing is done about it here")] Vec<u64>),
}

/// Nothing can be mended.
pub(super) fn mend() -> Option<()> {
    None
}

/// What a call of MPI gives, however long it waits.
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can be left")]
pub(super) fn while_living<T: 'static>(
    _: Mortals,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    Some(call())
}
