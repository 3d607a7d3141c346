//! Codes over groups of ranks: requests of a block, made of messages in two rounds.
//!
//! ```text
//! chunks of the own state ──▶ those who encode their stripes
//! parities of the own stripe ──▶ those who keep them            once all of its chunks are here
//! ```
//!
//! Others wait for the parities that this rank makes, so that a code goes on in every turn of the
//! engine, as a collective over the living does ([`super::living`]); and if it ends here without
//! success, all are told. Parities of all states have one tag: those of a block go in the order in
//! which its states were protected, whichever chunks come first.

use alloc::{boxed::Box, vec, vec::Vec};
use core::mem;

use super::{
    BlockKey, Code, Engine, Need,
    coding::Coding,
    exchange::{Exchange, Role},
};
use crate::seam::buffer::AnyBuffer;

impl Engine {
    /// Posts what this rank has to do with the code of its group as the next request of a block,
    /// whose buffer will have the parities that this rank keeps.
    pub(crate) fn post_code(&mut self, key: BlockKey, code: Code<'_>) -> usize {
        self.settle_block(key);
        let Code { tags, state, chunk_bytes, chunks, stripe, .. } = code;
        let mut exchange = Exchange::new(AnyBuffer::of(code.kept), stripe.len() + chunks.len());
        for (number, rank) in stripe.iter().enumerate() {
            let mut chunk = self.exchanges.parts.bytes(chunk_bytes);
            chunk.resize(chunk_bytes, 0);
            let to = (*rank, tags[0]);
            self.add_message(key, &mut exchange, to, Role::Chunk(number), AnyBuffer::of(chunk));
        }
        for (rank, range) in chunks {
            let mut chunk = self.exchanges.parts.bytes(chunk_bytes);
            chunk.clear();
            chunk.extend_from_slice(&state[range]);
            chunk.resize(chunk_bytes, 0);
            let to = (rank, tags[0]);
            self.add_message(key, &mut exchange, to, Role::Sent, AnyBuffer::of(chunk));
        }
        exchange.coding = Some(Box::new(Coding {
            tag: tags[1],
            chunk_bytes,
            chunks: vec![Vec::new(); stripe.len()],
            keepers: code.keepers,
            wards: code.wards,
            encode: code.encode,
        }));
        let index = self.add_exchange(key, exchange, Need::Coded);
        self.exchanges.collectives.push((key, index));
        index
    }

    /// Makes the parities of a stripe, all chunks of which are here: keeps the first, and sends the
    /// others.
    pub(super) fn pass_parities(&mut self, key: BlockKey, exchange: &mut Exchange, coding: Coding) {
        let Coding { tag, chunk_bytes, mut chunks, keepers, wards, encode } = coding;
        for (number, ward) in (1..).zip(wards) {
            let place = number * chunk_bytes..(number + 1) * chunk_bytes;
            self.add_part(key, exchange, (ward, tag), &place, true);
        }
        let parts = &mut self.exchanges.parts;
        let mut parities: Vec<Vec<u8>> =
            (0..=keepers.len()).map(|_| parts.bytes(chunk_bytes)).collect();
        encode(&mut chunks, &mut parities);
        for chunk in chunks {
            parts.keep(AnyBuffer::of(chunk));
        }
        let mut parities = parities.into_iter().map(AnyBuffer::of);
        if let (Some(mut first), Some(kept)) = (parities.next(), exchange.held()) {
            if keepers.is_empty() {
                mem::swap(kept, &mut first);
            } else {
                kept.fill(0, &*first);
            }
            self.exchanges.parts.keep(first);
        }
        for (keeper, parity) in keepers.into_iter().zip(parities) {
            self.add_message(key, exchange, (keeper, tag), Role::Sent, parity);
        }
    }
}
