//! What a rank has to do with the code of its group ([`super::encode`]).

use alloc::vec::Vec;
use core::{mem, ops::Range};

use crate::{rank::Rank, seam::buffer::AnyBuffer};

/// Overwrites parities with those of chunks that have one length, and may take these apart.
type Encode = fn(chunks: &mut [Vec<u8>], parities: &mut [Vec<u8>]);

/// What a rank brings to the code of its group, and what it keeps of it.
pub(crate) struct Code<'a> {
    /// The tags of chunks, and of parities.
    pub(crate) tags: [u32; 2],
    /// The bytes of the own state.
    pub(crate) state: &'a [u8],
    pub(crate) chunk_bytes: usize,
    /// To whom the chunks of the state go, and where they lie in it; zeros follow on shorter ones.
    pub(crate) chunks: Vec<(Rank, Range<usize>)>,
    /// Whose chunks make the stripe that this rank encodes, in their order.
    pub(crate) stripe: Vec<Rank>,
    /// Who keeps the second parity of this stripe, the third one, and so on.
    pub(crate) keepers: Vec<Rank>,
    /// Of whose stripes this rank keeps the second parity, the third one, and so on.
    pub(crate) wards: Vec<Rank>,
    /// Room for the parities that this rank keeps: the first of its own stripe, then those.
    pub(crate) kept: Vec<u8>,
    pub(crate) encode: Encode,
}

/// What is to be done once all chunks of a stripe are here.
pub(super) struct Coding {
    /// The tag of parities.
    pub(super) tag: u32,
    pub(super) chunk_bytes: usize,
    /// Those that have come; others are empty.
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) keepers: Vec<Rank>,
    pub(super) wards: Vec<Rank>,
    pub(super) encode: Encode,
}

impl Coding {
    /// Takes a chunk with so many bytes; false if these are not all.
    pub(super) fn take(&mut self, number: usize, bytes: usize, part: &mut AnyBuffer) -> bool {
        let part = mem::replace(part, AnyBuffer::nothing());
        let chunk =
            part.into_vec().filter(|chunk| bytes == self.chunk_bytes && chunk.len() == bytes);
        let is_whole = chunk.is_some();
        self.chunks[number] = chunk.unwrap_or_default();
        is_whole
    }
}
