//! The requests of a block: whom they need, how far they are, and their buffers.
//!
//! One dense table in the order of posting, which the block's place in the engine keeps for the
//! blocks after it. What needs a box leaves it in its record, for the request in the same place of
//! a later block: blocks which look alike allocate nothing.
//!
//! **Guarantees.** The buffer of a message stays in its record while the message is under way, and
//! nobody has it meanwhile: it is neither taken nor replaced nor dropped before the platform says
//! that the operation is over, or has it for good. A record that is dropped before leaks it.

use alloc::vec::Vec;
use core::{
    mem,
    ops::{Deref, DerefMut},
};

use super::{
    Need,
    buffer::{AnyBuffer, Buffer, Element},
    platform::{Lane, Operation, Platform, PostId, Posted, Progress, Settled, Status},
};
use crate::fault::FaultCode;

/// One request of a block.
pub struct Record {
    pub(crate) need: Need,
    pub(crate) state: Progress,
    /// Where the platform has it; nothing once its buffer is the application's.
    post: Option<PostId>,
    /// The buffer, unless the platform has it, or the box that is left of it.
    buffer: Option<AnyBuffer>,
    /// The buffer is the application's.
    full: bool,
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.post.is_some() {
            mem::forget(self.buffer.take());
        }
    }
}

impl Record {
    fn new(need: Need) -> Self {
        Self { need, state: Progress::Pending, post: None, buffer: None, full: false }
    }

    /// True when it cannot change any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        !matches!(self.state, Progress::Pending)
    }

    /// True when it is over, successfully.
    #[inline]
    pub fn is_complete(&self) -> bool {
        matches!(self.state, Progress::Complete(_))
    }

    /// Where the platform has it, if it has it still.
    #[inline]
    pub fn post(&self) -> Option<PostId> {
        self.post
    }

    /// The same as long as it is not known to be over: one that was given up is over before the
    /// platform has let go of it.
    #[inline]
    pub fn running(&self) -> Option<PostId> {
        if self.is_over() { None } else { self.post }
    }

    /// The buffer of an operation that is about to start.
    #[inline]
    pub fn loaded(&mut self) -> Option<&mut AnyBuffer> {
        self.buffer.as_mut().filter(|_| self.post.is_none())
    }

    /// The operation has started, and uses the buffer until [`Self::end`].
    #[inline]
    pub fn begin(&mut self, post: PostId) {
        self.post = Some(post);
    }

    /// An operation of somebody else, with a buffer of somebody else.
    pub(super) fn adopt(&mut self, post: PostId) {
        self.buffer = None;
        self.begin(post);
    }

    /// The buffer of an operation that is about to start, for whoever has it from now on.
    pub(super) fn unload(&mut self) -> Option<AnyBuffer> {
        self.buffer.take_if(|_| self.post.is_none())
    }

    /// The operation has started, and whoever started it has the buffer, or had.
    pub(super) fn note(&mut self, posted: Posted) {
        match posted {
            Posted::Running(post) => self.begin(post),
            Posted::Complete(elements, buffer) => {
                self.give(buffer);
                self.end_at_once(elements);
            }
        }
    }

    /// The operation was over as soon as it started.
    #[inline]
    pub fn end_at_once(&mut self, elements: usize) {
        self.end(Progress::Complete(Status { elements, ..Status::default() }));
    }

    /// The operation could not start; never true.
    #[cold]
    pub fn refuse(&mut self, code: FaultCode) -> bool {
        self.end(Progress::Failed(code));
        false
    }

    /// The operation is over, and nobody uses its buffer any more: it waits for the application,
    /// unless it was only lent.
    #[inline]
    pub fn end(&mut self, state: Progress) {
        self.state = state;
        self.let_go();
    }

    /// The same with its buffer, if the platform had it.
    #[inline]
    pub fn end_with(&mut self, state: Progress, buffer: Option<AnyBuffer>) {
        if let Some(buffer) = buffer {
            self.give(buffer);
        }
        self.end(state);
    }

    /// The same for one that has failed before.
    #[inline]
    pub(super) fn let_go(&mut self) {
        self.post = None;
        self.full = self.buffer.as_mut().is_some_and(|buffer| !buffer.give_back());
    }

    /// Its buffer, which somebody else had.
    #[inline]
    pub fn give(&mut self, buffer: AnyBuffer) {
        self.post = None;
        self.buffer = Some(buffer);
    }

    /// The buffer, if it is here.
    pub(crate) fn buffer(&self) -> Option<&dyn Buffer> {
        self.buffer.as_deref().filter(|_| self.full)
    }

    /// The buffer as it is.
    pub(crate) fn take_any(&mut self) -> Option<AnyBuffer> {
        self.buffer.take_if(|_| mem::take(&mut self.full))
    }

    #[inline]
    fn take<T: Element>(&mut self) -> Option<Vec<T>> {
        if !self.full {
            return None;
        }
        let vector = AnyBuffer::take(&mut self.buffer)?;
        self.full = false;
        Some(vector)
    }
}

/// Starts an operation by [`Platform::post`] as the request that has its buffer.
pub fn start<P: Platform + ?Sized>(
    platform: &mut P,
    lane: Lane,
    operation: &Operation,
    record: &mut Record,
) -> bool {
    let Some(buffer) = record.unload() else { return false };
    match platform.post(lane, operation, buffer) {
        Ok(posted) => record.note(posted),
        Err((code, buffer)) => {
            record.give(buffer);
            return record.refuse(code);
        }
    }
    true
}

/// [`Platform::settle`] by [`Platform::test`] and [`Platform::take`].
pub fn settle_each<P: Platform + ?Sized>(platform: &mut P, records: &mut [Record]) -> Settled {
    let all = records.len();
    for (complete, record) in records.iter_mut().enumerate() {
        if let (Progress::Pending, Some(post)) = (record.state, record.post()) {
            let state = platform.test(post);
            if state != Progress::Pending {
                record.end_with(state, platform.take(post));
            }
            if matches!(state, Progress::Failed(_)) {
                return Settled { complete, failed: true };
            }
        }
        if !record.is_complete() {
            return Settled { complete, failed: false };
        }
    }
    Settled { complete: all, failed: false }
}

/// The requests of a block, by their indices.
#[derive(Default)]
pub(crate) struct Records {
    places: Vec<Record>,
    /// The places above are free: all that they have is a box.
    used: usize,
    /// How many of those below the application has taken the buffer of.
    taken: usize,
}

impl Records {
    /// The next request, with its buffer: its operation is about to start.
    #[inline]
    pub(super) fn load<B: Buffer>(&mut self, need: Need, buffer: B) -> (usize, &mut Record) {
        let index = self.used;
        let record = self.add(need);
        AnyBuffer::put(&mut record.buffer, buffer);
        (index, record)
    }

    /// The next request, with its operation; its index.
    pub(super) fn add_posted(&mut self, need: Need, posted: Posted) -> usize {
        let index = self.used;
        self.add(need).note(posted);
        index
    }

    /// The next request, which is pending.
    #[inline]
    pub(super) fn add(&mut self, need: Need) -> &mut Record {
        let index = self.used;
        if index >= self.places.len() {
            self.grow();
        }
        let record = &mut self.places[index];
        self.used = index + 1;
        record.need = need;
        record.state = Progress::Pending;
        record
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(Record::new(Need::Nobody));
    }

    /// The block is over: what the platform still has is given up, with its buffer, and what nobody
    /// took is dropped.
    #[inline]
    pub(super) fn clear(&mut self, mut abandon: impl FnMut(PostId, Option<AnyBuffer>)) {
        let full = if self.taken == self.used { 0 } else { self.used };
        for record in &mut self.places[..full] {
            if let Some(post) = record.post.take() {
                abandon(post, record.buffer.take());
            }
            if record.full {
                drop(record.take_any());
            }
        }
        (self.used, self.taken) = (0, 0);
    }

    /// The buffer of a request, if it is here and of this type.
    #[inline]
    pub(crate) fn take<T: Element>(&mut self, index: usize) -> Option<Vec<T>> {
        let vector = self[index].take()?;
        self.taken += 1;
        Some(vector)
    }
}

impl Deref for Records {
    type Target = [Record];

    #[inline]
    fn deref(&self) -> &[Record] {
        &self.places[..self.used]
    }
}

impl DerefMut for Records {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Record] {
        &mut self.places[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::cell::Cell;

    use super::*;

    fn end(records: &mut Records, buffer: AnyBuffer) {
        records.add_posted(Need::Nobody, Posted::Complete(0, buffer));
    }

    #[test]
    fn the_end_of_a_block_gives_up_what_runs_and_drops_what_nobody_took() {
        let mut records = Records::default();
        let (_, running) = records.load(Need::Nobody, vec![0_u8]);
        running.begin(PostId(7));
        end(&mut records, AnyBuffer::of(vec![1_u64]));
        assert!(!records[0].is_over() && records[1].is_over());
        assert_eq!(records[1].take::<u8>(), None);
        assert!(records[1].buffer().is_some());
        let given_up = Cell::new(None);
        records.clear(|post, buffer| given_up.set(buffer.map(|buffer| (post, buffer.elements()))));
        assert_eq!(given_up.get(), Some((PostId(7), 1)));
        assert!(records.is_empty() && records.places.iter().all(|it| it.buffer.is_none()));
    }

    #[test]
    fn a_buffer_is_the_applications_once_its_operation_is_over() {
        let mut records = Records::default();
        let (_, record) = records.load(Need::Nobody, vec![1_u32, 2]);
        assert_eq!(record.take::<u32>(), None);
        record.begin(PostId(1));
        assert!(record.loaded().is_none() && record.unload().is_none());
        assert!(record.take_any().is_none() && record.buffer().is_none());
        record.end_at_once(2);
        assert_eq!(record.take::<u32>(), Some(vec![1, 2]));
        assert_eq!(record.take::<u32>(), None);
    }
}
