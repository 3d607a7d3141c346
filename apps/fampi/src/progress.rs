//! One line for each long step: it lives while the step does, and stays with the time it took.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// A long step under way, on standard error. Without a terminal: one line at its end.
pub(crate) struct Step {
    bar: ProgressBar,
    what: String,
    begun: Instant,
}

impl Step {
    pub(crate) fn begin(what: impl Into<String>) -> Self {
        let what = what.into();
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what.clone());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar, what, begun: Instant::now() }
    }

    /// What of the step is under way.
    pub(crate) fn say(&self, now: &str) {
        self.bar.set_message(format!("{}: {now}", self.what));
    }

    /// The step has succeeded: its line stays, with its duration.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
        say!("fampi: {} ({})", self.what, short(self.begun.elapsed()));
    }
}

impl Drop for Step {
    /// A step that failed leaves no line: the error says what happened.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn short(elapsed: Duration) -> String {
    if elapsed < Duration::from_secs(100) {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        HumanDuration(elapsed).to_string()
    }
}
