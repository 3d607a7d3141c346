//! SWIM as a station, by the crate *foca*: random probes, suspicion, gossip.
//!
//! Its settings are those of the crate for a local network of this size, with all times in
//! proportion to the period of the probes.
//!
//! Reference: A. Das, I. Gupta, A. Motivala, *SWIM: scalable weakly-consistent infection-style
//! process group membership protocol*, DSN 2002.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    num::NonZeroU32,
    time::Duration,
};

use fampi_kit::observers::stations::{Out, Station};
use foca::{Config, Foca, Member, NoCustomBroadcast, Notification, PostcardCodec, Runtime};
use rand::{SeedableRng as _, rngs::SmallRng};

/// Members are addresses to the crate; ours are numbers.
fn address(node: u32) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(node + 1), 1)
}

fn number(address: SocketAddrV4) -> u32 {
    address.ip().to_bits() - 1
}

pub(crate) struct Swim {
    me: u32,
    nodes: u32,
    foca: Foca<SocketAddrV4, PostcardCodec, SmallRng, NoCustomBroadcast>,
}

type SwimOut = Out<Vec<u8>, foca::Timer<SocketAddrV4>>;

/// Writes down what the crate wants done.
struct Notes<'a>(&'a mut SwimOut);

impl Runtime<SocketAddrV4> for Notes<'_> {
    fn notify(&mut self, notification: Notification<'_, SocketAddrV4>) {
        if let Notification::MemberDown(member) = notification {
            self.0.dead.push(number(*member));
        }
    }

    fn send_to(&mut self, to: SocketAddrV4, data: &[u8]) {
        self.0.sends.push((number(to), data.to_vec()));
    }

    fn submit_after(&mut self, event: foca::Timer<SocketAddrV4>, after: Duration) {
        self.0.timers.push((event, after));
    }
}

impl Swim {
    pub(crate) fn new(me: u32, nodes: u32, period: Duration, seed: u64) -> Self {
        let mut config = Config::new_lan(NonZeroU32::new(nodes).unwrap_or(NonZeroU32::MIN));
        let scale = period.as_secs_f64() / config.probe_period.as_secs_f64();
        for time in
            [&mut config.probe_period, &mut config.probe_rtt, &mut config.suspect_to_down_after]
        {
            *time = time.mul_f64(scale);
        }
        // Ways to find members again that were taken for dead; there is nothing to find here.
        config.periodic_announce = None;
        config.periodic_announce_to_down_members = None;
        if let Some(gossip) = &mut config.periodic_gossip {
            gossip.frequency = gossip.frequency.mul_f64(scale);
        }
        let random = SmallRng::seed_from_u64(seed);
        Self { me, nodes, foca: Foca::new(address(me), config, random, PostcardCodec) }
    }
}

impl Station for Swim {
    type Wire = Vec<u8>;
    type Timer = foca::Timer<SocketAddrV4>;

    fn begin(&mut self, out: &mut SwimOut) {
        let others = (0..self.nodes).filter(|node| *node != self.me);
        let members = others.map(|node| Member::alive(address(node)));
        let joined = self.foca.apply_many(members, false, Notes(out));
        joined.expect("all are new");
    }

    fn receive(&mut self, _: u32, data: Vec<u8>, out: &mut SwimOut) {
        // A member that was declared dead is refused; so it should be.
        let _ = self.foca.handle_data(&data, Notes(out));
    }

    fn expire(&mut self, timer: foca::Timer<SocketAddrV4>, out: &mut SwimOut) {
        let _ = self.foca.handle_timer(timer, Notes(out));
    }
}
