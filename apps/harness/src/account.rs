//! What surviving did and cost, as a run says it at its end.

use std::time::Duration;

/// Counts are the same on all ranks, times are this rank's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Recoveries that the run needed.
    pub recoveries: u32,
    /// Iterations that had begun, were lost and done again.
    pub lost: u32,
    /// The interval between copies that the run has chosen.
    pub interval: Option<u32>,
    /// Finishing and waiting for blocks that were committed.
    pub blocks: Duration,
    /// Making copies for partners.
    pub copies: Duration,
    /// Recovery, from the report of a failure to the next iteration.
    pub recovery: Duration,
    /// Doing again what had been done, without the ends of blocks.
    pub redone: Duration,
}

impl Account {
    /// Sentences for a person; none if nothing happened. One iteration is one `unit`.
    #[must_use]
    pub fn sentences(&self, unit: &str) -> Vec<String> {
        let counted = |count: u32, one: &str, many: &str| {
            format!("{count} {}", if count == 1 { one } else { many })
        };
        let mut said = Vec::new();
        if let Some(interval) = self.interval {
            let interval = counted(interval, unit, &format!("{unit}s"));
            said.push(format!("The interval between copies was chosen to be {interval}."));
        }
        if self.recoveries > 0 {
            let recoveries = counted(self.recoveries, "recovery", "recoveries");
            let lost = counted(self.lost, unit, &format!("{unit}s"));
            said.push(format!("After {recoveries}, {lost} had been lost and were done again."));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_said() {
        let mut account = Account::default();
        assert_eq!(account.sentences("cycle"), [""; 0]);
        (account.recoveries, account.lost) = (1, 2);
        let said = "After 1 recovery, 2 cycles had been lost and were done again.";
        assert_eq!(account.sentences("cycle"), [said]);
        (account.lost, account.interval) = (1, Some(7));
        let said = account.sentences("iteration").join(" ");
        assert_eq!(
            said,
            "The interval between copies was chosen to be 7 iterations. After 1 recovery, \
             1 iteration had been lost and were done again."
        );
    }
}
