//! Who is who: the processes of a universe and the places they hold.

use alloc::vec::Vec;

use super::planted::planted;
use crate::{
    ids::CommId,
    rank::{Rank, RankSet},
};

/// Where replacements go.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Placement {
    /// Survivors keep their ranks, replacements take exactly the failed ranks
    /// (`MPI_Comm_irebuild`, paper §3.3).
    #[default]
    SameRanks,
    /// Survivors move together, replacements follow behind them (shrink, spawn and merge, paper
    /// algorithm 1); `World::origin` tells whom a rank stands for.
    Append,
}

/// The places in a universe; equal on all its members that belong to the world.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Roster {
    /// 0 for the launch, one more with each rebuild.
    pub generation: u32,
    /// Attempts at the recovery that made this roster.
    pub attempts: u32,
    /// The last generation in which a run had the states of all ranks.
    pub settled: u32,
    /// The world was complete before: its ranks have data that replacements lack.
    pub lived: bool,
    /// Where the rebuild that made this roster put replacements: who joins in its middle goes on
    /// the same way.
    pub placement: Placement,
    /// So many processes of the universe were there before it; the others were spawned for it.
    pub elders: u32,
    /// The process of each rank of the world.
    pub members: Vec<Rank>,
    /// The rank of the launch that each rank of the world stands for.
    pub origins: Vec<u32>,
    /// Parked processes.
    pub spares: Vec<Rank>,
    /// The number of each process of the universe, which it keeps as long as it lives.
    pub processes: Vec<u32>,
    /// Numbers that were given to processes, of which many may have died.
    pub entered: u32,
    /// How communicators were derived below the world, in the order of their paths.
    pub children: Vec<Child>,
}

/// How communicators were derived, so that they can be derived again: one split of the world, or
/// of each of several parts of it.
///
/// Its path says which split it is: `[2]` is the third one of the world or of a communicator with
/// all of its ranks; `[2, 0]` the first one of a part that this has made, of each part that was
/// split. A part's splits are known to its members only, until a rebuild brings together what all
/// survivors know.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Child {
    /// Which one it is.
    pub path: Vec<u32>,
    /// The path of what it was split from; empty for the world.
    pub parent: Vec<u32>,
    /// What each rank of the launch asked for; nothing for a rank that has no part in it, as far as
    /// is known here.
    pub rows: Vec<Option<Row>>,
}

/// A number from here on in a path stands for a shrunken communicator of all living ranks: what
/// follows was derived from that.
pub const SHRUNKEN: u32 = 1 << 31;

/// The part of a path that leads to the communicator of all living ranks from which another one was
/// derived: a shrunken one, or, if it is empty, the world.
pub fn whole_in(path: &[u32]) -> &[u32] {
    let last = path.iter().rposition(|number| *number >= SHRUNKEN);
    &path[..last.map_or(0, |last| last + 1)]
}

/// What a rank asked for in a split.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Row {
    /// With whom, if with any process.
    pub color: Option<u32>,
    /// Its place among them.
    pub key: u32,
    /// It is a part of a grid, which is made once and then found.
    pub of_grid: bool,
}

impl Row {
    const WORDS: usize = 4;

    fn words(&self, origin: usize) -> [u32; Self::WORDS] {
        let kind = u32::from(self.color.is_some()) | u32::from(self.of_grid) << 1;
        [origin as u32, kind, self.color.unwrap_or(0), self.key]
    }

    /// The row, and the rank of the launch that it is of.
    fn read([origin, kind, color, key]: [u32; Self::WORDS]) -> (usize, Self) {
        let color = (kind & 1 == 1).then_some(color);
        (origin as usize, Self { color, key, of_grid: kind & 2 == 2 })
    }
}

impl Child {
    /// What this rank of the launch asked for.
    pub fn row(&self, origin: u32) -> Option<Row> {
        self.rows.get(origin as usize).copied().flatten()
    }

    /// The bytes of a part of it: the rows of these ranks of the launch.
    pub fn encode(&self, origins: impl Iterator<Item = usize>) -> Vec<u8> {
        let row = |origin: usize| Some(self.rows.get(origin)?.as_ref()?.words(origin));
        let rows: Vec<u32> = origins.filter_map(row).flatten().collect();
        let words = [&self.path, &self.parent, &rows]
            .into_iter()
            .flat_map(|list| core::iter::once(list.len() as u32).chain(list.iter().copied()));
        words.flat_map(u32::to_le_bytes).collect()
    }
}

impl Roster {
    /// The roster of a launch of `size` processes, the last `spares` of them parked.
    pub fn launch(size: u32, spares: u32) -> Self {
        let ranks = size - spares;
        Self {
            elders: size,
            members: (0..ranks).map(Rank::new).collect(),
            origins: (0..ranks).collect(),
            spares: (ranks..size).map(Rank::new).collect(),
            processes: (0..size).collect(),
            entered: size,
            ..Self::default()
        }
    }

    /// The identifier of the universe's communicator.
    pub fn universe_id(&self) -> CommId {
        CommId::universe(self.generation)
    }

    /// The identifier of the world of this generation.
    pub fn world_id(&self) -> CommId {
        self.universe_id().derived(0)
    }

    /// The roster after a rebuild, in which these processes of a universe of `size` are dead, and
    /// how many processes have to be spawned for it: spares are used first.
    pub fn rebuilt(
        &self,
        size: u32,
        dead: &RankSet,
        placement: Placement,
        attempts: u32,
    ) -> (Self, u32) {
        let moved = |old: Rank| {
            let before = dead.iter().take_while(|dead| *dead < old).count() as u32;
            Rank::new(old.number() - before)
        };
        let failed = self.members.iter().filter(|member| dead.contains(**member)).count();
        let usable = |spare: &&Rank| !dead.contains(**spare) || planted!(UseADeadSpare);
        let mut spares: Vec<Rank> =
            self.spares.iter().filter(usable).map(|spare| moved(*spare)).collect();
        let parked = spares.split_off(failed.min(spares.len()));
        let spawn = (failed - spares.len()) as u32;
        let living = size - dead.len() as u32;
        let mut fresh = spares.into_iter().chain((living..living + spawn).map(Rank::new));

        let mut places = Vec::new();
        let mut later = Vec::new();
        for (member, origin) in self.members.iter().zip(&self.origins) {
            if !dead.contains(*member) {
                places.push((moved(*member), *origin));
            } else if let Some(fresh) = fresh.next() {
                match placement {
                    Placement::SameRanks if planted!(SwapRanks) => later.push((fresh, *origin)),
                    Placement::SameRanks => places.push((fresh, *origin)),
                    Placement::Append => later.push((fresh, *origin)),
                }
            }
        }
        places.append(&mut later);
        let (members, origins) = places.into_iter().unzip();
        let generation = self.generation + 1;
        let children = self.children.clone();
        let spares = parked;
        let (settled, lived) = (self.settled, self.lived);
        let numbers = self.processes.iter().enumerate();
        let kept = numbers.filter(|(process, _)| !dead.contains(Rank::from(*process)));
        let entered = self.entered + spawn;
        let processes = kept.map(|(_, number)| *number).chain(self.entered..entered).collect();
        let next = Self {
            generation,
            attempts,
            settled,
            lived,
            placement,
            elders: living,
            members,
            origins,
            spares,
            processes,
            entered,
            children,
        };
        (next, spawn)
    }

    /// Goes on with a shrunken communicator in the place of the world: with its members alone, in
    /// their order, and with what was derived from it. Its ranks are the origins from now on.
    pub fn narrow(&mut self, path: &[u32], members: Vec<Rank>) {
        let rank_of = |member: &Rank| self.rank_of(*member).expect("a member of the world");
        let origin = |member: &Rank| self.origins[rank_of(member).index()];
        let origins: Vec<u32> = members.iter().map(origin).collect();
        self.children.retain_mut(|child| {
            let within = child.path.strip_prefix(path).map(<[u32]>::to_vec);
            let parent = child.parent.strip_prefix(path).map(<[u32]>::to_vec);
            let Some((within, parent)) = within.zip(parent) else { return false };
            let rows = origins.iter().map(|origin| child.row(*origin)).collect();
            *child = Child { path: within, parent, rows };
            true
        });
        self.origins = (0..members.len() as u32).collect();
        self.members = members;
        self.forget_shrunken();
    }

    /// Forgets what was derived from shrunken communicators.
    pub fn forget_shrunken(&mut self) {
        self.children.retain(|child| whole_in(&child.path).is_empty());
    }

    /// This roster without so many ranks that are dead, for a spare: it is told how many ranks a
    /// world to come leaves out, and needs no more to know how many processes are lacking.
    #[must_use]
    pub fn without(&self, dead: &RankSet, left_out: u32) -> Self {
        let failed = self.members.iter().filter(|member| dead.contains(**member));
        let gone: RankSet = failed.take(left_out as usize).copied().collect();
        let places = self.members.iter().zip(&self.origins);
        let kept = places.filter(|(member, _)| !gone.contains(**member));
        let (members, origins) = kept.unzip();
        Self { members, origins, ..self.clone() }
    }

    /// True when only processes that were spawned for this universe are left. They cannot know
    /// whether it was given up for another one before those who spawned them died.
    pub fn is_orphaned(&self, dead: &RankSet) -> bool {
        let mut elders = (0..self.elders).map(Rank::new);
        !planted!(OutliveTheElders) && elders.all(|elder| dead.contains(elder))
    }

    /// The rank of the world that this process holds.
    pub fn rank_of(&self, process: Rank) -> Option<Rank> {
        self.members.iter().position(|member| *member == process).map(Rank::from)
    }

    /// The rank that stands for a rank of the launch.
    ///
    /// # Panics
    ///
    /// When the launch had no such rank.
    pub fn standing_for(&self, origin: u32) -> Rank {
        let at = self.origins.iter().position(|known| *known == origin);
        Rank::from(at.expect("every rank of the launch has somebody standing for it"))
    }

    /// Where the split with this path stands among the children.
    pub fn position(&self, path: &[u32]) -> Result<usize, usize> {
        self.children.binary_search_by(|child| child.path.as_slice().cmp(path))
    }

    /// The ranks of the world in the part of this path that `rank` is in, in their order; none if
    /// it is in none. An empty path is the world.
    pub fn part(&self, path: &[u32], rank: Rank) -> Vec<Rank> {
        if path.is_empty() {
            return (0..self.members.len()).map(Rank::from).collect();
        }
        let Ok(at) = self.position(path) else { return Vec::new() };
        let row = |rank: Rank| self.children[at].row(self.origins[rank.index()]);
        let Some(color) = row(rank).and_then(|row| row.color) else { return Vec::new() };
        let mut part = self.part(&self.children[at].parent, rank);
        part.retain(|rank| row(*rank).is_some_and(|row| row.color == Some(color)));
        part.sort_by_key(|rank| row(*rank).map(|row| row.key));
        part
    }

    /// Notes what some ranks of the launch asked for in a split.
    pub fn remember(
        &mut self,
        path: &[u32],
        parent: &[u32],
        rows: impl IntoIterator<Item = (usize, Row)>,
    ) {
        let at = self.position(path).unwrap_or_else(|at| {
            let rows = alloc::vec![None; self.origins.len()];
            self.children.insert(at, Child { path: path.to_vec(), parent: parent.to_vec(), rows });
            at
        });
        let known = &mut self.children[at].rows;
        for (origin, row) in rows {
            if let Some(place) = known.get_mut(origin) {
                *place = Some(row);
            }
        }
    }

    /// The bytes that replacements receive. Those of children, as their members know them, may
    /// follow.
    pub fn encode(&self) -> Vec<u8> {
        let append = u32::from(self.placement == Placement::Append);
        let lived = u32::from(self.lived);
        let mut words = alloc::vec![self.generation, self.attempts, self.settled, lived, append];
        words.extend([self.elders, self.entered]);
        let mut list = |items: &[u32]| {
            words.push(items.len() as u32);
            words.extend_from_slice(items);
        };
        list(&self.members.iter().map(|rank| rank.number()).collect::<Vec<_>>());
        list(&self.origins);
        list(&self.spares.iter().map(|rank| rank.number()).collect::<Vec<_>>());
        list(&self.processes);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for child in &self.children {
            bytes.extend(child.encode(0..child.rows.len()));
        }
        bytes
    }

    /// The roster in these bytes, if they are one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<4>();
        let mut words = chunks.iter().map(|word| u32::from_le_bytes(*word));
        if !rest.is_empty() {
            return None;
        }
        let (generation, attempts, settled) = (words.next()?, words.next()?, words.next()?);
        let lived = words.next()? != 0;
        let append = words.next()? != 0;
        let (elders, entered) = (words.next()?, words.next()?);
        let placement = if append { Placement::Append } else { Placement::SameRanks };
        let mut list = || -> Option<Vec<u32>> {
            let length = words.next()? as usize;
            let items: Vec<u32> = words.by_ref().take(length).collect();
            (items.len() == length).then_some(items)
        };
        let members: Vec<Rank> = list()?.into_iter().map(Rank::new).collect();
        let origins = list()?;
        let spares = list()?.into_iter().map(Rank::new).collect();
        let processes = list()?;
        let mut roster = Self {
            generation,
            attempts,
            settled,
            lived,
            placement,
            elders,
            members,
            origins,
            spares,
            processes,
            entered,
            children: Vec::new(),
        };
        while let Some(path) = list() {
            let (parent, rows) = (list()?, list()?);
            let (rows, []) = rows.as_chunks() else { return None };
            roster.remember(&path, &parent, rows.iter().map(|row| Row::read(*row)));
        }
        Some(roster)
    }
}

/// Colours and keys of a split so that it can be repeated, whatever the order of its ranks is then:
/// no two ranks of one colour have one key.
pub fn lasting(table: &[(Option<u32>, u32)]) -> Vec<(Option<u32>, u32)> {
    let mut ranks: Vec<usize> = (0..table.len()).collect();
    ranks.sort_by_key(|rank| table[*rank]);
    let mut lasting = alloc::vec![(None, 0); table.len()];
    let (mut before, mut place) = (None, 0);
    for rank in ranks {
        let color = table[rank].0;
        place = if before == Some(color) { place + 1 } else { 0 };
        before = Some(color);
        lasting[rank] = (color, place);
    }
    lasting
}

#[cfg(test)]
mod tests;
