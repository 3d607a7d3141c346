//! The requests of a block: whom they need, how far they are, and their buffers.
//!
//! One dense table in the order of posting, which the block's place in the engine keeps for the
//! blocks after it. What needs a box leaves it in its record, for the request in the same place of
//! a later block: blocks which look alike allocate nothing.
//!
//! **Guarantees.** The buffer of a message stays in its record while the message is under way, and
//! it is used by no other part meanwhile: it is neither taken nor replaced nor dropped before the
//! platform says that the operation is over, or has it for good. A record that is dropped before
//! leaks it.

use alloc::vec::Vec;
use core::{
    mem,
    ops::{Deref, DerefMut},
};

use super::{
    buffer::{AnyBuffer, Buffer},
    operation::{Post, PostId, Posted, Progress, Status},
};
use crate::{
    fault::FaultCode,
    native::{Element, Flight},
    protocol::process::Need,
};

/// One request of a block.
#[derive(Debug)]
pub struct Record {
    pub(crate) need: Need,
    pub(crate) state: Progress,
    /// Its operation, as long as it is under way, and after one that failed has been given up.
    post: Option<Post>,
    /// The buffer, unless the platform has it, or the box that is left of it.
    buffer: Option<AnyBuffer>,
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
        Self { need, state: Progress::Pending, post: None, buffer: None }
    }

    /// A request from now on, which is pending.
    #[inline]
    fn reuse(&mut self, need: Need) {
        self.need = need;
        self.state = Progress::Pending;
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

    /// True while the platform has its operation: one that was given up is over before that.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.post.is_some()
    }

    /// The number of its operation, if it has one.
    #[inline]
    pub fn id(&self) -> Option<PostId> {
        match self.post {
            Some(Post::Kept(id)) => Some(id),
            _ => None,
        }
    }

    /// Its operation.
    pub(crate) fn post_mut(&mut self) -> Option<&mut Post> {
        self.post.as_mut()
    }

    /// The message that it is, while that is under way.
    #[inline]
    pub fn flight(&self) -> Option<&Flight> {
        match &self.post {
            Some(Post::Message(flight)) => Some(flight),
            _ => None,
        }
    }

    /// The message in flight, with its buffer, for MPI to change.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn flight_mut(&mut self) -> Option<(&mut Flight, &mut AnyBuffer)> {
        match (&mut self.post, &mut self.buffer) {
            (Some(Post::Message(flight)), Some(buffer)) => Some((flight, buffer)),
            _ => None,
        }
    }

    /// The buffer of an operation that is about to start.
    #[cfg(any(feature = "mpi", test))]
    #[inline]
    pub(crate) fn loaded(&mut self) -> Option<&mut AnyBuffer> {
        self.buffer.as_mut().filter(|_| self.post.is_none())
    }

    /// The operation has started, and uses the buffer until [`Self::end`].
    #[inline]
    pub(crate) fn begin(&mut self, post: Post) {
        self.post = Some(post);
    }

    /// An operation of the application's own, with a buffer of its own.
    #[inline]
    pub(crate) fn adopt(&mut self, id: PostId) {
        if self.buffer.is_some() {
            self.drop_buffer();
        }
        self.begin(Post::Kept(id));
    }

    #[cold]
    fn drop_buffer(&mut self) {
        self.buffer = None;
    }

    /// The buffer of an operation that is about to start, for the part that has it from now on.
    pub(crate) fn unload(&mut self) -> Option<AnyBuffer> {
        self.buffer.take_if(|_| self.post.is_none())
    }

    /// The operation has started, and the part that started it has the buffer, or had.
    pub(crate) fn note(&mut self, posted: Posted) {
        match posted {
            Posted::Running(id) => self.begin(Post::Kept(id)),
            Posted::Complete(elements, buffer) => {
                self.buffer = Some(buffer);
                self.end_at_once(elements);
            }
        }
    }

    /// Notes whether the operation has started; if not, the buffer is here again, and the answer is
    /// false.
    pub(crate) fn note_start(&mut self, posted: Result<Posted, (FaultCode, AnyBuffer)>) -> bool {
        match posted {
            Ok(posted) => {
                self.note(posted);
                true
            }
            Err((code, buffer)) => {
                self.give(buffer);
                self.refuse(code)
            }
        }
    }

    /// Where the platform puts the buffer back that it has had.
    pub(crate) fn place(&mut self) -> &mut Option<AnyBuffer> {
        &mut self.buffer
    }

    /// The operation was over as soon as it started.
    #[inline]
    pub(crate) fn end_at_once(&mut self, elements: usize) {
        self.end(Progress::Complete(Status { elements, ..Status::default() }));
    }

    /// Ends an operation that has moved all that is in the buffer.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn end_whole(&mut self) {
        let elements = self.buffer.as_ref().map_or(0, AnyBuffer::elements);
        self.end_at_once(elements);
    }

    /// The operation could not start; never true.
    #[cold]
    pub(crate) fn refuse(&mut self, code: FaultCode) -> bool {
        self.end(Progress::Failed(code));
        false
    }

    /// The operation is over, and its buffer is free: it waits for the application,
    /// unless it was only lent.
    #[inline]
    pub(crate) fn end(&mut self, state: Progress) {
        self.state = state;
        self.post = None;
        if let Some(buffer) = &mut self.buffer {
            buffer.give_back();
        }
    }

    /// Ends the operation in this state, unless it is over: a failure that is known stays.
    pub(crate) fn end_as(&mut self, state: Progress) {
        self.end(if self.is_over() { self.state } else { state });
    }

    /// Gives the record its buffer back, which the platform had.
    pub(crate) fn give(&mut self, buffer: AnyBuffer) {
        self.buffer = Some(buffer);
    }

    /// The buffer, if it is here.
    pub(crate) fn buffer(&self) -> Option<&dyn Buffer> {
        let here = self.buffer.as_ref().filter(|it| self.post.is_none() && !it.is_spent());
        here.map(|buffer| &**buffer)
    }

    /// The buffer as it is.
    pub(crate) fn take_any(&mut self) -> Option<AnyBuffer> {
        self.buffer.take_if(|it| self.post.is_none() && !it.is_spent())
    }

    #[inline]
    fn take_into<T: Element>(&mut self, into: &mut Vec<T>) -> bool {
        self.post.is_none() && AnyBuffer::take_into(&mut self.buffer, into)
    }
}

/// The requests of a block, by their indices.
#[derive(Default)]
pub(crate) struct Records {
    places: Vec<Record>,
    /// The places above are free: all that they have is a box.
    used: usize,
    /// How many of those below the application has taken the buffer of, or never gave one.
    taken: usize,
}

impl Records {
    /// The next request, with its buffer: its operation is about to start.
    #[inline]
    pub(crate) fn load<B: Buffer>(&mut self, need: Need, buffer: B) -> (usize, &mut Record) {
        let index = self.used;
        let record = self.add(need);
        AnyBuffer::put(&mut record.buffer, buffer);
        (index, record)
    }

    /// The next requests, with their buffers: their operations are about to start.
    #[inline]
    pub(crate) fn load_all<B: Buffer>(
        &mut self,
        loads: impl ExactSizeIterator<Item = (Need, B)>,
    ) -> &mut [Record] {
        let first = self.used;
        self.used = first + loads.len();
        while self.places.len() < self.used {
            self.grow();
        }
        let records = &mut self.places[first..self.used];
        for (record, (need, buffer)) in records.iter_mut().zip(loads) {
            record.reuse(need);
            AnyBuffer::put(&mut record.buffer, buffer);
        }
        records
    }

    /// The next request, with an operation and a buffer of the application's own.
    #[inline]
    pub(crate) fn adopt(&mut self, need: Need, id: PostId) {
        self.taken += 1;
        self.add(need).adopt(id);
    }

    /// The next request, with its operation; its index.
    pub(crate) fn add_posted(&mut self, need: Need, posted: Posted) -> usize {
        let index = self.used;
        self.add(need).note(posted);
        index
    }

    /// The next request, which is pending.
    #[inline]
    pub(crate) fn add(&mut self, need: Need) -> &mut Record {
        let index = self.used;
        self.used = index + 1;
        let record = if index < self.places.len() { &mut self.places[index] } else { self.grow() };
        record.reuse(need);
        record
    }

    #[cold]
    fn grow(&mut self) -> &mut Record {
        let index = self.places.len();
        self.places.push(Record::new(Need::Nobody));
        &mut self.places[index]
    }

    /// The block is over: what the platform still has is given up, with its buffer, and what nobody
    /// took is dropped. `complete` says that nothing is under way.
    #[inline]
    pub(crate) fn clear(&mut self, complete: bool, abandon: impl FnMut(Post, Option<AnyBuffer>)) {
        if self.taken != self.used || !complete {
            self.give_up(abandon);
            self.iter_mut().for_each(|record| drop(record.take_any()));
        }
        (self.used, self.taken) = (0, 0);
    }

    /// What the platform still has is given up, with its buffer.
    pub(crate) fn give_up(&mut self, mut abandon: impl FnMut(Post, Option<AnyBuffer>)) {
        for record in self.iter_mut() {
            if let Some(post) = record.post.take() {
                abandon(post, record.buffer.take());
            }
        }
    }

    /// The buffers of requests, from this one on, as long as they are here and of this type; how
    /// many there are.
    #[inline]
    pub(crate) fn take_many<'a, T: Element>(
        &mut self,
        first: usize,
        into: impl Iterator<Item = &'a mut Vec<T>>,
    ) -> usize {
        let places = self.places.get_mut(first..).unwrap_or_default();
        let mut taken = 0;
        for (record, place) in places.iter_mut().zip(into) {
            if !record.take_into(place) {
                break;
            }
            taken += 1;
        }
        self.taken += taken;
        taken
    }

    /// The buffer of a request, if it is here and of this type.
    #[inline]
    pub(crate) fn take<T: Element>(&mut self, index: usize) -> Option<Vec<T>> {
        let mut vector = Vec::new();
        let here = self.places.get_mut(index)?.take_into(&mut vector);
        self.taken += usize::from(here);
        here.then_some(vector)
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
        running.begin(Post::Kept(PostId(7)));
        end(&mut records, AnyBuffer::of(vec![1_u64]));
        assert!(!records[0].is_over() && records[1].is_over());
        assert!(!records[1].take_into(&mut vec![0_u8]));
        assert!(records[1].buffer().is_some());
        let given_up = Cell::new(None);
        records.clear(true, |post, buffer| {
            let Post::Kept(id) = post else { return };
            given_up.set(buffer.map(|buffer| (id, buffer.elements())));
        });
        assert_eq!(given_up.get(), Some((PostId(7), 1)));
        assert!(records.is_empty() && records.places.iter().all(|it| it.buffer.is_none()));
    }

    #[test]
    fn a_buffer_is_the_applications_once_its_operation_is_over() {
        let mut records = Records::default();
        let (_, record) = records.load(Need::Nobody, vec![1_u32, 2]);
        record.begin(Post::Kept(PostId(1)));
        assert!(record.loaded().is_none() && record.unload().is_none());
        assert!(record.take_any().is_none() && record.buffer().is_none());
        record.end_at_once(2);
        let mut taken = Vec::<u32>::new();
        assert!(record.take_into(&mut taken));
        assert_eq!(taken, [1, 2]);
        assert!(!record.take_into(&mut taken));
    }
}
