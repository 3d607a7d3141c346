//! Windows: memory of a rank that others put into, get from and accumulate in.
//!
//! MPI's own windows do not survive a death (the documentation of the crate has the
//! measurements). Here an access is a request of a block that is made of messages, like those
//! among neighbours, and a turn of the target's engine serves it ([`super::access`]):
//!
//! ```text
//! origin                                                    target
//!   │ elements that are put or accumulated ───────────────▶ │ wait in the block
//!   │ question: window, what, where, how many, of what ───▶ │
//!   │ ◀─────────────────────────────── answer: 0, or why not │
//!   │ ◀────────────────── elements that are got, none if not │
//!   │ complete                                               │
//!   └─ vote ──────────────── commit ────────────────── vote ─┘ memory has what was put
//! ```
//!
//! An origin votes when it has its answers, so whatever is committed has been served: the target
//! has all that was put, and writes it into its memory if and only if the block is committed, in
//! the order of the origins' ranks, whatever came first.
//!
//! **Assumes** that MPI keeps messages with one tag in order. The *k*-th answer of a target is to
//! the *k*-th question, and so are the elements; therefore also who is refused sends them and gets
//! an empty message.
//!
//! Reference: MPI 4.1 §12.3.5.

use alloc::{rc::Rc, vec, vec::Vec};
use core::{
    cell::RefCell,
    hash::{Hash as _, Hasher as _},
    ops::Range,
};
use std::hash::DefaultHasher;

use smallvec::SmallVec;

use super::exchange::Parts;
use crate::{
    error::Error,
    fault::{FaultCode, class},
    protocol::process::{BlockKey, CommKey},
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{PostId, Progress},
        reduction::{ReduceOp, Reduction},
    },
};

/// Names a window of this process, never another one again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WindowId(u64);

/// What a process knows of a window of its own.
pub(super) struct WindowState {
    id: WindowId,
    comm: CommKey,
    number: u32,
    /// The application has it, too, and borrows it between blocks. The length never changes.
    memory: Rc<RefCell<dyn Buffer>>,
    /// Committed while the application had borrowed it.
    late: Vec<Staged>,
}

/// What an access does to the elements of the window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    Put,
    Get,
    Accumulate(ReduceOp),
}

impl Access {
    fn to_word(self) -> u64 {
        match self {
            Self::Put => 0,
            Self::Get => 1,
            Self::Accumulate(op) => 2 + op as u64,
        }
    }

    fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Put),
            1 => Some(Self::Get),
            _ => {
                let op = u8::try_from(word - 2).ok().and_then(ReduceOp::numbered);
                op.map(Self::Accumulate)
            }
        }
    }
}

/// What an origin wants, as it is on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Question {
    /// The number of the window.
    pub(super) window: u64,
    pub(super) access: Access,
    /// Elements before the first.
    pub(super) at: usize,
    pub(super) elements: usize,
    /// Of one element.
    pub(super) bytes: usize,
    /// The type of the elements.
    pub(super) kind: u64,
}

impl Question {
    pub(super) const WORDS: usize = 6;

    pub(super) fn to_words(self) -> Vec<u64> {
        let [at, elements, bytes] = [self.at, self.elements, self.bytes].map(|it| it as u64);
        vec![self.window, self.access.to_word(), at, elements, bytes, self.kind]
    }

    pub(super) fn from_words(words: &[u64]) -> Option<Self> {
        let &[window, access, at, elements, bytes, kind] = words else { return None };
        let access = Access::from_word(access)?;
        let [at, elements, bytes] = [at, elements, bytes].map(|it| it as usize);
        Some(Self { window, access, at, elements, bytes, kind })
    }
}

/// A number for the type of a buffer's elements, the same in all processes of a program.
pub(super) fn kind(buffer: &dyn Buffer) -> u64 {
    let mut hasher = DefaultHasher::new();
    buffer.element().hash(&mut hasher);
    hasher.finish()
}

/// The memory of this rank that others use.
#[derive(Default)]
pub(super) struct Windows {
    pub(super) known: Vec<WindowState>,
    /// How many windows were made.
    made: u64,
    /// Undecided blocks in which others may access these windows.
    pub(super) serving: SmallVec<[BlockKey; 4]>,
}

impl Windows {
    /// Lets the other ranks of a communicator use this memory, in blocks that are not decided.
    ///
    /// # Errors
    ///
    /// [`Error::WindowExists`].
    pub(super) fn add(
        &mut self,
        (comm, number): (CommKey, u32),
        memory: Rc<RefCell<dyn Buffer>>,
        open: &[BlockKey],
    ) -> Result<WindowId, Error> {
        if self.named(comm, number.into()).is_some() {
            return Err(Error::WindowExists { number });
        }
        let id = WindowId(self.made);
        self.made += 1;
        self.known.push(WindowState { id, comm, number, memory, late: Vec::new() });
        for key in open {
            if !self.serving.contains(key) {
                self.serving.push(*key);
            }
        }
        Ok(id)
    }

    /// Others find this window no more.
    pub(super) fn remove(&mut self, id: WindowId) {
        self.known.retain(|window| window.id != id);
    }

    /// Others may use the windows of this communicator in the block, if there are any.
    pub(super) fn serve(&mut self, key: BlockKey, comm: CommKey) {
        if self.known.iter().any(|window| window.comm == comm) {
            self.serving.push(key);
        }
    }

    /// The number of a window, if it is one of this communicator.
    pub(super) fn number(&self, id: WindowId, comm: CommKey) -> Option<u64> {
        let window = self.known.iter().find(|known| known.id == id && known.comm == comm);
        Some(window?.number.into())
    }

    fn named(&self, comm: CommKey, number: u64) -> Option<&WindowState> {
        let is_it = |it: &&WindowState| it.comm == comm && u64::from(it.number) == number;
        self.known.iter().find(is_it)
    }

    fn get(&self, id: WindowId) -> Option<&WindowState> {
        self.known.iter().find(|known| known.id == id)
    }

    /// The window that an origin means, or the class of MPI that says why it cannot be used so.
    pub(super) fn find(&self, comm: CommKey, question: &Question) -> Result<WindowId, i32> {
        let window = self.named(comm, question.window).ok_or(class::WIN)?;
        // Waiting inside of a loan cannot end it: better a fault than a wait for ever.
        let memory = window.memory.try_borrow().map_err(|_| class::RMA_SYNC)?;
        if kind(&*memory) != question.kind {
            return Err(class::TYPE);
        }
        if let Access::Accumulate(op) = question.access
            && Reduction::predefined(op, memory.element()).is_none()
        {
            return Err(class::OP);
        }
        let end = question.at.checked_add(question.elements);
        let fits = end.is_some_and(|end| end <= memory.elements());
        if fits { Ok(window.id) } else { Err(class::RMA_RANGE) }
    }

    /// A buffer for the elements of an access; bytes, if they are refused.
    pub(super) fn room_for(
        &self,
        window: Result<WindowId, i32>,
        question: &Question,
        parts: &mut Parts,
    ) -> AnyBuffer {
        let &Question { at, elements, bytes, .. } = question;
        let known = window.ok().and_then(|id| self.get(id));
        match known.and_then(|known| known.memory.try_borrow().ok()) {
            Some(memory) => parts.take(&*memory, &(at..at + elements), false),
            None => AnyBuffer::of(vec![0_u8; bytes.saturating_mul(elements)]),
        }
    }

    /// A copy of these elements of a window, or the class of MPI that says why there is none.
    pub(super) fn read(
        &self,
        id: WindowId,
        elements: &Range<usize>,
        parts: &mut Parts,
    ) -> Result<AnyBuffer, i32> {
        let window = self.get(id).ok_or(class::WIN)?;
        let memory = window.memory.try_borrow().map_err(|_| class::RMA_SYNC)?;
        // What was put and is not written yet would be missing.
        if !window.late.is_empty() {
            return Err(class::RMA_SYNC);
        }
        Ok(parts.take(&*memory, elements, true))
    }

    /// The block of these accesses is committed: writes what they put.
    pub(super) fn commit(&mut self, mut staged: Vec<Staged>, parts: &mut Parts) {
        // Stable: what one origin put stays in the order of its questions.
        staged.sort_by_key(|staged| staged.origin);
        for staged in staged {
            let window = self.known.iter_mut().find(|known| known.id == staged.window);
            if let Some(window) = window {
                window.late.push(staged);
            }
        }
        self.settle(parts);
    }

    /// Writes what was committed while the application had borrowed the memory of a window.
    pub(super) fn settle(&mut self, parts: &mut Parts) {
        for window in &mut self.known {
            if let Ok(mut memory) = window.memory.try_borrow_mut() {
                window.late.drain(..).for_each(|staged| parts.keep(staged.apply(&mut *memory)));
            }
        }
    }
}

/// What others want of this rank in one block.
#[derive(Default)]
pub(super) struct Service {
    /// The question that is being received.
    pub(super) asked: Option<(Rank, PostId)>,
    /// Accesses without an answer, in the order of their questions.
    pub(super) due: Vec<Due>,
    /// Messages to origins that are under way.
    pub(super) answers: Vec<PostId>,
    pub(super) staged: Vec<Staged>,
}

/// An access that waits for its elements, or for earlier ones of the same rank.
pub(super) struct Due {
    pub(super) origin: Rank,
    pub(super) question: Question,
    /// The window, or the class of the refusal.
    pub(super) window: Result<WindowId, i32>,
    /// Where its elements are received, if it has some.
    pub(super) given: Option<PostId>,
}

/// What the commit does to a window.
pub(super) struct Staged {
    pub(super) origin: Rank,
    pub(super) window: WindowId,
    pub(super) at: usize,
    /// Nothing for a put.
    pub(super) op: Option<ReduceOp>,
    pub(super) part: AnyBuffer,
}

impl Staged {
    /// Does it; gives the buffer of the elements back.
    fn apply(mut self, memory: &mut dyn Buffer) -> AnyBuffer {
        let reduction = self.op.and_then(|op| Reduction::predefined(op, memory.element()));
        if let Some(reduction) = reduction {
            let before = memory.copy(self.at, self.part.elements());
            reduction.combine(&*before, &mut *self.part);
        }
        let fits = memory.fill(self.at, &*self.part);
        debug_assert!(fits, "it was looked at before the answer");
        self.part
    }
}

impl Due {
    /// An error with the class of MPI that says why the elements have not come as announced.
    pub(super) fn arrived(&self, progress: Progress) -> Result<(), i32> {
        match progress {
            Progress::Complete(status) if status.elements == self.question.elements => Ok(()),
            Progress::Complete(_) => Err(class::TRUNCATE),
            Progress::Failed(FaultCode::Mpi(class)) => Err(class),
            Progress::Failed(_) | Progress::Pending => Err(class::OTHER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_origin_wants_is_the_same_at_the_target() {
        let ops = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Or];
        let accesses = ops.map(Access::Accumulate).into_iter().chain([Access::Put, Access::Get]);
        for access in accesses {
            let (window, at, elements) = (3, 17, 5);
            let question = Question { window, access, at, elements, bytes: 8, kind: 99 };
            let words = question.to_words();
            assert_eq!(words.len(), Question::WORDS);
            assert_eq!(Question::from_words(&words), Some(question));
        }
        assert_eq!(Question::from_words(&[0, 8, 0, 0, 0, 0]), None);
        assert_eq!(Question::from_words(&[0; 5]), None);
    }

    #[test]
    fn types_of_one_size_are_told_apart() {
        assert_ne!(kind(&vec![0_u64]), kind(&vec![0_f64]));
        assert_eq!(kind(&vec![0_u64]), kind(&vec![1_u64, 2]));
    }
}
