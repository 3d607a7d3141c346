//! The control channel: frames between processes of a universe, and news of deaths.
//!
//! Fast frames (votes) between processes of one node go by the [`mailbox`](super::mailbox). Other
//! processes have a standing receive for each that was ever awaited, started when it is awaited:
//! after our own send, while the other's is on its way. The hot path of a commit is one
//! `MPI_Isend`, one `MPI_Start` and some `MPI_Test` between nodes, and no call of MPI within one;
//! no allocation, lock, system call or clock. Slow frames are of any length and found by probing;
//! deaths are asked for. Both are looked for when the caller awaits no rank, and every few polls
//! when it does; these looks are what makes progress in MPI meanwhile.

mod universe;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{mailbox::Mailbox, wire::Wire};
use crate::{
    mpi::{
        calls::{
            comm::Comm,
            inside,
            library::{PROC_FAILED, REVOKED, Refusal},
            request,
            ulfm::Ulfm,
        },
        deaths,
    },
    native::Request,
    protocol::{
        codec::{FAST_BYTES, Frame, is_fast},
        fused::{Held, Values},
    },
    rank::Rank,
    seam::platform::{Incoming, Outgoing, UniverseId},
};
use universe::{FAST, Universe};

const SLOW: u32 = 2;
/// Awaiting polls that find nothing between two looks at everything else.
const LOOK_EVERY: u32 = 4;
const LOOK_EVERY_CROWDED: u32 = 64;
/// Looks between two questions for deaths and two rounds through what is pending.
const CHORES_EVERY: u32 = 4;
/// Polls with any result between two looks at everything else.
const LOOK_ANYWAY_EVERY: u32 = 256;

/// A send that MPI has not finished yet.
#[derive(Debug)]
struct Leaving {
    request: Request,
    memory: Wire,
}

/// All universes.
#[derive(Debug)]
pub(in crate::mpi) struct Control {
    ulfm: &'static Ulfm,
    universes: Vec<Option<Universe>>,
    outgoing: Vec<Leaving>,
    /// The next fast frame is sent from here.
    spare: Wire,
    news: VecDeque<Incoming>,
    values: Held,
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

impl Control {
    pub(in crate::mpi) fn new(ulfm: &'static Ulfm) -> Self {
        Self {
            ulfm,
            universes: Vec::new(),
            outgoing: Vec::new(),
            spare: Wire::new(FAST_BYTES),
            news: VecDeque::new(),
            values: Held::NOTHING,
            polls: 0,
            quiet: 0,
            looks: 0,
            chores: false,
            waiting: false,
        }
    }

    /// Takes the communicators of a new universe into use.
    pub(in crate::mpi) fn add(
        &mut self,
        control: Comm,
        source: Comm,
        mailbox: Option<Mailbox>,
        nodes: Vec<u32>,
    ) -> UniverseId {
        let id = self.next();
        self.universes.push(Some(Universe::new(id, (control, source), mailbox, nodes)));
        id
    }

    /// The nodes of the processes of a universe.
    pub(in crate::mpi) fn nodes(&self, id: UniverseId) -> Vec<u32> {
        let universe = self.universes.get(id.0 as usize).and_then(Option::as_ref);
        universe.map(|universe| universe.nodes.clone()).unwrap_or_default()
    }

    /// The number of the universe that is added next.
    pub(in crate::mpi) fn next(&self) -> UniverseId {
        UniverseId(self.universes.len() as u32)
    }

    /// What other communicators are made from.
    pub(in crate::mpi) fn source(&self, id: UniverseId) -> Option<Comm> {
        self.universes.get(id.0 as usize)?.as_ref().map(|universe| universe.source)
    }

    /// The newest universe.
    pub(in crate::mpi) fn newest(&self) -> Option<UniverseId> {
        self.universes.iter().flatten().last().map(|universe| universe.id)
    }

    /// True when the newest universe was revoked: those who made it have given it up.
    pub(in crate::mpi) fn newest_is_revoked(&self) -> bool {
        self.universes.iter().flatten().last().is_some_and(|universe| universe.revoked)
    }

    /// Drops a universe; its communicators stay, other processes may still use them.
    pub(in crate::mpi) fn discard(&mut self, id: UniverseId) {
        let Some(universe) = self.universes.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        universe.close();
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

    /// Sends a message: through the mailbox if there is a way.
    #[inline]
    pub(in crate::mpi) fn send(&mut self, id: UniverseId, to: Rank, message: Outgoing<'_>) {
        let Some(universe) = self.open_to(id, to) else { return };
        let is_sent = universe.mailbox.as_mut().is_some_and(|mailbox| match message {
            Outgoing::Yes(comm, yes) => mailbox.send(to, comm, yes),
            Outgoing::Fused(comm, yes, values) => mailbox.send_fused(to, comm, yes, values),
            Outgoing::Frame(frame) => !is_fast(frame) && mailbox.send_slow(to, frame),
        });
        match message {
            _ if is_sent => {}
            Outgoing::Frame(frame) => self.send_frame(id, to, frame),
            _ => self.send_frame(id, to, &message.frame()),
        }
    }

    fn send_frame(&mut self, id: UniverseId, to: Rank, frame: &[u8]) {
        let Some(universe) = self.open_to(id, to) else { return };
        let (control, tag) = (universe.control, if is_fast(frame) { FAST } else { SLOW });
        if frame.len() > self.spare.capacity() {
            self.spare = Wire::new(frame.len());
        }
        self.spare.write(frame);
        let exposure = self.spare.exposure(frame.len());
        // SAFETY: unless the send is over at once, `outgoing` keeps the memory until it is.
        let sent =
            unsafe { Request::send(&control, &exposure, to, tag, false, &inside::ordinary()) };
        let sent = sent.and_then(|mut request| Ok((request.test()?.is_none(), request)));
        match sent {
            Ok((false, _)) => {}
            Ok((true, request)) => {
                let memory = std::mem::replace(&mut self.spare, Wire::new(FAST_BYTES));
                self.outgoing.push(Leaving { request, memory });
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
    pub(in crate::mpi) const fn values(&self) -> Option<&Values> {
        self.values.get()
    }

    /// The next news; `None` when there is none, or when it is not yet time to look.
    #[inline]
    pub(in crate::mpi) fn poll(&mut self, awaits: Option<(UniverseId, Rank)>) -> Option<Incoming> {
        if !self.news.is_empty() {
            return self.news.pop_front();
        }
        let Some((id, from)) = awaits else {
            self.waiting = true;
            return self.look_around();
        };
        if self.quiet >= self.look_every(id, from) || self.polls >= LOOK_ANYWAY_EVERY {
            self.waiting = self.quiet >= self.look_every(id, from);
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

    /// Awaiting polls that find nothing between two looks at everything else. Where a vote comes by
    /// memory for which others need the core, MPI is left to those who wait for its messages.
    #[inline]
    fn look_every(&self, id: UniverseId, from: Rank) -> u32 {
        let universe = self.universes.get(id.0 as usize).and_then(Option::as_ref);
        let mailbox = universe.and_then(|universe| universe.mailbox.as_ref());
        if mailbox.is_some_and(|it| it.yields_for(from)) { LOOK_EVERY_CROWDED } else { LOOK_EVERY }
    }

    #[inline]
    fn awaited(&mut self, id: UniverseId, from: Rank) -> Option<Incoming> {
        let universe = self.universes.get_mut(id.0 as usize)?.as_mut()?;
        match universe.take(from, &mut self.values) {
            Ok(incoming) => incoming,
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
        let open = self.universes.iter_mut().flatten().filter(|universe| !universe.revoked).rev();
        for universe in open.take(if chores { usize::MAX } else { 1 }) {
            universe.sweep(&mut self.news);
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
    pub(in crate::mpi) fn did_chores(&mut self) -> bool {
        std::mem::take(&mut self.chores)
    }

    /// True when nothing had come for a while before the last look.
    pub(in crate::mpi) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// What MPI knows, now.
    pub(in crate::mpi) fn look_for_deaths(&mut self) {
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
                    deaths::note();
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
    pub(in crate::mpi) fn close(&mut self, at_least: Duration, within: Duration) {
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
