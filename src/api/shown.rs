//! What `{:?}` shows of types that hold the whole job: what they are for a reader, in a few words.

use std::fmt::{Debug, Formatter, Result};

use super::{
    Forming, Rebuilding, Step, TryBlock, World,
    guest::{Guest, Probe, Repairing, Shrinking},
    ulfm::Agreeing,
};

impl Debug for World {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "World(rank {} of {})", self.rank(), self.size())
    }
}

impl Debug for TryBlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("a block that has not ended")
    }
}

impl Debug for Step<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "Step({} of {:?})", self.number(), self.comm())
    }
}

/// Types of which there is nothing to show but that they are there.
macro_rules! shown {
    ($($shown:ty: $words:literal,)*) => {
        $(impl Debug for $shown {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                f.write_str($words)
            }
        })*
    };
}

shown! {
    Forming: "a communicator in the making",
    Rebuilding: "a rebuild under way",
    Agreeing: "an agreement under way",
    Guest: "a process whose program owns its MPI",
    Probe<'_>: "what a wait may look at",
    Shrinking: "a communicator of survivors in the making",
    Repairing: "a communicator of survivors and replacements in the making",
}
