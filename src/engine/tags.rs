//! Tags on the wire: the user's part of them, and what names the block of a message.
//!
//! ```text
//! 0 … 32570  │ … 32698 │ 32699 │ … 32762     │ … 32766 │ 32767
//! users      │ copies  │ words │ collectives │ windows │ neighbours
//! ```

use crate::{
    ids::BlockId,
    protocol::{agreement::FIRST_SHARED_CONTEXT, process::Level},
    seam::platform::LEAST_MAX_TAG,
};

/// Bits of the tag on the wire that belong to the user (MPI promises no more than 15).
const USER_TAG_BITS: u32 = 15;
/// The tag of all messages among neighbours, the last that the user's bits hold.
pub(super) const NEIGHBOURS: u32 = (1 << USER_TAG_BITS) - 1;
/// Elements from the target of an access to a window.
pub(super) const GOTTEN: u32 = NEIGHBOURS - 1;
/// One word from the target.
pub(super) const ANSWER: u32 = GOTTEN - 1;
/// Elements from the origin of an access.
pub(super) const GIVEN: u32 = ANSWER - 1;
/// Words that say what the origin wants.
pub(super) const QUESTION: u32 = GIVEN - 1;
/// The number of collectives made of messages that have tags of their own.
pub(super) const COLLECTIVES: u32 = 63;
/// The first tag of these collectives.
pub(super) const FIRST_COLLECTIVE: u32 = QUESTION - COLLECTIVES;
/// The tag of the words that ranks pass on to all others, one after the other.
pub(crate) const WORDS: u32 = FIRST_COLLECTIVE - 1;
/// Number of states that can be protected. Each has two tags.
pub const MAX_SLOTS: u32 = 64;
/// The first tag of copies, above those of users.
pub(crate) const FIRST_COPY: u32 = WORDS - 2 * MAX_SLOTS;

/// How the bits of a tag on the wire are used.
///
/// ```text
/// user's tag (15) │ local (1) │ block (the rest)                 in a context of its own
/// user's tag (15) │ local (1) │ context (a third) │ block        in a shared context
/// ```
///
/// So a message of one block does not match a receive of another: not that of the agreed block in
/// which a local one runs, and, in a context that is shared with aborted attempts, not theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagBits {
    /// How many bits are left beside the user's tag.
    scope: u32,
    /// Messages of local blocks belong to no attempt at an agreed one.
    free_locals: bool,
}

impl TagBits {
    /// For tags up to this one.
    ///
    /// # Panics
    ///
    /// When these leave no room beside the user's.
    pub(super) fn new(max_tag: u32) -> Self {
        assert!(max_tag >= LEAST_MAX_TAG, "MPI has tags up to {max_tag}, which is too few");
        let scope = (u64::from(max_tag) + 1).ilog2() - USER_TAG_BITS;
        Self { scope, free_locals: false }
    }

    /// How many bits of a tag on the wire are not the user's.
    pub(super) const fn bits(self) -> u32 {
        self.scope
    }

    /// From now on the messages of local blocks have a scope of their own.
    pub(super) fn free_locals(&mut self) {
        self.free_locals = true;
    }

    /// The scope of the messages of all local blocks: nobody agrees on how many there were, nor on
    /// what was aborted beside them.
    pub(super) const fn scope_of_locals(self) -> u32 {
        1 << (self.scope - 1) | ((1 << self.shared_block()) - 1)
    }

    /// True for a message that belongs to no attempt.
    fn is_free(self, wire: u32) -> bool {
        self.free_locals && wire & ((1 << self.scope) - 1) == self.scope_of_locals()
    }

    /// The tag on the wire of a message of this scope.
    pub(super) const fn on_the_wire(self, tag: u32, scope: u32) -> u32 {
        tag << self.scope | scope
    }

    /// How many bits of a tag name the shared context.
    const fn context(self) -> u32 {
        (self.scope - 1) / 3
    }

    /// How many bits of a tag name the block in a shared context.
    const fn shared_block(self) -> u32 {
        self.scope - 1 - self.context()
    }

    /// What the tags of a block's messages have in common: all but the user's part.
    pub(super) fn scope_of(self, level: Level, number: BlockId, context: u32) -> u32 {
        let local = u32::from(level == Level::Local) << (self.scope - 1);
        let number = number.0 as u32;
        local
            | if context < FIRST_SHARED_CONTEXT {
                number & ((1 << (self.scope - 1)) - 1)
            } else {
                let bits = self.shared_block();
                self.shared_context(context) << bits | number & ((1 << bits) - 1)
            }
    }

    /// The part of a tag that names this shared context.
    fn shared_context(self, context: u32) -> u32 {
        context & ((1 << self.context()) - 1)
    }

    /// True when a tag on the wire names an older shared context than this one.
    ///
    /// Only so many contexts can be told apart as there are numbers in the tag: those that come
    /// next, whose messages may be early, are the first half of them.
    pub(super) fn is_older(self, wire: u32, context: u32) -> bool {
        let behind = self.shared_context(wire >> self.shared_block()).wrapping_sub(context);
        !self.is_free(wire) && self.shared_context(behind) >= 1 << (self.context() - 1)
    }

    /// True when a tag on the wire names this shared context.
    pub(super) fn is_of(self, wire: u32, context: u32) -> bool {
        self.is_free(wire)
            || self.shared_context(wire >> self.shared_block()) == self.shared_context(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_beyond_those_of_users_has_one_use() {
        let copies = FIRST_COPY..FIRST_COPY + 2 * MAX_SLOTS;
        let collectives = FIRST_COLLECTIVE..FIRST_COLLECTIVE + COLLECTIVES;
        let others = [WORDS, QUESTION, GIVEN, ANSWER, GOTTEN, NEIGHBOURS];
        let mut used: alloc::vec::Vec<u32> = copies.chain(collectives).chain(others).collect();
        used.sort_unstable();
        assert!(used.into_iter().eq(FIRST_COPY..1 << USER_TAG_BITS));
        assert_eq!(FIRST_COPY - 1, 32_570, "the greatest tag that users are promised");
    }
}
