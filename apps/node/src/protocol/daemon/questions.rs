//! What a process has to say to those who meet it first, such as its address: they ask its daemon.
//! Processes that are started together hear it of each other when they start MPI. Before they meet
//! others, their daemons tell it to all where some node has none of them, so that it outlives them:
//! who meets a process that was lost with its node finds it dead, and not unknown, which MPI does
//! not survive.

use super::super::{
    Answer, Effect, Effects, Failure, Node, Process, Ticket,
    collective::Kind,
    message::{Fact, Message},
};
use super::{Asked, Daemon};

/// Processes of this node that are to meet others, when all know what these of them have to say.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Held {
    who: Vec<Process>,
    ticket: Ticket,
    until: Vec<Process>,
}

impl Daemon {
    /// A rank of this node needs what a process has to say.
    pub fn handle_question(&mut self, of: Process, ticket: Ticket, out: &mut Effects) {
        let node = self.spaces.get(&of.space).and_then(|known| known.space.node_of(of.rank));
        let lives = self.spaces.end_of(&of).is_none();
        if let Some(said) = self.said_by.get(&of) {
            out.push(Effect::Answer(ticket, Answer::Bytes(Ok(said.clone()))));
        } else if let Some(node) = node.filter(|node| *node != self.members.me() && lives) {
            self.number += 1;
            self.send(node, Message::Ask(self.number, of.clone()), out);
            self.asked.insert(self.number, Asked::Here(ticket, of));
        } else {
            out.push(Effect::Answer(ticket, Answer::Bytes(Err(Failure::NotFound))));
        }
        self.settle(out);
    }

    /// Another daemon asks for a process of this node.
    pub(super) fn handle_ask(&mut self, from: Node, theirs: u64, of: Process, out: &mut Effects) {
        let here = self.spaces.get(&of.space).and_then(|it| it.space.node_of(of.rank));
        if here == Some(self.members.me()) && self.spaces.end_of(&of).is_none() {
            self.number += 1;
            out.push(Effect::Ask(of.clone(), self.number));
            self.asked.insert(self.number, Asked::There(from, theirs, of));
        } else {
            self.send(from, Message::Say(theirs, Err(Failure::NotFound)), out);
        }
    }

    /// What a process of this node has to say, as [`Effect::Ask`] wanted.
    pub fn handle_data(&mut self, number: u64, data: Result<Vec<u8>, Failure>, out: &mut Effects) {
        match self.asked.remove(&number) {
            Some(Asked::There(node, theirs, _)) => {
                self.send(node, Message::Say(theirs, data), out);
            }
            Some(Asked::ForAll(process)) => {
                if let Ok(data) = data {
                    self.tell(Fact::Said(process, data), out);
                }
            }
            _ => {}
        }
        self.settle(out);
    }

    /// Those of these processes that are here, and that a node needs to know that has none of them.
    fn strangers(&self, who: &[Process]) -> Vec<Process> {
        let here = self.spaces.expand(who).filter(|(known, rank)| {
            let is_stranger = |node: Node| known.space.ranks_on(node).next().is_none();
            known.space.node_of(*rank) == Some(self.members.me())
                && known.end_of(*rank).is_none()
                && self.members.others().any(is_stranger)
        });
        let here = here.map(|(known, rank)| known.space.process(rank));
        here.filter(|process| !self.said_by.contains_key(process)).collect()
    }

    /// Processes of this node are to meet others, who may need to know them when they are lost.
    pub(super) fn introduce(&mut self, who: Vec<Process>, ticket: Ticket, out: &mut Effects) {
        let until = self.strangers(&who);
        for process in &until {
            self.number += 1;
            out.push(Effect::Ask(process.clone(), self.number));
            self.asked.insert(self.number, Asked::ForAll(process.clone()));
        }
        self.held.push(Held { who, ticket, until });
    }

    /// Answers questions of which the answer is certain.
    pub(super) fn settle_questions(&mut self, out: &mut Effects) {
        let (spaces, members, said_by) = (&self.spaces, &self.members, &self.said_by);
        let mut answers = Vec::new();
        self.asked.retain(|_, asked| {
            let (Asked::Here(_, of) | Asked::There(_, _, of) | Asked::ForAll(of)) = &*asked;
            let is_over = spaces.end_of(of).is_some();
            match &*asked {
                Asked::Here(ticket, _) if is_over => {
                    let said = said_by.get(of).cloned().ok_or(Failure::Lost);
                    out.push(Effect::Answer(*ticket, Answer::Bytes(said)));
                }
                Asked::There(node, theirs, _) if is_over => {
                    answers.push((*node, Message::Say(*theirs, Err(Failure::Lost))));
                }
                Asked::There(node, ..) if members.is_lost(*node) => return false,
                _ => {}
            }
            !is_over
        });
        for (node, answer) in answers {
            self.send(node, answer, out);
        }
    }

    /// Lets processes of this node meet others when all know what they have to say.
    pub(super) fn settle_held(&mut self, out: &mut Effects) {
        let asked = &self.asked;
        let waits = |process: &Process| {
            asked.values().any(|it| matches!(it, Asked::ForAll(of) if of == process))
        };
        let ready = self.held.extract_if(.., |held| !held.until.iter().any(waits));
        for held in ready.collect::<Vec<Held>>() {
            self.arrive(Kind::Connect, held.who, Vec::new(), held.ticket, out);
        }
    }
}
