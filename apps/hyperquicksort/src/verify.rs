//! Whether the keys are sorted, and the numbers by which two runs are compared.

use fampi::Error;
use harness::digest::Digest;

use crate::exchange::Network;
use crate::keys::{Key, bits};
use crate::sorter::{Sorter, sum_of};

/// What all ranks know of the sorted keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many.
    pub keys: u64,
    /// The least, the one in the middle and the greatest; none where there are no keys.
    pub values: Option<[i64; 3]>,
    /// The fingerprint of the whole.
    pub digest: Digest,
    /// What is wrong, if something is.
    pub wrong: Option<Wrong>,
}

/// Why the result is no sorted order of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A list is not sorted.
    #[error("the list of part {0} is not sorted")]
    List(u32),
    /// Keys of a part are less than those of a part before it.
    #[error("part {0} begins with a key that is less than one before it")]
    Order(u32),
    /// Keys are missing, or there are too many.
    #[error("there are {0} keys, not as many as there were")]
    Count(u64),
    /// The keys are others than those of the input.
    #[error("the keys are not those of the input")]
    Keys,
}

/// What a rank tells of a list: its length, whether it is sorted, its first and last key, and the
/// sum of its keys.
const TOLD: usize = 5;

/// Looks at all lists. `input` is the sum over the keys of all ranks before they were sorted.
///
/// # Errors
/// [`Error`] of the network.
pub fn summarize<K: Key>(
    net: &mut impl Network,
    sorter: &Sorter<K>,
    input: u64,
) -> Result<Summary, Error> {
    let mut words = Vec::new();
    for part in sorter.mine() {
        let Some(list) = sorter.lists.get(&part) else { continue };
        let keys = &list.read()?[..list.len()];
        let end = |key: Option<&K>| key.map_or(0, |key| bits(*key));
        let sorted = u64::from(keys.is_sorted());
        words.extend([keys.len() as u64, sorted, end(keys.first()), end(keys.last())]);
        words.push(sum_of(keys));
    }
    words.resize(sorter.owners.most() * TOLD, 0);
    let all = net.gather(&words)?;
    let mut lists = vec![[0; TOLD]; sorter.table.len()];
    for (member, words) in net.members().iter().zip(all.chunks(words.len())) {
        for (part, words) in sorter.owners.parts_of(*member).zip(words.chunks(TOLD)) {
            lists[part as usize].copy_from_slice(words);
        }
    }
    let keys = lists.iter().map(|[length, ..]| length).sum();
    let own = own_places(sorter, &lists, keys / 2)?;
    let all = net.gather(&own)?;
    let digests = all.chunks(own.len()).map(|words| Digest::from_bits(words[0]));
    let digest = digests.fold(Digest::EMPTY, Digest::and);
    let median = all.chunks(own.len()).find(|words| words[1] > 0).map(|words| words[2] as i64);
    let mut ends = lists.iter().filter(|[length, ..]| *length > 0);
    let least = ends.next().map(|[_, _, first, ..]| *first as i64);
    let values = least.zip(median).map(|(least, median)| {
        let last = lists.iter().rfind(|[length, ..]| *length > 0);
        [least, median, last.map_or(least, |[_, _, _, last, _]| *last as i64)]
    });
    let wrong = judge(&lists, keys, (sorter.keys.count, input));
    Ok(Summary { keys, values, digest, wrong })
}

/// The digest of this rank's keys at their places, and the key at place `middle`, if it is here.
fn own_places<K: Key>(
    sorter: &Sorter<K>,
    lists: &[[u64; TOLD]],
    middle: u64,
) -> Result<[u64; 3], Error> {
    let (mut digest, mut median) = (Digest::EMPTY, None);
    for (part, first) in first_places(lists) {
        let Some(list) = sorter.lists.get(&part) else { continue };
        if sorter.owners.of(part) != sorter.me {
            continue;
        }
        let keys = &list.read()?[..list.len()];
        for (place, key) in (first..).zip(keys) {
            digest = digest.and(Digest::of_bits(place, bits(*key)));
        }
        let here = middle.checked_sub(first).and_then(|at| keys.get(at as usize));
        median = here.copied().or(median);
    }
    Ok([digest.bits(), u64::from(median.is_some()), median.map_or(0, bits)])
}

/// Each part with the place of its first key in the whole.
fn first_places(lists: &[[u64; TOLD]]) -> impl Iterator<Item = (u32, u64)> {
    let mut first = 0;
    (0..).zip(lists).map(move |(part, [length, ..])| {
        first += length;
        (part, first - length)
    })
}

fn judge(lists: &[[u64; TOLD]], keys: u64, (count, input): (u64, u64)) -> Option<Wrong> {
    let mut before = i64::MIN;
    let mut sum = 0_u64;
    for (part, [length, sorted, first, last, of_keys]) in (0..).zip(lists) {
        if *length == 0 {
            continue;
        }
        if *sorted == 0 {
            return Some(Wrong::List(part));
        }
        if (*first as i64) < before {
            return Some(Wrong::Order(part));
        }
        before = *last as i64;
        sum = sum.wrapping_add(*of_keys);
    }
    if keys != count {
        return Some(Wrong::Count(keys));
    }
    (sum != input).then_some(Wrong::Keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_result_is_found_and_a_right_one_is_not() {
        let list = |keys: &[i32]| {
            let end = |key: Option<&i32>| key.map_or(0, |key| bits(*key));
            let sorted = u64::from(keys.is_sorted());
            [keys.len() as u64, sorted, end(keys.first()), end(keys.last()), sum_of(keys)]
        };
        let input = (4, sum_of(&[3, -1, 2, 2]));
        let judged = |lists: &[&[i32]]| {
            let keys = lists.iter().map(|list| list.len() as u64).sum();
            let lists: Vec<_> = lists.iter().map(|keys| list(keys)).collect();
            judge(&lists, keys, input)
        };
        assert_eq!(judged(&[&[-1, 2], &[], &[2, 3]]), None);
        assert_eq!(judged(&[&[2, -1], &[2, 3]]), Some(Wrong::List(0)));
        assert_eq!(judged(&[&[2, 3], &[], &[-1, 2]]), Some(Wrong::Order(2)));
        assert_eq!(judged(&[&[-1, 2], &[3]]), Some(Wrong::Count(3)));
        assert_eq!(judged(&[&[-1, 2], &[3, 3]]), Some(Wrong::Keys));
    }
}
