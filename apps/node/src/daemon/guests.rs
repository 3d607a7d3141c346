//! Those who bring nodes to a job that runs.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::poll::Poll;
use crate::protocol::orders::{Invitation, Order, Place, Plan, Word};
use crate::protocol::{Guest, Refusal};
use crate::wire::Link;

/// Numbers of what is waited for.
const GUESTS: u64 = 1 << 34;
const END: u64 = 1 << 35;

/// The links to guests.
#[derive(Debug, Default)]
pub(super) struct Guests {
    links: BTreeMap<Guest, Link>,
    last: u64,
}

impl Guests {
    /// One has called; what it says is to be heard at once, as some may have come with the call.
    pub(super) fn admit(&mut self, poll: &Poll, link: Link) -> Result<u64> {
        self.last += 1;
        poll.add(&link, GUESTS + self.last)?;
        self.links.insert(Guest(self.last), link);
        Ok(GUESTS + self.last)
    }

    /// True for the number of a guest.
    pub(super) const fn owns(number: u64) -> bool {
        number >= GUESTS && number < END
    }

    /// The nodes that a guest wants to be added; nothing when it is gone.
    pub(super) fn hear(&mut self, poll: &Poll, number: u64) -> (Guest, Option<Vec<Place>>) {
        let guest = Guest(number - GUESTS);
        let Some(link) = self.links.get_mut(&guest) else { return (guest, Some(Vec::new())) };
        link.read();
        let mut places = Vec::new();
        while let Some(order) = link.take() {
            if let Order::Add(place) = order {
                places.push(place);
            }
        }
        if link.is_closed() {
            poll.remove(&*link);
            self.links.remove(&guest);
            return (guest, None);
        }
        (guest, Some(places))
    }

    /// Answers a guest, if it is still there.
    pub(super) fn answer(&mut self, guest: Guest, word: &Word) {
        if let Some(link) = self.links.get_mut(&guest) {
            link.send(word);
        }
    }

    /// Sends what there was no room for.
    pub(super) fn flush(&mut self) {
        self.links.values_mut().for_each(Link::flush);
    }

    /// What a guest is told.
    pub(super) fn word(plan: &Plan, admitted: Result<(u32, Vec<u32>), Refusal>) -> Word {
        match admitted {
            Ok((number, lost)) => {
                Word::Admitted(Box::new(Invitation { number, lost, plan: plan.clone() }))
            }
            Err(refusal) => Word::NotAdmitted(refusal),
        }
    }
}

/// Says to who has started this daemon that it is here, and waits until it is told what to join.
pub(super) fn wait_for_invitation(guest: &mut Link, here: &Word) -> Result<Invitation> {
    guest.send(here);
    loop {
        guest.read();
        match guest.take() {
            Some(Order::Join(invitation)) => return Ok(*invitation),
            None if guest.is_closed() => bail!("nobody says which job this node is to join"),
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
}
