//! How a rank leaves the job: together with all others.
//!
//! Its last block on each root communicator is a *farewell*: a vote that is a *yes* among farewells
//! and a fault in any other block ([`FaultCode::Finalized`]). A rank whose farewell meets a block
//! of the others says farewell again, instead of each further block that they start, until theirs
//! meets it. So no rank leaves while a living one may still have a question, and none that lives
//! counts as dead.
//!
//! Those who stay may wait for this rank where no farewell reaches them: inside the block, or on a
//! derived communicator. A rank that has waited for some time therefore interrupts the block and
//! gives the other communicators up.
//!
//! **Guarantees.** A farewell ends when each of the others has come to it or has died.

use alloc::vec::Vec;
use core::time::Duration;

use super::{BlockKey, CommKey, Engine, Level, Phase, platform::Idle};
use crate::{
    fault::{Fault, FaultCode},
    ids::BlockId,
    timeout::Timeout,
};

/// How long a rank waits for the others before it interrupts what they may be doing, and how long
/// it goes on answering when all have said farewell.
const PATIENCE: Duration = Duration::from_secs(1);

/// The farewell to the members of a root communicator.
struct Farewell {
    comm: CommKey,
    /// The attempt that is under way.
    key: BlockKey,
    /// How many blocks this rank had started there when it left.
    blocks: BlockId,
}

impl Engine {
    /// Leaves all communicators together with the other ranks. Blocks that are open are left.
    pub(crate) fn say_farewells(&mut self) {
        for key in self.process.used_blocks() {
            // The end of one block can be the end of another.
            if self.process.current(key).is_some_and(|block| block.phase == Phase::Open) {
                self.leave_block(key, FaultCode::LeftBlock);
            }
        }
        let roots = self.roots();
        let mut farewells: Vec<Farewell> = Vec::new();
        for &comm in &roots {
            let blocks = self.comm(comm).next_block;
            farewells.push(Farewell { comm, key: self.start_farewell(comm, blocks), blocks });
        }
        let (mut patience, mut how) = (Timeout::After(PATIENCE), Idle::Busy);
        while !farewells.is_empty() {
            let happened = self.wait(patience, how, |engine| {
                farewells.iter().any(|farewell| engine.verdict(farewell.key).is_some())
            });
            if !happened {
                (patience, how) = (Timeout::Never, Idle::Parked);
                self.give_way(&farewells);
            }
            farewells.retain_mut(|farewell| self.repeat_farewell(farewell));
        }
        // Whoever comes to a further farewell has no question about the first one.
        for &comm in &roots {
            self.say_last_word(comm);
        }
    }

    /// A block that ends the use of a communicator and holds this rank up for a moment at most, in
    /// case another one still has a question.
    pub(crate) fn say_last_word(&mut self, comm: CommKey) {
        let key = self.start_block(comm, Level::Global);
        self.finish_block(key, Timeout::Never);
        let _ = self.wait_block(key, Timeout::After(PATIENCE));
        self.detach(key);
    }

    fn start_farewell(&mut self, comm: CommKey, blocks: BlockId) -> BlockKey {
        let key = self.start_block(comm, Level::Global);
        self.block_mut(key).proviso = Some(FaultCode::finalized(blocks));
        self.finish_block(key, Timeout::Never);
        key
    }

    /// Says farewell again if the last attempt met a block, or a death. False when it is over.
    fn repeat_farewell(&mut self, farewell: &mut Farewell) -> bool {
        let Some(committed) = self.verdict(farewell.key) else { return true };
        let said = |fault: &Fault| matches!(fault.code, FaultCode::Finalized(_));
        let met_a_block = self.report(farewell.key).faults().iter().any(said);
        self.detach(farewell.key);
        if committed {
            return false;
        }
        farewell.key = self.start_farewell(farewell.comm, farewell.blocks);
        if met_a_block {
            self.interrupt_open(farewell.comm, self.block(farewell.key).scope);
        }
        true
    }

    /// Ends whatever others may wait in for this rank.
    fn give_way(&mut self, farewells: &[Farewell]) {
        for key in self.process.comms() {
            match farewells.iter().find(|farewell| farewell.comm == key) {
                Some(farewell) => self.interrupt_open(key, self.block(farewell.key).scope),
                None => self.call(|process, out| process.leave_comm(key, out)),
            }
        }
    }

    /// The communicators from which all others that are in use are derived.
    fn roots(&self) -> Vec<CommKey> {
        let chosen = |key: &CommKey| self.comm(*key).is_root() && !self.comm(*key).retired;
        self.process.comms().filter(chosen).collect()
    }
}
