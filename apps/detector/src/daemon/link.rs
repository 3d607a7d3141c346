//! Packets from and to other observers: what opens goes to the machine, the rest is counted.
//!
//! The socket is standard input, if that is one: the caller has made it to know its port before it
//! starts us. Otherwise it is bound to our address in the plan.
//!
//! A packet that the system does not take at once is as good as lost on its way, which the machine
//! expects. An observer that takes the place of another has an address of its own: it is learned
//! from its first authentic packet.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::protocol::{
    Host, Incarnation,
    envelope::{Envelopes, MAX_PACKET, Refusals},
    message::Message,
    plan::Plan,
};

/// Where packets come and go.
#[derive(Debug)]
pub struct Link {
    socket: UdpSocket,
    envelopes: Envelopes,
    /// Whose address is known, by node.
    addresses: Vec<(Incarnation, SocketAddr)>,
    unsent: u64,
}

impl Link {
    /// The link of the observer that this plan is for.
    pub fn new(plan: &Plan) -> Result<Self> {
        let address = plan.nodes[plan.me.node.0 as usize].address;
        let socket = match inherited() {
            Some(socket) => socket,
            None => UdpSocket::bind(address)
                .with_context(|| format!("cannot take packets at {address}"))?,
        };
        socket.set_nonblocking(true)?;
        let launched = |place: &crate::protocol::plan::Place| (Incarnation(0), place.address);
        let addresses = plan.nodes.iter().map(launched).collect();
        Ok(Self { socket, envelopes: Envelopes::new(plan.me, &plan.secret), addresses, unsent: 0 })
    }

    /// Packets that were refused.
    pub fn refusals(&self) -> Refusals {
        self.envelopes.refusals()
    }

    /// Packets that the system did not take.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Sends a message.
    pub fn send(&mut self, to: Host, message: &Message) {
        let packet = self.envelopes.seal(to, message);
        let (_, address) = self.addresses[to.node.0 as usize];
        if self.socket.send_to(&packet, address).is_err() {
            self.unsent += 1;
        }
    }

    /// The next of at most `packets` that have come, if one of them is a message.
    pub fn receive(&mut self, packets: &mut u32) -> Option<(Host, Message)> {
        // One byte more tells what is too long.
        let mut packet = [0; MAX_PACKET + 1];
        while *packets > 0 {
            *packets -= 1;
            let (length, source) = match self.socket.recv_from(&mut packet) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                // What the network says about a packet that we have sent.
                Err(_) => continue,
            };
            let Ok((from, message)) = self.envelopes.open(&packet[..length]) else { continue };
            let Some(known) = self.addresses.get_mut(from.node.0 as usize) else { continue };
            if known.0 < from.incarnation {
                *known = (from.incarnation, source);
            }
            return Some((from, message));
        }
        None
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket for packets that the caller has handed us.
fn inherited() -> Option<UdpSocket> {
    let input = io::stdin();
    let input = input.as_fd();
    let family = sockopt::socket_domain(input).ok()?;
    let is_for_packets = sockopt::socket_type(input).ok()? == SocketType::DGRAM
        && [AddressFamily::INET, AddressFamily::INET6].contains(&family);
    is_for_packets.then(|| input.try_clone_to_owned().map(UdpSocket::from).ok())?
}
