//! The requests of a block: whom they need, how far they are, and their buffers.
//!
//! One dense table in the order of posting, which the block's place in the engine keeps for the
//! blocks after it. A buffer travels in a box: with the platform while the operation runs, in the
//! record when it is over. Once the application has taken the contents, the empty box stays in the
//! record for the request in the same place of a later block, so that blocks which look alike
//! allocate nothing.

use alloc::{boxed::Box, vec::Vec};
use core::{
    any::Any,
    mem,
    ops::{Deref, DerefMut},
};

use super::{
    Need,
    buffer::{Buffer, Element},
    platform::{PostId, Posted, Progress, Status},
};

/// One request of a block, in one line of a cache.
#[repr(align(64))]
pub struct Record {
    pub(crate) need: Need,
    pub(crate) state: Progress,
    /// Where the platform has it; nothing once its buffer is here.
    pub(super) post: Option<PostId>,
    /// The buffer, or the box that is left of it.
    boxed: Option<Box<dyn Buffer>>,
    /// The box has what the application may take.
    full: bool,
}

const _: () = assert!(size_of::<Record>() == 64);

impl Record {
    fn new(need: Need) -> Self {
        Self { need, state: Progress::Pending, post: None, boxed: None, full: false }
    }

    /// True when it cannot change any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        !matches!(self.state, Progress::Pending)
    }

    /// Where the platform has it, if it has it still.
    #[inline]
    pub fn post(&self) -> Option<PostId> {
        self.post
    }

    /// The operation is over, and the platform has let go of its buffer.
    #[inline]
    pub fn end(&mut self, state: Progress, buffer: Box<dyn Buffer>) {
        self.state = state;
        self.give(buffer);
    }

    /// The buffer waits for the application, unless it was only lent.
    #[inline]
    pub(super) fn give(&mut self, mut buffer: Box<dyn Buffer>) {
        self.post = None;
        self.full = !buffer.give_back();
        self.boxed = Some(buffer);
    }

    /// The buffer, if it is here.
    pub(crate) fn buffer(&self) -> Option<&dyn Buffer> {
        self.boxed.as_deref().filter(|_| self.full)
    }

    /// The buffer in its box.
    pub(crate) fn take_boxed(&mut self) -> Option<Box<dyn Buffer>> {
        self.boxed.take_if(|_| mem::take(&mut self.full))
    }

    /// The buffer, if it is here and of this type.
    #[inline]
    pub(crate) fn take<T: Element>(&mut self) -> Option<Vec<T>> {
        if !self.full {
            return None;
        }
        let any: &mut dyn Any = self.boxed.as_deref_mut()?;
        let vector = mem::take(any.downcast_mut::<Vec<T>>()?);
        self.full = false;
        Some(vector)
    }
}

/// The requests of a block, by their indices.
#[derive(Default)]
pub(crate) struct Records {
    places: Vec<Record>,
    /// The places above are free: all that they have is a box.
    used: usize,
}

impl Records {
    /// The buffer of the next request, in a box.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(crate) fn wrap<B: Buffer>(&mut self, buffer: B) -> Box<dyn Buffer> {
        let Some(record) = self.places.get_mut(self.used) else { return boxed_anew(buffer) };
        let Some(shell) = record.boxed.as_deref_mut() else { return boxed_anew(buffer) };
        let shell: &mut dyn Any = shell;
        let Some(place) = shell.downcast_mut::<B>() else { return boxed_anew(buffer) };
        *place = buffer;
        record.boxed.take().expect("it was there")
    }

    /// The next request, with its operation; its index.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(super) fn add_posted(&mut self, need: Need, posted: Posted) -> usize {
        let index = self.used;
        let record = self.add(need);
        match posted {
            Posted::Running(post) => record.post = Some(post),
            Posted::Complete(elements, buffer) => {
                record.end(Progress::Complete(Status { elements, ..Status::default() }), buffer);
            }
        }
        index
    }

    /// The next request, which is pending.
    #[inline]
    pub(super) fn add(&mut self, need: Need) -> &mut Record {
        if self.used == self.places.len() {
            self.grow();
        }
        let record = &mut self.places[self.used];
        self.used += 1;
        record.need = need;
        record.state = Progress::Pending;
        record
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(Record::new(Need::Nobody));
    }

    /// The block is over: what the platform still has is given up, what nobody took is dropped.
    #[inline]
    pub(super) fn clear(&mut self, mut abandon: impl FnMut(PostId)) {
        for record in &mut self.places[..self.used] {
            if let Some(post) = record.post.take() {
                abandon(post);
            }
            if record.full {
                drop(record.take_boxed());
            }
        }
        self.used = 0;
    }
}

#[cold]
#[inline(never)]
fn boxed_anew<B: Buffer>(buffer: B) -> Box<dyn Buffer> {
    Box::new(buffer)
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

    fn end(records: &mut Records, buffer: Box<dyn Buffer>) {
        records.add_posted(Need::Nobody, Posted::Complete(0, buffer));
    }

    #[test]
    fn an_empty_box_is_used_again_in_the_same_place_for_the_same_type() {
        let mut records = Records::default();
        let first = records.wrap(vec![1_u32]);
        let place = (&raw const *first).cast::<u8>();
        end(&mut records, first);
        assert_eq!(records[0].take::<u32>(), Some(vec![1]));
        assert_eq!(records[0].take::<u32>(), None);
        records.clear(|_| unreachable!());
        let second = records.wrap(vec![2_u32, 3]);
        assert_eq!((&raw const *second).cast::<u8>(), place);
        assert_eq!(second.as_any().downcast_ref::<Vec<u32>>(), Some(&vec![2, 3]));
        end(&mut records, second);
        records.clear(|_| unreachable!());
        let other = records.wrap(vec![4_u8]);
        assert_eq!(other.as_any().downcast_ref::<Vec<u8>>(), Some(&vec![4]));
    }

    #[test]
    fn the_end_of_a_block_gives_up_what_runs_and_drops_what_nobody_took() {
        let mut records = Records::default();
        records.add_posted(Need::Nobody, Posted::Running(PostId(7)));
        let untaken = records.wrap(vec![1_u64]);
        end(&mut records, untaken);
        assert!(!records[0].is_over() && records[1].is_over());
        assert_eq!(records[1].take::<u8>(), None);
        assert!(records[1].buffer().is_some());
        let given_up = Cell::new(None);
        records.clear(|post| given_up.set(Some(post)));
        assert_eq!(given_up.get(), Some(PostId(7)));
        assert!(records.is_empty() && records.places.iter().all(|it| it.boxed.is_none()));
    }
}
