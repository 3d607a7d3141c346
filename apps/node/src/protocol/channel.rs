//! A stream between two processes of a job: both prove that they know its secret, and everything
//! that follows is authentic, in order and complete.
//!
//! ```text
//! caller  ── hello ────▶ listener    word 8 · from u32, u32 · to u32, u32 · nonce 16
//! caller  ◀── proof ──── listener    nonce 16 · tag 16
//! caller  ── proof ────▶ listener    tag 16
//! both    ── frame ────▶             length u32 · body · tag 16
//! ```
//!
//! Tags are those of the detector's packets ([`Secret::sign`]). The secret of a stream follows from
//! that of the job, both names and both nonces, one for each direction; frames are counted, so none
//! can be taken out, repeated or sent to another one.
//!
//! **Guarantees.** Nothing is taken from a stranger but the bytes of a hello and a proof, and those
//! have one length.
//!
//! **Assumes** that the nonces are unpredictable.

use fampi_detector::protocol::{
    Host, Incarnation, Node,
    envelope::{Secret, TAG_BYTES},
};

const WORD: [u8; 8] = *b"fampi-n1";
const NONCE_BYTES: usize = 16;
const HELLO_BYTES: usize = WORD.len() + 16 + NONCE_BYTES;
const PROOF_BYTES: usize = NONCE_BYTES + TAG_BYTES;
const LENGTH_BYTES: usize = 4;

/// Unpredictable bytes, used once.
pub type Nonce = [u8; NONCE_BYTES];

/// The console, which waits for the job, among the nodes.
pub const CONSOLE: Host = Host { node: Node(u32::MAX), incarnation: Incarnation(0) };

/// Who brings a node to a job that runs.
pub const GUEST: Host = Host { node: Node(u32::MAX), incarnation: Incarnation(1) };

/// A daemon that has no number yet.
pub const NEWCOMER: Host = Host { node: Node(u32::MAX), incarnation: Incarnation(2) };

/// The other end is no process of the job, or the stream is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stranger;

/// What is expected next.
#[derive(Clone, Debug)]
enum Stage {
    /// A hello.
    Hello(Nonce),
    /// The proof of the listener.
    Proof([u8; HELLO_BYTES]),
    /// The proof of the caller, which is this.
    Confirmation([u8; TAG_BYTES]),
    /// Frames.
    Open,
}

/// One end of a stream.
#[derive(Debug)]
pub struct Channel {
    me: Host,
    peer: Host,
    stage: Stage,
    secret: Secret,
    sending: Secret,
    receiving: Secret,
    sent: u64,
    received: u64,
    input: Vec<u8>,
    /// Bytes at the front of it that were taken.
    taken: usize,
    most: usize,
}

fn hello(from: Host, to: Host, nonce: Nonce) -> [u8; HELLO_BYTES] {
    let numbers = [from.node.0, from.incarnation.0, to.node.0, to.incarnation.0];
    let numbers = numbers.map(u32::to_le_bytes);
    let bytes = WORD.into_iter().chain(numbers.into_iter().flatten()).chain(nonce);
    let mut hello = [0; HELLO_BYTES];
    hello.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    hello
}

impl Channel {
    /// The end of the caller; its hello goes out. Frames have at most so many bytes.
    pub fn call(
        me: Host,
        peer: Host,
        secret: Secret,
        nonce: Nonce,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Self {
        let hello = hello(me, peer, nonce);
        out.extend(hello);
        Self::new(me, peer, Stage::Proof(hello), secret, most)
    }

    /// The end of the listener.
    pub fn listen(me: Host, secret: Secret, nonce: Nonce, most: usize) -> Self {
        Self::new(me, me, Stage::Hello(nonce), secret, most)
    }

    fn new(me: Host, peer: Host, stage: Stage, secret: Secret, most: usize) -> Self {
        let (sending, receiving) = (secret.clone(), secret.clone());
        let input = Vec::new();
        let (sent, received, taken) = (0, 0, 0);
        Self { me, peer, stage, secret, sending, receiving, sent, received, input, taken, most }
    }

    /// Who is at the other end, once it has proved that.
    pub fn peer(&self) -> Option<Host> {
        matches!(self.stage, Stage::Open).then_some(self.peer)
    }

    /// Takes what has come; answers go out.
    ///
    /// # Errors
    ///
    /// The stream is of no use any more.
    pub fn handle_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Stranger> {
        self.input.extend_from_slice(bytes);
        loop {
            match self.stage.clone() {
                Stage::Hello(nonce) => {
                    let Some(hello) = self.take::<HELLO_BYTES>() else { return Ok(()) };
                    self.handle_hello(hello, nonce, out)?;
                }
                Stage::Proof(hello) => {
                    let Some(proof) = self.take::<PROOF_BYTES>() else { return Ok(()) };
                    self.handle_proof(hello, proof, out)?;
                }
                Stage::Confirmation(expected) => {
                    let Some(tag) = self.take::<TAG_BYTES>() else { return Ok(()) };
                    // The same bytes signed anew: compared in constant time.
                    let known = self.secret.has_signed(&[b"confirm", &expected], &tag);
                    if !known {
                        return Err(Stranger);
                    }
                    self.stage = Stage::Open;
                }
                Stage::Open => return Ok(()),
            }
        }
    }

    fn handle_hello(
        &mut self,
        hello: [u8; HELLO_BYTES],
        nonce: Nonce,
        out: &mut Vec<u8>,
    ) -> Result<(), Stranger> {
        let number = |at: usize| {
            let start = WORD.len() + 4 * at;
            u32::from_le_bytes(std::array::from_fn(|byte| hello[start + byte]))
        };
        let host = |at| Host { node: Node(number(at)), incarnation: Incarnation(number(at + 1)) };
        if hello[..WORD.len()] != WORD || host(2) != self.me {
            return Err(Stranger);
        }
        self.peer = host(0);
        let tag = self.secret.sign(&[b"accept", &hello, &nonce]);
        out.extend(nonce);
        out.extend(tag);
        self.agree(&hello, &nonce, false);
        self.stage = Stage::Confirmation(tag);
        Ok(())
    }

    fn handle_proof(
        &mut self,
        hello: [u8; HELLO_BYTES],
        proof: [u8; PROOF_BYTES],
        out: &mut Vec<u8>,
    ) -> Result<(), Stranger> {
        let nonce: Nonce = std::array::from_fn(|at| proof[at]);
        let tag: [u8; TAG_BYTES] = std::array::from_fn(|at| proof[NONCE_BYTES + at]);
        if !self.secret.has_signed(&[b"accept", &hello, &nonce], &tag) {
            return Err(Stranger);
        }
        out.extend(self.secret.sign(&[b"confirm", &tag]));
        self.agree(&hello, &nonce, true);
        self.stage = Stage::Open;
        Ok(())
    }

    fn agree(&mut self, hello: &[u8], nonce: &Nonce, is_caller: bool) {
        let secret = |direction: &[u8]| self.secret.derive(&[b"stream", hello, nonce, direction]);
        let (out, back) = (secret(b"caller"), secret(b"listener"));
        (self.sending, self.receiving) = if is_caller { (out, back) } else { (back, out) };
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.input.first_chunk()?;
        self.input.drain(..N);
        Some(taken)
    }

    /// The frame of these bytes goes out, if the other end is proved.
    pub fn seal(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let length = (body.len() as u32).to_le_bytes();
        let tag = self.sending.sign(&[&self.sent.to_le_bytes(), &length, body]);
        self.sent += 1;
        out.reserve(LENGTH_BYTES + body.len() + TAG_BYTES);
        out.extend(length);
        out.extend_from_slice(body);
        out.extend(tag);
    }

    /// The body of the next frame that has come.
    ///
    /// # Errors
    ///
    /// The stream is of no use any more.
    pub fn take_frame(&mut self) -> Result<Option<Vec<u8>>, Stranger> {
        let input = &self.input[self.taken..];
        let (Stage::Open, Some(length)) = (&self.stage, input.first_chunk()) else {
            return Ok(None);
        };
        let (prefix, size) = (*length, u32::from_le_bytes(*length) as usize);
        if size > self.most {
            return Err(Stranger);
        }
        let end = LENGTH_BYTES + size;
        let Some(tag) = input.get(end..end + TAG_BYTES) else { return Ok(None) };
        let tag: [u8; TAG_BYTES] = std::array::from_fn(|at| tag[at]);
        let body = &input[LENGTH_BYTES..end];
        let counter = self.received.to_le_bytes();
        if !self.receiving.has_signed(&[&counter, &prefix, body], &tag) {
            return Err(Stranger);
        }
        let body = body.to_vec();
        self.received += 1;
        self.taken += end + TAG_BYTES;
        // What is left is moved only when it is the smaller part.
        if 2 * self.taken >= self.input.len() {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(node: u32) -> Host {
        Host { node: Node(node), incarnation: Incarnation(0) }
    }

    /// Both ends after the exchange, as far as it went.
    fn meet(secrets: [u8; 2], to: u32) -> (Channel, Channel, bool) {
        let [one, other] = secrets.map(|byte| Secret::new([byte; 32]));
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let mut caller = Channel::call(host(1), host(to), one, [3; 16], 100, &mut there);
        let mut listener = Channel::listen(host(2), other, [4; 16], 100);
        let mut fine = true;
        for _ in 0..2 {
            fine &= listener.handle_bytes(&std::mem::take(&mut there), &mut back).is_ok();
            fine &= caller.handle_bytes(&std::mem::take(&mut back), &mut there).is_ok();
        }
        (caller, listener, fine)
    }

    #[test]
    fn who_knows_the_secret_gets_in_and_is_known() {
        let (mut caller, mut listener, fine) = meet([7, 7], 2);
        assert!(fine);
        assert_eq!((caller.peer(), listener.peer()), (Some(host(2)), Some(host(1))));
        let mut wire = Vec::new();
        caller.seal(b"one", &mut wire);
        caller.seal(b"", &mut wire);
        for byte in &wire {
            listener.handle_bytes(&[*byte], &mut Vec::new()).expect("authentic");
        }
        assert_eq!(listener.take_frame(), Ok(Some(b"one".to_vec())));
        assert_eq!(listener.take_frame(), Ok(Some(Vec::new())));
        assert_eq!(listener.take_frame(), Ok(None));
    }

    #[test]
    fn another_secret_or_another_receiver_stays_outside() {
        let (caller, listener, fine) = meet([7, 8], 2);
        assert!(!fine && caller.peer().is_none() && listener.peer().is_none());
        let (caller, listener, fine) = meet([7, 7], 5);
        assert!(!fine && caller.peer().is_none() && listener.peer().is_none());
    }

    #[test]
    fn frames_are_not_repeated_nor_sent_back_nor_too_long() {
        let (mut caller, mut listener, _) = meet([7, 7], 2);
        let mut wire = Vec::new();
        caller.seal(b"once", &mut wire);
        listener.handle_bytes(&[wire.clone(), wire.clone()].concat(), &mut Vec::new()).expect("in");
        assert_eq!(listener.take_frame(), Ok(Some(b"once".to_vec())));
        assert_eq!(listener.take_frame(), Err(Stranger), "repeated");
        caller.handle_bytes(&wire, &mut Vec::new()).expect("in");
        assert_eq!(caller.take_frame(), Err(Stranger), "sent back");
        let (mut caller, mut listener, _) = meet([7, 7], 2);
        let mut wire = Vec::new();
        caller.seal(&[0; 101], &mut wire);
        listener.handle_bytes(&wire[..4], &mut Vec::new()).expect("in");
        assert_eq!(listener.take_frame(), Err(Stranger), "before it has come");
    }

    proptest! {
        #[test]
        fn bytes_from_outside_do_not_get_in(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let secret = Secret::new([7; 32]);
            let mut listener = Channel::listen(host(2), secret, [4; 16], 100);
            let _ = listener.handle_bytes(&bytes, &mut Vec::new());
            prop_assert_eq!(listener.peer(), None);
        }

        #[test]
        fn a_frame_that_was_changed_outside_is_refused(
            at in any::<prop::sample::Index>(), change in 1_u8..
        ) {
            let (mut caller, mut listener, _) = meet([7, 7], 2);
            let mut wire = Vec::new();
            caller.seal(b"a body", &mut wire);
            let body = wire.len() - 4;
            wire[4 + at.index(body)] ^= change;
            listener.handle_bytes(&wire, &mut Vec::new()).expect("in");
            prop_assert_eq!(listener.take_frame(), Err(Stranger));
        }
    }
}
