//! A process makes itself known to the observer of its node; both prove that they know the secret.
//!
//! ```text
//! observer ── challenge ──▶ process        version u8 · nonce 16
//! process  ── registration ──▶ observer    version u8 · rank u32, u32 · nonce 16 · tag 16
//! observer ── welcome ──▶ process          version u8 · room u32 · tag 16, and the board
//! process  ── leave ──▶ observer           1 byte: all is done, its end is in order
//! ```
//!
//! A tag is the first half of HMAC-SHA-256, under the secret of the job, over a word that says what
//! is signed, both nonces and all before it. Nonces are used once, so what was heard on another
//! connection proves nothing on this one. Each message has one length: whoever sends more, or
//! something else, is no process of the job.
//!
//! **Assumes** that the system says which user and which process is at the other end.
//!
//! Reference: RFC 2104 (HMAC, §5 on truncation).

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::{
    Incarnation, Process, Rank,
    codec::Reader,
    envelope::{Secret, TAG_BYTES},
};

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 16;

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 1 + NONCE_BYTES;
/// Bytes of a registration.
pub const REGISTRATION_BYTES: usize = 1 + 8 + NONCE_BYTES + TAG_BYTES;
/// Bytes of a welcome.
pub const WELCOME_BYTES: usize = 1 + 4 + TAG_BYTES;

/// What a process says before it ends in order. Its end is told as `Cause::Exit(0)`, that of all
/// others otherwise, also by this status.
pub const LEAVE: u8 = b'L';

/// Bytes that nobody can guess, used once.
pub type Nonce = [u8; NONCE_BYTES];

/// Why the observer ended a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rejection {
    /// Another user, or a process that has no number here.
    WrongUser,
    /// Whoever it is does not know the secret.
    WrongSecret,
    /// What came is no registration.
    Malformed,
    /// It did not register within its time.
    TooLate,
    /// There were too many.
    Crowded,
    /// It claims a place that somebody else holds, or that is dead.
    Refused,
}

/// How many connections were ended, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rejections(pub(super) [u64; 6]);

impl Rejections {
    /// One more.
    pub fn note(&mut self, why: Rejection) {
        self.0[why as usize] += 1;
    }

    /// How many for this reason.
    pub const fn count(&self, why: Rejection) -> u64 {
        self.0[why as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The nonces of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Nonces {
    /// That of the observer.
    pub observer: Nonce,
    /// That of the process.
    pub process: Nonce,
}

/// What the observer says first.
pub fn challenge(nonce: &Nonce) -> [u8; CHALLENGE_BYTES] {
    let mut bytes = [VERSION; CHALLENGE_BYTES];
    bytes[1..].copy_from_slice(nonce);
    bytes
}

/// The nonce in a challenge, if it is one of this version.
pub fn read_challenge(bytes: &[u8; CHALLENGE_BYTES]) -> Option<Nonce> {
    let mut rest = Reader(bytes);
    (rest.u8()? == VERSION).then(|| rest.bytes())?
}

/// What a process answers.
pub fn register(secret: &Secret, nonces: &Nonces, me: Process) -> [u8; REGISTRATION_BYTES] {
    let mut bytes = [VERSION; REGISTRATION_BYTES];
    bytes[1..5].copy_from_slice(&me.rank.0.to_le_bytes());
    bytes[5..9].copy_from_slice(&me.incarnation.0.to_le_bytes());
    bytes[9..9 + NONCE_BYTES].copy_from_slice(&nonces.process);
    sign(secret, b"register", nonces, &mut bytes);
    bytes
}

/// Who registers, and both nonces.
///
/// # Errors
///
/// Why it is no registration of a process of the job.
pub fn read_registration(
    secret: &Secret,
    observer: Nonce,
    bytes: &[u8; REGISTRATION_BYTES],
) -> Result<(Process, Nonces), Rejection> {
    let (process, nonces) = registration(observer, bytes).ok_or(Rejection::Malformed)?;
    let known = is_signed(secret, b"register", &nonces, bytes);
    if known { Ok((process, nonces)) } else { Err(Rejection::WrongSecret) }
}

fn registration(observer: Nonce, bytes: &[u8]) -> Option<(Process, Nonces)> {
    let mut rest = Reader(bytes);
    if rest.u8()? != VERSION {
        return None;
    }
    let rank = Rank(rest.u32()?);
    let process = Process { rank, incarnation: Incarnation(rest.u32()?) };
    Some((process, Nonces { observer, process: rest.bytes()? }))
}

/// What the observer answers, with a board that has room for so many entries.
pub fn welcome(secret: &Secret, nonces: &Nonces, room: u32) -> [u8; WELCOME_BYTES] {
    let mut bytes = [VERSION; WELCOME_BYTES];
    bytes[1..5].copy_from_slice(&room.to_le_bytes());
    sign(secret, b"welcome", nonces, &mut bytes);
    bytes
}

/// The room of the board, if the observer knows the secret.
pub fn read_welcome(secret: &Secret, nonces: &Nonces, bytes: &[u8; WELCOME_BYTES]) -> Option<u32> {
    let mut rest = Reader(bytes);
    let is_ours = rest.u8()? == VERSION && is_signed(secret, b"welcome", nonces, bytes);
    is_ours.then(|| rest.u32())?
}

/// Signs all but the last bytes, which take the tag.
fn sign(secret: &Secret, what: &[u8], nonces: &Nonces, bytes: &mut [u8]) {
    let (body, tag) = bytes.split_at_mut(bytes.len() - TAG_BYTES);
    let full = key(secret, what, nonces).chain_update(body).finalize().into_bytes();
    tag.copy_from_slice(&full[..TAG_BYTES]);
}

fn is_signed(secret: &Secret, what: &[u8], nonces: &Nonces, bytes: &[u8]) -> bool {
    let (body, tag) = bytes.split_at(bytes.len() - TAG_BYTES);
    key(secret, what, nonces).chain_update(body).verify_truncated_left(tag).is_ok()
}

/// Packets, which are signed with the same secret, begin with a small number, not with a letter.
fn key(secret: &Secret, what: &[u8], nonces: &Nonces) -> Hmac<Sha256> {
    secret.key().chain_update(what).chain_update(nonces.observer).chain_update(nonces.process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: Secret = Secret::new([7; 32]);
    const ME: Process = Process { rank: Rank(70_000), incarnation: Incarnation(3) };
    const NONCES: Nonces = Nonces { observer: [1; 16], process: [2; 16] };

    #[test]
    fn who_knows_the_secret_is_welcome() {
        assert_eq!(read_challenge(&challenge(&NONCES.observer)), Some(NONCES.observer));
        let registration = register(&SECRET, &NONCES, ME);
        let read = read_registration(&SECRET, NONCES.observer, &registration);
        let (process, nonces) = read.expect("it was signed");
        assert_eq!((process, nonces.process), (ME, NONCES.process));
        let welcome = welcome(&SECRET, &nonces, 500);
        assert_eq!(read_welcome(&SECRET, &NONCES, &welcome), Some(500));
    }

    #[test]
    fn what_was_heard_on_another_connection_proves_nothing() {
        let registration = register(&SECRET, &NONCES, ME);
        let read = read_registration(&SECRET, [9; 16], &registration);
        assert_eq!(read.err(), Some(Rejection::WrongSecret));
        let other = Nonces { process: [9; 16], ..NONCES };
        assert_eq!(read_welcome(&SECRET, &NONCES, &welcome(&SECRET, &other, 500)), None);
    }

    #[test]
    fn another_secret_and_another_version_are_refused() {
        let strange = Secret::new([8; 32]);
        let mut registration = register(&strange, &NONCES, ME);
        let read = |bytes: &[u8; REGISTRATION_BYTES]| {
            read_registration(&SECRET, NONCES.observer, bytes).err()
        };
        assert_eq!(read(&registration), Some(Rejection::WrongSecret));
        registration[0] += 1;
        assert_eq!(read(&registration), Some(Rejection::Malformed));
        assert_eq!(read_challenge(&[2; CHALLENGE_BYTES]), None);
        assert_eq!(read_welcome(&SECRET, &NONCES, &welcome(&strange, &NONCES, 1)), None);
    }

    proptest! {
        #[test]
        fn a_changed_message_is_refused(
            at in 0_usize..REGISTRATION_BYTES, change in 1_u8..
        ) {
            let mut registration = register(&SECRET, &NONCES, ME);
            registration[at] ^= change;
            prop_assert!(read_registration(&SECRET, NONCES.observer, &registration).is_err());
            let mut welcome = welcome(&SECRET, &NONCES, 77);
            welcome[at % WELCOME_BYTES] ^= change;
            prop_assert_eq!(read_welcome(&SECRET, &NONCES, &welcome), None);
        }

        #[test]
        fn bytes_from_outside_register_nobody(bytes in any::<[u8; REGISTRATION_BYTES]>()) {
            prop_assert!(read_registration(&SECRET, NONCES.observer, &bytes).is_err());
        }
    }
}
