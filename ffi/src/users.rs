//! The program's own requests that it has given to us, by their handles, which stay what they are.
//!
//! MPI keeps such a request as long as it is here: until the program has freed it, or has waited
//! for it by a call that frees, and has freed each block that had it in its list. Until then every
//! copy of the handle is as good as any other.

use std::{collections::HashMap, ffi::c_int, hash::BuildHasherDefault, mem};

use fampi_core::{
    FaultCode, Rank,
    engine::platform::PostId,
    guest::{Guest, GuestComm},
    mpi::{Kept, MpiPlatform},
};
use mpi::ffi::{self, MPI_Request, MPI_Status};

use crate::{
    callbacks::note_freed_by_program,
    codes::FAMPI_ERR_REQUEST,
    handles::Spread,
    message::Message,
    request::{key, null},
    state::Result,
};

/// A request of the program.
struct User {
    /// Its handle; [`GONE`] when it is not here any more.
    key: usize,
    post: PostId,
    /// Its block and peer, if it is a message of ours.
    message: Option<Message>,
    /// The last list that it was in.
    list: u32,
}

/// The address of no request.
const GONE: usize = 1;
/// So many places of requests that are gone are nothing to care about.
const FEW: usize = 64;

/// All requests of the program that are ours to look at.
///
/// They come in lists, and mostly are asked for, and go, in the same order: the next one is where
/// it is expected. The first that is not where it is looked for brings all into the table.
#[derive(Default)]
pub(crate) struct Users {
    /// Those that are not in the table, in the order in which they came.
    recent: Vec<User>,
    /// The first of these that is not gone.
    first: usize,
    /// Behind the one that was asked for last.
    next: usize,
    by_key: HashMap<usize, User, BuildHasherDefault<Spread>>,
    /// How many of `recent` are gone.
    gone: usize,
    /// The number of the list that is looked at.
    list: u32,
}

/// What MPI calls in place of its own function when it frees a request that we keep.
unsafe extern "C" fn freed(slot: *mut MPI_Request) -> c_int {
    // SAFETY: MPI passes the variable of its caller.
    let raw = unsafe { slot.replace(null()) };
    note_freed_by_program(raw);
    ffi::MPI_SUCCESS.cast_signed()
}

impl Users {
    /// The operation behind a handle, if it is here.
    pub(crate) fn get(&mut self, raw: MPI_Request) -> Option<PostId> {
        self.find(key(raw)).map(|user| user.post)
    }

    /// What is here under a handle.
    #[inline]
    fn find(&mut self, key: usize) -> Option<&mut User> {
        match self.expected(key) {
            Some(at) => self.recent.get_mut(at),
            None => self.find_in_table(key),
        }
    }

    /// Where a request is, if it is the next one, or the first of all.
    #[inline]
    fn expected(&mut self, key: usize) -> Option<usize> {
        let is_at = |at: &usize| self.recent.get(*at).is_some_and(|user| user.key == key);
        let at = [self.next, self.first].into_iter().find(is_at)?;
        self.next = at + 1;
        Some(at)
    }

    #[inline(never)]
    fn find_in_table(&mut self, key: usize) -> Option<&mut User> {
        self.bring_into_table();
        self.by_key.get_mut(&key)
    }

    fn bring_into_table(&mut self) {
        let here = self.recent.drain(..).filter(|user| user.key != GONE);
        self.by_key.extend(here.map(|user| (user.key, user)));
        (self.first, self.next, self.gone) = (0, 0, 0);
    }

    /// A request is here no more.
    #[inline]
    fn remove(&mut self, key: usize) {
        let Some(at) = self.expected(key) else { return self.remove_from_table(key) };
        self.recent[at].key = GONE;
        self.gone += 1;
        if self.gone == self.recent.len() {
            self.recent.clear();
            (self.first, self.next, self.gone) = (0, 0, 0);
        } else if at == self.first {
            self.first += 1;
        }
    }

    #[inline(never)]
    fn remove_from_table(&mut self, key: usize) {
        self.bring_into_table();
        self.by_key.remove(&key);
    }

    /// The operation behind a handle of the program, which is kept from now on. A persistent
    /// request stands for a new one each time that it was started.
    pub(crate) fn adopt(&mut self, mpi: &mut MpiPlatform, raw: MPI_Request) -> Result<PostId> {
        let is_kept = Self::kind_of(mpi, raw) == Kept::Already;
        let Some(user) = is_kept.then(|| self.find(key(raw))).flatten() else {
            return self.keep(mpi, raw);
        };
        user.post = mpi.renew_request(user.post);
        Ok(user.post)
    }

    /// A list comes.
    pub(crate) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// What is known of a request without a look at the table.
    #[inline]
    pub(crate) fn kind_of(mpi: &MpiPlatform, raw: MPI_Request) -> Kept {
        // SAFETY: the program gave it as a live request.
        unsafe { mpi.kind_of(raw, freed) }
    }

    /// The same as `adopt` for a request of the list that is looked at. One that is in it twice is
    /// refused.
    #[inline]
    pub(crate) fn adopt_listed(
        &mut self,
        mpi: &mut MpiPlatform,
        raw: MPI_Request,
        kind: Kept,
    ) -> Result<(PostId, Option<Message>)> {
        let list = self.list;
        let is_kept = kind == Kept::Already;
        let Some(user) = is_kept.then(|| self.find(key(raw))).flatten() else {
            return Ok((self.keep(mpi, raw)?, None));
        };
        if mem::replace(&mut user.list, list) == list {
            return Err(FAMPI_ERR_REQUEST);
        }
        user.post = mpi.renew_request(user.post);
        Ok((user.post, user.message))
    }

    /// Keeps a request that is not here.
    #[inline]
    fn keep(&mut self, mpi: &mut MpiPlatform, raw: MPI_Request) -> Result<PostId> {
        // SAFETY: the program gave it as a live request; it is not here, so not adopted.
        let post = unsafe { mpi.adopt_request(raw, freed) }.ok_or(FAMPI_ERR_REQUEST)?;
        self.add(raw, post, None);
        Ok(post)
    }

    fn add(&mut self, raw: MPI_Request, post: PostId, message: Option<Message>) {
        if self.gone > self.recent.len() / 2 + FEW {
            self.bring_into_table();
        }
        self.recent.push(User { key: key(raw), post, message, list: self.list });
    }

    /// Keeps a message of ours that MPI has just started.
    pub(crate) fn adopt_message(
        &mut self,
        guest: &mut Guest,
        raw: MPI_Request,
        comm: GuestComm,
        peer: Option<Rank>,
    ) -> Result<()> {
        let tag_bits = guest.tag_bits();
        // SAFETY: MPI has just given it, for one operation.
        let post = guest.with_mpi(|mpi| unsafe { mpi.adopt_message(raw, freed, tag_bits) });
        let post = post.ok_or(FAMPI_ERR_REQUEST)?;
        let block = guest.last_open(comm);
        self.add(raw, post, Some(Message { comm, block, peer, post }));
        Ok(())
    }

    /// The message of ours behind a handle, if it is one.
    pub(crate) fn message(&mut self, raw: MPI_Request) -> Option<Message> {
        self.find(key(raw))?.message
    }

    /// The program has freed requests, each by one of the copies of its handle.
    pub(crate) fn free(&mut self, mpi: &mut MpiPlatform, freed: &[MPI_Request]) {
        for raw in freed {
            if let Some(post) = self.get(*raw)
                && mpi.free_request(post)
            {
                self.remove(key(*raw));
            }
        }
    }

    /// A block that had these requests was freed.
    pub(crate) fn forget(
        &mut self,
        mpi: &mut MpiPlatform,
        operations: impl Iterator<Item = (PostId, MPI_Request)>,
    ) {
        for (post, raw) in operations {
            if mpi.forget_request(post) {
                self.remove(key(raw));
            }
        }
    }
}

/// Status and code of an operation that is over, as far as is known without another look.
pub(crate) fn outcome(guest: &mut Guest, post: PostId) -> Option<(MPI_Status, c_int)> {
    let ended = guest.with_mpi(|mpi| mpi.ended(post))?;
    let code = ended.fault.map_or(0, FaultCode::number);
    Some((MPI_Status { MPI_ERROR: code, ..ended.status }, code))
}

/// True for an operation that is over, of a request that can be started again.
pub(crate) fn is_persistent(guest: &mut Guest, post: PostId) -> bool {
    guest.with_mpi(|mpi| mpi.ended(post)).is_some_and(|ended| ended.is_persistent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(users: &mut Users, keys: impl Iterator<Item = usize>) {
        let user = |key| User { key, post: PostId(key as u32), message: None, list: 0 };
        users.recent.extend(keys.map(user));
    }

    fn post(users: &mut Users, key: usize) -> Option<u32> {
        users.find(key).map(|user| user.post.0)
    }

    #[test]
    fn requests_that_go_in_their_order_need_no_table() {
        let mut users = Users::default();
        for _ in 0..3 {
            add(&mut users, (0..100).map(|at| 8 * at + 8));
            for key in (0..100).map(|at| 8 * at + 8) {
                assert_eq!(post(&mut users, key), Some(key as u32));
            }
            (0..100).for_each(|at| users.remove(8 * at + 8));
            assert!(users.recent.is_empty() && users.by_key.capacity() == 0);
        }
    }

    #[test]
    fn requests_are_found_until_they_are_gone_in_whatever_order() {
        for step in [1, 3, 7, 39] {
            let mut users = Users::default();
            add(&mut users, (0..20).map(|at| 8 * at + 8));
            let order: Vec<usize> = (0..40).map(|at| 8 * (at * step % 40) + 8).collect();
            order[..10].iter().filter(|key| **key <= 160).for_each(|key| users.remove(*key));
            add(&mut users, (20..40).map(|at| 8 * at + 8));
            let gone = |key: usize| key <= 160 && order[..10].contains(&key);
            for key in order.iter().rev().copied() {
                assert_eq!(post(&mut users, key), (!gone(key)).then_some(key as u32), "{step}");
            }
            order.iter().filter(|key| !gone(**key)).for_each(|key| users.remove(*key));
            assert!(order.iter().all(|key| post(&mut users, *key).is_none()), "{step}");
        }
    }
}
