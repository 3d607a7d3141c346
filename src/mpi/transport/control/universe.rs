//! The processes of a universe, and the ways on which fast frames of each come here.

use std::collections::VecDeque;

use super::super::{
    mailbox::{Found, Letter, Mailbox},
    wire::Wire,
};
use crate::{
    mpi::calls::{comm::Comm, library::Checked},
    native::Request,
    protocol::{
        codec::{self, FAST_BYTES, Frame, YES_BYTES, decode_yes},
        fused::{Held, Values},
    },
    rank::Rank,
    seam::platform::{Incoming, UniverseId},
};

/// The tag of fast frames.
pub(super) const FAST: u32 = 1;
/// Tests that a cancelled receive gets before its memory is given up.
const CANCEL_TESTS: usize = 1000;

/// The processes of a universe and the way to them.
#[derive(Debug)]
pub(super) struct Universe {
    pub(super) id: UniverseId,
    /// Carries frames; revoked only when its creation failed.
    pub(super) control: Comm,
    /// Other communicators are made from it.
    pub(super) source: Comm,
    pub(super) mailbox: Option<Mailbox>,
    /// The nodes of the processes, in numbers.
    pub(super) nodes: Vec<u32>,
    links: Vec<Option<Link>>,
    pub(super) dead: Vec<bool>,
    /// Number of deaths that MPI has told.
    pub(super) failures: usize,
    pub(super) revoked: bool,
}

/// The posted receive of fast frames of one process.
#[derive(Debug)]
struct Link {
    request: Request,
    memory: Wire,
    /// MPI has the memory.
    posted: bool,
}

impl Letter {
    /// As what the engine is told; the values are elsewhere.
    #[inline]
    fn news(self, id: UniverseId, from: Rank) -> Incoming {
        let Self { comm, yes, has_values } = self;
        if has_values {
            Incoming::Fused(id, from, comm, yes)
        } else {
            Incoming::Yes(id, from, comm, yes)
        }
    }

    /// Its bytes.
    fn frame(self, values: Option<&Values>) -> Frame {
        match values.filter(|_| self.has_values) {
            None => Frame::from_slice(&codec::encode_yes(self.comm, &self.yes)),
            Some(values) => codec::encode_fused(self.comm, &self.yes, values),
        }
    }
}

/// Takes all frames that a neighbour has written; those of the dead have no end that is missing.
fn drain(mailbox: &mut Mailbox, id: UniverseId, from: Rank, news: &mut VecDeque<Incoming>) {
    let mut values = Held::NOTHING;
    while mailbox.has(from) {
        let frame = match mailbox.take(from, &mut values) {
            Found::Letter(letter) => letter.frame(values.get()),
            Found::Frame(frame) => frame,
            Found::Nothing | Found::Elsewhere => continue,
        };
        news.push_back(Incoming::Frame(id, from, frame));
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
    fn take(&mut self, values: &mut Held) -> Checked<Option<Letter>> {
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
                values.set(&fused.values);
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
    pub(super) fn new(
        id: UniverseId,
        (control, source): (Comm, Comm),
        mailbox: Option<Mailbox>,
        nodes: Vec<u32>,
    ) -> Self {
        let size = control.size() as usize;
        let links = std::iter::repeat_with(|| None).take(size).collect();
        let dead = vec![false; size];
        let (failures, revoked) = (0, false);
        Self { id, control, source, mailbox, nodes, links, dead, failures, revoked }
    }

    /// The next fast frame of a process, wherever it comes; a receive is posted if it must be.
    #[inline]
    pub(super) fn take(&mut self, from: Rank, values: &mut Held) -> Checked<Option<Incoming>> {
        if self.revoked || self.dead.get(from.index()).is_none_or(|dead| *dead) {
            return Ok(None);
        }
        if let Some(mailbox) = &mut self.mailbox {
            match mailbox.take(from, values) {
                Found::Letter(letter) => return Ok(Some(letter.news(self.id, from))),
                Found::Frame(frame) => return Ok(Some(Incoming::Frame(self.id, from, frame))),
                Found::Nothing => return Ok(None),
                Found::Elsewhere => {}
            }
        }
        let place = &mut self.links[from.index()];
        let link = match place {
            Some(link) => link,
            None => place.insert(Link::new(&self.control, from)?),
        };
        Ok(link.take(values)?.map(|letter| letter.news(self.id, from)))
    }

    /// All that neighbours have written, if there may be slow frames among it.
    pub(super) fn sweep(&mut self, news: &mut VecDeque<Incoming>) {
        let Some(mailbox) = &mut self.mailbox else { return };
        if !mailbox.hears_the_bell() {
            return;
        }
        let living = self.dead.iter().enumerate().filter(|(_, dead)| !**dead);
        for from in living.map(|(at, _)| Rank::new(at as u32)) {
            drain(mailbox, self.id, from, news);
        }
    }

    /// Frames that a process sent before its death are news like any other; then nothing
    /// comes from it any more.
    pub(super) fn bury(&mut self, from: Rank, news: &mut VecDeque<Incoming>) {
        if let Some(mailbox) = &mut self.mailbox {
            drain(mailbox, self.id, from, news);
            mailbox.close(from);
        }
        if let Some(mut link) = self.links[from.index()].take() {
            let mut values = Held::NOTHING;
            while link.posted
                && let Ok(Some(letter)) = link.take(&mut values)
            {
                news.push_back(Incoming::Frame(self.id, from, letter.frame(values.get())));
            }
            link.close();
        }
    }

    /// Nothing is received any more.
    pub(super) fn close(mut self) {
        self.links.drain(..).flatten().for_each(Link::close);
    }

    pub(super) fn close_link(&mut self, from: Rank) {
        if let Some(link) = self.links[from.index()].take() {
            link.close();
        }
    }
}
