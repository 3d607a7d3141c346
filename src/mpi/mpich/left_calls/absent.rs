//! Calls that cannot be left in the middle: there are no contexts here.

/// Nothing can be mended.
pub(super) fn mend() -> Option<()> {
    None
}

/// What a call of MPI gives, however long it waits.
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can be left")]
pub(super) fn while_living<T: 'static>(
    _: Vec<u64>,
    call: impl FnOnce() -> T + 'static,
) -> Option<T> {
    Some(call())
}
