//! Packets between observers: authentic, fresh, and meant for us, or refused and counted.
//!
//! ```text
//! packet = version u8 · from u32, u32 · to u32, u32 · counter u64 · message · tag 16
//! ```
//!
//! The tag is the first half of HMAC-SHA-256 over all before it, under the secret of the job. The
//! receiver is part of what is authentic, in its incarnation: a packet cannot be sent on to another
//! observer, nor to the next one of the same node. Every sender counts its packets; a receiver
//! takes each number of a sender's life once, and none that is 64 or more behind the newest, so
//! packets may overtake each other a little. A number is spent only by a packet that is authentic.
//!
//! A packet of a life that a newer one has replaced is opened: the observer has to tell that one to
//! stop, and takes nothing from it.
//!
//! **Guarantees** that what is opened was sealed by who knows the secret, for this observer, and,
//! within a sender's newest life, is opened once. Opening never panics.
//!
//! **Assumes** that the secret is unpredictable and known to the processes of the job alone, and
//! that no two observers have the same node and incarnation.
//!
//! Reference: RFC 2104 (HMAC, §5 on truncation); RFC 4303 §3.4.3 (the window).

use alloc::collections::BTreeMap;
use core::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{
    Host, Incarnation, Node,
    codec::{self, Frame, Reader, host, put_host, put_u64},
    message::Message,
};
use crate::planted::planted;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 1 + 8 + 8 + 8;
/// Bytes of a signature.
pub const TAG_BYTES: usize = 16;

/// The most bytes of a packet; every network carries so many in one piece.
pub const MAX_PACKET: usize = HEADER_BYTES + codec::MAX_BYTES + TAG_BYTES;
const _: () = assert!(MAX_PACKET <= 1232, "IPv6 promises 1280 bytes with headers");

/// What all processes of a job know and nobody else.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// From bytes that nobody can guess.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for those who hand them on where nobody else can read them.
    pub const fn reveal(&self) -> &[u8; 32] {
        &self.0
    }

    /// A secret that only this one and these parts lead to.
    #[must_use]
    pub fn derive(&self, parts: &[&[u8]]) -> Self {
        Self(self.signed(parts).finalize().into_bytes().into())
    }

    /// A signature over these parts, which the reader has to tell apart by their lengths.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let tag = self.signed(parts).finalize().into_bytes();
        core::array::from_fn(|at| tag[at])
    }

    /// True when the signer of these parts knows the secret.
    pub fn has_signed(&self, parts: &[&[u8]], tag: &[u8; TAG_BYTES]) -> bool {
        self.signed(parts).verify_truncated_left(tag).is_ok()
    }

    fn signed(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        parts.iter().fold(self.key(), Hmac::chain_update)
    }

    /// The key under which this secret signs.
    pub(super) fn key(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refusal {
    /// It is too short or too long for a packet.
    Length,
    /// It is of another version of this format, or of something else.
    Version,
    /// It is for another observer, or for an older life of this node.
    NotForUs,
    /// Whoever wrote it does not know the secret.
    Stranger,
    /// It was here before, or is too late to tell.
    Replay,
    /// Authentic bytes that are no message.
    Malformed,
}

/// How many packets were refused, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Refusals(pub(super) [u64; 6]);

impl Refusals {
    /// How many for this reason.
    pub const fn count(&self, why: Refusal) -> u64 {
        self.0[why as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The numbers of a sender's life that have been taken.
#[derive(Clone, Copy, Debug)]
struct Window {
    incarnation: Incarnation,
    newest: u64,
    /// Bit k: the number k before the newest was taken.
    taken: u64,
}

impl Window {
    /// Takes a number; false if it was taken, or is too far behind.
    fn take(&mut self, counter: u64) -> bool {
        if counter > self.newest {
            let ahead = counter - self.newest;
            self.taken = if ahead < 64 { self.taken << ahead | 1 } else { 1 };
            self.newest = counter;
            return true;
        }
        let behind = self.newest - counter;
        let bit = if behind < 64 { 1 << behind } else { return false };
        let fresh = self.taken & bit == 0;
        self.taken |= bit;
        fresh
    }
}

/// Seals what one observer sends, and opens what it is sent.
#[derive(Clone)]
pub struct Envelopes {
    me: Host,
    key: Hmac<Sha256>,
    counter: u64,
    windows: BTreeMap<Node, Window>,
    refusals: Refusals,
}

impl fmt::Debug for Envelopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelopes").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Envelopes {
    /// Those of this observer.
    pub fn new(me: Host, secret: &Secret) -> Self {
        let (windows, refusals) = (BTreeMap::new(), Refusals::default());
        Self { me, key: secret.key(), counter: 0, windows, refusals }
    }

    /// What was refused so far.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// The packet of a message.
    pub fn seal(&mut self, to: Host, message: &Message) -> Frame {
        self.counter += 1;
        let mut packet = Frame::new();
        packet.push(VERSION);
        put_host(&mut packet, self.me);
        put_host(&mut packet, to);
        put_u64(&mut packet, self.counter);
        codec::encode(message, &mut packet);
        let tag = self.key.clone().chain_update(&packet).finalize().into_bytes();
        packet.extend_from_slice(&tag[..TAG_BYTES]);
        packet
    }

    /// The sender and the message of a packet.
    ///
    /// # Errors
    ///
    /// Why it was refused, and counted.
    pub fn open(&mut self, packet: &[u8]) -> Result<(Host, Message), Refusal> {
        let opened = self.try_open(packet);
        if let Err(why) = opened {
            self.refusals.0[why as usize] += 1;
        }
        opened
    }

    fn try_open(&mut self, packet: &[u8]) -> Result<(Host, Message), Refusal> {
        if !(HEADER_BYTES + TAG_BYTES..=MAX_PACKET).contains(&packet.len()) {
            return Err(Refusal::Length);
        }
        let (sealed, tag) = packet.split_at(packet.len() - TAG_BYTES);
        let mut rest = Reader(sealed);
        if rest.u8() != Some(VERSION) {
            return Err(Refusal::Version);
        }
        let (Some(from), Some(to)) = (host(&mut rest), host(&mut rest)) else {
            return Err(Refusal::Length);
        };
        if to != self.me && !planted!(TakeWhatIsForOthers) {
            return Err(Refusal::NotForUs);
        }
        let counter = rest.u64().ok_or(Refusal::Length)?;
        let authentic = self.key.clone().chain_update(sealed).verify_truncated_left(tag);
        if authentic.is_err() && !planted!(TrustAnybody) {
            return Err(Refusal::Stranger);
        }
        if !self.is_fresh(from, counter) && !planted!(TakeReplays) {
            return Err(Refusal::Replay);
        }
        let message = codec::decode(rest.0).ok_or(Refusal::Malformed)?;
        Ok((from, message))
    }

    /// True for a number that has not been taken yet, which it is now.
    fn is_fresh(&mut self, from: Host, counter: u64) -> bool {
        let Host { node, incarnation } = from;
        let unused = Window { incarnation, newest: 0, taken: 1 };
        let window = self.windows.entry(node).or_insert(unused);
        if incarnation < window.incarnation {
            return true;
        }
        if incarnation > window.incarnation {
            *window = unused;
        }
        window.take(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::codec::tests::samples;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn host(node: u32, incarnation: u32) -> Host {
        Host { node: Node(node), incarnation: Incarnation(incarnation) }
    }

    fn of(node: u32, incarnation: u32) -> Envelopes {
        Envelopes::new(host(node, incarnation), &Secret::new([7; 32]))
    }

    #[test]
    fn what_was_sealed_opens_once_and_within_its_bound() {
        let (mut one, mut other) = (of(1, 4), of(2, 0));
        for message in samples() {
            let packet = one.seal(host(2, 0), &message);
            assert!(packet.len() <= MAX_PACKET);
            assert_eq!(other.open(&packet), Ok((host(1, 4), message)));
            assert_eq!(other.open(&packet), Err(Refusal::Replay));
        }
        assert_eq!(other.refusals().count(Refusal::Replay), samples().len() as u64);
        assert_eq!(other.refusals().total(), samples().len() as u64);
    }

    #[test]
    fn a_packet_is_for_one_life_of_one_node() {
        let packet = of(1, 0).seal(host(2, 1), &Message::Request);
        for mut stranger in [of(3, 1), of(2, 0), of(2, 2)] {
            assert_eq!(stranger.open(&packet), Err(Refusal::NotForUs));
        }
        let mut secretless = Envelopes::new(host(2, 1), &Secret::new([8; 32]));
        assert_eq!(secretless.open(&packet), Err(Refusal::Stranger));
        assert!(of(2, 1).open(&packet).is_ok());
    }

    #[test]
    fn packets_may_overtake_each_other_a_little() {
        let (mut one, mut other) = (of(1, 0), of(2, 0));
        let packets: Vec<Frame> =
            (0..100).map(|_| one.seal(host(2, 0), &Message::Request)).collect();
        assert!(other.open(&packets[80]).is_ok());
        for late in (17..80).rev() {
            assert!(other.open(&packets[late]).is_ok(), "{late}");
            assert_eq!(other.open(&packets[late]), Err(Refusal::Replay));
        }
        assert_eq!(other.open(&packets[16]), Err(Refusal::Replay), "too late to tell");
        assert!(other.open(&packets[99]).is_ok());
    }

    #[test]
    fn a_new_life_of_a_sender_counts_anew() {
        let mut other = of(2, 0);
        let old = of(1, 0).seal(host(2, 0), &Message::Request);
        let new = of(1, 1).seal(host(2, 0), &Message::Request);
        assert!(other.open(&old).is_ok());
        assert!(other.open(&new).is_ok());
        assert_eq!(other.open(&new), Err(Refusal::Replay));
        assert!(other.open(&old).is_ok(), "the observer tells it to stop");
    }

    #[test]
    fn authentic_nonsense_is_malformed() {
        let mut packet = Frame::from_slice(&[VERSION]);
        put_host(&mut packet, host(1, 0));
        put_host(&mut packet, host(2, 0));
        put_u64(&mut packet, 1);
        packet.push(77);
        let mut other = of(2, 0);
        let tag = other.key.clone().chain_update(&packet).finalize().into_bytes();
        packet.extend_from_slice(&tag[..TAG_BYTES]);
        assert_eq!(other.open(&packet), Err(Refusal::Malformed));
        assert_eq!(other.open(&packet), Err(Refusal::Replay), "its number is spent");
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new([42; 32]);
        assert_eq!(alloc::format!("{secret:?}"), "Secret(…)");
        let envelopes = alloc::format!("{:?}", Envelopes::new(host(1, 0), &secret));
        assert!(!envelopes.contains("42"), "{envelopes}");
    }

    proptest! {
        #[test]
        fn bytes_from_outside_never_open(bytes in prop::collection::vec(any::<u8>(), 0..1400)) {
            let mut envelopes = of(2, 0);
            prop_assert!(envelopes.open(&bytes).is_err());
            prop_assert_eq!(envelopes.refusals().total(), 1);
        }

        #[test]
        fn a_packet_changed_outside_does_not_open_and_spends_no_number(
            which in 0_usize..8, at in any::<prop::sample::Index>(), change in 1_u8..
        ) {
            let (mut one, mut other) = (of(1, 0), of(2, 0));
            let packet = one.seal(host(2, 0), &samples()[which]);
            let mut changed = packet.clone();
            changed[at.index(packet.len())] ^= change;
            prop_assert!(other.open(&changed).is_err());
            prop_assert!(other.open(&packet[..packet.len() - 1]).is_err());
            prop_assert!(other.open(&packet).is_ok());
        }
    }
}
