//! The socket where the processes of the node register, and those who have not done so yet.
//!
//! Whoever comes is asked who it is, of the system, and sent a challenge; it has a second for its
//! answer, of one length, with which it may hand over what it shows of its progress. When too many
//! are about to register the one that has waited longest goes: who means it is done at once. What
//! is wrong ends the connection, and is counted.
//!
//! The number of a process may be used again. Its descriptor is opened before the challenge is
//! sent: who answers lives then, and so the descriptor is its own.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, sockopt,
    },
};

use crate::{
    daemon::{place::SocketFile, pulse::Page, wards::Candidate},
    protocol::{
        Process,
        envelope::Secret,
        plan::Plan,
        registration::{self, Nonce, Nonces, REGISTRATION_BYTES, Rejection, Rejections},
    },
};

/// How long a process may take to register.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// How many may be about to.
const MOST_PENDING: usize = 64;
/// How many are let in before others get their turn.
const MOST_AT_ONCE: usize = 16;
/// How long nobody is let in when the system cannot.
const REST: Duration = Duration::from_millis(100);

/// A connection that proves nothing yet.
#[derive(Debug)]
struct Client {
    connection: UnixStream,
    candidate: Candidate,
    nonce: Nonce,
    said: Vec<u8>,
    /// The first descriptor that came with what it said.
    brought: Option<OwnedFd>,
    until: Instant,
}

/// A process of the job, as it has proved.
#[derive(Debug)]
pub struct Registered {
    /// Who it is.
    pub process: Process,
    /// What can be watched.
    pub candidate: Candidate,
    /// What it shows of its progress, if it does.
    pub page: Option<Page>,
    connection: UnixStream,
    nonces: Nonces,
}

/// Where processes register.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    _file: SocketFile,
    secret: Secret,
    /// By a number of ours; the oldest has the lowest.
    clients: BTreeMap<u64, Client>,
    rejections: Rejections,
    /// Nobody is let in before.
    rests: Option<Instant>,
}

impl Door {
    /// The door of the observer that this plan is for.
    pub fn open(plan: &Plan) -> Result<Self> {
        let (file, listener) = SocketFile::listen(&plan.socket)?;
        listener.set_nonblocking(true)?;
        let (secret, clients) = (plan.secret.clone(), BTreeMap::new());
        let rejections = Rejections::default();
        Ok(Self { listener, _file: file, secret, clients, rejections, rests: None })
    }

    /// Connections that were ended.
    pub fn rejections(&self) -> Rejections {
        self.rejections
    }

    /// One more, by somebody else's judgement.
    pub fn reject(&mut self, why: Rejection) {
        self.rejections.note(why);
    }

    /// Lets in a client under this number, whose connection is to be heard; `None` when nobody
    /// stands at the door, or it was sent away.
    pub fn let_in(&mut self, number: u64, now: Instant) -> Option<BorrowedFd<'_>> {
        let connection = match self.listener.accept() {
            Ok((connection, _)) => connection,
            Err(error) => {
                let harmless = [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted];
                if !harmless.contains(&error.kind()) {
                    self.rests = Some(now + REST);
                }
                return None;
            }
        };
        match Client::meet(connection, now) {
            Ok(client) => {
                if self.clients.len() == MOST_PENDING {
                    self.clients.pop_first();
                    self.rejections.note(Rejection::Crowded);
                }
                let client = self.clients.entry(number).or_insert(client);
                Some(client.connection.as_fd())
            }
            Err(why) => {
                self.rejections.note(why);
                None
            }
        }
    }

    /// True for the number of somebody who has not registered yet.
    pub fn knows(&self, number: u64) -> bool {
        self.clients.contains_key(&number)
    }

    /// Hears what a client says; `Some` when it has proved who it is.
    pub fn hear(&mut self, number: u64) -> Option<Registered> {
        let client = self.clients.get_mut(&number)?;
        match client.hear(&self.secret) {
            Ok(None) => None,
            Ok(Some((process, nonces))) => {
                let Client { connection, candidate, brought, .. } = self.clients.remove(&number)?;
                let page = brought.and_then(Page::of);
                Some(Registered { process, candidate, page, connection, nonces })
            }
            Err(why) => {
                self.clients.remove(&number);
                self.rejections.note(why);
                None
            }
        }
    }

    /// Time has passed: those who have taken too long go.
    pub fn handle_time(&mut self, now: Instant) {
        self.rests = self.rests.filter(|until| *until > now);
        while let Some(oldest) = self.clients.first_entry().filter(|it| it.get().until <= now) {
            oldest.remove();
            self.rejections.note(Rejection::TooLate);
        }
    }

    /// When [`Self::handle_time`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let oldest = self.clients.first_key_value().map(|(_, client)| client.until);
        oldest.into_iter().chain(self.rests).min()
    }

    /// False while nobody is let in.
    pub fn is_open(&self) -> bool {
        self.rests.is_none()
    }

    /// How many may be let in before others get their turn.
    pub fn crowd(&self) -> usize {
        MOST_AT_ONCE
    }

    /// Welcomes a process, and gives it the board and where it answers tests, if it is to. Its
    /// connection tells it when we are gone.
    pub fn welcome(
        &self,
        registered: Registered,
        (board, answers): (BorrowedFd<'_>, Option<OwnedFd>),
        room: u32,
    ) -> (Candidate, UnixStream, Option<Page>) {
        let Registered { candidate, connection, nonces, page, .. } = registered;
        let welcome = registration::welcome(&self.secret, &nonces, room);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> =
            [board].into_iter().chain(answers.as_ref().map(OwnedFd::as_fd)).collect();
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // One that is gone is reported dead like any other.
        let _ = rustix::net::sendmsg(&connection, &[IoSlice::new(&welcome)], &mut ancillary, flags);
        (candidate, connection, page)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Registered {
    /// What need not be heard any more.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Client {
    /// Asks the system who this is, and itself for a proof.
    fn meet(connection: UnixStream, now: Instant) -> Result<Self, Rejection> {
        let peer = sockopt::socket_peercred(&connection).map_err(|_| Rejection::WrongUser)?;
        if peer.uid != rustix::process::geteuid() {
            return Err(Rejection::WrongUser);
        }
        let candidate = Candidate::new(peer.pid).ok_or(Rejection::WrongUser)?;
        let mut nonce = Nonce::default();
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(|_| Rejection::Refused)?;
        let challenge = registration::challenge(&nonce);
        let sent =
            connection.set_nonblocking(true).and_then(|()| (&connection).write_all(&challenge));
        sent.map_err(|_| Rejection::Malformed)?;
        let said = Vec::with_capacity(REGISTRATION_BYTES);
        Ok(Self { connection, candidate, nonce, said, brought: None, until: now + HANDSHAKE })
    }

    /// Reads what has come; who registers, when that is complete.
    fn hear(&mut self, secret: &Secret) -> Result<Option<(Process, Nonces)>, Rejection> {
        // One byte more tells what is too long.
        let mut bytes = [0; REGISTRATION_BYTES + 1];
        let room = bytes.len() - self.said.len();
        match self.receive(&mut bytes[..room]) {
            Ok(0) => return Err(Rejection::Malformed),
            Ok(length) => self.said.extend_from_slice(&bytes[..length]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(Rejection::Malformed),
        }
        if self.said.len() < REGISTRATION_BYTES {
            return Ok(None);
        }
        let said = self.said.as_slice().try_into().map_err(|_| Rejection::Malformed)?;
        registration::read_registration(secret, self.nonce, said).map(Some)
    }

    /// Takes some bytes. Of the descriptors that come with all of them the first is kept, and the
    /// others are closed.
    fn receive(&mut self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let (mut parts, flags) = ([IoSliceMut::new(bytes)], RecvFlags::CMSG_CLOEXEC);
        let received = rustix::net::recvmsg(&self.connection, &mut parts, &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for descriptor in descriptors {
                    self.brought.get_or_insert(descriptor);
                }
            }
        }
        Ok(received.bytes)
    }
}
