//! The requests of the user, by their handles.
//!
//! They come in lists, and mostly are asked for in the same order: the next one is beside the one
//! before it, as places are filled one after the other. The first that is not where it is looked
//! for brings all into a map. A block that has its requests by their places asks for none.
//!
//! Places are small, and are filled and looked at where they are: a block has thousands of them.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use mpi::ffi;

use super::users::Users;
use crate::{
    mpi::{
        calls::{inside, layout::InNumbers as _},
        this_mpi::{Free, Keeping},
    },
    seam::platform::{DataId, PostId},
};

/// The numbers of operations of the user have this bit.
const USERS: u32 = 1 << 31;
/// So many more numbers than places are nothing to care about.
const FEW: usize = 64;
/// The number of no place.
const NONE: u32 = u32::MAX;

/// Addresses are spread by a multiplication, as no attack is feared.
#[derive(Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        let product = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// Where a request is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Found {
    /// By a look at its place alone.
    InPlace,
    InMap,
    /// Nowhere: it is free, or the user has let go of it.
    Nowhere,
}

#[repr(align(64))]
struct Place {
    users: Users,
    found: Found,
    /// The last list that it was in.
    list: u32,
}

/// All requests of the user that are kept.
pub(super) struct UsersTable {
    places: Vec<Place>,
    free: Vec<u32>,
    /// The first that has come since one was asked for.
    first: u32,
    /// One was asked for since then.
    was_asked: bool,
    /// The one that was asked for last.
    last: u32,
    /// Those that may be found in their places, perhaps more than once.
    fresh: Vec<u32>,
    by_key: HashMap<usize, u32, BuildHasherDefault<Spread>>,
    /// What the user has freed, and MPI has not let go of.
    strays: Vec<u32>,
    /// The number of the list that is looked at.
    list: u32,
}

impl Default for UsersTable {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            first: NONE,
            was_asked: true,
            last: NONE,
            fresh: Vec::new(),
            by_key: HashMap::default(),
            strays: Vec::new(),
            list: 0,
        }
    }
}

/// The place of an operation; nothing for one of ours.
#[inline]
pub(super) fn place_of(post: PostId) -> Option<usize> {
    (post.0 & USERS != 0).then_some((post.0 & !USERS) as usize)
}

fn key(raw: ffi::MPI_Request) -> usize {
    raw.0.number()
}

impl UsersTable {
    /// An operation of the user.
    #[inline]
    pub(super) fn get(&mut self, post: PostId) -> Option<&mut Users> {
        let place = self.places.get_mut(place_of(post)?)?;
        Some(&mut place.users)
    }

    /// The present operation of a request, if it is kept.
    #[inline]
    pub(super) fn find(&mut self, raw: ffi::MPI_Request) -> Option<PostId> {
        let is_at = |at: &u32| {
            let place = self.places.get(*at as usize);
            place.is_some_and(|it| it.users.is(raw) && it.found != Found::Nowhere)
        };
        let beside = [self.last.wrapping_add(1), self.last.wrapping_sub(1), self.first, self.last];
        let at = match beside.into_iter().find(is_at) {
            Some(at) => at,
            None => self.find_in_map(raw)?,
        };
        (self.last, self.was_asked) = (at, true);
        Some(PostId(at | USERS))
    }

    #[inline(never)]
    fn find_in_map(&mut self, raw: ffi::MPI_Request) -> Option<u32> {
        self.bring_into_map();
        self.by_key.get(&key(raw)).copied()
    }

    fn bring_into_map(&mut self) {
        for at in self.fresh.drain(..) {
            let place = &mut self.places[at as usize];
            if place.found == Found::InPlace {
                place.found = Found::InMap;
                self.by_key.insert(key(place.users.raw()), at);
            }
        }
    }

    /// A list comes, whose requests are looked for.
    pub(super) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Takes note that a request is in the list that is looked at; false when it was there before.
    #[inline]
    pub(super) fn note_listed(&mut self, post: PostId) -> bool {
        let list = self.list;
        let place = place_of(post).and_then(|at| self.places.get_mut(at));
        place.is_some_and(|place| std::mem::replace(&mut place.list, list) != list)
    }

    /// Keeps a request.
    ///
    /// # Safety
    ///
    /// As for [`Users::keep`].
    #[inline]
    pub(super) unsafe fn keep(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
    ) -> PostId {
        let at = self.free_place();
        let place = &mut self.places[at as usize];
        // SAFETY: our caller's promise.
        unsafe { place.users.keep(keeping, raw, instead) };
        self.show(at);
        PostId(at | USERS)
    }

    /// The same for one of the list that is looked at, of a block on this communicator.
    ///
    /// # Safety
    ///
    /// As for [`Users::keep`].
    #[inline]
    pub(super) unsafe fn keep_listed(
        &mut self,
        keeping: &'static Keeping,
        raw: ffi::MPI_Request,
        instead: Free,
        data: DataId,
    ) -> PostId {
        let at = self.free_place();
        let place = &mut self.places[at as usize];
        place.list = self.list;
        // SAFETY: our caller's promise.
        unsafe { place.users.keep_shared(keeping, raw, instead, data) };
        self.show(at);
        PostId(at | USERS)
    }

    #[inline]
    fn free_place(&mut self) -> u32 {
        match self.free.pop() {
            Some(at) => at,
            None => self.grow(),
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.places.push(Place { users: Users::none(), found: Found::Nowhere, list: 0 });
        self.places.len() as u32 - 1
    }

    /// A request can be found.
    #[inline]
    fn show(&mut self, at: u32) {
        self.places[at as usize].found = Found::InPlace;
        self.fresh.push(at);
        if std::mem::take(&mut self.was_asked) {
            self.first = at;
        }
    }

    /// A request is found no more.
    #[inline]
    fn lose(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if std::mem::replace(&mut place.found, Found::Nowhere) == Found::InMap {
            self.by_key.remove(&key(place.users.raw()));
        }
    }

    /// One more block has an operation, a block on this communicator.
    #[inline]
    pub(super) fn share(&mut self, post: PostId, data: DataId) {
        if let Some(users) = self.get(post) {
            users.share(data);
        }
    }

    /// A block that had an operation is no more.
    #[inline]
    pub(super) fn forget(&mut self, post: PostId) {
        let Some(at) = place_of(post) else { return };
        let place = &mut self.places[at];
        if !place.users.forget() {
            return;
        }
        if place.found == Found::Nowhere {
            // Another one has its request.
            return self.vacate(at as u32);
        }
        if place.users.is_freed() {
            self.end(at as u32);
        } else {
            place.users.rest();
        }
    }

    /// The user has freed a request that no block has.
    pub(super) fn free(&mut self, post: PostId) {
        if let Some(at) = place_of(post)
            && self.places[at].users.is_unused()
        {
            let _inside = inside::ordinary();
            self.end(at as u32);
        }
    }

    /// The user has freed the request, and no block has it: MPI has it back as soon as it is over.
    #[inline]
    fn end(&mut self, at: u32) {
        self.lose(at);
        let users = &mut self.places[at as usize].users;
        if users.has_ended() {
            users.end();
            self.vacate(at);
        } else {
            self.strays.push(at);
        }
    }

    /// What is at this place is not asked for.
    #[inline]
    fn vacate(&mut self, at: u32) {
        self.places[at as usize].users.leave();
        self.free.push(at);
        if self.free.len() == self.places.len() {
            self.fresh.clear();
        } else if self.fresh.len() > 2 * self.places.len() + FEW {
            self.bring_into_map();
        }
    }

    /// The present operation of a request: another one if it was started again.
    #[inline]
    pub(super) fn renew(&mut self, post: PostId) -> PostId {
        match place_of(post) {
            Some(at) if self.places[at].users.is_active_again() => self.start_again(at as u32),
            _ => post,
        }
    }

    #[cold]
    fn start_again(&mut self, at: u32) -> PostId {
        let again = self.places[at as usize].users.again();
        self.lose(at);
        if self.places[at as usize].users.is_unused() {
            self.vacate(at);
        }
        let new = self.free_place();
        self.places[new as usize].users = again;
        self.show(new);
        PostId(new | USERS)
    }

    /// Frees the places of what was given up and is over.
    pub(super) fn sweep(&mut self) {
        if self.strays.is_empty() {
            return;
        }
        let _inside = inside::ordinary();
        let Self { places, free, strays, .. } = self;
        strays.retain(|at| {
            let users = &mut places[*at as usize].users;
            let is_over = users.ends();
            if is_over {
                users.end();
                users.leave();
                free.push(*at);
            }
            !is_over
        });
    }

    /// How many there are that are not free.
    pub(super) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// How many of them the user has freed.
    pub(super) fn strays(&self) -> usize {
        self.strays.len()
    }

    /// Those that a block on this communicator has.
    pub(super) fn of_blocks_on(&mut self, data: DataId) -> impl Iterator<Item = &mut Users> {
        let all = self.places.iter_mut().map(|place| &mut place.users);
        all.filter(move |users| users.data() == Some(data))
    }

    /// MPI ends, and has all requests back.
    pub(super) fn give_back(&mut self) {
        let kept = self.places.iter().filter(|place| place.found != Found::Nowhere);
        let strays = self.strays.drain(..).map(|at| &self.places[at as usize]);
        kept.chain(strays).for_each(|place| place.users.give_back());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(mpich))]
    fn raw(key: usize) -> ffi::MPI_Request {
        ffi::MPI_Request(std::ptr::without_provenance_mut(8 * key + 8))
    }

    #[cfg(mpich)]
    fn raw(key: usize) -> ffi::MPI_Request {
        ffi::MPI_Request(8 * key as i32 + 8)
    }

    fn add(table: &mut UsersTable, key: usize) -> PostId {
        let at = table.free_place();
        table.places[at as usize].users = Users::of(raw(key));
        table.show(at);
        PostId(at | USERS)
    }

    fn remove(table: &mut UsersTable, key: usize) {
        let at = table.find(raw(key)).and_then(place_of).expect("it is there") as u32;
        table.lose(at);
        table.vacate(at);
    }

    #[test]
    fn requests_that_are_asked_for_in_their_order_need_no_map() {
        let mut table = UsersTable::default();
        for _ in 0..3 {
            let posts: Vec<PostId> = (0..100).map(|key| add(&mut table, key)).collect();
            for (key, post) in posts.iter().enumerate() {
                assert_eq!(table.find(raw(key)), Some(*post));
            }
            (0..100).for_each(|key| remove(&mut table, key));
            assert!(table.by_key.capacity() == 0 && table.fresh.is_empty());
            assert_eq!((table.count(), table.places.len()), (0, 100));
        }
    }

    #[test]
    fn requests_are_found_until_they_are_gone_in_whatever_order() {
        for step in [1, 3, 7, 39] {
            let mut table = UsersTable::default();
            let mut posts: Vec<PostId> = (0..20).map(|key| add(&mut table, key)).collect();
            let order: Vec<usize> = (0..40).map(|at| at * step % 40).collect();
            let gone: Vec<usize> = order[..10].iter().copied().filter(|key| *key < 20).collect();
            for key in &gone {
                remove(&mut table, *key);
            }
            posts.extend((20..40).map(|key| add(&mut table, key)));
            for key in order.iter().rev().copied() {
                let here = !gone.contains(&key);
                assert_eq!(table.find(raw(key)), here.then_some(posts[key]), "{step}");
            }
            order.iter().filter(|key| !gone.contains(key)).for_each(|key| remove(&mut table, *key));
            assert!((0..40).all(|key| table.find(raw(key)).is_none()), "{step}");
            assert!(table.by_key.is_empty() && table.count() == 0);
        }
    }

    #[test]
    fn what_stays_makes_nothing_grow() {
        let mut table = UsersTable::default();
        let stays = add(&mut table, 0);
        for key in 1..10_000 {
            let post = add(&mut table, key);
            let at = place_of(post).expect("of the user") as u32;
            table.lose(at);
            table.vacate(at);
        }
        assert!(table.fresh.capacity() < 1000 && table.by_key.len() <= 1);
        assert_eq!(table.find(raw(0)), Some(stays));
    }
}
