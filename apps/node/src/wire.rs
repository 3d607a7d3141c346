//! A connection that carries the frames of a [`Channel`], and never waits.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fampi_detector::protocol::{Host, envelope::Secret};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};

use crate::protocol::channel::{Channel, Nonce};
use crate::protocol::message::{decode, encode};

/// How long a machine may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// After which the other end of a watched connection is looked for, and between two looks.
const QUIET: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Our end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    channel: Channel,
    unsent: Vec<u8>,
    /// Bytes at the front of them that have been sent.
    sent: usize,
    /// The other end is gone, or no process of the job.
    is_closed: bool,
    /// The host that was called said that nobody listens there.
    is_refused: bool,
    /// The thread that waits for the connection has been told that there is something to send.
    is_waited: bool,
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
            Err(error) => (link.is_closed, link.is_refused) = (true, error == Errno::CONNREFUSED),
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
            is_closed: false,
            is_refused: false,
            is_waited: false,
        })
    }

    /// Who is at the other end, once it has proved that.
    pub(crate) fn peer(&self) -> Option<Host> {
        self.channel.peer()
    }

    /// Lets the system look whether the machine of the other end is there while nothing is sent.
    pub(crate) fn watch_machine(&self) -> Result<()> {
        use rustix::net::sockopt;
        let done = sockopt::set_socket_keepalive(&self.stream, true)
            .and_then(|()| sockopt::set_tcp_keepidle(&self.stream, QUIET))
            .and_then(|()| sockopt::set_tcp_keepintvl(&self.stream, QUIET))
            .and_then(|()| sockopt::set_tcp_keepcnt(&self.stream, 3));
        done.context("a connection that cannot be watched")
    }

    /// Where the other end is.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// True when the other end is gone.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True when the host that was called said that nobody listens there.
    pub(crate) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Bytes that wait to be sent.
    pub(crate) const fn backlog(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// True when whether there is something to send has changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<bool> {
        let waits = self.backlog() > 0 && !self.is_closed;
        let changed = waits != self.is_waited;
        self.is_waited = waits;
        changed.then_some(waits)
    }

    /// Sends this, or keeps it until there is room.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        if self.is_closed {
            return;
        }
        self.channel.seal(&encode(message), &mut self.unsent);
        self.flush();
    }

    /// Sends what there is room for.
    pub(crate) fn flush(&mut self) {
        while self.sent < self.unsent.len() && !self.is_closed {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(0) => self.is_closed = true,
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    (self.is_closed, self.is_refused) = (true, true);
                }
                // What has come before is read first: its end will be seen there.
                Err(_) => {
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

    /// Takes what has come; afterwards [`take`](Self::take) gives the messages.
    pub(crate) fn read(&mut self) {
        let mut bytes = vec![0; CHUNK];
        while !self.is_closed {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(read) => {
                    let taken = self.channel.handle_bytes(&bytes[..read], &mut self.unsent);
                    self.is_closed |= taken.is_err();
                    if read < CHUNK {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.is_closed = true;
                    self.is_refused |= error.kind() == ErrorKind::ConnectionRefused;
                }
            }
        }
        self.flush();
    }

    /// The next message that has come.
    pub(crate) fn take<T: for<'a> Deserialize<'a>>(&mut self) -> Option<T> {
        match self.channel.take_frame() {
            Ok(Some(body)) => {
                let message = decode(&body);
                self.is_closed |= message.is_none();
                message
            }
            Ok(None) => None,
            Err(_) => {
                self.is_closed = true;
                None
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
