//! The exchange of the fast path: recursive doubling among the positions of a view.
//!
//! With a power of two of participants, in round r position i exchanges with i xor 2^(r−1); after
//! log₂ n rounds everybody has combined everybody. The others (those at or above the largest power
//! of two) fold into a core position first and get the result last:
//!
//! ```text
//! positions 0 1 2 3 4 (core 4)    4 ─fold in→ 0   round 0
//!                                 0↔1 2↔3         round 1
//!                                 0↔2 1↔3         round 2
//!                                 0 ─fold out→ 4  round 3
//! ```
//!
//! Assumes that what is combined is idempotent (votes that are all *yes*, a minimum), so that an
//! early message may be merged before its round; what is not ([`super::fused`]) waits for it.

/// The state of one exchange at one position.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Doubling {
    position: u32,
    core: u32,
    extra: bool,
    last: u8,
    round: u8,
    arrived: u64,
}

impl Doubling {
    /// An exchange among `size` positions, seen from one of them; call [`Self::advance`] next.
    #[inline]
    pub fn new(position: u32, size: u32) -> Self {
        let rounds = size.ilog2();
        let core = 1 << rounds;
        let extra = position + core < size || position >= core;
        Self { position, core, extra, last: rounds as u8 + 1, round: u8::MAX, arrived: 0 }
    }

    /// The position that waits for this one and has nothing to say to it before that.
    pub fn folds_into(position: u32, size: u32) -> Option<u32> {
        position.checked_sub(1 << size.ilog2())
    }

    /// True when this position is told the result, and has no part in combining it.
    #[inline]
    pub fn follows(&self) -> bool {
        self.position >= self.core
    }

    /// Notes the message of a round; true when it comes from the position expected for it.
    #[inline]
    pub fn arrive(&mut self, from: u32, round: u8) -> bool {
        if round > self.last || self.partner(round) != Some(from) {
            return false;
        }
        self.arrived |= 1 << round;
        true
    }

    /// Notes the rounds whose messages arrived before the exchange began.
    #[inline]
    pub fn arrive_early(&mut self, rounds: u64) {
        self.arrived |= rounds;
    }

    /// Goes as far as the arrived messages allow; `send(position, round)` for what is to be sent.
    /// True when all votes are combined.
    #[inline]
    pub fn advance(&mut self, mut send: impl FnMut(u32, u8)) -> bool {
        if self.round == u8::MAX {
            self.enter(0, &mut send);
        }
        while self.round <= self.last {
            if self.receives(self.round) && self.arrived >> self.round & 1 == 0 {
                return false;
            }
            self.enter(self.round + 1, &mut send);
        }
        true
    }

    /// The position whose message the exchange waits for.
    #[inline]
    pub fn awaits(&self) -> Option<u32> {
        (self.round <= self.last).then(|| self.partner(self.round)).flatten()
    }

    #[inline]
    fn enter(&mut self, round: u8, send: &mut impl FnMut(u32, u8)) {
        self.round = round;
        if round <= self.last
            && self.sends(round)
            && let Some(partner) = self.partner(round)
        {
            send(partner, round);
        }
    }

    /// The position that takes part with ours in a round.
    #[inline]
    fn partner(&self, round: u8) -> Option<u32> {
        let in_core = self.position < self.core;
        if round == 0 || round == self.last {
            self.extra.then_some(self.position ^ self.core)
        } else {
            in_core.then(|| self.position ^ 1 << (round - 1))
        }
    }

    #[inline]
    fn sends(&self, round: u8) -> bool {
        let in_core = self.position < self.core;
        in_core == (round != 0)
    }

    #[inline]
    fn receives(&self, round: u8) -> bool {
        if self.position < self.core {
            round != self.last && (round != 0 || self.extra)
        } else {
            round == self.last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::VecDeque, vec, vec::Vec};

    #[test]
    fn everybody_hears_of_everybody_in_log_n_rounds() {
        for size in 1..40_u32 {
            let mut machines: Vec<_> = (0..size).map(|i| Doubling::new(i, size)).collect();
            let mut known: Vec<u64> = (0..size).map(|i| 1 << i).collect();
            let mut links = VecDeque::new();
            let mut done = vec![false; size as usize];
            let mut sent = 0;
            for i in 0..size as usize {
                let known = known[i];
                done[i] = machines[i].advance(|to, round| links.push_back((i, to, round, known)));
            }
            while let Some((from, to, round, what)) = links.pop_front() {
                let to = to as usize;
                sent += 1;
                assert!(machines[to].arrive(from as u32, round), "{size}: {from} to {to}");
                known[to] |= what;
                let now = known[to];
                done[to] = machines[to].advance(|peer, r| links.push_back((to, peer, r, now)));
            }
            assert!(done.iter().all(|done| *done));
            let everybody = if size == 64 { u64::MAX } else { (1 << size) - 1 };
            assert!(known.iter().all(|known| *known == everybody), "{size}");
            let (rounds, core) = (size.ilog2(), 1 << size.ilog2());
            assert_eq!(sent, core * rounds + 2 * (size - core), "messages at {size}");
        }
    }

    #[test]
    fn a_message_from_the_wrong_position_is_refused() {
        let mut machine = Doubling::new(0, 4);
        assert!(!machine.arrive(3, 1));
        assert!(!machine.arrive(1, 9));
        assert!(machine.arrive(1, 1));
    }
}
