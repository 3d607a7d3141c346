//! A rank registers with the observer of its node: it hands over its pulse, and gets the board.

use std::{
    io::{self, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    ptr,
    time::Duration,
};

use super::{super::memory::View, pulse, start::random};
use crate::protocol::detector::{
    Process,
    board::words,
    envelope::Secret,
    registration::{self, CHALLENGE_BYTES, Nonces, WELCOME_BYTES},
};

/// How long an observer may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Room for one descriptor beside a message, and more than that.
const ANCILLARY_WORDS: usize = 8;
const DESCRIPTOR_BYTES: libc::c_uint = size_of::<libc::c_int>() as libc::c_uint;

/// What a registered rank holds.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) me: Process,
    pub(super) connection: UnixStream,
    pub(super) board: View,
    pub(super) room: u32,
}

/// Registers this process at the socket with this path.
pub(super) fn register(socket: &str, secret: &Secret, me: Process) -> Result<Registered, String> {
    try_register(socket, secret, me)
        .map_err(|error| format!("the observer did not take this rank: {error}"))
}

fn try_register(socket: &str, secret: &Secret, me: Process) -> io::Result<Registered> {
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(LIMIT))?;
    connection.set_write_timeout(Some(LIMIT))?;
    let mut challenge = [0; CHALLENGE_BYTES];
    connection.read_exact(&mut challenge)?;
    let observer = registration::read_challenge(&challenge).ok_or(io::ErrorKind::InvalidData)?;
    let [a, b] = random()?;
    let nonces = Nonces { observer, process: (u128::from(a) << 64 | u128::from(b)).to_le_bytes() };
    send(&connection, &registration::register(secret, &nonces, me))?;
    let (welcome, board) = receive(&connection)?;
    let room = registration::read_welcome(secret, &nonces, &welcome);
    let room = room.ok_or(io::ErrorKind::InvalidData)?;
    let board = View::of(board, words(room))?;
    connection.set_nonblocking(true)?;
    Ok(Registered { me, connection, board, room })
}

/// Sends the registration, with the descriptor of our pulse if there is one. An observer that gets
/// none sees our death, and not that we hang.
fn send(mut connection: &UnixStream, registration: &[u8]) -> io::Result<()> {
    let Some(pulse) = pulse::descriptor() else { return connection.write_all(registration) };
    let mut part = libc::iovec {
        iov_base: registration.as_ptr().cast_mut().cast(),
        iov_len: registration.len(),
    };
    let mut ancillary = [0_u64; ANCILLARY_WORDS];
    // SAFETY: a structure of numbers and pointers, for which zeros are a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.as_mut_ptr().cast();
    // SAFETY: the macro computes with a number.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(DESCRIPTOR_BYTES) } as _;
    put_descriptor(&message, pulse.as_raw_fd());
    // SAFETY: the message points to arrays of ours, of the lengths that it tells.
    let length =
        unsafe { libc::sendmsg(connection.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    connection.write_all(&registration[length as usize..])
}

/// Puts a descriptor beside a message that has room for one.
fn put_descriptor(message: &libc::msghdr, descriptor: libc::c_int) {
    // SAFETY: the message points to its room, which is longer than a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: a header within the array that the message points to, aligned as words are.
    let Some(filled) = (unsafe { header.as_mut() }) else { return };
    filled.cmsg_level = libc::SOL_SOCKET;
    filled.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: the macro computes with a number.
    filled.cmsg_len = unsafe { libc::CMSG_LEN(DESCRIPTOR_BYTES) } as _;
    // SAFETY: the header is one of the message.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the room was made for a header and a descriptor.
    unsafe { data.cast::<libc::c_int>().write_unaligned(descriptor) };
}

/// The welcome, and the descriptor that comes with it.
fn receive(connection: &UnixStream) -> io::Result<([u8; WELCOME_BYTES], OwnedFd)> {
    let mut welcome = [0_u8; WELCOME_BYTES];
    // Words, so that the header in it is aligned.
    let mut ancillary = [0_u64; ANCILLARY_WORDS];
    let mut part = libc::iovec { iov_base: welcome.as_mut_ptr().cast(), iov_len: WELCOME_BYTES };
    // SAFETY: a structure of numbers and pointers, for which zeros are a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&ancillary) as _;
    // SAFETY: the message points to arrays of ours, of the lengths that it tells.
    let length =
        unsafe { libc::recvmsg(connection.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = descriptor_in(&message);
    if length as usize != WELCOME_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((welcome, descriptor.ok_or(io::ErrorKind::InvalidData)?))
}

/// The one descriptor that came with a message which the system has just filled.
fn descriptor_in(message: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the message was filled by `recvmsg`, and its arrays are live.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header within the array that the message points to.
    let header = unsafe { header.as_ref() }?;
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    // SAFETY: the header is one of the message.
    let data = unsafe { libc::CMSG_DATA(ptr::from_ref(header)) };
    // SAFETY: this kind of header is followed by at least one descriptor.
    let descriptor = unsafe { data.cast::<libc::c_int>().read_unaligned() };
    // SAFETY: the system has just opened it for us, and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
