//! Where in a sort a rank can be made to die: `RANK@PHASE:K[:MODE]`.
//!
//! K counts rounds over all repetitions, but for `local`, where it counts repetitions.

use harness::kill_plan::{Phase, Phases};

/// Before the K-th sort of the own keys.
pub const LOCAL: Phase = Phase("local");
/// In round K, before the lists are cut at the pivot.
pub const PIVOT: Phase = Phase("pivot");
/// In round K, while halves of lists are on their way.
pub const EXCHANGE: Phase = Phase("exchange");
/// In round K, between the exchange and the gather of what the new lists are.
pub const MERGE: Phase = Phase("merge");
/// In round K, while the new lists are being stored.
pub const STORE: Phase = Phase("store");

/// All of them.
pub const PHASES: Phases = Phases {
    all: &[
        LOCAL,
        PIVOT,
        EXCHANGE,
        MERGE,
        STORE,
        Phase::FINISH,
        Phase::UPDATE,
        Phase::RECOVERY,
        Phase::JOIN,
    ],
    step: PIVOT,
    examples: "2@exchange:1 or 0@merge:3:segv",
};
