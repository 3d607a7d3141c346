//! How processes have died.
//!
//! The engine asks the platform how processes have died, before blocks with them are agreed on. It
//! often learns of a death before the cause is known. As a vote waits for the cause, the engine
//! asks again and again, and takes [`Cause::Unknown`] after [`PATIENCE`]. Nothing of this happens
//! without a death.

use core::time::Duration;

use super::Engine;
use crate::{fault::Cause, protocol::process::Address};

/// A vote waits no longer than this for the cause of a death.
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
            self.job.unexplained.deaths.push(((universe, dead), now));
            self.job.unexplained.next = now + PERIOD;
        }
    }

    /// Asks again about the deaths that are not explained yet, if it is time.
    pub(super) fn explain_more(&mut self) {
        let now = self.platform.now();
        if now < self.job.unexplained.next {
            return;
        }
        self.job.unexplained.next = now + PERIOD;
        for (address, since) in core::mem::take(&mut self.job.unexplained.deaths) {
            let late = now >= since + PATIENCE;
            let cause = self.platform.cause(address.0, address.1);
            match cause.or(late.then_some(Cause::Unknown)) {
                Some(cause) => self.tell_cause(address, cause),
                None => self.job.unexplained.deaths.push((address, since)),
            }
        }
    }

    fn tell_cause(&mut self, address: Address, cause: Cause) {
        tracing::debug!(dead = %address.1, %cause, "a cause of a death");
        self.call(|process, out| process.handle_cause(address, cause, out));
    }
}
