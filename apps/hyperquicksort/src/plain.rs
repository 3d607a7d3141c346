//! The plain programs: the same sort without blocks or recovery, and a sample sort.

use std::time::Instant;

use fampi::Error;
use harness::account::Account;
use harness::timeline;

use crate::exchange::Network;
use crate::keys::Key;
use crate::options::Options;
use crate::output;
use crate::owners::Owners;
use crate::report::Sorted;
use crate::resilience::SortError;
use crate::sorter::Sorter;
use crate::verify;

/// Sorts as rank `rank` of `ranks`.
///
/// # Errors
/// [`SortError`], of the input on this rank only; the others wait for it.
pub fn sort<K: Key>(
    net: &mut impl Network,
    rank: u32,
    ranks: u32,
    options: &Options,
) -> Result<Sorted, SortError> {
    let way = options.way(ranks)?;
    let rounds = way.rounds();
    let mut sorter = Sorter::<K>::new(rank, way, options.keys.clone());
    sorter.owners = Owners::new(options.owners, sorter.way.parts, net.members());
    timeline::run_begins(rank, false);
    let mut input = 0;
    for _ in 0..options.repeat {
        for part in sorter.mine() {
            sorter.make(part).map_err(|error| SortError::unreadable(&options.keys, &error))?;
        }
        sorter.table.fill_with(Default::default);
        input = total(net, sorter.sum()?)?;
        let began = Instant::now();
        sorter.sort_local(net, &mut |_| {})?;
        sorter.accept();
        for round in 1..=rounds {
            sorter.round(net, round, &mut |_| {})?;
            sorter.accept();
        }
        // All ranks have come to the gather that ends the last round.
        sorter.times.total += began.elapsed();
    }
    let summary = verify::summarize(net, &sorter, input)?;
    if let Some(path) = &options.output {
        let written = output::write(net, path, &sorter)?;
        written.map_err(|error| SortError::unwritable(path, &error))?;
    }
    timeline::run_ends(&Account::default());
    let (first, times) = (rank == 0, sorter.times);
    Ok(Sorted { ranks, first, summary, times, events: None, group: None, files: None })
}

/// The sum over all ranks.
pub(crate) fn total(net: &mut impl Network, word: u64) -> Result<u64, Error> {
    Ok(net.gather(&[word])?.into_iter().fold(0, u64::wrapping_add))
}
