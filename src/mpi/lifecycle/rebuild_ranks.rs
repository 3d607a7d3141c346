//! Survivors and replacements of a user's communicator become one, each with its rank.
//!
//! ```text
//! root of the rebuild ── ask: your rank ──▶ replacement         over the link, merged (`links`)
//!                     ◀───── I have come ──
//! the survivors agree to begin
//! root                ────── go ──────────▶
//! all of the link:   split by rank
//! a part of it:      survivors shrink ─ link, merge with one replacement after the other ─ split
//! ```
//!
//! The calls of MPI begin when all have come, so that they are short. A replacement does not know
//! which communicator it joins: it takes the asking of its k-th rebuild over the link, which is the
//! k-th of each survivor, too.
//!
//! Whoever gets an error revokes what all have, the link included, so that nobody waits for it. So
//! a death in a link ends all rebuilds that are under way over it.

use mpi::ffi;

use super::{
    groups::{self, all_or_nobody},
    links::lost,
    spawn::linkable,
    two_groups::{self, Part},
};
use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::Comm,
            inside,
            library::{Checked, Refusal},
            matched::{Matched, await_word, send_word, take_word},
            ulfm::Ulfm,
        },
        operations::{contexts::DataComm, platform::MpiPlatform, users::UsersLink},
        this_mpi::spawn_lookup,
        transport::wire::Wire,
    },
    native::Request,
    rank::{Rank, RankSet},
    seam::platform::DataId,
};

/// Who takes part in a rebuild of a user's communicator.
#[derive(Clone, Debug)]
pub enum Seat {
    /// A survivor.
    Survivor {
        /// Its communicator, and how many ranks that will have.
        data: DataId,
        size: u32,
        /// Its rank there, old and new, and that of the root.
        rank: u32,
        root: u32,
        /// The ranks to be filled.
        vacant: RankSet,
        /// At the root: which processes of the link take them.
        replacements: Option<Replacements>,
    },
    /// A process of the link that is to get a rank.
    Replacement,
}

/// Processes of a link that take vacant ranks, in the order of these.
#[derive(Clone, Debug)]
pub struct Replacements {
    /// They are named by their ranks in our own group, not in the other one.
    pub are_local: bool,
    /// Their ranks.
    pub ranks: Vec<u32>,
}

/// The tags of the words in a merged link; that of an asking is the first one and its number.
const FIRST_ASK: u32 = 20_000;
const ASKS: u32 = 10_000;
const COME: u32 = 32_700;
const GO: u32 = 32_701;
const READY: u32 = 32_702;

/// A part in a rebuild under way.
#[derive(Debug)]
pub struct Seating {
    link: UsersLink,
    seat: Seat,
    /// The tag of its asking.
    tag: u32,
    /// At the root: the replacements, and those of them that have not come.
    asked: Vec<u32>,
    silent: Vec<u32>,
    /// At a replacement: what it was asked.
    question: Option<Question>,
    /// Askings under way.
    sent: Vec<(Request, Wire)>,
    /// What was made on the way.
    steps: Vec<Comm>,
}

/// What a replacement is told.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// Its rank in the new communicator.
    rank: u32,
    /// The root, in the merged link, and among the survivors.
    root: u32,
    leader: u32,
    /// How many replacements come after it.
    behind: u32,
    /// All processes of the link take part.
    is_whole: bool,
}

impl Question {
    const BYTES: usize = 20;

    fn bytes(self) -> Vec<u8> {
        let words = [self.rank, self.root, self.leader, self.behind, u32::from(self.is_whole)];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn read(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(4);
        let mut words = words.map(|word| word.try_into().map_or(0, u32::from_le_bytes));
        let mut next = || words.next().unwrap_or(0);
        let (rank, root, leader, behind) = (next(), next(), next(), next());
        Self { rank, root, leader, behind, is_whole: next() != 0 }
    }
}

impl MpiPlatform {
    /// Begins the part of this process in a rebuild over a link in use. Does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process of the link is dead, or the link not in use.
    pub fn begin_seat(&mut self, link: ffi::MPI_Comm, seat: Seat) -> Result<Seating, Error> {
        let known = self.users.link(link).ok_or(Error::CreationFailed)?;
        let tag = FIRST_ASK + known.rebuilds % ASKS;
        known.rebuilds += 1;
        let link = *known;
        let (asked, silent, sent) = (Vec::new(), Vec::new(), Vec::new());
        let (question, steps) = (None, Vec::new());
        let mut seating = Seating { link, seat, tag, asked, silent, question, sent, steps };
        let begun = seating.ask();
        begun.map_err(|refusal| seating.failed(refusal, self.ulfm))?;
        Ok(seating)
    }

    /// True when all have come whom this process waits for.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process of the link is dead, or has given it up.
    pub fn are_seated(&mut self, seating: &mut Seating) -> Result<bool, Error> {
        let came = match seating.link.merged.disturbance(self.ulfm) {
            Some(_) => Err(lost("the link of a rebuild")),
            None => seating.look(),
        };
        came.map_err(|refusal| seating.failed(refusal, self.ulfm))
    }

    /// Survivors and replacements become one communicator, each with its rank.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it, on some ranks only: confirm.
    ///
    /// # MPI
    ///
    /// Collective over all who take part, and blocking. On errors the link is revoked.
    pub fn seat(&mut self, seating: &mut Seating) -> Result<ffi::MPI_Comm, Error> {
        self.settle();
        let made = self.seated(seating);
        let made = made.map_err(|refusal| seating.failed(refusal, self.ulfm))?;
        Ok(made.given_away().raw())
    }

    /// The rebuild is over, for all who take part: what was made on the way is not needed.
    pub fn end_seat(&mut self, seating: Seating, worked: bool) {
        for (mut request, wire) in seating.sent {
            if !request.test().is_ok_and(|done| done.is_some()) {
                wire.leak();
            }
        }
        if !worked {
            return self.attempts.give_up(seating.steps);
        }
        for step in seating.steps {
            // SAFETY: whoever takes part has left the calls for which it was.
            unsafe { step.free() };
        }
    }

    fn seated(&mut self, seating: &mut Seating) -> Checked<Comm> {
        let (merged, ulfm) = (seating.link.merged, self.ulfm);
        seating.asked.iter().try_for_each(|new| send_word(&merged, *new, GO))?;
        let (all, rank) = match seating.seat.clone() {
            Seat::Survivor { size, rank, .. } if size == merged.size() => (merged, rank),
            Seat::Survivor { data, rank, root, vacant, .. } => {
                let old = self.data[data.0 as usize].as_ref().map(DataComm::source);
                let old = old.ok_or(lost("a rebuild"))?;
                let dead = vacant.iter().filter(|rank| rank.number() < old.size()).collect();
                let living = self.shrink_exactly(&old, &dead);
                let living = living.map_err(|_| lost("MPIX_Comm_shrink"))?;
                seating.steps.push(living);
                let leader = place_among_survivors(root, &vacant);
                (seating.grow(living, leader, vacant.len() as u32, ulfm)?, rank)
            }
            Seat::Replacement => {
                let question = seating.question.ok_or(lost("a rebuild"))?;
                let all = if question.is_whole { merged } else { seating.join(question, ulfm)? };
                (all, question.rank)
            }
        };
        // MPI's keys are not negative `int`s.
        let made = all.split(Some(0), rank & (u32::MAX >> 1))?;
        made.ok_or(lost("a seat in a rebuild"))
    }
}

/// The rank of a survivor in a shrunken communicator.
fn place_among_survivors(rank: u32, dead: &RankSet) -> u32 {
    rank - dead.iter().filter(|dead| dead.number() < rank).count() as u32
}

impl Seating {
    /// The root asks the replacements to come.
    fn ask(&mut self) -> Checked<()> {
        let Seat::Survivor { size, root, vacant, replacements: Some(new), .. } = &self.seat else {
            return Ok(());
        };
        let UsersLink { merged, own, other, .. } = self.link;
        let first = if new.are_local { own } else { other };
        self.asked = new.ranks.iter().map(|rank| first + rank).collect();
        self.silent.clone_from(&self.asked);
        let leader = place_among_survivors(*root, vacant);
        let (root, is_whole) = (merged.rank().number(), *size == merged.size());
        let behind = (0..vacant.len() as u32).rev();
        for ((new, rank), behind) in self.asked.iter().zip(vacant.iter()).zip(behind) {
            let question = Question { rank: rank.number(), root, leader, behind, is_whole };
            let mut wire = Wire::new(Question::BYTES);
            wire.write(&question.bytes());
            let (exposure, to) = (wire.exposure(Question::BYTES), Rank::new(*new));
            let inside = inside::ordinary();
            // SAFETY: the memory is kept beside the request until that is over.
            let sent = unsafe { Request::send(&merged, &exposure, to, self.tag, false, &inside) };
            self.sent.push((sent?, wire));
        }
        Ok(())
    }

    /// Takes the words that have come; true when this process waits for no other.
    fn look(&mut self) -> Checked<bool> {
        let merged = self.link.merged;
        if let Seat::Survivor { .. } = self.seat {
            let mut silent = Vec::new();
            for new in self.silent.drain(..) {
                if !take_word(&merged, new, COME)? {
                    silent.push(new);
                }
            }
            self.silent = silent;
            return Ok(self.silent.is_empty());
        }
        if self.question.is_none() {
            let Some(found) = Matched::next_envelope(&merged, (None, Some(self.tag)))? else {
                return Ok(false);
            };
            let from = found.source.ok_or(lost("an asking"))?;
            let question = hear(&merged, from, self.tag)?;
            send_word(&merged, question.root, COME)?;
            self.question = Some(question);
        }
        self.question.map_or(Ok(false), |question| take_word(&merged, question.root, GO))
    }

    /// A replacement is linked to the survivors, and to those that have come before it; then the
    /// others are.
    fn join(&mut self, question: Question, ulfm: &Ulfm) -> Checked<Comm> {
        let Question { root, leader, behind, .. } = question;
        let merged = self.link.merged;
        let alone = linkable(&Comm::alone()?)?;
        self.steps.push(alone);
        let names = spawn_lookup::names_of(&merged);
        let link = two_groups::link(&alone, 0, Some((&merged, root)), Part::new(&names))?;
        self.steps.push(link);
        await_word(&merged, root, READY)?;
        let all = two_groups::merge(&link, Part::new(&names))?;
        self.steps.push(all);
        await_word(&merged, root, READY)?;
        self.grow(all, leader, behind, ulfm)
    }

    /// All of a communicator take in one replacement after the other, the last so many.
    fn grow(&mut self, own: Comm, leader: u32, count: u32, ulfm: &Ulfm) -> Checked<Comm> {
        let merged = self.link.merged;
        let names = spawn_lookup::names_of(&merged);
        let (mut all, mut released) = (own, Ok(()));
        let leads = all.rank() == Rank::new(leader);
        for at in 0..count as usize {
            let new = self.asked.get(at).copied();
            // A replacement uses what was made when all others have it: until then its messages
            // could reach a process that lacks it.
            let release = || new.map_or(Ok(()), |new| send_word(&merged, new, READY));
            let own = released.and_then(|()| linkable(&all));
            let own = all_or_nobody(&all, ulfm, &[], own)?;
            self.steps.push(own);
            let bridge = new.filter(|_| leads).map(|new| (&merged, new));
            let link = two_groups::link(&own, leader, bridge, Part::old(&names));
            let link = all_or_nobody(&all, ulfm, &[own, merged], link)?;
            self.steps.push(link);
            let grown = release().and_then(|()| two_groups::merge(&link, Part::old(&names)));
            let grown = all_or_nobody(&all, ulfm, &[link], grown)?;
            self.steps.push(grown);
            (all, released) = (grown, release());
        }
        released.map(|()| all)
    }

    /// It cannot be: whoever waits for this process is told.
    fn failed(&self, refusal: Refusal, ulfm: &Ulfm) -> Error {
        let link = [self.link.merged];
        groups::failed(refusal, &[&link, &self.steps[..]].concat(), ulfm)
    }
}

/// What a replacement is asked, which has come.
fn hear(comm: &Comm, from: Rank, tag: u32) -> Checked<Question> {
    let wire = Wire::new(Question::BYTES);
    let (exposure, inside) = (wire.exposure(Question::BYTES), inside::ordinary());
    // SAFETY: the memory is kept until the request is over.
    let mut request = unsafe { Request::receive(comm, &exposure, Some(from), Some(tag), &inside) }?;
    drop(inside);
    while request.test()?.is_none() {}
    Ok(wire.read(Question::BYTES, Question::read))
}
