//! Survivors and replacements of a user's communicator become one, each with its rank.
//!
//! ```text
//! root          invite ─ all are there ──▶ (the vote of the survivors) ─▶ go ─┐
//! replacements  come ─ invited ──────────────────────────────────── gone for ─┤
//!
//! the first over a link    merge, the survivors first ─ who takes which rank ─ split by rank
//! others, and in a group   the root tells the members ─ a communicator of these alone
//! ```
//!
//! Until the root says *go* nobody is in a call of MPI that waits for others. Each step has a tag
//! of its own communicator: the first over a link has number 0, others have their age. After the
//! first one a replacement knows which others the dead was in, and joins them from the oldest on,
//! whichever comes first.
//!
//! Whoever gets an error revokes what all have, so that nobody waits for it.

use std::task::Poll;

use mpi::ffi;

use super::{groups, spawn};
use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::Comm,
            inside,
            library::{Checked, PROC_FAILED, PROC_FAILED_PENDING, Refusal},
        },
        operations::{platform::MpiPlatform, users::Linked},
        transport::wire::Wire,
    },
    native::Request,
    rank::{Rank, RankSet},
    seam::platform::DataId,
};

/// The first tag of ours on the user's link.
const FIRST_TAG: u32 = 20_000;
/// What a rank says that misses nobody: MPI gathers no empty lists.
const NOTHING: [u32; 2] = [u32::MAX; 2];
const INVITED: u32 = 0;
const GO: u32 = 1;
const MEMBERS: u32 = 2;
/// How many tags a rebuild has.
const TAGS: u32 = 3;

/// Who takes part in a rebuild of a user's communicator.
#[derive(Clone, Debug)]
pub enum Seat {
    /// A survivor, which keeps its rank.
    Survivor(Survivor),
    /// A new process, which is told its rank.
    Replacement,
}

/// What a survivor knows of the communicator that it rebuilds.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// That communicator.
    pub failed: DataId,
    /// Its dead ranks.
    pub dead: RankSet,
    /// The living rank of it that says who takes which place.
    pub root: Rank,
    /// Position among the new processes, and rank. `None` everywhere but at the root.
    pub seats: Option<Vec<(u32, u32)>>,
}

/// What survivors and replacements have in common from the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Bridge {
    /// A communicator that has them all.
    pub comm: ffi::MPI_Comm,
    /// They are in one group, and not in two.
    pub is_one_group: bool,
}

/// A rebuild of which not all are there.
pub struct Gathering {
    /// What is under way, with its memory.
    pending: Vec<(Request, Wire)>,
    number: u32,
    /// The root, at a replacement that was invited.
    root: Option<Rank>,
}

impl MpiPlatform {
    /// Begins a rebuild: the root invites, replacements wait until they are told to go.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when the bridge does not work any more, or when a replacement is
    /// missing from no other communicator.
    ///
    /// # Safety
    ///
    /// The bridge is live until the gathering is over or dropped.
    pub unsafe fn gather(&mut self, bridge: Bridge, seat: &Seat) -> Result<Gathering, Error> {
        // SAFETY: live, says our caller.
        let comm = unsafe { Comm::from_raw(bridge.comm) }?;
        let linked = self.linked(bridge.comm);
        let number = match (seat, linked) {
            (_, None) => Some(0),
            (Seat::Survivor(survivor), Some(_)) => Some(self.users.age(survivor.failed)),
            (Seat::Replacement, Some(linked)) => linked.lacking.first().copied(),
        };
        let number = number.ok_or(Error::CreationFailed)?;
        let mut gathering = Gathering { pending: Vec::new(), number, root: None };
        let tag = tag(number, INVITED);
        let posted = match seat {
            Seat::Survivor(Survivor { seats, .. }) => seats.iter().flatten().try_for_each(|seat| {
                // Received when that process comes.
                gathering.post(&comm, 4, |comm, wire| {
                    // SAFETY: the memory is kept until this is over, or leaked.
                    unsafe { send(comm, wire, Rank::new(seat.0), tag, true) }
                })
            }),
            Seat::Replacement => {
                comm.acknowledge_failures(self.ulfm);
                // SAFETY: as above.
                gathering.post(&comm, 4, |comm, wire| unsafe { receive(comm, wire, None, tag) })
            }
        };
        posted.map_err(|refusal| groups::failed(refusal, &[comm], self.ulfm))?;
        Ok(gathering)
    }

    /// Whether all are there, at the root; whether it has said *go*, at a replacement. Survivors do
    /// not wait.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when somebody died.
    ///
    /// # Safety
    ///
    /// As [`Self::gather`].
    pub unsafe fn is_gathered(
        &mut self,
        bridge: Bridge,
        seat: &Seat,
        gathering: &mut Gathering,
    ) -> Result<bool, Error> {
        // SAFETY: live, says our caller.
        let comm = unsafe { Comm::from_raw(bridge.comm) }?;
        // Nobody else than those on the other side invites first.
        let can_lose = bridge.is_one_group || gathering.number > 0;
        let over = gathering.settle(|| {
            comm.acknowledge_failures(self.ulfm);
            can_lose
        });
        let over = over.and_then(|over| match (over, seat, gathering.root) {
            (Poll::Ready(root @ Some(_)), Seat::Replacement, None) => {
                gathering.root = root;
                let tag = tag(gathering.number, GO);
                // SAFETY: the memory is kept until this is over, or leaked.
                gathering.post(&comm, 4, |comm, wire| unsafe { receive(comm, wire, root, tag) })?;
                Ok(false)
            }
            (over, ..) => Ok(over.is_ready()),
        });
        over.map_err(|refusal| groups::failed(refusal, &[comm], self.ulfm))
    }

    /// Survivors and new processes become one communicator, each with its rank; also its age.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it, on some ranks only: confirm.
    ///
    /// # MPI
    ///
    /// Collective over the members of the new communicator, in a first rebuild over a link over all
    /// that it links; blocking. On errors the bridge is revoked.
    ///
    /// # Safety
    ///
    /// The bridge is a live communicator.
    pub unsafe fn seat(
        &mut self,
        bridge: Bridge,
        seat: &Seat,
        gathering: &Gathering,
    ) -> Result<(ffi::MPI_Comm, u32), Error> {
        // SAFETY: live, says our caller.
        let comm = unsafe { Comm::from_raw(bridge.comm) }?;
        let mut common = vec![comm];
        let made = Self::go(&comm, seat, gathering).and_then(|()| {
            if bridge.is_one_group {
                let (linked, root) = ((comm, 0), gathering.root);
                return self.seated_among(linked, seat, (0, root));
            }
            let linked = self.linked(bridge.comm).map(|it| (it.merged, it.survivors));
            let Some(linked) = linked else {
                return self.seated_first(&comm, seat, &mut common);
            };
            common.push(linked.0);
            self.seated_among(linked, seat, (gathering.number, gathering.root))
        });
        let (made, age) = made.map_err(|refusal| groups::failed(refusal, &common, self.ulfm))?;
        if let (Seat::Replacement, Some(linked)) = (seat, self.linked(bridge.comm)) {
            linked.lacking.retain(|lacking| *lacking != age);
        }
        Ok((made.given_away().raw(), age))
    }

    /// What takes the place of another communicator is as old as that.
    pub fn set_age(&mut self, data: DataId, age: u32) {
        self.users.set_age(data, age);
    }

    /// Whoever waits for us at this bridge waits in vain.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn cut(&mut self, bridge: Bridge) {
        if let Some(linked) = self.linked(bridge.comm) {
            let merged = linked.merged;
            merged.revoke(self.ulfm);
        }
        // SAFETY: live, says our caller.
        if let Ok(comm) = unsafe { Comm::from_raw(bridge.comm) } {
            comm.revoke(self.ulfm);
        }
    }

    /// The user has freed a link.
    pub fn forget_link(&mut self, raw: ffi::MPI_Comm) {
        let links = &mut self.users.links;
        for linked in links.extract_if(.., |linked| linked.raw == raw) {
            // SAFETY: nobody else has this handle.
            unsafe { linked.merged.free() };
        }
    }

    /// True when something was rebuilt over this link.
    pub fn knows_link(&self, raw: ffi::MPI_Comm) -> bool {
        self.users.links.iter().any(|linked| linked.raw == raw)
    }

    fn linked(&mut self, raw: ffi::MPI_Comm) -> Option<&mut Linked> {
        self.users.links.iter_mut().find(|linked| linked.raw == raw)
    }

    /// The root lets those go who wait in no call so far.
    fn go(comm: &Comm, seat: &Seat, gathering: &Gathering) -> Checked<()> {
        let Seat::Survivor(Survivor { seats: Some(seats), .. }) = seat else { return Ok(()) };
        let new = seats.iter().map(|seat| Rank::new(seat.0));
        tell(comm, new, tag(gathering.number, GO), &[0; 4])
    }

    /// What the dead ranks of this communicator were in besides: ages, and ranks.
    fn others(&self, survivor: &Survivor) -> Checked<Vec<[u32; 2]>> {
        let Survivor { failed, dead, .. } = survivor;
        let Some((_, comm)) = self.users.get(*failed) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (data, _, other) in self.users.comms.iter().filter(|it| it.0 != *failed) {
            let places = comm.positions_of(other)?.into_iter().flatten();
            let missing = places.filter(|rank| dead.contains(*rank));
            found.extend(missing.map(|rank| [self.users.age(*data), rank.number()]));
        }
        Ok(found)
    }

    /// The first rebuild over a link, by all whom it links.
    fn seated_first(
        &mut self,
        link: &Comm,
        seat: &Seat,
        common: &mut Vec<Comm>,
    ) -> Checked<(Comm, u32)> {
        let is_new = matches!(seat, Seat::Replacement);
        let merged = link.merge(is_new)?;
        common.push(merged);
        // The survivors come first. The root tells how many they are, and who goes where.
        let survivors = if is_new { merged.size() - link.size() } else { link.size() };
        let new = merged.size() - survivors;
        let (mut words, mut own, mut others) =
            (vec![u32::MAX; 1 + new as usize], None, vec![NOTHING]);
        let mut is_root = false;
        if let Seat::Survivor(survivor) = seat {
            own = self.users.get(survivor.failed).map(|(_, failed)| failed.rank().number());
            others.extend(self.others(survivor)?);
            words[0] = self.users.age(survivor.failed);
            for (position, rank) in survivor.seats.iter().flatten() {
                if let Some(place) = words.get_mut(1 + *position as usize) {
                    *place = *rank;
                }
            }
            is_root = survivor.seats.is_some();
        }
        let root = merged.least(if is_root { merged.rank().number().into() } else { u64::MAX })?;
        let root = u32::try_from(root).ok().filter(|root| *root < survivors);
        let root = root.ok_or(Refusal { call: "the root of a rebuild", class: PROC_FAILED })?;
        let mut bytes = bytes_of(&words);
        merged.spread(&mut bytes, root)?;
        let words = words_of(&bytes);
        let others = words_of(&merged.gather_bytes(&bytes_of(others.as_flattened()))?);
        if is_new {
            let at = 1 + merged.rank().number() - survivors;
            own = words.get(at as usize).copied().filter(|rank| *rank != u32::MAX);
        }
        let mine = others.as_chunks::<2>().0.iter().filter(|[_, rank]| Some(*rank) == own);
        let mut lacking: Vec<u32> = mine.filter(|_| is_new).map(|[age, _]| *age).collect();
        lacking.sort_unstable();
        lacking.dedup();
        // MPI's keys are not negative `int`s.
        let made = merged.split(own.map(|_| 0), own.unwrap_or(0) & (u32::MAX >> 1))?;
        let made = made.ok_or(Refusal { call: "a seat in the rebuild", class: PROC_FAILED })?;
        self.users.links.push(Linked { raw: link.raw(), merged, survivors, lacking });
        Ok((made, words[0]))
    }

    /// A rebuild by the members of one communicator, whose new processes come behind so many.
    fn seated_among(
        &mut self,
        (merged, first): (Comm, u32),
        seat: &Seat,
        (number, root): (u32, Option<Rank>),
    ) -> Checked<(Comm, u32)> {
        let missing = Refusal { call: "a member of the rebuild", class: PROC_FAILED };
        let tag = tag(number, MEMBERS);
        // The age, and who has which rank.
        let words = match seat {
            Seat::Replacement => hear(&merged, root.ok_or(missing)?, tag)?,
            Seat::Survivor(Survivor { failed, root, seats, .. }) => {
                let (_, comm) = self.users.get(*failed).ok_or(missing)?;
                let mut places = merged.positions_of(&comm)?;
                let Some(seats) = seats else {
                    let root = places.get(root.index()).copied().flatten();
                    return of_words(&merged, &hear(&merged, root.ok_or(missing)?, tag)?, tag);
                };
                for (position, rank) in seats {
                    let place = places.get_mut(*rank as usize).ok_or(missing)?;
                    *place = Some(Rank::new(first + position));
                }
                let places: Option<Vec<Rank>> = places.into_iter().collect();
                let places = places.ok_or(missing)?;
                let numbers = places.iter().map(|rank| rank.number());
                let words: Vec<u32> =
                    [self.users.age(*failed)].into_iter().chain(numbers).collect();
                let others = places.into_iter().filter(|place| *place != merged.rank());
                tell(&merged, others, tag, &bytes_of(&words))?;
                words
            }
        };
        of_words(&merged, &words, tag)
    }
}

impl Gathering {
    /// Starts a message, whose memory is kept until it is over.
    fn post(
        &mut self,
        comm: &Comm,
        bytes: usize,
        start: impl FnOnce(&Comm, &Wire) -> Checked<Request>,
    ) -> Checked<()> {
        let wire = Wire::new(bytes);
        let request = start(comm, &wire)?;
        self.pending.push((request, wire));
        Ok(())
    }

    /// Pending while something is under way; otherwise who has sent the last message, if one has
    /// come. A receive that a death has disturbed goes on if that is allowed.
    fn settle(&mut self, mut goes_on: impl FnMut() -> bool) -> Checked<Poll<Option<Rank>>> {
        let mut from = None;
        while let Some((request, _)) = self.pending.last_mut() {
            match request.test() {
                Ok(None) => return Ok(Poll::Pending),
                Ok(Some(done)) => from = done.source(),
                Err(refusal) if refusal.class == PROC_FAILED_PENDING && goes_on() => {
                    return Ok(Poll::Pending);
                }
                Err(refusal) => return Err(refusal),
            }
            self.pending.pop();
        }
        Ok(Poll::Ready(from))
    }
}

impl Drop for Gathering {
    /// MPI may still use what is under way.
    fn drop(&mut self) {
        self.pending.drain(..).for_each(|(_, wire)| wire.leak());
    }
}

fn tag(number: u32, word: u32) -> u32 {
    FIRST_TAG + TAGS * number + word
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The communicator that the root has described, and its age.
fn of_words(merged: &Comm, words: &[u32], tag: u32) -> Checked<(Comm, u32)> {
    let nothing = Refusal { call: "the members of a rebuild", class: PROC_FAILED };
    let (age, members) = words.split_first().ok_or(nothing)?;
    Ok((merged.of_ranks(members, tag)?, *age))
}

/// # Safety
///
/// The memory is kept until the request is over.
unsafe fn send(
    comm: &Comm,
    wire: &Wire,
    to: Rank,
    tag: u32,
    synchronous: bool,
) -> Checked<Request> {
    let exposure = wire.exposure(wire.capacity());
    // SAFETY: our caller's promise.
    unsafe { Request::send(comm, &exposure, to, tag, synchronous, &inside::ordinary()) }
}

/// # Safety
///
/// As [`send`].
unsafe fn receive(comm: &Comm, wire: &Wire, from: Option<Rank>, tag: u32) -> Checked<Request> {
    let exposure = wire.exposure(wire.capacity());
    // SAFETY: our caller's promise.
    unsafe { Request::receive(comm, &exposure, from, Some(tag), &inside::ordinary()) }
}

/// Sends bytes to each of these.
fn tell(comm: &Comm, to: impl Iterator<Item = Rank>, tag: u32, bytes: &[u8]) -> Checked<()> {
    for to in to {
        let mut wire = Wire::new(bytes.len());
        wire.write(bytes);
        // SAFETY: the memory is kept until the wait is over; an error ends a request, too.
        unsafe { send(comm, &wire, to, tag, false) }.and_then(spawn::wait)?;
    }
    Ok(())
}

/// The words of the root, padded with none.
fn hear(merged: &Comm, root: Rank, tag: u32) -> Checked<Vec<u32>> {
    let mut wire = Wire::new(4 * (1 + merged.size() as usize));
    let blank = vec![u8::MAX; wire.capacity()];
    wire.write(&blank);
    // SAFETY: as in `tell`.
    unsafe { receive(merged, &wire, Some(root), tag) }.and_then(spawn::wait)?;
    let words = wire.read(wire.capacity(), words_of);
    Ok(words.into_iter().take_while(|word| *word != u32::MAX).collect())
}
