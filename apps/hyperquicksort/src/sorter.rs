//! The sort of one rank's parts, step by step. A step reads the lists and the table of the last
//! commit and makes new ones beside them, which [`Sorter::accept`] puts in their place when they
//! are known to count; so the step can be done again with other members.
//!
//! ```text
//!  keys ── local ── round 1 ── … ── round d            for 2^d parts
//!          sort     cut, exchange, merge; then a row for each new list goes to all ranks
//! ```
//!
//! Round r halves the clusters of 2^(d-r+1) neighbouring parts: the lower half of a cluster keeps
//! what is below its pivot and gets what is below it from the upper half. After round d the order
//! of parts is that of keys.
//!
//! **Differs from the paper**, where each process has one list, sorts it again after each merge,
//! and the middle of one list is the pivot ([`Pivot::Root`]).
//!
//! Camargo and Duarte 2018, section 4.1; Wagar 1987 (hyperquicksort).

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use fampi::Error;
use harness::digest::mix;
use harness::kill_plan::Phase;

use crate::exchange::{Network, Trade};
use crate::keys::{Key, Keys, bits};
use crate::kill_plan;
use crate::list::{List, Spares};
use crate::local::{Local, merge_into};
use crate::owners::Owners;
use crate::planted::is_planted;
use crate::table::{self, Pivot, Row, Split, TOLD};

/// A point that the sort passes; the caller may have plans for it.
pub type Passing<'a> = &'a mut dyn FnMut(Phase);

/// How to sort.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// How many parts, a power of two.
    pub parts: u32,
    /// How own keys are sorted.
    pub local: Local,
    /// How pivots are chosen.
    pub pivot: Pivot,
    /// Where keys go that equal the pivot.
    pub split: Split,
}

impl Way {
    /// How many rounds there are.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.parts.ilog2()
    }

    /// The bit in which the partners of a round differ; rounds are counted from one.
    #[must_use]
    pub const fn bit(&self, round: u32) -> u32 {
        self.parts >> round
    }
}

/// Where the time of one rank went, over all repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the keys to the last commit.
    pub total: Duration,
    /// Sorting own keys.
    pub local: Duration,
    /// Cutting lists, exchanging halves and telling what the new lists are.
    pub exchange: Duration,
    /// Merging.
    pub merge: Duration,
    /// Committing.
    pub commits: Duration,
    /// Keeping lists where they survive their rank.
    pub store: Duration,
}

/// The lists of one rank.
pub struct Sorter<K> {
    /// The member that this rank is.
    pub me: u32,
    /// How to sort.
    pub way: Way,
    /// What to sort.
    pub keys: Keys,
    /// Who has which parts.
    pub owners: Owners,
    /// The lists that this rank has, as the table says.
    pub lists: BTreeMap<u32, List<K>>,
    /// What all ranks know of all lists.
    pub table: Vec<Row<K>>,
    /// Buffers to use.
    pub spares: Spares<K>,
    /// Where the time of this rank went.
    pub times: Times,
    /// The lists of the step under way, for those that change.
    made: BTreeMap<u32, List<K>>,
    /// The table of the step under way.
    told: Vec<Row<K>>,
}

impl<K: Key> Sorter<K> {
    /// A rank that has no lists yet.
    #[must_use]
    pub fn new(me: u32, way: Way, keys: Keys) -> Self {
        Self {
            me,
            table: vec![Row::default(); way.parts as usize],
            way,
            keys,
            owners: Owners::default(),
            lists: BTreeMap::new(),
            spares: Spares::default(),
            times: Times::default(),
            made: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// The parts of this rank, in ascending order.
    #[must_use]
    pub fn mine(&self) -> Vec<u32> {
        self.owners.parts_of(self.me).collect()
    }

    /// The lists as they will be if the step counts.
    pub fn next_lists(&self) -> impl Iterator<Item = (u32, &List<K>)> {
        let next = |part| self.made.get(&part).or_else(|| self.lists.get(&part));
        let parts = self.owners.parts_of(self.me);
        parts.filter_map(move |part| Some((part, next(part)?)))
    }

    /// The table as it will be if the step counts.
    #[must_use]
    pub fn next_table(&self) -> &[Row<K>] {
        &self.told
    }

    /// The step counts: what it made takes the place of what was there.
    pub fn accept(&mut self) {
        self.table = std::mem::take(&mut self.told);
        for (part, list) in std::mem::take(&mut self.made) {
            let old = self.lists.insert(part, list);
            if let Some(old) = old {
                self.spares.put(old);
            }
        }
    }

    /// Forgets the lists that were made by a step that did not count.
    pub fn abandon(&mut self) {
        for list in std::mem::take(&mut self.made).into_values() {
            self.spares.put(list);
        }
        self.told.clear();
    }

    /// Forgets the lists of parts that are another member's.
    pub fn drop_foreign(&mut self) {
        for (part, list) in std::mem::take(&mut self.lists) {
            if self.owners.of(part) == self.me {
                self.lists.insert(part, list);
            } else {
                self.spares.put(list);
            }
        }
    }

    /// Makes the keys that a part begins with.
    ///
    /// # Errors
    /// [`io::Error`] if a file cannot be read.
    pub fn make(&mut self, part: u32) -> io::Result<()> {
        let places = self.keys.places(part, self.way.parts);
        let count = (places.end - places.start) as usize;
        let mut list = match self.lists.remove(&part) {
            Some(list) if list.room() >= count => list,
            _ => self.spares.take(room(count)).map_err(io::Error::other)?,
        };
        let keys = list.first(count).map_err(io::Error::other)?;
        self.keys.fill(places.start, keys)?;
        self.lists.insert(part, list);
        Ok(())
    }

    /// The sum over this rank's keys by which input and output are compared.
    ///
    /// # Errors
    /// [`Error::ArrayInUse`] while a message is received into a list.
    pub fn sum(&self) -> Result<u64, Error> {
        let mut sum = 0_u64;
        for part in self.owners.parts_of(self.me) {
            let Some(list) = self.lists.get(&part) else { continue };
            sum = sum.wrapping_add(sum_of(&list.read()?[..list.len()]));
        }
        Ok(sum)
    }

    /// Sorts the lists that this rank begins with.
    ///
    /// # Errors
    /// [`Error`] of the network.
    pub fn sort_local(
        &mut self,
        net: &mut impl Network,
        passing: Passing<'_>,
    ) -> Result<(), Error> {
        passing(kill_plan::LOCAL);
        self.abandon();
        let began = Instant::now();
        for part in self.mine() {
            let Some(list) = self.lists.get_mut(&part) else { continue };
            let length = list.len();
            self.way.local.sort(list.first(length)?);
        }
        self.times.local += began.elapsed();
        self.tell(net, |_, _| (None, None))
    }

    /// Makes one round; rounds are counted from one.
    ///
    /// # Errors
    /// [`Error`] of the network.
    pub fn round(
        &mut self,
        net: &mut impl Network,
        round: u32,
        passing: Passing<'_>,
    ) -> Result<(), Error> {
        passing(kill_plan::PIVOT);
        self.abandon();
        let bit = self.way.bit(round);
        let pivots = table::pivots(self.way.pivot, &self.table, bit);
        let began = Instant::now();
        let Halved { mut trades, own } = halve(self, bit, &pivots)?;
        net.trade(&mut trades, &mut || passing(kill_plan::EXCHANGE))?;
        let exchanged = Instant::now();
        let mut made = BTreeMap::new();
        for Trade { part, list, into, at, received, .. } in trades {
            made.insert(part, merge(Merge { part, list, into, kept: at, received }, bit)?);
        }
        for merging in own {
            made.insert(merging.part, merge(merging, bit)?);
        }
        self.made = made;
        self.times.exchange += exchanged - began;
        self.times.merge += exchanged.elapsed();
        passing(kill_plan::MERGE);
        self.tell(net, |part, row| table::bounds(part, row, bit, &pivots))
    }

    /// Tells all ranks what the new lists are.
    ///
    /// # Errors
    /// [`Error`] of the network.
    pub fn tell(
        &mut self,
        net: &mut impl Network,
        bounds: impl Fn(u32, &Row<K>) -> (Option<K>, Option<K>),
    ) -> Result<(), Error> {
        let began = Instant::now();
        let bounds = (0..).zip(&self.table).map(|(part, row)| bounds(part, row));
        let bounds: Vec<_> = bounds.collect();
        let mut words = Vec::with_capacity(self.owners.most() * TOLD);
        for (part, list) in self.next_lists() {
            let (low, high) = bounds[part as usize];
            words.extend(Row::of(&list.read()?[..list.len()], low, high).told());
        }
        words.resize(self.owners.most() * TOLD, 0);
        let all = net.gather(&words)?;
        let mut told = vec![Row::default(); self.table.len()];
        for (member, words) in net.members().iter().zip(all.chunks(words.len().max(1))) {
            for (part, words) in self.owners.parts_of(*member).zip(words.chunks(TOLD)) {
                let (low, high) = bounds[part as usize];
                told[part as usize] = Row::heard(words, low, high);
            }
        }
        self.told = told;
        self.times.exchange += began.elapsed();
        Ok(())
    }
}

/// The lists of a round, cut at the pivots: what another rank has the other half of, and what this
/// rank has both halves of.
struct Halved<'a, K> {
    trades: Vec<Trade<'a, K>>,
    own: Vec<Merge<'a, K>>,
}

/// A list whose other half stands behind the place for its own one.
struct Merge<'a, K> {
    part: u32,
    list: &'a List<K>,
    into: List<K>,
    kept: usize,
    received: usize,
}

fn halve<'a, K: Key>(
    sorter: &'a mut Sorter<K>,
    bit: u32,
    pivots: &[Option<K>],
) -> Result<Halved<'a, K>, Error> {
    let mine = sorter.mine();
    let Sorter { lists, spares, table, owners, way, me, .. } = sorter;
    let lists = &*lists;
    let halves = |part: u32| -> Result<_, Error> {
        let Some(list) = lists.get(&part) else { unreachable!("an owner has the list") };
        let pivot = pivots[(part / (2 * bit)) as usize];
        let keys = &list.read()?[..list.len()];
        let cut = pivot.map_or(0, |pivot| way.split.cut(keys, pivot));
        Ok((list, table::halves(part, bit, cut, list.len())))
    };
    let (mut trades, mut own) = (Vec::new(), Vec::new());
    for part in mine {
        let (list, [kept, given]) = halves(part)?;
        let (partner, at) = (part ^ bit, kept.len());
        // Of what will come the greatest length is known; what is not needed is never touched.
        let most = at + table[partner as usize].length as usize;
        let mut into = spares.take(most)?;
        let mut owner = owners.of(partner);
        if is_planted("AskTheNearest") {
            let mut asked = (0..way.parts).map(|k| partner ^ k);
            owner = asked.find(|it| owners.of(*it) == *it).unwrap_or(owner);
        }
        if owner != *me {
            trades.push(Trade { part, partner, owner, list, given, into, at, received: 0 });
            continue;
        }
        let (other, [_, given]) = halves(partner)?;
        let received = given.len();
        into.copy(at, other, given)?;
        own.push(Merge { part, list, into, kept: at, received });
    }
    Ok(Halved { trades, own })
}

fn merge<K: Key>(merging: Merge<'_, K>, bit: u32) -> Result<List<K>, Error> {
    let Merge { part, list, mut into, kept, received } = merging;
    let from = if part & bit == 0 { 0 } else { list.len() - kept };
    merge_into(&list.read()?[from..from + kept], into.first(kept + received)?);
    Ok(into)
}

/// The room for a list of which half is exchanged, so that the buffer is good for later rounds.
fn room(count: usize) -> usize {
    count + count / 2 + count / 8
}

/// A sum over keys that does not depend on their order.
pub fn sum_of<K: Key>(keys: &[K]) -> u64 {
    keys.iter().fold(0, |sum, key| sum.wrapping_add(mix(bits(*key))))
}
