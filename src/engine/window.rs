//! Windows: memory of a rank that others put into, get from and accumulate in.
//!
//! MPI's own windows do not survive a death (the documentation of the crate has the
//! measurements). Here an access is a request of a block that is made of messages, like those
//! among neighbours, and a turn of the target's engine serves it ([`super::service`]):
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
};
use std::hash::DefaultHasher;

use super::{
    BlockKey, CommKey, Engine, MAX_USER_TAG, Need,
    neighbours::{Exchange, Role},
    service::Staged,
};
use crate::{
    error::Error,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        reduction::{ReduceOp, Reduction},
    },
};

/// The tags of windows, between those of copies and that of neighbours.
pub(crate) const FIRST_WINDOW_TAG: u32 = MAX_USER_TAG - 4;
/// Words that say what an origin wants.
pub(super) const QUESTION: u32 = FIRST_WINDOW_TAG;
/// Elements from an origin.
pub(super) const GIVEN: u32 = FIRST_WINDOW_TAG + 1;
/// One word from a target.
pub(super) const ANSWER: u32 = FIRST_WINDOW_TAG + 2;
/// Elements from a target.
pub(super) const GOTTEN: u32 = FIRST_WINDOW_TAG + 3;

/// Names a window of this process, never another one again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WindowId(u64);

/// What a process knows of a window of its own.
pub(super) struct WindowState {
    pub(super) id: WindowId,
    comm: CommKey,
    number: u32,
    /// The application has it, too, and borrows it between blocks. The length never changes.
    pub(super) memory: Rc<RefCell<dyn Buffer>>,
    /// Committed while the application had borrowed it.
    pub(super) late: Vec<Staged>,
}

impl WindowState {
    pub(super) fn is_of(&self, comm: CommKey) -> bool {
        self.comm == comm
    }

    pub(super) fn is_named(&self, comm: CommKey, number: u64) -> bool {
        self.comm == comm && u64::from(self.number) == number
    }
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

    fn to_words(self) -> Vec<u64> {
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

impl Engine {
    /// Lets the other ranks of a communicator use this memory, in blocks that are not decided.
    ///
    /// # Errors
    ///
    /// [`Error::Abandoned`], [`Error::WindowExists`].
    pub(crate) fn add_window(
        &mut self,
        comm: CommKey,
        number: u32,
        memory: Rc<RefCell<dyn Buffer>>,
    ) -> Result<WindowId, Error> {
        if self.comm(comm).retired {
            return Err(Error::Abandoned);
        }
        if self.windows.iter().any(|known| known.is_named(comm, number.into())) {
            return Err(Error::WindowExists { number });
        }
        let id = WindowId(self.windows_made);
        self.windows_made += 1;
        self.windows.push(WindowState { id, comm, number, memory, late: Vec::new() });
        for key in self.comm(comm).open.clone() {
            if !self.serving.contains(&key) {
                self.serving.push(key);
            }
        }
        Ok(id)
    }

    /// Others find this window no more.
    pub(crate) fn remove_window(&mut self, id: WindowId) {
        self.windows.retain(|window| window.id != id);
    }

    /// The window of this number on the communicator of a block, whatever epoch that is of.
    pub(super) fn window_of(&self, comm: CommKey, number: u64) -> Option<&WindowState> {
        let comm = self.comm(comm).present.unwrap_or(comm);
        self.windows.iter().find(|window| window.is_named(comm, number))
    }

    /// Posts an access to another rank's part of a window as the next request of a block. What
    /// the target does not like is a fault of the request.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::NotGlobal`], [`Error::ForeignWindow`],
    /// [`Error::NoSuchReduction`].
    pub(crate) fn post_access(
        &mut self,
        key: BlockKey,
        id: WindowId,
        (target, at): (Rank, usize),
        access: Access,
        buffer: AnyBuffer,
    ) -> Result<usize, Error> {
        let target = self.member(key, target)?;
        let block = self.block(key);
        if !block.level.is_agreed() {
            return Err(Error::NotGlobal);
        }
        let here = self.comm(block.comm).present.unwrap_or(block.comm);
        let window = self.windows.iter().find(|known| known.id == id && known.is_of(here));
        let window = u64::from(window.ok_or(Error::ForeignWindow)?.number);
        if let Access::Accumulate(op) = access
            && Reduction::predefined(op, buffer.element()).is_none()
        {
            return Err(Error::NoSuchReduction);
        }
        let (elements, bytes) = (buffer.elements(), buffer.element_bytes());
        let question = Question { window, access, at, elements, bytes, kind: kind(&*buffer) };
        self.settle_block(key);
        let mut exchange = Exchange::new(buffer, 3);
        self.add_message(
            key,
            &mut exchange,
            (target, ANSWER),
            Role::Answer,
            AnyBuffer::of(vec![0_u64]),
        );
        let (tag, receives) = match access {
            Access::Get => (GOTTEN, true),
            Access::Put | Access::Accumulate(_) => (GIVEN, false),
        };
        // What follows a message that could not start would be taken for its own.
        if !exchange.has_failed() {
            self.add_part(key, &mut exchange, (target, tag), &(0..elements), receives);
        }
        if !exchange.has_failed() {
            let words = AnyBuffer::of(question.to_words());
            self.add_message(key, &mut exchange, (target, QUESTION), Role::Question, words);
        }
        Ok(self.add_exchange(key, exchange, Need::Neighbours))
    }

    /// What was committed while the application had borrowed the memory of a window is there now.
    pub(crate) fn settle_windows(&mut self) {
        for window in &mut self.windows {
            if let Ok(mut memory) = window.memory.try_borrow_mut() {
                window
                    .late
                    .drain(..)
                    .for_each(|staged| self.parts.keep(staged.apply(&mut *memory)));
            }
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
