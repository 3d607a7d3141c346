//! The daemons of other nodes: how this one meets them, and takes what they say.

use std::time::Duration;

use anyhow::{Result, bail};
use fampi_detector::protocol::Node;

use super::super::links::{Answered, Received};
use super::{Service, Stage};
use crate::protocol::Effects;
use crate::protocol::orders::{Place, Plan, Word};
use crate::wire::End;

impl Service {
    /// Meets the other nodes of a job, but for those that are lost.
    pub(super) fn call_others(&mut self, plan: Box<Plan>, lost: &[u32]) -> Result<()> {
        let nodes = (0..plan.nodes.len() as u32).filter(|node| !lost.contains(node)).map(Node);
        let others = plan.neighbours(self.me, nodes.collect());
        let period = Duration::from_millis(plan.beat_milliseconds.into());
        self.links.call(&self.poll, &plan.nodes, &others, period, !plan.is_mesh())?;
        self.stage = Stage::Meeting(plan, others);
        Ok(())
    }

    /// Once all others are linked says so; or begins, if this node joins them.
    pub(super) fn look_around(&mut self, out: &mut Effects) {
        if let Stage::Meeting(_, others) = &self.stage
            && self.links.have_all(others)
        {
            if self.joined.is_some() {
                self.go(out);
            } else {
                self.console.send(&Word::Ready);
            }
        }
    }

    /// Takes what another daemon has sent.
    pub(super) fn hear(&mut self, node: Node, out: &mut Effects) -> Result<()> {
        let Received { is_linked, messages, end } = self.links.receive(node);
        let Stage::Serving(_, daemon) = &mut self.stage else {
            let awaits = match &self.stage {
                Stage::Meeting(_, others) => others.contains(&node),
                _ => true,
            };
            if end.is_some() && awaits && self.joined.is_some() {
                // Who brings this node starts another daemon there.
                self.is_over = true;
                return Ok(());
            }
            if end.is_some() && awaits {
                bail!("node {} was lost before this one was linked with all", node.0);
            }
            self.early.extend(messages.into_iter().map(|message| (node, message)));
            if end.is_some() {
                self.links.unwatch(&self.poll, node);
            }
            self.look_around(out);
            return Ok(());
        };
        if is_linked && daemon.members().is_lost(node) {
            self.links.part(&self.poll, node);
            return Ok(());
        }
        if is_linked {
            daemon.handle_linked(node, out);
        }
        for message in messages {
            daemon.handle_message(node, message, out);
        }
        match end {
            Some(End::Closed) => daemon.handle_closed(node, out),
            // It may live, and is silent from now on.
            Some(End::Broken | End::Refused) => self.links.unwatch(&self.poll, node),
            None => {}
        }
        Ok(())
    }

    /// Hears a node that was called.
    pub(super) fn hear_dialled(&mut self, number: u64, out: &mut Effects) -> Result<()> {
        let answered = self.links.hear_dialled(&self.poll, number)?;
        let Stage::Serving(_, daemon) = &mut self.stage else { return Ok(()) };
        match answered {
            Some(Answered::Linked(node, first)) => {
                daemon.handle_linked(node, out);
                daemon.handle_message(node, *first, out);
                self.hear(node, out)?;
            }
            Some(Answered::Nobody(node)) => daemon.handle_closed(node, out),
            None => {}
        }
        Ok(())
    }

    /// A node wants to be called by this one.
    pub(super) fn call_back(&mut self, node: Node) -> Result<()> {
        match &self.stage {
            Stage::Serving(_, daemon) if !daemon.members().is_lost(node) => {
                self.links.dial(&self.poll, node)
            }
            // It asks again.
            _ => Ok(()),
        }
    }

    /// A node is to join.
    pub(super) fn expect(&mut self, node: Node, place: Place) {
        let Stage::Serving(plan, _) = &mut self.stage else { return };
        if node.0 as usize == plan.nodes.len() {
            plan.nodes.push(place);
            self.console.note_nodes(&plan.nodes);
        }
        self.links.expect(node);
    }
}
