//! Every operation of all ranks, or of neighbours, posted with drawn numbers, and what must come
//! out of it, said without the operation: all ranks' numbers can be had anywhere, from the same
//! drawing.

use fampi::{
    Edges, Error, Exchange, Neighbours, Rank, ReduceOp, Request, TryBlock, UserOp, sim::Draw,
};

/// The operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Scan,
    Exscan,
    ReduceScatterBlock,
    ReduceScatter,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
}

pub const KINDS: [Kind; 20] = [
    Kind::Barrier,
    Kind::Bcast,
    Kind::Reduce,
    Kind::Allreduce,
    Kind::Scan,
    Kind::Exscan,
    Kind::ReduceScatterBlock,
    Kind::ReduceScatter,
    Kind::Gather,
    Kind::Gatherv,
    Kind::Scatter,
    Kind::Scatterv,
    Kind::Allgather,
    Kind::Allgatherv,
    Kind::Alltoall,
    Kind::Alltoallv,
    Kind::NeighborAllgather,
    Kind::NeighborAllgatherv,
    Kind::NeighborAlltoall,
    Kind::NeighborAlltoallv,
];

/// What the reductions combine with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum With {
    Sum,
    Max,
    Xor,
    Then,
}

/// The bits that differ; the order of ranks does not matter.
struct Xor;

impl UserOp for Xor {
    type Element = u64;
    const COMMUTES: bool = true;

    fn combine(left: &[u64], right: &mut [u64]) {
        left.iter().zip(right).for_each(|(left, right)| *right ^= *left);
    }
}

/// Two linear functions of one number, one after the other; the order of ranks matters.
struct Then;

impl UserOp for Then {
    type Element = u64;
    const COMMUTES: bool = false;

    fn combine(left: &[u64], right: &mut [u64]) {
        left.iter().zip(right).for_each(|(left, right)| *right = then(*left, *right));
    }
}

/// A function x ↦ a·x + b has a in the high half of its number and b in the low one.
fn then(first: u64, second: u64) -> u64 {
    let [a, b, c, d] = [first >> 32, first, second >> 32, second].map(|half| half as u32);
    let (slope, shift) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
    u64::from(slope) << 32 | u64::from(shift)
}

/// What all ranks know of one call of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub kind: Kind,
    pub size: usize,
    pub root: usize,
    /// A bit for each rank that the operation leaves out, which is not the root.
    pub left_out: u64,
    pub seed: u64,
    /// Elements beyond this many are drawn no more.
    pub longest: u64,
}

fn mix(number: u64) -> u64 {
    Draw(number).word()
}

impl Call {
    fn draw(&self, what: &[usize]) -> u64 {
        what.iter().fold(mix(self.seed ^ self.kind as u64), |all, it| mix(all ^ *it as u64))
    }

    /// Length where all parts are equal.
    fn even(&self) -> usize {
        (self.draw(&[]) % (self.longest + 1)) as usize
    }

    /// How far the neighbours are to whom a rank sends; some may be there twice. The next rank is
    /// always one.
    fn steps(&self) -> Vec<usize> {
        let more = (0..self.draw(&[4]) % 3).map(|k| self.draw(&[5, k as usize]) as usize % 4);
        [1].into_iter().chain(more).collect()
    }

    /// From whom a rank gets something, in the order of steps.
    fn sources(&self, me: usize) -> Vec<usize> {
        let steps = self.steps().into_iter();
        steps.map(|step| (me + self.size - step % self.size) % self.size).collect()
    }

    /// What a rank sends to its neighbours.
    fn sent(&self, me: usize) -> Vec<u64> {
        let parts = if self.gives_all_the_same() { 1 } else { self.steps().len() };
        (0..parts).flat_map(|step| self.part(me, step)).collect()
    }

    /// What its neighbours send to a rank.
    fn received(&self, me: usize) -> Vec<u64> {
        let sources = self.sources(me).into_iter().enumerate();
        sources.flat_map(|(step, from)| self.part(from, step)).collect()
    }

    /// Length of what one rank has for another, or for the neighbour behind a step.
    fn count(&self, from: usize, to: usize) -> usize {
        match self.kind {
            Kind::Alltoallv | Kind::NeighborAlltoallv => {
                (self.draw(&[1, from, to]) % (self.longest + 1)) as usize
            }
            Kind::Gatherv | Kind::Allgatherv | Kind::NeighborAllgatherv => {
                (self.draw(&[1, from]) % (self.longest + 1)) as usize
            }
            Kind::Scatterv | Kind::ReduceScatter => {
                (self.draw(&[1, to]) % (self.longest + 1)) as usize
            }
            Kind::Barrier => 0,
            _ => self.even(),
        }
    }

    /// What one rank has for another.
    fn part(&self, from: usize, to: usize) -> Vec<u64> {
        let one = match self.kind {
            Kind::Gather | Kind::Gatherv | Kind::Bcast => 0,
            _ if self.gives_all_the_same() => 0,
            _ => to,
        };
        let part = self.draw(&[2, from, one]);
        (0..self.count(from, to)).map(|k| mix(part ^ k as u64)).collect()
    }

    /// What one rank has for all, part by part.
    fn parts_of(&self, from: usize) -> Vec<u64> {
        (0..self.size).flat_map(|to| self.part(from, to)).collect()
    }

    /// What all have for one rank, part by part; in the place of who is left out what stands there.
    fn parts_for(&self, to: usize) -> Vec<u64> {
        let part = |from| match self.kind {
            _ if self.has(from) => self.part(from, to),
            Kind::Alltoall => self.part(to, from),
            _ => vec![7; self.count(from, to)],
        };
        (0..self.size).flat_map(part).collect()
    }

    /// True for a rank that takes part.
    fn has(&self, rank: usize) -> bool {
        self.left_out >> rank & 1 == 0
    }

    fn with(&self) -> With {
        [With::Sum, With::Max, With::Xor, With::Then][(self.draw(&[3]) % 4) as usize]
    }

    /// The buffers of some ranks, combined in their order.
    fn combined(&self, ranks: std::ops::Range<usize>, of: impl Fn(usize) -> Vec<u64>) -> Vec<u64> {
        let combine = |left: u64, right: u64| match self.with() {
            With::Sum => left.wrapping_add(right),
            With::Max => left.max(right),
            With::Xor => left ^ right,
            With::Then => then(left, right),
        };
        let step = |left: Vec<u64>, right: Vec<u64>| {
            left.into_iter().zip(right).map(|(left, right)| combine(left, right)).collect()
        };
        ranks.filter(|rank| self.has(*rank)).map(of).reduce(step).expect("not empty")
    }

    /// A buffer with room for parts of these lengths, and this rank's own at its place.
    fn room(&self, me: usize, to: usize) -> Vec<u64> {
        let part =
            |from| if from == me { self.part(me, to) } else { vec![7; self.count(from, to)] };
        (0..self.size).flat_map(part).collect()
    }

    /// The buffer before the operation.
    pub fn before(&self, me: usize) -> Vec<u64> {
        let is_root = me == self.root;
        match self.kind {
            Kind::Barrier => Vec::new(),
            Kind::Bcast if !is_root => vec![7; self.even()],
            Kind::Bcast | Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan => {
                self.part(me, 0)
            }
            Kind::Gather | Kind::Gatherv if !is_root => self.part(me, self.root),
            Kind::Gather | Kind::Gatherv | Kind::Allgather | Kind::Allgatherv => self.room(me, me),
            Kind::Scatter | Kind::Scatterv if !is_root => vec![7; self.count(self.root, me)],
            Kind::Alltoallv => {
                let room = (0..self.size).map(|from| self.count(from, me)).sum();
                [self.parts_of(me), vec![7; room]].concat()
            }
            _ if self.is_among_neighbours() => {
                [self.sent(me), vec![7; self.received(me).len()]].concat()
            }
            _ => self.parts_of(me),
        }
    }

    /// The beginning of the buffer after the operation, as far as it is specified.
    pub fn after(&self, me: usize) -> Vec<u64> {
        let is_root = me == self.root;
        let own = |rank: usize| self.part(rank, 0);
        match self.kind {
            Kind::Bcast => self.part(self.root, 0),
            Kind::Reduce if is_root => self.combined(0..self.size, own),
            Kind::Allreduce => self.combined(0..self.size, own),
            Kind::Scan => self.combined(0..me + 1, own),
            Kind::Exscan if (0..me).any(|rank| self.has(rank)) => self.combined(0..me, own),
            Kind::ReduceScatterBlock | Kind::ReduceScatter => {
                self.combined(0..self.size, |rank| self.part(rank, me))
            }
            Kind::Gather | Kind::Gatherv if is_root => self.parts_for(me),
            Kind::Allgather | Kind::Allgatherv | Kind::Alltoall => self.parts_for(me),
            Kind::Scatter | Kind::Scatterv if !is_root => self.part(self.root, me),
            Kind::Alltoallv => [self.parts_of(me), self.parts_for(me)].concat(),
            _ if self.is_among_neighbours() => [self.sent(me), self.received(me)].concat(),
            _ => self.before(me),
        }
    }

    fn gives_all_the_same(&self) -> bool {
        let of_all = matches!(self.kind, Kind::Allgather | Kind::Allgatherv);
        of_all || matches!(self.kind, Kind::NeighborAllgather | Kind::NeighborAllgatherv)
    }

    fn is_among_neighbours(&self) -> bool {
        matches!(
            self.kind,
            Kind::NeighborAllgather
                | Kind::NeighborAllgatherv
                | Kind::NeighborAlltoall
                | Kind::NeighborAlltoallv
        )
    }

    fn post_among_neighbours(
        &self,
        block: &mut TryBlock,
        me: usize,
    ) -> Result<Request<u64>, Error> {
        let sources: Vec<usize> = self.sources(me);
        let destinations = self.steps().into_iter().map(|step| Rank::from((me + step) % self.size));
        let neighbours = Neighbours::new(Edges {
            sources: &sources.iter().copied().map(Rank::from).collect::<Vec<_>>(),
            destinations: &destinations.collect::<Vec<_>>(),
        });
        let counts = |from: &dyn Fn(usize) -> usize| -> Vec<usize> {
            (0..sources.len()).map(|step| self.count(from(step), step)).collect()
        };
        let (sent, received) = (counts(&|_| me), counts(&|step| sources[step]));
        let buffer = self.before(me);
        match self.kind {
            Kind::NeighborAllgather => block.ineighbor_allgather(buffer, &neighbours),
            Kind::NeighborAllgatherv => block.ineighbor_allgatherv(buffer, &received, &neighbours),
            Kind::NeighborAlltoall => block.ineighbor_alltoall(buffer, &neighbours),
            _ => {
                let counts = Exchange { sent: &sent, received: &received };
                block.ineighbor_alltoallv(buffer, counts, &neighbours)
            }
        }
    }

    /// Posts the operation.
    pub fn post(&self, block: &mut TryBlock, me: usize) -> Result<Request<u64>, Error> {
        let (buffer, root) = (self.before(me), Rank::new(self.root as u32));
        let to_me: Vec<usize> = (0..self.size).map(|from| self.count(from, me)).collect();
        let from_me: Vec<usize> = (0..self.size).map(|to| self.count(me, to)).collect();
        match self.kind {
            Kind::Barrier => {
                block.ibarrier();
                block.ibcast(Vec::new(), root)
            }
            Kind::Bcast => block.ibcast(buffer, root),
            Kind::Gather => block.igather(buffer, root),
            Kind::Gatherv if me != self.root => block.igatherv(buffer, &[], root),
            Kind::Gatherv => block.igatherv(buffer, &to_me, root),
            Kind::Scatter => block.iscatter(buffer, root),
            Kind::Scatterv if me != self.root => block.iscatterv(buffer, &[], root),
            Kind::Scatterv => block.iscatterv(buffer, &from_me, root),
            Kind::Allgather => block.iallgather(buffer),
            Kind::Allgatherv => block.iallgatherv(buffer, &to_me),
            Kind::Alltoall => block.ialltoall(buffer),
            Kind::Alltoallv => {
                block.ialltoallv(buffer, Exchange { sent: &from_me, received: &to_me })
            }
            _ if self.is_among_neighbours() => self.post_among_neighbours(block, me),
            _ => match self.with() {
                With::Sum => self.reduce(block, buffer, &from_me, ReduceOp::Sum),
                With::Max => self.reduce(block, buffer, &from_me, ReduceOp::Max),
                With::Xor => self.reduce(block, buffer, &from_me, Xor),
                With::Then => self.reduce(block, buffer, &from_me, Then),
            },
        }
    }

    fn reduce(
        &self,
        block: &mut TryBlock,
        buffer: Vec<u64>,
        counts: &[usize],
        op: impl fampi::ReduceWith<u64>,
    ) -> Result<Request<u64>, Error> {
        match self.kind {
            Kind::Reduce => block.ireduce(buffer, op, Rank::new(self.root as u32)),
            Kind::Allreduce => block.iallreduce(buffer, op),
            Kind::Scan => block.iscan(buffer, op),
            Kind::Exscan => block.iexscan(buffer, op),
            Kind::ReduceScatterBlock => block.ireduce_scatter_block(buffer, op),
            Kind::ReduceScatter => block.ireduce_scatter(buffer, counts, op),
            other => unreachable!("{other:?} combines nothing"),
        }
    }

    /// What is wrong with a buffer after the operation.
    pub fn verify(&self, me: usize, found: &[u64]) -> Result<(), String> {
        let (before, after) = (self.before(me), self.after(me));
        if found.len() == before.len() && found[..after.len()] == after {
            return Ok(());
        }
        Err(format!("{self:?} on rank {me}: {found:x?} instead of {after:x?}"))
    }
}

/// All operations at once in a block, with one root and one seed.
pub fn post_all(
    block: &mut TryBlock,
    (me, size): (usize, usize),
    root: usize,
    seed: u64,
    longest: u64,
) -> Result<Vec<(Call, Request<u64>)>, Error> {
    let mut posted = Vec::new();
    for kind in KINDS {
        let call = Call { kind, size, root, left_out: 0, seed, longest };
        posted.push((call, call.post(block, me)?));
    }
    Ok(posted)
}
