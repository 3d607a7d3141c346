//! The bytes of a code over a group: parities of chunks, and what was lost from what is left.

use alloc::{vec, vec::Vec};
use core::{mem, ops::Range};

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::protocol::redundancy::{Part, Stripes};

/// What only a mistake of ours can make wrong: the number and the length of shards.
const SHARDS: &str = "the code has as many shards of one length as it was told";

/// The bytes of a piece.
const PIECE: usize = 8192;

/// What is left of a group: the state of each rank, and its parities one after the other; nothing
/// of those that are lost.
pub(super) struct Left<'a> {
    pub(super) stripes: Stripes,
    pub(super) chunk_bytes: usize,
    pub(super) states: Vec<Option<&'a [u8]>>,
    pub(super) parities: Vec<Option<&'a [u8]>>,
}

/// Overwrites these with the parities of chunks, all of which have one length: as many as the code
/// survives losses. What the chunks have then counts for nothing.
pub(super) fn encode(chunks: &mut [Vec<u8>], parities: &mut [Vec<u8>]) {
    if let ([parity], Some((first, others))) = (&mut *parities, chunks.split_first_mut()) {
        mem::swap(parity, first);
        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        return add(parity, &others);
    }
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let bytes = chunks[0].len();
    parities.iter_mut().for_each(Vec::clear);
    let mut encoder = None;
    for piece in pieces(bytes) {
        let encoder = match &mut encoder {
            Some((encoder, length)) if *length == piece.len() => encoder,
            _ => {
                let (ranks, losses) = (chunks.len(), parities.len());
                let new = ReedSolomonEncoder::new(ranks, losses, piece.len()).expect(SHARDS);
                &mut encoder.insert((new, piece.len())).0
            }
        };
        for chunk in &chunks {
            encoder.add_original_shard(&chunk[piece.clone()]).expect(SHARDS);
        }
        let encoded = encoder.encode().expect(SHARDS);
        for (number, parity) in parities.iter_mut().enumerate() {
            parity.extend_from_slice(encoded.recovery(number).expect(SHARDS));
        }
    }
}

/// Where the pieces lie that a chunk is coded in, one after the other: those of all chunks fit into
/// a cache.
fn pieces(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bytes).step_by(PIECE).map(move |begin| begin..(begin + PIECE).min(bytes))
}

/// Adds chunks to one of their length: without a carry, bit by bit.
fn add(sum: &mut [u8], chunks: &[&[u8]]) {
    for piece in pieces(sum.len()) {
        for chunk in chunks {
            let (sum, bytes) = (&mut sum[piece.clone()], &chunk[piece.clone()]);
            sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
}

impl Left<'_> {
    /// The state of a lost rank, as long as all its chunks, and its parities.
    pub(super) fn restore(&self, lost: usize) -> (Vec<u8>, Vec<u8>) {
        let Self { stripes, chunk_bytes: bytes, .. } = *self;
        let (mut state, mut parities) =
            (vec![0; bytes * stripes.chunks()], vec![0; bytes * stripes.losses]);
        if bytes == 0 {
            return (state, parities);
        }
        for stripe in 0..stripes.ranks {
            let mut chunks = self.chunks(stripe);
            let (all, at, found) = match stripes.part(stripe, lost) {
                Part::Chunk(chunk) => (&mut state, chunk, chunks.swap_remove(chunk)),
                Part::Parity(number) => {
                    let mut found = vec![Vec::new(); stripes.losses];
                    encode(&mut chunks, &mut found);
                    (&mut parities, number, found.swap_remove(number))
                }
            };
            all[at * bytes..(at + 1) * bytes].copy_from_slice(&found);
        }
        (state, parities)
    }

    /// All chunks of a stripe, those of lost ranks made again.
    fn chunks(&self, stripe: usize) -> Vec<Vec<u8>> {
        let Self { stripes, chunk_bytes: bytes, .. } = *self;
        let chunk = |number: usize| {
            let state = self.states[stripes.rank(stripe, Part::Chunk(number))]?;
            let range = Stripes::chunk(number, bytes, state.len());
            Some(padded(&state[range], bytes))
        };
        let found: Vec<Option<Vec<u8>>> = (0..stripes.chunks()).map(chunk).collect();
        let parity = |number: usize| {
            let all = self.parities[stripes.rank(stripe, Part::Parity(number))]?;
            all.get(number * bytes..(number + 1) * bytes)
        };
        if found.iter().all(Option::is_some) {
            return found.into_iter().flatten().collect();
        }
        if stripes.losses == 1 {
            let mut sum = parity(0).expect(SHARDS).to_vec();
            let known: Vec<&[u8]> = found.iter().flatten().map(Vec::as_slice).collect();
            add(&mut sum, &known);
            return found.into_iter().map(|it| it.unwrap_or_else(|| sum.clone())).collect();
        }
        let mut made = vec![Vec::with_capacity(bytes); stripes.chunks()];
        for piece in pieces(bytes) {
            let (ranks, losses) = (stripes.chunks(), stripes.losses);
            let mut decoder = ReedSolomonDecoder::new(ranks, losses, piece.len()).expect(SHARDS);
            for (number, chunk) in found.iter().enumerate() {
                if let Some(chunk) = chunk {
                    decoder.add_original_shard(number, &chunk[piece.clone()]).expect(SHARDS);
                }
            }
            for number in 0..losses {
                if let Some(parity) = parity(number) {
                    decoder.add_recovery_shard(number, &parity[piece.clone()]).expect(SHARDS);
                }
            }
            let decoded = decoder.decode().expect(SHARDS);
            for (number, restored) in decoded.restored_original_iter() {
                made[number].extend_from_slice(restored);
            }
        }
        let all = found.into_iter().zip(made);
        all.map(|(it, made)| it.unwrap_or(made)).collect()
    }
}

/// These bytes, and zeros up to this length.
fn padded(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut longer = Vec::with_capacity(length);
    longer.extend_from_slice(bytes);
    longer.resize(length, 0);
    longer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a state that depend on all of these numbers.
    fn state(rank: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (rank * 89 + at * at * 31 + 7) as u8).collect()
    }

    /// The parities of each rank.
    fn encoded(stripes: Stripes, states: &[Vec<u8>], bytes: usize) -> Vec<Vec<u8>> {
        let of = |rank: usize| {
            let mut all = Vec::new();
            for number in 0..stripes.losses {
                let stripe = stripes.stripe(rank, Part::Parity(number));
                let chunk = |at: usize| {
                    let state = &states[stripes.rank(stripe, Part::Chunk(at))];
                    padded(&state[Stripes::chunk(at, bytes, state.len())], bytes)
                };
                let mut chunks: Vec<Vec<u8>> = (0..stripes.chunks()).map(chunk).collect();
                let mut parities = vec![vec![7]; stripes.losses];
                encode(&mut chunks, &mut parities);
                all.append(&mut parities[number]);
            }
            all
        };
        (0..stripes.ranks).map(of).collect()
    }

    #[test]
    fn all_that_any_ranks_lose_comes_back_if_they_are_few_enough() {
        for ranks in 2..8 {
            for losses in 1..ranks.min(5) {
                let stripes = Stripes { ranks, losses };
                // Of different lengths, also none at all.
                let states: Vec<Vec<u8>> =
                    (0..ranks).map(|rank| state(rank, 37 * rank % 101)).collect();
                let longest = states.iter().map(Vec::len).max().unwrap();
                let chunk_bytes = stripes.chunk_bytes(longest);
                let parities = encoded(stripes, &states, chunk_bytes);
                for lost in (0..1_u32 << ranks).filter(|it| it.count_ones() as usize <= losses) {
                    let is_left = |rank: &usize| lost & 1 << rank == 0;
                    let of = |all: &[Vec<u8>]| -> Vec<Option<Vec<u8>>> {
                        let each = all.iter().enumerate();
                        each.map(|(rank, it)| is_left(&rank).then(|| it.clone())).collect()
                    };
                    let (some, others) = (of(&states), of(&parities));
                    let left = Left {
                        stripes,
                        chunk_bytes,
                        states: some.iter().map(Option::as_deref).collect(),
                        parities: others.iter().map(Option::as_deref).collect(),
                    };
                    for rank in (0..ranks).filter(|rank| !is_left(rank)) {
                        let (state, parity) = left.restore(rank);
                        let known = &states[rank];
                        assert_eq!(state[..known.len()], known[..], "{stripes:?} {lost:b}");
                        assert!(state[known.len()..].iter().all(|byte| *byte == 0));
                        assert_eq!(parity, parities[rank], "{stripes:?} {lost:b}");
                    }
                }
            }
        }
    }

    #[test]
    fn states_without_bytes_are_restored_to_nothing() {
        let stripes = Stripes { ranks: 4, losses: 2 };
        let mut none = [vec![], vec![]];
        encode(&mut [vec![], vec![]], &mut none);
        assert!(none.iter().all(Vec::is_empty));
        let (states, parities) = (vec![None, Some(&[][..]), None, Some(&[][..])], vec![None; 4]);
        let left = Left { stripes, chunk_bytes: 0, states, parities };
        assert_eq!(left.restore(0), (Vec::new(), Vec::new()));
    }
}
