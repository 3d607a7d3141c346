//! Queries of a decided block about failed requests, communicators and ranks.

use super::{Comm, Finished};
use crate::{
    engine::Progress,
    fault::{Codes, Fault, FaultCode},
    ids::CommId,
    rank::RankSet,
};

impl Finished {
    /// The requests of this rank that did not complete, with these codes, as indices in the order
    /// in which they were posted (`MPI_Get_failed_requests`).
    pub fn failed_requests(&self, codes: Codes<'_>) -> Vec<usize> {
        let engine = self.engine.borrow();
        let records = engine.contents(self.key).records.iter().enumerate();
        let failed = records.filter_map(|(index, record)| match record.state {
            Progress::Failed(code) if codes.matches(code) => Some(index),
            _ => None,
        });
        failed.collect()
    }

    /// The communicators with a new fault of these codes (`MPI_Get_failed_communicators`); compare
    /// with [`Comm::id`]. A death counts for each communicator in use in the block that has the
    /// process: its own, and those of blocks inside of it that this rank is a member of.
    pub fn failed_communicators(&self, codes: Codes<'_>) -> Vec<CommId> {
        let report = self.report();
        let engine = self.engine.borrow();
        let own = engine.block(self.key).comm;
        let died = |it: &&Fault| it.code.is_process_failure() && codes.matches(it.code);
        let of_own = report.faults().iter().filter(|it| it.comm == engine.comm(own).id);
        let dead: RankSet = of_own.filter(died).map(|fault| fault.rank).collect();
        let used = engine.contents(self.key).used.iter();
        let bereaved = used.filter(|comm| !engine.process.places(own, &dead, **comm).is_empty());
        let mut failed = report.failed_communicators(codes);
        failed.extend(bereaved.map(|comm| engine.comm(*comm).id));
        failed.sort_unstable();
        failed.dedup();
        failed
    }

    /// The ranks of `comm` with a fault of these codes (`MPI_Get_failed_group`): the dead for
    /// process failures, those whose state is gone for [`FaultCode::StateLost`], the ranks that
    /// reported it for other codes.
    ///
    /// The dead are all that the block's own communicator has lost, whichever report named them
    /// first: so many processes does a recovery replace; for another communicator those of them
    /// that it has.
    ///
    /// The fault of an inner block names the communicator of that one, and the rank that handed it
    /// on is one of both: it is in the group for either. The faults of the inner report are there
    /// as well, for all ranks of the outer block.
    pub fn failed_group(&self, codes: Codes<'_>, comm: &Comm) -> RankSet {
        let report = self.report();
        let engine = self.engine.borrow();
        let (own, asked) = (engine.comm(engine.block(self.key).comm), engine.comm(comm.key()));
        let faults = report.faults().iter().filter(|fault| codes.matches(fault.code));
        let rank = |fault: &Fault| match fault.code {
            FaultCode::InnerBlock if asked.id == own.id => Some(fault.rank),
            _ if asked.id != fault.comm => None,
            FaultCode::InnerBlock => asked.rank_of(*own.members.get(fault.rank.index())?),
            _ => Some(fault.rank),
        };
        let mut group: RankSet = faults.filter_map(rank).collect();
        let (block, dead) = (engine.block(self.key).comm, report.known_failed_with(codes));
        group.union_with(&engine.process.places(block, &dead, comm.key()));
        group
    }
}
