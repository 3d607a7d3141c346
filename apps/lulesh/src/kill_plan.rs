//! Where in a simulation a rank can be made to die: `RANK@PHASE:K[:MODE]`.

pub use harness::kill_plan::{KillError, Mode};

/// One rank's end.
pub type Kill = harness::kill_plan::Kill<Phase>;

/// All kills of a run.
pub type KillPlan = harness::kill_plan::KillPlan<Phase>;

/// Where in the program a kill strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// At the beginning of cycle K.
    Cycle,
    /// In cycle K, between posting and finishing the reduction of the time step.
    Step,
    /// In cycle K, while forces are on their way.
    Forces,
    /// In cycle K, while positions are on their way.
    Positions,
    /// In cycle K, while velocity gradients are on their way.
    Gradients,
    /// In cycle K, just before its block is finished.
    Finish,
    /// After the commit of cycle K.
    Update,
    /// In the K-th recovery that this process takes part in.
    Recovery,
    /// A replacement that takes the rank in the K-th rebuilt world, while it joins.
    Join,
}

impl harness::kill_plan::Phase for Phase {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("cycle", Self::Cycle),
        ("step", Self::Step),
        ("forces", Self::Forces),
        ("positions", Self::Positions),
        ("gradients", Self::Gradients),
        ("finish", Self::Finish),
        ("update", Self::Update),
        ("recovery", Self::Recovery),
        ("join", Self::Join),
    ];
    const RECOVERY: Self = Self::Recovery;
    const JOIN: Self = Self::Join;
    const EXAMPLES: &'static str = "2@cycle:40 or 0@forces:7:segv";
}
