//! Bytes of the observers' messages: little-endian, bounded, total.
//!
//! ```text
//! Heartbeat  = 1 · digest u64
//! Request    = 2
//! News       = 3 · origin u32 · facts
//! Comparison = 4 · digest u64 · answer u8 · facts
//! Fence      = 5 · [nodes u32 · first u32]
//! Question   = 6 · sequence u32 · attempt u8 · work u16
//! Answer     = 7 · sequence u32 · attempt u8 · count u16 · sum u32
//!              of a rank: · nanoseconds u64, the clock of its machine when it answered
//! facts      = count u32 · fact …              at most 64 of at most 17 bytes
//! Died       = 1 · rank u32 · incarnation u32 · cause u8 · value u8
//! Joined     = 2 · rank u32 · incarnation u32 · node u32 · incarnation u32
//! Lost       = 3 · node u32 · incarnation u32
//! Returned   = 4 · node u32 · incarnation u32
//! ```
//!
//! Decoding never panics, and allocates no more than the bytes can justify: what is no message is
//! `None`.

use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;

use super::{
    Cause, Host, Incarnation, Node, Process, Rank,
    diagnosis::{Answer, Question, primes::Sum},
    message::{Company, Fact, MAX_FACTS, Message},
};

/// The bytes of one packet; a heartbeat fits inline.
pub type Frame = SmallVec<[u8; 64]>;

const HEARTBEAT: u8 = 1;
const REQUEST: u8 = 2;
const NEWS: u8 = 3;
const COMPARISON: u8 = 4;
const FENCE: u8 = 5;
const QUESTION: u8 = 6;
const ANSWER: u8 = 7;

const DIED: u8 = 1;
const JOINED: u8 = 2;
const LOST: u8 = 3;
const RETURNED: u8 = 4;

/// The most bytes of a message.
pub const MAX_BYTES: usize = 1 + 8 + 1 + 4 + 17 * MAX_FACTS;

fn put_u16(frame: &mut Frame, word: u16) {
    frame.extend_from_slice(&word.to_le_bytes());
}

pub(super) fn put_u32(frame: &mut Frame, word: u32) {
    frame.extend_from_slice(&word.to_le_bytes());
}

pub(super) fn put_u64(frame: &mut Frame, word: u64) {
    frame.extend_from_slice(&word.to_le_bytes());
}

/// Takes values from the front of a slice.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }
}

/// Appends the bytes of a message.
pub fn encode(message: &Message, frame: &mut Frame) {
    match message {
        Message::Heartbeat(digest) => {
            frame.push(HEARTBEAT);
            put_u64(frame, *digest);
        }
        Message::Request => frame.push(REQUEST),
        Message::News { origin, facts } => {
            frame.push(NEWS);
            put_u32(frame, origin.0);
            put_facts(frame, facts);
        }
        Message::Comparison { digest, facts, answer } => {
            frame.push(COMPARISON);
            put_u64(frame, *digest);
            frame.push(u8::from(*answer));
            put_facts(frame, facts);
        }
        Message::Fence(company) => {
            frame.push(FENCE);
            if let Some(Company { nodes, first }) = company {
                put_u32(frame, *nodes);
                put_u32(frame, first.0);
            }
        }
        Message::Question(Question { sequence, attempt, work }) => {
            frame.push(QUESTION);
            put_u32(frame, *sequence);
            frame.push(*attempt);
            put_u16(frame, *work);
        }
        Message::Answer(Answer { sequence, attempt, result: Sum { count, sum } }) => {
            frame.push(ANSWER);
            put_u32(frame, *sequence);
            frame.push(*attempt);
            put_u16(frame, *count);
            put_u32(frame, *sum);
        }
    }
}

/// Appends the bytes of a message, and the moment at which it was written.
pub fn encode_at(message: &Message, at: Duration, frame: &mut Frame) {
    encode(message, frame);
    put_u64(frame, at.as_nanos() as u64);
}

/// The message in these bytes and the moment at which it was written, if they are both.
pub fn decode_at(bytes: &[u8]) -> Option<(Message, Duration)> {
    let (message, at) = bytes.split_last_chunk()?;
    Some((decode(message)?, Duration::from_nanos(u64::from_le_bytes(*at))))
}

/// The message in these bytes, if they are one.
pub fn decode(bytes: &[u8]) -> Option<Message> {
    let mut rest = Reader(bytes);
    let message = match rest.u8()? {
        HEARTBEAT => Message::Heartbeat(rest.u64()?),
        REQUEST => Message::Request,
        NEWS => Message::News { origin: Node(rest.u32()?), facts: facts(&mut rest)? },
        COMPARISON => {
            let digest = rest.u64()?;
            let answer = [false, true].get(usize::from(rest.u8()?)).copied()?;
            Message::Comparison { digest, answer, facts: facts(&mut rest)? }
        }
        FENCE if rest.0.is_empty() => Message::Fence(None),
        FENCE => {
            let nodes = rest.u32()?;
            Message::Fence(Some(Company { nodes, first: Node(rest.u32()?) }))
        }
        QUESTION => {
            let (sequence, attempt) = (rest.u32()?, rest.u8()?);
            Message::Question(Question { sequence, attempt, work: rest.u16()? })
        }
        ANSWER => {
            let (sequence, attempt) = (rest.u32()?, rest.u8()?);
            let result = Sum { count: rest.u16()?, sum: rest.u32()? };
            Message::Answer(Answer { sequence, attempt, result })
        }
        _ => return None,
    };
    rest.0.is_empty().then_some(message)
}

fn put_facts(frame: &mut Frame, facts: &[Fact]) {
    put_u32(frame, facts.len() as u32);
    for fact in facts {
        match *fact {
            Fact::Died(process, cause) => {
                frame.push(DIED);
                put_process(frame, process);
                frame.extend(cause_bytes(cause));
            }
            Fact::Joined(process, host) => {
                frame.push(JOINED);
                put_process(frame, process);
                put_host(frame, host);
            }
            Fact::Lost(host) => {
                frame.push(LOST);
                put_host(frame, host);
            }
            Fact::Returned(host) => {
                frame.push(RETURNED);
                put_host(frame, host);
            }
        }
    }
}

fn put_process(frame: &mut Frame, process: Process) {
    put_u32(frame, process.rank.0);
    put_u32(frame, process.incarnation.0);
}

/// Appends the name of a life of a node.
pub(super) fn put_host(frame: &mut Frame, host: Host) {
    put_u32(frame, host.node.0);
    put_u32(frame, host.incarnation.0);
}

/// A cause in two bytes.
pub(super) fn cause_bytes(cause: Cause) -> [u8; 2] {
    match cause {
        Cause::Ended => [1, 0],
        Cause::Exit(status) => [2, status],
        Cause::Signal(signal) => [3, signal],
        Cause::Hung => [4, 0],
        Cause::Declared => [5, 0],
        Cause::NodeLost => [6, 0],
        Cause::Replaced => [7, 0],
    }
}

fn facts(rest: &mut Reader<'_>) -> Option<Vec<Fact>> {
    let count = rest.u32()? as usize;
    if count > MAX_FACTS {
        return None;
    }
    (0..count).map(|_| fact(rest)).collect()
}

fn fact(rest: &mut Reader<'_>) -> Option<Fact> {
    Some(match rest.u8()? {
        DIED => Fact::Died(process(rest)?, cause(rest.bytes()?)?),
        JOINED => Fact::Joined(process(rest)?, host(rest)?),
        LOST => Fact::Lost(host(rest)?),
        RETURNED => Fact::Returned(host(rest)?),
        _ => return None,
    })
}

fn process(rest: &mut Reader<'_>) -> Option<Process> {
    let rank = Rank(rest.u32()?);
    Some(Process { rank, incarnation: Incarnation(rest.u32()?) })
}

/// Takes the name of a life of a node.
pub(super) fn host(rest: &mut Reader<'_>) -> Option<Host> {
    let node = Node(rest.u32()?);
    Some(Host { node, incarnation: Incarnation(rest.u32()?) })
}

/// The cause in a fact: those that follow from other facts are in none.
fn cause(bytes: [u8; 2]) -> Option<Cause> {
    cause_of(bytes).filter(|cause| !matches!(cause, Cause::NodeLost | Cause::Replaced))
}

/// The cause in two bytes.
pub(super) fn cause_of(bytes: [u8; 2]) -> Option<Cause> {
    Some(match bytes {
        [1, 0] => Cause::Ended,
        [2, status] => Cause::Exit(status),
        [3, signal] => Cause::Signal(signal),
        [4, 0] => Cause::Hung,
        [5, 0] => Cause::Declared,
        [6, 0] => Cause::NodeLost,
        [7, 0] => Cause::Replaced,
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn bytes_of(message: &Message) -> Frame {
        let mut frame = Frame::new();
        encode(message, &mut frame);
        frame
    }

    pub(in super::super) fn samples() -> Vec<Message> {
        let host = Host { node: Node(70_000), incarnation: Incarnation(3) };
        let process = Process { rank: Rank(1 << 30), incarnation: Incarnation(2) };
        let causes = [Cause::Ended, Cause::Exit(255), Cause::Signal(9), Cause::Hung];
        let mut facts: Vec<Fact> =
            causes.into_iter().map(|cause| Fact::Died(process, cause)).collect();
        facts.extend([Fact::Died(process, Cause::Declared), Fact::Joined(process, host)]);
        facts.extend([Fact::Lost(host), Fact::Returned(host)]);
        let full = vec![Fact::Joined(process, host); MAX_FACTS];
        vec![
            Message::Heartbeat(u64::MAX - 1),
            Message::Request,
            Message::News { origin: Node(5), facts: facts.clone() },
            Message::Comparison { digest: 7, facts, answer: true },
            Message::Comparison { digest: 7, facts: full, answer: false },
            Message::Comparison { digest: 0, facts: vec![], answer: true },
            Message::Fence(None),
            Message::Fence(Some(Company { nodes: 3, first: Node(70_000) })),
            Message::Question(Question { sequence: 1 << 20, attempt: 1, work: 300 }),
            Message::Answer(Question { sequence: 1 << 20, attempt: 1, work: 0 }.answer()),
        ]
    }

    #[test]
    fn a_message_may_say_when_it_was_written() {
        for message in samples() {
            let (mut frame, at) = (Frame::new(), Duration::from_nanos(u64::MAX - 3));
            encode_at(&message, at, &mut frame);
            assert_eq!(decode_at(&frame[1..]), None);
            assert_eq!(decode_at(&frame), Some((message, at)));
        }
        assert_eq!(decode_at(&[REQUEST; 8]), None, "no moment");
    }

    #[test]
    fn every_message_survives_the_wire_within_its_bound() {
        for message in samples() {
            let frame = bytes_of(&message);
            assert_eq!(decode(&frame), Some(message));
            assert!(frame.len() <= MAX_BYTES);
        }
    }

    #[test]
    fn every_prefix_and_every_extension_is_refused() {
        for message in samples() {
            let frame = bytes_of(&message);
            // A fence says more, or no more.
            let whole = |length: usize| frame[0] == FENCE && length == 1;
            for length in (0..frame.len()).filter(|length| !whole(*length)) {
                assert_eq!(decode(&frame[..length]), None);
            }
            let longer: Vec<u8> = frame.iter().copied().chain([0]).collect();
            assert_eq!(decode(&longer), None);
        }
    }

    #[test]
    fn more_facts_than_allowed_are_no_message() {
        let host = Host { node: Node(1), incarnation: Incarnation(0) };
        let facts = vec![Fact::Lost(host); MAX_FACTS + 1];
        assert_eq!(decode(&bytes_of(&Message::News { origin: Node(0), facts })), None);
        let mut frame = bytes_of(&Message::News { origin: Node(0), facts: vec![] });
        frame[5..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(&frame), None);
    }

    proptest! {
        #[test]
        fn bytes_from_outside_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn what_is_read_from_outside_is_what_was_written(
            which in 0_usize..10,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut frame = bytes_of(&samples()[which]);
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if let Some(message) = decode(&frame) {
                prop_assert_eq!(bytes_of(&message), frame);
            }
        }
    }
}
