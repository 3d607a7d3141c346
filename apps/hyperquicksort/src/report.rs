//! What a run says at its end, and the last line.

use std::fmt;
use std::time::Duration;

use fampi::{
    Rank,
    membership::{Membership, levels::Levels},
};

use crate::files::Files;
use crate::options::{Members, Options};
use crate::sorter::Times;
use crate::verify::Summary;

/// What happened in a run, the same on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Ranks that died.
    pub lost: u64,
    /// Which membership this is, counted from one.
    pub epoch: u64,
    /// Steps that had begun and were made again.
    pub redone: u64,
    /// Keys of lists that were made again from the input.
    pub rebuilt: u64,
    /// How often a rank was without work, for being slow or new.
    pub benched: u64,
    /// How often one came back.
    pub back: u64,
}

/// Words of events.
pub const EVENT_WORDS: usize = 6;

impl Events {
    /// As words for a rank that knows nothing.
    #[must_use]
    pub const fn words(&self) -> [u64; EVENT_WORDS] {
        [self.lost, self.epoch, self.redone, self.rebuilt, self.benched, self.back]
    }

    /// Counts who is benched by a change of the group, and who comes back, of those who live.
    pub fn count(&mut self, before: &Membership, after: &Membership) {
        let turned = |rank: &Rank| after.counter(*rank) != before.counter(*rank);
        self.benched += after.benched().filter(turned).count() as u64;
        self.back += after.members().filter(|rank| before.is_benched(*rank)).count() as u64;
    }

    /// Of these words.
    #[must_use]
    pub const fn of_words(words: [u64; EVENT_WORDS]) -> Self {
        let [lost, epoch, redone, rebuilt, benched, back] = words;
        Self { lost, epoch, redone, rebuilt, benched, back }
    }
}

/// The end of a sort, on every rank.
#[derive(Debug)]
pub struct Sorted {
    /// The number of ranks of the launch.
    pub ranks: u32,
    /// True on the rank that speaks for all: the first that lives.
    pub first: bool,
    /// What all ranks know of the result.
    pub summary: Summary,
    /// Where the time of this rank went.
    pub times: Times,
    /// What happened, unless this was the plain program.
    pub events: Option<Events>,
    /// Who worked in the end, and on which nodes, unless this was the plain program.
    pub group: Option<Levels>,
    /// The files with lists, which are to be removed once all ranks know that the sort has ended.
    pub files: Option<Files>,
}

impl Sorted {
    /// Removes the files with lists, after [`fampi::World::finalize`]: that returns when all ranks
    /// that live have come to their end. Before, this rank may know of it, die and leave others who
    /// have to go back to the last lists.
    pub fn clear(&self) {
        if let Some(files) = self.files.as_ref().filter(|_| self.first) {
            files.clear();
        }
    }
}

/// The text at the end of a run: sentences, then the last line, by which two runs are compared.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The command line.
    pub options: &'a Options,
    /// The result.
    pub sorted: &'a Sorted,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, sorted } = self;
        let Sorted { ranks, summary, times, events, group, .. } = sorted;
        let Times { total, local, exchange, merge, commits, store } = times;
        let repeat = f64::from(options.repeat);
        let seconds = |time: &Duration| time.as_secs_f64() / repeat;
        let each = seconds(total) * 1e9 / summary.keys.max(1) as f64;
        writeln!(
            f,
            "sorted in {:.4} s, {each:.2} ns for each key; here local {:.4} s, exchange {:.4} s, \
             merge {:.4} s, commits {:.4} s, store {:.4} s",
            seconds(total),
            seconds(local),
            seconds(exchange),
            seconds(merge),
            seconds(commits),
            seconds(store),
        )?;
        if let Some(events) = events.filter(|events| events.lost + events.redone > 0) {
            let Events { lost, epoch, redone, rebuilt, .. } = events;
            writeln!(
                f,
                "ranks lost: {lost}, epoch: {epoch}, steps redone: {redone}, keys made again from \
                 the input: {rebuilt}"
            )?;
        }
        if let Some(events) = events.filter(|_| options.membership == Members::Tests) {
            let Events { epoch, benched, back, .. } = events;
            writeln!(f, "benched: {benched}, back: {back}, epoch: {epoch}")?;
        }
        if let Some(group) = group.as_ref().filter(|_| options.membership == Members::Tests) {
            writeln!(f, "working at the end: {}", group.view().members().count())?;
            let nodes = times_benched(group);
            if nodes.len() > 1 {
                writeln!(f, "nodes benched: {}", nodes.join(", "))?;
                writeln!(f, "nodes at work at the end: {}", at_work(group).join(", "))?;
            }
        }
        let value = |at: usize| {
            summary.values.map_or_else(|| "none".to_owned(), |values| values[at].to_string())
        };
        let Options { keys, key_type, .. } = options;
        write!(
            f,
            "hyperquicksort: ranks={ranks} keys={} type={key_type} input={} seed={} min={} \
             median={} max={} digest={}",
            summary.keys,
            keys.input,
            keys.seed,
            value(0),
            value(1),
            value(2),
            summary.digest,
        )
    }
}

/// How often each node was benched, by its number.
fn times_benched(group: &Levels) -> Vec<String> {
    let nodes = group.nodes();
    (0..nodes.size()).map(|node| nodes.counter(node.into()).div_ceil(2).to_string()).collect()
}

/// The numbers of the nodes that were not benched, and have ranks.
fn at_work(group: &Levels) -> Vec<String> {
    group.nodes().members().map(|node| node.to_string()).collect()
}
