//! Carries out what the process decides: messages leave at once, commands wait in a queue until the
//! call of the process has returned.

use alloc::collections::VecDeque;

use super::{BlockKey, Engine, Need, block::Contents, request::is_operation};
use crate::{
    fault::FaultCode,
    ids::CommId,
    protocol::{
        codec,
        fused::Values,
        message::{Message, Yes},
        planted::planted,
        process::{Address, Chosen, Command, Outlet, Process},
    },
    seam::{
        entry::Entry,
        platform::{Outgoing, Platform, Unneeded},
    },
    timeout::Timeout,
};

/// The effects of a call of the process on their way.
pub(crate) struct Out<'a> {
    platform: &'a mut dyn Platform,
    commands: &'a mut VecDeque<Command>,
}

impl Outlet for Out<'_> {
    #[inline]
    fn send(&mut self, (universe, to): Address, comm: CommId, message: &Message) {
        self.platform.send(universe, to, Outgoing::Frame(&codec::encode(comm, message)));
    }

    #[inline]
    fn send_yes(&mut self, (universe, to): Address, comm: CommId, yes: Yes) {
        self.platform.send(universe, to, Outgoing::Yes(comm, &yes));
    }

    #[inline]
    fn send_fused(&mut self, (universe, to): Address, comm: CommId, yes: Yes, values: &Values) {
        self.platform.send(universe, to, Outgoing::Fused(comm, &yes, values));
    }

    #[inline]
    fn command(&mut self, command: Command) {
        self.commands.push_back(command);
    }
}

impl Engine {
    /// A call of the process, and all that it commands. A call that a command makes only adds to
    /// the queue.
    #[inline]
    pub(crate) fn call<R>(&mut self, call: impl FnOnce(&mut Process, &mut Out<'_>) -> R) -> R {
        self.news += 1;
        let mut out = Out { platform: &mut *self.platform, commands: &mut self.commands };
        let result = call(&mut self.process, &mut out);
        if !self.commands.is_empty() && !self.executing {
            self.execute();
        }
        result
    }

    /// Does something whose commands are carried out when it is over, so that no block it looks at
    /// ends meanwhile.
    #[inline]
    pub(super) fn defer_commands<R>(&mut self, doing: impl FnOnce(&mut Self) -> R) -> R {
        let outer = core::mem::replace(&mut self.executing, true);
        let result = doing(self);
        self.executing = outer;
        if !self.commands.is_empty() && !outer {
            self.execute();
        }
        result
    }

    #[cold]
    fn execute(&mut self) {
        self.executing = true;
        while let Some(command) = self.commands.pop_front() {
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
                    let (comm, me) = (self.comm_name(comm), self.comm(comm).me);
                    self.tell(&Entry::Agreed { comm, me, block, report });
                }
                Command::Died(address, source) => self.note_death(address, source),
                Command::Dismissed => self.job.dismissed = true,
                Command::DiscardUniverse(universe) => {
                    self.platform.discard(Unneeded::Universe(universe));
                }
                Command::DiscardData(data) => self.platform.discard(Unneeded::Data(data)),
                Command::DiscardStaleMessages(comm) => self.discard_stale_messages(comm),
            }
        }
        self.executing = false;
    }

    /// Ends the pending requests of a block that were chosen.
    fn fail_requests(&mut self, key: BlockKey, code: FaultCode, chosen: Chosen) {
        if !self.process.current(key).is_some_and(crate::protocol::process::Block::is_running) {
            return;
        }
        match chosen {
            Chosen::All => self.fail_pending(key, code, |_, _| true),
            Chosen::Operations => self.fail_pending(key, code, is_operation),
            Chosen::Needing(dead) => {
                let needs = |contents: &Contents, need| match need {
                    Need::Peer(peer) => peer == dead,
                    Need::Anybody | Need::All | Need::Living(_) => true,
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
        if !self.draining.is_empty() {
            self.draining.retain(|draining| *draining != key);
        }
        if !self.serving.is_empty() {
            self.serving.retain(|served| *served != key);
        }
        if !self.contents_mut(key).is_drained() {
            // The others have decided it without this rank's vote, as its communicator is over.
            self.fail_pending(key, FaultCode::Interrupted, |_, _| true);
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
        if let Some(pulse) = self.pulse.filter(|_| committed) {
            pulse.commit();
        }
        if !committed {
            self.tally.faulty += 1;
            self.blame_the_dead(key);
            if !self.process.has_left() {
                self.reclaim_buffers(key);
            }
        }
        if self.process.conclude(key, committed) {
            self.release(key);
        }
    }

    /// Ends the use of what no rank asks for any more.
    pub(crate) fn sweep(&mut self) {
        let mut out = Out { platform: &mut *self.platform, commands: &mut self.commands };
        self.process.sweep(|key| self.copies.need(key), &mut out);
        if !self.executing {
            self.execute();
        }
        let process = &self.process;
        self.numbers.retain(|(universe, _)| process.knows(*universe));
    }
}
