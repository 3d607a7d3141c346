//! How processes have died: asked of the platform, for a while, before a death is agreed on.
//!
//! A death is often heard of before its cause, and a block whose vote waits for that would wait for
//! ever if nobody knew. So the platform is asked again and again, and after [`PATIENCE`] the answer
//! is that it is not known. Nothing of this happens without a death.

use core::time::Duration;

use super::Engine;
use crate::{fault::Cause, protocol::process::Address};

/// After this time nobody is expected to tell how a process has died.
const PATIENCE: Duration = Duration::from_millis(50);
/// Between two questions.
const PERIOD: Duration = Duration::from_micros(100);

impl Engine {
    /// A death has become known: asks how it came.
    pub(super) fn explain(&mut self, (universe, dead): Address) {
        if let Some(cause) = self.platform.cause(universe, dead) {
            self.tell_cause((universe, dead), cause);
        } else {
            let now = self.platform.now();
            self.metrics.unexplained.deaths.push(((universe, dead), now));
            self.metrics.unexplained.next = now + PERIOD;
        }
    }

    /// Asks again about the deaths that are not explained yet, if it is time.
    pub(super) fn explain_more(&mut self) {
        let now = self.platform.now();
        if now < self.metrics.unexplained.next {
            return;
        }
        self.metrics.unexplained.next = now + PERIOD;
        for (address, since) in core::mem::take(&mut self.metrics.unexplained.deaths) {
            let late = now >= since + PATIENCE;
            let cause = self.platform.cause(address.0, address.1);
            match cause.or(late.then_some(Cause::Unknown)) {
                Some(cause) => self.tell_cause(address, cause),
                None => self.metrics.unexplained.deaths.push((address, since)),
            }
        }
    }

    fn tell_cause(&mut self, address: Address, cause: Cause) {
        tracing::debug!(target: "fampi::metrics", dead = %address.1, %cause, "a cause of a death");
        self.call(|process, out| process.handle_cause(address, cause, out));
    }
}
