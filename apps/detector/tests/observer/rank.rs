//! What a process does: it registers, looks at the board, and ends.

use std::{
    fs::File,
    io::{self, BufRead as _, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::FileExt as _, net::UnixStream},
    },
    sync::mpsc,
    thread,
    time::Duration,
};

use fampi_detector::client::answer;
use fampi_detector::clock::now;
use fampi_detector::protocol::{
    Incarnation, Process,
    board::{self, ENTRY_WORDS, Entry, Head},
    diagnosis::Opinion,
    plan::Plan,
    registration::{self, CHALLENGE_BYTES, Nonces, WELCOME_BYTES},
};
use rustix::{
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags,
    },
    process::Signal,
};

use crate::{job::launched, page};

/// A process that is registered, as it sees its observer.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) connection: UnixStream,
    board: File,
    /// Opinions on the board.
    opinions: u32,
    is_tested: bool,
}

impl Member {
    /// One that shows no progress, and so is never hung.
    pub(crate) fn register(plan: &Plan, me: Process) -> io::Result<Self> {
        Self::bring(plan, me, &[])
    }

    /// One that hands over these descriptors with its registration.
    fn bring(plan: &Plan, me: Process, brought: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let mut connection = UnixStream::connect(&plan.socket)?;
        connection.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut challenge = [0; CHALLENGE_BYTES];
        connection.read_exact(&mut challenge)?;
        let observer = registration::read_challenge(&challenge).ok_or(ErrorKind::InvalidData)?;
        let nonces = Nonces { observer, process: [77; 16] };
        send(&connection, &registration::register(&plan.secret, &nonces, me), brought)?;
        let (welcome, descriptor, questions) = receive(&connection)?;
        let room = registration::read_welcome(&plan.secret, &nonces, &welcome);
        let room = room.ok_or(ErrorKind::InvalidData)?;
        let board = File::from(descriptor.ok_or(ErrorKind::InvalidData)?);
        let opinions = (plan.nodes_of.len() + plan.nodes.len()) as u32;
        assert_eq!(board.metadata()?.len(), 8 * board::words(opinions, room) as u64);
        let is_tested = questions.is_some();
        questions.map_or(Ok(()), |it| answer(it, || {}))?;
        Ok(Self { connection, board, opinions, is_tested })
    }

    pub(crate) fn head(&self) -> Head {
        Head::from_words(&self.words(0)).expect("a head")
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entry = |place: u32| {
            let words = self.words::<ENTRY_WORDS>(board::entry_at(self.opinions, place));
            let (entry, moment) =
                Entry::from_words(words, place).expect("an entry that is counted");
            assert!(moment <= now(), "written in the future");
            entry
        };
        (0..self.head().entries).map(entry).collect()
    }

    /// True when it answers tests.
    pub(crate) fn is_tested(&self) -> bool {
        self.is_tested
    }

    /// What the observer thinks of a rank, or, behind these, of a node.
    pub(crate) fn opinion(&self, target: u32) -> Opinion {
        let [word] = self.words(board::opinion_at(target));
        board::opinion_of_word(word)
    }

    /// True when nothing can be written to the board through what a process gets.
    pub(crate) fn can_only_read(&self) -> bool {
        self.board.write_all_at(&[1], 0).is_err()
    }

    /// True when the observer is gone.
    pub(crate) fn is_alone(&mut self) -> bool {
        self.connection.set_nonblocking(true).expect("a socket");
        matches!(self.connection.read(&mut [0]), Ok(0))
    }

    fn words<const N: usize>(&self, at: usize) -> [u64; N] {
        std::array::from_fn(|word| {
            let mut bytes = [0; 8];
            self.board.read_exact_at(&mut bytes, 8 * (at + word) as u64).expect("a board");
            u64::from_ne_bytes(bytes)
        })
    }
}

fn send(connection: &UnixStream, bytes: &[u8], brought: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !brought.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(brought)), "at most eight");
    }
    let parts = [IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(connection, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

fn receive(
    connection: &UnixStream,
) -> io::Result<([u8; WELCOME_BYTES], Option<OwnedFd>, Option<OwnedFd>)> {
    let mut welcome = [0; WELCOME_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(&mut welcome)];
    let message =
        rustix::net::recvmsg(connection, &mut room, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if message.bytes != WELCOME_BYTES {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let descriptors = |message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    };
    let mut descriptors = ancillary.drain().filter_map(descriptors).flatten();
    Ok((welcome, descriptors.next(), descriptors.next()))
}

/// No test: what this program does as a process that the tests start.
#[test]
#[ignore = "only as a process of other tests"]
fn act() {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    // Who has no orders any more ends: its test is over.
    let Some(who) = lines.next() else { return };
    let words: Vec<&str> = who.split(' ').collect();
    let &[rank, life, shown] = &words[..] else { panic!("a rank, its incarnation and a page") };
    let (rank, life) = (rank.parse().expect("a number"), life.parse().expect("a number"));
    let mut text = String::new();
    for line in lines.by_ref() {
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("ranks") {
            break;
        }
    }
    let plan = Plan::parse(&text).expect("a plan");
    let me = Process { incarnation: Incarnation(life), ..launched(rank) };
    // They wait until somebody tells them something, or nobody can any more.
    let (shed, waits): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::channel::<()>()).unzip();
    let waiting: Vec<_> =
        waits.into_iter().map(|wait| thread::spawn(move || wait.recv().is_err())).collect();
    let pages = page::made(shown);
    let brought: Vec<BorrowedFd<'_>> = pages.iter().map(OwnedFd::as_fd).collect();
    let member = Member::bring(&plan, me, &brought);
    // A line of its own, whatever the test program has begun to write.
    println!("\n{}", if member.is_ok() { "registered" } else { "refused" });
    io::stdout().flush().expect("somebody reads");
    let mut next = || lines.find(|order| !page::obeys(&pages, order)).unwrap_or_default();
    let mut order = next();
    if order == "shed" {
        drop(shed);
        assert!(waiting.into_iter().all(|thread| thread.join().expect("no panic")));
        order = next();
    }
    if order == "leave" {
        let mut connection = &member.expect("registered").connection;
        connection.write_all(&[registration::LEAVE]).expect("the observer lives");
        std::process::exit(0);
    }
    match order.split_once(' ').map(|(how, status)| (how, status.parse().expect("a number"))) {
        Some(("exit", status)) => std::process::exit(status),
        // With so many MiB, which it takes the system a while to get back.
        Some(("fat", size)) => {
            let memory = std::hint::black_box(vec![1_u8; (size as usize) << 20]);
            signal_hook::low_level::raise(Signal::KILL.as_raw()).expect("a signal");
            drop(memory);
        }
        Some(("_exit", status)) => signal_hook::low_level::exit(status),
        Some(("signal", signal)) => loop {
            // The first one may meet a handler of the standard library, which then goes.
            signal_hook::low_level::raise(signal).expect("a signal");
        },
        _ => std::process::exit(0),
    }
}
