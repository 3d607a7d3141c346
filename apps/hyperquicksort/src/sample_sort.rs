//! A sample sort, for comparison: each key travels once. Plain: it dies with its first rank.
//!
//! Each rank sorts its own keys and shows some at regular places; from these all ranks choose the
//! same splitters, cut their lists at them, and each part goes to the rank of its number, which
//! merges what comes.
//!
//! Shi and Schaeffer 1992 (parallel sorting by regular sampling).

use std::time::Instant;

use fampi::Error;
use harness::account::Account;
use harness::timeline;
use mpi::datatype::{Partition, PartitionMut};
use mpi::traits::CommunicatorCollectives;

use crate::exchange::{Network, Plain};
use crate::keys::{Key, bits};
use crate::local::merge;
use crate::options::Options;
use crate::output;
use crate::owners::Owners;
use crate::plain::total;
use crate::report::Sorted;
use crate::resilience::SortError;
use crate::sorter::Sorter;
use crate::verify;

/// How many keys each rank shows.
const SAMPLES: usize = 64;

/// Sorts as rank `rank` of `ranks`, on bare MPI.
///
/// # Errors
/// [`SortError`], of the input on this rank only; the others wait for it.
pub fn sort<K: Key>(
    net: &mut Plain,
    rank: u32,
    ranks: u32,
    options: &Options,
) -> Result<Sorted, SortError> {
    let mut way = options.way(ranks)?;
    // One list on each rank.
    way.parts = ranks;
    let mut sorter = Sorter::<K>::new(rank, way, options.keys.clone());
    sorter.owners = Owners::of_each(ranks);
    timeline::run_begins(rank, false);
    let (mut input, mut runs) = (0, Runs::default());
    for _ in 0..options.repeat {
        sorter.make(rank).map_err(|error| SortError::unreadable(&options.keys, &error))?;
        input = total(net, sorter.sum()?)?;
        let began = Instant::now();
        let Some(list) = sorter.lists.get_mut(&rank) else { unreachable!("it was made") };
        let length = list.len();
        let keys = list.first(length)?;
        options.local.sort(keys);
        let sorted = Instant::now();
        runs.exchange(net, keys)?;
        let exchanged = Instant::now();
        runs.merge();
        sorter.times.merge += exchanged.elapsed();
        total(net, 0)?;
        sorter.times.total += began.elapsed();
        sorter.times.local += sorted - began;
        sorter.times.exchange += exchanged - sorted;
    }
    // Where the result is looked at.
    let mut list = sorter.spares.take(runs.keys.len())?;
    list.first(runs.keys.len())?.copy_from_slice(&runs.keys);
    sorter.lists.insert(rank, list);
    sorter.tell(net, |_, _| (None, None))?;
    sorter.accept();
    let summary = verify::summarize(net, &sorter, input)?;
    if let Some(path) = &options.output {
        let written = output::write(net, path, &sorter)?;
        written.map_err(|error| SortError::unwritable(path, &error))?;
    }
    timeline::run_ends(&Account::default());
    let (first, times) = (rank == 0, sorter.times);
    Ok(Sorted { ranks, first, summary, times, events: None, group: None, files: None })
}

/// Sorted lists of different ranks, one after the other.
#[derive(Default)]
struct Runs<K> {
    keys: Vec<K>,
    /// Where each ends.
    ends: Vec<usize>,
    /// The buffer that they are merged into.
    merged: Vec<K>,
}

impl<K: Key> Runs<K> {
    /// Cuts the sorted keys of all ranks at the same splitters, and gets this rank's parts.
    fn exchange(&mut self, net: &mut Plain, keys: &[K]) -> Result<(), Error> {
        let ranks = net.members().len();
        let places = (0..SAMPLES).map(|sample| (2 * sample + 1) * keys.len() / (2 * SAMPLES));
        let shown: Vec<u64> = places.map(|at| keys.get(at).map_or(0, |key| bits(*key))).collect();
        let all = net.gather(&[&[keys.len() as u64][..], &shown].concat())?;
        let cuts = cuts(keys, &splitters(&all, ranks));
        let counts: Vec<i32> = cuts.windows(2).map(|ends| (ends[1] - ends[0]) as i32).collect();
        let starts: Vec<i32> = cuts[..ranks].iter().map(|cut| *cut as i32).collect();
        let mut coming = vec![0_i32; ranks];
        net.world().all_to_all_into(&counts[..], &mut coming[..]);
        let mut end = 0;
        self.ends = coming
            .iter()
            .map(|count| {
                end += *count as usize;
                end
            })
            .collect();
        self.keys.resize(end, K::default());
        let begins: Vec<i32> =
            self.ends.iter().zip(&coming).map(|(end, count)| *end as i32 - count).collect();
        let sent = Partition::new(keys, &counts[..], &starts[..]);
        let mut received = PartitionMut::new(&mut self.keys[..], &coming[..], &begins[..]);
        net.world().all_to_all_varcount_into(&sent, &mut received);
        Ok(())
    }

    /// Makes one run of all.
    fn merge(&mut self) {
        self.merged.resize(self.keys.len(), K::default());
        while self.ends.len() > 1 {
            let (mut from, mut ends) = (0, Vec::new());
            for pair in self.ends.chunks(2) {
                let (middle, end) = (pair[0], pair[pair.len() - 1]);
                let (one, other) = self.keys[from..end].split_at(middle - from);
                merge(one, other, &mut self.merged[from..end]);
                ends.push(end);
                from = end;
            }
            std::mem::swap(&mut self.keys, &mut self.merged);
            self.ends = ends;
        }
    }
}

/// The keys that divide what all ranks have shown into as many equal parts as there are ranks.
fn splitters<K: Key>(shown: &[u64], ranks: usize) -> Vec<K> {
    let of_rank = |words: &[u64]| {
        let (length, samples) = (words[0], words[1..].to_vec());
        samples.into_iter().filter(move |_| length > 0).map(move |it| (it, length))
    };
    let samples = shown.chunks(SAMPLES + 1).flat_map(of_rank);
    let mut samples: Vec<(K, u64)> =
        samples.map(|(word, weight)| (K::of_number(word as i64), weight)).collect();
    samples.sort_unstable();
    let total: u128 = samples.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let (mut before, mut splitters) = (0, Vec::new());
    for (key, weight) in samples {
        before += u128::from(weight);
        while splitters.len() + 1 < ranks
            && before * ranks as u128 >= total * (splitters.len() + 1) as u128
        {
            splitters.push(key);
        }
    }
    splitters.resize(ranks - 1, K::default());
    splitters
}

/// Where a sorted list is cut, with its beginning and its end.
fn cuts<K: Key>(keys: &[K], splitters: &[K]) -> Vec<usize> {
    let inner = splitters.iter().map(|splitter| keys.partition_point(|key| key <= splitter));
    std::iter::once(0).chain(inner).chain([keys.len()]).collect()
}
