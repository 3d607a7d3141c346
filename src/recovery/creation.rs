//! Communicators derived from a communicator: split, duplicate, shrink.

use alloc::vec::Vec;

use super::{DISTURBED, MAX_ATTEMPTS, course::Course};
use crate::{
    engine::{BlockKey, CommKey, Engine, making::Making},
    error::Error,
    protocol::{
        handshake::{Goal, Handshake, Order},
        roster::{Child, Row, lasting, whole_in},
    },
    rank::{Rank, RankSet},
    seam::{
        entry::Entry,
        platform::{Derived, Made, Place, Request, Unneeded},
    },
};

/// A communicator in the making.
pub(crate) struct Creation {
    parent: CommKey,
    kind: Kind,
    course: Course,
    made: Option<Derived>,
    /// Whom a shrink leaves out: the dead that all knew of when they made it, not those of whom a
    /// block has told this rank since.
    left_out: RankSet,
    /// A block has committed it: if it fails now, a rebuild makes it.
    due: bool,
}

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `MPI_Comm_split`; a duplicate is one colour with the ranks as keys. What is a part of a
    /// grid can be found afterwards.
    Split { color: Option<u32>, key: u32, of_grid: bool },
    /// The living ranks (`MPI_Comm_ishrink`, paper §3.3).
    Shrink,
}

impl Kind {
    /// The name of this work in a trace.
    fn name(self) -> &'static str {
        match self {
            Self::Split { .. } => "split",
            Self::Shrink => "shrink",
        }
    }
}

impl Creation {
    /// Starts to make a communicator; all living ranks of the parent do so, in the same order.
    pub(crate) fn start(engine: &mut Engine, parent: CommKey, kind: Kind) -> Result<Self, Error> {
        if engine.job.creating {
            return Err(Error::CreationPending);
        }
        engine.job.creating = true;
        let goal = match kind {
            Kind::Split { .. } => Goal::Split,
            Kind::Shrink => Goal::Shrink,
        };
        engine.tell(&Entry::Begun { work: kind.name() });
        let mut orders = Vec::new();
        let handshake = Handshake::start(goal, MAX_ATTEMPTS, &mut orders);
        let mut creation = Self::new(parent, kind, Course::new(handshake, orders));
        creation.obey(engine);
        Ok(creation)
    }

    /// Starts to make a duplicate that a block of `parent` has committed, on all its ranks.
    pub(crate) fn of_block(engine: &mut Engine, parent: CommKey) -> Result<Self, Error> {
        if engine.job.creating {
            return Err(Error::CreationPending);
        }
        engine.job.creating = true;
        let key = engine.comm(parent).me.number();
        let kind = Kind::Split { color: Some(0), key, of_grid: false };
        engine.tell(&Entry::Begun { work: kind.name() });
        // A block that all have committed says the same as a first vote.
        let course = Course::new(Handshake::agreed(), Vec::new());
        Ok(Self { due: true, ..Self::new(parent, kind, course) })
    }

    fn new(parent: CommKey, kind: Kind, course: Course) -> Self {
        let (made, left_out, due) = (None, RankSet::new(), false);
        Self { parent, kind, course, made, left_out, due }
    }

    /// Takes steps up to one that has to wait.
    fn step(&mut self, engine: &mut Engine) -> Option<Result<Option<CommKey>, Error>> {
        loop {
            let place = engine.comm(self.parent).data.map(Place::Data);
            let committed = self.course.verdict(engine, place)?;
            self.course.handle_verdict(committed, 0);
            if let Some(result) = self.obey(engine) {
                return Some(result);
            }
        }
    }

    /// Does what the handshake asks for, and what it asks for then.
    fn obey(&mut self, engine: &mut Engine) -> Option<Result<Option<CommKey>, Error>> {
        while let Some(order) = self.course.order() {
            match order {
                Order::Vote(yes) => self.course.vote(engine, self.parent, yes),
                Order::Call | Order::CallFor(_) => {
                    self.made = self.make(engine);
                    self.course.handle_return(self.made.is_some());
                }
                Order::Discard => discard(engine, self.made.take()),
                Order::Adopt | Order::Complete => {
                    let made = self.made.take().expect("complete where the call worked");
                    return Some(Ok(self.register(engine, &made)));
                }
                Order::Fail => {
                    if self.due {
                        self.leave_to_rebuild(engine);
                    }
                    if let Some(departure) = self.course.departure() {
                        return Some(Err(departure));
                    }
                    return Some(Err(match self.kind {
                        Kind::Split { .. } => Error::CreationFailed,
                        Kind::Shrink => {
                            let why = DISTURBED.into();
                            Error::RecoveryExhausted { attempts: MAX_ATTEMPTS, why }
                        }
                    }));
                }
            }
        }
        None
    }

    /// What a block has committed exists with the next rebuild, as if it had been made.
    fn leave_to_rebuild(&self, engine: &mut Engine) {
        let size = engine.comm(self.parent).size();
        let table = (0..size).map(|rank| (Some(0), rank)).collect();
        engine.register_child(self.parent, &Derived { data: None, table }, false);
    }

    fn make(&mut self, engine: &mut Engine) -> Option<Derived> {
        let comm = engine.comm(self.parent);
        let (data, dead) = (comm.data?, self.course.dead().clone());
        match self.kind {
            Kind::Split { color, key, .. } => {
                // All ranks come here after the commit of a block, whoever died since.
                let healthy = self.due || dead.is_empty();
                let request = Request::Split { parent: data, color, key };
                healthy.then(|| engine.platform.make(request).ok()).flatten().map(Made::comm)
            }
            Kind::Shrink => {
                let request = Request::Shrink { parent: data, dead: dead.clone() };
                let made = engine.platform.make(request).ok()?;
                self.left_out = dead;
                Some(made.comm())
            }
        }
    }

    fn register(&self, engine: &mut Engine, made: &Derived) -> Option<CommKey> {
        match self.kind {
            Kind::Split { of_grid, .. } => engine.register_child(self.parent, made, of_grid),
            Kind::Shrink => {
                let comm = engine.comm_mut(self.parent);
                let (id, number) = (comm.id.derived(comm.derived), comm.derived);
                comm.derived += 1;
                let living = |rank: &u32| !self.left_out.contains((*rank).into());
                let ranks: Vec<u32> = (0..comm.size()).filter(living).collect();
                let me = ranks.iter().position(|rank| *rank == comm.me.number())?;
                let members = ranks.iter().map(|rank| comm.members[*rank as usize]).collect();
                let universe = comm.universe;
                let lineage = engine.lineage_of_shrunken(self.parent, number);
                let key = engine.register(id, universe, members, me.into(), made.data);
                engine.comm_mut(key).lineage = lineage;
                Some(key)
            }
        }
    }
}

impl Making for Creation {
    fn advance(&mut self, engine: &mut Engine) -> Option<Result<Option<CommKey>, Error>> {
        let result = self.step(engine)?;
        engine.job.creating = false;
        engine.tell(&Entry::Done { work: self.kind.name() });
        Some(result)
    }

    fn awaits(&self) -> Option<BlockKey> {
        self.course.awaits()
    }
}

fn discard(engine: &mut Engine, made: Option<Derived>) {
    if let Some(data) = made.and_then(|made| made.data) {
        engine.platform.discard(Unneeded::Data(data));
    }
}

impl Engine {
    /// Registers what a split has made, and remembers how, so that a rebuild can repeat it.
    pub(super) fn register_child(
        &mut self,
        parent: CommKey,
        made: &Derived,
        of_grid: bool,
    ) -> Option<CommKey> {
        let comm = self.comm_mut(parent);
        let id = comm.id.derived(comm.derived);
        comm.derived += 1;
        let lineage = comm.lineage.clone();
        let key = made.data.map(|data| {
            let comm = self.comm(parent);
            let mine = made.table[comm.me.index()].0;
            let mut ranks: Vec<usize> =
                (0..made.table.len()).filter(|rank| made.table[*rank].0 == mine).collect();
            let id = id.part(ranks[0] as u32);
            ranks.sort_by_key(|rank| made.table[*rank].1);
            let me = ranks.iter().position(|rank| *rank == comm.me.index());
            let members = ranks.iter().map(|rank| comm.members[*rank]).collect();
            let universe = comm.universe;
            let me = me.expect("we are among the ranks of our own colour");
            let key = self.register(id, universe, members, me.into(), Some(data));
            self.comm_mut(key).parent = Some(parent);
            key
        });
        if let Some(lineage) = lineage {
            let path = self.next_path(parent, &lineage);
            let table = lasting(&made.table).into_iter().enumerate();
            let row = |(rank, (color, key))| {
                (self.origin_in(parent, Rank::from(rank)), Row { color, key, of_grid })
            };
            let rows: Vec<(usize, Row)> = table.map(row).collect();
            self.job.roster.remember(&path, &lineage, rows);
            self.job.children.push((path.clone(), key));
            if let Some(key) = key {
                self.comm_mut(key).lineage = Some(path);
            }
        }
        key
    }

    /// The path of the child that was derived last. All ranks of the world know how many were
    /// derived from those communicators that have all of them, and all of a part how many from it.
    /// Of those of a shrunken one some may have been dropped.
    fn next_path(&self, parent: CommKey, lineage: &[u32]) -> Vec<u32> {
        let comm = self.comm(parent);
        let in_world = whole_in(lineage).is_empty();
        let whole = in_world && comm.members.len() == self.job.roster.members.len();
        let above = if whole { &[] } else { lineage };
        let last = |(path, _): &(Vec<u32>, _)| {
            let is_known = path.len() == above.len() + 1 && path.starts_with(above);
            is_known.then(|| path[above.len()] + 1)
        };
        let next = self.job.children.iter().filter_map(last).max().unwrap_or(0);
        let number = if in_world { next } else { comm.derived - 1 };
        above.iter().copied().chain([number]).collect()
    }

    /// The rank of the launch that a rank of a communicator of this world stands for.
    fn origin_in(&self, comm: CommKey, rank: Rank) -> usize {
        let process = self.comm(comm).members[rank.index()];
        let rank = self.job.roster.rank_of(process).expect("it is derived from the world");
        self.job.roster.origins[rank.index()] as usize
    }

    /// The communicator with this path, if we are a member of it.
    pub(super) fn child_at(&self, path: &[u32]) -> Option<CommKey> {
        self.job.children.iter().find(|(known, _)| known == path)?.1
    }

    /// The path of a communicator that is made again with this world.
    fn path_in_world(&self, comm: CommKey) -> Option<&Vec<u32>> {
        let comm = self.comm(comm);
        comm.lineage.as_ref().filter(|path| !comm.retired && whole_in(path).is_empty())
    }

    /// What was derived from a communicator of this world, in order.
    pub(crate) fn derived_from(&self, parent: CommKey) -> Vec<Option<CommKey>> {
        let Some(lineage) = self.path_in_world(parent) else { return Vec::new() };
        let children = self.job.roster.children.iter().filter(|child| child.parent == *lineage);
        let known = |child: &Child| self.job.children.iter().find(|(path, _)| *path == child.path);
        children.filter_map(|child| Some(known(child)?.1)).collect()
    }

    /// The part of a grid that was split from a communicator of this world in this way, if there is
    /// one: colour and key for each place.
    pub(crate) fn find_part(
        &self,
        parent: CommKey,
        table: &[(Option<u32>, u32)],
    ) -> Option<CommKey> {
        let lineage = self.path_in_world(parent)?;
        let places = self.places(parent);
        let same = |child: &&Child| {
            let asked = places.iter().zip(table).map(|(rank, (color, key))| {
                let row = Row { color: *color, key: *key, of_grid: true };
                child.rows.get(self.origin_in(parent, *rank)) == Some(&Some(row))
            });
            child.parent == *lineage && asked.into_iter().all(|it| it)
        };
        self.child_at(&self.job.roster.children.iter().find(same)?.path)
    }

    /// What this process tells the others of splits of parts, in the rebuild without these dead:
    /// the lowest living member of each part speaks for it.
    pub(super) fn split_history(&self, me: Rank, dead: &RankSet) -> Vec<u8> {
        let mut history = Vec::new();
        for (path, _) in &self.job.children {
            let above = &path[..path.len() - 1];
            let Some(part) = self.child_at(above).filter(|_| !above.is_empty()) else { continue };
            let members = &self.comm(part).members;
            let speaker = members.iter().filter(|member| !dead.contains(**member)).min();
            if speaker == Some(&me)
                && let Ok(at) = self.job.roster.position(path)
            {
                let ranks = (0..members.len()).map(|rank| self.origin_in(part, Rank::from(rank)));
                history.extend(self.job.roster.children[at].encode(ranks));
            }
        }
        history
    }

    /// The rank at each place of a communicator: for the world, the one that stands for that rank
    /// of the launch.
    pub(crate) fn places(&self, comm: CommKey) -> Vec<Rank> {
        let state = self.comm(comm);
        let mut places: Vec<Rank> = (0..state.size()).map(Rank::new).collect();
        if state.is_world() && !state.retired {
            let origins = &self.job.roster.origins;
            places.sort_unstable_by_key(|rank| origins[rank.index()]);
        }
        places
    }
}
