//! The calls of ULFM, and who is benched, for programs that own their MPI.

use super::{
    super::ulfm::{Agreed, outcome},
    Guest, GuestBlock, GuestComm,
};
use crate::{
    engine::membership::Membership,
    error::Error,
    rank::{Rank, RankSet},
    seam::platform::{Opinion, Tested, Tests},
    timeout::Timeout,
};

impl Tests for Guest {
    fn tested(&self) -> Option<Tested> {
        self.engine.tested()
    }

    fn of_node(&self, node: u32) -> Opinion {
        self.engine.of_node(node)
    }
}

impl Guest {
    /// Starts an agreement; all living ranks do so, in one order with their blocks. It is released
    /// as a block.
    pub fn agree(&mut self, comm: GuestComm, flag: i32) -> GuestBlock {
        GuestBlock(self.engine.start_agreement(comm.0, flag))
    }

    /// Waits for an agreement; false when the timeout came first.
    pub fn wait_agreement(&mut self, agreement: GuestBlock, timeout: Timeout) -> bool {
        self.engine.wait_agreement(agreement.0, timeout)
    }

    /// What a decided agreement came to.
    ///
    /// # Errors
    ///
    /// As [`crate::ulfm::agree`].
    pub fn agreed(&self, agreement: GuestBlock) -> Result<Agreed, Error> {
        let flag = self.engine.process.agreed_flag(agreement.0);
        outcome(flag, self.engine.report(agreement.0))
    }

    /// Looks around, and takes in the deaths of these ranks, of which the platform has heard by
    /// other ways. All deaths that are known then, those of an earlier call first.
    pub fn failed(&mut self, comm: GuestComm, heard: &[Rank]) -> Vec<Rank> {
        self.engine.look_around();
        self.engine.hear_of(comm.0, heard);
        self.engine.failed(comm.0).to_vec()
    }

    /// Acknowledges the first so many of them; how many are acknowledged.
    pub fn acknowledge(&mut self, comm: GuestComm, count: usize) -> usize {
        self.engine.comm_mut(comm.0).acknowledged.acknowledge(count)
    }

    /// Those that are acknowledged.
    pub fn acknowledged(&self, comm: GuestComm) -> Vec<Rank> {
        self.engine.comm(comm.0).acknowledged.ranks().iter().collect()
    }

    /// The ranks that the last census on a communicator has benched.
    pub fn benched(&self, comm: GuestComm) -> RankSet {
        self.engine.comm(comm.0).benched.clone()
    }

    /// A census on a communicator has committed: these of its ranks are benched now, and the group
    /// has gone from one to the other.
    pub fn accept_census(
        &mut self,
        comm: GuestComm,
        benched: RankSet,
        groups: (&Membership, &Membership),
    ) {
        self.engine.accept_census(comm.0, benched, groups);
    }

    /// Revokes a communicator.
    pub fn revoke(&mut self, comm: GuestComm) {
        self.engine.revoke(comm.0);
    }

    /// True when it is revoked, as far as this process has heard.
    pub fn is_revoked(&mut self, comm: GuestComm) -> bool {
        self.engine.look_around();
        self.engine.comm(comm.0).interrupts.is_revoked()
    }
}
