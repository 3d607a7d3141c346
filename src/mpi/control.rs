//! The control channel: frames between processes of a universe, and news of deaths.
//!
//! Fast frames (votes) between processes of one node go by the [`mailbox`](super::mailbox). Other
//! processes have a standing receive for each that was ever awaited, started when it is awaited:
//! after our own send, while the other's is on its way. The hot path of a commit is one
//! `MPI_Isend`, one `MPI_Start` and some `MPI_Test` between nodes, and no call of MPI within one;
//! no allocation, lock, system call or clock. Slow frames are of any length and found by probing;
//! deaths are asked for. Both are looked for when the caller awaits nobody, and every few polls
//! when it does; these looks are what makes progress in MPI meanwhile.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    calls::{Checked, PROC_FAILED, REVOKED, Refusal},
    comm::Comm,
    mailbox::{Found, Letter, Mailbox},
    request::{self, Request},
    ulfm::Ulfm,
    wire::Wire,
};
use crate::{
    engine::platform::{Incoming, UniverseId},
    ids::CommId,
    protocol::{
        codec::{self, FAST_BYTES, Frame, YES_BYTES, decode_yes, is_fast},
        fused::Values,
        message::Yes,
    },
    rank::Rank,
};

const FAST: u32 = 1;
const SLOW: u32 = 2;
/// Awaiting polls that find nothing between two looks at everything else.
const LOOK_EVERY: u32 = 4;
/// Looks between two questions for deaths and two rounds through what is pending.
const CHORES_EVERY: u32 = 4;
/// The same for polls of any result.
const LOOK_ANYWAY_EVERY: u32 = 256;
/// Tests that a cancelled receive gets before its memory is given up.
const CANCEL_TESTS: usize = 1000;

/// The processes of a universe and the way to them.
#[derive(Debug)]
pub(super) struct Universe {
    id: UniverseId,
    /// Carries frames; revoked only when its creation failed.
    control: Comm,
    /// Other communicators are made from it.
    source: Comm,
    mailbox: Option<Mailbox>,
    links: Vec<Option<Link>>,
    dead: Vec<bool>,
    /// Number of deaths that MPI has told.
    failures: usize,
    revoked: bool,
}

/// The posted receive of fast frames of one process.
#[derive(Debug)]
struct Link {
    request: Request,
    memory: Wire,
    /// MPI has the memory.
    posted: bool,
}

/// A send that MPI has not finished yet.
#[derive(Debug)]
struct Outgoing {
    request: Request,
    memory: Wire,
}

/// All universes.
#[derive(Debug)]
pub(super) struct Control {
    ulfm: &'static Ulfm,
    universes: Vec<Option<Universe>>,
    outgoing: Vec<Outgoing>,
    /// The next fast frame is sent from here.
    spare: Wire,
    news: VecDeque<Incoming>,
    values: Option<Values>,
    /// Awaiting polls since the last look at everything else.
    polls: u32,
    /// Those that have found nothing since one did.
    quiet: u32,
    looks: u32,
    /// It is time to go through what is pending elsewhere, too.
    chores: bool,
    /// The last look was taken because nothing had come for a while.
    waiting: bool,
}

impl Letter {
    /// Its bytes.
    fn frame(self, values: Option<&Values>) -> Frame {
        match values.filter(|_| self.has_values) {
            None => Frame::from_slice(&codec::encode_yes(self.comm, &self.yes)),
            Some(values) => codec::encode_fused(self.comm, &self.yes, values),
        }
    }
}

impl Link {
    fn new(control: &Comm, from: Rank) -> Checked<Self> {
        let memory = Wire::new(FAST_BYTES);
        let exposure = memory.exposure(FAST_BYTES);
        let request = {
            // SAFETY: the memory is read in `take`, after completion, and freed in `close`.
            unsafe { Request::standing_receive(control, exposure, from, FAST) }
        }?;
        Ok(Self { request, memory, posted: false })
    }

    /// The next frame, if there is one. After an error the receive is not posted.
    #[inline]
    fn take(&mut self, values: &mut Option<Values>) -> Checked<Option<Letter>> {
        if !self.posted {
            self.request.restart()?;
            self.posted = true;
        }
        if self.request.test().inspect_err(|_| self.posted = false)?.is_none() {
            return Ok(None);
        }
        self.posted = false;
        Ok(self.memory.read(FAST_BYTES, |bytes| {
            let yes = bytes.first_chunk::<YES_BYTES>().and_then(decode_yes);
            let yes = yes.map(|(comm, yes)| Letter { comm, yes, has_values: false });
            // Bytes of the frame before this one may follow it.
            yes.or_else(|| {
                let (comm, fused) = codec::decode_fused(bytes)?;
                *values = Some(fused.values);
                Some(Letter { comm, yes: fused.yes, has_values: true })
            })
        }))
    }

    fn close(mut self) {
        if self.posted {
            self.request.cancel();
            let mut tests = 0..CANCEL_TESTS;
            self.posted = tests.all(|_| matches!(self.request.test(), Ok(None)));
        }
        if self.posted {
            self.memory.leak();
        } else {
            self.request.release();
        }
    }
}

impl Universe {
    /// The next fast frame of a process, wherever it comes; a receive is posted if it must be.
    #[inline]
    fn take(&mut self, from: Rank, values: &mut Option<Values>) -> Checked<Option<Letter>> {
        if self.revoked || self.dead.get(from.index()).is_none_or(|dead| *dead) {
            return Ok(None);
        }
        if let Some(mailbox) = &mut self.mailbox {
            match mailbox.take(from, values) {
                Found::Letter(letter) => return Ok(Some(letter)),
                Found::Nothing => return Ok(None),
                Found::Elsewhere => {}
            }
        }
        let place = &mut self.links[from.index()];
        match place {
            Some(link) => link,
            None => place.insert(Link::new(&self.control, from)?),
        }
        .take(values)
    }

    /// Fast frames that a process sent before its death are news like any other; then nothing
    /// comes from it any more.
    fn bury(&mut self, from: Rank, news: &mut VecDeque<Incoming>) {
        let mut values = None;
        let mut keep = |letter: Letter, values: &Option<Values>| {
            news.push_back(Incoming::Frame(self.id, from, letter.frame(values.as_ref())));
        };
        if let Some(mailbox) = &mut self.mailbox {
            while let Found::Letter(letter) = mailbox.take(from, &mut values) {
                keep(letter, &values);
            }
            mailbox.close(from);
        }
        if let Some(mut link) = self.links[from.index()].take() {
            while link.posted
                && let Ok(Some(letter)) = link.take(&mut values)
            {
                keep(letter, &values);
            }
            link.close();
        }
    }

    fn close_link(&mut self, from: Rank) {
        if let Some(link) = self.links[from.index()].take() {
            link.close();
        }
    }
}

impl Control {
    pub(super) fn new(ulfm: &'static Ulfm) -> Self {
        Self {
            ulfm,
            universes: Vec::new(),
            outgoing: Vec::new(),
            spare: Wire::new(FAST_BYTES),
            news: VecDeque::new(),
            values: None,
            polls: 0,
            quiet: 0,
            looks: 0,
            chores: false,
            waiting: false,
        }
    }

    /// Takes the communicators of a new universe into use.
    pub(super) fn add(
        &mut self,
        control: Comm,
        source: Comm,
        mailbox: Option<Mailbox>,
    ) -> UniverseId {
        let id = UniverseId(self.universes.len() as u32);
        let size = control.size() as usize;
        let links = std::iter::repeat_with(|| None).take(size).collect();
        let dead = vec![false; size];
        let (failures, revoked) = (0, false);
        let universe = Universe { id, control, source, mailbox, links, dead, failures, revoked };
        self.universes.push(Some(universe));
        id
    }

    /// What other communicators are made from.
    pub(super) fn source(&self, id: UniverseId) -> Option<Comm> {
        self.universes.get(id.0 as usize)?.as_ref().map(|universe| universe.source)
    }

    /// The newest universe, and all of its processes.
    pub(super) fn newest(&self) -> Option<(UniverseId, Comm)> {
        let universe = self.universes.iter().flatten().last()?;
        Some((universe.id, universe.source))
    }

    /// True when the newest universe was revoked: those who made it have given it up.
    pub(super) fn newest_is_revoked(&self) -> bool {
        self.universes.iter().flatten().last().is_some_and(|universe| universe.revoked)
    }

    /// Drops a universe; its communicators stay, other processes may still use them.
    pub(super) fn discard(&mut self, id: UniverseId) {
        let Some(mut universe) = self.universes.get_mut(id.0 as usize).and_then(Option::take)
        else {
            return;
        };
        universe.links.drain(..).flatten().for_each(Link::close);
        self.news.retain(|news| {
            let of = match news {
                Incoming::Frame(of, ..)
                | Incoming::Yes(of, ..)
                | Incoming::Fused(of, ..)
                | Incoming::Failure(of, _) => *of,
            };
            of != id
        });
    }

    /// A message of the fast path: through the mailbox if there is a way.
    #[inline]
    pub(super) fn send_yes(&mut self, id: UniverseId, to: Rank, comm: CommId, yes: &Yes) {
        let Some(universe) = self.open_to(id, to) else { return };
        let mailbox = universe.mailbox.as_mut();
        if !mailbox.is_some_and(|mailbox| mailbox.send(to, comm, yes)) {
            self.send(id, to, &codec::encode_yes(comm, yes));
        }
    }

    /// The same for a message with values.
    #[inline]
    pub(super) fn send_fused(
        &mut self,
        id: UniverseId,
        to: Rank,
        comm: CommId,
        yes: &Yes,
        values: &Values,
    ) {
        let Some(universe) = self.open_to(id, to) else { return };
        let mailbox = universe.mailbox.as_mut();
        if !mailbox.is_some_and(|mailbox| mailbox.send_fused(to, comm, yes, values)) {
            self.send(id, to, &codec::encode_fused(comm, yes, values));
        }
    }

    pub(super) fn send(&mut self, id: UniverseId, to: Rank, frame: &[u8]) {
        let Some(universe) = self.open_to(id, to) else { return };
        let (control, tag) = (universe.control, if is_fast(frame) { FAST } else { SLOW });
        if frame.len() > self.spare.capacity() {
            self.spare = Wire::new(frame.len());
        }
        self.spare.write(frame);
        let exposure = self.spare.exposure(frame.len());
        // SAFETY: unless the send is over at once, `outgoing` keeps the memory until it is.
        let sent = unsafe { Request::send(&control, &exposure, to, tag, false) };
        let sent = sent.and_then(|mut request| Ok((request.test()?.is_none(), request)));
        match sent {
            Ok((false, _)) => {}
            Ok((true, request)) => {
                let memory = std::mem::replace(&mut self.spare, Wire::new(FAST_BYTES));
                self.outgoing.push(Outgoing { request, memory });
            }
            Err(refusal) => self.handle_refusal(id, to, refusal),
        }
    }

    /// The universe, if a frame can go to this process of it.
    #[inline]
    fn open_to(&mut self, id: UniverseId, to: Rank) -> Option<&mut Universe> {
        let universe = self.universes.get_mut(id.0 as usize)?.as_mut()?;
        let living = universe.dead.get(to.index()).is_some_and(|dead| !dead);
        (living && !universe.revoked).then_some(universe)
    }

    /// Of the last vote that had any.
    pub(super) const fn values(&self) -> Option<&Values> {
        self.values.as_ref()
    }

    /// The next news; `None` when there is none, or when it is not yet time to look.
    #[inline]
    pub(super) fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming> {
        if !self.news.is_empty() {
            return self.news.pop_front();
        }
        let Some((id, from)) = awaits else {
            self.waiting = true;
            return self.look_around();
        };
        if self.quiet >= LOOK_EVERY || self.polls >= LOOK_ANYWAY_EVERY {
            self.waiting = self.quiet >= LOOK_EVERY;
            (self.quiet, self.polls) = (0, 0);
            let other = self.look_around();
            if other.is_some() {
                return other;
            }
        }
        self.polls += 1;
        let found = self.awaited(id, from);
        self.quiet = if found.is_some() { 0 } else { self.quiet + 1 };
        found
    }

    #[inline]
    fn awaited(&mut self, id: UniverseId, from: Rank) -> Option<Incoming> {
        let universe = self.universes.get_mut(id.0 as usize)?.as_mut()?;
        match universe.take(from, &mut self.values) {
            Ok(None) => None,
            Ok(Some(Letter { comm, yes, has_values: false })) => {
                Some(Incoming::Yes(id, from, comm, yes))
            }
            Ok(Some(Letter { comm, yes, .. })) => Some(Incoming::Fused(id, from, comm, yes)),
            Err(refusal) => {
                self.close_link(id, from);
                self.handle_refusal(id, from, refusal);
                self.news.pop_front()
            }
        }
    }

    fn close_link(&mut self, id: UniverseId, from: Rank) {
        if let Some(universe) = self.universes.get_mut(id.0 as usize).and_then(Option::as_mut) {
            universe.close_link(from);
        }
    }

    /// Slow frames of all universes, the newest first and most often; now and then deaths.
    #[cold]
    fn look_around(&mut self) -> Option<Incoming> {
        self.looks = self.looks.wrapping_add(1);
        let chores = self.looks.is_multiple_of(CHORES_EVERY);
        if chores {
            self.chores = true;
            self.look_for_deaths();
            self.finish_sends();
        }
        let mut revoked = None;
        let open = self.universes.iter().flatten().filter(|universe| !universe.revoked).rev();
        for universe in open.take(if chores { usize::MAX } else { 1 }) {
            match request::next_message(&universe.control, SLOW) {
                Ok(None) => {}
                Ok(Some((from, bytes))) => {
                    let frame = Frame::from_vec(bytes);
                    self.news.push_back(Incoming::Frame(universe.id, from, frame));
                }
                Err(Refusal { class: REVOKED, .. }) => revoked = Some(universe.id),
                // A death that the next look asks for; acknowledged, so that probes go on.
                Err(_) => universe.control.acknowledge_failures(self.ulfm),
            }
        }
        if let Some(id) = revoked {
            self.handle_revoked(id);
        }
        self.news.pop_front()
    }

    /// True once after each round of chores.
    #[inline]
    pub(super) fn did_chores(&mut self) -> bool {
        std::mem::take(&mut self.chores)
    }

    /// True when nothing had come for a while before the last look.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// What MPI knows, now.
    pub(super) fn look_for_deaths(&mut self) {
        for universe in self.universes.iter_mut().flatten() {
            let known = universe.failures;
            let (mut deaths, dead) = (Vec::new(), &mut universe.dead);
            let told = universe.control.failed(self.ulfm, known, |rank| {
                if !std::mem::replace(&mut dead[rank.index()], true) {
                    deaths.push(rank);
                }
            });
            match told {
                Ok(number) if number > known => {
                    universe.failures = number;
                    universe.control.acknowledge_failures(self.ulfm);
                    for rank in deaths {
                        universe.bury(rank, &mut self.news);
                        self.news.push_back(Incoming::Failure(universe.id, rank));
                    }
                }
                Ok(_) => {}
                Err(refusal) => tracing::debug!(?refusal, "cannot ask for deaths"),
            }
        }
    }

    /// What a refused operation with a process says about it.
    fn handle_refusal(&mut self, id: UniverseId, peer: Rank, refusal: Refusal) {
        match refusal.class {
            PROC_FAILED => {
                self.look_for_deaths();
                let universe = self.universes.get_mut(id.0 as usize).and_then(Option::as_mut);
                let Some(universe) = universe else { return };
                if !std::mem::replace(&mut universe.dead[peer.index()], true) {
                    universe.bury(peer, &mut self.news);
                    self.news.push_back(Incoming::Failure(id, peer));
                }
            }
            REVOKED => self.handle_revoked(id),
            _ => tracing::warn!(?refusal, process = %peer, "control frame lost"),
        }
    }

    fn handle_revoked(&mut self, id: UniverseId) {
        if let Some(universe) = self.universes.get_mut(id.0 as usize).and_then(Option::as_mut) {
            tracing::debug!(universe = id.0, "revoked");
            universe.revoked = true;
        }
    }

    fn finish_sends(&mut self) {
        let mailboxes = self.universes.iter_mut().flatten().filter_map(|u| u.mailbox.as_mut());
        mailboxes.for_each(Mailbox::flush);
        // An error ends a request as well as success does.
        self.outgoing.retain_mut(|outgoing| matches!(outgoing.request.test(), Ok(None)));
    }

    fn is_sending(&self) -> bool {
        let mut mailboxes = self.universes.iter().flatten().filter_map(|u| u.mailbox.as_ref());
        !self.outgoing.is_empty() || mailboxes.any(Mailbox::is_sending)
    }

    /// Ends everything: sends get some time, receives are cancelled. Frames that MPI says it has
    /// sent may still wait for a connection, so there is progress for at least a moment.
    pub(super) fn close(&mut self, at_least: Duration, within: Duration) {
        let began = Instant::now();
        while began.elapsed() < at_least || self.is_sending() && began.elapsed() < within {
            let _ = self.look_around();
        }
        for outgoing in self.outgoing.drain(..) {
            outgoing.memory.leak();
        }
        for id in 0..self.universes.len() {
            self.discard(UniverseId(id as u32));
        }
    }
}
