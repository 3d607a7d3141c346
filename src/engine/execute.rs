//! Carries out what the process decides.

use super::{BlockKey, Engine, Need, contents::Contents, metrics};
use crate::{
    fault::FaultCode,
    protocol::{
        planted::planted,
        process::{Block, Chosen, Command},
    },
    seam::{entry::Entry, platform::Unneeded},
    timeout::Timeout,
};

impl Engine {
    #[cold]
    pub(super) fn execute(&mut self) {
        self.commands.defer(true);
        while let Some(command) = self.commands.next() {
            match command {
                Command::Conclude(block, committed) => self.conclude(block, committed),
                Command::FailRequests(block, code, chosen) => {
                    self.fail_requests(block, code, chosen);
                }
                Command::Interrupted(block) => {
                    self.tell(&Entry::Interrupted { number: self.block(block).scope });
                }
                Command::Finish(block) if self.process.current(block).is_some() => {
                    self.drain_and_vote(block, Timeout::Poll);
                }
                Command::Finish(_) => {}
                Command::RetireContexts(data, context, refill) => {
                    self.platform.retire_contexts(data, context, refill);
                }
                Command::Aborted(comm, block, report) => {
                    let me = self.comm(comm).me;
                    let comm = metrics::name_of(&self.process, comm);
                    self.tell(&Entry::Agreed { comm, me, block, report });
                }
                Command::Died(address, source) => {
                    let known = (&self.process, &self.job, &*self.platform);
                    let died = self.metrics.count_death(address, source, known);
                    self.tell(&died);
                }
                Command::Dismissed => self.job.dismissed = true,
                Command::DiscardUniverse(universe) => {
                    self.platform.discard(Unneeded::Universe(universe));
                }
                Command::DiscardData(data) => self.platform.discard(Unneeded::Data(data)),
                Command::DiscardStaleMessages(comm) => self.discard_stale_messages(comm),
            }
        }
        self.commands.defer(false);
    }

    /// Ends the pending requests of a block that were chosen.
    fn fail_requests(&mut self, key: BlockKey, code: FaultCode, chosen: Chosen) {
        if !self.process.current(key).is_some_and(Block::is_running) {
            return;
        }
        match chosen {
            Chosen::All => self.fail_pending(key, code, |_, _| true),
            Chosen::Operations => {
                self.fail_pending(key, code, |_, need| !matches!(need, Need::Inner(_)));
            }
            Chosen::Needing(dead) => {
                let needs = |contents: &Contents, need| match need {
                    Need::Peer(peer) => peer == dead,
                    Need::Anybody | Need::All | Need::Living(_) | Need::Rider(_) => true,
                    Need::Neighbours(at) => contents.exchanges[at as usize].needs(dead),
                    Need::Nobody | Need::Inner(_) | Need::Foreign => false,
                };
                self.fail_pending(key, code, needs);
                self.doubt(key);
            }
        }
    }

    /// Follows the verdict on a block: its copies, its windows, its buffers.
    pub(super) fn conclude(&mut self, key: BlockKey, committed: bool) {
        self.blocks.end_draining(key);
        self.windows.end_serving(key);
        if !self.contents_mut(key).is_drained() {
            // The others have decided it without this rank's vote, as its communicator is over.
            self.fail_pending(key, FaultCode::Interrupted, |_, _| true);
        }
        if self.contents(key).riding.is_some() {
            self.alight(key, committed);
        }
        let contents = self.contents(key);
        let is_served = contents.service.is_some();
        if !contents.copies.is_empty() {
            self.settle_copies(key, committed || planted!(KeepAbortedCopies));
        }
        if is_served {
            self.end_service(key, committed || planted!(KeepAbortedPuts));
        }
        self.tell_often(|engine| Entry::Ended { block: engine.block(key).serial, committed });
        if let Some(pulse) = self.metrics.pulse.filter(|_| committed) {
            pulse.commit();
        }
        if !committed {
            self.metrics.faulty += 1;
            self.blame_the_dead(key);
            if !self.process.has_left() {
                self.abandon_messages(key);
                self.reclaim_buffers(key);
            }
        }
        if self.process.conclude(key, committed) {
            self.release(key);
        }
    }

    /// The block is decided: what it carried of copies is valid, or is forgotten.
    fn settle_copies(&mut self, key: BlockKey, committed: bool) {
        let comm = self.block(key).comm;
        // A program that owns its MPI rebuilds each of its communicators.
        let whole = self.job.roster.origins.is_empty() || self.comm(comm).is_world();
        let Contents { copies, records, .. } = self.blocks.at_mut(key);
        let pending = core::mem::take(copies);
        self.job.copies.settle(pending, records, (comm, whole), committed);
    }

    /// Ends the use of what no rank asks for any more.
    pub(crate) fn sweep(&mut self) {
        let mut out = self.commands.outlet(&mut *self.platform);
        self.process.sweep(|key| self.job.copies.need(key), &mut out);
        if self.commands.are_due() {
            self.execute();
        }
        let process = &self.process;
        self.job.numbers.retain(|(universe, _)| process.knows(*universe));
    }
}
