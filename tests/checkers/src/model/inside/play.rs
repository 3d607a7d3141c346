//! One turn of a rank inside of a block: what its application and its platform do.

use std::sync::Arc;

use fampi::{
    fault::{Cause, FaultCode},
    protocol::{
        agreement::Vote,
        process::{BlockKey, Chosen, Command, Level, Need, Process, Source},
    },
    rank::Rank,
};

use super::{Data, Inside, Member, Out, Request, State, Turn, UNIVERSE, Wire};
use crate::record::known_to;

/// One turn under way.
pub(super) struct Play<'a> {
    pub(super) setup: &'a Inside,
    pub(super) rank: Rank,
    pub(super) member: Member,
    pub(super) state: &'a mut State,
    pub(super) queue: Vec<Command>,
}

impl Play<'_> {
    pub(super) fn take(&mut self, turn: Turn) {
        let outer = self.member.outer;
        match turn {
            Turn::Send => {
                self.member.sent = true;
                let context = self.member.process.block(outer).context;
                let data = Data { context, round: self.member.round };
                self.send(self.setup.right(self.rank), Wire::Data(data));
            }
            Turn::StartInside => {
                let (comm, block) = self.member.inner.as_mut().expect("it has one");
                *block = Some(self.member.process.start_block(*comm, Level::Global));
            }
            Turn::FinishInside => {
                let block = self.member.inner.and_then(|(_, block)| block).expect("it is open");
                let objects = self.setup.naysayer == Some(self.rank.number());
                if objects && self.member.round == 0 {
                    self.member.process.raise(block, FaultCode::Application(7));
                }
                self.vote(block);
            }
            Turn::Finish => self.vote(outer),
            Turn::Leave => {
                self.call(|process, out| process.leave_block(outer, FaultCode::LeftBlock, out));
            }
            Turn::Again => self.try_again(),
            Turn::Take(from) => self.receive(from),
            Turn::Notice(dead) => {
                let address = (UNIVERSE, dead);
                self.call(|process, out| process.handle_death(address, Source::Platform, out));
            }
            Turn::Die => {}
        }
        while !self.queue.is_empty() {
            let command = self.queue.remove(0);
            self.carry_out(&command);
        }
        for dead in self.setup.all().filter(|rank| self.member.knows_dead(*rank)) {
            // Nothing more is taken from the dead.
            self.state.links[self.setup.link(dead, self.rank)].clear();
        }
    }

    /// A call of the process: messages leave, commands wait.
    fn call<R>(&mut self, call: impl FnOnce(&mut Process, &mut Out) -> R) -> R {
        let mut out = Out::default();
        let result = call(&mut self.member.process, &mut out);
        for (to, wire) in out.sent {
            self.send(to, wire);
        }
        self.queue.append(&mut out.commands);
        result
    }

    fn carry_out(&mut self, command: &Command) {
        match *command {
            Command::FailRequests(block, code, chosen) => {
                let needed = match chosen {
                    Chosen::Needing(dead) => self.setup.left(self.rank) == dead,
                    Chosen::All | Chosen::Operations => true,
                };
                let pending = self.member.request == Request::Pending;
                if block == self.member.outer && pending && needed {
                    self.member.request = Request::Failed(code);
                    let need = Need::Peer(self.setup.left(self.rank));
                    self.call(|process, out| process.request_failed(block, need, code, out));
                }
            }
            Command::Conclude(block, committed) => self.conclude(block, committed),
            Command::Finish(block) => self.vote(block),
            Command::Died(address, _) => {
                self.call(|process, out| process.handle_cause(address, Cause::Unknown, out));
            }
            _ => {}
        }
    }

    /// The requests of a block are over, and it ends.
    fn vote(&mut self, key: BlockKey) {
        if !self.member.process.block(key).is_running() {
            return;
        }
        let mut faults = None;
        if key == self.member.outer {
            let block = self.member.process.block(key);
            let (context, proviso) = (block.context, block.proviso);
            if let Some((_, Some(inner))) = self.member.inner {
                let _ = self.member.process.inner_result(key, inner);
            }
            let failed = match self.member.request {
                Request::Failed(code) => {
                    let left = self.setup.left(self.rank);
                    self.member.process.blame(key, code, Some(left))
                }
                _ => None,
            };
            let raised = &self.member.process.block(key).faults;
            let faulty = raised.iter().copied().chain(failed).collect();
            let entry = &mut self.state.records[self.rank.index()].blocks[self.member.round];
            entry.vote = Some(Vote { faults: faulty, context });
            assert!(proviso.is_none());
            let comm = self.member.process.block(key).comm;
            entry.known = known_to(&self.member.process.comm(comm).commit, false);
            faults = Some(failed.into_iter().collect());
        }
        self.member.process.finish(key);
        self.call(|process, out| process.vote(key, faults, out));
    }

    fn conclude(&mut self, key: BlockKey, committed: bool) {
        let block = self.member.process.block(key);
        let decision = self.member.process.comm(block.comm).commit.decision(block.scope);
        let decision = decision.expect("it has just been decided");
        if key == self.member.outer {
            let round = self.member.round;
            self.state.records[self.rank.index()].blocks[round].decision = Some(decision);
        } else if self.member.inner.is_some_and(|(_, inner)| inner == Some(key)) {
            self.member.inner_decision = Some(decision);
        }
        if self.member.process.conclude(key, committed) {
            self.member.process.release(key);
        }
    }

    /// The application begins the block anew.
    fn try_again(&mut self) {
        let member = &mut self.member;
        let comm = member.process.block(member.outer).comm;
        let inner = member.inner.as_mut().and_then(|(_, inner)| inner.take());
        for handle in inner.into_iter().chain([member.outer]) {
            if member.process.detach(handle) {
                member.process.release(handle);
            }
        }
        member.round += 1;
        member.outer = member.process.start_block(comm, Level::Global);
        member.request = if self.setup.ring { Request::Pending } else { Request::Done };
        (member.sent, member.inner_decision) = (false, None);
        let (block, need) = (member.outer, Need::Peer(self.setup.left(self.rank)));
        let doom = member.process.doom(block, need).filter(|_| self.setup.ring);
        if let Some(code) = doom {
            member.request = Request::Failed(code);
            self.call(|process, out| process.request_failed(block, need, code, out));
        } else if let Some(data) = member.early.take() {
            member.receive(data);
        }
    }

    fn receive(&mut self, from: Rank) {
        let wire = self.state.links[self.setup.link(from, self.rank)].remove(0);
        match Arc::unwrap_or_clone(wire) {
            Wire::Data(data) => self.member.receive(data),
            Wire::Frame(comm, message) => self.call(|process, out| {
                process.handle_message((UNIVERSE, from), comm, message, out);
            }),
        }
    }

    fn send(&mut self, to: Rank, wire: Wire) {
        if self.state.records[to.index()].alive {
            self.state.links[self.setup.link(self.rank, to)].push(Arc::new(wire));
        }
    }
}
