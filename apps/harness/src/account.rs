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
    /// A sentence for a person; none if nothing happened. One iteration is one `unit`.
    #[must_use]
    pub fn sentence(&self, unit: &str) -> Option<String> {
        let counted = |count: u32, one: &str, many: &str| {
            format!("{count} {}", if count == 1 { one } else { many })
        };
        if self.recoveries == 0 {
            return None;
        }
        let recoveries = counted(self.recoveries, "recovery", "recoveries");
        let lost = counted(self.lost, unit, &format!("{unit}s"));
        let apart = |interval| counted(interval, unit, &format!("{unit}s"));
        let copies =
            self.interval.map(|interval| format!("; copies were {} apart", apart(interval)));
        let copies = copies.unwrap_or_default();
        Some(format!("After {recoveries}, {lost} had been lost and were done again{copies}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_said() {
        let mut account = Account { interval: Some(7), ..Account::default() };
        assert_eq!(account.sentence("cycle"), None);
        account.interval = None;
        (account.recoveries, account.lost) = (1, 2);
        let said = "After 1 recovery, 2 cycles had been lost and were done again.";
        assert_eq!(account.sentence("cycle").as_deref(), Some(said));
        (account.lost, account.interval) = (1, Some(7));
        let said = "After 1 recovery, 1 iteration had been lost and were done again; copies were 7 \
                    iterations apart.";
        assert_eq!(account.sentence("iteration").as_deref(), Some(said));
    }
}
