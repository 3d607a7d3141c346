//! Where in a solve a rank can be made to die: `RANK@PHASE:K[:MODE]`.

use harness::kill_plan::{Phase, Phases};

/// At the beginning of iteration K.
pub const ITERATION: Phase = Phase("iteration");
/// In iteration K, while halo messages are on their way.
pub const EXCHANGE: Phase = Phase("exchange");
/// In iteration K, between the exchange and the matrix product.
pub const MULTIPLY: Phase = Phase("spmv");
/// In iteration K, between posting and finishing the second dot product.
pub const DOT: Phase = Phase("dot");

/// All of them; the update of an iteration is that of the solution, after the commit.
pub const PHASES: Phases = Phases {
    all: &[
        ITERATION,
        EXCHANGE,
        MULTIPLY,
        DOT,
        Phase::FINISH,
        Phase::UPDATE,
        Phase::RECOVERY,
        Phase::JOIN,
    ],
    step: ITERATION,
    examples: "2@iteration:40 or 0@dot:7:segv",
};
