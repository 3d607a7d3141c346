//! Links that are made while a daemon serves: it calls nodes before it, and asks those behind it to
//! call, as it is always the later one that calls.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fampi_detector::protocol::Node;

use super::{Links, SHORTEST, Silence, host, push};
use crate::poll::Poll;
use crate::protocol::message::{MAX_BYTES, Message};
use crate::wire::{End, Link};

/// Numbers of what is waited for.
const DIALLED: u64 = 1 << 36;

/// A node that was called, or asked to call, and has not answered.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) link: Link,
    /// When that began.
    since: Instant,
    is_quiet: bool,
    /// As in [`Neighbour`].
    is_excused: bool,
}

/// What has become of a call.
#[derive(Debug)]
pub(in crate::daemon) enum Answered {
    /// The node is linked, and says this first.
    Linked(Node, Box<Message>),
    /// The host of the node says that no daemon is there.
    Nobody(Node),
}

impl Links {
    /// Calls one more node, or asks it to call if it comes after this one, and waits for no answer.
    pub(in crate::daemon) fn dial(&mut self, poll: &Poll, node: Node) -> Result<()> {
        if self.neighbours.contains_key(&node) || self.dialled.contains_key(&node) {
            return Ok(());
        }
        let address = self.addresses.get(node.0 as usize).context("a node that has no place")?;
        let mut link = Link::dial(*address, self.me, host(node.0), &self.secret, MAX_BYTES)?;
        poll.add(&link, DIALLED + u64::from(node.0))?;
        push(poll, &mut link, DIALLED + u64::from(node.0))?;
        self.dialled.insert(
            node,
            Dialled { link, since: Instant::now(), is_quiet: false, is_excused: false },
        );
        Ok(())
    }

    /// Hears a node that was called, if this is its number. It counts as linked once its first
    /// message arrives, which shows that it has let this node in.
    pub(in crate::daemon) fn hear_dialled(
        &mut self,
        poll: &Poll,
        number: u64,
    ) -> Result<Option<Answered>> {
        let node = number.checked_sub(DIALLED).and_then(|it| u32::try_from(it).ok()).map(Node);
        let found = node.and_then(|node| Some((node, self.dialled.get_mut(&node)?)));
        let Some((node, dialled)) = found else { return Ok(None) };
        dialled.link.read();
        if let Some(first) = dialled.link.take() {
            let Some(dialled) = self.dialled.remove(&node) else { return Ok(None) };
            poll.remove(&dialled.link);
            self.join(poll, node, dialled.link)?;
            if let Some(neighbour) = self.neighbours.get_mut(&node) {
                neighbour.is_new = false;
            }
            return Ok(Some(Answered::Linked(node, Box::new(first))));
        }
        if dialled.link.is_closed() {
            poll.remove(&dialled.link);
        }
        Ok((dialled.link.end() == Some(End::Refused)).then_some(Answered::Nobody(node)))
    }

    /// Looks after the nodes that were called and have not answered: calls them again when they
    /// have not let this node in, and says who has been silent.
    pub(super) fn look_after_dialled(
        &mut self,
        poll: &Poll,
        now: Instant,
        (was_late, lost_after): (Duration, Duration),
    ) -> Result<Vec<(Node, Silence)>> {
        let mut changes = Vec::new();
        for (node, dialled) in &mut self.dialled {
            if dialled.link.end().is_some_and(|end| end != End::Refused) {
                let address = self.addresses.get(node.0 as usize).context("it has no place")?;
                dialled.link =
                    Link::dial(*address, self.me, host(node.0), &self.secret, MAX_BYTES)?;
                poll.add(&dialled.link, DIALLED + u64::from(node.0))?;
            }
            push(poll, &mut dialled.link, DIALLED + u64::from(node.0))?;
            if was_late > Duration::ZERO && !std::mem::replace(&mut dialled.is_excused, true) {
                dialled.since = (dialled.since + was_late).min(now);
            }
            let silent = now.duration_since(dialled.since);
            if silent > lost_after {
                changes.push((*node, Silence::Silent));
            } else if silent > SHORTEST && !dialled.is_quiet {
                dialled.is_quiet = true;
                changes.push((*node, Silence::Quiet));
            }
        }
        Ok(changes)
    }
}
