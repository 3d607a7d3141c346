//! Where in a simulation a rank can be made to die: `RANK@PHASE:K[:MODE]`.

use harness::kill_plan::{Phase, Phases};

/// At the beginning of cycle K.
pub const CYCLE: Phase = Phase("cycle");
/// In cycle K, between posting and finishing the reduction of the time step.
pub const STEP: Phase = Phase("step");
/// In cycle K, while forces are on their way.
pub const FORCES: Phase = Phase("forces");
/// In cycle K, while positions are on their way.
pub const POSITIONS: Phase = Phase("positions");
/// In cycle K, while velocity gradients are on their way.
pub const GRADIENTS: Phase = Phase("gradients");

/// All of them.
pub const PHASES: Phases = Phases {
    all: &[
        CYCLE,
        STEP,
        FORCES,
        POSITIONS,
        GRADIENTS,
        Phase::FINISH,
        Phase::UPDATE,
        Phase::RECOVERY,
        Phase::JOIN,
    ],
    step: CYCLE,
    examples: "2@cycle:40 or 0@forces:7:segv",
};
