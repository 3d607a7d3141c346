//! Recovery: communicators are made, shrunk and rebuilt, replacements join, data come back; and
//! the policies that say which of it to do.
//!
//! Making a communicator takes three steps, none of which can hang: a commit (*ready*), one short
//! collective call of the platform, a commit (*confirm*). A rebuild runs them over the *universe*
//! (ranks and spares) and adds a fourth, *welcome*, the first commit of the new universe, in which
//! replacements take part. So does a *repair*, the rebuild of a program that owns its MPI, over the
//! program's own communicators. [`handshake`](crate::protocol::handshake) decides which comes next;
//! the drivers here do it.
//!
//! Reference: Hassani et al. 2015, §3.3. The three steps replace the agreement inside of the shrink
//! of ULFM.

pub(crate) mod checkpoint;
mod code;
mod coded;
pub mod copies;
mod course;
pub(crate) mod creation;
pub(crate) mod filing;
pub(crate) mod folder;
mod idle;
pub(crate) mod interval;
pub(crate) mod launch;
mod narrow;
mod outgoing;
mod partners;
pub mod policy;
pub(crate) mod rebuild;
pub(crate) mod repair;
mod restore;
pub(crate) mod told;

use crate::{
    engine::{BlockKey, CommKey, Engine, Level},
    fault::FaultCode,
    rank::RankSet,
};

pub use crate::protocol::{redundancy::Redundancy, roster::Placement};

/// How many attempts a recovery gets; each but the last ended by a further failure.
pub const MAX_ATTEMPTS: u32 = 16;
/// Why an attempt fails when no call of it has said why.
const DISTURBED: &str = "a further death, or a rank that went away, cut the last one short";

impl Engine {
    /// A step's commit: a block without requests, with our vote, a *no* for this reason. Nobody
    /// sees its report, so a death that it finds is reported by the blocks of the communicator,
    /// open or to come.
    pub(crate) fn start_step(&mut self, comm: CommKey, no: Option<FaultCode>) -> BlockKey {
        let key = self.start_block(comm, Level::Global);
        let id = self.block(key).scope;
        self.comm_mut(comm).commit.begin_step(id);
        if let Some(code) = no {
            self.raise(key, code);
        }
        self.finish_block(key, crate::timeout::Timeout::Never);
        key
    }

    /// Releases the block of a decided step; gives those who are dead, the same on all living
    /// ranks.
    fn end_step(&mut self, key: BlockKey) -> RankSet {
        let (comm, id) = (self.block(key).comm, self.block(key).scope);
        self.detach(key);
        self.comm_mut(comm).commit.end_step(id)
    }
}
