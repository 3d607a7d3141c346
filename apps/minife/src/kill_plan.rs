//! Where in a solve a rank can be made to die: `RANK@PHASE:K[:MODE]`.

pub use harness::kill_plan::{KillError, Mode};

/// One rank's end.
pub type Kill = harness::kill_plan::Kill<Phase>;

/// All kills of a run.
pub type KillPlan = harness::kill_plan::KillPlan<Phase>;

/// Where in the program a kill strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// At the beginning of iteration K.
    Iteration,
    /// In iteration K, while halo messages are on their way.
    Exchange,
    /// In iteration K, between the exchange and the matrix product.
    Multiply,
    /// In iteration K, between posting and finishing the second dot product.
    Dot,
    /// In iteration K, just before its block is finished.
    Finish,
    /// In iteration K, after its commit and before the update of the solution.
    Update,
    /// In the K-th recovery that this process takes part in.
    Recovery,
    /// A replacement that takes the rank in the K-th rebuilt world, while it joins.
    Join,
}

impl harness::kill_plan::Phase for Phase {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("iteration", Self::Iteration),
        ("exchange", Self::Exchange),
        ("spmv", Self::Multiply),
        ("dot", Self::Dot),
        ("finish", Self::Finish),
        ("update", Self::Update),
        ("recovery", Self::Recovery),
        ("join", Self::Join),
    ];
    const RECOVERY: Self = Self::Recovery;
    const JOIN: Self = Self::Join;
    const EXAMPLES: &'static str = "2@iteration:40 or 0@dot:7:segv";
}
