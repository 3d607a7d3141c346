//! A list is a function of the input: lists that are lost are made again from it.
//!
//! After round r of d the list of part v has the keys of 2^r parts of the input, those whose
//! numbers agree with v in the last d - r bits, as far as they lie within the bounds that the
//! pivots of these rounds are. How many keys equal a bound is in the table, as equal keys may have
//! gone either way; which of them they are makes no difference. So the list is
//!
//! ```text
//! of_low × low,  the sorted keys strictly between low and high,  of_high × high
//! ```
//!
//! and its new owner needs nothing but the keys between, which the owners of those parts of the
//! input make once more, choose and send.

use std::io;

use fampi::{Error, RequestId, Tag, Timeout, TryBlock};

use crate::exchange::{gather, rank_of};
use crate::keys::Key;
use crate::list::List;
use crate::planted::is_planted;
use crate::sorter::Sorter;

/// Why lists could not be made again.
#[derive(Debug)]
pub enum Failed {
    /// The block is lost.
    Block(Error),
    /// The input cannot be read.
    Input(io::Error),
    /// The input has other keys than before.
    Changed(u32),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Block(error)
    }
}

/// What of a lost list the parts of this rank have to give.
struct Share<K> {
    part: u32,
    keys: Vec<K>,
}

/// Makes the lists of lost parts again, in the block of all ranks, which know that these are lost
/// after `round` rounds. Every rank calls it.
///
/// # Errors
/// [`Failed`].
pub fn rebuild<K: Key>(
    sorter: &mut Sorter<K>,
    block: &mut TryBlock,
    (rank, members): (usize, &[u32]),
    round: u32,
    lost: &[u32],
) -> Result<(), Failed> {
    let shares = shares(sorter, round, lost).map_err(Failed::Input)?;
    let counts: Vec<u64> = shares.iter().map(|share| share.keys.len() as u64).collect();
    let counts = gather(block, rank, members.len(), &counts)?;
    let of = |from: usize, at: usize| counts[from * lost.len() + at] as usize;
    let parts = sorter.way.parts;
    let mut coming = Vec::new();
    for (at, Share { part, keys }) in shares.into_iter().enumerate() {
        let row = sorter.table[part as usize];
        let owner = rank_of(members, sorter.owners.of(part));
        let tag = Tag(2 * parts + part);
        let found: usize = (0..members.len()).map(|from| of(from, at)).sum();
        if found as u64 != row.inside() {
            return Err(Failed::Changed(part));
        }
        if owner != rank {
            if !keys.is_empty() {
                block.isend(keys, fampi::Rank::new(owner as u32), tag)?;
            }
            continue;
        }
        let mut list = sorter.spares.take(row.length as usize)?;
        let mut place = row.of_low as usize;
        list.first(row.length as usize)?[place..place + keys.len()].copy_from_slice(&keys);
        place += keys.len();
        let mut receives: Vec<RequestId> = Vec::new();
        for from in (0..members.len()).filter(|from| *from != rank && of(*from, at) > 0) {
            let section = [place..place + of(from, at)];
            place = section[0].end;
            let from = fampi::Rank::new(from as u32);
            receives.push(block.irecv_section(list.buffer(), section, from, tag)?);
        }
        coming.push((part, list, receives));
    }
    for (part, list, receives) in coming {
        block.waitall_local(receives, Timeout::Never)?;
        let list = whole(sorter, part, list)?;
        sorter.lists.insert(part, list);
    }
    Ok(())
}

/// The keys that the parts of this rank have to give to each lost list.
fn shares<K: Key>(sorter: &Sorter<K>, round: u32, lost: &[u32]) -> io::Result<Vec<Share<K>>> {
    let mut shares: Vec<_> =
        lost.iter().map(|part| Share { part: *part, keys: Vec::new() }).collect();
    let same = sorter.way.bit(round) - 1;
    for mine in sorter.mine() {
        let mut asked: Vec<_> =
            shares.iter_mut().filter(|share| (share.part ^ mine) & same == 0).collect();
        if asked.is_empty() {
            continue;
        }
        sorter.keys.scan(sorter.keys.places(mine, sorter.way.parts), |some| {
            for Share { part, keys } in &mut asked {
                let row = &sorter.table[*part as usize];
                keys.extend(some.iter().filter(|key| row.surrounds(**key)));
            }
        })?;
    }
    Ok(shares)
}

/// The list of a part whose keys between the bounds are there.
fn whole<K: Key>(sorter: &Sorter<K>, part: u32, mut list: List<K>) -> Result<List<K>, Error> {
    let row = sorter.table[part as usize];
    let length = list.len();
    let keys = list.first(length)?;
    let (low, rest) = keys.split_at_mut(row.of_low as usize);
    let (inside, high) = rest.split_at_mut(row.inside() as usize);
    low.fill(row.low.unwrap_or_default());
    sorter.way.local.sort(inside);
    if !is_planted("ForgetTheUpperCopies") {
        high.fill(row.high.unwrap_or_default());
    }
    Ok(list)
}
