//! Policies: what a run does about a faulty block.
//!
//! After each faulty block of [`World::run`](crate::World::run) every living rank asks its policy,
//! and all of them must get the same answer, or some rebuild while others wait in the next block.
//! A [`Situation`] holds only what all ranks know alike, replacements that have just entered, too.
//! So a policy is a pure function of it: no clock, no rank number, no random number, and no memory
//! of its own, which a replacement would lack.
//!
//! ```
//! use fampi::{Placement, Policy, policy::{Decision, Situation}};
//!
//! /// Replaces the dead as long as spares are parked, then goes on with fewer ranks.
//! fn while_spares_last(situation: &Situation<'_>) -> Decision {
//!     match situation.dead.len() {
//!         _ if situation.faulty_in_a_row > 5 => Decision::Stop,
//!         0 => Decision::Retry,
//!         dead if dead <= situation.spares => Decision::Rebuild(Placement::SameRanks),
//!         _ => Decision::Shrink,
//!     }
//! }
//!
//! /// Replaces the dead rather than go on with fewer than half of the ranks at work.
//! fn while_half_of_all_work(situation: &Situation<'_>) -> Decision {
//!     let idle = situation.dead.len() + situation.benched.len();
//!     match 2 * idle > situation.ranks as usize {
//!         _ if situation.dead.is_empty() => Decision::Retry,
//!         true => Decision::Rebuild(Placement::SameRanks),
//!         false => Decision::Shrink,
//!     }
//! }
//! # fn is_a_policy(_: impl Policy) {}
//! # is_a_policy(while_spares_last);
//! # is_a_policy(while_half_of_all_work);
//! ```

use super::{MAX_ATTEMPTS, Placement};
use crate::{fault::FaultReport, rank::RankSet};

/// What a policy has to judge: equal on all living ranks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Situation<'a> {
    /// The new faults of the block, by the ranks of the communicator that the run is on.
    pub report: &'a FaultReport,
    /// All ranks of that communicator that are known to be dead, now or for some time.
    pub dead: RankSet,
    /// The living ranks that the last census on that communicator has found too slow for work
    /// ([`Recommended`](crate::Recommended)); none before there was one, and none while states are
    /// brought back, as replacements do not know them yet.
    pub benched: RankSet,
    /// Number of its ranks, living and dead.
    pub ranks: u32,
    /// Parked spares, as far as is known.
    pub spares: usize,
    /// How many rebuilds made the world.
    pub generation: u32,
    /// The number of the step that failed; `None` when it was the block in which the ranks bring
    /// their states back, where replacements do not know it yet.
    pub step: Option<u64>,
    /// Faulty steps since the run was farther than before them, or had protected a step; while
    /// states are brought back, faulty attempts at that. At least 1.
    pub faulty_in_a_row: u32,
    /// The run has shrunk: it can shrink again, but not rebuild any more.
    pub shrunk: bool,
}

/// What to do about a faulty block. In each case all ranks first go back to the protected states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Run the step again on the same communicator; right when nobody died.
    Retry,
    /// Go on with the living ranks. The state of a dead rank is inherited by the rank that keeps
    /// its copy if the application says how ([`State::inherit`](crate::State::inherit)), and
    /// dropped otherwise.
    Shrink,
    /// Put replacements in the places of the dead: parked spares first, then spawned processes,
    /// where the world can have any ([`Error::TooFewSpares`](crate::Error::TooFewSpares)).
    Rebuild(Placement),
    /// Give the report to the caller of the run, on every rank.
    Escalate,
    /// End the run with [`Error::Stopped`](crate::Error::Stopped), on every rank.
    Stop,
}

/// What a run does about faulty blocks. Any function of a [`Situation`] is a policy, too.
///
/// The module's documentation says what a policy may depend on.
pub trait Policy {
    /// Decides, the same on all living ranks.
    fn decide(&self, situation: &Situation<'_>) -> Decision;
}

impl<F: Fn(&Situation<'_>) -> Decision> Policy for F {
    fn decide(&self, situation: &Situation<'_>) -> Decision {
        self(situation)
    }
}

/// Retries a step without a death, at most this many times in a row. Stops at a death.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retry {
    /// How many times in a row.
    pub times: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: MAX_ATTEMPTS }
    }
}

impl Policy for Retry {
    fn decide(&self, situation: &Situation<'_>) -> Decision {
        patiently(self.times, situation, Decision::Stop)
    }
}

/// Shrinks after a death and retries without one, at most this many times in a row; then stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shrink {
    /// How many times in a row.
    pub times: u32,
}

impl Default for Shrink {
    fn default() -> Self {
        Self { times: MAX_ATTEMPTS }
    }
}

impl Policy for Shrink {
    fn decide(&self, situation: &Situation<'_>) -> Decision {
        patiently(self.times, situation, Decision::Shrink)
    }
}

/// Rebuilds after a death, from spares and then by spawn, and retries without one, at most this
/// many times in a row; then stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rebuild {
    /// Where replacements go.
    pub placement: Placement,
    /// How many times in a row.
    pub times: u32,
}

impl Default for Rebuild {
    fn default() -> Self {
        Self { placement: Placement::SameRanks, times: MAX_ATTEMPTS }
    }
}

impl Policy for Rebuild {
    fn decide(&self, situation: &Situation<'_>) -> Decision {
        patiently(self.times, situation, Decision::Rebuild(self.placement))
    }
}

/// Gives every report to the caller.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Escalate;

impl Policy for Escalate {
    fn decide(&self, _: &Situation<'_>) -> Decision {
        Decision::Escalate
    }
}

/// Stops at the first faulty block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stop;

impl Policy for Stop {
    fn decide(&self, _: &Situation<'_>) -> Decision {
        Decision::Stop
    }
}

fn patiently(times: u32, situation: &Situation<'_>, at_a_death: Decision) -> Decision {
    match situation.dead.is_empty() {
        _ if situation.faulty_in_a_row > times => Decision::Stop,
        true => Decision::Retry,
        false => at_a_death,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a policy says after this many faulty blocks in a row, with and without a death.
    fn decides(policy: &impl Policy, faulty_in_a_row: u32) -> [Decision; 2] {
        let report = FaultReport::default();
        let dead: RankSet = [crate::rank::Rank::new(1)].into_iter().collect();
        [dead, RankSet::new()].map(|dead| {
            policy.decide(&Situation {
                report: &report,
                dead,
                benched: RankSet::new(),
                ranks: 4,
                spares: 1,
                generation: 0,
                step: Some(3),
                faulty_in_a_row,
                shrunk: false,
            })
        })
    }

    #[test]
    fn retry_is_for_faults_without_a_death() {
        assert_eq!(decides(&Retry::default(), 1), [Decision::Stop, Decision::Retry]);
    }

    #[test]
    fn shrink_shrinks_only_after_a_death() {
        assert_eq!(decides(&Shrink::default(), 1), [Decision::Shrink, Decision::Retry]);
    }

    #[test]
    fn rebuild_rebuilds_only_after_a_death_and_where_it_was_told_to() {
        for placement in [Placement::SameRanks, Placement::Append] {
            let policy = Rebuild { placement, ..Rebuild::default() };
            assert_eq!(decides(&policy, 1), [Decision::Rebuild(placement), Decision::Retry]);
        }
    }

    #[test]
    fn every_patient_policy_stops_in_the_end() {
        let policies: [&dyn Fn(u32) -> [Decision; 2]; 3] = [
            &|faulty| decides(&Retry { times: 2 }, faulty),
            &|faulty| decides(&Shrink { times: 2 }, faulty),
            &|faulty| decides(&Rebuild { times: 2, ..Rebuild::default() }, faulty),
        ];
        for policy in policies {
            assert_eq!(policy(2)[1], Decision::Retry);
            assert_eq!(policy(3), [Decision::Stop; 2]);
        }
    }

    #[test]
    fn escalate_and_stop_do_not_look() {
        assert_eq!(decides(&Escalate, 1), [Decision::Escalate; 2]);
        assert_eq!(decides(&Stop, 1), [Decision::Stop; 2]);
    }

    #[test]
    fn a_function_is_a_policy() {
        let policy = |situation: &Situation<'_>| match situation.dead.len() {
            0 => Decision::Escalate,
            _ => Decision::Shrink,
        };
        assert_eq!(decides(&policy, 1), [Decision::Shrink, Decision::Escalate]);
    }
}
