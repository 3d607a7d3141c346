//! Whether all of those who are waited for will come, when one of them has died.
//!
//! MPI may have made a communicator on some ranks only when a process dies meanwhile. Those that
//! have it wait for the others to take it into use, which may do something else by then.

use std::time::{Duration, Instant};

/// How long those who live are waited for after a death.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is asked who is dead.
const LOOKS: Duration = Duration::from_millis(10);

/// A wait.
#[derive(Default)]
pub(crate) struct Wait {
    /// When a death was found.
    since: Option<Instant>,
    /// When it was last asked for.
    looked: Option<Instant>,
}

impl Wait {
    /// True when somebody has been dead for so long that the others may not come any more.
    pub(crate) fn may_be_in_vain(&mut self, has_died: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        if let Some(since) = self.since {
            return now >= since + PATIENCE;
        }
        if self.looked.is_none_or(|looked| now >= looked + LOOKS) {
            self.looked = Some(now);
            self.since = has_died().then_some(now);
        }
        false
    }
}
