//! A connection that carries the frames of a [`Channel`], and never waits.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fampi_detector::protocol::{Host, envelope::Secret};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use serde::{Deserialize, Serialize};

use crate::protocol::channel::{Channel, Nonce};
use crate::protocol::message::{decode, encode};

/// How long a machine may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// After which the other end of a watched connection is looked for, and between two looks.
const QUIET: Duration = Duration::from_secs(5);
/// How many looks find nothing before it is gone.
const LOOKS: u32 = 3;
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// How a connection has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The other end, or its system, has closed it.
    Closed,
    /// The system of the other host has refused the call: no process listens there.
    Refused,
    /// The network has lost it, or who sends there is no process of the job. Who was at the other
    /// end may live.
    Broken,
}

/// Our end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    channel: Channel,
    unsent: Vec<u8>,
    /// Bytes at the front of them that have been sent.
    sent: usize,
    end: Option<End>,
    /// The network did not take something: that there is no more to read proves nothing then.
    has_failed: bool,
    /// The thread that waits for the connection has been told that there is something to send.
    is_waited: bool,
}

/// True for an error that comes from the other end. Others come from the network between.
fn is_of_other_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn nonce() -> Result<Nonce> {
    let mut nonce = Nonce::default();
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
        .context("the system has no random numbers")?;
    Ok(nonce)
}

impl Link {
    /// Calls another process of the job. Frames have at most so many bytes.
    pub(crate) fn call(
        at: SocketAddr,
        me: Host,
        peer: Host,
        secret: &Secret,
        most: usize,
    ) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&at, PATIENCE)
            .with_context(|| format!("cannot connect to {at}"))?;
        let mut link = Self::calling(stream, me, peer, secret, most)?;
        link.flush();
        Ok(link)
    }

    /// Calls another process of the job without waiting until its machine accepts.
    pub(crate) fn dial(
        at: SocketAddr,
        me: Host,
        peer: Host,
        secret: &Secret,
        most: usize,
    ) -> Result<Self> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).context("no socket")?;
        let mut link = Self::calling(socket.into(), me, peer, secret, most)?;
        match connect(&link.stream, &at) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(Errno::CONNREFUSED) => link.end = Some(End::Refused),
            Err(_) => link.end = Some(End::Broken),
        }
        Ok(link)
    }

    /// The end of who calls, with the first of what it has to say.
    fn calling(
        stream: TcpStream,
        me: Host,
        peer: Host,
        secret: &Secret,
        most: usize,
    ) -> Result<Self> {
        let mut hello = Vec::new();
        let channel = Channel::call(me, peer, secret.clone(), nonce()?, most, &mut hello);
        let link = Self::of(stream, channel)?;
        Ok(Self { unsent: hello, ..link })
    }

    /// A process has called.
    pub(crate) fn accept(
        stream: TcpStream,
        me: Host,
        secret: &Secret,
        most: usize,
    ) -> Result<Self> {
        Self::of(stream, Channel::listen(me, secret.clone(), nonce()?, most))
    }

    fn of(stream: TcpStream, channel: Channel) -> Result<Self> {
        stream.set_nonblocking(true).context("a connection that waits")?;
        stream.set_nodelay(true).context("a connection that delays")?;
        let unsent = Vec::new();
        Ok(Self {
            stream,
            channel,
            unsent,
            sent: 0,
            end: None,
            has_failed: false,
            is_waited: false,
        })
    }

    /// Who is at the other end, once it has proved that.
    pub(crate) fn peer(&self) -> Option<Host> {
        self.channel.peer()
    }

    /// Lets the system look whether the machine of the other end is there while nothing is sent.
    pub(crate) fn watch_machine(&self) -> Result<()> {
        let done = sockopt::set_socket_keepalive(&self.stream, true)
            .and_then(|()| sockopt::set_tcp_keepidle(&self.stream, QUIET))
            .and_then(|()| sockopt::set_tcp_keepintvl(&self.stream, QUIET))
            .and_then(|()| sockopt::set_tcp_keepcnt(&self.stream, LOOKS));
        done.context("a connection that cannot be watched")
    }

    /// Lets the system give up the other end when it takes nothing for so long, not sooner and not
    /// later, however its machine is set up.
    pub(crate) fn bound_sending(&self, limit: Duration) -> Result<()> {
        sockopt::set_tcp_user_timeout(&self.stream, limit.as_millis() as u32)
            .context("a connection that cannot be watched")
    }

    /// Where the other end is.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// True when it has ended.
    pub(crate) const fn is_closed(&self) -> bool {
        self.end.is_some()
    }

    /// How it has ended, if it has.
    pub(crate) const fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes that wait to be sent.
    pub(crate) const fn backlog(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// True when whether there is something to send has changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<bool> {
        let waits = self.backlog() > 0 && !self.is_closed();
        let changed = waits != self.is_waited;
        self.is_waited = waits;
        changed.then_some(waits)
    }

    /// Sends this, or keeps it until there is room.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        if self.is_closed() {
            return;
        }
        self.channel.seal(&encode(message), &mut self.unsent);
        self.flush();
    }

    /// Sends what there is room for.
    pub(crate) fn flush(&mut self) {
        while self.sent < self.unsent.len() && !self.is_closed() {
            match self.stream.write(&self.unsent[self.sent..]).map_err(|error| error.kind()) {
                Ok(0) => self.end = Some(End::Broken),
                Ok(written) => self.sent += written,
                Err(ErrorKind::Interrupted) => {}
                Err(ErrorKind::WouldBlock) => break,
                Err(ErrorKind::ConnectionRefused) => self.end = Some(End::Refused),
                // What has come before is read first: its end will be seen there.
                Err(kind) => {
                    self.has_failed |= !is_of_other_end(kind);
                    self.unsent.clear();
                    self.sent = 0;
                }
            }
        }
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        } else if self.sent >= CHUNK {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Takes what has come; afterwards [`take`](Self::take) gives the messages. True if that was
    /// anything.
    pub(crate) fn read(&mut self) -> bool {
        let (mut bytes, mut has_come) = (vec![0; CHUNK], false);
        while !self.is_closed() {
            match self.stream.read(&mut bytes).map_err(|error| error.kind()) {
                Ok(0) if self.has_failed => self.end = Some(End::Broken),
                Ok(0) => self.end = Some(End::Closed),
                Ok(read) => {
                    has_come = true;
                    if self.channel.handle_bytes(&bytes[..read], &mut self.unsent).is_err() {
                        self.end = Some(End::Broken);
                    }
                    if read < CHUNK {
                        break;
                    }
                }
                Err(ErrorKind::Interrupted) => {}
                Err(ErrorKind::WouldBlock) => break,
                Err(ErrorKind::ConnectionRefused) => self.end = Some(End::Refused),
                Err(kind) if is_of_other_end(kind) => self.end = Some(End::Closed),
                Err(_) => self.end = Some(End::Broken),
            }
        }
        self.flush();
        has_come
    }

    /// The next message that has come.
    pub(crate) fn take<T: for<'a> Deserialize<'a>>(&mut self) -> Option<T> {
        let message = match self.channel.take_frame() {
            Ok(Some(body)) => decode(&body),
            Ok(None) => return None,
            Err(_) => None,
        };
        if message.is_none() {
            self.end = Some(End::Broken);
        }
        message
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
