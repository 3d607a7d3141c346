//! How a rank leaves the job: together with all others.
//!
//! Its last block on each root communicator is a *farewell*: a vote that is a *yes* among farewells
//! and a fault in any other block ([`FaultCode::Finalized`]). A rank whose farewell meets a block
//! of the others says farewell again, instead of each further block that they start, until theirs
//! meets it. So no rank leaves while a living one may still have a question, and none that lives
//! counts as dead.
//!
//! A communicator that a program of C has freed is left in the same way, as another rank may still
//! have a question about its last block. No farewell commits there any more; it is over when all
//! ranks have decided what this one has decided.
//!
//! Where the others have given the world up to rebuild it, the farewell goes on in the universe
//! that carries recoveries: they learn there that a rank has left, which no rebuild replaces. A job
//! whose rebuild has failed is left there as well.
//!
//! Those who stay may wait for this rank where no farewell reaches them: inside the block, or on a
//! derived communicator. A rank that has waited for some time therefore interrupts the block and
//! gives the other communicators up.
//!
//! **Guarantees.** A farewell ends when each of the others has come to it or has died.

use alloc::vec::Vec;
use core::time::Duration;

use super::{BlockKey, CommKey, Engine, Level, Phase};
use crate::{
    error::Error,
    fault::{Fault, FaultCode},
    ids::BlockId,
    protocol::planted::planted,
    seam::platform::Idle,
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
    /// Why a communicator is of no use any more.
    pub(crate) fn why_retired(&self) -> Error {
        if self.process.has_left() { Error::HasLeft } else { Error::Abandoned }
    }

    /// Refuses what would need MPI after this rank has left the job.
    pub(crate) fn require_here(&self) -> Result<(), Error> {
        if self.process.has_left() { Err(Error::HasLeft) } else { Ok(()) }
    }

    /// Leaves all communicators together with the other ranks. Blocks that are open are left.
    pub(crate) fn say_farewells(&mut self) {
        for key in self.process.used_blocks() {
            // The end of one block can be the end of another.
            if self.process.current(key).is_some_and(|block| block.phase == Phase::Open) {
                self.leave_block(key, FaultCode::LeftBlock);
            }
        }
        let roots = self.roots();
        for &comm in &roots {
            if self.comm(comm).retired {
                // The program has freed the handle: MPI is not to see it any more.
                self.comm_mut(comm).data = None;
            }
        }
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
        // A rank that comes to a further farewell has no question about the first one.
        for &comm in &roots {
            self.say_last_word(comm);
        }
    }

    /// A block that ends the use of a communicator and holds this rank up for a moment at most, in
    /// case another one still has a question.
    fn say_last_word(&mut self, comm: CommKey) {
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
        let faults = self.report(farewell.key).faults();
        let met_a_block = faults.iter().any(said);
        let is_given_up = self.comm(farewell.comm).retired
            || faults.iter().any(|fault| fault.code == FaultCode::Abandoned);
        let is_settled = self.comm(farewell.comm).commit.floor() >= farewell.blocks;
        self.detach(farewell.key);
        if committed {
            return false;
        }
        if is_given_up && is_settled {
            let is_world = self.job.world == Some(farewell.comm);
            let Some(universe) = self.job.universe.filter(|_| is_world) else { return false };
            (farewell.comm, farewell.blocks) = (universe, self.comm(universe).next_block);
        }
        farewell.key = self.start_farewell(farewell.comm, farewell.blocks);
        if met_a_block {
            self.interrupt_block(farewell);
        }
        true
    }

    /// Ends whatever others may wait in for this rank.
    fn give_way(&mut self, farewells: &[Farewell]) {
        for key in self.process.comms() {
            match farewells.iter().find(|farewell| farewell.comm == key) {
                Some(farewell) => self.interrupt_block(farewell),
                None => self.call(|process, out| process.leave_comm(key, out)),
            }
        }
    }

    /// Ends the waits of others in the block that a farewell meets. In a universe nothing is waited
    /// for but the verdict, and an interruption dismisses.
    fn interrupt_block(&mut self, farewell: &Farewell) {
        if self.job.universe != Some(farewell.comm) {
            self.interrupt_open(farewell.comm, self.block(farewell.key).scope);
        }
    }

    /// The communicators from which all others are derived: those in use, those that a program
    /// which owns its MPI has freed after blocks on them, and the universe if there is no world.
    fn roots(&self) -> Vec<CommKey> {
        let owns_its_mpi = self.job.universe.is_none();
        let has_world = self.job.world.is_some_and(|world| !self.comm(world).retired);
        let chosen = |key: &CommKey| {
            let comm = self.comm(*key);
            if self.job.universe == Some(*key) {
                return !has_world && !planted!(LeaveBeforeTheOthersKnow);
            }
            let was_used = comm.next_block > BlockId(0) && !planted!(ForgetTheFreed);
            comm.is_root() && (!comm.retired || owns_its_mpi && was_used)
        };
        self.process.comms().filter(chosen).collect()
    }
}
