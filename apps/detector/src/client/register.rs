//! A rank registers with the observer of its node: it hands over its pulse, and gets the board, and
//! a connection on which it is tested, if anybody wants to know who is slow.

use std::{
    io::{self, IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{Memory, start::random};
use crate::protocol::{
    Process,
    board::words,
    envelope::Secret,
    registration::{self, CHALLENGE_BYTES, Nonces, WELCOME_BYTES},
};

/// How long an observer may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// What a registered rank holds.
#[derive(Debug)]
pub(super) struct Registered<M> {
    pub(super) me: Process,
    pub(super) connection: UnixStream,
    pub(super) board: M,
    pub(super) room: u32,
    /// Where it is asked.
    pub(super) questions: Option<OwnedFd>,
}

/// Registers this process at the socket with this path, with the descriptor of its pulse; the board
/// has so many opinions.
pub(super) fn register<M: Memory>(
    socket: &str,
    secret: &Secret,
    me: Process,
    opinions: u32,
    pulse: Option<BorrowedFd<'_>>,
) -> Result<Registered<M>, String> {
    try_register(socket, secret, me, opinions, pulse)
        .map_err(|error| format!("the observer did not take this rank: {error}"))
}

fn try_register<M: Memory>(
    socket: &str,
    secret: &Secret,
    me: Process,
    opinions: u32,
    pulse: Option<BorrowedFd<'_>>,
) -> io::Result<Registered<M>> {
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(LIMIT))?;
    connection.set_write_timeout(Some(LIMIT))?;
    let mut challenge = [0; CHALLENGE_BYTES];
    connection.read_exact(&mut challenge)?;
    let observer = registration::read_challenge(&challenge).ok_or(io::ErrorKind::InvalidData)?;
    let [a, b] = random()?;
    let nonces = Nonces { observer, process: (u128::from(a) << 64 | u128::from(b)).to_le_bytes() };
    send(&connection, &registration::register(secret, &nonces, me), pulse)?;
    let (welcome, board, questions) = receive(&connection)?;
    let room = registration::read_welcome(secret, &nonces, &welcome);
    let room = room.ok_or(io::ErrorKind::InvalidData)?;
    let board = M::of(board, words(opinions, room))?;
    connection.set_nonblocking(true)?;
    Ok(Registered { me, connection, board, room, questions })
}

/// Sends the registration, with the descriptor of our pulse if there is one. An observer that gets
/// none sees our death, and not that we hang.
fn send(
    mut connection: &UnixStream,
    registration: &[u8],
    pulse: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let Some(pulse) = pulse else { return connection.write_all(registration) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [pulse];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let parts = [IoSlice::new(registration)];
    let length = rustix::net::sendmsg(connection, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    connection.write_all(&registration[length..])
}

/// The welcome, and what comes with it: the board, and a connection for questions.
fn receive(connection: &UnixStream) -> io::Result<([u8; WELCOME_BYTES], OwnedFd, Option<OwnedFd>)> {
    let mut welcome = [0; WELCOME_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let (mut parts, flags) = ([IoSliceMut::new(&mut welcome)], RecvFlags::CMSG_CLOEXEC);
    let received = rustix::net::recvmsg(connection, &mut parts, &mut ancillary, flags)?;
    let descriptors = |message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    };
    let mut descriptors = ancillary.drain().filter_map(descriptors).flatten();
    let (board, questions) = (descriptors.next(), descriptors.next());
    if received.bytes != WELCOME_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((welcome, board.ok_or(io::ErrorKind::InvalidData)?, questions))
}
